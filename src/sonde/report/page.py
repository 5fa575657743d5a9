"""The HTML report of a run: every section with something to show, in one file that needs no network.

The module groups sections by lens and builds the contents, the top and the foot of the report; it also saves
the tables that come with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from altair.utils.schemapi import debug_mode

from sonde.base.errors import UsageError, build_listing_error
from sonde.base.formatting import format_name, join_names
from sonde.base.terminal import print_note as note_line
from sonde.languages import format_language
from sonde.report import explorer, generic, header, replication
from sonde.report.charts import with_model_colours
from sonde.report.comparison_page import CITATIONS, build_run_comparison
from sonde.report.cross_lens import CROSS_LENS, OVER_MODELS, constructs_plot, models_plot
from sonde.report.explorer import EXPLORER
from sonde.report.export import NamedFigure, render_template
from sonde.report.export import save_figures as write_files
from sonde.report.header import describe_tasks, list_missing_results
from sonde.report.headlines import LensAnswer, answer_by_lens, answer_by_task, load_titles
from sonde.report.replication import REPLICATION
from sonde.report.run_summary import describe_model_differences
from sonde.report.run_tables import RunData
from sonde.report.section import PLOTS, Figure, LensTitle, PageHeader, Plot, Section
from sonde.report.tables import (
    HEADLINES,
    build_dimension_table,
    build_headline_table,
    list_dimensions,
)
from sonde.report.text import format_bibtex, format_reference, sanitise_figure
from sonde.results.headlines import VERDICTS
from sonde.results.tables import Column, Table
from sonde.results.text_format import format_mark_legend
from sonde.stats.verdict import MIN_CLUSTERS
from sonde.store.checksums import check_tables_intact, write_with_receipt
from sonde.store.run_folder import slug


def _get_lens_name(lens: str, titles: Mapping[str, LensTitle]) -> str:
    """Return the heading of a lens on the page."""
    return titles[lens].name if lens in titles else format_name(lens).capitalize()


def _group_sections(
    run: RunData,
    sections: Sequence[Section],
    titles: Mapping[str, LensTitle],
    leads: Mapping[str, str],
    headers: Mapping[str, PageHeader],
) -> list[dict[str, Any]]:
    """Group sections by lens, in their order; lenses without a section, which have a lead, come last."""
    groups: dict[str, list[Section]] = {}
    for section in sections:
        groups.setdefault(section.plot.lens, []).append(section)
    return [
        {
            "lens": lens,
            "name": _get_lens_name(lens, titles),
            "question": titles[lens].question if lens in titles else "",
            "lead": leads.get(lens, ""),
            "top": headers.get(lens),
            "sections": groups.get(lens, []),
            "contents": _build_contents(groups.get(lens, []), _get_lens_name(lens, titles)),
            "tasks": describe_tasks(run, lens),
        }
        for lens in dict.fromkeys([*groups, *leads])
    ]


def _build_contents(sections: list[Section], group: str) -> list[tuple[str, str]]:
    """Return the name and short title of each section.

    The short title is that before the colon, or after it if several sections share the first or it is the
    group's.
    """
    parts = [section.plot.title.partition(":") for section in sections]
    counts = Counter(first for first, _, _ in parts)
    return [
        (section.name, first if counts[first] == 1 and first != group else rest.strip().capitalize() or first)
        for section, (first, _, rest) in zip(sections, parts, strict=True)
    ]


_OVER_LENSES: Mapping[str, tuple[Plot, LensTitle]] = {
    REPLICATION: (replication.plot, replication.title),
    EXPLORER: (explorer.plot, explorer.title),
    CROSS_LENS: (constructs_plot, LensTitle(name="Constructs over lenses")),
    OVER_MODELS: (models_plot, LensTitle(name="Models over lenses")),
}
"""Sections about all lenses of a run, by public name, and the titles of their groups."""


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
        write_files(directory / "figures", _list_figures(run, sections), note)
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
    figures = list_figures(RunData(directory))
    return write_files(directory / "figures", _select_figures(figures, names), note)


def list_figures(run: RunData) -> list[NamedFigure]:
    """Build all charts, drawings and tables of the page, under the names of their files."""
    return _list_figures(run, build_sections(run))


def _list_figures(run: RunData, sections: Sequence[Section]) -> list[NamedFigure]:
    """List the figures of sections and what the page has outside them, see `_list_other_tables`."""
    return [
        *(NamedFigure(section.name, section.figure) for section in sections),
        *(NamedFigure(name, Figure(table=table)) for name, table in _list_other_tables(run).items()),
        *(NamedFigure(section.name, section.figure) for section in build_run_comparison(run)),
    ]


def _list_other_tables(run: RunData) -> dict[str, Table]:
    """List the tables outside sections: the headlines, overall numbers, and what was not scored."""
    tables: dict[str, Table] = {}
    if answer_by_task(run):
        tables[HEADLINES] = build_headline_table(run)
    for lens, title in load_titles(run).items():
        top = title.top(run)
        if top is not None and top.table is not None:
            name = f"{lens}_overall"
            tables[slug(name)] = top.table
    if missing := list_missing_results(run):
        titles = {"what": "What", "why": "Why", "remedy": "What to do"}
        tables["not_scored"] = Table(
            summary="What was not scored",
            columns=[Column(title=title, value=name) for name, title in titles.items()],
            rows=[{name: getattr(result, name) for name in titles} for result in missing],
        )
    return tables


def _select_figures(figures: list[NamedFigure], names: Sequence[str]) -> list[NamedFigure]:
    """Select sections and charts by name; a chart selected by its own name comes without its table."""
    if not names:
        return figures
    by_name: dict[str, NamedFigure] = {}
    for section in figures:
        for chart in section.figure.charts:
            by_name[chart.name] = NamedFigure(section.name, Figure(charts=[chart]))
        for image in section.figure.drawings:
            by_name[image.name] = NamedFigure(section.name, Figure(drawings=[image]))
    by_name |= {section.name: section for section in figures}
    for name in names:
        if name not in by_name:
            raise build_listing_error("section or chart of this run", name, by_name)
    return [by_name[name] for name in dict.fromkeys(names)]


def list_tables(run: RunData, figures: Sequence[NamedFigure] | None = None) -> dict[str, str]:
    """List the names that `build_table` takes, each with what it names.

    Args:
        run: The run.
        figures: What `list_figures` returns, where it is at hand.
    """
    lenses = dict.fromkeys((answer.lens for answer in answer_by_task(run)), "lens")
    names = {HEADLINES: "table", **lenses} if lenses else {}
    figures = list_figures(run) if figures is None else figures
    names |= {figure.name: "table" for figure in figures if figure.figure.table is not None}
    return names | dict.fromkeys(list_dimensions(run), "dimension")


def build_table(run: RunData, name: str = "", metric: str = "") -> Table:
    """Build a table of models by metrics with intervals and differences, or a table of the page.

    Args:
        run: The run.
        name: A dimension of its scores (``"construct"``, ``"layer"``), one of its lenses, or the name of a
            table of the page; empty for the headlines of all lenses.
        metric: Only numbers of this metric; empty for all.

    Raises:
        UnknownNameError: The run has no such table or metric; those that it has are listed.
        UsageError: A metric is given for a table of the page.
        InputError: The run has no scores.
    """
    if name in list_dimensions(run):
        return build_dimension_table(run, name, metric)
    if name in ("", HEADLINES, *run.scored_lenses):
        return build_headline_table(run, "" if name == HEADLINES else name, metric)
    table = _find_table(run, name)
    if table is None:
        raise build_listing_error("table of this run", name, list_tables(run))
    if metric:
        raise UsageError(f"table {name!r} is shown as in the report; --metric needs a dimension or a lens")
    return table


def _find_table(run: RunData, name: str) -> Table | None:
    """Find a table by the name of its section or its own; of sections, only the one of this name is built."""
    plots = {slug(plot): plot for plot in (*PLOTS.names(), *_OVER_LENSES)}
    if name in plots:
        section = build_section(run, plots[name])
        return None if section is None else section.figure.table
    tables = _list_other_tables(run)
    if name in tables:
        return tables[name]
    figures = list_figures(run)
    return next((figure.figure.table for figure in figures if figure.name == name), None)


def build_sections(run: RunData) -> list[Section]:
    """Build every section with something to show, in order; a lens without any has one of all its numbers."""
    sections = [section for name in list_plots(run) if (section := build_section(run, name))]
    lenses = {section.plot.lens for section in sections}
    names = [f"{generic.PREFIX}{lens}" for lens in run.scored_lenses if lens not in lenses]
    sections += [section for name in (*_OVER_LENSES, *names) if (section := build_section(run, name))]
    return sorted(sections, key=lambda section: (section.plot.order, section.name))


def list_plots(run: RunData) -> list[str]:
    """List the plots of the run's lenses, without importing those of other lenses, and all plots of users."""
    folders = {"", *run.lenses}
    return [name for name, folder in PLOTS.list_folder_names().items() if folder in folders]


