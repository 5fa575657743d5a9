"""Sections that cross lenses: one row per construct, one column per lens; and lenses across models.

The first section compares what several lenses measure of each construct. Numbers of one row are about one
construct, not about the same tokens. The second section correlates, over models, the headline of each lens
with the results of fine-tuning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from sonde.base.formatting import bracket, format_name, join_names, plural
from sonde.languages import format_language
from sonde.report.charts import to_vega_lite
from sonde.report.headlines import load_headline, load_titles
from sonde.report.run_tables import RunData
from sonde.report.section import (
    Chart,
    CrossLensNumber,
    Figure,
    SectionPlot,
)
from sonde.report.text import list_first, task_label
from sonde.results.headlines import (
    ABOVE,
    BELOW,
    LEVEL,
    OPEN,
    SLIGHT,
    UNCONTROLLED,
    HeadlineMetric,
    Row,
    compare_with_controls,
    decide_verdict,
)
from sonde.results.schema import dimensions_text
from sonde.results.tables import Column, Table, identity
from sonde.results.text_format import (
    COUNT,
    NO_DIFFERENCE,
    PLAIN,
    SHARE,
    TEXT,
    TOO_LITTLE,
    Format,
    Number,
    Unit,
    WithInterval,
)
from sonde.stats.metrics import MIN_MODELS, Correlation, get_lineage, rank_correlation
from sonde.store.run_folder import slug

CROSS_LENS = "joined"
"""Public name of the section, and of its group on the page."""


_MIN_CONSTRUCTS = 3
"""Minimum number of constructs of a scatter."""


_LINES = (-8, 12, -21, 25)
"""Vertical offsets of names from their points, in pixels."""


_READS = {
    ABOVE: "better",
    BELOW: "worse",
    SLIGHT: "apart by less than matters",
    LEVEL: NO_DIFFERENCE,
    UNCONTROLLED: "no control",
    OPEN: TOO_LITTLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossLensCell:
    """Number of one lens about one construct.

    Attributes:
        fact: Subject of the number in the lens; of several subjects the one with most observations.
        row: The score.
        level: The value that it is compared with; None without one.
        kind: Conclusion, a key of `sonde.results.headlines.VERDICTS`.
        n_facts: Number of subjects of the lens that belong to the construct.
    """

    fact: str
    row: Row
    level: float | None
    kind: str
    n_facts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossLensRow:
    """Numbers of the lenses about one construct in one model and language."""

    model: str
    language: str
    construct: str
    cells: Mapping[str, CrossLensCell]


def _build_cross_lens_rows(run: RunData, numbers: Mapping[str, CrossLensNumber]) -> list[CrossLensRow]:
    """Build a row per model, language and construct that at least two lenses measure.

    Args:
        run: The run.
        numbers: Number that each lens offers.
    """
    cells: dict[tuple[str, str, str], dict[str, CrossLensCell]] = {}
    for lens, number in numbers.items():
        for key, cell in _build_cells(run, lens, number):
            cells.setdefault(key, {})[lens] = cell
    model_order = {model.name: index for index, model in enumerate(run.models)}
    order = sorted(cells, key=lambda key: (model_order.get(key[0], len(model_order)), *key[1:]))
    return [
        CrossLensRow(model=model, language=language, construct=construct, cells=row_cells)
        for model, language, construct in order
        if len(row_cells := cells[model, language, construct]) > 1
    ]


def _build_cells(
    run: RunData, lens: str, number: CrossLensNumber
) -> list[tuple[tuple[str, str, str], CrossLensCell]]:
    question = number.question
    if number.level is None and (headline := load_headline(lens)) is not None:
        question = replace(question, controls=headline.controls)
    rows = run.scores(metrics=question.with_gains, lens=lens, controls=True)
    if rows.is_empty():
        return []
    level = pl.lit(None, pl.Float64) if number.level is None else number.level
    subject = ("model", "language")
    rows = rows.with_columns(level=level.over("metric", "task", *subject)).filter(question.where)
    rows = rows.with_columns(fact=number.fact).filter(pl.col("fact").is_in(list(number.constructs)))
    # A side of an encoder-decoder is another question: the first answers.
    cells: dict[tuple[str, str, str], list[tuple[str, CrossLensCell]]] = {}
    for (model, language, fact), part in rows.partition_by(
        *subject, "fact", as_dict=True, maintain_order=True
    ).items():
        first = part.filter(pl.col("side") == part["side"][0])
        cell = _build_cell(str(fact), first.to_dicts(), question)
        if cell is None:
            continue
        for construct in number.constructs[str(fact)]:
            cells.setdefault((str(model), str(language), construct), []).append((str(fact), cell))
    return [(key, _largest_cell(fact_cells)) for key, fact_cells in cells.items()]


def _build_cell(fact: str, rows: Sequence[Row], question: HeadlineMetric) -> CrossLensCell | None:
    comparison = compare_with_controls(rows, question)
    if comparison is None:
        return None
    row, control, kind = comparison.row, comparison.control, comparison.kind
    level = row["level"] if control is None else control["value"]
    if control is None and level is not None:
        # A level is as a control without an interval, so that the one rule decides.
        level_row = {**row, "value": level, "ci_low": level, "ci_high": level}
        kind, _ = decide_verdict(row, level_row, None, lower=question.lower)
    return CrossLensCell(fact=fact, row=row, level=level, kind=kind, n_facts=1)


def _largest_cell(cells: Sequence[tuple[str, CrossLensCell]]) -> CrossLensCell:
    """Select the subject with most observations, a choice that does not depend on the values."""
    _, cell = min(cells, key=lambda pair: (-pair[1].row["n"], pair[0]))
    return replace(cell, n_facts=len(cells))


def _draw_constructs(run: RunData, rows: Sequence[CrossLensRow]) -> Figure:
    """Draw the table of constructs, and scatters of the lenses."""
    lenses = {lens for row in rows for lens in row.cells}
    numbers = {lens: number for lens, number in _list_offers(run).items() if lens in lenses}
    return Figure(
        answer="\n".join(_construct_sentences(run, rows, numbers)),
        charts=list(_construct_charts(run, rows, numbers)),
        table=_construct_table(run, rows, numbers),
        notes=[_describe_units(numbers), *_describe_coverage(rows, numbers, run.labels)],
    )


def _list_offers(run: RunData) -> dict[str, CrossLensNumber]:
    titles = load_titles(run).items()
    return {lens: title.cross_lens.in_run(run, lens) for lens, title in titles if title.cross_lens}


constructs_plot = SectionPlot(
    title="Constructs over lenses",
    lens=CROSS_LENS,
    order=8_900,
    caption=(
        "One row per construct of the language and one column per lens, with 95 % intervals. Dots are "
        "hollow if either number rests on too little independent code for a verdict. If several facts of a "
        "lens belong to a construct, the one with most observations is shown, chosen without a look at the "
        "numbers, with their count. A point is two numbers of one construct, from other tokens and often "
        "from different functions: a scatter shows where to look, and is no test."
    ),
    select=lambda run: _build_cross_lens_rows(run, _list_offers(run)),
    figure=_draw_constructs,
)


def _format_subject(run: RunData, row: CrossLensRow) -> str:
    parts = [format_name(run.labels.get(row.model, row.model))]
    parts += [format_language(row.language)] if len(run.languages) > 1 else []
    return ", ".join(parts)


def _inside_yet_unsure(row: CrossLensRow, numbers: Mapping[str, CrossLensNumber]) -> bool:
    """Return whether the construct is found inside the model, while it predicts worse than usual."""
    inside_kinds = [cell.kind for lens, cell in row.cells.items() if numbers[lens].inside]
    unsure_kinds = [cell.kind for lens, cell in row.cells.items() if numbers[lens].question.lower]
    return (
        bool(inside_kinds)
        and bool(unsure_kinds)
        and set(inside_kinds) == {ABOVE}
        and set(unsure_kinds) == {BELOW}
    )


def _construct_sentences(
    run: RunData,
    rows: Sequence[CrossLensRow],
    numbers: Mapping[str, CrossLensNumber],
) -> Iterator[str]:
    """Yield a line per model and language: the constructs that are found inside, yet predicted badly."""
    inside_titles = [number.title.partition(",")[0].lower() for number in numbers.values() if number.inside]
    unsure_titles = [
        number.title.partition(",")[0].lower() for number in numbers.values() if number.question.lower
    ]
    for subject, part in groupby(rows, lambda row: _format_subject(run, row)):
        subject_rows = list(part)
        lenses = {lens for row in subject_rows for lens in row.cells}
        comparable_rows = [
            row
            for row in subject_rows
            if any(numbers[lens].inside for lens in row.cells)
            and any(numbers[lens].question.lower for lens in row.cells)
        ]
        if not comparable_rows:
            constructs = plural(len(subject_rows), "construct")
            yield f"{subject}: {constructs} that two lenses or more speak of ({len(lenses)} lenses)."
            continue
        names = [format_name(row.construct) for row in comparable_rows if _inside_yet_unsure(row, numbers)]
        names_text = f" ({', '.join(names)})" if names else ""
        yield (
            f"{subject}: of {plural(len(comparable_rows), 'construct')} that "
            f"{'has' if len(comparable_rows) == 1 else 'have'} {' and '.join(unsure_titles)} and "
            f"{' or '.join(inside_titles)}, {len(names)} {'is' if len(names) == 1 else 'are'} found inside "
            f"while the model is less sure than usual{names_text}."
        )


def _describe_units(numbers: Mapping[str, CrossLensNumber]) -> str:
    units = [number.same for number in numbers.values() if number.same]
    return f"Counted under a construct: {'; '.join(units)}."


def _describe_coverage(
    rows: Sequence[CrossLensRow], numbers: Mapping[str, CrossLensNumber], labels: Mapping[str, str]
) -> Iterator[str]:
    """Describe how many constructs each pair of lenses shares, and what the numbers are compared with."""
    yield (
        "Heads, layers and penalties are chosen on validation, and their numbers are from the test split. A "
        "number that stands out among many here was not chosen this way; check it on other code."
    )
    lenses = list(numbers)
    for model, part in groupby(rows, lambda row: row.model):
        model_rows = list(part)
        pairs = [
            f"{_short_title(numbers[first])} and {_short_title(numbers[second])} {count}"
            for index, first in enumerate(lenses)
            for second in lenses[index + 1 :]
            if (count := sum(first in row.cells and second in row.cells for row in model_rows))
        ]
        n_complete = sum(len(row.cells) == len(lenses) for row in model_rows)
        yield (
            f"Constructs with both numbers, {format_name(labels.get(model, model))}: {', '.join(pairs)}; "
            f"with all {len(lenses)}: {n_complete}."
        )
    references = [f"{_short_title(number)} {number.against}" for number in numbers.values()]
    yield f"Better and worse are decided by the intervals, compared with: {'; '.join(references)}."


def _short_title(number: CrossLensNumber) -> str:
    return number.title.partition(",")[0].lower()


def _get_unit(number: CrossLensNumber) -> Unit:
    return SHARE if number.question.share else Unit(number.scale)


def _construct_table(
    run: RunData,
    rows: Sequence[CrossLensRow],
    numbers: Mapping[str, CrossLensNumber],
) -> Table:
    return Table(
        summary="Every construct that two lenses speak of",
        columns=[
            Column(title="Construct", value="construct"),
            Column(title="Of", value="subject"),
            *(column for lens, number in numbers.items() for column in _columns(lens, number)),
            Column(
                title="Inside, yet unsure",
                value="unsure",
                help="All that is read inside the model beats its control, while it is less sure than usual.",
            ),
        ],
        rows=[
            {
                "construct": format_name(row.construct),
                "subject": _format_subject(run, row),
                "unsure": "yes" if _inside_yet_unsure(row, numbers) else None,
                **{lens: row.cells.get(lens) for lens in numbers},
            }
            for row in rows
        ],
    )


def _columns(lens: str, number: CrossLensNumber) -> list[Column]:
    unit, percent = _get_unit(number), ", %" if number.question.share else ""
    short = number.title.partition(",")[0]
    digits, scale = unit.digits, unit.scale

    def column(
        title: str, value: Callable[[CrossLensCell], Any], format: Format = TEXT, help: str = ""
    ) -> Column:
        return Column(title=title, value=lambda row: row[lens] and value(row[lens]), format=format, help=help)

    return [
        column(
            f"{number.title}{percent}",
            lambda cell: cell.row,
            WithInterval(digits=digits, scale=scale, missing=""),
        ),
        column(
            f"{short}: against{percent}",
            lambda cell: cell.level,
            Number(digits=digits, scale=scale, missing=""),
            f"Compared with {number.against}.",
        ),
        column(
            f"{short}: verdict",
            lambda cell: _READS[cell.kind],
            help=f"By the interval, against {number.against}.",
        ),
        column(
            f"{short}: what",
            lambda cell: f"{cell.fact} (1 of {cell.n_facts})" if cell.n_facts > 1 else cell.fact,
            help="The fact with most observations of the construct.",
        ),
        column(f"{short}: n", lambda cell: cell.row["n"], COUNT),
    ]


def _construct_charts(
    run: RunData,
    rows: Sequence[CrossLensRow],
    numbers: Mapping[str, CrossLensNumber],
) -> Iterator[Chart]:
    """Build a scatter of each share over the number that is no share, else over the first share."""
    x = next((lens for lens, number in numbers.items() if not number.question.share), next(iter(numbers)))
    for subject, part in groupby(rows, lambda row: _format_subject(run, row)):
        subject_rows = list(part)
        for y, number in numbers.items():
            shared_rows = [row for row in subject_rows if x in row.cells and y in row.cells]
            if y == x or len(shared_rows) < _MIN_CONSTRUCTS:
                continue
            yield Chart(
                name=f"joined-{y}-{_stem(subject)}",
                title=f"{_short_title(numbers[x]).capitalize()} and {_short_title(number)}, {subject}",
                spec=_construct_chart(shared_rows, (x, numbers[x]), (y, number)),
                wide=True,
            )


def _stem(subject: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in subject.lower())


def _construct_chart(
    rows: Sequence[CrossLensRow], x: tuple[str, CrossLensNumber], y: tuple[str, CrossLensNumber]
) -> dict[str, Any]:
    records = [
        {
            "construct": format_name(row.construct),
            **_point_record("x", row.cells[x[0]], x[1]),
            **_point_record("y", row.cells[y[0]], y[1]),
            "few": OPEN in (row.cells[x[0]].kind, row.cells[y[0]].kind),
        }
        for row in rows
    ]
    for record, line in zip(records, _stagger_labels(records), strict=True):
        record["line"] = line
    fields = {
        "construct": " ",
        "x_reading": _short_title(x[1]),
        "y_reading": _short_title(y[1]),
        "x_fact": "of",
        "y_fact": "of",
    }
    base = _build_scatter(records, _construct_axis("x", x[1]), _construct_axis("y", y[1]), fields)
    layers = [
        *_draw_points(base),
        *(
            base.transform_filter(f"datum.line == {line}")
            .mark_text(style="name", align="left", dx=7, dy=dy)
            .encode(text="construct:N")
            for line, dy in enumerate(_LINES)
        ),
    ]
    return to_vega_lite(alt.layer(*layers).properties(height=360))


def _stagger_labels(records: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return for each point the first of `_LINES` on which its name overlaps no earlier name."""
    axes = [[record[axis] for record in records] for axis in ("x", "y")]
    width, height = (max(values) - min(values) or 1.0 for values in axes)
    lines: list[int] = []
    for record in records:
        blocked_lines = {
            line
            for earlier_record, line in zip(records, lines, strict=False)
            if abs(earlier_record["x"] - record["x"]) < 0.16 * width
            and abs(earlier_record["y"] - record["y"]) < 0.07 * height
        }
        lines.append(next((line for line in range(len(_LINES)) if line not in blocked_lines), 0))
    return lines


