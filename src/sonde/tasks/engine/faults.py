"""Tasks that tell code as it was written from code with one fault, and the drawing of their examples.

A task says what a fault is; `draw_fault_examples` draws the functions, and each function is on one side only.
What gives a side away without reading the code is taken out by matching: a fault is taken together with an
untouched function of the same *stratum*, which is whatever a bag of tokens could see of the fault (the sign
that was put in, how often it stands there now) and the length.

The bases of several tasks are here: `KeywordSwitch` puts one keyword for another; `Shuffle` and `Exchange`
put the tokens, statements or blocks of a text into another order.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import ClassVar, cast

import numpy as np

from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.corpora import Item, item_id
from sonde.corpora.engine.parallel import ONE, ItemChunk, ParallelMap
from sonde.languages import get_facet
from sonde.languages.engine.edits import Edits, TextSpan
from sonde.tasks.engine.balance import SHARES, BlockMatcher, split_sizes
from sonde.tasks.engine.sampling import DatasetRequest, Pool, length_class, split_clusters, take_blocks
from sonde.tasks.engine.spans import LabelRequest
from sonde.tasks.engine.surface import faultiness
from sonde.tasks.engine.task import Example, ItemLabels, LabelRow, Repository, SplitExamples

ORIGINAL, FAULT, REPLACED = "ORIG", "FAULT", "REPL"
"""Labels as published: faults of the jumbling tasks are called replaced."""


_DRAWS = 4


Stratum = Hashable


@dataclass(frozen=True, slots=True)
class FaultContext:
    """The context on which a fault may depend besides the function.

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

    A task defines `propose` and, where a fault leaves a trace, `stratum` and `survey`.

    Attributes:
        levelled: Whether faults are also matched by how faulty all their words look together (see
            `sonde.tasks.engine.surface.faultiness`): where a fault takes away what goes with the rest of the
            function, the rest tells. That costs a fault for every function of the pool.
        compiled: Whether a fault is none that a compiler would name: that leaves out faults to which the
            language objects (`sonde.languages.engine.edits`) where it does not object to the function itself.
            Untouched functions are then those as well that such a fault can be put into, so that the choice
            tells no side.
        parsed: Whether a faulty text has to parse.
    """

    version = "2"
    target: ClassVar[str] = "mutation"
    labels: ClassVar[tuple[str, str]] = (ORIGINAL, FAULT)  # pyright: ignore[reportIncompatibleVariableOverride]
    facet: ClassVar[str] = "edits"
    levelled: ClassVar[bool] = False
    compiled: ClassVar[bool] = True
    parsed: ClassVar[bool] = True

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """Count what faults are drawn by, over the pool; empty if nothing is needed."""
        return {}

    @abstractmethod
    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """Return what untouched code shares with the faults that it is matched with; None if none fits."""

    @abstractmethod
    def propose(self, text: str, around: FaultContext, draw: Random) -> Iterator[Fault]:
        """Yield faults for a text, each drawn when it is requested; none without a place."""

    def is_valid(self, changed: str, around: FaultContext) -> bool:
        """Return whether a faulty text is accepted."""
        return not self.parsed or around.edits.parses(changed)

    def fault(self, text: str, around: FaultContext, draw: Random) -> Fault | None:
        """Put the first fault into a text that is taken; None where there is none."""
        proposed = self.propose(text, around, draw)
        return next((fault for fault in proposed if self.is_valid(fault.text, around)), None)

    def compiled_fault(self, text: str, around: FaultContext, draw: Random) -> Fault | None:
        """Put the fault into a text so that a compiler has no more against it than before.

        Several draws are tried; None where none does.
        """
        if not self.compiled:
            return self.fault(text, around, draw)
        edits = around.edits
        before, undefined = edits.count_objections(text), edits.undefined_names(text)
        for _ in range(_DRAWS):
            found = self.fault(text, around, draw)
            if found is None:
                return None
            if (
                not edits.count_objections(found.text) - before
                and edits.undefined_names(found.text) <= undefined
            ):
                return found
        return None

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[LabelRow]:
        """Return one row: ``ORIG`` for code that a fault can be put into, else null.

        A corpus holds code as it was written; faults come with a data set (`sonde.tasks.build`).
        """
        edits = get_facet(item.language, "edits", Edits)
        around = FaultContext(edits, "train", self.survey([item.text], edits))
        draw = Random(derive_seed(self.name, item.item_id))
        label = ORIGINAL if self.stratum(item.text, around, draw) is not None else None
        return [(0, len(item.text), label, None)]


def make_faulty_item(item: Item, text: str, task: str) -> Item:
    """Make the item of a faulty text: same source, cluster and repository, an id of its own."""
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


def replace_words(text: str, *changes: tuple[TextSpan, str]) -> str:
    """Replace words of a text at places that do not overlap."""
    parts: list[str] = []
    position = 0
    for place, word in sorted(changes, key=lambda change: change[0].start):
        parts += [text[position : place.start], word]
        position = place.end
    return "".join([*parts, text[position:]])


def clip_count(number: int, most: int = 4) -> int:
    """Clip a count at ``most``."""
    return min(number, most)


def sample_by_weight(weights: Mapping[str, int], draw: Random) -> str:
    """Draw a word with its count as weight."""
    words = sorted(weights)
    return draw.choices(words, [weights[word] for word in words])[0]


def count_surfaces(places: Sequence[TextSpan]) -> Counter[str]:
    """Count each surface at the places."""
    return Counter(place.surface for place in places)


_SURVEYED = 2_000
"""Functions over which the words are counted that faults put in."""


_BINS = 5


_WIDER = 3
"""Sides differ in length by chance alone, so bins of three quarters of an octave are enough."""


def draw_fault_examples(
    pool: Pool, asked: DatasetRequest, question: LabelRequest, spread: ParallelMap = ONE
) -> SplitExamples:
    """Draw untouched and faulty functions, as many of each, matched by stratum.

    Which side a function is on falls by hash, alike in all tasks, so that tasks share the untouched ones.
    Functions are read in the order of the pool: all of them where faults are levelled, else until there are
    enough.
    """
    task = cast(Mutation, asked.task)
    rule = FaultRule.from_pool(pool, asked, question, split_clusters(pool, asked.seed))
    wanted = split_sizes(asked.size // 2)
    counts: Counter[str] = Counter()
    candidates = _candidates(pool, rule, counts, spread)
    if task.levelled:
        candidates = _add_fault_level(list(candidates))
    matching = {name: BlockMatcher[Example](task.labels) for name in wanted}
    for split, stratum, example in candidates:
        matching[split].add(example.label, stratum, example)
        if all(len(matching[name].blocks) >= size for name, size in wanted.items()):
            break
    blocks = {name: found.blocks for name, found in matching.items()}
    drawn = take_blocks(blocks, asked, 2, counts, "faults with an untouched function to match")
    drawn.report["matched"] = 1.0
    return drawn


Candidate = tuple[str, Hashable, Example]


@dataclass(frozen=True, slots=True)
class FaultRule:
    """The rule by which faults are put into functions; see `FaultContext`.

    Attributes:
        question: The task, as it is asked in any process.
        language: Of the functions.
        survey: What the task counted in the pool.
        splits: The split of each cluster.
        tokens: Code tokens by item id.
    """

    question: LabelRequest
    language: str
    survey: Mapping[str, int]
    splits: Mapping[str, str]
    tokens: Mapping[str, int]

    @classmethod
    def from_pool(
        cls, pool: Pool, asked: DatasetRequest, question: LabelRequest, splits: Mapping[str, str]
    ) -> FaultRule:
        """Build the rule of a pool, whose first functions are surveyed."""
        edits = get_facet(asked.language, "edits", Edits)
        task = cast(Mutation, asked.task)
        survey = task.survey((item.text for item in islice(pool.items, _SURVEYED)), edits)
        return cls(replace(question, repositories={}), asked.language, survey, splits, pool.tokens)

    def restrict(self, items: Sequence[Item]) -> FaultRule:
        """Return the rule with only what some items need."""
        return replace(
            self,
            splits={item.cluster: self.splits[item.cluster] for item in items},
            tokens={item.item_id: self.tokens[item.item_id] for item in items},
        )

    def draws(self, items: Sequence[Item]) -> Iterator[tuple[Item, Mutation, FaultContext, Random]]:
        """Yield each item with the task, the context of its fault, and its random generator."""
        task = cast(Mutation, self.question.load())
        edits = get_facet(self.language, "edits", Edits)
        around = {name: FaultContext(edits, name, self.survey) for name in SHARES}
        for item in items:
            draw = Random(derive_seed(self.question.seed, task.name, item.item_id))
            yield item, task, around[self.splits[item.cluster]], draw


def _candidates(
    pool: Pool, rule: FaultRule, counts: Counter[str], spread: ParallelMap
) -> Iterator[Candidate]:
    """Split, stratum and example of each function that has a place for the fault, in the pool's order."""
    for item, found in spread.map(_examples, rule, pool.items, share=FaultRule.restrict):
        counts["read"] += 1
        if found is None:
            counts["no place for the fault"] += 1
        else:
            yield rule.splits[item.cluster], *found


