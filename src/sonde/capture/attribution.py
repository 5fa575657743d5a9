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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
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
        masked: Positions that an encoder sees a mask at, all of the place; none for a decoder.
        place: Characters of the place in the clean text.
    """

    clean: Prepared
    corrupt: Prepared
    target: int
    other: int
    cells: Bool[np.ndarray, "cell subword"]
    masked: tuple[int, ...]
    place: Span


@dataclass(frozen=True, slots=True, eq=False)
class Attribution:
    """Effects on one contrast by gradients; margins are the right logit less the other one.

    Attributes:
        clean: Margin of the clean input.
        corrupt: Margin of the corrupt one.
        effects: By how much the margin of the text that states are put into would change, by direction
            (`sonde.capture.interventions.DIRECTIONS`).
    """

    clean: float
    corrupt: float
    effects: Float[np.ndarray, "direction layer cell"]


def attribute(
    loaded_model: LoadedModel, contrasts: Sequence[Contrast], *, settings: CaptureSettings | None = None
) -> list[Attribution | None]:
    """Attribute the margins of contrasts to the states behind every layer, 0 the embeddings.

    Args:
        loaded_model: A decoder, or an encoder with masks.
        contrasts: What is asked.
        settings: How inputs are cut.

    Returns:
        An answer a contrast, in the order given; None for one that the model cannot read at once.

    Raises:
        CaptureError: A margin or a gradient is not finite.
        InputError: The model masks nothing, or has no such position.
    """
    cutter = RowCutter(loaded_model, settings or CaptureSettings())
    pairs = [_cut_pair(cutter, source, contrast) for source, contrast in enumerate(contrasts)]
    readable = [index for index, pair in enumerate(pairs) if pair is not None]
    pairs_by_index = {index: pair for index, pair in enumerate(pairs) if pair is not None}
    budget = _CPU_BUDGET if loaded_model.device.type == "cpu" else _ACCELERATOR_BUDGET
    lengths = [2 * pairs_by_index[index][0].size for index in readable]
    reader = _Reader(loaded_model)
    attributions: list[Attribution | None] = [None] * len(contrasts)
    for batch in batch_by_length(
        lengths, [contrasts[index].clean.item.item_id for index in readable], budget
    ):
        indices = [readable[number] for number in batch]
        answers = reader.read(
            [pairs_by_index[index] for index in indices], [contrasts[index] for index in indices]
        )
        for index, answer in zip(indices, answers, strict=True):
            attributions[index] = answer
    return attributions


def _cut_pair(cutter: RowCutter, source: int, contrast: Contrast) -> tuple[Row, Row] | None:
    """Cut both inputs into rows; None where one has several windows."""
    requests = MergedRequests((InputLayers(((contrast.target, contrast.other),)),))
    variant = InputVariant(source, InputShape(masked=contrast.masked), requests)
    clean, corrupt = (cutter.rows(source, variant, side) for side in (contrast.clean, contrast.corrupt))
    if len(clean) != 1 or len(corrupt) != 1 or len(clean[0].tokens) != len(corrupt[0].tokens):
        return None
    return clean[0], corrupt[0]


class _Reader:
    """Reads batches of pairs with gradients."""

    def __init__(self, loaded_model: LoadedModel) -> None:
        self._loaded = loaded_model
        self._body, head = body_and_head(loaded_model)
        self._head = head.to_float32()
        self._hooks = ModelHooks(loaded_model)
        self._side = text_side(loaded_model)
        self._layers = len(self._hooks.side("").layers) + 1

    @torch.enable_grad()
    def read(self, pairs: Sequence[tuple[Row, Row]], contrasts: Sequence[Contrast]) -> list[Attribution]:
        """Attribute one batch: the clean rows come first, then the corrupt ones."""
        rows = [*(clean for clean, _ in pairs), *(corrupt for _, corrupt in pairs)]
        loaded_model, upload = self._loaded, Upload(self._loaded.device)
        tokens = BatchTokens(rows, loaded_model.capabilities.kind, loaded_model.special.pad, upload)
        upload.send()
        arguments = tokens.arguments()
        width = arguments["input_ids"].shape[1]
        states_by_layer: dict[int, Tensor] = {}
        with self._hooks.install_hooks(
            {
                (self._side, "residual", layer): [_keep_states(states_by_layer, layer)]
                for layer in range(self._layers)
            }
        ):
            last_states = self._body(**arguments).last_hidden_state
        query = torch.tensor([int(row.query[0]) for row in rows], device=last_states.device)
        logits = self._head(last_states[torch.arange(len(rows), device=last_states.device), query]).float()
        ids = [
            [int(row.gold[0]), contrast.other]
            for row, contrast in zip(rows, (*contrasts, *contrasts), strict=True)
        ]
        margins = logits.gather(1, torch.tensor(ids, device=logits.device))
        margins = margins[:, 0] - margins[:, 1]
        states = [states_by_layer[layer] for layer in range(self._layers)]
        gradients = torch.autograd.grad(margins.sum(), states)
        cell_weights = self._cells(rows[: len(pairs)], contrasts, width)
        effects_by_layer = torch.stack(
            [_effects(state, grad, cell_weights) for state, grad in zip(states, gradients, strict=True)], 1
        )
        if not (effects_by_layer.isfinite().all() and margins.isfinite().all()):
            raise CaptureError(
                f"model {self._loaded.spec.name!r}: a gradient is not finite; "
                f"{explain_nan(self._loaded.model.dtype)}"
            )
        clean, corrupt = margins.detach().cpu().numpy().reshape(2, -1)
        effects = effects_by_layer.cpu().numpy()
        return [
            Attribution(float(clean[index]), float(corrupt[index]), effects[:, :, index])
            for index in range(len(pairs))
        ]

    def _cells(
        self, rows: Sequence[Row], contrasts: Sequence[Contrast], width: int
    ) -> Float[Tensor, "pair token cell"]:
        """Mark the columns of each cell; special tokens and padding belong to none."""
        cell_weights = np.zeros((len(rows), width, len(contrasts[0].cells)), dtype=np.float32)
        for index, (row, contrast) in enumerate(zip(rows, contrasts, strict=True)):
            subwords = contrast.cells.shape[1]
            positions = row.map_columns(subwords, self._side, len(self._loaded.special.suffix))
            columns = np.flatnonzero((positions >= 0) & (positions < subwords))
            cell_weights[index, columns] = contrast.cells[:, positions[columns]].T
        return torch.from_numpy(cell_weights)


def _keep_states(states_by_layer: dict[int, Tensor], layer: int) -> Callable[[Tensor], Tensor]:
    """Keep the states of a layer; the graph begins at the embeddings, whatever the weights ask for."""

    def keep(states: Tensor) -> Tensor:
        states_by_layer[layer] = states if layer else states.detach().requires_grad_(True)
        return states_by_layer[layer]

    return keep


@torch.no_grad()
def _effects(
    states: Float[Tensor, "row token d_model"],
    gradient: Float[Tensor, "row token d_model"],
    cell_weights: Float[Tensor, "pair token cell"],
) -> Float[Tensor, "2 pair cell"]:
    """Estimate denoising and noising of one layer: state differences times gradients."""
    clean, corrupt = states.float().chunk(2)
    at_clean, at_corrupt = gradient.float().chunk(2)
    products = torch.stack([((clean - corrupt) * at_corrupt).sum(2), ((corrupt - clean) * at_clean).sum(2)])
    return torch.einsum("spt,ptc->spc", products, cell_weights.to(products.device))


def align_pair(
    tokenizer: Any, prepared: Prepared, pair: TextPair, cells: Iterable[Sequence[str]], *, decoder: bool
) -> Contrast | None:
    """Align a pair of texts by subwords; None where the two are not cut alike.

    Args:
        tokenizer: A fast transformers tokenizer.
        prepared: The clean text.
        pair: The other text.
        cells: The roles of each cell: those of the pair, `PLACE` and `OTHER`.
        decoder: Whether only what stands before the place is read.
    """
    clean = prepared.alignment.subwords
    corrupt, with_other = encode(tokenizer, pair.corrupt), encode(tokenizer, pair.swapped)
    is_place = _span_mask(clean, pair.place)
    length = min(len(clean), len(with_other))
    differences = np.flatnonzero(clean.ids[:length] != with_other.ids[:length])
    if not len(differences) or not is_place[differences[0]]:
        return None
    target = int(differences[0])
    read = target + 1 if decoder else len(clean)
    if target == 0 or len(corrupt) < read:
        return None
    if not decoder and not (len(corrupt) == len(with_other) == read and is_place[differences].all()):
        return None
    roles = (*pair.roles, PLACE, OTHER)
    change_mask = clean.ids[:read] != corrupt.ids[:read]
    # For each subword its number among the roles; -1 where a decoder does not look.
    role = np.full(read, roles.index(OTHER), dtype=np.int64)
    for name, spans in pair.roles.items():
        for span in spans:
            is_role = _span_mask(clean, span)[:read]
            if is_role.any() and not change_mask[is_role].any():
                # What was exchanged has to be seen.
                return None
            role[is_role] = roles.index(name)
    if change_mask[(role == roles.index(OTHER)) | is_place[:read]].any():
        return None
    mask_positions: tuple[int, ...] = ()
    if decoder:
        role[target], role[target - 1] = -1, roles.index(PLACE)
    else:
        mask_positions = tuple(np.flatnonzero(is_place).tolist())
        role[is_place] = roles.index(PLACE)
    numbers = [[roles.index(name) for name in cell if name in roles] for cell in cells]
    return Contrast(
        clean=_prepare_side(prepared, clean, read, "clean"),
        corrupt=_prepare_side(prepared, corrupt, read, "corrupt"),
        target=target,
        other=int(with_other.ids[target]),
        cells=np.stack([np.isin(role, cell_numbers) for cell_numbers in numbers]),
        masked=mask_positions,
        place=pair.place,
    )


def _prepare_side(prepared: Prepared, subwords: Subwords, stop: int, side: str) -> Prepared:
    """Build the item of one side of a pair, up to a subword."""
    names = ("ids", "start", "end", "bytes", "surface")
    subwords = dataclasses.replace(subwords, **{name: getattr(subwords, name)[:stop] for name in names})
    side_item = dataclasses.replace(prepared.item, item_id=f"{prepared.item.item_id}/{side}")
    alignment = dataclasses.replace(prepared.alignment, subwords=subwords)
    return dataclasses.replace(prepared, item=side_item, alignment=alignment)


def _span_mask(subwords: Subwords, span: Span) -> Bool[np.ndarray, " subword"]:
    """Mark the subwords that share a character with a span."""
    return (subwords.start < span[1]) & (subwords.end > span[0])
