"""L-BFGS for a grid of convex problems that are evaluated together.

Each problem has its own step length, history and end; one evaluation tries the next point of all of them.
Problems that have ended leave the grid by whole layers and whole columns, so that the rest run faster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

MEMORY = 6
_SUFFICIENT = 1e-4
_ROUNDING = 1e-6
_SHORTEST = 2.0**-30
_WORTH_A_COPY = 0.75
_LOOKED_AGAIN = frozenset({3, 9, 27, 81})
"""Evaluations after which the curvature is looked at again: it changes most at the beginning."""

Grid = Float[Tensor, "layer problem"]
Point = Float[Tensor, "layer problem direction column"]
Flat = Float[Tensor, "layer problem entry"]


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A loss at a point of the grid.

    Attributes:
        loss: Its value, one a problem.
        gradient: Its gradient.
    """

    loss: Float[Tensor, "layer problem"]
    gradient: Float[Tensor, "layer problem direction column"]

    def where(self, accepted: Bool[Tensor, "layer problem"], other: Evaluation) -> Evaluation:
        """This evaluation where accepted, else the other."""
        return Evaluation(
            torch.where(accepted, self.loss, other.loss),
            torch.where(accepted[..., None, None], self.gradient, other.gradient),
        )


class Loss(Protocol):
    """A convex loss on a grid of problems."""

    def evaluate(self, point: Point) -> Evaluation:
        """Value and gradient at a point."""
        ...

    def curvature(self, point: Point) -> Point:
        """The diagonal of the Hessian at a point, or near it, above 0; it costs more than an evaluation."""
        ...

    def only(self, layers: Int[Tensor, " layer"] | None, problems: Int[Tensor, " problem"]) -> Self:
        """A part of the grid; None keeps all layers."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Where each problem stopped.

    Attributes:
        point: The points.
        gradient: Root mean square of the entries of each gradient.
        steps: Evaluations of the loss.
    """

    point: Float[Tensor, "layer problem direction column"]
    gradient: Float[Tensor, "layer problem"]
    steps: int


def minimise(loss: Loss, start: Point, tolerance: float, max_steps: int) -> Minimum:
    """Minimise all problems of a grid.

    A problem ends where the entries of its gradient are small, whichever way its axes are turned, or where
    rounding hides any descent.

    Args:
        loss: The loss.
        start: Where to start.
        tolerance: Of the root mean square of the gradient's entries.
        max_steps: Evaluations at most.
    """
    point, gradient = start.clone(), start.new_zeros(start.shape[:2])
    search = _Search.begin(loss, start)
    while True:
        size = _root_mean_square(search.at.gradient)
        ended = search.ended = (size <= tolerance) | (search.step < _SHORTEST)
        last = bool(ended.all()) or search.steps >= max_steps
        shrunk = None if last else search.shrink(ended)
        if last or shrunk is not None:
            rows = search.layers[:, None], search.problems[None]
            point[rows], gradient[rows] = search.point, size
        if last:
            return Minimum(point, gradient, search.steps)
        if shrunk is not None:
            search = shrunk
            continue
        search.advance()


def _root_mean_square(gradient: Point) -> Grid:
    return gradient.flatten(2).norm(dim=2) / math.sqrt(gradient.shape[2] * gradient.shape[3])


@dataclass(slots=True, eq=False)
class _Search:
    """The state of the search: what is left of the grid, with its history."""

    loss: Loss
    layers: Int[Tensor, " layer"]
    problems: Int[Tensor, " problem"]
    point: Point
    at: Evaluation
    step: Grid
    ended: Bool[Tensor, "layer problem"]
    history: _History
    curvature: Point
    steps: int = 1
    direction: Point = field(init=False)

    def __post_init__(self) -> None:
        self.direction = self._descent()

    @classmethod
    def begin(cls, loss: Loss, start: Point) -> _Search:
        at = loss.evaluate(start)
        layers, problems = (torch.arange(size, device=start.device) for size in start.shape[:2])
        step = start.new_ones(start.shape[:2])
        history, curvature = _History.empty(start), loss.curvature(start)
        return cls(loss, layers, problems, start, at, step, step < 0, history, curvature)

    def shrink(self, ended: Bool[Tensor, "layer problem"]) -> _Search | None:
        """The search without whole layers and problems that have ended; None where there are too few."""
        layers, problems = (~ended.all(1)).nonzero()[:, 0], (~ended.all(0)).nonzero()[:, 0]
        fewer = len(layers) <= _WORTH_A_COPY * len(ended)
        if not fewer and len(problems) == ended.shape[1]:
            return None
        if not fewer:
            layers = torch.arange(len(ended), device=ended.device)
        cut = layers[:, None], problems[None]
        at = Evaluation(self.at.loss[cut], self.at.gradient[cut])
        return _Search(
            self.loss.only(layers if fewer else None, problems),
            self.layers[layers],
            self.problems[problems],
            self.point[cut],
            at,
            self.step[cut],
            ended[cut],
            self.history.only(cut),
            self.curvature[cut],
            self.steps,
        )

    def advance(self) -> None:
        """Try the next point of every problem; those whose loss falls too little halve their step."""
        slope = torch.linalg.vecdot(self.at.gradient.flatten(2), self.direction.flatten(2))
        trial = torch.addcmul(self.point, self.step[..., None, None], self.direction)
        there = self.loss.evaluate(trial)
        # Near the minimum the loss changes by less than it is rounded.
        allowed = self.at.loss + _SUFFICIENT * self.step * slope + _ROUNDING * self.at.loss.abs()
        accepted = (there.loss <= allowed) & ~self.ended
        before, origin, direction = self.at, self.point, self.direction
        every = bool(accepted.all())
        self.point = trial if every else torch.where(accepted[..., None, None], trial, origin)
        self.at = there if every else there.where(accepted, before)
        self.history.add(self.point - origin, self.at.gradient - before.gradient)
        self.steps += 1
        if self.steps in _LOOKED_AGAIN:
            self.curvature = self.loss.curvature(self.point)
        self.step = torch.where(accepted, 1.0, torch.where(self.ended, self.step, self.step / 2))
        self.direction = self._descent()
        if not every:
            self.direction = torch.where(accepted[..., None, None], self.direction, direction)

    def _descent(self) -> Point:
        flat = self.history.newton(self.at.gradient, self.curvature)
        return flat.view(self.point.shape).neg_()


