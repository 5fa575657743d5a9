"""What there is, by name, read from headers without importing the things themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sonde.base.errors import UnknownNameError
from sonde.base.registry import Header, Registry
from sonde.corpora import CORPORA
from sonde.executors import EXECUTORS
from sonde.experiments.replication import headers as experiments
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES
from sonde.models import Checkpoint, describe_checkpoint, known_checkpoints, known_models
from sonde.tasks.engine.task import TASKS

REGISTRIES: dict[str, Registry[object]] = {
    "corpora": CORPORA,  # pyright: ignore[reportAssignmentType]  registries are only read here
    "executors": EXECUTORS,  # pyright: ignore[reportAssignmentType]
    "languages": LANGUAGES,  # pyright: ignore[reportAssignmentType]
    "lenses": LENSES,  # pyright: ignore[reportAssignmentType]
    "tasks": TASKS,  # pyright: ignore[reportAssignmentType]
}


def catalogue(what: str, beside: Mapping[str, Registry[Any]] | None = None) -> tuple[Header, ...]:
    """Headers of everything of one kind.

    Args:
        what: The kind, such as ``"lenses"``.
        beside: Registries of further kinds.

    Raises:
        UnknownNameError: There is no such kind; the nearest is named.
    """
    if what == "models":
        return known_models()
    if what == "experiments":
        return experiments()
    registries = {**REGISTRIES, **(beside or {})}
    if what not in registries:
        raise UnknownNameError("kind", what, [*registries, "experiments", "models", "options"])
    return registries[what].headers()


def checkpoints_for(lens: str | None = None) -> tuple[Checkpoint, ...]:
    """The known checkpoints, by name and without reading any.

    Args:
        lens: Only those that this lens can read.

    Raises:
        UnknownNameError: There is no such lens; the nearest is named.
    """
    known = known_checkpoints()
    if lens is None:
        return known
    refuses = LENSES.load(lens).refuses
    return tuple(one for one in known if refuses(describe_checkpoint(one)) is None)
