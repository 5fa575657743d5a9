"""Data of the probe lens: requests for states, the item table, and examples with their states.

The first part turns examples into requests and captured states into rows. The second reads the examples of
one task with their states from the item table. The third (`LayerStates`, `ProbedExamples`) gives the states
of one task's examples at one layer to callers that need the vectors rather than their scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.fingerprint import unit_hash
from sonde.capture.requests import HiddenStates, Pass, Plain, Prepared
from sonde.corpora import Item, item_id
from sonde.lenses.engine.lens import CapturedItem, LensSettings
from sonde.lenses.engine.observations import find_overlapping_subwords, pack, unpack
from sonde.lenses.probe.fit import IS_WHOLE, Examples, ResolvedProbeOptions, States, read_options
from sonde.results.schema import Columns, to_schema

STATES_COLUMNS: Columns = {
    "item_id": (pl.String, "the input"),
    "start": (pl.Int32, "first character that the state represents; -1 for the whole text"),
    "end": (pl.Int32, "their end, exclusive; -1 for the whole text"),
    "pooling": (
        pl.String,
        "`mean`, `last`, `summary` of the whole text; `span`: mean over a token's subwords",
    ),
    "states": (
        pl.Binary,
        "states in half precision, layer by layer, embeddings first, each layer divided by its scale",
    ),
    "scale": (pl.List(pl.Float32), "scale of each layer, a power of two"),
}
"""Columns of the probe lens's item table, one row a pooled vector of all layers."""


STATES_SCHEMA = to_schema(STATES_COLUMNS)


WHOLE = -1


SPAN = "span"


SUMMARY = "summary"


TOKEN_UNIT = "token"


SHORTEST_TREE, LONGEST_TREE = 6, 64
"""Code tokens of the functions that structural probes look at."""


Place = tuple[int, int]


def isolated_items(items: Sequence[Item], labels: Mapping[str, pl.DataFrame]) -> list[Item]:
    """Build an item of each surface of a token task."""
    languages = {item.language for item in items}
    surfaces = {surface for table in labels.values() for surface in table["type"].to_list() if surface}
    return [
        Item(
            item_id=item_id(surface, language, TOKEN_UNIT),
            text=surface,
            language=language,
            unit=TOKEN_UNIT,
            name=surface,
            cluster=surface,
        )
        for language in sorted(languages)
        for surface in sorted(surfaces)
    ]


def collect_item_spans(rows: pl.DataFrame) -> dict[str, tuple[bool, tuple[Place, ...]]]:
    """Collect the spans of each item, and whether its whole text is requested.

    Args:
        rows: Examples; those that span their text ask for the whole of it.
    """
    spans = rows.filter(~IS_WHOLE)
    second_spans = spans.filter(pl.col("other_start").is_not_null())
    all_spans = pl.concat(
        [
            spans.select("item_id", "start", "end"),
            second_spans.select(
                "item_id", pl.col("other_start").alias("start"), pl.col("other_end").alias("end")
            ),
        ]
    ).unique()
    whole_texts = rows.filter(IS_WHOLE)["item_id"].unique().to_list()
    spans_by_item: dict[str, list[Place]] = {name: [] for name in whole_texts}
    for name, start, end in all_spans.sort("item_id", "start", "end").iter_rows():
        spans_by_item.setdefault(name, []).append((start, end))
    whole_ids = frozenset(whole_texts)
    return {name: (name in whole_ids, tuple(item_spans)) for name, item_spans in spans_by_item.items()}


