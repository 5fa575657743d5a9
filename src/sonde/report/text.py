"""Texts of the report: numbers with intervals, task names, references, reasons, safe figures.

Numbers come with their interval and whether a verdict may be drawn; several differences are sorted by what
their intervals say, and the highest of several scores is named only where it may be. Tasks have a name in the
report and a description. Reasons why something was left out are stated once if several tasks share one. The
papers that the lenses' methods are from are in one file of BibTeX entries, which lenses cite by key.

Names in a figure are pieces of the code under study, so they can be anything. Two things break a drawing:
characters that XML does not allow abort the process that draws, and Vega-Lite turns a list of names to sort
by into an expression, in which Vega takes the text ``if`` for its function. So `sanitise_figure` makes every
text of a figure safe and puts none of it in an expression.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar, cast

import polars as pl

from sonde.base.formatting import format_name, join_names, legible
from sonde.report.section import Figure
from sonde.results.extremes import describe_extreme, find_extreme, format_subject
from sonde.results.tables import Table
from sonde.results.text_format import SHARE, TOO_LITTLE, Row, Unit, with_interval
from sonde.stats.verdict import allows_verdict, no_verdict_reason
from sonde.tasks.engine.task import TASKS


def collapse_blanks(surface: str) -> str:
    """Write long runs of one blank sign in the surface of a piece as a count.

    >>> collapse_blanks("↵␣␣␣␣␣␣x")
    '↵␣×6x'
    """
    return re.sub(r"([^\w-])\1{4,}", lambda run: f"{run[1]}×{len(run[0])}", surface)


def lacks_verdict(row: Mapping[str, Any]) -> bool:
    """Return whether a score rests on too little for a verdict; see `sonde.stats.verdict`."""
    return not allows_verdict(row)


_MISTAKES = 3


def list_mistakes(rows: pl.DataFrame) -> str | None:
    """List a few wrong answers to the examples of one class, in order of their shares, each with its share.

    Args:
        rows: Shares of the examples of a class in ``value``, with columns ``gold`` and ``said``.

    Returns:
        None where nothing wrong was said.
    """
    wrong = rows.filter((pl.col("said") != pl.col("gold")) & (pl.col("value") > 0))
    wrong = wrong.sort("value", descending=True, maintain_order=True)
    texts = [f"{row['said']} {with_interval(row, 100, 1)}" for row in wrong.iter_rows(named=True)]
    return list_first(texts, _MISTAKES) or None


def list_first(texts: Sequence[str], maximum: int, separator: str = ", ") -> str:
    """Join the first texts; an ellipsis stands for the rest.

    >>> list_first(["a", "b", "c"], 2), list_first(["a"], 2)
    ('a, b, …', 'a')
    """
    return separator.join([*texts[:maximum], *["…"][: len(texts) > maximum]])


_MAX_REASONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Paired differences by what their intervals say.

    Attributes:
        rows: All of them.
        higher: Those above 0.
        lower: Those below 0.
        level: Those that are not told from 0.
        inconclusive: Those that allow no verdict.
    """

    rows: list[Row] = field(default_factory=list[Row])
    higher: list[Row] = field(default_factory=list[Row])
    lower: list[Row] = field(default_factory=list[Row])
    level: list[Row] = field(default_factory=list[Row])
    inconclusive: list[Row] = field(default_factory=list[Row])

    @property
    def is_open(self) -> bool:
        """Return whether none of them allows a verdict."""
        return len(self.inconclusive) == len(self.rows)

    @property
    def reasons(self) -> str:
        """Return why the inconclusive ones allow no verdict: the first few reasons."""
        return list_first(list(dict.fromkeys(map(no_verdict_reason, self.inconclusive))), _MAX_REASONS, "; ")

    def describe_rest(self, unit: Unit = SHARE) -> list[str]:
        """Describe in clauses how many are not told from 0, and of how many there is too little data."""
        rest = unit.null_results(self.level)
        return rest + [f"{TOO_LITTLE} in {len(self.inconclusive)}"] * bool(self.inconclusive)


