"""The command line: parse, call, print. Whatever is heavy is imported inside the command that needs it."""

from __future__ import annotations

import gc
import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sonde.base.errors import UnknownNameError, UsageError, set_log_folder
from sonde.base.formatting import plural
from sonde.base.process import SAFE_PATH_ENV
from sonde.base.terminal import print_lines, print_note, reopen_closed_streams
from sonde.cli.corpus import corpus_app
from sonde.cli.doctor import doctor
from sonde.cli.explain import explain, list_names
from sonde.cli.finished_runs import cache_app, card, compare, merge, predict, table, verify
from sonde.cli.gate import gate
from sonde.cli.help import RUN_OPTIONS, Application
from sonde.cli.options import CORPUS_FLAG, DeclaredCommand, with_lens_flags, with_run_options
from sonde.cli.output import CommandOutput, OpenFlag, run_command, with_output
from sonde.cli.show import show
from sonde.version import __version__

app = Application(
    name="sonde",
    help="What does a language model of code know, where does it keep it, and how sure can we be?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.add_typer(corpus_app, name="corpus")


app.add_typer(cache_app, name="cache")


for command in (predict, verify, merge, compare, gate):
    app.command()(command)


app.command(cls=DeclaredCommand)(show)


@app.command(cls=DeclaredCommand)
@with_output("output")
@with_lens_flags
@with_run_options(*RUN_OPTIONS)
def run(
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            "-f",
            "--file",
            metavar="FILE",
            rich_help_panel="What",
            help="An experiment file (TOML), or one by name: `sonde list experiments`.",
        ),
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write every chart as SVG, PDF and PNG.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not write report.html.")] = False,
    open_page: OpenFlag = False,
    features: Annotated[
        bool, typer.Option("--features", help="Also write the states of probed tasks as safetensors.")
    ] = False,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Print the cost of the run and what it can detect; do not run it.",
            rich_help_panel="How much",
        ),
    ] = False,
    no_trial: Annotated[
        bool,
        typer.Option(
            "--no-trial",
            help="With --plan: load no model and estimate no time.",
            rich_help_panel="How much",
        ),
    ] = False,
    **arguments: Any,
) -> CommandOutput:
    """Measure models on code; without arguments, run the demo. Resumes an earlier run."""
    from dataclasses import replace

    from sonde.api.hidden_states import check_states_available, write_all_features
    from sonde.base.progress_display import make_progress
    from sonde.cli.progress import outcome_data, print_outcome, print_shard, shard_data
    from sonde.experiments.arguments import from_arguments
    from sonde.experiments.run import run as carry_out
    from sonde.report import save_figures, write_report
    from sonde.store.remote import sync_folder

    experiment, execution = from_arguments(file=file, **arguments)
    reportless = {"--plan": plan, "--no-report": no_report, "--shard": execution.shard}
    if open_page and any(reportless.values()):
        flag = next(flag for flag, value in reportless.items() if value)
        raise UsageError(f"--open shows the report, and {flag} writes none; leave out one of the two")
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
    return CommandOutput(
        outcome_data(outcome, page), lambda: print_outcome(outcome, page), opened=page if open_page else None
    )


@app.command()
@with_output("directory")
def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")],
    plot: Annotated[
        list[str] | None, typer.Option("--plot", metavar="FILE", help="Add a section of your own (FILE.py).")
    ] = None,
    open_page: OpenFlag = False,
) -> CommandOutput:
    """Rebuild the report of a finished run."""
    from sonde.report import PLOTS, write_report
    from sonde.store.remote import sync_folder

    for name in plot or ():
        PLOTS.hand_in(name)
    with sync_folder(directory, print_note, outputs=["report.html"]) as folder:
        page = write_report(folder)
    return CommandOutput({"page": page}, lambda: print_lines(page), opened=page if open_page else None)


app.command()(card)


app.command()(table)


