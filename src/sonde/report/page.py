"""The page: every plot that has something to show, in one file that needs no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import polars as pl
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from sonde.base.errors import InputError
from sonde.base.terminal import note as note_line
from sonde.languages import spelled
from sonde.report import header
from sonde.report.charts import with_model_colours
from sonde.report.comparison_page import CITED, models_compared
from sonde.report.controls import VERDICTS
from sonde.report.cross_lens import JOINED, OVER_MODELS, Joined, OverModels
from sonde.report.cross_lens import constructs_title as joined_title
from sonde.report.cross_lens import models_title as over_models_title
from sonde.report.explorer import EXPLORER, Explorer
from sonde.report.explorer import title as explorer_title
from sonde.report.export import page_spec, save_sections, themes, vega_runtime
from sonde.report.generic import PREFIX, Numbers
from sonde.report.generic import top as top_from_scores
from sonde.report.header import Facts, asked, missing
from sonde.report.headlines import first_screen, titles
from sonde.report.replication import PUBLISHED, Published
from sonde.report.replication import title as published_title
from sonde.report.run_tables import RunData
from sonde.report.section import PLOTS, Figure, Plot, Section, Title, Top
from sonde.report.text import bibtex, cleaned, reference
from sonde.report.theme import HEAT_STEPS, MODES, MONO, SANS, SERIF, asset, css_variables, templates
from sonde.results.text_format import plain_words
from sonde.stats.verdict import ENOUGH_CLUSTERS
from sonde.store.checksums import tables_must_be_intact, write_with_receipt
from sonde.store.run_folder import slug
from sonde.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class LensGroup:
    """The sections of one lens.

    Attributes:
        lens: Public name of the lens.
        name: Heading of the group.
        lead: Its finding in a sentence.
        top: What the lens says above its sections.
        sections: In their order.
        contents: Name and short title of each.
        tasks: By family the tasks that it scored, as its sections abbreviate them, with what they ask.
    """

    lens: str
    name: str
    lead: str
    top: Top | None
    sections: list[Section]
    contents: list[tuple[str, str]]
    tasks: list[tuple[str, Facts]]


def name_of(lens: str, declared: Mapping[str, Title]) -> str:
    """What a lens is called on the page."""
    return declared[lens].name if lens in declared else plain_words(lens).capitalize()


def groups_of(
    run: RunData,
    sections: Sequence[Section],
    declared: Mapping[str, Title],
    leads: Mapping[str, str],
    tops: Mapping[str, Top],
) -> list[LensGroup]:
    """The sections by lens, in the order of the first section of each; lenses without one have their lead."""
    held: dict[str, list[Section]] = {}
    for section in sections:
        held.setdefault(section.plot.lens, []).append(section)
    for lens in leads:
        held.setdefault(lens, [])
    return [
        LensGroup(
            lens=lens,
            name=name_of(lens, declared),
            lead=leads.get(lens, ""),
            top=tops.get(lens),
            sections=own,
            contents=_contents(own, name_of(lens, declared)),
            tasks=asked(run, lens),
        )
        for lens, own in held.items()
    ]


def _contents(sections: list[Section], group: str) -> list[tuple[str, str]]:
    """Where each section is, and its short name: before the colon, or after it if shared or the group's."""
    parts = [section.plot.title.partition(":") for section in sections]
    before = Counter(first for first, _, _ in parts)
    return [
        (section.name, first if before[first] == 1 and first != group else rest.strip().capitalize() or first)
        for section, (first, _, rest) in zip(sections, parts, strict=True)
    ]


_OVER_LENSES: Mapping[str, tuple[Callable[[], Plot], Title]] = {
    PUBLISHED: (Published, published_title),
    EXPLORER: (Explorer, explorer_title),
    JOINED: (Joined, joined_title),
    OVER_MODELS: (OverModels, over_models_title),
}
"""Sections about all lenses of a run, by public name, and what their groups are called."""


def _to_stderr(line: str) -> None:
    note_line(f"sonde: {line}")


