"""Texts of the report: numbers with intervals, task names, references, reasons, safe figures.

Numbers come with their interval and whether a verdict may be drawn. Tasks have a name in the report and a
description. Reasons why something was left out are stated once if several tasks share one. The papers that
the lenses' methods are from are in one file of BibTeX entries, which lenses cite by key.

Names in a figure are pieces of the code under study, so they can be anything. Two things break a drawing:
characters that XML does not allow abort the process that draws, and Vega-Lite turns a list of names to sort
by into an expression, in which Vega takes the text ``if`` for its function. So `sanitise_figure` makes every
text of a figure safe and puts none of it in an expression.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar, cast

import polars as pl

from sonde.base.formatting import format_name, join_names, legible
from sonde.report.section import Figure
from sonde.results.tables import Table
from sonde.results.text_format import with_interval
from sonde.stats.verdict import allows_verdict
from sonde.tasks.engine.task import TASKS


def collapse_blanks(surface: str) -> str:
    """A piece's surface with long runs of one blank sign written as a count.

    >>> collapse_blanks("↵␣␣␣␣␣␣x")
    '↵␣×6x'
    """
    return re.sub(r"([^\w-])\1{4,}", lambda run: f"{run[1]}×{len(run[0])}", surface)


def lacks_verdict(row: Mapping[str, Any]) -> bool:
    """Whether a score rests on too little for a verdict; see `sonde.stats.verdict`."""
    return not allows_verdict(row)


_MISTAKES = 3


def list_mistakes(rows: pl.DataFrame) -> str | None:
    """Wrong answers to the examples of one class, each with its share in %, a few in order of their shares.

    Args:
        rows: Shares of the examples of a class in ``value``, with columns ``gold`` and ``said``.

    Returns:
        None where nothing wrong was said.
    """
    wrong = rows.filter((pl.col("said") != pl.col("gold")) & (pl.col("value") > 0))
    listed = wrong.sort("value", descending=True, maintain_order=True).head(_MISTAKES)
    texts = [f"{row['said']} {with_interval(row, 100, 1)}" for row in listed.iter_rows(named=True)]
    return ", ".join([*texts, *(["…"] if wrong.height > _MISTAKES else [])]) or None


def to_chart_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a chart draws of a share: its value with the interval (also in words, in %), and its size."""
    return {
        "value": row["value"],
        "low": row["ci_low"],
        "high": row["ci_high"],
        "reading": with_interval(row, 100, 1),
        "few": lacks_verdict(row),
        "n": row["n"],
    }


_TASK = re.compile(r"^task ('[^']*')( in \w+)?: (.*)$", re.DOTALL)


def group_by_reason(reasons: Iterable[tuple[str | None, str | None]]) -> dict[str, list[str]]:
    """What was left out with its reasons, in their order; reasons that begin with their task are joined.

    >>> group_by_reason([(None, "task 'len': no state"), (None, "task 'csc': no state"), ("length", "why")])
    {'': ["tasks 'len', 'csc': no state"], 'length': ['why']}

    Args:
        reasons: What was left out, None for a whole task, and why.
    """
    held: dict[str, dict[str, list[str]]] = {}
    for what, reason in reasons:
        found = _TASK.match(reason or "")
        task, rest = (found[1], f"{found[2] or ''}: {found[3]}") if found else ("", reason or "")
        held.setdefault(what or "", {}).setdefault(rest, []).append(task)
    return {
        what: [
            f"task{'s' * (len(tasks) > 1)} {', '.join(tasks)}{rest}" if tasks[0] else rest
            for rest, tasks in grouped.items()
        ]
        for what, grouped in held.items()
    }


def task_label(task: str) -> str:
    """A task as a reader knows it: short names in capitals, as the papers have them.

    >>> task_label("npt"), task_label("ast_depth")
    ('NPT', 'ast depth')
    """
    return task.upper() if len(task) <= 3 else format_name(task)


def task_description(task: str) -> str:
    """What a task asks, in a line; empty for one that a user handed in.

    >>> task_description("csc")
    'number of code structures: if, loops, switch and try'
    """
    return _load_task_descriptions().get(task, "").removeprefix(f"{task_label(task)}: ")


@cache
def _load_task_descriptions() -> dict[str, str]:
    return {header.name: header.summary for header in TASKS.headers()}


OTHER = "other"
"""Family of tasks that a user handed in."""


@cache
def task_family(task: str) -> str:
    """The family of a task, which is the folder that it lies in; `OTHER` for a user's own.

    >>> task_family("cpx"), task_family("mine")
    ('complexity', 'other')
    """
    return TASKS.get_folder_name(task) or OTHER


def group_by_family(tasks: Iterable[str]) -> dict[str, list[str]]:
    """Tasks by family, families and their tasks by name, a user's own last.

    >>> group_by_family(["npt", "mine", "ktx", "cpx"])
    {'complexity': ['cpx', 'npt'], 'tokens': ['ktx'], 'other': ['mine']}
    """
    found: dict[str, list[str]] = {}
    for task in sorted(set(tasks), key=lambda task: (task_family(task) == OTHER, task_family(task), task)):
        found.setdefault(task_family(task), []).append(task)
    return found


def sort_by_family(tasks: Iterable[str]) -> list[str]:
    """Tasks in the order of their families."""
    return [task for held in group_by_family(tasks).values() for task in held]


def family_order(rows: pl.DataFrame) -> pl.Expr:
    """The place of each row's task among those of all rows, in the order of their families."""
    places = {task: place for place, task in enumerate(sort_by_family(rows["task"].to_list()))}
    return pl.col("task").replace_strict(places, return_dtype=pl.Int64)


