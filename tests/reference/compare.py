"""Two folders of the fixed set, file by file and value by value: of what both hold.

The parts of a table are joined before they are compared, and rows are those of one key whatever their order
is. What only the later folder has (a file, a column, a row of a key of its own) is added, not different.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from sonde.results.schema import scan_files
from sonde.results.scores import read_scores

CLOSE = 1e-6
"""Of two numbers that are computed: products of matrices may be summed in another order."""

DIFFERS, INTENDED, ADDED = "differs", "intended", "added"

_TABLES = ("scores.parquet", "items.parquet", "inputs.parquet")
_FOLDERS = ("labels", "observations")
_STATES = ("fingerprint", "item_set", "revision", "schema_version", "corpus_hash")
"""Columns that name a state of the code or a format, not a result."""

_FOUND = ("n", "n_clusters", "ci_method", "fold_layers", "chosen")
"""Columns of scores that are found, as numbers with a fraction are; the others say what a number is of."""

_KINDS = ("lens", "metric", "of_metric", "compared_to", "control", "method")
"""Columns of scores by which added rows are counted."""

_PLACE = ("id", "label", "value", "start", "end", "other_start", "other_end")
"""What a row is in a file of labels."""

_VERSIONED = ("span",)
"""Columns of labels that name a version of their task, not what it says."""

_HASH = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that two folders do not share.

    Attributes:
        kind: `DIFFERS`, `INTENDED` or `ADDED`.
        command: Whose file it is.
        file: The file, without hashes in its name.
        what: What it is.
        count: How many (rows, edges).
    """

    kind: str
    command: str
    file: str
    what: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Intended:
    """A file that differs by intention; without a name, how a command ends.

    Attributes:
        reason: Why it does.
        most: Rows of labels that may differ; None where the whole file is gone.
    """

    reason: str
    most: int | None = None


def differences(
    before: Path, after: Path, intended: dict[tuple[str, str], Intended], only: Sequence[str] = ("*",)
) -> Iterator[Finding]:
    """What differs between two folders, and what only the later one has.

    Args:
        before: What the earlier tree gave.
        after: What the tree at hand gave.
        intended: Files that differ by intention, by command and file.
        only: Names of commands, with ``*`` for any letters.
    """
    names = {path.name for folder in (before, after) for path in folder.iterdir() if path.is_dir()}
    chosen = (name for name in names - {"labels"} if any(fnmatch(name, one) for one in only))
    for name in sorted(chosen):
        own, other = before / name, after / name
        if own.is_dir() and other.is_dir():
            yield from _of_command(name, own, other, intended)
        else:
            yield Finding(DIFFERS if own.is_dir() else ADDED, name, "", "the whole command")


def told(findings: list[Finding]) -> Iterator[str]:
    """The findings as a table, those of one kind in many commands as one row; differences first."""
    rows: defaultdict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for one in findings:
        rows[one.kind, one.file, one.what].append(one)
    order = {kind: place for place, kind in enumerate((DIFFERS, INTENDED, ADDED))}
    cells = [("kind", "file", "commands", "count", "what")]
    for (kind, file, what), held in sorted(rows.items(), key=lambda row: (order[row[0][0]], row[0])):
        commands = sorted({one.command for one in held})
        named = commands[0] if len(commands) == 1 else f"{len(commands)}: {commands[0]} .."
        cells.append((kind, file, named, f"{sum(one.count for one in held):,}", what))
    wide = [max(len(row[column]) for row in cells) for column in range(4)]
    for row in cells:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row[:4], wide, strict=True)), row[4]])


