"""Commands on finished runs and stored files: card, table, compare, predict, cache, merge and verify.

- ``sonde card``: the main results of a run in a few numbers, and whether it meets given requirements.
- ``sonde compare``: differences for the better or worse, and where no difference was found.
- ``sonde table``: a table of numbers for a paper or a spreadsheet.
- ``sonde predict``: predictions of a run's probes or fine-tuned models for other files.
- ``sonde cache``: the files that are kept from one run to the next, and their removal.
- ``sonde merge``: merges the shards of a run, each made with ``sonde run --shard``, into one run.
- ``sonde verify``: checks that the files of a run are still as they were written.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sonde.base.errors import StoreError, UnknownNameError, UsageError
from sonde.base.formatting import plural
from sonde.base.terminal import print_lines, print_note
from sonde.cli.help import Application
from sonde.cli.output import CommandOutput, OpenFlag, with_output


@with_output("directory")
def card(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")],
    require: Annotated[
        Path | None,
        typer.Option("--require", metavar="FILE", help="Requirements (TOML); exit code 1 if one is not met."),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Write the outcomes as JUnit XML into this file."),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to", metavar="TARGET", help="Also export it: wandb, mlflow or hub (may be repeated)."
        ),
    ] = None,
) -> CommandOutput:
    """Write the main results of a run as card.json and card.md."""
    from sonde.base.files import write_atomic
    from sonde.report import check_targets, export_card, format_entry, format_outcome, write_card
    from sonde.report import to_junit_xml as junit_xml
    from sonde.store.remote import sync_folder
    from sonde.store.run_folder import CARD_FILES, RunDirectory

    if junit is not None and require is None:
        raise UsageError("--junit writes outcomes of requirements; give --require FILE as well")
    check_targets(to or ())
    with sync_folder(directory, print_note, outputs=CARD_FILES) as folder:
        run_card = write_card(folder, require)
        exports = [line for target in to or () for line in export_card(run_card, target, folder)]
    files = [RunDirectory(folder).card, RunDirectory(folder).card_section]
    if junit is not None:
        write_atomic(junit, junit_xml(run_card))
        files.append(junit)

    def show() -> None:
        lines = [format_entry(headline) for headline in run_card.headlines] if require is None else []
        lines += [format_outcome(requirement) for requirement in run_card.requirements]
        print_lines(*lines, *(f"card: {file}" for file in files), *exports)

    data = run_card.model_dump(mode="json") | ({"exports": exports} if to else {})
    return CommandOutput(data, show, exit_code=int(not run_card.met))


@with_output("directory")
def table(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="A dimension (construct, layer, ...), a lens, or a table of the report; default: the "
            "headlines. `sonde table RUN list` lists the names.",
        ),
    ] = "",
    metric: Annotated[str, typer.Option("--metric", help="Only this metric.")] = "",
    *,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX (booktabs).")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV; an interval is two columns.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write it to this file (.tex or .csv) instead."),
    ] = None,
) -> CommandOutput:
    """Print a table for a paper: models by metrics, with intervals and differences."""
    from sonde.base.files import write_atomic
    from sonde.report import RunData, build_table, list_tables, to_csv, to_latex
    from sonde.store.remote import fetch_folder

    if latex and csv:
        raise UsageError("--latex and --csv are two forms of one table; give one of them")
    if output is not None and not (latex or csv):
        latex, csv = output.suffix == ".tex", output.suffix == ".csv"
        if not (latex or csv):
            raise UsageError(f"-o {str(output)!r}: name a .tex or .csv file, or give --latex or --csv")
    run = RunData(fetch_folder(directory))
    if name == "list":
        kinds = list_tables(run)
        names = [f"{table_name}  ({kind})" for table_name, kind in kinds.items()]
        return CommandOutput({"tables": kinds}, lambda: print_lines(*names))
    run_table = build_table(run, name, metric)
    text = to_latex(run_table) if latex else to_csv(run_table) if csv else "\n".join(run_table.lines())
    if output is not None:
        write_atomic(output, text)
        return CommandOutput({"file": output}, lambda: print_lines(output))
    return CommandOutput(
        {"rows": run_table.frame().to_dicts()}, lambda: print_lines(*text.strip("\n").split("\n"))
    )


@with_output("directories", "output")
def compare(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR_OR_MODEL...",
            help="Folders of runs; of one, the models inside it. Or models of one vocabulary: the first is "
            "the base, and all are read.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Folder of the comparison; default: next to the run."
        ),
    ] = None,
    series: Annotated[
        str,
        typer.Option("--series", metavar="REGEX", help=r"Checkpoints of one training, as 'step(\d+)'."),
    ] = "",
    least: Annotated[
        list[str] | None,
        typer.Option(
            "--least",
            metavar="METRIC=SIZE",
            help="Smallest difference that matters, in the unit of the metric (may be repeated; "
            "default 0.01 for shares, 0.005 for bits per byte).",
        ),
    ] = None,
    lenses: Annotated[
        list[str] | None,
        typer.Option("-l", "--lens", metavar="FILE", help="A lens of your own that the runs used."),
    ] = None,
    corpora: Annotated[
        list[str] | None,
        typer.Option("-c", "--corpus", metavar="CORPUS", help="Of models: a corpus; default: stdlib."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("-n", "--limit", min=1, metavar="N", help="Of models: maximum functions per language."),
    ] = None,
    open_page: OpenFlag = False,
) -> CommandOutput:
    """Compare models on the same items and test every difference.

    Of finished runs nothing is read again. Models are read side by side with the first of them.
    """
    from sonde.api.compare import are_models, compare_and_write
    from sonde.base.progress_display import make_progress
    from sonde.cli.progress import comparison_data, print_comparison
    from sonde.lenses import LENSES
    from sonde.stats.verdict import parse_minimum_effects

    if are_models([*map(str, directories)]):
        if series or least or lenses:
            raise UsageError("--series, --least and --lens are for finished runs, and models are named")
        return _compare_models([*map(str, directories)], output, corpora, limit, open_page)
    if corpora or limit:
        raise UsageError("--corpus and --limit are for models, and folders of finished runs are named")
    sizes = parse_minimum_effects(least or ())
    for lens in lenses or ():
        LENSES.hand_in(lens)
    folder, page = compare_and_write(directories, output, series, sizes, make_progress())
    return CommandOutput(
        comparison_data(folder, page),
        lambda: print_comparison(folder, page),
        opened=page if open_page else None,
    )


def _compare_models(
    names: Sequence[str],
    output: Path | None,
    corpora: Sequence[str] | None,
    limit: int | None,
    open_page: bool,
) -> CommandOutput:
    """Read models side by side with the first of them, and write the report."""
    from dataclasses import replace

    from sonde.base.progress_display import make_progress
    from sonde.cli.progress import outcome_data, print_outcome
    from sonde.experiments.arguments import from_arguments
    from sonde.experiments.catalogue import find_base_lens
    from sonde.experiments.run import run as carry_out
    from sonde.report import write_report
    from sonde.store.remote import sync_folder

    experiment, execution = from_arguments(
        models=names, lenses=find_base_lens(), corpora=corpora, limit=limit, output=output
    )
    teller = make_progress()
    with sync_folder(execution.output, teller.note) as folder:
        outcome = carry_out(experiment, replace(execution, output=folder), teller)
        page = write_report(folder, teller.note)
    return CommandOutput(
        outcome_data(outcome, page), lambda: print_outcome(outcome, page), opened=page if open_page else None
    )


@with_output("place")
def predict(
    place: Annotated[
        Path,
        typer.Argument(metavar="RUN_OR_MODEL", help="Folder of a run, or of a fine-tuned model."),
    ],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of code.")],
    task: Annotated[
        str | None,
        typer.Option("-t", "--task", metavar="TASK", help="Required if the run has several tasks."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", metavar="MODEL", help="Required if the run has several models."),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(
            "--layer", metavar="N", help="0 is the embeddings; default: the layer chosen on validation."
        ),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="text, json or sarif.")] = "text",
) -> CommandOutput:
    """Apply a run's probes or a fine-tuned model to other files.

    Prints its test accuracy too. A task about bugs also gets the place of each bug and its repair; code
    scanning reads --format sarif.
    """
    from sonde.api.predict import predict as predict_functions
    from sonde.api.predictions import FORMS, to_dict

    if form not in FORMS:
        raise UnknownNameError("format", form, FORMS)
    predictions = predict_functions(place, files, task=task, model=model, layer=layer)
    for line in predictions.skipped:
        print_note(f"skipped: {line}")
    formatted_text, data = FORMS[form](predictions), {"predictions": to_dict(predictions)}
    if form == "text":
        return CommandOutput(data, lambda: print_lines(*formatted_text.removesuffix("\n").split("\n")))
    # For programs, in ASCII: what is written there has escapes of its own.
    return CommandOutput(data, lambda: sys.stdout.write(formatted_text))


cache_app = Application(help="Show or clear the cache, which later runs reuse.", no_args_is_help=True)


@cache_app.command("info")
@with_output()
def cache_info() -> CommandOutput:
    """Say where the cache is and how much it holds; SONDE_CACHE moves it."""
    from sonde.base.files import get_cache_root, measure_folder
    from sonde.results.tables import Column, Table
    from sonde.results.text_format import COUNT, Number

    root = get_cache_root()
    rows: list[dict[str, str | float]] = []
    for folder in _cache_folders(root):
        files, size = measure_folder(folder)
        rows.append({"folder": folder.name, "files": files, "bytes": size})
    columns = [
        Column(title="folder", value="folder"),
        Column(title="files", value="files", format=COUNT),
        Column(title="MB", value="bytes", format=Number(digits=1, scale=1e-6)),
    ]
    lines = Table(summary="", columns=columns, rows=rows).lines() if rows else []
    data = {"cache": root, "folders": rows}
    return CommandOutput(data, lambda: print_lines(root, *lines))


@cache_app.command("clear")
@with_output()
def cache_clear(
    name: Annotated[
        list[str] | None, typer.Argument(help="Only these folders; see `sonde cache info`.")
    ] = None,
) -> CommandOutput:
    """Remove what the cache holds; all of it is made or fetched again when it is needed."""
    from sonde.base.files import get_cache_root

    folders = {folder.name: folder for folder in _cache_folders(get_cache_root())}
    removed_folders: list[Path] = []
    for folder_name in name or folders:
        if folder_name not in folders:
            raise UnknownNameError("folder of the cache", folder_name, folders)
        try:
            shutil.rmtree(folders[folder_name])
        except FileNotFoundError:
            # Another process removes it, too.
            shutil.rmtree(folders[folder_name], ignore_errors=True)
        except OSError as error:
            raise StoreError(
                f"cannot remove {folders[folder_name]}: {error.strerror or error}; make it writable and run "
                "again"
            ) from error
        removed_folders.append(folders[folder_name])
    return CommandOutput(
        {"removed": removed_folders},
        lambda: print_lines(*(f"removed {folder}" for folder in removed_folders)),
    )


def _cache_folders(root: Path) -> list[Path]:
    """List the folders that sonde makes in the cache, which may be shared."""
    names = (
        "definitions",
        "functions",
        "gguf",
        "imports",
        "labels",
        "npm",
        "observations",
        "page",
        "pypi",
        "weights",
    )
    try:
        return [folder for name in names if (folder := root / name).is_dir()]
    except OSError as error:
        raise StoreError(
            f"cannot read {root}: {error.strerror or error}; make it readable, or name another in SONDE_CACHE"
        ) from error


@with_output("directory")
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run or of a comparison.")],
) -> CommandOutput:
    """Check every file of a run against its checksum.

    Damaged files are named, and the exit code is 1.
    """
    import dataclasses

    from sonde.store.checksums import suggest_remedy
    from sonde.store.checksums import verify_folder as held_to_receipts
    from sonde.store.remote import fetch_folder

    verification = held_to_receipts(folder := fetch_folder(directory, reread=True))

    def show() -> None:
        for path, problem in verification.damaged:
            print_lines(f"{path}: {problem}")
        if verification.unchecked:
            examples = ", ".join(verification.unchecked[:3]) + (
                ", ..." if len(verification.unchecked) > 3 else ""
            )
            print_lines(
                f"not checked, because no checksum was written: {len(verification.unchecked)} ({examples})"
            )
        if verification.damaged:
            print_lines(f"{suggest_remedy(folder)}; nothing else is computed")
        print_lines(
            f"{plural(len(verification.intact), 'file')} intact, "
            f"{plural(len(verification.damaged), 'file')} damaged"
        )

    return CommandOutput(dataclasses.asdict(verification), show, exit_code=int(bool(verification.damaged)))


@with_output("directories", "output")
def merge(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of all shards, in any order.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder of the merged run.")],
    workers: Annotated[
        int, typer.Option("--workers", min=1, metavar="N", help="Number of processes that score.")
    ] = 1,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not write report.html.")] = False,
) -> CommandOutput:
    """Merge the shards of `sonde run --shard I/N` into one run."""
    from sonde.base.errors import set_log_folder
    from sonde.base.progress_display import make_progress
    from sonde.cli.progress import outcome_data, print_outcome
    from sonde.experiments.run import merge as merged
    from sonde.report import write_report
    from sonde.store.remote import fetch_folder, sync_folder

    teller = make_progress()
    with sync_folder(output, teller.note) as folder:
        set_log_folder(folder)
        outcome = merged(
            [fetch_folder(directory) for directory in directories], folder, teller, workers=workers
        )
        page = None if no_report else write_report(folder, teller.note)
    return CommandOutput(outcome_data(outcome, page), lambda: print_outcome(outcome, page))
