"""Finds the heads that follow each syntactic relation, against attention-free baselines (CodeSyntax).

One forward pass per item gives, for every edge and head, the rank of the dependent among all words by the
attention of the head word. The best head of each relation is chosen on validation and scored on test. It is
compared with one head for all relations, fixed offsets, keywords, the better of these two, the longest word,
chance, and a model with random weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence, Set

import polars as pl

from sonde.base.fingerprint import fingerprint
from sonde.base.options import Option
from sonde.capture.requests import Pass, Plain, Prepared, WordAttention, WordLookups
from sonde.corpora import Item, split
from sonde.languages import get_facet, has_facet
from sonde.languages.engine.relations import Relations
from sonde.lenses.attention import errors
from sonde.lenses.attention.errors import is_snippet, label_relations, read_snippet
from sonde.lenses.attention.observe import (
    AVERAGED,
    FACET,
    LENS,
    TASK,
    AttentionOptions,
    find_word_subwords,
    get_rank_rules,
    observe_items,
    read_item,
)
from sonde.lenses.attention.predictors import (
    HEAD_CHOICE,
    HeadSelection,
    cluster_names,
    collect_hits,
    get_item_clusters,
    predict_chance,
    predict_keywords,
    predict_longest,
    predict_offsets,
    select_better_predictor,
    select_heads,
)
from sonde.lenses.attention.score import (
    BY_HEAD,
    FOLLOWED,
    HEADS,
    StackPredictions,
    all_scores,
    gains,
    group_by_stack,
    head_map,
    head_relations,
    offset_scores,
    sink_scores,
)
from sonde.lenses.engine.lens import CapturedItem, Control, LensSettings, ReadingLens, ScoringContext
from sonde.models import Capabilities
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import has_dimensions
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score

NEEDS = ("encoder", "decoder", "encoder-decoder")

SYNONYMS = ("attention heads", "attention maps")

FLAGS = {"--snippet": "snippet"}

FRACTIONS = (0.0, 0.3, 0.7)
"""Shares of training, validation and test; nothing is trained."""

UNSHARED = "not read by every model of the run"


class AttentionLens(ReadingLens):
    """The attention lens."""

    name = LENS
    version = "6"
    typed_options = AttentionOptions
    tasks = (TASK,)
    reads_attention = True
    savings = "--option attention.random_weights_share=0"
    headline = HeadlineMetric(
        subject="Attention heads",
        measure="relations found at the first try",
        metrics=("first_hit",),
        where=has_dimensions({}) & (pl.col("split") == "test") & (pl.col("k") == 1),
        controls={
            "offset": "a fixed-distance rule",
            "keyword": "a keyword rule",
            "combined": "the better of a fixed-distance and a keyword rule",
            "longest": "the longest word",
            "chance": "chance",
            "random_weights": "heads with random weights",
        },
    )
    comparable_metrics = (
        ComparableMetric(metric="first_hit", direction="higher", k=1, without=(FOLLOWED, BY_HEAD)),
    )

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Return why a model cannot be read: it shows no attention weights."""
        if capabilities.attention in ("interface", "eager"):
            return None
        return (
            "lens 'attention' needs attention weights, but this model returns none; use a model whose "
            "attention transformers can return, for example sonde/mini-encoder"
        )

    def resolve_options(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, Option]:
        """Return the options, after refusing a snippet that cannot be drawn."""
        read_snippet(options)
        return options

    def controls(self, settings: LensSettings) -> tuple[Control, ...]:
        """Return one model with random weights, over a share of the items."""
        share = AttentionOptions.read(settings.options).random_weights_share
        return (Control(settings.seed, share),) if share and not settings.stage else ()

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """Return the items with a relation, those that do not parse, and a snippet after them."""
        labelled_ids = set(labels[TASK]["item_id"].unique().to_list())
        items_read = [item for item in items if item.item_id in labelled_ids]
        snippet = read_snippet(settings.options)
        if snippet is None or not items_read or snippet.language != items_read[0].language:
            return items_read
        label_relations(snippet, settings)
        return [*items_read, snippet]

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Request one plain pass that looks up the items' edges."""
        rules = get_rank_rules(settings)
        examples = labels[TASK].filter(pl.col("label").is_not_null())
        by_item = examples.partition_by("item_id", as_dict=True)
        lookups: dict[str, WordLookups] = {}
        for item in prepared:
            rows = by_item.get((item.item.item_id,))
            if settings.stage and is_snippet(item.item.item_id):
                rows = label_relations(item.item, settings)
            if rows is None or (settings.stage and not errors.is_input(item.item.item_id, settings)):
                continue
            words, edges = read_item(item.item, rows, settings)
            heads = errors.sample_heads(item.item, len(words), rows, settings)
            first, stop = find_word_subwords(words, item.alignment.subwords)
            lookups[item.item.item_id] = WordLookups(
                first, stop, words.candidate, edges.bidirectional_lookups, edges.causal_lookups, rules, heads
            )
        return (Pass(Plain(), (WordAttention(lookups),)),)

    def observe(
        self,
        observed: Sequence[CapturedItem],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """Build one row per item, relation and side; in the second stage one per edge."""
        if settings.stage:
            return errors.observe_items(observed, labels[TASK], settings)
        return observe_items(observed, labels[TASK], settings)

    def score(self, scoring: ScoringContext) -> list[Score]:
        """Score every table of the lens, each number with its interval."""
        template = dataclasses.replace(scoring.template, task=TASK, split="test")
        settings, splits = scoring.settings, assign_item_splits(scoring)
        clusters = get_item_clusters(scoring.items)
        if settings.stage:
            test = [item for item, side in splits.items() if side == "test"]
            template = dataclasses.replace(template, item_set=_hash_item_set(scoring.observations, test))
            return errors.score_errors(scoring.observations, template, test, clusters)
        choice = HEAD_CHOICE.resolve(settings, HeadSelection())
        language = scoring.template.language
        facet = get_facet(language, FACET, Relations) if has_facet(language, FACET) else None
        names = facet.keywords if facet else ()
        items_of_all = _read_by_all(scoring.beside)
        if items_of_all is not None:
            splits = {item: side for item, side in splits.items() if item in items_of_all}
        read = scoring.observations.filter(pl.col("dropped") == "")
        template = dataclasses.replace(template, item_set=_hash_item_set(read, splits))
        scores = [*_counts(scoring.observations, template, items_of_all, clusters)]
        scores += sink_scores(read, splits, clusters, template)
        controls = [collect_hits(control.observations, splits, clusters) for control in scoring.controls]
        for side, relations in group_by_stack(collect_hits(scoring.observations, splits, clusters)).items():
            on_side = dataclasses.replace(template, side=side)
            scores += offset_scores(relations, on_side)
            usable = {name: relation for name, relation in relations.items() if choice.usable(relation)}
            usable_names = tuple(usable)
            averaged = AVERAGED.resolve(
                settings, usable_names, facet.averaged_relations if facet else usable_names
            )
            by_heads, by_single_head = select_heads(side, usable, scoring.observations, splits, choice)
            by_offset = {name: predict_offsets(relation, settings) for name, relation in usable.items()}
            predicted = {HEADS: by_heads, "one_head": by_single_head, "offset": by_offset}
            if names:
                predicted["keyword"] = {
                    name: predict_keywords(relation, names, settings) for name, relation in usable.items()
                }
                predicted["combined"] = {
                    name: select_better_predictor(
                        prediction, predicted["keyword"][name], ("offset", "keyword")
                    )
                    for name, prediction in by_offset.items()
                }
            predicted["longest"] = {name: predict_longest(relation) for name, relation in usable.items()}
            predicted["chance"] = {name: predict_chance(relation) for name, relation in usable.items()}
            all_of = StackPredictions(usable, predicted, averaged)
            for predictor in predicted:
                scores += all_scores(all_of, predictor, on_side)
            for control in predicted:
                if control != HEADS:
                    scores += gains(all_of, control, on_side)
            scores += head_map(all_of, on_side)
            scores += head_relations(all_of, on_side)
            for control, observations in zip(controls, scoring.controls, strict=True):
                usable_relations = {
                    name: relation
                    for (control_side, name), relation in control.items()
                    if control_side == side and choice.usable(relation)
                }
                random, _ = select_heads(side, usable_relations, observations.observations, splits, choice)
                of_control = StackPredictions(usable_relations, {"random_weights": random}, averaged)
                scores += all_scores(of_control, "random_weights", on_side)
        names = cluster_names(splits, clusters)
        return [score.over(names) for score in scores]

    def next_stage(self, scores: Sequence[Score], settings: LensSettings) -> Mapping[str, Option] | None:
        """Return the best head of each relation for the second stage, which reads its misses."""
        return None if settings.stage else errors.select_best_heads(scores)


def assign_item_splits(scoring: ScoringContext) -> dict[str, str]:
    """Assign each item to ``"valid"`` or ``"test"``: as its source says, else by whole clusters."""
    source_splits = (
        scoring.observations.filter(pl.col("split") != "").select("item_id", "split").unique().collect()
    )
    if source_splits.height:
        return {
            item: "test" if side == "test" else "valid" for item, side in sorted(source_splits.iter_rows())
        }
    items = [
        Item(item, "", language, "", cluster=cluster)
        for item, language, cluster in scoring.items.select("item_id", "language", "cluster").iter_rows()
        if not is_snippet(item)
    ]
    return split(items, FRACTIONS, scoring.settings.seed)


def _read_by_all(other_models: Sequence[pl.LazyFrame]) -> frozenset[str] | None:
    """Return the items that every other model read whole; None without any other."""
    read = [
        frozenset(
            observations.filter(pl.col("dropped") == "").select("item_id").unique().collect()["item_id"]
        )
        for observations in other_models
    ]
    return frozenset.intersection(*read) if read else None


def _hash_item_set(observations: pl.LazyFrame, items: Collection[str]) -> str:
    """Hash the ids of the items that are compared; the same for every model of a run."""
    read = observations.select("item_id").unique().collect()["item_id"]
    return fingerprint("item set", sorted(set(read.to_list()) & set(items)))


def _counts(
    observations: pl.LazyFrame, template: Score, items_of_all: Set[str] | None, clusters: Mapping[str, str]
) -> Iterator[Score]:
    """Yield the number of items that were read, and of those dropped, by reason."""
    # Every side of a model has the same edges.
    rows = observations.select("item_id", "relation", "dropped", "edges")
    if items_of_all is not None:
        is_read = (pl.col("dropped") != "") | pl.col("item_id").is_in(
            pl.Series(sorted(items_of_all)).implode()
        )
        reason = pl.when(is_read).then("dropped").otherwise(pl.lit(UNSHARED))
        rows = rows.with_columns(dropped=reason)
    first_rows = rows.unique(["item_id", "relation"], keep="any")
    cluster = pl.col("item_id").replace(clusters).n_unique().alias("clusters")
    counts = first_rows.group_by("dropped").agg(pl.col("item_id").n_unique(), pl.col("edges").sum(), cluster)
    for reason, items, edges, clusters_of_reason in counts.sort("dropped").collect().iter_rows():
        yield dataclasses.replace(
            template.within(("dropped", reason)) if reason else template,
            split="all",
            metric="items",
            value=float(items),
            n=int(edges or 0),
            n_clusters=int(clusters_of_reason),
        )


lens = AttentionLens()
