"""Windows over long sequences: every position is read from exactly one window, with known context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sonde.base.errors import InputError, UsageError


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


def causal_windows(
    length: int, context: int, stride: float = 0.5, step: int = 0, lead: int = 0
) -> tuple[Window, ...]:
    """Cut a sequence for a model that looks back.

    A position is read from the first window that holds it, where most stands before it. Inputs and targets
    are distinct (the output at position ``p`` scores position ``p + 1``), so a context of 1 works. Every
    position outside the first window sees itself and at least ``context - lead - step`` positions before it,
    where ``step`` is that given, else ``max(1, floor(stride * context))``, and at most ``context - lead``.

    Args:
        length: Positions to read.
        context: Positions that the model can take.
        stride: The advance of each further window as a share of the context.
        step: The same in positions, the context at most; 0 means by the share.
        lead: Positions of each further window that hold what the model reads first, such as a start token.

    Raises:
        UsageError: The context holds no position.

    >>> causal_windows(5, 4)
    (Window(start=0, stop=4, read_start=0, read_stop=4), Window(start=2, stop=5, read_start=4, read_stop=5))
    >>> [(w.start, w.stop) for w in causal_windows(7, 4, lead=1)]
    [(0, 4), (2, 5), (4, 7)]
    """
    step = _step(context, stride, step)
    if length > context:
        if context <= lead:
            raise UsageError(
                f"a context of {context} holds no subword beside the start token; give at least {lead + 1}"
            )
        step = min(step, _step(context - lead, stride, step))
    windows: list[Window] = []
    start = read = 0
    while read < length:
        stop = min(start + context - (lead if start else 0), length)
        # The first window holds more than one with a lead, which may add nothing to it.
        if stop > read:
            windows.append(Window(start, stop, read, stop))
        start, read = start + step, max(read, stop)
    return tuple(windows)


def bidirectional_windows(
    length: int, context: int, stride: float = 0.5, step: int = 0
) -> tuple[Window, ...]:
    """Cut a sequence for a model that looks both ways.

    Windows are of equal length, the last one flush with the end. A position is read from the window in which
    it lies furthest from a border where the text goes on; the earlier window wins a tie.

    Args:
        length: Positions to read.
        context: Positions that the model can take, special tokens not counted.
        stride: The advance of each further window as a share of the context.
        step: The same in positions, the context at most; 0 means by the share.

    Raises:
        UsageError: The context holds no position.

    >>> [(w.read_start, w.read_stop) for w in bidirectional_windows(6, 4)]
    [(0, 3), (3, 6)]
    """
    step = _step(context, stride, step)
    starts: list[int] = []
    start = 0
    while start + context < length:
        starts.append(start)
        start += step
    if length:
        starts.append(max(0, length - context))
    # Two neighbours share the positions from the later start to the earlier stop; they meet in the middle.
    borders = [0]
    borders += [(before + after + context + 1) // 2 for before, after in pairwise(starts)]
    borders.append(length)
    return tuple(
        Window(start, min(start + context, length), borders[i], borders[i + 1])
        for i, start in enumerate(starts)
    )


def _step(context: int, stride: float, step: int) -> int:
    if context < 1:
        raise UsageError(f"a context of {context} holds no subword; give the model at least 1")
    return min(step, context) if step else max(1, int(context * stride))


def gap_of(hidden: Sequence[int], room: int, item: str, model: str) -> tuple[int, int]:
    """First position of the gap that is left out of a text, and one past its last.

    Args:
        hidden: Positions that are left out, in their order; at least one.
        room: Positions that fit.
        item: The text, for errors.
        model: Who fills in, for errors.

    Raises:
        InputError: There is more than one gap, or it does not fit.
    """
    first, stop = hidden[0], hidden[-1] + 1
    if stop - first != len(hidden):
        raise InputError(
            f"item {item}: subwords {', '.join(map(str, hidden))} are not one run; model {model!r} fills in "
            "one gap at a time"
        )
    if stop - first > room:
        raise InputError(
            f"item {item}: {stop - first} subwords that are left out are more than the {max(room, 0)} that "
            f"model {model!r} can take at once"
        )
    return first, stop


def around_gap(first: int, stop: int, length: int, room: int) -> tuple[int, int]:
    """The stretch of a text that is read around a gap: as much on either side as fits.

    What one side has less of leaves its room to the other.

    Args:
        first: First position of the gap.
        stop: One past its last.
        length: Positions of the text.
        room: Positions that fit, those of the gap included; at least as many as it has.

    Returns:
        Its first position and one past its last, those of the gap included.

    >>> around_gap(4, 6, 20, 8), around_gap(1, 3, 20, 8), around_gap(17, 19, 20, 8), around_gap(1, 3, 5, 8)
    ((1, 9), (0, 8), (12, 20), (0, 5))
    """
    begin = max(0, min(first - (room - (stop - first)) // 2, length - room))
    return begin, min(length, begin + room)
