"""Columns of subwords and of their alignment with code tokens and syntax nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int


@dataclass(frozen=True, slots=True, eq=False)
class Subwords:
    """Subwords of a text, without special tokens.

    Attributes:
        text: The text.
        ids: Vocabulary ids.
        start: First character that the piece covers.
        end: One past the last character. Byte-level pieces inside one multi-byte character share its span.
        bytes: Number of UTF-8 bytes of the text that the piece stands for; they sum to the text's bytes if
            the tokenizer is lossless.
        surface: A readable form of each piece; distinct ids may share one.
        lossless: Whether the pieces spell exactly the text's bytes.
        unknown: Number of pieces that are not in the vocabulary.
        unknown_id: Id of the unknown token; -1 if the vocabulary has none.
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
    """Subwords of a text with their code tokens and syntax nodes, many to many.

    Attributes:
        subwords: The subwords.
        first: First code token with visible characters of the piece.
        last: One past the last such token; ``last - first`` is 0 for layout, above 1 for merged pieces.
        node: Row of the lowest syntax node with all visible characters of the piece: the token's node, the
            lowest common ancestor of a merged piece, -1 for layout.
        kind: Name of the token kind; ``"layout"`` for whitespace, ``"merged"`` for pieces over several
            tokens.
        role: Role of the token; empty if it has none or the piece is merged.
        tag: ``parent -> node`` of the token; ``a -> b + c -> d`` for merged pieces; ``"layout"`` for
            whitespace.
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
        """Mask of pieces that contain only whitespace."""
        return self.last == self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Counts of an alignment; they add up over items.

    Attributes:
        characters: Characters of the text.
        covered: Characters that at least one piece covers.
        subwords: Pieces.
        merged: Pieces over several code tokens.
        layout: Pieces of whitespace only.
        unknown: Pieces that are not in the vocabulary.
        tokens: Code tokens.
        tokens_whole: Code tokens that start and end at piece boundaries (leading whitespace aside).
    """

    characters: int
    covered: int
    subwords: int
    merged: int
    layout: int
    unknown: int
    tokens: int
    tokens_whole: int
