"""Drawing the examples of a mutation task: each function on one side, faults beside their like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import cast

import numpy as np

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.corpora import Item
from sonde.corpora._spread import ONE, ItemChunk, Spread
from sonde.languages import facet_of
from sonde.languages._edits import Edits
from sonde.tasks._balance import SHARES, SMALLEST, Matching, deal, largest, split_sizes, weight_in_turns
from sonde.tasks._drawn import DatasetRequest
from sonde.tasks._examples import Example, SplitExamples
from sonde.tasks._mutation import ORIGINAL, Mutation, Surroundings, mutated
from sonde.tasks._pool import Pool, length_class
from sonde.tasks._published import as_asked
from sonde.tasks._words import leaning

_SURVEYED = 2_000
"""Functions over which the words are counted that faults put in."""

_BINS = 5

_WIDER = 3
"""Sides differ in length by chance alone, so bins of three quarters of an octave are enough."""


def draw_mutated(pool: Pool, asked: DatasetRequest, name: str, spread: Spread = ONE) -> SplitExamples:
    """Untouched functions and faulty ones, as many of each and block by block of the same stratum.

    Which side a function is on falls by hash, alike in all tasks, so that tasks share the untouched ones.
    Functions are read in the order of the pool: all of them where faults are levelled, else until there are
    enough.
    """
    task = as_asked(cast(Mutation, asked.task), asked.mode, asked.quirks)
    sides = deal(_sizes(pool), asked.seed, pool.splits)
    wanted = split_sizes(asked.size // 2)
    counts: Counter[str] = Counter()
    rule = _rule(pool, asked, name, sides)
    candidates = _candidates(pool, rule, counts, spread)
    if task.levelled:
        candidates = _levelled(list(candidates))
    matching = {name: Matching[Example](task.labels) for name in wanted}
    for split, stratum, example in candidates:
        matching[split].add(example.label, stratum, example)
        if all(len(matching[name].blocks) >= size for name, size in wanted.items()):
            break
    number = largest({name: len(one.blocks) for name, one in matching.items()}, asked.size // 2)
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
class _Rule:
    """How faults are put into functions; see `sonde.tasks._mutation.Surroundings`.

    Attributes:
        task: Name or path of the task, as `sonde.tasks.TASKS` loads it in any process.
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

    def of(self, items: Sequence[Item]) -> _Rule:
        """What of it some items need."""
        return replace(
            self,
            splits={item.cluster: self.splits[item.cluster] for item in items},
            tokens={item.item_id: self.tokens[item.item_id] for item in items},
        )


def _rule(pool: Pool, asked: DatasetRequest, name: str, sides: Mapping[str, str]) -> _Rule:
    edits = facet_of(asked.language, "edits", Edits)
    task = as_asked(cast(Mutation, asked.task), asked.mode, asked.quirks)
    survey = task.survey((item.text for item in islice(pool.items, _SURVEYED)), edits)
    return _Rule(name, asked.language, asked.mode, asked.quirks, survey, sides, pool.tokens, asked.seed)


def _candidates(pool: Pool, rule: _Rule, counts: Counter[str], spread: Spread) -> Iterator[Candidate]:
    """Split, stratum and example of each function that has a place for the fault, in the pool's order."""
    for item, found in spread.over(_examples, rule, pool.items, share=_Rule.of):
        counts["read"] += 1
        if found is None:
            counts["no place for the fault"] += 1
        else:
            yield rule.splits[item.cluster], *found


def _examples(part: ItemChunk[_Rule, Item]) -> list[tuple[Hashable, Example] | None]:
    """The examples of some items; runs in any process."""
    from sonde.tasks import TASKS

    rule = part.rule
    task = as_asked(cast(Mutation, TASKS.load(rule.task)), rule.mode, rule.quirks)
    edits = facet_of(rule.language, "edits", Edits)
    around = {name: Surroundings(edits, name, rule.survey) for name in SHARES}
    return [
        _example(item, task, around[rule.splits[item.cluster]], rule.seed, rule.tokens[item.item_id])
        for item in part.items
    ]


def _levelled(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """The candidates with strata that say how faulty they look, in fifths of all candidates."""
    if not candidates:
        return
    texts = [example.item.text for _, _, example in candidates]
    scores = leaning(texts, [example.label != ORIGINAL for _, _, example in candidates])
    parts = np.searchsorted(np.quantile(scores, np.linspace(0, 1, _BINS + 1)[1:-1]), scores)
    for (split, stratum, example), part in zip(candidates, parts.tolist(), strict=True):
        yield split, (stratum, part), example


def _sizes(pool: Pool) -> dict[str, dict[str, int]]:
    sizes = Counter(item.cluster for item in pool.items)
    return {cluster: {ORIGINAL: weight_in_turns(size)} for cluster, size in sizes.items()}


def _example(
    item: Item, task: Mutation, around: Surroundings, seed: int, tokens: int
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
        stratum, label, derived = fault.stratum, task.labels[1], mutated(item, fault.text, task.name)
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
