"""Scores at requested positions of a batch: log-probabilities and ranks of subwords and answers.

The functions that reduce hidden states at selected positions to a few numbers are pure and run on the device.
The logits of a large batch never exist as a whole: positions are gathered first, and the vocabulary
projection is applied to them in chunks, in float32 whatever the precision of the model. On a CPU a chunk is
reduced a few rows at a time, fewer where the vocabulary is large: they stay in its cache, and there is
no second copy of the chunk's logits.

Answers are ranked as texts: ids that spell the same text are one answer, with the score of the likeliest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.alignment import get_surfaces
from sonde.alignment.vocabulary import Vocabulary, get_vocabulary
from sonde.capture.merge_requests import MergedRequests
from sonde.capture.reducer import BatchReducer, Block, ForwardBatch, ForwardStates, PositionTable, Reducer
from sonde.capture.requests import (
    Answer,
    AnswerRanks,
    InputRequest,
    ScoredAnswers,
    ScoredSubwords,
    TokenEndScores,
    TokenScores,
)
from sonde.capture.tensors import PendingDownload, gather_positions
from sonde.capture.token_ends import PrefixPlaces, TokenEndTable
from sonde.models.engine.lm_head import Head

NEAR_TIE = 1e-4
"""Nats within which two answers count as tied, as for ids."""


@dataclass(frozen=True, slots=True, eq=False)
class GoldAnswer:
    """The ids that are right at some positions, on the device.

    Attributes:
        ids: Of each position, filled up by repetition.
        shared: Whether the right text is one that all models compared can spell in one piece.
    """

    ids: Int[Tensor, "position spelling"]
    shared: Bool[Tensor, " position"]

    def __getitem__(self, positions: slice) -> GoldAnswer:
        """Select some positions."""
        return GoldAnswer(self.ids[positions], self.shared[positions])


class RankedAnswers(NamedTuple):
    """Ranks at some positions, on the device; ranks of 0 and NaN where there is none."""

    nats: Float[Tensor, " position"]
    rank: Int[Tensor, " position"]
    shared_nats: Float[Tensor, " position"]
    shared_rank: Int[Tensor, " position"]


class Competitors:
    """Some ids of a vocabulary, and which of them spell the same text.

    Args:
        spelled: The text of each id; empty for one that spells nothing and stands for itself.
        device: Where the logits are.
    """

    def __init__(self, texts: Sequence[str], device: torch.device) -> None:
        columns: dict[str, list[int]] = {}
        for column, text in enumerate(texts):
            if text:
                columns.setdefault(text, []).append(column)
        by_size: dict[int, list[list[int]]] = {}
        for columns_of_text in columns.values():
            if len(columns_of_text) > 1:
                by_size.setdefault(len(columns_of_text), []).append(columns_of_text)
        self._together = [
            torch.tensor(columns_of_text, device=device) for columns_of_text in by_size.values()
        ]

    def rank(
        self, logits: Float[Tensor, "position candidate"], limit: Float[Tensor, " position"]
    ) -> Int[Tensor, " position"]:
        """Count the texts that are at least as likely as a limit."""
        limit = limit[:, None]
        count = torch.ge(logits, limit).sum(1)
        for columns in self._together:
            is_above = torch.ge(logits[:, columns], limit[:, :, None])
            count = count - is_above.sum((1, 2)) + is_above.any(2).sum(1)
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
        shared_ids = [number for number, text in enumerate(texts) if text in self._among]
        self.ids = torch.tensor(shared_ids, dtype=torch.int64, device=device)
        columns = np.zeros(len(texts), dtype=np.int64)
        columns[shared_ids] = np.arange(len(shared_ids))
        self._place = torch.from_numpy(columns).to(device)
        self._all = Competitors(texts, device)
        self._shared = Competitors([texts[number] for number in shared_ids], device)

    def right(
        self, answers: Sequence[Answer | None], gold: Sequence[int]
    ) -> tuple[Int[np.ndarray, "position spelling"], Bool[np.ndarray, " position"]]:
        """Return the fields of `GoldAnswer`; the gold id where no answer is asked for or known."""
        spellings: list[tuple[int, ...]] = []
        share_flags: list[bool] = []
        for answer, gold_id in zip(answers, gold, strict=True):
            spelling: tuple[int, ...] = ()
            if answer is not None:
                spelling = self._vocabulary.right(
                    answer.text, word_start=answer.word_start, initial=answer.initial
                )
            spellings.append(spelling or (gold_id,))
            share_flags.append(answer is not None and bool(spelling) and answer.text in self._among)
        width = max(map(len, spellings), default=1)
        padded_ids = [ids + ids[:1] * (width - len(ids)) for ids in spellings]
        return np.array(padded_ids, dtype=np.int64).reshape(-1, width), np.array(share_flags, dtype=np.bool_)

    def rank(
        self,
        logits: Float[Tensor, "position vocab"],
        log_total: Float[Tensor, " position"],
        right: GoldAnswer,
    ) -> RankedAnswers:
        """Compute both rankings from logits over the whole vocabulary.

        Args:
            logits: Less any number a position.
            log_total: Logarithm of the sum of their exponentials.
            right: What is right.
        """
        right_logits = logits.gather(1, right.ids).amax(1)
        shared_ranks = (
            self._rank_candidates(logits.index_select(1, self.ids), right_logits, right)
            if len(self.ids)
            else None
        )
        rank = self._all.rank(logits, right_logits - NEAR_TIE)
        nats, shared_rank = shared_ranks or _empty_ranks(right_logits)
        return RankedAnswers(log_total - right_logits, rank, nats, shared_rank)

    def rank_candidates(
        self, logits: Float[Tensor, "position candidate"], right: GoldAnswer
    ) -> RankedAnswers:
        """Compute the second ranking alone, from logits over its ids alone."""
        columns = self._place[right.ids]
        right_logits = logits.gather(1, columns).amax(1)
        nats, rank = self._rank_candidates(logits, right_logits, right)
        whole_nats, whole_rank = _empty_ranks(right_logits)
        return RankedAnswers(whole_nats, whole_rank, nats, rank)

    def _rank_candidates(
        self,
        logits: Float[Tensor, "position candidate"],
        right_logits: Float[Tensor, " position"],
        right: GoldAnswer,
    ) -> tuple[Float[Tensor, " position"], Int[Tensor, " position"]]:
        nats = (logits.logsumexp(1) - right_logits).masked_fill(~right.shared, torch.nan)
        return nats, self._shared.rank(logits, right_logits - NEAR_TIE).masked_fill(~right.shared, 0)


def join_ranks(parts: Sequence[RankedAnswers]) -> RankedAnswers:
    """Concatenate ranks of positions."""
    return RankedAnswers(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def _empty_ranks(
    like: Float[Tensor, " position"],
) -> tuple[Float[Tensor, " position"], Int[Tensor, " position"]]:
    return torch.full_like(like, torch.nan), torch.zeros_like(like, dtype=torch.int64)


@lru_cache(maxsize=4)
def answer_board(vocabulary: Vocabulary, among: frozenset[str] | None, device: torch.device) -> AnswerBoard:
    """Return the board of a vocabulary, built once."""
    return AnswerBoard(vocabulary, among, device)


SCORES: Sequence[str] = ("nats", "rank", "entropy", "top_ids", "top_nats")
"""What is kept of every scored position."""


_BLOCK = 64


_CPU_ROWS, _FEWEST_CPU_ROWS = 128, 8


_CPU_CELLS = 1 << 21
"""Logits that each thread of a CPU reduces at a time, 8 MiB of them."""


def count_rows_together(logits: Float[Tensor, "state vocab"], maximum: int = _CPU_ROWS) -> int:
    """Count the rows of logits that are reduced at a time; on a CPU fewer where the vocabulary is large."""
    states, vocab = logits.shape
    if logits.device.type != "cpu":
        return max(1, states)
    rows = _CPU_CELLS * torch.get_num_threads() // max(1, vocab)
    return min(maximum, max(_FEWEST_CPU_ROWS, rows))


@dataclass(frozen=True, slots=True, eq=False)
class PositionScores:
    """Scores at chosen positions, on the device.

    Attributes:
        nats: Negative natural log-probability of the gold id.
        rank: Candidates at least as likely as the gold id within `NEAR_TIE`, itself included; 1 is the best.
        entropy: Entropy of the distribution in nats.
        top_ids: The likeliest ids, best first.
        top_nats: Their negative log-probabilities.
        answers: Ranks of texts, where they are asked for.
        prefix_nats: Negative log-probabilities of the prefixes that are asked for.
    """

    nats: Float[Tensor, " position"]
    rank: Int[Tensor, " position"]
    entropy: Float[Tensor, " position"]
    top_ids: Int[Tensor, "position top_k"]
    top_nats: Float[Tensor, "position top_k"]
    answers: RankedAnswers | None = None
    prefix_nats: Float[Tensor, " prefix"] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SharedStates:
    """The state of each position, ascending, where positions share some.

    Attributes:
        here: On the processor, which cuts positions into chunks by it.
        there: Where the states are.
    """

    here: Int[np.ndarray, " position"]
    there: Int[Tensor, " position"]


def score_positions(
    states: Float[Tensor, "state d_model"],
    head: Callable[[Tensor], Tensor],
    gold: Int[Tensor, " position"],
    *,
    top_k: int,
    chunk: int,
    source: SharedStates | None = None,
    board: AnswerBoard | None = None,
    right: GoldAnswer | None = None,
    prefixes: PrefixPlaces | None = None,
) -> PositionScores:
    """Score gold ids from hidden states.

    Args:
        states: Last hidden states, each projected once.
        head: From states to logits over the vocabulary.
        gold: The id that stands at (masked) or after (causal) each position.
        top_k: How many alternatives to keep; at most the vocabulary.
        chunk: States whose logits exist at the same time.
        source: The state of each position; None where each has its own.
        board: Ranks the texts in ``right``.
        right: What is right at each position.
        prefixes: Prefixes of the gold subwords to score from the same logits.
    """
    parts: list[PositionScores] = []
    begin = 0
    # Even chunks, since a matrix of one to three rows is multiplied by other code, which rounds otherwise.
    for chunk_states in states.tensor_split(max(1, -(-len(states) // chunk))):
        # By a function, so that one chunk's logits are let go before the next one's are made.
        parts += _score_chunk(head(chunk_states), begin, gold, top_k, source, board, right, prefixes)
        begin += len(chunk_states)
    answers = [part.answers for part in parts if part.answers is not None]
    prefix_nats = [part.prefix_nats for part in parts if part.prefix_nats is not None]
    columns = (torch.cat([getattr(part, name) for part in parts]) for name in SCORES)
    return PositionScores(
        *columns,
        answers=join_ranks(answers) if answers else None,
        prefix_nats=torch.cat(prefix_nats) if prefix_nats else None,
    )


def _score_chunk(
    chunk: Float[Tensor, "some vocab"],
    begin: int,
    gold: Int[Tensor, " position"],
    top_k: int,
    source: SharedStates | None,
    board: AnswerBoard | None,
    right: GoldAnswer | None,
    prefixes: PrefixPlaces | None,
) -> Iterator[PositionScores]:
    """Reduce the logits of the states from ``begin`` on."""
    first_state = begin
    for logits in chunk.split(count_rows_together(chunk)):
        stop_state = first_state + len(logits)
        positions, state_index = slice(first_state, stop_state), None
        if source is not None:
            positions = slice(*np.searchsorted(source.here, [first_state, stop_state]).tolist())
            state_index = source.there[positions] - first_state
        ranking = (board, right[positions]) if board is not None and right is not None else None
        chunk_prefixes = None if prefixes is None else prefixes.select_states(first_state, stop_state)
        yield score_logits(logits, gold[positions], top_k, state_index, ranking, chunk_prefixes)
        first_state = stop_state


def score_answers(
    states: Float[Tensor, "position d_model"],
    head: Callable[[Tensor], Tensor],
    board: AnswerBoard,
    right: GoldAnswer,
    chunk: int,
) -> RankedAnswers:
    """Rank the texts of the second ranking alone, from a head that gives the logits of their ids alone."""
    return join_ranks(
        [
            board.rank_candidates(head(states[begin : begin + chunk]).float(), right[begin : begin + chunk])
            for begin in range(0, len(states), chunk)
        ]
    )


def score_logits(
    logits: Float[Tensor, "state vocab"],
    gold: Int[Tensor, " position"],
    top_k: int,
    source: Int[Tensor, " position"] | None = None,
    ranking: tuple[AnswerBoard, GoldAnswer] | None = None,
    prefixes: PrefixPlaces | None = None,
) -> PositionScores:
    """Reduce logits; they are overwritten where they are float32 already.

    With ``y = logit - max`` and ``z = sum(exp(y))``: nats are ``log z - y_gold`` and the entropy is
    ``log z - sum(exp(y) y) / z``, which neither cancels nor needs the log-probabilities themselves.
    """
    log_weights = logits.float()
    values, ids = top_logits(log_weights, top_k)
    # The logits belong to us: the head made them for this call.
    log_weights = log_weights.sub_(values[:, :1])
    weights = log_weights.exp()
    total = weights.sum(1)
    log_total = total.log()
    mean = _weighted_sum(weights, log_weights) / total
    entropy, top_nats = log_total - mean, log_total[:, None] - (values - values[:, :1])
    answers = None
    if ranking is not None:
        board, right = ranking
        answers = board.rank(log_weights, log_total, right)
    prefix_nats = None if prefixes is None else prefixes.score(log_weights, log_total)
    if source is None:
        gold_value = log_weights.gather(1, gold[:, None])
        # Counting in float32, exact below 2**24 and in place, takes a CPU a third of the time of booleans.
        rank = torch.ge(log_weights, gold_value - NEAR_TIE, out=weights).sum(1).long()
        nats = log_total - gold_value[:, 0]
        return PositionScores(nats, rank, entropy, ids, top_nats, answers, prefix_nats)
    gold_value = log_weights[source, gold]
    ranks: list[Tensor] = []
    for begin in range(0, len(gold), len(log_weights)):
        positions = slice(begin, begin + len(log_weights))
        buffer = weights[: len(gold[positions])]
        rows = log_weights.index_select(0, source[positions])
        ranks.append(torch.ge(rows, gold_value[positions, None] - NEAR_TIE, out=buffer).sum(1).long())
    return PositionScores(
        nats=log_total[source] - gold_value,
        rank=torch.cat(ranks),
        entropy=entropy[source],
        top_ids=ids[source],
        top_nats=top_nats[source],
        prefix_nats=prefix_nats,
    )


def _weighted_sum(
    weights: Float[Tensor, "state vocab"], log_weights: Float[Tensor, "state vocab"]
) -> Float[Tensor, " state"]:
    """Sum of ``weights * centred``, where ``weights`` are the exponentials of ``centred``.

    A vocabulary entry switched off with -inf has no weight, but 0 * -inf is not 0.
    """
    if weights.device.type != "cpu":
        # To see whether there is one would have the processor wait for the device.
        return -torch.special.entr(weights).sum(1)
    product = torch.linalg.vecdot(weights, log_weights)
    if bool(torch.isfinite(product).all()):
        return product
    return torch.linalg.vecdot(weights, log_weights.clamp(min=torch.finfo(torch.float32).min))


def top_logits(
    logits: Float[Tensor, "position vocab"], top_k: int
) -> tuple[Float[Tensor, "position top_k"], Int[Tensor, "position top_k"]]:
    """Return the largest logits, best first, at least one.

    The k largest lie in the k blocks with the largest maxima, and a maximum over blocks is one fast pass,
    where `torch.topk` over a whole vocabulary on a CPU costs more than the rest of the reduction.
    """
    vocab = logits.shape[1]
    k = max(1, min(top_k, vocab))
    blocks = vocab // _BLOCK
    if blocks <= k:
        return _sort_best(logits, torch.arange(vocab, device=logits.device).expand_as(logits), k)
    blocks_of_logits = logits[:, : blocks * _BLOCK].unflatten(1, (blocks, _BLOCK))
    best_blocks = blocks_of_logits.amax(2).topk(k, dim=1).indices
    ids = (best_blocks[:, :, None] * _BLOCK + torch.arange(_BLOCK, device=logits.device)).flatten(1)
    rest = torch.arange(blocks * _BLOCK, vocab, device=logits.device).expand(len(logits), -1)
    ids = torch.cat([ids, rest], dim=1)
    return _sort_best(logits.gather(1, ids), ids, k)


def _sort_best(values: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    best = values.topk(k, dim=1)
    return best.values, ids.gather(1, best.indices)


class ScoreReducer(Reducer[TokenScores]):
    """Scores subwords and ranks answers, both from one projection on the vocabulary."""

    kind = TokenScores

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        by_top_k: dict[int, dict[int, TokenScores]] = {}
        for source, request in self.requests.items():
            by_top_k.setdefault(request.top_k, {})[source] = request
        self.scores = {
            top_k: PositionTable(requests, block, partial(ScoredSubwords.empty, top_k=top_k))
            for top_k, requests in by_top_k.items()
        }
        self.ranks = PositionTable(block.get_requests(AnswerRanks), block, ScoredAnswers.empty)
        self.token_ends = TokenEndTable(block, block.get_requests(TokenEndScores))
        self._heads: dict[AnswerBoard, Head] = {}

    def plan(self, batch: ForwardBatch) -> BatchReducer[Any] | None:
        """Plan the scores of a batch in which any position is scored."""
        requests = [self.block.inputs[row.source].wanted for row in batch.rows]
        has_scores = any(row_requests.has("scores") for row_requests in requests) and any(
            len(row.query) for row in batch.rows
        )
        return _ScoreBatch(self, batch, requests) if has_scores else None

    def get_answers(self, source: int) -> dict[type[InputRequest], Any]:
        """Return scores and ranks of one input."""
        request = self.requests.get(source)
        scores = None if request is None else self.scores[request.top_k].get(source)
        return {
            TokenScores: scores,
            AnswerRanks: self.ranks.get(source),
            TokenEndScores: self.token_ends.get(source),
        }

    def get_head(self, board: AnswerBoard) -> Head:
        """Return the head of the ids of a board's second ranking."""
        # Kept, since it is compared with the whole head when it is first used.
        return self._heads.setdefault(board, self.block.head.restrict_to_ids(board.ids))


