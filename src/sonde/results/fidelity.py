"""Ladder of models compared with one base: size, divergence, flips, loss, and which is not worse.

A mean loss may stay the same while answers change, since losses and gains cancel. So a ladder has the change
of the mean beside its absolute change, and flips beside the net change of right answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.base.formatting import format_bytes, format_name, number
from sonde.results.schema import has_dimensions
from sonde.results.tables import Column
from sonde.results.text_format import (
    TOO_LITTLE,
    Number,
    Row,
    Unit,
    WithInterval,
    caveat,
    verdict_mark,
    with_interval,
)
from sonde.stats.verdict import minimum_effect, no_verdict_reason

LENS = "fidelity"


BASE_PREFIX = "base_"
"""Begins the names of metrics of the base that every model has, such as ``base_bits``."""


BITS_PER_WEIGHT = "bits_per_weight"


SIZES = ("bytes", BITS_PER_WEIGHT)
"""Metrics of the size of the weights."""


PAIRS = "preferred"
"""Metric of surprisal: share of minimal pairs whose original is the likelier text."""


LOSS_CHANGE, RIGHT_CHANGE = "bits_per_byte_change", "top1_change"
"""The two changes that decide whether a model is worse than its base."""


LOSS = "bits"
"""Metric of the mean loss of a subword."""


_SHOWN = ("kl", "flips", "bits", "bits_distance", LOSS_CHANGE, RIGHT_CHANGE)


_MEGABYTE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Models compared with one base on one language.

    Attributes:
        base: Name of the base.
        language: Public name of the language.
        rows: A row per model, the smallest first, the base last: by metric its score over all text, with
            ``model``, ``shown``, ``is_base``, ``n`` and ``n_clusters``.
    """

    base: str
    language: str
    rows: Sequence[Row]


def build_ladder(scores: pl.DataFrame, names: Mapping[str, str] | None = None) -> Iterator[Ladder]:
    """Build the ladder of each base and language from scores of the lens fidelity.

    Args:
        scores: Rows of ``scores.parquet``; of other lenses minimal pairs count alone.
        names: Names of models as shown; the full names without.
    """
    rows = scores.filter(has_dimensions({}) & pl.col("control").is_null())
    of_lens, others = rows.filter(pl.col("lens") == LENS), rows.filter(pl.col("lens") != LENS)
    for (base, language), part in of_lens.partition_by(
        "compared_to", "language", as_dict=True, maintain_order=True
    ).items():
        pairs = _mean_pairs(others.filter((pl.col("metric") == PAIRS) & (pl.col("language") == language)))
        by_model: dict[str, dict[str, Row]] = {}
        for row in part.iter_rows(named=True):
            by_model.setdefault(row["model"], {})[row["metric"]] = row
        # Every model was compared with the same base, over the same text.
        with_base = (metrics for metrics in by_model.values() if f"{BASE_PREFIX}{LOSS}" in metrics)
        first = next(with_base, {})
        base_scores = {
            name.removeprefix(BASE_PREFIX): row for name, row in first.items() if name.startswith(BASE_PREFIX)
        }
        models = [
            _build_row(model, metrics, pairs, names) for model, metrics in by_model.items() if LOSS in metrics
        ]
        if not models or LOSS not in base_scores:
            # A loss that is no number is in no table, and without it there is nothing to compare.
            continue
        models.sort(key=lambda row: (row["bytes"] is None, row["bytes"] or 0.0, row["model"]))
        base_row = {**_build_row(str(base), base_scores, pairs, names), "is_base": True}
        yield Ladder(base=str(base), language=str(language), rows=[*models, base_row])


def _mean_pairs(pairs: pl.DataFrame) -> dict[str, float]:
    """Return the share of preferred originals of each model, over the pairs of all tasks."""
    preferred = (pl.col("value") * pl.col("n")).sum() / pl.col("n").sum()
    return dict(pairs.group_by("model").agg(preferred).rows())


def _build_row(
    model: str, metrics: Mapping[str, Row], pairs: Mapping[str, float], names: Mapping[str, str] | None
) -> dict[str, Any]:
    sizes = {name: metrics[name]["value"] if name in metrics else None for name in SIZES}
    return {
        **metrics[LOSS],
        **{name: metrics.get(name) for name in _SHOWN},
        **sizes,
        "pairs": pairs.get(model),
        "model": model,
        "shown": (names or {}).get(model, format_name(model)),
        "is_base": False,
    }


def ladder_columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    """Build the columns of a ladder; sizes and minimal pairs only where a row has them."""
    columns = [
        Column(title="Model", value=lambda row: f"{row['shown']} (base)" if row["is_base"] else row["shown"])
    ]
    if any(row["bytes"] is not None for row in rows):
        size = Number(digits=1, scale=1 / _MEGABYTE)
        columns += [
            Column(title="MB", value="bytes", format=size, help="Size of the weights."),
            Column(title="Bits per weight", value=BITS_PER_WEIGHT, format=Number(digits=2)),
        ]
    columns += [
        Column(
            title="KL, nats",
            value="kl",
            format=WithInterval(digits=4),
            help="Divergence of the model from the base per subword: 0 where both predict alike.",
        ),
        Column(
            title="Flips, %",
            value="flips",
            format=WithInterval(digits=2, scale=100),
            help="Subwords that are the first choice of one of the two models alone.",
        ),
        Column(
            title="Won - lost, %",
            value=RIGHT_CHANGE,
            format=WithInterval(digits=2, scale=100),
            help="Change of the share of subwords that are the first choice.",
        ),
        Column(
            title="Change, bits per byte",
            value=LOSS_CHANGE,
            format=WithInterval(digits=4),
            help="Change of the mean loss; more is worse.",
        ),
        Column(
            title="Absolute change",
            value="bits_distance",
            format=Number(digits=3),
            help="Mean absolute change of the loss of a subword in bits: what the mean hides.",
        ),
    ]
    if any(row["pairs"] is not None for row in rows):
        columns.append(
            Column(
                title="Pairs, %",
                value="pairs",
                format=Number(digits=1, scale=100),
                help="Minimal pairs whose original is likelier than its mutant.",
            )
        )
    return tuple(columns)


