"""Linear probes over all layers: softmax classifiers, and ridge regression of a number.

A property that is linearly decodable from frozen states (Alain and Bengio 2016). Softmax probes are trained
for all layers, penalties and label sets; the penalty of each layer and the layer itself are selected on the
validation part, and the probe is evaluated on the test part. Ridge regression is solved in closed form for
all penalties at once.

States are split, standardised and read in chunks of layers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.base.errors import InputError
from sonde.training.probes.softmax import Features, fit_softmax, logits
from sonde.training.probes.splits import Splits, check_states


@dataclass(frozen=True, slots=True, eq=False)
class StandardisedStates:
    """Standardised states of the three parts, by mean and deviation of the training part.

    A feature that does not vary there is 0 everywhere.
    """

    train: Float[Tensor, "layer train d_model"]
    valid: Float[Tensor, "layer valid d_model"]
    test: Float[Tensor, "layer test d_model"]


def standardise(
    states: Float[np.ndarray, "layer item d_model"], splits: Splits, device: torch.device | str = "cpu"
) -> StandardisedStates:
    """Split states and standardise every feature of every layer, in float32."""
    train = _to_tensor(states, splits.train, device)
    mean = train.mean(1, keepdim=True)
    train -= mean
    deviation = train.square().mean(1, keepdim=True).sqrt()
    # What varies by no more than rounding of its mean does not vary.
    constant = deviation <= 1e-6 * mean.abs() + 1e-12
    factor = torch.where(constant, 0.0, 1.0 / deviation)
    train *= factor
    held_out_states = [
        (_to_tensor(states, rows, device) - mean) * factor for rows in (splits.valid, splits.test)
    ]
    return StandardisedStates(train, *held_out_states)


def _to_tensor(
    states: Float[np.ndarray, "layer item d_model"], rows: Int[np.ndarray, " row"], device: torch.device | str
) -> Float[Tensor, "layer row d_model"]:
    return torch.from_numpy(np.ascontiguousarray(states[:, rows], dtype=np.float32)).to(device)


def layers_per_chunk(layers: int, items: int, width: int, budget: int = 1 << 29) -> int:
    """Return how many layers to process together, so that their states fit a budget of bytes."""
    return max(1, min(layers, budget // max(1, 4 * items * width)))


L2 = (1.0, 0.1, 0.01, 0.001)
"""Penalties of the mean cross-entropy on standardised states, tried on validation.

The weakest is tried where the next stronger one is the best so far: it takes the most steps, and where
validation has turned before, it does not come back.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ProbeResult:
    """Probes of one label set on every layer, each with the penalty that was best on validation.

    Attributes:
        l2: Selected penalty of each layer; 0 without one.
        valid_accuracy: Validation accuracy of every layer and penalty; -inf where a penalty was not tried.
        log_chance: Log-probability of every class for each test item, in nats.
        best: Layer with the best validation accuracy; of equals the one with the lowest cross-entropy, or the
            lowest layer if the probes were trained by gradient steps.
    """

    l2: Float[np.ndarray, " layer"]
    valid_accuracy: Float[np.ndarray, "layer l2"]
    log_chance: Float[np.ndarray, "layer test label"]
    best: int

    @property
    def predicted(self) -> Int[np.ndarray, "layer test"]:
        """Return the predicted class of each test item, by layer."""
        return self.log_chance.argmax(axis=2)

    @property
    def chosen_valid_accuracy(self) -> Float[np.ndarray, " layer"]:
        """Return the validation accuracy of each layer with its selected penalty."""
        return self.valid_accuracy.max(axis=1)


def probe_layers(
    states: Float[np.ndarray, "layer item d_model"],
    labels: Int[np.ndarray, "target item"],
    classes: int,
    splits: Splits,
    *,
    l2: Sequence[float] = L2,
    by_nats: bool = False,
    device: torch.device | str = "cpu",
) -> list[ProbeResult]:
    """Probe every layer for one or several label sets over the same items.

    States and labels are not checked (`sonde.training.probes.splits`): small training sets may lack a class.

    Args:
        states: Frozen states; fp16 or float32.
        labels: Classes from 0, one row a label set (the task, then control tasks).
        classes: Number of classes.
        splits: Training, validation and test items.
        l2: Penalties to select from.
        by_nats: Whether penalties and layers are chosen by cross-entropy instead of accuracy, where it is the
            probabilities that count.
        device: Device of the computation.

    Returns:
        One entry a label set.
    """
    layers, items, width = states.shape
    step = layers_per_chunk(layers, items, width)
    chunks = [
        _probe_chunk(
            standardise(states[start : start + step], splits, device), labels, classes, splits, l2, by_nats
        )
        for start in range(0, layers, step)
    ]
    return [_join_chunks([chunk[target] for chunk in chunks], l2, by_nats) for target in range(len(labels))]


