"""What the model uses and what it merely holds: the cost of erasing each property, by layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from sonde.lenses.causal.findings import (
    ABLATE,
    ERASE,
    HELD,
    NAMES,
    NEITHER,
    OPEN,
    USED,
    Erased,
    erased_of,
    lead,
)
from sonde.report._drawing.charts import specification
from sonde.report._shared.numbers import no_verdict, with_interval
from sonde.report._shared.plot import Chart, Figure, Table
from sonde.report._shared.run import RunData
from sonde.results.dimensions import REASON, dimension, dimensions_are
from sonde.results.formats import COUNT
from sonde.results.scores import LEFT_OUT
from sonde.results.tables import Column, estimate

LENS = "causal"

_SAID = {
    USED: "used",
    HELD: "held, and not seen to be used",
    NEITHER: "not found by a probe, and not seen to be used",
    OPEN: "no verdict",
}


class CausalUses:
    """Excess over a random subspace by layer, a colour a property."""

    title = "Interventions: used or merely held"
    lens = LENS
    order = 350
    caption = (
        "How many bits a subword more it costs to erase a property from the states of a layer than to erase "
        "a random subspace of the same rank and mean squared change, with 95 % intervals clustered as the "
        "code is, and over the random subspaces drawn, on functions that nothing was fitted to or chosen on. "
        "Above zero, by 1 % of its surprisal or more, the model uses, from that layer on, what was "
        "erased; where it costs less than that, what a probe finds there is held and not seen to be used, by "
        "this model in this way: another route may hold it too. A hollow dot rests on too little for a "
        "verdict. The layer that speaks for a property was chosen on validation."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One chart a model and language."""
        found = erased_of(run.every_score.filter(pl.col("lens") == LENS))
        if not found:
            return None
        names = {model.name: model.label for model in run.models}
        rows = run.scores(metrics=["excess"], where=dimensions_are({}), lens=LENS, controls=True).filter(
            (pl.col("control") == "random") & (pl.col("split") == "test") & (pl.col("method") == ERASE)
        )
        charts = [
            Chart(
                name=f"causal-uses{f'-{place}' if place else ''}",
                title=f"Bits beyond a random subspace, {_about(run, names[model], language)}",
                spec=_spec(rows.filter((pl.col("model") == model) & (pl.col("language") == language))),
                wide=True,
            )
            for place, (model, language, _) in enumerate(found)
        ]
        said = [lead(_about(run, names[model], language), held) for model, language, held in found]
        return Figure(
            lead=said[0], answer="\n".join(_answers(run, found, names)), charts=charts,
            table=_table(run, found, names), notes=list(_notes(run)),
        )  # fmt: skip


def _about(run: RunData, model: str, language: str) -> str:
    return f"{model} ({language})" if len(run.languages) > 1 else model


def _answers(
    run: RunData, found: list[tuple[str, str, list[Erased]]], names: dict[str, str]
) -> Iterator[str]:
    for model, language, held in found:
        if len(found) > 1:
            yield lead(_about(run, names[model], language), held)
        for one in held:
            where = ""
            if one.apart is not None:
                where = (
                    f" Where it costs the most by validation, in {one.construct}, it is "
                    f"{with_interval(one.apart, 1, 3)} bits further than elsewhere."
                )
            why = f": {one.why}" if one.why else ""
            beyond = f"{with_interval(one.excess, 1, 3)} bits beyond a random subspace at layer {one.layer}"
            yield (
                f"{_about(run, names[model], language)}, {one.name}: {_SAID[one.kind]}{why}; {beyond}.{where}"
            )


def _spec(rows: pl.DataFrame) -> dict[str, Any]:
    records = [
        {
            "property": NAMES.get(row["task"], row["task"]),
            "layer": row["layer"],
            "value": row["value"],
            "low": row["ci_low"],
            "high": row["ci_high"],
            "reading": with_interval(row, 1, 3),
            "few": no_verdict(row),
            "n": row["n"],
        }
        for row in rows.iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
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
    y = alt.Y("value:Q", title="bits a subword beyond a random subspace")
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(style="reference").encode(y="zero:Q")
    layers = [
        zero,
        base.mark_rule(style="spread", clip=True).encode(
            y=alt.Y("low:Q", title="bits a subword beyond a random subspace"), y2="high:Q"
        ),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(y=y),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(y=y),
    ]
    return specification(alt.layer(*layers).properties(height=260))


def _table(run: RunData, found: list[tuple[str, str, list[Erased]]], names: dict[str, str]) -> Table:
    rows = [
        {"of": _about(run, names[model], language), "one": one}
        for model, language, held in found
        for one in held
    ]
    return Table(
        summary="Every property at its layer",
        columns=[
            Column(title="Of", value="of"),
            Column(title="Property", value=lambda row: row["one"].name),
            Column(title="It is", value=lambda row: _SAID[row["one"].kind], help="What may be concluded."),
            Column(
                title="Layer", value=lambda row: row["one"].layer, format=COUNT, help="Chosen on validation."
            ),
            *_estimate("Erased, bits", "bits", 3),
            *_estimate("Random subspace, bits", "random", 3),
            *_estimate("Difference, bits", "excess", 3),
            *_estimate("Right subwords lost beyond a random subspace, points", "answers", 2, 100),
            *_estimate("Probe, %", "accuracy", 1, 100),
            *_estimate("Commonest class, %", "majority", 1, 100),
            Column(title="Subwords", value=lambda row: row["one"].excess["n"], format=COUNT),
        ],
        rows=rows,
    )


def _estimate(title: str, name: str, digits: int, scale: float = 1.0) -> tuple[Column, Column]:
    return estimate(
        title,
        digits,
        scale,
        key=lambda row: getattr(row["one"], name),
        interval=f"Interval of: {title.rpartition(',')[0].lower()}",
    )


def _notes(run: RunData) -> Iterator[str]:
    rows = run.every_row.filter((pl.col("lens") == LENS) & (pl.col("metric") == LEFT_OUT))
    for row in rows.with_columns(reason=dimension(REASON)).iter_rows(named=True):
        yield f"{'Heads' if row['method'] == ABLATE else row['task']}: left out, {row['reason']}."
    yield (
        "What a linear map takes out may be held in another way as well, and later layers may build it anew: "
        "that erasing a property costs nothing does not show that it is never used."
    )


plot = CausalUses()
