"""Lines that a finished run prints: an answer per lens, its details, and how the models differ.

Differences come from the comparison that the run has stored (`sonde.comparison`); nothing is computed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import format_name, number, plural, shorten_names
from sonde.comparison.differences import WITHIN_PRECISION
from sonde.comparison.summary import NUMERICAL_NOISE, display_scale, select_overview
from sonde.languages import format_language
from sonde.report.comparison_page import read_run_comparison
from sonde.report.headlines import answer_by_lens, describe_scores, load_title, load_units
from sonde.report.run_tables import RunData
from sonde.report.text import task_label
from sonde.results.text_format import (
    BITS_PER_NAT,
    NO_DIFFERENCE,
    OUTCOMES,
    TOO_LITTLE,
    Unit,
    format_mark_legend,
    mark_reason,
    mark_reasons,
)
from sonde.stats.verdict import format_effective_clusters

_FINDINGS: Mapping[str, str] = {
    "better": "is better",
    "worse": "is worse",
    "higher": "has the higher value",
    "lower": "has the lower value",
}
"""Outcomes that go one way, in the words after a model."""


_NOISE = f"{NUMERICAL_NOISE}, since another batch or machine changes more"


def describe_run(run: RunData) -> Iterator[str]:
    """Yield the lines that a finished run prints.

    These are an answer per lens, the details lens by lens, how the models differ, and what the marks mean.
    """
    lines = [*(answer.line() for answer in answer_by_lens(run)), *describe_scores(run.every_row)]
    for base, sentences in describe_model_differences(run).items():
        lines += ["", f"Compared with {base}, on the same items:", *(f"  {text}" for text in sentences)]
    yield from map(mark_reasons, lines)
    if legend := format_mark_legend(lines):
        yield from ("", f"{legend}.")


def describe_model_differences(run: RunData) -> dict[str, list[str]]:
    """Describe the paired differences of the models of a run, by the model that they are compared with.

    Args:
        run: The run.

    Returns:
        A sentence for each other model and lens; empty if the models were not compared.
    """
    comparison = read_run_comparison(run)
    if comparison is None:
        return {}
    overview = select_overview(comparison.differences)
    sentences: dict[str, list[str]] = {}
    for entry in comparison.comparisons:
        base, model = (str(entry[name]["label"]) for name in ("base", "model"))
        pair = overview.filter(pl.col("base") == base, pl.col("model") == model)
        reasons: dict[str, list[str]] = {}
        for scores in entry.get("unpaired") or ():
            reasons.setdefault(str(scores["lens"]), []).append(str(scores["reason"]))
        label = format_name(run.labels.get(model, model))
        lines = sentences.setdefault(format_name(run.labels.get(base, base)), [])
        for lens in dict.fromkeys([*pair["lens"], *reasons]):
            rows = _select_rows(pair.filter(pl.col("lens") == lens))
            subject, text = "", f"{label} is not compared: {'; '.join(dict.fromkeys(reasons.get(lens, ())))}"
            if rows.height:
                subject = _format_shared_subject(rows, show_language=len(run.languages) > 1)
                text = _describe_lens(rows, label, load_units(lens))
            lines.append(f"{', '.join(filter(None, (format_name(lens), subject)))}: {text}")
    return sentences


def _select_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Select the numbers over everything, which speak for a lens before those of single tasks."""
    overall = rows.filter(pl.col("task") == "")
    return overall if overall.height else rows


def _format_shared_subject(rows: pl.DataFrame, *, show_language: bool) -> str:
    """Name the task and, of several, the language that all differences of a lens are about."""
    first = rows.row(0, named=True)
    names = ["task", "language"] if show_language else ["task"]
    return _format_subject(first, [name for name in names if rows[name].n_unique() == 1])


def _describe_lens(rows: pl.DataFrame, model: str, units: Mapping[str, str]) -> str:
    """Describe the differences of one model and lens: of one number in full, of several by their outcomes."""
    if rows.height == 1:
        return _describe_difference(rows.row(0, named=True), model, units)
    names = [name for name in ("task", "language", "side") if rows[name].n_unique() > 1]
    noun = names[0] if len(names) == 1 else "number"
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        outcome = _classify(row)
        # Sizes of different metrics have no unit in common.
        metric = _format_metric(row) if outcome in (*_FINDINGS, "undecided") else ""
        groups.setdefault((outcome, metric), []).append(row)
    order = (*OUTCOMES, NUMERICAL_NOISE, TOO_LITTLE)
    clauses: list[str] = []
    for (outcome, _), group in sorted(groups.items(), key=lambda entry: order.index(entry[0][0])):
        # The first is the one whose size is furthest beyond what could be found.
        outcome_rows = sorted(group, key=_compute_strength, reverse=True)
        first = outcome_rows[0]
        labels = shorten_names([_format_subject(row, names) for row in outcome_rows])
        count = f"in {len(outcome_rows)} of {plural(rows.height, noun)}"
        if outcome in _FINDINGS:
            amount = f"{_format_amount(first, units)}, {_format_size(first)}"
            clauses.append(
                f"{model} {_FINDINGS[outcome]} {count} ({_format_subject(first, names)} by {amount})"
            )
        elif outcome == "undecided":
            sizes = [size for row in outcome_rows if math.isfinite(size := _get_detectable(row))]
            detectable = _get_unit(first, units).detectable(max(sizes, default=math.nan))
            each = " in each" if detectable and len(outcome_rows) > 1 else ""
            details = "; ".join(filter(None, (labels, f"{detectable}{each}")))
            clauses.append(f"{NO_DIFFERENCE} {count} ({details})")
        elif outcome == TOO_LITTLE:
            marks = mark_reason(*(row["why"] for row in outcome_rows))
            clauses.append(f"{TOO_LITTLE} to tell {count} ({labels}){marks}")
        elif outcome == NUMERICAL_NOISE:
            clauses.append(f"no difference {count} ({labels}): {_NOISE}")
        elif outcome == "slight":
            clauses.append(f"{model} differs, by less than matters, {count} ({labels})")
        else:
            clauses.append(f"{OUTCOMES[outcome]} {count} ({labels})")
    return "; ".join(clauses)


