"""``comparison.html``: a comparison as one file that needs no network, from its finished files."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from sonde.report._comparison.growth import growth
from sonde.report._comparison.sections import CITED, ReadComparison, parts, sentences
from sonde.report._comparison.within import read_compared
from sonde.report._drawing.clean import cleaned
from sonde.report._drawing.render import page_spec, themes, vega_runtime
from sonde.report._drawing.theme import HEAT_STEPS, MODES, MONO, SANS, SERIF, css_variables
from sonde.report._page.templates import asset, templates
from sonde.report._shared.papers import bibtex
from sonde.store.receipts import write_with_receipt
from sonde.version import __version__

PAGE = "comparison.html"


def build_comparison(directory: Path) -> Path:
    """Write ``comparison.html``.

    Returns:
        The path of the page.

    Raises:
        InputError: There is no comparison in the folder.
        StoreError: The page cannot be written.
    """
    return write_with_receipt(directory, PAGE, render(read_compared(directory)))


def render(compared: ReadComparison) -> str:
    """The page as text; every text is escaped."""
    grown = list(growth(compared.series)) if compared.series is not None else []
    made = [(part, cleaned(part.figure)) for part in (*grown, *parts(compared))]
    charts = [chart for _, figure in made for chart in figure.charts]
    return (
        templates()
        .get_template("_comparison/page.html.j2")
        .render(
            compared=compared,
            parts=made,
            sentences=list(sentences(compared)),
            specs={chart.name: page_spec(chart) for chart in charts},
            themes=themes(),
            papers={"": bibtex(CITED)},
            runtime=Markup(vega_runtime()) if charts else "",
            colours={mode: css_variables(mode) for mode in MODES},
            fonts={"sans": Markup(SANS), "serif": Markup(SERIF), "mono": Markup(MONO)},
            heat_steps=HEAT_STEPS,
            version=__version__,
            asset=asset,
        )
    )