def select_examples(labels: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Select the examples that any task asks for."""
    columns = ("item_id", "start", "end", "other_start", "other_end", "characters")
    return pl.concat([table.select(columns) for table in labels.values()])


def collect_requested_spans(
    items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], structural: float
) -> dict[str, tuple[bool, tuple[Place, ...]]]:
    """Collect the spans of some items for all tasks, and the code tokens for structural probes."""
    ids = pl.Series([item.item.item_id for item in items], dtype=pl.String).implode()
    by_item = collect_item_spans(select_examples(labels).filter(pl.col("item_id").is_in(ids)))
    for item in items:
        if structural and is_structural_item(item.item.item_id, item.item.unit, len(item.tokens), structural):
            is_whole, item_spans = by_item.get(item.item.item_id, (False, ()))
            tokens = zip(item.tokens.start.tolist(), item.tokens.end.tolist(), strict=True)
            by_item[item.item.item_id] = is_whole, tuple(sorted({*item_spans, *tokens}))
    return by_item


def is_structural_item(item: str, unit: str, tokens: int, share: float) -> bool:
    """Return whether structural probes read an item; long texts would outweigh all others."""
    short = SHORTEST_TREE <= tokens <= LONGEST_TREE
    return unit != TOKEN_UNIT and short and unit_hash("structural probe", item) < share


def state_requests(
    items: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    pooling: tuple[str, ...],
    structural: float = 0.0,
) -> tuple[Pass, ...]:
    """Request one plain pass: whole texts by every pooling, and all spans of any task."""
    by_item = collect_requested_spans(items, labels, structural)
    spans: dict[str, tuple[tuple[int, int], ...]] = {}
    for item in items:
        _, item_spans = by_item.get(item.item.item_id, (False, ()))
        if item_spans:
            first, stop = find_overlapping_subwords(item_spans, item.alignment.subwords)
            spans[item.item.item_id] = tuple(zip(first.tolist(), stop.tolist(), strict=True))
    request = HiddenStates(pooling=pooling)
    if not spans:
        return (Pass(Plain(), (request,)),)
    return (Pass(Plain(), (request, HiddenStates(pooling=("spans",), spans=spans))),)


def observe_items(
    items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    pooling: tuple[str, ...],
    structural: float = 0.0,
) -> pl.DataFrame:
    """Build the rows of a few items; a span without subwords has none.

    Raises:
        CaptureError: A state is infinite or NaN.
    """
    by_item = collect_requested_spans([captured.prepared for captured in items], labels, structural)
    rows: list[tuple[str, int, int, str]] = []
    vectors: list[Float[np.ndarray, "layer d_model"]] = []
    for captured in items:
        source_item = captured.prepared.item
        if not captured.captures or not len(captured.prepared.alignment.subwords):
            continue
        states = captured.captures[0].states
        is_whole, item_spans = by_item.get(source_item.item_id, (source_item.unit == TOKEN_UNIT, ()))
        for name in pooling if is_whole else ():
            # A family without a summary token gives no such vector.
            if name in states and not np.isnan(states[name]).all():
                rows.append((source_item.item_id, WHOLE, WHOLE, name))
                vectors.append(states[name])
        if not item_spans or "spans" not in states:
            # Of a text that is no subwords, no part has a state.
            continue
        first, stop = find_overlapping_subwords(item_spans, captured.prepared.alignment.subwords)
        for index, (start, end) in enumerate(item_spans):
            if stop[index] > first[index]:
                rows.append((source_item.item_id, start, end, SPAN))
                vectors.append(states["spans"][:, index])
    if not rows:
        return pl.DataFrame(schema=dict(STATES_SCHEMA))
    packed_states, scale = pack(np.stack(vectors), [row[0] for row in rows])
    names, starts, ends, kinds = zip(*rows, strict=True)
    columns = {"item_id": names, "start": starts, "end": ends, "pooling": kinds}
    return pl.DataFrame(
        {**columns, "states": packed_states, "scale": scale.tolist()}, schema=dict(STATES_SCHEMA)
    )


ISOLATED = "isolated"
"""Pooling of tokens that are shown alone."""


COMPARED = frozenset({"labelled_pairs"})
"""Tasks about two whole texts, as clones are: what tells them is how far the states are apart."""


def get_poolings(examples: Examples, options: ResolvedProbeOptions) -> tuple[str, ...]:
    """Return the poolings of a task's examples, that of the headline first."""
    if examples.are_texts:
        return options.pooling
    if not (options.isolated and examples.about_tokens):
        return (SPAN,)
    return (ISOLATED, SPAN) if options.protocol.alone_first else (SPAN, ISOLATED)


def gather_states(
    observations: pl.LazyFrame,
    examples: Examples,
    pooling: str,
    *,
    language: str,
    token_pooling: str,
    layer: int | None = None,
) -> tuple[States, Int[np.ndarray, " row"]]:
    """States of the examples, and the rows of those that have one.

    A pair becomes the states of both ends and their product, feature by feature, since whether two things
    belong together is no sum of what each of them is; of two texts that are compared (`COMPARED`) also the
    absolute difference.

    Args:
        observations: The item table.
        examples: The examples.
        pooling: That of whole texts, `SPAN` for tokens in their text, or `ISOLATED` for tokens shown alone.
        language: Of the examples.
        token_pooling: How the text of a token that is shown alone is pooled.
        layer: One layer, 0 the embeddings, negative from the last; None for all.

    Raises:
        InputError: No example has one.
        UsageError: The model has no such layer.
    """
    if pooling == SPAN:
        ends = [examples.frame.select("item_id", "start", "end")]
        if examples.frame["other_start"].is_not_null().any():
            second_end = pl.col("other_start").alias("start"), pl.col("other_end").alias("end")
            ends.append(examples.frame.select("item_id", *second_end))
        return gather_vectors(observations, examples.task, SPAN, ends, layer)
    if pooling == ISOLATED:
        ids = {surface: item_id(surface, language, TOKEN_UNIT) for surface in set(examples.types)}
        texts = pl.DataFrame({"item_id": [ids[surface] for surface in examples.types]})
        pooling = token_pooling
    else:
        texts = examples.frame.select("item_id")
    whole_spans = texts.with_columns(start=pl.lit(WHOLE, pl.Int32), end=pl.lit(WHOLE, pl.Int32))
    return gather_vectors(observations, examples.task, pooling, [whole_spans], layer)


def scan_text_states(observations: pl.LazyFrame, examples: Examples, poolings: Sequence[str]) -> pl.LazyFrame:
    """Scan the rows of whole texts for several poolings once, and hold them packed.

    Args:
        observations: The item table.
        examples: Whole texts.
        poolings: What `gather_states` will be asked for.
    """
    texts = examples.frame["item_id"].unique().implode()
    conditions = (
        pl.col("pooling").is_in(list(poolings)),
        pl.col("item_id").is_in(texts),
        pl.col("start") == WHOLE,
    )
    return observations.filter(*conditions).collect().lazy()


def gather_vectors(
    observations: pl.LazyFrame, task: str, pooling: str, ends: Sequence[pl.DataFrame], layer: int | None
) -> tuple[States, Int[np.ndarray, " row"]]:
    """Return states by item and characters, and the rows that have one; raises the errors of `gather_states`.

    Args:
        observations: The item table.
        task: The task, for errors and to know whether two texts are compared.
        pooling: How the states were pooled.
        ends: Tables of ``item_id, start, end``; two of them for pairs, row by row.
        layer: One layer; None for all.
    """
    keys = ("item_id", "start", "end")
    observations = observations if layer is None else _of_layer(observations, layer)
    spans = pl.concat(ends).unique()
    rows = (
        observations.filter(pl.col("pooling") == pooling)
        .filter(pl.col("item_id").is_in(spans["item_id"].unique().implode()))
        .join(spans.lazy(), on=keys, how="semi")
        .select(*keys, "states", "scale")
        .collect()
        .unique(keys, keep="first", maintain_order=True)
    )
    if rows.is_empty():
        if pooling == SUMMARY:
            raise InputError(
                f"task {task!r}: pooling {pooling!r} gives no states, since decoders have no summary token; "
                "--option probe.pooling=mean,last leaves it out"
            )
        raise InputError(f"task {task!r}: there are no states with pooling {pooling!r}; see its coverage")
    row_numbers = rows.select(keys).with_row_index("at")
    row_columns = [
        span_end.join(row_numbers, on=keys, how="left", maintain_order="left")["at"] for span_end in ends
    ]
    indices = np.flatnonzero(np.all([column.is_not_null().to_numpy() for column in row_columns], axis=0))
    scale = np.array(rows["scale"].to_list(), dtype=np.float32)
    states = unpack(rows["states"].to_list(), scale)
    parts = [states[:, column.gather(indices).to_numpy().astype(np.int64)] for column in row_columns]
    if len(parts) == 1:
        return parts[0], indices
    differences = [np.abs(parts[0] - parts[1])] if task in COMPARED else []
    return np.concatenate([*parts, parts[0] * parts[1], *differences], axis=2), indices


def _of_layer(observations: pl.LazyFrame, layer: int) -> pl.LazyFrame:
    """Select the states of one layer, so that the others are never held."""
    first = observations.select("scale", "states").head(1).collect()
    if first.is_empty():
        return observations
    layers, size = len(first["scale"][0]), len(first["states"][0])
    if not -layers <= layer < layers:
        raise UsageError(f"layer = {layer} is not one of 0 (the embeddings) to {layers - 1}")
    layer_index, width = layer % layers, size // layers
    return observations.with_columns(
        pl.col("states").bin.slice(layer_index * width, width), pl.col("scale").list.slice(layer_index, 1)
    )


@dataclass(frozen=True, slots=True, eq=False)
class LayerStates:
    """Examples and their states, row by row.

    Attributes:
        values: One row per example; of a pair three or four times as wide, see `gather_states`.
        examples: The rows of `sonde.tasks.EXAMPLE_SCHEMA` in the same order, with class and split, and the
            ``fold`` that tests each: its probe is fitted to the other folds but the next one, which chooses
            penalty and layer. Null where there is one split alone.
        pooling: How the states of an example's subwords became one.
    """

    values: Float[np.ndarray, "example d_model"]
    examples: pl.DataFrame
    pooling: str


@dataclass(frozen=True, slots=True, eq=False)
class ProbedExamples:
    """The examples of a task as a run probed them, and where their states are.

    Attributes:
        examples: In the folds in which probes are scored.
        observations: The item table of a model.
        options: Those of the lens in the run.
        language: Of the examples.
    """

    examples: Examples
    observations: pl.LazyFrame
    options: ResolvedProbeOptions
    language: str

    @classmethod
    def from_labels(
        cls,
        observations: pl.LazyFrame,
        labels: pl.DataFrame,
        task: str,
        language: str,
        settings: LensSettings,
    ) -> ProbedExamples:
        """Build the examples of a data set.

        Args:
            observations: The item table of a model.
            labels: The data set of the task.
            task: Its public name.
            language: Of the examples.
            settings: Those of the lens in the run.
        """
        options = read_options(settings)
        try:
            examples = prepare_examples(task, labels, options, settings.seed)
        except InputError:
            # Too few clusters for folds leave the task without scores, but not without states.
            examples = Examples.from_frame(task, labels)
        return cls(examples, observations, options, language)

    def at_layer(self, layer: int, pooling: str | None) -> tuple[LayerStates, Examples]:
        """States of the examples at a layer, as far as they were observed, and those examples.

        Args:
            layer: 0 the embeddings, negative from the last.
            pooling: One of those that the run observed; None takes that of the headline.

        Raises:
            UnknownNameError: The run did not pool so.
            UsageError: The model has no such layer.
            InputError: No example has a state.
        """
        examples = self.examples
        poolings = get_poolings(examples, self.options)
        if pooling is not None and pooling not in poolings:
            raise UnknownNameError(f"pooling of task {examples.task!r}", pooling, poolings)
        pooling_used = pooling or poolings[0]
        states, rows = gather_states(
            self.observations,
            examples,
            pooling_used,
            language=self.language,
            token_pooling=self.options.pooling[0],
            layer=layer,
        )
        frame = examples.frame[rows].with_columns(fold=_fold(examples)[rows])
        return LayerStates(states[0], frame, pooling_used), examples.select(rows)


def prepare_examples(task: str, labels: pl.DataFrame, options: ResolvedProbeOptions, seed: int) -> Examples:
    """Prepare the examples of a task in the folds of its probes.

    Raises:
        InputError: They are of too few clusters for folds.
    """
    examples = Examples.from_frame(task, labels)
    return examples.assign_folds(options.folds, seed) if options.uses_folds else examples


def _fold(examples: Examples) -> pl.Series:
    """Return the fold that tests each example; null where there is one alone."""
    fold = np.full(len(examples.labels), -1, np.int64)
    if len(examples.folds) > 1:
        for number, parts in enumerate(examples.folds):
            fold[parts.test] = number
    return pl.Series(fold).replace(-1, None)
