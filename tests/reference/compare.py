"""Two folders of the fixed set, file by file and value by value: of what both hold.

The parts of a table are joined before they are compared, and rows are those of one key whatever their order
is. What only the later folder has (a file, a column, a row of a key of its own) is added, not different.
Texts, pages and JSON are compared without what differs from call to call (`texts`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from math import isclose
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
from safetensors.numpy import load_file

from tests.reference.texts import Page, flatten_json, mask_lines

CLOSE = 1e-7
"""Of two numbers that are computed, absolute and relative: the last digit of 32 bits may differ."""

DIFFERS, INTENDED, ADDED = "differs", "intended", "added"

_STATES = ("fingerprint", "item_set", "revision", "schema_version", "corpus_hash")
"""Columns that name a state of the code or a format: values, so that rows are found without them."""

_FOUND = ("n", "n_clusters", "ci_method", "fold_layers", "chosen")
"""Columns of scores that are found, as numbers with a fraction are; the others say what a number is of."""

_KINDS = ("lens", "metric", "of_metric", "compared_to", "control", "method")
"""Columns of scores by which added rows are counted."""

_VERSIONED = "span"
"""The column of labels that names a version of their task, not what it says."""

_UNREAD = frozenset({"ended.json", ".lock", "error.log"})
"""Files of how a command ended, which is compared by itself, and of where in the code."""

_IMAGES = frozenset({".pdf", ".png", ".zip"})
"""Files that are to be there; what they show is in others."""

_VOLATILE = frozenset({"timing", "hardware", "content", "size"})
"""Keys of JSON that say how long something took or where, or the hash of a file that says so."""

_UNKEYED = "*.html.json"
"""Receipts of pages: their key rests on the whole of `run.json`, on how long the run took too."""

_HASH = frozenset("0123456789abcdef")

IDS = "ids"
"""In place of a file: names of files, with the hashes of content and rules in them."""


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
        maximum: Rows, lines or values that may differ; None where the whole file is gone.
        columns: Columns of a table that are gone, and nothing else of the file.
    """

    reason: str
    maximum: int | None = None
    columns: tuple[str, ...] = ()


Intentions = Mapping[tuple[str, str], Intended]
"""What differs by intention, by command and file, both with ``*`` for any letters."""


def differences(
    before: Path, after: Path, intended: Intentions, only: Sequence[str] = ("*",)
) -> Iterator[Finding]:
    """What differs between two folders, and what only the later one has.

    Args:
        before: What the earlier tree gave.
        after: What the tree at hand gave.
        intended: Files that differ by intention.
        only: Names of commands, with ``*`` for any letters.
    """
    names = {path.name for folder in (before, after) for path in folder.iterdir() if path.is_dir()}
    chosen = (name for name in names if any(fnmatch(name, pattern) for pattern in only))
    for name in sorted(chosen):
        own, other = before / name, after / name
        if own.is_dir() and other.is_dir():
            yield from _of_command(name, own, other, intended)
        else:
            yield Finding(DIFFERS if own.is_dir() else ADDED, name, "", "the whole command")


def told(findings: list[Finding]) -> Iterator[str]:
    """The findings as a table, those of one kind in many commands as one row; differences first."""
    rows: defaultdict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        rows[finding.kind, finding.file, finding.what].append(finding)
    order = {kind: place for place, kind in enumerate((DIFFERS, INTENDED, ADDED))}
    cells = [("kind", "file", "commands", "count", "what")]
    for (kind, file, what), same in sorted(rows.items(), key=lambda row: (order[row[0][0]], row[0])):
        commands = sorted({finding.command for finding in same})
        named = commands[0] if len(commands) == 1 else f"{len(commands)}: {commands[0]} .."
        cells.append((kind, file, named, f"{sum(finding.count for finding in same):,}", what))
    wide = [max(len(row[column]) for row in cells) for column in range(4)]
    for row in cells:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row[:4], wide, strict=True)), row[4]])


