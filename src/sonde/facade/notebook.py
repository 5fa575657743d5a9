"""A run as a notebook shows it: what the terminal prints of each lens, and one chart."""

from __future__ import annotations

from markupsafe import Markup

from sonde.experiments.headline import headline
from sonde.facade.plotted import image
from sonde.report import PLOTS, Chart, RunData, draw, first_screen


def run_html(title: str, run: RunData) -> str:
    """HTML that needs no network; every text of the run is escaped.

    Args:
        title: The first line.
        run: The run.
    """
    lines = ["no scores yet"]
    if run.directory.holds(run.directory.scores):
        lines = [*(answer.line() for answer in first_screen(run)), *headline(run.directory.scores)]
    chart = first_chart(run)
    return str(
        Markup("<div><p><strong>{}</strong></p><pre>{}</pre>{}</div>").format(
            title, "\n".join(lines).strip("\n"), image(chart) if chart else ""
        )
    )


def first_chart(run: RunData) -> Chart | None:
    """The chart that stands first on the page; None where there is none."""
    lenses = run.scored_lenses
    plots = [(PLOTS.load(name), name) for name in PLOTS.names()]
    wanted = sorted((plot.order, name) for plot, name in plots if plot.lens in lenses)
    # A lens without a plot has the chart of its numbers.
    names = [*(name for _, name in wanted), *(f"numbers_{lens}" for lens in lenses)]
    sections = (draw(run, name) for name in names)
    return next((section.figure.charts[0] for section in sections if section and section.figure.charts), None)
