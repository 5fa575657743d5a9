"""Models of finished runs, and how a comparison pairs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.formatting import plural
from sonde.comparison.summary import MIN_CHECKPOINTS, compile_step_pattern
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES, Lens, LensSettings, ScoringContext
from sonde.lenses.engine.item_tables import SCORED_ITEMS
from sonde.models import read_frequencies
from sonde.results.schema import scan_files
from sonde.results.scores import Score
from sonde.store.run_folder import RunDirectory, label_path
from sonde.tasks.engine.task import TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModel:
    """One model of one run.

    Attributes:
        run: The folder of the run.
        summary: Its ``run.json``.
        model: Entry of the model in ``run.json``.
        label: Name of the model in a comparison: with its run where the names of models are the same.
    """

    run: RunDirectory
    summary: Mapping[str, Any]
    model: Mapping[str, Any]
    label: str

    @property
    def name(self) -> str:
        """Return the model's name in its run."""
        return str(self.model["name"])

    def facts(self) -> dict[str, Any]:
        """Return the identifying fields for ``comparison.json``."""
        return {
            "label": self.label,
            "model": self.name,
            "revision": self.model.get("revision") or "",
            "run": self.run.root.resolve().name,
            "fingerprint": self.summary.get("fingerprint") or "",
            "transform": self.transform,
        }

    @property
    def transform(self) -> str:
        """Return the transformation of the run's texts."""
        selection = (self.summary.get("arguments") or {}).get("selection") or {}
        return str(selection.get("transform") or "none")

    def lens(self, name: str) -> Mapping[str, Any] | None:
        """Return the settings of a lens of the run, by public name."""
        return next((entry for entry in self.summary.get("lenses") or () if entry["name"] == name), None)

    def observations(self, lens: str, prefix: str) -> pl.LazyFrame | None:
        """Scan a lens's observations of the model over one corpus and language; None without any."""
        files = self.run.tables(self.run.observations(lens, self.name), prefix)
        return scan_files(files) if files else None

    def labels(self, task: str, prefix: str, lens: str) -> pl.DataFrame | None:
        """Read the labels or data set of a task that a lens uses; None if the run has none."""
        label_set = str((self.lens(lens) or {}).get("labels") or "")
        path = self.run.root / label_path(task, prefix, label_set)
        return scan_files([path]).collect() if self.run.holds(path) else None


def load_lens_settings(entry: Mapping[str, Any]) -> tuple[Lens, LensSettings]:
    """Load a lens of a run with the settings by which its models are compared.

    Args:
        entry: Entry of the lens in ``run.json``.
    """
    lens = LENSES.load(str(entry["source"]))
    # Options that only qualify numbers that are not compared are the same for both.
    options = {**dict(entry["options"]), **lens.comparison_options}
    return lens, LensSettings(
        mode=entry["mode"], quirks=frozenset(entry["quirks"]), options=options, seed=entry["seed"]
    )


def score_observations(
    side: RunModel,
    entry: Mapping[str, Any],
    group: Mapping[str, Any],
    item_ids: pl.Series,
    observations: pl.LazyFrame,
    inputs: pl.LazyFrame,
    labels: Mapping[str, pl.DataFrame],
    beside: tuple[pl.LazyFrame, ...] = (),
    shared: dict[str, Any] | None = None,
) -> list[Score]:
    """Score the observations of one model on some items.

    Args:
        side: The model.
        entry: Entry of the lens in ``run.json``.
        group: Entry of the corpus in ``run.json``.
        item_ids: Ids of the items.
        observations: Observations of these items alone.
        inputs: These items, as `sonde.lenses.engine.item_tables.scan_inputs` gives them.
        labels: Their labels, by task.
        beside: Observations of another model of the same items.
        shared: What both models have in common, see `sonde.lenses.engine.lens.ScoringContext`; None for
            nothing yet.
    """
    lens, settings = load_lens_settings(entry)
    template = Score(
        model=side.label,
        revision=str(side.model.get("revision") or ""),
        lens=str(entry["name"]),
        language=str(group["language"]),
        corpus_hash=str(group["hash"]),
        item_set=fingerprint("item set", item_ids.to_list()),
        metric="",
        value=float("nan"),
        n=0,
        n_clusters=0,
        seed=settings.seed,
        mode=settings.mode,
    )
    return lens.score(
        ScoringContext(
            observations=observations,
            items=inputs.select(SCORED_ITEMS).with_columns(seen=pl.lit(value=False)).collect(),
            template=template,
            settings=settings,
            labels=labels,
            texts=inputs.select("item_id", "text"),
            frequencies=read_frequencies(side.name),
            beside=beside,
            shared={} if shared is None else shared,
        )
    )


