"""Reading on from the layer where something is changed, with the states that were there before.

What lies below the first change is the same for every change of an item, so it is read once: the layers below
hand on the states that were kept, and everything above runs by the model's own code, with its own masks and
positions. Only where layers give states alone and nothing but states goes from one to the next; a trial on a
few tokens decides that for each model.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.capture.batches import compose
from sonde.capture.hooks import Hooks, reading_side
from sonde.capture.interventions import Change
from sonde.capture.row import Row
from sonde.capture.union import Input
from sonde.models import LoadedModel
from sonde.models._samples import forward_rows, moved, near, some_rows

LayerStates = Sequence[Float[Tensor, "batch token d_model"]]
"""What each layer of a model gives, the first one first."""


@dataclass(frozen=True, slots=True, eq=False)
class Resumed:
    """Rows that are read on from a layer.

    Attributes:
        start: How many layers are not run.
        states: What each layer gave for the rows as they are.
        index: Of each row, which of these it is.
    """

    start: int
    states: LayerStates
    index: Int[Tensor, " row"]

    def at(self, layer: int, width: int) -> Float[Tensor, "row token d_model"]:
        """The states behind a layer, counted from 1, of so many columns."""
        held = self.states[layer - 1]
        return held[self.index.to(held.device), :width]


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Rows that are read together: as they are, and then on from where each of them is changed.

    Attributes:
        base: One row of each input without its changes.
        batches: Rows with changes that begin at one layer: the layer, the rows, and the base of each.
    """

    base: tuple[Row, ...]
    batches: tuple[tuple[int, tuple[Row, ...], tuple[int, ...]], ...]


def first_changed(changes: Sequence[Change]) -> int:
    """How many layers run as they would with nothing changed."""
    return min(change.layer for change in changes)


def bundled(
    rows: Sequence[Row], inputs: Sequence[Input], keys: Sequence[str], budget: int
) -> tuple[list[Bundle], list[int]]:
    """Bundles of the rows that can be read on from a layer, and the places of all others.

    Args:
        rows: All rows.
        inputs: What they refer to.
        keys: A key of each, whatever the order of the items.
        budget: Rows times longest row of a batch stay at or under this.
    """
    alike: dict[tuple[object, ...], list[int]] = {}
    others: list[int] = []
    for at, row in enumerate(rows):
        asked = inputs[row.source]
        changes, wanted = asked.shape.changes, asked.wanted
        own = all(not change.side for change in changes)
        if not changes or not own or wanted.head_spans or wanted.looks or not first_changed(changes):
            others.append(at)
        else:
            alike.setdefault((asked.item, asked.shape._replace(changes=()), row.origin), []).append(at)
    held = list(alike.values())
    first = [min(places, key=lambda at: keys[at]) for places in held]
    bundles: list[Bundle] = []
    for batch in compose([rows[at].size for at in first], [keys[at] for at in first], budget):
        by_layer: dict[int, list[tuple[int, int]]] = {}
        for place, group in enumerate(batch):
            for at in held[group]:
                start = first_changed(inputs[rows[at].source].shape.changes)
                by_layer.setdefault(start, []).append((at, place))
        batches: list[tuple[int, tuple[Row, ...], tuple[int, ...]]] = []
        most = max(1, budget // rows[first[batch[0]]].size)
        for start, members in sorted(by_layer.items()):
            members.sort(key=lambda one: (one[1], keys[one[0]]))
            for begin in range(0, len(members), most):
                some = members[begin : begin + most]
                batches.append((start, tuple(rows[at] for at, _ in some), tuple(place for _, place in some)))
        bundles.append(Bundle(tuple(rows[first[group]] for group in batch), tuple(batches)))
    return bundles, others


@contextmanager
def keeping(hooks: Hooks, side: str, into: list[Tensor]) -> Generator[None]:
    """Keep what each layer gives during one forward."""

    def keep(_: Any, __: Any, output: Any) -> None:
        into.append(output)

    with ExitStack() as stack:
        for layer in hooks.side(side).layers:
            stack.callback(layer.register_forward_hook(keep).remove)
        yield


@contextmanager
def skipping(hooks: Hooks, side: str, resumed: Resumed) -> Generator[None]:
    """Let the first layers hand on what they gave before, without running."""
    layers = hooks.side(side).layers[: resumed.start]

    def handed(states: Tensor, *_: Any, **__: Any) -> Tensor:
        return resumed.at(resumed.start, states.shape[1])

    with ExitStack() as stack:
        for layer in layers:
            # An attribute of the module goes before the method of its class, and is taken away again.
            layer.forward = handed
            stack.callback(delattr, layer, "forward")
        yield


def with_states(hidden: Sequence[Tensor], resumed: Resumed) -> list[Tensor]:
    """Hidden states of a forward that was read on from a layer, with those of the layers that did not run."""
    width = hidden[0].shape[1]
    kept = [resumed.at(layer, width) for layer in range(1, resumed.start)]
    return [hidden[0], *kept, *hidden[resumed.start :]]


_tried: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def resumes(loaded: LoadedModel, hooks: Hooks) -> bool:
    """Whether a model can be read on from a layer; tried once."""
    if loaded.model not in _tried:
        _tried[loaded.model] = _able(loaded, hooks)
    return _tried[loaded.model]


@torch.inference_mode()
def _able(loaded: LoadedModel, hooks: Hooks) -> bool:
    if loaded.capabilities.kind == "encoder-decoder" or loaded.alone or not loaded.takes_padding:
        return False
    side, rows = reading_side(loaded), some_rows(loaded, (13, 8))
    layers = hooks.side(side).layers
    # Layers that hold a forward of their own already are not replaced.
    if any("forward" in vars(layer) for layer in layers):
        return False
    held: list[Any] = []
    with keeping(hooks, side, held):
        usual = forward_rows(loaded, rows)[0].last_hidden_state
    if len(held) != len(layers) or not all(isinstance(one, Tensor) and one.ndim == 3 for one in held):
        return False
    for start in {1, len(layers)}:
        resumed = Resumed(start, held, torch.arange(len(rows)))
        try:
            with skipping(hooks, side, resumed):
                found = forward_rows(loaded, rows)[0].last_hidden_state
        except Exception:
            # Whatever a model's own code raises when layers are left out: it wants them run.
            return False
        if any(
            moved(mine[: len(row)], theirs[: len(row)]) > near(loaded)
            for row, mine, theirs in zip(rows, found, usual, strict=True)
        ):
            return False
    return True
