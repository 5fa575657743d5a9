"""Tasks that tell code as it was written from code with one fault.

A task says what a fault is; `_mutated` draws the functions, and each function is on one side only. What gives
a side away without reading the code is taken out by matching: a fault is taken together with an untouched
function of the same *stratum*, which is whatever a bag of tokens could see of the fault (the sign that was
put in, how often it stands there now) and the length.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from sonde.base.fingerprint import derive_seed
from sonde.corpora import Item, item_id
from sonde.languages import facet_of
from sonde.languages._edits import Edits, TextPlace
from sonde.tasks._published import as_asked
from sonde.tasks._task import ItemLabels, LabelRow, Repository

ORIGINAL, FAULT, REPLACED = "ORIG", "FAULT", "REPL"
"""Labels as published: faults of the jumbling tasks are called replaced."""

_DRAWS = 4

Stratum = Hashable


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a fault may depend on besides the function.

    Attributes:
        edits: The language's places.
        split: The split that the function is in.
        survey: What `Mutation.survey` counted in the pool.
    """

    edits: Edits
    split: str
    survey: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """A faulty text and its stratum."""

    text: str
    stratum: Stratum


class Mutation(ItemLabels):
    """Base of the tasks whose faults are made.

    A task defines `fault` and, where a fault leaves a trace, `stratum` and `survey`.

    Attributes:
        levelled: Whether faults are also matched by how faulty all their words look together (see
            `sonde.tasks._words.leaning`): where a fault takes away what goes with the rest of the function,
            the rest tells. That costs a fault for every function of the pool.
        compiled: Whether a fault is none that a compiler would name: that leaves out faults to which the
            language objects (`sonde.languages._objections`) where it does not object to the function itself.
            Untouched functions are then those as well that such a fault can be put into, so that the choice
            tells no side.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "2"
    target: ClassVar[str] = "mutation"
    labels: ClassVar[tuple[str, str]] = (ORIGINAL, FAULT)
    needs_repository: ClassVar[bool] = False
    facet: ClassVar[str] = "edits"
    levelled: ClassVar[bool] = False
    compiled: ClassVar[bool] = True

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """Counts over the pool that faults are drawn by; empty where none are needed."""
        return {}

    @abstractmethod
    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """What untouched code shares with the faults that it is matched with; None where it has no place."""

    @abstractmethod
    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Put the fault into a text; None where it has no place for it."""

    def compiled_fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Put the fault into a text so that a compiler has no more against it than before.

        Several draws are tried; None where none does.
        """
        if not self.compiled:
            return self.fault(text, around, draw)
        edits = around.edits
        before, undefined = edits.objections(text), edits.undefined(text)
        for _ in range(_DRAWS):
            found = self.fault(text, around, draw)
            if found is None:
                return None
            if not edits.objections(found.text) - before and edits.undefined(found.text) <= undefined:
                return found
        return None

    def label_rows(
        self, item: Item, repositories: Mapping[str, Repository], *, mode: str, quirks: AbstractSet[str]
    ) -> list[LabelRow]:
        """Labels that the source gives; else ``ORIG`` for code that a fault can be put into, null for other.

        A corpus holds code as it was written; faults come with a data set (`sonde.tasks.build`).
        """
        given = [one for one in item.given if one.task.lower() == self.name]
        if given:
            return [(one.start, one.end, one.label, None) for one in given]
        edits, asked = facet_of(item.language, "edits", Edits), as_asked(self, mode, quirks)
        around = Surroundings(edits, "train", asked.survey([item.text], edits))
        draw = Random(derive_seed(self.name, item.item_id))
        label = ORIGINAL if asked.stratum(item.text, around, draw) is not None else None
        return [(0, len(item.text), label, None)]


def mutated(item: Item, text: str, task: str) -> Item:
    """The derived item of a faulty text: same source, cluster and repository, an identity of its own."""
    return dataclasses.replace(
        item,
        item_id=item_id(text, item.language, item.unit),
        text=text,
        identifier=f"{item.identifier or item.item_id}:{task}",
        docstring="",
        tags=(),
        given=(),
        original="",
    )


def replaced(text: str, *changes: tuple[TextPlace, str]) -> str:
    """A text with other words at places that do not overlap."""
    parts: list[str] = []
    position = 0
    for place, word in sorted(changes, key=lambda change: change[0].start):
        parts += [text[position : place.start], word]
        position = place.end
    return "".join([*parts, text[position:]])


def capped(number: int, most: int = 4) -> int:
    """A count that is not told apart from ``most`` on."""
    return min(number, most)


def by_weight(weights: Mapping[str, int], draw: Random) -> str:
    """A word drawn by its count."""
    words = sorted(weights)
    return draw.choices(words, [weights[word] for word in words])[0]


def surfaces(places: Sequence[TextPlace]) -> Counter[str]:
    """How often each surface stands at the places."""
    return Counter(place.surface for place in places)
