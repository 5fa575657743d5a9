"""Verdicts on each property (used, encoded only, in between, neither or open), and their sentences.

A property is *used* where a probe surely finds it at the layer, and erasing it costs more than erasing labels
that say nothing, more than subspaces of no meaning, by a noticeable share of the surprisal, in a test that
holds over all that the run asked. It is *encoded but not used* where a probe finds it and its cost is
surely less than that share. What lies *between* costs more, but surely more than all controls it does not.

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
    PLAIN,
    SHARE,
    TOO_LITTLE,
    Unit,
    auto_digits,
    verdict_mark,
    with_interval,
)
from sonde.stats.intervals import LEVEL
from sonde.stats.power import adjust_p_values, detectable_from_score, detectable_gap, discovery_level
from sonde.stats.verdict import no_verdict_reason

Row = Mapping[str, Any]


NOTICEABLE = 0.01
"""Share of the model's surprisal below which a cost says nothing about use: any change of states moves the
loss a little, that of untrained weights too."""


USED, BETWEEN, ENCODED, ABSENT, INCONCLUSIVE = "used", "between", "held", "neither", "open"


UNTOLD, UNMEASURED = "untold", "unmeasured"
"""Of what allows a verdict: it may cost as much as counts, or less; or not all controls were compared."""


UNIFORM, WIDE, PERMUTED, DONORS, CONTROL_TASK = "uniform", "as_wide", "permuted", "donors", "control_task"


CONTROLS = {
    DONORS: "labels of other functions",
    CONTROL_TASK: "a random class for each word",
    PERMUTED: "shuffled labels",
    UNIFORM: "random directions",
    WIDE: "matched directions",
    "surface": "shuffled labels (both erased together with the surface)",
}
"""What is erased in place of the property, in words.

Matched directions are as many and move the states as far: `sonde.training.erasure.equal_change_subspaces`.
"""


_REQUIRED = ((UNIFORM, WIDE, DONORS, CONTROL_TASK), (UNIFORM, WIDE, PERMUTED, "surface"))
"""Controls of a property of tokens, and of one of functions."""


def is_surely_positive(row: Row) -> bool:
    """Return whether a difference is above zero with a verdict."""
    return not no_verdict_reason(row) and row["ci_low"] > 0


def p_value(row: Row) -> float:
    """Return the p-value of "the difference is 0", from the interval if the row has none; 1 without.

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
    """Return the controls that a property has to exceed; empty if one of them was not measured."""
    return next((names for names in _REQUIRED if all(name in excess for name in names)), ())


def largest_p_value(excess: Mapping[str, Row]) -> float | None:
    """Return the p-value of "it does not exceed all of its controls"; None if not all were measured."""
    names = required_controls(excess)
    return max(p_value(excess[name]) for name in names) if names else None


def weakest_control(excess: Mapping[str, Row]) -> str:
    """Return the control that a property exceeds with the least certainty."""
    return max(required_controls(excess), key=lambda name: (p_value(excess[name]), -excess[name]["value"]))


def _decide_probe_outcome(gains: Mapping[str, Row]) -> tuple[str, str]:
    """Decide whether a probe surely finds a property."""
    common = gains.get("majority")
    if common is None:
        return UNMEASURED, "no probe could be compared with the commonest class"
    for name, row in gains.items():
        if reason := no_verdict_reason(row):
            return INCONCLUSIVE, reason
        if row["ci_low"] <= 0:
            baseline = "the commonest class" if name == "majority" else CONTROLS[CONTROL_TASK]
            return ABSENT, f"a probe is not surely better than {baseline}"
    return USED, ""


ERASE, ABLATE = "erase", "ablate"


MORE, LESS, ALIKE = "more", "less", "alike"


NAMES = {
    "idn": "identifier type",
    "block_depth": "block depth",
    "cpx": "cyclomatic complexity",
}
"""Properties in words; others are called as their task is."""


_BEST, _AT_ERASED = has_dimensions({"selection": "best"}), has_dimensions({"selection": "erased"})


_PLAIN = has_dimensions({})


