"""Rows of token ids for a model: special tokens, masks, gaps, windows and batches.

Windows split long sequences: every position is read from exactly one window, with known context. A model that
fills gaps reads both sides of a gap and then the text that it writes. A row holds the ids that a model gets
and the positions that are read from them. Batches depend on the plan only, never on workers or the order of
arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Int

from sonde.alignment import encode
from sonde.base.errors import InputError, UsageError
from sonde.capture.merge_requests import InputVariant
from sonde.capture.requests import Prepared, Start, check_positions
from sonde.capture.settings import CaptureSettings
from sonde.models import LoadedModel
from sonde.models.engine.family import check_head_available


@dataclass(frozen=True, slots=True)
class Window:
    """One slice of a sequence, and the part of it that is read.

    Attributes:
        start: First position that the model sees.
        stop: One past the last position that it sees.
        read_start: First position whose output is used.
        read_stop: One past the last such position.
    """

    start: int
    stop: int
    read_start: int
    read_stop: int


def causal_windows(length: int, context: int, step: int = 0, lead: int = 0) -> tuple[Window, ...]:
    """Cut a sequence for a model that looks back.

    A position is read from the first window that holds it, where most stands before it. Inputs and targets
    are distinct (the output at position ``p`` scores position ``p + 1``), so a context of 1 works. Every
    position outside the first window sees itself and at least ``context - lead - step`` positions before it,
    where ``step`` is that given, else half the context, and at most ``context - lead``.

    Args:
        length: Positions to read.
        context: Positions that the model can take.
        step: Positions by which each further window advances, the context at most; 0 means half the context.
        lead: Positions of each further window that hold what the model reads first, such as a start token.

    Raises:
        UsageError: The context holds no position.

    >>> causal_windows(5, 4)
    (Window(start=0, stop=4, read_start=0, read_stop=4), Window(start=2, stop=5, read_start=4, read_stop=5))
    >>> [(w.start, w.stop) for w in causal_windows(7, 4, lead=1)]
    [(0, 4), (2, 5), (4, 7)]
    """
    step = _window_step(context, step)
    if length > context:
        if context <= lead:
            raise UsageError(
                f"a context of {context} has no room for a subword after the start token; give "
                f"at least {lead + 1}"
            )
        step = min(step, context - lead)
    windows: list[Window] = []
    start = read = 0
    while read < length:
        stop = min(start + context - (lead if start else 0), length)
        # The first window holds more than one with a lead, which may add nothing to it.
        if stop > read:
            windows.append(Window(start, stop, read, stop))
        start, read = start + step, max(read, stop)
    return tuple(windows)


def bidirectional_windows(length: int, context: int, step: int = 0) -> tuple[Window, ...]:
    """Cut a sequence for a model that looks both ways.

    Windows are of equal length, the last one flush with the end. A position is read from the window in which
    it lies furthest from a border where the text goes on; the earlier window wins a tie.

    Args:
        length: Positions to read.
        context: Positions that the model can take, special tokens not counted.
        step: Positions by which each further window advances, the context at most; 0 means half the context.

    Raises:
        UsageError: The context holds no position.

    >>> [(w.read_start, w.read_stop) for w in bidirectional_windows(6, 4)]
    [(0, 3), (3, 6)]
    """
    step = _window_step(context, step)
    starts: list[int] = []
    start = 0
    while start + context < length:
        starts.append(start)
        start += step
    if length:
        starts.append(max(0, length - context))
    # Two neighbours share the positions from the later start to the earlier stop; they meet in the middle.
    borders = [0]
    borders += [(previous + start + context + 1) // 2 for previous, start in pairwise(starts)]
    borders.append(length)
    return tuple(
        Window(start, min(start + context, length), borders[i], borders[i + 1])
        for i, start in enumerate(starts)
    )


def _window_step(context: int, step: int) -> int:
    if context < 1:
        raise UsageError(f"a context of {context} has no room for a subword; give at least 1")
    return min(step, context) if step else max(1, context // 2)


def find_gap(positions: Sequence[int], room: int, item: str, model: str) -> tuple[int, int]:
    """Find the first position of a gap in a text, and one past its last.

    Args:
        positions: Positions that are left out, in their order; at least one.
        room: Positions that fit.
        item: The text, for errors.
        model: Who fills in, for errors.

    Raises:
        InputError: There is more than one gap, or it does not fit.
    """
    first, stop = positions[0], positions[-1] + 1
    if stop - first != len(positions):
        raise InputError(
            f"item {item}: subwords {', '.join(map(str, positions))} are not adjacent; model "
            f"{model!r} fills one gap at a time"
        )
    if stop - first > room:
        raise InputError(
            f"item {item}: {stop - first} subwords of gaps are more than the {max(room, 0)} that "
            f"model {model!r} can read at once"
        )
    return first, stop


def window_around_gap(first: int, stop: int, length: int, room: int) -> tuple[int, int]:
    """Find the part of a text to read around a gap: as much on either side as fits.

    What one side has less of leaves its room to the other.

    Args:
        first: First position of the gap.
        stop: One past its last.
        length: Positions of the text.
        room: Positions that fit, those of the gap included; at least as many as it has.

    Returns:
        Its first position and one past its last, those of the gap included.

    >>> window_around_gap(4, 6, 20, 8), window_around_gap(1, 3, 20, 8)
    ((1, 9), (0, 8))
    >>> window_around_gap(17, 19, 20, 8), window_around_gap(1, 3, 5, 8)
    ((12, 20), (0, 5))
    """
    begin = max(0, min(first - (room - (stop - first)) // 2, length - room))
    return begin, min(length, begin + room)


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One row of a batch: a window over one input.

    Attributes:
        source: Index of the input.
        tokens: Ids as the model gets them, special ones included.
        origin: Subword position of the first column; negative where special tokens stand before the item.
        read_start: First column whose output is used.
        read_stop: One past the last such column.
        query: Columns whose output is scored.
        gold: The id that each of them is scored against.
        target: The subword position of that id.
        first: First subword of the item that the window holds.
        attended: Columns from here on are seen by none; -1 where the model may see all.
        shared: Leading tokens that other rows of the batch may begin with as well; read once for all of them.
        written: What the decoder of an encoder-decoder reads, whose columns are then those of `query`; None
            where nothing but the text is read.
        gap: First subword of a run that one sign stands for; -1 where all subwords stand for themselves.
        hidden: Subwords of that run.
        writes: First subword of the item among what is written, and the column it stands at.
    """

    source: int
    tokens: Int[np.ndarray, " token"]
    origin: int
    read_start: int
    read_stop: int
    query: Int[np.ndarray, " target"]
    gold: Int[np.ndarray, " target"]
    target: Int[np.ndarray, " target"]
    first: int = 0
    attended: int = -1
    shared: int = 0
    written: Int[np.ndarray, " token"] | None = None
    gap: int = -1
    hidden: int = 0
    writes: tuple[int, int] = (0, 1)

    def map_columns(self, subwords: int, side: str, suffix: int) -> Int[np.ndarray, " column"]:
        """Map each column to its subword of the item, -1 for none.

        Args:
            subwords: Of the item.
            side: Side of the model that has the columns; what a decoder that writes reads is counted apart.
            suffix: Special tokens behind the text.
        """
        if side in ("decoder", "cross") and self.written is not None:
            first, column = self.writes
            subword_index = np.arange(len(self.written)) - column + first
            return np.where(np.arange(len(self.written)) < column, -1, subword_index)
        columns = np.arange(len(self.tokens))
        subword_index = columns + self.origin
        if self.gap >= 0:
            is_after_gap = subword_index > self.gap
            subword_index = np.where(is_after_gap, subword_index + self.hidden - 1, subword_index)
            subword_index[self.gap - self.origin] = -1
        is_outside = (
            (subword_index < 0) | (subword_index >= subwords) | (columns >= len(self.tokens) - suffix)
        )
        return np.where(is_outside, -1, subword_index)

    @property
    def size(self) -> int:
        """Return the number of tokens that are forwarded."""
        return len(self.tokens) + (0 if self.written is None else len(self.written))

    @property
    def context(self) -> Int[np.ndarray, " target"]:
        """Return the number of subwords before each target inside the window."""
        return self.target - self.first


