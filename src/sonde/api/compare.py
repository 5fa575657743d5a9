"""``sonde.compare`` and ``sonde.card``: the commands ``sonde compare`` and ``sonde card`` from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import polars as pl
from markupsafe import Markup

from sonde.api.results import Run
from sonde.base.errors import UsageError
from sonde.base.progress import NullProgress, Progress
from sonde.comparison import summary
from sonde.comparison.compare import compare as held_against
from sonde.comparison.compare import default_output, write_comparison, write_series
from sonde.experiments.arguments import Names, StrPath, collect_arguments
from sonde.lenses import LENSES
from sonde.models.engine.model_names import known_names, split_options
from sonde.report import Card, check_targets, export_card, read_comparison, write_card, write_comparison_page
from sonde.report.comparison_page import list_sentences
from sonde.store.remote import fetch_folder, sync_folder
from sonde.store.run_folder import CARD_FILES, COMPARISON_FILES


class ModelComparison:
    """A finished comparison. In a notebook it shows what changed.

    Args:
        directory: The folder that `compare` or ``sonde compare`` wrote.

    Attributes:
        directory: The folder.

    Raises:
        InputError: There is no comparison in the folder.
    """

    def __init__(self, directory: StrPath) -> None:
        self.directory: Path = fetch_folder(directory)
        self._data = read_comparison(self.directory)

    @property
    def differences(self) -> pl.DataFrame:
        """Return one row per difference with interval, p-values and outcome; columns: ``docs/files.md``."""
        return self._data.differences

    @cached_property
    def overview(self) -> pl.DataFrame:
        """Return the difference that covers the most data for each pair of models, lens and task."""
        return summary.select_overview(self.differences)

    @property
    def page(self) -> Path:
        """Return the path of the page, one file that needs no network."""
        page = self.directory / "comparison.html"
        return page if page.is_file() else write_comparison_page(self.directory)

    def __repr__(self) -> str:
        pairs = [
            f"{comparison['model']['label']} against {comparison['base']['label']}"
            for comparison in self._data.comparisons
        ]
        return f"<sonde.compare {'; '.join(pairs)}>"

    def _repr_html_(self) -> str:
        rows = summary.add_text_columns(self.overview)
        lines = [
            *list_sentences(self._data),
            "",
            *summary.differences_table("", rows, show_models=self._data.show_models).lines(),
        ]
        return str(
            Markup("<div><p><strong>{}</strong></p><pre>{}</pre></div>").format(repr(self), "\n".join(lines))
        )


def compare(
    *runs: StrPath | Run,
    output: StrPath | None = None,
    series: str = "",
    least: Mapping[str, float] = MappingProxyType({}),
    lenses: Names | None = None,
    lens: Names | None = None,
) -> ModelComparison:
    r"""Compare models on the same items: what got better, worse, or shows no difference.

    In one run, every other model is compared with the first. In several runs, models of the same name are
    compared; if no names are the same, the first model of each run. No model runs again: the stored
    observations are scored together.

    Args:
        runs: Folders or addresses of finished runs, or results of `sonde.run`.
        output: Folder or address of the comparison; by default inside the one run, else next to the first.
        series: For checkpoints of one training, the regular expression whose group is the step in the names
            of models or runs, as ``step(\d+)``: the last is compared with the first, and growth is shown.
        least: The least size of a difference that matters, by metric and in its unit, as
            ``{"accuracy": 0.02}``; by default 0.01 for shares and 0.005 for bits per byte.
        lenses: Files of your own lenses that the runs were made with; code that a run names is not executed
            unless you name it.
        lens: One such file; the same as ``lenses``.

    Returns:
        Every difference, tested together.

    Raises:
        UsageError: No run is named, or one with a single model; ``least`` names a metric that is not
            compared; or both ``lenses`` and ``lens`` are given.
        InputError: A folder holds no run, or the runs have nothing in common.
    """
    if not runs:
        raise UsageError("sonde.compare takes one run with several models, or several runs")
    lens_arguments = {"lenses": lenses or None, "lens": lens}
    for path in collect_arguments("sonde.compare", lens_arguments, lens_arguments).get("lenses", ()):
        LENSES.hand_in(path)
    folders = [run.directory if isinstance(run, Run) else Path(run) for run in runs]
    folder, _ = compare_and_write(folders, None if output is None else Path(output), series, least)
    return ModelComparison(folder)


def are_models(names: Sequence[str]) -> bool:
    """Return whether what is to be compared are models, rather than finished runs.

    Raises:
        UsageError: Some are and others are not.
    """
    models = [name for name in names if _is_model(name)]
    if models and len(models) < len(names):
        other = next(name for name in names if name not in models)
        raise UsageError(
            f"{models[0]!r} is a model and {other!r} is not; compare finished runs, or models "
            "of one vocabulary"
        )
    return bool(models)


def _is_model(name: str) -> bool:
    """Return whether a name is that of a model: of a checkpoint's folder, a GGUF file, or a known one.

    Other names are those of runs, so that a mistyped one is not looked up on the hub.
    """
    model_name, options = split_options(name)
    path = Path(model_name)
    is_file = path.suffix == ".gguf" or (path / "config.json").is_file()
    return bool(options) or is_file or model_name in known_names()


def compare_and_write(
    runs: Sequence[Path],
    output: Path | None,
    series: str,
    minimum_effects: Mapping[str, float],
    progress: Progress | None = None,
) -> tuple[Path, Path]:
    """Compare runs and write the comparison with its page.

    Args:
        runs: Folders or addresses of runs.
        output: Where to; by default into the one run, else beside the first.
        series: As for `compare`.
        minimum_effects: As ``least`` of `compare`.
        progress: Is told how far it is.

    Returns:
        The folder of the comparison on this machine, and the page.

    Raises:
        SondeError: As `compare`.
    """
    reporter, folders = progress or NullProgress(), [fetch_folder(run) for run in runs]
    target = output or default_output(runs)
    # The comparison inside a run is a part of it at an address.
    subfolder = target.name if output is None and len(runs) == 1 else ""
    outputs = [f"{subfolder}/{file}" if subfolder else file for file in COMPARISON_FILES]
    with sync_folder(
        target.parent if subfolder else target, reporter.note, outputs=outputs, may_create=not subfolder
    ) as local_folder:
        folder = write_comparison(
            held_against(folders, reporter, series=series, least=minimum_effects), local_folder / subfolder
        )
        if series:
            write_series(folders, series, folder, minimum_effects=minimum_effects)
        return folder, write_comparison_page(folder)


def card(run: StrPath | Run, *, require: StrPath | None = None, to: str | Sequence[str] = ()) -> Card:
    """Summarise a finished run in a few numbers, and check them against requirements.

    ``card.json`` and ``card.md`` are written into the folder of the run, as ``sonde card`` does; a notebook
    shows the second.

    Args:
        run: A run, or its folder or address.
        require: A file of requirements (TOML), see ``docs/card.md``.
        to: Targets to export to: ``"wandb"``, ``"mlflow"``, ``"hub"``, or several of them.

    Returns:
        The card: ``headlines`` has the headline metric of each task with its best control and verdict,
        ``requirements`` the outcomes, ``met`` whether all are met, ``provenance`` and ``left_out`` the rest.

    Raises:
        InputError: There is no run in the folder, or a file cannot be read.
        UsageError: A requirement cannot be read or matches no single number, or the package of a target is
            not installed.
        StoreError: A target rejects the card.
    """
    directory = run.directory if isinstance(run, Run) else Path(run)
    targets = [to] if isinstance(to, str) else [*to]
    check_targets(targets)
    with sync_folder(directory, NullProgress().note, outputs=CARD_FILES) as folder:
        run_card = write_card(folder, None if require is None else Path(require))
        for target in targets:
            export_card(run_card, target, folder)
    return run_card
