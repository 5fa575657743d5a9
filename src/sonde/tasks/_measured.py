"""Tasks that measure a whole function: one row an item, its class and the number before classes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType

from sonde.corpora import Item
from sonde.languages import facet_of
from sonde.languages._flow import Flow
from sonde.languages._metrics import Metrics
from sonde.tasks._published import as_asked
from sonde.tasks._task import ItemLabels, LabelRow, Repository


@dataclass(frozen=True, slots=True)
class Classes:
    """Names for ranges of a number.

    Attributes:
        ranges: Name, smallest and largest number of each class, in order.
    """

    ranges: tuple[tuple[str, float, float], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The classes in order."""
        return tuple(name for name, _, _ in self.ranges)

    def of(self, value: float) -> str | None:
        """The class that a number falls into; None where it falls into none."""
        return next((name for name, low, high in self.ranges if low <= value <= high), None)


def exact(low: int, high: int, above: bool = False) -> Classes:
    """One class a number; with ``above`` a last one, ``9X``, for everything above 8."""
    ranges = [(str(number), float(number), float(number)) for number in range(low, high + 1)]
    if above:
        ranges.append((f"{high + 1}X", float(high + 1), float("inf")))
    return Classes(tuple(ranges))


def binned(*names: str) -> Classes:
    """Classes named by what they hold: ``"1"``, ``"4-6"``, ``"31-"``."""
    ranges: list[tuple[str, float, float]] = []
    for name in names:
        low, dash, high = name.partition("-")
        ranges.append((name, float(low), float(high) if high else float("inf") if dash else float(low)))
    return Classes(tuple(ranges))


class Measured(ItemLabels):
    """A task about a number of the whole function.

    A subclass gives ``name``, ``classes``, `value` and, where metrics are not what it asks, ``facet``. Where
    published labels follow another definition, that is a task of its own, see `sonde.tasks._published`.
    """

    name: str
    version = "1"
    target = "item"
    needs_repository = False
    facet = "metrics"
    classes: Classes
    quirks: Mapping[str, str] = MappingProxyType({})

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes in order."""
        return self.classes.names

    def label_rows(
        self, item: Item, repositories: Mapping[str, Repository], *, mode: str, quirks: Set[str]
    ) -> list[LabelRow]:
        """One row: ``label`` null where no class fits, ``value`` the number.

        A label that the item brings for this task is taken as it is.
        """
        asked = as_asked(self, mode, quirks)
        value = float(asked.item_value(item))
        given = next((one.label for one in item.given if one.task.lower() == self.name), None)
        label = given if given is not None else asked.classes.of(value)
        return [(0, len(item.text), label, value)]

    def item_value(self, item: Item) -> float:
        """Return the number of an item, by its text unless a task asks for more of it."""
        return self.value(item.text, item.language)

    @abstractmethod
    def value(self, text: str, language: str) -> float:
        """The number before classes."""


class Pattern(Measured):
    """A task about whether a structure occurs; the number is how often. Subclasses give ``name``."""

    classes = Classes((("NO", 0.0, 0.0), ("YES", 1.0, float("inf"))))

    def value(self, text: str, language: str) -> float:
        """How often the structure of the task's name occurs."""
        return metrics(language).patterns(text)[self.name]


def tokens(language: str) -> Metrics:
    """What the tokens of a language alone tell."""
    return facet_of(language, "tokens", Metrics)


def metrics(language: str) -> Metrics:
    """The metrics of a language."""
    return facet_of(language, "metrics", Metrics)


def flow(language: str) -> Flow:
    """The variables of a language."""
    return facet_of(language, "flow", Flow)
