"""Every task's accuracy at the layer chosen on validation, beside what needs no model (INSPECT, Table 2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number, plural
from sonde.report.charts import plot_estimates
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.probe import (
    BEST,
    ENCODED,
    KEY,
    LENS,
    SURFACE,
    describe_fits,
    format_layers,
    format_row_label,
    get_key,
    index_by_key,
    read_all_poolings,
    read_headline,
    read_layer_summaries,
    read_local_cues,
    read_with_controls,
)
from sonde.report.text import (
    family_order,
    group_by_reason,
    lacks_verdict,
    sort_by_family,
    task_description,
    task_label,
)
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


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """One chart a language."""
    found = read_layer_summaries(run)
    shared = has_dimension_names("selection", "share")
    untrained = read_with_controls(run, ["accuracy"], shared, control="random_weights", split="test")
    # Mean accuracy of the models with random weights, each at its chosen layer.
    mean = untrained.group_by(KEY, maintain_order=True).agg(pl.col("value").mean(), pl.col("n").first())
    random = index_by_key(mean)
    several = rows["language"].n_unique() > 1
    parts = rows.partition_by("language", as_dict=True, maintain_order=True)
    return Figure(
        lead=_format_lead(run, rows, found),
        answer="\n".join(_list_answers(run, rows, found)),
        charts=[
            Chart(
                name=f"probe-accuracy-{language}" if several else "probe-accuracy",
                title=f"Accuracy by task{f', {language}' if several else ''}",
                spec=_build_spec(part, found, random),
                wide=True,
            )
            for (language,), part in parts.items()
        ],
        table=_build_table(rows, found, random, run),
        notes=[*describe_fits(run), *_describe_cues(run, rows), *_list_notes(run)],
    )


def _build_spec(rows: pl.DataFrame, found: Accounts, random: Rows) -> dict[str, Any]:
    records: list[dict[str, Any]] = []
    for row in rows.iter_rows(named=True):
        account, untrained = found[get_key(row)], random.get(get_key(row))
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
    return plot_estimates(
        records,
        "name",
        "accuracy",
        [
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
        by="model",
        order=[task_label(task) for task in sort_by_family(rows["task"].to_list())],
        marks={"random": "random", "surface": "surface"},
    )


_ABOVE, _SLIGHT, _BELOW, _LEVEL, _FEW, _ALONE = "encoded", "slight", "below", "level", "open", "alone"
"""How the chosen layer ends against the best surface baseline: surely more accurate, more by less than
matters, surely less, no difference found, too little data, no such baseline."""


_Gains = Mapping[str, Mapping[str, Row]]
"""By that, the tasks with their differences."""


def _group_by_verdict(rows: pl.DataFrame, found: Accounts) -> _Gains:
    grouped: defaultdict[str, dict[str, Row]] = defaultdict(dict)
    for row in rows.iter_rows(named=True):
        account = found[get_key(row)]
        gain = account.gain
        if gain is None:
            kind = _ALONE
        elif account.status in (_FEW, _ABOVE, _SLIGHT):
            kind = account.status
        else:
            kind = _BELOW if gain["ci_high"] is not None and gain["ci_high"] < 0 else _LEVEL
        grouped[kind][row["name"]] = gain or {}
    return grouped


def _describe_level(held: _Gains) -> list[str]:
    """In how many tasks no difference was found, and what would have been."""
    return describe_null_results(list(held[_LEVEL].values()), 100, 1, " points")


def _list_gains(tasks: Mapping[str, Row]) -> str:
    """Tasks with their differences, the first few of many."""
    shown = [f"{name} {with_interval(gain, 100, 1)}" for name, gain in list(tasks.items())[:_SHOWN]]
    return f"{', '.join(shown)}{', …' * (len(tasks) > _SHOWN)} points"


def _format_lead(run: RunData, rows: pl.DataFrame, found: Accounts) -> str:
    first = rows.filter(pl.col("model") == rows["model"][0])
    held = _group_by_verdict(first, found)
    few = held[_FEW]
    tasks = plural(first.height, "task")
    who = first["shown"][0]
    if len(held[_ALONE]) == first.height:
        return f"Of the {tasks} probed in {who} none has a surface baseline."
    if len(few) + len(held[_ALONE]) == first.height:
        why = no_verdict_reason(next(iter(few.values())))
        return (
            f"Too little data on the {tasks} probed in {who} ({why}): {_list_gains(few)} over the best "
            "surface baseline."
        )
    rest = [
        *(f"by less than matters in {size}" for size in (len(held[_SLIGHT]),) if size),
        *(f"less in {size}" for size in (len(held[_BELOW]),) if size),
        *_describe_level(held),
        *(f"{TOO_LITTLE} in {size}" for size in (len(few),) if size),
        *(f"no such baseline in {size}" for size in (len(held[_ALONE]),) if size),
    ]
    return (
        f"Probes of {who} are more accurate than every surface baseline in {len(held[_ABOVE])} of "
        f"{tasks}{' and languages' if len(run.languages) > 1 else ''} probed"
        f"{'; ' if rest else ''}{', '.join(rest)}."
    )


def _list_answers(run: RunData, rows: pl.DataFrame, found: Accounts) -> Iterator[str]:
    for part in rows.partition_by("model", "language", maintain_order=True):
        held = _group_by_verdict(part, found)
        few = held[_FEW]
        why = "; ".join(dict.fromkeys(map(no_verdict_reason, few.values())))
        said = [f"above every surface baseline: {', '.join(held[_ABOVE]) or 'none'}"]
        named = {
            _SLIGHT: "above it by less than matters",
            _BELOW: "below one",
            _LEVEL: "".join(_describe_level(held)),
        }
        said += [f"{words}: {', '.join(held[kind])}" for kind, words in named.items() if held[kind]]
        said += [f"{TOO_LITTLE} ({why}): {_list_gains(few)}"] if few else []
        said += [f"no surface baseline: {', '.join(held[_ALONE])}"] if held[_ALONE] else []
        who = format_row_label(run, part.row(0, named=True))
        text = f"{who}: {'; '.join(said)}." if who else f"{'; '.join(said)}."
        yield text[0].upper() + text[1:]


def _describe_cues(run: RunData, rows: pl.DataFrame) -> Iterator[str]:
    """What the word and its neighbours tell of each task about tokens: a sentence each."""
    told = read_local_cues(run)
    for row in rows.iter_rows(named=True):
        if (both := told.get(get_key(row))) is not None:
            who = format_row_label(run, row)
            yield f"{row['name']}{f' ({who})' if who else ''} is {describe_cues(row, *both)}."


def _build_table(rows: pl.DataFrame, found: Accounts, random: Rows, run: RunData) -> Table:
    selectivity = index_by_key(read_with_controls(run, ["selectivity"], BEST))
    told = read_local_cues(run)
    others: defaultdict[tuple[Any, ...], list[str]] = defaultdict(list)
    beyond = read_all_poolings(run).join(rows, on=[*KEY, "pooling"], how="anti", maintain_order="left")
    for row in beyond.iter_rows(named=True):
        others[get_key(row)].append(f"{row['pooling']} {number(100 * row['value'], 1)}")
    records = [
        {
            **row,
            "key": key,
            "surface": found[key].control,
            "gain": found[key].gain,
            "encoded": found[key].describe(),
            "random": random.get(key),
            "selectivity": selectivity.get(key),
            "cues": told[key][0] if key in told else None,
            "cues_gain": told[key][1] if key in told else None,
            "others": ", ".join(others[key]) or None,
        }
        for row in rows.sort(family_order(rows), "language", maintain_order=True).to_dicts()
        for key in (get_key(row),)
    ]
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
    tested = read_with_controls(run, ["accuracy"], BEST, split="test")
    if hidden := index_by_key(tested.filter(pl.col("method") == "mlp")):
        yield Column(
            title="Hidden layer, %",
            value=lambda row: hidden.get(row["key"]),
            format=PERCENT,
            help="Accuracy of a probe with one hidden layer.",
        )
    codes = read_with_controls(run, ["compression"])
    if shorter := {(*get_key(row), row["layer"]): row for row in codes.iter_rows(named=True)}:
        yield Column(
            title="Compression",
            value=lambda row: shorter.get((*row["key"], row["layer"])),
            format=Number(digits=1),
            help="How many times shorter the labels become when they are sent with the help of the states.",
        )


def _list_notes(run: RunData) -> Iterator[str]:
    if read_with_controls(run, ["gain"], BEST).is_empty():
        yield "Controls were turned off: no surface baseline stands beside these numbers."
    reasons = run.scores(metrics=["left_out"], by=REASON, lens=LENS, controls=True)
    told = reasons.unique(("control", "label"), keep="first", maintain_order=True)
    for control, part in group_by_reason(told.select("control", "label").iter_rows()).items():
        what = f" ({control.replace('_', ' ')})" if control else ""
        yield from (f"Left out{what}: {reason}." for reason in part)


plot = SectionPlot(
    title="Probes: what the states encode",
    lens=LENS,
    order=200,
    caption=(
        "Accuracy of a linear probe on examples that it was not trained on, at the layer chosen without "
        "them, with its 95 % interval; where folds chose different layers, the one that most chose is named. "
        "The tick is the surface baseline that was the best on validation, on the same examples: the "
        "majority, length, a bag of tokens, a parse error, or a token's spelling. The diamond is the same "
        "architecture with random weights, on "
        "the share of the examples that it read."
    ),
    select=read_headline,
    figure=_draw,
)
