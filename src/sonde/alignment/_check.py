"""The invariants of an alignment, checked every time: a figure on misplaced spans must not exist."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.alignment.spans import Alignment
from sonde.base.errors import CaptureError


def check(alignment: Alignment, item: str = "") -> None:
    """Hold an alignment to its invariants.

    Every subword has a span inside the text; starts and ends never go back; its code tokens are in order;
    the pieces of a lossless tokenizer cover every character and spell its bytes.

    Raises:
        CaptureError: One of them fails; names the item and the invariant.
    """
    for broken in _broken(alignment):
        where = f"item {item}" if item else f"text {alignment.subwords.text[:40]!r}"
        raise CaptureError(f"{where}: alignment is broken: {broken}; report the tokenizer and the text")


def _broken(alignment: Alignment) -> Iterator[str]:
    subwords = alignment.subwords
    size, start, end = len(subwords.text), subwords.start, subwords.end
    if not len(start) == len(end) == len(subwords.bytes) == len(subwords.surface) == len(alignment.first):
        yield "columns differ in length"
        return
    if len(start) and (start.min() < 0 or end.max() > size or (end < start).any()):
        yield "a subword lies outside the text"
    if (start[1:] < start[:-1]).any() or (end[1:] < end[:-1]).any():
        yield "subwords are out of order"
    if (subwords.bytes < 0).any():
        yield "a subword has a negative number of bytes"
    if subwords.lossless:
        if subwords.bytes.sum() != len(subwords.text.encode("utf-8", "surrogatepass")):
            yield "bytes do not add up to the text's"
        if alignment.coverage.covered != size:
            yield "characters are not covered"
    first, last = alignment.first, alignment.last
    if (last < first).any() or (last > alignment.coverage.tokens).any():
        yield "code tokens are out of range"
    written = last > first
    first, last = first[written], last[written]
    if (first[1:] < first[:-1]).any() or (last[1:] < last[:-1]).any():
        yield "code tokens are out of order"
    if ((alignment.node >= 0) != written).any():
        yield "a subword in a token has no node, or one outside has"
