"""Bases of tasks by what they label: whole functions, pairs of variables, or single tokens.

- `MetricTask` measures a whole function: one row per item, with its class and the number before classes;
- `VariablePairs` is about two marked variables of a function: one row per pair;
- `TokenClasses` is about single tokens: one row per token, with its class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sonde.corpora import Item, item_id
from sonde.languages import get_facet
from sonde.languages.engine.data_flow import Flow, Occurrence, Variable
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.tagging import TaggedToken, Tagger
from sonde.tasks.engine.task import PAIR_SCHEMA, ItemLabels, LabelRow, Repository, get_provided_labels


@dataclass(frozen=True, slots=True)
class NumberClasses:
    """Names for ranges of a number.

    Attributes:
        ranges: Name, smallest and largest number of each class, in order.
    """

    ranges: tuple[tuple[str, float, float], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the classes in order."""
        return tuple(name for name, _, _ in self.ranges)

    def find(self, value: float) -> str | None:
        """Return the class that a number falls into, or None."""
        return next((name for name, low, high in self.ranges if low <= value <= high), None)


def exact_classes(low: int, high: int, is_open_ended: bool = False) -> NumberClasses:
    """Build one class per number; with ``is_open_ended`` a last one, such as ``9X`` for all above 8."""
    ranges = [(str(number), float(number), float(number)) for number in range(low, high + 1)]
    if is_open_ended:
        ranges.append((f"{high + 1}X", float(high + 1), float("inf")))
    return NumberClasses(tuple(ranges))


def range_classes(*names: str) -> NumberClasses:
    """Build classes named by their ranges: ``"1"``, ``"4-6"``, ``"31-"``."""
    ranges: list[tuple[str, float, float]] = []
    for name in names:
        low, dash, high = name.partition("-")
        ranges.append((name, float(low), float(high) if high else float("inf") if dash else float(low)))
    return NumberClasses(tuple(ranges))


class MetricTask(ItemLabels):
    """A task about a number of the whole function.

    A subclass gives ``name``, ``classes``, `value` and, where metrics are not what it asks, ``facet``. Where
    published labels follow another definition, that is a task of its own, see `sonde.tasks.engine.task`.
    """

    target = "item"
    facet = "metrics"
    classes: NumberClasses

    @property
    def labels(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the classes in order."""
        return self.classes.names

    def provided_rows(self, item: Item) -> list[tuple[Any, ...]]:
        """Return one row: the label that the item's source brings, and the number."""
        source_labels = get_provided_labels(item, self.name)[:1]
        return [
            (0, len(item.text), source_label.label, float(self.item_value(item)))
            for source_label in source_labels
        ]

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[LabelRow]:
        """Return one row: ``label`` null where no class fits, ``value`` the number."""
        value = float(self.item_value(item))
        return [(0, len(item.text), self.classes.find(value), value)]

    def item_value(self, item: Item) -> float:
        """Return the number of an item, by its text unless a task asks for more of it."""
        return self.value(item.text, item.language)

    @abstractmethod
    def value(self, text: str, language: str) -> float:
        """Return the number before classes."""


class PatternTask(MetricTask):
    """A task about whether a structure occurs; the number is how often. Subclasses give ``name``."""

    classes = NumberClasses((("NO", 0.0, 0.0), ("YES", 1.0, float("inf"))))

    def value(self, text: str, language: str) -> float:
        """Return how often the structure with the task's name occurs."""
        return get_metrics(language).patterns(text)[self.name]


def get_token_metrics(language: str) -> Metrics:
    """Return the metrics that the tokens of a language alone give."""
    return get_facet(language, "tokens", Metrics)


def get_metrics(language: str) -> Metrics:
    """Return the metrics of a language."""
    return get_facet(language, "metrics", Metrics)


def get_flow(language: str) -> Flow:
    """Return the data flow of a language."""
    return get_facet(language, "flow", Flow)


# More stand in whole files only, where pairs of all variables would be millions.
_MAXIMUM_DISTANCE = 100


class MarkedPair(NamedTuple):
    """Two marked places with what holds between them."""

    place: Occurrence
    other: Occurrence
    label: str
    value: float | None = None


class VariablePairs(ItemLabels):
    """A task about pairs of places of variables. A subclass gives ``name``, ``labels`` and `pairs`."""

    target = "pair"
    facet = "flow"
    schema = PAIR_SCHEMA

    @abstractmethod
    def pairs(self, text: str, flow: Flow, metrics: Metrics) -> Iterator[MarkedPair]:
        """Return the pairs of a text."""

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[tuple[Any, ...]]:
        """Return one row per pair; the earlier span comes first."""
        pairs = self.pairs(item.text, get_flow(item.language), get_token_metrics(item.language))
        return [(*pair.place, pair.label, pair.value, *pair.other) for pair in pairs]


def pair_declarations(variables: tuple[Variable, ...]) -> Iterator[tuple[int, int]]:
    """Yield the indices of every two variables with different names and at most 100 declared between them."""
    for index, variable in enumerate(variables):
        for other_index in range(index + 1, min(index + 2 + _MAXIMUM_DISTANCE, len(variables))):
            if variables[other_index].name != variable.name:
                yield index, other_index


def make_pair(variable: Variable, other_variable: Variable, label: str) -> MarkedPair:
    """Return the pair of two variables' declarations, in text order."""
    first, second = sorted((variable.declaration, other_variable.declaration))
    return MarkedPair(first, second, label)


class TokenClasses(ItemLabels):
    """A task about the class of tokens. A subclass gives ``name``, ``labels`` and `tags`."""

    target = "span"
    needs_imports = False
    facet = "tagging"

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[LabelRow]:
        """Return one row per token that has a class."""
        tokens = self.tags(item, _find_imports(item, repositories))
        return [(start, end, label, None) for start, end, label in tokens]

    def extra_items(
        self, items: Iterable[Item], repositories: Mapping[str, Repository]
    ) -> Iterator[tuple[Item, Item]]:
        """Yield the import statements of the items' files, as items to draw tokens from.

        Functions hardly ever name a package, and in Java they hold no import. A task that knows nothing of
        the files around has nothing beside.

        Args:
            items: The functions.
            repositories: The files around.

        Yields:
            An item, and what its file imports; each file once.
        """
        files_seen: set[tuple[str, str]] = set()
        for item in items:
            text = _find_imports(item, repositories) if self.needs_imports else ""
            if text and (item.repository, item.path) not in files_seen:
                files_seen.add((item.repository, item.path))
                imports_id = item_id(text, item.language, "imports")
                yield (
                    item,
                    replace(
                        item,
                        item_id=imports_id,
                        identifier=imports_id,
                        text=text,
                        unit="imports",
                        name="imports",
                        offset=0,
                        docstring="",
                        tags=(),
                        given=(),
                    ),
                )

    @abstractmethod
    def tags(self, item: Item, imports: str) -> tuple[TaggedToken, ...]:
        """Return the tokens with their classes; ``imports`` are the import statements of the item's file."""


def _find_imports(item: Item, repositories: Mapping[str, Repository]) -> str:
    """Return the known import statements of an item's file."""
    repository = repositories.get(item.repository)
    return repository.imports.get(item.path, "") if repository is not None else ""


def get_tagger(language: str) -> Tagger:
    """Return the tagger of a language."""
    return get_facet(language, "tagging", Tagger)