class _ScoreBatch(BatchReducer[ScoreReducer]):
    """Scores the positions of one batch."""

    def __init__(
        self, reducer: ScoreReducer, batch: ForwardBatch, requests_of_rows: Sequence[MergedRequests]
    ) -> None:
        super().__init__(reducer, batch)
        self._top_k = max(
            scores.top_k if (scores := row_requests.get(TokenScores)) else 0
            for row_requests in requests_of_rows
        )
        self._few_ids = all(row_requests.few_ids for row_requests in requests_of_rows)
        gold = np.concatenate([row.gold for row in batch.rows])
        self._board: AnswerBoard | None = None
        if any(row_requests.get(AnswerRanks) for row_requests in requests_of_rows):
            self._board, *right = self._build_board(requests_of_rows, gold.tolist())
            self._right = [batch.upload.add(part) for part in right]
        self._back: Int[np.ndarray, " position"] | None = None
        if batch.source is None:
            index = np.repeat(np.arange(len(batch.rows)), [len(row.query) for row in batch.rows])
            query = np.concatenate([row.query for row in batch.rows])
            self._places = batch.upload.add(index), batch.upload.add(query)
        else:
            # What rows share is followed by the same piece in most of them: each such pair is scored once.
            vocab = reducer.block.loaded.capabilities.vocab
            pairs, self._back = np.unique(batch.source * vocab + gold, return_inverse=True)
            self._source, gold = np.divmod(pairs, vocab)
            self._sent_source = batch.upload.add(self._source)
        self._gold = batch.upload.add(gold)
        self._prefixes, self._prefix_owners = reducer.token_ends.plan(batch.rows, batch.source) or (None, [])
        self._prefix_nats: PendingDownload | None = None
        self._scores: dict[str, PendingDownload] = {}
        self._ranks: dict[str, PendingDownload] = {}

    def _build_board(
        self, requests_of_rows: Sequence[MergedRequests], gold: Sequence[int]
    ) -> tuple[AnswerBoard, np.ndarray, np.ndarray]:
        """Build what ranks answers, and what is right at each position."""
        loaded_model = self.reducer.block.loaded
        names = get_surfaces(loaded_model.tokenizer, loaded_model.capabilities.vocab)
        requests = [request.get(AnswerRanks) for request in requests_of_rows]
        competing_texts = next(request.among for request in requests if request is not None)
        board = answer_board(get_vocabulary(names), competing_texts, loaded_model.device)
        answers: list[Answer | None] = []
        for row, request in zip(self.batch.rows, requests, strict=True):
            item = self.reducer.block.get_item(row).item.item_id
            answers_of_item = {} if request is None else request.answers.get(item, {})
            answers += [answers_of_item.get(target) for target in row.target.tolist()]
        return (board, *board.right(answers, gold))

    def reduce(self, states: ForwardStates) -> None:
        """Keep the last states of the positions."""
        self._last = states.last if self._back is not None else gather_positions(states.last, self._places)

    def project(self) -> None:
        """Score from the last states, and have the scores fetched."""
        block, download = self.reducer.block, self.batch.download
        source = None if self._back is None else SharedStates(self._source, self._sent_source.tensor)
        right = None if self._board is None else GoldAnswer(*(part.tensor for part in self._right))
        if self._board is not None and right is not None and self._few_ids:
            head = self.reducer.get_head(self._board)
            ranks = score_answers(self._last, head, self._board, right, block.chunk)
        else:
            scores = score_positions(
                self._last,
                block.head,
                self._gold.tensor,
                top_k=self._top_k,
                chunk=block.chunk,
                source=source,
                board=self._board,
                right=right,
                prefixes=self._prefixes,
            )
            if scores.prefix_nats is not None:
                self._prefix_nats = download.add(scores.prefix_nats)
            self._scores = {name: download.add(getattr(scores, name)) for name in SCORES}
            ranks = scores.answers
        if ranks is not None:
            self._ranks = {name: download.add(column) for name, column in ranks._asdict().items()}

    def store(self) -> None:
        """Store the scores of all rows."""
        rows = self.batch.rows
        order = slice(None) if self._back is None else self._back
        if self._scores:
            scores = {name: download.array[order] for name, download in self._scores.items()}
            self._check_finite(scores["nats"], scores["entropy"])
            context = np.concatenate([row.context for row in rows])
            scores |= {"context": context, "scored": np.ones(len(context), np.bool_)}
            for table in self.reducer.scores.values():
                table.store(rows, scores)
        if self._prefix_nats is not None:
            self.reducer.token_ends.store(self._prefix_owners, self._prefix_nats.array)
        if self._ranks:
            self.reducer.ranks.store(rows, {name: download.array for name, download in self._ranks.items()})

    def _check_finite(
        self, nats: Float[np.ndarray, " position"], entropy: Float[np.ndarray, " position"]
    ) -> None:
        """Refuse scores that are no numbers.

        Raises:
            CaptureError: Naming the first such subword.
        """
        bad_positions = np.flatnonzero(~(np.isfinite(nats) & np.isfinite(entropy)))
        if len(bad_positions):
            position = bad_positions[0]
            owners = [row for row in self.batch.rows for _ in row.target]
            subword = np.concatenate([row.target for row in self.batch.rows])[position]
            message = f", subword {subword}: the model gives {nats[position]} nats"
            raise self.reducer.block.build_error(owners[position], message)
