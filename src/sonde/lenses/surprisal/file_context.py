"""File context: the text that a decoder reads before the text that it is scored on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from sonde.base.errors import UsageError
from sonde.capture.requests import Pass, Plain, Prepared, Start, TokenEndScores, TokenScores
from sonde.lenses.engine.lens import CapturedItem, LensSettings
from sonde.lenses.surprisal.observe import FIRST_UNSCORED, PADS, check_active_quirks
from sonde.lenses.surprisal.options import CAUSAL, SurprisalOptions
from sonde.lenses.surprisal.origin import OriginSummary, scores_by_origin
from sonde.lenses.surprisal.score import Sums, overall_scores, slice_scores
from sonde.results.group_means import to_fixed_point
from sonde.results.schema import FILE_COLUMNS, OBSERVATIONS_SCHEMA
from sonde.results.scores import Score

FILE_CONTEXT, CHANGE = ("before", "file"), ("before", "file-none")
"""Dimensions of scores after the text of the file, and of the paired change."""


_WITH_FILE = "both"


def uses_file_context(settings: LensSettings, options: SurprisalOptions) -> bool:
    """Return whether each text is also read after the text of its file.

    Raises:
        UsageError: Published code or masked models are asked for it.
    """
    if options.before != _WITH_FILE:
        return False
    if options.objective != CAUSAL or check_active_quirks(settings) & {FIRST_UNSCORED, PADS}:
        raise UsageError(
            "lens 'surprisal': option before = both needs decoders without quirks that change the text; use "
            "before = none"
        )
    return True


def file_context_requests(
    prepared_items: Sequence[Prepared], scores: TokenScores, start: Start
) -> tuple[Pass, ...]:
    """Return the requests of items with the text of their file before them."""
    contexts = {
        prepared_item.item.item_id: prepared_item.item.context
        for prepared_item in prepared_items
        if prepared_item.item.context
    }
    return (Pass(Plain(start=start, before=contexts), (scores,)),) if contexts else ()


def with_file_context(rows: pl.DataFrame, captured_items: Sequence[CapturedItem]) -> pl.DataFrame:
    """Add columns with the scores after the file; an item without file context repeats its own."""
    # The first subword, which may have a score only after other text, is compared if it has both.
    score_pairs = [
        (captured_item.captures[0].scores, captured_item.captures[-1].scores)
        for captured_item in captured_items
    ]
    file_scores = [
        (with_file, text_alone.scored)
        for text_alone, with_file in score_pairs
        if text_alone is not None and with_file is not None
    ]

    columns = {
        f"file_{name}": np.concatenate(
            [getattr(with_file, name)[is_scored] for with_file, is_scored in file_scores]
        )
        for name in ("nats", "rank", "entropy", "context", "top_nats")
    }
    columns["file_top_nats"] = columns["file_top_nats"][:, 0]
    return rows.with_columns(
        pl.Series(name, columns[name]).cast(OBSERVATIONS_SCHEMA[name]) for name in FILE_COLUMNS
    )


def replace_text_scores(observations: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows with scores after the file, and squared differences from those of the text alone."""
    text_rank, file_rank = pl.col("rank"), pl.col("file_rank")
    return observations.with_columns(
        nats="file_nats",
        rank=file_rank,
        entropy="file_entropy",
        top_nats=pl.concat_list("file_top_nats"),
        top1_apart=((text_rank == 1) != (file_rank == 1)).cast(pl.Int64),
        top5_apart=((text_rank <= 5) != (file_rank <= 5)).cast(pl.Int64),
        reciprocal_apart=to_fixed_point((1.0 / file_rank - 1.0 / text_rank) ** 2),
    )


def score_changes(
    text_sums: Sums, file_sums: Sums, template: Score, minimum: int, summary: OriginSummary
) -> Iterator[Score]:
    """Score how the text of the file changes the scores of the same subwords.

    Args:
        text_sums: Of the texts alone.
        file_sums: Of the same subwords after the text of their files.
        template: What the scores share.
        minimum: Fewest subwords that a slice needs for a row of its own.
        summary: How calls are summed up.
    """
    template = template.within(CHANGE)
    changes = Sums(
        slices={name: _change(text_sums.slices[name], frame) for name, frame in file_sums.slices.items()},
        names=_change(text_sums.names, file_sums.names),
        characters=file_sums.characters,
        calls=_change(text_sums.calls, file_sums.calls),
        # What is no mean over subwords has no change of each of them.
        calibration=file_sums.calibration.clear(),
        vocabulary=file_sums.vocabulary,
    )
    yield from overall_scores(changes, template, change=True)
    yield from slice_scores(changes, template, minimum, change=True)
    yield from scores_by_origin(changes.calls, template, summary, kind="real")


def _change(text_sums: pl.DataFrame, file_sums: pl.DataFrame) -> pl.DataFrame:
    """Subtract sums without the file from those with it; both have the same keys in order."""
    return file_sums.with_columns(
        file_sums[name] - text_sums[name]
        for name in ("nats", "token_nats", "entropy", "reciprocal", "top1", "top5")
        if name in file_sums.columns
    )


def decoder_requests(scores: TokenScores, start: Start, settings: LensSettings) -> tuple[Pass, ...]:
    """Return the requests of a decoder, with its start."""
    quirks = check_active_quirks(settings)
    plain = Plain(start="tokenizer", cut=True) if FIRST_UNSCORED in quirks else Plain(start=start)
    # Published rules cut texts otherwise, and their numbers are not compared between tokenizers.
    passes = (Pass(plain, (scores,) if quirks else (scores, TokenEndScores())),)
    return (*passes, Pass(dataclasses.replace(plain, padded=True), (scores,))) if PADS in quirks else passes
