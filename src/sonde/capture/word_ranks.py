"""Ranks of words among those that attention is paid to; pure, on the device."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.capture.requests import NEVER

NEAR_TIE = 1e-5
"""Share of a word's attention within which another counts as tied; the shape of a batch moves it by less."""

EXCLUDED = -1.0
"""What is paid to a word that is no candidate."""


def count_ahead(
    words: Float[Tensor, "target head word"],
    first: Int[Tensor, " target"],
    last: Int[Tensor, " target"] | None,
    later_wins: bool,
) -> Int[Tensor, "target head"]:
    """Rank of a word, or of the best word from ``first`` to ``last``, among the words of its row.

    Args:
        words: What is paid to each word; overwritten.
        first: First word looked for.
        last: Last word; None where all are single words.
        later_wins: Which of equal words is ahead.
    """
    place = torch.arange(words.shape[2], device=words.device)
    if last is None:
        best = words.gather(2, first[:, None, None].expand(-1, words.shape[1], 1))
        last, own = first, 1
    else:
        inside = ((place >= first[:, None]) & (place <= last[:, None]))[:, None]
        best = words.masked_fill(~inside, EXCLUDED).amax(-1, keepdim=True)
        words.masked_fill_(inside, EXCLUDED)
        own = 0
    # Differences stay in float: comparisons that make booleans are several times slower on a processor.
    if later_wins:
        ahead = words.sub_(best)
        ahead = ahead.masked_fill_((ahead == 0) & (place <= last[:, None])[:, None], -1.0).ge_(0)
        own = 0
    else:
        ahead = words.sub_(best * (1 - NEAR_TIE)).ge_(0)
    rank = (ahead.sum(-1).to(torch.int32) + (1 - own)).clamp(max=NEVER - 1)
    return rank.masked_fill(best[:, :, 0] < 0, NEVER)


def pick(words: Float[Tensor, "row head word"], *, later_wins: bool) -> Int[Tensor, "row head"]:
    """The word that ranks first in each row."""
    if not later_wins:
        return words.argmax(-1)
    # The first of the greatest from behind.
    return words.shape[2] - 1 - words.flip(-1).argmax(-1)
