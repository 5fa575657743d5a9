"""The union of what several lenses ask of the same inputs, and each lens's part of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from sonde.base.errors import InputError
from sonde.capture.interventions import Change, Patches
from sonde.capture.requests import (
    AnswerRanks,
    AttentionRows,
    Changed,
    HeadOutputs,
    ItemCapture,
    LayerScores,
    Pass,
    Plain,
    Request,
    ScoredLayers,
    Start,
    TokenScores,
    Variant,
    WordAttention,
    WordLookups,
    WordRanks,
)

T = TypeVar("T")


class InputShape(NamedTuple):
    """What makes two inputs of an item distinct.

    Attributes:
        masked: Subword positions that are replaced by the mask token, ascending; none for the item as it is.
        padded: Whether pads fill it up, and are what is scored.
        start: What a decoder reads before it.
        cut: Whether a decoder reads only what fits at once.
        before: Text that a decoder reads before it.
        changes: What is changed on the way.
    """

    masked: tuple[int, ...] = ()
    padded: bool = False
    start: Start = "auto"
    cut: bool = False
    before: str = ""
    changes: tuple[Change, ...] = ()


_AS_IT_IS = InputShape()


_POOLINGS = ("last", "mean", "spans", "summary")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRequests:
    """Requests on one input, merged; answers come in the order in which things are named here.

    Attributes:
        top_k: Alternatives a scored subword; None where no scores are asked for.
        answers: Texts that are ranked.
        pooling: Poolings of hidden states; none where no states are asked for.
        layers: Layers of the states; None means all.
        spans: Spans to pool over.
        head_spans: Spans over which what heads give is averaged.
        head_layers: Layers of these heads; None means all.
        rows: Query positions whose attention is asked for.
        row_layers: Layers of the rows; None means all.
        words: Words that are looked up in each other's attention.
        depth: Subword positions that are scored from every layer, with the id that each is held against, -1
            for none.
        depth_states: Whether their states are wanted as well.
    """

    top_k: int | None = None
    answers: AnswerRanks | None = None
    pooling: tuple[str, ...] = ()
    layers: tuple[int, ...] | None = ()
    spans: tuple[tuple[int, int], ...] = ()
    head_spans: tuple[tuple[int, int], ...] = ()
    head_layers: tuple[int, ...] | None = ()
    rows: tuple[int, ...] = ()
    row_layers: tuple[int, ...] | None = ()
    words: tuple[WordLookups, ...] = ()
    depth: tuple[tuple[int, int], ...] = ()
    depth_states: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing is asked for, so that nothing has to be forwarded."""
        return not self.needs_scores and not self.needs_layers and not self.depth

    @property
    def needs_scores(self) -> bool:
        """Whether subwords are scored."""
        return self.top_k is not None or self.answers is not None

    @property
    def needs_layers(self) -> bool:
        """Whether more than scores is asked for: states, heads or attention."""
        return bool(self.pooling or self.head_spans) or self.needs_attention

    @property
    def needs_attention(self) -> bool:
        """Whether attention is asked for."""
        return bool(self.rows or self.words)

    @property
    def plain(self) -> bool:
        """Whether the last states at scored positions are all that is needed of a forward."""
        return not self.needs_layers and not self.depth

    @property
    def narrow(self) -> bool:
        """Whether a few ids of the vocabulary are all that has to be projected on."""
        return self.top_k is None and self.answers is not None and self.answers.alone

    def __or__(self, other: MergedRequests) -> MergedRequests:
        """What answers both.

        Raises:
            InputError: Both rank answers, and not the same.
        """
        if self.answers is not None and other.answers is not None and self.answers is not other.answers:
            raise InputError("two requests rank answers of one input; ask for them in one")
        top_k = [k for k in (self.top_k, other.top_k) if k is not None]
        return MergedRequests(
            top_k=max(top_k) if top_k else None,
            answers=self.answers or other.answers,
            pooling=_merge_unique(self.pooling, other.pooling),
            layers=_merge_layers(self.layers, other.layers),
            spans=_merge_unique(self.spans, other.spans),
            head_spans=_merge_unique(self.head_spans, other.head_spans),
            head_layers=_merge_layers(self.head_layers, other.head_layers),
            rows=_merge_unique(self.rows, other.rows),
            row_layers=_merge_layers(self.row_layers, other.row_layers),
            words=_merge_unique(self.words, other.words),
            depth=_merge_unique(self.depth, other.depth),
            depth_states=self.depth_states or other.depth_states,
        )


@dataclass(frozen=True, slots=True)
class InputVariant:
    """One distinct input: an item, whole or with some subwords masked.

    Attributes:
        item: Index of the item.
        shape: What is made of it.
        wanted: Everything that is asked of it.
    """

    item: int
    shape: InputShape
    wanted: MergedRequests


