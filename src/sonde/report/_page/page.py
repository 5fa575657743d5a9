"""The page: every plot that has something to show, in one file that needs no network."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

import sonde
from sonde.base.files import write_atomic
from sonde.report._any_lens.section import PREFIX, Numbers
from sonde.report._any_lens.section import top as top_from_scores
from sonde.report._drawing.clean import cleaned
from sonde.report._drawing.render import page_spec, themes, vega_runtime, write_figures
from sonde.report._drawing.theme import HEAT_STEPS, MODES, MONO, SANS, SERIF, css_variables
from sonde.report._page import header
from sonde.report._page.export import write_table
from sonde.report._page.terms import with_terms
from sonde.report._shared.plot import PLOTS, Chart, Drawing, Figure, Plot
from sonde.report._shared.run import RunData
from sonde.report._shared.title import titles
from sonde.results.verdict import ENOUGH_CLUSTERS
from sonde.store.rundir import slug


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A plot that had something to show."""

    name: str
    plot: Plot
    figure: Figure


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"sonde: {line}\n")


def build_report(directory: Path, note: Callable[[str], None] = _to_stderr) -> Path:
    """Write ``report.html`` and ``figures/`` from the finished files of a run; torch is not needed.

    Args:
        directory: The folder of the run; ``run.json`` has to be there, all else may be missing.
        note: Takes a line for each figure that could not be drawn.

    Returns:
        The path of the page.

    Raises:
        InputError: There is no run in the folder.
        StoreError: The page or a figure cannot be written.
    """
    run = RunData(directory)
    sections = draw_all(run)
    # What is drawn apart may fail: the page stands by then.
    write_atomic(run.directory.report, render(run, sections))
    for section in sections:
        if section.figure.table:
            write_table(directory / "figures" / section.name, section.figure.table)
    charts: list[Chart] = [chart for section in sections for chart in section.figure.charts]
    drawings: list[Drawing] = [drawing for section in sections for drawing in section.figure.drawings]
    for line in write_figures(directory / "figures", charts, drawings):
        note(line)
    return run.directory.report


def draw_all(run: RunData) -> list[Section]:
    """Every registered plot with something to show, in order; a lens without any has all its numbers."""
    drawn = [section for name in PLOTS.names() if (section := draw(run, name))]
    shown = {section.plot.lens for section in drawn}
    rest = (draw(run, f"{PREFIX}{lens}") for lens in run.scored_lenses if lens not in shown)
    found = [*drawn, *(section for section in rest if section)]
    return sorted(found, key=lambda section: (section.plot.order, section.name))


def draw(run: RunData, name: str) -> Section | None:
    """One plot, or None where the run has nothing to show for it; here alone texts are made fit for figures.

    Args:
        run: The run.
        name: Public name of a plot, or ``numbers_LENS`` for all numbers of any lens of the run.

    Raises:
        UnknownNameError: No plot has this name.
    """
    lens = name.removeprefix(PREFIX)
    of_lens = name.startswith(PREFIX) and lens in run.scored_lenses
    plot = Numbers(lens) if of_lens else PLOTS.load(name)
    figure = plot.draw(run)
    return Section(name=slug(name), plot=plot, figure=cleaned(figure)) if figure else None


def render(run: RunData, sections: list[Section]) -> str:
    """The page as text; every text of the run is escaped."""
    charts = [chart for section in sections for chart in section.figure.charts]
    declared = titles(run)
    tops = {lens: title.top(run) for lens, title in declared.items()}
    titled, top = next(((lens, top) for lens, top in tops.items() if top), (None, None))
    if top is None and sections and all(isinstance(section.plot, Numbers) for section in sections):
        # The title says the sentences of this section; they are not said again.
        first, *others = sections
        titled, top = first.plot.lens, top_from_scores(run, first.plot.lens)
        sections = [
            replace(first, figure=replace(first.figure, answer="" if top else first.figure.answer)),
            *others,
        ]
    method = header.method_facts(run, list(declared.values()), top.intervals if top else "")
    said = [
        (section.plot.lens, section.figure.lead)
        for section in sections
        if section.plot.lens != titled or not isinstance(section.plot, Numbers)
    ]
    return (
        templates()
        .get_template("_page/page.html.j2")
        .render(
            run=run,
            sections=sections,
            contents=_contents(sections),
            top=top,
            leads=header.leads(run, said, titled),
            explained=[
                title.explained
                for lens, title in declared.items()
                if title.explained and any(section.plot.lens == lens for section in sections)
            ],
            corpora=header.corpus_facts(run),
            glance=header.glance(run, method),
            models=header.model_facts(run),
            method=method,
            rerun=header.rerun(run),
            min_clusters=ENOUGH_CLUSTERS,
            specs={chart.name: page_spec(chart) for chart in charts},
            themes=themes(),
            scripts=dict.fromkeys(
                section.figure.embed.script
                for section in sections
                if section.figure.embed and section.figure.embed.script
            ),
            runtime=Markup(vega_runtime()) if charts else "",
            colours={mode: css_variables(mode) for mode in MODES},
            fonts={"sans": Markup(SANS), "serif": Markup(SERIF), "mono": Markup(MONO)},
            heat_steps=HEAT_STEPS,
            version=sonde.__version__,
            asset=asset,
        )
    )


def templates() -> Environment:
    """The templates of this package; all texts are escaped."""
    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["json"] = embedded_json
    environment.filters["terms"] = with_terms
    return environment


def _contents(sections: list[Section]) -> list[tuple[str, str]]:
    """Where each section is, and its short name: what stands before the colon, or after it if shared."""
    parts = [section.plot.title.partition(":") for section in sections]
    before = Counter(first for first, _, _ in parts)
    return [
        (section.name, first if before[first] == 1 else rest.strip().capitalize() or first)
        for section, (first, _, rest) in zip(sections, parts, strict=True)
    ]


def embedded_json(value: Any) -> Markup:
    r"""JSON that may stand in a script element: no character of it can end the element or open a comment.

    >>> print(embedded_json("</script><!-- & -->"))
    "\u003c/script\u003e\u003c!-- \u0026 --\u003e"
    """
    text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def _finite(value: Any) -> Any:
    """The value with null for every number that JSON cannot hold."""
    if isinstance(value, Mapping):
        return {key: _finite(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _template(name: str) -> str:
    return (files("sonde.report") / name).read_text(encoding="utf-8")


def asset(name: str) -> Markup:
    """A style sheet or script of this package, as it is."""
    return Markup(_template(name))
