"""One forward pass for many lenses: items and requests in, captures out, in bounded memory.

It also answers `sonde.capture.interventions.Patches`: pairs are split into subwords and attributed
(`sonde.capture.attribution`), and some of their cells are patched.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from jaxtyping import Float

from sonde.base.errors import CaptureError, InputError
from sonde.base.fingerprint import hash_text
from sonde.capture.attribution import Contrast, align_pair, attribute
from sonde.capture.caches import LayerBundle, build_bundles, shared_batches
from sonde.capture.interventions import DIRECTIONS, Change, PatchCell, PatchedItem, PatchEffect, Patches, Put
from sonde.capture.merge_requests import InputVariant, MergedCapture, MergedRequests, merge_passes
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


_CellRequest = tuple[str, Contrast, list[PatchCell]]


def answer_patches(
    loaded_model: LoadedModel, items: Sequence[Prepared], request: Patches, settings: CaptureSettings
) -> dict[str, PatchedItem]:
    """Patch the pairs of some items, by item id; items without pairs have no answer.

    Args:
        loaded_model: A decoder, or an encoder with masks.
        items: The items.
        request: What is asked of them.
        settings: How inputs are cut and batched.

    Raises:
        InputError: The model is neither.
        CaptureError: A margin or a gradient is not finite.
    """
    capabilities = loaded_model.capabilities
    check_head_available(loaded_model)
    if capabilities.kind not in ("decoder", "encoder") or capabilities.lacks:
        raise InputError(
            f"model {loaded_model.spec.name!r} is neither a decoder nor a masked model, so it "
            "cannot be patched"
        )
    items_with_pairs = [item for item in items if request.pairs.get(item.item.item_id)]
    decoder, tokenizer = capabilities.kind == "decoder", loaded_model.tokenizer
    pairs = {
        item.item.item_id: [
            contrast
            for pair in request.pairs[item.item.item_id]
            if (contrast := align_pair(tokenizer, item, pair, request.cells.values(), decoder=decoder))
        ]
        for item in items_with_pairs
    }
    first = {key: contrasts[0] for key, contrasts in pairs.items() if contrasts}
    answers = attribute(loaded_model, [*first.values()], settings=settings)
    effects: dict[str, PatchEffect] = {}
    requests: list[_CellRequest] = []
    names = [*request.cells]
    for (key, contrast), answer in zip(first.items(), answers, strict=True):
        if answer is None:
            continue
        fixed_cells, sampled_cells = request.of_pair(key, answer.effects.shape[1])
        changes = np.full(answer.effects.shape, np.nan, dtype=np.float32)
        sample_mask = np.zeros(answer.effects.shape, dtype=np.bool_)
        effects[key] = PatchEffect(
            contrast.place, answer.clean, answer.corrupt, answer.effects, changes, sample_mask
        )
        cells: list[PatchCell] = []
        for cell in dict.fromkeys((*fixed_cells, *sampled_cells)):
            subwords = contrast.cells[names.index(cell.cell)]
            clean, corrupt = (
                side.alignment.subwords.ids[subwords] for side in (contrast.clean, contrast.corrupt)
            )
            if not subwords.any() or (cell.layer == 0 and np.array_equal(clean, corrupt)):
                # Nothing is put there, or nothing else than there was: equal embeddings.
                changes[_cell_index(cell, names)] = 0.0
            else:
                cells.append(cell)
                sample_mask[_cell_index(cell, names)] = cell in sampled_cells
        requests.append((key, contrast, cells))
    for block in _split_blocks(requests, capabilities.d_model):
        for key, cell, margin in _patch(loaded_model, requests[block], names, settings):
            baseline = effects[key].corrupt if cell.direction == DIRECTIONS[0] else effects[key].clean
            effects[key].patched[_cell_index(cell, names)] = margin - baseline
    return {
        key: PatchedItem(
            len(request.pairs[key]),
            # A text that the model cannot read at once is none that it can be asked about.
            len(contrasts) if key in effects else 0,
            effects.get(key),
        )
        for key, contrasts in pairs.items()
    }


def _cell_index(cell: PatchCell, names: Sequence[str]) -> tuple[int, int, int]:
    return DIRECTIONS.index(cell.direction), cell.layer, names.index(cell.cell)


def _split_blocks(requests: Sequence[_CellRequest], width: int) -> Iterator[slice]:
    """Pairs whose states are held at the same time."""
    begin, size = 0, 0
    for index, (_, contrast, cells) in enumerate(requests):
        layers = len({cell.layer for cell in cells})
        pair_size = 2 * layers * contrast.cells.shape[1] * width * 4
        if size and size + pair_size > _HELD:
            yield slice(begin, index)
            begin, size = index, 0
        size += pair_size
    if size:
        yield slice(begin, len(requests))


def _patch(
    loaded_model: LoadedModel,
    requests: Sequence[_CellRequest],
    names: Sequence[str],
    settings: CaptureSettings,
) -> Iterator[tuple[str, PatchCell, float]]:
    """Yield margins with the states of the other text put in place, a cell at a time."""
    contrasts = [contrast for _, contrast, _ in requests]
    sides = [side for contrast in contrasts for side in (contrast.clean, contrast.corrupt)]
    by_side = {
        side.item.item_id: (key, contrast)
        for key, contrast, _ in requests
        for side in (contrast.clean, contrast.corrupt)
    }
    masks = {side: (contrast.masked,) for side, (_, contrast) in by_side.items() if contrast.masked}
    variant = Masked(masks) if masks else Plain()
    by_cell: dict[PatchCell, list[int]] = {}
    for index, (_, _, cells) in enumerate(requests):
        for cell in cells:
            by_cell.setdefault(cell, []).append(index)
    if not by_cell:
        return
    layers = tuple(sorted({cell.layer for cell in by_cell}))
    spans = {
        side: tuple((position, position + 1) for position in range(contrast.cells.shape[1]))
        for side, (_, contrast) in by_side.items()
    }
    request = HiddenStates(layers, ("spans",), spans)
    states = {
        capture.item_id: capture.states["spans"]
        for capture in observe(loaded_model, sides, [Pass(variant, (request,))], settings=settings)
    }
    passes: list[Pass] = []
    margins = LayerScores(
        {side: (contrast.target,) for side, (_, contrast) in by_side.items()},
        {side: {contrast.target: contrast.other} for side, (_, contrast) in by_side.items()},
    )
    for cell, indices in by_cell.items():
        put = _build_change(cell, [contrasts[index] for index in indices], names, layers, states)
        passes.append(Pass(Changed(variant, (put,), "/".join(map(str, cell))), (margins,)))
    cell_names = {"/".join(map(str, cell)): cell for cell in by_cell}
    for capture in observe(loaded_model, sides, passes, settings=settings):
        assert capture.layers is not None
        yield by_side[capture.item_id][0], cell_names[capture.change], float(capture.layers.margin[-1, 0])


def _build_change(
    cell: PatchCell,
    contrasts: Sequence[Contrast],
    names: Sequence[str],
    layers: Sequence[int],
    states: Mapping[str, Float[np.ndarray, "layer subword d_model"]],
) -> Change:
    """Build the change that puts the states of a cell into the other side."""
    positions: dict[str, tuple[int, ...]] = {}
    index: dict[str, np.ndarray] = {}
    values: list[np.ndarray] = []
    begin = 0
    for contrast in contrasts:
        subwords = np.flatnonzero(contrast.cells[names.index(cell.cell)])
        giver, taker = (
            (contrast.clean, contrast.corrupt)
            if cell.direction == DIRECTIONS[0]
            else (contrast.corrupt, contrast.clean)
        )
        positions[taker.item.item_id] = tuple(subwords.tolist())
        index[taker.item.item_id] = np.arange(begin, begin + len(subwords))
        values.append(states[giver.item.item_id][layers.index(cell.layer), subwords])
        begin += len(subwords)
    return Change(cell.layer, Put(np.concatenate(values), index), positions=positions)


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
        halved: Batches that did not fit into memory and were read as two, since the item read before.
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
    for item in observe_lenses(loaded, prepared, {"": passes}, settings=settings):
        if item.unread:
            raise _unreadable_error(loaded, item.prepared, item.unread)
        yield from item.captures[""]


def _unreadable_error(loaded_model: LoadedModel, prepared: Prepared, message: str) -> CaptureError:
    item = prepared.item
    return CaptureError(
        f"model {loaded_model.spec.name!r} cannot read item {item.item_id} ({item.path} {item.name}): "
        f"{message}"
    )


class ReadListener(Protocol):
    """Receives the progress of reading a block of items, in units of work that are the same for one model."""

    def plan(self, work: Mapping[str, float]) -> None:
        """Take in the work of each item that is read next, by its id."""
        ...

    def advance(self, work: float) -> None:
        """Take in work that is done; all of a block adds up to what was planned."""
        ...


def observe_lenses(
    loaded: LoadedModel,
    prepared: Sequence[Prepared],
    passes: Mapping[str, Sequence[Pass]],
    *,
    settings: CaptureSettings | None = None,
    held: Set[str] = frozenset(),
) -> Iterator[ObservedItem]:
    """Capture what several lenses ask, forwarding each distinct input once; see `observe_as_read`.

    Yields:
        The items in the order given, but for those held.
    """
    waiting: dict[int, ObservedItem] = {}
    indices = [index for index, item in enumerate(prepared) if item.item.item_id not in held]
    following = 0
    for item_index, observation in _observe_blocks(loaded, prepared, passes, settings, held, None):
        waiting[item_index] = observation
        while following < len(indices) and indices[following] in waiting:
            yield waiting.pop(indices[following])
            following += 1


def observe_as_read(
    loaded: LoadedModel,
    prepared: Sequence[Prepared],
    passes: Mapping[str, Sequence[Pass]],
    *,
    settings: CaptureSettings | None = None,
    held: Set[str] = frozenset(),
    listener: ReadListener | None = None,
) -> Generator[ObservedItem]:
    """Capture what several lenses ask, and yield each item as soon as all of its inputs are read.

    Items are taken in blocks, so that memory does not grow with their number; a block's batches depend on its
    items alone.

    Args:
        loaded: The model.
        prepared: The items, with the subwords of the model's tokenizer.
        passes: For each lens, its passes over these items.
        settings: How inputs are cut, batched and reduced.
        held: Ids of items that are not wanted again. They take their places in batches, so that those of the
            others are as they were, and are forwarded only beside others.
        listener: Is told the work of each block before it is read, and after each batch how much is done.

    Yields:
        The items, long ones before short ones, but for those held.

    Raises:
        InputError: Something is asked for that the item or the model does not have.
        CaptureError: The model's output must not be scored, an input does not fit into memory, or the model
            can read none.
    """
    for _, observation in _observe_blocks(loaded, prepared, passes, settings, held, listener):
        yield observation


def _observe_blocks(
    loaded_model: LoadedModel,
    items: Sequence[Prepared],
    passes: Mapping[str, Sequence[Pass]],
    settings: CaptureSettings | None,
    held_ids: Set[str],
    listener: ReadListener | None,
) -> Generator[tuple[int, ObservedItem]]:
    """Yield each item with its index as soon as it is read, block by block."""
    settings = settings or CaptureSettings()
    on_cpu = loaded_model.device.type == "cpu"
    size = settings.block or (_CPU_BLOCK if on_cpu else _ACCELERATOR_BLOCK)
    for start in range(0, len(items), size):
        block = items[start : start + size]
        for index, item in _observe_block(loaded_model, block, passes, settings, held_ids, listener):
            yield start + index, item


def _observe_block(
    loaded_model: LoadedModel,
    items: Sequence[Prepared],
    passes: Mapping[str, Sequence[Pass]],
    settings: CaptureSettings,
    held_ids: Set[str],
    listener: ReadListener | None,
) -> Iterator[tuple[int, ObservedItem]]:
    kind = loaded_model.capabilities.kind
    by_lens = {
        lens: [request for request in passes_of_lens if kind in (request.kinds or (kind,))]
        for lens, passes_of_lens in passes.items()
    }
    patches = _answer_all_patches(loaded_model, items, by_lens, settings, held_ids)
    union = merge_passes(by_lens, [item.item.item_id for item in items])
    has_changes = any(variant.shape.changes for variant in union.inputs)
    cutter = RowCutter(loaded_model, settings, whole_rows=has_changes)
    inputs = [_drop_unanswerable(variant, items[variant.item], cutter) for variant in union.inputs]
    rows: list[Row] = []
    for source, variant in enumerate(inputs):
        if variant.wanted.requests:
            rows += cutter.rows(source, variant, items[variant.item])
    counts = Counter(variant.item for variant in inputs if variant.wanted.requests)
    unread: dict[int, str] = {}
    faulty: list[tuple[int, ObservedItem]] = []
    for item, captures_by_source, halvings in _capture(
        loaded_model, items, inputs, rows, cutter, settings, held_ids, unread, listener
    ):
        item_to_read = items[item]
        if fault := next((unread[source] for source in captures_by_source if source in unread), ""):
            no_captures = dict.fromkeys(passes, ())
            faulty.append((item, ObservedItem(item_to_read, no_captures, counts[item], 0, halvings, fault)))
            continue
        captures = union.split_by_lens(item, captures_by_source)
        for lens, answers in patches.items():
            if (answer := answers.get(item_to_read.item.item_id)) is not None:
                captures[lens] += (ItemCapture(item_to_read.item.item_id, patches=answer),)
        answer_count = sum(len(answers) for answers in captures.values())
        shared = answer_count - counts[item]
        yield item, ObservedItem(item_to_read, captures, counts[item], shared, halvings)
    if faulty and {inputs[row.source].item for row in rows} <= {inputs[source].item for source in unread}:
        _, first = faulty[0]
        raise _unreadable_error(loaded_model, first.prepared, first.unread)
    yield from faulty


def _answer_all_patches(
    loaded_model: LoadedModel,
    items: Sequence[Prepared],
    passes: Mapping[str, Sequence[Pass]],
    settings: CaptureSettings,
    held_ids: Set[str],
) -> dict[str, dict[str, PatchedItem]]:
    """Answer what lenses ask of pairs of texts, by lens and item."""
    unheld = [item for item in items if item.item.item_id not in held_ids]
    return {
        lens: answer_patches(loaded_model, unheld, request, settings)
        for lens, passes_of_lens in passes.items()
        for lens_pass in passes_of_lens
        for request in lens_pass.requests
        if isinstance(request, Patches)
    }


def _drop_unanswerable(variant: InputVariant, prepared: Prepared, cutter: RowCutter) -> InputVariant:
    """Drop the requests that an input has no answer to where it is cut into windows."""
    if not variant.wanted.has("single_window") or cutter.fits(prepared, variant.shape.start):
        return variant
    requests = (request for request in variant.wanted.requests if "single_window" not in request.traits)
    return replace(variant, wanted=MergedRequests(tuple(requests)))


def _capture(
    loaded_model: LoadedModel,
    items: Sequence[Prepared],
    inputs: Sequence[InputVariant],
    rows: Sequence[Row],
    cutter: RowCutter,
    settings: CaptureSettings,
    held_ids: Set[str],
    unread: dict[int, str],
    listener: ReadListener | None,
) -> Iterator[tuple[int, dict[int, MergedCapture], int]]:
    """Forward all rows, and put the windows of the inputs of each item together when the last one is read.

    Args:
        loaded_model: The model.
        items: The items.
        inputs: The distinct inputs of all items.
        rows: Their windows.
        cutter: What cut them.
        settings: How inputs are batched and reduced.
        held_ids: Ids of items that are not wanted.
        unread: Gets the inputs that could not be read, each with what the model said.
        listener: See `observe_as_read`.

    Yields:
        Index of an item, the captures of its inputs, and how many batches did not fit since the item before.
    """
    sizes = [len(items[variant.item].alignment.subwords) for variant in inputs]
    for source, variant in enumerate(inputs):
        if variant.shape.padded:
            sizes[source] = cutter.pads(sizes[source], variant.shape.start)
    decodes = loaded_model.capabilities.kind == "decoder"
    writes = {
        row.source for row in rows if row.written is not None or (decodes and inputs[row.source].shape.masked)
    }
    sources: dict[int, list[int]] = {
        index: [] for index, item in enumerate(items) if item.item.item_id not in held_ids
    }
    for source, variant in enumerate(inputs):
        if variant.item in sources:
            sources[variant.item].append(source)
    open_rows = Counter(inputs[row.source].item for row in rows)
    halved = 0

    def collect(item: int) -> tuple[int, dict[int, MergedCapture], int]:
        nonlocal halved
        unread.update(runner.unread)
        halvings, halved = runner.halved - halved, runner.halved
        captures = {
            source: MergedCapture(
                items[item].item.item_id,
                runner.get_answers(source),
                pad=loaded_model.special.pad if inputs[source].shape.padded else None,
                written=source in writes,
            )
            for source in sources[item]
        }
        return item, captures, halvings

    with Runner(loaded_model, items, inputs, sizes, settings) as runner:
        batches, bundles = _plan_batches(loaded_model, items, inputs, rows, settings, runner)
        if held_ids:
            wanted = {source for item_sources in sources.values() for source in item_sources}
            batches = [batch for batch in batches if any(row.source in wanted for row in batch)]
            bundles = [bundle for bundle in bundles if any(row.source in wanted for row in bundle.base)]
        work = _plan_work(loaded_model, items, inputs, batches, bundles, sources)
        if listener is not None:
            listener.plan(work.by_item)
        for item in sources:
            if not open_rows[item]:
                yield collect(item)
        for batch in itertools.chain(runner.run(batches), runner.run_bundles(bundles)):
            if listener is not None:
                listener.advance(sum(work.by_row[id(row)] for row in batch))
            for row in batch:
                item = inputs[row.source].item
                open_rows[item] -= 1
                if not open_rows[item] and item in sources:
                    yield collect(item)


def _plan_batches(
    loaded_model: LoadedModel,
    items: Sequence[Prepared],
    inputs: Sequence[InputVariant],
    rows: Sequence[Row],
    settings: CaptureSettings,
    runner: Runner,
) -> tuple[list[list[Row]], list[LayerBundle]]:
    """Group rows into batches: those that share a prefix, that resume at a layer, and the others."""
    keys = [_batch_key(items, inputs[row.source], row) for row in rows]
    batches: list[list[Row]] = []
    scores_only = all(
        variant.wanted.all_have("prefixes") and not variant.shape.padded and not variant.shape.changes
        for variant in inputs
    )
    if settings.share and loaded_model.capabilities.kind == "decoder" and scores_only:
        prefix_batches, whole_rows = shared_batches(rows, keys, runner.budget)
        if prefix_batches and runner.shares:
            batches = prefix_batches
            rows, keys = [rows[index] for index in whole_rows], [keys[index] for index in whole_rows]
    bundles: list[LayerBundle] = []
    if runner.resumes:
        bundles, plain_rows = build_bundles(rows, inputs, keys, runner.budget)
        rows, keys = [rows[index] for index in plain_rows], [keys[index] for index in plain_rows]
    batches += _build_batches(rows, inputs, keys, runner.budget, runner.fill)
    return batches, bundles


_ATTENTION_READ = 4.0
"""Times that a pair of positions takes longer where its attention is read, not only computed."""


@dataclass(frozen=True, slots=True)
class _Work:
    """Work of rows and items, in tokens that pass all layers."""

    by_row: dict[int, float]
    by_item: dict[str, float]


def _plan_work(
    loaded_model: LoadedModel,
    items: Sequence[Prepared],
    inputs: Sequence[InputVariant],
    batches: Sequence[Sequence[Row]],
    bundles: Sequence[LayerBundle],
    wanted_items: Container[int],
) -> _Work:
    """Weigh the rows of all batches: by tokens, padding included, by pairs of tokens, and by logits.

    The work of a batch is that of its rows whose items are wanted.
    """
    size = loaded_model.capabilities
    # In a layer 24 d^2 operations a token, 4 d a pair of tokens; 2 d v of the head for a position scored.
    per_pair = 1 / (6 * max(1, size.d_model))
    per_score = size.vocab / (12 * max(1, size.d_model) * max(1, size.layers))
    by_row: dict[int, float] = {}
    by_item: dict[str, float] = {
        item.item.item_id: 0.0 for index, item in enumerate(items) if index in wanted_items
    }

    def add(batch: Sequence[Row], layers: float = 1.0, extra: float = 0.0) -> None:
        longest = max(row.size - row.shared for row in batch)
        prefixes = len({row.tokens[: row.shared].tobytes() for row in batch}) * batch[0].shared
        total = (prefixes + longest * len(batch)) * layers + extra
        for row in batch:
            wanted = inputs[row.source].wanted
            pairs = longest * row.size * per_pair * layers
            total += pairs * (_ATTENTION_READ if wanted.has("attention") else 1.0)
            if wanted.has("scores") and not wanted.few_ids:
                total += len(row.query) * per_score
        wanted_rows = [row for row in batch if inputs[row.source].item in wanted_items]
        tokens = max(1, sum(row.size for row in wanted_rows))
        for row in batch:
            by_row[id(row)] = 0.0
        for row in wanted_rows:
            by_row[id(row)] = share = total * row.size / tokens
            by_item[items[inputs[row.source].item].item.item_id] += share

    for batch in batches:
        add(batch)
    for bundle in bundles:
        base = sum(row.size for row in bundle.base) / max(1, len(bundle.batches))
        for start, batch, _ in bundle.batches:
            add(batch, 1 - start / max(1, size.layers), base)
    return _Work(by_row, by_item)


def _build_batches(
    rows: Sequence[Row], inputs: Sequence[InputVariant], keys: Sequence[str], budget: int, fill: float
) -> list[list[Row]]:
    """Group the rows that are forwarded together.

    What a decoder writes is no part of a batch that is only read, and what needs a few ids of the vocabulary
    none of one that needs all.
    """
    kinds = [(row.written is not None, inputs[row.source].wanted.few_ids) for row in rows]
    batches: list[list[Row]] = []
    for kind in sorted(set(kinds)):
        indices = [index for index, row_kind in enumerate(kinds) if row_kind == kind]
        lengths = [rows[index].size for index in indices]
        index_batches = batch_by_length(lengths, [keys[index] for index in indices], budget, fill)
        batches += [[rows[indices[index]] for index in batch] for batch in index_batches]
    return batches


def _batch_key(items: Sequence[Prepared], variant: InputVariant, row: Row) -> str:
    """Return the sort key of a row among rows of its length, whatever the order of items."""
    shape = variant.shape
    changes = " ".join(change.key for change in shape.changes)
    return hash_text(
        f"{items[variant.item].item.item_id} {shape.masked} {shape.padded} {row.origin}{changes}"
    )
