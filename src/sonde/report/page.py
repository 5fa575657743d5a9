"""The HTML report of a run: every section with something to show, in one file that needs no network.

The module groups sections by lens and builds the contents, the top and the foot of the report; it also saves
the tables that come with it.
"""

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
from sonde.base.formatting import format_name
from sonde.base.terminal import print_note as note_line
from sonde.languages import format_language
from sonde.report import generic, header
from sonde.report.charts import with_model_colours
from sonde.report.comparison_page import CITATIONS, build_run_comparison
from sonde.report.cross_lens import CROSS_LENS, OVER_MODELS, constructs_plot, models_plot
from sonde.report.explorer import EXPLORER, TokenExplorer
from sonde.report.explorer import title as explorer_title
from sonde.report.export import build_vega_themes, load_vega_runtime, save_sections, to_page_spec
from sonde.report.header import Facts, describe_tasks, list_missing_results
from sonde.report.headlines import answer_by_lens, load_titles
from sonde.report.replication import REPLICATION, ReplicationSection
from sonde.report.replication import title as published_title
from sonde.report.run_tables import RunData
from sonde.report.section import PLOTS, Figure, LensTitle, PageHeader, Plot, Section
from sonde.report.text import format_bibtex, format_reference, sanitise_figure
from sonde.report.theme import (
    HEAT_STEPS,
    MODES,
    MONO,
    SANS,
    SERIF,
    build_css_variables,
    load_asset,
    load_templates,
)
from sonde.results.headlines import VERDICTS
from sonde.stats.verdict import MIN_CLUSTERS
from sonde.store.checksums import check_tables_intact, write_with_receipt
from sonde.store.run_folder import slug
from sonde.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class LensGroup:
    """The sections of one lens.

    Attributes:
        lens: Public name of the lens.
        name: Heading of the group.
        question: What the lens asks a model, in a sentence.
        lead: Its finding in a sentence.
        top: What the lens says above its sections.
        sections: In their order.
        contents: Name and short title of each.
        tasks: By family the tasks that it scored, as its sections abbreviate them, with what they ask.
    """

    lens: str
    name: str
    question: str
    lead: str
    top: PageHeader | None
    sections: list[Section]
    contents: list[tuple[str, str]]
    tasks: list[tuple[str, Facts]]


def get_lens_name(lens: str, declared: Mapping[str, LensTitle]) -> str:
    """What a lens is called on the page."""
    return declared[lens].name if lens in declared else format_name(lens).capitalize()


def group_sections(
    run: RunData,
    sections: Sequence[Section],
    declared: Mapping[str, LensTitle],
    leads: Mapping[str, str],
    tops: Mapping[str, PageHeader],
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
            name=get_lens_name(lens, declared),
            question=declared[lens].question if lens in declared else "",
            lead=leads.get(lens, ""),
            top=tops.get(lens),
            sections=own,
            contents=_build_contents(own, get_lens_name(lens, declared)),
            tasks=describe_tasks(run, lens),
        )
        for lens, own in held.items()
    ]


def _build_contents(sections: list[Section], group: str) -> list[tuple[str, str]]:
    """Where each section is, and its short name: before the colon, or after it if shared or the group's."""
    parts = [section.plot.title.partition(":") for section in sections]
    before = Counter(first for first, _, _ in parts)
    return [
        (section.name, first if before[first] == 1 and first != group else rest.strip().capitalize() or first)
        for section, (first, _, rest) in zip(sections, parts, strict=True)
    ]


_OVER_LENSES: Mapping[str, tuple[Plot, LensTitle]] = {
    REPLICATION: (ReplicationSection(), published_title),
    EXPLORER: (TokenExplorer(), explorer_title),
    CROSS_LENS: (constructs_plot, LensTitle(name="Constructs over lenses")),
    OVER_MODELS: (models_plot, LensTitle(name="Models over lenses")),
}
"""Sections about all lenses of a run, by public name, and what their groups are called."""


def _print_note(line: str) -> None:
    note_line(f"sonde: {line}")


def write_report(
    directory: Path, note: Callable[[str], None] = _print_note, *, figures: bool = False
) -> Path:
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
    check_tables_intact(directory)
    sections = build_sections(run)
    # What is drawn apart may fail: the page stands by then.
    files = run.directory
    write_with_receipt(files.root, files.report.name, render_page(run, sections), files.page_key())
    if figures:
        save_sections(directory / "figures", sections, note)
    return run.directory.report


