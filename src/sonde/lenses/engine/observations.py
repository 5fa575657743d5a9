"""Tables of observations: hidden states, positions in subwords, batch sums and word-wise masking.

Hidden states are stored in half precision with one scale per layer.

Observations are added up batch by batch, on the machines of the run if there are such, and the sums are then
combined. A batch holds whole tables of observations, so it splits no item. The sums are whole numbers
(`sonde.results.group_means.to_fixed_point`): they are the same however many batches there are and in whatever
order they are combined.

Masked models are scored like texts by masking each subword with the rest of its word. This is PLL-word-l2r
(Kauf and Ivanova, ACL 2023). If a word's later pieces were visible, they would give its beginning away, and
words of many pieces would count as likely (Salazar 2020).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.alignment.subwords import Alignment, Subwords
from sonde.base.errors import CaptureError, explain_nan
from sonde.capture.requests import ItemCapture, ScoredSubwords
from sonde.executors import EXECUTORS
from sonde.results.group_means import Accumulator

_TOP_EXPONENT = 14  # the largest number of a layer lies in [2^13, 2^14), well inside half precision


def find_overlapping_subwords(
    spans: Sequence[tuple[int, int]], subwords: Subwords
) -> tuple[Int[np.ndarray, " place"], Int[np.ndarray, " place"]]:
    """Find the subwords that share a character with each span, as half-open intervals, empty for none."""
    start, end = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    first = np.searchsorted(subwords.end, start, side="right")
    stop = np.searchsorted(subwords.start, end, side="left")
    return first, np.maximum(first, stop)


def pack(
    states: Float[np.ndarray, "row layer d_model"], names: Sequence[str]
) -> tuple[list[bytes], Float[np.ndarray, "row layer"]]:
    """Convert states to half precision, scaled by a power of two per layer so that they fit.

    Raises:
        CaptureError: A state is infinite or NaN.
    """
    largest = np.abs(states).max(axis=2)
    if not np.isfinite(largest).all():
        row, layer = np.argwhere(~np.isfinite(largest))[0].tolist()
        raise CaptureError(f"item {names[row]}: a state of layer {layer} is not finite; {explain_nan()}")
    _, exponent = np.frexp(largest)
    scale = np.ldexp(np.ones_like(largest, dtype=np.float32), exponent - _TOP_EXPONENT)
    half_precision = (states / scale[..., None]).astype(np.float16)
    return [row.tobytes() for row in half_precision], scale


def unpack(
    packed: Sequence[bytes], scale: Float[np.ndarray, "row layer"]
) -> Float[np.ndarray, "layer row d_model"]:
    """Convert packed states to float32, layer by layer, with one copy in memory at a time."""
    layers = scale.shape[1]
    half_precision = np.frombuffer(b"".join(packed), dtype=np.float16).reshape(len(packed), layers, -1)
    states = np.empty((layers, len(packed), half_precision.shape[2]), dtype=np.float32)
    for layer in range(layers):
        np.multiply(half_precision[:, layer], scale[:, layer, None], out=states[layer])
    return states


Asked = TypeVar("Asked")


@dataclass(frozen=True, slots=True, eq=False)
class AccumulationJob(Generic[Asked]):
    """One batch of observations to sum.

    Attributes:
        observations: The rows, lazily read from the folder of the run.
        asked: Argument of the function that sums.
        root: Folder of the run; empty if the rows are not read from one.
    """

    observations: pl.LazyFrame
    asked: Asked
    root: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class BatchSums:
    """Observations in batches, and the executor that sums them.

    Attributes:
        tables: The batches, lazily read; none splits the rows of an item.
        executor: Public name of the executor.
        workers: Number of parallel batches.
        root: Folder of the run; empty if the rows are not read from one.
    """

    tables: tuple[pl.LazyFrame, ...]
    executor: str = "local"
    workers: int = 1
    root: str = ""

    def map(self, rule: Callable[[pl.LazyFrame], pl.LazyFrame]) -> BatchSums:
        """Apply a rule to each batch, for example to select rows."""
        return dataclasses.replace(self, tables=tuple(map(rule, self.tables)))

    def accumulate(
        self,
        function: Callable[[AccumulationJob[Asked]], Mapping[str, pl.DataFrame]],
        asked: Asked,
        accumulators: Mapping[str, Accumulator],
    ) -> dict[str, pl.DataFrame]:
        """Sum all batches and return the sums by name.

        Args:
            function: A top-level function that returns the sums of one batch, in the form of
                `sonde.results.group_means.Accumulator.merge_parts`.
            asked: Argument of the function.
            accumulators: Empty accumulators of the sums, by name.
        """
        jobs = (AccumulationJob(table, asked, self.root) for table in self.tables)
        for _, sums in EXECUTORS.load(self.executor).map(function, jobs, workers=self.workers):
            for name, part in sums.items():
                accumulators[name].add(part)
        return {name: accumulator.total() for name, accumulator in accumulators.items()}


def word_masks(alignment: Alignment) -> tuple[tuple[int, ...], ...]:
    """Return the masked positions for the score of each subword: itself and the rest of its word.

    A word is a code token; layout, and a subword over several tokens, is a word of its own.
    """
    first, last = alignment.first.tolist(), alignment.last.tolist()
    size = len(first)
    masks: list[tuple[int, ...]] = []
    for position in range(size):
        stop = position + 1
        if last[position] - first[position] == 1:
            token = (first[position], last[position])
            while stop < size and (first[stop], last[stop]) == token:
                stop += 1
        masks.append(tuple(range(position, stop)))
    return tuple(masks)


def word_gaps(alignment: Alignment) -> tuple[tuple[int, ...], ...]:
    """Split the subwords of an item into words, for models that fill in whole words."""
    words: list[tuple[int, ...]] = []
    for positions in word_masks(alignment):
        if not words or positions[0] > words[-1][-1]:
            words.append(positions)
    return tuple(words)


def combine_masked_scores(captures: Sequence[ItemCapture]) -> ScoredSubwords | None:
    """Combine the scores of an item from captures of its `word_masks` or `word_gaps` inputs, in order.

    The first hidden subword of each input counts; if a decoder fills in the word, all of them count.

    Returns:
        One row per subword; None without captures, or if a subword has no score.
    """
    scores = [capture.scores for capture in captures]
    item_scores = [score for score in scores if score is not None]
    if not item_scores or len(item_scores) < len(scores):
        return None
    hidden_positions = [np.flatnonzero(score.scored) for score in item_scores]
    counted_positions = [
        places if capture.written else places[:1]
        for places, capture in zip(hidden_positions, captures, strict=True)
    ]
    positions = np.concatenate(counted_positions)
    if not np.array_equal(positions, np.arange(len(item_scores[0].nats))):
        return None
    columns = {
        field.name: np.concatenate(
            [
                getattr(one, field.name)[indices]
                for one, indices in zip(item_scores, counted_positions, strict=True)
            ]
        )
        for field in dataclasses.fields(ScoredSubwords)
    }
    return ScoredSubwords(**columns)
