"""Softmax regression for many layers, penalties and label sets at once.

The loss of problem ``q`` on layer ``b`` is the mean cross-entropy plus ``l2 / 2 * |W|^2`` (the bias is free),
which is scikit-learn's ``LogisticRegression`` with ``C = 1 / (n * l2)``. Of two classes, ``W`` is the one
direction between them, as there: the two directions of the softmax are half of it and its opposite, and so
carry twice the penalty. All problems of a layer share its
states, so each of the two products of a step is one matrix product, as wide as all of them together; that
saves more than starting each penalty from the solution of a larger one, which needs them one after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.training.probes.descent import Evaluation, minimise


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxFit:
    """Solutions, one a layer and problem.

    Attributes:
        weight: Class directions.
        bias: Class offsets.
        gradient: Root mean square of the gradient's entries where the problem stopped.
        steps: Evaluations of the loss until the last problem stopped.
    """

    weight: Float[Tensor, "layer problem label d_model"]
    bias: Float[Tensor, "layer problem label"]
    gradient: Float[Tensor, "layer problem"]
    steps: int


def fit_softmax(
    features: Features,
    labels: Int[Tensor, "problem item"],
    l2: Float[Tensor, " problem"],
    classes: int,
    *,
    start: tuple[Float[Tensor, "layer problem label d_model"], Float[Tensor, "layer problem label"]]
    | None = None,
    tolerance: float = 5e-5,
    max_steps: int = 100,
) -> SoftmaxFit:
    """Fit softmax probes on standardised states.

    Args:
        features: The states, in float32 or float64.
        labels: Classes from 0, one row a problem.
        l2: Penalty of each problem, above 0; that of scikit-learn for two classes as for more.
        classes: Number of classes.
        start: Weight and bias to begin at, such as those with a stronger penalty; without, all begin at 0.
        tolerance: A problem stops where the root mean square of its gradient's entries is no larger. The
            largest entry is about four times it; scikit-learn stops where that is 1e-4.
        max_steps: Evaluations of the loss at most. The weakest penalties on classes that can be told apart
            may not come to their end before; where they stand then, validation decides whether they serve.
    """
    loss = SoftmaxLoss.of(features, labels, l2, classes)
    if start is None:
        directions, (layers, _, columns) = 1 if classes == 2 else classes, features.values.shape
        begin = features.values.new_zeros(layers, len(l2), directions, columns)
    else:
        weight, bias = start
        begin = torch.cat([weight @ features.axes[:, None], bias[..., None]], 3)
        begin = begin.diff(dim=2) if classes == 2 else begin
    found = minimise(loss, begin, tolerance, max_steps)
    # Of the difference between two classes each has its half.
    point = torch.cat([-found.point / 2, found.point / 2], 2) if classes == 2 else found.point
    weight = along(point[..., :-1], features.axes)
    return SoftmaxFit(weight, point[..., -1], found.gradient, found.steps)


def logits(
    states: Float[Tensor, "layer item d_model"],
    weight: Float[Tensor, "layer problem label d_model"],
    bias: Float[Tensor, "layer problem label"],
) -> Float[Tensor, "layer problem label item"]:
    """Logits on states standardised like those of the fit."""
    layers, problems, classes, width = weight.shape
    flat = weight.reshape(layers, problems * classes, width) @ states.mT
    return flat.view(layers, problems, classes, -1) + bias[..., None]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """States along their principal axes, where a diagonal says most of how badly conditioned they are.

    The penalty is the same along any axes, and a solution has no part outside the items: of fewer items than
    states are wide, as many axes do.

    Attributes:
        values: The states, and a last column of ones for the bias.
        turned: The same with the items last: a product with few directions is faster by it.
        axes: The axes, orthogonal.
    """

    values: Float[Tensor, "layer item column"]
    turned: Float[Tensor, "layer column item"]
    axes: Float[Tensor, "layer d_model feature"]

    @classmethod
    def of(cls, states: Float[Tensor, "layer item d_model"]) -> Features:
        """Find the axes, which costs one product of the states with themselves a layer.

        Each column of the states has mean 0, or a diagonal says little along these axes.
        """
        layers, items, width = states.shape
        if items > width:
            _, axes = torch.linalg.eigh(states.mT @ states)
        else:
            squares, rows = torch.linalg.eigh(states @ states.mT)
            seen = squares > items * torch.finfo(states.dtype).eps * squares.amax(1, keepdim=True)
            axes = states.mT @ (rows * torch.where(seen, squares.rsqrt(), 0.0)[:, None])
        column = states.new_zeros(layers, width, 1)
        values = states @ torch.cat([axes, column], 2)
        values[:, :, -1] = 1.0
        return cls(values, values.mT.contiguous(), axes)

    def only(self, layers: Int[Tensor, " layer"]) -> Features:
        """Those of some layers."""
        return Features(self.values[layers], self.turned[layers], self.axes[layers])


def along(
    weight: Float[Tensor, "layer problem label feature"], axes: Float[Tensor, "layer d_model feature"]
) -> Float[Tensor, "layer problem label d_model"]:
    """Weights of the features as weights of the states."""
    return (weight.flatten(1, 2) @ axes.mT).view(*weight.shape[:3], -1)


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxLoss:
    """What the loss is made of; items come last, where sums are fast.

    Of a point's columns the last is the bias. For two classes a point has one direction, that of the second
    against the first.

    Attributes:
        features: The states.
        labels: Labels.
        l2: Penalties of the columns; none of the bias.
    """

    features: Features
    labels: Int[Tensor, "problem item"]
    l2: Float[Tensor, "problem column"]

    @classmethod
    def of(
        cls,
        features: Features,
        labels: Int[Tensor, "problem item"],
        l2: Float[Tensor, " problem"],
        classes: int,
    ) -> SoftmaxLoss:
        """Prepare a loss."""
        values = features.values
        penalty = l2.to(values.device, values.dtype)[:, None].repeat(1, values.shape[2])
        penalty[:, -1] = 0.0
        return cls(
            features, labels.to(values.device, values.dtype) if classes == 2 else labels.long(), penalty
        )

    def evaluate(self, point: Float[Tensor, "layer problem direction column"]) -> Evaluation:
        """Loss and gradient."""
        states, labels = self.features.values, self.labels
        items = states.shape[1]
        scores = self._scores(point)
        if point.shape[2] == 1:
            nats = (torch.nn.functional.softplus(scores) - labels[:, None] * scores)[:, :, 0]
            residual = scores.sigmoid_().sub_(labels[:, None])
        else:
            at = labels[None, :, None].expand(len(states), -1, 1, items)
            chance = scores.log_softmax(2)
            nats = -chance.gather(2, at)[:, :, 0]
            residual = chance.exp_().scatter_add_(2, at, chance.new_full((1,), -1.0).expand(at.shape))
        product = residual.flatten(1, 2) @ states
        penalised = self.l2[:, None] * point
        gradient = torch.add(penalised, product.view(point.shape), alpha=1.0 / items)
        penalty = torch.linalg.vecdot(penalised.flatten(2), point.flatten(2)) / 2
        return Evaluation(nats.sum(2, dtype=torch.float64) / items + penalty, gradient)

    def curvature(
        self, point: Float[Tensor, "layer problem direction column"]
    ) -> Float[Tensor, "layer problem direction column"]:
        """The diagonal of the Hessian, of several classes that between each and the mean of the others."""
        states, classes = self.features.values, point.shape[2]
        scores = self._scores(point)
        chance = scores.sigmoid() if classes == 1 else scores.softmax(2)
        weights = chance * (1.0 - chance)
        if classes > 1:
            weights *= classes / (classes - 1)
        product = (weights.flatten(1, 2) @ (states * states)).view(point.shape)
        # A separable problem has no curvature left; its steps must not become infinite.
        return product.div_(states.shape[1]).add_(self.l2[:, None]).clamp_(min=_FLATTEST)

    def _scores(
        self, point: Float[Tensor, "layer problem direction column"]
    ) -> Float[Tensor, "layer problem direction item"]:
        return (point.flatten(1, 2) @ self.features.turned).view(*point.shape[:3], -1)

    def only(self, layers: Int[Tensor, " layer"] | None, problems: Int[Tensor, " problem"]) -> SoftmaxLoss:
        """The loss of some layers (None: of all, without a copy of the states) and problems."""
        features = self.features if layers is None else self.features.only(layers)
        return SoftmaxLoss(features, self.labels[problems], self.l2[problems])


_FLATTEST = 1e-6
"""Least curvature that is believed."""
