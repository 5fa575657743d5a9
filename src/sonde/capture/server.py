r"""Scores and vectors of texts from outside sonde: prompt log-probabilities, and external encoders.

A server gives log-probabilities of its prompt; no weights are on this machine. Two protocols are supported:
``echo`` with ``logprobs`` (vLLM, llama-cpp-python), and ``prompt_logprobs`` (vLLM), which gives vocabulary
ids and ranks too. The first one that a server answers is used from then on. What a server does not give is
missing: entropy in both protocols, and in the first one any rank beyond the alternatives that it lists.

llama-cpp-python pairs each token with the distribution after it, if the model's tokenizer adds no start
token; such answers are recognised and refused (`_check_alignment`). The server of llama.cpp itself supports
neither protocol.

Servers return a piece as its characters, which `locate_pieces` finds in the text. A piece that ends inside a
character is ``bytes:\xe2\x82`` from some servers, has U+FFFD in place of the bytes from others, and is empty
from llama-cpp-python; a space may be the vocabulary's own character for it, or missing.

An external encoder gives vectors of whole texts, which are treated as the states of one layer; the texts are
not split into subwords.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Int

from sonde.alignment.subwords import Subwords, assign_bytes
from sonde.alignment.vocabulary import BYTE_LEVEL_SPACE, SENTENCEPIECE_SPACE, decode_piece, format_spelling
from sonde.base.errors import CaptureError, InputError, UsageError
from sonde.base.progress import ignore_advance
from sonde.capture.requests import (
    HiddenStates,
    ItemCapture,
    Pass,
    Plain,
    Prepared,
    ScoredSubwords,
    align_item,
)
from sonde.capture.scoring import NEAR_TIE
from sonde.corpora import Item
from sonde.models import ModelSpec
from sonde.models.engine.external import DeclinedError, FailedError, Server, encode_texts

_BYTES_PREFIX = "bytes:"


_BYTE_RUN = re.compile(r"(?:\\x[0-9A-Fa-f]{2}|<0x[0-9A-Fa-f]{2}>)+")


_BYTE = re.compile(r"\\x([0-9A-Fa-f]{2})|<0x([0-9A-Fa-f]{2})>")


REPLACEMENT_CHARACTER = "\ufffd"
"""Unicode character that many servers return in place of a partial character."""


def locate_pieces(
    text: str, pieces: Sequence[str], ids: Sequence[int] | None = None
) -> tuple[Subwords, Int[np.ndarray, " subword"]]:
    """Locate pieces in the text that they spell.

    Args:
        text: The text.
        pieces: Pieces that a server has read, in order; special tokens before the text and the continuation
            after it are ignored.
        ids: Their vocabulary ids; None if the server returns none, and a hash of each spelling is used.

    Returns:
        The subwords of the text, and for each its index in `pieces`.

    Raises:
        InputError: The pieces do not spell the text.
    """
    start: list[int] = []
    end: list[int] = []
    indices: list[int] = []
    is_partial: list[bool] = []
    pieces = list(pieces)
    position = index = 0
    while index < len(pieces) and position < len(text):
        _mark_hidden_bytes(text, position, pieces, index)
        span = _find_whole_piece(text, position, pieces[index])
        count = 1
        if span is None:
            count = _count_partial_pieces(pieces, index)
            span = _find_partial_pieces(
                text, position, pieces[index : index + count], pieces[index + count : index + count + 1]
            )
        if span is None:
            if not indices:
                # A special token before the text.
                index += 1
                continue
            raise InputError(
                f"the server's tokens do not spell the text: {pieces[index]!r} where the text "
                f"continues {text[position : position + 20]!r}"
            )
        for _ in range(count):
            start.append(span[0])
            end.append(span[1])
            indices.append(index)
            is_partial.append(count > 1 or _find_whole_piece(text, span[0], pieces[index]) is None)
            index += 1
        position = span[1]
    if text[position:].strip() or (text and not indices):
        raise InputError(
            f"the server's tokens end before the text does, at {text[position : position + 20]!r}"
        )
    return _build_subwords(text, pieces, ids, (start, end), indices, is_partial), np.array(indices, np.int64)


def _build_subwords(
    text: str,
    pieces: Sequence[str],
    ids: Sequence[int] | None,
    spans: tuple[list[int], list[int]],
    indices: list[int],
    is_partial: list[bool],
) -> Subwords:
    start, end = (np.array(positions, np.int64) for positions in spans)
    data = text.encode("utf-8", "replace")
    is_first_byte = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    byte_offsets = np.append(np.flatnonzero(is_first_byte), len(data))
    surfaces = tuple(_get_surface(pieces[index]) for index in indices)
    lengths = assign_bytes(start, end, byte_offsets, np.array(is_partial, np.bool_))
    return Subwords(
        text=text,
        ids=np.array(
            [_hash_piece(pieces[index]) if ids is None else ids[index] for index in indices], np.int64
        ),
        start=start,
        end=end,
        bytes=lengths,
        surface=surfaces,
        lossless=int(lengths.sum()) == len(data),
    )


def _find_whole_piece(text: str, position: int, piece: str) -> tuple[int, int] | None:
    """Find a piece of complete characters at `position`, or after whitespace that it omits."""
    if not piece:
        return (position, position) if position else None
    for candidate in dict.fromkeys(
        (piece, piece.replace(SENTENCEPIECE_SPACE, " "), _decode_byte_level(piece))
    ):
        if text.startswith(candidate, position):
            return position, position + len(candidate)
        text_start = position + len(text[position:]) - len(text[position:].lstrip(" \t\n"))
        if text_start > position and text.startswith(candidate, text_start):
            return text_start, text_start + len(candidate)
        # A space that some tokenizers put before a text is not part of it.
        if position == 0 and candidate[:1] == " " and text.startswith(candidate[1:]):
            return 0, len(candidate) - 1
    return None


def _mark_hidden_bytes(text: str, position: int, pieces: list[str], index: int) -> None:
    """Write U+FFFD for empty pieces from `index` on if the piece after them begins further on in the text."""
    stop = next((later for later in range(index, len(pieces)) if pieces[later]), len(pieces))
    if index < stop < len(pieces) and _find_whole_piece(text, position, pieces[stop]) is None:
        pieces[index:stop] = [REPLACEMENT_CHARACTER] * (stop - index)


def _decode_byte_level(piece: str) -> str:
    """Decode a piece in GPT-2's byte-level spelling; return any other piece unchanged."""
    if BYTE_LEVEL_SPACE not in piece and "\u010a" not in piece and piece.isascii():
        return piece
    try:
        return decode_piece(piece).decode("utf-8")
    except UnicodeDecodeError:
        return piece


