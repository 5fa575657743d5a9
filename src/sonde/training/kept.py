"""Checkpoints of a training that are kept as models of their own, so that its course can be looked at."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState

from sonde.training.recipe import Recipe


class Series(TrainerCallback):
    """Hands a copy of the model on after 0, 1, 2, 4, 8, ... updates, and after the last."""

    def __init__(
        self, recipe: Recipe, model: PreTrainedModel, keep: Callable[[PreTrainedModel, int], None]
    ) -> None:
        self._last = recipe.training.steps
        self._model = model
        self._keep = keep

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Keep the model before its first update."""
        if state.global_step == 0:
            self._hand_on(state)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Keep it where the update is a power of two, and at the end."""
        step = state.global_step
        if step & (step - 1) == 0 or step == self._last:
            self._hand_on(state)

    def _hand_on(self, state: TrainerState) -> None:
        if state.is_world_process_zero:
            # Without what the trainer has put on the instance, which no copy may carry.
            state_dict = {
                name: weight.detach().cpu().clone() for name, weight in self._model.state_dict().items()
            }
            fresh = type(self._model)(copy.deepcopy(self._model.config))
            fresh.load_state_dict(state_dict)
            self._keep(fresh, state.global_step)
