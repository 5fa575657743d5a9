"""Accuracy of tasks at the layer chosen on validation, and baselines without a model (INSPECT, Table 2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

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
    start_sentence,
)
from sonde.report.text import (
    family_order,
    group_by_reason,
    lacks_verdict,
    list_first,
    sort_by_family,
    task_description,
    task_label,
)
from sonde.results.layers import LayerSummary
from sonde.results.local_cues import compare_with_cues, describe_cues
from sonde.results.schema import REASON, has_dimension_names
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import PERCENT, SHARE, TOO_LITTLE, Format, Number, with_interval
from sonde.stats.verdict import no_verdict_reason

Row = Mapping[str, Any]


Rows = dict[tuple[str, ...], dict[str, Any]]


Summaries = Mapping[tuple[str, ...], LayerSummary]


_MAX_TASKS = 5
"""Maximum number of tasks that a sentence names with their numbers."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw one chart per language."""
    summaries = read_layer_summaries(run)
    share_filter = has_dimension_names("selection", "share")
    random_rows = read_with_controls(run, ["accuracy"], share_filter, control="random_weights", split="test")
    # Mean accuracy of the models with random weights, each at its chosen layer.
    mean = random_rows.group_by(KEY, maintain_order=True).agg(pl.col("value").mean(), pl.col("n").first())
    random = index_by_key(mean)
    show_language = rows["language"].n_unique() > 1
    parts = rows.partition_by("language", as_dict=True, maintain_order=True)
    return Figure(
        lead=_format_lead(run, rows, summaries),
        answer="\n".join(_list_answers(run, rows, summaries)),
        charts=[
            Chart(
                name=f"probe-accuracy-{language}" if show_language else "probe-accuracy",
                title=f"Accuracy by task{f', {language}' if show_language else ''}",
                spec=_build_spec(part, summaries, random),
                wide=True,
            )
            for (language,), part in parts.items()
        ],
        table=_build_table(rows, summaries, random, run),
        notes=[*describe_fits(run), *_describe_cues(run, rows), *_list_notes(run)],
    )


_TOOLTIP = {
    "name:N": " ",
    **dict.fromkeys(("asks:N", "family:N", "model:N", "layer:Q"), ""),
    "encoded:N": "where",
    "value:Q": "accuracy|.1%",
    "surface:Q": "surface baseline|.1%",
    "which:N": "which",
    "random:Q": "random weights|.1%",
}


def _build_spec(rows: pl.DataFrame, summaries: Summaries, random: Rows) -> dict[str, Any]:
    records: list[dict[str, Any]] = []
    for row in rows.iter_rows(named=True):
        summary, random_row = summaries[get_key(row)], random.get(get_key(row))
        surface = summary.control
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
                "encoded": summary.describe(),
                "few": lacks_verdict(row),
                "surface": surface and surface["value"],
                "which": surface["control"] if surface else "",
                "random": random_row and random_row["value"],
            }
        )
    return plot_estimates(
        records,
        "name",
        "accuracy",
        _TOOLTIP,
        by="model",
        order=[task_label(task) for task in sort_by_family(rows["task"].to_list())],
        marks={"random": "random", "surface": "surface"},
    )


_HIGHER, _SLIGHTLY_HIGHER, _LOWER, _LEVEL, _INCONCLUSIVE, _NO_BASELINE = (
    "encoded",
    "slight",
    "below",
    "level",
    "open",
    "alone",
)
"""Verdicts on the selected layer compared with the best surface baseline: surely more accurate, more by less
than matters, surely less, no difference found, too little data, no such baseline."""


_Gains = Mapping[str, Mapping[str, Row]]
"""Tasks with their differences, by verdict."""


