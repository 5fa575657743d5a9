"""One forward pass for many lenses: items and requests in, captures out, in bounded memory.

It also answers `sonde.capture.interventions.Patches`: pairs are split into subwords and attributed
(`sonde.capture.attribution`), and some of their cells are patched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from sonde.base.errors import CaptureError, InputError
from sonde.base.fingerprint import hash_text
from sonde.capture.attribution import Contrast, align_pair, attribute, prepare_side
from sonde.capture.caches import LayerBundle, build_bundles, shared_batches
from sonde.capture.interventions import DIRECTIONS, Change, PatchCell, PatchedItem, PatchEffect, Patches, Put
from sonde.capture.merge_requests import InputVariant, MergedCapture, merge_passes
from sonde.capture.requests import (
    Changed,
    HiddenStates,
    ItemCapture,
    LayerScores,
    Masked,
    Pass,
    Plain,
    Prepared,
)
from sonde.capture.runner import Runner
from sonde.capture.settings import CaptureSettings
from sonde.capture.windows import Row, RowCutter, batch_by_length
from sonde.models import LoadedModel
from sonde.models.engine.family import check_head_available

_HELD = 1 << 28
"""Bytes of states that are held at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class _PairContrast:
    """A pair that the model can be asked, and where it is from."""

    contrast: Contrast
    place: tuple[int, int]

    def holds(self, cell: PatchCell, names: Sequence[str]) -> bool:
        """Whether any subword belongs to a cell."""
        return bool(self.contrast.cells[names.index(cell.cell)].any())

    def has_equal_cell(self, cell: PatchCell, names: Sequence[str]) -> bool:
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
    check_head_available(loaded)
    if capabilities.kind not in ("decoder", "encoder") or capabilities.lacks:
        raise InputError(
            f"model {loaded.spec.name!r} is neither a decoder nor a masked model, so nothing is patched in it"
        )
    held = [one for one in prepared if asked.pairs.get(one.item.item_id)]
    pairs = {one.item.item_id: _align_pairs(loaded, one, asked) for one in held}
    first = {key: found[0] for key, found in pairs.items() if found}
    answers = attribute(loaded, [one.contrast for one in first.values()], settings=settings)
    found: dict[str, PatchEffect] = {}
    wanted: list[tuple[str, Contrast, list[PatchCell]]] = []
    names = [*asked.cells]
    for (key, one), answer in zip(first.items(), answers, strict=True):
        if answer is None:
            continue
        attributed = np.stack([answer.denoising, answer.noising])
        every, drawn = asked.of_pair(key, attributed.shape[1])
        patched = np.full(attributed.shape, np.nan, dtype=np.float32)
        at_random = np.zeros(attributed.shape, dtype=np.bool_)
        found[key] = PatchEffect(one.place, answer.clean, answer.corrupt, attributed, patched, at_random)
        here: list[PatchCell] = []
        for cell in dict.fromkeys((*every, *drawn)):
            if not one.holds(cell, names) or (cell.layer == 0 and one.has_equal_cell(cell, names)):
                # Nothing is put there, or nothing else than there was.
                patched[_cell_index(cell, names)] = 0.0
            else:
                here.append(cell)
                at_random[_cell_index(cell, names)] = cell in drawn
        wanted.append((key, one.contrast, here))
    for block in _split_blocks(wanted, capabilities.d_model):
        for key, cell, margin in _patch(loaded, wanted[block], names, settings):
            held_in = found[key].corrupt if cell.direction == DIRECTIONS[0] else found[key].clean
            found[key].patched[_cell_index(cell, names)] = margin - held_in
    return {
        one.item.item_id: PatchedItem(
            len(asked.pairs[one.item.item_id]),
            # A text that the model cannot read at once is none that it can be asked about.
            len(pairs[one.item.item_id]) if one.item.item_id in found else 0,
            found.get(one.item.item_id),
        )
        for one in held
    }


def _align_pairs(loaded: LoadedModel, prepared: Prepared, asked: Patches) -> list[_PairContrast]:
    """The pairs of an item that the model cuts alike."""
    decoder = loaded.capabilities.kind == "decoder"
    found: list[_PairContrast] = []
    for pair in asked.pairs[prepared.item.item_id]:
        one = align_pair(loaded.tokenizer, prepared.alignment.subwords, pair, decoder=decoder)
        if one is not None:
            clean, corrupt = (
                prepare_side(prepared, one.clean, "clean"),
                prepare_side(prepared, one.corrupt, "corrupt"),
            )
            cells = one.cell_masks([*asked.cells.values()])
            found.append(
                _PairContrast(Contrast(clean, corrupt, one.target, one.other, cells, one.masked), pair.place)
            )
    return found


