"""Changes of one batch as forward hooks on the modules that the model's family names, and what heads give.

Nothing of the model is written to: a hook hands other states on than those that it got, and is gone when the
forward is over. Hooks stand before those by which transformers collects hidden states, which therefore are
the changed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.base.errors import CaptureError, InputError
from sonde.capture.interventions import Affine, Change
from sonde.capture.tensors import Upload
from sonde.capture.windows import Row
from sonde.models import LoadedModel
from sonde.models.engine.architectures import ModelStack
from sonde.models.engine.family import FAMILIES

_Place = tuple[str, str, int]
_Rule = Callable[[Tensor], Tensor]


def text_side(loaded_model: LoadedModel) -> str:
    """Return the side of a model that reads texts."""
    kind = loaded_model.capabilities.kind
    return "encoder" if kind == "encoder-decoder" else kind


class ModelHooks:
    """Modules of a model on which hooks can change states.

    Args:
        loaded_model: The model.
    """

    def __init__(self, loaded_model: LoadedModel) -> None:
        self._loaded = loaded_model
        find = getattr(FAMILIES.load(loaded_model.family), "sites", None)
        if find is None:
            raise CaptureError(
                f"model {self.name!r}: its family does not declare its layers; read it unchanged"
            )
        self._sides = find(loaded_model.model)
        self._held: dict[Change, tuple[Tensor, ...]] = {}

    @property
    def name(self) -> str:
        """Return the name of the model."""
        return self._loaded.spec.name

    def side(self, name: str) -> ModelStack:
        """Return one side of the model; that of cross-attention is the decoder.

        Raises:
            InputError: The model has no such side.
        """
        stack = self._sides.get("decoder" if name == "cross" else name or text_side(self._loaded))
        if stack is None or (name == "cross" and not stack.cross):
            raise InputError(f"model {self.name!r} has no side {name!r}; it has {', '.join(self._sides)}")
        return stack

    def projections(self, name: str) -> Sequence[Any]:
        """Return the projections that mix the heads of a side, by layer.

        Raises:
            CaptureError: A layer has none.
        """
        side = self.side(name)
        projections = side.cross if name == "cross" else side.heads
        if any(projection is None for projection in projections):
            raise CaptureError(
                f"model {self.name!r}: not every layer has attention whose heads are mixed by a projection"
            )
        return projections

    @contextmanager
    def install_hooks(self, rules: dict[_Place, list[_Rule]]) -> Generator[None]:
        """Install hooks that change states while the model reads."""
        with ExitStack() as stack:
            for (side, site, layer), state_rules in rules.items():
                hook = self._hook(side, site, layer, state_rules)
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
        """Return the arrays of a change on the device; sent once for all batches."""
        if change not in self._held:
            self._held[change] = tuple(
                torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)).to(device)
                for array in change.what.arrays
            )
        return self._held[change]


def _get_module(modules: Sequence[Any], layer: int, module_name: str, name: str) -> Any:
    if not 0 <= layer < len(modules):
        raise InputError(f"model {name!r} has no {module_name} {layer}; it has 0 to {len(modules) - 1}")
    return modules[layer]


def _hook_input(module: Any, rule: _Rule) -> Any:
    """Change what a module is given."""

    def hook(
        _: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if arguments:
            return (rule(arguments[0]), *arguments[1:]), options
        return arguments, {**options, "hidden_states": rule(options["hidden_states"])}

    return module.register_forward_pre_hook(hook, with_kwargs=True)


def _hook_output(module: Any, rule: _Rule) -> Any:
    """Change what a module gives."""

    def hook(_: Any, __: Any, output: Any) -> Any:
        return (rule(output[0]), *output[1:]) if isinstance(output, tuple) else rule(output)

    return module.register_forward_hook(hook, prepend=True)


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
        rows_by_change: dict[Change, list[int]] = {}
        # Changes of one place stay in the order in which each row names them.
        for depth in range(max(map(len, changes), default=0)):
            for row, row_changes in enumerate(changes):
                if depth < len(row_changes):
                    rows_by_change.setdefault(row_changes[depth], []).append(row)
        self._rules: dict[_Place, list[_Rule]] = {}
        for change, changed_rows in rows_by_change.items():
            place = (change.side or self._own, change.site, change.layer)
            self._rules.setdefault(place, []).append(self._build_rule(change, changed_rows))

    def install_hooks(self) -> AbstractContextManager[None]:
        """Return a context in which states are changed; the upload must have been sent."""
        return self._hooks.install_hooks(self._rules)

    def _build_rule(self, change: Change, changed_rows: Sequence[int]) -> _Rule:
        side = change.side or self._own
        column_subwords = [self._item_columns(batch_row, side) for batch_row in changed_rows]
        width = max(len(subwords) for subwords in column_subwords)
        change_mask = np.zeros((len(changed_rows), width), dtype=np.bool_)
        entry = np.zeros((len(changed_rows), width), dtype=np.int64)
        for row, (batch_row, subwords) in enumerate(zip(changed_rows, column_subwords, strict=True)):
            changed_subwords, of_place = self._of_item(change, *self._items[batch_row])
            is_subword = subwords >= 0
            change_mask[row, : len(subwords)][is_subword] = changed_subwords[subwords[is_subword]]
            if of_place is not None:
                entry[row, : len(subwords)][is_subword] = of_place[subwords[is_subword]]
        heads = self._hooks.side(change.side).count
        for head in change.heads:
            if not 0 <= head < heads:
                raise InputError(
                    f"model {self._hooks.name!r} has no head {head}; a layer has 0 to {heads - 1}"
                )
        sent_rows, sent_heads = (
            self._upload.add(np.array(numbers, dtype=np.int64)) for numbers in (changed_rows, change.heads)
        )
        sent_mask = self._upload.add(change_mask)
        # Where there is one value for all, no place has an entry of its own.
        sent_entry = None if change.what.index is None else self._upload.add(entry)
        values = self._hooks.tensors(change, self._upload.device)

        def rule(states: Float[Tensor, "batch token width"]) -> Tensor:
            # Of a model over several devices a layer computes elsewhere than where a batch is sent.
            rows, change_mask = sent_rows.tensor.to(states.device), sent_mask.tensor.to(states.device)
            arrays = [array.to(states.device) for array in values]
            old = states[rows]
            change_mask = _pad_columns(change_mask, old.shape[1])
            selected_states, columns = old, None
            if change.site == "heads":
                wide = torch.arange(old.shape[2], device=old.device).view(heads, -1)
                columns = wide[sent_heads.tensor.to(old.device)].flatten()
                selected_states = old[..., columns]
            if selected_states.shape[2] != arrays[-1].shape[-1]:
                raise InputError(
                    f"model {self._hooks.name!r}: the states of layer {change.layer} are "
                    f"{selected_states.shape[2]} wide, and the intervention is not"
                )
            if isinstance(change.what, Affine):
                down, up, centre = arrays
                new = selected_states - (((selected_states.float() - centre) @ down) @ up).to(
                    selected_states.dtype
                )
            elif sent_entry is None:
                new = arrays[0][0].to(selected_states.dtype).expand_as(selected_states)
            else:
                entry = _pad_columns(sent_entry.tensor.to(states.device), old.shape[1])
                new = arrays[0].to(selected_states.dtype)[entry]
            new = torch.where(change_mask[:, :, None], new, selected_states)
            if columns is not None:
                part, new = new, old.clone()
                new[..., columns] = part
            changed_states = states.clone()
            changed_states[rows] = new
            return changed_states

        return rule

    def _item_columns(self, index: int, side: str) -> Int[np.ndarray, " column"]:
        row, (_, subwords) = self._batch[index], self._items[index]
        if side != self._own and row.written is None:
            # The decoder of an encoder-decoder that reads what its encoder reads: its start token first.
            return np.arange(subwords + 1) - 1
        return row.map_columns(subwords, side, self._suffix)

    def _of_item(
        self, change: Change, item: str, subwords: int
    ) -> tuple[Bool[np.ndarray, " subword"], Int[np.ndarray, " subword"] | None]:
        """Mark the subwords of an item that are changed, and find the value of each."""
        positions = np.arange(subwords)
        if change.positions is not None:
            positions = np.array(change.positions[item], dtype=np.int64)
        change_mask = np.zeros(subwords, dtype=np.bool_)
        change_mask[positions] = True
        if change.what.index is None:
            return change_mask, None
        index, count = np.asarray(change.what.index[item], dtype=np.int64), len(change.what.values)
        if len(index) != len(positions) or (len(index) and not 0 <= index.min() <= index.max() < count):
            raise InputError(
                f"item {item}: {len(index)} values are named for {len(positions)} positions, or one that is "
                f"none of the {count}"
            )
        of_place = np.zeros(subwords, dtype=np.int64)
        of_place[positions] = index
        return change_mask, of_place


def _pad_columns(values: Tensor, width: int) -> Tensor:
    """Pad the columns to those of the batch."""
    return torch.nn.functional.pad(values, (0, width - values.shape[1]))


@contextmanager
def keep_head_outputs(hooks: ModelHooks, side: str, outputs: list[Tensor]) -> Generator[None]:
    """Keep what the heads of each layer give during one forward, as it is after changes."""

    def keep(_: Any, arguments: tuple[Any, ...]) -> None:
        outputs.append(arguments[0])

    with ExitStack() as stack:
        for projection in hooks.projections(side):
            stack.callback(projection.register_forward_pre_hook(keep).remove)
        yield
