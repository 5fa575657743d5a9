"""Patching: states of one input put in the place of another's, and what that does to the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sonde.capture.attribution import Contrast
from sonde.capture.forward import observe
from sonde.capture.interventions import Change, Put
from sonde.capture.requests import Changed, HiddenStates, LayerScores, Masked, Pass, Plain, Prepared
from sonde.models import LoadedModel

DENOISING, NOISING = "denoising", "noising"
DIRECTIONS = (DENOISING, NOISING)
"""Clean states put into the corrupt input: what suffices. Corrupt ones put into the clean input: what is needed."""

_HELD = 1 << 28
"""Bytes of states that are held at a time."""


class Cell(NamedTuple):
    """Where states are put.

    Attributes:
        direction: One of `DIRECTIONS`.
        layer: The states behind which layer, 0 the embeddings.
        cell: Number of the cell, see `Contrast.cell`.
    """

    direction: str
    layer: int
    cell: int


def patch(
    loaded: LoadedModel, contrasts: Sequence[Contrast], wanted: Sequence[Iterable[Cell]]
) -> list[dict[Cell, float]]:
    """What the right id's logit exceeds the other one's by, with states of the other input put in place.

    Args:
        loaded: The model.
        contrasts: Pairs of inputs that the model reads at once; no two share an item.
        wanted: For each of them the cells that are patched, one at a time.

    Returns:
        For each contrast the margin by cell; a cell that none of its subwords belongs to has none.
    """
    found: list[dict[Cell, float]] = []
    asked = [_held(one, cells) for one, cells in zip(contrasts, wanted, strict=True)]
    for block in _blocks(contrasts, asked, loaded.capabilities.d_model):
        found += _patched(loaded, contrasts[block], asked[block])
    return found


def _held(contrast: Contrast, cells: Iterable[Cell]) -> list[Cell]:
    """The cells that any subword belongs to."""
    return [one for one in dict.fromkeys(cells) if (contrast.cell == one.cell).any()]


def _blocks(contrasts: Sequence[Contrast], asked: Sequence[Sequence[Cell]], width: int) -> Iterator[slice]:
    """Contrasts whose states are held at the same time."""
    begin, size = 0, 0
    for at, (contrast, cells) in enumerate(zip(contrasts, asked, strict=True)):
        layers = len({one.layer for one in cells})
        mine = 2 * layers * len(contrast.cell) * width * 4
        if size and size + mine > _HELD:
            yield slice(begin, at)
            begin, size = at, 0
        size += mine
    if size or begin < len(contrasts):
        yield slice(begin, len(contrasts))


def _patched(
    loaded: LoadedModel, contrasts: Sequence[Contrast], asked: Sequence[Sequence[Cell]]
) -> list[dict[Cell, float]]:
    masked = {
        side.item.item_id: (one.masked,) for one in contrasts for side in (one.clean, one.corrupt) if one.masked
    }
    variant = Masked(masked) if masked else Plain()
    layers = tuple(sorted({one.layer for cells in asked for one in cells}))
    states = _states(loaded, contrasts, variant, layers)
    passes: list[Pass] = []
    margins: dict[tuple[str, str], tuple[int, Cell]] = {}
    for cell in sorted({one for cells in asked for one in cells}):
        mine = [at for at, cells in enumerate(asked) if cell in cells]
        change = _change(cell, [contrasts[at] for at in mine], states, layers.index(cell.layer))
        name = "/".join(map(str, cell))
        passes.append(Pass(Changed(variant, (change,), name), (_margin([contrasts[at] for at in mine]),)))
        margins |= {(name, _receiver(contrasts[at], cell).item.item_id): (at, cell) for at in mine}
    found: list[dict[Cell, float]] = [{} for _ in contrasts]
    both = [side for one in contrasts for side in (one.clean, one.corrupt)]
    for captured in observe(loaded, both, passes):
        at, cell = margins[captured.change, captured.item_id]
        assert captured.layers is not None
        found[at][cell] = float(captured.layers.margin[-1, 0])
    return found


def _states(
    loaded: LoadedModel, contrasts: Sequence[Contrast], variant: Plain | Masked, layers: tuple[int, ...]
) -> Mapping[str, Float[np.ndarray, "layer subword d_model"]]:
    """States of both inputs at every subword that belongs to a cell; other subwords' are zero."""
    spans: dict[str, tuple[tuple[int, int], ...]] = {}
    places: dict[str, np.ndarray] = {}
    for one in contrasts:
        for side in (one.clean, one.corrupt):
            at = np.flatnonzero(one.cell >= 0)
            places[side.item.item_id] = at
            spans[side.item.item_id] = tuple((place, place + 1) for place in at.tolist())
    sizes = {key: int(at.max(initial=-1)) + 1 for key, at in places.items()}
    wanted = Pass(variant, (HiddenStates(layers, ("spans",), spans),))
    found: dict[str, np.ndarray] = {}
    both = [side for one in contrasts for side in (one.clean, one.corrupt)]
    for captured in observe(loaded, both, [wanted]):
        held = captured.states["spans"]
        whole = np.zeros((len(layers), sizes[captured.item_id], held.shape[2]), dtype=np.float32)
        whole[:, places[captured.item_id]] = held
        found[captured.item_id] = whole
    return found


def _receiver(contrast: Contrast, cell: Cell) -> Prepared:
    return contrast.corrupt if cell.direction == DENOISING else contrast.clean


def _giver(contrast: Contrast, cell: Cell) -> Prepared:
    return contrast.clean if cell.direction == DENOISING else contrast.corrupt


def _change(
    cell: Cell,
    contrasts: Sequence[Contrast],
    states: Mapping[str, Float[np.ndarray, "layer subword d_model"]],
    layer: int,
) -> Change:
    """The states of one cell of the one inputs put into the others."""
    positions: dict[str, tuple[int, ...]] = {}
    index: dict[str, np.ndarray] = {}
    values: list[np.ndarray] = []
    begin = 0
    for one in contrasts:
        at = np.flatnonzero(one.cell == cell.cell)
        into = _receiver(one, cell).item.item_id
        positions[into] = tuple(at.tolist())
        index[into] = np.arange(begin, begin + len(at))
        values.append(states[_giver(one, cell).item.item_id][layer, at])
        begin += len(at)
    return Change(cell.layer, Put(np.concatenate(values), index), positions=positions)


def _margin(contrasts: Sequence[Contrast]) -> LayerScores:
    both = [(side.item.item_id, one) for one in contrasts for side in (one.clean, one.corrupt)]
    return LayerScores(
        {key: (one.target,) for key, one in both}, {key: {one.target: one.other} for key, one in both}
    )