@app.command("figures")
@with_output("directory")
def write_figures(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Sections or charts; default: all.")
    ] = None,
) -> CommandOutput:
    """Write charts (SVG, PDF, PNG) and tables (CSV, LaTeX) of a run.

    The files are written into the folder figures/ of the run.
    """
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
    corpus: Annotated[list[str], CORPUS_FLAG],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file; {task} stands for the task.")
    ],
    *,
    raw: Annotated[
        bool, typer.Option("--raw", help="Label every item in order; balance and leave out nothing.")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", help="sonde (JSON lines), or the format of a published data set.")
    ] = "sonde",
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            rich_help_panel="Machine",
            help="Number of processes; default: one per core. Same labels.",
        ),
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
    lines = [f"{plural(file['rows'], 'row')} in {file['file']}" for file in files]
    return CommandOutput(files[0] if len(files) == 1 else {"files": files}, lambda: print_lines(*lines))


@app.command()
@with_output()
def align(
    file: Annotated[Path, typer.Argument(help="A file of code or text.")],
    model: Annotated[
        str, typer.Option("-m", "--model", metavar="MODEL", help="Model whose tokenizer to use.")
    ] = "sonde/mini-decoder",
    function: Annotated[
        str | None, typer.Option("--function", metavar="NAME", help="Which function; default: the first.")
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", metavar="LANGUAGE", help="Default: from the file suffix.")
    ] = None,
    merged: Annotated[
        bool, typer.Option("--merged", help="One row per syntax leaf, as CodeTokenizers merges subwords.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the table as CSV or Parquet instead."),
    ] = None,
) -> CommandOutput:
    """Print subwords, code tokens and syntax of one function.

    With --json or --output the table has the whole file, unless --function names one of its functions.
    """
    from sonde.api.label import align_functions, write_table
    from sonde.cli.progress import print_fitted_table

    table, functions = align_functions(model, file, language=language, merged=merged)
    if function is not None:
        if function not in functions:
            raise UnknownNameError("function", function, sorted(functions))
        table = functions[function]
    if output is not None:
        write_table(table, output)
        return CommandOutput({"rows": len(table), "file": output}, lambda: None)
    name = function or next(iter(functions), None)
    other_names = [other_name for other_name in functions if other_name != name]

    def show() -> None:
        # The tag is parent and node in one.
        print_fitted_table(table if name is None else functions[name], omitted=("bytes", "node", "parent"))
        if other_names:
            print_lines("", f"Other functions of the file (--function NAME): {', '.join(other_names)}")

    return CommandOutput({"tokens": table.to_dicts()}, show)


@app.command()
@with_output()
def convert(
    checkpoint: Annotated[str, typer.Argument(help="A folder or hub name with pytorch_model.bin.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The new folder.")],
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="KIND",
            help="Derive a checkpoint to compare with: int8 (rounded to 8 bits) or random weights.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed for --weights random.")] = 0,
) -> CommandOutput:
    """Convert pickled weights to safetensors, or derive a control.

    PyTorch's restricted reader reads the weights, in a process of its own.
    """
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
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Folder of the finished model.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over instead of resuming from the last checkpoint.")
    ] = False,
    keep_series: Annotated[
        bool,
        typer.Option(
            "--keep-series", help="Also keep the model after 0, 1, 2, 4, 8, ... updates (series/stepN)."
        ),
    ] = False,
) -> CommandOutput:
    """Pre-train a model from a recipe.

    Learns the vocabulary, trains, and writes the model card.
    """
    from sonde.training.pretrain.pretrain import pretrain as train

    folder = train(recipe, output=output, resume=not fresh, keep_series=keep_series, report=print_note)
    return CommandOutput({"directory": folder}, lambda: print_lines(folder))


app.command("list")(list_names)


# Flags are names here.
app.command(context_settings={"ignore_unknown_options": True})(explain)


app.command()(doctor)


def _print_version(flag: bool) -> None:
    if flag:
        print_lines(f"sonde {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
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
