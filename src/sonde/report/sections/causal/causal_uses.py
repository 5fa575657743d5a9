"""Costs of erasing each property: what the model uses, what it only encodes, and what may be either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from sonde.report.charts import layer_axis, list_tooltips, mark_estimates, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.causal import LENS, read_all_scores
from sonde.report.text import lacks_verdict
from sonde.results.schema import REASON, dimension_value, has_dimensions
from sonde.results.scores import LEFT_OUT
from sonde.results.tables import Column, Table, estimate_columns
from sonde.results.text_format import COUNT, NO_DIFFERENCE, TOO_LITTLE, PValue, verdict_mark, with_interval

_OUTCOME_TEXTS = {
    USED: "used",
    BETWEEN: "encoded, and may or may not be used (it does not surely cost more than every control)",
    ENCODED: "encoded but not seen to be used",
    ABSENT: "not surely found by a probe",
    UNTOLD: f"{NO_DIFFERENCE} that would count as use",
    UNMEASURED: "not compared with all of its controls",
    INCONCLUSIVE: TOO_LITTLE,
}


MAX_OVERLAP = 0.2
"""Overlap of draws above which they are hardly different subspaces."""


def _draw(run: RunData, groups: list[_ErasureGroup]) -> Figure:
    """Draw the cost by layer and beside controls, per model and language."""
    row_filter = pl.col("control").is_null() & (pl.col("split") == "test") & (pl.col("method") == ERASE)
    rows = run.scores(metrics=["bits"], where=has_dimensions({}) & row_filter, lens=LENS, controls=True)
    charts: list[Chart] = []
    for index, (subject, model, language, erasures) in enumerate(groups):
        slug = f"-{index}" if index else ""
        layer_rows = rows.filter(model=model, language=language)
        title = f"Bits that erasing costs, by layer, {subject}"
        charts.append(Chart(name=f"causal-uses{slug}", title=title, spec=_plot_layers(layer_rows), wide=True))
        if any(erasure.controls for erasure in erasures):
            title = f"At the layer chosen, with controls, {subject}"
            spec = _plot_controls(erasures)
            charts.append(Chart(name=f"causal-controls{slug}", title=title, spec=spec, wide=True))
    records: list[dict[str, Any]] = [
        {"of": subject, "erasure": erasure} for subject, _, _, erasures in groups for erasure in erasures
    ]
    return Figure(
        lead=lead_sentences(groups[0][0], groups[0][-1]),
        answer="\n".join(_list_answers(groups)),
        charts=charts,
        table=Table(
            summary="Every property at its layer",
            columns=[
                Column(title="Of", value="of"),
                Column(title="Property", value=lambda row: row["erasure"].name),
                Column(
                    title="It is",
                    value=lambda row: _OUTCOME_TEXTS[row["erasure"].kind],
                    help="The conclusion that these costs allow.",
                ),
                Column(
                    title="Layer",
                    value=lambda row: row["erasure"].layer,
                    format=COUNT,
                    help="Chosen on validation.",
                ),
                *_build_estimate_columns("Erased, bits", lambda erasure: erasure.bits, 3),
                *(
                    column
                    for name, words in CONTROLS.items()
                    if any(name in (*row["erasure"].controls, *row["erasure"].excess) for row in records)
                    for column in (
                        *_build_estimate_columns(
                            f"Erased {words}, bits", lambda erasure, name=name: erasure.controls.get(name), 3
                        ),
                        *_build_estimate_columns(
                            f"Beyond {words}, bits", lambda erasure, name=name: erasure.excess.get(name), 3
                        ),
                    )
                ),
                Column(
                    title="p, adjusted",
                    value=lambda row: row["erasure"].p_adjusted,
                    format=PValue(),
                    help=(
                        "That it exceeds not all its controls; Benjamini-Hochberg over all that the run "
                        "asked."
                    ),
                ),
                *_build_estimate_columns(
                    "Right subwords lost beyond matched directions, points",
                    lambda erasure: erasure.answers,
                    2,
                    100,
                ),
                *_build_estimate_columns("Probe, %", lambda erasure: erasure.accuracy, 1, 100),
                *_build_estimate_columns("Commonest class, %", lambda erasure: erasure.majority, 1, 100),
                Column(title="Subwords", value=lambda row: row["erasure"].bits["n"], format=COUNT),
            ],
            rows=records,
        ),
        notes=[*_describe_subspaces(groups), *_list_notes(run)],
    )


_ErasureGroup = tuple[str, str, str, list[ErasedProperty]]
"""Subject as displayed, model, language, and the erased properties."""


def _read_erasures(run: RunData) -> list[_ErasureGroup]:
    labels = run.labels
    show_language = len(run.languages) > 1
    return [
        (f"{labels[model]} ({language})" if show_language else labels[model], model, language, erasures)
        for model, language, erasures in collect_erasures(read_all_scores(run))
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
        x=layer_axis("layer, 0 the embeddings"),
        xOffset=alt.XOffset("property:N", sort=None),
        color=alt.Color("property:N", title=None, sort=None),
        tooltip={"property:N": " ", "layer:O": "", "reading:N": "bits", "n:Q": "subwords|,"},
    )


def _plot_controls(erasures: list[ErasedProperty]) -> dict[str, Any]:
    words = {None: "the property", **CONTROLS}
    records = [
        {
            "what": words[name],
            "property": f"{erasure.name}, layer {erasure.layer}",
            "value": row["value"],
            "low": row["ci_low"],
            "high": row["ci_high"],
            "reading": bits(row),
            "few": lacks_verdict(row),
        }
        for erasure in erasures
        for name, row in {None: erasure.bits, **erasure.controls}.items()
        if name in words
    ]
    order = list(words.values())
    return _plot_columns(
        records,
        x=alt.X("property:N", title=None, sort=None, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("what:N", sort=order),
        color=alt.Color("what:N", title="erased", sort=order),
        tooltip={"what:N": "erased", "property:N": " ", "reading:N": "bits"},
    )


def _plot_columns(
    records: list[dict[str, Any]], tooltip: Mapping[str, str], **encodings: Any
) -> dict[str, Any]:
    """Draw dots with vertical intervals and a line at zero."""
    base = alt.Chart(alt.Data(values=records)).encode(tooltip=list_tooltips(tooltip), **encodings)
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(style="reference").encode(y="zero:Q")
    dots = mark_estimates(base, "bits per subword", channel="y", style="spread")
    return to_vega_lite(alt.layer(zero, *dots).properties(height=260))


def _list_answers(groups: list[_ErasureGroup]) -> Iterator[str]:
    for subject, _, _, erasures in groups:
        if len(groups) > 1:
            yield lead_sentences(subject, erasures)
        for erasure in erasures:
            construct_sentence = ""
            if erasure.construct:
                construct_sentence = (
                    f" In {erasure.construct}, chosen on validation, it costs {bits(erasure.apart)} bits "
                    "further beyond matched directions than elsewhere."
                )
            sentence = f"{subject}: {describe_open_outcome(erasure)}"
            if erasure.kind in (USED, BETWEEN, ENCODED):
                sentence = f"{subject}, {erasure.name}: {_OUTCOME_TEXTS[erasure.kind]}"
            costs = f"; erased at layer {erasure.layer} it costs {bits(erasure.bits)} bits per subword"
            costs += verdict_mark(erasure.bits)
            # Too little data is said with the estimates.
            yield f"{sentence}{'' if erasure.kind == INCONCLUSIVE else costs}.{construct_sentence}"


def _describe_subspaces(groups: list[_ErasureGroup]) -> Iterator[str]:
    """Yield sentences on the overlap of drawn subspaces and how far they move states."""
    for *_, erasures in groups:
        for erasure in erasures:
            for kind, row in erasure.overlap.items():
                displacement = erasure.realised.get(kind)
                sentence = f"{erasure.name}, {CONTROLS[kind]}: {row['n']} draws overlap by {row['value']:.2f}"
                if row["value"] > MAX_OVERLAP:
                    sentence += f", more than the {MAX_OVERLAP} up to which they are different subspaces"
                if displacement is not None:
                    sentence += (
                        f", and move states {with_interval(displacement, 1, 2)} times as far "
                        "as the erasure does"
                    )
                yield f"{sentence}."


def _build_estimate_columns(
    title: str, value: Callable[[ErasedProperty], Any], digits: int, scale: float = 1.0
) -> tuple[Column, Column]:
    return estimate_columns(
        title,
        digits,
        scale,
        key=lambda row: value(row["erasure"]),
        interval=f"Interval of: {title.rpartition(',')[0].lower()}",
    )


def _list_notes(run: RunData) -> Iterator[str]:
    rows = run.every_row.filter((pl.col("lens") == LENS) & (pl.col("metric") == LEFT_OUT))
    for row in rows.with_columns(reason=dimension_value(REASON)).iter_rows(named=True):
        yield f"{'Heads' if row['method'] == ABLATE else row['task']}: left out, {row['reason']}."
    yield (
        "A property that a linear map removes may be encoded in another way as well, and later layers may "
        "rebuild it: that erasing a property costs nothing does not show that it is never used."
    )


plot = SectionPlot(
    title="Interventions: used or only encoded",
    lens=LENS,
    order=350,
    caption=(
        "Bits per subword that it costs to erase a property from the states of a layer. The 95 % intervals "
        "are clustered as the code is, on functions that nothing was fitted to or chosen on. At the layer "
        "chosen on validation, the cost of erasing other things is shown too; their intervals include the "
        "spread of draws. A property is used if a probe surely finds it there, and if erasing it surely "
        "costs more than every control and at least 1 % of the surprisal more than labels without "
        "the property. It is encoded but not seen to be used if a probe finds it and erasing it surely costs "
        "less than 1 %; another route may carry it too. A hollow dot rests on too little for a verdict."
    ),
    select=_read_erasures,
    figure=_draw,
)
