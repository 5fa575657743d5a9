"""Types of report sections, and what lenses declare for the header, explorer and constructs.

A `Plot` answers a question and hands a `Figure` to the report: charts, drawings, a table, notes. Most are a
`SectionPlot`: texts, the rows that are shown, and the figure of them. The folder of a lens's sections
declares its header (`LensTitle`) and its results at the places of single functions (`TokenLens`).

A lens declares which of its numbers is about constructs, and which of its facts belongs to which
(`CrossLensNumber`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import polars as pl

from sonde.base.formatting import plural
from sonde.base.registry import Registry
from sonde.report.run_tables import RunData
from sonde.report.theme import HEAT_EDGES
from sonde.results.headlines import HeadlineMetric
from sonde.results.tables import Table
from sonde.results.text_format import BITS_PER_NAT


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart.

    Attributes:
        name: Stem of its files below ``figures/``.
        title: One line above it.
        spec: Vega-Lite specification without width and configuration; text and colours come from the theme.
        wide: Takes the whole width of the page rather than a column.
        model: Place among the run's models of the one that it is about, whose colour it has; 0 where it is
            about several or the run has one.
        large: Whether it is to be read from afar: where it stands alone its title is large too.
    """

    name: str
    title: str
    spec: Mapping[str, Any]
    wide: bool = False
    model: int = 0
    large: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SvgImage:
    """A finished SVG whose colours may be ``var(--name, #rrggbb)``, and its description for a reader."""

    name: str
    title: str
    svg: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedView:
    """A part of the page with its own template and data, such as the token explorer.

    Attributes:
        template: File below ``report``, in the folder of its lens.
        data: Plain JSON, handed to the page's script; never interpreted as markup.
        context: What the template itself needs.
        scripts: Files below ``report`` that run, one after the other, once the page stands.
    """

    template: str
    data: Mapping[str, Any]
    context: Mapping[str, Any] = field(default_factory=dict)
    scripts: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Contents of one section.

    Attributes:
        lead: The finding in one sentence for the top of the page; one section a lens has one, or none.
        answer: The finding in words with its numbers; one line per model or language.
        charts: Charts side by side.
        drawings: Pictures that are not charts.
        table: The numbers behind the charts.
        notes: Limits a reader has to know, one sentence each.
        embed: An interactive part.
    """

    lead: str = ""
    answer: str = ""
    charts: Sequence[Chart] = ()
    drawings: Sequence[SvgImage] = ()
    table: Table | None = None
    notes: Sequence[str] = ()
    embed: EmbeddedView | None = None


@runtime_checkable
class Plot(Protocol):
    """A section of the page; each file of a lens's folder defines one as ``plot``."""

    @property
    def title(self) -> str:
        """Return the heading of the section."""
        ...

    @property
    def lens(self) -> str:
        """Return the public name of the lens whose results it shows."""
        ...

    @property
    def order(self) -> int:
        """Return its place on the page, ascending."""
        ...

    @property
    def caption(self) -> str:
        """Explain how to read it: what is drawn, in which unit, and what the interval is."""
        ...

    def draw(self, run: RunData) -> Figure | None:
        """Draw the figure; None if the run has nothing to show for it."""
        ...


