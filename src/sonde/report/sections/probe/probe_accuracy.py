"""Every task's accuracy at the layer chosen on validation, beside what needs no model (INSPECT, Table 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number
from sonde.report.charts import row_height, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.probe import (
    BEST,
    ENCODED,
    KEY,
    LENS,
    SURFACE,
    describe_fits,
    format_layers,
    format_row_label,
    index_by_key,
    read_all_poolings,
    read_headline,
    read_layer_summaries,
    read_local_cues,
    read_with_controls,
)
from sonde.report.text import group_by_reason, lacks_verdict, sort_by_family, task_description, task_label
from sonde.results.layers import LayerSummary
from sonde.results.local_cues import compare_with_cues, describe_cues
from sonde.results.schema import REASON, has_dimension_names
from sonde.results.tables import CLUSTERS, LANGUAGE, MODEL, Column, N, Table, estimate_columns
from sonde.results.text_format import (
    PERCENT,
    TOO_LITTLE,
    Format,
    Number,
    describe_null_results,
    with_interval,
)
from sonde.stats.verdict import no_verdict_reason

Row = Mapping[str, Any]


Rows = dict[tuple[str, ...], dict[str, Any]]


Accounts = Mapping[tuple[str, ...], LayerSummary]


_SHOWN = 5
"""Tasks that a sentence names with their numbers."""


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
        rows = read_headline(run)
        if rows.is_empty():
            return None
        found, random = read_layer_summaries(run), _read_random_weights(run)
        charts: list[Chart] = []
        for (language,), part in rows.partition_by("language", as_dict=True, maintain_order=True).items():
            several = rows["language"].n_unique() > 1
            charts.append(
                Chart(
                    name=f"probe-accuracy-{language}" if several else "probe-accuracy",
                    title=f"Accuracy by task{f', {language}' if several else ''}",
                    spec=_build_spec(part, found, random),
                    wide=True,
                )
            )
        return Figure(
            lead=_format_lead(run, rows, found),
            answer=_format_answer(run, rows, found),
            charts=charts,
            table=_build_table(rows, found, random, run),
            notes=[*describe_fits(run), *_describe_cues(run, rows), *_list_notes(run)],
        )


def _read_random_weights(run: RunData) -> Rows:
    """Mean accuracy of the models with random weights, each at its chosen layer."""
    shared = has_dimension_names("selection", "share")
    chosen = read_with_controls(run, ["accuracy"], shared, control="random_weights", split="test")
    mean = chosen.group_by(KEY, maintain_order=True).agg(pl.col("value").mean(), pl.col("n").first())
    return index_by_key(mean)


def _build_spec(rows: pl.DataFrame, found: Accounts, random: Rows) -> dict[str, Any]:
    several = rows["shown"].n_unique() > 1
    records: list[dict[str, Any]] = []
    for row in rows.iter_rows(named=True):
        key = tuple(row[name] for name in KEY)
        account, untrained = found[key], random.get(key)
        surface = account.control
        records.append(
            {
                "name": row["name"],
                "asks": task_description(row["task"]),
                "family": row["family"],
                "model": row["shown"],
                "value": row["value"],
                "low": row["ci_low"],
                "high": row["ci_high"],
                "layer": row["layer"],
                "encoded": account.describe(),
                "few": lacks_verdict(row),
                "surface": surface and surface["value"],
                "which": surface["control"] if surface else "",
                "random": untrained and untrained["value"],
            }
        )
    order = [task_label(task) for task in sort_by_family(rows["task"].to_list())]
    base = alt.Chart(alt.Data(values=records)).encode(
        y=alt.Y("name:N", sort=order, title=None),
        tooltip=[
            alt.Tooltip("name:N", title=" "),
            alt.Tooltip("asks:N"),
            alt.Tooltip("family:N"),
            alt.Tooltip("model:N"),
            alt.Tooltip("layer:Q"),
            alt.Tooltip("encoded:N", title="where"),
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
    return to_vega_lite(alt.layer(*layers).properties(height=row_height(rows["shown"].n_unique())))


@dataclass(frozen=True, slots=True)
class _TasksByVerdict:
    """Tasks of one model by how the chosen layer ends against the best surface baseline.

    Attributes:
        above: Surely more accurate.
        slight: Surely more accurate, by less than matters.
        below: Surely less.
        level: No difference found.
        few: Too little data.
        alone: Tasks without such a baseline.
    """

    above: list[tuple[str, Row]] = field(default_factory=list[tuple[str, Row]])
    slight: list[tuple[str, Row]] = field(default_factory=list[tuple[str, Row]])
    below: list[tuple[str, Row]] = field(default_factory=list[tuple[str, Row]])
    level: list[tuple[str, Row]] = field(default_factory=list[tuple[str, Row]])
    few: list[tuple[str, Row]] = field(default_factory=list[tuple[str, Row]])
    alone: list[str] = field(default_factory=list[str])

    @property
    def null_result_sentences(self) -> list[str]:
        """In how many tasks no difference was found, and what would have been."""
        return describe_null_results([gain for _, gain in self.level], 100, 1, " points")


def _group_by_verdict(rows: pl.DataFrame, found: Accounts) -> _TasksByVerdict:
    beaten = _TasksByVerdict()
    for row in rows.iter_rows(named=True):
        account = found[tuple(row[name] for name in KEY)]
        gain = account.gain
        if gain is None:
            beaten.alone.append(row["name"])
            continue
        standings = {"open": beaten.few, "encoded": beaten.above, "slight": beaten.slight}
        level = beaten.below if gain["ci_high"] is not None and gain["ci_high"] < 0 else beaten.level
        standings.get(account.status, level).append((row["name"], gain))
    return beaten


def _list_names(tasks: Sequence[tuple[str, Row]]) -> str:
    return ", ".join(name for name, _ in tasks)


def _list_gains(tasks: Sequence[tuple[str, Row]]) -> str:
    """Tasks with their differences, the first few of many."""
    shown = [f"{name} {with_interval(gain, 100, 1)}" for name, gain in tasks[:_SHOWN]]
    return f"{', '.join(shown)}{', …' * (len(tasks) > _SHOWN)} points"


def _format_lead(run: RunData, rows: pl.DataFrame, found: Accounts) -> str:
    first = rows.filter(pl.col("model") == rows["model"][0])
    held = _group_by_verdict(first, found)
    tasks = f"{first.height} task{'s' if first.height != 1 else ''}"
    who = first["shown"][0]
    if len(held.few) + len(held.alone) == first.height:
        if not held.few:
            return f"Of the {tasks} probed in {who} none has a surface baseline."
        why = no_verdict_reason(held.few[0][1])
        return (
            f"Too little data on the {tasks} probed in {who} ({why}): {_list_gains(held.few)} over the best "
            "surface baseline."
        )
    rest = [
        *([f"by less than matters in {len(held.slight)}"] if held.slight else []),
        *([f"less in {len(held.below)}"] if held.below else []),
        *held.null_result_sentences,
        *([f"{TOO_LITTLE} in {len(held.few)}"] if held.few else []),
        *([f"no such baseline in {len(held.alone)}"] if held.alone else []),
    ]
    return (
        f"Probes of {who} are more accurate than every surface baseline in {len(held.above)} of "
        f"{tasks}{' and languages' if len(run.languages) > 1 else ''} probed"
        f"{'; ' if rest else ''}{', '.join(rest)}."
    )


def _format_answer(run: RunData, rows: pl.DataFrame, found: Accounts) -> str:
    lines: list[str] = []
    for part in rows.partition_by("model", "language", maintain_order=True):
        held = _group_by_verdict(part, found)
        who = format_row_label(run, part.row(0, named=True))
        said = [
            f"above every surface baseline: {_list_names(held.above) or 'none'}",
            *([f"above it by less than matters: {_list_names(held.slight)}"] if held.slight else []),
            *([f"below one: {_list_names(held.below)}"] if held.below else []),
            *(f"{one}: {_list_names(held.level)}" for one in held.null_result_sentences),
            *(
                [f"{TOO_LITTLE} ({_explain_missing_verdict(held)}): {_list_gains(held.few)}"]
                if held.few
                else []
            ),
            *([f"no surface baseline: {', '.join(held.alone)}"] if held.alone else []),
        ]
        text = f"{who}: {'; '.join(said)}." if who else f"{'; '.join(said)}."
        lines.append(text[0].upper() + text[1:])
    return "\n".join(lines)


def _explain_missing_verdict(held: _TasksByVerdict) -> str:
    return "; ".join(dict.fromkeys(no_verdict_reason(gain) for _, gain in held.few))


def _describe_cues(run: RunData, rows: pl.DataFrame) -> Iterator[str]:
    """What the word and its neighbours tell of each task about tokens: a sentence each."""
    told = read_local_cues(run)
    for row in rows.iter_rows(named=True):
        if (both := told.get(tuple(row[name] for name in KEY))) is not None:
            who = format_row_label(run, row)
            yield f"{row['name']}{f' ({who})' if who else ''} is {describe_cues(row, *both)}."


def _build_table(rows: pl.DataFrame, found: Accounts, random: Rows, run: RunData) -> Table:
    selectivity = index_by_key(read_with_controls(run, ["selectivity"], BEST))
    told = read_local_cues(run)
    cues, cues_gains = ({key: both[place] for key, both in told.items()} for place in (0, 1))
    others: dict[tuple[Any, ...], list[str]] = {}
    beyond = read_all_poolings(run).join(rows, on=[*KEY, "pooling"], how="anti", maintain_order="left")
    for row in beyond.iter_rows(named=True):
        text = f"{row['pooling']} {number(100 * row['value'], 1)}"
        others.setdefault(tuple(row[name] for name in KEY), []).append(text)
    place = {task: at for at, task in enumerate(sort_by_family(rows["task"].to_list()))}
    records: list[dict[str, Any]] = []
    for row in sorted(rows.to_dicts(), key=lambda row: (place[row["task"]], row["language"])):
        key = tuple(row[name] for name in KEY)
        account = found[key]
        held = {"surface": account.control, "gain": account.gain, "encoded": account.describe()}
        beside_it = {"random": random.get(key), "selectivity": selectivity.get(key)}
        beside_it |= {"cues": cues.get(key), "cues_gain": cues_gains.get(key)}
        named = {"key": key, "others": ", ".join(others.get(key, [])) or None}
        records.append(row | named | held | beside_it)
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
                value=format_layers,
                format=Format(right=True),
                order="layer",
                help="The layer that was most accurate on validation; 0 is the embedding.",
            ),
            *estimate_columns("Accuracy, %", 1, 100),
            ENCODED,
            Column(
                title="Best surface",
                value=lambda row: row["surface"] and row["surface"]["control"].replace("_", " "),
                help="The best guess from the text alone, without a model.",
            ),
            SURFACE,
            *estimate_columns(
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
            *_extra_columns(run),
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
    yield from estimate_columns(
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


def _extra_columns(run: RunData) -> Iterator[Column]:
    """What was asked for beside linear probes: accuracy with a hidden layer, and how short labels become."""
    if hidden := index_by_key(
        read_with_controls(run, ["accuracy"], BEST, split="test").filter(pl.col("method") == "mlp")
    ):
        yield Column(
            title="Hidden layer, %",
            value=lambda row: hidden.get(row["key"]),
            format=PERCENT,
            help="Accuracy of a probe with one hidden layer.",
        )
    codes = read_with_controls(run, ["compression"])
    if not codes.is_empty():
        held = {(*(row[name] for name in KEY), row["layer"]): row for row in codes.iter_rows(named=True)}
        yield Column(
            title="Compression",
            value=lambda row: held.get((*row["key"], row["layer"])),
            format=Number(digits=1),
            help="How many times shorter the labels become when they are sent with the help of the states.",
        )


def _list_notes(run: RunData) -> list[str]:
    notes: list[str] = []
    if read_with_controls(run, ["gain"], BEST).is_empty():
        notes.append("Controls were turned off: no surface baseline stands beside these numbers.")
    reasons = run.scores(metrics=["left_out"], by=REASON, lens=LENS, controls=True)
    told = reasons.unique(("control", "label"), keep="first", maintain_order=True)
    for control, part in group_by_reason(told.select("control", "label").iter_rows()).items():
        what = f" ({control.replace('_', ' ')})" if control else ""
        notes += [f"Left out{what}: {reason}." for reason in part]
    return notes


plot = ProbeAccuracy()
