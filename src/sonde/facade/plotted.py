"""One section of a run's page, for a notebook or a script: its finding, charts and table."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from markupsafe import Markup

from sonde.base.errors import InputError
from sonde.report import PLOTS, Chart, Drawing, RunData, Section, as_svg, draw, sized_spec

if TYPE_CHECKING:
    import altair as alt

    AnyChart = (
        alt.Chart | alt.LayerChart | alt.FacetChart | alt.ConcatChart | alt.HConcatChart | alt.VConcatChart
    )


@dataclass(frozen=True, slots=True, eq=False)
class Plotted:
    """A section of the page.

    Attributes:
        section: The plot and its figure: ``section.figure.answer`` is the finding in words, ``notes`` its
            limits.
    """

    section: Section

    @property
    def title(self) -> str:
        """Its heading."""
        return self.section.plot.title

    @property
    def charts(self) -> list[AnyChart]:
        """Its charts as altair has them, to be changed, combined or saved; drawings are in `svgs` alone.

        They have no colours of their own, since altair combines no charts that do; an image in the notebook
        and `svgs` have those of the page.
        """
        return [_altair(sized_spec(chart)) for chart in self.section.figure.charts]

    @property
    def svgs(self) -> list[str]:
        """Its charts and drawings as SVG, drawn here and without a network."""
        return [as_svg(one) for one in (*self.section.figure.charts, *self.section.figure.drawings)]

    @property
    def table(self) -> pl.DataFrame | None:
        """Its table with numbers as numbers, an interval as two columns; None where it has none."""
        table = self.section.figure.table
        return None if table is None else table.frame()

    def __repr__(self) -> str:
        return f"<{self.section.name}: {self.title}>"

    def _repr_html_(self) -> str:
        figure = self.section.figure
        parts = [
            Markup("<h3>{}</h3>").format(self.title),
            Markup("<p>{}</p>").format(figure.answer),
            *(image(one) for one in (*figure.charts, *figure.drawings)),
            Markup("<p><small>{}</small></p>").format(self.section.plot.caption),
            *(Markup("<p><small>{}</small></p>").format(note) for note in figure.notes),
        ]
        return str(Markup("<div>{}</div>").format(Markup("").join(parts)))


def plotted(run: RunData, name: str) -> Plotted:
    """A section of a run by the name of its plot.

    Raises:
        UnknownNameError: No plot has this name.
        InputError: The run has nothing to show for it.
    """
    section = draw(run, name)
    if section is None:
        of = f" (lens {PLOTS.load(name).lens!r})" if name in PLOTS.names() else ""
        raise InputError(f"plot {name!r}: {run.directory.root} has nothing to show for it{of}")
    return Plotted(section)


def _altair(spec: dict[str, Any]) -> AnyChart:
    """A specification as altair's class for it; the charts of the page are valid, so none is looked for."""
    import altair as alt

    compound: dict[str, type[AnyChart]] = {
        "layer": alt.LayerChart,
        "facet": alt.FacetChart,
        "concat": alt.ConcatChart,
        "hconcat": alt.HConcatChart,
        "vconcat": alt.VConcatChart,
    }
    kind = next((kind for name, kind in compound.items() if name in spec), alt.Chart)
    return kind.from_dict(spec, validate=False)


def image(figure: Chart | Drawing) -> Markup:
    """A chart as an image, which runs no script and whose ids meet no others on the page of a notebook."""
    try:
        svg = as_svg(figure)
    except (ValueError, RuntimeError):
        return Markup("<p>{} could not be drawn.</p>").format(figure.title)
    data = base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")
    return Markup('<p><img alt="{}" src="data:image/svg+xml;base64,{}"></p>').format(figure.title, data)