def _of_command(
    name: str, before: Path, after: Path, intended: dict[tuple[str, str], Intended]
) -> Iterator[Finding]:
    codes = [json.loads((place / "ended.json").read_text())["code"] for place in (before, after)]
    if codes[0] != codes[1]:
        allowed = intended.get((name, ""))
        kind, why = (DIFFERS, "") if allowed is None else (INTENDED, f": {allowed.reason}")
        yield Finding(kind, name, "", f"ended with {codes[1]}, before with {codes[0]}{why}")
        return
    own, other = _files(before), _files(after)
    for file in sorted(own.keys() | other.keys()):
        allowed = intended.get((name, file))
        if file not in other and allowed and allowed.most is None:
            yield Finding(INTENDED, name, file, f"the whole file: {allowed.reason}")
        elif file not in own or file not in other:
            yield Finding(DIFFERS if file in own else ADDED, name, file, "the whole file")
        elif file.endswith(".parquet"):
            for kind, what, count in _of_tables(_table(own[file]), _table(other[file])):
                yield Finding(kind, name, file, what, count)
        elif allowed and allowed.most is not None:
            count = _rows_that_differ(own[file][0], other[file][0])
            if count:
                kind = INTENDED if count <= allowed.most else DIFFERS
                yield Finding(kind, name, file, f"rows (at most {allowed.most:,}): {allowed.reason}", count)
        else:
            for kind, what, count in _of_labels(own[file][0], other[file][0]):
                yield Finding(kind, name, file, what, count)


def _files(folder: Path) -> dict[str, list[Path]]:
    """What a command wrote that is compared, by names without hashes; the parts of a table together."""
    tables = [folder / name for name in _TABLES if (folder / name).exists()]
    written = [path for name in _FOLDERS for path in sorted(folder.glob(f"{name}/**/*")) if path.is_file()]
    alone = [folder / "labels"] if (folder / "labels").is_file() else []
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for path in [*tables, *written, *alone]:
        found[_named(path.relative_to(folder))].append(path)
    return found


def _named(path: Path) -> str:
    """A path without the hashes of content and rules in the name of its file."""
    stem, dot, rest = path.name.partition(".")
    parts = stem.split("-")
    kept = [part for part in parts if len(part) not in (8, 16) or not _HASH.issuperset(part)]
    return path.with_name("-".join(kept) + dot + rest).as_posix()


def _table(parts: list[Path]) -> pl.DataFrame:
    """A table without what names a state of the code."""
    if parts[0].name != "scores.parquet":
        frame = scan_files(parts).collect()
    else:
        # What an earlier version did not write, and nothing that it wrote says.
        held, frame = pl.read_parquet_schema(parts[0]).keys(), read_scores(parts[0])
        frame = frame.select(s.name for s in frame if s.name in held or s.null_count() < len(s))
    return frame.drop(name for name in _STATES if name in frame.columns)


def _of_tables(before: pl.DataFrame, after: pl.DataFrame) -> Iterator[tuple[str, str, int]]:
    """Columns and rows that only one of two tables has, and values that differ in the rows that both have."""
    lost = [name for name in before.columns if name not in after.columns]
    more = [name for name in after.columns if name not in before.columns]
    for kind, names, frame in ((DIFFERS, lost, before), (ADDED, more, after)):
        for name in names:
            filled = frame.height - frame[name].null_count()
            if filled or kind == DIFFERS:
                yield kind, f"column {name}", filled
    common = [name for name in before.columns if name in after.columns]
    other = [name for name in common if before.schema[name] != after.schema[name]]
    for name in other:
        yield DIFFERS, f"column {name} was {before.schema[name]}, is {after.schema[name]}", after.height
    common = [name for name in common if name not in other]
    own, new = before.select(common), after.select(common)
    values = cs.expand_selector(own, cs.float())
    values = (*values, *(name for name in _FOUND if name in common and "metric" in common))
    keyed = [_keyed(frame, [name for name in common if name not in values], values) for frame in (own, new)]
    joined = keyed[0].join(keyed[1], on=("_key", "_number"), how="full", suffix=" now")
    gone = joined.filter(pl.col("_key now").is_null())
    if gone.height:
        yield DIFFERS, f"rows that are no longer there, as {gone['_key'][0][:160]}", gone.height
    rows = joined.filter(pl.col("_key").is_null())
    if not more:
        twice = rows.filter(pl.col("_number now") > 0)
        if twice.height:
            yield DIFFERS, f"rows of a key that others have, as {twice['_key now'][0][:160]}", twice.height
        rows = rows.filter(pl.col("_number now") == 0)
    for kind, count in Counter(map(_kind, rows["_key now"])).items():
        yield ADDED, f"rows {kind}".strip(), count
    both = joined.filter(pl.col("_key").is_not_null() & pl.col("_key now").is_not_null())
    for name in values:
        changed = both.filter(~_same(name, own.schema[name]))
        if changed.height:
            first = changed.row(0, named=True)
            example = f"{first[name]} now {first[name + ' now']} at {first['_key'][:160]}"
            yield DIFFERS, f"values of {name}: {example}", changed.height


