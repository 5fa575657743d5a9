"""Chosen rows of a model's attention matrices in float32, and the method that can read them.

Transformers calls a registered attention function with the queries, keys and mask of each layer. There are
three ways to read it:

- `FUSED`: ours returns what PyTorch's fused attention returns and computes the softmax of the rows asked for
  on the side, so that a whole matrix is never stored. Only where nothing but scale, mask and position bias
  changes the scores.
- `OWN`: ours calls the model's own eager function, in float32, and picks the rows from its weights: attention
  with learned sinks, soft-capping or whatever else the model does, one layer's weights at a time.
- `OUTPUTS`: models that do not use the interface are run with eager attention; each layer's weights are read
  where the layer returns them and let go before the next layer makes its own.

Each way is tried on a small batch and compared with eager attention. A model in half precision can be
computed in float32 for a while (`use_float32`).
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

from sonde.base.errors import CaptureError
from sonde.capture.tensors import PendingUpload, Upload
from sonde.models import LoadedModel
from sonde.models.engine.trial_batches import forward_rows, largest_change, make_rows, rounding_tolerance
from sonde.models.engine.weights import TF32

FUSED, OWN, OUTPUTS = "fused", "own", "outputs"


SIDES = ("encoder", "decoder", "cross")
"""Sides of an encoder-decoder; cross-attention goes from the decoder to the encoder."""


_NAMES = {FUSED: "sonde_rows", OWN: "sonde_own_rows", OUTPUTS: "eager"}
"""What each way is called among transformers' attention implementations."""


_UNSCORED = frozenset({"sliding_window", "position_ids", "cache_position"})
"""Keywords beside switches that change no score: a window is part of the mask that fused attention gets."""


_CROSS = ("encoder_attn", "encdecattention", "cross")


class AttentionReader(Protocol):
    """Takes chosen rows of one side of a model, layer after layer.

    Attributes:
        side: ``"encoder"``, ``"decoder"`` or ``"cross"`` (from decoder to encoder).
        columns: Query columns wanted of each row of the batch, padded with any valid column.
    """

    side: str
    columns: PendingUpload

    def read(self, rows: Float[Tensor, "batch head row token"]) -> None:
        """Take the rows of the next layer."""
        ...


@dataclass(slots=True, eq=False)
class RowReader:
    """Keeps rows as they are.

    Attributes:
        side: Which side.
        columns: Query columns wanted of each row of the batch, padded with any valid column.
        layers: The rows of each layer.
    """

    side: str
    columns: PendingUpload
    layers: list[Float[Tensor, "batch head row token"]] = field(
        default_factory=list[Float[Tensor, "batch head row token"]]
    )

    def read(self, rows: Float[Tensor, "batch head row token"]) -> None:
        """Keep the rows of the next layer."""
        self.layers.append(rows)


class Recorder:
    """Gives each reader its rows of every attention layer during one forward.

    Args:
        readers: What reads.
        side_of: From a module to the side of the model that it belongs to.
    """

    def __init__(self, readers: Sequence[AttentionReader], side_of: Callable[[Any], str]) -> None:
        self._readers = readers
        self._side_of = side_of
        self.layers = 0

    def record(
        self,
        module: Any,
        query: Float[Tensor, "batch head token d_head"],
        key: Float[Tensor, "batch key_head key d_head"],
        mask: Tensor | None,
        scaling: float | None,
        is_causal: bool,
        position_bias: Tensor | None,
    ) -> None:
        """Compute the rows of one layer.

        Raises:
            CaptureError: Queries and keys are not (batch, heads, tokens, width).
        """
        if query.ndim != 4 or key.ndim != 4 or query.shape[1] % key.shape[1]:
            raise _shape_error(module, query)
        self._read(
            module,
            query,
            lambda columns: attention_rows(query, key, mask, columns, scaling, is_causal, position_bias),
        )

    def take(self, module: Any, matrix: Float[Tensor, "batch head token key"]) -> None:
        """Pick the rows from a whole matrix, as eager attention makes them.

        Raises:
            CaptureError: The matrix is not (batch, heads, query, key).
        """
        if matrix.ndim != 4 or (self._side_of(module) != "cross" and matrix.shape[2] != matrix.shape[3]):
            raise _shape_error(module, matrix)
        self._read(module, matrix, lambda columns: pick_rows(matrix, columns).float())

    def _read(self, module: Any, matrix: Tensor, select_rows: Callable[[Tensor], Tensor]) -> None:
        """Give the readers of the module's side their rows of a layer, by their query columns."""
        self.layers += 1
        side = self._side_of(module)
        for reader in self._readers:
            if reader.side == side:
                columns = reader.columns.tensor
                if len(matrix) != len(columns):
                    raise _shape_error(module, matrix)
                # Of a model over several devices a layer computes elsewhere than what reads it.
                reader.read(select_rows(columns.to(matrix.device)).to(columns.device))


