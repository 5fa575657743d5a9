"""One of several shares of a run, each in a folder of its own, for schedulers that start independent jobs."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.experiments.experiment import to_plain_data
from sonde.experiments.observe import observe_jobs
from sonde.experiments.plan import ObserveJob, Plan, TrainJob
from sonde.experiments.progress import Session
from sonde.experiments.train import train_jobs
from sonde.store.checksums import check_intact, write_with_receipt
from sonde.store.parts import PartStore

FILE = "shard.json"


Job = TypeVar("Job")


@dataclass(frozen=True, slots=True)
class Shard:
    """A share of a run: ``3/16`` is the third of sixteen.

    Attributes:
        number: Counted from one.
        of: How many there are.
    """

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def share(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Select the jobs of this share; neighbours, which are alike, go to different ones."""
        return jobs[self.number - 1 :: self.of]


def parse_shard(text: str) -> Shard:
    """Read ``I/N``.

    Raises:
        UsageError: It is something else, or there is no such share.
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--shard {text!r} is not I/N with I from 1 to N, such as 1/16 to 16/16")
    return Shard(int(match[1]), int(match[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """Record of a share in its folder (``shard.json``).

    Attributes:
        shard: Which share.
        experiment: Fingerprint of what is measured.
        arguments: What is measured, as plain data.
        execution: How, as far as it belongs to keys or to what is read.
        plan: Fingerprint of what all shares together hold.
        parts: Path and key of every table of this one.
    """

    shard: str
    experiment: str
    arguments: dict[str, Any]
    execution: dict[str, Any]
    plan: str
    parts: list[list[str]]


def read_shard_record(folder: Path) -> ShardRecord:
    """Read the record of a share.

    Raises:
        InputError: It holds none, or one of another version of sonde.
        StoreError: It has been damaged.
    """
    path = folder / FILE
    if not path.is_file():
        raise InputError(
            f"{folder}: no shard here ({FILE} is missing); `sonde run --shard I/N -o DIR` makes one"
        )
    check_intact(folder, FILE)
    try:
        return ShardRecord(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); run the shard again") from error


def observe_shard(session: Session, stage: Plan) -> None:
    """Do the share of a run's jobs that its execution names, and write down what it is a share of.

    Scores need all shares; what lenses look at more closely afterwards needs scores. Neither is done here.

    Raises:
        SondeError: A job failed; what was finished is kept.
    """
    shard = parse_shard(session.execution.shard)
    shard_jobs: list[ObserveJob | TrainJob] = [*shard.share(stage.jobs), *shard.share(stage.trainings)]
    session.outcome.jobs = tuple(shard.share(stage.jobs))
    observe_jobs(session, session.outcome.jobs)
    if trainings := shard.share(stage.trainings):
        train_jobs(session, trainings)
    experiment, execution = session.experiment, session.execution
    settings = {
        name: getattr(execution, name)
        for name in ("device", "device_map", "dtype", "batch_tokens", "trust_remote_code")
    }
    record = ShardRecord(
        shard=str(shard),
        experiment=fingerprint(experiment),
        arguments=to_plain_data(experiment),
        execution=settings | {"lock": None if execution.lock is None else str(execution.lock)},
        plan=plan_key(stage),
        parts=[[part.relative, part.key] for job in shard_jobs for part in job.parts],
    )
    text = json.dumps(dataclasses.asdict(record), indent=1, ensure_ascii=False) + "\n"
    write_with_receipt(session.store.root, FILE, text)


def check_merged_plan(expected_key: str, stage: Plan) -> None:
    """Refuse to score shards as something else than what they are shares of.

    Args:
        expected_key: Fingerprint of what they hold together; empty where nothing is merged.
        stage: What would be observed here.

    Raises:
        InputError: That is something else: it would all be observed again.
    """
    if expected_key and plan_key(stage) != expected_key:
        raise InputError(
            "this machine would not reproduce the shards: a model or corpus has changed, or "
            "versions, device or dtype differ; merge where a shard was run, in the same folder"
        )


def plan_key(stage: Plan) -> str:
    """Return the fingerprint of all tables of a plan."""
    return tables_key(
        (part.relative, part.key) for job in (*stage.jobs, *stage.trainings) for part in job.parts
    )


def tables_key(parts: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of tables by path and key, in any order."""
    return fingerprint("plan", sorted(set(parts)))


def count_missing_tables(folder: Path, record: ShardRecord) -> int:
    """Count the tables of a share that are missing or damaged."""
    store = PartStore(folder)
    return sum(store.notes(relative, key) is None for relative, key in record.parts)
