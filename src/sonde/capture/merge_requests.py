"""The merged requests of several lenses on the same inputs, and each lens's part of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

from sonde.capture.interventions import Change
from sonde.capture.requests import (
    AnswerRanks,
    Changed,
    InputRequest,
    ItemCapture,
    Pass,
    Plain,
    Start,
    TokenScores,
    Trait,
    Variant,
)

R = TypeVar("R", bound=InputRequest)


class InputShape(NamedTuple):
    """The properties that tell two inputs of an item apart.

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


@dataclass(frozen=True, slots=True)
class MergedRequests:
    """Requests on one input, merged.

    Attributes:
        requests: One of each type.
    """

    requests: tuple[InputRequest, ...] = ()

    def get(self, kind: type[R]) -> R | None:
        """Return the request of one type; None where there is none."""
        return next((request for request in self.requests if isinstance(request, kind)), None)

    def has(self, trait: Trait) -> bool:
        """Return whether any request has a trait."""
        return any(trait in request.traits for request in self.requests)

    def all_have(self, trait: Trait) -> bool:
        """Return whether all requests have a trait."""
        return all(trait in request.traits for request in self.requests)

    @property
    def positions(self) -> frozenset[int]:
        """Return the positions that have to be scored, if not all are."""
        return frozenset(position for request in self.requests for position in request.positions)

    @property
    def few_ids(self) -> bool:
        """Return whether states are projected on a few ids of the vocabulary only."""
        answers = self.get(AnswerRanks)
        return answers is not None and answers.alone and self.get(TokenScores) is None

    def __or__(self, other: MergedRequests) -> MergedRequests:
        """Return what answers both.

        Raises:
            InputError: Two requests of one type cannot be answered together.
        """
        by_type = {type(request): request for request in self.requests}
        for request in other.requests:
            known = by_type.get(type(request))
            by_type[type(request)] = request if known is None else known.merge(request)
        return MergedRequests(tuple(by_type.values()))


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
    """The requests of one lens on one input.

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
class MergedCapture:
    """Everything captured for one input, for all lenses that asked.

    Attributes:
        item_id: The item.
        answers: Answers by type of request.
        pad: As in `ItemCapture`.
        written: As in `ItemCapture`.
    """

    item_id: str
    answers: Mapping[type[InputRequest], Any]
    pad: int | None = None
    written: bool = False


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
                restrict_capture(captures[part.source], self.inputs[part.source].wanted, part)
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
    requests: list[MergedRequests] = []
    parts: dict[str, tuple[tuple[LensView, ...], ...]] = {}
    for lens, lens_passes in passes.items():
        answers: list[tuple[LensView, ...]] = []
        for index, item in enumerate(items):
            views: list[LensView] = []
            for (shape, name), part in _lens_requests(lens_passes, item).items():
                source = sources.setdefault((index, shape), len(requests))
                if source == len(requests):
                    requests.append(part)
                requests[source] |= part
                variant = 0 if shape == _AS_IT_IS else sum(1 for view in views if view.variant) + 1
                views.append(LensView(source, variant, part, name))
            answers.append(tuple(sorted(views, key=lambda part: part.variant)))
        parts[lens] = tuple(answers)
    inputs = tuple(InputVariant(item, shape, requests[source]) for (item, shape), source in sources.items())
    return RequestPlan(inputs, parts)


_FIELDS = frozenset(field.name for field in fields(ItemCapture))


def restrict_capture(capture: MergedCapture, requests: MergedRequests, part: LensView) -> ItemCapture:
    """Cut a capture down to what one lens asked for.

    Args:
        capture: What was captured.
        requests: What it was captured for.
        part: What the lens asked for.
    """
    answers: dict[str, Any] = {}
    for request in part.wanted.requests:
        kind = type(request)
        request_of_all = requests.get(kind)
        # An item without subwords was never forwarded.
        if request_of_all is not None and capture.answers.get(kind) is not None:
            answers[kind.answer] = request_of_all.select(capture.answers[kind], request)
    fields_known = {name: answer for name, answer in answers.items() if name in _FIELDS}
    return ItemCapture(
        capture.item_id,
        variant=part.variant,
        pad=capture.pad,
        written=capture.written,
        change=part.name,
        extra={name: answer for name, answer in answers.items() if name not in fields_known},
        **fields_known,
    )


def _lens_requests(passes: Sequence[Pass], item: str) -> dict[tuple[InputShape, str], MergedRequests]:
    """Merge a lens's own requests on each variant of an item; empty ones are left out.

    Raises:
        InputError: A lens asks something of one variant twice, and could not tell the answers apart.
    """
    requests_by_variant: dict[tuple[InputShape, str], MergedRequests] = {}
    for lens_pass in passes:
        if lens_pass.items is not None and item not in lens_pass.items:
            continue
        requests = MergedRequests()
        for request in lens_pass.requests:
            if (part := request.for_item(item)) is not None:
                requests |= MergedRequests((part,))
        if not requests.requests:
            continue
        name = lens_pass.variant.name if isinstance(lens_pass.variant, Changed) else ""
        for shape in _list_shapes(lens_pass.variant, item):
            requests_by_variant[shape, name] = (
                requests_by_variant.get((shape, name), MergedRequests()) | requests
            )
            for request in requests_by_variant[shape, name].requests:
                request.check_single_lens()
    return requests_by_variant


def _list_shapes(variant: Variant, item: str) -> tuple[InputShape, ...]:
    if isinstance(variant, Changed):
        if not all(change.concerns(item) for change in variant.changes):
            return ()
        return tuple(shape._replace(changes=variant.changes) for shape in _list_shapes(variant.of, item))
    if isinstance(variant, Plain):
        preceding_text = variant.before.get(item, "")
        return (InputShape((), variant.padded, variant.start, variant.cut, preceding_text),)
    return tuple(
        InputShape(tuple(sorted(set(positions))))
        for positions in variant.positions.get(item, ())
        if positions
    )
