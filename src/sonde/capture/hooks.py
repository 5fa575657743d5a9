"""Changes of one batch as forward hooks on the modules that the model's family names, and what heads give.

Nothing of the model is written to: a hook hands other states on than those that it got, and is gone when the
forward is over. Hooks stand before those by which transformers collects hidden states, which therefore are
the changed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.base.errors import CaptureError, InputError
from sonde.capture.interventions import Affine, Change
from sonde.capture.tensors import PendingUpload, Upload
from sonde.capture.windows import Row
from sonde.models import LoadedModel
from sonde.models.engine.architectures import ModelStack
from sonde.models.engine.family import FAMILIES

_Place = tuple[str, str, int]
_Rule = Callable[[Tensor], Tensor]


def text_side(loaded: LoadedModel) -> str:
    """The side of a model that reads texts."""
    kind = loaded.capabilities.kind
    return "encoder" if kind == "encoder-decoder" else kind


class ModelHooks:
    """Where a model can be changed, and the modules that hooks are placed on.

    Args:
        loaded: The model.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        find = getattr(FAMILIES.load(loaded.family), "sites", None)
        if find is None:
            raise CaptureError(f"model {self.name!r}: its family says nothing of layers; read it as it is")
        self._sides = find(loaded.model)
        self._held: dict[Change, tuple[Tensor, ...]] = {}

    @property
    def name(self) -> str:
        """What to call the model."""
        return self._loaded.spec.name

    def side(self, name: str) -> ModelStack:
        """One side of the model; that of cross-attention is the decoder.

        Raises:
            InputError: The model has no such side.
        """
        found = self._sides.get("decoder" if name == "cross" else name or text_side(self._loaded))
        if found is None or (name == "cross" and not found.cross):
            raise InputError(f"model {self.name!r} has no side {name!r}; it has {', '.join(self._sides)}")
        return found

    def projections(self, name: str) -> Sequence[Any]:
        """The projections that mix what the heads of a side give, layer after layer.

        Raises:
            CaptureError: A layer has none.
        """
        side = self.side(name)
        found = side.cross if name == "cross" else side.heads
        if any(one is None for one in found):
            raise CaptureError(
                f"model {self.name!r}: not every layer has attention whose heads are mixed by a projection"
            )
        return found

    @contextmanager
    def install_hooks(self, rules: dict[_Place, list[_Rule]]) -> Generator[None]:
        """Have states changed while the model reads."""
        with ExitStack() as stack:
            for (side, site, layer), held in rules.items():
                hook = self._hook(side, site, layer, held)
                stack.callback(hook.remove)
            yield

    def _hook(self, name: str, site: str, layer: int, rules: Sequence[_Rule]) -> Any:
        def apply_rules(states: Tensor) -> Tensor:
            for rule in rules:
                states = rule(states)
            return states

        if site == "heads":
            return _hook_input(
                _get_module(self.projections(name), layer, "attention layer", self.name), apply_rules
            )
        side = self.side(name)
        modules = [side.layers[0], *side.layers[:-1], side.final or side.layers[-1]]
        module = _get_module(modules, layer, "layer", self.name)
        return _hook_input(module, apply_rules) if layer == 0 else _hook_output(module, apply_rules)

    def tensors(self, change: Change, device: torch.device) -> tuple[Tensor, ...]:
        """The numbers of a change where the model is; sent once, however many batches they are used in."""
        if change not in self._held:
            what = change.what
            arrays = (what.down, what.up, what.centre) if isinstance(what, Affine) else (what.values,)
            self._held[change] = tuple(
                torch.from_numpy(np.ascontiguousarray(one, dtype=np.float32)).to(device) for one in arrays
            )
        return self._held[change]


def _get_module(modules: Sequence[Any], layer: int, what: str, name: str) -> Any:
    if not 0 <= layer < len(modules):
        raise InputError(f"model {name!r} has no {what} {layer}; it has 0 to {len(modules) - 1}")
    return modules[layer]


