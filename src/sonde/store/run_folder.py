"""Paths and files of the folder of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, StoreError, redact_secrets
from sonde.base.files import check_folder_name
from sonde.base.fingerprint import fingerprint, hash_text
from sonde.store.address import format_path
from sonde.store.checksums import check_intact, read_receipt, write_with_receipt

CARD_FILES = ("card.json", "card.md", "hub/*")
"""Patterns of the files of a card, and of those of it for the Hub."""


COMPARISON_FILES = ("comparison.*", "moved.parquet", "series.parquet")
"""Patterns of the files of a comparison."""


_MAXIMUM_SLUG_LENGTH = 120


_MAXIMUM_SUMMARY_BYTES = 256 << 20


def slug(model: str) -> str:
    """Convert the name of a model to a folder name.

    >>> slug("sonde/mini-decoder")
    'sonde_mini-decoder'
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("_") or "model"
    if len(name) <= _MAXIMUM_SLUG_LENGTH:
        return name
    # File systems limit names to 255 bytes; the digest separates names with a common prefix.
    return f"{name[:_MAXIMUM_SLUG_LENGTH]}-{hash_text(model)[:12]}"


def label_path(task: str, group: str, labels: str = "") -> str:
    """Return the relative path of the labels or the data set of a task in the folder of a run.

    Args:
        task: Public name of the task.
        group: Prefix of the file names of a corpus and language.
        labels: ``labels`` of the lens that reads them, see `sonde.experiments.experiment.LensChoice`.

    >>> label_path("idn", "python-2fa566a0"), label_path("idn", "python-2fa566a0", "probe")
    ('labels/task=idn/python-2fa566a0.parquet', 'labels/task=idn/python-2fa566a0.probe.parquet')
    """
    return f"labels/task={task}/{group}{f'.{labels}' if labels else ''}.parquet"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Paths of a run (DESIGN, section 3, "Files of a run"); readers of a file call `intact` first."""

    root: Path

    def intact(self, path: Path) -> Path:
        """Return `path` after checking that the file matches its receipt.

        Raises:
            StoreError: The file has been damaged, changed or removed.
        """
        check_intact(self.root, path.relative_to(self.root).as_posix())
        return path

    def holds(self, path: Path) -> bool:
        """Return whether the run has a file, after checking that it is intact.

        Raises:
            StoreError: The file has been damaged, changed or removed.
        """
        return self.intact(path).is_file()

    def tables(self, folder: str, prefix: str = "") -> list[Path]:
        """Return the sorted paths of the tables in a folder of the run, after checking that they are intact.

        Args:
            folder: Relative path of the folder.
            prefix: Prefix of the file names.

        Raises:
            StoreError: A table has been damaged or changed.
        """
        paths = sorted((self.root / folder).glob("*.parquet"))
        return [self.intact(path) for path in paths if path.name.startswith(prefix)]

    def texts(self) -> list[Path]:
        """Return the existing tables of model inputs: items, and inputs that tasks derived from them.

        Raises:
            StoreError: A table has been damaged, changed or removed.
        """
        return [path for path in (self.items, self.inputs) if self.holds(path)]

    @property
    def summary(self) -> Path:
        """Summary with the resolved experiment: ``run.json``."""
        return self.root / "run.json"

    @property
    def items(self) -> Path:
        """Table of items with their text."""
        return self.root / "items.parquet"

    @property
    def inputs(self) -> Path:
        """Table of inputs that tasks derived from the items."""
        return self.root / "inputs.parquet"

    @property
    def trained(self) -> Path:
        """Folder of checkpoints and trained models, with a subfolder per method."""
        return self.root / "trained"

    @property
    def models(self) -> Path:
        """Folder of copies of local checkpoints, by hash, for machines that do not have them."""
        return self.root / "models"

    @property
    def scores(self) -> Path:
        """Table of scores, one row per metric."""
        return self.root / "scores.parquet"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.root / "report.html"

    def is_page_current(self) -> bool:
        """Return whether the report exists, is intact and belongs to the current summary and scores.

        This compares contents, not times, which are wrong after the clock was set back.
        """
        try:
            receipt = read_receipt(self.root, self.report.name)
            return receipt is not None and receipt.key == self.page_key() and self.holds(self.report)
        except StoreError:
            return False

    def page_key(self) -> str:
        """Return the fingerprint of the inputs of the report: summary and scores, by their receipts."""
        receipts = [read_receipt(self.root, path.name) for path in (self.summary, self.scores)]
        return fingerprint("page", *(receipt.content if receipt else "" for receipt in receipts))

    @property
    def card(self) -> Path:
        """The card with the findings of all lenses, as JSON."""
        return self.root / "card.json"

    @property
    def card_section(self) -> Path:
        """The card as a section of a model card, in Markdown."""
        return self.root / "card.md"

    def observations(self, lens: str, model: str) -> str:
        """Return the relative path of the folder with the item tables of a lens and model."""
        return f"observations/lens={lens}/model={slug(model)}"

    def label_tables(self, task: str, lens: str) -> list[Path]:
        """Return the paths of the label tables or data sets of a task that a lens reads, one per group.

        Raises:
            InputError: The folder holds no run, or its summary cannot be read.
            StoreError: The summary or a table is damaged.
        """
        lenses = self.read_summary().get("lenses") or ()
        labels = next(
            (
                str(lens_summary.get("labels") or "")
                for lens_summary in lenses
                if lens_summary.get("name") == lens
            ),
            "",
        )
        # Derived inputs are in the same folder and end in ``.inputs``.
        paths = sorted((self.root / "labels" / f"task={task}").glob("*.parquet"))
        return [self.intact(path) for path in paths if path.stem.partition(".")[2] == labels]

    def read_summary(self) -> dict[str, Any]:
        """Read ``run.json``.

        Raises:
            UsageError: The name of the folder is not Unicode.
            InputError: The folder holds no run, or its summary cannot be read.
            StoreError: The summary is damaged.
        """
        check_folder_name(self.root)
        name = format_path(self.summary)
        if self.summary.is_file() and self.summary.stat().st_size > _MAXIMUM_SUMMARY_BYTES:
            raise InputError(f"{name}: more than {_MAXIMUM_SUMMARY_BYTES:,} bytes, which no run writes")
        if not self.holds(self.summary):
            folder_name = format_path(self.root)
            raise InputError(
                f"{folder_name}: no run here (run.json is missing); `sonde run -o {folder_name}` makes one"
            )
        try:
            return dict(json.loads(self.summary.read_text(encoding="utf-8")))
        except ValueError as error:
            raise InputError(f"{name}: cannot be read ({error}); run again to rewrite it") from error

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``run.json`` atomically."""
        text = redact_secrets(json.dumps(summary, indent=2, ensure_ascii=False)) + "\n"
        write_with_receipt(self.root, self.summary.name, text)


def group_prefix(corpus: str, language: str) -> str:
    """Beginning of the file names of a group's parts and labels."""
    return f"{language}-{fingerprint(corpus)[:8]}"