def build_section(run: RunData, name: str) -> Section | None:
    """Build the section of a plot; None if the run has nothing to show for it.

    Here alone texts are made safe for figures.

    Args:
        run: The run.
        name: Public name of a plot, ``explorer`` for single functions, ``joined`` for constructs over lenses,
            ``over_models`` for models over lenses, or ``numbers_LENS`` for all numbers of any lens.

    Raises:
        UnknownNameError: No plot has this name.
    """
    lens = name.removeprefix(generic.PREFIX)
    if name.startswith(generic.PREFIX) and lens in run.scored_lenses:
        plot = generic.build_section(lens)
    else:
        plot = _OVER_LENSES[name][0] if name in _OVER_LENSES else PLOTS.load(name)
    # Tests check every chart of sonde against the schema; a user's plot is checked here.
    with debug_mode(name.endswith(".py")):
        figure = plot.draw(run)
    if figure is None:
        return None
    models = run.models_by_lens.get(plot.lens, set())
    index = next((index for index, model in enumerate(run.models) if models == {model.name}), 0)
    labels = list(run.labels.values())
    charts = [with_model_colours(chart, labels, index) for chart in figure.charts]
    return Section(name=slug(name), plot=plot, figure=sanitise_figure(replace(figure, charts=charts)))


def _is_generic(section: Section) -> bool:
    return section.name == slug(f"{generic.PREFIX}{section.plot.lens}")


