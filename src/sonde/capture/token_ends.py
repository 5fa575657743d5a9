"""Nats that a decoder needs from the beginning of a subword to the ends of code tokens in it.

An end of a code token inside a subword costs the negative logarithm of the probability of all vocabulary
entries that begin like the subword up to there. The logits are those that score the subwords.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.alignment.token_ends import find_token_ends, get_prefix_index
from sonde.capture.reducer import Block
from sonde.capture.requests import ScoredTokenEnds, TokenEndScores
from sonde.capture.windows import Row

_ENTRIES = 1 << 21
"""Logits that are gathered at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefixPlaces:
    """Prefixes of subwords, sorted by the state that they are read from.

    Attributes:
        state: Index of the state.
        first: First of the vocabulary's sorted entries that begin with the prefix.
        size: Number of these entries.
        order: Ids of the sorted entries, on the device.
    """

    state: Int[np.ndarray, " prefix"]
    first: Int[np.ndarray, " prefix"]
    size: Int[np.ndarray, " prefix"]
    order: Int[Tensor, " entry"]

    def select_states(self, start: int, stop: int) -> PrefixPlaces:
        """Select the prefixes of some states, whose indices then begin at 0."""
        part = slice(*np.searchsorted(self.state, [start, stop]).tolist())
        return PrefixPlaces(self.state[part] - start, self.first[part], self.size[part], self.order)

    def score(
        self, log_weights: Float[Tensor, "state vocab"], log_total: Float[Tensor, " state"]
    ) -> Float[Tensor, " prefix"]:
        """Compute the negative log-probability of each prefix.

        Args:
            log_weights: Logits less any number a state.
            log_total: Logarithm of the sum of their exponentials.
        """
        parts: list[Tensor] = []
        start = 0
        ends = np.cumsum(self.size)
        while start < len(self.size):
            done = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + _ENTRIES, side="right")))
            parts.append(self._score_part(slice(start, stop), log_weights, log_total))
            start = stop
        return torch.cat(parts) if parts else log_total[:0]

    def _score_part(self, part: slice, log_weights: Tensor, log_total: Tensor) -> Tensor:
        size = self.size[part]
        prefix = np.repeat(np.arange(len(size)), size)
        within = np.arange(len(prefix)) - np.repeat(np.cumsum(size) - size, size)
        device = log_weights.device
        owner, entry, state = (
            torch.from_numpy(array).to(device)
            for array in (prefix, self.first[part][prefix] + within, self.state[part])
        )
        values = log_weights[state[owner], self.order[entry]]
        best = values.new_full((len(size),), -torch.inf).scatter_reduce_(0, owner, values, "amax")
        sums = torch.zeros_like(best).index_add_(0, owner, (values - best[owner]).exp_())
        return log_total[state] - (best + sums.log())


class TokenEndTable:
    """Ends of code tokens in all inputs of a block, and the nats to each.

    Args:
        block: The inputs.
        requests: The inputs that ask, by index.
    """

    def __init__(self, block: Block, requests: Mapping[int, TokenEndScores]) -> None:
        index = get_prefix_index(block.loaded.tokenizer) if requests else None
        self._index = index
        self._ends = {
            source: find_token_ends(item.alignment.subwords, item.tokens.end, index)
            for source in requests
            for item in (block.prepared[block.inputs[source].item],)
        }
        self._nats = {source: np.full(len(ends), np.nan, np.float32) for source, ends in self._ends.items()}
        self._order = None if index is None else torch.from_numpy(index.ids).to(block.loaded.device)

    def plan(
        self, rows: Sequence[Row], states: Int[np.ndarray, " position"] | None
    ) -> tuple[PrefixPlaces, list[tuple[int, int]]] | None:
        """Return the prefixes to score in a batch, and the source and end of each; None without any.

        Args:
            rows: The rows.
            states: The state of each scored position; None where each has its own.
        """
        if self._index is None or self._order is None:
            return None
        prefixes: list[tuple[int, int, int]] = []
        owners: list[tuple[int, int]] = []
        offset = 0
        for row in rows:
            ends = self._ends.get(row.source)
            if ends is not None and len(ends) and len(row.target):
                first, last = np.searchsorted(ends.subword, [row.target.min(), row.target.max() + 1]).tolist()
                position = {subword: offset + place for place, subword in enumerate(row.target.tolist())}
                for end in range(first, last):
                    place, prefix = position.get(int(ends.subword[end])), ends.prefix[end]
                    if place is None or not prefix:
                        continue
                    state = place if states is None else int(states[place])
                    prefixes.append((state, *self._index.find_range(prefix)))
                    owners.append((row.source, end))
            offset += len(row.target)
        if not prefixes:
            return None
        state, first_entry, size = np.array(prefixes, np.int64).T
        order = np.argsort(state, kind="stable")
        places = PrefixPlaces(state[order], first_entry[order], size[order], self._order)
        return places, [owners[place] for place in order.tolist()]

    def store(self, owners: Sequence[tuple[int, int]], nats: Float[np.ndarray, " prefix"]) -> None:
        """Store what was fetched."""
        for (source, end), value in zip(owners, nats.tolist(), strict=True):
            self._nats[source][end] = value

    def get(self, source: int) -> ScoredTokenEnds | None:
        """Return the ends of one input; None if it asks for none."""
        ends = self._ends.get(source)
        return None if ends is None else ScoredTokenEnds(ends.subword, ends.token, self._nats[source])
