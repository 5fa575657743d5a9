"""Shares of a run become one: held against each other, put into one folder, and scored there."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.progress import NullProgress, Progress
from sonde.experiments.experiment import Execution, Experiment, parse_experiment
from sonde.experiments.progress import Outcome
from sonde.experiments.run import run
from sonde.experiments.shards import (
    FILE,
    ShardRecord,
    count_missing_tables,
    parse_shard,
    read_shard_record,
    tables_key,
)
from sonde.store.checksums import copy_files_with_receipts
from sonde.store.lock import lock_folder
from sonde.store.run_folder import RunDirectory


def merge(
    folders: Sequence[Path], output: Path, progress: Progress | None = None, *, workers: int = 1
) -> Outcome:
    """Put the shares of a run together and score them as one run.

    The corpora are read again, and everything is held against what a run in one folder would do here: where
    that differs, as with another device or version, nothing is observed anew but the merge is refused.

    Args:
        folders: One a share, in any order.
        output: The folder of the run; what is in it already is not copied again.
        progress: Is told how far it is.
        workers: Processes at a time.

    Raises:
        UsageError: The folders are shares of different runs, or one is given twice.
        InputError: A share, or a table of one, is missing, or this machine would do something else.
        SondeError: The run cannot be scored.
    """
    if twice := next((folder for folder in folders if folders.count(folder) > 1), None):
        raise UsageError(f"folder {str(twice)!r} is given twice; name each shard once")
    shares = {folder: read_shard_record(folder) for folder in folders}
    _check_compatible(shares)
    _check_complete(shares)
    first = next(iter(shares.values()))
    experiment = _read_experiment(first)
    execution = Execution(
        output=output,
        workers=workers,
        light_workers=workers,
        lock=Path(first.execution["lock"]) if first.execution["lock"] else None,
        merges=first.plan,
        **{name: value for name, value in first.execution.items() if name != "lock"},
    )
    progress = progress or NullProgress()
    with lock_folder(output), progress.stage("merging", len(shares)) as advance:
        for folder in shares:
            copy_files_with_receipts(folder, output, exclude=(FILE,))
            _copy_trained_models(RunDirectory(folder).trained, RunDirectory(output).trained)
            advance()
    return run(experiment, execution, progress)


def _copy_trained_models(source: Path, target: Path) -> None:
    """Copy trained models, which have no receipts and belong to one share each."""
    try:
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise StoreError(f"cannot copy {source} to {target}: {error}; free space and merge again") from error


def _check_compatible(shares: Mapping[Path, ShardRecord]) -> None:
    first, one = next(iter(shares.items()))
    for folder, other in shares.items():
        for what, mine, theirs in (
            ("other arguments", one.experiment, other.experiment),
            ("another number of shards", parse_shard(one.shard).of, parse_shard(other.shard).of),
            ("other inputs, models or versions", one.plan, other.plan),
        ):
            if mine != theirs:
                raise UsageError(f"{folder} (shard {other.shard}) was run with {what} than {first}")
    found: dict[str, Path] = {}
    for folder, other in shares.items():
        if other.shard in found:
            raise UsageError(f"shard {other.shard} is given twice: {found[other.shard]} and {folder}")
        found[other.shard] = folder
    of = parse_shard(one.shard).of
    if absent := [name for number in range(1, of + 1) if (name := f"{number}/{of}") not in found]:
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        raise InputError(
            f"shard {', '.join(absent[:3])}{more} is missing; run it, and name its folder as well"
        )


def _check_complete(shares: Mapping[Path, ShardRecord]) -> None:
    for folder, one in shares.items():
        if lost := count_missing_tables(folder, one):
            raise InputError(
                f"{folder}: {lost} of the {len(one.parts)} tables of shard {one.shard} are missing or "
                "damaged; run it again, it computes nothing else"
            )
    together = tables_key((relative, key) for one in shares.values() for relative, key in one.parts)
    if together != next(iter(shares.values())).plan:
        raise InputError("the shards together do not hold what was planned; run each again, then merge")


def _read_experiment(written: ShardRecord) -> Experiment:
    experiment = parse_experiment(written.arguments, FILE)
    if fingerprint(experiment) != written.experiment:
        raise InputError(
            f"{FILE} was written by another version of sonde; merge with the one that ran the shards"
        )
    return experiment