def render_page(run: RunData, sections: list[Section]) -> str:
    """Render the page as HTML; every text of the run is escaped."""
    comparison = build_run_comparison(run)
    charts = [chart for section in (*sections, *comparison) for chart in section.figure.charts]
    titles = load_titles(run)
    headers = {lens: top for lens, title in titles.items() if (top := title.top(run))}
    header_lens, top = next(iter(headers.items()), (None, None))
    if top is None and sections and all(map(_is_generic, sections)):
        # The header has the sentences of the first section, which does not repeat them.
        first, *rest = sections
        header_lens, top = first.plot.lens, generic.build_page_header(run, first.plot.lens)
        answer = "" if top else first.figure.answer
        sections = [replace(first, figure=replace(first.figure, answer=answer)), *rest]
        headers = {header_lens: top} if top else {}
    leads = header.join_leads(
        run,
        [
            (section.plot.lens, section.figure.lead)
            for section in sections
            if section.plot.lens != header_lens or not _is_generic(section)
        ],
    )
    group_titles = {**titles, **{name: title for name, (_, title) in _OVER_LENSES.items()}}
    groups = _group_sections(run, sections, group_titles, leads, headers)
    order = {group["lens"]: index for index, group in enumerate(groups)}
    answers = sorted(answer_by_lens(run), key=lambda answer: order.get(answer.lens, len(order)))
    method = header.describe_method(run, list(titles.values()), top.intervals if top else "")
    citations = {lens: title.cites for lens, title in titles.items() if title.cites}
    if comparison:
        citations["compared"] = CITATIONS
    keys = [key for lens_keys in citations.values() for key in lens_keys]
    lenses = {section.plot.lens for section in sections}
    differences = describe_model_differences(run)
    figures = [section.figure for section in (*sections, *comparison)]
    embeds = [section.figure.embed for section in sections if section.figure.embed]
    return render_template(
        "page",
        charts,
        run=run,
        groups=groups,
        compared=comparison,
        # One lens has the head of the page for itself.
        alone=len(run.scored_lenses) < 2 and top is not None,
        headline=_format_headline(run, top, leads),
        top=top,
        answers=answers,
        differences=differences,
        legend=format_mark_legend(
            _iterate_texts(answers, differences, figures, headers.values(), leads.values())
        ),
        verdicts=VERDICTS,
        kinds=[kind for kind in VERDICTS if any(answer.kind == kind for answer in answers)],
        titles={
            lens: titles.get(lens, LensTitle(name=_get_lens_name(lens, titles))) for lens in run.scored_lenses
        },
        explained=[
            *header.describe_user_labels(run),
            *(title.method_text for lens, title in titles.items() if title.method_text and lens in lenses),
        ],
        corpora=header.describe_corpora(run),
        glance=header.list_key_settings(run, method),
        models=header.describe_models(run),
        method=method,
        missing=list_missing_results(run),
        rerun=header.format_rerun_command(run),
        references=[format_reference(key) for key in dict.fromkeys(keys)],
        bibtex=format_bibtex(keys),
        papers={lens: format_bibtex(lens_keys) for lens, lens_keys in citations.items()}
        | {"": format_bibtex(keys)},
        min_clusters=MIN_CLUSTERS,
        scripts=dict.fromkeys(script for embed in embeds for script in embed.scripts),
    )


def _iterate_texts(
    answers: Iterable[LensAnswer],
    differences: Mapping[str, Iterable[str]],
    figures: Iterable[Figure],
    headers: Iterable[PageHeader],
    leads: Iterable[str],
) -> Iterator[str]:
    """Yield the texts of the report in which a number may be marked as one without a verdict."""
    yield from (answer.marked_verdict for answer in answers)
    for sentences in differences.values():
        yield from sentences
    for figure in figures:
        yield from (figure.answer, *figure.notes)
    for top in headers:
        yield from top.lines
    yield from leads


def _format_headline(run: RunData, top: PageHeader | None, leads: Mapping[str, str]) -> str:
    """Format the first line of the page: the headline of its only lens, else its subject."""
    if top and len(run.scored_lenses) < 2:
        return top.headline
    if not run.scored_lenses:
        return next(iter(leads.values()), "")
    models = list(run.labels.values())
    subject = join_names(models) if len(models) <= 3 else f"{len(models)} models"
    languages = [format_language(format_name(language)) for language in run.languages]
    verb = "knows" if len(models) == 1 else "know"
    return f"What {subject} {verb} of {join_names(languages) if languages else 'code'}"