def _cell_index(cell: PatchCell, names: Sequence[str]) -> tuple[int, int, int]:
    return DIRECTIONS.index(cell.direction), cell.layer, names.index(cell.cell)


_CellRequest = tuple[str, Contrast, list[PatchCell]]


def _split_blocks(wanted: Sequence[_CellRequest], width: int) -> Iterator[slice]:
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
    loaded: LoadedModel, wanted: Sequence[_CellRequest], names: Sequence[str], settings: CaptureSettings
) -> Iterator[tuple[str, PatchCell, float]]:
    """Margins with the states of the other text put in place, one cell at a time."""
    contrasts = [contrast for _, contrast, _ in wanted]
    sides = [side for one in contrasts for side in (one.clean, one.corrupt)]
    masked = {key: (one.masked,) for key, one in _label_sides(contrasts) if one.masked}
    variant = Masked(masked) if masked else Plain()
    by_cell: dict[PatchCell, list[int]] = {}
    for at, (_, _, cells) in enumerate(wanted):
        for cell in cells:
            by_cell.setdefault(cell, []).append(at)
    if not by_cell:
        return
    layers = tuple(sorted({cell.layer for cell in by_cell}))
    asked = HiddenStates(layers, ("spans",), _token_spans(contrasts))
    states = {
        captured.item_id: captured.states["spans"]
        for captured in observe(loaded, sides, [Pass(variant, (asked,))], settings=settings)
    }
    passes: list[Pass] = []
    margins = _margin_scores(contrasts)
    for cell, mine in by_cell.items():
        put = _build_change(cell, [contrasts[at] for at in mine], names, layers, states)
        passes.append(Pass(Changed(variant, (put,), "/".join(map(str, cell))), (margins,)))
    told = {"/".join(map(str, cell)): cell for cell in by_cell}
    keys = {side.item.item_id: key for key, one, _ in wanted for side in (one.clean, one.corrupt)}
    for captured in observe(loaded, sides, passes, settings=settings):
        assert captured.layers is not None
        yield keys[captured.item_id], told[captured.change], float(captured.layers.margin[-1, 0])


def _token_spans(contrasts: Iterable[Contrast]) -> dict[str, tuple[tuple[int, int], ...]]:
    """Every subword of both sides by itself, so that states come one by one."""
    return {
        key: tuple((at, at + 1) for at in range(one.cells.shape[1])) for key, one in _label_sides(contrasts)
    }


