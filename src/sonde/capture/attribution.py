"""Attribution patching: the effect of replacing states, estimated by gradients over aligned pairs.

Two inputs with the same subword boundaries are read together; one id is correct in the first input and
another id in the second. The gradient of the difference between the two ids is taken at every state of both:
one forward and one backward pass per pair give all layers and positions (Nanda 2023; Kramar et al. 2024). It
is a linear approximation; the actual effect is measured with `sonde.capture.interventions.Put`.

Pairs of texts are aligned here too: which pairs a model splits into subwords alike, and the role of each
subword with respect to the queried place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.alignment import Subwords, encode
from sonde.base.errors import CaptureError, explain_nan
from sonde.capture.hooks import ModelHooks, text_side
from sonde.capture.interventions import OTHER, PLACE, Span, TextPair
from sonde.capture.merge_requests import InputShape, InputVariant, MergedRequests
from sonde.capture.requests import InputLayers, Prepared
from sonde.capture.settings import CaptureSettings
from sonde.capture.tensors import BatchTokens, Upload
from sonde.capture.windows import Row, RowCutter, batch_by_length
from sonde.models import LoadedModel
from sonde.models.engine.lm_head import body_and_head

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
class Attribution:
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
) -> list[Attribution | None]:
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
    pairs = [_cut_pair(cutter, at, one) for at, one in enumerate(contrasts)]
    whole = [at for at, pair in enumerate(pairs) if pair is not None]
    rows = {at: pair for at, pair in enumerate(pairs) if pair is not None}
    budget = _CPU_BUDGET if loaded.device.type == "cpu" else _ACCELERATOR_BUDGET
    lengths = [2 * rows[at][0].size for at in whole]
    reader = _Reader(loaded)
    found: list[Attribution | None] = [None] * len(contrasts)
    for batch in batch_by_length(lengths, [contrasts[at].clean.item.item_id for at in whole], budget):
        mine = [whole[place] for place in batch]
        answers = reader.read([rows[at] for at in mine], [contrasts[at] for at in mine])
        for at, answer in zip(mine, answers, strict=True):
            found[at] = answer
    return found


def _cut_pair(cutter: RowCutter, source: int, contrast: Contrast) -> tuple[Row, Row] | None:
    """Both inputs as rows; None where one is cut into windows."""
    wanted = MergedRequests((InputLayers(((contrast.target, contrast.other),)),))
    asked = InputVariant(source, InputShape(masked=contrast.masked), wanted)
    clean, corrupt = (cutter.rows(source, asked, one) for one in (contrast.clean, contrast.corrupt))
    if len(clean) != 1 or len(corrupt) != 1 or len(clean[0].tokens) != len(corrupt[0].tokens):
        return None
    return clean[0], corrupt[0]


class _Reader:
    """Reads batches of pairs with gradients."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._body, head = body_and_head(loaded)
        self._head = head.to_float32()
        self._hooks = ModelHooks(loaded)
        self._side = text_side(loaded)
        self._layers = len(self._hooks.side("").layers) + 1

    @torch.enable_grad()
    def read(self, pairs: Sequence[tuple[Row, Row]], contrasts: Sequence[Contrast]) -> list[Attribution]:
        """The answers of one batch: the clean rows come first, the corrupt ones behind them."""
        rows = [*(clean for clean, _ in pairs), *(corrupt for _, corrupt in pairs)]
        loaded, upload = self._loaded, Upload(self._loaded.device)
        tokens = BatchTokens(rows, loaded.capabilities.kind, loaded.special.pad, upload)
        upload.send()
        arguments = tokens.arguments()
        width = arguments["input_ids"].shape[1]
        held: dict[int, Tensor] = {}
        with self._hooks.install_hooks(
            {(self._side, "residual", layer): [_keep_states(held, layer)] for layer in range(self._layers)}
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
                f"{explain_nan(self._loaded.model.dtype)}"
            )
        clean, corrupt = margins.detach().cpu().numpy().reshape(2, -1)
        effects = found.cpu().numpy()
        return [
            Attribution(float(clean[at]), float(corrupt[at]), effects[0, :, at], effects[1, :, at])
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
            places = row.map_columns(subwords, self._side, len(self._loaded.special.suffix))
            columns = np.flatnonzero((places >= 0) & (places < subwords))
            belongs[at, columns] = contrast.cells[:, places[columns]].T
        return torch.from_numpy(belongs)


def _keep_states(held: dict[int, Tensor], layer: int) -> Callable[[Tensor], Tensor]:
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


@dataclass(frozen=True, slots=True, eq=False)
class AlignedPair:
    """A clean and a corrupt text whose subwords stand at the same positions.

    Attributes:
        clean: Subwords of the clean text, of a decoder up to the place.
        corrupt: Those of the corrupt one.
        target: Position of the subword that is asked for: the first in which the two answers differ.
        other: The id that would be right there in the corrupt text.
        masked: Positions that an encoder sees a mask at, all of the place; none for a decoder.
        role: For each subword its number among the roles: those of the pair in their order, then `PLACE` and
            `OTHER`; -1 where a decoder does not look.
        roles: Names of these numbers.
    """

    clean: Subwords
    corrupt: Subwords
    target: int
    other: int
    masked: tuple[int, ...]
    role: Int[np.ndarray, " subword"]
    roles: tuple[str, ...]

    def cell_masks(self, cells: Sequence[Sequence[str]]) -> Bool[np.ndarray, "cell subword"]:
        """Which subwords belong to which cells, given the roles of each cell."""
        numbers = [[self.roles.index(name) for name in cell if name in self.roles] for cell in cells]
        return np.stack([np.isin(self.role, mine) for mine in numbers])


def align_pair(tokenizer: Any, clean: Subwords, pair: TextPair, *, decoder: bool) -> AlignedPair | None:
    """The pair in subwords; None where the two texts are not cut alike.

    Args:
        tokenizer: A fast transformers tokenizer.
        clean: Subwords of the clean text.
        pair: The other text.
        decoder: Whether only what stands before the place is read.
    """
    corrupt, swapped = encode(tokenizer, pair.corrupt), encode(tokenizer, pair.swapped)
    place = _span_mask(clean, pair.place)
    shared = min(len(clean), len(swapped))
    apart = np.flatnonzero(clean.ids[:shared] != swapped.ids[:shared])
    if not len(apart) or not place[apart[0]]:
        return None
    target = int(apart[0])
    read = target + 1 if decoder else len(clean)
    if target == 0 or len(corrupt) < read:
        return None
    if not decoder and not (len(corrupt) == len(swapped) == read and place[apart].all()):
        return None
    roles = (*pair.roles, PLACE, OTHER)
    changed = clean.ids[:read] != corrupt.ids[:read]
    role = np.full(read, roles.index(OTHER), dtype=np.int64)
    for name, spans in pair.roles.items():
        for span in spans:
            mine = _span_mask(clean, span)[:read]
            if mine.any() and not changed[mine].any():
                # What was exchanged has to be seen.
                return None
            role[mine] = roles.index(name)
    if changed[(role == roles.index(OTHER)) | place[:read]].any():
        return None
    masked: tuple[int, ...] = ()
    if decoder:
        role[target], role[target - 1] = -1, roles.index(PLACE)
    else:
        masked = tuple(np.flatnonzero(place).tolist())
        role[place] = roles.index(PLACE)
    other = int(swapped.ids[target])
    return AlignedPair(_truncate(clean, read), _truncate(corrupt, read), target, other, masked, role, roles)


def prepare_side(prepared: Prepared, subwords: Subwords, side: str) -> Prepared:
    """An item as a model is shown one side of a pair of it."""
    item = dataclasses.replace(prepared.item, item_id=f"{prepared.item.item_id}/{side}")
    alignment = dataclasses.replace(prepared.alignment, subwords=subwords)
    return dataclasses.replace(prepared, item=item, alignment=alignment)


def _span_mask(subwords: Subwords, span: Span) -> Bool[np.ndarray, " subword"]:
    """Which subwords share a character with a stretch."""
    return (subwords.start < span[1]) & (subwords.end > span[0])


def _truncate(subwords: Subwords, stop: int) -> Subwords:
    columns = ("ids", "start", "end", "bytes", "surface")
    return dataclasses.replace(subwords, **{name: getattr(subwords, name)[:stop] for name in columns})
