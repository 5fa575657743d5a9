"""Sizes of a model's weights: bytes and bits a weight, from the headers of its files."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sonde.base.errors import SondeError
from sonde.models.engine.family import ModelSpec
from sonde.models.engine.files import Tensor, gguf_file, takes_texts
from sonde.models.engine.locate import local_headers

_BYTES_A_WEIGHT = {"8bit": 1.0, "4bit": 0.5 + 4 / 64}
"""Of bitsandbytes: whole numbers of 8 bits, or of 4 with a float32 for each block of 64."""


_UNQUANTISED = ("embed", "wte", "wpe", "lm_head", "output")
"""Parts of the names of matrices that bitsandbytes leaves as they are: embeddings and the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """Size of a model's weights.

    Attributes:
        weights: Numbers.
        bytes: What they take: the GGUF file as it is, else the tensors of the files. Where bitsandbytes
            quantises them while they are read, what they take then.
    """

    weights: int
    bytes: int

    @property
    def bits_per_weight(self) -> float:
        """Return the mean bits of a weight."""
        return 8 * self.bytes / self.weights


def measure_size(spec: ModelSpec) -> ModelSize | None:
    """Measure the weights of a model; None where no headers of its files are on this machine."""
    if takes_texts(spec):
        return None
    try:
        tensors = local_headers(spec)
        file = gguf_file(spec)
    except (SondeError, OSError):
        return None
    weights = sum(math.prod(tensor.shape) for tensor in tensors.values())
    if not weights:
        return None
    if file is not None:
        return ModelSize(weights=weights, bytes=file.stat().st_size)
    size = sum(_count_bytes(name, tensor, spec) for name, tensor in tensors.items())
    return ModelSize(weights=weights, bytes=round(size))


def _count_bytes(name: str, tensor: Tensor, spec: ModelSpec) -> float:
    """Count the bytes of a tensor, quantised where it is a matrix of a linear layer."""
    factor = _BYTES_A_WEIGHT.get(spec.quantise)
    if factor is None or len(tensor.shape) != 2 or any(part in name for part in _UNQUANTISED):
        return tensor.bytes
    scales = 4 * tensor.shape[0] if spec.quantise == "8bit" else 0
    return math.prod(tensor.shape) * factor + scales
