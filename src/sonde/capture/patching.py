"""Answers to `sonde.capture.patches.Patches`: pairs are cut, attributed, and some of their cells patched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sonde.base.errors import InputError
from sonde.capture.attribution import Contrast, attribute
from sonde.capture.interventions import Change, Put
from sonde.capture.layers import LayerScores
from sonde.capture.pairs import align_pair, reading
from sonde.capture.patches import DIRECTIONS, PatchCell, Patched, PatchedItem, Patches
from sonde.capture.requests import Changed, HiddenStates, Masked, Pass, Plain, Prepared
from sonde.capture.settings import CaptureSettings
from sonde.models import LoadedModel
from sonde.models._contents import refuse_without_head

_HELD = 1 << 28
"""Bytes of states that are held at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A pair that the model can be asked, and where it is from."""

    contrast: Contrast
    place: tuple[int, int]

    def holds(self, cell: PatchCell, names: Sequence[str]) -> bool:
        """Whether any subword belongs to a cell."""
        return bool(self.contrast.cells[names.index(cell.cell)].any())

    def alike(self, cell: PatchCell, names: Sequence[str]) -> bool:
        """Whether both texts have the same subwords in a cell, and so the same embeddings."""
        clean, corrupt = (
            side.alignment.subwords.ids for side in (self.contrast.clean, self.contrast.corrupt)
        )
        mine = self.contrast.cells[names.index(cell.cell)]
        return bool((clean[mine] == corrupt[mine]).all())


def answer_patches(
    loaded: LoadedModel, prepared: Sequence[Prepared], asked: Patches, settings: CaptureSettings
) -> dict[str, PatchedItem]:
    """What patching does to the pairs of some items, by item id; items without pairs have no answer.

    Args:
        loaded: A decoder, or an encoder with masks.
        prepared: The items.
        asked: What is asked of them.
        settings: How inputs are cut and batched.

    Raises:
        InputError: The model is neither.
        CaptureError: A margin or a gradient is not finite.
    """
    capabilities = loaded.capabilities
    refuse_without_head(loaded)
    if capabilities.kind not in ("decoder", "encoder") or capabilities.lacks:
        raise InputError(
            f"model {loaded.spec.name!r} is neither a decoder nor a masked model, so nothing is patched in it"
        )
    held = [one for one in prepared if asked.pairs.get(one.item.item_id)]
    pairs = {one.item.item_id: _pairs(loaded, one, asked) for one in held}
    first = {key: found[0] for key, found in pairs.items() if found}
    answers = attribute(loaded, [one.contrast for one in first.values()], settings=settings)
    found: dict[str, Patched] = {}
    wanted: list[tuple[str, Contrast, list[PatchCell]]] = []
    names = [*asked.cells]
    for (key, one), answer in zip(first.items(), answers, strict=True):
        if answer is None:
            continue
        attributed = np.stack([answer.denoising, answer.noising])
        every, drawn = asked.of_pair(key, attributed.shape[1])
        patched = np.full(attributed.shape, np.nan, dtype=np.float32)
        at_random = np.zeros(attributed.shape, dtype=np.bool_)
        found[key] = Patched(one.place, answer.clean, answer.corrupt, attributed, patched, at_random)
        here: list[PatchCell] = []
        for cell in dict.fromkeys((*every, *drawn)):
            if not one.holds(cell, names) or (cell.layer == 0 and one.alike(cell, names)):
                # Nothing is put there, or nothing else than there was.
                patched[_at(cell, names)] = 0.0
            else:
                here.append(cell)
                at_random[_at(cell, names)] = cell in drawn
        wanted.append((key, one.contrast, here))
    for block in _blocks(wanted, capabilities.d_model):
        for key, cell, margin in _patch(loaded, wanted[block], names, settings):
            held_in = found[key].corrupt if cell.direction == DIRECTIONS[0] else found[key].clean
            found[key].patched[_at(cell, names)] = margin - held_in
    return {
        one.item.item_id: PatchedItem(
            len(asked.pairs[one.item.item_id]),
            # A text that the model cannot read at once is none that it can be asked about.
            len(pairs[one.item.item_id]) if one.item.item_id in found else 0,
            found.get(one.item.item_id),
        )
        for one in held
    }


def _pairs(loaded: LoadedModel, prepared: Prepared, asked: Patches) -> list[_Asked]:
    """The pairs of an item that the model cuts alike."""
    decoder = loaded.capabilities.kind == "decoder"
    found: list[_Asked] = []
    for pair in asked.pairs[prepared.item.item_id]:
        one = align_pair(loaded.tokenizer, prepared.alignment.subwords, pair, decoder=decoder)
        if one is not None:
            clean, corrupt = reading(prepared, one.clean, "clean"), reading(prepared, one.corrupt, "corrupt")
            cells = one.belonging([*asked.cells.values()])
            found.append(
                _Asked(Contrast(clean, corrupt, one.target, one.other, cells, one.masked), pair.place)
            )
    return found


def _at(cell: PatchCell, names: Sequence[str]) -> tuple[int, int, int]:
    return DIRECTIONS.index(cell.direction), cell.layer, names.index(cell.cell)


_Wanted = tuple[str, Contrast, list[PatchCell]]


def _blocks(wanted: Sequence[_Wanted], width: int) -> Iterator[slice]:
    """Pairs whose states are held at the same time."""
    begin, size = 0, 0
    for at, (_, contrast, cells) in enumerate(wanted):
        layers = len({one.layer for one in cells})
        mine = 2 * layers * contrast.cells.shape[1] * width * 4
        if size and size + mine > _HELD:
            yield slice(begin, at)
            begin, size = at, 0
        size += mine
    if size:
        yield slice(begin, len(wanted))


def _patch(
    loaded: LoadedModel, wanted: Sequence[_Wanted], names: Sequence[str], settings: CaptureSettings
) -> Iterator[tuple[str, PatchCell, float]]:
    """Margins with the states of the other text put in place, one cell at a time."""
    from sonde.capture.forward import observe

    contrasts = [contrast for _, contrast, _ in wanted]
    sides = [side for one in contrasts for side in (one.clean, one.corrupt)]
    masked = {key: (one.masked,) for key, one in _keyed(contrasts) if one.masked}
    variant = Masked(masked) if masked else Plain()
    by_cell: dict[PatchCell, list[int]] = {}
    for at, (_, _, cells) in enumerate(wanted):
        for cell in cells:
            by_cell.setdefault(cell, []).append(at)
    if not by_cell:
        return
    layers = tuple(sorted({cell.layer for cell in by_cell}))
    asked = HiddenStates(layers, ("spans",), _spans(contrasts))
    states = {
        captured.item_id: captured.states["spans"]
        for captured in observe(loaded, sides, [Pass(variant, (asked,))], settings=settings)
    }
    passes: list[Pass] = []
    margins = _margins(contrasts)
    for cell, mine in by_cell.items():
        put = _change(cell, [contrasts[at] for at in mine], names, layers, states)
        passes.append(Pass(Changed(variant, (put,), "/".join(map(str, cell))), (margins,)))
    told = {"/".join(map(str, cell)): cell for cell in by_cell}
    keys = {side.item.item_id: key for key, one, _ in wanted for side in (one.clean, one.corrupt)}
    for captured in observe(loaded, sides, passes, settings=settings):
        assert captured.layers is not None
        yield keys[captured.item_id], told[captured.change], float(captured.layers.margin[-1, 0])


def _spans(contrasts: Iterable[Contrast]) -> dict[str, tuple[tuple[int, int], ...]]:
    """Every subword of both sides by itself, so that states come one by one."""
    return {key: tuple((at, at + 1) for at in range(one.cells.shape[1])) for key, one in _keyed(contrasts)}


def _change(
    cell: PatchCell,
    contrasts: Sequence[Contrast],
    names: Sequence[str],
    layers: Sequence[int],
    states: Mapping[str, Float[np.ndarray, "layer subword d_model"]],
) -> Change:
    """The states of one cell of the one side put into the other."""
    positions: dict[str, tuple[int, ...]] = {}
    index: dict[str, np.ndarray] = {}
    values: list[np.ndarray] = []
    begin = 0
    for one in contrasts:
        at = np.flatnonzero(one.cells[names.index(cell.cell)])
        giver, taker = (
            (one.clean, one.corrupt) if cell.direction == DIRECTIONS[0] else (one.corrupt, one.clean)
        )
        positions[taker.item.item_id] = tuple(at.tolist())
        index[taker.item.item_id] = np.arange(begin, begin + len(at))
        values.append(states[giver.item.item_id][layers.index(cell.layer), at])
        begin += len(at)
    return Change(cell.layer, Put(np.concatenate(values), index), positions=positions)


def _margins(contrasts: Iterable[Contrast]) -> LayerScores:
    both = _keyed(contrasts)
    return LayerScores(
        {key: (one.target,) for key, one in both}, {key: {one.target: one.other} for key, one in both}
    )


def _keyed(contrasts: Iterable[Contrast]) -> list[tuple[str, Contrast]]:
    """The contrasts by the ids of both sides."""
    return [(side.item.item_id, one) for one in contrasts for side in (one.clean, one.corrupt)]
