"""Every task's accuracy at the layer chosen on validation, beside what needs no model (INSPECT, Table 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from sonde.report._drawing.charts import row_height, specification
from sonde.report._shared.asked import label_of, meaning_of, ordered
from sonde.report._shared.numbers import no_verdict, number
from sonde.report._shared.plot import Chart, Figure, Table
from sonde.report._shared.reasons import by_reason
from sonde.report._shared.run import RunData
from sonde.report.probe._scores import (
    BEST,
    KEY,
    LENS,
    beside,
    by_key,
    every_pooling,
    fitted,
    headline,
    layers_of,
    local_cues,
    whose,
)
from sonde.results.dimensions import REASON, dimensions_named
from sonde.results.formats import PERCENT, Format, Number
from sonde.results.local_cues import compare_with_cues, describe_cues
from sonde.results.tables import CLUSTERS, LANGUAGE, MODEL, Column, N, estimate

Rows = dict[tuple[str, ...], dict[str, Any]]

_NO_VERDICT = "too little independent code, or no surface baseline"


class ProbeAccuracy:
    """Dots with intervals, the surface baseline to beat as a tick, random weights as a hollow diamond."""

    title = "Probes: what the states encode"
    lens = LENS
    order = 200
    caption = (
        "Accuracy of a linear probe on examples that it was not trained on, at the layer chosen without "
        "them, with its 95 % interval; where folds chose different layers, the one that most chose is named. "
        "The tick is the surface baseline that was the best on validation, on the same examples: the "
        "majority, length, a bag of tokens, a parse error, or a token's spelling. The diamond is the same "
        "architecture with random weights, on "
        "the share of the examples that it read."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One chart a language."""
        rows = headline(run)
        if rows.is_empty():
            return None
        surfaces, random = _surfaces(run), _random(run)
        charts: list[Chart] = []
        for (language,), part in rows.partition_by("language", as_dict=True, maintain_order=True).items():
            several = rows["language"].n_unique() > 1
            charts.append(
                Chart(
                    name=f"probe-accuracy-{language}" if several else "probe-accuracy",
                    title=f"Accuracy by task{f', {language}' if several else ''}",
                    spec=_spec(part, surfaces, random),
                    wide=True,
                )
            )
        gains = by_key(beside(run, ["gain"], BEST))
        return Figure(
            lead=_lead(run, rows, gains),
            answer=_answer(run, rows, gains),
            charts=charts,
            table=_table(rows, surfaces, random, gains, run),
            notes=[*fitted(run), *_beside_cues(run, rows), *_notes(run)],
        )


def _surfaces(run: RunData) -> Rows:
    """The surface baseline of each task that the gain is over, which validation chose."""
    rows = beside(run, ["accuracy"], BEST, split="test").filter(pl.col("control").is_not_null())
    gains = beside(run, ["gain"], BEST).unique(KEY, keep="first", maintain_order=True)
    return by_key(rows.join(gains.select(*KEY, "control"), on=[*KEY, "control"], how="semi"))


def _random(run: RunData) -> Rows:
    """Mean accuracy of the models with random weights, each at its chosen layer."""
    shared = dimensions_named("selection", "share")
    chosen = beside(run, ["accuracy"], shared, control="random_weights", split="test")
    mean = chosen.group_by(KEY, maintain_order=True).agg(pl.col("value").mean(), pl.col("n").first())
    return by_key(mean)


