"""Hidden states of a batch, summed over segments of its rows where the model is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sonde.base.errors import CaptureError, InputError
from sonde.capture.scoring import pool_states, segment_mask
from sonde.capture.tensors import Download, PendingDownload, Upload


class PooledStates:
    """The sums that are asked of one batch.

    Args:
        bounds: Segments of each row, half-open columns; `sonde.capture.collect.state_segments` gives them.
        layers: The layers that each row asks for; None for all, no layer where it asks for nothing.
        upload: Takes the bounds to where the model is.
        model: What to call the model.
        what: What to call a layer of it.
    """

    def __init__(
        self,
        bounds: Sequence[Sequence[tuple[int, int]]],
        layers: Sequence[tuple[int, ...] | None],
        upload: Upload,
        model: str,
        what: str = "layer",
    ) -> None:
        self._asked = layers
        self._model = model
        self._what = what
        self._counts = [len(one) for one in bounds]
        sides = np.zeros((2, len(bounds), max(self._counts, default=0)), dtype=np.int64)
        for row, spans in enumerate(bounds):
            if spans:
                sides[:, row, : len(spans)] = np.array(spans, dtype=np.int64).T
        self._sides = upload.add(sides) if self.has_requests else None
        self._layers: list[int] = []
        self._fetched: PendingDownload | None = None

    @property
    def has_requests(self) -> bool:
        """Whether any row asks for states."""
        return any(one is None or one for one in self._asked)

    def hand_in(self, states: Sequence[Tensor | None] | None, download: Download) -> None:
        """Sum the states of the layers that are asked for, and have them fetched.

        Args:
            states: What the model returned, a layer each.
            download: Fetches the sums.

        Raises:
            CaptureError: The model returned no states, or not one vector a subword.
            InputError: A layer is asked for that the model does not have.
        """
        if self._sides is None:
            return
        start, stop = self._sides.tensor
        held = subword_vectors(states, len(start), self._model)
        self._layers = select_layers(self._asked, len(held), self._what, self._model)
        within = segment_mask(start, stop, held[0].shape[1])
        self._fetched = download.add(
            torch.stack([pool_states(held[layer].to(within.device), within) for layer in self._layers])
        )

    def results(self) -> list[Float[np.ndarray, "layer segment d_model"] | None]:
        """The sums of each row, once they were fetched."""
        if self._fetched is None:
            return [None] * len(self._asked)
        sums = self._fetched.array.astype(np.float64)
        places = {layer: at for at, layer in enumerate(self._layers)}
        return [
            sums[[*places.values()] if one is None else [places[layer] for layer in one], row, :count]
            if one is None or one
            else None
            for row, (one, count) in enumerate(zip(self._asked, self._counts, strict=True))
        ]

    def first_non_finite(self) -> tuple[int, int] | None:
        """The first row and layer whose sums are not finite; None where all are."""
        if self._fetched is None or np.isfinite(self._fetched.array).all():
            return None
        finite = np.asarray(np.isfinite(self._fetched.array).all(axis=(2, 3)))
        for row, one in enumerate(self._asked):
            for place, layer in enumerate(self._layers):
                if (one is None or layer in one) and not finite[place, row]:
                    return row, layer
        return None


def select_layers(asked: Sequence[tuple[int, ...] | None], count: int, what: str, model: str) -> list[int]:
    """The layers that any row asks for.

    Raises:
        InputError: A layer that the model does not have.
    """
    found = sorted({layer for one in asked for layer in (range(count) if one is None else one)})
    for layer in found:
        if not 0 <= layer < count:
            raise InputError(f"model {model!r} has no {what} {layer}; it has 0 to {count - 1}")
    return found


def subword_vectors(states: Sequence[Tensor | None] | None, rows: int, model: str) -> list[Tensor]:
    """The states of all layers, one vector a subword."""
    held = [one for one in states or () if one is not None]
    if not held or len(held) < len(states or ()):
        raise CaptureError(f"model {model!r} returned no hidden states though asked for them")
    shapes = [tuple(one.shape) for one in held]
    odd = [shape for shape in shapes if len(shape) != 3 or shape[:2] != shapes[0][:2]]
    if odd or shapes[0][0] != rows:
        raise CaptureError(
            f"model {model!r}: its hidden states are {' x '.join(map(str, (odd or shapes)[0]))}, "
            "not one vector a subword; ask for losses instead"
        )
    return held
