"""Subwords and their alignment with characters, code tokens and syntax nodes: the columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int


@dataclass(frozen=True, slots=True, eq=False)
class Subwords:
    """What a tokenizer makes of one text, without special tokens.

    Attributes:
        text: The text.
        ids: Vocabulary ids.
        start: First character that the piece covers.
        end: One past the last character. Byte-level pieces inside one multi-byte character share its span.
        bytes: UTF-8 bytes of the text that the piece stands for; they sum to the text's bytes where the
            tokenizer is lossless.
        surface: A readable form of each piece; distinct ids may share one.
        lossless: Whether the pieces spell exactly the text's bytes.
        unknown: Pieces that the vocabulary does not hold.
        unknown_id: The id of such pieces; -1 where the vocabulary has none.
    """

    text: str
    ids: Int[np.ndarray, " subword"]
    start: Int[np.ndarray, " subword"]
    end: Int[np.ndarray, " subword"]
    bytes: Int[np.ndarray, " subword"]
    surface: tuple[str, ...]
    lossless: bool = False
    unknown: int = 0
    unknown_id: int = -1

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Subwords joined with the code tokens and syntax nodes of the same text, many to many.

    Attributes:
        subwords: The subwords.
        first: First code token that the piece's non-blank characters lie in.
        last: One past the last such token; ``last - first`` is 0 for layout, above 1 for merged pieces.
        node: Row of the syntax node that holds all non-blank characters of the piece: the token's node, the
            lowest common ancestor of a merged piece, -1 for layout.
        kind: Name of the token kind; ``"layout"`` for blanks, ``"merged"`` for pieces over several tokens.
        role: Role of the token; empty where it has none or the piece is merged.
        tag: ``parent -> node`` of the token; ``a -> b + c -> d`` for merged pieces; ``"layout"`` for blanks.
        coverage: How much of the text the alignment explains.
    """

    subwords: Subwords
    first: Int[np.ndarray, " subword"]
    last: Int[np.ndarray, " subword"]
    node: Int[np.ndarray, " subword"]
    kind: tuple[str, ...]
    role: tuple[str, ...]
    tag: tuple[str, ...]
    coverage: Coverage

    @property
    def layout(self) -> Bool[np.ndarray, " subword"]:
        """Whether a piece holds nothing but blanks."""
        return self.last == self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Counts of one alignment; they add up over items.

    Attributes:
        characters: Characters of the text.
        covered: Characters that some piece covers.
        subwords: Pieces.
        merged: Pieces over several code tokens.
        layout: Pieces of blanks only.
        unknown: Pieces that the vocabulary does not hold.
        tokens: Code tokens.
        tokens_whole: Code tokens whose characters begin and end at piece borders (leading blanks aside).
    """

    characters: int
    covered: int
    subwords: int
    merged: int
    layout: int
    unknown: int
    tokens: int
    tokens_whole: int
