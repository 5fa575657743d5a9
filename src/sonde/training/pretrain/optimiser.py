"""Muon for the hidden matrices, AdamW for everything else, as one optimiser.

Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) replaces a matrix's momentum by the
nearest orthogonal matrix, found by a quintic Newton-Schulz iteration. `torch.optim.Muon` does the same one
matrix at a time and always in bfloat16, which processors without native bfloat16 emulate some twenty times
slower than float32; here matrices of one shape are iterated together, in bfloat16 only where the device
computes it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

from sonde.base.options import OneOf, ValidatedRecord
from sonde.training.precision import uses_bfloat16

_QUINTIC = (3.4445, -4.7750, 2.0315)


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig(ValidatedRecord):
    """Configuration of the optimiser.

    Attributes:
        hidden: ``"muon"`` or ``"adamw"``, for the matrices between embedding and vocabulary projection.
        hidden_lr: Peak rate of those matrices; about 0.02 for Muon, 0.001 to 0.003 for AdamW.
        lr: Peak rate of embeddings, norms and biases (always AdamW).
        weight_decay: Decoupled decay of the hidden matrices.
        momentum: Momentum of Muon, in Nesterov's form.
        betas: Decay rates of AdamW's moments.
    """

    hidden: Annotated[str, OneOf(("muon", "adamw"))] = "muon"
    hidden_lr: float = 0.02
    lr: float = 0.003
    weight_decay: float = 0.01
    momentum: float = 0.95
    betas: tuple[float, float] = (0.9, 0.95)


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Split a model's trainable parameters into hidden matrices and the rest.

    Embeddings are the rest, and so is whatever shares a weight with one (a tied projection); so are vectors.

    Returns:
        Hidden matrices (all two-dimensional), then all others; each parameter exactly once.
    """
    embeddings = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    projection = getattr(model, "get_output_embeddings", lambda: None)()
    if projection is not None:
        embeddings |= {id(p) for p in projection.parameters()}
    hidden_matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            is_hidden = parameter.ndim == 2 and id(parameter) not in embeddings
            (hidden_matrices if is_hidden else rest).append(parameter)
    return hidden_matrices, rest


def orthogonalise(
    matrices: Float[Tensor, "batch rows columns"], iterations: int = 5, precision: str = "auto"
) -> Float[Tensor, "batch rows columns"]:
    """Bring every singular value of each matrix near 1 by a quintic Newton-Schulz iteration.

    The coefficients are those of Jordan et al.: they trade exactness (values end in about 0.7 to 1.2) for
    speed.

    Args:
        matrices: Matrices of one shape, none of them moved by the others.
        iterations: Number of steps.
        precision: Of the products, see `sonde.training.precision`.
    """
    a, b, c = _QUINTIC
    x = matrices.bfloat16() if uses_bfloat16(precision, matrices.device) else matrices.float()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)


class MuonAdamW(Optimizer):
    """One optimiser with a Muon group and an AdamW group, so that schedulers and checkpoints see one.

    Args:
        model: Whose parameters move.
        config: Rates and decay.
        precision: Of Muon's products, see `sonde.training.precision`.
    """

    def __init__(self, model: nn.Module, config: OptimiserConfig, precision: str = "auto") -> None:
        self._precision = precision
        hidden_matrices, rest = split_parameters(model)
        groups: list[dict[str, Any]] = [
            {
                "params": hidden_matrices,
                "rule": config.hidden,
                "lr": config.hidden_lr,
                "decay": config.weight_decay,
            },
            {"params": rest, "rule": "adamw", "lr": config.lr, "decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        super().__init__(groups, {"momentum": config.momentum, "betas": config.betas})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Move every parameter that has a gradient once."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if parameters:
                {"muon": self._muon, "adamw": self._adamw}[group["rule"]](parameters, group)
        return loss

    def _muon(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        momentum: float = group["momentum"]
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for parameter in parameters:
            by_shape[parameter.shape].append(parameter)
        for (rows, columns), members in by_shape.items():
            updates: list[Tensor] = []
            for parameter in members:
                assert parameter.grad is not None
                state = self.state[parameter]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                state["momentum_buffer"].lerp_(parameter.grad, 1 - momentum)
                updates.append(parameter.grad.lerp(state["momentum_buffer"], momentum))
            rate: float = group["lr"] * math.sqrt(max(1.0, rows / columns))
            moves = orthogonalise(torch.stack(updates), precision=self._precision)
            for parameter, update in zip(members, moves, strict=True):
                parameter.mul_(1 - group["lr"] * group["decay"]).add_(update, alpha=-rate)

    def _adamw(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        first_rate, second_rate = group["betas"]
        for parameter in parameters:
            assert parameter.grad is not None
            state = self.state[parameter]
            if not state:
                state["step"] = 0
                state["first"] = torch.zeros_like(parameter)
                state["second"] = torch.zeros_like(parameter)
            state["step"] += 1
            state["first"].lerp_(parameter.grad, 1 - first_rate)
            state["second"].mul_(second_rate).addcmul_(parameter.grad, parameter.grad, value=1 - second_rate)
            size = group["lr"] / (1 - first_rate ** state["step"])
            scale = state["second"].sqrt().div_(math.sqrt(1 - second_rate ** state["step"])).add_(1e-8)
            parameter.mul_(1 - group["lr"] * group["decay"]).addcdiv_(state["first"], scale, value=-size)
