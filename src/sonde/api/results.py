"""Finished runs: scores, tables, hidden states, charts and report.

In a notebook a `Run` shows the headlines of each lens as the terminal prints them, and one chart. A
`SectionFigure` is one section of the report, with its finding, charts and table, for a notebook or a script.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from markupsafe import Markup
from rich.console import Console

from sonde.api.hidden_states import read_probe_states, select_name, write_features
from sonde.api.predictions import Predictions
from sonde.base.errors import InputError, UnknownNameError, build_listing_error
from sonde.base.terminal import print_lines
from sonde.experiments.arguments import StrPath
from sonde.lenses.probe.data import LayerStates
from sonde.report import (
    PLOTS,
    Chart,
    ModelInfo,
    RunData,
    Section,
    SvgImage,
    build_section,
    build_sections,
    build_table,
    describe_run,
    list_plots,
    to_sized_spec,
    to_svg,
    write_report,
)
from sonde.report.theme import explain_marks
from sonde.results.schema import scan_files
from sonde.results.scores import read_scores as read_table
from sonde.store.address import format_path
from sonde.store.remote import fetch_folder
from sonde.store.run_folder import RunDirectory

if TYPE_CHECKING:
    import altair as alt

    AnyChart = (
        alt.Chart | alt.LayerChart | alt.FacetChart | alt.ConcatChart | alt.HConcatChart | alt.VConcatChart
    )


@dataclass(frozen=True, slots=True, eq=False)
class SectionFigure:
    """A section of the page.

    Attributes:
        section: The plot and its figure: ``section.figure.answer`` is the finding in words, ``notes`` its
            limits.
    """

    section: Section

    @property
    def title(self) -> str:
        """Return the heading."""
        return self.section.plot.title

    @property
    def charts(self) -> list[AnyChart]:
        """Return the charts as altair objects, to change, combine or save; drawings are in `svgs` alone.

        They have no colours of their own, since altair combines no charts that do; an image in the notebook
        and `svgs` have those of the page.
        """
        return [_to_altair(to_sized_spec(chart)) for chart in self.section.figure.charts]

    @property
    def svgs(self) -> list[str]:
        """Return the charts and drawings as SVG, drawn here and without a network."""
        return [to_svg(image) for image in (*self.section.figure.charts, *self.section.figure.drawings)]

    @property
    def table(self) -> pl.DataFrame | None:
        """Return the table with numbers as numbers and an interval as two columns; None if there is none."""
        table = self.section.figure.table
        return None if table is None else table.frame()

    def __repr__(self) -> str:
        return f"<{self.section.name}: {self.title}>"

    def _repr_html_(self) -> str:
        figure = self.section.figure
        parts = [
            Markup("<h3>{}</h3>").format(self.title),
            Markup("<p>{}</p>").format(explain_marks(figure.answer)),
            *(render_image(image) for image in (*figure.charts, *figure.drawings)),
            Markup("<p><small>{}</small></p>").format(self.section.plot.caption),
            *(Markup("<p><small>{}</small></p>").format(explain_marks(note)) for note in figure.notes),
        ]
        return str(Markup("<div>{}</div>").format(Markup("").join(parts)))


def find_section(run: RunData, name: str) -> SectionFigure:
    """Build a section of a run by the name of its plot.

    Raises:
        UnknownNameError: No plot has this name.
        InputError: The run has nothing to show for it.
    """
    try:
        section = build_section(run, name)
    except UnknownNameError:
        names = [section.name for section in build_sections(run)]
        raise build_listing_error("plot of this run", name, names) from None
    if section is None:
        lens_hint = f" (lens {PLOTS.load(name).lens!r})" if name in PLOTS.names() else ""
        names = ", ".join(section.name for section in build_sections(run)) or "nothing"
        raise InputError(f"plot {name!r}: {run.directory.root} has no data for it{lens_hint}; it has {names}")
    return SectionFigure(section)


def _to_altair(spec: dict[str, Any]) -> AnyChart:
    """Convert a specification to altair's class for it; charts of the page are not validated again."""
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


def render_image(figure: Chart | SvgImage) -> Markup:
    """Render a chart as an image, which runs no script and shares no ids with the page of a notebook."""
    try:
        svg = to_svg(figure)
    except (ValueError, RuntimeError):
        return Markup("<p>{} could not be drawn.</p>").format(figure.title)
    data = base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")
    return Markup('<p><img alt="{}" src="data:image/svg+xml;base64,{}"></p>').format(figure.title, data)


def render_run(title: str, run: RunData) -> str:
    """Render a run as HTML that needs no network; every text of the run is escaped.

    Args:
        title: The first line.
        run: The run.
    """
    lines = ["no scores yet"]
    if run.directory.holds(run.directory.scores):
        lines = list(describe_run(run))
    chart = first_chart(run)
    return str(
        Markup("<div><p><strong>{}</strong></p><pre>{}</pre>{}</div>").format(
            title, "\n".join(lines).strip("\n"), render_image(chart) if chart else ""
        )
    )


