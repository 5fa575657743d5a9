"""Scores and vectors of texts from outside sonde: prompt log-probabilities, and external encoders.

A server gives log-probabilities of its prompt; no weights are on this machine. Two protocols are supported:
``echo`` with ``logprobs`` (OpenAI's completions, llama.cpp, vLLM), and ``prompt_logprobs`` (vLLM), which
gives vocabulary ids and ranks too. The first one that a server answers is used from then on. What a server
does not give is missing: entropy in both protocols, and in the first one any rank beyond the alternatives
that it lists.

An external encoder gives vectors of whole texts, which are treated as the states of one layer; the texts are
not split into subwords.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sonde.alignment import align
from sonde.alignment.server_tokens import REPLACEMENT_CHARACTER, locate_pieces
from sonde.base.errors import CaptureError, InputError, UsageError
from sonde.capture.collect import empty_scores
from sonde.capture.requests import HiddenStates, ItemCapture, Pass, Plain, Prepared, ScoredSubwords
from sonde.capture.scoring import NEAR_TIE
from sonde.corpora import Item
from sonde.languages import LANGUAGES
from sonde.models import ModelSpec
from sonde.models.engine.external import DeclinedError, Server, encode_texts

_NO_SCORES = (LookupError, TypeError, ValueError, AttributeError)
"""What reading an answer raises that is not of the form of its way."""


Alternatives = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """One token of a prompt as a server tells of it: its text, log-probability, id, rank and alternatives."""

    text: str
    log: float | None
    number: int | None
    rank: int
    best: Alternatives


@dataclass(frozen=True, slots=True)
class ServedItems:
    """What a server said of some items.

    Attributes:
        captured: Each item that it scored, with its scores.
        surfaces: Alternatives by the number that the scores give them.
        way: ``"echo"`` or ``"prompt_logprobs"``.
        declined: Items that it declined to read, with its reason.
    """

    captured: list[tuple[Prepared, ItemCapture]] = field(default_factory=list[tuple[Prepared, ItemCapture]])
    surfaces: list[str] = field(default_factory=list[str])
    way: str = ""
    declined: dict[str, str] = field(default_factory=dict[str, str])


def score_by_server(server: Server, items: Sequence[Item], top_k: int) -> ServedItems:
    """Have a server score the text of items, several at a time.

    Args:
        server: The model.
        items: The items.
        top_k: Alternatives a subword.

    Raises:
        InputError: The server gives no log-probabilities of a prompt, or an answer that is none.
        CaptureError: Its tokens do not spell the text of an item.
    """
    found, numbers = ServedItems(way=_detect_protocol(server, top_k)), dict[str, int]()
    ask = _WAYS[found.way]

    def score_item(item: Item) -> Sequence[_Piece] | DeclinedError:
        try:
            return ask(server, item.text, top_k)
        except DeclinedError as error:
            return error
        except _NO_SCORES:
            raise InputError(
                f"item {item.path!r} {item.name!r}: the server gives no scores of its text"
            ) from None

    told = {item.item_id: answer for item, answer in server.ask_all(score_item, items)}
    for item in items:
        answer = told[item.item_id]
        if isinstance(answer, DeclinedError):
            found.declined[item.item_id] = str(answer)
        else:
            found.captured.append(_build_capture(item, answer, numbers, top_k))
    found.surfaces.extend([*numbers, ""])
    return found


def _build_capture(
    item: Item, told: Sequence[_Piece], numbers: dict[str, int], top_k: int
) -> tuple[Prepared, ItemCapture]:
    ids = [piece.number for piece in told if piece.number is not None]
    try:
        subwords, places = locate_pieces(
            item.text, [piece.text for piece in told], ids if len(ids) == len(told) else None
        )
    except InputError as error:
        raise CaptureError(f"item {item.path!r} {item.name!r}: {error}") from None
    language = LANGUAGES.load(item.language)
    tree = language.parse(item.text)
    tokens = language.tokens(tree)
    prepared = Prepared(item, tree, tokens, align(subwords, tree, tokens, item=item.path))
    scores = _build_scores([told[place] for place in places.tolist()], numbers, top_k)
    return prepared, ItemCapture(item.item_id, scores=scores)


def _build_scores(pieces: Sequence[_Piece], numbers: dict[str, int], top_k: int) -> ScoredSubwords:
    """One row a subword; the first of a text without a start token has no score."""
    scores = empty_scores(len(pieces), top_k)
    for row, piece in enumerate(pieces):
        if piece.log is None:
            continue
        scores.scored[row], scores.context[row] = True, row
        scores.nats[row], scores.rank[row] = -piece.log, piece.rank
        for place, (text, log) in enumerate(piece.best[:top_k]):
            scores.top_ids[row, place] = numbers.setdefault(text, len(numbers))
            scores.top_nats[row, place] = -log
    return scores


@lru_cache(maxsize=4)
def _detect_protocol(server: Server, top_k: int) -> str:
    """The way that a server answers, tried on a short text."""
    reasons: list[str] = []
    for way, ask in _WAYS.items():
        try:
            if sum(piece.log is not None for piece in ask(server, "x = 1\n", top_k)) > 0:
                return way
            reasons.append(f"{way}: no log-probability of the prompt")
        except DeclinedError as error:
            reasons.append(f"{way}: {error}")
        except _NO_SCORES:
            reasons.append(f"{way}: no log-probabilities")
    raise InputError(
        f"the server scores no prompt, neither by echo nor by prompt_logprobs ({'; '.join(reasons)}); "
        "use one that does, such as vLLM or llama.cpp"
    )


def _score_by_echo(server: Server, text: str, top_k: int) -> list[_Piece]:
    # One token is written behind the prompt, since some servers refuse to write none; it is no part of the
    # text.
    said = server.complete(text, max_tokens=1, temperature=0, echo=True, logprobs=top_k)["logprobs"]
    pieces, logs = said["tokens"], said["token_logprobs"]
    listed: Sequence[Any] = said.get("top_logprobs") or [None] * len(pieces)
    return [
        _Piece(
            piece, log, None, _rank_piece(piece, log, best := _sort_alternatives(among, top_k), top_k), best
        )
        for piece, log, among in zip(pieces, logs, listed, strict=True)
    ]


def _score_by_prompt(server: Server, text: str, top_k: int) -> list[_Piece]:
    told = server.complete(text, max_tokens=1, temperature=0, prompt_logprobs=top_k)["prompt_logprobs"]
    pieces: list[_Piece] = []
    for row in filter(None, told):
        # The token of the prompt comes first, then the alternatives, of which it may be one.
        (number, own), *_ = row.items()
        best = sorted(row.values(), key=lambda one: one["rank"])[:top_k]
        pieces.append(
            _Piece(
                own["decoded_token"],
                own["logprob"],
                int(number),
                own["rank"],
                tuple((one["decoded_token"], one["logprob"]) for one in best),
            )
        )
    # Nothing is told of the token that stands first: a start token, or as much of the text as the others
    # leave.
    rest = "".join(piece.text for piece in pieces)
    first = text.removesuffix(rest) if told[0] is None and text.endswith(rest) else ""
    return [_Piece(first, None, -1, 0, ()), *pieces] if first else pieces


_WAYS: Mapping[str, Callable[[Server, str, int], list[_Piece]]] = {
    "echo": _score_by_echo,
    "prompt_logprobs": _score_by_prompt,
}


def _sort_alternatives(among: Mapping[str, float] | None, top_k: int) -> Alternatives:
    """The alternatives, best first.

    Parts of characters are one text to a server that writes them so, which hides some of the alternatives:
    then none is told, unless one is likelier than not.
    """
    found = sorted((among or {}).items(), key=lambda one: -one[1])
    hidden = len(found) < top_k and any(REPLACEMENT_CHARACTER in text for text, _ in found)
    return () if hidden and found[0][1] < math.log(0.5) else tuple(found)


def _rank_piece(piece: str, log: float | None, best: Alternatives, top_k: int) -> int:
    """Rank among the alternatives, near-ties against it; 0 where it is none of them, so that these are ahead.

    >>> best = (("a", -0.5), ("b", -1.0), ("c", -1.0), ("d", -9.0))
    >>> scored = (("a", -0.5), ("b", -1.0), ("d", -9.0), ("e", -9.5))
    >>> [_rank_piece(piece, log, best, 3) for piece, log in scored]
    [1, 3, 0, 0]
    """
    if log is None or REPLACEMENT_CHARACTER in piece or all(text != piece for text, _ in best):
        return 0
    rank = sum(other >= log - NEAR_TIE for _, other in best)
    return rank if rank <= top_k else 0


def encode_items(
    spec: ModelSpec, items: Sequence[Item], passes: Sequence[Pass], lens: str
) -> list[tuple[Prepared, ItemCapture]]:
    """What an encoder gives for the texts of some items.

    Args:
        spec: The encoder.
        items: The items.
        passes: What the lens asks for; the first way to pool a whole text is what a vector stands under.
        lens: Its name.

    Raises:
        UsageError: More is asked for than a vector of the text as it is.
        InputError: The encoder fails.
        CaptureError: It gives something else than a vector a text.
    """
    match passes:
        case [Pass(variant=Plain(cut=False, padded=False), requests=(HiddenStates(pooling=(name, *_)), *_))]:
            vectors = encode_texts(spec, [item.text for item in items])
            states = [{name: vector[None]} for vector in vectors]
        case _:
            raise UsageError(f"lens {lens!r}: an encoder gives a vector of each text as it is, and no more")
    return [
        (_prepare_item(item), ItemCapture(item.item_id, states=own))
        for item, own in zip(items, states, strict=True)
    ]


def _prepare_item(item: Item) -> Prepared:
    """The item with its whole text as one piece, since no tokenizer cuts it."""
    language = LANGUAGES.load(item.language)
    tree = language.parse(item.text)
    tokens = language.tokens(tree)
    subwords, _ = locate_pieces(item.text, [item.text], None)
    return Prepared(item, tree, tokens, align(subwords, tree, tokens, item=item.path))
