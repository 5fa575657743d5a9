"""Examples as a model reads them: subwords within the limit, and where a pointer may point among them.

Of a text beyond the limit, a window is read around the place where two examples of one function differ
(`window_starts`).
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from sonde.alignment.subwords import Subwords, encode
from sonde.base.errors import UsageError
from sonde.base.fingerprint import unit_hash
from sonde.models import SpecialTokens
from sonde.training.finetune.recipe import KEEP, WINDOW


def overlapping_subwords(subwords: Subwords, stretch: Span) -> range:
    """Return the subwords that overlap some characters; for none, those on both sides of the position."""
    start, end = stretch
    if start == end:
        start, end = start - 1, end + 1
    indices = np.flatnonzero((subwords.end > start) & (subwords.start < end))
    return range(int(indices[0]), int(indices[-1]) + 1) if len(indices) else range(0)


def window_starts(texts: Sequence[Subwords], evidence: Sequence[Span], room: int, share: float) -> list[int]:
    """Return the first subword to read of each text of one function: at the same character in all.

    Args:
        texts: The texts, alike up to where they differ.
        evidence: Where they differ.
        room: Subwords that can be read.
        share: How much of the rest of the window stands before the place: a half has it in the middle.

    Returns:
        For each text its first subword; all are read from the beginning where all fit.
    """
    ranges = [overlapping_subwords(text, stretch) for text, stretch in zip(texts, evidence, strict=True)]
    free = max(0, room - max(map(len, ranges)))
    last_start = max(map(len, texts)) - room
    first = min(ranges[0].start - round(share * free), last_start)
    if first <= 0:
        return [0] * len(texts)
    character = texts[0].start[first]
    return [int(np.searchsorted(text.start, character)) for text in texts]


FIRST, SECOND = 1, 2
"""Which text a subword belongs to; 0 stands for what the model puts around them."""


Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """One example.

    Attributes:
        name: Its id.
        text: Its text.
        target: Its class, from 0.
        second: First character of the second text of a pair, where ``text`` holds two; the first one ends
            at the end of the line before it.
        candidates: Characters that a pointer may point at; None for an example without a pointer.
        error: What it should point at; None where nothing is wrong.
        repairs: What it should be replaced by; any of them.
        evidence: Characters that the label rests on; None where they are not known.
        group: What the examples share that were made of one function; empty for an example alone.
    """

    name: str
    text: str
    target: int
    second: int | None = None
    candidates: tuple[Span, ...] | None = None
    error: Span | None = None
    repairs: tuple[Span, ...] = ()
    evidence: Span | None = None
    group: str = ""


def find_candidate(sample: Sample, span: Span) -> Span:
    """Return the candidate that begins in a subword, else the subword."""
    start, end = span
    return next((candidate for candidate in sample.candidates or () if start <= candidate[0] < end), span)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedExample:
    """An example in subwords.

    Attributes:
        ids: Subwords with what stands around them.
        part: For each of them `FIRST`, `SECOND` or 0.
        target: Its class.
        candidates: Places that a pointer may point at: subwords of ``ids`` counted from 1, and 0, which
            says that nothing is wrong.
        location: Place of the error; 0 where there is none, -1 where it is beyond the limit.
        repairs: Places of the right variable, as far as they are within the limit.
        truncated: Whether what the example is about is beyond the limit, for a pointer: the error or all of
            its repairs; else: any of the text.
        spans: First and last character (exclusive) of each subword in the example's text; -1 for what the
            model puts around it.
        reached: Whether all that the label rests on is read, and likewise in the other example of its
            function, and the two differ in what is read; None where what it rests on is not known.
    """

    ids: Int[np.ndarray, " token"]
    part: Int[np.ndarray, " token"]
    target: int
    candidates: tuple[int, ...] = ()
    location: int = 0
    repairs: tuple[int, ...] = ()
    truncated: bool = False
    spans: Int[np.ndarray, "token 2"] | None = None
    reached: bool | None = None


@dataclass(frozen=True, slots=True)
class TaskData:
    """The examples of a task by split.

    Attributes:
        classes: Names of the classes, in their order.
        train: What is trained on.
        valid: What rates and epochs are chosen on.
        test: What is evaluated.
    """

    classes: tuple[str, ...]
    train: Sequence[Sample]
    valid: Sequence[Sample]
    test: Sequence[Sample]


@dataclass(frozen=True, slots=True, eq=False)
class TextEncoder:
    """Encoder of texts into the inputs of a body.

    Attributes:
        tokenizer: A fast tokenizer.
        before: Subwords that stand before a text.
        behind: Subwords that stand after each text.
        pad: Subword of padding.
    """

    tokenizer: Any
    before: Int[np.ndarray, " token"]
    behind: Int[np.ndarray, " token"]
    pad: int

    def check(self, length: int, maximum: int, name: str) -> None:
        """Check that inputs may have `length` subwords.

        Args:
            length: Most subwords of an input.
            maximum: What can be read at all.
            name: Of what reads.

        Raises:
            UsageError: It is more than can be read, or leaves no room for two texts.
        """
        minimum = len(self.before) + 2 * len(self.behind) + 3
        if not minimum <= length <= maximum:
            raise UsageError(
                f"length {length}: model {name!r} reads {minimum} to {maximum} subwords; give a length "
                "among them"
            )


def build_text_encoder(tokenizer: Any, special: SpecialTokens, kind: str) -> TextEncoder:
    """Build the encoder of a model's inputs.

    Args:
        tokenizer: Its tokenizer.
        special: What it puts around a text.
        kind: ``"decoder"``, ``"encoder"`` or ``"encoder-decoder"``.
    """
    prefix = special.prefix
    if kind == "decoder":
        prefix = () if special.bos is None else (special.bos,)
    return TextEncoder(tokenizer, np.array(prefix, np.int64), np.array(special.suffix, np.int64), special.pad)


def encode_samples(
    samples: Sequence[Sample], reader: TextEncoder, length: int, truncation: str = KEEP
) -> list[EncodedExample]:
    """Encode samples as a reader reads them.

    Args:
        samples: The examples.
        reader: What reads.
        length: Most subwords of an input.
        truncation: One of `sonde.training.finetune.recipe.CUTS`; what is to be left out is marked, not
            left out.
    """
    groups: defaultdict[str | int, list[int]] = defaultdict(list)
    for number, sample in enumerate(samples):
        groups[sample.group or number].append(number)
    read: dict[int, EncodedExample] = {}
    for members in groups.values():
        examples = _encode_function([samples[member] for member in members], reader, length, truncation)
        read.update(zip(members, examples, strict=True))
    return [read[number] for number in range(len(samples))]


def _encode_function(
    samples: Sequence[Sample], reader: TextEncoder, length: int, truncation: str
) -> list[EncodedExample]:
    """Encode the examples of one function."""
    if samples[0].second is not None:
        read = [_encode_pair(sample, reader, length) for sample in samples]
    else:
        if samples[0].candidates is not None and not len(reader.behind):
            # The last state sums the text up; where that ends in a variable, the two must not be one.
            reader = dataclasses.replace(reader, behind=reader.before)
        room = length - len(reader.before) - len(reader.behind)
        subwords = [encode(reader.tokenizer, sample.text) for sample in samples]
        evidence = [sample.evidence for sample in samples if sample.evidence is not None]
        firsts = [0] * len(samples)
        if truncation == WINDOW and len(evidence) == len(samples):
            # In the middle a pointer would know without reading where to point.
            share = unit_hash("window", samples[0].name) if samples[0].candidates is not None else 0.5
            firsts = window_starts(subwords, evidence, room, share)
        read = [
            _encode(sample, reader, room, text_subwords, first)
            for sample, text_subwords, first in zip(samples, subwords, firsts, strict=True)
        ]
    if all(example.reached is None for example in read):
        return read
    differ = len({example.ids.tobytes() for example in read}) == len(read)
    reaches_evidence = differ and all(example.reached for example in read)
    return [dataclasses.replace(example, reached=reaches_evidence) for example in read]


def _encode(sample: Sample, reader: TextEncoder, room: int, subwords: Subwords, first: int) -> EncodedExample:
    """Encode one text from a subword on."""
    prefix, suffix = reader.before, reader.behind
    last = min(first + room, len(subwords.ids))
    token_ids = subwords.ids[first:last]
    ids = np.concatenate([prefix, token_ids, suffix])
    part = np.concatenate([0 * prefix, np.full(len(token_ids), FIRST), 0 * suffix])
    spans = _subword_spans(reader, (subwords, slice(first, last), 0))
    reaches_evidence = None
    if sample.evidence is not None:
        evidence_range = overlapping_subwords(subwords, sample.evidence)
        reaches_evidence = first <= evidence_range.start and evidence_range.stop <= last
    if sample.candidates is None:
        is_shorter = len(token_ids) < len(subwords.ids)
        return EncodedExample(
            ids, part, sample.target, truncated=is_shorter, spans=spans, reached=reaches_evidence
        )

    def to_token_indices(spans: Sequence[Span]) -> tuple[int, ...]:
        # The subword that holds a span's first character; pieces that only begin before it do as well.
        indices = np.searchsorted(subwords.end, [start for start, _ in spans], side="right")
        return tuple(
            sorted({int(index) - first + len(prefix) + 1 for index in indices if first <= index < last})
        )

    candidates = (0, *to_token_indices(sample.candidates))
    if sample.error is None:
        return EncodedExample(ids, part, sample.target, candidates, spans=spans, reached=reaches_evidence)
    location, repairs = to_token_indices([sample.error]), to_token_indices(sample.repairs)
    misses_pointer = not (location and repairs)
    return EncodedExample(
        ids,
        part,
        sample.target,
        tuple(sorted({*candidates, *location, *repairs})),
        location[0] if location else -1,
        repairs,
        truncated=misses_pointer,
        spans=spans,
        reached=None if reaches_evidence is None else reaches_evidence and not misses_pointer,
    )


def _subword_spans(reader: TextEncoder, *parts: tuple[Subwords, slice, int]) -> Int[np.ndarray, "token 2"]:
    """Return the characters of each subword of an input.

    Args:
        reader: What stands before the first part and behind each.
        parts: Subwords of a text, which of them are kept, and the text's first character.
    """
    rows = [np.full((len(reader.before), 2), -1)]
    for subwords, selection, first in parts:
        rows.append(np.stack([subwords.start[selection], subwords.end[selection]], 1) + first)
        rows.append(np.full((len(reader.behind), 2), -1))
    return np.concatenate(rows).astype(np.int32)


def _encode_pair(sample: Sample, reader: TextEncoder, length: int) -> EncodedExample:
    """Encode two texts with the ids after each; the longer is cut until both fit."""
    assert sample.second is not None
    prefix, suffix = reader.before, reader.behind
    texts = sample.text[: sample.second].rstrip("\n"), sample.text[sample.second :]
    read = [encode(reader.tokenizer, text) for text in texts]
    first, second = read[0].ids, read[1].ids
    room = length - len(prefix) - 2 * len(suffix)
    keep_second = min(len(second), max(room // 2, room - len(first)))
    pieces = first[: room - keep_second], second[:keep_second]
    return EncodedExample(
        np.concatenate([prefix, pieces[0], suffix, pieces[1], suffix]),
        np.concatenate(
            [
                0 * prefix,
                np.full(len(pieces[0]), FIRST),
                0 * suffix,
                np.full(len(pieces[1]), SECOND),
                0 * suffix,
            ]
        ),
        sample.target,
        truncated=len(pieces[0]) + len(pieces[1]) < len(first) + len(second),
        spans=_subword_spans(
            reader, (read[0], slice(len(pieces[0])), 0), (read[1], slice(len(pieces[1])), sample.second)
        ),
        # As much of either text is read as there is room for; what counts is whether the two still differ.
        reached=None if sample.evidence is None else True,
    )