@dataclass(frozen=True, slots=True)
class LensView:
    """What one lens asked of one input.

    Attributes:
        source: Index into the inputs.
        variant: Number of the input among the lens's inputs of the item: 0 for the item as it is, others
            from 1 on in the order asked.
        wanted: The lens's own requests.
        name: What the lens calls what is changed.
    """

    source: int
    variant: int
    wanted: MergedRequests
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class MergedCapture(ItemCapture):
    """Everything captured for one input, for all lenses that asked.

    Attributes:
        word_ranks: For each lookup of words that was asked for, in their order, the ranks by side of the
            model; empty where the item is longer than the model can take at once.
    """

    word_ranks: tuple[Mapping[str, WordRanks], ...] = ()


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """Distinct inputs, and who asked what of them.

    Attributes:
        inputs: Each distinct input once, by item.
        parts: For each lens and each item, what the lens gets, in the order of its variants.
    """

    inputs: tuple[InputVariant, ...]
    parts: Mapping[str, tuple[tuple[LensView, ...], ...]]

    def split_by_lens(
        self, item: int, captures: Mapping[int, MergedCapture]
    ) -> dict[str, tuple[ItemCapture, ...]]:
        """Give each lens its part of what was captured for one item.

        Args:
            item: Index of the item.
            captures: What was captured, by index of the input.
        """
        return {
            lens: tuple(
                replace(
                    restrict_capture(
                        captures[part.source], self.inputs[part.source].wanted, part.wanted, part.variant
                    ),
                    change=part.name,
                )
                for part in items[item]
            )
            for lens, items in self.parts.items()
        }


def merge_passes(passes: Mapping[str, Sequence[Pass]], items: Sequence[str]) -> RequestPlan:
    """Merge the passes of several lenses over the same items.

    Args:
        passes: For each lens, its passes.
        items: Ids of the items.

    Raises:
        InputError: A pooling that does not exist is asked for.
    """
    sources: dict[tuple[int, InputShape], int] = {}
    wanted: list[MergedRequests] = []
    parts: dict[str, tuple[tuple[LensView, ...], ...]] = {}
    for lens, asked in passes.items():
        answers: list[tuple[LensView, ...]] = []
        for index, item in enumerate(items):
            own: list[LensView] = []
            for (shape, name), part in _lens_requests(asked, item).items():
                source = sources.setdefault((index, shape), len(wanted))
                if source == len(wanted):
                    wanted.append(part)
                wanted[source] |= part
                variant = 0 if shape == _AS_IT_IS else sum(1 for before in own if before.variant) + 1
                own.append(LensView(source, variant, part, name))
            answers.append(tuple(sorted(own, key=lambda part: part.variant)))
        parts[lens] = tuple(answers)
    inputs = tuple(InputVariant(item, shape, wanted[source]) for (item, shape), source in sources.items())
    return RequestPlan(inputs, parts)


def restrict_capture(
    capture: MergedCapture, have: MergedRequests, want: MergedRequests, variant: int = 0
) -> ItemCapture:
    """Cut a capture of the union down to what one lens asked for.

    Args:
        capture: What was captured.
        have: What it was captured for.
        want: What the lens asked for.
        variant: Number that the input has for the lens.
    """
    scores = None
    if want.top_k is not None and capture.scores is not None:
        held, top_k = capture.scores, want.top_k
        scores = replace(held, top_ids=held.top_ids[:, :top_k], top_nats=held.top_nats[:, :top_k])
    states: dict[str, np.ndarray] = {}
    for pooling in want.pooling:
        if pooling not in capture.states:
            # An item without subwords was never forwarded.
            continue
        array = capture.states[pooling]
        array = array[_layer_indices(have.layers, want.layers, len(array))]
        if pooling == "spans":
            array = array[:, [have.spans.index(span) for span in want.spans]]
        states[pooling] = array
    heads = None
    if want.head_spans and capture.heads is not None:
        heads = capture.heads[_layer_indices(have.head_layers, want.head_layers, len(capture.heads))]
        heads = heads[:, [have.head_spans.index(span) for span in want.head_spans]]
    rows = None
    if want.rows and capture.rows is not None:
        rows = capture.rows[_layer_indices(have.row_layers, want.row_layers, len(capture.rows))]
        rows = rows[:, :, [have.rows.index(row) for row in want.rows]]
    words: Mapping[str, WordRanks] = {}
    if want.words and capture.word_ranks:
        words = capture.word_ranks[have.words.index(want.words[0])]
    layers = None
    if want.depth and capture.layers is not None:
        layers = _select_entries(capture.layers, want)
    answers = capture.answers if want.answers is not None else None
    return ItemCapture(
        capture.item_id,
        variant=variant,
        scores=scores,
        states=states,
        rows=rows,
        pad=capture.pad,
        words=words,
        written=capture.written,
        answers=answers,
        heads=heads,
        layers=layers,
    )


