"""One forward for many lenses: items and passes in, captures out, in bounded memory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from sonde.base.errors import CaptureError
from sonde.base.fingerprint import hash_text
from sonde.capture.batches import compose
from sonde.capture.collect import Collector
from sonde.capture.patches import PatchedItem, Patches
from sonde.capture.patching import answer_patches
from sonde.capture.requests import ItemCapture, Pass, Prepared
from sonde.capture.resuming import Bundle, bundled
from sonde.capture.row import Row
from sonde.capture.rows import RowCutter
from sonde.capture.runner import Runner
from sonde.capture.settings import CaptureSettings
from sonde.capture.sharing import shared_batches
from sonde.capture.union import Input, UnitedCapture, unite
from sonde.models import LoadedModel

_CPU_BLOCK, _ACCELERATOR_BLOCK = 256, 1024


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
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
            raise _unreadable(loaded, observed.prepared, observed.unread)
        yield from observed.captures[""]


def _unreadable(loaded: LoadedModel, prepared: Prepared, said: str) -> CaptureError:
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
) -> Iterator[Observed]:
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
) -> Iterator[Observed]:
    kind = loaded.capabilities.kind
    suited = {
        lens: [one for one in asked if kind in (one.kinds or (kind,))] for lens, asked in passes.items()
    }
    patched = _patched(loaded, prepared, suited, settings, held)
    union = unite(suited, [one.item.item_id for one in prepared])
    changed = any(asked.shape.changes for asked in union.inputs)
    cutter = RowCutter(loaded, settings, whole=changed)
    inputs = [_answerable(asked, prepared[asked.item], cutter) for asked in union.inputs]
    rows: list[Row] = []
    for source, asked in enumerate(inputs):
        if not asked.wanted.empty:
            rows += cutter.rows(source, asked, prepared[asked.item])
    captured, halved, unread = _capture(loaded, prepared, inputs, rows, cutter, settings, held)
    faults = {inputs[source].item: said for source, said in unread.items()}
    if faults and {inputs[row.source].item for row in rows} <= faults.keys():
        item, said = next(iter(faults.items()))
        raise _unreadable(loaded, prepared[item], said)
    counts = Counter(asked.item for asked in inputs if not asked.wanted.empty)
    for item, one in enumerate(prepared):
        if one.item.item_id in held:
            continue
        if item in faults:
            yield Observed(one, dict.fromkeys(passes, ()), counts[item], 0, halved, faults[item])
            halved = 0
            continue
        captures = union.hand_back(item, captured)
        for lens, answers in patched.items():
            if (answer := answers.get(one.item.item_id)) is not None:
                captures[lens] += (ItemCapture(one.item.item_id, patches=answer),)
        asked = sum(len(answers) for answers in captures.values())
        yield Observed(one, captures, counts[item], asked - counts[item], halved)
        halved = 0


def _patched(
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


def _answerable(asked: Input, prepared: Prepared, cutter: RowCutter) -> Input:
    """An input without the lookups of words where it is cut into windows: attention ends at their borders."""
    if not asked.wanted.words or cutter.fits(prepared, asked.shape.start):
        return asked
    return replace(asked, wanted=replace(asked.wanted, words=()))


def _capture(
    loaded: LoadedModel,
    prepared: Sequence[Prepared],
    inputs: Sequence[Input],
    rows: Sequence[Row],
    cutter: RowCutter,
    settings: CaptureSettings,
    held: Set[str],
) -> tuple[dict[int, UnitedCapture], int, dict[int, str]]:
    """Forward all rows and put the windows of each input together.

    Returns:
        The captures, how many batches did not fit, and the inputs that could not be read.
    """
    collectors: list[Collector] = []
    for asked in inputs:
        one = prepared[asked.item]
        size = len(one.alignment.subwords)
        if asked.shape.padded:
            size = cutter.pads(size, asked.shape.start)
        heads = loaded.capabilities.heads
        collectors.append(Collector(one.item.item_id, size, asked.wanted, loaded.special, heads))
    decodes = loaded.capabilities.kind == "decoder"
    writes = {
        row.source for row in rows if row.written is not None or (decodes and inputs[row.source].shape.masked)
    }
    with Runner(loaded, prepared, inputs, settings) as runner:
        keys = [_key(prepared, inputs[row.source], row) for row in rows]
        batches: list[list[Row]] = []
        scored_alone = all(
            asked.wanted.plain
            and asked.wanted.answers is None
            and not asked.shape.padded
            and not asked.shape.changes
            for asked in inputs
        )
        if settings.share and loaded.capabilities.kind == "decoder" and scored_alone:
            shared, alone = shared_batches(rows, keys, runner.budget)
            if shared and runner.shares:
                batches = shared
                rows, keys = [rows[at] for at in alone], [keys[at] for at in alone]
        bundles: list[Bundle] = []
        if runner.resumes:
            bundles, others = bundled(rows, inputs, keys, runner.budget)
            rows, keys = [rows[at] for at in others], [keys[at] for at in others]
        batches += _batches(rows, inputs, keys, runner.budget, runner.fill)
        if held:
            there = {at for at, asked in enumerate(inputs) if prepared[asked.item].item.item_id in held}
            batches = [batch for batch in batches if any(row.source not in there for row in batch)]
            bundles = [one for one in bundles if any(row.source not in there for row in one.base)]
        for row, result in itertools.chain(runner.run(batches), runner.run_bundles(bundles)):
            collectors[row.source].add(row, result)
    captured = {
        source: replace(
            collector.finish(),
            pad=loaded.special.pad if asked.shape.padded else None,
            written=source in writes,
        )
        for source, (asked, collector) in enumerate(zip(inputs, collectors, strict=True))
    }
    return captured, runner.halved, runner.unread


def _batches(
    rows: Sequence[Row], inputs: Sequence[Input], keys: Sequence[str], budget: int, fill: float
) -> list[list[Row]]:
    """Rows that are forwarded together.

    What a decoder writes is no part of a batch that is only read, and what needs a few ids of the vocabulary
    none of one that needs all.
    """
    kinds = [(row.written is not None, inputs[row.source].wanted.narrow) for row in rows]
    batches: list[list[Row]] = []
    for kind in sorted(set(kinds)):
        mine = [index for index, one in enumerate(kinds) if one == kind]
        lengths = [rows[index].size for index in mine]
        composed = compose(lengths, [keys[index] for index in mine], budget, fill)
        batches += [[rows[mine[place]] for place in batch] for batch in composed]
    return batches


def _key(prepared: Sequence[Prepared], asked: Input, row: Row) -> str:
    """A row's place among rows of its length, whatever the order of the items."""
    shape = asked.shape
    changes = " ".join(change.key for change in shape.changes)
    return hash_text(
        f"{prepared[asked.item].item.item_id} {shape.masked} {shape.padded} {row.origin}{changes}"
    )
