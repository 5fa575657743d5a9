"""Attribution patching: what putting one state in the place of another would do, from its gradient.

Two inputs that are cut alike, one in which an id is right and one in which another is, are read side by side,
and the gradient of what the two ids differ by is taken at every state of both: one forward and one backward
of a pair give all layers and positions (Nanda 2023; Kramar et al. 2024). It is a linear guess; what really
happens is seen with `sonde.capture.interventions.Put`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.base.errors import CaptureError, not_finite
from sonde.capture.batches import compose
from sonde.capture.hooks import Hooks, reading_side
from sonde.capture.requests import Prepared
from sonde.capture.row import Row
from sonde.capture.rows import RowCutter
from sonde.capture.settings import CaptureSettings
from sonde.capture.tensors import BatchTokens
from sonde.capture.transfer import Upload
from sonde.capture.union import Input, MergedRequests, Shape
from sonde.models import LoadedModel
from sonde.models._heads import body_and_head

_CPU_BUDGET, _ACCELERATOR_BUDGET = 2048, 16384
"""Padded tokens of a batch, both inputs of a pair counted; a graph of all states is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """Two inputs whose subwords stand at the same positions, and the two ids that they are told by.

    Attributes:
        clean: The input in which the id that stands at the target is right.
        corrupt: The input in which the other is.
        target: Position of the subword that is asked for.
        other: The other id.
        cells: The subwords of each cell, whose effects are added up.
        masked: Positions that an encoder sees a mask at; the target is one of them.
    """

    clean: Prepared
    corrupt: Prepared
    target: int
    other: int
    cells: Bool[np.ndarray, "cell subword"]
    masked: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Attributed:
    """What gradients say of one contrast; logits of the right id less those of the other one.

    Attributes:
        clean: Margin of the clean input.
        corrupt: Margin of the corrupt one.
        denoising: By how much the corrupt margin would change if the clean states were put there.
        noising: By how much the clean margin would change if the corrupt states were put there.
    """

    clean: float
    corrupt: float
    denoising: Float[np.ndarray, "layer cell"]
    noising: Float[np.ndarray, "layer cell"]


def attribute(
    loaded: LoadedModel, contrasts: Sequence[Contrast], *, settings: CaptureSettings | None = None
) -> list[Attributed | None]:
    """Attribute the margins of contrasts to the states behind every layer, 0 the embeddings.

    Args:
        loaded: A decoder, or an encoder with masks.
        contrasts: What is asked.
        settings: How inputs are cut.

    Returns:
        An answer a contrast, in the order given; None for one that the model cannot read at once.

    Raises:
        CaptureError: A margin or a gradient is not finite.
        InputError: The model masks nothing, or has no such position.
    """
    cutter = RowCutter(loaded, settings or CaptureSettings())
    pairs = [_rows(cutter, at, one) for at, one in enumerate(contrasts)]
    whole = [at for at, pair in enumerate(pairs) if pair is not None]
    rows = {at: pair for at, pair in enumerate(pairs) if pair is not None}
    budget = _CPU_BUDGET if loaded.device.type == "cpu" else _ACCELERATOR_BUDGET
    lengths = [2 * rows[at][0].size for at in whole]
    reader = _Reader(loaded)
    found: list[Attributed | None] = [None] * len(contrasts)
    for batch in compose(lengths, [contrasts[at].clean.item.item_id for at in whole], budget):
        mine = [whole[place] for place in batch]
        answers = reader.read([rows[at] for at in mine], [contrasts[at] for at in mine])
        for at, answer in zip(mine, answers, strict=True):
            found[at] = answer
    return found


def _rows(cutter: RowCutter, source: int, contrast: Contrast) -> tuple[Row, Row] | None:
    """Both inputs as rows; None where one is cut into windows."""
    wanted = MergedRequests(depth=((contrast.target, contrast.other),))
    asked = Input(source, Shape(masked=contrast.masked), wanted)
    clean, corrupt = (cutter.rows(source, asked, one) for one in (contrast.clean, contrast.corrupt))
    if len(clean) != 1 or len(corrupt) != 1 or len(clean[0].tokens) != len(corrupt[0].tokens):
        return None
    return clean[0], corrupt[0]