def _point_record(axis: str, cell: CrossLensCell, number: CrossLensNumber) -> dict[str, Any]:
    record = _axis_record(axis, cell.row, _get_unit(number), number.scale)
    return {**record, f"{axis}_fact": cell.fact}


def _axis_record(axis: str, row: Row, unit: Unit, scale: float = 1.0) -> dict[str, Any]:
    """Convert a score for one axis of a scatter: its value with the interval, also as text."""
    values = {"": row["value"], "_low": row["ci_low"], "_high": row["ci_high"]}
    record = {f"{axis}{end}": None if value is None else value * scale for end, value in values.items()}
    return {**record, f"{axis}_reading": unit.estimate(row)}


def _construct_axis(axis: str, number: CrossLensNumber) -> Any:
    share = number.question.share
    scale = alt.Scale(domain=[0, 1], nice=False) if share else alt.Scale(zero=False, nice=True)
    return _build_axis(axis, number.title, scale, share=share)


def _build_axis(axis: str, title: str, scale: alt.Scale, *, share: bool) -> Any:
    ticks = alt.Axis(format="%", tickCount=6) if share else alt.Axis(tickCount=6)
    return (alt.X if axis == "x" else alt.Y)(f"{axis}:Q", title=title, scale=scale, axis=ticks)


