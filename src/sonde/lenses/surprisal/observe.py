"""The item table of the surprisal lens: one row a scored subword, with all that is known of it.

Items are laid end to end, a character apart, and every column is made for all of them at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from sonde.alignment import Alignment, stretches
from sonde.capture.requests import Prepared, ScoredSubwords
from sonde.languages import LANGUAGES
from sonde.lenses._lens import LensSettings
from sonde.lenses.surprisal.ancestors import ancestors
from sonde.lenses.surprisal.calls import CallColumns, call_columns
from sonde.lenses.surprisal.pools import Pooled, alternatives
from sonde.lenses.surprisal.seams import CALLS, FILED, ORIGINS, TAGS
from sonde.lenses.surprisal.spans import Pieces, innermost, touched
from sonde.results.observations import FILE_COLUMNS, OBSERVATIONS_SCHEMA

# Stands between items, so that no span of one touches another; it is not blank.
_APART = "\0"


@dataclass(frozen=True, slots=True, eq=False)
class Laid:
    """Items laid end to end.

    Attributes:
        prepared: The items.
        base: For each item the place of its first character.
        row: For each item the row of its first subword, and behind them the number of rows.
        item: For each subword its item.
        pieces: The subwords.
        layout: Subwords of blanks only.
        merged: Code tokens that each subword lies in.
    """

    prepared: Sequence[Prepared]
    base: Int[np.ndarray, " item"]
    row: Int[np.ndarray, " item_and_end"]
    item: Int[np.ndarray, " subword"]
    pieces: Pieces
    layout: Bool[np.ndarray, " subword"]
    merged: Int[np.ndarray, " subword"]

    @classmethod
    def of(cls, prepared: Sequence[Prepared]) -> Laid:
        """Lay items end to end."""
        texts = [one.item.text for one in prepared]
        base = np.cumsum([0, *(len(text) + len(_APART) for text in texts)])[:-1]
        sizes = [len(one.alignment.subwords) for one in prepared]
        item = np.repeat(np.arange(len(prepared)), sizes)
        start, end = (
            base[item] + np.concatenate([getattr(one.alignment.subwords, side) for one in prepared])
            for side in ("start", "end")
        )
        merged = np.concatenate([one.alignment.last - one.alignment.first for one in prepared])
        pieces = Pieces.of(_APART.join(texts), start, end)
        return cls(prepared, base, np.cumsum([0, *sizes]), item, pieces, merged == 0, merged)

    def column(self, values: Callable[[Alignment], np.ndarray]) -> np.ndarray:
        """The columns of all items as one."""
        return np.concatenate([values(one.alignment) for one in self.prepared])

    def strings(self, values: Callable[[Alignment], Sequence[str]]) -> list[str]:
        """The columns of all items as one."""
        return list(chain.from_iterable(values(one.alignment) for one in self.prepared))

    def of_items(self, value: Callable[[Prepared], str]) -> Pooled:
        """What is the same for all subwords of an item."""
        return Pooled.of([value(one) for one in self.prepared]).at(self.item)

    def labels(self, table: pl.DataFrame) -> pl.DataFrame:
        """The label rows of these items, their spans moved to where the items lie."""
        bases = {one.item.item_id: base for one, base in zip(self.prepared, self.base.tolist(), strict=True)}
        base = np.array([bases.get(key, -1) for key in table["item_id"].to_list()], np.int64)
        rows = np.flatnonzero(base >= 0)
        held = table[rows]
        moved = {side: held[side].to_numpy() + base[rows] for side in ("start", "end")}
        return held.with_columns(**{side: pl.Series(places) for side, places in moved.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Filed:
    """Under what the score of each subword is filed."""

    tags: Pooled | Sequence[str]
    calls: CallColumns


def observe_items(
    prepared: Sequence[Prepared],
    scored: Sequence[ScoredSubwords],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    surfaces: Sequence[str],
) -> pl.DataFrame:
    """The rows of a few items in `OBSERVATIONS_SCHEMA`.

    Args:
        prepared: The items with tree, tokens and alignment; at least one.
        scored: What the model said of each, one row a subword.
        labels: Label rows of the tasks of the lens, with their ``item_id``.
        settings: What the user chose.
        surfaces: Readable surface of each vocabulary id.
    """
    laid, scores = Laid.of(prepared), _together(scored)
    calls = call_columns(CALLS.as_asked(settings, labels["call_origin"]), laid.labels, laid.pieces)
    calls = dataclasses.replace(calls, origin=ORIGINS.as_asked(settings, calls.origin, labels, laid))
    calls = calls.each(lambda column: column.where(~laid.layout))
    tagged = TAGS.as_asked(settings, _tags)
    tags = list(chain.from_iterable(map(tagged, prepared)))
    filed = FILED.as_asked(settings, Filed(tags, calls), laid)
    cut = [stretches(one.alignment.subwords) for one in prepared]
    position = np.arange(len(laid.item)) - laid.row[laid.item]
    columns: dict[str, Pooled | Sequence[str] | Sequence[None] | np.ndarray] = {
        "item_id": laid.of_items(lambda one: one.item.item_id),
        "file": laid.of_items(lambda one: one.item.path),
        "cluster": laid.of_items(lambda one: one.item.cluster),
        "language": laid.of_items(lambda one: one.item.language),
        "position": position,
        "start": laid.column(lambda alignment: alignment.subwords.start),
        "end": laid.column(lambda alignment: alignment.subwords.end),
        "subword": laid.strings(lambda alignment: alignment.subwords.surface),
        "subword_id": laid.column(lambda alignment: alignment.subwords.ids),
        "nats": scores.nats,
        "rank": scores.rank,
        "entropy": scores.entropy,
        "context": scores.context,
        "bytes": laid.column(lambda alignment: alignment.subwords.bytes),
        "text_characters": np.concatenate([one.characters for one in cut]),
        "text_bytes": np.concatenate([one.bytes for one in cut]),
        "covered": np.concatenate([one.covered for one in cut]),
        **{name: [None] * len(laid.item) for name in FILE_COLUMNS},
        "kind": laid.strings(lambda alignment: alignment.kind),
        "role": laid.strings(lambda alignment: alignment.role),
        "tag": filed.tags,
        "merged": laid.merged,
        "token": np.where(laid.layout, -1, laid.column(lambda alignment: alignment.first)),
        "word": _words(laid),
        "construct": constructs(laid),
        "ancestors": ancestors(
            [one.tree for one in prepared], [one.alignment.node for one in prepared], laid.merged > 1
        ),
        "origin": filed.calls.origin,
        "origin_part": filed.calls.part,
        "call_form": filed.calls.form,
        "user_tag": _user_tags(laid),
    }
    table = pl.DataFrame([_series(name, values) for name, values in columns.items()])
    kept = scores.scored
    best = alternatives(scores.top_ids[kept], scores.top_nats[kept], surfaces)
    rows = (table if kept.all() else table[np.flatnonzero(kept)]).hstack(best)
    # What a server does not tell has no number.
    unknown = pl.when(pl.col("rank") > 0).then(pl.col("rank")).alias("rank")
    return rows.with_columns(unknown, pl.col("entropy").fill_nan(None))


def _together(scored: Sequence[ScoredSubwords]) -> ScoredSubwords:
    names = [field.name for field in dataclasses.fields(ScoredSubwords)]
    return ScoredSubwords(
        **{name: np.concatenate([getattr(scores, name) for scores in scored]) for name in names}
    )


def _series(name: str, values: Pooled | Sequence[str] | Sequence[None] | np.ndarray) -> pl.Series:
    if isinstance(values, Pooled):
        return values.series(name)
    return pl.Series(name, values, dtype=OBSERVATIONS_SCHEMA[name])


def _tags(one: Prepared) -> Sequence[str]:
    return one.alignment.tag


def _words(laid: Laid) -> Pooled:
    """The code token of each subword that lies in a single one."""
    words: list[str] = []
    before: list[int] = []
    for one in laid.prepared:
        text, tokens = one.item.text, one.tokens
        before.append(len(words))
        words += [text[a:b] for a, b in zip(tokens.start.tolist(), tokens.end.tolist(), strict=True)]
    first = np.array(before)[laid.item] + laid.column(lambda alignment: alignment.first)
    return Pooled((*words, ""), np.where(laid.merged == 1, first, len(words)))


def constructs(laid: Laid) -> Pooled:
    """The innermost construct around each subword; empty for blanks and where there is none."""
    labels: list[str] = []
    start: list[int] = []
    end: list[int] = []
    languages = {name: LANGUAGES.load(name) for name in {one.tree.language for one in laid.prepared}}
    for one, base in zip(laid.prepared, laid.base.tolist(), strict=True):
        for construct in languages[one.tree.language].constructs(one.tree):
            labels.append(construct.label)
            start.append(base + construct.start)
            end.append(base + construct.end)
    spans = innermost(np.array(start, np.int64), np.array(end, np.int64), laid.pieces)
    return Pooled.of([*labels, ""]).at(spans).where(~laid.layout)


def _user_tags(laid: Laid) -> Pooled:
    found: dict[int, list[str]] = {}
    for one, base in zip(laid.prepared, laid.base.tolist(), strict=True):
        for tag in sorted(one.item.tags, key=lambda tag: (tag.start, tag.end, tag.label)):
            for row in np.flatnonzero(touched(base + tag.start, base + tag.end, laid.pieces)).tolist():
                labels = found.setdefault(row, [])
                if tag.label not in labels:
                    labels.append(tag.label)
    numbers = np.zeros(len(laid.item), np.int32)
    numbers[list(found)] = np.arange(1, len(found) + 1)
    return Pooled(("", *("|".join(labels) for labels in found.values())), numbers).where(~laid.layout)
