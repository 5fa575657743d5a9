"""The command line: parse, call, print. Whatever is heavy is imported inside the command that needs it."""

from __future__ import annotations

import gc
import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sonde.base.errors import UsageError, set_log_folder
from sonde.base.process import SAFE_PATH_ENV
from sonde.base.terminal import print_lines, print_note, reopen_closed_streams
from sonde.cli.corpus import corpus_app
from sonde.cli.finished_runs import cache_app, card, compare, list_names, merge, predict, verify
from sonde.cli.options import DeclaredCommand, with_lens_flags, with_run_options
from sonde.cli.output import CommandOutput, run_command, with_output
from sonde.cli.show import show
from sonde.version import __version__

app = typer.Typer(
    name="sonde",
    help="What does a language model of code know, where does it keep it, and how sure can we be?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


app.add_typer(corpus_app, name="corpus")


app.add_typer(cache_app, name="cache")


for command in (predict, show, verify, merge, compare):
    app.command()(command)


@app.command(cls=DeclaredCommand)
@with_output("output")
@with_lens_flags
@with_run_options(
    *("models", "lenses", "tasks", "corpora", "languages", "unit", "limit", "per_cluster", "cut_off"),
    *("transform", "context", "stride", "bos", "mode", "quirks", "adapter", "quantise", "lock", "output"),
    *("executor", "address", "shard", "workers", "device", "device_map", "dtype", "batch_tokens", "budget"),
    *("seed", "options", "include_seen", "trust_remote_code"),
)
def run(
    file: Annotated[
        Path | None,
        typer.Option(
            "-f", "--file", help="An experiment file (TOML), or one by name: `sonde list experiments`."
        ),
    ] = None,
    *,
    figures: Annotated[
        bool, typer.Option("--figures", help="Write every chart as SVG, PDF and PNG too.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Leave the page out.")] = False,
    features: Annotated[
        bool, typer.Option("--features", help="Write the states of probed tasks as safetensors, too.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what the run costs and can show, and do not run it.")
    ] = False,
    no_trial: Annotated[
        bool, typer.Option("--no-trial", help="With --plan: load no model, so that time is not known.")
    ] = False,
    **arguments: Any,
) -> CommandOutput:
    """Measure models on code; without arguments, the demo. Goes on where an earlier call stood."""
    from dataclasses import replace

    from sonde.api.hidden_states import check_states_available, write_all_features
    from sonde.base.progress_display import make_progress
    from sonde.cli.progress import outcome_data, print_outcome, print_shard, shard_data
    from sonde.experiments.arguments import from_arguments
    from sonde.experiments.run import run as carry_out
    from sonde.report import save_figures, write_report
    from sonde.store.remote import sync_folder

    experiment, execution = from_arguments(file=file, **arguments)
    if features:
        check_states_available(experiment)
    teller = make_progress()
    if plan:
        from sonde.cli.plan import build_plan_output

        return build_plan_output(experiment, execution, trial=not no_trial, progress=teller)
    if no_trial:
        raise UsageError("--no-trial leaves the trial out of a plan; give --plan as well")
    with sync_folder(execution.output, teller.note) as folder:
        set_log_folder(folder)
        outcome = carry_out(experiment, replace(execution, output=folder), teller)
        if execution.shard:
            return CommandOutput(shard_data(outcome), lambda: print_shard(outcome, execution.shard))
        page = None
        if not no_report:
            with teller.stage("reporting", 1) as advance:
                page = write_report(folder, teller.note)
                advance()
        if figures:
            with teller.stage("drawing figures", 1) as advance:
                save_figures(folder, note=teller.note)
                advance()
        if features:
            outcome.files += write_all_features(folder, teller)
    return CommandOutput(outcome_data(outcome, page), lambda: print_outcome(outcome, page))


@app.command()
@with_output("directory")
def report(
    directory: Annotated[Path, typer.Argument(help="Folder of a run.")],
    plot: Annotated[
        list[str] | None, typer.Option("--plot", help="Add a section of your own (FILE.py).")
    ] = None,
) -> CommandOutput:
    """Build the page of a finished run again."""
    from sonde.report import PLOTS, write_report
    from sonde.store.remote import sync_folder

    for name in plot or ():
        PLOTS.hand_in(name)
    with sync_folder(directory, print_note, outputs=["report.html"]) as folder:
        page = write_report(folder)
    return CommandOutput({"page": page}, lambda: print_lines(page))


app.command()(card)


@app.command("figures")
@with_output("directory")
def write_figures(
    directory: Annotated[Path, typer.Argument(help="Folder of a run.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Sections or charts; by default all.")
    ] = None,
) -> CommandOutput:
    """Write charts as SVG, PDF and PNG and tables as CSV and LaTeX into the folder figures/ of a run."""
    from sonde.report import save_figures
    from sonde.store.remote import sync_folder

    with sync_folder(directory, print_note, outputs=["figures/*"]) as folder:
        files = save_figures(folder, names or ())
    return CommandOutput({"files": files}, lambda: print_lines(*files))


@app.command(cls=DeclaredCommand)
@with_output()
@with_run_options("languages", "unit", "limit", "seed", "mode", "quirks", "executor", "address")
def label(
    task: Annotated[list[str], typer.Argument(help="See `sonde list tasks`; a corpus is read once for all.")],
    corpus: Annotated[list[str], typer.Option("-c", "--corpus", help="A corpus by name.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file; {task} stands for the task.")],
    *,
    raw: Annotated[
        bool, typer.Option("--raw", help="Every item in its order, nothing balanced or left out.")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", help="sonde (JSON lines), or that of a published data set.")
    ] = "sonde",
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Processes at a time, by default one a core; same labels."),
    ] = None,
    **arguments: Any,
) -> CommandOutput:
    """Label a corpus; needs no model."""
    from sonde.base.progress_display import make_progress
    from sonde.executors import count_cores
    from sonde.experiments.label_files import LabelOptions, write_label_files

    flags = {"corpora": corpus, "raw": raw, "format": form, "workers": workers or count_cores()}
    options = LabelOptions.from_arguments(task[0], {**flags, "progress": make_progress(), **arguments})
    files = write_label_files(options, task, str(output))
    lines = [f"{file['rows']} rows in {file['file']}" for file in files]
    return CommandOutput(files[0] if len(files) == 1 else {"files": files}, lambda: print_lines(*lines))