def _examples(part: ItemChunk[FaultRule, Item]) -> list[tuple[Hashable, Example] | None]:
    """Make the examples of some items; runs in any process."""
    rule = part.rule
    return [
        _example(item, task, around, draw, rule.question.seed, rule.tokens[item.item_id])
        for item, task, around, draw in rule.draws(part.items)
    ]


def _add_fault_level(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates with strata that include how faulty they look, in fifths of all candidates."""
    if not candidates:
        return
    texts = [example.item.text for _, _, example in candidates]
    scores = faultiness(texts, [example.label != ORIGINAL for _, _, example in candidates])
    parts = np.searchsorted(np.quantile(scores, np.linspace(0, 1, _BINS + 1)[1:-1]), scores)
    for (split, stratum, example), part in zip(candidates, parts.tolist(), strict=True):
        yield split, (stratum, part), example


def _example(
    item: Item, task: Mutation, around: FaultContext, draw: Random, seed: int, tokens: int
) -> tuple[Hashable, Example] | None:
    """Make the example of an item with its stratum; None if no fault fits."""
    if unit_hash(seed, "side", item.item_id) < 0.5:
        stratum, label, derived = task.stratum(item.text, around, draw), ORIGINAL, item
        if stratum is None or (task.compiled and task.compiled_fault(item.text, around, draw) is None):
            return None
    else:
        fault = task.compiled_fault(item.text, around, draw)
        if fault is None:
            return None
        stratum, label, derived = fault.stratum, task.labels[1], make_faulty_item(item, fault.text, task.name)
    example = Example(
        item=derived,
        source=item,
        label=label,
        start=0,
        end=len(derived.text),
        tokens=tokens,
        cluster=item.cluster,
    )
    return (stratum, length_class(tokens) // _WIDER), example


_KEYWORD_DRAWS, _PLACES = 16, 4


class KeywordSwitch(Mutation):
    """One keyword replaced by another, so that the code still parses.

    Keywords before the parameters stay: a function begins with few of them, so that any other shows.

    The new keyword is drawn as often as the corpus has it. An untouched function beside the faulty one has
    the same keyword, as often; so no keyword tells the sides apart, be it rare or not.
    """

    facet = "keywords"
    same_category: ClassVar[bool]

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """Count each keyword after a head."""
        return Counter(place.surface for text in texts for place in _behind_head(text, edits))

    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """Return a keyword of the function and how often it has it."""
        places = _behind_head(text, around.edits)
        if not places:
            return None
        word = draw.choice(places).surface
        return word, clip_count(count_surfaces(places)[word])

    def propose(self, text: str, around: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace one keyword."""
        places = _behind_head(text, around.edits)
        categories = {word: name for name, words in around.edits.keywords.items() for word in words}
        for _ in range(_KEYWORD_DRAWS if places and around.survey else 0):
            word = sample_by_weight(around.survey, draw)
            fitting = [
                place
                for place in places
                if place.surface != word and (not self.same_category or place.category == categories[word])
            ]
            for place in draw.sample(fitting, min(_PLACES, len(fitting))):
                changed = replace_words(text, (place, word))
                yield Fault(changed, (word, clip_count(count_surfaces(places)[word] + 1)))


def _behind_head(text: str, edits: Edits) -> tuple[TextSpan, ...]:
    """Return the keywords that may be replaced."""
    head = edits.head(text)
    return tuple(place for place in edits.keyword_spans(text) if place.start >= head)


class Shuffle(Mutation):
    """Base of the tasks whose fault is a share of the tokens shuffled among themselves.

    That a parser answers lies in the fault: a random order of tokens follows no grammar. A bag of tokens is
    blind: both sides hold the same tokens. The variants that parse shuffle larger pieces: ``jst``
    (statements) and ``jbk`` (blocks). INSPECT discarded these tasks, since all models solve them.
    """

    labels = (ORIGINAL, REPLACED)
    version = "1"
    compiled = False
    parsed = False
    share: ClassVar[float]

    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum: the tokens are the same."""
        return () if len({token.surface for token in around.edits.tokens(text)}) > 1 else None

    def propose(self, text: str, around: FaultContext, draw: Random) -> Iterator[Fault]:
        """Shuffle, unless that changes nothing."""
        changed = shuffle_tokens(text, around.edits.tokens(text), self.share, draw)
        if changed is not None:
            yield Fault(changed, ())


class Exchange(Mutation):
    """Base of the tasks whose fault is two stretches of code exchanged.

    Attributes:
        draws: Pairs that are tried.
    """

    draws: ClassVar[int] = 8

    @abstractmethod
    def pairs(self, text: str, edits: Edits) -> Iterator[tuple[TextSpan, TextSpan]]:
        """Yield the spans that may be exchanged."""

    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum: the tokens are the same."""
        return () if any(self.pairs(text, around.edits)) else None

    def propose(self, text: str, around: FaultContext, draw: Random) -> Iterator[Fault]:
        """Exchange one pair; everything else stays in place."""
        pairs = list(self.pairs(text, around.edits))
        for first, second in draw.sample(pairs, min(self.draws, len(pairs))):
            yield Fault(replace_words(text, (first, second.surface), (second, first.surface)), ())


def would_merge(left: str, right: str) -> bool:
    """Return whether two tokens that touch would be read as one."""
    if not left or not right:
        return False
    last, first = left[-1], right[0]
    word = (last.isalnum() or last == "_") and (first.isalnum() or first == "_")
    sign = not (last.isalnum() or last in "_\"'()[]{},;") and not (first.isalnum() or first in "_\"'()[]{},;")
    string = first in "\"'" and (last.isalnum() or last in "_\"'")
    return word or sign or string


def find_neighbours(text: str, tokens: Sequence[TextSpan]) -> Iterator[tuple[TextSpan, TextSpan]]:
    """Yield tokens that follow each other on a line and remain two different tokens when exchanged."""
    for place in range(len(tokens) - 1):
        first, second = tokens[place], tokens[place + 1]
        gap = text[first.end : second.start]
        before = tokens[place - 1] if place else None
        after = tokens[place + 2] if place + 2 < len(tokens) else None
        if first.surface == second.surface or "\n" in gap:
            continue
        if not gap and would_merge(second.surface, first.surface):
            continue
        if before and before.end == first.start and would_merge(before.surface, second.surface):
            continue
        if after and second.end == after.start and would_merge(first.surface, after.surface):
            continue
        yield first, second


def shuffle_tokens(text: str, tokens: Sequence[TextSpan], share: float, draw: Random) -> str | None:
    """Shuffle a share of the tokens among themselves; None if nothing changes.

    A blank parts two tokens that would be read as one.
    """
    moved = sorted(draw.sample(range(len(tokens)), round(share * len(tokens))))
    order = list(moved)
    draw.shuffle(order)
    words = [token.surface for token in tokens]
    for place, origin in zip(moved, order, strict=True):
        words[place] = tokens[origin].surface
    if words == [token.surface for token in tokens]:
        return None
    parts: list[str] = []
    position = 0
    for number, token in enumerate(tokens):
        gap = text[position : token.start]
        if number and not gap and would_merge(words[number - 1], words[number]):
            gap = " "
        parts += [gap, words[number]]
        position = token.end
    return "".join([*parts, text[position:]])