def _shape_error(module: Any, matrix: Tensor) -> CaptureError:
    shape = " x ".join(map(str, matrix.shape))
    return CaptureError(
        f"{type(module).__name__} attends in blocks of {shape}, not as (batch, heads, query, key); its "
        "attention cannot be read by query and key"
    )


_recorder: ContextVar[Recorder | None] = ContextVar("sonde_attention_recorder", default=None)


def attention_rows(
    query: Float[Tensor, "batch head token d_head"],
    key: Float[Tensor, "batch key_head key d_head"],
    mask: Tensor | None,
    columns: Int[Tensor, "batch row"],
    scaling: float | None = None,
    is_causal: bool = False,
    position_bias: Tensor | None = None,
) -> Float[Tensor, "batch head row key"]:
    """Compute the softmax probabilities of some query rows, in float32.

    Half-precision queries and keys are widened before they are multiplied: their products would be rounded to
    ties, and unscaled ones can overflow in float16.

    Args:
        query: Queries.
        key: Keys; fewer heads than the queries where heads share them.
        mask: None, bool (True = may attend) or additive; axes that are 1 are broadcast.
        columns: The query columns of each row of the batch.
        scaling: Factor of the scores; None means one over the root of ``d_head``.
        is_causal: Whether a missing mask means the triangle.
        position_bias: Added to the scores (T5).
    """
    groups = query.shape[1] // key.shape[1]
    keys = key.repeat_interleave(groups, dim=1) if groups > 1 else key
    factor = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (pick_rows(query, columns).float() @ keys.float().transpose(2, 3)) * factor
    axes = (len(query), -1, query.shape[2], -1)
    if position_bias is not None:
        scores = scores + pick_rows(position_bias.expand(axes), columns)
    if mask is None:
        if is_causal:
            is_later = torch.arange(keys.shape[2], device=columns.device) > columns[:, None, :, None]
            scores = scores.masked_fill(is_later, -torch.inf)
    else:
        rows = pick_rows(mask.expand(axes), columns)
        scores = scores.masked_fill(~rows, -torch.inf) if rows.dtype == torch.bool else scores + rows
    return scores.softmax(-1)


def pick_rows(
    matrix: Float[Tensor, "batch head token axis"], columns: Int[Tensor, "batch row"]
) -> Float[Tensor, "batch head row axis"]:
    """Take other query rows from each row of the batch."""
    index = columns[:, None, :, None].expand(-1, matrix.shape[1], -1, matrix.shape[3])
    return matrix.gather(2, index)


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend by PyTorch's fused attention, and record the rows on the side (`FUSED`)."""
    unknown = [name for name, value in kwargs.items() if not (value is None or isinstance(value, bool))]
    unknown = sorted({*unknown} - _UNSCORED)
    if unknown:
        raise CaptureError(f"{type(module).__name__}: fused attention has no {', '.join(unknown)}")
    recorder = _recorder.get()
    if recorder is not None:
        triangle = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
        recorder.record(module, query, key, attention_mask, scaling, triangle, position_bias)
    return sdpa_attention_forward(
        module,
        query,
        key,
        value,
        attention_mask,
        dropout=dropout,
        scaling=scaling,
        is_causal=is_causal,
        position_bias=position_bias,
        **kwargs,
    )