T = TypeVar("T", bound=Sized)


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionPlot(Generic[T]):
    """A plot as data: its texts, the rows that it shows, and the figure of them.

    Attributes:
        title: Heading of the section.
        lens: Public name of the lens whose results it shows.
        order: Place on the page, ascending.
        caption: How to read it: what is drawn, in which unit, and what the interval is.
        select: The rows of a run that it shows; if there are none, the run has no such section.
        figure: Builds the figure of a run and its rows; None if they have nothing to show.
    """

    title: str
    lens: str
    order: int
    caption: str
    select: Callable[[RunData], T]
    figure: Callable[[RunData, T], Figure | None]

    def draw(self, run: RunData) -> Figure | None:
        """Draw the figure, or nothing where the run has no such rows."""
        rows = self.select(run)
        return self.figure(run, rows) if len(rows) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A plot that had something to show."""

    name: str
    plot: Plot
    figure: Figure


PLOTS: Registry[Plot] = Registry(
    "sonde.report.sections", "plot", "plot", protocols=(Plot,), folders=True, group="sonde.report"
)


AMOUNT: Literal["amount"] = "amount"


ANSWER: Literal["answer"] = "answer"


LINK: Literal["link"] = "link"


Rows = Sequence[Sequence[Any]]
"""What is said of one function, a row a place: first character, end of the characters, then each column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColourScale:
    """A way to colour a function.

    Attributes:
        label: What the colour stands for, as a reader picks it.
        column: The column that it is.
        edges: Of numbers: where the colour changes, ascending.
        unit: Of numbers: behind the number.
        combined: How the numbers of several rows at one place become one.
        differs: Whether the difference between two models means something.
    """

    label: str
    column: str
    edges: Sequence[float]
    unit: str
    combined: Literal["sum", "largest"] = "sum"
    differs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFindings:
    """Findings of one lens at the places of some functions.

    Attributes:
        lens: Public name.
        label: What it is called beside a token.
        kind: `AMOUNT`: numbers of subwords, which are the parts that are shown; `ANSWER`: what was said of a
            place, what is right, and whether it is (columns ``group``, ``said``, ``right``, ``hit``); `LINK`:
            where a place leads (columns ``group``, ``hit``, ``by``, ``picked_start``, ``picked_end``,
            ``expected_start``, ``expected_end``).
        columns: Names of the columns behind start and end.
        texts: Those that are texts.
        facts: Of numbers: what else is told of a place, a name and a column each, and a unit or nothing.
        colourings: Of numbers: what the colour may be.
        group: What the values of the column ``group`` are, such as ``"relation"``.
        rows: By model (its folder name) and function.
        units: Of numbers, by model and function: code tokens with costs that do not depend on the tokenizer,
            see `unit_cells`.
        whole: By model and function what is said of it as a whole: ``group``, ``said``, ``right``, ``hit``.
        weights: By model and function, of some heads (as ``by`` names them), the tokens that each token
            attends to most: ``[start, [[start, end, share], ...]]`` a token.
        summaries: By model and function, a number of the function as a whole.
        summary: What that number is.
        alike: By model, what has to be equal for numbers of two models to be subtracted.
        note: What a reader has to know of it, a sentence.
    """

    lens: str
    label: str
    kind: Literal["amount", "answer", "link"]
    columns: Sequence[str]
    texts: frozenset[str] = frozenset()
    facts: Sequence[tuple[str, str, str]] = ()
    colourings: Sequence[ColourScale] = ()
    group: str = ""
    rows: Mapping[str, Mapping[str, Rows]] = field(default_factory=dict[str, Mapping[str, Rows]])
    units: Mapping[str, Mapping[str, Rows]] = field(default_factory=dict[str, Mapping[str, Rows]])
    whole: Mapping[str, Mapping[str, Rows]] = field(default_factory=dict[str, Mapping[str, Rows]])
    weights: Mapping[str, Mapping[str, Mapping[str, Rows]]] = field(
        default_factory=dict[str, Mapping[str, Mapping[str, Rows]]]
    )
    summaries: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    summary: str = ""
    alike: Mapping[str, str] = field(default_factory=dict[str, str])
    note: str = ""


COLOURINGS = (
    ColourScale(label="Bits", column="bits", edges=HEAT_EDGES, unit="bits", differs=True),
    ColourScale(
        label="Rank", column="rank", edges=(2, 3, 6, 11, 51, 101, 501, 1001), unit="rank", combined="largest"
    ),
    ColourScale(label="Entropy", column="entropy", edges=HEAT_EDGES, unit="bits", combined="largest"),
)
"""What subwords are coloured by: of ranks the first, the second, those among five, among ten and so on."""


def unit_cells(unit: Mapping[str, Any]) -> list[Any]:
    """Return the cells of a code token: start, end, exact bits, and bits of its subwords; null if unknown.

    Args:
        unit: Its fields in `sonde.results.schema.UNIT_FIELDS`.
    """
    costs = (unit["nats"] if unit["part"] == "exact" else None, unit["piece_nats"])
    return [
        unit["start"],
        unit["end"],
        *(None if nats is None else round(nats * BITS_PER_NAT, 3) for nats in costs),
    ]


WAYS = {
    "causal": "each subword from the text before it",
    "pll": "each subword from both sides, with the rest of its word hidden",
    "infill": "each code token left out, and written from both sides",
}
"""From what subwords are scored, in words: numbers of two are not comparable."""