def build_report(directory: Path, note: Callable[[str], None] = _to_stderr, *, figures: bool = False) -> Path:
    """Write ``report.html`` from the finished files of a run; torch is not needed.

    Args:
        directory: The folder of the run; ``run.json`` has to be there, all else may be missing.
        note: Takes a line for each figure that could not be drawn.
        figures: Whether `save_figures` writes every chart and table as files too.

    Returns:
        The path of the page.

    Raises:
        InputError: There is no run in the folder.
        StoreError: A table of the run is damaged, or the page or a figure cannot be written.
    """
    run = RunData(directory)
    tables_must_be_intact(directory)
    sections = draw_all(run)
    # What is drawn apart may fail: the page stands by then.
    files = run.directory
    write_with_receipt(files.root, files.report.name, render(run, sections), files.page_key())
    if figures:
        save_sections(directory / "figures", sections, note)
    return run.directory.report


def save_figures(
    directory: Path, names: Sequence[str] = (), note: Callable[[str], None] = _to_stderr
) -> list[Path]:
    """Write charts as SVG, PDF and PNG and tables as CSV and LaTeX into ``figures/`` of a run.

    Args:
        directory: The folder of the run.
        names: Sections by the name of their plot, or single charts by theirs; all where none is named.
        note: Takes a line for each figure that could not be drawn.

    Returns:
        The files.

    Raises:
        InputError: There is no run in the folder, or a name is of nothing that it shows.
        StoreError: A file cannot be written.
    """
    return save_sections(directory / "figures", _named(draw_all(RunData(directory)), names, directory), note)


def _named(sections: list[Section], names: Sequence[str], directory: Path) -> list[Section]:
    """The sections and charts of these names; a chart that is named alone comes without its table."""
    if not names:
        return sections
    by_name: dict[str, Section] = {}
    for section in sections:
        for chart in section.figure.charts:
            by_name[chart.name] = replace(section, figure=Figure(charts=[chart]))
        for drawing in section.figure.drawings:
            by_name[drawing.name] = replace(section, figure=Figure(drawings=[drawing]))
    by_name |= {section.name: section for section in sections}
    for name in names:
        if name not in by_name:
            near = "".join(f"; did you mean {one!r}?" for one in get_close_matches(name, by_name, 1))
            raise InputError(f"{directory} shows no section or chart {name!r}{near}")
    return [by_name[name] for name in dict.fromkeys(names)]


def draw_all(run: RunData) -> list[Section]:
    """Every registered plot with something to show, in order; a lens without any has all its numbers."""
    drawn = [section for name in PLOTS.names() if (section := draw(run, name))]
    shown = {section.plot.lens for section in drawn}
    rest = (draw(run, f"{PREFIX}{lens}") for lens in run.scored_lenses if lens not in shown)
    over = [section for name in _OVER_LENSES if (section := draw(run, name))]
    found = [*over, *drawn, *(section for section in rest if section)]
    return sorted(found, key=lambda section: (section.plot.order, section.name))


def draw(run: RunData, name: str) -> Section | None:
    """One plot, or None where the run has nothing to show for it; here alone texts are made fit for figures.

    Args:
        run: The run.
        name: Public name of a plot, ``explorer`` for single functions, ``joined`` for constructs over lenses,
            ``over_models`` for models over lenses, or ``numbers_LENS`` for all numbers of any lens.

    Raises:
        UnknownNameError: No plot has this name.
    """
    lens = name.removeprefix(PREFIX)
    of_lens = name.startswith(PREFIX) and lens in run.scored_lenses
    over = _OVER_LENSES.get(name)
    plot = Numbers(lens) if of_lens else over[0]() if over else PLOTS.load(name)
    # Tests hold every chart of sonde against the schema; a plot of one's own is held against it here.
    with debug_mode(name.endswith(".py")):
        figure = plot.draw(run)
    if figure is None:
        return None
    labels = [model.label for model in run.models]
    scored = set(run.every_score.filter(pl.col("lens") == plot.lens)["model"])
    only = next((place for place, model in enumerate(run.models) if scored == {model.name}), 0)
    charts = [with_model_colours(chart, labels, only) for chart in figure.charts]
    return Section(name=slug(name), plot=plot, figure=cleaned(replace(figure, charts=charts)))