def _build_scatter(
    records: Sequence[Mapping[str, Any]], x: Any, y: Any, fields: Mapping[str, str]
) -> alt.Chart:
    """Build the base of a scatter, with the fields of its tooltips and their titles."""
    tooltip = [alt.Tooltip(f"{field}:N", title=title) for field, title in fields.items()]
    return alt.Chart(alt.Data(values=records)).encode(x=x, y=y, tooltip=tooltip)


def _draw_points(base: alt.Chart) -> list[alt.Chart]:
    """Build the points of a scatter with both intervals; points without a verdict are hollow."""
    rule = base.mark_rule(style="interval", clip=True, strokeWidth=1)
    return [
        rule.encode(x="x_low:Q", x2="x_high:Q"),
        rule.encode(y="y_low:Q", y2="y_high:Q"),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True),
        base.transform_filter("datum.few").mark_point(style="few", filled=False),
    ]


_MAX_MEASURES = 3
"""Maximum number of measures without a verdict that a sentence names."""


OVER_MODELS = "over_models"
"""Public name of the section, and of its group on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMeasure:
    """A metric of one lens, task and language over models.

    Attributes:
        lens: Public name of the lens.
        name: Name in headings and axes.
        language: Public name of the language.
        question: The headline that it belongs to.
        rows: By model the score, or the paired difference to its control if the headline has one.
    """

    lens: str
    name: str
    language: str
    question: HeadlineMetric
    rows: Mapping[str, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeasurePair:
    """A measure, an outcome of fine-tuning, and their rank correlation over models."""

    measure: ModelMeasure
    outcome: ModelMeasure
    correlation: Correlation


def _correlate_measures(run: RunData) -> list[_MeasurePair]:
    """Correlate each measure with each outcome of fine-tuning, over three models or more that have both."""
    measures = list(_list_measures(run))
    pairs = [
        (measure, outcome)
        for outcome in measures
        if outcome.question.outcome
        for measure in measures
        if not measure.question.outcome
        and measure.language == outcome.language
        and len({*measure.rows} & {*outcome.rows}) >= MIN_MODELS
    ]
    return [_correlate_pair(run, *pair, n_comparisons=len(pairs)) for pair in pairs]


models_plot = SectionPlot(
    title="Models over lenses: which numbers go with what is learned in fine-tuning",
    lens=OVER_MODELS,
    order=9_000,
    caption=(
        "One dot per model, with 95 % intervals over clusters on both axes. The rank correlation "
        "(Spearman) is 1 if both numbers put the models into the same order, the best first. Its interval "
        "resamples lineages: checkpoints of one training, and the same weights rounded, count as one. It "
        "is widened so that all intervals of the table hold at once (Bonferroni). A correlation says which "
        "number may replace another on models like these, not that one causes the other."
    ),
    select=_correlate_measures,
    figure=lambda run, pairs: Figure(
        answer="\n".join(_list_sentences(pairs)),
        charts=list(_build_charts(pairs, run.labels)),
        table=_build_table(pairs),
        notes=[_lineages(pairs)],
    ),
)


def _list_measures(run: RunData) -> Iterator[ModelMeasure]:
    """Yield the headlines of the lenses of a run, and their substitutes, task by task."""
    for lens in run.scored_lenses:
        question = load_headline(lens)
        while question is not None:
            yield from _find_measures(run, lens, question)
            question = question.otherwise


def _find_measures(run: RunData, lens: str, question: HeadlineMetric) -> Iterator[ModelMeasure]:
    rows = run.scores(metrics=question.with_gains, lens=lens, controls=True, where=question.where)
    rows = rows.with_columns(about=dimensions_text(exclude=("selection",)))
    keys = ("language", "side", "task", "about")
    for (language, side, task, dimensions), part in rows.partition_by(
        *keys, as_dict=True, maintain_order=True
    ).items():
        model_rows: dict[str, Row] = {}
        for (model,), model_part in part.partition_by("model", as_dict=True, maintain_order=True).items():
            if (comparison := compare_with_controls(model_part.to_dicts(), question)) is not None:
                gain = comparison.gain if question.paired and comparison.gain is not None else None
                model_rows[str(model)] = gain or comparison.row
        if model_rows:
            name = [question.subject, task_label(str(task)) if task else ""]
            name += [str(side)] if side == "cross" else []
            name += [format_name(str(dimensions))] if dimensions else []
            yield ModelMeasure(
                lens=lens,
                name=", ".join(filter(None, name)),
                language=str(language),
                question=question,
                rows=model_rows,
            )


def _correlate_pair(
    run: RunData, measure: ModelMeasure, outcome: ModelMeasure, *, n_comparisons: int
) -> _MeasurePair:
    models = [model.name for model in run.models if model.name in measure.rows and model.name in outcome.rows]
    measure_values, outcome_values = (
        np.array([float(side.rows[name]["value"]) for name in models]) for side in (measure, outcome)
    )
    # Less is better of bits: turned round, so that 1 is always "the better, the better".
    oriented_values = -measure_values if measure.question.lower else measure_values
    correlation = rank_correlation(
        oriented_values, outcome_values, [get_lineage(name) for name in models], n_comparisons=n_comparisons
    )
    return _MeasurePair(measure=measure, outcome=outcome, correlation=correlation)


def _list_sentences(pairs: Sequence[_MeasurePair]) -> Iterator[str]:
    for outcome in dict.fromkeys(id(pair.outcome) for pair in pairs):
        outcome_pairs = [pair for pair in pairs if id(pair.outcome) == outcome]
        subject = f"{outcome_pairs[0].outcome.name} ({format_language(outcome_pairs[0].outcome.language)})"
        numbers = plural(len(outcome_pairs), "number")
        constant_measures = [
            pair.measure.name for pair in outcome_pairs if not np.isfinite(pair.correlation.value)
        ]
        outcome_pairs = [pair for pair in outcome_pairs if np.isfinite(pair.correlation.value)]
        verdict_pairs = [pair for pair in outcome_pairs if not pair.correlation.why]
        inconclusive_pairs = [pair for pair in outcome_pairs if pair.correlation.why]
        if constant_measures:
            yield (
                f"{subject}: no rank correlation with {join_names(constant_measures)}, since one of both "
                "does not vary."
            )
        if not outcome_pairs:
            continue
        if not verdict_pairs:
            yield f"{subject}: {TOO_LITTLE} on {numbers} {_describe_pairs(inconclusive_pairs)}."
            continue
        sure_pairs = [pair for pair in verdict_pairs if pair.correlation.low > 0 or pair.correlation.high < 0]
        sure_texts = list(map(_format_pair, sure_pairs))
        detectable_values = [pair.correlation.detectable for pair in verdict_pairs if pair not in sure_pairs]
        reach = PLAIN.detectable(max(detectable_values, default=math.nan))
        rest = [f"{NO_DIFFERENCE} in {len(detectable_values)}{bracket(reach)}"] * bool(detectable_values)
        if inconclusive_pairs:
            reason = inconclusive_pairs[0].correlation.why
            rest.append(f"{TOO_LITTLE} in {len(inconclusive_pairs)} ({reason})")
        sentence = (
            f"{subject}: of {numbers}, {len(sure_pairs) or 'none'} rank{'s' * (len(sure_pairs) <= 1)} the "
            f"models as fine-tuning does, or the other way round, with an interval that excludes 0"
            f"{bracket('; '.join(sure_texts))}"
        )
        yield f"{'; '.join([sentence, *rest])}."


def _describe_pairs(pairs: Sequence[_MeasurePair]) -> str:
    """Describe pairs without a verdict: why, and the first with their correlations."""
    return f"({pairs[0].correlation.why}): {list_first(list(map(_format_pair, pairs)), _MAX_MEASURES, '; ')}"


def _format_pair(pair: _MeasurePair) -> str:
    return f"{pair.measure.name} {_format_correlation(pair.correlation)}"


def _format_correlation(correlation: Correlation) -> str:
    if not np.isfinite(correlation.value):
        return "none, since one number does not vary"
    bounds = f" [{correlation.low:+.2f}, {correlation.high:+.2f}]" if np.isfinite(correlation.low) else ""
    return f"{correlation.value:+.2f}{bounds}".replace("-", "\u2212")


def _lineages(pairs: Sequence[_MeasurePair]) -> str:
    counts = sorted({pair.correlation.lineages for pair in pairs})
    range_text = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"{plural(range_text, 'lineage')} of models: two names are of one lineage where only the step, "
        "the revision or the rounding of the weights differs. Whether two names share their training "
        "otherwise is not known."
    )


def _build_table(pairs: Sequence[_MeasurePair]) -> Table:
    records = [
        {
            "outcome": pair.outcome.name,
            "language": format_language(pair.outcome.language),
            "measure": pair.measure.name,
            "lens": format_name(pair.measure.lens),
            "value": pair.correlation.value,
            "ci_low": pair.correlation.low,
            "ci_high": pair.correlation.high,
            "models": pair.correlation.models,
            "lineages": pair.correlation.lineages,
            "why": pair.correlation.why or None,
        }
        for pair in pairs
    ]
    return Table(
        summary="Rank correlations over models",
        columns=[
            Column(title="Fine-tuned on", value="outcome"),
            Column(title="Language", value="language"),
            Column(title="Lens", value="lens"),
            Column(title="Number", value="measure"),
            Column(
                title="Spearman",
                value=identity,
                format=WithInterval(digits=2, missing=""),
                help="Rank correlation over models; 1 where the better of one is the better of the other.",
            ),
            Column(title="Models", value="models", format=COUNT),
            Column(title="Lineages", value="lineages", format=COUNT),
            Column(title="Why no verdict", value="why"),
        ],
        rows=records,
    )


def _build_charts(pairs: Sequence[_MeasurePair], labels: Mapping[str, str]) -> Iterator[Chart]:
    for pair in pairs:
        x, y = pair.measure, pair.outcome
        spec = _build_spec(pair, [name for name in x.rows if name in y.rows], labels)
        language = format_language(y.language)
        yield Chart(
            name=slug(f"over-models-{x.name}-{y.name}-{language}".lower()),
            title=f"{x.name}: rank correlation {_format_correlation(pair.correlation)}",
            spec=spec,
        )


def _build_spec(pair: _MeasurePair, names: Sequence[str], labels: Mapping[str, str]) -> dict[str, Any]:
    records = [
        {
            "name": labels.get(name, name),
            **_axis_record("x", pair.measure.rows[name], pair.measure.question.unit),
            **_axis_record("y", pair.outcome.rows[name], pair.outcome.question.unit),
        }
        for name in names
    ]
    fields = {"name": " ", "x_reading": pair.measure.name, "y_reading": pair.outcome.name}
    base = _build_scatter(records, _axis("x", pair.measure), _axis("y", pair.outcome), fields)
    return to_vega_lite(alt.layer(*_draw_points(base)))


def _axis(axis: str, measure: ModelMeasure) -> Any:
    question = measure.question
    unit = "" if question.share else f", {question.measure}"
    title = f"{measure.name}{', beyond its control' if question.paired else unit}"
    return _build_axis(axis, title, alt.Scale(zero=False), share=question.share)
