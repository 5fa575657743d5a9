"""Structural probes: distances, depths and whole syntax trees decoded from states (AST-Probe).

The module reads the functions that structural probes are applied to, with the states of their code tokens.
Distances and depths in the syntax trees of whole functions are compared with a chain in which every token is
linked to its neighbours. Whole trees that are reconstructed from states (AST-Probe) are compared with trees
that are predicted without states.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.base.errors import InputError
from sonde.corpora import Item, split
from sonde.languages import LANGUAGES, TOKEN_KINDS, CodeTokens, Tree
from sonde.languages.engine.tree import binarise
from sonde.lenses.engine.lens import ScoringContext
from sonde.lenses.engine.observations import unpack
from sonde.lenses.probe.data import SPAN, is_structural_item
from sonde.lenses.probe.fit import BEST, ResolvedProbeOptions, States
from sonde.results import Score, left_out, mean_rows, trained_rows
from sonde.stats.intervals import Kind
from sonde.stats.verdict import MIN_SEEDS

if TYPE_CHECKING:
    from sonde.training.probes.trees import TreeProbes, TreeText

_AT_ONCE = 128


T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class ParsedFunction:
    """A function whose code parses and whose code tokens all have a state.

    Attributes:
        name: Its id.
        tree: Its tree.
        tokens: Its code tokens.
        states: Their states.
        part: The part that it is in; parts share no cluster.
        cluster: Its cluster.
    """

    name: str
    tree: Tree
    tokens: CodeTokens
    states: Float[np.ndarray, "layer token d_model"]
    part: str
    cluster: str


Functions = Sequence[ParsedFunction]
"""Functions in the order of their ids."""


def list_parts(functions: Functions) -> list[str]:
    """List the part of each function."""
    return [function.part for function in functions]


def select_part(part: str, functions: Functions, values: Sequence[T]) -> list[T]:
    """Select the values of the functions of a part, given one per function."""
    return [value for value, function in zip(values, functions, strict=True) if function.part == part]


def number_tested_clusters(functions: Functions) -> Int[np.ndarray, " tested"]:
    """Return the cluster number of each tested function."""
    clusters = [function.cluster for function in functions if function.part == "test"]
    return np.unique(clusters, return_inverse=True)[1]


def structural_rows(scoring: ScoringContext, options: ResolvedProbeOptions) -> Iterator[Score]:
    """Score both probes of trees, of the model and of models with random weights."""
    template = dataclasses.replace(scoring.template, split="test", pooling=SPAN)
    try:
        functions = parse_functions(scoring.observations, scoring, options.structural)
        yield from score_distances(functions, options, template)
        yield from score_trees(functions, options, template)
        controls: dict[int, Functions] = {}
        for control in scoring.controls:
            seed = control.control.seed
            controls[seed] = parse_functions(control.observations, scoring, options.structural)
            control_template = dataclasses.replace(template, control="random_weights", seed=seed)
            yield from score_distances(controls[seed], options, control_template)
        if controls:
            yield from score_tree_controls(functions, controls, options, template)
    except InputError as error:
        yield left_out(template, str(error))


def parse_functions(
    observations: pl.LazyFrame, scoring: ScoringContext, share: float
) -> list[ParsedFunction]:
    """Parse the functions for structural probes, dealt to parts by cluster.

    Raises:
        InputError: There are none.
    """
    texts = _read(observations, scoring, share)
    facts = scoring.items.filter(pl.col("item_id").is_in(list(texts))).unique("item_id").sort("item_id")
    items = [
        Item(name, "", language, "function", cluster=cluster)
        for name, language, cluster in facts.select("item_id", "language", "cluster").iter_rows()
    ]
    parts = split(items, seed=scoring.template.seed)
    return [
        ParsedFunction(item.item_id, *texts[item.item_id], parts[item.item_id], item.cluster)
        for item in items
    ]


def _read(
    observations: pl.LazyFrame, scoring: ScoringContext, share: float
) -> dict[str, tuple[Tree, CodeTokens, States]]:
    """Read tree, code tokens and states of each function, by id."""
    units: Mapping[str, str] = dict(scoring.items.select("item_id", "unit").iter_rows())
    language = LANGUAGES.load(scoring.template.language)
    parsed: dict[str, tuple[Tree, CodeTokens]] = {}
    for item, text in scoring.texts.select("item_id", "text").collect().unique("item_id").iter_rows():
        tree = language.parse(text)
        tokens = language.tokens(tree)
        # A node around interpolations may be several tokens, of which a tree knows one place only.
        is_whole = not tree.has_error and len(np.unique(tokens.node)) == len(tokens)
        if item in units and is_whole and is_structural_item(item, units[item], len(tokens), share):
            parsed[item] = tree, tokens
    functions: dict[str, tuple[Tree, CodeTokens, States]] = {}
    order = sorted(parsed)
    for begin in range(0, len(order), _AT_ONCE):
        item_batch = order[begin : begin + _AT_ONCE]
        spans = observations.filter((pl.col("pooling") == SPAN) & pl.col("item_id").is_in(item_batch))
        for (item,), rows in spans.collect().partition_by("item_id", as_dict=True).items():
            tree, tokens = parsed[str(item)]
            token_spans = pl.DataFrame({"start": tokens.start, "end": tokens.end}).cast(pl.Int32)
            rows_held = rows.unique(["start", "end"])
            token_rows = token_spans.join(rows_held, on=["start", "end"], how="left", maintain_order="left")
            if not token_rows["states"].null_count():
                scale = np.array(token_rows["scale"].to_list(), dtype=np.float32)
                functions[str(item)] = tree, tokens, unpack(token_rows["states"].to_list(), scale)
    if not functions:
        raise InputError(
            "structural probe: no function is short enough and has every token; raise structural"
        )
    return functions


TASK = "whole_trees"
"""The task column of these rows."""


RANK = "rank"
"""Dimension of scores: directions of the subspace that a tree is read from."""


_NAMED = frozenset({"identifier", "literal", "comment"})
"""Kinds of tokens whose spelling is one of many."""


def score_trees(functions: Functions, options: ResolvedProbeOptions, template: Score) -> Iterator[Score]:
    """Score constituents by layer and rank, the best of them, and the controls.

    Layer and rank are chosen by F1 on validation; the best one's numbers are means over several trainings.

    Raises:
        InputError: Too few functions.
    """
    from sonde.training.probes.trees import CEILING, MEASURES, measure_tree_controls

    template = dataclasses.replace(template, task=TASK)
    texts, clusters = _texts(functions), number_tested_clusters(functions)
    probes = _by_rank(texts, functions, options)
    for rank_probes in probes:
        for index, metric in enumerate(MEASURES):
            fields = [
                {"layer": layer, "dimensions": _rank(rank_probes)}
                for layer in range(len(rank_probes.valid_f1))
            ]
            metric_template = dataclasses.replace(template, metric=metric)
            yield from mean_rows(metric_template, rank_probes.test[index], clusters, fields, "unit")
    best, layer = _best(probes)
    seeds = _seeds(texts, functions, options, best, layer)
    best_fields = {"layer": layer, "dimensions": (BEST, *_rank(best)), "seeds": len(seeds)}
    train, valid, test = (select_part(part, functions, texts) for part in ("train", "valid", "test"))
    control_measures = measure_tree_controls(train, [*valid, *test])
    on_valid = {
        name: rows[: len(valid)].mean(axis=0) for name, rows in control_measures.items() if name != CEILING
    }
    test_measures = {name: rows[len(valid) :] for name, rows in control_measures.items()}
    for index, metric in enumerate(MEASURES):
        metric_template = dataclasses.replace(template, metric=metric, **best_fields)
        yield from trained_rows(metric_template, seeds[:, index], clusters)
        for name, rows in test_measures.items():
            control = dataclasses.replace(template, metric=metric, control=name).within(BEST)
            yield from mean_rows(control, rows[None, :, index], clusters, kind="unit")
        # Chosen on validation, as layer and rank are.
        best_control = max(on_valid, key=lambda name: (on_valid[name][index], name))
        gain = dataclasses.replace(metric_template, metric=f"{metric}_gain", control=best_control)
        yield from trained_rows(
            gain, seeds[:, index], clusters, baseline=test_measures[best_control][:, index]
        )


def score_tree_controls(
    functions: Functions,
    controls: Mapping[int, Functions],
    options: ResolvedProbeOptions,
    template: Score,
) -> Iterator[Score]:
    """Score the model against models with random weights, trained on what these have read.

    Args:
        functions: The functions that the model has read.
        controls: Those of each model with random weights, by its seed.
        options: Options of the lens.
        template: What the scores share.

    Raises:
        InputError: Too few functions.
    """
    from sonde.training.probes.trees import MEASURES

    template = dataclasses.replace(template, task=TASK)
    names = {function.name for function in next(iter(controls.values()))}
    shared = [function for function in functions if function.name in names]
    clusters = number_tested_clusters(shared)
    share = ("share", f"{options.random_weights_share:g}")
    best_probes, layer = _best(_by_rank(_texts(shared), shared, options))
    best_template = dataclasses.replace(template, layer=layer, dimensions=(BEST, *_rank(best_probes), share))
    control_results: list[np.ndarray] = []
    for seed, untrained in controls.items():
        states = {function.name: function.states for function in untrained}
        read = [dataclasses.replace(function, states=states[function.name]) for function in shared]
        control_probes, control_layer = _best(_by_rank(_texts(read), read, options))
        control_results.append(control_probes.test[:, control_layer])
        control = dataclasses.replace(template, control="random_weights", seed=seed, layer=control_layer)
        for index, metric in enumerate(MEASURES):
            row = dataclasses.replace(
                control, metric=metric, dimensions=(BEST, *_rank(control_probes), share)
            )
            yield from mean_rows(row, control_results[-1][index][None], clusters, kind="unit")
    for index, metric in enumerate(MEASURES):
        measures = best_probes.test[index, layer]
        yield from mean_rows(
            dataclasses.replace(best_template, metric=metric), measures[None], clusters, kind="unit"
        )
        gain = dataclasses.replace(best_template, metric=f"{metric}_gain", control="random_weights")
        yield from trained_rows(
            gain, measures, clusters, baseline=np.stack([results[index] for results in control_results])
        )


def _rank(probes: TreeProbes) -> tuple[tuple[str, str]]:
    return ((RANK, str(probes.rank)),)


def _texts(functions: Functions) -> list[TreeText]:
    from sonde.training.probes.trees import TreeText

    return [
        TreeText(function.states, _words(function), binarise(function.tree, function.tokens))
        for function in functions
    ]


def _words(function: ParsedFunction) -> tuple[str, ...]:
    """Return the word of each token: the kind of names and literals, else its characters."""
    tokens = function.tokens
    token_spans = zip(tokens.start.tolist(), tokens.end.tolist(), tokens.kind.tolist(), strict=True)
    return tuple(
        TOKEN_KINDS[kind] if TOKEN_KINDS[kind] in _NAMED else function.tree.text[start:end]
        for start, end, kind in token_spans
    )


def _by_rank(
    texts: Sequence[TreeText], functions: Functions, options: ResolvedProbeOptions
) -> list[TreeProbes]:
    """Probes of each rank that was asked for, as far as states are wide."""
    from sonde.training.probes.trees import probe_trees

    width = texts[0].states.shape[2]
    ranks, parts = sorted({min(rank, width) for rank in options.tree_ranks}), list_parts(functions)
    return [probe_trees(texts, parts, rank=rank, device=options.device) for rank in ranks]


def _best(probes: Sequence[TreeProbes]) -> tuple[TreeProbes, int]:
    """Rank and layer with the greatest F1 on validation; of equal ones the smallest."""
    best = max(probes, key=lambda rank_probes: rank_probes.valid_f1.max())
    return best, int(best.valid_f1.argmax())


def _seeds(
    texts: Sequence[TreeText],
    functions: Functions,
    options: ResolvedProbeOptions,
    best: TreeProbes,
    layer: int,
) -> np.ndarray:
    """Measures of the test functions by the chosen layer and rank, one row per training."""
    from sonde.training.probes.trees import probe_trees

    layer_texts = [dataclasses.replace(text, states=text.states[layer : layer + 1]) for text in texts]
    parts = list_parts(functions)
    further_measures = [
        probe_trees(layer_texts, parts, rank=best.rank, seed=seed, device=options.device).test[:, 0]
        for seed in range(1, max(options.seeds, MIN_SEEDS))
    ]
    return np.stack([best.test[:, layer], *further_measures])


SYNTAX_TREE = "syntax_tree"
"""The task column of these rows."""


NEIGHBOURS, CEILING = "neighbours", "gold_distances"
"""Controls: a chain of neighbours, and the tree's own distances and depths, above which nothing can come."""