class _Reader:
    """Reads batches of pairs with gradients."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._body, head = body_and_head(loaded)
        self._head = head.widened()
        self._hooks = Hooks(loaded)
        self._side = reading_side(loaded)
        self._layers = len(self._hooks.side("").layers) + 1

    @torch.enable_grad()
    def read(self, pairs: Sequence[tuple[Row, Row]], contrasts: Sequence[Contrast]) -> list[Attributed]:
        """The answers of one batch: the clean rows come first, the corrupt ones behind them."""
        rows = [*(clean for clean, _ in pairs), *(corrupt for _, corrupt in pairs)]
        loaded, upload = self._loaded, Upload(self._loaded.device)
        tokens = BatchTokens(rows, loaded.capabilities.kind, loaded.special.pad, upload)
        upload.send()
        arguments = tokens.arguments()
        width = arguments["input_ids"].shape[1]
        held: dict[int, Tensor] = {}
        with self._hooks.placed(
            {(self._side, "residual", layer): [_kept(held, layer)] for layer in range(self._layers)}
        ):
            last = self._body(**arguments).last_hidden_state
        query = torch.tensor([int(row.query[0]) for row in rows], device=last.device)
        logits = self._head(last[torch.arange(len(rows), device=last.device), query]).float()
        margins = logits.gather(1, self._ids(rows, contrasts).to(logits.device))
        margins = margins[:, 0] - margins[:, 1]
        states = [held[layer] for layer in range(self._layers)]
        gradients = torch.autograd.grad(margins.sum(), states)
        belongs = self._cells(rows[: len(pairs)], contrasts, width)
        found = torch.stack(
            [_effects(state, grad, belongs) for state, grad in zip(states, gradients, strict=True)], 1
        )
        if not (found.isfinite().all() and margins.isfinite().all()):
            raise CaptureError(
                f"model {self._loaded.spec.name!r}: a gradient is not finite; "
                f"{not_finite(self._loaded.model.dtype)}"
            )
        clean, corrupt = margins.detach().cpu().numpy().reshape(2, -1)
        effects = found.cpu().numpy()
        return [
            Attributed(float(clean[at]), float(corrupt[at]), effects[0, :, at], effects[1, :, at])
            for at in range(len(pairs))
        ]

    def _ids(self, rows: Sequence[Row], contrasts: Sequence[Contrast]) -> Int[Tensor, "row 2"]:
        others = [one.other for one in contrasts] * 2
        return torch.tensor([[int(row.gold[0]), other] for row, other in zip(rows, others, strict=True)])

    def _cells(
        self, rows: Sequence[Row], contrasts: Sequence[Contrast], width: int
    ) -> Float[Tensor, "pair token cell"]:
        """Which column belongs to which cell; special tokens and padding to none."""
        belongs = np.zeros((len(rows), width, len(contrasts[0].cells)), dtype=np.float32)
        for at, (row, contrast) in enumerate(zip(rows, contrasts, strict=True)):
            subwords = contrast.cells.shape[1]
            places = row.places(subwords, self._side, len(self._loaded.special.suffix))
            columns = np.flatnonzero((places >= 0) & (places < subwords))
            belongs[at, columns] = contrast.cells[:, places[columns]].T
        return torch.from_numpy(belongs)


def _kept(held: dict[int, Tensor], layer: int) -> Callable[[Tensor], Tensor]:
    """Keep the states of a layer; the graph begins at the embeddings, whatever the weights ask for."""

    def keep(states: Tensor) -> Tensor:
        held[layer] = states if layer else states.detach().requires_grad_(True)
        return held[layer]

    return keep


@torch.no_grad()
def _effects(
    states: Float[Tensor, "row token d_model"],
    gradient: Float[Tensor, "row token d_model"],
    belongs: Float[Tensor, "pair token cell"],
) -> Float[Tensor, "2 pair cell"]:
    """Denoising and noising of one layer: how the states differ, along the gradient of what is changed."""
    clean, corrupt = states.float().chunk(2)
    at_clean, at_corrupt = gradient.float().chunk(2)
    along = torch.stack([((clean - corrupt) * at_corrupt).sum(2), ((corrupt - clean) * at_clean).sum(2)])
    return torch.einsum("spt,ptc->spc", along, belongs.to(along.device))
