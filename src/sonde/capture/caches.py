"""Reuse of computed states: prefixes that texts share, and layers below an intervention.

A decoder reads a prefix that several texts share once; its cache is then expanded to the texts.

The layers below the first change are the same for every change of an item, so they are computed once. The
skipped layers return the stored states, and everything above runs by the model's own code, with its own masks
and positions. This works only if layers return nothing but states and pass nothing else from one to the next;
a trial on a few tokens decides that for each model.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.capture.hooks import ModelHooks, text_side
from sonde.capture.interventions import Change
from sonde.capture.merge_requests import InputVariant
from sonde.capture.tensors import Upload
from sonde.capture.windows import Row, batch_by_length, pad_rows
from sonde.languages.engine.text import common_prefix_length
from sonde.models import LoadedModel
from sonde.models.engine.device_map import count_modules_by_device
from sonde.models.engine.trial_batches import forward_rows, largest_change, make_rows, rounding_tolerance

_MINIMUM_SAVING = 16
"""Tokens that sharing has to save beyond one further forward."""


_SHARE = 0.2
"""Least share of a group's tokens that is worth a forward with a cache, whose attention is the slower one."""


_MAXIMUM_TEXTS = 128
"""Texts of one prefix that are looked at together; a query has at most 100."""


_probed: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def shared_batches(
    rows: Sequence[Row], keys: Sequence[str], budget: int
) -> tuple[list[list[Row]], list[int]]:
    """Batch the rows that share a prefix, and return the indices of the others.

    Rows are put into runs of neighbours in the order of their tokens, so that the fewest tokens are read;
    groups of one length of prefix are batched together. It depends on the rows alone.

    Args:
        rows: Rows of a decoder that are scored and asked for nothing else.
        keys: A key of each row that does not depend on their order.
        budget: Padded tokens of a batch.
    """
    groups: list[tuple[int, list[int]]] = []
    whole_rows: list[int] = []
    for length, members in _group_by_prefix([row.tokens.tolist() for row in rows], keys):
        if length:
            groups.append((length, members))
        else:
            whole_rows += members
    groups.sort(
        key=lambda group: (-group[0], -max(len(rows[index].tokens) for index in group[1]), keys[group[1][0]])
    )
    batches: list[list[Row]] = []
    current = (0, 0, 0, 0)
    for length, members in groups:
        for index in members:
            row = replace(rows[index], shared=length)
            prefixes, count, longest = current[1] + (index == members[0]), current[2] + 1, current[3]
            longest = max(longest, len(row.tokens) - length)
            if not batches or current[0] != length or prefixes * length + count * longest > budget:
                batches.append([])
                prefixes, count, longest = 1, 1, len(row.tokens) - length
            current = (length, prefixes, count, longest)
            batches[-1].append(row)
    return batches, sorted(whole_rows)


def _group_by_prefix(tokens: Sequence[Sequence[int]], keys: Sequence[str]) -> list[tuple[int, list[int]]]:
    """Group rows by prefix: its length (0 for rows to read whole) and the members.

    Over the sorted rows the best cut into runs, where a run of ``n`` rows with a common prefix of ``p``
    tokens saves ``(n - 1) p``, if that is enough of them to be worth it.
    """
    order = sorted(range(len(tokens)), key=lambda index: (tokens[index], keys[index]))
    total_tokens = [0, *accumulate(len(tokens[index]) for index in order)]
    prefix_lengths = [
        common_prefix_length(tokens[first], tokens[second]) for first, second in pairwise(order)
    ]
    savings, begins, lengths = [0], [0], [0]
    for stop in range(1, len(order) + 1):
        best = (savings[stop - 1], stop - 1, 0)
        prefix = len(tokens[order[stop - 1]])
        for start in range(stop - 2, max(-1, stop - 1 - _MAXIMUM_TEXTS), -1):
            prefix = min(prefix, prefix_lengths[start])
            if prefix == 0:
                break
            gain_of_run = (stop - start - 1) * prefix
            gain = savings[start] + gain_of_run - _MINIMUM_SAVING
            if gain > best[0] and gain_of_run >= _SHARE * (total_tokens[stop] - total_tokens[start]):
                best = (gain, start, prefix)
        for column, value in zip((savings, begins, lengths), best, strict=True):
            column.append(value)
    groups: list[tuple[int, list[int]]] = []
    stop = len(order)
    while stop:
        groups.append((lengths[stop], order[begins[stop] : stop]))
        stop = begins[stop]
    return groups


