"""Models against each other: accuracy, ranks, and a baseline (INSPECT, Tables 2 to 4)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import bracket, join_names, plural
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.probe import LENS, read_headline
from sonde.report.text import family_order, sort_by_family, task_label
from sonde.results.extremes import find_extreme
from sonde.results.tables import LANGUAGE, MODEL, Column, Table
from sonde.results.text_format import SHARE, TOO_LITTLE, Number, Sparkline, with_interval
from sonde.stats.verdict import no_verdict_reason


def _draw(run: RunData, rows: pl.DataFrame) -> Figure | None:
    """Build the table of models; None for a single model."""
    if rows["model"].n_unique() < 2:
        return None
    baseline = _get_baseline(run)
    notes: list[str] = []
    records: list[dict[str, Any]] = []
    answers: list[str] = []
    for (language,), part in rows.partition_by("language", as_dict=True, maintain_order=True).items():
        poolings = pl.col("pooling").n_unique().over("task")
        mixed_tasks = ", ".join(map(task_label, sort_by_family(part.filter(poolings > 1)["task"].unique())))
        notes += [f"Not compared, since poolings differ: {mixed_tasks}."] if mixed_tasks else []
        comparable = part.filter(poolings == 1)
        models = part["shown"].unique(maintain_order=True).to_list()
        records += _build_records(str(language), comparable, models, baseline)
        answers.append(
            _format_answer(str(language), comparable, len(models), show_language=len(run.languages) > 1)
        )
    return Figure(
        answer="\n".join(answers),
        table=Table(
            summary="Accuracy, ranks and what each model adds to the baseline",
            columns=[
                Column(title="Of", value="of"),
                LANGUAGE,
                MODEL,
                *(
                    Column(
                        title=task_label(task),
                        value=lambda row, task=task: row["values"].get(task),
                        format=lambda row: Number(digits=row["digits"]),
                    )
                    for task in sort_by_family(rows["task"].to_list())
                ),
                Column(
                    title="Tasks at a glance",
                    value="line",
                    format=Sparkline(),
                    help="Accuracy by task, as bars.",
                ),
            ],
            rows=records,
        ),
        notes=notes,
    )


def _get_baseline(run: RunData) -> str:
    """Return the label of the baseline model in the run's options; empty if there is none."""
    options = (run.summary.get("arguments") or {}).get("options") or {}
    name = str((options.get(LENS) or {}).get("baseline") or "")
    return next((model.label for model in run.models if name in (model.name, model.label)), "")


def _build_records(
    language: str, rows: pl.DataFrame, models: Sequence[str], baseline: str
) -> Iterator[dict[str, Any]]:
    """Yield the table's rows: accuracy, its maximum and spread, ranks, and gains over `baseline`."""
    value, floor = 100 * pl.col("value"), 100 * pl.col("value").filter(pl.col("shown") == baseline).first()
    # Between the baseline's accuracy and a perfect one; none below it.
    gain = pl.when((value >= floor) & (floor < 100)).then(100 * (value - floor) / (100 - floor))
    scores = rows.sort(family_order(rows), maintain_order=True).with_columns(
        accuracy=value,
        rank=value.rank("min", descending=True).over("task").cast(pl.Float64),
        gain=gain.over("task"),
    )
    tasks = scores.group_by("task", maintain_order=True)
    other_models = scores.filter(pl.col("shown") != baseline).group_by("task", maintain_order=True)

    def record(measure: str, model: str, values: pl.DataFrame, digits: int = 1) -> dict[str, Any]:
        by_task = dict(values.rows())
        numbers = [number for number in by_task.values() if number is not None]
        line = numbers if measure == "accuracy, %" and len(numbers) > 1 else None
        return {
            "of": measure,
            "language": language,
            "shown": model,
            "values": by_task,
            "digits": digits,
            "line": line,
        }

    def by_model(measure: str, column: str, digits: int = 1) -> Iterator[dict[str, Any]]:
        for model in models:
            if column != "gain" or model != baseline:
                yield record(measure, model, scores.filter(shown=model).select("task", column), digits)

    yield from by_model("accuracy, %", "accuracy")
    yield record("highest, %", "", tasks.agg(pl.col("accuracy").max()))
    yield record("spread, points", "", other_models.agg(pl.col("accuracy").std()))
    yield from by_model("rank", "rank", 0)
    if baseline in models:
        yield from by_model("over the baseline, %", "gain")


def _explain_missing_verdict(rows: pl.DataFrame, tasks: Sequence[str]) -> str:
    """Explain why no model is ahead if no task allows a verdict, with the first task's estimates."""
    first = rows.filter(pl.col("task") == tasks[0]).to_dicts()
    estimates = join_names([f"{row['shown']} {with_interval(row, 100, 1)} %" for row in first])
    message = f"Too little data on which model is ahead in {plural(len(tasks), 'task')}"
    return f"{message} ({no_verdict_reason(first[0])}): {task_label(first[0]['task'])} {estimates}."


def _format_answer(language: str, rows: pl.DataFrame, models: int, *, show_language: bool) -> str:
    """Describe in how many tasks a model is surely ahead of all others."""
    lead_counts: Counter[str] = Counter()
    leads: list[float] = []
    inconclusive: list[str] = []
    for (task,), part in rows.partition_by("task", as_dict=True, maintain_order=True).items():
        extreme = find_extreme(part.to_dicts())
        if extreme is not None and extreme.is_single:
            lead_counts[extreme.rows[0]["shown"]] += 1
        elif extreme is not None:
            leads.append(extreme.detectable)
        inconclusive += [str(task)] if all(map(no_verdict_reason, part.to_dicts())) else []
    task_count = rows["task"].n_unique()
    if not task_count:
        return ""
    lead = bracket(SHARE.detectable(max(leads, default=math.nan)))
    leaders = [f"{model} in {times}" for model, times in lead_counts.most_common()]
    remaining_count = task_count - lead_counts.total() - len(inconclusive)
    if leaders:
        sentence = f"surely ahead of all others are {', '.join(leaders)} of {plural(task_count, 'task')}"
        sentence += f"; in {remaining_count} none is surely ahead{lead}" if remaining_count else ""
    elif remaining_count:
        tasks = f"any of {remaining_count} tasks" if remaining_count > 1 else "one task"
        sentence = f"none is surely ahead of all others in {tasks}{lead}"
    else:
        return f"{f'{language}: ' if show_language else ''}{_explain_missing_verdict(rows, inconclusive)}"
    sentence += f"; {TOO_LITTLE} in {len(inconclusive)}" if inconclusive else ""
    start = f"{language}: of" if show_language else "Of"
    return f"{start} {models} models, {sentence}."


plot = SectionPlot(
    title="Models: who encodes what",
    lens=LENS,
    order=205,
    caption=(
        "Accuracy in per cent at each model's chosen layer. Spread is the standard deviation over models, "
        "without the baseline. Over the baseline: 0 at its accuracy, 100 at perfect accuracy, a dash if a "
        "model is below it. Ranks and the highest value are those of this sample; the text says which "
        "model is ahead according to the intervals. Only models with the same pooling are compared. "
        "Comparing runs tests their differences on single items."
    ),
    select=read_headline,
    figure=_draw,
)