def _select_entries(held: ScoredLayers, want: MergedRequests) -> ScoredLayers:
    entries = zip(held.position.tolist(), held.other.tolist(), strict=True)
    kept = [at for at, entry in enumerate(entries) if entry in want.depth]
    return ScoredLayers(
        held.position[kept],
        held.other[kept],
        *(getattr(held, name)[:, kept] for name in ("nats", "rank", "top_id", "margin")),
        states=held.states[:, kept] if want.depth_states and held.states is not None else None,
    )


def _layer_indices(have: tuple[int, ...] | None, want: tuple[int, ...] | None, layers: int) -> list[int]:
    """Where the wanted layers lie among the captured ones."""
    if want is None:
        return list(range(layers))
    return list(want) if have is None else [have.index(layer) for layer in want]


def _merge_unique(one: tuple[T, ...], two: tuple[T, ...]) -> tuple[T, ...]:
    """Both, once each, in order; where there is but one it stays as it was asked, repetitions included."""
    return tuple(dict.fromkeys((*one, *two))) if one and two else one or two


def _merge_layers(one: tuple[int, ...] | None, two: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if one is None or two is None else _merge_unique(one, two)


def _lens_requests(passes: Sequence[Pass], item: str) -> dict[tuple[InputShape, str], MergedRequests]:
    """A lens's own requests on each variant of one item; variants of which nothing is asked are left out.

    Raises:
        InputError: Words of one variant are looked up twice: the lens could not tell the answers apart.
    """
    merged: dict[tuple[InputShape, str], MergedRequests] = {}
    for one in passes:
        if one.items is not None and item not in one.items:
            continue
        wanted = MergedRequests()
        for request in one.requests:
            wanted |= _convert_request(request, item)
        if wanted.empty:
            continue
        name = one.variant.name if isinstance(one.variant, Changed) else ""
        for shape in _list_shapes(one.variant, item):
            merged[shape, name] = merged.get((shape, name), MergedRequests()) | wanted
            if len(merged[shape, name].words) > 1:
                raise InputError("two requests look up words of one input; ask for them in one")
    return merged


def _list_shapes(variant: Variant, item: str) -> tuple[InputShape, ...]:
    if isinstance(variant, Changed):
        if not all(change.concerns(item) for change in variant.changes):
            return ()
        return tuple(shape._replace(changes=variant.changes) for shape in _list_shapes(variant.of, item))
    if isinstance(variant, Plain):
        before = variant.before.get(item, "")
        return (InputShape((), variant.padded, variant.start, variant.cut, before),)
    return tuple(
        InputShape(tuple(sorted(set(masked)))) for masked in variant.positions.get(item, ()) if masked
    )


def _convert_request(request: Request, item: str) -> MergedRequests:
    if isinstance(request, TokenScores):
        return MergedRequests(top_k=request.top_k)
    if isinstance(request, AnswerRanks):
        return MergedRequests(answers=request) if item in request.answers else MergedRequests()
    if isinstance(request, AttentionRows):
        rows = tuple(request.rows.get(item, ()))
        return MergedRequests(rows=rows, row_layers=request.layers) if rows else MergedRequests()
    if isinstance(request, LayerScores):
        against = request.against.get(item, {})
        positions = sorted(set(request.positions.get(item, ())))
        entries = tuple((position, against.get(position, -1)) for position in positions)
        return MergedRequests(depth=entries, depth_states=request.states and bool(entries))
    if isinstance(request, WordAttention):
        lookups = request.lookups.get(item)
        return MergedRequests(words=(lookups,)) if lookups is not None else MergedRequests()
    if isinstance(request, HeadOutputs):
        spans = tuple(request.spans.get(item, ()))
        return MergedRequests(head_spans=spans, head_layers=request.layers) if spans else MergedRequests()
    if isinstance(request, Patches):
        # Pairs of texts are read by themselves.
        return MergedRequests()
    unknown = sorted(set(request.pooling) - set(_POOLINGS))
    if unknown:
        raise InputError(f"pooling {unknown[0]!r} does not exist; known: {', '.join(_POOLINGS)}")
    spans = tuple(request.spans.get(item, ())) if "spans" in request.pooling else ()
    return MergedRequests(pooling=request.pooling, layers=request.layers, spans=spans)