@dataclass(frozen=True, slots=True)
class ErasedProperty:
    """A property of a model, at the layer that validation selected for it.

    Attributes:
        task: The property.
        layer: Where it is erased.
        before: The model's surprisal with nothing erased, in bits per subword.
        bits: What erasing it there costs, in bits per subword.
        controls: What each control costs, mean over its draws.
        excess: The paired difference to each control; ``surface``: of labels erased with the surface.
        answers: By how much fewer subwords the model finds likeliest than with matched directions.
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
        """Return the construct in which it surely costs more than elsewhere; empty if there is none."""
        if self.apart is None or no_verdict_reason(self.apart) or p_value(self.apart) > 1 - LEVEL:
            return ""
        dimensions = get_dimensions(self.apart)
        return str(dimensions.get("construct", ""))

    @property
    def minimum_bits(self) -> float:
        """Return the bits that count as use."""
        return NOTICEABLE * self.before["value"]


def decide_outcome(erasure: ErasedProperty, p_adjusted: float | None) -> tuple[str, str]:
    """Decide what may be concluded of a property, with the reason if nothing may.

    Args:
        erasure: The property.
        p_adjusted: Of `largest_p_value`, adjusted.
    """
    outcome, reason = _decide_probe_outcome(erasure.gains)
    if outcome != USED:
        return outcome, reason
    bits, excess, minimum_bits = erasure.bits, erasure.excess, erasure.minimum_bits
    if reason := no_verdict_reason(bits):
        return INCONCLUSIVE, reason
    if bits["ci_high"] < minimum_bits:
        return ENCODED, ""
    names = required_controls(excess)
    if not names or p_adjusted is None:
        return UNMEASURED, "it was not compared with all of its controls"
    if reason := next(filter(None, (no_verdict_reason(excess[name]) for name in names)), ""):
        return INCONCLUSIVE, reason
    labels = [excess[name]["value"] for name in (DONORS, CONTROL_TASK, PERMUTED) if name in names]
    if p_adjusted <= 1 - LEVEL and min(labels) >= minimum_bits:
        return USED, ""
    if bits["ci_low"] >= minimum_bits:
        return BETWEEN, ""
    return UNTOLD, (
        f"it costs {bits['ci_low']:.3f} to {bits['ci_high']:.3f} bits per subword, and {minimum_bits:.3f}, "
        f"{100 * NOTICEABLE:.0f} % of the model's surprisal, would count as use"
    )


def collect_erasures(scores: pl.DataFrame) -> list[tuple[str, str, list[ErasedProperty]]]:
    """Collect the properties of each model and language, those that cost the most first."""
    family = adjusted_p(scores)
    by_model: dict[tuple[str, str], list[ErasedProperty]] = {}
    for (model, language), erasure in _iterate_properties(scores):
        p_adjusted = family.get((model, language, erasure.task))
        kind, reason = decide_outcome(erasure, p_adjusted)
        by_model.setdefault((model, language), []).append(
            replace(erasure, p_adjusted=p_adjusted, kind=kind, why=reason)
        )
    return [
        (model, language, sorted(properties, key=lambda erasure: -erasure.bits["value"]))
        for (model, language), properties in by_model.items()
    ]


def adjusted_p(scores: pl.DataFrame) -> dict[tuple[str, ...], float]:
    """Adjust the p-values of everything that a run asks of interventions.

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
    control_rows = rows.filter((pl.col("metric") == metric) & pl.col("control").is_not_null())
    return {row["control"]: row for row in control_rows.iter_rows(named=True)}


def select_reprobing_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """Select accuracies of new probes after an erasure, with ``erased``: its layer, -1 for none."""
    rows = scores.filter((pl.col("method") == ERASE) & (pl.col("metric") == "accuracy"))
    rows = rows.filter(has_dimension_names("erased"))
    return rows.with_columns(erased=dimension_value("erased").cast(pl.Int32, strict=False).fill_null(-1))


def select_ablation_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """Select effects of ablated heads: the rows of each relation with ``relation, where``."""
    rows = scores.filter((pl.col("method") == ABLATE) & (pl.col("split") == "test"))
    return rows.with_columns(relation=dimension_value("relation"), where=dimension_value("where")).filter(
        pl.col("relation").is_not_null(), dimension_value("at").is_null()
    )


def _relations(scores: pl.DataFrame) -> pl.DataFrame:
    """Select the excess of each head over other heads at the dependents of its relation."""
    excess = (pl.col("metric") == "excess") & (pl.col("control") == "random")
    return select_ablation_scores(scores).filter(excess & (pl.col("where") == "here"))


