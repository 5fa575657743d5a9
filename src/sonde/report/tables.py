"""Tables to take away: the headlines of a run, and its scores by the values of a dimension.

A row is a model and a metric, with the interval of its number, the best control and the paired difference to
it; in a run of several models that were compared, also the paired difference to the first model. Terminal,
CSV, LaTeX and data frames show the same table, with numbers in the units of the report.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import polars as pl

from sonde.base.errors import InputError, build_listing_error
from sonde.base.formatting import format_name, plural
from sonde.report.comparison_page import read_run_comparison
from sonde.report.headlines import answer_by_task, load_headline, load_titles, load_units
from sonde.report.run_tables import RunData
from sonde.results.headlines import POSITIONS as POSITION_WORDS
from sonde.results.headlines import (
    QUALIFIER_COLUMNS,
    VERDICTS,
    ControlComparison,
    HeadlineMetric,
    compare_with_controls,
    format_metric,
)
from sonde.results.schema import (
    SELECTION,
    SHARED_TOKENS,
    format_dimensions,
    get_dimensions,
    has_dimension_names,
)
from sonde.results.score_pairs import IDENTITY_COLUMNS
from sonde.results.scores import LEFT_OUT
from sonde.results.tables import Column, Table, estimate_columns
from sonde.results.text_format import (
    BITS_PER_NAT,
    COUNT,
    SHARE,
    Format,
    Number,
    Row,
    Unit,
    auto_digits,
    choose_digits,
)
from sonde.stats.verdict import is_difference

HEADLINES = "headlines"
"""Name of the table of the headline of every lens and task."""


POSITIONS = ("layer", "head")
"""Positions in the model that a table may list, as it lists the values of a dimension."""


_UNDECLARED_VERDICTS = {
    **VERDICTS,
    **{kind: f"{words} its control" for kind, words in POSITION_WORDS.items()},
}
"""Conclusions about a metric of which no lens declares whether more is better."""


_SUBJECTS = ("lens", "task", "corpus", "language", "side")
_WAYS = ("split", "method", "pooling", "matching", "aggregation", "objective", "binning")
"""Columns of scores that are shown where they differ: what a number is about, and how it was made."""


_GAIN = "gain"


_BLANK = Format(missing="")


def list_dimensions(run: RunData) -> list[str]:
    """List the dimensions, and positions in the model, that numbers of the models of a run have."""
    scores = run.every_score.filter(pl.col("metric") != LEFT_OUT, pl.col("control").is_null())
    element = pl.element().struct.field("name")
    names = scores.select(pl.col("dimensions").list.eval(element).explode(empty_as_null=False)).to_series()
    positions = [name for name in POSITIONS if scores[name].is_not_null().any()]
    dimensions = [*names.drop_nulls().unique(maintain_order=True), *positions]
    return [name for name in dimensions if name not in (SELECTION, SHARED_TOKENS[0])]


def build_headline_table(run: RunData, lens: str = "", metric: str = "") -> Table:
    """Build the table of the headline of every task, or of those of one lens.

    Args:
        run: The run.
        lens: Public name of a lens of the run; empty for all.
        metric: Only headlines of this metric; empty for all.

    Raises:
        UnknownNameError: No headline has this metric.
        InputError: The run has no scores.
    """
    answers = [answer for answer in answer_by_task(run) if lens in ("", answer.lens)]
    if not answers:
        subject = f"lens {lens!r}" if lens else "run"
        raise InputError(f"{run.directory.root}: the {subject} has no scores to make a table of")
    _check_metric(metric, (answer.row["metric"] for answer in answers), lens or HEADLINES)
    answers = [answer for answer in answers if metric in ("", answer.row["metric"])]
    in_nats = metric.startswith("nats")
    numbers = [
        (answer, _IN_BITS if answer.row["metric"].startswith("nats") and not in_nats else answer.unit)
        for answer in answers
    ]
    return _build_table(run, numbers)


_IN_BITS = Unit(scale=BITS_PER_NAT)
"""Unit of numbers that scores hold in nats, unless nats are asked for by name."""


def build_dimension_table(run: RunData, name: str, metric: str = "") -> Table:
    """Build the table of the scores by the values of a dimension, such as constructs or layers.

    Scores with this dimension only are listed; if there are none, those with others beside it. For several
    models these are the scores over the text that all of them cover, if the run has such. Of scores that
    differ in how they count (``k``, ``matching``, ...) those are listed that count as the headline does.

    Args:
        run: The run.
        name: A name of `list_dimensions`.
        metric: Only scores of this metric; empty for all.

    Raises:
        UnknownNameError: No score with this dimension has this metric.
    """
    candidates = _list_row_sets(run.every_score.filter(pl.col("metric") != LEFT_OUT), name)
    by_metric: dict[str, pl.DataFrame] = {}
    for candidate in candidates:
        for own_metric in candidate.filter(pl.col("control").is_null())["metric"].unique(maintain_order=True):
            by_metric.setdefault(own_metric, candidate)
    _check_metric(metric, by_metric, name)
    rows = by_metric[metric] if metric else candidates[0]
    own_rows = rows.filter(pl.col("control").is_null())
    metrics = set(own_rows["metric"])
    comparisons: list[ControlComparison] = []
    headline_rows = [answer.row for answer in answer_by_task(run)]
    for (lens, row_metric, method), part in own_rows.group_by(
        "lens", "metric", "method", maintain_order=True
    ):
        if row_metric == metric or (not metric and not _is_repeated(str(row_metric), metrics)):
            lens_rows = rows.filter(pl.col("lens") == lens)
            with_method = lens_rows.filter(pl.col("method").eq_missing(method))
            # Controls have the method of their numbers, or none.
            lens_rows = with_method if with_method["control"].is_not_null().any() else lens_rows
            part = _keep_headline_choices(part, [row for row in headline_rows if row["lens"] == lens])
            headline = _metric_headline(lens_rows, str(lens), str(row_metric))
            comparisons += _compare_rows(part.to_dicts(), lens_rows.to_dicts(), headline, name)
    units = {lens: load_units(lens) for lens in own_rows["lens"].unique()}
    numbers = [
        (
            comparison,
            _choose_unit(comparison.row, units[comparison.row["lens"]], in_nats=metric.startswith("nats")),
        )
        for comparison in comparisons
    ]
    return _build_table(run, numbers, _list_names(comparisons, name))


def _is_repeated(metric: str, metrics: Set[str]) -> bool:
    """Return whether a metric is in a table already: differences beside their numbers, and nats as bits."""
    in_bits = metric.replace("nats", "bits")
    return is_difference(metric) or (in_bits != metric and in_bits in metrics)


def _list_row_sets(scores: pl.DataFrame, name: str) -> list[pl.DataFrame]:
    """List sets of rows with a dimension or position, the best first; those of several metrics may differ."""
    if name in POSITIONS:
        has_position = pl.col(name).is_not_null() | pl.col("control").is_not_null()
        is_alone = pl.col("head").is_null() if name == "layer" else pl.lit(value=True)
        plain = has_dimension_names() & has_position
        conditions = [plain & is_alone, plain, pl.col(name).is_not_null()]
    else:
        names = pl.col("dimensions").list.eval(pl.element().struct.field("name"))
        conditions = [has_dimension_names(name), names.list.contains(name)]
        if scores["model"].n_unique() > 1:
            conditions.insert(0, has_dimension_names(SHARED_TOKENS[0], name))
    row_sets = [scores.filter(condition) for condition in conditions]
    has_own = [
        rows.filter(pl.col("control").is_null(), pl.col(name).is_not_null() if name in POSITIONS else True)
        for rows in row_sets
    ]
    return [rows for rows, own_rows in zip(row_sets, has_own, strict=True) if own_rows.height]


def _check_metric(metric: str, metrics: Iterable[str], name: str) -> None:
    """Check that numbers of a table have a metric, where one was asked for.

    Raises:
        UnknownNameError: There is none; the metrics of the table are listed.
    """
    metrics = dict.fromkeys(metrics)
    if metric and metric not in metrics:
        raise build_listing_error(f"metric of table {name!r}", metric, metrics)


def _metric_headline(rows: pl.DataFrame, lens: str, metric: str) -> HeadlineMetric:
    """Return the declaration by which numbers of a metric are compared with the controls among rows."""
    names = rows["control"].drop_nulls().unique(maintain_order=True)
    declared = _find_declaration(lens, metric, set(names))
    if declared is not None:
        return dataclasses.replace(declared, metrics=(metric,))
    controls = {name: format_name(name) for name in names}
    return HeadlineMetric(subject="", measure="", metrics=(metric,), controls=controls)


def _find_declaration(lens: str, metric: str, control_names: Set[str]) -> HeadlineMetric | None:
    """Find the headline that a lens declares for a metric; None if it does not say whether more is better.

    Of several the one is taken whose controls are there.
    """
    headline = load_headline(lens)
    declarations: list[HeadlineMetric] = []
    while headline is not None:
        if metric in headline.metrics:
            declarations.append(headline)
        headline = headline.otherwise
    fitting = (declared for declared in declarations if control_names & declared.controls.keys())
    return next(fitting, declarations[0] if declarations else None)


def _keep_headline_choices(rows: pl.DataFrame, headline_rows: Sequence[Row]) -> pl.DataFrame:
    """Keep the rows that count as the headlines of their lens do, where these have one way to count.

    Validation chooses and is no result, so its rows go if there are others.
    """
    tested = rows.filter(pl.col("split") != "valid")
    rows = tested if tested.height else rows
    for column in QUALIFIER_COLUMNS:
        choices = {row[column] for row in headline_rows}
        if column not in ("task", "metric", "of_metric", "compared_to") and len(choices) == 1:
            matching_rows = rows.filter(pl.col(column).eq_missing(next(iter(choices))))
            rows = matching_rows if matching_rows.height else rows
    return rows


def _compare_rows(
    own_rows: Sequence[Row], rows: Sequence[Row], headline: HeadlineMetric, name: str
) -> list[ControlComparison]:
    """Compare each row with the controls and paired differences of the same question."""
    by_question: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["control"] is not None or _GAIN in row["metric"]:
            by_question.setdefault(_question_key(row), []).append(row)

    def is_same_position(candidate: Row, row: Row) -> bool:
        return name not in POSITIONS or candidate[name] in (None, row[name])

    comparisons = [
        compare_with_controls(
            [
                row,
                *(other for other in by_question.get(_question_key(row), ()) if is_same_position(other, row)),
            ],
            headline,
        )
        for row in own_rows
    ]
    return [comparison for comparison in comparisons if comparison is not None]


_QUESTION = (
    "model",
    "language",
    "corpus_hash",
    "task",
    "split",
    "side",
    "pooling",
    "k",
    "matching",
    "aggregation",
)


def _question_key(row: Row) -> tuple[Any, ...]:
    return (*(row[column] for column in _QUESTION), tuple(get_dimensions(row).items()))


def _list_names(comparisons: Sequence[ControlComparison], name: str) -> list[str]:
    """List the dimensions of the rows, the one that was asked for first, and what of positions they have."""
    names = dict.fromkeys([name] if name not in POSITIONS else [])
    for comparison in comparisons:
        names |= dict.fromkeys(get_dimensions(comparison.row))
    positions = [
        position
        for position in POSITIONS
        if any(comparison.row[position] is not None for comparison in comparisons)
    ]
    return [*(other for other in names if other not in (SELECTION, SHARED_TOKENS[0])), *positions]


def _choose_unit(row: Row, units: Mapping[str, str], *, in_nats: bool) -> Unit:
    """Choose the unit of a number by that of its metric: per cent, bits, or none."""
    unit = _find_metric_unit(row, units)
    if unit in ("share", "points"):
        return SHARE
    if unit.startswith("nats") and not in_nats:
        return _IN_BITS
    return Unit(digits=auto_digits(row))


def _find_metric_unit(row: Row, units: Mapping[str, str]) -> str:
    """Find the unit of the metric of a row; of one that no lens declares, the name of the metric."""
    base = row["of_metric"] or row["metric"].removesuffix(f"_{_GAIN}")
    return units.get(row["metric"]) or units.get(base) or row["metric"]


def _build_table(
    run: RunData, numbers: Iterable[tuple[ControlComparison, Unit]], names: Sequence[str] = ()
) -> Table:
    """Build the table of numbers in their units, with a column for each of some dimensions."""
    differences, base = _index_model_differences(run)
    characters_per_byte = _count_characters_per_byte(run)
    models = {model.name: index for index, model in enumerate(run.models)}
    corpora = {corpus.get("hash"): corpus.get("name") for corpus in run.summary.get("corpus") or ()}
    titles = load_titles(run)
    records: list[dict[str, Any]] = []
    for comparison, unit in numbers:
        row, control = comparison.row, comparison.control
        declared = _find_declaration(
            row["lens"], row["metric"], set() if control is None else {control["control"]}
        )
        words = declared.controls if declared else {}
        records.append(
            {
                **{column: row[column] for column in (*_SUBJECTS, *_WAYS) if column != "corpus"},
                "comparison": comparison,
                "unit": unit,
                "model": run.labels.get(row["model"], row["model"]),
                "corpus": corpora.get(row["corpus_hash"]) or row["corpus_hash"],
                "measure": _format_measure(row, unit),
                "control": None
                if control is None
                else words.get(control["control"], format_name(control["control"])),
                "verdict": (VERDICTS if declared else _UNDECLARED_VERDICTS)[comparison.kind],
                "to_first": _find_model_difference(differences, characters_per_byte, row),
                "counted": titles[row["lens"]].count_noun({**row, "n": 2})
                if row["lens"] in titles
                else "observations",
                **{f"dimension_{name}": _get_position(row, name) for name in names},
            }
        )
    order = {id(record): index for index, record in enumerate(records)}
    first_index: dict[tuple[Any, ...], int] = {}
    for record in records:
        first_index.setdefault(_subject(record, names), len(first_index))
    # Models of one question stand together, questions in the order of the scores.
    records.sort(
        key=lambda record: (
            first_index[_subject(record, names)],
            models.get(record["comparison"].row["model"], len(models)),
            order[id(record)],
        )
    )
    return Table(
        summary=plural(len(records), "number"),
        columns=_build_columns(records, names, base),
        rows=records,
    )


def _subject(record: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """Return what a row is about, without its model and what a model chose."""
    dimensions = (record[f"dimension_{name}"] for name in names if name not in POSITIONS or len(names) == 1)
    columns = ("lens", "task", "measure", "language", "corpus", *_WAYS)
    return (*(record[column] for column in columns), *dimensions)


def _get_position(row: Row, name: str) -> Any:
    return row[name] if name in POSITIONS else get_dimensions(row).get(name)


def _format_measure(row: Row, unit: Unit) -> str:
    # Elsewhere k is how a number was made: folds, bins, epochs.
    is_of_ranks = row["metric"] == "p_at_k" or row["metric"].endswith("_hit")
    metric = format_metric(row if is_of_ranks else {**row, "k": None})
    if unit.scale == BITS_PER_NAT:
        metric = metric.replace("nats", "bits")
        if "bits" not in metric:
            metric += f", {_find_metric_unit(row, load_units(row['lens'])).replace('nats', 'bits', 1)}"
    if unit.symbol:
        metric += ", points" if is_difference(row["metric"]) else ", %"
    return f"{metric[:1].upper()}{metric[1:]}"


def _index_model_differences(run: RunData) -> tuple[dict[tuple[Any, ...], Row], str]:
    """Index the paired differences to the first model by question, with the label of that model."""
    comparison = read_run_comparison(run)
    if comparison is None or comparison.differences.is_empty():
        return {}, ""
    rows = comparison.differences.to_dicts()
    base = str(rows[0]["base"])
    index: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        model, *rest, dimensions = (row["model"], *_identity_key(row))
        # The same number under several names was tested once.
        for name in (dimensions, *(row.get("other_names") or ())):
            index[model, *rest, name] = {**row, "value": row["difference"]}
    return index, run.labels.get(base, base)


def _find_model_difference(
    differences: Mapping[tuple[Any, ...], Row], characters_per_byte: Mapping[str, float], row: Row
) -> Row | None:
    """Find the paired difference of a number; of one over everything, that over what both models cover.

    Bits per byte are compared as bits per character, of which they are a fixed multiple on one text.
    """
    difference = differences.get((row["model"], *_identity_key(row)))
    if difference is not None or get_dimensions(row) not in ({}, {"text": "shared"}):
        return difference
    metric = "bits_per_character" if row["metric"] == "bits_per_byte" else row["metric"]
    shared_text = {**row, "metric": metric, "dimensions": [{"name": "text", "value": "shared"}]}
    difference = differences.get((row["model"], *_identity_key(shared_text)))
    scale = characters_per_byte.get(row["item_set"]) if metric != row["metric"] else 1.0
    if difference is None or scale is None:
        return None
    scaled_values = {
        name: difference[name] and difference[name] * scale for name in ("value", "ci_low", "ci_high")
    }
    return {**difference, **scaled_values}


def _count_characters_per_byte(run: RunData) -> dict[str, float]:
    """Return the characters per byte of each set of items, from the numbers that count either."""
    counts = run.every_score.filter(has_dimension_names(), pl.col("control").is_null())
    by_metric = [
        dict(counts.filter(metric=metric).select("item_set", "n").iter_rows())
        for metric in ("bits_per_character", "bits_per_byte")
    ]
    characters, byte_counts = by_metric
    return {items: characters[items] / size for items, size in byte_counts.items() if items in characters}


def _identity_key(row: Row) -> tuple[Any, ...]:
    dimensions = get_dimensions(row)
    values = (row[column] for column in IDENTITY_COLUMNS if column != "dimensions")
    # A layer that validation chose may be another one on the items that both models read.
    positions = () if SELECTION in dimensions else tuple(row[name] for name in POSITIONS)
    return (row["corpus_hash"], *values, *positions, format_dimensions(tuple(dimensions.items())))


def _build_columns(records: Sequence[Mapping[str, Any]], names: Sequence[str], base: str) -> list[Column]:
    def varies(key: str) -> bool:
        return len({record[key] for record in records}) > 1

    def any_has(get: Callable[[Mapping[str, Any]], object]) -> bool:
        return any(get(record) is not None for record in records)

    def column(title: str, key: str, help: str = "") -> Column:
        return Column(title=title, value=lambda record: record[key] or None, format=_BLANK, help=help)

    subjects = {name: name.capitalize() for name in (*_SUBJECTS, *_WAYS)}
    measures = {record["measure"] for record in records}
    measure = next(iter(measures)) if len(measures) == 1 else ""
    nouns = {record["counted"] for record in records}
    points = ", points" if all(record["unit"].symbol for record in records) else ""
    columns = [column(title, key) for key, title in subjects.items() if varies(key)]
    columns += [
        Column(
            title=format_name(name).capitalize(),
            value=f"dimension_{name}",
            format=COUNT if name in POSITIONS else _BLANK,
        )
        for name in names
    ]
    columns.append(column("Model", "model"))
    if not measure:
        columns.append(column("Metric", "measure"))
    columns += _number_columns(measure or "Value", _get_row)
    if any_has(_get_control):
        columns += [column("Best control", "control"), _number_columns("Control", _get_control)[0]]
    if any_has(_get_gain):
        columns += _number_columns(f"Difference to control{points}", _get_gain, "95 % interval to control")
    if any_has(_get_to_first):
        title = f"Difference to {base}{points}"
        columns += _number_columns(title, _get_to_first, f"95 % interval to {base}")
    columns.append(
        Column(
            title=next(iter(nouns)).capitalize() if len(nouns) == 1 else "n",
            value=lambda record: _get_row(record)["n"],
            format=COUNT,
        )
    )
    if len(nouns) > 1:
        columns.append(column("n counts", "counted"))
    return [
        *columns,
        Column(title="Clusters", value=lambda record: _get_verdict_row(record)["n_clusters"], format=COUNT),
        Column(
            title="Effective clusters",
            value=lambda record: _get_verdict_row(record)["effective_clusters"],
            format=Number(digits=1),
            help="Clusters of equal size that these are worth.",
        ),
        Column(
            title="Verdict",
            value="verdict",
            help="The number compared with its best control; a number without one is no finding by itself.",
        ),
    ]


def _get_row(record: Mapping[str, Any]) -> Row:
    return record["comparison"].row


def _get_verdict_row(record: Mapping[str, Any]) -> Row:
    """Return the numbers that the verdict rests on: those of the difference if there is one."""
    return _get_gain(record) or _get_row(record)


def _get_control(record: Mapping[str, Any]) -> Row | None:
    return record["comparison"].control


def _get_gain(record: Mapping[str, Any]) -> Row | None:
    return record["comparison"].gain


def _get_to_first(record: Mapping[str, Any]) -> Row | None:
    return record["to_first"]


def _number_columns(
    title: str, get: Callable[[Mapping[str, Any]], Row | None], interval: str = "95 % interval"
) -> tuple[Column, Column]:
    """Build the columns of a number in the unit of its record, and of its interval."""

    def digits(record: Row) -> int:
        unit, row = record["unit"], get(record)
        return unit.digits if row is None else choose_digits(row, unit.scale, unit.digits)

    return estimate_columns(title, digits, lambda record: record["unit"].scale, key=get, interval=interval)