def split_by_length(batch: Sequence[Row], *, single_rows: bool = False) -> list[list[Row]]:
    """Split a batch into parts that need no padding, or into single rows."""
    if single_rows:
        return [[row] for row in batch]
    parts: dict[int, list[Row]] = {}
    for row in batch:
        parts.setdefault(len(row.tokens), []).append(row)
    return list(parts.values())


def count_padded_tokens(batch: Sequence[Row]) -> int:
    """Count the tokens of a batch, padding included."""
    return len(batch) * max(row.size for row in batch)


def build_infill_row(
    source: int,
    variant: InputVariant,
    prepared: Prepared,
    ids: Int[np.ndarray, " subword"],
    loaded_model: LoadedModel,
    context: int,
) -> Row:
    """Build one window around a gap; the gap's subwords are written after it and scored there.

    Args:
        source: Index of the input.
        variant: The input, with the subwords that are left out.
        prepared: Its item.
        ids: The item's subwords, as the whole text is cut.
        loaded_model: The model.
        context: Positions that it takes at once.

    Raises:
        InputError: The model has no tokens to be asked by, or more than scores is asked for, or the subwords
            are not one run, or too many.
    """
    name, gap_positions = loaded_model.spec.name, variant.shape.masked
    signs = loaded_model.special.infill
    if signs is None:
        raise InputError(
            f"model {name!r} is a decoder whose tokenizer has no infilling tokens; use an encoder"
        )
    if not variant.wanted.all_have("scores") or variant.shape.changes:
        raise InputError(f"model {name!r}: a decoder that fills in gives only scores")
    lead = loaded_model.special.added
    # The last subword of the gap is written, and never read.
    room = context - len(lead) - (2 if signs.write is None else 3) + 1
    first, stop = find_gap(gap_positions, room, prepared.item.item_id, name)
    begin, end = window_around_gap(first, stop, len(ids), room)
    prefix = [signs.before, *ids[begin:first].tolist()]
    suffix = [signs.behind, *ids[stop:end].tolist()]
    sides = [*suffix, *prefix] if signs.reversed else [*prefix, *suffix]
    visible_tokens = [*lead, *sides, *(() if signs.write is None else (signs.write,))]
    return Row(
        source=source,
        tokens=np.concatenate([np.array(visible_tokens, dtype=np.int64), ids[first : stop - 1]]),
        origin=0,
        read_start=0,
        read_stop=0,
        query=np.arange(stop - first) + len(visible_tokens) - 1,
        gold=ids[first:stop],
        target=np.arange(first, stop),
        first=begin,
    )