def _group_by_verdict(rows: pl.DataFrame, summaries: Summaries) -> _Gains:
    groups: defaultdict[str, dict[str, Row]] = defaultdict(dict)
    for row in rows.iter_rows(named=True):
        summary = summaries[get_key(row)]
        gain = summary.gain
        if gain is None:
            kind = _NO_BASELINE
        elif summary.status in (_INCONCLUSIVE, _HIGHER, _SLIGHTLY_HIGHER):
            kind = summary.status
        else:
            kind = _LOWER if gain["ci_high"] is not None and gain["ci_high"] < 0 else _LEVEL
        groups[kind][row["name"]] = gain or {}
    return groups


def _describe_level(gains: _Gains) -> list[str]:
    """Describe the tasks without a difference, and the difference that would have been detected."""
    return SHARE.null_results(list(gains[_LEVEL].values()))


def _list_gains(tasks: Mapping[str, Row]) -> str:
    """List tasks with their differences, at most `_MAX_TASKS`."""
    texts = [f"{name} {with_interval(gain, 100, 1)}" for name, gain in tasks.items()]
    return f"{list_first(texts, _MAX_TASKS)} points"


def _format_lead(run: RunData, rows: pl.DataFrame, summaries: Summaries) -> str:
    first = rows.filter(pl.col("model") == rows["model"][0])
    gains = _group_by_verdict(first, summaries)
    inconclusive = gains[_INCONCLUSIVE]
    tasks = plural(first.height, "task")
    model = first["shown"][0]
    if len(gains[_NO_BASELINE]) == first.height:
        return f"None of the {tasks} probed in {model} has a surface baseline."
    if len(inconclusive) + len(gains[_NO_BASELINE]) == first.height:
        reason = no_verdict_reason(next(iter(inconclusive.values())))
        return (
            f"Too little data on the {tasks} probed in {model} ({reason}): {_list_gains(inconclusive)} "
            "over the best surface baseline."
        )
    rest = [
        *[f"by less than matters in {len(gains[_SLIGHTLY_HIGHER])}"] * bool(gains[_SLIGHTLY_HIGHER]),
        *[f"less in {len(gains[_LOWER])}"] * bool(gains[_LOWER]),
        *_describe_level(gains),
        *[f"{TOO_LITTLE} in {len(inconclusive)}"] * bool(inconclusive),
        *[f"no such baseline in {len(gains[_NO_BASELINE])}"] * bool(gains[_NO_BASELINE]),
    ]
    return (
        f"Probes of {model} are more accurate than every surface baseline in {len(gains[_HIGHER])} of "
        f"{tasks}{' and languages' if len(run.languages) > 1 else ''} probed"
        f"{'; ' if rest else ''}{', '.join(rest)}."
    )


def _list_answers(run: RunData, rows: pl.DataFrame, summaries: Summaries) -> Iterator[str]:
    for part in rows.partition_by("model", "language", maintain_order=True):
        gains = _group_by_verdict(part, summaries)
        inconclusive = gains[_INCONCLUSIVE]
        reason = "; ".join(dict.fromkeys(map(no_verdict_reason, inconclusive.values())))
        clauses = [f"above every surface baseline: {', '.join(gains[_HIGHER]) or 'none'}"]
        verdict_texts = {
            _SLIGHTLY_HIGHER: "above it by less than matters",
            _LOWER: "below one",
            _LEVEL: "".join(_describe_level(gains)),
        }
        clauses += [
            f"{words}: {', '.join(gains[kind])}" for kind, words in verdict_texts.items() if gains[kind]
        ]
        clauses += [f"{TOO_LITTLE} ({reason}): {_list_gains(inconclusive)}"] if inconclusive else []
        clauses += [f"no surface baseline: {', '.join(gains[_NO_BASELINE])}"] if gains[_NO_BASELINE] else []
        text = f"{start_sentence(run, part.row(0, named=True))}{'; '.join(clauses)}."
        yield text[0].upper() + text[1:]