@app.command()
@with_output()
def align(
    file: Annotated[Path, typer.Argument(help="A file of code or text.")],
    model: Annotated[str, typer.Option("-m", "--model", help="Whose tokenizer.")] = "sonde/mini-decoder",
    language: Annotated[str | None, typer.Option("--language", help="By default from the suffix.")] = None,
    merged: Annotated[
        bool, typer.Option("--merged", help="One row a syntax leaf, as CODETOKENIZERS merges.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write CSV or Parquet instead.")
    ] = None,
) -> CommandOutput:
    """Print the token table of one file: subwords, characters, code tokens, nodes and tags."""
    from sonde.api.label import align as align_text
    from sonde.api.label import write_table
    from sonde.cli.progress import print_table

    table = align_text(model, file, language=language, merged=merged)
    if output is None:
        return CommandOutput({"tokens": table.to_dicts()}, lambda: print_table(table))
    write_table(table, output)
    return CommandOutput({"rows": len(table), "file": output}, lambda: None)


@app.command()
@with_output()
def convert(
    checkpoint: Annotated[str, typer.Argument(help="A folder or hub name with pytorch_model.bin.")],
    directory: Annotated[Path, typer.Argument(help="The new folder.")],
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            help="Derive a checkpoint to compare with: int8 (rounded to 8 bits) or random (drawn anew).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of random weights.")] = 0,
) -> CommandOutput:
    """Write pickled weights as safetensors, read with PyTorch's restricted reader in a process of its own."""
    from sonde.models import convert_checkpoint as to_safetensors
    from sonde.models import derive_checkpoint

    folder = (
        to_safetensors(checkpoint, directory)
        if weights is None
        else derive_checkpoint(checkpoint, directory, weights, seed=seed)
    )
    return CommandOutput({"directory": folder}, lambda: print_lines(folder))


@app.command()
@with_output()
def pretrain(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML); see the folder recipes/.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder of the finished model.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew instead of from the last checkpoint.")
    ] = False,
    keep_series: Annotated[
        bool,
        typer.Option(
            "--keep-series", help="Keep the model after 0, 1, 2, 4, 8, ... updates too (series/stepN)."
        ),
    ] = False,
) -> CommandOutput:
    """Pre-train a model by recipe, from vocabulary to model card."""
    from sonde.training.pretrain.pretrain import pretrain as train

    folder = train(recipe, output=output, resume=not fresh, keep_series=keep_series, report=print_note)
    return CommandOutput({"directory": folder}, lambda: print_lines(folder))


app.command("list")(list_names)


def _print_version(flag: bool) -> None:
    if flag:
        print_lines(f"sonde {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None: ...


_SPINS = "5000"
"""Turns that a thread of GNU's OpenMP waits awake, some microseconds. Beside none, observing on two cores
took 0.79 of the time, and 1.24 where another process held one of them (with 100,000 turns: 0.75 and 3.9)."""


_OBJECTS = 50_000
"""New objects before Python looks for garbage in cycles; with its default of 700 it looks 1,700 times."""


def main() -> None:
    """Run the command line: every command ends with one line and an exit code, never a traceback."""
    # Progress bars and advice of the libraries underneath would break into our own lines.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # On a shared machine, threads that spin for one without a core make a forward several times slower; on an
    # idle one, threads that sleep at once make it a quarter slower. GNU's library can spin for a moment.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # What this process starts imports nothing of the folder that it is called in.
    os.environ[SAFE_PATH_ENV] = "1"
    reopen_closed_streams()
    # A name that is not Unicode is printed with its bytes escaped, as on standard error already.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    arguments = sys.argv[1:]
    # Taken wherever it stands, so that every command has it.
    try:
        command_arguments = [argument for argument in arguments if argument != "--debug"]
        sys.exit(run_command(lambda: app(command_arguments, standalone_mode=False), arguments))
    finally:
        # At its end Python goes through all that is left, the objects of every library: a second and more.
        gc.freeze()
