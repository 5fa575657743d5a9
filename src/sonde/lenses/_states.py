"""Hidden states in tables of observations: half precision with a scale a layer; and places in subwords."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from sonde.alignment.spans import Subwords
from sonde.base.errors import CaptureError, not_finite

_TOP_EXPONENT = 14  # the largest number of a layer lies in [2^13, 2^14), well inside half precision


def subwords_of(
    places: Sequence[tuple[int, int]], subwords: Subwords
) -> tuple[Int[np.ndarray, " place"], Int[np.ndarray, " place"]]:
    """Subwords that share a character with each place, as a half-open interval; empty where none does."""
    start, end = np.array(places, dtype=np.int64).reshape(-1, 2).T
    first = np.searchsorted(subwords.end, start, side="right")
    stop = np.searchsorted(subwords.start, end, side="left")
    return first, np.maximum(first, stop)


def pack(
    states: Float[np.ndarray, "row layer d_model"], names: Sequence[str]
) -> tuple[list[bytes], Float[np.ndarray, "row layer"]]:
    """States in half precision, with a power of two a layer that makes them fit.

    Raises:
        CaptureError: A state is infinite or NaN.
    """
    largest = np.abs(states).max(axis=2)
    if not np.isfinite(largest).all():
        row, layer = np.argwhere(~np.isfinite(largest))[0].tolist()
        raise CaptureError(f"item {names[row]}: a state of layer {layer} is not finite; {not_finite()}")
    _, exponent = np.frexp(largest)
    scale = np.ldexp(np.ones_like(largest, dtype=np.float32), exponent - _TOP_EXPONENT)
    half = (states / scale[..., None]).astype(np.float16)
    return [row.tobytes() for row in half], scale


def unpack(
    packed: Sequence[bytes], scale: Float[np.ndarray, "row layer"]
) -> Float[np.ndarray, "layer row d_model"]:
    """States as float32, layer by layer; one copy of them at a time is held."""
    layers = scale.shape[1]
    half = np.frombuffer(b"".join(packed), dtype=np.float16).reshape(len(packed), layers, -1)
    states = np.empty((layers, len(packed), half.shape[2]), dtype=np.float32)
    for layer in range(layers):
        np.multiply(half[:, layer], scale[:, layer, None], out=states[layer])
    return states