def save_figures(
    directory: Path, names: Sequence[str] = (), note: Callable[[str], None] = _print_note
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
    return save_sections(
        directory / "figures", _select_sections(build_sections(RunData(directory)), names, directory), note
    )


def _select_sections(sections: list[Section], names: Sequence[str], directory: Path) -> list[Section]:
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


def build_sections(run: RunData) -> list[Section]:
    """Every registered plot with something to show, in order; a lens without any has all its numbers."""
    drawn = [section for name in PLOTS.names() if (section := build_section(run, name))]
    shown = {section.plot.lens for section in drawn}
    rest = (build_section(run, f"{generic.PREFIX}{lens}") for lens in run.scored_lenses if lens not in shown)
    over = [section for name in _OVER_LENSES if (section := build_section(run, name))]
    found = [*over, *drawn, *(section for section in rest if section)]
    return sorted(found, key=lambda section: (section.plot.order, section.name))


def build_section(run: RunData, name: str) -> Section | None:
    """One plot, or None where the run has nothing to show for it; here alone texts are made fit for figures.

    Args:
        run: The run.
        name: Public name of a plot, ``explorer`` for single functions, ``joined`` for constructs over lenses,
            ``over_models`` for models over lenses, or ``numbers_LENS`` for all numbers of any lens.

    Raises:
        UnknownNameError: No plot has this name.
    """
    lens = name.removeprefix(generic.PREFIX)
    of_lens = name.startswith(generic.PREFIX) and lens in run.scored_lenses
    over = _OVER_LENSES.get(name)
    plot = generic.build_section(lens) if of_lens else over[0] if over else PLOTS.load(name)
    # Tests hold every chart of sonde against the schema; a plot of one's own is held against it here.
    with debug_mode(name.endswith(".py")):
        figure = plot.draw(run)
    if figure is None:
        return None
    labels = [model.label for model in run.models]
    scored = set(run.every_score.filter(pl.col("lens") == plot.lens)["model"])
    only = next((place for place, model in enumerate(run.models) if scored == {model.name}), 0)
    charts = [with_model_colours(chart, labels, only) for chart in figure.charts]
    return Section(name=slug(name), plot=plot, figure=sanitise_figure(replace(figure, charts=charts)))


def _is_generic(section: Section) -> bool:
    return section.name == slug(f"{generic.PREFIX}{section.plot.lens}")


def render_page(run: RunData, sections: list[Section]) -> str:
    """The page as text; every text of the run is escaped."""
    compared = build_run_comparison(run)
    figures = [*(section.figure for section in sections), *(figure for _, figure in compared)]
    charts = [chart for figure in figures for chart in figure.charts]
    declared = load_titles(run)
    tops = {lens: top for lens, title in declared.items() if (top := title.top(run))}
    titled, top = next(iter(tops.items()), (None, None))
    if top is None and sections and all(map(_is_generic, sections)):
        # The title says the sentences of this section; they are not said again.
        first, *others = sections
        titled, top = first.plot.lens, generic.build_page_header(run, first.plot.lens)
        sections = [
            replace(first, figure=replace(first.figure, answer="" if top else first.figure.answer)),
            *others,
        ]
        tops = {titled: top} if top else {}
    said = [
        (section.plot.lens, section.figure.lead)
        for section in sections
        if section.plot.lens != titled or not _is_generic(section)
    ]
    leads = header.summarise_lenses(run, said, titled)
    named = {**declared, **{name: title for name, (_, title) in _OVER_LENSES.items()}}
    groups = group_sections(run, sections, named, leads, tops)
    shown = answer_by_lens(run)
    order = {group.lens: place for place, group in enumerate(groups)}
    shown.sort(key=lambda answer: order.get(answer.lens, len(order)))
    method = header.describe_method(run, list(declared.values()), top.intervals if top else "")
    cited = {lens: title.cites for lens, title in declared.items() if title.cites}
    if compared:
        cited["compared"] = CITATIONS
    every = [key for keys in cited.values() for key in keys]
    return (
        load_templates()
        .get_template("templates/page.html.j2")
        .render(
            run=run,
            groups=groups,
            compared=compared,
            # One lens has the head of the page for itself.
            alone=len(run.scored_lenses) < 2 and top is not None,
            headline=_format_headline(run, top, leads),
            top=top,
            answers=shown,
            verdicts=VERDICTS,
            kinds=[kind for kind in VERDICTS if any(answer.kind == kind for answer in shown)],
            titles={
                lens: declared.get(lens, LensTitle(name=get_lens_name(lens, declared)))
                for lens in run.scored_lenses
            },
            explained=[
                *header.describe_near_copies(run),
                *(
                    title.method_text
                    for lens, title in declared.items()
                    if title.method_text and any(section.plot.lens == lens for section in sections)
                ),
            ],
            corpora=header.describe_corpora(run),
            glance=header.list_key_settings(run, method),
            models=header.describe_models(run),
            method=method,
            missing=list_missing_results(run),
            rerun=header.format_rerun_command(run),
            references=[format_reference(key) for key in dict.fromkeys(every)],
            bibtex=format_bibtex(every),
            papers={lens: format_bibtex(keys) for lens, keys in cited.items()} | {"": format_bibtex(every)},
            min_clusters=MIN_CLUSTERS,
            specs={chart.name: to_page_spec(chart) for chart in charts},
            themes=build_vega_themes(),
            scripts=dict.fromkeys(
                script
                for section in sections
                if section.figure.embed
                for script in section.figure.embed.scripts
            ),
            runtime=Markup(load_vega_runtime()) if charts else "",
            colours={mode: build_css_variables(mode) for mode in MODES},
            fonts={"sans": Markup(SANS), "serif": Markup(SERIF), "mono": Markup(MONO)},
            heat_steps=HEAT_STEPS,
            version=__version__,
            asset=load_asset,
        )
    )


def _format_headline(run: RunData, top: PageHeader | None, leads: Mapping[str, str]) -> str:
    """The first line of the page: of a lens alone what it leads with, else what the page is about."""
    if top and len(run.scored_lenses) < 2:
        return top.headline
    if not run.scored_lenses:
        return next(iter(leads.values()), "")
    names = [model.label for model in run.models]
    who = _join_names(names) if len(names) <= 3 else f"{len(names)} models"
    what = _join_names([format_language(format_name(language)) for language in run.languages]) or "code"
    return f"What {who} know{'s' * (len(names) == 1)} of {what}"


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
