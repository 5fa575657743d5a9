"""States of one task's examples at one layer, for whoever wants the vectors rather than their scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.base.errors import InputError, UnknownNameError
from sonde.lenses._lens import LensSettings
from sonde.lenses.probe.data import Examples, poolings_of, states_of
from sonde.lenses.probe.options import Probing, read_options


@dataclass(frozen=True, slots=True, eq=False)
class LayerStates:
    """Examples and their states, row by row.

    Attributes:
        values: One row an example; of a pair three or four times as wide, see `states_of`.
        examples: The rows of `sonde.tasks.EXAMPLE_SCHEMA` in the same order, with class and split, and the
            ``fold`` that tests each: its probe is fitted to the other folds but the next one, which chooses
            penalty and layer. Null where there is one split alone.
        pooling: How the states of an example's subwords became one.
    """

    values: Float[np.ndarray, "example d_model"]
    examples: pl.DataFrame
    pooling: str


@dataclass(frozen=True, slots=True, eq=False)
class ProbedExamples:
    """The examples of a task as a run probed them, and where their states are.

    Attributes:
        examples: In the folds in which probes are scored.
        observations: The item table of a model.
        options: Those of the lens in the run.
        language: Of the examples.
    """

    examples: Examples
    observations: pl.LazyFrame
    options: Probing
    language: str

    @classmethod
    def of(
        cls,
        observations: pl.LazyFrame,
        labels: pl.DataFrame,
        task: str,
        language: str,
        settings: LensSettings,
    ) -> ProbedExamples:
        """The examples of a data set.

        Args:
            observations: The item table of a model.
            labels: The data set of the task.
            task: Its public name.
            language: Of the examples.
            settings: Those of the lens in the run.
        """
        options = read_options(settings)
        try:
            examples = as_probed(task, labels, options, settings.seed)
        except InputError:
            # Too few clusters for folds leave the task without scores, but not without states.
            examples = Examples.of(task, labels)
        return cls(examples, observations, options, language)

    def at(self, layer: int, pooling: str | None) -> tuple[LayerStates, Examples]:
        """States of the examples at a layer, as far as they were observed, and those examples.

        Args:
            layer: 0 the embeddings, negative from the last.
            pooling: One of those that the run observed; None takes that of the headline.

        Raises:
            UnknownNameError: The run did not pool so.
            UsageError: The model has no such layer.
            InputError: No example has a state.
        """
        examples = self.examples
        poolings = poolings_of(examples, self.options)
        if pooling is not None and pooling not in poolings:
            raise UnknownNameError(f"pooling of task {examples.task!r}", pooling, poolings)
        chosen = pooling or poolings[0]
        states, rows = states_of(
            self.observations,
            examples,
            chosen,
            language=self.language,
            alone=self.options.pooling[0],
            layer=layer,
        )
        frame = examples.frame[rows].with_columns(fold=_fold(examples)[rows])
        return LayerStates(states[0], frame, chosen), examples.only(rows)


def as_probed(task: str, labels: pl.DataFrame, options: Probing, seed: int) -> Examples:
    """The examples of a task in the folds in which its probes are scored.

    Raises:
        InputError: They are of too few clusters for folds.
    """
    examples = Examples.of(task, labels)
    return examples.cross_fitted(options.folds, seed) if options.crossed else examples


def _fold(examples: Examples) -> pl.Series:
    """The fold that tests each example; null where there is one alone."""
    fold = np.full(len(examples.labels), -1, np.int64)
    if len(examples.folds) > 1:
        for number, parts in enumerate(examples.folds):
            fold[parts.test] = number
    return pl.Series(fold).replace(-1, None)
