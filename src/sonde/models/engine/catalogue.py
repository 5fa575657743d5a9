"""Checkpoints that sonde knows by name: the bundled ones and published ones, each cell with its source."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sonde.base.formatting import format_bytes
from sonde.base.registry import Header
from sonde.models.engine.files import read_header
from sonde.models.engine.model_names import bundled_folder, bundled_names, read_catalogue

CELLS = ("parameters", "languages", "cut_off", "licence")


MASKED_HEAD, ATTENTION_WEIGHTS = "masked head", "attention weights"
"""What a published checkpoint may lack although models of its family have it."""


@dataclass(frozen=True, slots=True)
class CitedValue:
    """A known fact about a checkpoint, with its source.

    Attributes:
        value: A number of parameters, an ISO month or day, or words.
        source: The address of a page, or a section of one of the papers behind sonde.
    """

    value: int | str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint that sonde knows by name.

    Attributes:
        name: As ``-m`` takes it.
        family: The file of this folder that reads it.
        summary: One line.
        lacks: Which of `MASKED_HEAD` and `ATTENTION_WEIGHTS` it has not.
        cells: What a source says of it, by name (`CELLS`); what none says is left out.
        papers: Where the papers behind sonde used it.
        bundled: Whether it travels in the package.
    """

    name: str
    family: str
    summary: str
    lacks: tuple[str, ...] = ()
    cells: Mapping[str, CitedValue] = field(default_factory=dict[str, CitedValue])
    papers: tuple[str, ...] = ()
    bundled: bool = False

    @property
    def header(self) -> Header:
        """Name, and family with the line."""
        return Header(self.name, f"{self.family}: {self.summary}")

    def data(self) -> dict[str, Any]:
        """Return the checkpoint as plain data, with None in a cell that no source fills."""
        return {
            "name": self.name,
            "summary": self.header.summary,
            "family": self.family,
            **{name: cell.value if (cell := self.cells.get(name)) else None for name in CELLS},
            "papers": list(self.papers),
            "sources": {name: cell.source for name, cell in self.cells.items()},
        }


@lru_cache(maxsize=1)
def known_checkpoints() -> tuple[Checkpoint, ...]:
    """Return the bundled models, then those of the catalogue."""
    checkpoints = [
        Checkpoint(
            name=name,
            family=row["family"],
            summary=row["summary"],
            lacks=tuple(row.get("lacks", ())),
            cells={column: CitedValue(**row[column]) for column in CELLS if column in row},
            papers=tuple(row.get("papers", ())),
        )
        for name, row in read_catalogue().items()
    ]
    return (*map(_load_bundled_checkpoint, bundled_names()), *checkpoints)


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """A checkpoint on this machine.

    Attributes:
        source: ``bundled``, or ``hub cache``.
        size: Bytes on disk.
        has_weights: Whether its weights are there, and not its configuration or tokenizer only.
    """

    source: str
    size: int
    has_weights: bool = True

    @property
    def in_hub_cache(self) -> bool:
        """Return whether it is in the hub cache."""
        return self.source == HUB_CACHE

    def __str__(self) -> str:
        """Format source and size."""
        return f"{self.source}, {format_bytes(self.size) if self.has_weights else 'without weights'}"


BUNDLED, HUB_CACHE = "bundled", "hub cache"


_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".gguf")


def locate_checkpoints() -> dict[str, LocalCopy]:
    """Find the bundled models and those in the hub cache of this machine, by name; no network is used."""
    # Imported here: it takes longer than the catalogue is read.
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    copies: dict[str, LocalCopy] = {}
    for name in bundled_names():
        folder = bundled_folder(name)
        assert folder is not None, name
        copies[name] = LocalCopy(BUNDLED, sum(path.stat().st_size for path in folder.rglob("*")))
    try:
        repositories = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except (CacheNotFound, ValueError, OSError):
        return copies
    for repository in sorted(repositories, key=lambda repository: repository.repo_id):
        files = {file.file_name for revision in repository.revisions for file in revision.files}
        is_readable = "config.json" in files or any(name.endswith(".gguf") for name in files)
        if repository.repo_type == "model" and is_readable:
            has_weights = any(name.endswith(_WEIGHT_SUFFIXES) for name in files)
            copies[repository.repo_id] = LocalCopy(HUB_CACHE, repository.size_on_disk, has_weights)
    return copies


def _load_bundled_checkpoint(name: str) -> Checkpoint:
    folder = bundled_folder(name)
    assert folder is not None, name
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = sorted(folder.glob("*.safetensors"))
    size = sum(file.stat().st_size for file in weights)
    layers, width = config.get("num_hidden_layers"), config.get("hidden_size")
    tensors = [tensor for file in weights for tensor in read_header(file, name).values()]
    parameters = sum(math.prod(tensor.shape) for tensor in tensors)
    return Checkpoint(
        name=name,
        family=config["model_type"],
        summary=f"bundled, {layers} x {width}, {size / 1e6:.0f} MB; needs no network",
        cells={"parameters": CitedValue(parameters, "counted in the bundled file")},
        bundled=True,
    )