class SharedPrefixes:
    """Reads the prefixes of a batch once each, then what is behind them.

    Args:
        batch: Rows with one length of shared prefix.
        padding: Id that fills shorter rows up, on the right.
        upload: Takes the rows to where the model is.

    Attributes:
        source: The state of each position, over the rows' queries one after the other.
    """

    def __init__(self, batch: Sequence[Row], padding: int, upload: Upload) -> None:
        length = batch[0].shared
        prefixes = list(dict.fromkeys(tuple(row.tokens[:length].tolist()) for row in batch))
        number = {prefix: index for index, prefix in enumerate(prefixes)}
        prefix_index = [number[tuple(row.tokens[:length].tolist())] for row in batch]
        long_rows = [index for index, row in enumerate(batch) if len(row.tokens) > length]
        rest = pad_rows([batch[index].tokens[length:] for index in long_rows], padding)
        begins = {
            index: len(prefixes) * length + number * rest.shape[1] for number, index in enumerate(long_rows)
        }
        states = [
            np.where(
                row.query < length,
                prefix_index[index] * length + row.query,
                begins.get(index, 0) + row.query - length,
            )
            for index, row in enumerate(batch)
        ]
        used_states, self.source = np.unique(np.concatenate(states), return_inverse=True)
        self._prefixes, self._rest = upload.add(np.array(prefixes, dtype=np.int64)), upload.add(rest)
        self._of = upload.add(np.array([prefix_index[index] for index in long_rows], dtype=np.int64))
        self._used = upload.add(used_states)

    def states(self, body: Callable[..., Any]) -> Float[Tensor, "state d_model"]:
        """Return the last states at the scored positions, those that rows share once.

        Args:
            body: The decoder's body.
        """
        output = body(input_ids=self._prefixes.tensor, use_cache=True)
        states = [output.last_hidden_state.flatten(0, 1)]
        if len(self._of.tensor):
            cache = output.past_key_values
            cache.batch_select_indices(self._of.tensor)
            continuation = body(input_ids=self._rest.tensor, past_key_values=cache, use_cache=True)
            states.append(continuation.last_hidden_state.flatten(0, 1))
        return torch.cat(states)[self._used.tensor]


def can_share_prefixes(loaded_model: LoadedModel, body: Callable[..., Any]) -> bool:
    """Return whether a decoder can continue from the keys and values of a prefix.

    Models with windows, recurrent states or caches of their own are read whole.
    """
    can_share = _probed.get(loaded_model.model)
    if can_share is None:
        can_share = _probed[loaded_model.model] = (
            # The caches of a model over several devices lie on as many.
            loaded_model.capabilities.kind == "decoder"
            and not loaded_model.alone
            and len(
                {
                    device
                    for device in count_modules_by_device(loaded_model.model)
                    if device not in ("cpu", "disk")
                }
            )
            < 2
            and _try_continuation(loaded_model, body)
        )
    return can_share


@torch.inference_mode()
def _try_continuation(loaded_model: LoadedModel, body: Callable[..., Any]) -> bool:
    from transformers.cache_utils import DynamicCache, DynamicLayer

    size = min(6, loaded_model.capabilities.vocab, loaded_model.capabilities.context)
    if size < 3:
        return False
    device = loaded_model.device
    ids = torch.arange(size, device=device)[None]
    states = body(input_ids=ids, use_cache=False).last_hidden_state
    output = body(input_ids=ids[:, :2], use_cache=True)
    cache = getattr(output, "past_key_values", None)
    if type(cache) is not DynamicCache or any(type(layer) is not DynamicLayer for layer in cache.layers):
        return False
    cache.batch_select_indices(torch.tensor([0, 0], device=device))
    rest = body(input_ids=ids[:, 2:].repeat(2, 1), past_key_values=cache, use_cache=True).last_hidden_state
    tolerance = rounding_tolerance(loaded_model)
    return torch.allclose(rest.float(), states[:, 2:].float().expand_as(rest), rtol=tolerance, atol=tolerance)


LayerStates = Sequence[Float[Tensor, "batch token d_model"]]
"""What each layer of a model gives, the first one first."""


@dataclass(frozen=True, slots=True, eq=False)
class ResumedRows:
    """Rows that are read on from a layer.

    Attributes:
        start: How many layers are not run.
        states: What each layer gave for the rows as they are.
        index: Of each row, which of these it is.
    """

    start: int
    states: LayerStates
    index: Int[Tensor, " row"]

    def get_states(self, layer: int, width: int) -> Float[Tensor, "row token d_model"]:
        """Return the states after a layer, counted from 1, of the first `width` columns."""
        states = self.states[layer - 1]
        return states[self.index.to(states.device), :width]


@dataclass(frozen=True, slots=True, eq=False)
class LayerBundle:
    """Rows that are read together: as they are, and then on from where each of them is changed.

    Attributes:
        base: One row of each input without its changes.
        batches: Rows with changes that begin at one layer: the layer, the rows, and the base of each.
    """

    base: tuple[Row, ...]
    batches: tuple[tuple[int, tuple[Row, ...], tuple[int, ...]], ...]


def count_unchanged_layers(changes: Sequence[Change]) -> int:
    """Count the layers below the first change."""
    return min(change.layer for change in changes)