_Chunk = tuple[
    Float[np.ndarray, "layer l2"], Float[np.ndarray, "layer l2"], Float[np.ndarray, "layer test label"]
]
"""Of some layers: accuracy and nats on validation for every penalty, test chances of the chosen probes."""


def _probe_chunk(
    states: StandardisedStates,
    labels: Int[np.ndarray, "target item"],
    classes: int,
    splits: Splits,
    l2: Sequence[float],
    by_nats: bool,
) -> list[_Chunk]:
    order = sorted(range(len(l2)), key=lambda index: -l2[index])
    *stronger, weakest = [l2[index] for index in order]
    task = _Task.build(states, labels, classes, splits)
    candidates = task.fit(stronger or [weakest])
    if stronger:
        candidates = candidates.add_weaker_penalty(
            task, weakest, candidates.best(by_nats) == len(stronger) - 1
        )
    candidates = candidates.select(slice(None), np.argsort(order).tolist())
    return [candidates.evaluate_best(target, states.test, by_nats) for target in range(len(labels))]


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Data that probes are fitted to and selected on.

    Attributes:
        features: States of the training part.
        valid: States of the validation part.
        labels: Labels of the training part.
        gold: Labels of the validation part.
        classes: Number of classes.
    """

    features: Features
    valid: Float[Tensor, "layer valid d_model"]
    labels: Int[Tensor, "target train"]
    gold: Int[Tensor, "target valid"]
    classes: int

    @classmethod
    def build(
        cls, states: StandardisedStates, labels: Int[np.ndarray, "target item"], classes: int, splits: Splits
    ) -> _Task:
        label_tensor, features = torch.from_numpy(labels).to(states.train.device), Features.fit(states.train)
        return cls(
            features, states.valid, label_tensor[:, splits.train], label_tensor[:, splits.valid], classes
        )

    def select(self, layers: Int[Tensor, " layer"]) -> _Task:
        return replace(self, features=self.features.select(layers), valid=self.valid[layers])

    def fit(self, l2: Sequence[float], start: _CandidateProbes | None = None) -> _CandidateProbes:
        """Fit probes of every layer and label set with some penalties, starting from another's or from 0."""
        (targets, _), penalties, layers = self.labels.shape, len(l2), len(self.valid)
        labels = self.labels.repeat_interleave(penalties, 0)
        problems = torch.tensor(list(l2) * targets, device=labels.device)
        begin = None if start is None else (start.weight[:, :, 0], start.bias[:, :, 0])
        fit = fit_softmax(self.features, labels, problems, self.classes, start=begin)
        weight = fit.weight.view(layers, targets, penalties, self.classes, -1)
        bias = fit.bias.view(layers, targets, penalties, self.classes)
        accuracy, nats = bias.new_zeros(2, layers, targets, penalties, dtype=torch.float64)
        for target, gold in enumerate(self.gold):
            scores = logits(self.valid, weight[:, target], bias[:, target])
            index = gold.expand(layers, penalties, 1, -1)
            accuracy[:, target] = (scores.argmax(2) == gold).double().mean(2)
            nats[:, target] = -scores.log_softmax(2).gather(2, index)[:, :, 0].double().mean(2)
        return _CandidateProbes(weight, bias, accuracy, nats)


