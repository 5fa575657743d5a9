"""From hidden states at chosen positions to the few numbers that are kept; pure, on the device.

The logits of a large batch never exist as a whole: positions are gathered first, and the vocabulary
projection is applied to them in chunks, in float32 whatever the precision of the model. On a CPU a chunk is
reduced a few rows at a time, which stay in its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.capture.answers import AnswerBoard, RankedAnswers, Right, joined

NEAR_TIE = 1e-4
"""Nats within which two candidates count as tied; float32 logits move by less between batch shapes."""

SCORES: Sequence[str] = ("nats", "rank", "entropy", "top_ids", "top_nats")
"""What is kept of every scored position."""

_BLOCK = 64
_CPU_ROWS = 128


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
    """

    nats: Float[Tensor, " position"]
    rank: Int[Tensor, " position"]
    entropy: Float[Tensor, " position"]
    top_ids: Int[Tensor, "position top_k"]
    top_nats: Float[Tensor, "position top_k"]
    answers: RankedAnswers | None = None


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
    right: Right | None = None,
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
    """
    parts: list[PositionScores] = []
    begin = 0
    # Even chunks, since a matrix of one to three rows is multiplied by other code, which rounds otherwise.
    for some in states.tensor_split(max(1, -(-len(states) // chunk))):
        # By a function, so that one chunk's logits are let go before the next one's are made.
        parts += _parts(head(some), begin, gold, top_k, source, board, right)
        begin += len(some)
    answers = [part.answers for part in parts if part.answers is not None]
    together = (torch.cat([getattr(part, name) for part in parts]) for name in SCORES)
    return PositionScores(*together, answers=joined(answers) if answers else None)


def _parts(
    chunk: Float[Tensor, "some vocab"],
    begin: int,
    gold: Int[Tensor, " position"],
    top_k: int,
    source: SharedStates | None,
    board: AnswerBoard | None,
    right: Right | None,
) -> Iterator[PositionScores]:
    """Reduce the logits of the states from ``begin`` on."""
    at = begin
    for logits in chunk.split(_CPU_ROWS if chunk.device.type == "cpu" else len(chunk)):
        beyond = at + len(logits)
        here, own = slice(at, beyond), None
        if source is not None:
            here = slice(*np.searchsorted(source.here, [at, beyond]).tolist())
            own = source.there[here] - at
        ranked = (board, right[here]) if board is not None and right is not None else None
        yield score_logits(logits, gold[here], top_k, own, ranked)
        at = beyond


def score_answers(
    states: Float[Tensor, "position d_model"],
    head: Callable[[Tensor], Tensor],
    board: AnswerBoard,
    right: Right,
    chunk: int,
) -> RankedAnswers:
    """Rank the texts of the second ranking alone, from a head that gives the logits of their ids alone."""
    return joined(
        [
            board.rank_shared(head(states[at : at + chunk]).float(), right[at : at + chunk])
            for at in range(0, len(states), chunk)
        ]
    )


def score_logits(
    logits: Float[Tensor, "state vocab"],
    gold: Int[Tensor, " position"],
    top_k: int,
    source: Int[Tensor, " position"] | None = None,
    ranked: tuple[AnswerBoard, Right] | None = None,
) -> PositionScores:
    """Reduce logits; they are overwritten where they are float32 already.

    With ``y = logit - max`` and ``z = sum(exp(y))``: nats are ``log z - y_gold`` and the entropy is
    ``log z - sum(exp(y) y) / z``, which neither cancels nor needs the log-probabilities themselves.
    """
    centred = logits.float()
    values, ids = top(centred, top_k)
    # The logits belong to us: the head made them for this call.
    centred = centred.sub_(values[:, :1])
    weights = centred.exp()
    total = weights.sum(1)
    log_total = total.log()
    mean = _weighted(weights, centred) / total
    entropy, top_nats = log_total - mean, log_total[:, None] - (values - values[:, :1])
    answers = None
    if ranked is not None:
        board, right = ranked
        answers = board.rank(centred, log_total, right)
    if source is None:
        gold_value = centred.gather(1, gold[:, None])
        # Counting in float32, exact below 2**24 and in place, takes a CPU a third of the time of booleans.
        rank = torch.ge(centred, gold_value - NEAR_TIE, out=weights).sum(1).long()
        return PositionScores(log_total - gold_value[:, 0], rank, entropy, ids, top_nats, answers)
    gold_value = centred[source, gold]
    ranks: list[Tensor] = []
    for at in range(0, len(gold), len(centred)):
        chosen = slice(at, at + len(centred))
        into = weights[: len(gold[chosen])]
        rows = centred.index_select(0, source[chosen])
        ranks.append(torch.ge(rows, gold_value[chosen, None] - NEAR_TIE, out=into).sum(1).long())
    return PositionScores(
        nats=log_total[source] - gold_value,
        rank=torch.cat(ranks),
        entropy=entropy[source],
        top_ids=ids[source],
        top_nats=top_nats[source],
    )


def _weighted(
    weights: Float[Tensor, "state vocab"], centred: Float[Tensor, "state vocab"]
) -> Float[Tensor, " state"]:
    """Sum of ``weights * centred``, where ``weights`` are the exponentials of ``centred``.

    A vocabulary entry switched off with -inf has no weight, but 0 * -inf is not 0.
    """
    if weights.device.type != "cpu":
        # To see whether there is one would have the processor wait for the device.
        return -torch.special.entr(weights).sum(1)
    product = torch.linalg.vecdot(weights, centred)
    if bool(torch.isfinite(product).all()):
        return product
    return torch.linalg.vecdot(weights, centred.clamp(min=torch.finfo(torch.float32).min))


def top(
    logits: Float[Tensor, "position vocab"], top_k: int
) -> tuple[Float[Tensor, "position top_k"], Int[Tensor, "position top_k"]]:
    """The largest logits, best first; at least the largest one is returned.

    The k largest lie in the k blocks with the largest maxima, and a maximum over blocks is one fast pass,
    where `torch.topk` over a whole vocabulary on a CPU costs more than the rest of the reduction.
    """
    vocab = logits.shape[1]
    k = max(1, min(top_k, vocab))
    blocks = vocab // _BLOCK
    if blocks <= k:
        return _best(logits, torch.arange(vocab, device=logits.device).expand_as(logits), k)
    whole = logits[:, : blocks * _BLOCK].unflatten(1, (blocks, _BLOCK))
    chosen = whole.amax(2).topk(k, dim=1).indices
    ids = (chosen[:, :, None] * _BLOCK + torch.arange(_BLOCK, device=logits.device)).flatten(1)
    rest = torch.arange(blocks * _BLOCK, vocab, device=logits.device).expand(len(logits), -1)
    ids = torch.cat([ids, rest], dim=1)
    return _best(logits.gather(1, ids), ids, k)


def _best(values: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    best = values.topk(k, dim=1)
    return best.values, ids.gather(1, best.indices)


def inside(
    start: Int[Tensor, "batch segment"], stop: Int[Tensor, "batch segment"], tokens: int
) -> Bool[Tensor, "batch segment token"]:
    """Which tokens lie in which segments, from their half-open bounds."""
    place = torch.arange(tokens, device=start.device)
    return (place >= start[:, :, None]) & (place < stop[:, :, None])


def pool(
    states: Float[Tensor, "batch token d_model"], weights: Bool[Tensor, "batch segment token"]
) -> Float[Tensor, "batch segment d_model"]:
    """Sum hidden states over segments of each row, in float32."""
    # Padding may hold anything, infinity included, and 0 * inf is not 0.
    used = weights.any(1)
    kept = states.float().masked_fill(~used[:, :, None], 0.0)
    return torch.bmm(weights.float(), kept)
