"""The first schema of scores, for one release: its ``slice`` is still written, and its files are still read.

``slice`` and ``params`` held what are dimensions and named columns now. Only `sonde.results.scores` asks for
this module, and nothing else knows that schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.results.dimensions import DIMENSIONS, REASON, Dimensions

_READ = ("lens", "metric", "task", "slice", "params")

_ADDED: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "dimensions": DIMENSIONS,
    "of_metric": pl.String,
    "compared_to": pl.String,
    "k": pl.Int64,
    "l2": pl.Float64,
    "method": pl.String,
    "fold_layers": pl.List(pl.Int32),
    "matching": pl.String,
    "aggregation": pl.String,
    "objective": pl.String,
    "weighting": pl.String,
    "binning": pl.String,
    "unit": pl.String,
    "chosen": pl.String,
    "n_relations": pl.Int32,
}

_WORDS: Mapping[str, tuple[str, str]] = {
    "code": ("text", "code"),
    "layout": ("text", "layout"),
    "shared": ("text", "shared"),
    "best": ("selection", "best"),
    "types seen": ("types", "seen"),
    "without length": ("length", "removed"),
    "near": ("distance", "near"),
    "far": ("distance", "far"),
    "edges": ("average", "edges"),
}
"""Words that stood alone in a slice, and the dimensions that they are."""

_WRITTEN: Mapping[tuple[str, str], str] = {dimension: word for word, dimension in _WORDS.items()}

_NAME_ALONE: Mapping[str, str] = {"followed": "head", "epoch": "epoch", "setting": "setting"}
"""Dimensions of which a slice held one word, while their value stood in ``params``."""

_OTHER_WORD = "part"
"""Dimension of a word that only a lens from outside knows."""

# Dimensions whose values may hold anything and come last, so that theirs is all that follows.
_LAST = frozenset(
    {
        *("subword", "tag", "construct", "kind", "role", "ancestor", "user_tag", "name"),
        *("predicted", "situation", "dropped", "word", "library"),
    }
)
_NAMED = re.compile(r"([a-z_0-9]+)=")


def slice_of(dimensions: Dimensions) -> str:
    """The text of the column ``slice``; it cannot be read back in every case.

    >>> slice_of((("origin", "internal"), ("tag", "call -> identifier"))), slice_of(())
    ('origin=internal;tag=call -> identifier', 'all')
    >>> slice_of((("selection", "best"), ("share", "0.25")))
    'best;share=0.25'
    """
    # How far a relation reaches stood in `params`.
    if [name for name, _ in dimensions] == ["relation", "distance"]:
        dimensions = dimensions[:-1]
    return ";".join(_part(name, value) for name, value in dimensions) or "all"


def _part(name: str, value: str) -> str:
    if name in (REASON, _OTHER_WORD):
        return value
    return _NAME_ALONE.get(name) or _WRITTEN.get((name, value)) or f"{name}={value}"


@dataclass(frozen=True, slots=True)
class _About:
    """What a row of the first schema said of its number."""

    lens: str
    metric: str
    task: str
    slice: str
    name: str | None
    other: str | None


def is_schema1(frame: pl.DataFrame) -> bool:
    """Whether a table of scores is of the first schema."""
    return "dimensions" not in frame.columns


def from_schema1(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with dimensions and named columns in place of ``params``; other columns are as they were."""
    held = frame.select(name for name in _READ if name in frame.columns)
    rows = [_added(row) for row in held.iter_rows(named=True)]
    added = pl.DataFrame(rows, schema=dict(_ADDED), orient="row")
    return pl.concat([frame.drop("params", strict=False), added], how="horizontal")


def _added(row: Mapping[str, Any]) -> dict[str, Any]:
    params: Mapping[str, Any] = row.get("params") or {}
    name, other = params.get("name"), params.get("other")
    about = _About(row["lens"], row["metric"], row.get("task") or "", row["slice"], name, other)
    dimensions = _dimensions(about, params.get("k"))
    return {
        **dict.fromkeys(_ADDED),
        "k": params.get("k"),
        "l2": params.get("l2"),
        **_columns(about),
        "dimensions": [{"name": one, "value": value} for one, value in dimensions],
    }


def _columns(about: _About) -> dict[str, Any]:
    """What ``params.name`` and ``params.other`` said, by lens and metric."""
    name, other, metric = about.name, about.other, about.metric
    match about.lens:
        case "surprisal":
            columns = {"ece": "binning", "nats": "weighting"}
            return {columns.get(metric, "unit"): name, "objective": other or "causal"}
        case "probe":
            layers = [int(layer) for layer in other.removeprefix("layers ").split()] if other else None
            return {"method": name, "fold_layers": layers}
        case "attention":
            if about.slice == "head" or metric == "mean_offset":
                return {}
            if name and (counted := re.fullmatch(r"(\d+) relations", name)):
                return {"n_relations": int(counted[1]), "compared_to": other}
            return {"chosen": name, "compared_to": other}
        case "cloze":
            return {"objective" if about.task != "api_cloze" else "matching": name, "aggregation": other}
        case "prompting":
            return {"matching": name}
        case "finetune":
            return {} if metric == "valid" else {"of_metric": name, "compared_to": other}
        case _:
            return {"method": name, "compared_to": other}


def _dimensions(about: _About, k: int | None) -> Dimensions:
    if about.metric == "left_out":
        return ((REASON, about.slice),)
    found = tuple(_split(about.slice, about, k))
    if about.lens == "attention" and about.metric == "mean_offset" and about.name:
        return (*found, ("distance", about.name))
    return found


def _split(text: str, about: _About, k: int | None) -> Iterator[tuple[str, str]]:
    """The parts of a slice: of what may hold any text, all that follows is the value."""
    while text and text != "all":
        named = _NAMED.match(text)
        if named is None:
            word, _, text = text.partition(";")
            yield _bare(word, about, k)
            continue
        name, rest = named[1], text[named.end() :]
        if name in _LAST:
            yield name, rest
            return
        # The answer stands behind the label, which may hold a semicolon as well.
        mark = ";predicted=" if name == "gold" else ";"
        value, found, after = rest.partition(mark)
        yield name, value
        text = found.removeprefix(";") + after if name == "gold" else after


def _bare(word: str, about: _About, k: int | None) -> tuple[str, str]:
    if about.lens == "attention" and word == "head":
        return "followed", about.name or ""
    if about.lens == "finetune" and word == "epoch":
        return "epoch", str(k)
    if about.lens == "finetune" and word == "setting":
        return "setting", about.name or ""
    return _WORDS.get(word, (_OTHER_WORD, word))
