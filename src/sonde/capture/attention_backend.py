"""Selection of a method to read a model's attention, and float32 arithmetic for half-precision models.

Each method is tried on a small batch and compared with eager attention. A model in half precision can be
computed in float32 for a while.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sonde.base.errors import CaptureError
from sonde.capture.attention import (
    FUSED,
    OUTPUTS,
    OWN,
    SIDES,
    RecordableModel,
    RowReader,
    use_attention_backend,
    use_attention_implementation,
)
from sonde.models import LoadedModel
from sonde.models.engine.trial_batches import forward_rows, largest_change, make_rows, rounding_tolerance
from sonde.models.engine.weights import TF32

HALF = (torch.float16, torch.bfloat16)


def can_upcast(model: nn.Module) -> bool:
    """Tell whether a model is held in half precision, and all of it where it computes."""
    weights = [*model.parameters()]
    return (
        any(weight.dtype in HALF for weight in weights)
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
    dtypes = {weight.dtype for weight in model.parameters()} & set(HALF)
    (dtype,) = dtypes
    layers = [*_iterate_layers(model)]
    within = {id(weight) for layer in layers for weight in _float_tensors(layer)}
    around = [weight for weight in _float_tensors(model) if id(weight) not in within]

    def widen(layer: nn.Module, *_: Any) -> None:
        _cast(_float_tensors(layer), dtype, torch.float32)

    def narrow(layer: nn.Module, *_: Any) -> None:
        _cast((one for one in _float_tensors(layer) if id(one) in narrowed), torch.float32, dtype)

    narrowed = {id(weight) for weight in _float_tensors(model) if weight.dtype == dtype}
    hooks = [layer.register_forward_pre_hook(widen) for layer in layers]
    hooks += [layer.register_forward_hook(narrow, always_call=True) for layer in layers]
    held = [weight for weight in around if id(weight) in narrowed]
    _cast(held, dtype, torch.float32)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        _cast(held, torch.float32, dtype)
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
    """How a model's attention is read.

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


def describe_backend(loaded: LoadedModel) -> dict[str, str | float]:
    """How a model's weights were read, and how near to eager attention its attention was."""
    trial = _found.get(loaded.model)
    dtype = str(loaded.model.dtype).removeprefix("torch.")
    found: dict[str, str | float] = {"weights": dtype, **loaded.facts}
    if loaded.spec.dtype == TF32:
        found["products"] = TF32
    found |= describe_device(loaded.device)
    if trial is not None:
        found |= {"attention": trial.way, "difference": trial.difference}
        found |= {} if trial.rounding is None else {"rounding": trial.rounding}
    return found


def describe_device(device: torch.device) -> dict[str, str]:
    """What a device is, as far as PyTorch knows: of an accelerator its name and what it computes by."""
    if device.type == "cpu":
        return {"device": "cpu"}
    found = {"device": str(device)}
    # Whoever built PyTorch without support for the device cannot ask it.
    with suppress(AssertionError, RuntimeError, AttributeError):
        found["device_name"] = getattr(torch, device.type).get_device_name(device)
    if device.type == "cuda":
        found["computing"] = (
            f"CUDA {torch.version.cuda}" if torch.version.cuda else f"HIP {torch.version.hip}"
        )
        if driver := _driver_version():
            found["driver"] = driver
    return found


@lru_cache(maxsize=1)
def _driver_version() -> str:
    """Version of the driver of NVIDIA's devices; empty where it does not say."""
    try:
        line = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError, UnicodeDecodeError):
        return ""
    numbers = [word for word in line.split() if word.count(".") and word.replace(".", "").isdigit()]
    return numbers[0] if numbers else ""


@contextmanager
def use_readable_attention(loaded: LoadedModel) -> Generator[RecordableModel]:
    """Switch a model to an attention that can be read, and back afterwards; the first time after a trial.

    Raises:
        CaptureError: The model gives no attention, or none that equals eager attention.
    """
    with use_attention_backend(loaded, _get_trial(loaded).way) as one:
        yield one


def unreadable_reason(loaded: LoadedModel) -> str:
    """Why no attention of a model can be read; empty where it can."""
    try:
        _get_trial(loaded)
    except _RefusedError as refused:
        return refused.reason
    return ""


def _get_trial(loaded: LoadedModel) -> AttentionTrial:
    trial = _found.get(loaded.model)
    if trial is None:
        trial = _found[loaded.model] = _run_trial(loaded)
    return trial


@torch.inference_mode()
def _run_trial(loaded: LoadedModel) -> AttentionTrial:
    """Find the first way whose rows are those of eager attention.

    Half precision rounds either way by itself, and a deep model carries that on: of a trained one the rows of
    eager attention alone move by up to some tenths. So the ways are held against it in float32, and how far
    half precision moves the rows is told apart.
    """
    how = loaded.capabilities.attention
    if how not in ("interface", "eager"):
        raise _RefusedError(loaded, "it has none")
    together = _LENGTHS if loaded.takes_padding else _LENGTHS[:1] * 2
    rows = make_rows(loaded, together[:1] if loaded.alone else together)
    ways = (FUSED, OWN, OUTPUTS) if how == "interface" else (OUTPUTS,)
    if not can_upcast(loaded.model):
        return _compare_backends(loaded, rows, ways)[0]
    with use_float32(loaded.model):
        trial, exact = _compare_backends(loaded, rows, ways)
    rounded, _ = _record_matrices(loaded, rows, trial.way)
    return dataclasses.replace(trial, rounding=_largest_difference(rounded, exact))