def count_shared_tests(scores: pl.DataFrame) -> float:
    """Return for how many tests the level is shared out at which one more finding would be made."""
    p_values = list(adjusted_p(scores).values())
    finding_count = sum(p <= 1 - LEVEL for p in p_values)
    return (1 - LEVEL) / discovery_level(len(p_values), finding_count)


def compare_with_other_heads(scores: pl.DataFrame) -> list[tuple[Row, str]]:
    """Compare each relation's head with other heads: `MORE`, `LESS`, `ALIKE` or the reason for no verdict."""
    family = adjusted_p(scores)
    comparisons: list[tuple[Row, str]] = []
    for row in _relations(scores).sort("value", descending=True).iter_rows(named=True):
        p = family[row["model"], row["language"], row["task"], row["relation"]]
        kind = ALIKE if p > 1 - LEVEL else MORE if row["value"] > 0 else LESS
        comparisons.append((row, no_verdict_reason(row) or kind))
    return comparisons


def _upright(row: Row) -> Row:
    """Return a difference with its sign removed."""
    if row["value"] >= 0 or row["ci_low"] is None:
        return row
    return {**row, "value": -row["value"], "ci_low": -row["ci_high"], "ci_high": -row["ci_low"]}


def lead_sentences(model: str, properties: Sequence[ErasedProperty]) -> str:
    """Describe what a model uses, what it encodes, and what is in between, with numbers and controls."""
    sentences: list[str] = []
    for kind, (verb, sentence) in _SENTENCES.items():
        members = [member for member in properties if member.kind == kind]
        if members:
            names, descriptions = (
                join_names([member.name for member in members]),
                "; ".join(map(sentence, members)),
            )
            sentences.append(f"{'It' if sentences else model} {verb} {names}: {descriptions}.")
    remaining = [member for member in properties if member.kind not in _SENTENCES]
    if sentences:
        return " ".join(
            [
                *sentences,
                *(
                    f"{descriptions[:1].upper()}{descriptions[1:]}."
                    for descriptions in map(describe_open_outcome, remaining)
                ),
            ]
        )
    if all(member.kind == INCONCLUSIVE for member in remaining):
        texts = "; ".join(f"{member.name} ({member.why}): {_estimates(member)}" for member in remaining)
        return f"{TOO_LITTLE[:1].upper()}{TOO_LITTLE[1:]} on whether {model} uses what it knows: {texts}."
    return f"No evidence that {model} uses what it knows: {'; '.join(map(describe_open_outcome, remaining))}."


def describe_open_outcome(erasure: ErasedProperty) -> str:
    """Describe the outcome of a property that is neither used nor encoded nor in between."""
    if erasure.kind == INCONCLUSIVE:
        return f"{TOO_LITTLE} on {erasure.name} ({erasure.why}): {_estimates(erasure)}"
    if erasure.kind == UNTOLD:
        return f"{NO_DIFFERENCE} for {erasure.name} that would count as use: {erasure.why}"
    if erasure.kind == ABSENT:
        name, row = next((name, row) for name, row in erasure.gains.items() if row["ci_low"] <= 0)
        baseline = "the commonest class" if name == "majority" else CONTROLS[name]
        null_result = SHARE.null_result(row)
        gain = SHARE.change(row, sign="+")
        if row["ci_high"] < 0:
            difference = f"a probe of layer {erasure.layer} is right less often than {baseline}"
            return f"{erasure.name}: {difference}, {gain}"
        return (
            f"{erasure.name}: {null_result} between a probe of layer {erasure.layer} and {baseline}, {gain}"
        )
    return f"{erasure.name}: no verdict, {erasure.why}"


def _estimates(erasure: ErasedProperty) -> str:
    """Describe the estimates of a property: its cost, and how well a probe decodes it."""
    text = f"erasing it at layer {erasure.layer} costs {cost(erasure)}"
    gain = erasure.gains.get("majority")
    return (
        text
        if gain is None
        else f"{text}, and a probe gains {SHARE.change(gain, sign='+')} over the commonest class"
    )


