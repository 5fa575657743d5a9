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
from sonde.languages.engine.edits import Edits, TextSpan, replace_spans
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
        matches_fault_level: Whether faults are also matched by how faulty all their words look together (see
            `sonde.tasks.engine.surface.faultiness`): where a fault takes away what goes with the rest of the
            function, the rest tells. That costs a fault for every function of the pool.
        must_compile: Whether a fault is none that a compiler would name: that leaves out faults to which the
            language objects (`sonde.languages.engine.edits`) where it does not object to the function itself.
            Untouched functions are then those as well that such a fault can be put into, so that the choice
            tells no side.
        must_parse: Whether a faulty text has to parse.
    """

    version = "2"
    target: ClassVar[str] = "mutation"
    labels: ClassVar[tuple[str, str]] = (ORIGINAL, FAULT)  # pyright: ignore[reportIncompatibleVariableOverride]
    facet: ClassVar[str] = "edits"
    matches_fault_level: ClassVar[bool] = False
    must_compile: ClassVar[bool] = True
    must_parse: ClassVar[bool] = True

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """Count what faults are drawn by, over the pool; empty if nothing is needed."""
        return {}

    @abstractmethod
    def stratum(self, text: str, context: FaultContext, draw: Random) -> Stratum | None:
        """Return what untouched code shares with the faults that it is matched with; None if none fits."""

    @abstractmethod
    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Yield faults for a text, each drawn when it is requested; none without a place."""

    def is_valid(self, changed_text: str, context: FaultContext) -> bool:
        """Return whether a faulty text is accepted."""
        return not self.must_parse or context.edits.parses(changed_text)

    def fault(self, text: str, context: FaultContext, draw: Random) -> Fault | None:
        """Put the first fault into a text that is taken; None where there is none."""
        faults = self.propose(text, context, draw)
        return next((fault for fault in faults if self.is_valid(fault.text, context)), None)

    def compiled_fault(self, text: str, context: FaultContext, draw: Random) -> Fault | None:
        """Put the fault into a text so that a compiler has no more against it than before.

        Several draws are tried; None where none does.
        """
        if not self.must_compile:
            return self.fault(text, context, draw)
        edits = context.edits
        objection_count, undefined_names = edits.count_objections(text), edits.undefined_names(text)
        for _ in range(_DRAWS):
            fault = self.fault(text, context, draw)
            if fault is None:
                return None
            if (
                not edits.count_objections(fault.text) - objection_count
                and edits.undefined_names(fault.text) <= undefined_names
            ):
                return fault
        return None

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[LabelRow]:
        """Return one row: ``ORIG`` for code that a fault can be put into, else null.

        A corpus holds code as it was written; faults come with a data set (`sonde.tasks.build`).
        """
        edits = get_facet(item.language, "edits", Edits)
        context = FaultContext(edits, "train", self.survey([item.text], edits))
        draw = Random(derive_seed(self.name, item.item_id))
        label = ORIGINAL if self.stratum(item.text, context, draw) is not None else None
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


def sample_by_weight(weights: Mapping[str, int], draw: Random) -> str:
    """Draw a word with its count as weight."""
    words = sorted(weights)
    return draw.choices(words, [weights[word] for word in words])[0]


def count_surfaces(spans: Sequence[TextSpan]) -> Counter[str]:
    """Count each surface at the places."""
    return Counter(span.surface for span in spans)


_SURVEY_SIZE = 2_000
"""Functions over which the words are counted that faults put in."""


_BINS = 5


_WIDER = 3
"""Sides differ in length by chance alone, so bins of three quarters of an octave are enough."""