def _of_command(name: str, before: Path, after: Path, intended: Intentions) -> Iterator[Finding]:
    codes = [json.loads((place / "ended.json").read_text())["code"] for place in (before, after)]
    if codes[0] != codes[1]:
        allowed = _allowed(name, "", intended)
        kind, why = (DIFFERS, "") if allowed is None else (INTENDED, f": {allowed.reason}")
        yield Finding(kind, name, "", f"ended with {codes[1]}, before with {codes[0]}{why}")
        return
    own, other = _files(before), _files(after)
    ids = [{path.relative_to(place).as_posix() for paths in files.values() for path in paths}
           for place, files in ((before, own), (after, other))]  # fmt: skip
    shared = {_named(Path(path)) for path in ids[0]} & {_named(Path(path)) for path in ids[1]}
    gone, new = (
        {path for path in some if _named(Path(path)) in shared} for some in (ids[0] - ids[1], ids[1] - ids[0])
    )
    if gone or new:
        example = min(gone or new)
        found = [(DIFFERS, f"files of another id, as {example}", max(len(gone), len(new)))]
        yield from _judged(name, IDS, found, intended)
    for file in sorted(own.keys() | other.keys()):
        if file not in own or file not in other:
            found = [(DIFFERS if file in own else ADDED, "the whole file", 1)]
        else:
            found = list(_of_files(own[file], other[file]))
        yield from _judged(name, file, found, intended)


def _allowed(name: str, file: str, intended: Intentions) -> Intended | None:
    return next(
        (
            allowed
            for (command, of), allowed in intended.items()
            if fnmatch(name, command) and fnmatch(file, of)
        ),
        None,
    )


def _judged(
    name: str, file: str, found: list[tuple[str, str, int]], intended: Intentions
) -> Iterator[Finding]:
    """The findings of a file, those that differ as one where it differs by intention."""
    allowed = _allowed(name, file, intended)
    wrong = [(what, count) for kind, what, count in found if kind == DIFFERS]
    if allowed and allowed.columns:
        gone = {f"column {column}" for column in allowed.columns}
        for what, count in wrong:
            if what in gone:
                yield Finding(INTENDED, name, file, f"{what}: {allowed.reason}", count)
            else:
                yield Finding(DIFFERS, name, file, what, count)
    elif allowed and wrong and allowed.maximum is None and wrong[0][0] == "the whole file":
        yield Finding(INTENDED, name, file, f"the whole file: {allowed.reason}")
    elif allowed and wrong and allowed.maximum is not None:
        count = sum(count for _, count in wrong)
        kind = INTENDED if count <= allowed.maximum else DIFFERS
        yield Finding(kind, name, file, f"rows (at most {allowed.maximum:,}): {allowed.reason}", count)
    else:
        for what, count in wrong:
            yield Finding(DIFFERS, name, file, what, count)
    for kind, what, count in found:
        if kind != DIFFERS:
            yield Finding(kind, name, file, what, count)


def _files(folder: Path) -> dict[str, list[Path]]:
    """What a command wrote that is compared, by names without hashes; the parts of a table together."""
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in _UNREAD:
            found[_named(path.relative_to(folder))].append(path)
    return found


def _named(path: Path) -> str:
    """A path without the hashes of content and rules in its parts."""
    return "/".join(map(_without_hashes, path.parts))


def _without_hashes(name: str) -> str:
    stem, dot, rest = name.partition(".")
    kept = [part for part in stem.split("-") if len(part) not in (8, 16, 32) or not _HASH.issuperset(part)]
    return ("-".join(kept) or "_") + dot + rest


def _of_files(before: list[Path], after: list[Path]) -> Iterator[tuple[str, str, int]]:
    """What differs between the files of one name: parts of a table together, others one by one."""
    if before[0].suffix == ".parquet":
        yield from _of_tables(_table(before), _table(after))
        return
    if len(before) != len(after):
        yield DIFFERS, f"there were {len(before)} files of the name, there are {len(after)}", 1
    for own, other in zip(before, after, strict=False):
        if own.read_bytes() == other.read_bytes() or own.suffix in _IMAGES:
            continue
        if own.suffix == ".safetensors":
            yield from _of_tensors(own, other)
        elif own.suffix in (".html", ".svg"):
            yield from _of_pages(*(Page(path.read_text(encoding="utf-8")) for path in (own, other)))
        elif own.suffix in (".json", ".sarif") and (parsed := _parsed(own, other)):
            keyed = not fnmatch(own.name, _UNKEYED)
            yield from _of_json(*parsed, _VOLATILE if keyed else _VOLATILE | {"key"})
        else:
            yield from _of_labels(own, other)


def _table(parts: list[Path]) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(part, hive_partitioning=False) for part in parts], how="diagonal")


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
    values = (*values, *(name for name in _STATES if name in common))
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
    about = " and ".join(dimension["name"] for dimension in row.get("dimensions") or ())
    said = [f"{name} {row[name]}" for name in _KINDS if row.get(name)]
    return ", ".join([*said, f"by {about}"] if about else said)


