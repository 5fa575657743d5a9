"""The folder of a run: which file lies where, for those who write it and those who read it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError
from sonde.base.fingerprint import hash_text
from sonde.base.secrets import without_secrets
from sonde.store.receipts import must_be_intact, write_with_receipt

_LONGEST_SLUG = 120
_LARGEST_SUMMARY = 256 << 20


def slug(model: str) -> str:
    """A model's name as a folder name.

    >>> slug("sonde/mini-decoder")
    'sonde_mini-decoder'
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("_") or "model"
    if len(name) <= _LONGEST_SLUG:
        return name
    # File systems end a name at 255 bytes; the digest keeps apart what begins alike.
    return f"{name[:_LONGEST_SLUG]}-{hash_text(model)[:12]}"


def label_path(task: str, group: str, of: str = "") -> str:
    """Where the labels or the data set of a task lie inside the folder of a run.

    Args:
        task: Public name of the task.
        group: Beginning of the file names of a corpus and language.
        of: ``labels`` of the lens that reads them, see `sonde.experiments.lens_choice.LensChoice`.

    >>> label_path("idn", "python-2fa566a0"), label_path("idn", "python-2fa566a0", "probe")
    ('labels/task=idn/python-2fa566a0.parquet', 'labels/task=idn/python-2fa566a0.probe.parquet')
    """
    return f"labels/task={task}/{group}{f'.{of}' if of else ''}.parquet"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Paths of a run (DESIGN, section 3, "Files of a run")."""

    root: Path

    @property
    def summary(self) -> Path:
        """What was asked and resolved: ``run.json``."""
        return self.root / "run.json"

    @property
    def items(self) -> Path:
        """The items with their text."""
        return self.root / "items.parquet"

    @property
    def inputs(self) -> Path:
        """What tasks derived from the items and lenses read beside them."""
        return self.root / "inputs.parquet"

    @property
    def trained(self) -> Path:
        """Checkpoints and trained models, a folder a method."""
        return self.root / "trained"

    @property
    def models(self) -> Path:
        """Copies of local checkpoints, a folder a hash, for machines that do not have them."""
        return self.root / "models"

    @property
    def scores(self) -> Path:
        """One row a number."""
        return self.root / "scores.parquet"

    def intact_scores(self) -> Path:
        """Where the scores lie, once it is known that they are what was written.

        Raises:
            StoreError: They have been damaged or changed.
        """
        must_be_intact(self.root, self.scores.name)
        return self.scores

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / "report.html"

    @property
    def card(self) -> Path:
        """What its lenses found, as data."""
        return self.root / "card.json"

    @property
    def card_section(self) -> Path:
        """The same as a section of a model card."""
        return self.root / "card.md"

    def observations(self, lens: str, model: str) -> str:
        """Relative folder of the item tables of a lens and model."""
        return f"observations/lens={lens}/model={slug(model)}"

    def label_tables(self, task: str, lens: str) -> list[Path]:
        """The tables of labels, or the data sets, that a lens of the run reads of a task, one a group.

        Raises:
            InputError: The folder holds no run, or its summary cannot be read.
        """
        lenses = self.read_summary().get("lenses") or ()
        of = next((str(one.get("labels") or "") for one in lenses if one.get("name") == lens), "")
        # What tasks derived lies beside them and ends in ``.inputs``.
        found = (self.root / "labels" / f"task={task}").glob("*.parquet")
        return sorted(path for path in found if path.stem.partition(".")[2] == of)

    def read_summary(self) -> dict[str, Any]:
        """Read ``run.json``.

        Raises:
            InputError: The folder holds no run, or its summary cannot be read.
        """
        if self.summary.is_file() and self.summary.stat().st_size > _LARGEST_SUMMARY:
            raise InputError(f"{self.summary}: more than {_LARGEST_SUMMARY:,} bytes, which no run writes")
        if not self.summary.is_file():
            raise InputError(
                f"{self.root}: no run here (run.json is missing); `sonde run -o {self.root}` makes one"
            )
        try:
            return dict(json.loads(self.summary.read_text(encoding="utf-8")))
        except ValueError as error:
            raise InputError(f"{self.summary}: cannot be read ({error}); run again to rewrite it") from error

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``run.json`` atomically."""
        text = without_secrets(json.dumps(summary, indent=2, ensure_ascii=False)) + "\n"
        write_with_receipt(self.root, self.summary.name, text)
