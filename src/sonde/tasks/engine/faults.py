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
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import ClassVar, cast

import numpy as np

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.corpora import Item, item_id
from sonde.corpora.engine.parallel import ONE, ItemChunk, ParallelMap
from sonde.languages import get_facet
from sonde.languages.engine.edits import Edits, TextSpan
from sonde.tasks.engine.balance import (
    SHARES,
    SMALLEST,
    BlockMatcher,
    assign_splits,
    cluster_weight,
    largest_class_size,
    split_sizes,
)
from sonde.tasks.engine.sampling import DatasetRequest, Pool, length_class
from sonde.tasks.engine.surface import faultiness
from sonde.tasks.engine.task import (
    TASKS,
    Example,
    ItemLabels,
    LabelRow,
    Repository,
    SplitExamples,
    resolve_task,
)

ORIGINAL, FAULT, REPLACED = "ORIG", "FAULT", "REPL"
"""Labels as published: faults of the jumbling tasks are called replaced."""


_DRAWS = 4


Stratum = Hashable


@dataclass(frozen=True, slots=True)
class FaultContext:
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
            `sonde.tasks.engine.surface.faultiness`): where a fault takes away what goes with the rest of the
            function, the rest tells. That costs a fault for every function of the pool.
        compiled: Whether a fault is none that a compiler would name: that leaves out faults to which the
            language objects (`sonde.languages.engine.edits`) where it does not object to the function itself.
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
    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """What untouched code shares with the faults that it is matched with; None where it has no place."""

    @abstractmethod
    def fault(self, text: str, around: FaultContext, draw: Random) -> Fault | None:
        """Put the fault into a text; None where it has no place for it."""

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

    def label_rows(
        self, item: Item, repositories: Mapping[str, Repository], *, mode: str, quirks: AbstractSet[str]
    ) -> list[LabelRow]:
        """Labels that the source gives; else ``ORIG`` for code that a fault can be put into, null for other.

        A corpus holds code as it was written; faults come with a data set (`sonde.tasks.build`).
        """
        given = [one for one in item.given if one.task.lower() == self.name]
        if given:
            return [(one.start, one.end, one.label, None) for one in given]
        edits, asked = get_facet(item.language, "edits", Edits), resolve_task(self, mode, quirks)
        around = FaultContext(edits, "train", asked.survey([item.text], edits))
        draw = Random(derive_seed(self.name, item.item_id))
        label = ORIGINAL if asked.stratum(item.text, around, draw) is not None else None
        return [(0, len(item.text), label, None)]


def make_faulty_item(item: Item, text: str, task: str) -> Item:
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


def replace_words(text: str, *changes: tuple[TextSpan, str]) -> str:
    """A text with other words at places that do not overlap."""
    parts: list[str] = []
    position = 0
    for place, word in sorted(changes, key=lambda change: change[0].start):
        parts += [text[position : place.start], word]
        position = place.end
    return "".join([*parts, text[position:]])


def clip_count(number: int, most: int = 4) -> int:
    """A count that is not told apart from ``most`` on."""
    return min(number, most)


def sample_by_weight(weights: Mapping[str, int], draw: Random) -> str:
    """A word drawn by its count."""
    words = sorted(weights)
    return draw.choices(words, [weights[word] for word in words])[0]


def count_surfaces(places: Sequence[TextSpan]) -> Counter[str]:
    """How often each surface stands at the places."""
    return Counter(place.surface for place in places)


_SURVEYED = 2_000
"""Functions over which the words are counted that faults put in."""


_BINS = 5


_WIDER = 3
"""Sides differ in length by chance alone, so bins of three quarters of an octave are enough."""