def _same(name: str, kind: pl.DataType) -> pl.Expr:
    own, other = pl.col(name), pl.col(f"{name} now")
    equal = own.eq_missing(other)
    if not kind.is_float():
        return equal
    return equal | ((own - other).abs() <= CLOSE + CLOSE * other.abs()).fill_null(value=False)


def _rows(path: Path) -> list[dict[str, Any]] | None:
    """The rows of a file of labels; None where a line is no row."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError:
        return None
    return rows if all(isinstance(row, dict) for row in rows) else None


def _of_labels(before: Path, after: Path) -> Iterator[tuple[str, str, int]]:
    """Columns that only one of two files of labels has, and rows that differ in the others; else lines."""
    own, other = _rows(before), _rows(after)
    if own is None or other is None:
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in (before, after)]
        yield from _of_lines("lines", *map(mask_lines, texts))
        return
    columns, now = ({name: None for row in rows for name in row} for rows in (own, other))
    for kind, names in ((DIFFERS, columns.keys() - now.keys()), (ADDED, now.keys() - columns.keys())):
        for name in sorted(names):
            yield kind, f"column {name}", len(other)
    common = [name for name in columns if name in now]
    texts = [_dumped(rows, [name for name in common if name != _VERSIONED]) for rows in (own, other)]
    found = list(_of_lines("rows", *texts))
    yield from found
    if not found and _VERSIONED in common and _dumped(own, [_VERSIONED]) != _dumped(other, [_VERSIONED]):
        yield DIFFERS, f"values of {_VERSIONED}", len(other)


def _dumped(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    return [json.dumps({name: row.get(name) for name in names}) for row in rows]


def _of_lines(noun: str, before: list[str], after: list[str]) -> Iterator[tuple[str, str, int]]:
    lost, more = Counter(before) - Counter(after), Counter(after) - Counter(before)
    for what, lines in (("no longer there", lost), ("new", more)):
        if lines:
            yield DIFFERS, f"{noun} that are {what}, as {next(iter(lines))[:160]}", lines.total()
    if not lost and not more and before != after:
        yield DIFFERS, f"the order of the {noun}", len(before)


def _of_pages(before: Page, after: Page) -> Iterator[tuple[str, str, int]]:
    """The visible texts of two pages, and the data that they embed."""
    texts = [[line for text in page.texts for line in mask_lines(text)] for page in (before, after)]
    yield from _of_lines("texts", *texts)
    yield from _of_json(before.data, after.data, frozenset())


def _parsed(before: Path, after: Path) -> tuple[Any, Any] | None:
    try:
        return json.loads(before.read_text(encoding="utf-8")), json.loads(after.read_text(encoding="utf-8"))
    except ValueError:
        return None


def _of_json(before: Any, after: Any, drop: frozenset[str]) -> Iterator[tuple[str, str, int]]:
    """Values of one place that differ, and places that only one of two has."""
    own, other = (dict(flatten_json(value, drop)) for value in (before, after))
    changed = [
        path for path, value in own.items() if path in other and not _is_same_value(value, other[path])
    ]
    lost, more = (
        [path for path in some if path not in others] for some, others in ((own, other), (other, own))
    )
    if changed:
        path = changed[0]
        yield DIFFERS, f"values at {path}: {own[path]!s:.80} now {other[path]!s:.80}", len(changed)
    if lost:
        yield DIFFERS, f"values that are no longer there, as {lost[0]}", len(lost)
    if more:
        yield ADDED, f"values, as {more[0]}", len(more)


def _is_same_value(before: Any, after: Any) -> bool:
    if isinstance(before, float) and isinstance(after, float):
        return before == after or isclose(before, after, rel_tol=CLOSE, abs_tol=CLOSE)
    return type(before) is type(after) and before == after


def _of_tensors(before: Path, after: Path) -> Iterator[tuple[str, str, int]]:
    own, other = (load_file(path) for path in (before, after))
    changed = [
        name
        for name, array in own.items()
        if name not in other
        or array.shape != other[name].shape
        or array.dtype != other[name].dtype
        or not ((array == other[name]) | (abs(array - other[name]) <= CLOSE + CLOSE * abs(other[name]))).all()
    ]
    if changed:
        yield DIFFERS, f"tensors, as {changed[0]}", len(changed)
    if more := other.keys() - own.keys():
        yield ADDED, f"tensors, as {min(more)}", len(more)