def _count_partial_pieces(pieces: Sequence[str], index: int) -> int:
    """Count the consecutive pieces from `index` on that contain partial characters, at least 1."""
    count = 0
    while index + count < len(pieces) and _is_partial(pieces[index + count]):
        count += 1
    return max(count, 1)


def _is_partial(piece: str) -> bool:
    return REPLACEMENT_CHARACTER in piece or _parse_bytes(piece) is not None


def _parse_bytes(piece: str) -> bytes | None:
    r"""Parse a piece that is written as bytes; return None for any other piece.

    >>> _parse_bytes(r"bytes: \xe2\x82").hex()
    '20e282'
    """
    body = piece.removeprefix(_BYTES_PREFIX)
    if body == piece and _BYTE_RUN.fullmatch(piece) is None:
        return None
    parts = _BYTE.split(body)
    # The split alternates literal text with the two groups of the pattern, of which one is a byte.
    return b"".join(
        parts[index].encode() + bytes.fromhex("".join(filter(None, parts[index + 1 : index + 3])))
        for index in range(0, len(parts), 3)
    )


def _find_partial_pieces(
    text: str, position: int, partial_pieces: Sequence[str], following_pieces: Sequence[str]
) -> tuple[int, int] | None:
    """Find the characters that partial pieces spell together: up to the start of the next piece.

    The first piece may contain a space or other complete characters.
    """
    if not all(map(_is_partial, partial_pieces)):
        return None
    byte_strings = [_parse_bytes(piece) for piece in partial_pieces]
    if None not in byte_strings:
        characters = b"".join(filter(None, byte_strings)).decode("utf-8", "replace")
        return (position, position + len(characters)) if text.startswith(characters, position) else None
    stop = position + 1
    while stop < len(text) and (text[stop - 1].isascii() or not _continues_at(text, stop, following_pieces)):
        stop += 1
    return position, stop


def _continues_at(text: str, position: int, following_pieces: Sequence[str]) -> bool:
    return not following_pieces or _find_whole_piece(text, position, following_pieces[0]) is not None


def _get_surface(piece: str) -> str:
    if (piece_bytes := _parse_bytes(piece)) is not None:
        return format_spelling(piece_bytes)
    spaced_piece = piece.replace(SENTENCEPIECE_SPACE, " ")
    return (
        spaced_piece if piece.isascii() or BYTE_LEVEL_SPACE not in piece else _decode_byte_level(spaced_piece)
    )


