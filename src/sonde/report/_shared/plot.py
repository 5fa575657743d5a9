"""What a plot answers, and what it hands to the page: charts, drawings, a table, notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from sonde.base.registry import Registry
from sonde.report._shared.run import RunData
from sonde.results.tables import Table


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
class Drawing:
    """A finished SVG whose colours may be ``var(--name, #rrggbb)``, and its description for a reader."""

    name: str
    title: str
    svg: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
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
    """What one plot shows.

    Attributes:
        lead: The finding in one sentence for the top of the page; one section a lens has one, or none.
        answer: The finding in words with its numbers; one line a model or language.
        charts: Charts side by side.
        drawings: Pictures that are not charts.
        table: The numbers behind the charts.
        notes: Limits a reader has to know, one sentence each.
        embed: An interactive part.
    """

    lead: str = ""
    answer: str = ""
    charts: Sequence[Chart] = ()
    drawings: Sequence[Drawing] = ()
    table: Table | None = None
    notes: Sequence[str] = ()
    embed: Embed | None = None


@runtime_checkable
class Plot(Protocol):
    """A section of the page; each file of a lens's folder defines one as ``plot``."""

    @property
    def title(self) -> str:
        """Heading of the section."""
        ...

    @property
    def lens(self) -> str:
        """Public name of the lens whose results it shows."""
        ...

    @property
    def order(self) -> int:
        """Place on the page, ascending."""
        ...

    @property
    def caption(self) -> str:
        """How to read it: what is drawn, in which unit, and what the interval is."""
        ...

    def draw(self, run: RunData) -> Figure | None:
        """The figure, or None where the run has nothing to show for it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A plot that had something to show."""

    name: str
    plot: Plot
    figure: Figure


PLOTS: Registry[Plot] = Registry("sonde.report", "plot", "plot", protocols=(Plot,), folders=True)