def render(run: RunData, sections: list[Section]) -> str:
    """The page as text; every text of the run is escaped."""
    compared = models_compared(run)
    figures = [*(section.figure for section in sections), *(figure for _, figure in compared)]
    charts = [chart for figure in figures for chart in figure.charts]
    declared = titles(run)
    tops = {lens: top for lens, title in declared.items() if (top := title.top(run))}
    titled, top = next(iter(tops.items()), (None, None))
    if top is None and sections and all(isinstance(section.plot, Numbers) for section in sections):
        # The title says the sentences of this section; they are not said again.
        first, *others = sections
        titled, top = first.plot.lens, top_from_scores(run, first.plot.lens)
        sections = [
            replace(first, figure=replace(first.figure, answer="" if top else first.figure.answer)),
            *others,
        ]
        tops = {titled: top} if top else {}
    said = [
        (section.plot.lens, section.figure.lead)
        for section in sections
        if section.plot.lens != titled or not isinstance(section.plot, Numbers)
    ]
    leads = header.leads(run, said, titled)
    named = {**declared, **{name: title for name, (_, title) in _OVER_LENSES.items()}}
    groups = groups_of(run, sections, named, leads, tops)
    shown = first_screen(run)
    order = {group.lens: place for place, group in enumerate(groups)}
    shown.sort(key=lambda answer: order.get(answer.lens, len(order)))
    method = header.method_facts(run, list(declared.values()), top.intervals if top else "")
    cited = {lens: title.cites for lens, title in declared.items() if title.cites}
    if compared:
        cited["compared"] = CITED
    every = [key for keys in cited.values() for key in keys]
    return (
        templates()
        .get_template("templates/page.html.j2")
        .render(
            run=run,
            groups=groups,
            compared=compared,
            # One lens has the head of the page for itself.
            alone=len(run.scored_lenses) < 2 and top is not None,
            headline=_headline(run, top, leads),
            top=top,
            answers=shown,
            verdicts=VERDICTS,
            kinds=[kind for kind in VERDICTS if any(answer.kind == kind for answer in shown)],
            names={lens: name_of(lens, declared) for lens in run.scored_lenses},
            explained=[
                *header.copies_said(run),
                *(
                    title.explained
                    for lens, title in declared.items()
                    if title.explained and any(section.plot.lens == lens for section in sections)
                ),
            ],
            corpora=header.corpus_facts(run),
            glance=header.glance(run, method),
            models=header.model_facts(run),
            method=method,
            missing=missing(run),
            rerun=header.rerun(run),
            references=[reference(key) for key in dict.fromkeys(every)],
            bibtex=bibtex(every),
            papers={lens: bibtex(keys) for lens, keys in cited.items()} | {"": bibtex(every)},
            min_clusters=ENOUGH_CLUSTERS,
            specs={chart.name: page_spec(chart) for chart in charts},
            themes=themes(),
            scripts=dict.fromkeys(
                script
                for section in sections
                if section.figure.embed
                for script in section.figure.embed.scripts
            ),
            runtime=Markup(vega_runtime()) if charts else "",
            colours={mode: css_variables(mode) for mode in MODES},
            fonts={"sans": Markup(SANS), "serif": Markup(SERIF), "mono": Markup(MONO)},
            heat_steps=HEAT_STEPS,
            version=__version__,
            asset=asset,
        )
    )


def _headline(run: RunData, top: Top | None, leads: Mapping[str, str]) -> str:
    """The first line of the page: of a lens alone what it leads with, else what the page is about."""
    if top and len(run.scored_lenses) < 2:
        return top.headline
    if not run.scored_lenses:
        return next(iter(leads.values()), "")
    names = [model.label for model in run.models]
    who = _listed(names) if len(names) <= 3 else f"{len(names)} models"
    what = _listed([spelled(plain_words(language)) for language in run.languages]) or "code"
    return f"What {who} know{'s' * (len(names) == 1)} of {what}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