@dataclass(frozen=True, slots=True, eq=False)
class _CandidateProbes:
    """Fitted probes with their validation results: -inf and inf where a penalty was not tried."""

    weight: Float[Tensor, "layer target l2 label d_model"]
    bias: Float[Tensor, "layer target l2 label"]
    accuracy: Float[Tensor, "layer target l2"]
    nats: Float[Tensor, "layer target l2"]

    def best(self, by_nats: bool) -> Int[Tensor, "layer target"]:
        """Select the penalty of each layer and label set."""
        return self.nats.argmin(2) if by_nats else _argbest(self.accuracy, self.nats)

    def select(self, layers: Int[Tensor, " layer"] | slice, l2: Sequence[int]) -> _CandidateProbes:
        """Select some layers and penalties."""
        parts = self.weight, self.bias, self.accuracy, self.nats
        return _CandidateProbes(*(part[layers][:, :, list(l2)] for part in parts))

    def add_weaker_penalty(
        self, task: _Task, l2: float, mask: Bool[Tensor, "layer target"]
    ) -> _CandidateProbes:
        """Add probes of a weaker penalty where ``mask`` is set, starting from the weakest so far."""
        weight, bias = (
            torch.cat([tensor, torch.zeros_like(tensor[:, :, :1])], 2) for tensor in (self.weight, self.bias)
        )
        accuracy, nats = (
            torch.cat([tensor, torch.full_like(tensor[:, :, :1], worst_value)], 2)
            for tensor, worst_value in ((self.accuracy, -torch.inf), (self.nats, torch.inf))
        )
        layers = mask.any(1).nonzero()[:, 0]
        if len(layers):
            weaker = task.select(layers).fit([l2], self.select(layers, [-1]))
            weight[layers, :, -1:], bias[layers, :, -1:] = weaker.weight, weaker.bias
            # What a label set chooses from must not depend on those that are fitted beside it.
            layer_mask = mask[layers, :, None]
            accuracy[layers, :, -1:] = weaker.accuracy.where(layer_mask, -torch.inf)
            nats[layers, :, -1:] = weaker.nats.where(layer_mask, torch.inf)
        return _CandidateProbes(weight, bias, accuracy, nats)

    def evaluate_best(self, target: int, test: Float[Tensor, "layer test d_model"], by_nats: bool) -> _Chunk:
        """Evaluate the selected probes of a label set on the test part."""
        layers = torch.arange(len(test), device=test.device)
        index = layers, target, self.best(by_nats)[:, target]
        chance = logits(test, self.weight[index][:, None], self.bias[index][:, None])[:, 0]
        parts = self.accuracy[:, target], self.nats[:, target], chance.log_softmax(1).mT
        accuracy, nats, log_chance = (part.cpu().numpy() for part in parts)
        return accuracy, nats, log_chance


def _argbest(
    accuracy: Float[Tensor, "*row choice"], nats: Float[Tensor, "*row choice"]
) -> Int[Tensor, " *row"]:
    """Select the most accurate choice of each row; of equals the one with the lowest cross-entropy."""
    equal = accuracy == accuracy.amax(-1, keepdim=True)
    return torch.where(equal, nats, torch.inf).argmin(-1)


def _join_chunks(chunks: Sequence[_Chunk], l2: Sequence[float], by_nats: bool) -> ProbeResult:
    accuracy, nats, chance = (np.concatenate(part) for part in zip(*chunks, strict=True))
    criterion = -nats if by_nats else accuracy
    best_penalty = _argbest(torch.from_numpy(criterion), torch.from_numpy(nats)).numpy()
    layers = np.arange(len(accuracy))
    top, lowest_nats = criterion[layers, best_penalty], nats[layers, best_penalty]
    return ProbeResult(
        l2=np.asarray(l2, dtype=np.float64)[best_penalty],
        valid_accuracy=accuracy,
        log_chance=chance,
        best=int(_argbest(torch.from_numpy(top[None]), torch.from_numpy(lowest_nats[None]))[0]),
    )


SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks, as shares of the training part (their section 3.2)."""


STRONG_L2 = (100.0, 10.0)
"""Penalties beside the usual ones, for prefixes too short to say anything."""


@dataclass(frozen=True, slots=True, eq=False)
class Codelength:
    """Length of the code of the training labels given the states.

    Attributes:
        bits: Bits of each layer.
        uniform: Bits without any model: items times log2 of the classes.
        items: Number of labels coded.
    """

    bits: Float[np.ndarray, " layer"]
    uniform: float
    items: int

    @property
    def compression(self) -> Float[np.ndarray, " layer"]:
        """Return the ratio of the uniform code's length to this one's."""
        return self.uniform / self.bits


def compute_online_codelength(
    states: Float[np.ndarray, "layer item d_model"],
    labels: Int[np.ndarray, " item"],
    classes: int,
    splits: Splits,
    *,
    seed: int = 0,
    l2: Sequence[float] = L2,
    device: torch.device | str = "cpu",
) -> Codelength:
    """Code the training labels block by block, each with probes trained on all earlier blocks.

    The first block is coded uniformly. The penalty of each prefix is the one with the least cross-entropy on
    validation, and probabilities are smoothed by one item per class (Laplace), so that a code that has seen
    few items stays finite for the classes that it has not.
    """
    order = np.random.default_rng(seed).permutation(splits.train)
    ends = sorted({max(1, round(share * len(order))) for share in SHARES})
    nats = np.full(len(states), ends[0] * np.log(classes))
    for start, end in itertools.pairwise(ends):
        block = Splits(order[:start], splits.valid, order[start:end])
        (result,) = probe_layers(
            states, labels[None], classes, block, l2=(*STRONG_L2, *l2), by_nats=True, device=device
        )
        gold = labels[block.test][None, :, None]
        chance = np.exp(np.take_along_axis(result.log_chance.astype(np.float64), gold, axis=2)[..., 0])
        nats -= np.log((start * chance + 1.0) / (start + classes)).sum(axis=1)
    return Codelength(nats / np.log(2), len(order) * float(np.log2(classes)), len(order))


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