def _describe_cues(run: RunData, rows: pl.DataFrame) -> Iterator[str]:
    """Yield a sentence per token task on the accuracy of the word and its neighbours."""
    cues = read_local_cues(run)
    for row in rows.iter_rows(named=True):
        if (scores := cues.get(get_key(row))) is not None:
            label = format_row_label(run, row)
            yield f"{row['name']}{f' ({label})' if label else ''} is {describe_cues(row, *scores)}."


def _build_table(rows: pl.DataFrame, summaries: Summaries, random: Rows, run: RunData) -> Table:
    selectivity = index_by_key(read_with_controls(run, ["selectivity"], BEST))
    cues = read_local_cues(run)
    other_poolings: defaultdict[tuple[Any, ...], list[str]] = defaultdict(list)
    pooling_rows = read_all_poolings(run).join(rows, on=[*KEY, "pooling"], how="anti", maintain_order="left")
    for row in pooling_rows.iter_rows(named=True):
        other_poolings[get_key(row)].append(f"{row['pooling']} {number(100 * row['value'], 1)}")
    records = [
        {
            **row,
            "key": key,
            "surface": summaries[key].control,
            "gain": summaries[key].gain,
            "encoded": summaries[key].describe(),
            "random": random.get(key),
            "selectivity": selectivity.get(key),
            "cues": cues[key][0] if key in cues else None,
            "cues_gain": cues[key][1] if key in cues else None,
            "others": ", ".join(other_poolings[key]) or None,
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
                help="The best guess from the text, without a model.",
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
            *(_build_cue_columns() if cues else ()),
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
            *_build_extra_columns(run),
            *size_columns("Examples"),
            Column(title="Other poolings, %", value="others"),
        ],
        rows=records,
    )


def _build_cue_columns() -> Iterator[Column]:
    """Yield columns on the word and its neighbours, which the probe does not have to beat."""
    yield Column(
        title="Word and neighbours, %",
        value="cues",
        format=PERCENT,
        help="Read from the word itself, its neighbours and the characters next to it, without a model.",
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


def _build_extra_columns(run: RunData) -> Iterator[Column]:
    """Yield columns of optional probes: accuracy with a hidden layer, and compression of the labels."""
    test_rows = read_with_controls(run, ["accuracy"], BEST, split="test")
    if mlp_rows := index_by_key(test_rows.filter(pl.col("method") == "mlp")):
        yield Column(
            title="Hidden layer, %",
            value=lambda row: mlp_rows.get(row["key"]),
            format=PERCENT,
            help="Accuracy of a probe with one hidden layer.",
        )
    codes = read_with_controls(run, ["compression"])
    if compressions := {(*get_key(row), row["layer"]): row for row in codes.iter_rows(named=True)}:
        yield Column(
            title="Compression",
            value=lambda row: compressions.get((*row["key"], row["layer"])),
            format=Number(digits=1),
            help="How many times shorter the labels become when they are sent with the help of the states.",
        )


def _list_notes(run: RunData) -> Iterator[str]:
    if read_with_controls(run, ["gain"], BEST).is_empty():
        yield "Controls were turned off, so there is no surface baseline to compare with."
    reasons = run.scores(metrics=["left_out"], by=REASON, lens=LENS, controls=True)
    omissions = reasons.unique(("control", "label"), keep="first", maintain_order=True)
    for control, part in group_by_reason(omissions.select("control", "label").iter_rows()).items():
        suffix = f" ({control.replace('_', ' ')})" if control else ""
        yield from (f"Left out{suffix}: {reason}." for reason in part)


plot = SectionPlot(
    title="Probes: what the states encode",
    lens=LENS,
    order=200,
    caption=(
        "Accuracy of a linear probe on examples that it was not trained on, at the layer chosen without "
        "them, with its 95 % interval. If folds chose different layers, the layer that most folds chose is "
        "named. The tick is the surface baseline that was best on validation, on the same examples: "
        "majority, length, bag of tokens, parse error, or the spelling of a token. The diamond is the same "
        "architecture with random weights, on the share of the examples that it read."
    ),
    select=read_headline,
    figure=_draw,
)
