"""File formats of ``sonde label``: sonde's own and those of published data sets, and their interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from sonde.base.registry import Registry
from sonde.corpora import Item
from sonde.tasks import Task

__all__ = ["FORMATS", "FileFormat", "LabelledItem"]


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """An input with the rows of its labels.

    Attributes:
        item: What is labelled: an item of the corpus, or what a task derived from one.
        rows: Its label rows, ``start, end, label, value`` and what the task adds.
        split: ``"train"``, ``"valid"`` or ``"test"`` in a data set; empty for raw labels.
    """

    item: Item
    rows: tuple[Mapping[str, Any], ...]
    split: str = ""


@runtime_checkable
class FileFormat(Protocol):
    """A file format."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the tasks whose labels it can hold; empty for any."""
        ...

    @property
    def whole(self) -> bool:
        """Return whether it holds all labels of an item together; then items are selected, unbalanced."""
        ...

    def write(self, task: Task, entries: Sequence[LabelledItem]) -> str:
        """Return the content of the file, in the order of the entries."""
        ...


FORMATS: Registry[FileFormat] = Registry(
    "sonde.experiments.formats", "label format", "form", protocols=(FileFormat,)
)