def draw_fault_examples(
    pool: Pool, request: DatasetRequest, question: LabelRequest, parallel: ParallelMap = ONE
) -> SplitExamples:
    """Draw untouched and faulty functions, as many of each, matched by stratum.

    Which side a function is on falls by hash, alike in all tasks, so that tasks share the untouched ones.
    Functions are read in the order of the pool: all of them where faults are levelled, else until there are
    enough.
    """
    task = cast(Mutation, request.task)
    rule = FaultRule.from_pool(pool, request, question, split_clusters(pool, request.seed))
    sizes = split_sizes(request.size // 2)
    counts: Counter[str] = Counter()
    candidates = _candidates(pool, rule, counts, parallel)
    if task.matches_fault_level:
        candidates = _add_fault_level(list(candidates))
    matchers = {name: BlockMatcher[Example](task.labels) for name in sizes}
    for split, stratum, example in candidates:
        matchers[split].add(example.label, stratum, example)
        if all(len(matchers[name].blocks) >= size for name, size in sizes.items()):
            break
    blocks = {name: matcher.blocks for name, matcher in matchers.items()}
    sample = take_blocks(blocks, request, 2, counts, "faults with an untouched function to match")
    sample.report["matched"] = 1.0
    return sample


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
        cls, pool: Pool, request: DatasetRequest, question: LabelRequest, splits: Mapping[str, str]
    ) -> FaultRule:
        """Build the rule of a pool, whose first functions are surveyed."""
        edits = get_facet(request.language, "edits", Edits)
        task = cast(Mutation, request.task)
        survey = task.survey((item.text for item in islice(pool.items, _SURVEY_SIZE)), edits)
        return cls(replace(question, repositories={}), request.language, survey, splits, pool.tokens)

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
        contexts = {name: FaultContext(edits, name, self.survey) for name in SHARES}
        for item in items:
            draw = Random(derive_seed(self.question.seed, task.name, item.item_id))
            yield item, task, contexts[self.splits[item.cluster]], draw


def _candidates(
    pool: Pool, rule: FaultRule, counts: Counter[str], parallel: ParallelMap
) -> Iterator[Candidate]:
    """Split, stratum and example of each function that has a place for the fault, in the pool's order."""
    for item, result in parallel.map(_examples, rule, pool.items, share=FaultRule.restrict):
        counts["read"] += 1
        if result is None:
            counts["no place for the fault"] += 1
        else:
            yield rule.splits[item.cluster], *result


