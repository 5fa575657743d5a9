"""Request for what a decoder writes from some places of an item, without torch.

The text before a place is encoded anew, as when somebody types it. `sonde.capture.generate` writes on, always
the likeliest subword, as long as it is what stands in the item.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from sonde.capture.requests import InputRequest, check_positions


@dataclass(frozen=True, slots=True)
class Completions:
    """Greedy completions of an item from some of its subwords on.

    Attributes:
        places: For each item id, positions of subwords.
    """

    places: Mapping[str, tuple[int, ...]]

    def for_item(self, item: str) -> InputCompletions | None:
        """Return the places of one item."""
        places = self.places.get(item, ())
        return InputCompletions(places) if places else None


@dataclass(frozen=True, slots=True)
class InputCompletions(InputRequest):
    """`Completions` of one input.

    Attributes:
        places: Positions of subwords, ascending.
    """

    answer = "completions"
    reducer = "sonde.capture.generate:CompletionReducer"
    traits = frozenset({"prefixes"})

    places: tuple[int, ...]

    def check_bounds(self, item: str, subwords: int) -> None:
        """Refuse positions outside the item."""
        check_positions("place", self.places, item, subwords)


NOT_WRITTEN = -1
"""Answer for a place after more than the model can read, or of a tokenizer without spellings."""


CompletedEnds = Int[np.ndarray, " place"]
"""Answer to `Completions`: for each place the end of the characters that were completed as in the item."""