LINK_COLUMNS = (
    "group", "hit", "by", "picked_start", "picked_end", "expected_start", "expected_end",
)  # fmt: skip
"""Columns of `LINK`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLens:
    """Access to the findings of a lens at single tokens, for the token explorer.

    Attributes:
        known: Ids of the functions that it says something of, in no particular order.
        findings: What it says of some functions, of each at most its first characters; None for nothing.
        difficulty: ``item_id, difficulty, subwords`` of the functions that every model of the lens read, the
            number that orders them and how many subwords are behind it; None where the lens has none.
    """

    known: Callable[[RunData], Sequence[str]]
    findings: Callable[[RunData, Sequence[str], int], TokenFindings | None]
    difficulty: Callable[[RunData], pl.DataFrame | None] = lambda run: None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossLensNumber:
    """The number that a lens offers for the table over lenses.

    Attributes:
        title: What it is, as a heading and an axis, without its unit.
        question: Which rows of the lens hold it, and whether less is better.
        fact: Expression of what a row is about as the lens has it, such as a relation.
        constructs: The constructs that each fact belongs to, of those that all languages share.
        against: In words what the number is compared with.
        level: Expression, over the rows of one metric, of what the number is compared with; None for the
            controls of the lens's headline.
        inside: Whether it is read from what the model computes on the way, and not from what it predicts.
        same: A sentence: what of the lens is counted under a construct.
        scale: What the number, which is no share, is multiplied by where it is shown.
        of_several: What stands in its place where the run has it: the number of several models over the same
            text.
    """

    title: str
    question: HeadlineMetric
    fact: pl.Expr
    constructs: Mapping[str, Sequence[str]]
    against: str
    level: pl.Expr | None = None
    inside: bool = False
    same: str = ""
    scale: float = 1.0
    of_several: CrossLensNumber | None = None

    def in_run(self, run: RunData, lens: str) -> CrossLensNumber:
        """Return the number that a run has of the lens."""
        number = self.of_several
        if number is None:
            return self
        question = number.question
        rows = run.scores(metrics=question.metrics, lens=lens, where=question.where)
        return self if rows.is_empty() else number


@dataclass(frozen=True, slots=True, kw_only=True)
class StatTile:
    """A number shown large, with its interval, which is empty where none is known."""

    label: str
    value: str
    interval: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHeader:
    """The headline of a page and what stands beneath it.

    Attributes:
        headline: The finding in a few words.
        lines: The sentences under it: one is a paragraph, several are a list.
        note: What a reader has to know of every number above it.
        tiles: The few numbers shown large.
        table: Every overall number.
        intervals: How its intervals were made.
    """

    headline: str
    lines: Sequence[str]
    note: str = ""
    tiles: Sequence[StatTile] = ()
    table: Table | None = None
    intervals: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LensTitle:
    """Declaration of a lens for the page, which the folder of its sections has as ``title``.

    Attributes:
        name: Heading of all its sections.
        question: What the lens asks a model, in a sentence for a reader who knows nothing of it.
        counts: Singular noun of what ``n`` of a score counts, by metric; that of all others under the empty
            name.
        cites: Keys of the papers that its method is from, see `sonde.report.text`.
        method_text: How its numbers are made, in sentences for the part that says what was measured.
        in_float32: What of it is computed in float32 whatever the weights are; empty for nothing.
        cross_lens: What it offers for the table over lenses; None for nothing.
        tokens: What it offers for the explorer of tokens; None for nothing.
        top: Builds the headline of the page, of a lens whose findings are not sentences among others.
    """

    name: str
    question: str = ""
    counts: Mapping[str, str] = field(default_factory=dict[str, str])
    cites: Sequence[str] = ()
    method_text: str = ""
    in_float32: str = ""
    cross_lens: CrossLensNumber | None = None
    tokens: TokenLens | None = None
    top: Callable[[RunData], PageHeader | None] = lambda run: None

    def count_noun(self, row: Mapping[str, Any]) -> str:
        """Return the noun of what ``n`` of a score counts, such as ``code tokens``; singular for 1."""
        return self.format_size(row).partition(" ")[2]

    def format_size(self, row: Mapping[str, Any]) -> str:
        """Format ``n`` of a score with what it counts, for example ``1,200 code tokens``."""
        return plural(row["n"], self.counts.get(row["metric"], self.counts.get("", "observation")))
