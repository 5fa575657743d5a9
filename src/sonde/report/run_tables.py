"""Tables of a finished run for plots, read lazily and never a whole item table at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from sonde.results.headlines import select_finite
from sonde.results.schema import ANSWERS, dimension_value, has_dimension_names, scan_files
from sonde.results.scores import SCORES_SCHEMA, read_scores
from sonde.store.run_folder import RunDirectory, slug

_ITEM_COLUMNS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "item_id": pl.String,
    "language": pl.String,
    "path": pl.String,
    "name": pl.String,
    "cluster": pl.String,
    "text": pl.String,
    "characters": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model of the run: full name, label on the page, folder name, and its entry in ``run.json``."""

    name: str
    label: str
    slug: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def _strip_folders(name: str) -> str:
    """Strip the parent folders of a model and of its adapter from the model's name.

    >>> _strip_folders("runs/base?adapter=./adapters/lora"), _strip_folders(".training/encoder-64/model")
    ('base?adapter=lora', 'encoder-64')
    """
    base, mark, options = name.partition("?")
    assignments = [option.rpartition("=") for option in options.split("&")] if mark else []
    short_options = "&".join(
        f"{option}{equals}{_last_component(value)}" for option, equals, value in assignments
    )
    return f"{_last_component(base)}{mark}{short_options}"


def _last_component(path: str) -> str:
    parent, _, last = path.rstrip("/").rpartition("/")
    # Trainings leave their model in a folder of that name, which says nothing.
    return _last_component(parent) if last == "model" and parent.strip("./") else last or path