def first_chart(run: RunData) -> Chart | None:
    """Return the first chart of the page; None if there is none."""
    lenses = run.scored_lenses
    plots = [(PLOTS.load(name), name) for name in list_plots(run)]
    ordered_plots = sorted((plot.order, name) for plot, name in plots if plot.lens in lenses)
    # A lens without a plot has the chart of its numbers.
    names = [*(name for _, name in ordered_plots), *(f"numbers_{lens}" for lens in lenses)]
    sections = (build_section(run, name) for name in names)
    return next((section.figure.charts[0] for section in sections if section and section.figure.charts), None)


def read_scores(directory: StrPath) -> pl.DataFrame:
    """Read the scores of a run, or of any ``scores.parquet``, as a flat table: one row per number.

    A row says what its number is about (``model, lens, task, language, dimensions, layer, metric, ...``), the
    ``value`` with its 95 % interval (``ci_low, ci_high``), its sample size (``n, n_clusters,
    effective_clusters, n_eff``) and which control it belongs to (``control``, null for the model's own).

    Args:
        directory: The folder of a run, or the file itself.

    Raises:
        InputError: There are no scores.
        StoreError: Those of a run are no longer what was written.
    """
    path = fetch_folder(directory)
    file = RunDirectory(path).scores if path.is_dir() else path
    if not RunDirectory(file.parent).holds(file):
        raise InputError(f"{format_path(path)!r}: no scores here (no such file: {format_path(file)})")
    try:
        return read_table(file)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{str(file)!r}: cannot be read as scores: {str(error).splitlines()[0]}") from error


