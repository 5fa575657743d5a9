"""Units of comparison between tokenizers: each code token with the blanks before it.

A unit is the same text for every tokenizer. What it costs is the probability that the text goes on to its
end, given that it went on to its beginning: a subword that reaches over the end of a code token, or only
could have (``)`` where the vocabulary also has ``):``), is divided there by the probability of all
vocabulary entries that begin likewise. So the cost does not depend on how the text is cut, and the units of a
text add up to its cost. Shares of a subword by its bytes would do neither. What follows the first subword of
a text costs what it does given that subword, which has nothing before it and is kept apart.

Without the logits (a server) the costs of units that begin and end where subwords do are those of their
subwords.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from sonde.alignment import Subwords, align
from sonde.alignment.token_ends import find_token_ends
from sonde.capture.requests import Prepared, ScoredSubwords, ScoredTokenEnds
from sonde.languages.engine.text import whitespace_mask
from sonde.lenses.engine.layout import Layout
from sonde.lenses.engine.lens import LensSettings
from sonde.lenses.surprisal.observe import label_subwords
from sonde.results.schema import UNIT_FIELDS, to_schema

LINE_PLACES = ("1", "2", "3 to 5", "6 to 10", "above 10")
"""Places of a code token in its line."""

_PLACE_BOUNDS = (1, 2, 5, 10)

_SCHEMA = {"row": pl.Int64, **to_schema(UNIT_FIELDS)}

_COST_SCHEMA = {
    name: _SCHEMA[name] for name in ("row", "unit", "start", "end", "bytes", "nats", "part", "piece_nats")
}


def observe_units(
    prepared_items: Sequence[Prepared],
    item_scores: Sequence[ScoredSubwords],
    item_ends: Sequence[ScoredTokenEnds | None],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    *,
    causal: bool,
) -> pl.Series:
    """Return for each subword of the items the units that end in it, as rows of `UNIT_FIELDS`.

    The last subword of an item also has what no subword ends, such as blanks behind the last code token.

    Args:
        prepared_items: The items; at least one.
        item_scores: The scores of their subwords.
        item_ends: Nats to the ends of code tokens; None where there are no logits.
        labels: Label rows of the tasks of the lens.
        settings: What the user chose.
        causal: Whether the scores are of a decoder: blanks then cost something, and the first subword of a
            text, which has nothing before it, is kept apart.
    """
    code_tokens = [view_code_tokens(prepared_item) for prepared_item in prepared_items]
    layout = Layout.from_items(code_tokens)
    columns = dict(label_subwords(layout, labels, settings))
    columns["word"] = pl.Series(
        [
            prepared_item.item.text[start:end]
            for prepared_item in prepared_items
            for start, end in zip(
                prepared_item.tokens.start.tolist(), prepared_item.tokens.end.tolist(), strict=True
            )
        ],
        dtype=pl.String,
    )
    frames: list[pl.DataFrame] = []
    first_row = 0
    subword_counts = [len(prepared_item.alignment.subwords) for prepared_item in prepared_items]
    for prepared_item, scores, ends in zip(prepared_items, item_scores, item_ends, strict=True):
        size = len(prepared_item.tokens)
        part = {name: column[first_row : first_row + size] for name, column in columns.items()}
        first_row += size
        costs = compute_unit_costs(prepared_item, scores, ends, causal=causal)
        frames.append(_add_labels(costs, prepared_item, part))
    bases = np.cumsum([0, *subword_counts])[:-1]
    rows = pl.concat(
        frame.with_columns(row=pl.col("row") + base)
        for frame, base in zip(frames, bases.tolist(), strict=True)
    )
    lists = rows.group_by("row").agg(units=pl.struct(list(UNIT_FIELDS)))
    index = pl.DataFrame({"row": np.arange(sum(subword_counts))})
    return index.join(lists, on="row", how="left", maintain_order="left")["units"]


def _add_labels(
    costs: pl.DataFrame, prepared_item: Prepared, labels: Mapping[str, pl.Series]
) -> pl.DataFrame:
    """Add the labels of the code tokens of an item to its units; the last unit has none."""
    if costs.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    places = _find_line_places(prepared_item.item.text, prepared_item.tokens.start)
    return costs.with_columns(
        *(pl.concat([column, pl.Series([""])]).alias(name) for name, column in labels.items()),
        pl.Series("line_place", places, pl.String),
    ).select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())


def view_code_tokens(prepared_item: Prepared) -> Prepared:
    """Return an item whose subwords are its code tokens."""
    tokens, text = prepared_item.tokens, prepared_item.item.text
    size = len(tokens)
    subwords = Subwords(
        text,
        np.arange(size),
        np.asarray(tokens.start),
        np.asarray(tokens.end),
        np.zeros(size, np.int64),
        ("",) * size,
    )
    return dataclasses.replace(prepared_item, alignment=align(subwords, prepared_item.tree, tokens))


def compute_unit_costs(
    prepared_item: Prepared, scores: ScoredSubwords, scored_ends: ScoredTokenEnds | None, *, causal: bool
) -> pl.DataFrame:
    """Return the units of one item, each with the subword that it ends in (``row``), without their labels.

    Args:
        prepared_item: The item.
        scores: The scores of its subwords.
        scored_ends: Nats to the ends of its code tokens; None where there are no logits.
        causal: See `observe_units`.
    """
    subwords, tokens = prepared_item.alignment.subwords, prepared_item.tokens
    scored_rows = np.flatnonzero(scores.scored)
    if not len(scored_rows):
        return pl.DataFrame(schema=_COST_SCHEMA)
    text, size = subwords.text, len(tokens) + 1
    # The last unit is what stands behind the last code token.
    ends = np.append(tokens.end, len(text) + 1)
    found = find_token_ends(subwords, tokens.end, None)
    end_nats = np.full(len(found), np.nan) if scored_ends is None else scored_ends.nats.astype(np.float64)
    first_unit = np.searchsorted(ends, subwords.start, side="right")
    last_unit = first_unit + np.bincount(found.subword, minlength=len(subwords))
    nats = np.where(scores.scored, scores.nats, 0.0).astype(np.float64)
    is_inside = ends[found.token] < subwords.end[found.subword]
    opens_text = ~scores.scored | (scores.context == 0) if causal else np.zeros(len(subwords), np.bool_)
    # What follows the first subword is given that subword, since many models do not score it.
    is_given = opens_text[found.subword] & ~is_inside
    is_known = np.isfinite(end_nats) & ~opens_text[found.subword]
    # An end that is not known leaves the cost of its subword on one side, so that units add up all the same.
    end_nats = np.where(is_known, end_nats, np.where(is_inside, 0.0, nats[found.subword]))
    cost = np.bincount(last_unit, nats, size) + np.bincount(found.token, end_nats, size)
    cost -= np.bincount(found.token + 1, end_nats, size)
    ends_whole = np.bincount(found.subword[~is_inside], minlength=len(subwords))
    is_first = _mark_units(first_unit[opens_text], (last_unit - ends_whole)[opens_text], size)
    is_complete = _mark_complete(subwords, scores.scored, ends, blanks=causal)
    is_exact = is_complete & _mark_bounded(found.token[is_known | is_given], size) & (scored_ends is not None)
    is_cut = is_complete & ~is_first & _mark_bounded(found.token[~is_inside], size)
    row = np.full(size, scored_rows[-1])
    row[found.token] = found.subword
    row = scored_rows[np.minimum(np.searchsorted(scored_rows, row), len(scored_rows) - 1)]
    starts = np.concatenate([[0], tokens.end])
    spans = zip(starts.tolist(), [*tokens.end.tolist(), len(text)], strict=True)
    columns: dict[str, pl.Series | np.ndarray | list[int] | list[str]] = {
        "row": row,
        "unit": np.arange(size),
        "start": np.append(tokens.start, len(text)),
        "end": np.append(tokens.end, len(text)),
        "bytes": [len(text[start:end].encode("utf-8", "replace")) for start, end in spans],
        "nats": cost,
        "part": np.where(is_first, "first", np.where(is_exact, "exact", "mixed")).tolist(),
        "piece_nats": np.where(is_cut, np.bincount(first_unit, nats, size), np.nan),
    }
    frame = pl.DataFrame([pl.Series(name, columns[name], dtype=kind) for name, kind in _COST_SCHEMA.items()])
    return frame.with_columns(pl.col("piece_nats").fill_nan(None))


def _mark_units(
    first: Int[np.ndarray, " span"], last: Int[np.ndarray, " span"], size: int
) -> Bool[np.ndarray, " unit"]:
    """Mark the units of spans, their last ones included."""
    is_marked = np.zeros(size, np.bool_)
    for start, stop in zip(first.tolist(), last.tolist(), strict=True):
        is_marked[start : stop + 1] = True
    return is_marked


def _mark_bounded(ends: Int[np.ndarray, " end"], size: int) -> Bool[np.ndarray, " unit"]:
    """Mark the units that begin and end at given ends, the beginning and the end of the text included."""
    is_end = np.zeros(size + 1, np.bool_)
    is_end[[0, size]] = True
    is_end[ends + 1] = True
    return is_end[:-1] & is_end[1:]


def _mark_complete(
    subwords: Subwords,
    is_scored: Bool[np.ndarray, " subword"],
    ends: Int[np.ndarray, " unit"],
    *,
    blanks: bool,
) -> Bool[np.ndarray, " unit"]:
    """Mark the units all of whose characters (or all but blanks) scored subwords of the vocabulary cover."""
    size = len(subwords.text)
    is_used = is_scored & (subwords.ids != subwords.unknown_id)
    steps = np.zeros(size + 1, np.int64)
    np.add.at(steps, subwords.start[is_used], 1)
    np.subtract.at(steps, subwords.end[is_used], 1)
    is_missing = np.cumsum(steps)[:-1] == 0
    if not blanks:
        is_missing &= ~whitespace_mask(subwords.text)
    missing_counts = np.concatenate([[0], np.cumsum(is_missing)])[np.minimum(ends, size)]
    return np.diff(missing_counts, prepend=0) == 0


def _find_line_places(text: str, starts: Int[np.ndarray, " token"]) -> list[str]:
    """Return the place of each code token in its line, in words; none for what follows the last one."""
    breaks = np.flatnonzero(np.array(list(text), dtype="U1") == "\n")
    line = np.searchsorted(breaks, starts)
    place = np.arange(1, len(starts) + 1) - np.searchsorted(line, line)
    return [*(LINE_PLACES[number] for number in np.searchsorted(_PLACE_BOUNDS, place).tolist()), ""]
