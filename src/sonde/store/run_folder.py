"""The folder of a run: which file lies where, for those who write it and those who read it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, StoreError, without_secrets
from sonde.base.files import check_name
from sonde.base.fingerprint import fingerprint, hash_text
from sonde.store.address import shown
from sonde.store.checksums import must_be_intact, read_receipt, write_with_receipt

CARD_FILES = ("card.json", "card.md")


COMPARISON_FILES = ("comparison.*", "moved.parquet", "series.parquet")
"""Patterns of what a card and a comparison write."""


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
        of: ``labels`` of the lens that reads them, see `sonde.experiments.experiment.LensChoice`.

    >>> label_path("idn", "python-2fa566a0"), label_path("idn", "python-2fa566a0", "probe")
    ('labels/task=idn/python-2fa566a0.parquet', 'labels/task=idn/python-2fa566a0.probe.parquet')
    """
    return f"labels/task={task}/{group}{f'.{of}' if of else ''}.parquet"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Paths of a run (DESIGN, section 3, "Files of a run"); who reads a file of it asks `intact` first."""

    root: Path

    def intact(self, path: Path) -> Path:
        """A file of the run that is read, once it is known to be what was written.

        Raises:
            StoreError: It has been damaged, changed or removed.
        """
        must_be_intact(self.root, path.relative_to(self.root).as_posix())
        return path

    def holds(self, path: Path) -> bool:
        """Whether the run has a file, which is then what was written.

        Raises:
            StoreError: It has been damaged, changed or removed.
        """
        return self.intact(path).is_file()

    def tables(self, folder: str, begin: str = "") -> list[Path]:
        """The tables in a folder of the run, in order, once they are known to be what was written.

        Args:
            folder: Its path in the run.
            begin: With what their names begin.

        Raises:
            StoreError: One has been damaged or changed.
        """
        found = sorted((self.root / folder).glob("*.parquet"))
        return [self.intact(path) for path in found if path.name.startswith(begin)]

    def texts(self) -> list[Path]:
        """The tables of what models read: items, and what tasks derived from them, as far as they are there.

        Raises:
            StoreError: One has been damaged, changed or removed.
        """
        return [path for path in (self.items, self.inputs) if self.holds(path)]

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

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / "report.html"

    def page_is_current(self) -> bool:
        """Whether the page is there as it was written, and of the present summary and scores.

        Contents say it: a clock that was set back makes what is newer look older.
        """
        try:
            receipt = read_receipt(self.root, self.report.name)
            return receipt is not None and receipt.key == self.page_key() and self.holds(self.report)
        except StoreError:
            return False

    def page_key(self) -> str:
        """Fingerprint of what the page is drawn from: summary and scores, by their receipts."""
        found = [read_receipt(self.root, path.name) for path in (self.summary, self.scores)]
        return fingerprint("page", *(one.content if one else "" for one in found))

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
            StoreError: The summary or a table is not what was written.
        """
        lenses = self.read_summary().get("lenses") or ()
        of = next((str(one.get("labels") or "") for one in lenses if one.get("name") == lens), "")
        # What tasks derived lies beside them and ends in ``.inputs``.
        found = sorted((self.root / "labels" / f"task={task}").glob("*.parquet"))
        return [self.intact(path) for path in found if path.stem.partition(".")[2] == of]

    def read_summary(self) -> dict[str, Any]:
        """Read ``run.json``.

        Raises:
            UsageError: The name of the folder is not Unicode.
            InputError: The folder holds no run, or its summary cannot be read.
            StoreError: The summary is not what was written.
        """
        check_name(self.root)
        name = shown(self.summary)
        if self.summary.is_file() and self.summary.stat().st_size > _LARGEST_SUMMARY:
            raise InputError(f"{name}: more than {_LARGEST_SUMMARY:,} bytes, which no run writes")
        if not self.holds(self.summary):
            where = shown(self.root)
            raise InputError(f"{where}: no run here (run.json is missing); `sonde run -o {where}` makes one")
        try:
            return dict(json.loads(self.summary.read_text(encoding="utf-8")))
        except ValueError as error:
            raise InputError(f"{name}: cannot be read ({error}); run again to rewrite it") from error

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``run.json`` atomically."""
        text = without_secrets(json.dumps(summary, indent=2, ensure_ascii=False)) + "\n"
        write_with_receipt(self.root, self.summary.name, text)


def group_prefix(corpus: str, language: str) -> str:
    """Beginning of the file names of a group's parts and labels."""
    return f"{language}-{fingerprint(corpus)[:8]}"
