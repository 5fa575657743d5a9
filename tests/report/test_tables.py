"""A table is declared once: page, CSV, LaTeX and terminal agree on it, whatever text and numbers it holds."""

from __future__ import annotations

import io
import math
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.formatting import DASH, count
from sonde.report import Column, Table
from sonde.report.export import to_csv, to_latex
from sonde.report.theme import load_templates
from sonde.results.tables import (
    CLUSTERS,
    LANGUAGE,
    MODEL,
    N,
    estimate_columns,
    sample_size_column,
    score_columns,
    size_columns,
)
from sonde.results.text_format import (
    COUNT,
    PERCENT,
    PERCENT_WITH_INTERVAL,
    Count,
    Format,
    General,
    Interval,
    Number,
    WithHalfWidth,
    WithInterval,
)

Score = dict[str, Any]


def score(value: float | None = 0.5, low: float | None = 0.4, high: float | None = 0.6, **more: Any) -> Score:
    held = {"shown": "m", "language": "python", "n": 1200, "n_clusters": 12, "effective_clusters": 11.5}
    return {**held, "value": value, "ci_low": low, "ci_high": high, **more}


def of(rows: list[Score], *columns: Column) -> Table:
    return Table(summary="s", columns=columns, rows=rows)


class Cells(HTMLParser):
    """Texts of headings and of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.heads: list[str] = []
        self.rows: list[list[str]] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in (
            "details",
            "summary",
            "p",
            "div",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "button",
        )
        if tag == "th":
            self.heads.append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")
        self.inside = tag if tag in ("td", "button") else ""

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        # The button above the table, which saves it, is no heading.
        if self.inside == "button" and self.heads:
            self.heads[-1] += data
        elif self.inside == "td":
            self.rows[-1][-1] += data


def on_page(table: Table) -> tuple[list[str], list[list[str]], str]:
    """Headings and texts as a browser reads them, and the page's own text."""
    shown = '{% from "templates/parts.html.j2" import table %}{{ table(t) }}'
    page = load_templates().from_string(shown).render(t=table)
    cells = Cells()
    cells.feed(page)
    cells.close()
    return cells.heads, cells.rows[1:], page


numbers = st.none() | st.floats(-1e9, 1e9) | st.just(math.nan) | st.just(math.inf)
whole = st.integers(0, 10**9)
texts = st.text() | st.sampled_from(
    ["</td><script>", "a\nb\tc", "\x1b[0m", "=1+1", '"', "a,b", "\ud800", "–"]
)


@st.composite
def records(draw: Callable[[Any], Any]) -> Score:
    low, high = sorted([draw(st.floats(-1e6, 1e6)), draw(st.floats(-1e6, 1e6))])
    given_interval = draw(st.booleans())
    return score(
        draw(numbers),
        low if given_interval else None,
        high if given_interval else None,
        shown=draw(texts),
        language=draw(st.none() | texts),
        n=draw(whole),
        n_clusters=draw(whole),
        effective_clusters=draw(st.none() | st.floats(0, 1e6)),
    )


ALL = (MODEL, LANGUAGE, *score_columns("Value", 1, 100), Column(title="Both", format=PERCENT_WITH_INTERVAL))


@given(st.lists(records(), min_size=1, max_size=5))
def test_page_terminal_csv_and_latex_agree(rows: list[Score]) -> None:
    table = of(rows, *ALL)
    titles, shown, _ = on_page(table)
    cells = table.texts()
    assert titles == table.titles
    assert shown == cells
    lines = table.lines()
    assert len(lines) == len(rows) + 1 and lines[0].split() == " ".join(titles).split()
    for line, row in zip(lines[1:], cells, strict=True):
        assert "\n" not in line and "\x1b" not in line
        assert all(text in line for text in row[2:])
    back = pl.read_csv(io.StringIO(to_csv(table)), schema=table.frame().schema)
    assert back.height == len(rows)
    for line, row in zip(back.iter_rows(named=True), cells, strict=True):
        shown_value = row[2].replace("−", "-").replace(",", "")
        assert line["Value"] is None if row[2] == DASH else abs(line["Value"] - float(shown_value)) <= 0.06
        bounds = [line["95 % interval low"], line["95 % interval high"]]
        # What does not vary has two equal ends, which only programs are shown.
        assert (row[3] == DASH) == (bounds[0] == bounds[1])
        assert count(line["n"]) == row[4]
        assert row[5].startswith(count(line["Clusters"]))
        assert row[5].endswith("no verdict") != line["Clusters verdict"]
        assert line["Both"] == line["Value"]
    assert to_latex(table).count("\\\\\n") >= len(rows) + 1


def test_an_interval_is_two_numbers_and_a_share_is_in_per_cent_as_shown() -> None:
    frame = pl.read_csv(io.StringIO(to_csv(of([score(0.07), score(None, None, None)], *ALL))))
    assert dict(frame.schema) == {
        "Model": pl.String,
        "Language": pl.String,
        "Value": pl.Float64,
        "95 % interval low": pl.Float64,
        "95 % interval high": pl.Float64,
        "n": pl.Int64,
        "Clusters": pl.Int64,
        "Clusters effective": pl.Float64,
        "Clusters verdict": pl.Boolean,
        "Both": pl.Float64,
        "Both low": pl.Float64,
        "Both high": pl.Float64,
    }
    assert frame.row(0) == ("m", "python", 7.0, 40.0, 60.0, 1200, 12, 11.5, True, 7.0, 40.0, 60.0)
    assert frame.row(1)[2:5] == (None, None, None)


