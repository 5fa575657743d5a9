"""Which tokens and constructs the model is unsure of (PERPLEXED and CODETOKENIZERS).

One plain pass gives the surprisal of every subword; the tables say where it is high: by subword, syntax tag,
construct, token kind, ancestor and user's label, and for calls into the repository against calls out of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from sonde.base.errors import CaptureError, UsageError
from sonde.capture.requests import Padded, Pass, Plain, Prepared, ScoredSubwords, TokenScores
from sonde.lenses._lens import Captured, LensDefaults, LensSettings, Scoring
from sonde.lenses.surprisal.curves import calibration, frequency
from sonde.lenses.surprisal.headline import headline
from sonde.lenses.surprisal.observe import observe_items
from sonde.lenses.surprisal.origin import by_origin
from sonde.lenses.surprisal.pads import PADS, pad_rows
from sonde.lenses.surprisal.quirks import QUIRKS, active
from sonde.lenses.surprisal.rows import by_slice, overall
from sonde.lenses.surprisal.sums import Sums, collect_sums
from sonde.models import Capabilities
from sonde.stats.scores import Score

NEEDS = ("decoder",)

TOP_K = 5
BINS = 10
MINIMUM_COUNT = 20


class Surprisal(LensDefaults):
    """The surprisal lens."""

    name = "surprisal"
    version = "2"
    quirks: Mapping[str, str] = QUIRKS
    options: Mapping[str, str] = {
        "min_count": f"fewest subwords that a slice needs for a row of its own (default {MINIMUM_COUNT})",
        "with_internal_calls": "score only items with a call into their repository (PERPLEXED, section 3.1)",
    }
    tasks = ("call_origin", "argument_names")

    def refuses(self, capabilities: Capabilities) -> str | None:
        """Encoders see what they are to predict, so they are refused."""
        if capabilities.kind == "decoder":
            return None
        return (
            f"lens 'surprisal' needs a decoder, and this model is an {capabilities.kind}: it sees the token "
            "that it is asked for; pseudo-log-likelihood scoring of encoders arrives with the cloze lens; "
            "use a decoder, for example sonde/mini-decoder"
        )

    def passes(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """One plain pass; with the quirk that counts pads, one over pads beside it."""
        scores = (TokenScores(top_k=TOP_K),)
        plain = Pass(Plain(), scores)
        return (plain, Pass(Padded(), scores)) if PADS in active(settings) else (plain,)

    def observe(
        self,
        observed: Sequence[Captured],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """One row a scored subword; see docs/design.md for the columns.

        Raises:
            CaptureError: The captures hold no scores, not those of an item's subwords, or infinite ones.
        """
        quirks = active(settings)
        scored = [_scores(one) for one in observed]
        prepared = [one.prepared for one in observed]
        if PADS not in quirks:
            return observe_items(prepared, scored, labels, quirks, surfaces)
        frames: list[pl.DataFrame] = []
        for one, scores in zip(observed, scored, strict=True):
            frames.append(observe_items([one.prepared], [scores], labels, quirks, surfaces))
            frames += [pad_rows(one.prepared, padded, surfaces) for padded in one.captures[1:]]
        return pl.concat(frames)

    def score(self, scoring: Scoring) -> list[Score]:
        """Every table of the lens, each number with its interval."""
        quirks = active(scoring.settings)
        minimum = _whole_number(scoring.settings, "min_count", MINIMUM_COUNT)
        observations = scoring.observations
        if scoring.settings.options.get("with_internal_calls", False):
            observations = _calling_internally(observations)
        sums = collect_sums(observations, quirks, bins=BINS)
        template = scoring.template
        return [
            *overall(sums, template),
            *by_slice(sums, template, minimum),
            *by_origin(sums.calls, template, minimum, quirks),
            *calibration(sums.calibration, template, BINS),
            *frequency(sums.slices["subword"], "subword", template, _trained(sums, scoring.frequencies)),
            *frequency(sums.slices["tag"], "tag", template),
        ]

    def headline(self, scores: pl.DataFrame) -> Iterator[str]:
        """The most confusing constructs of each model."""
        yield from headline(scores)


def _scores(one: Captured) -> ScoredSubwords:
    item, size = one.prepared.item, len(one.prepared.alignment.subwords)
    scores = one.captures[0].scores if one.captures else None
    if scores is None or len(scores.nats) != size:
        held = 0 if scores is None else len(scores.nats)
        raise CaptureError(
            f"item {item.path!r} {item.name!r}: {held} scores for {size} subwords; "
            "capture and alignment have to use one tokenizer"
        )
    if not np.isfinite(scores.nats[scores.scored]).all():
        raise CaptureError(
            f"item {item.path!r} {item.name!r}: a surprisal is not finite; "
            "run the model in float32 or bfloat16"
        )
    return scores


def _calling_internally(observations: pl.LazyFrame) -> pl.LazyFrame:
    """The rows of items that hold a call into their repository (PERPLEXED, section 3.1)."""
    calling = observations.filter(pl.col("origin") == "internal").select(pl.col("item_id").unique())
    # A list rather than a join: the rows of an item have to stay together and in order.
    return observations.filter(pl.col("item_id").is_in(calling.collect()["item_id"].to_list()))


def _trained(sums: Sums, frequencies: pl.DataFrame | None) -> pl.DataFrame | None:
    """Counts in the training data by slice; ids that became one slice are counted together."""
    if frequencies is None:
        return None
    counted = sums.vocabulary.join(frequencies, on="subword_id")
    return counted.group_by("slice").agg(pl.col("count").sum())


def _whole_number(settings: LensSettings, name: str, default: int) -> int:
    value = settings.options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"lens 'surprisal': option {name} = {value!r} is not a whole number of at least 1")
    return value


lens = Surprisal()