def select_lead(loaded_model: LoadedModel, start: Start) -> tuple[int, ...]:
    """Return the ids that a decoder reads before a text.

    Raises:
        InputError: The model has no start token, and is to be fed one.
    """
    special = loaded_model.special
    if start == "tokenizer":
        return special.added
    if start == "always" and special.bos is None:
        raise InputError(
            f"model {loaded_model.spec.name!r} has neither a start token nor an end-of-text token; give "
            "bos = auto or none"
        )
    return () if start == "none" or special.bos is None else (special.bos,)


class RowCutter:
    """Cuts the inputs of one model into rows.

    A decoder reads its start token and the ids; a later window holds no special token. An encoder reads
    ``prefix + ids + suffix``, with both around every window.

    Args:
        loaded_model: The model.
        settings: Positions of a window, and by how much each further one advances.
        whole_rows: Whether a decoder reads the last subword even where only scores are asked for, so that all
            inputs of an item have the same rows.
    """

    def __init__(
        self, loaded_model: LoadedModel, settings: CaptureSettings, *, whole_rows: bool = False
    ) -> None:
        self._loaded = loaded_model
        self._whole = whole_rows
        self._settings = settings
        self._special = loaded_model.special
        self._name, self._kind = loaded_model.spec.name, loaded_model.capabilities.kind
        self._context = min(
            settings.context or loaded_model.capabilities.context, loaded_model.capabilities.context
        )
        self._room = self._context - len(self._special.prefix) - len(self._special.suffix)

    def rows(self, source: int, variant: InputVariant, prepared: Prepared) -> list[Row]:
        """Cut one input into rows; an item without subwords has none.

        Args:
            source: Index of the input.
            variant: The input.
            prepared: Its item.

        Raises:
            InputError: A position, span, mask or head is asked for that the item or model does not have.
        """
        if variant.wanted.has("scores") or variant.wanted.positions:
            check_head_available(self._loaded)
        ids = np.asarray(prepared.alignment.subwords.ids, dtype=np.int64)
        _check_positions(variant, prepared, len(ids))
        if self._kind == "decoder":
            if variant.shape.masked:
                return [build_infill_row(source, variant, prepared, ids, self._loaded, self._context)]
            return self._causal(source, variant, ids)
        if variant.shape.padded:
            raise InputError(f"model {self._name!r} is not a decoder; only decoders score padding")
        if self._kind == "encoder-decoder" and (variant.wanted.has("scores") or variant.wanted.positions):
            return [self._infill_row(source, variant, prepared, ids)]
        return self._bidirectional(source, variant, ids)

    def fits(self, prepared: Prepared, start: Start) -> bool:
        """Return whether an item and what a decoder reads before it fit into one window."""
        room = (
            self._context - len(select_lead(self._loaded, start)) if self._kind == "decoder" else self._room
        )
        return len(prepared.alignment.subwords) <= room

    def pads(self, subwords: int, start: Start) -> int:
        """Count the pads that fill up the context after an item of so many subwords."""
        return max(0, self._context - subwords - len(select_lead(self._loaded, start))) if subwords else 0

    def _causal(self, source: int, variant: InputVariant, ids: Int[np.ndarray, " subword"]) -> list[Row]:
        lead = select_lead(self._loaded, variant.shape.start)
        special = len(lead)
        if variant.shape.before:
            room = self._context - special - len(ids)
            subwords = encode(self._loaded.tokenizer, variant.shape.before).ids.tolist()
            lead = (*lead, *subwords[max(0, len(subwords) - room) :]) if room > 0 else lead
        item_start = lead_length = len(lead)
        sequence = np.concatenate([np.array(lead, dtype=np.int64), ids])
        if variant.shape.cut:
            sequence = sequence[: self._context]
        visible_stop, last = -1, 0 if variant.wanted.has("text") or self._whole else 1
        if variant.shape.padded:
            # Pads stand in the place of the item, which is read before them, and nothing attends to them.
            visible_stop, item_start, last = len(sequence), len(sequence), 0
            pads = self.pads(len(ids), variant.shape.start)
            ids = np.full(pads, self._special.pad, dtype=np.int64)
            sequence = np.concatenate([sequence, ids])
        # The last subword is the input of no score; it is read only for its states and rows.
        length = len(sequence) - last if len(ids) else 0
        # A model whose tokenizer puts a start token before every text was never trained without one.
        window_lead = np.array(self._special.added if special else (), dtype=np.int64)
        rows: list[Row] = []
        for window in causal_windows(length, self._context, self._settings.step, len(window_lead)):
            put = window_lead[: len(window_lead) if window.start else 0]
            origin = window.start - len(put)
            first = max(window.read_start, item_start - 1)
            columns = np.arange(first, min(window.read_stop, len(sequence) - 1))
            columns = _select_columns(columns, columns + 1 - item_start, variant)
            rows.append(
                Row(
                    source=source,
                    tokens=np.concatenate([put, sequence[window.start : window.stop]]),
                    origin=origin - lead_length,
                    read_start=window.read_start - origin,
                    read_stop=window.read_stop - origin,
                    query=columns - origin,
                    gold=sequence[columns + 1],
                    target=columns + 1 - item_start,
                    first=max(0, window.start - special) - (item_start - special),
                    attended=visible_stop,
                )
            )
        return rows

    def _bidirectional(
        self, source: int, variant: InputVariant, ids: Int[np.ndarray, " subword"]
    ) -> list[Row]:
        special = self._special
        if self._room < 1:
            raise InputError(
                f"model {self._name!r} takes {self._context} positions, which its special tokens fill; "
                "give a larger --context"
            )
        masks = np.array(variant.shape.masked, dtype=np.int64)
        input_ids = ids
        if len(masks):
            if special.mask is None:
                raise InputError(f"model {self._name!r} has no mask token; use a masked language model")
            input_ids = ids.copy()
            input_ids[masks] = special.mask
        scored_columns = _select_columns(masks, masks, variant)
        rows: list[Row] = []
        for window in bidirectional_windows(len(ids), self._room, self._settings.step):
            origin = window.start - len(special.prefix)
            window_columns = scored_columns[
                (scored_columns >= window.read_start) & (scored_columns < window.read_stop)
            ]
            rows.append(
                Row(
                    source=source,
                    tokens=np.concatenate(
                        [
                            np.array(special.prefix, dtype=np.int64),
                            input_ids[window.start : window.stop],
                            np.array(special.suffix, dtype=np.int64),
                        ]
                    ),
                    origin=origin,
                    read_start=window.read_start - origin,
                    read_stop=window.read_stop - origin,
                    query=window_columns - origin,
                    gold=ids[window_columns],
                    target=window_columns,
                    first=window.start,
                )
            )
        return rows

    def _infill_row(
        self, source: int, variant: InputVariant, prepared: Prepared, ids: Int[np.ndarray, " subword"]
    ) -> Row:
        """Build the row of an encoder-decoder that fills in a run: one window around the gap."""
        special, name, room = self._special, self._name, self._room
        if not variant.shape.masked:
            raise InputError(
                f"model {name!r} is an encoder-decoder, which scores gaps in a text; score whole "
                "texts with a decoder"
            )
        if special.gap is None:
            raise InputError(
                f"model {name!r} has no token for a gap, or was not trained to fill gaps; use a "
                "masked language model"
            )
        if variant.wanted.has("text"):
            raise InputError(
                f"model {name!r}: states, heads and attention are those of the whole text, without a gap"
            )
        gap_positions = variant.shape.masked
        first, stop = find_gap(gap_positions, room, prepared.item.item_id, name)
        begin, end = window_around_gap(first, stop, len(ids), room)
        parts = (
            special.prefix,
            ids[begin:first],
            [special.gap.sign],
            ids[stop:end],
            special.suffix,
        )
        decoder_lead = np.array(special.gap.before, dtype=np.int64)
        decoder_context = ids[begin:first] if special.gap.repeats else ids[:0]
        targets = np.array(gap_positions, dtype=np.int64)
        return Row(
            source=source,
            tokens=np.concatenate([np.array(part, dtype=np.int64) for part in parts]),
            origin=begin - len(special.prefix),
            read_start=0,
            read_stop=0,
            query=np.arange(stop - first) + len(decoder_lead) + len(decoder_context) - 1,
            gold=ids[targets],
            target=targets,
            first=begin,
            written=np.concatenate([decoder_lead, decoder_context, ids[first : stop - 1]]),
            gap=first,
            hidden=stop - first,
            writes=(begin if special.gap.repeats else first, len(decoder_lead)),
        )


