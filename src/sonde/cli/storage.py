"""Commands on stored files: ``sonde cache``, ``sonde merge`` and ``sonde verify``.

- ``sonde cache``: the files that are kept from one run to the next, and their removal.
- ``sonde merge``: merges the shards of a run, each made with ``sonde run --shard``, into one run.
- ``sonde verify``: checks that the files of a run are still as they were written.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from sonde.base.errors import StoreError, UnknownNameError
from sonde.base.terminal import print_lines
from sonde.cli.output import CommandOutput, with_addresses, with_json_option

cache_app = typer.Typer(help="What is kept from one run to the next.", no_args_is_help=True)


@cache_app.command("info")
@with_json_option
def cache_info() -> CommandOutput:
    """Say where the cache is and how much it holds; SONDE_CACHE moves it."""
    from sonde.base.files import get_cache_root
    from sonde.results.tables import Column, Table
    from sonde.results.text_format import COUNT, Number

    root = get_cache_root()
    rows: list[dict[str, str | float]] = []
    for folder in _cache_folders(root):
        files = [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        rows.append({"folder": folder.name, "files": len(files), "bytes": size})
    columns = [
        Column(title="folder", value="folder"),
        Column(title="files", value="files", format=COUNT),
        Column(title="MB", value="bytes", format=Number(digits=1, scale=1e-6)),
    ]
    lines = Table(summary="", columns=columns, rows=rows).lines() if rows else []
    data = {"cache": root, "folders": rows}
    return CommandOutput(data, lambda: print_lines(root, *lines))


@cache_app.command("clear")
@with_json_option
def cache_clear(
    name: Annotated[
        list[str] | None, typer.Argument(help="Only these folders; see `sonde cache info`.")
    ] = None,
) -> CommandOutput:
    """Remove what the cache holds; all of it is made or fetched again when it is needed."""
    from sonde.base.files import get_cache_root

    held = {folder.name: folder for folder in _cache_folders(get_cache_root())}
    removed: list[Path] = []
    for one in name or held:
        if one not in held:
            raise UnknownNameError("folder of the cache", one, held)
        try:
            shutil.rmtree(held[one])
        except FileNotFoundError:
            # Another process removes it, too.
            shutil.rmtree(held[one], ignore_errors=True)
        except OSError as error:
            raise StoreError(
                f"cannot remove {held[one]}: {error.strerror or error}; make it writable and run again"
            ) from error
        removed.append(held[one])
    return CommandOutput(
        {"removed": removed}, lambda: print_lines(*(f"removed {folder}" for folder in removed))
    )


def _cache_folders(root: Path) -> list[Path]:
    """The folders that sonde makes there: the place may be shared."""
    names = ("definitions", "functions", "gguf", "imports", "npm", "observations", "page", "pypi", "weights")
    try:
        return [folder for name in names if (folder := root / name).is_dir()]
    except OSError as error:
        raise StoreError(
            f"cannot read {root}: {error.strerror or error}; make it readable, or name another in SONDE_CACHE"
        ) from error


@with_addresses("directory")
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run or of a comparison.")],
) -> CommandOutput:
    """Hash every file of a run again and name those that are damaged (exit code 1)."""
    import dataclasses

    from sonde.store.checksums import suggest_remedy
    from sonde.store.checksums import verify_folder as held_to_receipts
    from sonde.store.remote import fetch_folder

    found = held_to_receipts(folder := fetch_folder(directory, reread=True))

    def show() -> None:
        for path, what in found.damaged:
            print_lines(f"{path}: {what}")
        if found.unchecked:
            some = ", ".join(found.unchecked[:3]) + (", ..." if len(found.unchecked) > 3 else "")
            print_lines(f"not checked, since nothing says what was written: {len(found.unchecked)} ({some})")
        if found.damaged:
            print_lines(f"{suggest_remedy(folder)}, and nothing else")
        print_lines(f"{len(found.intact)} files are as they were written, {len(found.damaged)} are damaged")

    return CommandOutput(dataclasses.asdict(found), show, exit_code=int(bool(found.damaged)))


@with_addresses("directories", "output")
def merge(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of all shards, in any order.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the run that they become.")],
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes at a time for what is scored.")
    ] = 1,
    no_report: Annotated[bool, typer.Option("--no-report", help="Leave the page out.")] = False,
) -> CommandOutput:
    """Make one run of the shards of ``sonde run --shard I/N``; refuses what does not belong together."""
    from sonde.base.error_log import set_log_folder
    from sonde.cli.progress import make_progress, outcome_data, print_outcome
    from sonde.experiments.merge import merge as merged
    from sonde.report import write_report
    from sonde.store.remote import fetch_folder, sync_folder

    teller = make_progress()
    with sync_folder(output, teller.note) as folder:
        set_log_folder(folder)
        outcome = merged([fetch_folder(one) for one in directories], folder, teller, workers=workers)
        page = None if no_report else write_report(folder, teller.note)
    return CommandOutput(outcome_data(outcome, page), lambda: print_outcome(outcome, page))
