"""States of one task's examples at one layer, for whoever wants the vectors rather than their scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.base.errors import UnknownNameError
from sonde.lenses._lens import LensSettings
from sonde.lenses.probe.data import Examples, poolings_of, states_of
from sonde.lenses.probe.options import read_options


@dataclass(frozen=True, slots=True, eq=False)
class LayerStates:
    """Examples and their states, row by row.

    Attributes:
        values: One row an example; of a pair of places three times as wide, see `states_of`.
        examples: The rows of `sonde.tasks.EXAMPLE_SCHEMA` in the same order, with class and split.
        pooling: How the states of an example's subwords became one.
    """

    values: Float[np.ndarray, "example d_model"]
    examples: pl.DataFrame
    pooling: str


def layer_states(
    observations: pl.LazyFrame,
    labels: pl.DataFrame,
    task: str,
    *,
    layer: int,
    pooling: str | None,
    language: str,
    settings: LensSettings,
) -> LayerStates:
    """States of the labelled examples of a task, as far as they were observed.

    Args:
        observations: The item table of a model.
        labels: The data set of the task.
        task: Its public name.
        layer: 0 the embeddings, negative from the last.
        pooling: One of those that the run observed; None takes that of the headline.
        language: Of the examples.
        settings: Those of the lens in the run.

    Raises:
        UnknownNameError: The run did not pool so.
        UsageError: The model has no such layer.
        InputError: No example has a state.
    """
    options, examples = read_options(settings), Examples.of(task, labels)
    poolings = poolings_of(examples, options)
    if pooling is not None and pooling not in poolings:
        raise UnknownNameError(f"pooling of task {task!r}", pooling, poolings)
    chosen = pooling or poolings[0]
    states, rows = states_of(
        observations, examples, chosen, language=language, alone=options.pooling[0], layer=layer
    )
    return LayerStates(states[0], examples.frame[rows], chosen)
