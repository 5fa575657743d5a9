"""From inputs to rows of token ids: special tokens, masks, gaps and windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from sonde.alignment import encode
from sonde.base.errors import InputError
from sonde.capture.infilling import infilled
from sonde.capture.requests import Prepared, Start, WordLookups
from sonde.capture.row import Row
from sonde.capture.settings import CaptureSettings
from sonde.capture.union import Input
from sonde.capture.windows import around_gap, bidirectional_windows, causal_windows, gap_of
from sonde.models import LoadedModel
from sonde.models._contents import refuse_without_head


class RowCutter:
    """Cuts the inputs of one model into rows.

    A decoder reads its start token and the ids; a later window holds no special token. An encoder reads
    ``prefix + ids + suffix``, with both around every window.

    Args:
        loaded: The model.
        settings: Positions of a window, and by how much each further one advances.
        whole: Whether a decoder reads the last subword even where only scores are asked for, so that all
            inputs of an item have the same rows.
    """

    def __init__(self, loaded: LoadedModel, settings: CaptureSettings, *, whole: bool = False) -> None:
        self._loaded = loaded
        self._whole = whole
        self._settings = settings
        self._special = loaded.special
        self._name, self._kind = loaded.spec.name, loaded.capabilities.kind
        self._context = min(settings.context or loaded.capabilities.context, loaded.capabilities.context)
        self._room = self._context - len(self._special.prefix) - len(self._special.suffix)

    def rows(self, source: int, asked: Input, prepared: Prepared) -> list[Row]:
        """Cut one input into rows; an item without subwords has none.

        Args:
            source: Index of the input.
            asked: The input.
            prepared: Its item.

        Raises:
            InputError: A position, span, mask or head is asked for that the item or model does not have.
        """
        if asked.wanted.scored or asked.wanted.depth:
            refuse_without_head(self._loaded)
        ids = np.asarray(prepared.alignment.subwords.ids, dtype=np.int64)
        _check_positions(asked, prepared, len(ids))
        if self._kind == "decoder":
            if asked.shape.masked:
                return [infilled(source, asked, prepared, ids, self._loaded, self._context)]
            return self._causal(source, asked, ids)
        if asked.shape.padded:
            raise InputError(f"model {self._name!r} is no decoder; pads are scored with decoders only")
        if self._kind == "encoder-decoder" and (asked.wanted.scored or asked.wanted.depth):
            return [self._gapped(source, asked, prepared, ids)]
        return self._bidirectional(source, asked, ids)

    def fits(self, prepared: Prepared, start: Start) -> bool:
        """Whether an item is one window, behind what a decoder reads before it."""
        room = self._context - len(self._lead(start)) if self._kind == "decoder" else self._room
        return len(prepared.alignment.subwords) <= room

    def pads(self, subwords: int, start: Start) -> int:
        """How many pads fill up the model's context behind an item of so many subwords."""
        return max(0, self._context - subwords - len(self._lead(start))) if subwords else 0

    def _lead(self, start: Start) -> tuple[int, ...]:
        """Ids that a decoder reads before a text.

        Raises:
            InputError: The model has no start token, and is to be fed one.
        """
        special = self._special
        if start == "tokenizer":
            return special.added
        if start == "always" and special.bos is None:
            raise InputError(
                f"model {self._name!r} has neither a start token nor an end of text to stand for one; "
                "give bos = auto or none"
            )
        return () if start == "none" or special.bos is None else (special.bos,)

    def _causal(self, source: int, asked: Input, ids: Int[np.ndarray, " subword"]) -> list[Row]:
        lead = self._lead(asked.shape.start)
        special = len(lead)
        if asked.shape.before:
            room = self._context - special - len(ids)
            subwords = encode(self._loaded.tokenizer, asked.shape.before).ids.tolist()
            lead = (*lead, *subwords[max(0, len(subwords) - room) :]) if room > 0 else lead
        before = shown = len(lead)
        sequence = np.concatenate([np.array(lead, dtype=np.int64), ids])
        if asked.shape.cut:
            sequence = sequence[: self._context]
        attended, last = -1, 0 if asked.wanted.attends or self._whole else 1
        if asked.shape.padded:
            # Pads stand in the place of the item, which is read before them, and nothing attends to them.
            attended, before, last = len(sequence), len(sequence), 0
            pads = self.pads(len(ids), asked.shape.start)
            ids = np.full(pads, self._special.pad, dtype=np.int64)
            sequence = np.concatenate([sequence, ids])
        # The last subword is the input of no score; it is read only for its states and rows.
        length = len(sequence) - last if len(ids) else 0
        # A model whose tokenizer puts a start token before every text was never trained without one.
        again = np.array(self._special.added if special else (), dtype=np.int64)
        rows: list[Row] = []
        for window in causal_windows(
            length, self._context, self._settings.stride, self._settings.step, len(again)
        ):
            put = again[: len(again) if window.start else 0]
            seen = window.start - len(put)
            first = max(window.read_start, before - 1)
            scored = np.arange(first, min(window.read_stop, len(sequence) - 1))
            scored = _asked(scored, scored + 1 - before, asked)
            rows.append(
                Row(
                    source=source,
                    tokens=np.concatenate([put, sequence[window.start : window.stop]]),
                    origin=seen - shown,
                    read_start=window.read_start - seen,
                    read_stop=window.read_stop - seen,
                    query=scored - seen,
                    gold=sequence[scored + 1],
                    target=scored + 1 - before,
                    first=max(0, window.start - special) - (before - special),
                    attended=attended,
                )
            )
        return rows

    def _bidirectional(self, source: int, asked: Input, ids: Int[np.ndarray, " subword"]) -> list[Row]:
        special = self._special
        if self._room < 1:
            raise InputError(
                f"model {self._name!r} takes {self._context} positions, which its special tokens fill; "
                "give a larger --context"
            )
        masked = np.array(asked.shape.masked, dtype=np.int64)
        seen = ids
        if len(masked):
            if special.mask is None:
                raise InputError(f"model {self._name!r} has no mask token; ask a masked language model")
            seen = ids.copy()
            seen[masked] = special.mask
        scored = _asked(masked, masked, asked)
        rows: list[Row] = []
        for window in bidirectional_windows(len(ids), self._room, self._settings.stride, self._settings.step):
            origin = window.start - len(special.prefix)
            here = scored[(scored >= window.read_start) & (scored < window.read_stop)]
            rows.append(
                Row(
                    source=source,
                    tokens=np.concatenate(
                        [
                            np.array(special.prefix, dtype=np.int64),
                            seen[window.start : window.stop],
                            np.array(special.suffix, dtype=np.int64),
                        ]
                    ),
                    origin=origin,
                    read_start=window.read_start - origin,
                    read_stop=window.read_stop - origin,
                    query=here - origin,
                    gold=ids[here],
                    target=here,
                    first=window.start,
                )
            )
        return rows

    def _gapped(self, source: int, asked: Input, prepared: Prepared, ids: Int[np.ndarray, " subword"]) -> Row:
        """What an encoder-decoder is shown that is asked for a run of subwords: one window around the gap."""
        special, name, room = self._special, self._name, self._room
        if not asked.shape.masked:
            raise InputError(
                f"model {name!r} is an encoder-decoder, which is scored on what is left out of a text; score "
                "whole texts with a decoder"
            )
        if special.gap is None:
            raise InputError(
                f"model {name!r} has no sign for what is left out, or was not trained to fill it in; ask "
                "a masked language model"
            )
        if asked.wanted.attends:
            raise InputError(
                f"model {name!r}: states, heads and attention are those of the whole text, without a gap"
            )
        hidden = asked.shape.masked
        first, stop = gap_of(hidden, room, prepared.item.item_id, name)
        begin, end = around_gap(first, stop, len(ids), room)
        shown = (
            special.prefix,
            ids[begin:first],
            [special.gap.sign],
            ids[stop:end],
            special.suffix,
        )
        before = np.array(special.gap.before, dtype=np.int64)
        repeated = ids[begin:first] if special.gap.repeats else ids[:0]
        masked = np.array(hidden, dtype=np.int64)
        return Row(
            source=source,
            tokens=np.concatenate([np.array(part, dtype=np.int64) for part in shown]),
            origin=begin - len(special.prefix),
            read_start=0,
            read_stop=0,
            query=np.arange(stop - first) + len(before) + len(repeated) - 1,
            gold=ids[masked],
            target=masked,
            first=begin,
            written=np.concatenate([before, repeated, ids[first : stop - 1]]),
            gap=first,
            hidden=stop - first,
            writes=(begin if special.gap.repeats else first, len(before)),
        )