class RunData:
    """Reader of one run folder; a missing file is an empty table.

    Every file is checked against its receipt, see `sonde.store.run_folder.RunDirectory.intact`.

    Args:
        root: Folder of the run.

    Raises:
        InputError: There is no readable ``run.json``.
        StoreError: A file is not what was written; every method may raise it.
    """

    def __init__(self, root: Path) -> None:
        self.directory = RunDirectory(root)
        self.summary: Mapping[str, Any] = self.directory.read_summary()
        self._selections: dict[tuple[object, ...], pl.DataFrame] = {}

    @cached_property
    def models(self) -> tuple[ModelInfo, ...]:
        """Return the models of the run, in its order; from the scores if ``run.json`` names none."""
        facts = [dict(entry) for entry in self.summary.get("models") or () if entry.get("name")]
        if not facts:
            names = self._scores["model"].unique(maintain_order=True).drop_nulls().to_list()
            facts = [{"name": name} for name in names]
        names = [str(entry["name"]) for entry in facts]
        tails = [_strip_folders(name) for name in names]
        return tuple(
            ModelInfo(name, tail if tails.count(tail) == 1 else name, entry.get("slug") or slug(name), entry)
            for name, tail, entry in zip(names, tails, facts, strict=True)
        )

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of the models on the page, by name."""
        return {model.name: model.label for model in self.models}

    @property
    def scored_lenses(self) -> list[str]:
        """Return the lenses that have scores, in the order of the table."""
        return self.every_score["lens"].unique(maintain_order=True).to_list()

    @cached_property
    def lenses(self) -> frozenset[str]:
        """Return the lenses with rows of scores, a number or not, or with tables in the folder of the run."""
        # A later stage of a lens has a folder of its own, for example `lens=causal.2`.
        folders = {path.name.removeprefix("lens=") for path in self.directory.root.glob("*/lens=*")}
        return frozenset(
            {*self.every_row["lens"].drop_nulls(), *(name.partition(".")[0] for name in folders)}
        )

    @cached_property
    def models_by_lens(self) -> dict[str, set[str]]:
        """Return the names of the models that have scores, by lens."""
        models: dict[str, set[str]] = {}
        for lens, model in self.every_score.select("lens", "model").unique().iter_rows():
            models.setdefault(lens, set()).add(model)
        return models

    @property
    def lenses_without_numbers(self) -> list[str]:
        """Return the lenses with rows of scores of which none has a number."""
        lenses = self.every_row["lens"].unique(maintain_order=True).drop_nulls().to_list()
        return [lens for lens in lenses if lens not in self.scored_lenses]

    @property
    def several(self) -> bool:
        """Return whether the run has several models."""
        return len(self.models) > 1

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Return the languages that have scores."""
        return tuple(sorted(filter(None, self._scores["language"].unique().to_list())))

    @property
    def subject(self) -> pl.Expr:
        """Return an expression for the label of a row of `scores`: model, language, or both if both vary."""
        parts = [pl.col("shown")] if self.several or len(self.languages) < 2 else []
        return pl.concat_str(
            [*parts, *([pl.col("language")] if len(self.languages) > 1 else [])], separator=", "
        )

    @cached_property
    def every_score(self) -> pl.DataFrame:
        """Return the rows of ``scores.parquet`` with a finite value, controls included."""
        return select_finite(self.every_row)

    @cached_property
    def every_row(self) -> pl.DataFrame:
        """Return all rows of ``scores.parquet``, also those without a number."""
        if not self.directory.holds(self.directory.scores):
            return pl.DataFrame(schema=dict(SCORES_SCHEMA))
        return read_scores(self.directory.scores)

    @cached_property
    def _scores(self) -> pl.DataFrame:
        return self.every_score.filter(pl.col("control").is_null())

    @cached_property
    def _metric_rows(self) -> dict[tuple[object, ...], pl.DataFrame]:
        """Group `every_score` by lens and metric once; the column ``row`` has the order in the table."""
        return self.every_score.with_row_index("row").partition_by("lens", "metric", as_dict=True)

    def _select_metrics(
        self, lens: str, metrics: Sequence[str], task: str, *, controls: bool
    ) -> pl.DataFrame:
        """Select rows of `every_score` in its order, with the label of their model; each selection once."""
        key = (lens, *sorted({*metrics}), task, controls)
        if key not in self._selections:
            parts = [
                part
                for name in sorted({*metrics})
                if (part := self._metric_rows.get((lens, name))) is not None
            ]
            rows = pl.concat(parts or [self.every_score.clear().with_row_index("row")])
            if not controls:
                rows = rows.filter(pl.col("control").is_null())
            if task:
                rows = rows.filter(pl.col("task") == task)
            rows = rows.sort("row").drop("row")
            self._selections[key] = rows.with_columns(shown=pl.col("model").replace(self.labels))
        return self._selections[key]

    def scores(
        self,
        *,
        metrics: Sequence[str],
        by: str | None = None,
        where: pl.Expr | None = None,
        lens: str,
        task: str = "",
        controls: bool = False,
    ) -> pl.DataFrame:
        """Select rows of one lens with a finite value.

        Args:
            metrics: Names of metrics.
            by: The only dimension of the rows, for example ``"tag"``; its values are the column ``label``.
            where: A further condition, see `sonde.results.schema`.
            lens: Public name of the lens.
            task: The task; empty for all tasks.
            controls: Whether to include controls, which the column ``control`` names.
        """
        rows = self._select_metrics(lens, metrics, task, controls=controls)
        if where is not None and len(rows):
            rows = rows.filter(where)
        if by is None:
            return rows
        # The column `shown` stays the last one.
        label = dimension_value(by).alias("label")
        return rows.filter(has_dimension_names(by)).select(pl.exclude("shown"), label, "shown")

    def table(self, lens: str, model: ModelInfo) -> pl.LazyFrame | None:
        """Scan the item table of a lens and model; None if the run has none.

        Args:
            lens: Public name of the lens; for a later stage, with a dot and the number of the stage.
            model: One of `models`.
        """
        files = self.directory.tables(f"observations/lens={lens}/model={model.slug}")
        return scan_files(files) if files else None

    def answers(self, lens: str, model: ModelInfo) -> pl.DataFrame:
        """Read the answers of a model to single examples, in the columns `sonde.results.schema.ANSWERS`."""
        files = self.directory.tables(f"answers/lens={lens}/model={model.slug}")
        return scan_files(files).collect() if files else pl.DataFrame(schema=ANSWERS)

    def items(self, identifiers: Sequence[str]) -> pl.DataFrame:
        """Read items with their text, by id."""
        path = self.directory.items
        if not self.directory.holds(path):
            return pl.DataFrame(schema=dict(_ITEM_COLUMNS))
        return (
            scan_files(path)
            .filter(pl.col("item_id").is_in(list(identifiers)))
            .select(list(_ITEM_COLUMNS))
            .collect()
        )