def _classify(row: Mapping[str, Any]) -> str:
    """Return the outcome of a difference; without a verdict, the kind of its reason."""
    if row["why"]:
        return NUMERICAL_NOISE if row["why"] == WITHIN_PRECISION else TOO_LITTLE
    return str(row["outcome"])


def _compute_strength(row: Mapping[str, Any]) -> float:
    """Compute the size of a difference as a multiple of the one that would have been found."""
    detectable = _get_detectable(row)
    return abs(row["difference"]) / detectable if detectable > 0 else 0.0


def _get_detectable(row: Mapping[str, Any]) -> float:
    return math.nan if row["detectable"] is None else row["detectable"]


def _format_subject(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Name what a difference is about, as far as the differences of its lens differ in it."""
    formats = {"task": task_label, "language": format_language, "side": format_name}
    return " ".join(formats[name](row[name]) for name in names)


def _describe_difference(row: Mapping[str, Any], model: str, units: Mapping[str, str]) -> str:
    """Describe one difference by its outcome, which alone decides how much the sentence claims."""
    unit, size = _get_unit(row, units), _format_size(row)
    estimate = unit.change(_to_estimate(row), sign="+")
    outcome = _classify(row)
    if outcome == NUMERICAL_NOISE:
        return f"no difference for {model}: {_NOISE} ({size})"
    if outcome == TOO_LITTLE:
        return f"{TOO_LITTLE} to tell {model} from it{mark_reason(row['why'])}: {estimate} ({size})"
    if outcome in _FINDINGS:
        comma = "" if outcome in ("better", "worse") else ","
        return f"{model} {_FINDINGS[outcome]}{comma} by {_format_amount(row, units)} ({size})"
    if outcome == "undecided":
        details = "; ".join(filter(None, (unit.detectable(_get_detectable(row)), size)))
        return f"{NO_DIFFERENCE} for {model}: {estimate} ({details})"
    limit = f"{number(row['least'] * unit.scale, unit.digits)}{unit.difference}"
    if outcome == "slight":
        return (
            f"{model} differs, by an estimate below the smallest difference that matters ({limit}): "
            f"{estimate} ({size})"
        )
    return f"no difference that matters for {model}: within {limit}, {estimate} ({size})"


def _format_amount(row: Mapping[str, Any], units: Mapping[str, str]) -> str:
    """Format the size of a difference that goes one way, without its sign."""
    estimate = _to_estimate(row)
    if estimate["value"] < 0:
        low, high = (None if end is None else -end for end in (estimate["ci_high"], estimate["ci_low"]))
        estimate = {"value": -estimate["value"], "ci_low": low, "ci_high": high}
    return _get_unit(row, units).change(estimate)


def _get_unit(row: Mapping[str, Any], units: Mapping[str, str]) -> Unit:
    """Return the unit of a difference, with its words."""
    metric = _format_metric(row)
    if display_scale(row) > 1:
        return Unit(scale=100.0, digits=1, difference=f" points ({metric})")
    words = units.get(row["metric"]) or metric
    if words.startswith("nats"):
        return Unit(scale=BITS_PER_NAT, digits=3, difference=f" {words.replace('nats', 'bits', 1)}")
    has_metric = metric in words or " per " in words
    return Unit(digits=3, difference=f" {words}" if has_metric else f" {words} ({metric})")


def _format_metric(row: Mapping[str, Any]) -> str:
    return f"P@{row['k']}" if row["metric"] == "p_at_k" else format_name(row["metric"])


def _to_estimate(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"value": row["difference"], "ci_low": row["ci_low"], "ci_high": row["ci_high"]}


def _format_size(row: Mapping[str, Any]) -> str:
    clusters = plural(format_effective_clusters(row["effective_clusters"]), "effective cluster")
    return f"n = {load_title(row['lens']).format_size(row)}, {clusters}"
