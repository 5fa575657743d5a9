"""The models that travel in the package, and what a model says it was trained on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import UInt64

from sonde.base.errors import UnknownNameError
from sonde.base.files import expand_home
from sonde.models._naming import split_options, split_revision
from sonde.results.columns import scan_files

_PREFIX = "sonde/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFiles:
    """Files beside a model's weights that say what it has seen; None where there is none.

    Attributes:
        files: One row a training file, with version, licence and hash.
        seen: ``item_hash``: first 16 digits of the ids of all items trained on, as sorted numbers.
        frequencies: ``subword_id, count`` in the training data.
    """

    files: Path | None
    seen: Path | None
    frequencies: Path | None


def bundled_names() -> tuple[str, ...]:
    """Public names of the bundled models, sorted."""
    home = _home()
    if not home.is_dir():
        return ()
    folders = [folder for folder in home.iterdir() if (folder / "config.json").is_file()]
    return tuple(sorted(_PREFIX + folder.name for folder in folders))


def bundled_folder(name: str) -> Path | None:
    """The folder of a bundled model, None for any other name.

    Raises:
        UnknownNameError: The name belongs to the bundled models but none of them has it.
    """
    if not name.startswith(_PREFIX):
        return None
    if name not in bundled_names():
        raise UnknownNameError("bundled model", name, bundled_names(), "see `sonde list models`")
    return _home() / name.removeprefix(_PREFIX)


def manifest(name: str) -> ManifestFiles:
    """Where a model says what it was trained on; any folder may hold the files that bundled ones do.

    What stands behind a name, revision or quantisation, does not change what its weights have seen.
    """
    bare = split_revision(split_options(name)[0])[0]
    folder = bundled_folder(bare) or expand_home(bare)
    found = {
        field: path if (path := folder / f"{file}.parquet").is_file() else None
        for field, file in (("files", "manifest"), ("seen", "seen"), ("frequencies", "frequencies"))
    }
    return ManifestFiles(**found)


def frequencies(name: str) -> pl.DataFrame | None:
    """``subword_id, count`` in a model's training data, None where it does not say."""
    path = manifest(name).frequencies
    return None if path is None else scan_files(path).collect()


def seen_items(name: str, item_ids: Iterable[str]) -> frozenset[str]:
    """Those items that a model was trained on, as far as it says."""
    path = manifest(name).seen
    ids = list(item_ids)
    if path is None or not ids:
        return frozenset()
    seen = _hashes(path)
    asked = np.array([int(item[:16], 16) for item in ids], np.uint64)
    place = np.searchsorted(seen, asked)
    inside = place < len(seen)
    inside[inside] = seen[place[inside]] == asked[inside]
    return frozenset(item for item, known in zip(ids, inside.tolist(), strict=True) if known)


@lru_cache(maxsize=2)
def _hashes(path: Path) -> UInt64[np.ndarray, " item"]:
    return np.sort(scan_files(path).select("item_hash").collect()["item_hash"].to_numpy())


def _home() -> Path:
    return Path(str(files("sonde.models"))) / "bundled"