def cost(erasure: ErasedProperty) -> str:
    """Format the cost of erasing a property, in bits and as a share of the surprisal."""
    part = 100 * erasure.bits["value"] / erasure.before["value"] if erasure.before["value"] else math.nan
    return f"{bits(erasure.bits)} bits per subword, {number(part, 1)} % of surprisal"


def _describe_use(erasure: ErasedProperty) -> str:
    controls = join_names(
        [f"{CONTROLS[name]} {bits(row)}" for name, row in erasure.controls.items() if name in CONTROLS]
    )
    control = weakest_control(erasure.excess)
    return (
        f"erasing {erasure.name} at layer {erasure.layer} costs {cost(erasure)}, compared with {controls}. "
        f"The least certain difference is that to {CONTROLS[control]}: "
        f"{bits(erasure.excess[control], sign='+')}"
    )


def _describe_partial_use(erasure: ErasedProperty) -> str:
    name = weakest_control(erasure.excess)
    row, control = erasure.excess[name], erasure.controls.get(name)
    control_text = "" if control is None else f", {bits(control)}"
    difference = f"(difference {bits(row, sign='+')})"
    if row["ci_high"] < 0:
        comparison = f"less than {CONTROLS[name]}{control_text} {difference}"
    elif erasure.p_adjusted is not None and erasure.p_adjusted <= 1 - LEVEL:
        comparison = f"more than its controls, but not by {100 * NOTICEABLE:.0f} % of surprisal"
    else:
        detectable = COST.detectable(detectable_from_score(row))
        comparison = f"{NO_DIFFERENCE} from {CONTROLS[name]}{control_text} {difference}{bracket(detectable)}"
    return f"erasing {erasure.name} at layer {erasure.layer} costs {cost(erasure)}, {comparison}"


def _describe_encoding(erasure: ErasedProperty) -> str:
    return (
        f"a probe of layer {erasure.layer} is right on {share(erasure.accuracy)} % of {erasure.name} (the "
        f"commonest class {share(erasure.majority)} %), yet erasing it there costs {bits(erasure.bits)} "
        f"bits per subword, surely less than {100 * NOTICEABLE:.0f} % of surprisal "
        f"({erasure.minimum_bits:.3f})"
    )


_SENTENCES = {
    USED: ("uses", _describe_use),
    BETWEEN: ("encodes, and may or may not use,", _describe_partial_use),
    ENCODED: ("encodes but is not seen to use", _describe_encoding),
}


COST = Unit(digits=3, difference=" bits")
"""Costs of interventions, in bits."""


def bits(row: Row | None, sign: str = "") -> str:
    """Format a number of bits with its interval, in as many decimals as tell it from zero."""
    if row is None:
        return "?"
    return with_interval(row, 1, max(3, auto_digits(row)), sign)


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
            if text := sentence(f"{model} ({language})", part):
                yield text


