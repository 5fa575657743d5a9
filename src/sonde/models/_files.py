"""The files of a checkpoint: found in its folder or on the hub, and each read within bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from sonde.base.errors import InputError
from sonde.models._resolve import Location

WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"
INDEX_SUFFIX = ".index.json"

JSON_LIMIT = 64 << 20
"""Bytes that a configuration or an index may have; the largest published ones have a tenth of it."""

VOCABULARY_LIMIT = 1 << 30
"""Bytes that a file of a tokenizer may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFiles:
    """The files that hold a model's weights.

    Attributes:
        files: In the order of their names.
        pickled: Whether they are PyTorch pickles, which are read in a process of their own alone.
        index: Name of a weight to the name of its file; None where one file holds all.
    """

    files: tuple[Path, ...]
    pickled: bool
    index: dict[str, str] | None


def file_of(place: Location, name: str) -> Path | None:
    """A file of a model, None where it has none or it cannot be fetched."""
    if place.local:
        path = Path(place.name) / name
        return path if path.is_file() else None
    return _fetched(place, name, revision_of(place))


def revision_of(place: Location) -> str:
    """The commit that a name of the hub means, asked once: every file of a model is then of one commit.

    Where the hub does not tell, what the user named.
    """
    try:
        return _commit(place)
    except LookupError:
        return place.revision or "main"


@lru_cache(maxsize=64)
def _commit(place: Location) -> str:
    from transformers.utils.hub import extract_commit_hash

    files = () if place.local else ("config.json", "adapter_config.json")
    found = next(filter(None, (_fetched(place, name, place.revision or "main") for name in files)), None)
    commit = extract_commit_hash(None if found is None else str(found), None)
    if commit is None:
        # An answer that was not had is asked for again.
        raise LookupError(place.name)
    return commit


def _fetched(place: Location, name: str, revision: str) -> Path | None:
    from transformers.utils.hub import cached_file

    found = cached_file(
        place.name,
        name,
        revision=revision,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if found is None else Path(found)


def weights_of(place: Location, model: str) -> WeightFiles:
    """Where a model's weights are: safetensors where there are any, else pickles.

    Args:
        place: Where the model is.
        model: Its name, for errors.

    Raises:
        InputError: There are none, or an index names a file that is missing or not beside it.
    """
    for name in (WEIGHTS, PICKLED):
        whole = file_of(place, name)
        if whole is not None:
            return WeightFiles(files=(whole,), pickled=name == PICKLED, index=None)
        index = file_of(place, name + INDEX_SUFFIX)
        if index is not None:
            return _sharded(place, model, index, name)
    raise InputError(
        f"model {model!r}: it has neither {WEIGHTS} nor {PICKLED}; "
        "name a folder or revision with PyTorch weights"
    )


def _sharded(place: Location, model: str, index: Path, kind: str) -> WeightFiles:
    held = read_object(index, model)
    parts = held.get("weight_map")
    if not isinstance(parts, dict) or not parts or not isinstance(held.get("metadata"), dict):
        raise InputError(f"model {model!r}: {index.name} lacks weight_map or metadata; fetch the file again")
    parts = cast("dict[str, str]", parts)
    suffix = Path(kind).suffix
    files: list[Path] = []
    for name in sorted({str(part) for part in parts.values()}):
        # The hash of a model is that of the files of its folder, so nothing else may be read.
        if name != Path(name).name or "\\" in name or not name.endswith(suffix):
            raise InputError(
                f"model {model!r}: {index.name} names {name!r}, which is not a {suffix} file beside it; "
                "put all weights into the model's own folder"
            )
        file = file_of(place, name)
        if file is None:
            raise InputError(f"model {model!r}: {index.name} names {name!r}, which is missing; fetch it")
        files.append(file)
    return WeightFiles(files=tuple(files), pickled=kind == PICKLED, index=parts)


def check_size(path: Path, model: str, limit: int) -> None:
    """Refuse a file of more bytes than are read.

    Raises:
        InputError: It is too large.
    """
    size = path.stat().st_size
    if size > limit:
        raise InputError(
            f"model {model!r}: {path.name} has {size} bytes, more than the {limit} that are read; it is no "
            "file of a model"
        )


def read_object(path: Path, model: str, *, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """A JSON object from a file of bounded size.

    Raises:
        InputError: It is too large, is no JSON, or holds something else than an object.
    """
    check_size(path, model, limit)
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        held = None
    except ValueError as error:
        line = " ".join(str(error).split())[:200]
        raise InputError(
            f"model {model!r}: {path.name} is not valid JSON: {line}; fetch the file again"
        ) from error
    if not isinstance(held, dict):
        raise InputError(f"model {model!r}: {path.name} holds no JSON object; fetch the file again")
    return cast("dict[str, Any]", held)


def small_files(folder: Path) -> Iterable[Path]:
    """The configuration, vocabulary and code of a model's folder, without weights and their indexes."""
    for path in sorted(folder.iterdir()):
        wanted = path.suffix in (".json", ".txt", ".model", ".py") and not path.name.endswith(INDEX_SUFFIX)
        if wanted and path.is_file():
            yield path