METRICS = ("distance_spearman", "uuas", "depth_spearman")


def score_distances(functions: Functions, options: ResolvedProbeOptions, template: Score) -> Iterator[Score]:
    """Rank correlations of distances and depths, and the share of links found, of every layer.

    Raises:
        InputError: Too few functions.
    """
    from sonde.training.probes.structural import Sentence, compare_distances, measure_tree, probe_structure

    template = dataclasses.replace(template, task=SYNTAX_TREE)
    texts = [
        Sentence(function.states, *measure_tree(function.tree.parent, function.tokens.node))
        for function in functions
    ]
    result = probe_structure(texts, list_parts(functions), device=options.device)
    clusters = number_tested_clusters(functions)
    controls: dict[str, list[tuple[float, float, float]]] = {NEIGHBOURS: [], CEILING: []}
    for text in select_part("test", functions, texts) if template.control is None else ():
        index = np.arange(len(text.depth), dtype=np.float64)
        trees = {
            NEIGHBOURS: (np.abs(index[:, None] - index), index),
            CEILING: (text.distance.astype(np.float64), text.depth.astype(np.float64)),
        }
        for name, (distance, depth) in trees.items():
            controls[name].append(compare_distances(distance, depth, text))
    for column, metric in enumerate(METRICS):
        values = getattr(result, metric)
        metric_template = dataclasses.replace(template, metric=metric)
        kind: Kind = "unit" if metric == "uuas" else "correlation"
        layers = [{"layer": layer} for layer in range(len(values))]
        yield from mean_rows(metric_template, values, clusters, layers, kind)
        best = [{"layer": result.best, "dimensions": (BEST,)}]
        yield from mean_rows(metric_template, values[[result.best]], clusters, best, kind)
        for name, measures in controls.items() if template.control is None else ():
            control = dataclasses.replace(metric_template, control=name, dimensions=(BEST,))
            yield from mean_rows(control, np.array(measures)[None, :, column], clusters, kind=kind)
