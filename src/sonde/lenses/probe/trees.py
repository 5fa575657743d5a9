"""Whole syntax trees given back from states (AST-Probe), beside trees that are told without them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sonde.languages import TOKEN_KINDS
from sonde.languages._binary import binarise
from sonde.lenses.probe.fit import BEST
from sonde.lenses.probe.options import Probing
from sonde.lenses.probe.parsed import Functions, ParsedFunction
from sonde.results import Score, mean_rows, trained_rows
from sonde.results.verdict import ENOUGH_SEEDS

if TYPE_CHECKING:
    from sonde.training.probes.trees import Trees, TreeText

TASK = "whole_trees"
"""The task column of these rows."""

RANK = "rank"
"""Dimension of scores: directions of the subspace that a tree is read from."""

_NAMED = frozenset({"identifier", "literal", "comment"})
"""Kinds of tokens whose spelling is one of many."""


def trees(functions: Functions, options: Probing, template: Score) -> Iterator[Score]:
    """Precision, recall and F1 of constituents by layer and rank, the best of them, and the controls.

    Layer and rank are chosen by F1 on validation; the best one's numbers are means over several trainings.

    Raises:
        InputError: Too few functions.
    """
    from sonde.training.probes.tree_controls import CEILING, without_states
    from sonde.training.probes.trees import MEASURES

    template = dataclasses.replace(template, task=TASK)
    texts = _texts(functions.texts)
    clusters = functions.tested_clusters
    found = _by_rank(texts, functions, options)
    for one in found:
        for at, metric in enumerate(MEASURES):
            fields = [{"layer": layer, "dimensions": _rank(one)} for layer in range(len(one.valid_f1))]
            own = dataclasses.replace(template, metric=metric)
            yield from mean_rows(own, one.test[at], clusters, fields, "unit")
    best, layer = _best(found)
    seeds = _seeds(texts, functions, options, best, layer)
    chosen = {"layer": layer, "dimensions": (BEST, *_rank(best)), "seeds": len(seeds)}
    valid = functions.of("valid", texts)
    said = without_states(functions.of("train", texts), [*valid, *functions.tested(texts)])
    on_valid = {name: rows[: len(valid)].mean(axis=0) for name, rows in said.items() if name != CEILING}
    told = {name: rows[len(valid) :] for name, rows in said.items()}
    for at, metric in enumerate(MEASURES):
        own = dataclasses.replace(template, metric=metric, **chosen)
        yield from trained_rows(own, seeds[:, at], clusters)
        for name, rows in told.items():
            control = dataclasses.replace(template, metric=metric, control=name).within(BEST)
            yield from mean_rows(control, rows[None, :, at], clusters, kind="unit")
        # Chosen on validation, as layer and rank are.
        nearest = max(on_valid, key=lambda name: (on_valid[name][at], name))
        gain = dataclasses.replace(own, metric=f"{metric}_gain", control=nearest)
        yield from trained_rows(gain, seeds[:, at], clusters, less=told[nearest][:, at])


def trees_beside(
    functions: Functions, controls: Sequence[tuple[int, Functions]], options: Probing, template: Score
) -> Iterator[Score]:
    """The model against models with random weights, all trained and tested on what these have read.

    Raises:
        InputError: Too few functions.
    """
    from sonde.training.probes.trees import MEASURES

    if not controls:
        return
    template = dataclasses.replace(template, task=TASK)
    some = functions.only(controls[0][1].names)
    clusters = some.tested_clusters
    share = ("share", f"{options.random_weights_share:g}")
    found, layer = _best(_by_rank(_texts(some.texts), some, options))
    own = dataclasses.replace(template, layer=layer, dimensions=(BEST, *_rank(found), share))
    others: list[np.ndarray] = []
    for seed, untrained in controls:
        read = dataclasses.replace(some, texts=untrained.only(some.names).texts)
        other, at = _best(_by_rank(_texts(read.texts), read, options))
        others.append(other.test[:, at])
        control = dataclasses.replace(template, control="random_weights", seed=seed, layer=at)
        for place, metric in enumerate(MEASURES):
            row = dataclasses.replace(control, metric=metric, dimensions=(BEST, *_rank(other), share))
            yield from mean_rows(row, others[-1][place][None], clusters, kind="unit")
    for place, metric in enumerate(MEASURES):
        mine = found.test[place, layer]
        yield from mean_rows(dataclasses.replace(own, metric=metric), mine[None], clusters, kind="unit")
        gain = dataclasses.replace(own, metric=f"{metric}_gain", control="random_weights")
        yield from trained_rows(gain, mine, clusters, less=np.stack([other[place] for other in others]))


def _rank(found: Trees) -> tuple[tuple[str, str]]:
    return ((RANK, str(found.rank)),)


def _texts(functions: Sequence[ParsedFunction]) -> list[TreeText]:
    from sonde.training.probes.trees import TreeText

    return [TreeText(one.states, _words(one), binarise(one.tree, one.tokens)) for one in functions]


def _words(function: ParsedFunction) -> tuple[str, ...]:
    """What each token looks like: the kind of names, literals and comments, the characters of all others."""
    tokens = function.tokens
    places = zip(tokens.start.tolist(), tokens.end.tolist(), tokens.kind.tolist(), strict=True)
    return tuple(
        TOKEN_KINDS[kind] if TOKEN_KINDS[kind] in _NAMED else function.tree.text[start:end]
        for start, end, kind in places
    )


def _by_rank(texts: Sequence[TreeText], functions: Functions, options: Probing) -> list[Trees]:
    """Probes of each rank that was asked for, as far as states are wide."""
    from sonde.training.probes.trees import probe_trees

    width = texts[0].states.shape[2]
    ranks = sorted({min(rank, width) for rank in options.tree_ranks})
    return [probe_trees(texts, functions.split, rank=rank, device=options.device) for rank in ranks]


def _best(found: Sequence[Trees]) -> tuple[Trees, int]:
    """Rank and layer with the greatest F1 on validation; of equal ones the smallest."""
    best = max(found, key=lambda one: one.valid_f1.max())
    return best, int(best.valid_f1.argmax())


def _seeds(
    texts: Sequence[TreeText], functions: Functions, options: Probing, best: Trees, layer: int
) -> np.ndarray:
    """Measures of the test functions by the chosen layer and rank, a row a training."""
    from sonde.training.probes.trees import probe_trees

    only = [dataclasses.replace(text, states=text.states[layer : layer + 1]) for text in texts]
    others = [
        probe_trees(only, functions.split, rank=best.rank, seed=seed, device=options.device).test[:, 0]
        for seed in range(1, max(options.seeds, ENOUGH_SEEDS))
    ]
    return np.stack([best.test[:, layer], *others])
