"""``sonde cache``: what is kept from one run to the next, and its removal."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from sonde.base.errors import StoreError, UnknownNameError
from sonde.base.terminal import say
from sonde.cli.output import Shown, shown, with_addresses

cache_app = typer.Typer(help="What is kept from one run to the next.", no_args_is_help=True)


@cache_app.command("info")
@shown
def cache_info() -> Shown:
    """Say where the cache is and how much it holds; SONDE_CACHE moves it."""
    from sonde.base.files import cache_root
    from sonde.results.tables import Column, Table
    from sonde.results.text_format import COUNT, Number

    root = cache_root()
    rows: list[dict[str, str | float]] = []
    for folder in _folders(root):
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
    return Shown(data, lambda: say(root, *lines))


@cache_app.command("clear")
@shown
def cache_clear(
    name: Annotated[
        list[str] | None, typer.Argument(help="Only these folders; see `sonde cache info`.")
    ] = None,
) -> Shown:
    """Remove what the cache holds; all of it is made or fetched again when it is needed."""
    from sonde.base.files import cache_root

    held = {folder.name: folder for folder in _folders(cache_root())}
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
    return Shown({"removed": removed}, lambda: say(*(f"removed {folder}" for folder in removed)))


def _folders(root: Path) -> list[Path]:
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
) -> Shown:
    """Hash every file of a run again and name those that are damaged (exit code 1)."""
    import dataclasses

    from sonde.store.checksums import remedy
    from sonde.store.checksums import verify as held_to_receipts
    from sonde.store.remote import fetched

    found = held_to_receipts(folder := fetched(directory, anew=True))

    def show() -> None:
        for path, what in found.damaged:
            say(f"{path}: {what}")
        if found.unchecked:
            some = ", ".join(found.unchecked[:3]) + (", ..." if len(found.unchecked) > 3 else "")
            say(f"not checked, since nothing says what was written: {len(found.unchecked)} ({some})")
        if found.damaged:
            say(f"{remedy(folder)}, and nothing else")
        say(f"{len(found.intact)} files are as they were written, {len(found.damaged)} are damaged")

    return Shown(dataclasses.asdict(found), show, exit_code=int(bool(found.damaged)))


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
) -> Shown:
    """Make one run of the shards of ``sonde run --shard I/N``; refuses what does not belong together."""
    from sonde.base.error_log import log_beside
    from sonde.cli.progress import outcome_data, print_outcome, progress
    from sonde.experiments.merge import merge as merged
    from sonde.report import build_report
    from sonde.store.remote import fetched, in_step

    teller = progress()
    with in_step(output, teller.note) as folder:
        log_beside(folder)
        outcome = merged([fetched(one) for one in directories], folder, teller, workers=workers)
        page = None if no_report else build_report(folder, teller.note)
    return Shown(outcome_data(outcome, page), lambda: print_outcome(outcome, page))