def _asked(
    columns: Int[np.ndarray, " column"], targets: Int[np.ndarray, " column"], asked: Input
) -> Int[np.ndarray, " some"]:
    """Of the columns that can be scored those that have to be: all, or those read off every layer."""
    return (
        columns
        if asked.wanted.scored
        else columns[np.isin(targets, [position for position, _ in asked.wanted.depth])]
    )


def _check_positions(asked: Input, prepared: Prepared, subwords: int) -> None:
    """Refuse positions outside the item rather than answer for another one."""
    wanted = asked.wanted
    _check_inside("masked position", asked.shape.masked, prepared, subwords)
    _check_inside("row", wanted.rows, prepared, subwords)
    _check_inside("position", [position for position, _ in wanted.depth], prepared, subwords)
    for words in wanted.words:
        _check_words(words, prepared, subwords)
    for change in asked.shape.changes:
        named = () if change.positions is None else change.positions.get(prepared.item.item_id, ())
        _check_inside("changed position", named, prepared, subwords)
    for start, stop in (*wanted.spans, *wanted.head_spans):
        if not 0 <= start <= stop <= subwords:
            raise InputError(
                f"item {prepared.item.item_id}: span {start}..{stop} lies outside its {subwords} subwords"
            )


def _check_words(words: WordLookups, prepared: Prepared, subwords: int) -> None:
    """Refuse words outside the item and lookups of words that it does not have."""
    owned = words.first < words.stop
    outside = owned & ((words.first < 0) | (words.stop > subwords))
    if outside.any():
        raise InputError(
            f"item {prepared.item.item_id}: word {int(np.flatnonzero(outside)[0])} lies outside its "
            f"{subwords} subwords"
        )
    for lookups in (words.ahead, words.behind):
        for part in (lookups.query, lookups.until, lookups.first, lookups.last):
            if len(part) and not 0 <= int(part.min()) <= int(part.max()) < len(words.first):
                raise InputError(
                    f"item {prepared.item.item_id}: a lookup is outside its {len(words.first)} words"
                )
        if (lookups.last < lookups.first).any() or (lookups.until < lookups.query).any():
            raise InputError(f"item {prepared.item.item_id}: a lookup ends before it begins")


def _check_inside(what: str, positions: Sequence[int], prepared: Prepared, subwords: int) -> None:
    for position in positions:
        if not 0 <= position < subwords:
            raise InputError(
                f"item {prepared.item.item_id}: {what} {position} lies outside its {subwords} subwords"
            )