def _spec(rows: pl.DataFrame, surfaces: Rows, random: Rows) -> dict[str, Any]:
    several = rows["shown"].n_unique() > 1
    records: list[dict[str, Any]] = []
    for row in rows.iter_rows(named=True):
        key = tuple(row[name] for name in KEY)
        surface, untrained = surfaces.get(key), random.get(key)
        records.append(
            {
                "name": row["name"],
                "asks": meaning_of(row["task"]),
                "family": row["family"],
                "model": row["shown"],
                "value": row["value"],
                "low": row["ci_low"],
                "high": row["ci_high"],
                "layer": row["layer"],
                "few": no_verdict(row),
                "surface": surface and surface["value"],
                "which": surface["control"] if surface else "",
                "random": untrained and untrained["value"],
            }
        )
    order = [label_of(task) for task in ordered(rows["task"].to_list())]
    base = alt.Chart(alt.Data(values=records)).encode(
        y=alt.Y("name:N", sort=order, title=None),
        tooltip=[
            alt.Tooltip("name:N", title=" "),
            alt.Tooltip("asks:N"),
            alt.Tooltip("family:N"),
            alt.Tooltip("model:N"),
            alt.Tooltip("layer:Q"),
            alt.Tooltip("value:Q", format=".1%", title="accuracy"),
            alt.Tooltip("surface:Q", format=".1%", title="surface baseline"),
            alt.Tooltip("which:N", title="which"),
            alt.Tooltip("random:Q", format=".1%", title="random weights"),
        ],
    )
    controls = base
    if several:
        controls = base.encode(yOffset=alt.YOffset("model:N", sort=None))
        base = controls.encode(color=alt.Color("model:N", title=None, sort=None))
    scale = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("value:Q", title="accuracy", scale=scale, axis=alt.Axis(format="%"))
    layers = [
        base.mark_rule(style="interval", clip=True).encode(
            x=alt.X("low:Q", title="accuracy", scale=scale), x2="high:Q"
        ),
        controls.mark_tick(style="surface").encode(x=alt.X("surface:Q", scale=scale)),
        controls.mark_point(style="random", shape="diamond").encode(x=alt.X("random:Q", scale=scale)),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(x=x),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(x=x),
    ]
    return specification(alt.layer(*layers).properties(height=row_height(rows["shown"].n_unique())))


def _beaten(rows: pl.DataFrame, gains: Rows) -> tuple[list[str], list[str], list[str]]:
    """Tasks above their surface baseline for certain, those that may not be, and those without a verdict."""
    above: list[str] = []
    level: list[str] = []
    unknown: list[str] = []
    for row in rows.iter_rows(named=True):
        gain = gains.get(tuple(row[name] for name in KEY))
        if gain is None or no_verdict(gain) or gain["ci_low"] is None:
            unknown.append(row["name"])
        else:
            (above if gain["ci_low"] > 0 else level).append(row["name"])
    return above, level, unknown


def _lead(run: RunData, rows: pl.DataFrame, gains: Rows) -> str:
    first = rows.filter(pl.col("model") == rows["model"][0])
    above, level, unknown = _beaten(first, gains)
    tasks = f"{first.height} task{'s' if first.height != 1 else ''}"
    if not above and not level:
        return f"Of the {tasks} probed in {first['shown'][0]} none allows a verdict: {_NO_VERDICT}."
    rest = [
        *([f"{len(level)} {'is' if len(level) == 1 else 'are'} not clearly above it"] if level else []),
        *([f"{len(unknown)} allow{'s' * (len(unknown) == 1)} no verdict"] if unknown else []),
    ]
    return (
        f"Probes of {first['shown'][0]} are more accurate than every surface baseline in {len(above)} of "
        f"{tasks}{' and languages' if len(run.languages) > 1 else ''} probed"
        f"{'; ' if rest else ''}{', '.join(rest)}."
    )


def _answer(run: RunData, rows: pl.DataFrame, gains: Rows) -> str:
    lines: list[str] = []
    for part in rows.partition_by("model", "language", maintain_order=True):
        above, level, unknown = _beaten(part, gains)
        who = whose(run, part.row(0, named=True))
        said = [
            f"above every surface baseline: {', '.join(above) or 'none'}",
            *([f"not clearly above: {', '.join(level)}"] if level else []),
            *([f"no verdict, for {_NO_VERDICT}: {', '.join(unknown)}"] if unknown else []),
        ]
        text = f"{who}: {'; '.join(said)}." if who else f"{'; '.join(said)}."
        lines.append(text[0].upper() + text[1:])
    return "\n".join(lines)


def _beside_cues(run: RunData, rows: pl.DataFrame) -> Iterator[str]:
    """What the word and its neighbours tell of each task about tokens: a sentence each."""
    told = local_cues(run)
    for row in rows.iter_rows(named=True):
        if (both := told.get(tuple(row[name] for name in KEY))) is not None:
            who = whose(run, row)
            yield f"{row['name']}{f' ({who})' if who else ''} is {describe_cues(row, *both)}."