T = TypeVar("T")


# What Vega's parser of expressions takes for its function even as a text, and what every object of JavaScript
# has, so that a table of names by Vega finds it there.
_TAKEN = {
    "if", "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
    "toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__",
    "__lookupSetter__",
}  # fmt: skip


def sanitise_figure(figure: Figure) -> Figure:
    """A figure whose every text is legible, and whose charts hold none of it in an expression."""
    figure = _map_texts(figure, legible)
    charts = [
        dataclasses.replace(chart, spec=add_rank_columns(_map_texts(chart.spec, avoid_reserved_name)))
        for chart in figure.charts
    ]
    return dataclasses.replace(figure, charts=charts)


def avoid_reserved_name(text: str) -> str:
    """A name that neither JavaScript nor Vega takes for its own: a blank behind it is not seen.

    >>> avoid_reserved_name("if"), avoid_reserved_name("iffy")
    ('if ', 'iffy')
    """
    return f"{text} " if text in _TAKEN else text


def _map_texts(value: T, change: Callable[[str], str]) -> T:
    """A value with every text in it changed; numbers and the like stay."""
    # Most of what a figure holds are plain numbers and texts, hundreds of thousands of them.
    kind: type = type(value)
    if kind is int or kind is float or value is None or kind is bool:
        return value
    made: Any = value
    if kind is str:
        made = change(cast("str", value))
    elif isinstance(value, Table):
        return value  # Its columns make every text legible, and look things up by texts as they were.
    elif isinstance(value, str):
        made = change(value)
    elif isinstance(value, Mapping):
        held = cast("Mapping[Any, Any]", value)
        made = {_map_texts(key, change): _map_texts(one, change) for key, one in held.items()}
    elif isinstance(value, list | tuple):
        made = type(value)(_map_texts(one, change) for one in cast("list[Any]", value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        made = dataclasses.replace(
            value, **{name: _map_texts(getattr(value, name), change) for name in names}
        )
    return made


def add_rank_columns(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification whose channels are sorted by a column of ranks where they had a list of names.

    Vega-Lite writes such a list into an expression; a column of numbers gives the same order.
    """
    return _RankColumns().of(spec, None)


class _RankColumns:
    """Adds the columns; a list that several channels share is one column."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, tuple[Any, ...]], str] = {}
        self._rows: dict[int, list[dict[str, Any]]] = {}

    def of(self, view: Mapping[str, Any], rows: list[dict[str, Any]] | None) -> dict[str, Any]:
        """A view and those inside it, whose data are their own or else those of the view around them."""
        data = view.get("data")
        made = dict(view)
        if isinstance(data, Mapping) and "values" in data:
            # Layers that share their rows go on sharing them, since each is written into the page.
            values = cast("list[dict[str, Any]]", data["values"])
            rows = self._rows.setdefault(id(values), [dict(row) for row in values])
            made["data"] = {**data, "values": rows}
        for name, value in view.items():
            if name == "encoding":
                made[name] = {channel: self._channel(one, rows) for channel, one in value.items()}
            elif name in ("layer", "concat", "hconcat", "vconcat"):
                made[name] = [self.of(one, rows) for one in value]
            elif name == "spec":
                made[name] = self.of(value, rows)
        return made

    def _channel(self, channel: Any, rows: list[dict[str, Any]] | None) -> Any:
        if isinstance(channel, list):
            return [self._channel(one, rows) for one in cast("list[Any]", channel)]
        if not isinstance(channel, Mapping):
            return channel
        made: dict[str, Any] = dict(cast("Mapping[str, Any]", channel))
        if isinstance(made.get("sort"), list) and rows is not None:
            made["sort"] = {"field": self._column(made["field"], made["sort"], rows), "op": "min"}
        return made

    def _column(self, field: str, order: list[Any], rows: list[dict[str, Any]]) -> str:
        column = self._columns.setdefault((field, tuple(order)), f"rank_{len(self._columns)}")
        place = {name: number for number, name in enumerate(order)}
        for row in rows:
            row[column] = place.get(row.get(field), len(order))
        return column


_FIELD = re.compile(r"^  (\w+) = \{(.*)\},?$", re.MULTILINE)


@cache
def load_references() -> dict[str, str]:
    """Every entry by its key, in the order of the file."""
    text = (files("sonde.report") / "papers.bib").read_text(encoding="utf-8")
    return {
        part.partition("{")[2].partition(",")[0]: part.strip() for part in text.split("\n\n") if part.strip()
    }


def format_bibtex(keys: Iterable[str]) -> str:
    """Entries one below the other, each once.

    Raises:
        KeyError: No entry has this key.
    """
    return "\n\n".join(load_references()[key] for key in dict.fromkeys(keys))


def format_reference(key: str) -> str:
    """An entry as a line for a reader.

    >>> format_reference("hewitt2019control").partition(". ")[0]
    'John Hewitt and Percy Liang (2019)'

    Raises:
        KeyError: No entry has this key.
    """
    held = {name: re.sub(r"[{}]", "", value) for name, value in _FIELD.findall(load_references()[key])}
    names = [" ".join(reversed(name.split(", "))) for name in held["author"].split(" and ")]
    who = join_names(names)
    where = held.get("journal") or held["booktitle"]
    stop = "" if held["title"].endswith("?") else "."
    return f"{who} ({held['year']}). {held['title']}{stop} {where}."
