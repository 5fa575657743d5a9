"""Accepted characters: how far a greedy completion is right, from each place where one could begin.

A completion that takes the likeliest subword each time writes what stands in the text as long as the subwords
there have rank 1. So the ranks of one forward pass say of every place how many characters in a row would be
accepted, and whether the rest of the line would be. Only whole subwords count: a completion that is wrong in
the middle of a subword is not right up to there.

A place is the first character of a subword that is no blank: some vocabularies write the blanks before a word
with it, others have them given. Models with different tokenizers are compared over the places at which all of
them begin a subword (dimension ``shared``).

The baseline completes by a table of subword pairs: after each subword the one that most often follows it in
the other half of the clusters.

On a sample the model really generates (option ``completions``), with the text up to the place encoded anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from sonde.base.fingerprint import derive_seed, fingerprint
from sonde.base.formatting import join_names
from sonde.capture.completions import NOT_WRITTEN, Completions, InputCompletions
from sonde.capture.requests import ItemCapture, Pass, Prepared
from sonde.languages import TOKEN_KINDS, format_language
from sonde.languages.engine.text import whitespace_mask
from sonde.lenses.engine.layout import Layout, PieceSpans, constructs, take_strings
from sonde.lenses.engine.lens import ScoringContext
from sonde.lenses.engine.observations import AccumulationJob
from sonde.lenses.surprisal.common_text import batch_texts, find_common_items
from sonde.lenses.surprisal.file_context import CHANGE, FILE_CONTEXT
from sonde.lenses.surprisal.options import SurprisalOptions
from sonde.lenses.surprisal.units import view_code_tokens
from sonde.results import Mean, Score, left_out, means
from sonde.results.accepted import (
    AGREEMENT,
    ALL,
    CHARACTERS,
    CURSORS,
    DIMENSIONS,
    GENERATED,
    LINE,
    PAIRS_TABLE,
    select_places,
)
from sonde.results.group_means import Accumulator, iterate_item_batches
from sonde.results.schema import COMPLETION_FIELDS, IS_FIRST, SHARED_PLACES, to_schema
from sonde.results.scores import split_by_model
from sonde.results.text_format import verdict_mark, with_interval

_MEMBER_OPERATORS = frozenset({".", "?.", "->", "::"})


_KEYS = ("language", "cluster", *DIMENSIONS)


_COLUMNS = (
    "item_id", "cluster", "language", "position", "start", "end", "subword_id", "rank", "file_rank",
    "context", "text_characters", "covered", "completion", "top_nats",
)  # fmt: skip


def add_completions(
    passes: Sequence[Pass], prepared_items: Sequence[Prepared], count: int, seed: int
) -> tuple[Pass, ...]:
    """Add to the pass of the texts as they are the request for completions from some places of each item."""
    places = {
        prepared_item.item.item_id: tuple(
            _sample_places(prepared_item, _find_place_starts(prepared_item)[0], count, seed)
        )
        for prepared_item in prepared_items
    }
    first, *others = passes
    return (dataclasses.replace(first, requests=(*first.requests, Completions(places))), *others)


def _sample_places(
    prepared_item: Prepared, is_place: Bool[np.ndarray, " subword"], count: int, seed: int
) -> list[int]:
    # Before the first subword there is nothing to complete.
    positions = np.flatnonzero(is_place[1:]) + 1
    rng = np.random.default_rng(derive_seed(seed, "completions", prepared_item.item.item_id))
    return sorted(rng.permutation(positions)[:count].tolist())


def observe_places(
    prepared_items: Sequence[Prepared], captures: Sequence[ItemCapture], count: int, seed: int
) -> pl.Series:
    """Return for each subword of the items the place before it, as rows of `COMPLETION_FIELDS`.

    Args:
        prepared_items: The items; at least one.
        captures: The capture of each, with the ends of its completions if these were asked for.
        count: Places of an item from which completions were asked for.
        seed: Seed that they were sampled with.
    """
    code_tokens = Layout.from_items([view_code_tokens(prepared_item) for prepared_item in prepared_items])
    labels = constructs(code_tokens)
    frames: list[pl.DataFrame] = []
    for prepared_item, capture, row in zip(prepared_items, captures, code_tokens.row.tolist(), strict=False):
        is_place, starts = _find_place_starts(prepared_item)
        columns, tokens = _describe_places(prepared_item, starts), prepared_item.tokens
        token = columns.pop("token")
        kinds = [TOKEN_KINDS[kind] for kind in tokens.kind.tolist()]
        columns["kind"] = take_strings([*kinds, ""], token)
        columns["role"] = take_strings([*tokens.role, ""], token)
        columns["construct"] = take_strings([*labels[row : row + len(tokens)], ""], token)
        columns["start"], columns["end"] = starts, np.full(len(starts), NOT_WRITTEN)
        if (completed := capture.extra.get(InputCompletions.answer)) is not None:
            columns["end"][_sample_places(prepared_item, is_place, count, seed)] = completed
        frame = pl.DataFrame(
            [
                pl.Series(name, columns[name], dtype=dtype)
                for name, dtype in to_schema(COMPLETION_FIELDS).items()
            ]
        )
        frame = frame.with_columns(end=pl.when(pl.col("end") != NOT_WRITTEN).then("end"))
        frames.append(frame.select(completion=pl.when(pl.Series(is_place)).then(pl.struct(pl.all()))))
    return pl.concat(frames)["completion"]


def _find_place_starts(
    prepared_item: Prepared,
) -> tuple[Bool[np.ndarray, " subword"], Int[np.ndarray, " subword"]]:
    """Find the subwords that a completion could begin with, and the first character of each that counts."""
    subwords = prepared_item.alignment.subwords
    previous_end = np.concatenate([[0], np.maximum.accumulate(subwords.end)])[:-1]
    ink_counts = np.concatenate([[0], np.cumsum(~whitespace_mask(subwords.text))])
    has_ink = ink_counts[subwords.end] > ink_counts[subwords.start]
    # No cursor stands inside a character.
    is_place = has_ink & (subwords.start >= previous_end)
    return is_place, PieceSpans.trim(subwords.text, subwords.start, subwords.end).start


def _describe_places(prepared_item: Prepared, start: Int[np.ndarray, " subword"]) -> dict[str, Any]:
    """Return kind, end of the line and code token of the places at some characters."""
    text, tokens = prepared_item.item.text, prepared_item.tokens
    size = len(text)
    characters = np.arange(size)
    is_break = np.array(list(text), dtype="U1") == "\n"
    # Of each character and the end: the last one before it that is no blank, and the last line break.
    last_ink, last_break = (
        np.concatenate([[-1], np.maximum.accumulate(np.where(mask, characters, -1))])
        for mask in (~whitespace_mask(text), is_break)
    )
    breaks = np.append(np.flatnonzero(is_break), size)
    line_end = last_ink[breaks[np.searchsorted(breaks, np.minimum(start, size))]] + 1

    token = np.maximum(np.searchsorted(tokens.start, start, side="right") - 1, 0)
    bounds = {name: np.append(getattr(tokens, name), -1) for name in ("start", "end", "kind")}
    before = np.where(bounds["start"][token] == start, token - 1, -1)
    follows = (before >= 0) & (bounds["end"][before] == start)
    words = [text[a:b] for a, b in zip(tokens.start.tolist(), tokens.end.tolist(), strict=True)]
    follows_member, follows_bracket = (
        follows & np.array([*(word in operators for word in words), False])[before]
        for operators in (_MEMBER_OPERATORS, {"("})
    )
    is_inside = (bounds["start"][token] < start) & (start < bounds["end"][token])
    is_name, is_comment, is_literal = (
        bounds["kind"] == TOKEN_KINDS.index(kind) for kind in ("identifier", "comment", "literal")
    )
    # A string is one token, or several that touch: its quotation marks and what they enclose.
    is_text = (is_inside & is_comment[token]) | (
        is_literal[token] & (is_inside | follows & is_literal[before])
    )
    is_line_start = last_break[start] >= last_ink[start]
    conditions = [is_text, is_line_start, follows_member, follows_bracket, is_inside & is_name[token]]
    cursor = np.select(conditions, list(CURSORS[:-1]), CURSORS[-1])
    token = np.where(is_inside | (bounds["start"][token] == start), token, -1)
    return {"cursor": cursor, "line_end": line_end, "token": token}


def score_accepted(
    scoring: ScoringContext, template: Score, options: SurprisalOptions, *, has_file: bool
) -> Iterator[Score]:
    """Score how far greedy completions are right: by place and slice, and beside the baseline.

    Args:
        scoring: The observations, and those of the other models.
        template: What the scores share.
        options: What the user chose.
        has_file: Whether the texts were also read after the text of their files.
    """
    minimum = options.min_count
    if not scoring.observations.select(pl.col("completion").is_not_null().any()).collect().item():
        return
    halves, table = _count_pairs(scoring)
    accumulators = {"places": Accumulator(_KEYS)}
    sums = scoring.batches.accumulate(_sum_batch, (halves, table), accumulators)["places"]
    if sums.is_empty():
        yield left_out(template, "accepted characters are not measured: ranks are unknown")
        return
    yield from _score_slices(sums, _MEANS, template, minimum)
    has_table = halves["half"].n_unique() > 1
    if has_table:
        control = dataclasses.replace(template, control=PAIRS_TABLE)
        yield from _score_cursors(sums, [_of_side(mean, "pairs_") for mean in _MEANS], control, minimum)
        gains = [_gain(mean, "pairs_", PAIRS_TABLE) for mean in _MEANS]
        yield from _score_cursors(sums, gains, template, minimum)
    if has_file:
        file_means = [_of_side(mean, "file_") for mean in _MEANS]
        yield from _score_slices(sums, file_means, template.within(FILE_CONTEXT), minimum)
        changes = [
            dataclasses.replace(after, baseline=before.of, squares=pl.col("file_line_apart"))
            for after, before in zip(file_means, _MEANS, strict=True)
        ]
        yield from _score_slices(sums, changes, template.within(CHANGE), minimum)
    if sums["sample"].sum():
        yield from _score_cursors(sums, _GENERATION, template, minimum)
    elif options.completions:
        yield left_out(
            template, "no completions: a server, or a tokenizer whose pieces do not spell the text"
        )
    yield from _score_shared(scoring, template, minimum)


_MEANS = (
    Mean(CHARACTERS, pl.col("characters"), "nonnegative", per=pl.col("n")),
    Mean(LINE, pl.col("line"), "proportion", per=pl.col("n")),
)


_PER_SAMPLE = pl.col("sample")


_GENERATION = (
    Mean(GENERATED, pl.col("generated"), "nonnegative", per=_PER_SAMPLE),
    Mean(AGREEMENT, pl.col("same"), "proportion", per=_PER_SAMPLE),
    Mean(
        "gain",
        pl.col("generated"),
        "nonnegative",
        per=_PER_SAMPLE,
        baseline=pl.col("sample_characters"),
        fields={"of_metric": GENERATED, "compared_to": CHARACTERS},
    ),
)


def _of_side(mean: Mean, side: str) -> Mean:
    """Return a mean over the columns of a side: of the baseline, or after the file."""
    return dataclasses.replace(mean, of=pl.col(f"{side}{mean.of.meta.output_name()}"))


def _gain(mean: Mean, side: str, control: str) -> Mean:
    return dataclasses.replace(
        mean,
        metric="gain",
        baseline=_of_side(mean, side).of,
        squares=pl.col(f"{side}line_apart"),
        fields={"of_metric": mean.metric, "compared_to": control},
    )


def _score_slices(
    sums: pl.DataFrame, mean_specs: Sequence[Mean], template: Score, minimum: int
) -> Iterator[Score]:
    """Score all places, and each slice of each dimension."""
    yield from means(sums, mean_specs, template, columns=("language",))
    for name in DIMENSIONS:
        yield from _score_dimension(sums, mean_specs, template, minimum, name)


def _score_cursors(
    sums: pl.DataFrame, mean_specs: Sequence[Mean], template: Score, minimum: int
) -> Iterator[Score]:
    """Score all places, and each kind of them."""
    yield from means(sums, mean_specs, template, columns=("language",))
    yield from _score_dimension(sums, mean_specs, template, minimum, "cursor")


def _score_dimension(
    sums: pl.DataFrame, mean_specs: Sequence[Mean], template: Score, minimum: int, name: str
) -> Iterator[Score]:
    per = mean_specs[0].per
    rows = sums.filter(pl.col(name) != "")
    yield from means(rows, mean_specs, template, by=name, columns=("language",), minimum=minimum, size=per)


Pairs = tuple[pl.DataFrame, pl.DataFrame]
"""Halves of the clusters (``cluster, half``), and the likeliest follower (``half, subword_id, next_id``)."""


def _count_pairs(scoring: ScoringContext) -> Pairs:
    """Count which subword most often follows each other one, apart for two halves of the clusters."""
    accumulators = {"pairs": Accumulator(("cluster", "subword_id", "next_id"))}
    counts = scoring.batches.accumulate(_count_batch, None, accumulators)["pairs"]
    halves = counts.select(pl.col("cluster").unique().sort()).with_columns(
        half=pl.int_range(pl.len(), dtype=pl.Int32) % 2
    )
    table = (
        counts.join(halves, on="cluster")
        .group_by("half", "subword_id", "next_id")
        .agg(pl.col("n").sum())
        .sort("half", "subword_id", "n", "next_id", descending=[False, False, True, False])
        .unique(["half", "subword_id"], keep="first", maintain_order=True)
    )
    return halves, table.select("half", "subword_id", "next_id")


def _count_batch(job: AccumulationJob[None]) -> dict[str, pl.DataFrame]:
    """Count the subword pairs of one batch; runs in any process."""
    accumulator = Accumulator(("cluster", "subword_id", "next_id"))
    for batch in iterate_item_batches(job.observations.select("item_id", "cluster", "subword_id")):
        following = batch.with_columns(next_id=pl.col("subword_id").shift(-1).over("item_id"))
        counts = following.drop_nulls("next_id").group_by("cluster", "subword_id", "next_id")
        accumulator.add(counts.agg(n=pl.len().cast(pl.Int64)))
    return {"pairs": accumulator.merge_parts()}


def _sum_batch(job: AccumulationJob[Pairs]) -> dict[str, pl.DataFrame]:
    """Sum the places of one batch; runs in any process."""
    accumulator = Accumulator(_KEYS)
    for batch in iterate_item_batches(job.observations.select(_COLUMNS)):
        accumulator.add(_sum_places(_read_places(batch, job.asked)))
    return {"places": accumulator.merge_parts()}


def _sum_places(places: pl.DataFrame) -> pl.DataFrame:
    is_sampled = pl.col("generated").is_not_null()
    return places.group_by(_KEYS).agg(
        pl.col("characters", "pairs_characters", "file_characters").sum(),
        pl.col("line", "pairs_line", "file_line").cast(pl.Int64).sum(),
        *(
            (pl.col("line") != pl.col(f"{side}_line")).cast(pl.Int64).sum().alias(f"{side}_line_apart")
            for side in ("pairs", "file")
        ),
        n=pl.len().cast(pl.Int64),
        sample=is_sampled.cast(pl.Int64).sum(),
        sample_characters=pl.col("characters").filter(is_sampled).sum(),
        generated=pl.col("generated").sum(),
        same=(pl.col("generated") == pl.col("characters")).cast(pl.Int64).sum(),
    )


def _read_places(rows: pl.DataFrame, pairs: Pairs) -> pl.DataFrame:
    """Return the places of whole items, and how far a completion from each is right.

    The columns are those of `_KEYS`, ``item_id`` and ``start``; ``characters`` and ``line`` by the ranks,
    ``pairs_`` by the table of subword pairs, ``file_`` by the ranks after the file (those of the text alone
    if there are none), and ``generated``: characters that were generated, null for none. A place from which a
    server leaves the ranks open has no row.
    """
    halves, table = pairs
    expected = table.select("subword_id", "next_id", half=1 - pl.col("half"))
    rows = (
        rows.join(halves, on="cluster", how="left", maintain_order="left")
        .with_columns(previous_id=pl.col("subword_id").shift(1).over("item_id"))
        .join(
            expected, left_on=["half", "previous_id"], right_on=["half", "subword_id"], how="left",
            maintain_order="left",
        )
    )  # fmt: skip
    # What stands for characters that no vocabulary entry holds is never written as they are.
    is_spelled = (pl.col("covered") > 0) | (pl.col("text_characters") == 0)
    flags = rows.select(
        right=(pl.col("rank") == 1).fill_null(value=False) & is_spelled,
        pairs=(pl.col("subword_id") == pl.col("next_id")).fill_null(value=False) & is_spelled,
        file=(pl.coalesce("file_rank", "rank") == 1).fill_null(value=False) & is_spelled,
        known=pl.col("rank").is_not_null() | (pl.col("top_nats").list.len() > 0),
    )
    chain = _Chain.of(rows)
    place = rows["completion"].struct.unnest()
    start = place["start"].fill_null(0).to_numpy()
    columns: dict[str, np.ndarray] = {}
    for name, side in (("right", ""), ("pairs", "pairs_"), ("file", "file_")):
        end, _ = chain.extend(flags[name].to_numpy())
        columns[f"{side}characters"] = np.maximum(end - start, 0)
        columns[f"{side}line"] = end >= place["line_end"].fill_null(-1).to_numpy()
    _, stop = chain.extend(flags["right"].to_numpy())
    is_stopped = ~chain.breaks[stop] | (stop == np.arange(len(stop)))
    is_open = np.append(~flags["known"].to_numpy(), False)[stop] & is_stopped
    return rows.select(
        "item_id",
        "language",
        "cluster",
        *(place[name] for name in (*DIMENSIONS, "start")),
        generated=(place["end"] - place["start"]).clip(0).cast(pl.Int64),
        is_place=place["cursor"].is_not_null() & ~IS_FIRST & ~pl.Series(is_open),
        **{name: pl.Series(column) for name, column in columns.items()},
    ).filter("is_place")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    """Subwords that follow each other.

    Attributes:
        start: First character of each.
        end: End of the furthest character of it and of those before it in its item.
        breaks: Subwords that do not continue the one before them, and one past the last.
        is_first: Subwords that are the first of their item, and one past the last.
    """

    start: Int[np.ndarray, " subword"]
    end: Int[np.ndarray, " subword"]
    breaks: Bool[np.ndarray, " subword_and_end"]
    is_first: Bool[np.ndarray, " subword_and_end"]

    @classmethod
    def of(cls, rows: pl.DataFrame) -> _Chain:
        """Read the rows of whole items."""
        item = rows["item_id"].rle_id().to_numpy()
        is_first = (
            np.concatenate([[True], item[1:] != item[:-1], [True]]) if len(item) else np.ones(1, np.bool_)
        )
        start, position = rows["start"].to_numpy(), rows["position"].to_numpy()
        end = rows.select(pl.col("end").cum_max().over("item_id"))["end"].to_numpy()
        is_apart = (start[1:] > end[:-1]) | (position[1:] != position[:-1] + 1)
        breaks = is_first | np.concatenate([[True], is_apart, [True]]) if len(item) else is_first
        return cls(start, end, breaks, is_first)

    def extend(
        self, is_right: Bool[np.ndarray, " subword"]
    ) -> tuple[Int[np.ndarray, " subword"], Int[np.ndarray, " subword"]]:
        """Return the end of the characters that are right in a row from each subword on, and where they stop.

        Where the first one is wrong, the end is that of nothing: 0. A character of several subwords needs all
        of them.
        """
        size = len(is_right)
        index = np.arange(size + 1)
        wrong = _find_next(np.append(~is_right, True), index)[:-1]
        following = _find_next(self.breaks, index)[1:]
        stop = np.minimum(wrong, following)
        last = np.maximum(stop - 1, 0)
        end = self.end[last] if size else self.end
        cuts_character = ~self.is_first[stop] & (np.append(self.start, 0)[stop] < end)
        end = np.where(cuts_character, np.append(self.start, 0)[stop], end)
        return np.where(stop > index[:-1], end, 0), stop


def _find_next(
    mask: Bool[np.ndarray, " place"], index: Int[np.ndarray, " place"]
) -> Int[np.ndarray, " place"]:
    """Return for each place the first one from it on that is marked; the last place is."""
    return np.minimum.accumulate(np.where(mask, index, len(index))[::-1])[::-1]


def _score_shared(scoring: ScoringContext, template: Score, minimum: int) -> Iterator[Score]:
    """Score the places at which all models of a run begin a subword; yield nothing for a single model."""
    if not scoring.beside:
        return
    if "places" not in scoring.shared:
        scoring.shared["places"] = list(_find_common_places(scoring))
    accumulator = Accumulator(_KEYS)
    item_ids: list[str] = []
    for batch, places in scoring.shared["places"]:
        own = _read_batch_places(scoring.observations, batch)
        accumulator.add(_sum_places(own.join(places, on=["item_id", "start"], how="semi")))
        item_ids += batch.to_list()
    if item_ids:
        shared = dataclasses.replace(template, item_set=fingerprint("item set", item_ids))
        yield from _score_slices(accumulator.total(), _MEANS, shared.within(SHARED_PLACES), minimum)


def _find_common_places(scoring: ScoringContext) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
    """Yield by batch of items their ids, and the places at which all models begin a subword.

    These are the same for every model of the run, so that each table is read once.
    """
    tables = [scoring.observations, *scoring.beside]
    keys = ["item_id", "start"]
    common = find_common_items(tables)
    for batch in batch_texts(scoring.texts.join(common.lazy(), on="item_id").sort("item_id").collect()):
        places = (_read_batch_places(rows, batch["item_id"]).select(keys).unique() for rows in tables)
        yield batch["item_id"], reduce(lambda left, right: left.join(right, on=keys, how="semi"), places)


_NO_PAIRS = (
    pl.DataFrame(schema={"cluster": pl.String, "half": pl.Int32}),
    pl.DataFrame(schema={"half": pl.Int32, "subword_id": pl.Int32, "next_id": pl.Int32}),
)


def _read_batch_places(rows: pl.LazyFrame, item_ids: pl.Series) -> pl.DataFrame:
    is_read = pl.col("item_id").is_in(item_ids.implode())
    frame = rows.filter(is_read).select(_COLUMNS).collect().sort("item_id", "position")
    return _read_places(frame, _NO_PAIRS)


def describe_accepted(scores: pl.DataFrame) -> Iterator[str]:
    """Yield a line for each model and language: characters over all places, and by kind of place."""
    rows = select_places(scores.filter((pl.col("metric") == CHARACTERS) & pl.col("control").is_null()))
    for model, language, part in split_by_model(rows):
        by_name = {row["name"]: row for row in part.to_dicts() if row["dimension"] in ("", "cursor")}
        if ALL not in by_name:
            continue
        parts = [
            f"{with_interval(row)}{verdict_mark(row)} {'elsewhere' if name == CURSORS[-1] else name}"
            for name in CURSORS
            if (row := by_name.get(name))
        ]
        yield ""
        yield (
            f"Greedy completions by {model} in {format_language(language)} are right for "
            f"{with_interval(by_name[ALL])} characters{verdict_mark(by_name[ALL])}"
            f"{f': {join_names(parts)}' if parts else ''}"
        )