def _compare_backends(
    loaded: LoadedModel, rows: Sequence[list[int]], ways: Sequence[str]
) -> tuple[AttentionTrial, _Matrices]:
    """Hold each way against eager attention, in the precision that the model has now.

    Raises:
        CaptureError: None equals it.
    """
    usual = [one.last_hidden_state for one in forward_rows(loaded, rows)]
    expected = _eager_matrices(loaded, rows)
    reason = ""
    for way in ways:
        try:
            found, states = _record_matrices(loaded, rows, way)
        except Exception as error:
            # Whatever a model's own code raises under another attention: this way is not open.
            reason = reason or " ".join(str(error).split())
            continue
        difference = _largest_difference(found, expected)
        if max(difference, _largest_state_change(states, usual, rows)) <= rounding_tolerance(loaded):
            return AttentionTrial(way, difference), expected
        reason = reason or f"what is read differs from eager attention by {difference:.2g}"
    raise _RefusedError(loaded, reason)


class _RefusedError(CaptureError):
    """No attention of a model can be read."""

    def __init__(self, loaded: LoadedModel, reason: str) -> None:
        self.reason = reason[:200]
        super().__init__(
            f"model {loaded.spec.name!r} gives no attention rows: {self.reason}; ask for states instead"
        )


def _eager_matrices(loaded: LoadedModel, rows: Sequence[list[int]]) -> _Matrices:
    """The matrices that transformers itself returns with eager attention, each row alone.

    Raises:
        CaptureError: It returns none, or none by query and key.
    """
    found: _Matrices = {side: [] for side in _sides(loaded)}
    for row in rows:
        with use_attention_implementation(loaded.model, "eager"):
            outputs = forward_rows(loaded, [row], output_attentions=True)
        for side, into in found.items():
            output = outputs[-1 if side in ("decoder", "cross") else 0]
            given = getattr(output, "cross_attentions" if side == "cross" else "attentions", None)
            layers = [one for one in given or () if one is not None]
            if not layers:
                raise _RefusedError(loaded, "transformers returns none even with eager attention")
            size = len(row)
            wrong = [one.shape for one in layers if one.ndim != 4 or one.shape[2:] != (size, size)]
            if wrong:
                shape = " x ".join(map(str, wrong[0]))
                raise _RefusedError(loaded, f"a layer's are {shape} for {size} tokens, not by query and key")
            into.append([one[0].float() for one in layers])
    return found


def _record_matrices(
    loaded: LoadedModel, rows: Sequence[list[int]], way: str
) -> tuple[_Matrices, list[Tensor]]:
    """The matrices that are read from one batch of all rows, and the last states of each side."""
    width = max(map(len, rows))
    device = loaded.device
    readers = {
        side: RowReader(side, torch.arange(width, device=device).expand(len(rows), -1))
        for side in _sides(loaded)
    }
    held: list[Any] = []

    def run(**more: bool) -> Any:
        held.extend(forward_rows(loaded, rows, **more))
        return held[0]

    with use_attention_backend(loaded, way) as one:
        one.read([*readers.values()], run)
    found: _Matrices = {
        side: [
            [layer[at, :, : len(row), : len(row)] for layer in reader.layers] for at, row in enumerate(rows)
        ]
        for side, reader in readers.items()
    }
    return found, [one.last_hidden_state for one in held]


def _sides(loaded: LoadedModel) -> tuple[str, ...]:
    kind = loaded.capabilities.kind
    return SIDES if kind == "encoder-decoder" else (kind,)


def _largest_difference(found: _Matrices, expected: _Matrices) -> float:
    """Largest difference of a probability; infinite where layers or heads are not the same."""
    worst = 0.0
    for side, rows in expected.items():
        for mine, theirs in zip(found[side], rows, strict=True):
            if [one.shape for one in mine] != [one.shape for one in theirs]:
                return math.inf
            worst = max(
                worst, *(_finite_maximum(one - other) for one, other in zip(mine, theirs, strict=True))
            )
    return worst


def _largest_state_change(
    states: Sequence[Tensor], usual: Sequence[Tensor], rows: Sequence[list[int]]
) -> float:
    """Largest change of a last state by the way of reading, on any side."""
    return max(
        largest_change(mine[at, : len(row)], theirs[at, : len(row)])
        for mine, theirs in zip(states, usual, strict=True)
        for at, row in enumerate(rows)
    )


def _finite_maximum(values: Tensor) -> float:
    most = float(values.abs().max())
    return math.inf if math.isnan(most) else most