def _attend_in_float32(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    """Attend by the eager function beside the module's class, in float32 (`OWN`)."""
    eager = sys.modules[type(module).__module__].eager_attention_forward
    inputs = [_widen(tensor) for tensor in (query, key, value, attention_mask)]
    output, weights = eager(module, *inputs, **{name: _widen(value) for name, value in kwargs.items()})
    recorder = _recorder.get()
    if recorder is not None:
        recorder.take(module, weights)
    return output.to(query.dtype), None


def _widen(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value


class RecordableModel:
    """A model whose attention can be read.

    Args:
        loaded_model: The model, switched to the way.
        way: `FUSED`, `OWN` or `OUTPUTS`.
    """

    def __init__(self, loaded_model: LoadedModel, way: str) -> None:
        self._loaded = loaded_model
        self._way = way
        self._side_of = _side_finder(loaded_model)

    def read(self, readers: Sequence[AttentionReader], forward: Callable[..., Any]) -> Any:
        """Run one forward pass and read its attention.

        Args:
            readers: What reads.
            forward: Runs the model with the keywords that it is given.

        Returns:
            What the forward returns.

        Raises:
            CaptureError: No attention came.
        """
        recorder = Recorder(readers, self._side_of)
        options = {"output_attentions": True} if self._way == OUTPUTS else {}
        token = _recorder.set(recorder)
        try:
            output = forward(**options)
        finally:
            _recorder.reset(token)
        if self._way == OUTPUTS and not recorder.layers:
            for matrix in getattr(output, "attentions", None) or ():
                if matrix is not None:
                    recorder.take(self._loaded.model, matrix)
        if not recorder.layers:
            raise CaptureError(f"model {self._loaded.spec.name!r} returned no attention; use its states")
        return output


@contextmanager
def use_attention_backend(loaded_model: LoadedModel, way: str) -> Generator[RecordableModel]:
    """Switch a model to an attention that can be read, and back afterwards."""
    AttentionInterface.register(_NAMES[FUSED], _attend)
    AttentionMaskInterface.register(_NAMES[FUSED], ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    AttentionInterface.register(_NAMES[OWN], _attend_in_float32)
    AttentionMaskInterface.register(_NAMES[OWN], ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    hooks: list[Any] = []
    with use_attention_implementation(loaded_model.model, _NAMES[way]):
        try:
            if way == OUTPUTS:
                hooks += [
                    module.register_forward_hook(_record_weights)
                    for module in loaded_model.model.modules()
                    if "attention" in type(module).__name__.lower()
                ]
            yield RecordableModel(loaded_model, way)
        finally:
            for hook in hooks:
                hook.remove()


@contextmanager
def use_attention_implementation(model: Any, implementation: str) -> Generator[None]:
    """Give a model another implementation of its attention for a while."""
    previous = model.config._attn_implementation
    _set_implementation(model, implementation)
    try:
        yield
    finally:
        _set_implementation(model, previous)


def _set_implementation(model: Any, implementation: str) -> None:
    model.set_attn_implementation(implementation)
    if model.config._attn_implementation != implementation:
        # Models without the interface look at their configuration at every step, and only warn when asked.
        model.config._attn_implementation = implementation


def _side_finder(loaded_model: LoadedModel) -> Callable[[Any], str]:
    """Return what finds the side of a module; in models with two sides by the module's name."""
    kind = loaded_model.capabilities.kind
    if kind != "encoder-decoder":
        return lambda _: kind
    names = {id(module): name for name, module in loaded_model.model.named_modules()}

    def side(module: Any) -> str:
        parts = names[id(module)].lower().split(".")
        if "decoder" not in parts:
            return "encoder"
        return "cross" if any(part.startswith(_CROSS) for part in parts) else "decoder"

    return side


def _record_weights(module: Any, arguments: Any, output: Any) -> Any:
    """Forward hook: record the weights that eager attention hands up, and let go of them at once."""
    recorder = _recorder.get()
    if recorder is None or not isinstance(output, tuple):
        return None
    indices = [
        index for index, part in enumerate(output[1:], 1) if isinstance(part, Tensor) and part.ndim == 4
    ]
    if len(indices) != 1:
        return None
    (index,) = indices
    recorder.take(module, output[index])
    return (*output[:index], None, *output[index + 1 :])


HALF_DTYPES = (torch.float16, torch.bfloat16)


def can_upcast(model: nn.Module) -> bool:
    """Tell whether a model is held in half precision, and all of it where it computes."""
    weights = [*model.parameters()]
    return (
        any(weight.dtype in HALF_DTYPES for weight in weights)
        and all(weight.is_floating_point() for weight in weights)
        and all(weight.device.type != "meta" for weight in weights)
    )


@contextmanager
def use_float32(model: nn.Module) -> Generator[None]:
    """Widen the numbers of a model while it is used; those of a layer only while that layer computes.

    Widening and narrowing again changes no number, so the model is afterwards what it was.

    Args:
        model: One that `can_upcast`.
    """
    dtypes = {weight.dtype for weight in model.parameters()} & set(HALF_DTYPES)
    (dtype,) = dtypes
    layers = [*_iterate_layers(model)]
    layer_weights = {id(weight) for layer in layers for weight in _float_tensors(layer)}
    outer_weights = [weight for weight in _float_tensors(model) if id(weight) not in layer_weights]

    def widen(layer: nn.Module, *_: Any) -> None:
        _cast(_float_tensors(layer), dtype, torch.float32)

    def narrow(layer: nn.Module, *_: Any) -> None:
        _cast(
            (weight for weight in _float_tensors(layer) if id(weight) in half_weights), torch.float32, dtype
        )

    half_weights = {id(weight) for weight in _float_tensors(model) if weight.dtype == dtype}
    hooks = [layer.register_forward_pre_hook(widen) for layer in layers]
    hooks += [layer.register_forward_hook(narrow, always_call=True) for layer in layers]
    outer_half = [weight for weight in outer_weights if id(weight) in half_weights]
    _cast(outer_half, dtype, torch.float32)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        _cast(outer_half, torch.float32, dtype)
        for layer in layers:
            narrow(layer)


def _iterate_layers(module: nn.Module) -> Iterable[nn.Module]:
    """Yield the modules of the lists of a model, those of a list within another one not apart."""
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        else:
            yield from _iterate_layers(child)


def _float_tensors(module: nn.Module) -> Iterable[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _cast(weights: Iterable[Tensor], old: torch.dtype, new: torch.dtype) -> None:
    for weight in weights:
        if weight.dtype == old:
            weight.data = weight.data.to(new)


_LENGTHS = (24, 17)
"""Subwords of the rows of the trial, the shorter one padded where padding changes nothing."""


_Matrices = dict[str, list[list[Float[Tensor, "head query key"]]]]
"""Of each side and row, its layers' matrices."""


@dataclass(frozen=True, slots=True)
class AttentionTrial:
    """The way of reading a model's attention, and how exact it is.

    Attributes:
        way: `FUSED`, `OWN` or `OUTPUTS`.
        difference: Largest difference of a probability from what eager attention returns, in float32 where
            the model can be widened.
        rounding: How far a probability moves at most by half precision alone; None where it is not used.
    """

    way: str
    difference: float
    rounding: float | None = None


_found: WeakKeyDictionary[Any, AttentionTrial] = WeakKeyDictionary()


def describe_backend(loaded_model: LoadedModel) -> dict[str, str | float]:
    """Describe how a model's weights and attention were read."""
    trial = _found.get(loaded_model.model)
    dtype = str(loaded_model.model.dtype).removeprefix("torch.")
    facts: dict[str, str | float] = {"weights": dtype, **loaded_model.facts}
    if loaded_model.spec.dtype == TF32:
        facts["products"] = TF32
    facts |= describe_device(loaded_model.device)
    if trial is not None:
        facts |= {"attention": trial.way, "difference": trial.difference}
        facts |= {} if trial.rounding is None else {"rounding": trial.rounding}
    return facts


def describe_device(device: torch.device) -> dict[str, str]:
    """Describe a device, as far as PyTorch knows it."""
    if device.type == "cpu":
        return {"device": "cpu"}
    facts = {"device": str(device)}
    # Whoever built PyTorch without support for the device cannot ask it.
    with suppress(AssertionError, RuntimeError, AttributeError):
        facts["device_name"] = getattr(torch, device.type).get_device_name(device)
    if device.type == "cuda":
        facts["computing"] = (
            f"CUDA {torch.version.cuda}" if torch.version.cuda else f"HIP {torch.version.hip}"
        )
        if driver := _driver_version():
            facts["driver"] = driver
    return facts


@lru_cache(maxsize=1)
def _driver_version() -> str:
    """Read the version of NVIDIA's driver; empty where it is not given."""
    try:
        line = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError, UnicodeDecodeError):
        return ""
    numbers = [word for word in line.split() if word.count(".") and word.replace(".", "").isdigit()]
    return numbers[0] if numbers else ""


@contextmanager
def use_readable_attention(loaded_model: LoadedModel) -> Generator[RecordableModel]:
    """Switch a model to an attention that can be read, and back afterwards; the first time after a trial.

    Raises:
        CaptureError: The model gives no attention, or none that equals eager attention.
    """
    with use_attention_backend(loaded_model, _get_trial(loaded_model).way) as model:
        yield model


def unreadable_reason(loaded_model: LoadedModel) -> str:
    """Return why no attention of a model can be read; empty where it can."""
    try:
        _get_trial(loaded_model)
    except _RefusedError as error:
        return error.reason
    return ""


def _get_trial(loaded_model: LoadedModel) -> AttentionTrial:
    trial = _found.get(loaded_model.model)
    if trial is None:
        trial = _found[loaded_model.model] = _run_trial(loaded_model)
    return trial


@torch.inference_mode()
def _run_trial(loaded_model: LoadedModel) -> AttentionTrial:
    """Find the first way whose rows are those of eager attention.

    Half precision rounds either way by itself, and a deep model carries that on: of a trained one the rows of
    eager attention alone move by up to some tenths. So the ways are compared with it in float32, and how far
    half precision moves the rows is told apart.
    """
    support = loaded_model.capabilities.attention
    if support not in ("interface", "eager"):
        raise _RefusedError(loaded_model, "it has none")
    lengths = _LENGTHS if loaded_model.takes_padding else _LENGTHS[:1] * 2
    rows = make_rows(loaded_model, lengths[:1] if loaded_model.alone else lengths)
    ways = (FUSED, OWN, OUTPUTS) if support == "interface" else (OUTPUTS,)
    if not can_upcast(loaded_model.model):
        return _compare_backends(loaded_model, rows, ways)[0]
    with use_float32(loaded_model.model):
        trial, exact = _compare_backends(loaded_model, rows, ways)
    half_matrices, _ = _record_matrices(loaded_model, rows, trial.way)
    return dataclasses.replace(trial, rounding=_largest_difference(half_matrices, exact))


def _compare_backends(
    loaded_model: LoadedModel, rows: Sequence[list[int]], ways: Sequence[str]
) -> tuple[AttentionTrial, _Matrices]:
    """Check each way against eager attention, in the precision that the model has now.

    Raises:
        CaptureError: None equals it.
    """
    states_before = [output.last_hidden_state for output in forward_rows(loaded_model, rows)]
    expected = _eager_matrices(loaded_model, rows)
    reason = ""
    for way in ways:
        try:
            matrices, states = _record_matrices(loaded_model, rows, way)
        except Exception as error:
            # Whatever a model's own code raises under another attention: this way is not open.
            reason = reason or " ".join(str(error).split())
            continue
        difference = _largest_difference(matrices, expected)
        if max(difference, _largest_state_change(states, states_before, rows)) <= rounding_tolerance(
            loaded_model
        ):
            return AttentionTrial(way, difference), expected
        reason = reason or f"its attention differs from eager attention by {difference:.2g}"
    raise _RefusedError(loaded_model, reason)


class _RefusedError(CaptureError):
    """No attention of a model can be read."""

    def __init__(self, loaded_model: LoadedModel, reason: str) -> None:
        self.reason = reason[:200]
        super().__init__(
            f"model {loaded_model.spec.name!r} gives no attention rows: {self.reason}; use its states instead"
        )


def _eager_matrices(loaded_model: LoadedModel, rows: Sequence[list[int]]) -> _Matrices:
    """Return the matrices that transformers gives with eager attention, each row alone.

    Raises:
        CaptureError: It returns none, or none by query and key.
    """
    matrices: _Matrices = {side: [] for side in _sides(loaded_model)}
    for row in rows:
        with use_attention_implementation(loaded_model.model, "eager"):
            outputs = forward_rows(loaded_model, [row], output_attentions=True)
        for side, side_matrices in matrices.items():
            output = outputs[-1 if side in ("decoder", "cross") else 0]
            attentions = getattr(output, "cross_attentions" if side == "cross" else "attentions", None)
            layers = [layer for layer in attentions or () if layer is not None]
            if not layers:
                raise _RefusedError(loaded_model, "transformers returns none even with eager attention")
            size = len(row)
            wrong = [layer.shape for layer in layers if layer.ndim != 4 or layer.shape[2:] != (size, size)]
            if wrong:
                shape = " x ".join(map(str, wrong[0]))
                raise _RefusedError(
                    loaded_model, f"a layer's are {shape} for {size} tokens, not by query and key"
                )
            side_matrices.append([layer[0].float() for layer in layers])
    return matrices


def _record_matrices(
    loaded_model: LoadedModel, rows: Sequence[list[int]], way: str
) -> tuple[_Matrices, list[Tensor]]:
    """Read the matrices of one batch of all rows, and the last states of each side."""
    width = max(map(len, rows))
    upload = Upload(loaded_model.device)
    columns = upload.add(np.tile(np.arange(width), (len(rows), 1)))
    upload.send()
    readers = {side: RowReader(side, columns) for side in _sides(loaded_model)}
    outputs: list[Any] = []

    def run(**options: bool) -> Any:
        outputs.extend(forward_rows(loaded_model, rows, **options))
        return outputs[0]

    with use_attention_backend(loaded_model, way) as model:
        model.read([*readers.values()], run)
    matrices: _Matrices = {
        side: [
            [layer[index, :, : len(row), : len(row)] for layer in reader.layers]
            for index, row in enumerate(rows)
        ]
        for side, reader in readers.items()
    }
    return matrices, [output.last_hidden_state for output in outputs]


def _sides(loaded_model: LoadedModel) -> tuple[str, ...]:
    kind = loaded_model.capabilities.kind
    return SIDES if kind == "encoder-decoder" else (kind,)


def _largest_difference(actual: _Matrices, expected: _Matrices) -> float:
    """Return the largest difference of a probability; infinite where shapes differ."""
    worst = 0.0
    for side, rows in expected.items():
        for actual_layers, expected_layers in zip(actual[side], rows, strict=True):
            if [layer.shape for layer in actual_layers] != [layer.shape for layer in expected_layers]:
                return math.inf
            worst = max(
                worst,
                *(
                    _finite_maximum(first - second)
                    for first, second in zip(actual_layers, expected_layers, strict=True)
                ),
            )
    return worst


def _largest_state_change(
    states: Sequence[Tensor], states_before: Sequence[Tensor], rows: Sequence[list[int]]
) -> float:
    """Return the largest change of a last state by the way of reading, on any side."""
    return max(
        largest_change(state[index, : len(row)], state_before[index, : len(row)])
        for state, state_before in zip(states, states_before, strict=True)
        for index, row in enumerate(rows)
    )


def _finite_maximum(values: Tensor) -> float:
    maximum = float(values.abs().max())
    return math.inf if math.isnan(maximum) else maximum
