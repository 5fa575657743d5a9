"""Softmax regression for many layers, penalties and label sets at once, with its L-BFGS minimiser.

The loss of problem ``q`` on layer ``b`` is the mean cross-entropy plus ``l2 / 2 * |W|^2`` (the bias is free),
which is scikit-learn's ``LogisticRegression`` with ``C = 1 / (n * l2)``. Of two classes, ``W`` is the one
direction between them, as there: the two directions of the softmax are half of it and its opposite, and so
carry twice the penalty. All problems of a layer share its states, so each of the two products of a step is
one matrix product, as wide as all of them together; that saves more than starting each penalty from the
solution of a larger one, which needs them one after another.

L-BFGS runs on a grid of convex problems that are evaluated together (`minimise`). Each problem has its own
step length, history and end; one evaluation tries the next point of all of them. Problems that have ended
leave the grid by whole layers and whole columns, so that the rest run faster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

MEMORY = 6


_SUFFICIENT_DECREASE = 1e-4


_ROUNDING_TOLERANCE = 1e-6


_MIN_STEP = 2.0**-30


_MAX_COPIED_SHARE = 0.75


_CURVATURE_UPDATES = frozenset({3, 9, 27, 81})
"""Evaluations after which the curvature is looked at again: it changes most at the beginning."""


Grid = Float[Tensor, "layer problem"]


Point = Float[Tensor, "layer problem direction column"]


Flat = Float[Tensor, "layer problem entry"]


def minimise(loss: SoftmaxLoss, start: Point, tolerance: float, max_steps: int) -> tuple[Point, Grid, int]:
    """Minimise all problems of a grid.

    A problem ends where the entries of its gradient are small, whichever way its axes are turned, or where
    rounding hides any descent.

    Args:
        loss: The loss.
        start: Starting points.
        tolerance: Tolerance of the root mean square of the gradient's entries.
        max_steps: Maximum number of evaluations.

    Returns:
        The point at which each problem stopped, the root mean square of the entries of its gradient there,
        and the number of evaluations of the loss.
    """
    point, gradient = start.clone(), start.new_zeros(start.shape[:2])
    search = _Search.begin(loss, start)
    while True:
        size = _root_mean_square(search.gradient)
        is_done = search.is_done = (size <= tolerance) | (search.step < _MIN_STEP)
        is_last = bool(is_done.all()) or search.steps >= max_steps
        smaller_search = None if is_last else search.shrink(is_done)
        if is_last or smaller_search is not None:
            rows = search.layers[:, None], search.problems[None]
            point[rows], gradient[rows] = search.point, size
        if is_last:
            return point, gradient, search.steps
        if smaller_search is not None:
            search = smaller_search
            continue
        search.advance()


def _root_mean_square(gradient: Point) -> Grid:
    return gradient.flatten(2).norm(dim=2) / math.sqrt(gradient.shape[2] * gradient.shape[3])


@dataclass(slots=True, eq=False)
class _Search:
    """State of the search: the remaining grid, with its history."""

    loss: SoftmaxLoss
    layers: Int[Tensor, " layer"]
    problems: Int[Tensor, " problem"]
    point: Point
    value: Grid
    gradient: Point
    step: Grid
    is_done: Bool[Tensor, "layer problem"]
    history: _History
    curvature: Point
    steps: int = 1
    direction: Point = field(init=False)

    def __post_init__(self) -> None:
        self.direction = self._descent()

    @classmethod
    def begin(cls, loss: SoftmaxLoss, start: Point) -> _Search:
        value, gradient = loss.evaluate(start)
        layers, problems = (torch.arange(size, device=start.device) for size in start.shape[:2])
        step = start.new_ones(start.shape[:2])
        history, curvature = _History.empty(start), loss.curvature(start)
        return cls(loss, layers, problems, start, value, gradient, step, step < 0, history, curvature)

    def shrink(self, is_done: Bool[Tensor, "layer problem"]) -> _Search | None:
        """Return the search without whole layers and problems that have ended; None if these are too few."""
        layers, problems = (~is_done.all(1)).nonzero()[:, 0], (~is_done.all(0)).nonzero()[:, 0]
        drop_layers = len(layers) <= _MAX_COPIED_SHARE * len(is_done)
        if not drop_layers and len(problems) == is_done.shape[1]:
            return None
        if not drop_layers:
            layers = torch.arange(len(is_done), device=is_done.device)
        index = layers[:, None], problems[None]
        return _Search(
            self.loss.select(layers if drop_layers else None, problems),
            self.layers[layers],
            self.problems[problems],
            self.point[index],
            self.value[index],
            self.gradient[index],
            self.step[index],
            is_done[index],
            self.history.select(index),
            self.curvature[index],
            self.steps,
        )

    def advance(self) -> None:
        """Try the next point of every problem; halve the step where the loss falls too little."""
        slope = torch.linalg.vecdot(self.gradient.flatten(2), self.direction.flatten(2))
        trial = torch.addcmul(self.point, self.step[..., None, None], self.direction)
        value, gradient = self.loss.evaluate(trial)
        # Near the minimum the loss changes by less than it is rounded.
        threshold = (
            self.value + _SUFFICIENT_DECREASE * self.step * slope + _ROUNDING_TOLERANCE * self.value.abs()
        )
        accept_mask = (value <= threshold) & ~self.is_done
        origin, old_gradient, direction = self.point, self.gradient, self.direction
        accept_all = bool(accept_mask.all())
        if not accept_all:
            value = torch.where(accept_mask, value, self.value)
            trial, gradient = (
                torch.where(accept_mask[..., None, None], new, old)
                for new, old in ((trial, origin), (gradient, old_gradient))
            )
        self.point, self.value, self.gradient = trial, value, gradient
        self.history.add(trial - origin, gradient - old_gradient)
        self.steps += 1
        if self.steps in _CURVATURE_UPDATES:
            self.curvature = self.loss.curvature(self.point)
        self.step = torch.where(accept_mask, 1.0, torch.where(self.is_done, self.step, self.step / 2))
        self.direction = self._descent()
        if not accept_all:
            self.direction = torch.where(accept_mask[..., None, None], self.direction, direction)

    def _descent(self) -> Point:
        flat = self.history.newton(self.gradient, self.curvature)
        return flat.view(self.point.shape).neg_()


@dataclass(slots=True, eq=False)
class _History:
    """Last steps of each problem, and the changes of the gradient along them.

    The inverse Hessian of L-BFGS in its compact form (Byrd, Nocedal and Schnabel 1994, theorem 2.2): four
    products with the whole history in place of four passes a remembered step.

    Attributes:
        steps: Changes of the point.
        turns: Changes of the gradient.
        diagonal: Product of each step with its own turn, the oldest first.
        triangle: Products of each step with its own turn and later ones, the oldest first.
        slots: Slots of the steps, the oldest first.
    """

    steps: Float[Tensor, "layer problem memory entry"]
    turns: Float[Tensor, "layer problem memory entry"]
    diagonal: Float[Tensor, "layer problem known"]
    triangle: Float[Tensor, "layer problem known known"]
    slots: Int[Tensor, " known"]

    @classmethod
    def empty(cls, point: Point) -> _History:
        layers, problems, directions, columns = point.shape
        memory = point.new_zeros(2, layers, problems, MEMORY, directions * columns)
        diagonal, triangle = point.new_zeros(layers, problems, 0), point.new_zeros(layers, problems, 0, 0)
        return cls(memory[0], memory[1], diagonal, triangle, torch.arange(0, device=point.device))

    def select(self, index: tuple[Tensor, Tensor]) -> _History:
        return _History(
            self.steps[index], self.turns[index], self.diagonal[index], self.triangle[index], self.slots
        )

    def add(self, change: Point, turn: Point) -> None:
        """Add a step; where a problem did not move, or its gradient did not change, the step is ignored."""
        step, gradient_turn = change.flatten(2), turn.flatten(2)
        products = torch.linalg.vecdot(step, gradient_turn)
        usable = products > torch.finfo(products.dtype).eps * torch.linalg.vecdot(
            gradient_turn, gradient_turn
        )
        if not bool(usable.all()):
            step, gradient_turn = (
                torch.where(usable[..., None], tensor, 0.0) for tensor in (step, gradient_turn)
            )
        if len(self.slots) == MEMORY:
            self.slots = self.slots.roll(-1)
            self.diagonal, self.triangle = self.diagonal[..., 1:], self.triangle[..., 1:, 1:]
        else:
            self.slots = torch.cat([self.slots, self.slots.new_full((1,), len(self.slots))])
        last, size = int(self.slots[-1]), len(self.slots)
        self.steps[:, :, last], self.turns[:, :, last] = step, gradient_turn
        column = _multiply_by_vector(self.steps[:, :, :size], gradient_turn)[:, :, self.slots]
        # A step that is none has no product with any other: whatever stands for its own leaves it out.
        column[:, :, -1, 0] = torch.where(usable, products, 1.0)
        self.diagonal = torch.cat([self.diagonal, torch.where(usable, products, 0.0)[..., None]], 2)
        # By hand: torch 2.6 refuses to pad what is empty.
        zero_row = self.triangle.new_zeros(*self.triangle.shape[:2], 1, size - 1)
        self.triangle = torch.cat([torch.cat([self.triangle, zero_row], 2), column], 3)

    def newton(self, gradient: Point, curvature: Point) -> Flat:
        """Multiply a gradient by the inverse Hessian."""
        vector = gradient.flatten(2)
        size = len(self.slots)
        if not size:
            return (gradient / curvature).flatten(2)
        steps, turns = self.steps[:, :, :size], self.turns[:, :, :size]
        first = torch.linalg.solve_triangular(
            self.triangle, _multiply_by_vector(steps, vector)[:, :, self.slots], upper=True
        )
        rest = vector - self._sum(turns, first)
        scaled_rest = rest / curvature.flatten(2)
        residual = (
            self.diagonal[..., None] * first - _multiply_by_vector(turns, scaled_rest)[:, :, self.slots]
        )
        second = torch.linalg.solve_triangular(self.triangle.mT, residual, upper=False)
        return scaled_rest.add_(self._sum(steps, second))

    def _sum(
        self,
        vectors: Float[Tensor, "layer problem memory entry"],
        weights: Float[Tensor, "layer problem known 1"],
    ) -> Flat:
        slot_weights = torch.empty_like(weights)
        slot_weights[:, :, self.slots] = weights
        return (slot_weights.mT @ vectors)[:, :, 0]


def _multiply_by_vector(
    vectors: Float[Tensor, "layer problem memory entry"], vector: Flat
) -> Float[Tensor, "layer problem memory 1"]:
    """Multiply each vector by one vector; from the left, which is several times as fast."""
    return (vector[:, :, None] @ vectors.mT).mT


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxFit:
    """Solutions, one a layer and problem.

    Attributes:
        weight: Class directions.
        bias: Class offsets.
        gradient: Root mean square of the gradient's entries at the solution.
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
        start: Starting weight and bias, such as those with a stronger penalty; by default 0.
        tolerance: A problem stops where the root mean square of its gradient's entries is no larger. The
            largest entry is about four times it; scikit-learn stops where that is 1e-4.
        max_steps: Maximum number of evaluations of the loss. The weakest penalties on separable classes may
            not converge; validation decides whether the result is of use.
    """
    loss = SoftmaxLoss.build(features, labels, l2, classes)
    if start is None:
        directions, (layers, _, columns) = 1 if classes == 2 else classes, features.values.shape
        begin = features.values.new_zeros(layers, len(l2), directions, columns)
    else:
        weight, bias = start
        begin = torch.cat([weight @ features.axes[:, None], bias[..., None]], 3)
        begin = begin.diff(dim=2) if classes == 2 else begin
    point, gradient, steps = minimise(loss, begin, tolerance, max_steps)
    if classes == 2:
        # Of the difference between two classes each has its half.
        point = torch.cat([-point / 2, point / 2], 2)
    weight = to_state_weights(point[..., :-1], features.axes)
    return SoftmaxFit(weight, point[..., -1], gradient, steps)


def logits(
    states: Float[Tensor, "layer item d_model"],
    weight: Float[Tensor, "layer problem label d_model"],
    bias: Float[Tensor, "layer problem label"],
) -> Float[Tensor, "layer problem label item"]:
    """Compute logits on states standardised like those of the fit."""
    layers, problems, classes, width = weight.shape
    flat = weight.reshape(layers, problems * classes, width) @ states.mT
    return flat.view(layers, problems, classes, -1) + bias[..., None]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """States along their principal axes, along which a diagonal captures most of their condition.

    The penalty is the same along any axes, and a solution has no part outside the items: of fewer items than
    states are wide, as many axes do.

    Attributes:
        values: States, and a last column of ones for the bias.
        transpose: The same with items last, which is faster for few directions.
        axes: The axes, orthogonal.
    """

    values: Float[Tensor, "layer item column"]
    transpose: Float[Tensor, "layer column item"]
    axes: Float[Tensor, "layer d_model feature"]

    @classmethod
    def fit(cls, states: Float[Tensor, "layer item d_model"]) -> Features:
        """Compute the axes, which costs one product of the states with themselves a layer.

        Each column of the states has mean 0, or a diagonal says little along these axes.
        """
        layers, items, width = states.shape
        if items > width:
            _, axes = torch.linalg.eigh(states.mT @ states)
        else:
            squares, rows = torch.linalg.eigh(states @ states.mT)
            is_nonzero = squares > items * torch.finfo(states.dtype).eps * squares.amax(1, keepdim=True)
            axes = states.mT @ (rows * torch.where(is_nonzero, squares.rsqrt(), 0.0)[:, None])
        column = states.new_zeros(layers, width, 1)
        values = states @ torch.cat([axes, column], 2)
        values[:, :, -1] = 1.0
        return cls(values, values.mT.contiguous(), axes)

    def select(self, layers: Int[Tensor, " layer"]) -> Features:
        """Select some layers."""
        return Features(self.values[layers], self.transpose[layers], self.axes[layers])


def to_state_weights(
    weight: Float[Tensor, "layer problem label feature"], axes: Float[Tensor, "layer d_model feature"]
) -> Float[Tensor, "layer problem label d_model"]:
    """Convert weights of the features to weights of the states."""
    return (weight.flatten(1, 2) @ axes.mT).view(*weight.shape[:3], -1)


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxLoss:
    """Loss of softmax regression; items come last, where sums are fast.

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
    def build(
        cls,
        features: Features,
        labels: Int[Tensor, "problem item"],
        l2: Float[Tensor, " problem"],
        classes: int,
    ) -> SoftmaxLoss:
        """Build the loss from features and labels."""
        values = features.values
        penalty = l2.to(values.device, values.dtype)[:, None].repeat(1, values.shape[2])
        penalty[:, -1] = 0.0
        return cls(
            features, labels.to(values.device, values.dtype) if classes == 2 else labels.long(), penalty
        )

    def evaluate(self, point: Point) -> tuple[Grid, Point]:
        """Compute loss and gradient."""
        states, labels = self.features.values, self.labels
        items = states.shape[1]
        scores = self._scores(point)
        if point.shape[2] == 1:
            nats = (torch.nn.functional.softplus(scores) - labels[:, None] * scores)[:, :, 0]
            residual = scores.sigmoid_().sub_(labels[:, None])
        else:
            index = labels[None, :, None].expand(len(states), -1, 1, items)
            chance = scores.log_softmax(2)
            nats = -chance.gather(2, index)[:, :, 0]
            residual = chance.exp_().scatter_add_(2, index, chance.new_full((1,), -1.0).expand(index.shape))
        product = residual.flatten(1, 2) @ states
        l2_gradient = self.l2[:, None] * point
        gradient = torch.add(l2_gradient, product.view(point.shape), alpha=1.0 / items)
        penalty = torch.linalg.vecdot(l2_gradient.flatten(2), point.flatten(2)) / 2
        return nats.sum(2, dtype=torch.float64) / items + penalty, gradient

    def curvature(
        self, point: Float[Tensor, "layer problem direction column"]
    ) -> Float[Tensor, "layer problem direction column"]:
        """Compute the diagonal of the Hessian; for several classes, between each and the others' mean.

        It is above 0, and costs more than an evaluation.
        """
        states, classes = self.features.values, point.shape[2]
        scores = self._scores(point)
        chance = scores.sigmoid() if classes == 1 else scores.softmax(2)
        weights = chance * (1.0 - chance)
        if classes > 1:
            weights *= classes / (classes - 1)
        product = (weights.flatten(1, 2) @ (states * states)).view(point.shape)
        # A separable problem has no curvature left; its steps must not become infinite.
        return product.div_(states.shape[1]).add_(self.l2[:, None]).clamp_(min=_MIN_CURVATURE)

    def _scores(
        self, point: Float[Tensor, "layer problem direction column"]
    ) -> Float[Tensor, "layer problem direction item"]:
        return (point.flatten(1, 2) @ self.features.transpose).view(*point.shape[:3], -1)

    def select(self, layers: Int[Tensor, " layer"] | None, problems: Int[Tensor, " problem"]) -> SoftmaxLoss:
        """Select some layers (None: all, without a copy of the states) and problems."""
        features = self.features if layers is None else self.features.select(layers)
        return SoftmaxLoss(features, self.labels[problems], self.l2[problems])


_MIN_CURVATURE = 1e-6
"""Least curvature that is believed."""
