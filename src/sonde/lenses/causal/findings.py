"""Verdicts on each property (used, encoded only, in between, neither or open), and their sentences.

A property is *used* where a probe surely finds it at the layer, and erasing it costs more than erasing labels
that say nothing, more than subspaces of no meaning, by a noticeable share of the surprisal, in a test that
holds over all that the run asked. It is *held* (encoded only) where a probe finds it and its cost is surely
less than that share. What lies *between* costs more, but surely more than all controls it does not.

The terminal and the report read these from rows of ``scores.parquet`` only, as they do the sentences on what
the logit lens (layers) and patching say of a model, and the headline lines of a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from scipy.special import stdtr, stdtrit

from sonde.base.formatting import bracket, join_names, number
from sonde.results.extremes import list_layers, split_by_threshold
from sonde.results.schema import dimension_value, get_dimensions, has_dimension_names, has_dimensions
from sonde.results.text_format import (
    NO_DIFFERENCE,
    SHARE,
    TOO_LITTLE,
    auto_digits,
    caveat,
    describe_detectable,
    describe_null_result,
    with_interval,
)
from sonde.stats.false_discovery import adjust_p_values, discovery_level
from sonde.stats.intervals import LEVEL
from sonde.stats.power import detectable_from_score, detectable_gap
from sonde.stats.verdict import no_verdict_reason

Row = Mapping[str, Any]


NOTICEABLE = 0.01
"""Share of the model's surprisal below which a cost says nothing about use: any change of states moves the
loss a little, that of untrained weights too."""


USED, BETWEEN, ENCODED, ABSENT, INCONCLUSIVE = "used", "between", "held", "neither", "open"


UNTOLD, UNMEASURED = "untold", "unmeasured"
"""Of what allows a verdict: it may cost as much as counts, or less; and what was not held against all that it
should be."""


UNIFORM, WIDE, PERMUTED, DONORS, CONTROL_TASK = "uniform", "as_wide", "permuted", "donors", "control_task"


CONTROLS = {
    DONORS: "the labels of other functions",
    CONTROL_TASK: "a class drawn for each word",
    PERMUTED: "the labels in another order",
    UNIFORM: "directions drawn uniformly",
    WIDE: "directions as wide",
    "surface": "the labels in another order, both together with the surface",
}
"""What is erased in place of the property, in words.