def _select_columns(
    columns: Int[np.ndarray, " column"], targets: Int[np.ndarray, " column"], variant: InputVariant
) -> Int[np.ndarray, " some"]:
    """Select the columns to score: all, or those read off every layer."""
    return columns if variant.wanted.has("scores") else columns[np.isin(targets, [*variant.wanted.positions])]


def _check_positions(variant: InputVariant, prepared: Prepared, subwords: int) -> None:
    """Refuse positions outside the item rather than answer for another one."""
    item = prepared.item.item_id
    check_positions("masked position", variant.shape.masked, item, subwords)
    for request in variant.wanted.requests:
        request.check_bounds(item, subwords)
    for change in variant.shape.changes:
        change_positions = () if change.positions is None else change.positions.get(item, ())
        check_positions("changed position", change_positions, item, subwords)


def batch_by_length(
    lengths: Sequence[int], keys: Sequence[str], budget: int, fill: float = 0.0
) -> list[list[int]]:
    """Group rows of similar length under a budget of padded tokens.

    Rows are sorted by length, longest first (so that memory is at its peak in the first batch), equal lengths
    by key. A row longer than the budget is a batch of its own.

    Args:
        lengths: Tokens of each row.
        keys: A key of each row that does not depend on the order in which rows arrive, for example a hash.
        budget: Rows times longest row of a batch stay at or under this.
        fill: Share of a batch's padded tokens that are real, at least; a row that would take it below begins
            a batch of its own.

    Returns:
        Batches of indices into ``lengths``; each index occurs once.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], keys[row]))
    batches: list[list[int]] = []
    real = 0
    for row in order:
        real += lengths[row]
        padded_size = lengths[batches[-1][0]] * (len(batches[-1]) + 1) if batches else 0
        if batches and padded_size <= budget and real >= fill * padded_size:
            batches[-1].append(row)
        else:
            batches.append([row])
            real = lengths[row]
    return batches


def pad_rows(rows: Sequence[Int[np.ndarray, " token"]], value: int) -> Int[np.ndarray, "batch token"]:
    """Stack rows, filling the shorter ones on the right.

    To the right, because then a decoder's real positions keep their numbers and never see the padding.
    """
    width = max((len(row) for row in rows), default=0)
    batch = np.full((len(rows), width), value, dtype=np.int64)
    for index, row in enumerate(rows):
        batch[index, : len(row)] = row
    return batch