@dataclass(slots=True, eq=False)
class _History:
    """The last steps of each problem, and how the gradient turned with them.

    The inverse Hessian of L-BFGS in its compact form (Byrd, Nocedal and Schnabel 1994, theorem 2.2): four
    products with the whole history in place of four passes a remembered step.

    Attributes:
        steps: Changes of the point.
        turns: Changes of the gradient.
        along: Each step times its own turn, the oldest first.
        triangle: Each step times its own turn and later ones, the oldest first.
        slots: Places of the steps, the oldest first.
    """

    steps: Float[Tensor, "layer problem memory entry"]
    turns: Float[Tensor, "layer problem memory entry"]
    along: Float[Tensor, "layer problem known"]
    triangle: Float[Tensor, "layer problem known known"]
    slots: Int[Tensor, " known"]

    @classmethod
    def empty(cls, point: Point) -> _History:
        layers, problems, directions, columns = point.shape
        held = point.new_zeros(2, layers, problems, MEMORY, directions * columns)
        along, triangle = point.new_zeros(layers, problems, 0), point.new_zeros(layers, problems, 0, 0)
        return cls(held[0], held[1], along, triangle, torch.arange(0, device=point.device))

    def only(self, cut: tuple[Tensor, Tensor]) -> _History:
        return _History(self.steps[cut], self.turns[cut], self.along[cut], self.triangle[cut], self.slots)

    def add(self, change: Point, turn: Point) -> None:
        """Remember a step; where a problem did not move, or its gradient did not turn, it is none."""
        step, turned = change.flatten(2), turn.flatten(2)
        along = torch.linalg.vecdot(step, turned)
        usable = along > torch.finfo(along.dtype).eps * torch.linalg.vecdot(turned, turned)
        if not bool(usable.all()):
            step, turned = (torch.where(usable[..., None], one, 0.0) for one in (step, turned))
        if len(self.slots) == MEMORY:
            self.slots = self.slots.roll(-1)
            self.along, self.triangle = self.along[..., 1:], self.triangle[..., 1:, 1:]
        else:
            self.slots = torch.cat([self.slots, self.slots.new_full((1,), len(self.slots))])
        last, known = int(self.slots[-1]), len(self.slots)
        self.steps[:, :, last], self.turns[:, :, last] = step, turned
        column = _each(self.steps[:, :, :known], turned)[:, :, self.slots]
        # A step that is none has no product with any other: whatever stands for its own leaves it out.
        column[:, :, -1, 0] = torch.where(usable, along, 1.0)
        self.along = torch.cat([self.along, torch.where(usable, along, 0.0)[..., None]], 2)
        # By hand: torch 2.6 refuses to pad what is empty.
        below = self.triangle.new_zeros(*self.triangle.shape[:2], 1, known - 1)
        self.triangle = torch.cat([torch.cat([self.triangle, below], 2), column], 3)

    def newton(self, gradient: Point, curvature: Point) -> Flat:
        """The inverse Hessian times a gradient."""
        vector = gradient.flatten(2)
        known = len(self.slots)
        if not known:
            return (gradient / curvature).flatten(2)
        steps, turns = self.steps[:, :, :known], self.turns[:, :, :known]
        first = torch.linalg.solve_triangular(
            self.triangle, _each(steps, vector)[:, :, self.slots], upper=True
        )
        rest = vector - self._sum(turns, first)
        scaled = rest / curvature.flatten(2)
        back = self.along[..., None] * first - _each(turns, scaled)[:, :, self.slots]
        second = torch.linalg.solve_triangular(self.triangle.mT, back, upper=False)
        return scaled.add_(self._sum(steps, second))

    def _sum(
        self,
        vectors: Float[Tensor, "layer problem memory entry"],
        weights: Float[Tensor, "layer problem known 1"],
    ) -> Flat:
        placed = torch.empty_like(weights)
        placed[:, :, self.slots] = weights
        return (placed.mT @ vectors)[:, :, 0]


def _each(
    vectors: Float[Tensor, "layer problem memory entry"], vector: Flat
) -> Float[Tensor, "layer problem memory 1"]:
    """The products of a vector with each; from the left, which is several times as fast."""
    return (vector[:, :, None] @ vectors.mT).mT