What holds states as wide is drawn as `sonde.training.erasure.equal_change_subspaces` says.
"""


_REQUIRED = ((UNIFORM, WIDE, DONORS, CONTROL_TASK), (UNIFORM, WIDE, PERMUTED, "surface"))
"""Controls of a property of tokens, and of one of functions."""


def is_surely_positive(row: Row) -> bool:
    """Whether a difference is above zero with a verdict."""
    return not no_verdict_reason(row) and row["ci_low"] > 0


def is_surely_nonzero(row: Row) -> bool:
    """Whether a difference is not zero with a verdict."""
    return not no_verdict_reason(row) and (row["ci_low"] > 0 or row["ci_high"] < 0)


def p_value(row: Row) -> float:
    """P-value of "the difference is 0", by the lower end of its interval where the row has none; 1 without.

    A difference that is not positive says nothing for a cost: 1.
    """
    if not row["value"] > 0:
        return 1.0
    if row["p_value"] is not None:
        return float(row["p_value"])
    low, df = row["ci_low"], row["df"]
    if low is None or df is None or not df >= 1:
        return 1.0
    error = (row["value"] - low) / float(stdtrit(df, 0.5 + LEVEL / 2))
    return float(2 * stdtr(df, -row["value"] / error)) if error > 0 else 0.0


def required_controls(excess: Mapping[str, Row]) -> tuple[str, ...]:
    """The controls that a property has to exceed; empty where one of them was not measured."""
    return next((names for names in _REQUIRED if all(name in excess for name in names)), ())


def largest_p_value(excess: Mapping[str, Row]) -> float | None:
    """P-value of "it exceeds not all of its controls"; None where not all were measured."""
    names = required_controls(excess)
    return max(p_value(excess[name]) for name in names) if names else None


def weakest_control(excess: Mapping[str, Row]) -> str:
    """The control that a property exceeds with the least certainty."""
    return max(required_controls(excess), key=lambda name: (p_value(excess[name]), -excess[name]["value"]))


def decide_outcome(
    *,
    before: Row,
    bits: Row,
    excess: Mapping[str, Row],
    gains: Mapping[str, Row],
    p_adjusted: float | None,
) -> tuple[str, str]:
    """What may be said of a property, and why nothing may.

    Args:
        before: The model's surprisal with nothing erased.
        bits: What erasing it costs.
        excess: By how much that is more than each control.
        gains: By how much a probe at that layer is righter than each of its controls.
        p_adjusted: Of `largest_p_value`, adjusted.
    """
    found, why = _decide_probe_outcome(gains)
    if found != USED:
        return found, why
    if why := no_verdict_reason(bits):
        return INCONCLUSIVE, why
    least = NOTICEABLE * before["value"]
    if bits["ci_high"] < least:
        return ENCODED, ""
    names = required_controls(excess)
    if not names or p_adjusted is None:
        return UNMEASURED, "it was not held against all of its controls"
    if why := next(filter(None, (no_verdict_reason(excess[name]) for name in names)), ""):
        return INCONCLUSIVE, why
    labels = [excess[name]["value"] for name in (DONORS, CONTROL_TASK, PERMUTED) if name in names]
    if p_adjusted <= 1 - LEVEL and min(labels) >= least:
        return USED, ""
    if bits["ci_low"] >= least:
        return BETWEEN, ""
    return UNTOLD, (
        f"it costs {bits['ci_low']:.3f} to {bits['ci_high']:.3f} bits per subword, and {least:.3f}, "
        f"{100 * NOTICEABLE:.0f} % of the model's surprisal, would count as use"
    )


def _decide_probe_outcome(gains: Mapping[str, Row]) -> tuple[str, str]:
    """Whether a probe surely finds a property."""
    common = gains.get("majority")
    if common is None:
        return UNMEASURED, "no probe could be held against the commonest class"
    for name, row in gains.items():
        if why := no_verdict_reason(row):
            return INCONCLUSIVE, why
        if row["ci_low"] <= 0:
            beaten = "the commonest class" if name == "majority" else CONTROLS[CONTROL_TASK]
            return ABSENT, f"a probe finds no more than {beaten} with certainty"
    return USED, ""


ERASE, ABLATE = "erase", "ablate"


MORE, LESS, ALIKE = "more", "less", "alike"


NAMES = {
    "idn": "what identifiers name",
    "block_depth": "block depth",
    "cpx": "cyclomatic complexity",
}
"""Properties in words; others are called as their task is."""


_BEST, _AT_ERASED = has_dimensions({"selection": "best"}), has_dimensions({"selection": "erased"})


_PLAIN = has_dimensions({})


@dataclass(frozen=True, slots=True)
class ErasedProperty:
    """One property of one model, at the layer where validation says that it speaks for it.

    Attributes:
        task: The property.
        layer: Where it is erased.
        before: The model's surprisal with nothing erased, in bits a subword.
        bits: What erasing it there costs, in bits a subword.
        controls: What each control costs, mean over its draws.
        excess: The paired difference to each control; ``surface``: of labels erased with the surface.
        answers: By how much fewer subwords the model finds likeliest than with directions as wide.
        accuracy: What a probe of that layer gets right with nothing erased.
        majority: What the commonest class gets right.
        gains: By how much the probe is righter than the commonest class, and than a class per word.
        overlap: How alike the draws of each kind of subspaces are.
        realised: How far these move states, over how far the property's map does.
        apart: How much further the cost is in one construct, chosen on validation, than elsewhere.
        p_adjusted: P-value of "it exceeds not all of its controls", adjusted over all that the run asked.
        kind: What may be concluded.
        why: Why nothing may; empty where something may.
    """

    task: str
    layer: int
    before: Row
    bits: Row
    controls: Mapping[str, Row]
    excess: Mapping[str, Row]
    answers: Row | None
    accuracy: Row | None
    majority: Row | None
    gains: Mapping[str, Row]
    overlap: Mapping[str, Row]
    realised: Mapping[str, Row]
    apart: Row | None
    p_adjusted: float | None = None
    kind: str = INCONCLUSIVE
    why: str = ""

    @property
    def name(self) -> str:
        """The property in words."""
        return NAMES.get(self.task, self.task)

    @property
    def construct(self) -> str:
        """Where it surely costs further than elsewhere; empty where nothing is said of a construct."""
        if self.apart is None or no_verdict_reason(self.apart) or p_value(self.apart) > 1 - LEVEL:
            return ""
        held = get_dimensions(self.apart)
        return str(held.get("construct", ""))

    @property
    def minimum_bits(self) -> float:
        """Bits that count as use."""
        return NOTICEABLE * self.before["value"]


def collect_erasures(scores: pl.DataFrame) -> list[tuple[str, str, list[ErasedProperty]]]:
    """The properties of each model and language, those that cost the most first."""
    family = adjusted_p(scores)
    held: dict[tuple[str, str], list[ErasedProperty]] = {}
    for (model, language), one in _iterate_properties(scores):
        p_adjusted = family.get((model, language, one.task))
        kind, why = decide_outcome(
            before=one.before, bits=one.bits, excess=one.excess, gains=one.gains, p_adjusted=p_adjusted
        )
        held.setdefault((model, language), []).append(replace(one, p_adjusted=p_adjusted, kind=kind, why=why))
    return [
        (model, language, sorted(own, key=lambda one: -one.bits["value"]))
        for (model, language), own in held.items()
    ]


def adjusted_p(scores: pl.DataFrame) -> dict[tuple[str, ...], float]:
    """Adjusted p-values of all that a run asks of interventions, over models, properties and relations.

    Returns:
        By model, language and property, "it exceeds not all of its controls"; by model, language, the task
        of relations and the relation, "its head costs as much as others at the dependents".
    """
    found: dict[tuple[str, ...], float] = {}
    for (model, language), one in _iterate_properties(scores):
        if (p := largest_p_value(one.excess)) is not None:
            found[model, language, one.task] = p
    for row in _relations(scores).iter_rows(named=True):
        found[row["model"], row["language"], row["task"], row["relation"]] = p_value(_upright(row))
    return dict(zip(found, adjust_p_values(list(found.values())), strict=True))


def _iterate_properties(scores: pl.DataFrame) -> Iterator[tuple[tuple[str, str], ErasedProperty]]:
    rows = scores.filter((pl.col("method") == ERASE) & (pl.col("split") == "test"))
    keys = ["model", "language", "task"]
    for (model, language, _), own in rows.partition_by(keys, as_dict=True, maintain_order=True).items():
        if (one := _read_property(own)) is not None:
            yield (str(model), str(language)), one


def _read_property(rows: pl.DataFrame) -> ErasedProperty | None:
    bits = _first(rows, _BEST, metric="bits", control=None)
    before = _first(rows, _PLAIN, metric="bits_before", control=None)
    if bits is None or before is None:
        return None
    here = rows.filter(pl.col("layer") == bits["layer"])
    surface = _first(
        here, has_dimensions({"selection": "best", "with": "surface"}), metric="excess", control="permuted"
    )
    return ErasedProperty(
        task=str(rows["task"][0]),
        layer=int(bits["layer"]),
        before=before,
        bits=bits,
        controls=_by_control(here.filter(_BEST), "bits"),
        excess=_by_control(here.filter(_BEST), "excess") | ({} if surface is None else {"surface": surface}),
        answers=_first(here, _BEST, metric="top1_excess", control=WIDE),
        accuracy=_first(here, _PLAIN, metric="accuracy", control=None),
        majority=_first(rows, _PLAIN, metric="accuracy", control="majority"),
        gains=_by_control(here.filter(_AT_ERASED), "gain"),
        overlap=_by_control(here.filter(_BEST), "overlap"),
        realised=_by_control(here.filter(_BEST), "realised_change"),
        apart=_first(here, pl.lit(value=True), metric="apart", control=WIDE),
    )


def _first(rows: pl.DataFrame, where: pl.Expr, **fields: str | None) -> Row | None:
    asked = [pl.col(name).eq_missing(pl.lit(value)) for name, value in fields.items()]
    held = rows.filter(where, *asked)
    return None if held.is_empty() else held.row(0, named=True)


def _by_control(rows: pl.DataFrame, metric: str) -> dict[str, Row]:
    held = rows.filter((pl.col("metric") == metric) & pl.col("control").is_not_null())
    return {row["control"]: row for row in held.iter_rows(named=True)}


def select_reprobing_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """What new probes find behind an erasure: accuracies with ``erased``, its layer, -1 for nothing."""
    rows = scores.filter((pl.col("method") == ERASE) & (pl.col("metric") == "accuracy"))
    rows = rows.filter(has_dimension_names("erased"))
    return rows.with_columns(erased=dimension_value("erased").cast(pl.Int32, strict=False).fill_null(-1))


def select_ablation_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """Effects of ablated heads: the rows of each relation with ``relation, where``."""
    rows = scores.filter((pl.col("method") == ABLATE) & (pl.col("split") == "test"))
    return rows.with_columns(relation=dimension_value("relation"), where=dimension_value("where")).filter(
        pl.col("relation").is_not_null(), dimension_value("at").is_null()
    )


def _relations(scores: pl.DataFrame) -> pl.DataFrame:
    """What heads cost at the dependents of their relation beyond other heads."""
    excess = (pl.col("metric") == "excess") & (pl.col("control") == "random")
    return select_ablation_scores(scores).filter(excess & (pl.col("where") == "here"))


def count_shared_tests(scores: pl.DataFrame) -> float:
    """Return for how many tests the level is shared out at which one more finding would be made."""
    p_values = list(adjusted_p(scores).values())
    found = sum(p <= 1 - LEVEL for p in p_values)
    return (1 - LEVEL) / discovery_level(len(p_values), found)


def compare_with_other_heads(scores: pl.DataFrame) -> list[tuple[Row, str]]:
    """Of each relation what its head costs beyond other heads: `MORE`, `LESS`, `ALIKE`, or why nothing."""
    family = adjusted_p(scores)
    found: list[tuple[Row, str]] = []
    for row in _relations(scores).sort("value", descending=True).iter_rows(named=True):
        p = family[row["model"], row["language"], row["task"], row["relation"]]
        kind = ALIKE if p > 1 - LEVEL else MORE if row["value"] > 0 else LESS
        found.append((row, no_verdict_reason(row) or kind))
    return found


def _upright(row: Row) -> Row:
    """A difference by its size, whichever way it goes."""
    if row["value"] >= 0 or row["ci_low"] is None:
        return row
    return {**row, "value": -row["value"], "ci_low": -row["ci_high"], "ci_high": -row["ci_low"]}


def lead_sentences(model: str, found: Sequence[ErasedProperty]) -> str:
    """What a model uses, what lies between and what it merely holds, with the numbers and their controls."""
    told: list[str] = []
    for kind, (verb, sentence) in _SAID.items():
        mine = [one for one in found if one.kind == kind]
        if mine:
            names, said = join_names([one.name for one in mine]), "; ".join(map(sentence, mine))
            told.append(f"{'It' if told else model} {verb} {names}: {said}.")
    rest = [one for one in found if one.kind not in _SAID]
    if told:
        return " ".join(
            [*told, *(f"{said[:1].upper()}{said[1:]}." for said in map(describe_open_outcome, rest))]
        )
    if all(one.kind == INCONCLUSIVE for one in rest):
        shown = "; ".join(f"{one.name} ({one.why}), of which {_estimates(one)}" for one in rest)
        return f"{TOO_LITTLE[:1].upper()}{TOO_LITTLE[1:]} on whether {model} uses what it knows: {shown}."
    return f"{model} is not seen to use what it knows: {'; '.join(map(describe_open_outcome, rest))}."


def describe_open_outcome(one: ErasedProperty) -> str:
    """Say of a property that is neither used nor held nor between which of the other outcomes it is."""
    if one.kind == INCONCLUSIVE:
        return f"{TOO_LITTLE} on {one.name} ({one.why}), of which {_estimates(one)}"
    if one.kind == UNTOLD:
        return f"{NO_DIFFERENCE} for {one.name} that would count as use: {one.why}"
    if one.kind == ABSENT:
        name, row = next((name, row) for name, row in one.gains.items() if row["ci_low"] <= 0)
        beaten = "the commonest class" if name == "majority" else CONTROLS[name]
        found = describe_null_result(row, 100, 1, " points")
        gain = SHARE.change(row, sign="+")
        if row["ci_high"] < 0:
            behind = f"a probe of layer {one.layer} is right less often than {beaten}"
            return f"{one.name}: {behind}, {gain}"
        return f"{one.name}: {found} between a probe of layer {one.layer} and {beaten}, {gain}"
    return f"{one.name}: no verdict, {one.why}"


def _estimates(one: ErasedProperty) -> str:
    """What was estimated of a property, whatever it allows: its cost, and what a probe finds of it."""
    told = f"erasing it at layer {one.layer} costs {cost(one)}"
    gain = one.gains.get("majority")
    return told if gain is None else f"{told}, and a probe gains {SHARE.change(gain, sign='+')}"


def cost(one: ErasedProperty) -> str:
    """What erasing a property costs, in bits and as a share of the surprisal."""
    part = 100 * one.bits["value"] / one.before["value"] if one.before["value"] else math.nan
    return f"{bits(one.bits)} bits per subword, {number(part, 1)} % of surprisal"


def _describe_use(one: ErasedProperty) -> str:
    beside = join_names(
        [f"{CONTROLS[name]} {bits(row)}" for name, row in one.controls.items() if name in CONTROLS]
    )
    least = weakest_control(one.excess)
    return (
        f"erasing {one.name} at layer {one.layer} costs {cost(one)}; {beside}. The difference is least "
        f"certain for {CONTROLS[least]}: {bits(one.excess[least], sign='+')}"
    )


def _describe_partial_use(one: ErasedProperty) -> str:
    name = weakest_control(one.excess)
    row, beside = one.excess[name], one.controls.get(name)
    told = "" if beside is None else f", {bits(beside)}"
    apart = f"(difference {bits(row, sign='+')})"
    if row["ci_high"] < 0:
        said = f"less than {CONTROLS[name]}{told} {apart}"
    elif one.p_adjusted is not None and one.p_adjusted <= 1 - LEVEL:
        said = f"more than its controls, yet not by {100 * NOTICEABLE:.0f} % of surprisal"
    else:
        would = describe_detectable(detectable_from_score(row), digits=3, unit=" bits")
        said = f"{NO_DIFFERENCE} from {CONTROLS[name]}{told} {apart}{bracket(would)}"
    return f"erasing {one.name} at layer {one.layer} costs {cost(one)}, {said}"


def _describe_encoding(one: ErasedProperty) -> str:
    return (
        f"a probe of layer {one.layer} is right on {share(one.accuracy)} % of {one.name} (the commonest "
        f"class {share(one.majority)} %), yet erasing it there costs {bits(one.bits)} bits per subword, "
        f"surely less than {100 * NOTICEABLE:.0f} % of surprisal ({one.minimum_bits:.3f})"
    )


_SAID = {
    USED: ("uses", _describe_use),
    BETWEEN: ("neither surely uses nor merely holds", _describe_partial_use),
    ENCODED: ("merely holds", _describe_encoding),
}


def bits(row: Row | None, sign: str = "") -> str:
    """A number of bits with its interval, in as many decimals as tell it from zero."""
    if row is None:
        return "?"
    return with_interval(row, 1, max(3, auto_digits(row)), sign)


def share(row: Row | None) -> str:
    """A share in per cent."""
    return "?" if row is None else f"{100 * row['value']:.1f}"


LAYERS, PATCH = "logit_lens", "patch"


def sentences(scores: pl.DataFrame) -> Iterator[str]:
    """The sentences of each model and language."""
    rows = scores.filter(pl.col("method").is_in([LAYERS, PATCH]))
    for (model, language), part in rows.partition_by(
        "model", "language", as_dict=True, maintain_order=True
    ).items():
        for sentence in (layers_sentence, patching_sentence):
            if said := sentence(f"{model} ({language})", part):
                yield said


def _overall(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    return rows.filter((pl.col("metric") == metric) & has_dimension_names())


def layers_sentence(subject: str, rows: pl.DataFrame) -> str:
    """Where the right subword comes to the top, and from where frequency is beaten; empty without scores.

    Args:
        subject: Whom the rows are about.
        rows: Scores of one model and language, those of controls included.
    """
    own = rows.filter((pl.col("method") == "logit_lens") & pl.col("control").is_null())
    bits = {row["layer"]: row for row in _overall(own, "bits").iter_rows(named=True)}
    first = _overall(own, "first_layer").to_dicts()
    if not bits or not first:
        return ""
    depth = max(bits)
    said = (
        f"{subject}: of the subwords that it gets right, the right one stays on top from layer "
        f"{with_interval(first[0])} of {depth} on, on average; {with_interval(bits[depth])} bits a subword "
        "in the end"
    )
    if depth - 1 in bits:
        said += f", {with_interval(bits[depth - 1])} one layer before"
    for row in _overall(rows, "bits").filter(pl.col("control") == "unigram").iter_rows(named=True):
        said += f"; by frequency alone {with_interval(row)}"
        if no_verdict_reason(row):
            continue
        judged = {layer: one for layer, one in bits.items() if not no_verdict_reason(one)}
        beaten = [layer for layer, one in judged.items() if one["ci_high"] < row["ci_low"]]
        if beaten:
            said += f", surely above that of {list_layers(beaten)}"
        elif judged and all(one["ci_low"] > row["ci_high"] for one in judged.values()):
            said += ", surely below that of every layer"
        elif judged:
            reach = describe_detectable(max(detectable_gap(one, row) for one in judged.values()), digits=2)
            said += f", {NO_DIFFERENCE} by which it is above that of any layer{bracket(reach)}"
    return f"{said}{caveat(first[0])}."


def patching_sentence(subject: str, rows: pl.DataFrame) -> str:
    """Whether the model follows the exchange at all, and where the answer moves to; empty without scores.

    Args:
        subject: Whom the rows are about.
        rows: Scores of one model and language.
    """
    change = rows.filter(pl.col("metric") == "margin_change").to_dicts()
    if not change:
        return ""
    told = change[0]
    over = f"{told['n']:,} pair{'s' * (told['n'] != 1)}"
    moves = (
        f"{subject}: exchanging two variables moves the answer by {with_interval(told)} logits over {over}"
    )
    if why := no_verdict_reason(told):
        return (
            f"{subject}: {TOO_LITTLE} on whether exchanging two variables moves the answer ({why}): "
            f"{with_interval(told)} logits over {over}."
        )
    if told["ci_high"] < 0:
        return f"{moves}, away from where it should, so that the maps say nothing."
    if told["ci_low"] <= 0:
        return (
            f"{moves}, {describe_null_result(told, digits=2, unit=' logits')}, so that the maps say nothing."
        )
    measured = rows.filter((pl.col("metric") == "recovered") & (pl.col("method") == PATCH))
    at = {
        cell: {
            row["layer"]: row
            for row in measured.filter(has_dimensions({"direction": "denoising", "cell": cell})).iter_rows(
                named=True
            )
        }
        for cell in ("names", "place")
    }
    said = moves
    # Of several layers each is named at a level that holds for all of them together.
    kept, moved = (
        [row["layer"] for row in split_by_threshold(at[cell].values(), 0.5)[0] if not no_verdict_reason(row)]
        for cell in ("names", "place")
    )
    if kept:
        said += (
            f"; the states of both variables' places surely bring back more than half of it at "
            f"{list_layers(kept)} ({with_interval(at['names'][max(kept)], 100, 0)} % at layer {max(kept)})"
        )
    if moved:
        said += (
            f"; those of where the model answers at {list_layers(moved)} "
            f"({with_interval(at['place'][min(moved)], 100, 0)} % at layer {min(moved)})"
        )
    else:
        said += "; those of where the model answers do so surely at no layer before the last"
    return f"{said}."


SAID = {MORE: "costs more than", LESS: "costs less than"}
"""What a head costs compared with others."""


def describe_findings(scores: pl.DataFrame) -> Iterator[str]:
    """What the model uses, what it merely holds and what lies between; then a line a relation and layer."""
    for model, language, found in collect_erasures(scores):
        yield lead_sentences(f"{model} ({language})", found)
        for one in found:
            if one.construct:
                yield (
                    f"{one.name} ({language}), {model}: erased at layer {one.layer}, in {one.construct} "
                    f"{bits(one.apart, sign='+')} bits per subword further than elsewhere"
                )
    tests = count_shared_tests(scores)
    for row, kind in compare_with_other_heads(scores):
        who = f"{row['relation']} ({row['language']}), {row['model']}"
        head, others = f"its head {row['layer']}.{row['head']} ablated", "other heads of the layer"
        if kind in SAID:
            said = f"{head} {SAID[kind]} {others} at its dependents"
        elif kind == ALIKE:
            found = describe_null_result(row, digits=3, unit=" bits", n_comparisons=tests)
            said = f"{found} between {head} and {others} at its dependents"
        else:
            said = f"{TOO_LITTLE} on {head} beside {others} at its dependents ({kind})"
        yield f"{who}: {said}: {bits(row, sign='+')} bits"
    yield from sentences(scores)
