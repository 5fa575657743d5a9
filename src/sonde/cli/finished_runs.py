"""Commands ``sonde card``, ``compare`` and ``predict`` for finished runs, and ``sonde list``.

- ``sonde card``: the main results of a run in a few numbers, and whether it meets given requirements.
- ``sonde compare``: differences for the better or worse, and where no difference was found.
- ``sonde predict``: predictions of a run's probes or fine-tuned models for other files.
- ``sonde list``: everything there is of a kind, by name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.terminal import print_lines, print_note
from sonde.cli.output import CommandOutput, with_addresses, with_json_option


@with_addresses("directory")
def card(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")],
    require: Annotated[
        Path | None,
        typer.Option("--require", help="Requirements (TOML); exit code 1 where one is not met."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write the outcomes as JUnit XML into this file.")
    ] = None,
) -> CommandOutput:
    """Write the card of a finished run: card.json, and card.md for a model card."""
    from sonde.base.files import write_atomic
    from sonde.report import format_entry, format_outcome, write_card
    from sonde.report import to_junit_xml as junit_xml
    from sonde.store.remote import sync_folder
    from sonde.store.run_folder import CARD_FILES, RunDirectory

    if junit is not None and require is None:
        raise UsageError("--junit writes outcomes of requirements; give --require FILE as well")
    with sync_folder(directory, print_note, outputs=CARD_FILES) as folder:
        found = write_card(folder, require)
    files = [RunDirectory(folder).card, RunDirectory(folder).card_section]
    if junit is not None:
        write_atomic(junit, junit_xml(found))
        files.append(junit)

    def show() -> None:
        lines = [format_entry(one) for one in found.headlines] if require is None else []
        lines += [format_outcome(one) for one in found.requirements]
        print_lines(*lines, *(f"card: {file}" for file in files))

    return CommandOutput(found.model_dump(mode="json"), show, exit_code=int(not found.met))


@with_addresses("directories", "output")
def compare(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs; of one, the models inside it.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder of the comparison; by default beside the run."),
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
            help="The least size of a difference that matters, in the unit of the metric (may be repeated; "
            "default 0.01 for shares, 0.005 for bits per byte).",
        ),
    ] = None,
    lenses: Annotated[
        list[str] | None,
        typer.Option("-l", "--lens", metavar="FILE", help="A lens of your own that the runs were made with."),
    ] = None,
) -> CommandOutput:
    """Hold models against each other on the same items: what got better, worse, or shows no difference."""
    from sonde.api.compare import compare_and_write
    from sonde.cli.progress import comparison_data, make_progress, print_comparison
    from sonde.lenses import LENSES
    from sonde.stats.verdict import parse_minimum_effects

    sizes = parse_minimum_effects(least or ())
    for lens in lenses or ():
        LENSES.hand_in(lens)
    folder, page = compare_and_write(directories, output, series, sizes, make_progress())
    return CommandOutput(comparison_data(folder, page), lambda: print_comparison(folder, page))


@with_addresses("place")
def predict(
    place: Annotated[
        Path,
        typer.Argument(metavar="RUN_OR_MODEL", help="Folder of a run, or of a fine-tuned model."),
    ],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of code.")],
    task: Annotated[str | None, typer.Option("-t", "--task", help="Where the run has several.")] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="Where the run has several.")] = None,
    layer: Annotated[
        int | None, typer.Option("--layer", help="0 the embeddings; by default the chosen one.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="text, json or sarif.")] = "text",
) -> CommandOutput:
    """Say of the functions of files what a probe or a fine-tuned model says, with its own accuracy.

    Of a task about bugs also where each stands and what would undo it; --format sarif is what code scanning
    reads.
    """
    from sonde.api.predict import is_finetuned_model, predict_with_model
    from sonde.api.predictions import FORMS
    from sonde.api.results import Run

    if form not in FORMS:
        raise UnknownNameError("format", form, FORMS)
    if not is_finetuned_model(place):
        found = Run(place).predict(files, task=task, model=model, layer=layer)
    elif task is None and model is None and layer is None:
        found = predict_with_model(place, files)
    else:
        raise UsageError(f"{str(place)!r} is a fine-tuned model of one task; leave out -t, -m and --layer")
    for line in found.skipped:
        print_note(f"skipped: {line}")
    data = json.loads(FORMS["json"](found))
    written = FORMS[form](found)
    if form == "text":
        return CommandOutput(
            {"predictions": data}, lambda: print_lines(*written.removesuffix("\n").split("\n"))
        )
    # For programs, in ASCII: what is written there has escapes of its own.
    return CommandOutput({"predictions": data}, lambda: sys.stdout.write(written))


@with_json_option
def list_names(
    what: Annotated[
        str,
        typer.Argument(
            help="models, lenses, options, tasks, languages, corpora, executors, plots or experiments."
        ),
    ],
    of: Annotated[
        str | None, typer.Argument(metavar="[LENS]", help="Options of this lens alone, or of a run.")
    ] = None,
    lens: Annotated[
        str | None, typer.Option("--for", metavar="LENS", help="Only the models that this lens can read.")
    ] = None,
) -> CommandOutput:
    """List what there is, without importing it; options and models as tables."""
    from sonde.cli.progress import options_data, print_catalogue, print_checkpoints, print_options
    from sonde.experiments.catalogue import all_options, list_checkpoints, list_headers
    from sonde.report import PLOTS

    if lens is not None and what != "models":
        raise UsageError(f"only models are listed for a lens: `sonde list models --for {lens}`")
    if what == "options":
        options = all_options(of)
        return CommandOutput({"options": options_data(options)}, lambda: print_options(options))
    headers = list_headers(what, {"plots": PLOTS})
    if of is not None:
        raise UsageError(f"only options are listed of one thing: `sonde list {what}`, without {of!r}")
    if what == "models":
        known = list_checkpoints(lens)
        return CommandOutput({what: [one.data() for one in known]}, lambda: print_checkpoints(known))
    names = [{"name": header.name, "summary": header.summary} for header in headers]
    return CommandOutput({what: names}, lambda: print_catalogue(headers))