def sort_differences(rows: Iterable[Row]) -> Differences:
    """Sort paired differences by what their intervals say, each kind in the order of the rows."""
    differences = Differences(rows=list(rows))
    for row in differences.rows:
        if lacks_verdict(row):
            differences.inconclusive.append(row)
        elif row["ci_low"] <= 0 <= row["ci_high"]:
            differences.level.append(row)
        else:
            (differences.higher if row["ci_low"] > 0 else differences.lower).append(row)
    return differences


def describe_highest(
    rows: Sequence[Row],
    noun: str,
    label: Callable[[Row], str],
    figures: Callable[[Row], str],
    *,
    verb: str,
    topic: str,
    are_shares: bool = False,
) -> str:
    """Describe the highest of several scores in a clause, or say why none may be named.

    Args:
        rows: The scores.
        noun: Plural noun of them.
        label: Returns the name of a score.
        figures: Formats a score with interval and unit.
        verb: Verb of the highest, for example ``"is picked most often"``.
        topic: What is not known if none may be named, for example ``"which word is picked most often"``.
        are_shares: Whether they are shares that add up to one.
    """
    extreme = find_extreme(rows, are_shares=are_shares)
    if extreme is not None:
        clause = describe_extreme(extreme, label, figures, verb=verb, end="top")
        return f"of {format_subject(extreme, noun)}, {clause}"
    default = "they do not vary" if len(rows) > 1 else "there is only one"
    reason = next(filter(None, map(no_verdict_reason, rows)), default)
    texts = [f"{label(row)} {figures(row)}" for row in rows]
    return f"{TOO_LITTLE} on {topic} ({reason}): {list_first(texts, _LISTED_SCORES, '; ')}"


_LISTED_SCORES = 5
"""Scores that a sentence names of which none may be called the highest."""


SEPARATE_INTERVALS = "Intervals are per model; no paired test compares the models."


def to_chart_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a share to a record of a chart: its value with the interval (also in words, in %), its n."""
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
    """Group what was left out by reason, in their order; reasons that begin with their task are joined.

    >>> group_by_reason([(None, "task 'len': no state"), (None, "task 'csc': no state"), ("length", "why")])
    {'': ["tasks 'len', 'csc': no state"], 'length': ['why']}

    Args:
        reasons: What was left out, None for a whole task, and why.
    """
    groups: dict[str, dict[str, list[str]]] = {}
    for method, reason in reasons:
        match = _TASK.match(reason or "")
        task, rest = (match[1], f"{match[2] or ''}: {match[3]}") if match else ("", reason or "")
        groups.setdefault(method or "", {}).setdefault(rest, []).append(task)
    return {
        method: [
            f"task{'s' * (len(tasks) > 1)} {', '.join(tasks)}{rest}" if tasks[0] else rest
            for rest, tasks in by_rest.items()
        ]
        for method, by_rest in groups.items()
    }


def task_label(task: str) -> str:
    """Format a task as a reader knows it: short names in capitals, as the papers have them.

    >>> task_label("npt"), task_label("ast_depth")
    ('NPT', 'ast depth')
    """
    return task.upper() if len(task) <= 3 else format_name(task)


_PAPER_TASKS: Mapping[str, str] = {
    "ast": "token class",
    "cpx": "cyclomatic complexity",
    "csc": "number of structures",
    "idn": "identifier type",
    "jbk": "exchange of blocks",
    "jbl": "exchange of neighbouring tokens",
    "jft": "shuffling of all tokens",
    "jmb": "shuffling of half of the tokens",
    "jst": "exchange of statements",
    "ktx": "keyword and operator class",
    "len": "code length",
    "mxn": "nesting depth",
    "nml": "number of loops",
    "nms": "number of ifs",
    "npt": "NPath complexity",
    "oct": "number of operators",
    "ocu": "number of distinct operators",
    "rea": "assignment for a comparison",
    "sck": "keyword of the same category",
    "sra": "replacement of all occurrences of an identifier",
    "sri": "replacement of an identifier",
    "srk": "replacement of a keyword",
    "tan": "majority of identifiers or keywords",
    "typ": "misspelt types",
    "vct": "number of uses of variables",
    "vcu": "number of distinct variables",
}
"""Plain names of the tasks that papers know by three letters."""


def describe_task_plainly(task: str) -> str:
    """Name a task in a sentence for a reader who does not know the short names of papers.

    >>> describe_task_plainly("idn"), describe_task_plainly("ast_depth")
    ('identifier type (IDN)', 'ast depth')
    """
    name = _PAPER_TASKS.get(task)
    return f"{name} ({task_label(task)})" if name else task_label(task)


def task_description(task: str) -> str:
    """Describe what a task asks in a line; empty for one that a user handed in.

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
    """Return the family of a task, which is the folder that it lies in; `OTHER` for a user's own.

    >>> task_family("cpx"), task_family("mine")
    ('complexity', 'other')
    """
    return TASKS.get_folder_name(task) or OTHER