class Run:
    """A finished run. In a notebook it shows the headline of each lens and a chart.

    Args:
        directory: Its folder.

    Attributes:
        directory: Its folder.
        summary: Content of ``run.json``: arguments, models, corpora, versions, times.

    Raises:
        InputError: There is no run in the folder.
    """

    def __init__(self, directory: StrPath) -> None:
        self._data = RunData(fetch_folder(directory))
        self.directory: Path = self._data.directory.root
        self.summary: Mapping[str, Any] = self._data.summary

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of the models, in the order of the run."""
        return tuple(model.name for model in self._data.models)

    @property
    def lenses(self) -> tuple[str, ...]:
        """Return the names of the lenses, in the order of the run."""
        return tuple(str(lens["name"]) for lens in self.summary.get("lenses") or ())

    @cached_property
    def scores(self) -> pl.DataFrame:
        """Return every number of the run with its interval, one row each; see `read_scores`."""
        return read_scores(self.directory)

    @property
    def items(self) -> pl.LazyFrame:
        """Return the inputs, one row each with its text; observations refer to them by ``item_id``."""
        files = self._data.directory.texts()
        if not files:
            raise InputError(f"{self.directory}: the run has no items (items.parquet is missing)")
        return scan_files(files)

    def observations(self, lens: str, model: str | None = None) -> pl.LazyFrame:
        """Return the observations of a lens as a lazy table, which may exceed memory.

        Args:
            lens: Public name.
            model: One of `models`; None for all of them; the first column, ``model``, names the model.

        Raises:
            UnknownNameError: The run has no observations of this lens or model.
        """
        models = [self._select_model(model)] if model is not None else self._data.models
        tables = {run_model.name: self._data.table(lens, run_model) for run_model in models}
        frames = [
            frame.select(pl.lit(name).alias("model"), pl.all())
            for name, frame in tables.items()
            if frame is not None
        ]
        if not frames:
            raise UnknownNameError("lens with observations in this run", lens, self._list_observations())
        return pl.concat(frames, how="diagonal_relaxed")

    def states(
        self, task: str, layer: int, *, model: str | None = None, pooling: str | None = None
    ) -> LayerStates:
        """Return hidden states of a task's examples at one layer, as the probe lens read them.

        ``run.states(task="typ", layer=3).values`` has a row per example and a column per feature
        (``example x d_model``). ``examples`` is a frame with one row each in the same order: item,
        characters, ``label`` (the class), ``value``, ``split``, ``cluster``, ``language`` and, where folds
        were dealt, the ``fold`` that tests the example; the next one chooses penalty and layer, and probes
        are fitted to all others.

        Args:
            task: Public name of a task of the probe lens in this run.
            layer: 0 the embeddings, 1 the first layer, negative from the last.
            model: One of `models`; may be omitted if there is only one.
            pooling: How the states of an example's subwords are pooled: ``"mean"``, ``"last"``, ``"summary"``
                (whole texts), ``"span"``, ``"isolated"`` (places in a text); by default that of the headline.

        Raises:
            UnknownNameError: The run has no such model, task or pooling.
            UsageError: The model has no such layer, or the run has several models and none is named.
            InputError: The probe lens was not run, or its states are missing.
        """
        return read_probe_states(self._data, self._select_model(model), task, layer, pooling)

    def write_features(
        self,
        file: StrPath,
        task: str,
        *,
        layers: Sequence[int] | None = None,
        model: str | None = None,
        pooling: str | None = None,
    ) -> Path:
        """Write the states of a task's examples as safetensors, holding one layer in memory at a time.

        The file has a tensor ``layer.N`` per layer (``example x d_model``), and for each example ``label`` (a
        number into ``classes`` of the metadata), ``value`` (NaN where there is none), ``split`` (into
        ``splits``) and ``fold`` (-1 for none). A table of the examples, one row each, is
        written next to it as ``*.examples.parquet``.

        Args:
            file: Where to write.
            task: As for `states`; so are the others.
            layers: Which layers; None for all.
            model: One of `models`.
            pooling: How the states of an example's subwords became one.

        Raises:
            StoreError: The file cannot be written.
            SondeError: See `states`.
        """
        return write_features(
            self._data, self._select_model(model), task, Path(file), layers=layers, pooling=pooling
        )

    def predict(
        self,
        files: StrPath | Sequence[StrPath],
        *,
        task: str | None = None,
        model: str | None = None,
        layer: int | None = None,
    ) -> Predictions:
        """Predict for the functions of other files with the probe of a task, or a model fine-tuned for it.

        The probes are those that the run tested, fitted again to the same examples. With folds, the
        probabilities of all their probes are averaged. Of several seeds, the fine-tuned model that is best on
        validation is used; it also gives the place of a bug and the edit that would undo it.

        Args:
            files: Files of code; one without functions counts as a whole.
            task: A task about functions or places in them; may be omitted if the run has only one.
            model: One of `models`; may be omitted if there is only one.
            layer: 0 the embeddings, negative from the last; by default the one that most folds chose.

        Raises:
            UsageError: The run has several tasks or models and none is named, or the places that the task is
                about cannot be found in code.
            UnknownNameError: The run has no such task or model.
            InputError: There is no probe, the model has changed, or the files contain nothing to predict.
        """
        from sonde.api.predict import predict

        paths = [files] if isinstance(files, str | os.PathLike) else files
        return predict(self.directory, map(Path, paths), task=task, model=model, layer=layer)

    def plot(self, name: str) -> SectionFigure:
        """Return one section of the report by name (``sonde list plots``); a notebook shows it.

        Raises:
            UnknownNameError: No plot has this name.
            InputError: The run has nothing to show for it.
        """
        return find_section(self._data, name)

    def table(self, name: str = "", *, metric: str = "") -> pl.DataFrame:
        """Return a table of models by metrics with intervals and differences, in the units of the report.

        ``run.table()`` has the headline of every lens and task, ``run.table("construct", metric="bits")`` the
        scores by construct, ``run.table("probe_accuracy")`` that table of the page. Shares are in per cent
        and their differences in points, as the headings say; `scores` has them as they were measured.
        ``.to_pandas()`` gives a data frame of pandas.

        Args:
            name: A dimension of the scores (``"construct"``, ``"layer"``, ...), one of `lenses`, or a table
                of the page; empty for the headlines.
            metric: Only numbers of this metric, as `scores` name it; empty for all.

        Returns:
            A row per number: value, interval (two columns), best control, paired difference to it, and in a
            run of several models that to the first model.

        Raises:
            UnknownNameError: The run has no such table or metric; those that it has are listed.
            UsageError: A metric is given for a table of the page.
            InputError: The run has no scores.
        """
        return build_table(self._data, name, metric).frame()

    def show(self, height: int = 800) -> None:
        """Show the report inside a notebook, which then contains all of it; elsewhere print the headlines.

        Args:
            height: Height of the frame, in pixels.
        """
        page = self.page
        if Console().is_jupyter:
            from IPython.display import display

            # Scripts of the page run, and reach nothing of the notebook.
            frame = Markup(
                '<iframe srcdoc="{}" sandbox="allow-scripts allow-downloads allow-popups" width="100%" '
                'height="{}" style="border:0"></iframe>'
            )
            html = str(frame.format(page.read_text(encoding="utf-8"), height))
            display({"text/html": html}, raw=True)
        else:
            print_lines(*describe_run(self._data), "", f"report: {page}")

    @property
    def joined(self) -> pl.DataFrame:
        """Return what the lenses find about the same constructs, one row per model, language and construct.

        Raises:
            InputError: No two lenses of the run measure the same construct.
        """
        table = self.plot("joined").table
        assert table is not None
        return table

    @property
    def page(self) -> Path:
        """Return the path of the report, one file, built again if it is missing, damaged or outdated."""
        directory = self._data.directory
        return directory.report if directory.is_page_current() else write_report(self.directory)

    def __repr__(self) -> str:
        corpora = dict.fromkeys(str(corpus["name"]) for corpus in self.summary.get("corpus") or ())
        description = f"{', '.join(self.lenses)} of {', '.join(self.models)} on {', '.join(corpora)}"
        return f"<sonde.Run {str(self.directory)!r}: {' '.join(description.split())}>"

    def _repr_html_(self) -> str:
        return render_run(repr(self), self._data)

    def _select_model(self, name: str | None) -> ModelInfo:
        """Return the model of this name, or the only one."""
        return self._data.models[self.models.index(select_name("model", name, self.models))]

    def _list_observations(self) -> list[str]:
        folders = (self.directory / "observations").glob("lens=*")
        return sorted(folder.name.partition("=")[2] for folder in folders)
