"""The tables of a finished run, read with polars alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from tests.slices import with_slices


def hash_unit(*parts: object) -> float:
    """Map plain values onto [0, 1) as docs/files.md says."""
    data = json.dumps(parts, separators=(",", ":")).encode()
    return int(hashlib.blake2b(data, digest_size=16).hexdigest()[:13], 16) / 16**13


def hash_text_id(*parts: object) -> str:
    """Return the 32 digits that tell texts apart."""
    data = json.dumps(parts, separators=(",", ":")).encode()
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=False)
class RunFolder:
    """One model of a run.

    Attributes:
        root: The folder.
        model: Number of the model in ``run.json``.
    """

    root: Path
    model: int = 0

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """What ``run.json`` says."""
        return json.loads((self.root / "run.json").read_text(encoding="utf-8"))

    @property
    def facts(self) -> Mapping[str, Any]:
        """What it says of the model."""
        return self.summary["models"][self.model]

    @cached_property
    def scores(self) -> pl.DataFrame:
        """The scores of the model, with their dimensions as one text."""
        return with_slices(pl.read_parquet(self.root / "scores.parquet")).filter(
            pl.col("model") == self.facts["name"]
        )

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The text of each item and of each input that was derived from one."""
        tables = [pl.read_parquet(self.root / f"{name}.parquet") for name in ("items", "inputs")]
        return dict(pl.concat([table.select("item_id", "text") for table in tables]).iter_rows())

    @cached_property
    def items(self) -> pl.DataFrame:
        """The items."""
        return pl.read_parquet(self.root / "items.parquet")

    def has(self, lens: str) -> bool:
        """Return whether the lens, or a later stage of it as ``causal.1``, observed anything."""
        return bool(self._files("observations", lens))

    def observations(self, lens: str) -> pl.DataFrame:
        """Read what a lens observed of the model."""
        return pl.concat([pl.read_parquet(path) for path in self._files("observations", lens)])

    def fits(self) -> pl.DataFrame:
        """Read what the first stage of `causal` fitted."""
        return pl.concat([pl.read_parquet(path) for path in self._files("handed", "causal")])

    def answers(self, lens: str) -> pl.DataFrame:
        """Read what probes answer."""
        return pl.concat([pl.read_parquet(path) for path in self._files("answers", lens)])

    def labels(self, task: str, lens: str) -> pl.DataFrame:
        """Read the labels of a task in the way in which a lens asks it."""
        folder = self.root / "labels" / f"task={task}"
        files = [
            path for path in sorted(folder.glob("*.parquet")) if path.suffixes[-2:] != [".inputs", ".parquet"]
        ]
        own = [path for path in files if path.name.endswith(f".{lens}.parquet")]
        plain = [path for path in files if path.name.count(".") == 1]
        return pl.concat([pl.read_parquet(path) for path in own or plain])

    def tasks(self, lens: str) -> list[str]:
        """Return the tasks that a lens asked."""
        return next((one["tasks"] for one in self.summary["lenses"] if one["name"] == lens), [])

    def _files(self, kind: str, lens: str) -> list[Path]:
        folder = self.root / kind / f"lens={lens}" / f"model={self.facts['slug']}"
        return sorted(folder.rglob("*.parquet"))


def unpack_states(rows: pl.DataFrame) -> Float[np.ndarray, "row layer width"]:
    """Unpack the columns ``states`` and ``scale`` of rows that hold the same layers."""
    scale = np.array(rows["scale"].to_list(), dtype=np.float32)
    half = np.frombuffer(b"".join(rows["states"].to_list()), dtype=np.float16)
    return half.reshape(*scale.shape, -1).astype(np.float32) * scale[..., None]
