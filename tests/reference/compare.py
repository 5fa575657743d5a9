"""Two folders of the fixed set, file by file and value by value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

from sonde.results.columns import scan_tables
from sonde.results.scores import read_scores

CLOSE = 1e-6
"""Of two numbers that are computed: products of matrices may be summed in another order."""

_TABLES = ("scores.parquet", "items.parquet", "inputs.parquet")
_FOLDERS = ("labels", "observations")
_HASHES = ("fingerprint", "item_set", "revision", "schema_version", "corpus_hash")
"""Columns that name a state of the code or a format, not a result."""


def differences(before: Path, after: Path) -> Iterator[str]:
    """A line for each file that differs, or that only one of the folders has."""
    names = {path.name for folder in (before, after) for path in folder.iterdir() if path.is_dir()}
    for name in sorted(names):
        own, other = before / name, after / name
        if not own.is_dir() or not other.is_dir():
            yield f"{name}: only {'before' if own.is_dir() else 'now'}"
        else:
            yield from _of_command(name, own, other)


def _of_command(name: str, before: Path, after: Path) -> Iterator[str]:
    codes = [json.loads((place / "ended.json").read_text())["code"] for place in (before, after)]
    if codes[0] != codes[1]:
        yield f"{name}: ended with {codes[1]}, before with {codes[0]}"
        return
    held = [_files(before), _files(after)]
    for place in sorted(held[0].keys() ^ held[1].keys()):
        yield f"{name}: {place} is only {'there before' if place in held[0] else 'there now'}"
    for place in sorted(held[0].keys() & held[1].keys()):
        if told := _differs(held[0][place], held[1][place]):
            yield f"{name}: {place}: {told}"


def _files(folder: Path) -> dict[str, Path]:
    """What a command wrote that is compared, by a name without hashes."""
    labels = [folder / "labels"] if (folder / "labels").is_file() else []
    written = [path for path in folder.glob("labels/**/*") if path.is_file()]
    tables = [folder / name for name in _TABLES if (folder / name).exists()]
    observed = [path for name in _FOLDERS for path in folder.glob(f"{name}/**/*.parquet")]
    return {
        _named(path.relative_to(folder)): path
        for path in dict.fromkeys([*labels, *written, *tables, *observed])
    }


def _named(path: Path) -> str:
    """A path without the hash of content and rules that ends a part's name."""
    stem, sign, digest = path.stem.rpartition("-")
    hashed = bool(sign) and len(digest) == 16 and all(letter in "0123456789abcdef" for letter in digest)
    return (path.with_name(stem + path.suffix) if hashed else path).as_posix()


def _differs(before: Path, after: Path) -> str:
    if before.suffix != ".parquet":
        return "" if _text(before) == _text(after) else "differs"
    frames = [_results(path) for path in (before, after)]
    try:
        assert_frame_equal(*frames, abs_tol=CLOSE, rel_tol=CLOSE)
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return ""


def _text(path: Path) -> bytes:
    """A file of labels, its columns by the names of today."""
    return path.read_bytes().replace(b'"quiz_id"', b'"query_id"')


def _results(path: Path) -> pl.DataFrame:
    """A table without what names a state of the code, its columns in order and by the names of today."""
    frame = read_scores(path) if path.name == "scores.parquet" else scan_tables([path]).collect()
    frame = frame.drop(name for name in _HASHES if name in frame.columns)
    return frame.select(sorted(frame.columns))