def _examples(part: ItemChunk[FaultRule, Item]) -> list[tuple[Hashable, Example] | None]:
    """Make the examples of some items; runs in any process."""
    rule = part.rule
    return [
        _example(item, task, context, draw, rule.question.seed, rule.tokens[item.item_id])
        for item, task, context, draw in rule.draws(part.items)
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
    item: Item, task: Mutation, context: FaultContext, draw: Random, seed: int, tokens: int
) -> tuple[Hashable, Example] | None:
    """Make the example of an item with its stratum; None if no fault fits."""
    if unit_hash(seed, "side", item.item_id) < 0.5:
        stratum, label, example_item = task.stratum(item.text, context, draw), ORIGINAL, item
        if stratum is None or (task.must_compile and task.compiled_fault(item.text, context, draw) is None):
            return None
    else:
        fault = task.compiled_fault(item.text, context, draw)
        if fault is None:
            return None
        stratum, label, example_item = (
            fault.stratum,
            task.labels[1],
            make_faulty_item(item, fault.text, task.name),
        )
    example = Example(
        item=example_item,
        source=item,
        label=label,
        start=0,
        end=len(example_item.text),
        tokens=tokens,
        cluster=item.cluster,
    )
    return (stratum, length_class(tokens) // _WIDER), example


_KEYWORD_DRAWS, _SPANS_PER_DRAW = 16, 4


_MOST_COUNTED = 4
"""A keyword that stands there more often is not told apart."""


class KeywordSwitch(Mutation):
    """One keyword replaced by another, so that the code still parses.

    Keywords before the parameters stay: a function begins with few of them, so that any other shows.

    The new keyword is drawn as often as the corpus has it. The unchanged function that matches the faulty one
    has the same keyword, as often; so no keyword tells the sides apart, be it rare or not.
    """

    facet = "keywords"
    same_category: ClassVar[bool]

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """Count each keyword after a head."""
        return Counter(span.surface for text in texts for span in _behind_head(text, edits))

    def stratum(self, text: str, context: FaultContext, draw: Random) -> Stratum | None:
        """Return a keyword of the function and how often it has it."""
        spans = _behind_head(text, context.edits)
        if not spans:
            return None
        word = draw.choice(spans).surface
        return word, min(count_surfaces(spans)[word], _MOST_COUNTED)

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace one keyword."""
        spans = _behind_head(text, context.edits)
        categories = {word: name for name, words in context.edits.keywords.items() for word in words}
        for _ in range(_KEYWORD_DRAWS if spans and context.survey else 0):
            word = sample_by_weight(context.survey, draw)
            candidates = [
                span
                for span in spans
                if span.surface != word and (not self.same_category or span.category == categories[word])
            ]
            for span in draw.sample(candidates, min(_SPANS_PER_DRAW, len(candidates))):
                changed_text = replace_spans(text, (span, word))
                yield Fault(changed_text, (word, min(count_surfaces(spans)[word] + 1, _MOST_COUNTED)))


def _behind_head(text: str, edits: Edits) -> tuple[TextSpan, ...]:
    """Return the keywords that may be replaced."""
    head = edits.head(text)
    return tuple(span for span in edits.keyword_spans(text) if span.start >= head)


class Shuffle(Mutation):
    """Base of the tasks whose fault is a share of the tokens shuffled among themselves.

    That a parser answers lies in the fault: a random order of tokens follows no grammar. A bag of tokens is
    blind: both sides hold the same tokens. The variants that parse shuffle larger pieces: ``jst``
    (statements) and ``jbk`` (blocks). INSPECT discarded these tasks, since all models solve them.
    """

    labels = (ORIGINAL, REPLACED)
    version = "1"
    must_compile = False
    must_parse = False
    share: ClassVar[float]

    def stratum(self, text: str, context: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum: the tokens are the same."""
        return () if len({token.surface for token in context.edits.tokens(text)}) > 1 else None

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Shuffle, unless that changes nothing."""
        changed_text = shuffle_tokens(text, context.edits.tokens(text), self.share, draw)
        if changed_text is not None:
            yield Fault(changed_text, ())


class Exchange(Mutation):
    """Base of the tasks whose fault is two stretches of code exchanged.

    Attributes:
        draws: Pairs that are tried.
    """

    draws: ClassVar[int] = 8

    @abstractmethod
    def pairs(self, text: str, edits: Edits) -> Iterator[tuple[TextSpan, TextSpan]]:
        """Yield the spans that may be exchanged."""

    def stratum(self, text: str, context: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum: the tokens are the same."""
        return () if any(self.pairs(text, context.edits)) else None

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Exchange one pair; everything else stays in place."""
        pairs = list(self.pairs(text, context.edits))
        for first, second in draw.sample(pairs, min(self.draws, len(pairs))):
            yield Fault(replace_spans(text, (first, second.surface), (second, first.surface)), ())


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
    for index in range(len(tokens) - 1):
        first, second = tokens[index], tokens[index + 1]
        gap = text[first.end : second.start]
        previous_token = tokens[index - 1] if index else None
        next_token = tokens[index + 2] if index + 2 < len(tokens) else None
        if first.surface == second.surface or "\n" in gap:
            continue
        if not gap and would_merge(second.surface, first.surface):
            continue
        if (
            previous_token
            and previous_token.end == first.start
            and would_merge(previous_token.surface, second.surface)
        ):
            continue
        if next_token and second.end == next_token.start and would_merge(first.surface, next_token.surface):
            continue
        yield first, second


def shuffle_tokens(text: str, tokens: Sequence[TextSpan], share: float, draw: Random) -> str | None:
    """Shuffle a share of the tokens among themselves; None if nothing changes.

    A space separates two tokens that would be read as one.
    """
    indices = sorted(draw.sample(range(len(tokens)), round(share * len(tokens))))
    order = list(indices)
    draw.shuffle(order)
    words = [token.surface for token in tokens]
    for index, origin in zip(indices, order, strict=True):
        words[index] = tokens[origin].surface
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