def _hook_input(module: Any, changed: _Rule) -> Any:
    """Change what a module is given."""

    def hook(_: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if given:
            return (changed(given[0]), *given[1:]), named
        return given, {**named, "hidden_states": changed(named["hidden_states"])}

    return module.register_forward_pre_hook(hook, with_kwargs=True)


def _hook_output(module: Any, changed: _Rule) -> Any:
    """Change what a module gives."""

    def hook(_: Any, __: Any, output: Any) -> Any:
        return (changed(output[0]), *output[1:]) if isinstance(output, tuple) else changed(output)

    return module.register_forward_hook(hook, prepend=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One change of some rows of a batch.

    Attributes:
        change: The change.
        rows: The rows.
        where: Their columns that are changed.
        entry: Which value each column gets; None where there is one for all.
        columns: Of what heads give, the part that is changed; None for all.
    """

    change: Change
    rows: PendingUpload
    where: PendingUpload
    entry: PendingUpload | None
    columns: PendingUpload | None


class BatchChanges:
    """The changes of one batch.

    Args:
        hooks: Where they are placed.
        batch: The rows.
        items: Id and number of subwords of the item of each.
        changes: What is changed of each.
        suffix: Special tokens behind a text.
        side: The side that reads texts.
        upload: Takes what is needed to where the model is.
    """

    def __init__(
        self,
        hooks: ModelHooks,
        batch: Sequence[Row],
        items: Sequence[tuple[str, int]],
        changes: Sequence[tuple[Change, ...]],
        suffix: int,
        side: str,
        upload: Upload,
    ) -> None:
        self._hooks = hooks
        self._batch, self._items = batch, items
        self._suffix, self._own = suffix, side
        self._upload = upload
        asked: dict[Change, list[int]] = {}
        # Changes of one place stay in the order in which each row names them.
        for depth in range(max(map(len, changes), default=0)):
            for at, held in enumerate(changes):
                if depth < len(held):
                    asked.setdefault(held[depth], []).append(at)
        self._steps = [self._step(change, rows) for change, rows in asked.items()]

    def install_hooks(self) -> Any:
        """A context in which the model's states are changed; once the upload was sent."""
        rules: dict[_Place, list[_Rule]] = {}
        for step in self._steps:
            change = step.change
            rules.setdefault((change.side or self._own, change.site, change.layer), []).append(
                self._rule(step)
            )
        return self._hooks.install_hooks(rules)

    def _step(self, change: Change, rows: Sequence[int]) -> _Step:
        side = change.side or self._own
        read = [self._item_columns(at, side) for at in rows]
        width = max(len(places) for places in read)
        where = np.zeros((len(rows), width), dtype=np.bool_)
        entry = np.zeros((len(rows), width), dtype=np.int64)
        indexed = False
        for row, (at, places) in enumerate(zip(rows, read, strict=True)):
            mine, of_place = self._of_item(change, *self._items[at])
            inside = places >= 0
            where[row, : len(places)][inside] = mine[places[inside]]
            if of_place is not None:
                indexed = True
                entry[row, : len(places)][inside] = of_place[places[inside]]
        columns = None
        if change.site == "heads":
            count = self._hooks.side(change.side).count
            for head in change.heads:
                if not 0 <= head < count:
                    raise InputError(
                        f"model {self._hooks.name!r} has no head {head}; a layer has 0 to {count - 1}"
                    )
            columns = self._upload.add(np.array(change.heads, dtype=np.int64))
        return _Step(
            change,
            self._upload.add(np.array(rows, dtype=np.int64)),
            self._upload.add(where),
            self._upload.add(entry) if indexed else None,
            columns,
        )

    def _item_columns(self, at: int, side: str) -> Int[np.ndarray, " column"]:
        row, (_, subwords) = self._batch[at], self._items[at]
        if side != self._own and row.written is None:
            # The decoder of an encoder-decoder that reads what its encoder reads: its start token first.
            return np.arange(subwords + 1) - 1
        return row.map_columns(subwords, side, self._suffix)

    def _of_item(
        self, change: Change, item: str, subwords: int
    ) -> tuple[Bool[np.ndarray, " subword"], Int[np.ndarray, " subword"] | None]:
        """Which subwords of an item are changed, and which value each of them gets."""
        positions = np.arange(subwords)
        if change.positions is not None:
            positions = np.array(change.positions[item], dtype=np.int64)
        mine = np.zeros(subwords, dtype=np.bool_)
        mine[positions] = True
        what = change.what
        if isinstance(what, Affine) or what.index is None:
            return mine, None
        index = np.asarray(what.index[item], dtype=np.int64)
        if len(index) != len(positions) or (
            len(index) and not 0 <= index.min() <= index.max() < len(what.values)
        ):
            raise InputError(
                f"item {item}: {len(index)} values are named for {len(positions)} positions, or one that is "
                f"none of the {len(what.values)}"
            )
        of_place = np.zeros(subwords, dtype=np.int64)
        of_place[positions] = index
        return mine, of_place

    def _rule(self, step: _Step) -> _Rule:
        numbers = self._hooks.tensors(step.change, step.rows.tensor.device)
        what, heads = step.change.what, self._hooks.side(step.change.side).count

        def rule(states: Float[Tensor, "batch token width"]) -> Tensor:
            # Of a model over several devices a layer computes elsewhere than where a batch is sent.
            rows, where = step.rows.tensor.to(states.device), step.where.tensor.to(states.device)
            held = [one.to(states.device) for one in numbers]
            old = states[rows]
            where = _pad_columns(where, old.shape[1])
            picked, columns = old, None
            if step.columns is not None:
                wide = torch.arange(old.shape[2], device=old.device).view(heads, -1)
                columns = wide[step.columns.tensor.to(old.device)].flatten()
                picked = old[..., columns]
            if picked.shape[2] != (held[2] if isinstance(what, Affine) else held[0]).shape[-1]:
                raise InputError(
                    f"model {self._hooks.name!r}: states are {picked.shape[2]} wide where layer "
                    f"{step.change.layer} is changed, and what is done to them is not"
                )
            if isinstance(what, Affine):
                down, up, centre = held
                new = picked - (((picked.float() - centre) @ down) @ up).to(picked.dtype)
            elif step.entry is None:
                new = held[0][0].to(picked.dtype).expand_as(picked)
            else:
                entry = _pad_columns(step.entry.tensor.to(states.device), old.shape[1])
                new = held[0].to(picked.dtype)[entry]
            new = torch.where(where[:, :, None], new, picked)
            if columns is not None:
                part, new = new, old.clone()
                new[..., columns] = part
            changed = states.clone()
            changed[rows] = new
            return changed

        return rule


def _pad_columns(given: Tensor, width: int) -> Tensor:
    """Columns of the longest row alone, filled up to those of the batch."""
    return torch.nn.functional.pad(given, (0, width - given.shape[1]))


class HeadReader:
    """Keeps what the heads of all layers give during one forward, as it is after changes.

    Args:
        hooks: Where they are read.
        side: Of which side.
    """

    def __init__(self, hooks: ModelHooks, side: str) -> None:
        self._projections = hooks.projections(side)
        self.layers: list[Float[Tensor, "batch token width"]] = []

    @contextmanager
    def keep_outputs(self) -> Generator[None]:
        """Keep what the next forward gives."""

        def keep(_: Any, given: tuple[Any, ...]) -> None:
            self.layers.append(given[0])

        with ExitStack() as stack:
            for one in self._projections:
                stack.callback(one.register_forward_pre_hook(keep).remove)
            yield
