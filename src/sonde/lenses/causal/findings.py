"""What may be concluded of each property: that the model uses it, that it merely holds it, or nothing.

Read by the terminal and by the page, from rows of ``scores.parquet`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.results.dimensions import dimension, dimensions_are, dimensions_named
from sonde.results.verdict import why_no_verdict

Row = Mapping[str, Any]

NOTICEABLE = 0.01
"""Share of the model's surprisal below which a cost says nothing about use: any change of states moves the
loss a little, that of untrained weights too."""

ERASE, ABLATE = "erase", "ablate"
USED, HELD, NEITHER, OPEN = "used", "held", "neither", "open"

NAMES = {
    "idn": "what identifiers name",
    "block_depth": "block depth",
    "cpx": "cyclomatic complexity",
}
"""Properties in words; others are called as their task is."""

CONTROLS = {
    "random": "a random subspace of the same rank and mean squared change",
    "permuted": "the labels in another order",
    "control_task": "a class drawn for each word",
    "majority": "the commonest class",
}
"""Controls in words."""

_BEST = dimensions_are({"selection": "best"})
_KEY = ("model", "language", "task")


@dataclass(frozen=True, slots=True)
class Erased:
    """One property of one model.

    Attributes:
        task: The property.
        layer: Where erasing it exceeds a random subspace the most, chosen on validation.
        before: The model's surprisal with nothing erased, in bits a subword; earlier versions kept none.
        bits: What erasing it there costs, in bits a subword.
        random: What a random subspace costs.
        excess: The paired difference of the two.
        answers: By how much fewer subwords the model finds likeliest than with a random subspace.
        at_probe: The same difference at the layer where a probe finds it best.
        accuracy: What a probe gets right with nothing erased, at its best layer.
        majority: What the commonest class gets right.
        gain: The paired difference of these two.
        apart: How much further the cost is in one construct, chosen on validation, than elsewhere.
        kind: What may be concluded.
        why: Why nothing may; empty where something may.
    """

    task: str
    layer: int
    before: Row | None
    bits: Row
    random: Row
    excess: Row
    answers: Row | None
    at_probe: Row | None
    accuracy: Row | None
    majority: Row | None
    gain: Row | None
    apart: Row | None
    kind: str
    why: str

    @property
    def name(self) -> str:
        """The property in words."""
        return NAMES.get(self.task, self.task)

    @property
    def construct(self) -> str:
        """Where it costs the most; empty where nothing is said of a construct."""
        if self.apart is None:
            return ""
        held = {one["name"]: one["value"] for one in self.apart["dimensions"]}
        return str(held.get("construct", ""))


def erased_of(scores: pl.DataFrame) -> list[tuple[str, str, list[Erased]]]:
    """The properties of each model and language, those of the largest excess first."""
    rows = scores.filter((pl.col("method") == ERASE) & (pl.col("split") == "test"))
    found: list[tuple[str, str, list[Erased]]] = []
    for (model, language), part in rows.partition_by(
        "model", "language", as_dict=True, maintain_order=True
    ).items():
        tasks = [
            one for own in part.partition_by("task", maintain_order=True) if (one := _erased(own)) is not None
        ]
        if tasks:
            ranked = sorted(tasks, key=lambda one: -one.excess["value"])
            found.append((str(model), str(language), ranked))
    return found


def _erased(rows: pl.DataFrame) -> Erased | None:
    excess = _first(rows, _BEST, metric="excess", control="random")
    bits = _first(rows, _BEST, metric="bits", control=None)
    random = _first(rows, _BEST, metric="bits", control="random")
    if excess is None or bits is None or random is None:
        return None
    gain = _first(rows, _BEST, metric="gain", control="majority")
    plain = dimensions_are({})
    accuracy = majority = at_probe = None
    if gain is not None:
        accuracy = _first(rows, plain & (pl.col("layer") == gain["layer"]), metric="accuracy", control=None)
        majority = _first(rows, plain, metric="accuracy", control="majority")
        at_probe = _first(rows, plain & (pl.col("layer") == gain["layer"]), metric="excess", control="random")
    apart = _first(rows, pl.lit(value=True), metric="apart", control="random")
    before = _first(rows, plain, metric="bits_before", control=None)
    kind, why = _concluded(excess, at_probe, gain, before)
    return Erased(
        task=str(rows["task"][0]),
        layer=int(excess["layer"]),
        before=before,
        bits=bits,
        random=random,
        excess=excess,
        answers=_first(rows, _BEST, metric="top1_excess", control="random"),
        at_probe=at_probe,
        accuracy=accuracy,
        majority=majority,
        gain=gain,
        apart=apart,
        kind=kind,
        why=why,
    )


def _first(rows: pl.DataFrame, where: pl.Expr, **fields: str | None) -> Row | None:
    asked = [pl.col(name).eq_missing(pl.lit(value)) for name, value in fields.items()]
    held = rows.filter(where, *asked)
    return None if held.is_empty() else held.row(0, named=True)


def _concluded(excess: Row, at_probe: Row | None, gain: Row | None, before: Row | None) -> tuple[str, str]:
    """What may be said of a property, and why nothing may."""
    least = NOTICEABLE * before["value"] if before is not None else 0.0
    if why := why_no_verdict(excess):
        return OPEN, why
    if excess["ci_low"] > 0 and excess["value"] >= least:
        return USED, ""
    if gain is None or at_probe is None:
        return OPEN, "no probe could be held against the commonest class"
    if why := why_no_verdict(gain) or why_no_verdict(at_probe):
        return OPEN, why
    if gain["ci_low"] <= 0:
        return NEITHER, ""
    if before is None:
        return OPEN, "an earlier version kept no surprisal that its cost could be held against"
    if (most := max(excess["ci_high"], at_probe["ci_high"])) > least:
        return OPEN, (
            f"beyond a random subspace it may cost up to {most:.3f} bits a subword, and {least:.3f}, "
            f"{100 * NOTICEABLE:.0f} % of the model's surprisal, would count as use"
        )
    return HELD, ""


def rebuilt_of(scores: pl.DataFrame) -> pl.DataFrame:
    """What new probes find behind an erasure: rows of accuracies with ``erased``, the layer of that."""
    rows = scores.filter((pl.col("method") == ERASE) & (pl.col("metric") == "accuracy"))
    rows = rows.filter(dimensions_named("erased"))
    return rows.with_columns(erased=dimension("erased").cast(pl.Int32))


def ablated_of(scores: pl.DataFrame) -> pl.DataFrame:
    """Effects of ablated heads: the rows of each relation with ``relation, where``."""
    rows = scores.filter((pl.col("method") == ABLATE) & (pl.col("split") == "test"))
    return rows.with_columns(relation=dimension("relation"), where=dimension("where")).filter(
        pl.col("relation").is_not_null(), dimension("at").is_null()
    )


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def lead(model: str, found: Sequence[Erased]) -> str:
    """What a model uses and what it merely holds, with the numbers and their controls."""
    parts: list[str] = []
    used = [one for one in found if one.kind == USED]
    held = [one for one in found if one.kind == HELD]
    if used:
        said = "; ".join(
            f"erasing {one.name} at layer {one.layer} costs {bits(one.bits)} bits a subword{_of(one)}, a "
            f"random subspace {bits(one.random)} (difference {bits(one.excess, sign='+')})"
            for one in used
        )
        parts.append(f"uses {listed([one.name for one in used])}: {said}")
    if held:
        said = "; ".join(
            f"a probe of layer {one.gain['layer'] if one.gain else '?'} is right on {share(one.accuracy)} % "
            f"of {one.name} (the commonest class {share(one.majority)} %), yet erasing it there costs "
            f"{bits(one.at_probe, sign='+')} bits beyond a random subspace, and "
            f"{bits(one.excess, sign='+')} at layer {one.layer}, where it is the most by "
            f"validation{_least(one)}"
            for one in held
        )
        parts.append(f"merely holds {listed([one.name for one in held])}: {said}")
    if not parts:
        reasons = listed(
            [f"{one.name} ({one.why or 'a probe finds no more than the commonest class'})" for one in found]
        )
        return f"No verdict on whether {model} uses what it knows: {reasons}."
    told = f"{model} {'; it '.join(parts)}."
    rest = [one for one in found if one.kind in (OPEN, NEITHER)]
    if not rest:
        return told
    reasons = listed([f"{one.name} ({one.why or 'a probe finds nothing'})" for one in rest])
    return f"{told} No verdict on {reasons}."


def _of(one: Erased) -> str:
    return "" if one.before is None else f" on top of {one.before['value']:.2f}"


def _least(one: Erased) -> str:
    """From where on a cost would count as use."""
    if one.before is None:
        return ""
    return f" ({100 * NOTICEABLE:.0f} % of its surprisal is {NOTICEABLE * one.before['value']:.3f})"


def bits(row: Row | None, sign: str = "") -> str:
    """A number of bits with its interval."""
    if row is None:
        return "?"
    low, high = row["ci_low"], row["ci_high"]
    ends = "" if low is None or high is None else f" [{low:{sign}.3f}, {high:{sign}.3f}]"
    return f"{row['value']:{sign}.3f}{ends}"


def share(row: Row | None) -> str:
    """A share in per cent."""
    return "?" if row is None else f"{100 * row['value']:.1f}"