def _build_change(
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


def _margin_scores(contrasts: Iterable[Contrast]) -> LayerScores:
    both = _label_sides(contrasts)
    return LayerScores(
        {key: (one.target,) for key, one in both}, {key: {one.target: one.other} for key, one in both}
    )


def _label_sides(contrasts: Iterable[Contrast]) -> list[tuple[str, Contrast]]:
    """The contrasts by the ids of both sides."""
    return [(side.item.item_id, one) for one in contrasts for side in (one.clean, one.corrupt)]


_CPU_BLOCK, _ACCELERATOR_BLOCK = 256, 1024


@dataclass(frozen=True, slots=True, eq=False)
class ObservedItem:
    """One item as the lenses get it.

    Attributes:
        prepared: The item.
        captures: For each lens, its captures of the item, one a variant: the plain input first (variant 0),
            then the masked ones in the order asked (from 1 on). Empty where it asked nothing of the item.
        inputs: Distinct inputs forwarded for the item.
        shared: Inputs that needed no forward of their own because another lens asked for the same.
        halved: Batches that did not fit into memory and were read as two, of the block of items that this
            one is the first of; 0 of all others.
        unread: What the model's own code said where it cannot read the item, which then has no captures;
            empty where it can.
    """

    prepared: Prepared
    captures: Mapping[str, tuple[ItemCapture, ...]]
    inputs: int
    shared: int
    halved: int = 0
    unread: str = ""


def observe(
    loaded: LoadedModel,
    prepared: Sequence[Prepared],
    passes: Sequence[Pass],
    *,
    settings: CaptureSettings | None = None,
) -> Iterator[ItemCapture]:
    """Capture what one lens asks, item by item in the order given; see `observe_lenses`.

    Raises:
        CaptureError: The model cannot read an item.
    """
    for observed in observe_lenses(loaded, prepared, {"": passes}, settings=settings):
        if observed.unread:
            raise _unreadable_error(loaded, observed.prepared, observed.unread)
        yield from observed.captures[""]


def _unreadable_error(loaded: LoadedModel, prepared: Prepared, said: str) -> CaptureError:
    item = prepared.item
    return CaptureError(
        f"model {loaded.spec.name!r} cannot read item {item.item_id} ({item.path} {item.name}): {said}"
    )


def observe_lenses(
    loaded: LoadedModel,
    prepared: Sequence[Prepared],
    passes: Mapping[str, Sequence[Pass]],
    *,
    settings: CaptureSettings | None = None,
    held: Set[str] = frozenset(),
) -> Iterator[ObservedItem]:
    """Capture what several lenses ask, forwarding each distinct input once.

    Items are taken in blocks, so that memory does not grow with their number; a block's batches depend on its
    items alone.

    Args:
        loaded: The model.
        prepared: The items, with the subwords of the model's tokenizer.
        passes: For each lens, its passes over these items.
        settings: How inputs are cut, batched and reduced.
        held: Ids of items that are not wanted again. They take their places in batches, so that those of the
            others are as they were, and are forwarded only beside others.

    Yields:
        The items in the order given, but for those held.

    Raises:
        InputError: Something is asked for that the item or the model does not have.
        CaptureError: The model's output must not be scored, an input does not fit into memory, or the model
            can read none.
    """
    settings = settings or CaptureSettings()
    on_cpu = loaded.device.type == "cpu"
    size = settings.block or (_CPU_BLOCK if on_cpu else _ACCELERATOR_BLOCK)
    for start in range(0, len(prepared), size):
        yield from _observe_block(loaded, prepared[start : start + size], passes, settings, held)


def _observe_block(
    loaded: LoadedModel,
    prepared: Sequence[Prepared],
    passes: Mapping[str, Sequence[Pass]],
    settings: CaptureSettings,
    held: Set[str],
) -> Iterator[ObservedItem]:
    kind = loaded.capabilities.kind
    suited = {
        lens: [one for one in asked if kind in (one.kinds or (kind,))] for lens, asked in passes.items()
    }
    patched = _answer_all_patches(loaded, prepared, suited, settings, held)
    union = merge_passes(suited, [one.item.item_id for one in prepared])
    changed = any(asked.shape.changes for asked in union.inputs)
    cutter = RowCutter(loaded, settings, whole=changed)
    inputs = [_drop_unanswerable(asked, prepared[asked.item], cutter) for asked in union.inputs]
    rows: list[Row] = []
    for source, asked in enumerate(inputs):
        if asked.wanted.requests:
            rows += cutter.rows(source, asked, prepared[asked.item])
    captured, halved, unread = _capture(loaded, prepared, inputs, rows, cutter, settings, held)
    faults = {inputs[source].item: said for source, said in unread.items()}
    if faults and {inputs[row.source].item for row in rows} <= faults.keys():
        item, said = next(iter(faults.items()))
        raise _unreadable_error(loaded, prepared[item], said)
    counts = Counter(asked.item for asked in inputs if asked.wanted.requests)
    for item, one in enumerate(prepared):
        if one.item.item_id in held:
            continue
        if item in faults:
            yield ObservedItem(one, dict.fromkeys(passes, ()), counts[item], 0, halved, faults[item])
            halved = 0
            continue
        captures = union.split_by_lens(item, captured)
        for lens, answers in patched.items():
            if (answer := answers.get(one.item.item_id)) is not None:
                captures[lens] += (ItemCapture(one.item.item_id, patches=answer),)
        asked = sum(len(answers) for answers in captures.values())
        yield ObservedItem(one, captures, counts[item], asked - counts[item], halved)
        halved = 0


def _answer_all_patches(
    loaded: LoadedModel,
    prepared: Sequence[Prepared],
    passes: Mapping[str, Sequence[Pass]],
    settings: CaptureSettings,
    held: Set[str],
) -> dict[str, dict[str, PatchedItem]]:
    """What lenses asked of pairs of texts, by lens and item."""
    shown = [one for one in prepared if one.item.item_id not in held]
    return {
        lens: answer_patches(loaded, shown, request, settings)
        for lens, asked in passes.items()
        for one in asked
        for request in one.requests
        if isinstance(request, Patches)
    }


def _drop_unanswerable(asked: InputVariant, prepared: Prepared, cutter: RowCutter) -> InputVariant:
    """Drop the requests that an input has no answer to where it is cut into windows."""
    kept = asked.wanted.without_single_window()
    if kept == asked.wanted or cutter.fits(prepared, asked.shape.start):
        return asked
    return replace(asked, wanted=kept)


def _capture(
    loaded: LoadedModel,
    prepared: Sequence[Prepared],
    inputs: Sequence[InputVariant],
    rows: Sequence[Row],
    cutter: RowCutter,
    settings: CaptureSettings,
    held: Set[str],
) -> tuple[dict[int, MergedCapture], int, dict[int, str]]:
    """Forward all rows and put the windows of each input together.

    Returns:
        The captures, how many batches did not fit, and the inputs that could not be read.
    """
    sizes = [len(prepared[asked.item].alignment.subwords) for asked in inputs]
    for source, asked in enumerate(inputs):
        if asked.shape.padded:
            sizes[source] = cutter.pads(sizes[source], asked.shape.start)
    decodes = loaded.capabilities.kind == "decoder"
    writes = {
        row.source for row in rows if row.written is not None or (decodes and inputs[row.source].shape.masked)
    }
    with Runner(loaded, prepared, inputs, sizes, settings) as runner:
        keys = [_batch_key(prepared, inputs[row.source], row) for row in rows]
        batches: list[list[Row]] = []
        scored_alone = all(
            asked.wanted.all_have("prefixes") and not asked.shape.padded and not asked.shape.changes
            for asked in inputs
        )
        if settings.share and loaded.capabilities.kind == "decoder" and scored_alone:
            shared, alone = shared_batches(rows, keys, runner.budget)
            if shared and runner.shares:
                batches = shared
                rows, keys = [rows[at] for at in alone], [keys[at] for at in alone]
        bundles: list[LayerBundle] = []
        if runner.resumes:
            bundles, others = build_bundles(rows, inputs, keys, runner.budget)
            rows, keys = [rows[at] for at in others], [keys[at] for at in others]
        batches += _build_batches(rows, inputs, keys, runner.budget, runner.fill)
        if held:
            there = {at for at, asked in enumerate(inputs) if prepared[asked.item].item.item_id in held}
            batches = [batch for batch in batches if any(row.source not in there for row in batch)]
            bundles = [one for one in bundles if any(row.source not in there for row in one.base)]
        runner.run(batches)
        runner.run_bundles(bundles)
    captured = {
        source: MergedCapture(
            prepared[asked.item].item.item_id,
            runner.get_answers(source),
            pad=loaded.special.pad if asked.shape.padded else None,
            written=source in writes,
        )
        for source, asked in enumerate(inputs)
    }
    return captured, runner.halved, runner.unread


def _build_batches(
    rows: Sequence[Row], inputs: Sequence[InputVariant], keys: Sequence[str], budget: int, fill: float
) -> list[list[Row]]:
    """Rows that are forwarded together.

    What a decoder writes is no part of a batch that is only read, and what needs a few ids of the vocabulary
    none of one that needs all.
    """
    kinds = [(row.written is not None, inputs[row.source].wanted.few_ids) for row in rows]
    batches: list[list[Row]] = []
    for kind in sorted(set(kinds)):
        mine = [index for index, one in enumerate(kinds) if one == kind]
        lengths = [rows[index].size for index in mine]
        composed = batch_by_length(lengths, [keys[index] for index in mine], budget, fill)
        batches += [[rows[mine[place]] for place in batch] for batch in composed]
    return batches


def _batch_key(prepared: Sequence[Prepared], asked: InputVariant, row: Row) -> str:
    """A row's place among rows of its length, whatever the order of the items."""
    shape = asked.shape
    changes = " ".join(change.key for change in shape.changes)
    return hash_text(
        f"{prepared[asked.item].item.item_id} {shape.masked} {shape.padded} {row.origin}{changes}"
    )
