"""What the model uses, what it merely holds and what lies between: what erasing each property costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import altair as alt
import polars as pl

from sonde.lenses.causal.findings import (
    ABLATE,
    ABSENT,
    BETWEEN,
    CONTROLS,
    ENCODED,
    ERASE,
    INCONCLUSIVE,
    NAMES,
    UNMEASURED,
    UNTOLD,
    USED,
    ErasedProperty,
    bits,
    collect_erasures,
    describe_open_outcome,
    lead_sentences,
)
from sonde.report.charts import mark_estimates, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.text import lacks_verdict
from sonde.results.schema import REASON, dimension_value, has_dimensions
from sonde.results.scores import LEFT_OUT
from sonde.results.tables import Column, Table, estimate_columns
from sonde.results.text_format import COUNT, NO_DIFFERENCE, TOO_LITTLE, PValue, caveat, with_interval

LENS = "causal"


_SAID = {
    USED: "used",
    BETWEEN: "between: it costs something, and not surely more than every control",
    ENCODED: "held, and not seen to be used",
    ABSENT: "not found by a probe, and not seen to be used",
    UNTOLD: f"{NO_DIFFERENCE} that would count as use",
    UNMEASURED: "not held against all that it should be",
    INCONCLUSIVE: TOO_LITTLE,
}


ALIKE = 0.2
"""Overlap of draws above which they are hardly different subspaces."""


def _draw(run: RunData, found: list[_Erased]) -> Figure:
    """Charts a model and language."""
    where = pl.col("control").is_null() & (pl.col("split") == "test") & (pl.col("method") == ERASE)
    rows = run.scores(metrics=["bits"], where=has_dimensions({}) & where, lens=LENS, controls=True)
    charts: list[Chart] = []
    for place, (about, model, language, held) in enumerate(found):
        ending = f"-{place}" if place else ""
        mine = rows.filter(model=model, language=language)
        title = f"Bits that erasing costs, by layer, {about}"
        charts.append(Chart(name=f"causal-uses{ending}", title=title, spec=_plot_layers(mine), wide=True))
        if any(one.controls for one in held):
            title = f"At the layer chosen, beside controls, {about}"
            spec = _plot_controls(held)
            charts.append(Chart(name=f"causal-controls{ending}", title=title, spec=spec, wide=True))
    records: list[dict[str, Any]] = [{"of": about, "one": one} for about, _, _, held in found for one in held]
    return Figure(
        lead=lead_sentences(found[0][0], found[0][-1]),
        answer="\n".join(_list_answers(found)),
        charts=charts,
        table=Table(
            summary="Every property at its layer",
            columns=[
                Column(title="Of", value="of"),
                Column(title="Property", value=lambda row: row["one"].name),
                Column(
                    title="It is", value=lambda row: _SAID[row["one"].kind], help="What may be concluded."
                ),
                Column(
                    title="Layer",
                    value=lambda row: row["one"].layer,
                    format=COUNT,
                    help="Chosen on validation.",
                ),
                *_estimate("Erased, bits", lambda one: one.bits, 3),
                *(
                    column
                    for name, words in CONTROLS.items()
                    if any(name in (*row["one"].controls, *row["one"].excess) for row in records)
                    for column in (
                        *_estimate(f"Erased {words}, bits", lambda one, name=name: one.controls.get(name), 3),
                        *_estimate(f"Beyond {words}, bits", lambda one, name=name: one.excess.get(name), 3),
                    )
                ),
                Column(
                    title="p, adjusted",
                    value=lambda row: row["one"].p_adjusted,
                    format=PValue(),
                    help=(
                        "That it exceeds not all its controls; Benjamini-Hochberg over all that the run "
                        "asked."
                    ),
                ),
                *_estimate(
                    "Right subwords lost beyond directions as wide, points", lambda one: one.answers, 2, 100
                ),
                *_estimate("Probe, %", lambda one: one.accuracy, 1, 100),
                *_estimate("Commonest class, %", lambda one: one.majority, 1, 100),
                Column(title="Subwords", value=lambda row: row["one"].bits["n"], format=COUNT),
            ],
            rows=records,
        ),
        notes=[*_subspaces(found), *_list_notes(run)],
    )


_Erased = tuple[str, str, str, list[ErasedProperty]]
"""Whom properties are of, as shown; the model, the language, and the properties."""


def _read_erased(run: RunData) -> list[_Erased]:
    names = {model.name: model.label for model in run.models}
    several = len(run.languages) > 1
    return [
        (f"{names[model]} ({language})" if several else names[model], model, language, held)
        for model, language, held in collect_erasures(run.every_score.filter(pl.col("lens") == LENS))
    ]


def _plot_layers(rows: pl.DataFrame) -> dict[str, Any]:
    records = [
        {
            "property": NAMES.get(row["task"], row["task"]),
            "layer": row["layer"],
            "value": row["value"],
            "low": row["ci_low"],
            "high": row["ci_high"],
            "reading": bits(row),
            "few": lacks_verdict(row),
            "n": row["n"],
        }
        for row in rows.iter_rows(named=True)
    ]
    return _plot_columns(
        records,
        x=alt.X("layer:O", title="layer, 0 the embeddings", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("property:N", sort=None),
        color=alt.Color("property:N", title=None, sort=None),
        tooltip=[
            alt.Tooltip("property:N", title=" "),
            alt.Tooltip("layer:O"),
            alt.Tooltip("reading:N", title="bits"),
            alt.Tooltip("n:Q", format=",", title="subwords"),
        ],
    )


def _plot_controls(held: list[ErasedProperty]) -> dict[str, Any]:
    words = {None: "the property", **CONTROLS}
    records = [
        {
            "what": words[name],
            "property": f"{one.name}, layer {one.layer}",
            "value": row["value"],
            "low": row["ci_low"],
            "high": row["ci_high"],
            "reading": bits(row),
            "few": lacks_verdict(row),
        }
        for one in held
        for name, row in {None: one.bits, **one.controls}.items()
        if name in words
    ]
    order = list(words.values())
    return _plot_columns(
        records,
        x=alt.X("property:N", title=None, sort=None, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("what:N", sort=order),
        color=alt.Color("what:N", title="erased", sort=order),
        tooltip=[
            alt.Tooltip("what:N", title="erased"),
            alt.Tooltip("property:N", title=" "),
            alt.Tooltip("reading:N", title="bits"),
        ],
    )


def _plot_columns(records: list[dict[str, Any]], **encodings: Any) -> dict[str, Any]:
    """Dots with vertical intervals above and below a line at zero."""
    base = alt.Chart(alt.Data(values=records)).encode(**encodings)
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(style="reference").encode(y="zero:Q")
    dots = mark_estimates(base, "bits per subword", channel="y", style="spread")
    return to_vega_lite(alt.layer(zero, *dots).properties(height=260))


def _list_answers(found: list[_Erased]) -> Iterator[str]:
    for about, _, _, held in found:
        if len(found) > 1:
            yield lead_sentences(about, held)
        for one in held:
            where = ""
            if one.construct:
                where = (
                    f" In {one.construct}, chosen on validation, it costs {bits(one.apart)} bits further "
                    "beyond directions as wide than elsewhere."
                )
            said = f"{about}: {describe_open_outcome(one)}"
            if one.kind in (USED, BETWEEN, ENCODED):
                said = f"{about}, {one.name}: {_SAID[one.kind]}"
            costs = f"; erased at layer {one.layer} it costs {bits(one.bits)} bits per subword"
            costs += caveat(one.bits)
            # Too little data is said with the estimates.
            yield f"{said}{'' if one.kind == INCONCLUSIVE else costs}.{where}"


def _subspaces(found: list[_Erased]) -> Iterator[str]:
    """How alike draws of subspaces are, and how far they move states."""
    for *_, held in found:
        for one in held:
            for kind, row in one.overlap.items():
                moved = one.realised.get(kind)
                said = f"{one.name}, {CONTROLS[kind]}: {row['n']} draws overlap by {row['value']:.2f}"
                if row["value"] > ALIKE:
                    said += f", more than the {ALIKE} up to which they are different subspaces"
                if moved is not None:
                    said += f", and move states {with_interval(moved, 1, 2)} times as far as the erasure does"
                yield f"{said}."


def _estimate(
    title: str, value: Callable[[ErasedProperty], Any], digits: int, scale: float = 1.0
) -> tuple[Column, Column]:
    return estimate_columns(
        title,
        digits,
        scale,
        key=lambda row: value(row["one"]),
        interval=f"Interval of: {title.rpartition(',')[0].lower()}",
    )


def _list_notes(run: RunData) -> Iterator[str]:
    rows = run.every_row.filter((pl.col("lens") == LENS) & (pl.col("metric") == LEFT_OUT))
    for row in rows.with_columns(reason=dimension_value(REASON)).iter_rows(named=True):
        yield f"{'Heads' if row['method'] == ABLATE else row['task']}: left out, {row['reason']}."
    yield (
        "What a linear map takes out may be held in another way as well, and later layers may build it anew: "
        "that erasing a property costs nothing does not show that it is never used."
    )


plot = SectionPlot(
    title="Interventions: used or merely held",
    lens=LENS,
    order=350,
    caption=(
        "How many bits per subword it costs to erase a property from the states of a layer, with 95 % "
        "intervals clustered as the code is, on functions that nothing was fitted to or chosen on; and at "
        "the layer that speaks for a property, chosen on validation, what erasing other things costs "
        "there: their intervals hold how far draws lie apart. Used is what a probe surely finds there and "
        "what costs surely more than every control, by 1 % of the surprisal or more beyond labels that say "
        "nothing. Held is what a probe finds and what surely costs less than 1 %, to this model in this "
        "way: another route may hold it too. A hollow dot rests on too little for a verdict."
    ),
    select=_read_erased,
    figure=_draw,
)