def _keyed(frame: pl.DataFrame, key: list[str], values: tuple[str, ...]) -> pl.DataFrame:
    """The values of rows by all other columns as one text; rows of one key are numbered by their values."""
    texts = [
        pl.col(name).bin.encode("hex") if frame.schema[name] == pl.Binary else pl.col(name) for name in key
    ]
    ordered = frame.select(pl.struct(texts).struct.json_encode().alias("_key"), *values)
    plain = [name for name in values if not frame.schema[name].is_nested()]
    ordered = ordered.sort("_key", *plain)
    return ordered.with_columns(pl.int_range(pl.len()).over("_key").alias("_number"))


def _kind(key: str) -> str:
    """Of a row of scores what it is of, in a few words."""
    row: dict[str, Any] = json.loads(key)
    if "metric" not in row:
        return ""
    about = " and ".join(one["name"] for one in row.get("dimensions") or ())
    said = [f"{name} {row[name]}" for name in _KINDS if row.get(name)]
    return ", ".join([*said, f"by {about}"] if about else said)


def _same(name: str, kind: pl.DataType) -> pl.Expr:
    one, other = pl.col(name), pl.col(f"{name} now")
    equal = one.eq_missing(other)
    if not kind.is_float():
        return equal
    return equal | ((one - other).abs() <= CLOSE + CLOSE * other.abs()).fill_null(value=False)


def _rows(path: Path) -> list[dict[str, Any]] | None:
    """The rows of a file of labels; None where a line is no row."""
    text = path.read_text(encoding="utf-8")
    try:
        rows = [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return None
    return rows if all(isinstance(row, dict) for row in rows) else None


def _of_labels(before: Path, after: Path) -> Iterator[tuple[str, str, int]]:
    """Columns that only one of two files of labels has, and rows that differ in the others."""
    own, other = _rows(before), _rows(after)
    if own is None or other is None:
        texts = [path.read_text(encoding="utf-8").splitlines() for path in (before, after)]
    else:
        columns, now = ({name: None for row in rows for name in row} for rows in (own, other))
        for kind, names in ((DIFFERS, columns.keys() - now.keys()), (ADDED, now.keys() - columns.keys())):
            for name in sorted(names):
                yield kind, f"column {name}", len(other)
        common = [name for name in columns if name in now and name not in _VERSIONED]
        texts = [
            [json.dumps({name: row.get(name) for name in common}) for row in rows] for rows in (own, other)
        ]
    lost, more = Counter(texts[0]) - Counter(texts[1]), Counter(texts[1]) - Counter(texts[0])
    for what, rows in (("no longer there", lost), ("new", more)):
        if rows:
            yield DIFFERS, f"rows that are {what}, as {next(iter(rows))[:160]}", rows.total()
    if not lost and not more and texts[0] != texts[1]:
        yield DIFFERS, "the order of the rows", len(texts[0])


def _rows_that_differ(before: Path, after: Path) -> int:
    """Count the rows of labels that only one of two files has."""
    own, other = (
        Counter(tuple(row.get(name) for name in _PLACE) for row in _rows(path) or ())
        for path in (before, after)
    )
    return ((own - other) + (other - own)).total()
