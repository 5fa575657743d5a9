"""L-BFGS for a grid of convex problems that are evaluated together.

Each problem has its own step length, history and end; one evaluation tries the next point of all of them.
Problems that have ended leave the grid by whole layers and whole columns, so that the rest run faster.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

MEMORY = 10
_SUFFICIENT = 1e-4
_ROUNDING = 1e-6
_SHORTEST = 2.0**-30
_WORTH_A_COPY = 0.75

Grid = Float[Tensor, "layer problem"]
Point = Float[Tensor, "layer problem label column"]


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A loss at a point of the grid.

    Attributes:
        loss: Its value, one a problem.
        gradient: Its gradient.
        curvature: What `Loss.precondition` needs to know of the point.
    """

    loss: Float[Tensor, "layer problem"]
    gradient: Float[Tensor, "layer problem label column"]
    curvature: Float[Tensor, "layer problem"]

    def where(self, accepted: Bool[Tensor, "layer problem"], other: Evaluation) -> Evaluation:
        """This evaluation where accepted, else the other."""
        return Evaluation(
            torch.where(accepted, self.loss, other.loss),
            torch.where(accepted[..., None, None], self.gradient, other.gradient),
            torch.where(accepted, self.curvature, other.curvature),
        )


class Loss(Protocol):
    """A convex loss on a grid of problems."""

    def evaluate(self, point: Point) -> Evaluation:
        """Value and gradient at a point."""
        ...

    def precondition(self, vector: Point, curvature: Grid) -> Point:
        """Apply an approximate inverse of the Hessian."""
        ...

    def only(self, layers: Int[Tensor, " layer"] | None, problems: Int[Tensor, " problem"]) -> Self:
        """A part of the grid; None keeps all layers."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Where each problem stopped.

    Attributes:
        point: The points.
        gradient: Largest entry of each gradient.
        steps: Evaluations of the loss.
    """

    point: Float[Tensor, "layer problem label column"]
    gradient: Float[Tensor, "layer problem"]
    steps: int


def minimise(loss: Loss, start: Point, tolerance: float, max_steps: int) -> Minimum:
    """Minimise all problems of a grid.

    A problem ends where no entry of its gradient is above the tolerance, or where rounding hides any descent.

    Args:
        loss: The loss.
        start: Where to start.
        tolerance: Of the gradient's largest entry.
        max_steps: Evaluations at most.
    """
    point, gradient = start.clone(), start.new_zeros(start.shape[:2])
    search = _Search.begin(loss, start)
    steps = 1
    while True:
        size = search.at.gradient.abs().amax((2, 3))
        ended = (size <= tolerance) | (search.step < _SHORTEST)
        last = bool(ended.all()) or steps >= max_steps
        shrunk = None if last else search.shrink(ended)
        if last or shrunk is not None:
            rows = search.layers[:, None], search.problems[None]
            point[rows], gradient[rows] = search.point, size
        if last:
            return Minimum(point, gradient, steps)
        if shrunk is not None:
            search = shrunk
            continue
        search.advance(ended)
        steps += 1


@dataclass(slots=True, eq=False)
class _Search:
    """The state of the search: what is left of the grid, with its history."""

    loss: Loss
    layers: Int[Tensor, " layer"]
    problems: Int[Tensor, " problem"]
    point: Point
    at: Evaluation
    step: Grid
    direction: Point
    history: deque[tuple[Point, Point, Grid]] = field(default_factory=lambda: deque(maxlen=MEMORY))

    @classmethod
    def begin(cls, loss: Loss, start: Point) -> _Search:
        at = loss.evaluate(start)
        layers, problems = (torch.arange(size, device=start.device) for size in start.shape[:2])
        search = cls(loss, layers, problems, start, at, start.new_ones(start.shape[:2]), start)
        search.direction = search.descent()
        return search

    def shrink(self, ended: Bool[Tensor, "layer problem"]) -> _Search | None:
        """The search without whole layers and problems that have ended; None where there are too few."""
        layers, problems = (~ended.all(1)).nonzero()[:, 0], (~ended.all(0)).nonzero()[:, 0]
        fewer = len(layers) <= _WORTH_A_COPY * len(ended)
        if not fewer and len(problems) == ended.shape[1]:
            return None
        if not fewer:
            layers = torch.arange(len(ended), device=ended.device)

        def cut(grid: Tensor) -> Tensor:
            return grid[layers[:, None], problems[None]]

        at = Evaluation(cut(self.at.loss), cut(self.at.gradient), cut(self.at.curvature))
        return _Search(
            self.loss.only(layers if fewer else None, problems),
            self.layers[layers],
            self.problems[problems],
            cut(self.point),
            at,
            cut(self.step),
            cut(self.direction),
            deque(((cut(s), cut(y), cut(r)) for s, y, r in self.history), maxlen=MEMORY),
        )

    def advance(self, ended: Bool[Tensor, "layer problem"]) -> None:
        """Try the next point of every problem; those whose loss falls too little halve their step."""
        slope = _dot(self.at.gradient, self.direction)
        trial = self.point + self.step[..., None, None] * self.direction
        there = self.loss.evaluate(trial)
        # Near the minimum the loss changes by less than it is rounded.
        allowed = self.at.loss + _SUFFICIENT * self.step * slope + _ROUNDING * self.at.loss.abs()
        accepted = (there.loss <= allowed) & ~ended
        moved = accepted[..., None, None]
        change = torch.where(moved, trial - self.point, 0.0)
        turn = torch.where(moved, there.gradient - self.at.gradient, 0.0)
        along = _dot(change, turn)
        usable = along > torch.finfo(along.dtype).eps * _dot(turn, turn)
        self.history.append((change, turn, torch.where(usable, 1.0 / along, 0.0)))
        self.point = torch.where(moved, trial, self.point)
        self.at = there.where(accepted, self.at)
        self.step = torch.where(accepted, 1.0, torch.where(ended, self.step, self.step / 2))
        self.direction = torch.where(moved, self.descent(), self.direction)

    def descent(self) -> Point:
        """Two loops over the history (Nocedal 1980), with the loss's own first approximation between."""
        vector = self.at.gradient.clone()
        weights: list[Grid] = []
        for change, turn, scale in reversed(self.history):
            weights.append(scale * _dot(change, vector))
            vector -= weights[-1][..., None, None] * turn
        vector = self.loss.precondition(vector, self.at.curvature)
        for (change, turn, scale), weight in zip(self.history, reversed(weights), strict=True):
            vector += (weight - scale * _dot(turn, vector))[..., None, None] * change
        return -vector


def _dot(one: Point, two: Point) -> Grid:
    return torch.linalg.vecdot(one.flatten(2), two.flatten(2))
