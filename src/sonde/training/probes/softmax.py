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
        gradient: Largest entry of the gradient where the problem stopped.
        steps: Evaluations of the loss until the last problem stopped.
    """

    weight: Float[Tensor, "layer problem label d_model"]
    bias: Float[Tensor, "layer problem label"]
    gradient: Float[Tensor, "layer problem"]
    steps: int


def fit_softmax(
    states: Float[Tensor, "layer item d_model"],
    labels: Int[Tensor, "problem item"],
    l2: Float[Tensor, " problem"],
    classes: int,
    *,
    tolerance: float = 1e-4,
    max_steps: int = 500,
) -> SoftmaxFit:
    """Fit softmax probes on standardised states.

    Args:
        states: In float32 or float64; each column has mean 0, or the preconditioner is a poor one.
        labels: Classes from 0, one row a problem.
        l2: Penalty of each problem, above 0; that of scikit-learn for two classes as for more.
        classes: Number of classes.
        tolerance: A problem stops where no entry of its gradient is larger.
        max_steps: Evaluations of the loss at most.
    """
    start = states.new_zeros(len(states), len(l2), classes, states.shape[2] + 1)
    penalty = 2 * l2 if classes == 2 else l2
    found = minimise(SoftmaxLoss.of(states, labels, penalty, classes), start, tolerance, max_steps)
    return SoftmaxFit(found.point[..., :-1], found.point[..., -1], found.gradient, found.steps)


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
class SoftmaxLoss:
    """What the loss is made of. A point's last column is the bias; items come last, where sums are fast.

    Attributes:
        states: Standardised states.
        onehot: Labels.
        l2: Penalties.
        basis: Eigenvectors of ``X'X / n``.
        spectrum: Its eigenvalues.
    """

    states: Float[Tensor, "layer item d_model"]
    onehot: Float[Tensor, "problem label item"]
    l2: Float[Tensor, " problem"]
    basis: Float[Tensor, "layer d_model d_model"]
    spectrum: Float[Tensor, "layer d_model"]

    @classmethod
    def of(
        cls,
        states: Float[Tensor, "layer item d_model"],
        labels: Int[Tensor, "problem item"],
        l2: Float[Tensor, " problem"],
        classes: int,
    ) -> SoftmaxLoss:
        """Prepare a loss, which costs one product of the states with themselves a layer."""
        spectrum, basis = torch.linalg.eigh(states.mT @ states / states.shape[1])
        onehot = torch.nn.functional.one_hot(labels.long(), classes).to(states.dtype).mT.contiguous()
        return cls(states, onehot, l2.to(states), basis, spectrum.clamp(min=0.0))

    def evaluate(self, point: Float[Tensor, "layer problem label column"]) -> Evaluation:
        """Loss and gradient, and the mean curvature of the softmax between two classes."""
        layers, problems, classes, width = point.shape
        items = self.states.shape[1]
        weight = point[..., :-1]
        flat = weight.reshape(layers, problems * classes, width - 1)
        scores = (flat @ self.states.mT).view(layers, problems, classes, items).add_(point[..., -1:])
        fitted = (scores * self.onehot).sum((2, 3), dtype=torch.float64)
        top = scores.amax(2, keepdim=True)
        total = scores.sub_(top).exp_().sum(2, keepdim=True)
        level = total.log().add_(top).sum((2, 3), dtype=torch.float64)
        chance = scores.div_(total)
        # 1 - |p|^2 is the trace of diag(p) - pp', which has one direction without curvature.
        squares = torch.linalg.vecdot(chance.flatten(2), chance.flatten(2))
        curvature = (1.0 - squares / items) / (classes - 1)
        residual = chance.sub_(self.onehot)
        gradient = torch.empty_like(point)
        product = residual.view(layers, problems * classes, items) @ self.states
        gradient[..., :-1] = product.view(weight.shape) / items + self.l2[:, None, None] * weight
        gradient[..., -1] = residual.sum(3) / items
        penalty = self.l2 / 2 * weight.square().sum((2, 3))
        return Evaluation((level - fitted) / items + penalty, gradient, curvature)

    def precondition(
        self,
        vector: Float[Tensor, "layer problem label column"],
        curvature: Float[Tensor, "layer problem"],
    ) -> Float[Tensor, "layer problem label column"]:
        """Apply the inverse of ``curvature * X'X / n + l2``.

        The Hessian is a mean of ``(diag(p) - pp') kron xx'``; with the mean of the first factor in place of
        each item's it is this matrix, so that what is badly conditioned about the states is gone
        (in the manner of Böhning 1992, who takes the largest such factor and has a bound).
        """
        layers, problems, classes, width = vector.shape
        # A separable problem has no curvature left; its steps must not become infinite.
        floor = curvature.clamp(min=1e-4)
        scale = floor[..., None] * self.spectrum[:, None] + self.l2[:, None]
        flat = vector[..., :-1].reshape(layers, problems * classes, width - 1) @ self.basis
        rotated = flat.view(layers, problems, classes, width - 1) / scale[:, :, None]
        back = rotated.view(flat.shape) @ self.basis.mT
        return torch.cat(
            [back.view(layers, problems, classes, width - 1), vector[..., -1:] / floor[..., None, None]], 3
        )

    def only(self, layers: Int[Tensor, " layer"] | None, problems: Int[Tensor, " problem"]) -> SoftmaxLoss:
        """The loss of some layers (None: of all, without a copy of the states) and problems."""
        whole = layers is None
        return SoftmaxLoss(
            self.states if whole else self.states[layers],
            self.onehot[problems],
            self.l2[problems],
            self.basis if whole else self.basis[layers],
            self.spectrum if whole else self.spectrum[layers],
        )
