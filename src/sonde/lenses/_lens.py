"""What a lens answers: it requests, observes one item at a time, and scores all observations at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import polars as pl

from sonde.capture.requests import ItemCapture, Pass, Prepared
from sonde.corpora import Item
from sonde.models import Capabilities
from sonde.stats.scores import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class LensSettings:
    """What a user chose for a lens.

    Attributes:
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Named quirks that are on (the lens's preset in paper mode, plus ``--quirk``).
        options: Further options by name, from the experiment file's table of the lens.
        seed: Seed of whatever is random.
    """

    mode: str = "corrected"
    quirks: frozenset[str] = frozenset()
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """What a lens gets to score with.

    Attributes:
        observations: The item table of this lens and model, lazily read; it may be larger than memory.
        items: One row an item: ``item_id, language, unit, path, name, cluster, repository, licence, bytes,
            characters, seen`` (``seen``: the model was trained on it).
        template: A score that carries model, revision, corpus hash, seed, mode and fingerprint.
        settings: What the user chose.
        frequencies: ``subword_id, count`` in the model's training data; None where unknown.
    """

    observations: pl.LazyFrame
    items: pl.DataFrame
    template: Score
    settings: LensSettings
    frequencies: pl.DataFrame | None = None


@runtime_checkable
class ReadingLens(Protocol):
    """A lens that reads a frozen model.

    The job runner calls `passes` until it answers None, `observe` for every item, then `score` once.
    """

    @property
    def name(self) -> str:
        """Public name, the file's stem."""
        ...

    @property
    def version(self) -> str:
        """Raised when observations change; part of their fingerprint."""
        ...

    @property
    def quirks(self) -> Mapping[str, str]:
        """Named quirks of the published code that this lens can reproduce, with one line each."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """Options that `LensSettings.options` may hold, with one line each."""
        ...

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks whose labels `observe` joins, by public name."""
        ...

    def refuses(self, capabilities: Capabilities) -> str | None:
        """One line saying why this lens cannot read such a model and which can, or None."""
        ...

    def passes(self, items: Sequence[Item], previous: int, settings: LensSettings) -> tuple[Pass, ...] | None:
        """The requests of the next pass over these items; None when ``previous`` passes were all."""
        ...

    def observe(
        self,
        prepared: Prepared,
        captures: Sequence[ItemCapture],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """The rows of one item in this lens's item table.

        Args:
            prepared: The item with tree, tokens and alignment.
            captures: What was captured, one a variant.
            labels: For each of `tasks`, the item's label rows (``start, end, label, ...`` in characters).
            settings: What the user chose.
            surfaces: Readable surface of each vocabulary id.
        """
        ...

    def score(self, scoring: Scoring) -> list[Score]:
        """Every number of the lens, each with its interval."""
        ...