def draw_fault_examples(
    pool: Pool, asked: DatasetRequest, name: str, spread: ParallelMap = ONE
) -> SplitExamples:
    """Untouched functions and faulty ones, as many of each and block by block of the same stratum.

    Which side a function is on falls by hash, alike in all tasks, so that tasks share the untouched ones.
    Functions are read in the order of the pool: all of them where faults are levelled, else until there are
    enough.
    """
    task = resolve_task(cast(Mutation, asked.task), asked.mode, asked.quirks)
    sides = assign_splits(_sizes(pool), asked.seed, pool.splits)
    wanted = split_sizes(asked.size // 2)
    counts: Counter[str] = Counter()
    rule = _rule(pool, asked, name, sides)
    candidates = _candidates(pool, rule, counts, spread)
    if task.levelled:
        candidates = _add_fault_level(list(candidates))
    matching = {name: BlockMatcher[Example](task.labels) for name in wanted}
    for split, stratum, example in candidates:
        matching[split].add(example.label, stratum, example)
        if all(len(matching[name].blocks) >= size for name, size in wanted.items()):
            break
    number = largest_class_size({name: len(one.blocks) for name, one in matching.items()}, asked.size // 2)
    if number < SMALLEST:
        scarce = min(matching, key=lambda name: len(matching[name].blocks) / max(wanted[name], 1))
        raise InputError(
            f"task {task.name!r} in {asked.language}: the {scarce} split has "
            f"{len(matching[scarce].blocks)} faults with an untouched function to match, "
            f"of {counts['read']} functions read; draw from more code"
        )
    drawn = SplitExamples(report={**counts, "matched": 1.0})
    for name, size in split_sizes(number).items():
        drawn.rows += [(name, True, one) for block in matching[name].blocks[:size] for one in block]
    return drawn


Candidate = tuple[str, Hashable, Example]


@dataclass(frozen=True, slots=True)
class _FaultRule:
    """How faults are put into functions; see `sonde.tasks.engine.faults.FaultContext`.

    Attributes:
        task: Name or path of the task, as `sonde.tasks.engine.task.TASKS` loads it in any process.
        language: Of the functions.
        mode: ``"corrected"``, or ``"paper"`` for faults as the published data has them.
        quirks: Quirks that are on.
        survey: What the task counted in the pool.
        splits: The split of each cluster.
        tokens: Code tokens by item id.
        seed: Of the draws.
    """

    task: str
    language: str
    mode: str
    quirks: AbstractSet[str]
    survey: Mapping[str, int]
    splits: Mapping[str, str]
    tokens: Mapping[str, int]
    seed: int

    def from_items(self, items: Sequence[Item]) -> _FaultRule:
        """What of it some items need."""
        return replace(
            self,
            splits={item.cluster: self.splits[item.cluster] for item in items},
            tokens={item.item_id: self.tokens[item.item_id] for item in items},
        )


def _rule(pool: Pool, asked: DatasetRequest, name: str, sides: Mapping[str, str]) -> _FaultRule:
    edits = get_facet(asked.language, "edits", Edits)
    task = resolve_task(cast(Mutation, asked.task), asked.mode, asked.quirks)
    survey = task.survey((item.text for item in islice(pool.items, _SURVEYED)), edits)
    return _FaultRule(name, asked.language, asked.mode, asked.quirks, survey, sides, pool.tokens, asked.seed)


def _candidates(
    pool: Pool, rule: _FaultRule, counts: Counter[str], spread: ParallelMap
) -> Iterator[Candidate]:
    """Split, stratum and example of each function that has a place for the fault, in the pool's order."""
    for item, found in spread.map(_examples, rule, pool.items, share=_FaultRule.from_items):
        counts["read"] += 1
        if found is None:
            counts["no place for the fault"] += 1
        else:
            yield rule.splits[item.cluster], *found


def _examples(part: ItemChunk[_FaultRule, Item]) -> list[tuple[Hashable, Example] | None]:
    """The examples of some items; runs in any process."""
    rule = part.rule
    task = resolve_task(cast(Mutation, TASKS.load(rule.task)), rule.mode, rule.quirks)
    edits = get_facet(rule.language, "edits", Edits)
    around = {name: FaultContext(edits, name, rule.survey) for name in SHARES}
    return [
        _example(item, task, around[rule.splits[item.cluster]], rule.seed, rule.tokens[item.item_id])
        for item in part.items
    ]


def _add_fault_level(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """The candidates with strata that say how faulty they look, in fifths of all candidates."""
    if not candidates:
        return
    texts = [example.item.text for _, _, example in candidates]
    scores = faultiness(texts, [example.label != ORIGINAL for _, _, example in candidates])
    parts = np.searchsorted(np.quantile(scores, np.linspace(0, 1, _BINS + 1)[1:-1]), scores)
    for (split, stratum, example), part in zip(candidates, parts.tolist(), strict=True):
        yield split, (stratum, part), example


def _sizes(pool: Pool) -> dict[str, dict[str, int]]:
    sizes = Counter(item.cluster for item in pool.items)
    return {cluster: {ORIGINAL: cluster_weight(size)} for cluster, size in sizes.items()}


def _example(
    item: Item, task: Mutation, around: FaultContext, seed: int, tokens: int
) -> tuple[Hashable, Example] | None:
    """An item on its side with its stratum; None where the fault has no place in it."""
    draw = Random(derive_seed(seed, task.name, item.item_id))
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
        """How often each keyword occurs behind a head."""
        return Counter(place.surface for text in texts for place in _behind_head(text, edits))

    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """A keyword of the function and how often it has it."""
        places = _behind_head(text, around.edits)
        if not places:
            return None
        word = draw.choice(places).surface
        return word, clip_count(count_surfaces(places)[word])

    def fault(self, text: str, around: FaultContext, draw: Random) -> Fault | None:
        """Replace one keyword; None where no draw finds a place."""
        places = _behind_head(text, around.edits)
        if not places:
            return None
        if not around.survey:
            return None
        categories = {word: name for name, words in around.edits.keywords.items() for word in words}
        for _ in range(_KEYWORD_DRAWS):
            word = sample_by_weight(around.survey, draw)
            fitting = [
                place
                for place in places
                if place.surface != word and (not self.same_category or place.category == categories[word])
            ]
            for place in draw.sample(fitting, min(_PLACES, len(fitting))):
                changed = replace_words(text, (place, word))
                if around.edits.parses(changed):
                    return Fault(changed, (word, clip_count(count_surfaces(places)[word] + 1)))
        return None


def _behind_head(text: str, edits: Edits) -> tuple[TextSpan, ...]:
    """The keywords that may be replaced."""
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
    share: ClassVar[float]

    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """Nothing to match: the tokens are the same."""
        return () if len({token.surface for token in around.edits.tokens(text)}) > 1 else None

    def fault(self, text: str, around: FaultContext, draw: Random) -> Fault | None:
        """Shuffle; None where that changes nothing."""
        changed = shuffle_tokens(text, around.edits.tokens(text), self.share, draw)
        return None if changed is None else Fault(changed, ())


class Exchange(Mutation):
    """Base of the tasks whose fault is two stretches of code exchanged so that it still parses.

    Attributes:
        draws: Pairs that are tried.
    """

    draws: ClassVar[int] = 8

    @abstractmethod
    def pairs(self, text: str, edits: Edits) -> Iterator[tuple[TextSpan, TextSpan]]:
        """The stretches that may be exchanged."""

    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """Nothing to match: the tokens are the same."""
        return () if any(self.pairs(text, around.edits)) else None

    def fault(self, text: str, around: FaultContext, draw: Random) -> Fault | None:
        """Exchange one pair; None where no exchange is taken."""
        pairs = list(self.pairs(text, around.edits))
        for first, second in draw.sample(pairs, min(self.draws, len(pairs))):
            changed = exchange_spans(text, first, second)
            if self.is_valid(changed, around):
                return Fault(changed, ())
        return None

    def is_valid(self, changed: str, around: FaultContext) -> bool:
        """Whether an exchange is taken."""
        return around.edits.parses(changed)


def exchange_spans(text: str, first: TextSpan, second: TextSpan) -> str:
    """A text with what stands at two places exchanged; all else stays where it is."""
    return replace_words(text, (first, second.surface), (second, first.surface))


def would_merge(left: str, right: str) -> bool:
    """Whether two tokens that touch would be read as one."""
    if not left or not right:
        return False
    last, first = left[-1], right[0]
    word = (last.isalnum() or last == "_") and (first.isalnum() or first == "_")
    sign = not (last.isalnum() or last in "_\"'()[]{},;") and not (first.isalnum() or first in "_\"'()[]{},;")
    string = first in "\"'" and (last.isalnum() or last in "_\"'")
    return word or sign or string


def find_neighbours(text: str, tokens: Sequence[TextSpan]) -> Iterator[tuple[TextSpan, TextSpan]]:
    """Tokens that follow each other on a line and stay two different tokens when they are exchanged."""
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
    """A share of the tokens put into another order among themselves; None where nothing changes.

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