def load_model_pairs(directories: Sequence[Path]) -> list[tuple[RunModel, RunModel]]:
    """Pair the first model of one run with its others, or the first run's models with those of other runs.

    Of several runs, models of one name are compared with each other; where no two have one, the first models.

    Raises:
        InputError: A folder holds no run.
        UsageError: There is one model only.
    """
    runs = [load_models(RunDirectory(directory)) for directory in directories]
    first, *other_runs = runs
    if not other_runs:
        base, *rest = first
        if not rest:
            raise UsageError(
                f"{directories[0]}: the run has only one model; name a second run, or run "
                "several models (-m A -m B)"
            )
        return [(base, side) for side in rest]
    pairs: list[tuple[RunModel, RunModel]] = []
    for run in other_runs:
        same_name = [(base, side) for base in first for side in run if base.name == side.name]
        pairs += same_name or [(first[0], run[0])]
    return [_label_with_runs(base, side) for base, side in pairs]


def load_models(run: RunDirectory) -> list[RunModel]:
    """Load the models of a run.

    Raises:
        InputError: The folder holds no run.
    """
    summary = run.read_summary()
    for lens in summary.get("lenses") or ():
        LENSES.check_recorded_name(str(lens.get("source")), run.root)
        for task in lens.get("tasks") or ():
            TASKS.check_recorded_name(str(task), run.root)
    for corpus in summary.get("corpus") or ():
        LANGUAGES.check_recorded_name(str(corpus.get("language")), run.root)
    models = [model for model in summary.get("models") or () if model.get("name")]
    if not models:
        raise InputError(f"{run.root}: the run names no model")
    return [RunModel(run=run, summary=summary, model=model, label=str(model["name"])) for model in models]


def _label_with_runs(base: RunModel, side: RunModel) -> tuple[RunModel, RunModel]:
    """Add the run to both labels if they are the same."""
    if base.label != side.label:
        return base, side
    names = [model.run.root.resolve().name for model in (base, side)]
    if names[0] == names[1]:
        names = [str(model.run.root) for model in (base, side)]
    base, side = (
        dataclasses.replace(model, label=f"{model.label} ({name})")
        for model, name in zip((base, side), names, strict=True)
    )
    return base, side


def load_checkpoints(directories: Sequence[Path], pattern: str) -> list[tuple[int, RunModel]]:
    """Load the models of all runs whose own name, or whose run's name, contains a training step.

    Args:
        directories: Folders of runs.
        pattern: A regular expression whose one group is the step.

    Returns:
        By step.

    Raises:
        InputError: A folder holds no run.
        UsageError: The expression cannot be used, fewer than three checkpoints fit, or two have one step.
    """
    parse_step = compile_step_pattern(pattern)
    models: dict[int, RunModel] = {}
    for directory in directories:
        for side in load_models(RunDirectory(directory)):
            step = parse_step(side.name)
            step = parse_step(directory.resolve().name) if step is None else step
            if step is None:
                continue
            if step in models:
                raise UsageError(
                    f"--series {pattern!r}: {models[step].name} and {side.name} are both of step {step}"
                )
            models[step] = dataclasses.replace(side, label=f"step {step}")
    if len(models) < MIN_CHECKPOINTS:
        raise UsageError(
            f"--series {pattern!r}: {plural(len(models), 'checkpoint')} found, {MIN_CHECKPOINTS} or more "
            "needed"
        )
    return sorted(models.items())