def _hash_piece(piece: str) -> int:
    """Hash a spelling to a number, the same in every process; collisions are very rare."""
    return (
        int.from_bytes(hashlib.blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=4).digest()) >> 1
    )


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
    """Scores of some items by a server.

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


def score_by_server(
    server: Server, items: Sequence[Item], top_k: int, advance: Callable[[int], object] = ignore_advance
) -> ServedItems:
    """Score the text of items by a server, several at a time.

    Args:
        server: The model.
        items: The items.
        top_k: Alternatives a subword.
        advance: Counts the answers as they arrive.

    Raises:
        InputError: The server gives no log-probabilities of a prompt, or an answer that is none.
        CaptureError: Its tokens do not spell the text of an item.
    """
    items_of_server, numbers = ServedItems(way=_detect_protocol(server, top_k)), dict[str, int]()
    ask = _WAYS[items_of_server.way]

    def score_item(item: Item) -> Sequence[_Piece] | DeclinedError:
        try:
            return ask(server, item.text, top_k)
        except DeclinedError as error:
            return error
        except _NO_SCORES:
            raise InputError(
                f"item {item.path!r} {item.name!r}: the server gives no scores of its text"
            ) from None

    answers: dict[str, Sequence[_Piece] | DeclinedError] = {}
    for item, answer in server.ask_all(score_item, items):
        answers[item.item_id] = answer
        advance(1)
    for item in items:
        answer = answers[item.item_id]
        if isinstance(answer, DeclinedError):
            items_of_server.declined[item.item_id] = str(answer)
        else:
            items_of_server.captured.append(_build_capture(item, answer, numbers, top_k))
    items_of_server.surfaces.extend([*numbers, ""])
    return items_of_server


def _build_capture(
    item: Item, pieces_told: Sequence[_Piece], numbers: dict[str, int], top_k: int
) -> tuple[Prepared, ItemCapture]:
    ids = [piece.number for piece in pieces_told if piece.number is not None]
    try:
        subwords, indices = locate_pieces(
            item.text, [piece.text for piece in pieces_told], ids if len(ids) == len(pieces_told) else None
        )
    except InputError as error:
        raise CaptureError(f"item {item.path!r} {item.name!r}: {error}") from None
    scores = _build_scores([pieces_told[index] for index in indices.tolist()], numbers, top_k)
    return align_item(item, subwords), ItemCapture(item.item_id, scores=scores)


def _build_scores(pieces: Sequence[_Piece], numbers: dict[str, int], top_k: int) -> ScoredSubwords:
    """Build the scores; the first subword of a text without a start token has none."""
    scores = ScoredSubwords.empty(len(pieces), top_k)
    for row, piece in enumerate(pieces):
        if piece.log is None:
            continue
        scores.scored[row], scores.context[row] = True, row
        scores.nats[row], scores.rank[row] = -piece.log, piece.rank
        for column, (text, log) in enumerate(piece.best[:top_k]):
            scores.top_ids[row, column] = numbers.setdefault(text, len(numbers))
            scores.top_nats[row, column] = -log
    return scores


@lru_cache(maxsize=4)
def _detect_protocol(server: Server, top_k: int) -> str:
    """Detect the protocol of a server by a short text."""
    reasons: list[str] = []
    for way, ask in _WAYS.items():
        try:
            if sum(piece.log is not None for piece in ask(server, "x = 1\n", top_k)) > 0:
                return way
            reasons.append(f"{way}: no log-probability of the prompt")
        except (DeclinedError, FailedError, _MisalignedError) as error:
            reasons.append(f"{way}: {error}")
        except _NO_SCORES:
            reasons.append(f"{way}: no log-probabilities")
    raise InputError(
        f"the server scores no prompt, neither by echo nor by prompt_logprobs ({'; '.join(reasons)}); "
        "use one that does, such as vLLM"
    )


class _MisalignedError(InputError):
    """A server gives each token the log-probability of another place."""


def _check_alignment(text: str, choice: Mapping[str, Any], pieces: Sequence[str]) -> None:
    """Check that a list of log-probabilities includes the token that was written after the prompt.

    llama-cpp-python omits it if the list begins one place too late, where the model reads no start token.

    Raises:
        _MisalignedError: It does not.
    """
    full_text = str(choice.get("text") or "")
    is_legible = all(piece and REPLACEMENT_CHARACTER not in piece for piece in pieces)
    if is_legible and full_text.startswith(text) and len("".join(pieces)) < len(full_text):
        raise _MisalignedError(
            "its log-probabilities are those of the next token each, as from llama-cpp-python for a model "
            "without a start token"
        )


def _score_by_echo(server: Server, text: str, top_k: int) -> list[_Piece]:
    # One token is written behind the prompt, since some servers refuse to write none; it is no part of the
    # text.
    choice = server.complete(text, max_tokens=1, temperature=0, echo=True, logprobs=top_k)
    answer = choice["logprobs"]
    pieces, logs = answer["tokens"], answer["token_logprobs"]
    _check_alignment(text, choice, pieces)
    alternatives: Sequence[Any] = answer.get("top_logprobs") or [None] * len(pieces)
    return [
        _Piece(
            piece,
            log,
            None,
            _rank_piece(piece, log, best := _sort_alternatives(piece_alternatives, top_k), top_k),
            best,
        )
        for piece, log, piece_alternatives in zip(pieces, logs, alternatives, strict=True)
    ]


def _score_by_prompt(server: Server, text: str, top_k: int) -> list[_Piece]:
    rows = server.complete(text, max_tokens=1, temperature=0, prompt_logprobs=top_k)["prompt_logprobs"]
    pieces: list[_Piece] = []
    token_rows: list[Mapping[str, Mapping[str, Any]]] = list(filter(None, rows))
    for (number, token), row in zip(_find_prompt_tokens(text, token_rows), token_rows, strict=True):
        best = sorted(row.values(), key=lambda token_of_rank: token_of_rank["rank"])[:top_k]
        pieces.append(
            _Piece(
                token["decoded_token"],
                token["logprob"],
                int(number),
                token["rank"],
                tuple((token_of_rank["decoded_token"], token_of_rank["logprob"]) for token_of_rank in best),
            )
        )
    # Nothing is told of the token that stands first: a start token, or as much of the text as the others
    # leave.
    rest = "".join(piece.text for piece in pieces)
    first = text.removesuffix(rest) if rows[0] is None and text.endswith(rest) else ""
    return [_Piece(first, None, -1, 0, ()), *pieces] if first else pieces


def _find_prompt_tokens(
    text: str, rows: Sequence[Mapping[str, Mapping[str, Any]]]
) -> list[tuple[str, Mapping[str, Any]]]:
    """Find the id and entry of the prompt's token among the entries of each row.

    It comes first. Some servers sort the entries by rank instead; then it is the one that the text continues
    with.
    """
    tokens = [next(iter(row.items())) for row in rows]
    is_by_rank = all(token["rank"] == 1 for _, token in tokens)
    if not is_by_rank or text.endswith("".join(token["decoded_token"] for _, token in tokens)):
        return tokens
    for index, row in enumerate(rows):
        continuing = (pair for pair in row.items() if text.startswith(pair[1]["decoded_token"]))
        tokens[index] = next(continuing, tokens[index])
        text = text.removeprefix(tokens[index][1]["decoded_token"])
    return tokens


_WAYS: Mapping[str, Callable[[Server, str, int], list[_Piece]]] = {
    "echo": _score_by_echo,
    "prompt_logprobs": _score_by_prompt,
}


def _sort_alternatives(scores: Mapping[str, float] | None, top_k: int) -> Alternatives:
    """Sort the alternatives, best first.

    Parts of characters are one text to a server that writes them so, which hides some of the alternatives:
    then none is told, unless one is likelier than not.
    """
    pairs = sorted((scores or {}).items(), key=lambda pair: -pair[1])
    is_incomplete = len(pairs) < top_k and any(not text or REPLACEMENT_CHARACTER in text for text, _ in pairs)
    return () if is_incomplete and pairs[0][1] < math.log(0.5) else tuple(pairs)


def _rank_piece(piece: str, log: float | None, best: Alternatives, top_k: int) -> int:
    """Rank among the alternatives, near-ties against it; 0 where it is none of them, so that these are ahead.

    >>> best = (("a", -0.5), ("b", -1.0), ("c", -1.0), ("d", -9.0))
    >>> scored = (("a", -0.5), ("b", -1.0), ("d", -9.0), ("e", -9.5))
    >>> [_rank_piece(piece, log, best, 3) for piece, log in scored]
    [1, 3, 0, 0]
    """
    if log is None or not piece or REPLACEMENT_CHARACTER in piece or all(text != piece for text, _ in best):
        return 0
    rank = sum(other_log >= log - NEAR_TIE for _, other_log in best)
    return rank if rank <= top_k else 0


def encode_items(
    spec: ModelSpec, items: Sequence[Item], passes: Sequence[Pass], lens: str
) -> list[tuple[Prepared, ItemCapture]]:
    """Encode the texts of some items by an external encoder.

    Args:
        spec: The encoder.
        items: The items.
        passes: What the lens asks for; the first way to pool a whole text is what a vector stands under.
        lens: Its name.

    Raises:
        UsageError: More is asked for than a vector of the text as it is.
        InputError: The encoder fails.
        CaptureError: It gives something else than a vector per text.
    """
    match passes:
        case [Pass(variant=Plain(cut=False, padded=False), requests=(HiddenStates(pooling=(name, *_)), *_))]:
            vectors = encode_texts(spec, [item.text for item in items])
            states = [{name: vector[None]} for vector in vectors]
        case _:
            raise UsageError(f"lens {lens!r}: an encoder only gives a vector of each unchanged text")
    # The whole text is one piece, since no tokenizer cuts it.
    return [
        (
            align_item(item, locate_pieces(item.text, [item.text])[0]),
            ItemCapture(item.item_id, states=item_states),
        )
        for item, item_states in zip(items, states, strict=True)
    ]
