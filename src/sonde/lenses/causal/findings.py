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

from sonde.results.extremes import list_layers, split_by_threshold
from sonde.results.schema import REASON, dimension_value, has_dimension_names, has_dimensions
from sonde.results.scores import LEFT_OUT
from sonde.results.text_format import (
    NO_DIFFERENCE,
    TOO_LITTLE,
    auto_digits,
    bracket,
    caveat,
    describe_detectable,
    describe_null_result,
    format_score,
    join_names,
    number,
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
    """Return whether a difference is above zero with a verdict."""
    return not no_verdict_reason(row) and row["ci_low"] > 0


def is_surely_nonzero(row: Row) -> bool:
    """Return whether a difference is not zero with a verdict."""
    return not no_verdict_reason(row) and (row["ci_low"] > 0 or row["ci_high"] < 0)


def p_value(row: Row) -> float:
    """Return the p-value of a zero difference, by its interval where the row has none; else 1.

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
    """Return the controls that a property has to exceed; empty where one of them was not measured."""
    return next((names for names in _REQUIRED if all(name in excess for name in names)), ())


def largest_p_value(excess: Mapping[str, Row]) -> float | None:
    """Return the largest p-value over all controls; None where not all were measured."""
    names = required_controls(excess)
    return max(p_value(excess[name]) for name in names) if names else None


def weakest_control(excess: Mapping[str, Row]) -> str:
    """Return the control that a property exceeds with the least certainty."""
    return max(required_controls(excess), key=lambda name: (p_value(excess[name]), -excess[name]["value"]))


def decide_outcome(
    *,
    before: Row,
    bits: Row,
    excess: Mapping[str, Row],
    gains: Mapping[str, Row],
    p_adjusted: float | None,
) -> tuple[str, str]:
    """Decide the outcome of a property, and the reason where there is none.

    Args:
        before: The model's surprisal with nothing erased.
        bits: What erasing it costs.
        excess: By how much that is more than each control.
        gains: By how much a probe at that layer is righter than each of its controls.
        p_adjusted: Of `largest_p_value`, adjusted.
    """
    outcome, reason = _decide_probe_outcome(gains)
    if outcome != USED:
        return outcome, reason
    if reason := no_verdict_reason(bits):
        return INCONCLUSIVE, reason
    threshold = NOTICEABLE * before["value"]
    if bits["ci_high"] < threshold:
        return ENCODED, ""
    names = required_controls(excess)
    if not names or p_adjusted is None:
        return UNMEASURED, "it was not held against all of its controls"
    if reason := next(filter(None, (no_verdict_reason(excess[name]) for name in names)), ""):
        return INCONCLUSIVE, reason
    labels = [excess[name]["value"] for name in (DONORS, CONTROL_TASK, PERMUTED) if name in names]
    if p_adjusted <= 1 - LEVEL and min(labels) >= threshold:
        return USED, ""
    if bits["ci_low"] >= threshold:
        return BETWEEN, ""
    return UNTOLD, (
        f"it costs {bits['ci_low']:.3f} to {bits['ci_high']:.3f} bits per subword, and {threshold:.3f}, "
        f"{100 * NOTICEABLE:.0f} % of the model's surprisal, would count as use"
    )


def _decide_probe_outcome(gains: Mapping[str, Row]) -> tuple[str, str]:
    """Decide whether a probe surely finds a property."""
    common = gains.get("majority")
    if common is None:
        return UNMEASURED, "no probe could be held against the commonest class"
    for name, row in gains.items():
        if reason := no_verdict_reason(row):
            return INCONCLUSIVE, reason
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
        """Return the property in words."""
        return NAMES.get(self.task, self.task)

    @property
    def construct(self) -> str:
        """Return the construct where it surely costs more than elsewhere; empty for none."""
        if self.apart is None or no_verdict_reason(self.apart) or p_value(self.apart) > 1 - LEVEL:
            return ""
        values = {dimension["name"]: dimension["value"] for dimension in self.apart["dimensions"]}
        return str(values.get("construct", ""))

    @property
    def minimum_bits(self) -> float:
        """Return the bits that count as use."""
        return NOTICEABLE * self.before["value"]


def collect_erasures(scores: pl.DataFrame) -> list[tuple[str, str, list[ErasedProperty]]]:
    """Collect the properties of each model and language, the costliest first."""
    family = adjusted_p(scores)
    by_model: dict[tuple[str, str], list[ErasedProperty]] = {}
    for (model, language), erasure in _iterate_properties(scores):
        p_adjusted = family.get((model, language, erasure.task))
        kind, reason = decide_outcome(
            before=erasure.before,
            bits=erasure.bits,
            excess=erasure.excess,
            gains=erasure.gains,
            p_adjusted=p_adjusted,
        )
        by_model.setdefault((model, language), []).append(
            replace(erasure, p_adjusted=p_adjusted, kind=kind, why=reason)
        )
    return [
        (model, language, sorted(properties, key=lambda erasure: -erasure.bits["value"]))
        for (model, language), properties in by_model.items()
    ]


def adjusted_p(scores: pl.DataFrame) -> dict[tuple[str, ...], float]:
    """Adjust the p-values of a run's interventions over models, properties and relations.

    Returns:
        By model, language and property, "it exceeds not all of its controls"; by model, language, the task
        of relations and the relation, "its head costs as much as others at the dependents".
    """
    p_values: dict[tuple[str, ...], float] = {}
    for (model, language), erasure in _iterate_properties(scores):
        if (p := largest_p_value(erasure.excess)) is not None:
            p_values[model, language, erasure.task] = p
    for row in _relations(scores).iter_rows(named=True):
        p_values[row["model"], row["language"], row["task"], row["relation"]] = p_value(_upright(row))
    return dict(zip(p_values, adjust_p_values(list(p_values.values())), strict=True))


def _iterate_properties(scores: pl.DataFrame) -> Iterator[tuple[tuple[str, str], ErasedProperty]]:
    rows = scores.filter((pl.col("method") == ERASE) & (pl.col("split") == "test"))
    keys = ["model", "language", "task"]
    for (model, language, _), property_rows in rows.partition_by(
        keys, as_dict=True, maintain_order=True
    ).items():
        if (erasure := _read_property(property_rows)) is not None:
            yield (str(model), str(language)), erasure


def _read_property(rows: pl.DataFrame) -> ErasedProperty | None:
    bits = _first(rows, _BEST, metric="bits", control=None)
    baseline = _first(rows, _PLAIN, metric="bits_before", control=None)
    if bits is None or baseline is None:
        return None
    layer_rows = rows.filter(pl.col("layer") == bits["layer"])
    surface = _first(
        layer_rows,
        has_dimensions({"selection": "best", "with": "surface"}),
        metric="excess",
        control="permuted",
    )
    return ErasedProperty(
        task=str(rows["task"][0]),
        layer=int(bits["layer"]),
        before=baseline,
        bits=bits,
        controls=_by_control(layer_rows.filter(_BEST), "bits"),
        excess=_by_control(layer_rows.filter(_BEST), "excess")
        | ({} if surface is None else {"surface": surface}),
        answers=_first(layer_rows, _BEST, metric="top1_excess", control=WIDE),
        accuracy=_first(layer_rows, _PLAIN, metric="accuracy", control=None),
        majority=_first(rows, _PLAIN, metric="accuracy", control="majority"),
        gains=_by_control(layer_rows.filter(_AT_ERASED), "gain"),
        overlap=_by_control(layer_rows.filter(_BEST), "overlap"),
        realised=_by_control(layer_rows.filter(_BEST), "realised_change"),
        apart=_first(layer_rows, pl.lit(value=True), metric="apart", control=WIDE),
    )


def _first(rows: pl.DataFrame, condition: pl.Expr, **fields: str | None) -> Row | None:
    conditions = [pl.col(name).eq_missing(pl.lit(value)) for name, value in fields.items()]
    matches = rows.filter(condition, *conditions)
    return None if matches.is_empty() else matches.row(0, named=True)


def _by_control(rows: pl.DataFrame, metric: str) -> dict[str, Row]:
    metric_rows = rows.filter((pl.col("metric") == metric) & pl.col("control").is_not_null())
    return {row["control"]: row for row in metric_rows.iter_rows(named=True)}


def select_reprobing_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """Select the accuracies of new probes after an erasure, with ``erased``, its layer or -1."""
    rows = scores.filter((pl.col("method") == ERASE) & (pl.col("metric") == "accuracy"))
    rows = rows.filter(has_dimension_names("erased"))
    return rows.with_columns(erased=dimension_value("erased").cast(pl.Int32, strict=False).fill_null(-1))


def select_ablation_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """Select the effects of ablated heads, with ``relation, where``."""
    rows = scores.filter((pl.col("method") == ABLATE) & (pl.col("split") == "test"))
    return rows.with_columns(relation=dimension_value("relation"), where=dimension_value("where")).filter(
        pl.col("relation").is_not_null(), dimension_value("at").is_null()
    )


def _relations(scores: pl.DataFrame) -> pl.DataFrame:
    """Select the excess costs of heads over others at their relation's dependents."""
    excess = (pl.col("metric") == "excess") & (pl.col("control") == "random")
    return select_ablation_scores(scores).filter(excess & (pl.col("where") == "here"))


def count_shared_tests(scores: pl.DataFrame) -> float:
    """Return for how many tests the level is shared out at which one more finding would be made."""
    p_values = list(adjusted_p(scores).values())
    count = sum(p <= 1 - LEVEL for p in p_values)
    return (1 - LEVEL) / discovery_level(len(p_values), count)


def compare_with_other_heads(scores: pl.DataFrame) -> list[tuple[Row, str]]:
    """Compare each relation's head with other heads: `MORE`, `LESS`, `ALIKE`, or a reason."""
    family = adjusted_p(scores)
    results: list[tuple[Row, str]] = []
    for row in _relations(scores).sort("value", descending=True).iter_rows(named=True):
        p = family[row["model"], row["language"], row["task"], row["relation"]]
        kind = ALIKE if p > 1 - LEVEL else MORE if row["value"] > 0 else LESS
        results.append((row, no_verdict_reason(row) or kind))
    return results


def _upright(row: Row) -> Row:
    """Return a difference with its sign turned positive."""
    if row["value"] >= 0 or row["ci_low"] is None:
        return row
    return {**row, "value": -row["value"], "ci_low": -row["ci_high"], "ci_high": -row["ci_low"]}


def lead_sentences(model: str, properties: Sequence[ErasedProperty]) -> str:
    """Write what a model uses, encodes or neither, with numbers and controls."""
    lines: list[str] = []
    for kind, (verb, sentence) in _SAID.items():
        of_kind = [erasure for erasure in properties if erasure.kind == kind]
        if of_kind:
            names, details = (
                join_names([erasure.name for erasure in of_kind]),
                "; ".join(map(sentence, of_kind)),
            )
            lines.append(f"{'It' if lines else model} {verb} {names}: {details}.")
    others_left = [erasure for erasure in properties if erasure.kind not in _SAID]
    if lines:
        return " ".join(
            [
                *lines,
                *(
                    f"{sentence_of_rest[:1].upper()}{sentence_of_rest[1:]}."
                    for sentence_of_rest in map(describe_open_outcome, others_left)
                ),
            ]
        )
    if all(erasure.kind == INCONCLUSIVE for erasure in others_left):
        verdicts = "; ".join(
            f"{erasure.name} ({erasure.why}), of which {_estimates(erasure)}" for erasure in others_left
        )
        return f"{TOO_LITTLE[:1].upper()}{TOO_LITTLE[1:]} on whether {model} uses what it knows: {verdicts}."
    return f"{model} is not seen to use what it knows: {'; '.join(map(describe_open_outcome, others_left))}."


def describe_open_outcome(erasure: ErasedProperty) -> str:
    """Say of a property that is neither used nor held nor between which of the other outcomes it is."""
    if erasure.kind == INCONCLUSIVE:
        return f"{TOO_LITTLE} on {erasure.name} ({erasure.why}), of which {_estimates(erasure)}"
    if erasure.kind == UNTOLD:
        return f"{NO_DIFFERENCE} for {erasure.name} that would count as use: {erasure.why}"
    if erasure.kind == ABSENT:
        name, row = next((name, row) for name, row in erasure.gains.items() if row["ci_low"] <= 0)
        beaten = "the commonest class" if name == "majority" else CONTROLS[name]
        null_result = describe_null_result(row, 100, 1, " points")
        gain = format_score(row, 100, 1, sign="+")
        if row["ci_high"] < 0:
            comparison = f"a probe of layer {erasure.layer} is right less often than {beaten}"
            return f"{erasure.name}: {comparison}, {gain} points"
        return (
            f"{erasure.name}: {null_result} between a probe of layer {erasure.layer} and {beaten}, "
            f"{gain} points"
        )
    return f"{erasure.name}: no verdict, {erasure.why}"


def _estimates(erasure: ErasedProperty) -> str:
    """Describe the estimates of a property: its cost, and the gain of a probe."""
    sentence = f"erasing it at layer {erasure.layer} costs {cost(erasure)}"
    gain = erasure.gains.get("majority")
    return (
        sentence
        if gain is None
        else f"{sentence}, and a probe gains {format_score(gain, 100, 1, sign='+')} points"
    )


def cost(erasure: ErasedProperty) -> str:
    """Format the cost of erasing a property, in bits and as a share of surprisal."""
    part = 100 * erasure.bits["value"] / erasure.before["value"] if erasure.before["value"] else math.nan
    return f"{bits(erasure.bits)} bits per subword, {number(part, 1)} % of surprisal"


def _describe_use(erasure: ErasedProperty) -> str:
    controls = join_names(
        [f"{CONTROLS[name]} {bits(row)}" for name, row in erasure.controls.items() if name in CONTROLS]
    )
    weakest = weakest_control(erasure.excess)
    return (
        f"erasing {erasure.name} at layer {erasure.layer} costs {cost(erasure)}; {controls}. The difference "
        f"is least certain for {CONTROLS[weakest]}: {bits(erasure.excess[weakest], sign='+')}"
    )


def _describe_partial_use(erasure: ErasedProperty) -> str:
    name = weakest_control(erasure.excess)
    row, control = erasure.excess[name], erasure.controls.get(name)
    control_cost = "" if control is None else f", {bits(control)}"
    difference = f"(difference {bits(row, sign='+')})"
    if row["ci_high"] < 0:
        sentence = f"less than {CONTROLS[name]}{control_cost} {difference}"
    elif erasure.p_adjusted is not None and erasure.p_adjusted <= 1 - LEVEL:
        sentence = f"more than its controls, yet not by {100 * NOTICEABLE:.0f} % of surprisal"
    else:
        detectable = describe_detectable(detectable_from_score(row), digits=3, unit=" bits")
        sentence = f"{NO_DIFFERENCE} from {CONTROLS[name]}{control_cost} {difference}{bracket(detectable)}"
    return f"erasing {erasure.name} at layer {erasure.layer} costs {cost(erasure)}, {sentence}"


def _describe_encoding(erasure: ErasedProperty) -> str:
    return (
        f"a probe of layer {erasure.layer} is right on {share(erasure.accuracy)} % of {erasure.name} (the "
        f"commonest class {share(erasure.majority)} %), yet erasing it there costs {bits(erasure.bits)} bits "
        f"per subword, surely less than {100 * NOTICEABLE:.0f} % of surprisal ({erasure.minimum_bits:.3f})"
    )


_SAID = {
    USED: ("uses", _describe_use),
    BETWEEN: ("neither surely uses nor merely holds", _describe_partial_use),
    ENCODED: ("merely holds", _describe_encoding),
}


def bits(row: Row | None, sign: str = "") -> str:
    """Format bits with their interval, in as many decimals as tell them from zero."""
    if row is None:
        return "?"
    return format_score(row, 1, max(3, auto_digits(row)), sign)


def share(row: Row | None) -> str:
    """Format a share in per cent."""
    return "?" if row is None else f"{100 * row['value']:.1f}"


LAYERS, PATCH = "logit_lens", "patch"


def sentences(scores: pl.DataFrame) -> Iterator[str]:
    """Yield the sentences of each model and language."""
    rows = scores.filter(pl.col("method").is_in([LAYERS, PATCH]))
    for (model, language), part in rows.partition_by(
        "model", "language", as_dict=True, maintain_order=True
    ).items():
        for sentence in (layers_sentence, patching_sentence):
            if line := sentence(f"{model} ({language})", part):
                yield line


def _overall(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    return rows.filter((pl.col("metric") == metric) & has_dimension_names())


def layers_sentence(subject: str, rows: pl.DataFrame) -> str:
    """Write from which layer the right subword is on top; empty without scores.

    Args:
        subject: Whom the rows are about.
        rows: Scores of one model and language, those of controls included.
    """
    lens_rows = rows.filter((pl.col("method") == "logit_lens") & pl.col("control").is_null())
    bits = {row["layer"]: row for row in _overall(lens_rows, "bits").iter_rows(named=True)}
    first = _overall(lens_rows, "first_layer").to_dicts()
    if not bits or not first:
        return ""
    depth = max(bits)
    sentence = (
        f"{subject}: of the subwords that it gets right, the right one stays on top from layer "
        f"{with_interval(first[0])} of {depth} on, on average; {with_interval(bits[depth])} bits a subword "
        "in the end"
    )
    if depth - 1 in bits:
        sentence += f", {with_interval(bits[depth - 1])} one layer before"
    for row in _overall(rows, "bits").filter(pl.col("control") == "unigram").iter_rows(named=True):
        sentence += f"; by frequency alone {with_interval(row)}"
        if no_verdict_reason(row):
            continue
        certain = {
            layer: bits_of_layer
            for layer, bits_of_layer in bits.items()
            if not no_verdict_reason(bits_of_layer)
        }
        layers_above = [
            layer for layer, bits_of_layer in certain.items() if bits_of_layer["ci_high"] < row["ci_low"]
        ]
        if layers_above:
            sentence += f", surely above that of {list_layers(layers_above)}"
        elif certain and all(bits_of_layer["ci_low"] > row["ci_high"] for bits_of_layer in certain.values()):
            sentence += ", surely below that of every layer"
        elif certain:
            reach = describe_detectable(
                max(detectable_gap(bits_of_layer, row) for bits_of_layer in certain.values()), digits=2
            )
            sentence += f", {NO_DIFFERENCE} by which it is above that of any layer{bracket(reach)}"
    return f"{sentence}{caveat(first[0])}."


def patching_sentence(subject: str, rows: pl.DataFrame) -> str:
    """Write whether the answer follows the exchange, and by which layers; empty without scores.

    Args:
        subject: Whom the rows are about.
        rows: Scores of one model and language.
    """
    change = rows.filter(pl.col("metric") == "margin_change").to_dicts()
    if not change:
        return ""
    row = change[0]
    pairs = f"{row['n']:,} pair{'s' * (row['n'] != 1)}"
    moves = (
        f"{subject}: exchanging two variables moves the answer by {with_interval(row)} logits over {pairs}"
    )
    if reason := no_verdict_reason(row):
        return (
            f"{subject}: {TOO_LITTLE} on whether exchanging two variables moves the answer ({reason}): "
            f"{with_interval(row)} logits over {pairs}."
        )
    if row["ci_high"] < 0:
        return f"{moves}, away from where it should, so that the maps say nothing."
    if row["ci_low"] <= 0:
        return (
            f"{moves}, {describe_null_result(row, digits=2, unit=' logits')}, so that the maps say nothing."
        )
    patch_rows = rows.filter((pl.col("metric") == "recovered") & (pl.col("method") == PATCH))
    cells = {
        cell: {
            row["layer"]: row
            for row in patch_rows.filter(has_dimensions({"direction": "denoising", "cell": cell})).iter_rows(
                named=True
            )
        }
        for cell in ("names", "place")
    }
    sentence = moves
    # Of several layers each is named at a level that holds for all of them together.
    exchange_layers, answer_layers = (
        [
            row["layer"]
            for row in split_by_threshold(cells[cell].values(), 0.5)[0]
            if not no_verdict_reason(row)
        ]
        for cell in ("names", "place")
    )
    if exchange_layers:
        sentence += (
            f"; the states of both variables' places surely bring back more than half of it at "
            f"{list_layers(exchange_layers)} "
            f"({with_interval(cells['names'][max(exchange_layers)], 100, 0)} % "
            f"at layer {max(exchange_layers)})"
        )
    if answer_layers:
        sentence += (
            f"; those of where the model answers at {list_layers(answer_layers)} "
            f"({with_interval(cells['place'][min(answer_layers)], 100, 0)} % at layer {min(answer_layers)})"
        )
    else:
        sentence += "; those of where the model answers do so surely at no layer before the last"
    return f"{sentence}."


SAID = {MORE: "costs more than", LESS: "costs less than"}
"""What a head costs compared with others."""


def headline_lines(scores: pl.DataFrame) -> Iterator[str]:
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
    left = scores.filter(pl.col("metric") == LEFT_OUT).with_columns(reason=dimension_value(REASON))
    for row in left.iter_rows(named=True):
        yield f"left out, {row['model']}: {row['reason']}"