def group_by_family(tasks: Iterable[str]) -> dict[str, list[str]]:
    """Group tasks by family, families and their tasks by name, a user's own last.

    >>> group_by_family(["npt", "mine", "ktx", "cpx"])
    {'complexity': ['cpx', 'npt'], 'tokens': ['ktx'], 'other': ['mine']}
    """
    families: dict[str, list[str]] = {}
    for task in sorted(set(tasks), key=lambda task: (task_family(task) == OTHER, task_family(task), task)):
        families.setdefault(task_family(task), []).append(task)
    return families


def sort_by_family(tasks: Iterable[str]) -> list[str]:
    """Sort tasks by family and name."""
    return [task for family in group_by_family(tasks).values() for task in family]


def family_order(rows: pl.DataFrame) -> pl.Expr:
    """Build the expression of the index of a row's task among those of all rows, sorted by family."""
    order = {task: index for index, task in enumerate(sort_by_family(rows["task"].to_list()))}
    return pl.col("task").replace_strict(order, return_dtype=pl.Int64)


T = TypeVar("T")


# What Vega's parser of expressions takes for its function even as a text, and what every object of JavaScript
# has, so that a table of names by Vega finds it there.
_RESERVED = {
    "if", "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
    "toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__",
    "__lookupSetter__",
}  # fmt: skip


def sanitise_figure(figure: Figure) -> Figure:
    """Return a figure whose every text is legible, and whose charts hold none of it in an expression."""
    figure = _map_texts(figure, legible)
    charts = [
        dataclasses.replace(chart, spec=add_rank_columns(_map_texts(chart.spec, avoid_reserved_name)))
        for chart in figure.charts
    ]
    return dataclasses.replace(figure, charts=charts)


def avoid_reserved_name(text: str) -> str:
    """Change a name that JavaScript or Vega takes for its own: a blank behind it is not seen.

    >>> avoid_reserved_name("if"), avoid_reserved_name("iffy")
    ('if ', 'iffy')
    """
    return f"{text} " if text in _RESERVED else text