@pytest.mark.parametrize(
    ("form", "held", "text", "order", "plain"),
    [
        (Format(), "a", "a", None, ("a",)),
        (Format(), None, DASH, None, (None,)),
        (Format(missing=""), None, "", None, (None,)),
        (Number(), -1234.5, "−1,234.50", -1234.5, (-1234.5,)),
        (Number(), math.nan, DASH, None, (None,)),
        (PERCENT, 0.07, "7.0", 0.07, (7.0,)),
        (PERCENT, score(0.5), "50.0", 0.5, (50.0,)),
        (COUNT, 1200, "1,200", 1200, (1200,)),
        (Count(missing=""), None, "", None, (None,)),
        (General(), 2e-5, "2e-05", 2e-5, (2e-5,)),
        (PERCENT_WITH_INTERVAL, score(), "50.0 [40.0, 60.0]", 0.5, (50.0, 40.0, 60.0)),
        (WithInterval(missing=""), score(None), "", None, (None, 0.4, 0.6)),
        (WithHalfWidth(digits=1, scale=100), score(), "50.0 ±10.0", 0.5, (50.0, 40.0, 60.0)),
        (WithHalfWidth(digits=1, scale=100), score(high=None), "50.0", 0.5, (50.0, None, None)),
        (WithHalfWidth(), score(math.nan), DASH, None, (None, 0.4, 0.6)),
    ],
)
def test_a_format_writes_text_and_keeps_the_number(
    form: Format, held: Any, text: str, order: float | None, plain: tuple[Any, ...]
) -> None:
    cell = Column(title="c", value="held", format=form).cell({"held": held})
    assert (cell.text, cell.order, cell.plain) == (text, order, plain)


def test_clusters_say_what_they_are_worth_and_whether_a_verdict_is_allowed() -> None:
    assert CLUSTERS.cell(score()).text == "12 (worth 11.5)"
    assert CLUSTERS.cell(score(effective_clusters=3.0)).text == "12 (worth 3.0), no verdict"
    assert CLUSTERS.cell(score(effective_clusters=3.0)).plain == (12, 3.0, False)


def test_columns_are_aligned_and_sorted_by_what_they_hold() -> None:
    table = of(
        [{"name": "b", "at": 2}], Column(title="Name", value="name", order="at"), *size_columns("Edges")
    )
    assert table.right == [False, True, True] and table.columns[0].cell({"name": "b", "at": 2}).order == 2
    assert table.titles == ["Name", "Edges", "Clusters"]


def test_decimals_and_scale_may_differ_from_row_to_row() -> None:
    columns = estimate_columns("Value", digits=lambda row: row["d"], scale=lambda row: row["s"])
    table = of([score(d=0, s=100), score(d=3, s=1)], *columns)
    assert table.texts() == [["50", "[40, 60]"], ["0.500", "[0.400, 0.600]"]]
    assert table.frame().rows() == [(50.0, 40.0, 60.0), (0.5, 0.4, 0.6)]
    assert of([], *columns).texts() == []


def test_a_heading_explains_itself_on_hover_and_in_no_file() -> None:
    table = of([score()], Column(title="A & b", value="n", format=COUNT, help='Why "n" < 3'))
    page = on_page(table)[2]
    assert 'title="Why &#34;n&#34; &lt; 3"' in page
    assert "Why" not in to_csv(table) + to_latex(table) + "".join(table.lines())


def test_latex_is_escaped() -> None:
    rows = [{"name": "a & b_1", "value": -1234.5}, {"name": r"\x{100%}~^#$", "value": None}]
    latex = to_latex(
        of(rows, Column(title="Name_1", value="name"), Column(title="%", value="value", format=Number()))
    )
    assert r"\begin{tabular}{lr}" in latex and r"Name\_1 & \% \\" in latex
    assert r"a \& b\_1 & $-$1,234.50 \\" in latex
    assert r"\textbackslash{}x\{100\%\}\textasciitilde{}\textasciicircum{}\#\$ & -- \\" in latex


@given(st.text())
def test_no_sign_that_ends_a_drawing_or_moves_a_cursor_is_shown(text: str) -> None:
    (cell,) = of([{"name": text}], Column(title=text, value="name")).cells()[0]
    assert cell.plain == (cell.text,)
    for sign in cell.text:
        assert sign in "\t\n\r" or unicodedata.category(sign) not in ("Cc", "Cs", "Cn")


def test_headings_may_be_the_same_and_a_frame_is_as_good_as_records() -> None:
    columns = (N, N)
    table = Table(summary="s", columns=columns, rows=pl.DataFrame({"n": [1, 2]}))
    assert table.frame().columns == ["n", "n (2)"]
    assert table.texts() == of([{"n": 1}, {"n": 2}], *columns).texts()


def test_a_terminal_gets_aligned_lines() -> None:
    rows = [score(0.5, name="a"), score(12.25, None, None, name="long\nname", effective_clusters=3.0)]
    table = of(
        rows,
        Column(title="Name", value="name"),
        Column(title="Value", format=Number()),
        Column(title="", format=Interval(missing="")),
        sample_size_column("query", "library"),
    )
    assert table.lines(header=False, indent=2) == [
        "  a           0.50  [0.40, 0.60]  n = 1,200 queries, 12 libraries",
        "  long↵name  12.25                n = 1,200 queries, 12 libraries †",
    ]
    assert table.lines()[0].split() == ["Name", "Value", "Rests", "on"]
    assert of([], *table.columns).lines(header=False) == []
