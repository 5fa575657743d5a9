"""Headers of safetensors files: what a file holds, and whether it is all there, before a weight is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sonde.base.errors import InputError
from sonde.models._family import ModelSpec
from sonde.models._files import weights_of
from sonde.models._resolve import locate

_LFS = b"version https://git-lfs"
_LIMIT = 100_000_000
"""Bytes of a header that safetensors itself takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One entry of a header.

    Attributes:
        dtype: As safetensors names it (``F32``, ``BF16``).
        shape: Its axes.
        bytes: What it takes in the file.
    """

    dtype: str
    shape: tuple[int, ...]
    bytes: int


def check_fetched(path: Path, model: str) -> None:
    """Refuse the pointer that Git leaves where the weights were not fetched.

    Raises:
        InputError: The file is one.
    """
    with path.open("rb") as handle:
        if handle.read(len(_LFS)) == _LFS:
            raise InputError(
                f"model {model!r}: {path.name} is a pointer of Git LFS, not the weights; fetch them with "
                "`git lfs pull`"
            )


def read_header(path: Path, model: str) -> dict[str, Tensor]:
    """What a safetensors file holds, by name.

    Args:
        path: The file.
        model: Whose it is, for errors.

    Raises:
        InputError: The file is a pointer of Git LFS, was fetched by half, or is no safetensors.
    """
    check_fetched(path, model)
    about = f"model {model!r}: {path.name}"
    size = path.stat().st_size
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if size < 8 or (length <= _LIMIT and 8 + length > size):
            raise InputError(f"{about} ends inside its header ({size} bytes); fetch the file again")
        if length > _LIMIT:
            raise InputError(f"{about} is no safetensors file; fetch it again")
        raw = handle.read(length)
    try:
        held = _tensors(json.loads(raw))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"{about} has a damaged header; fetch the file again") from error
    whole = 8 + length + sum(tensor.bytes for tensor in held.values())
    if whole != size:
        fault = "was fetched by half" if size < whole else "does not match its header"
        raise InputError(f"{about} {fault}: {size} of {whole} bytes; fetch the file again")
    return held


def _tensors(header: dict[str, Any]) -> dict[str, Tensor]:
    header.pop("__metadata__", None)
    found: dict[str, Tensor] = {}
    for name, entry in header.items():
        first, last = cast("list[int]", entry["data_offsets"])
        shape = tuple(int(axis) for axis in entry["shape"])
        found[name] = Tensor(dtype=str(entry["dtype"]), shape=shape, bytes=last - first)
    return found


def local_headers(spec: ModelSpec) -> dict[str, Tensor]:
    """What the safetensors of a local folder hold, by name; nothing of pickles, nor of the hub.

    Raises:
        InputError: A file is missing or damaged.
    """
    place = locate(spec)
    weights = weights_of(place, spec.name) if place.local else None
    if weights is None or weights.pickled:
        return {}
    held: dict[str, Tensor] = {}
    for file in weights.files:
        held |= read_header(file, spec.name)
    return held
