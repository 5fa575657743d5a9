"""Models against each other: accuracy, ranks, and a baseline (INSPECT, Tables 2 to 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import bracket, join_names, plural
from sonde.report.run_tables import RunData
from sonde.report.section import Figure
from sonde.report.sections.probe import LENS, read_headline, render_sparkline
from sonde.report.text import sort_by_family, task_label
from sonde.results.extremes import find_extreme
from sonde.results.tables import LANGUAGE, MODEL, Column, Table
from sonde.results.text_format import TOO_LITTLE, Number, describe_detectable, with_interval
from sonde.stats.verdict import no_verdict_reason

Grid = Mapping[str, Mapping[str, float]]


class ProbeModels:
    """A row a model and a column a task: the paper's tables for the models of the run."""

    title = "Models: who encodes what"
    lens = LENS
    order = 205
    caption = (
        "Accuracy in percent at each model's chosen layer. Spread is the standard deviation over models "
        "without the baseline. Over the baseline: 0 at its accuracy, 100 at a perfect one, a dash where a "
        "model is below it. Ranks and the highest value are those of this sample; the text says which model "
        "is ahead by the intervals. Only models that were pooled alike are compared; their differences on "
        "single items are tested where runs are compared."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One table; nothing for a single model."""
        rows = read_headline(run)
        if rows["model"].n_unique() < 2:
            return None
        baseline = _baseline(run)
        notes: list[str] = []
        records: list[dict[str, Any]] = []
        answers: list[str] = []
        tasks = sort_by_family(rows["task"].to_list())
        for (language,), part in rows.partition_by("language", as_dict=True, maintain_order=True).items():
            grid, left = _grid(part)
            notes += left
            records += _build_rows(str(language), grid, tasks, baseline)
            answers.append(_format_answer(str(language), part, grid, several=len(run.languages) > 1))
        table = Table(
            summary="Accuracy, ranks and what each model adds to the baseline",
            columns=[
                Column(title="Of", value="of"),
                LANGUAGE,
                MODEL,
                *(
                    Column(
                        title=task_label(task),
                        value=lambda row, task=task: row["values"][task],
                        format=lambda row: Number(digits=row["digits"]),
                    )
                    for task in tasks
                ),
                Column(title="Tasks at a glance", value="line", help="Accuracy by task, as a line."),
            ],
            rows=records,
        )
        return Figure(answer="\n".join(answers), table=table, notes=notes)


def _baseline(run: RunData) -> str:
    """The model that the run's options name, as it is shown; empty where they name none."""
    options = (run.summary.get("arguments") or {}).get("options") or {}
    named = str((options.get(LENS) or {}).get("baseline") or "")
    return next((model.label for model in run.models if named in (model.name, model.label)), "")


def _grid(rows: pl.DataFrame) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Accuracy by model and task; tasks whose models were pooled in different ways are left out."""
    pools = rows.group_by("task").agg(pl.col("pooling").n_unique())
    mixed = set(pools.filter(pl.col("pooling") > 1)["task"].to_list())
    grid: dict[str, dict[str, float]] = {}
    for row in rows.iter_rows(named=True):
        held = grid.setdefault(row["shown"], {})
        if row["task"] not in mixed:
            held[row["task"]] = row["value"]
    named = ", ".join(task_label(task) for task in sort_by_family(mixed))
    return grid, [f"Not compared, since poolings differ: {named}."] if mixed else []


def _ranks(grid: Grid, task: str) -> dict[str, int]:
    held = sorted((values[task] for values in grid.values() if task in values), reverse=True)
    return {model: held.index(values[task]) + 1 for model, values in grid.items() if task in values}


def _build_rows(language: str, grid: Grid, tasks: list[str], baseline: str) -> list[dict[str, Any]]:
    def row(of: str, model: str, value: Callable[[str], float | None], digits: int = 1) -> dict[str, Any]:
        values = {task: value(task) for task in tasks}
        known = [one for one in values.values() if one is not None]
        line = render_sparkline(known) if of == "accuracy" and len(known) > 1 else ""
        return {
            "of": of,
            "language": language,
            "shown": model,
            "values": values,
            "digits": digits,
            "line": line,
        }

    rows = [row("accuracy", model, lambda task, m=model: _percent(grid[m].get(task))) for model in grid]
    best = {task: max((v[task] for v in grid.values() if task in v), default=None) for task in tasks}
    rows.append(row("highest", "", lambda task: _percent(best[task])))
    others = {model: values for model, values in grid.items() if model != baseline}
    rows.append(
        row("spread", "", lambda task: _standard_deviation([v[task] for v in others.values() if task in v]))
    )
    rows += [row("rank", model, lambda task, m=model: _ranks(grid, task).get(m), 0) for model in grid]
    if baseline in grid:
        rows += [
            row(
                "over the baseline",
                model,
                lambda task, m=model: _compute_relative_gain(grid, m, baseline, task),
            )
            for model in others
        ]
    return rows


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _standard_deviation(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return 100 * (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5


def _compute_relative_gain(grid: Grid, model: str, baseline: str, task: str) -> float | None:
    """Accuracy between the baseline's and a perfect one, in percent; None below it."""
    own, floor = grid[model].get(task), grid[baseline].get(task)
    if own is None or floor is None or floor >= 1 or own < floor:
        return None
    return 100 * (own - floor) / (1 - floor)


def _explain_missing_verdict(rows: pl.DataFrame, tasks: Sequence[str]) -> str:
    """Say why no model is ahead where no task allows a verdict, with the estimates of the first of them."""
    first = rows.filter(pl.col("task") == tasks[0]).to_dicts()
    shown = join_names([f"{row['shown']} {with_interval(row, 100, 1)} %" for row in first])
    which = f"Too little data on which model is ahead in {plural(len(tasks), 'task')}"
    return f"{which} ({no_verdict_reason(first[0])}): {task_label(first[0]['task'])} {shown}."


def _format_answer(language: str, rows: pl.DataFrame, grid: Grid, *, several: bool) -> str:
    """In how many tasks a model is surely ahead of all others."""
    compared = {task for values in grid.values() for task in values}
    if not compared:
        return ""
    ahead = dict.fromkeys(grid, 0)
    leads: list[float] = []
    for (task,), part in rows.partition_by("task", as_dict=True, maintain_order=True).items():
        found = find_extreme(part.to_dicts()) if task in compared else None
        if found is not None and found.is_single:
            ahead[found.rows[0]["shown"]] += 1
        elif found is not None:
            leads.append(found.detectable)
    lead = bracket(describe_detectable(max(leads, default=math.nan), 100, 1, " points"))
    said = [f"{model} in {times}" for model, times in sorted(ahead.items(), key=lambda one: -one[1]) if times]
    few = [
        task
        for (task,), part in rows.partition_by("task", as_dict=True, maintain_order=True).items()
        if task in compared and all(map(no_verdict_reason, part.to_dicts()))
    ]
    rest = len(compared) - sum(ahead.values()) - len(few)
    if said:
        told = f"surely ahead of all others are {', '.join(said)} of {plural(len(compared), 'task')}"
        told += f"; in {rest} none is surely ahead{lead}" if rest else ""
    elif rest:
        tasks = f"any of {rest} tasks" if rest > 1 else "one task"
        told = f"none is surely ahead of all others in {tasks}{lead}"
    else:
        return f"{f'{language}: ' if several else ''}{_explain_missing_verdict(rows, few)}"
    told += f"; {TOO_LITTLE} in {len(few)}" if few else ""
    start = f"{language}: of" if several else "Of"
    return f"{start} {len(grid)} models, {told}."


plot = ProbeModels()
