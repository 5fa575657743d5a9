"""Ranks of answers as texts: ids that spell the same text are one answer, by the likeliest of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.alignment.vocabulary import Vocabulary
from sonde.capture.requests import Answer

NEAR_TIE = 1e-4
"""Nats within which two answers count as tied, as for ids."""


@dataclass(frozen=True, slots=True, eq=False)
class Right:
    """The ids that are right at some positions, on the device.

    Attributes:
        ids: Of each position, filled up by repetition.
        shared: Whether the right text is one that all models compared can spell in one piece.
    """

    ids: Int[Tensor, "position spelling"]
    shared: Bool[Tensor, " position"]

    def __getitem__(self, chosen: slice) -> Right:
        """The same of some positions."""
        return Right(self.ids[chosen], self.shared[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class RankedAnswers:
    """Ranks at some positions, on the device; ranks of 0 and NaN where there is none."""

    nats: Float[Tensor, " position"]
    rank: Int[Tensor, " position"]
    shared_nats: Float[Tensor, " position"]
    shared_rank: Int[Tensor, " position"]


class Competition:
    """Some ids of a vocabulary, and which of them spell the same text.

    Args:
        spelled: The text of each id; empty for one that spells nothing and stands for itself.
        device: Where the logits are.
    """

    def __init__(self, spelled: Sequence[str], device: torch.device) -> None:
        columns: dict[str, list[int]] = {}
        for column, text in enumerate(spelled):
            if text:
                columns.setdefault(text, []).append(column)
        by_size: dict[int, list[list[int]]] = {}
        for held in columns.values():
            if len(held) > 1:
                by_size.setdefault(len(held), []).append(held)
        self._together = [torch.tensor(held, device=device) for held in by_size.values()]

    def rank(
        self, logits: Float[Tensor, "position candidate"], limit: Float[Tensor, " position"]
    ) -> Int[Tensor, " position"]:
        """How many texts are at least as likely as a limit."""
        limit = limit[:, None]
        count = torch.ge(logits, limit).sum(1)
        for together in self._together:
            same = torch.ge(logits[:, together], limit[:, :, None])
            count = count - same.sum((1, 2)) + same.any(2).sum(1)
        return count


class AnswerBoard:
    """The vocabulary of a model, and the part of it that is ranked beside.

    Args:
        vocabulary: The vocabulary.
        among: Texts that compete in the second ranking; None for no second ranking.
        device: Where the logits are.
    """

    def __init__(self, vocabulary: Vocabulary, among: frozenset[str] | None, device: torch.device) -> None:
        self._vocabulary = vocabulary
        self._among = among or frozenset()
        texts = vocabulary.texts
        shared = [number for number, text in enumerate(texts) if text in self._among]
        self.ids = torch.tensor(shared, dtype=torch.int64, device=device)
        place = np.zeros(len(texts), dtype=np.int64)
        place[shared] = np.arange(len(shared))
        self._place = torch.from_numpy(place).to(device)
        self._all = Competition(texts, device)
        self._shared = Competition([texts[number] for number in shared], device)

    def right(
        self, answers: Sequence[Answer | None], gold: Sequence[int]
    ) -> tuple[Int[np.ndarray, "position spelling"], Bool[np.ndarray, " position"]]:
        """The fields of `Right` for some positions: the gold id where no answer is asked for or known."""
        found: list[tuple[int, ...]] = []
        shared: list[bool] = []
        for answer, own in zip(answers, gold, strict=True):
            spelled: tuple[int, ...] = ()
            if answer is not None:
                spelled = self._vocabulary.right(
                    answer.text, word_start=answer.word_start, initial=answer.initial
                )
            found.append(spelled or (own,))
            shared.append(answer is not None and bool(spelled) and answer.text in self._among)
        width = max(map(len, found), default=1)
        filled = [ids + ids[:1] * (width - len(ids)) for ids in found]
        return np.array(filled, dtype=np.int64).reshape(-1, width), np.array(shared, dtype=np.bool_)

    def rank(
        self,
        logits: Float[Tensor, "position vocab"],
        log_total: Float[Tensor, " position"],
        right: Right,
    ) -> RankedAnswers:
        """Both rankings, from logits over the whole vocabulary.

        Args:
            logits: Less any number a position.
            log_total: Logarithm of the sum of their exponentials.
            right: What is right.
        """
        own = logits.gather(1, right.ids).amax(1)
        shared = self._rank_shared(logits.index_select(1, self.ids), own, right) if len(self.ids) else None
        rank = self._all.rank(logits, own - NEAR_TIE)
        nats, places = shared or _nothing(own)
        return RankedAnswers(log_total - own, rank, nats, places)

    def rank_shared(self, logits: Float[Tensor, "position candidate"], right: Right) -> RankedAnswers:
        """The second ranking alone, from logits over its ids alone."""
        place = self._place[right.ids]
        own = logits.gather(1, place).amax(1)
        nats, rank = self._rank_shared(logits, own, right)
        whole_nats, whole_rank = _nothing(own)
        return RankedAnswers(whole_nats, whole_rank, nats, rank)

    def _rank_shared(
        self, logits: Float[Tensor, "position candidate"], own: Float[Tensor, " position"], right: Right
    ) -> tuple[Float[Tensor, " position"], Int[Tensor, " position"]]:
        nats = (logits.logsumexp(1) - own).masked_fill(~right.shared, torch.nan)
        return nats, self._shared.rank(logits, own - NEAR_TIE).masked_fill(~right.shared, 0)


def joined(parts: Sequence[RankedAnswers]) -> RankedAnswers:
    """The ranks of some positions, then of others."""
    return RankedAnswers(
        *(torch.cat([getattr(part, one.name) for part in parts]) for one in fields(RankedAnswers))
    )


def _nothing(like: Float[Tensor, " position"]) -> tuple[Float[Tensor, " position"], Int[Tensor, " position"]]:
    return torch.full_like(like, torch.nan), torch.zeros_like(like, dtype=torch.int64)


@lru_cache(maxsize=4)
def answer_board(vocabulary: Vocabulary, among: frozenset[str] | None, device: torch.device) -> AnswerBoard:
    """The board of a vocabulary, made once."""
    return AnswerBoard(vocabulary, among, device)