def describe_row(row: Row) -> str:
    """Describe a model of a ladder with its numbers in one line; of the base its size and loss."""
    size = (
        ""
        if row["bytes"] is None
        else f"{format_bytes(row['bytes'])}, {row[BITS_PER_WEIGHT]:.2f} bits per weight"
    )
    loss = f"loss {number(row['value'], 3)} bits per subword"
    if row["is_base"]:
        return f"{row['shown']} (base): {'; '.join(filter(None, (size, loss)))}"
    distance = row["bits_distance"]
    parts = (
        size,
        _format_part("KL ", row["kl"], " nats", digits=4),
        _format_part("flips ", row["flips"], " %", scale=100.0),
        _format_part("won less lost ", row[RIGHT_CHANGE], " points", scale=100.0, sign="+"),
        ", ".join(
            filter(None, (loss, _format_part("", row[LOSS_CHANGE], " bits per byte", digits=4, sign="+")))
        ),
        "" if distance is None else f"absolute change {number(distance['value'], 3)} bits per subword",
    )
    return f"{row['shown']}: {'; '.join(filter(None, parts))}"


def _format_part(
    name: str, score: Row | None, unit: str, *, scale: float = 1.0, digits: int = 2, sign: str = ""
) -> str:
    """Format a number of a model, with the mark of what it lacks for a verdict; empty without the number."""
    if score is None:
        return ""
    return f"{name}{with_interval(score, scale, digits, sign)}{unit}{verdict_mark(score)}"


_CHANGES = (
    (LOSS_CHANGE, 1, "loss", Unit(difference=" bits per byte")),
    (RIGHT_CHANGE, -1, "right answers", Unit(scale=100.0, difference=" points")),
)
"""Changes that decide whether a model is worse, with the sign of a loss, and the words and unit of each."""


def explain_worse(row: Row) -> str:
    """Return why a model is not known to be as good as its base; empty if it is not worse.

    It is not worse if the intervals of both changes leave out a loss that matters: more bits per byte, and
    fewer right answers. The smallest sizes that matter are those of all verdicts. A change that allows no
    verdict is called too little data, and one of which neither 0 nor a loss is left out no difference found.
    """
    reasons: list[str] = []
    for metric, sign, words, unit in _CHANGES:
        score = row[metric]
        if score is None:
            reasons.append(f"{words}: no such number")
        elif no_verdict_reason(score):
            reasons.append(f"{words} {unit.change(score, '+')}{caveat(score)}")
        elif max(sign * score["ci_low"], sign * score["ci_high"]) >= minimum_effect(
            metric, score["ci_method"]
        ):
            reasons.append(f"{words} {unit.change(score, '+')}{unit.difference_caveat(score)}")
    return " and ".join(reasons)


def _lacks_data(row: Row) -> bool:
    """Return whether a change of a model has too little data for a verdict."""
    return any(row[metric] is None or no_verdict_reason(row[metric]) for metric, *_ in _CHANGES)


def find_smallest(ladder: Ladder) -> Row | None:
    """Return the first model of a ladder that is not worse than its base; None without one."""
    return next((row for row in ladder.rows if not row["is_base"] and not explain_worse(row)), None)


def describe_smallest(ladder: Ladder) -> str:
    """Write the sentence which model of a ladder is the smallest that is not worse than its base."""
    models = [row for row in ladder.rows if not row["is_base"]]
    first = find_smallest(ladder)
    if first is None:
        several = len(models) > 1
        named = (f"{row['shown']}: {explain_worse(row)}" for row in models)
        reasons = "; ".join(named) if several else explain_worse(models[0])
        if all(map(_lacks_data, models)):
            subject = "a model" if several else models[0]["shown"]
            return f"{TOO_LITTLE.capitalize()} to tell whether {subject} is worse than its base: {reasons}."
        subject = "Of no model" if several else f"Of {models[0]['shown']}"
        known = "is it known" if several else "it is not known"
        return f"{subject} {known} that it is not worse than its base: {reasons}."
    loss, right = first[LOSS_CHANGE], first[RIGHT_CHANGE]
    subject = f"{first['shown']} is not worse than its base"
    if len(models) > 1:
        which = "smallest" if first["bytes"] is not None else "first"
        subject = f"The {which} that is not worse than its base is {first['shown']}"
    return (
        f"{subject}: its loss changes by {with_interval(loss, 1.0, 4, '+')} bits per byte and its right "
        f"answers by {with_interval(right, 100.0, 2, '+')} points; changes below "
        f"{minimum_effect(LOSS_CHANGE, loss['ci_method']):.4g} bits and "
        f"{100 * minimum_effect(RIGHT_CHANGE, right['ci_method']):.4g} point do not matter."
    )