def _overall(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    return rows.filter((pl.col("metric") == metric) & has_dimension_names())


def layers_sentence(subject: str, rows: pl.DataFrame) -> str:
    """Describe the layer from which the right subword is on top, and from which frequency is beaten.

    Args:
        subject: Whom the rows are about.
        rows: Scores of one model and language, those of controls included.
    """
    model_rows = rows.filter((pl.col("method") == "logit_lens") & pl.col("control").is_null())
    bits = {row["layer"]: row for row in _overall(model_rows, "bits").iter_rows(named=True)}
    first = _overall(model_rows, "first_layer").to_dicts()
    if not bits or not first:
        return ""
    depth = max(bits)
    text = (
        f"{subject}: of the subwords that it gets right, the right one stays ranked first from layer "
        f"{with_interval(first[0])} of {depth} on, on average; {with_interval(bits[depth])} bits per "
        "subword at the last layer"
    )
    if depth - 1 in bits:
        text += f", {with_interval(bits[depth - 1])} at the layer before"
    for row in _overall(rows, "bits").filter(pl.col("control") == "unigram").iter_rows(named=True):
        text += f"; subword frequency without the model gives {with_interval(row)}"
        if no_verdict_reason(row):
            continue
        layer_rows = {
            layer: layer_row for layer, layer_row in bits.items() if not no_verdict_reason(layer_row)
        }
        better_layers = [
            layer for layer, layer_row in layer_rows.items() if layer_row["ci_high"] < row["ci_low"]
        ]
        if better_layers:
            text += f", surely worse than {list_layers(better_layers)}"
        elif layer_rows and all(layer_row["ci_low"] > row["ci_high"] for layer_row in layer_rows.values()):
            text += ", surely better than every layer"
        elif layer_rows:
            detectable = PLAIN.detectable(
                max(detectable_gap(layer_row, row) for layer_row in layer_rows.values())
            )
            text += f", {NO_DIFFERENCE} in favour of any layer{bracket(detectable)}"
    return f"{text}{verdict_mark(first[0])}."


def patching_sentence(subject: str, rows: pl.DataFrame) -> str:
    """Describe whether the model follows the exchange, and at which layers the answer moves.

    Args:
        subject: Whom the rows are about.
        rows: Scores of one model and language.
    """
    change = rows.filter(pl.col("metric") == "margin_change").to_dicts()
    if not change:
        return ""
    margin = change[0]
    pairs = f"{margin['n']:,} pair{'s' * (margin['n'] != 1)}"
    lead = (
        f"{subject}: swapping two variables moves the answer by {with_interval(margin)} logits over {pairs}"
    )
    if reason := no_verdict_reason(margin):
        return (
            f"{subject}: {TOO_LITTLE} on whether swapping two variables moves the answer ({reason}): "
            f"{with_interval(margin)} logits over {pairs}."
        )
    if margin["ci_high"] < 0:
        return f"{lead}, in the wrong direction, so the patching maps cannot be read."
    if margin["ci_low"] <= 0:
        return (
            f"{lead}, {Unit(difference=' logits').null_result(margin)}, so the patching maps cannot be read."
        )
    recovered_rows = rows.filter((pl.col("metric") == "recovered") & (pl.col("method") == PATCH))
    cells = {
        cell: {
            row["layer"]: row
            for row in recovered_rows.filter(
                has_dimensions({"direction": "denoising", "cell": cell})
            ).iter_rows(named=True)
        }
        for cell in ("names", "place")
    }
    text = lead
    # Of several layers each is named at a level that holds for all of them together.
    name_layers, place_layers = (
        [
            row["layer"]
            for row in split_by_threshold(cells[cell].values(), 0.5)[0]
            if not no_verdict_reason(row)
        ]
        for cell in ("names", "place")
    )
    if name_layers:
        text += (
            f"; patching the positions of both variables surely recovers more than half of that at "
            f"{list_layers(name_layers)} ({with_interval(cells['names'][max(name_layers)], 100, 0)} % at "
            f"layer {max(name_layers)})"
        )
    if place_layers:
        text += (
            "; patching the answer's position surely recovers more than half of that at "
            f"{list_layers(place_layers)} ({with_interval(cells['place'][min(place_layers)], 100, 0)} % at "
            f"layer {min(place_layers)})"
        )
    else:
        text += (
            "; patching the answer's position surely recovers more than half of that at no layer "
            "before the last"
        )
    return f"{text}."


HEAD_VERBS = {MORE: "costs more than", LESS: "costs less than"}
"""What a head costs compared with others."""


def describe_findings(scores: pl.DataFrame) -> Iterator[str]:
    """Describe the outcomes of each model, then each construct, relation and layer."""
    for model, language, findings in collect_erasures(scores):
        yield lead_sentences(f"{model} ({language})", findings)
        for erasure in findings:
            if erasure.construct:
                yield (
                    f"{erasure.name} ({language}), {model}: erasing it at layer {erasure.layer} costs "
                    f"{bits(erasure.apart)} bits per subword more in {erasure.construct} than elsewhere"
                )
    tests = count_shared_tests(scores)
    for row, kind in compare_with_other_heads(scores):
        subject = f"{row['relation']} ({row['language']}), {row['model']}"
        head = f"ablating its head {row['layer']}.{row['head']}"
        other_heads = "ablating other heads of the layer"
        if kind in HEAD_VERBS:
            text = f"{head} {HEAD_VERBS[kind]} {other_heads} at its dependents"
        elif kind == ALIKE:
            findings = COST.null_result(row, tests)
            text = f"{findings} between {head} and {other_heads} at its dependents"
        else:
            text = f"{TOO_LITTLE} on {head} compared with {other_heads} at its dependents ({kind})"
        yield f"{subject}: {text}: {bits(row, sign='+')} bits"
    yield from sentences(scores)
