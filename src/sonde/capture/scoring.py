"""Scores at the positions of a batch that are asked for: how likely the model finds what is right there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from sonde.alignment import surfaces
from sonde.alignment.vocabulary import vocabulary_of
from sonde.capture.answers import AnswerBoard, RankedAnswers, Right, answer_board
from sonde.capture.collect import RowResult
from sonde.capture.reducers import SCORES, SharedStates, score_answers, score_positions
from sonde.capture.requests import Answer, Prepared, ScoredAnswers
from sonde.capture.row import Row
from sonde.capture.transfer import Download, Fetched, Upload
from sonde.capture.union import MergedRequests
from sonde.models import LoadedModel
from sonde.models._heads import Head, WholeHead

_ANSWERS = ("nats", "rank", "shared_nats", "shared_rank")


class AnswerRanking:
    """What ranks texts as answers in one batch.

    Args:
        board: Ranks them.
        answers: The answer of each position.
        gold: The id of each position.
        upload: Takes both to where the model is.
    """

    def __init__(
        self, board: AnswerBoard, answers: Sequence[Answer | None], gold: Sequence[int], upload: Upload
    ) -> None:
        self.board = board
        ids, shared = board.right(answers, gold)
        self._ids, self._shared = upload.add(ids), upload.add(shared)

    @property
    def right(self) -> Right:
        """What is right at each position, once the upload was sent."""
        return Right(self._ids.tensor, self._shared.tensor)


def ranking(
    batch: Sequence[Row],
    wanted: Sequence[MergedRequests],
    items: Sequence[Prepared],
    loaded: LoadedModel,
    upload: Upload,
) -> AnswerRanking | None:
    """What ranks answers, and what is right at each position; nothing where none are asked for."""
    asked = next((one.answers for one in wanted if one.answers is not None), None)
    if asked is None or not any(len(row.query) for row in batch):
        return None
    names = surfaces(loaded.tokenizer, loaded.capabilities.vocab)
    board = answer_board(vocabulary_of(names), asked.among, loaded.device)
    answers: list[Answer | None] = []
    for row, one, item in zip(batch, wanted, items, strict=True):
        named = {} if one.answers is None else one.answers.answers.get(item.item.item_id, {})
        answers += [named.get(target) for target in row.target.tolist()]
    gold = np.concatenate([row.gold for row in batch]).tolist()
    return AnswerRanking(board, answers, gold, upload)


class PositionScoring:
    """Scores the positions of one batch.

    Args:
        batch: The rows.
        vocab: Ids that the model scores.
        upload: Takes what is needed to where the model is.
        source: The state of each position, ascending, where rows share some; None where each has its own.
        ranking: Ranks answers.
    """

    def __init__(
        self,
        batch: Sequence[Row],
        vocab: int,
        upload: Upload,
        source: Int[np.ndarray, " position"] | None = None,
        ranking: AnswerRanking | None = None,
    ) -> None:
        self._lengths = [len(row.query) for row in batch]
        self._ranking = ranking
        self._back: Int[np.ndarray, " position"] | None = None
        self._source: Int[np.ndarray, " position"] | None = None
        gold = np.concatenate([row.gold for row in batch])
        if source is not None:
            # What rows share is followed by the same piece in most of them: each such pair is scored once.
            pairs, self._back = np.unique(source * vocab + gold, return_inverse=True)
            self._source, gold = np.divmod(pairs, vocab)
            self._sent_source = upload.add(self._source)
        self._gold = upload.add(gold)
        self._scores: dict[str, Fetched] = {}
        self._answers: list[Fetched] = []

    @property
    def board(self) -> AnswerBoard | None:
        """What ranks answers; None where none are asked for."""
        return None if self._ranking is None else self._ranking.board

    @property
    def asked(self) -> bool:
        """Whether any position is scored."""
        return any(self._lengths)

    def hand_in(
        self,
        states: Float[Tensor, "state d_model"],
        head: WholeHead,
        download: Download,
        *,
        top_k: int,
        chunk: int,
    ) -> None:
        """Score from states over the whole vocabulary, and have the scores fetched."""
        source = None if self._source is None else SharedStates(self._source, self._sent_source.tensor)
        ranking = self._ranking
        found = score_positions(
            states,
            head,
            self._gold.tensor,
            top_k=top_k,
            chunk=chunk,
            source=source,
            board=ranking.board if ranking else None,
            right=ranking.right if ranking else None,
        )
        self._scores = {name: download.add(getattr(found, name)) for name in SCORES}
        if found.answers is not None:
            self._answers = _added(found.answers, download)

    def rank_alone(
        self, states: Float[Tensor, "state d_model"], head: Head, download: Download, chunk: int
    ) -> None:
        """Rank the texts of the second ranking, from a head that gives the logits of their ids alone."""
        assert self._ranking is not None
        found = score_answers(states, head, self._ranking.board, self._ranking.right, chunk)
        self._answers = _added(found, download)

    def results(self) -> list[RowResult]:
        """What each row gets, once it was fetched."""
        scores: list[dict[str, np.ndarray] | None] = [None] * len(self._lengths)
        if self._scores:
            arrays = [
                one.array if self._back is None else one.array[self._back] for one in self._scores.values()
            ]
            scores = [
                None if one is None else dict(zip(SCORES, one, strict=True))
                for one in _of_rows(arrays, self._lengths)
            ]
        answers: list[ScoredAnswers | None] = [None] * len(self._lengths)
        if self._answers:
            answers = [
                None if one is None else ScoredAnswers(*one)
                for one in _of_rows([one.array for one in self._answers], self._lengths)
            ]
        return [RowResult(scores=one, answers=two) for one, two in zip(scores, answers, strict=True)]


def _added(found: RankedAnswers, download: Download) -> list[Fetched]:
    return download.add_all([getattr(found, name) for name in _ANSWERS])


def _of_rows(arrays: Iterable[np.ndarray], lengths: Sequence[int]) -> list[tuple[np.ndarray, ...] | None]:
    """The part of arrays over all positions that each row has; None where it has no position."""
    parts = zip(*(np.split(array, np.cumsum(lengths)[:-1]) for array in arrays), strict=True)
    return [one if length else None for one, length in zip(parts, lengths, strict=True)]
