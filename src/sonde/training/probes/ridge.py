"""Ridge regression of a number on the states of every layer, in closed form for all penalties at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sonde.base.errors import InputError
from sonde.training.probes.data import StandardisedStates, layers_per_chunk, standardise
from sonde.training.probes.splits import Splits, check_states

RIDGE_L2 = (10.0, 1.0, 0.1, 0.01)
_MIN_UNEXPLAINED_SHARE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class RidgeResult:
    """Regressions of one number on every layer.

    Attributes:
        gold: True number on the test items, in its own unit.
        predicted: Prediction of each layer's regression, with the penalty that was best on validation.
        l2: Selected penalty.
        valid_r2: Share of the validation variance explained, by layer and penalty.
        best: Layer that explains most of it.
    """

    gold: Float[np.ndarray, " test"]
    predicted: Float[np.ndarray, "layer test"]
    l2: Float[np.ndarray, " layer"]
    valid_r2: Float[np.ndarray, "layer l2"]
    best: int


def regress_layers(
    states: Float[np.ndarray, "layer item d_model"],
    values: Float[np.ndarray, "target item"],
    splits: Splits,
    *,
    l2: Sequence[float] = RIDGE_L2,
    name: str = "",
    device: torch.device | str = "cpu",
) -> list[RidgeResult]:
    """Regress one or several numbers on the standardised states of every layer.

    The loss is ``mean (y - xw - b)^2 + l2 |w|^2``.

    Raises:
        InputError: States that are not finite, or a number that does not vary in a part.
    """
    check_states(name, states)
    for rows in (splits.train, splits.valid, splits.test):
        if len(rows) < 3 or (np.ptp(values[:, rows], axis=1) == 0).any():
            raise InputError(
                f"task {name!r}: its value does not vary in a split; take a larger corpus or limit"
            )
    layers, items, width = states.shape
    step = layers_per_chunk(layers, items, width)
    chunks = [
        _regress(standardise(states[start : start + step], splits, device), values, splits, l2)
        for start in range(0, layers, step)
    ]
    valid = np.concatenate([chunk[0] for chunk in chunks])
    predictions = np.concatenate([chunk[1] for chunk in chunks])
    return [
        RidgeResult(
            gold=values[target, splits.test],
            predicted=predictions[:, target],
            l2=np.asarray(l2, dtype=np.float64)[r2.argmax(1)],
            valid_r2=r2,
            best=int(r2.max(1).argmax()),
        )
        for target, r2 in enumerate(valid.swapaxes(0, 1))
    ]


def _regress(
    states: StandardisedStates, values: Float[np.ndarray, "target item"], splits: Splits, l2: Sequence[float]
) -> tuple[Float[np.ndarray, "layer target l2"], Float[np.ndarray, "layer target test"]]:
    train = states.train
    train_values = torch.from_numpy(values[:, splits.train].astype(np.float64)).to(train.device)
    mean, deviation = train_values.mean(1, keepdim=True), train_values.std(1, keepdim=True)
    target = ((train_values - mean) / deviation).to(train)
    spectrum, basis = torch.linalg.eigh(train.mT @ train / train.shape[1])
    moment = basis.mT @ (train.mT @ target.mT / train.shape[1])
    penalty = torch.tensor(list(l2)).to(train)
    # Where the features fill fewer directions than there are, rounding leaves eigenvalues below 0.
    scale = spectrum.clamp(min=0.0)[:, None] + penalty[:, None]
    weight = basis[:, None] @ (moment[:, None] / scale[..., None])
    gold = torch.from_numpy(values[:, splits.valid].astype(np.float64)).to(train.device)
    guess = _predict(states.valid, weight) * deviation + mean
    error = (guess - gold).square().mean(3)
    r2 = (1 - error / gold.var(1, correction=0)).permute(0, 2, 1)
    best_penalty = r2.argmax(2)
    guess = _predict(states.test, weight) * deviation + mean
    index = best_penalty[:, None, :, None].expand(-1, 1, -1, guess.shape[3])
    return r2.cpu().numpy(), guess.gather(1, index)[:, 0].cpu().numpy()


def _predict(
    states: Float[Tensor, "layer item d_model"], weight: Float[Tensor, "layer l2 d_model target"]
) -> Float[Tensor, "layer l2 target item"]:
    return (states[:, None] @ weight).mT.double()


def remove_length_effect(
    values: Float[np.ndarray, " item"], lengths: Float[np.ndarray, "item length"], splits: Splits
) -> Float[np.ndarray, " item"] | None:
    """Subtract from a number its regression on length, fitted by least squares on the training part.

    Args:
        values: The numbers.
        lengths: Positive measures of length; each enters as itself, its logarithm and that squared, and none
            goes beyond what training has, where such a curve means nothing.
        splits: Training, validation and test items.

    Returns:
        The rest, or None where length says it all (or all but a thousandth of its variance).
    """
    train_lengths = np.maximum(lengths[splits.train], 1.0)
    bounded_lengths = np.clip(lengths, train_lengths.min(axis=0), train_lengths.max(axis=0))
    logs = np.log(bounded_lengths)
    columns = np.column_stack([bounded_lengths, logs, logs**2])
    mean, deviation = columns[splits.train].mean(axis=0), columns[splits.train].std(axis=0)
    columns = np.column_stack(
        [np.ones(len(values)), (columns - mean) / np.where(deviation > 0, deviation, 1.0)]
    )
    # Two measures of one length say nearly the same: what sets them apart is not to be amplified.
    weight, *_ = np.linalg.lstsq(columns[splits.train], values[splits.train], rcond=1e-3)
    rest = values - columns @ weight
    is_redundant = [
        np.var(rest[rows]) <= _MIN_UNEXPLAINED_SHARE * np.var(values[rows])
        for rows in (splits.train, splits.test)
    ]
    return None if any(is_redundant) else rest