def build_bundles(
    rows: Sequence[Row], inputs: Sequence[InputVariant], keys: Sequence[str], budget: int
) -> tuple[list[LayerBundle], list[int]]:
    """Bundle the rows that can be resumed at a layer, and return the indices of the others.

    Args:
        rows: All rows.
        inputs: What they refer to.
        keys: A key of each, whatever the order of the items.
        budget: Rows times longest row of a batch stay at or under this.
    """
    by_base: dict[tuple[object, ...], list[int]] = {}
    plain_rows: list[int] = []
    for index, row in enumerate(rows):
        variant = inputs[row.source]
        changes, requests = variant.shape.changes, variant.wanted
        reads_text = all(not change.side for change in changes)
        if (
            not changes
            or not reads_text
            or requests.has("hooks")
            or requests.has("attention")
            or not count_unchanged_layers(changes)
        ):
            plain_rows.append(index)
        else:
            by_base.setdefault((variant.item, variant.shape._replace(changes=()), row.origin), []).append(
                index
            )
    groups = list(by_base.values())
    first = [min(members, key=lambda index: keys[index]) for members in groups]
    bundles: list[LayerBundle] = []
    for batch in batch_by_length(
        [rows[index].size for index in first], [keys[index] for index in first], budget
    ):
        by_layer: dict[int, list[tuple[int, int]]] = {}
        for base, group in enumerate(batch):
            for index in groups[group]:
                start = count_unchanged_layers(inputs[rows[index].source].shape.changes)
                by_layer.setdefault(start, []).append((index, base))
        batches: list[tuple[int, tuple[Row, ...], tuple[int, ...]]] = []
        maximum = max(1, budget // rows[first[batch[0]]].size)
        for start, members in sorted(by_layer.items()):
            members.sort(key=lambda member: (member[1], keys[member[0]]))
            for begin in range(0, len(members), maximum):
                part = members[begin : begin + maximum]
                batches.append(
                    (start, tuple(rows[index] for index, _ in part), tuple(base for _, base in part))
                )
        bundles.append(LayerBundle(tuple(rows[first[group]] for group in batch), tuple(batches)))
    return bundles, plain_rows


@contextmanager
def keep_layer_outputs(hooks: ModelHooks, side: str, outputs: list[Tensor]) -> Generator[None]:
    """Keep what each layer gives during one forward."""

    def keep(_: Any, __: Any, output: Any) -> None:
        outputs.append(output)

    with ExitStack() as stack:
        for layer in hooks.side(side).layers:
            stack.callback(layer.register_forward_hook(keep).remove)
        yield


@contextmanager
def skip_layers(hooks: ModelHooks, side: str, resumed_rows: ResumedRows) -> Generator[None]:
    """Let the first layers hand on what they gave before, without running."""
    layers = hooks.side(side).layers[: resumed_rows.start]

    def return_states(states: Tensor, *_: Any, **__: Any) -> Tensor:
        return resumed_rows.get_states(resumed_rows.start, states.shape[1])

    with ExitStack() as stack:
        for layer in layers:
            # An attribute of the module goes before the method of its class, and is taken away again.
            layer.forward = return_states
            stack.callback(delattr, layer, "forward")
        yield


def add_cached_states(layers: Sequence[Tensor], resumed_rows: ResumedRows) -> list[Tensor]:
    """Add the states of the skipped layers to those of a resumed forward pass."""
    width = layers[0].shape[1]
    cached_states = [resumed_rows.get_states(layer, width) for layer in range(1, resumed_rows.start)]
    return [layers[0], *cached_states, *layers[resumed_rows.start :]]


_tried: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def can_resume(loaded_model: LoadedModel, hooks: ModelHooks) -> bool:
    """Return whether a model can be resumed at a layer; tried once."""
    if loaded_model.model not in _tried:
        _tried[loaded_model.model] = _try_resume(loaded_model, hooks)
    return _tried[loaded_model.model]


@torch.inference_mode()
def _try_resume(loaded_model: LoadedModel, hooks: ModelHooks) -> bool:
    if (
        loaded_model.capabilities.kind == "encoder-decoder"
        or loaded_model.alone
        or not loaded_model.takes_padding
    ):
        return False
    side, rows = text_side(loaded_model), make_rows(loaded_model, (13, 8))
    layers = hooks.side(side).layers
    # Layers that hold a forward of their own already are not replaced.
    if any("forward" in vars(layer) for layer in layers):
        return False
    outputs: list[Any] = []
    with keep_layer_outputs(hooks, side, outputs):
        states_before = forward_rows(loaded_model, rows)[0].last_hidden_state
    if len(outputs) != len(layers) or not all(
        isinstance(output, Tensor) and output.ndim == 3 for output in outputs
    ):
        return False
    for start in {1, len(layers)}:
        resumed_rows = ResumedRows(start, outputs, torch.arange(len(rows)))
        try:
            with skip_layers(hooks, side, resumed_rows):
                states = forward_rows(loaded_model, rows)[0].last_hidden_state
        except Exception:
            # Whatever a model's own code raises when layers are left out: it wants them run.
            return False
        if any(
            largest_change(state[: len(row)], state_before[: len(row)]) > rounding_tolerance(loaded_model)
            for row, state, state_before in zip(rows, states, states_before, strict=True)
        ):
            return False
    return True
