"""What a decoder reads before the text that it is scored on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence, Set

import numpy as np
import polars as pl

from sonde.base.errors import UsageError
from sonde.capture.requests import Padded, Pass, Plain, Prepared, Start, TokenScores
from sonde.lenses._lens import Captured, LensSettings
from sonde.lenses.surprisal.options import PLL, SurprisalOptions
from sonde.lenses.surprisal.pads import PADS
from sonde.lenses.surprisal.rows import BITS, Ratios, by_slice, overall, table
from sonde.lenses.surprisal.sums import Sums
from sonde.results.observations import OBSERVATIONS_SCHEMA
from sonde.results.scores import Score

FIRST_UNSCORED = "perplexed.first_unscored"


SLICE = "before=file"

_BOTH = "both"


def behind_file(settings: LensSettings, options: SurprisalOptions) -> bool:
    """Whether each text is also read behind the text of its file.

    Raises:
        UsageError: Published code or masked models are asked for it.
    """
    if options.before != _BOTH:
        return False
    if options.objective == PLL or settings.mode == "paper" or settings.quirks & {FIRST_UNSCORED, PADS}:
        raise UsageError(
            "lens 'surprisal': option before = both is for decoders that read as sonde does; "
            "give before = none to masked models and with quirks of what is read"
        )
    return True


def file_pass(prepared: Sequence[Prepared], scores: TokenScores, start: Start) -> tuple[Pass, ...]:
    """Items that have something before them, read behind it."""
    before = {one.item.item_id: one.item.context for one in prepared if one.item.context}
    return (Pass(Plain(start=start, before=before), (scores,)),) if before else ()


def with_file(rows: pl.DataFrame, observed: Sequence[Captured]) -> pl.DataFrame:
    """The rows with ``file_nats`` and ``file_context``; an item with nothing before it has its own."""
    # The first subword, which may have a score only behind something, is compared where it has both.
    pairs = [(one.captures[0].scores, one.captures[-1].scores) for one in observed]
    behind = [(after, alone.scored) for alone, after in pairs if alone is not None and after is not None]
    columns = {
        "file_nats": np.concatenate([after.nats[kept] for after, kept in behind]),
        "file_context": np.concatenate([after.context[kept] for after, kept in behind]),
    }
    return rows.with_columns(pl.Series(name, values) for name, values in columns.items()).cast(
        {name: OBSERVATIONS_SCHEMA[name] for name in columns}
    )


def by_file(sums: Sums, behind: Sums, template: Score, minimum: int) -> Iterator[Score]:
    """What the model says behind the text of the file, and by how much less it is surprised.

    Args:
        sums: Of the texts alone.
        behind: Of the same subwords behind their files.
        template: What the scores share.
        minimum: Fewest subwords that a slice needs for a row of its own.
    """
    for score in (*overall(behind, template), *by_slice(behind, template, minimum)):
        if score.metric in _OF_NATS:
            name = SLICE if score.slice == "all" else f"{SLICE};{score.slice}"
            yield dataclasses.replace(score, slice=name)
    keys = ["language", "slice", "cluster"]
    for dimension, alone in sums.slices.items():
        both = alone.join(behind.slices[dimension].select(*keys, behind="nats"), on=keys)
        counts = both.group_by("language", "slice").agg(pl.col("n").sum().alias("_n"))
        kept = counts.filter(pl.col("_n") >= (1 if dimension == "all" else minimum)).drop("_n")
        change = both.join(kept, on=["language", "slice"]).with_columns(
            change=pl.col("behind") - pl.col("nats")
        )
        own = "" if dimension == "all" else f"{dimension}="
        named = (
            pl.when(pl.col("slice") == "all").then(pl.lit("")).otherwise(pl.lit(";" + own) + pl.col("slice"))
        )
        ratios = {name: asked for name, asked in _CHANGES.items() if asked[1] in change.columns}
        yield from table(
            change.with_columns(slice=pl.lit(f"{SLICE}-none") + named), ratios, template, minimum=1
        )


_OF_NATS = ("nats", "bits", "bits_per_byte", "bits_per_character", "nats_per_token")
_CHANGES: Ratios = {
    "bits": ("change", "n", BITS, "real"),
    "bits_per_byte": ("change", "text_bytes", BITS, "real"),
    "nats_per_token": ("change", "tokens", 1.0, "real"),
}


def reading(scores: TokenScores, start: Start, quirks: Set[str]) -> tuple[Pass, ...]:
    """The passes of a decoder that is given a start."""
    plain = Plain(start="tokenizer", cut=True) if FIRST_UNSCORED in quirks else Plain(start=start)
    passes = (Pass(plain, (scores,)),)
    return (*passes, Pass(Padded(start=plain.start), (scores,))) if PADS in quirks else passes