def _map_texts(value: T, change: Callable[[str], str]) -> T:
    """Change every text in a value; numbers and the like stay."""
    # Most of what a figure holds are plain numbers and texts, hundreds of thousands of them.
    kind: type = type(value)
    if kind is int or kind is float or value is None or kind is bool:
        return value
    content: Any = value
    if isinstance(value, Table):
        return value  # Its columns make every text legible, and look things up by texts as they were.
    if isinstance(value, str):
        content = change(value)
    elif isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        content = {_map_texts(key, change): _map_texts(item, change) for key, item in items}
    elif isinstance(value, list | tuple):
        content = kind(_map_texts(item, change) for item in cast("list[Any]", value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [member.name for member in dataclasses.fields(value)]
        content = dataclasses.replace(
            value, **{name: _map_texts(getattr(value, name), change) for name in names}
        )
    return content


DataRows = Sequence[Mapping[str, Any]]
"""Rows of the data of a chart."""


def list_inner_views(view: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the views directly inside a view of a Vega-Lite specification."""
    inner = [part for name in ("layer", "concat", "hconcat", "vconcat") for part in view.get(name, ())]
    return [*inner, *([view["spec"]] if "spec" in view else [])]


def map_encodings(
    view: Mapping[str, Any],
    change: Callable[[dict[str, Any], DataRows | None], dict[str, Any]],
    copy_rows: Callable[[DataRows], DataRows] = lambda rows: rows,
    rows: DataRows | None = None,
) -> dict[str, Any]:
    """Change each encoding of a Vega-Lite specification, those of inner views too.

    Args:
        view: The specification.
        change: Returns a new encoding, given the old one and the rows that it draws.
        copy_rows: Returns the rows that take the place of those of the specification.
        rows: Rows of the view around it, for a view without data of its own.
    """
    made = dict(view)
    if isinstance(data := view.get("data"), Mapping) and "values" in data:
        rows = copy_rows(data["values"])
        made["data"] = {**data, "values": rows}
    for name, value in view.items():
        if name == "encoding":
            made[name] = change(value, rows)
        elif name in ("layer", "concat", "hconcat", "vconcat"):
            made[name] = [map_encodings(part, change, copy_rows, rows) for part in value]
        elif name == "spec":
            made[name] = map_encodings(value, change, copy_rows, rows)
    return made


def add_rank_columns(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Sort the channels of a specification by a column of ranks if they had a list of names.

    Vega-Lite writes such a list into an expression; a column of numbers gives the same order. A list that
    several channels share is one column.
    """
    columns: dict[tuple[str, tuple[Any, ...]], str] = {}
    copies: dict[int, list[dict[str, Any]]] = {}

    def copy_rows(rows: DataRows) -> DataRows:
        # Layers that share their rows go on sharing them, since each is written into the page.
        return copies.setdefault(id(rows), [dict(row) for row in rows])

    def rank_channel(channel: Any, rows: Any) -> Any:
        order = channel.get("sort") if isinstance(channel, Mapping) else None
        if rows is None or not isinstance(order, list):
            return channel
        field = channel["field"]
        column = columns.setdefault((field, tuple(order)), f"rank_{len(columns)}")
        ranks = {name: rank for rank, name in enumerate(order)}
        for row in rows:
            row[column] = ranks.get(row.get(field), len(order))
        return {**channel, "sort": {"field": column, "op": "min"}}

    def rank_encoding(encoding: dict[str, Any], rows: DataRows | None) -> dict[str, Any]:
        return {name: rank_channel(channel, rows) for name, channel in encoding.items()}

    return map_encodings(spec, rank_encoding, copy_rows)


_FIELD = re.compile(r"^  (\w+) = \{(.*)\},?$", re.MULTILINE)


@cache
def load_references() -> dict[str, str]:
    """Load every entry by its key, in the order of the file."""
    text = (files("sonde.report") / "papers.bib").read_text(encoding="utf-8")
    return {
        part.partition("{")[2].partition(",")[0]: part.strip() for part in text.split("\n\n") if part.strip()
    }


def format_bibtex(keys: Iterable[str]) -> str:
    """Format entries one below the other, each once.

    Raises:
        KeyError: No entry has this key.
    """
    return "\n\n".join(load_references()[key] for key in dict.fromkeys(keys))


def format_reference(key: str) -> str:
    """Format an entry as a line for a reader.

    >>> format_reference("hewitt2019control").partition(". ")[0]
    'John Hewitt and Percy Liang (2019)'

    Raises:
        KeyError: No entry has this key.
    """
    fields = {name: re.sub(r"[{}]", "", value) for name, value in _FIELD.findall(load_references()[key])}
    authors = [" ".join(reversed(name.split(", "))) for name in fields["author"].split(" and ")]
    stop = "" if fields["title"].endswith("?") else "."
    venue = fields.get("journal") or fields["booktitle"]
    return f"{join_names(authors)} ({fields['year']}). {fields['title']}{stop} {venue}."
