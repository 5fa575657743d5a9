"""Keys and derived seeds that are equal on every machine and in every process for equal values."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cache
from json.encoder import encode_basestring_ascii
from pathlib import Path, PurePath
from typing import Any

_DIGEST_BYTES = 16
_ENCODER = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
_SCALAR_ENCODERS: Mapping[type, Callable[[Any], str]] = {str: encode_basestring_ascii, int: int.__repr__}

OMITTED_AT_DEFAULT: Mapping[str, Any] = {"omitted_at_default": True}
"""Metadata of a field that is part of a key only if it differs from its default."""

NOT_IN_KEYS: Mapping[str, Any] = {"in_keys": False}
"""Metadata of a field that is never part of a key, because the key covers its content in another way."""


def _to_plain(value: Any) -> Any:
    """Convert a value to JSON types in a canonical order.

    A dataclass is named in a key by its ``kind_in_keys`` if it has one, so that the class may be renamed.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _to_plain(getattr(value, field.name))
            for field in _get_fields(type(value))
            if _is_in_key(value, field)
        }
        return {"__kind__": getattr(type(value), "kind_in_keys", type(value).__name__), **fields}
    if isinstance(value, Mapping):
        return {str(k): _to_plain(v) for k, v in value.items()}
    if isinstance(value, Set):
        return sorted((_to_plain(v) for v in value), key=repr)
    if isinstance(value, list | tuple):
        # Pools and item sets are long lists of texts and of pairs of texts.
        return [v if type(v) is str else _to_plain(v) for v in value]
    if isinstance(value, PurePath):
        return value.as_posix()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"cannot fingerprint a {type(value).__name__}: {value!r}")


@cache
def _get_fields(data_class: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(data_class)


def _is_in_key(value: Any, field: dataclasses.Field[Any]) -> bool:
    """Return whether a field is part of a key."""
    if not field.metadata.get("in_keys", True):
        return False
    return not (field.metadata.get("omitted_at_default") and getattr(value, field.name) == field.default)


def fingerprint(*parts: Any) -> str:
    """Hash plain values, containers and dataclasses into 32 hexadecimal digits.

    >>> fingerprint({"b": 1, "a": 2}) == fingerprint({"a": 2, "b": 1})
    True
    """
    # Sampling calls this millions of times: text and integers are written as the encoder writes them.
    if all(type(part) in _SCALAR_ENCODERS for part in parts):
        return hash_bytes(f"[{','.join([_SCALAR_ENCODERS[type(part)](part) for part in parts])}]".encode())
    return hash_bytes(_ENCODER.encode(_to_plain(parts)).encode())


def fingerprint_rows(rows: Iterable[tuple[str, ...]]) -> str:
    """Hash an iterable of rows as `fingerprint` hashes a list of them, row by row.

    >>> fingerprint_rows(iter([("a", "b"), ("c", "d")])) == fingerprint([("a", "b"), ("c", "d")])
    True
    """
    digest = hashlib.blake2b(b"[[", digest_size=_DIGEST_BYTES)
    for index, row in enumerate(rows):
        digest.update(f"{',' if index else ''}[{','.join(map(encode_basestring_ascii, row))}]".encode())
    digest.update(b"]]")
    return digest.hexdigest()


def hash_bytes(data: bytes) -> str:
    """Hash bytes into 32 hexadecimal digits (BLAKE2b, 128 bits)."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def hash_file(path: Path) -> str:
    """Hash the content of a file of any size, as `hash_bytes`.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES)).hexdigest()


def hash_text(text: str) -> str:
    """Hash a text by its UTF-8 bytes; a lone surrogate differs from U+FFFD."""
    return hash_bytes(text.encode("utf-8", "surrogatepass"))


def derive_seed(*parts: Any) -> int:
    """Derive a 63-bit seed from plain values, so that no two uses of randomness share a stream."""
    return int(fingerprint(*parts)[:16], 16) >> 1


def unit_hash(*parts: Any) -> float:
    """Map plain values uniformly onto [0, 1); the basis of sampling and splitting by hash."""
    return int(fingerprint(*parts)[:13], 16) / 16**13


def display_rank(item: str) -> float:
    """Return the rank of an item, in [0, 1), by which examples are chosen for display.

    The order is the same for every lens, so that a lens that analyses few functions in detail analyses those
    that the report shows.
    """
    return unit_hash("explorer", item)