def _table(rows: pl.DataFrame, surfaces: Rows, random: Rows, gains: Rows, run: RunData) -> Table:
    selectivity = by_key(beside(run, ["selectivity"], BEST))
    told = local_cues(run)
    cues, cues_gains = ({key: both[place] for key, both in told.items()} for place in (0, 1))
    others: dict[tuple[Any, ...], list[str]] = {}
    beyond = every_pooling(run).join(rows, on=[*KEY, "pooling"], how="anti", maintain_order="left")
    for row in beyond.iter_rows(named=True):
        text = f"{row['pooling']} {number(100 * row['value'], 1)}"
        others.setdefault(tuple(row[name] for name in KEY), []).append(text)
    place = {task: at for at, task in enumerate(ordered(rows["task"].to_list()))}
    records: list[dict[str, Any]] = []
    for row in sorted(rows.to_dicts(), key=lambda row: (place[row["task"]], row["language"])):
        key = tuple(row[name] for name in KEY)
        beside_it = {"surface": surfaces, "gain": gains, "random": random, "selectivity": selectivity}
        beside_it |= {"cues": cues, "cues_gain": cues_gains}
        records.append(
            {**row, "key": key, "others": ", ".join(others.get(key, [])) or None}
            | {name: held.get(key) for name, held in beside_it.items()}
        )
    return Table(
        summary="Every task with its baselines",
        columns=[
            Column(title="Task", value="name"),
            Column(title="Family", value="family"),
            MODEL,
            LANGUAGE,
            Column(title="Pooling", value="pooling", help="How the subwords of one place become one vector."),
            Column(
                title="Layer",
                value=layers_of,
                format=Format(right=True),
                order="layer",
                help="The layer that was most accurate on validation; 0 is the embedding.",
            ),
            *estimate("Accuracy, %", 1, 100),
            Column(
                title="Best surface",
                value=lambda row: row["surface"] and row["surface"]["control"].replace("_", " "),
                help="The best guess from the text alone, without a model.",
            ),
            Column(title="Surface, %", value="surface", format=PERCENT, help="The accuracy of that guess."),
            *estimate(
                "Gain, points",
                1,
                100,
                key="gain",
                interval="Interval of the gain",
                help="Accuracy of the probe less that of the best surface.",
            ),
            *(_cues_columns() if told else ()),
            Column(
                title="Random weights, %",
                value="random",
                format=PERCENT,
                help="A probe of the same model with weights at random.",
            ),
            Column(
                title="Selectivity, points",
                value="selectivity",
                format=PERCENT,
                help="Accuracy less that on labels at random: what the probe does not learn by heart.",
            ),
            *_extra(run),
            N,
            CLUSTERS,
            Column(title="Other poolings, %", value="others"),
        ],
        rows=records,
    )


def _cues_columns() -> Iterator[Column]:
    """What the word and its neighbours tell, which is no baseline that the probe has to beat."""
    yield Column(
        title="Word and neighbours, %",
        value="cues",
        format=PERCENT,
        help="Read from the word itself, its neighbours and the characters beside it, without a model.",
    )
    yield from estimate(
        "Beyond these, points",
        1,
        100,
        key="cues_gain",
        interval="Interval beyond these",
        help="Accuracy of the probe less that of the word and its neighbours; no part of the verdict.",
    )
    yield Column(
        title="Told",
        value=lambda row: row["cues_gain"] and compare_with_cues(row["cues_gain"]),
        help="Whether the states tell more than the word and its neighbours, or less.",
    )


def _extra(run: RunData) -> Iterator[Column]:
    """What was asked for beside linear probes: accuracy with a hidden layer, and how short labels become."""
    if hidden := by_key(beside(run, ["accuracy"], BEST, split="test").filter(pl.col("method") == "mlp")):
        yield Column(
            title="Hidden layer, %",
            value=lambda row: hidden.get(row["key"]),
            format=PERCENT,
            help="Accuracy of a probe with one hidden layer.",
        )
    codes = beside(run, ["compression"])
    if not codes.is_empty():
        held = {(*(row[name] for name in KEY), row["layer"]): row for row in codes.iter_rows(named=True)}
        yield Column(
            title="Compression",
            value=lambda row: held.get((*row["key"], row["layer"])),
            format=Number(digits=1),
            help="How many times shorter the labels become when they are sent with the help of the states.",
        )


def _notes(run: RunData) -> list[str]:
    notes: list[str] = []
    if beside(run, ["gain"], BEST).is_empty():
        notes.append("Controls were turned off: no surface baseline stands beside these numbers.")
    reasons = run.scores(metrics=["left_out"], by=REASON, lens=LENS, controls=True)
    told = reasons.unique(("control", "label"), keep="first", maintain_order=True)
    for control, part in by_reason(told.select("control", "label").iter_rows()).items():
        what = f" ({control.replace('_', ' ')})" if control else ""
        notes += [f"Left out{what}: {reason}." for reason in part]
    return notes


plot = ProbeAccuracy()
