"""Plain text: words, numbers and punctuation, without a grammar.

A text has a tree of one root, whose leaves are the words, numbers and punctuation marks.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import numpy as np

from sonde.base.registry import get_public_name
from sonde.languages.engine.language import read_table
from sonde.languages.engine.tree import TOKEN_KINDS, CodeTokens, Construct, Tree

SYNONYMS = ("english", "prose", "natural language")

# Words may contain apostrophes, numbers points and commas; every other sign is a leaf of its own.
# The byte order mark and the zero-width joiners are whitespace, as in the grammars.
_LEAF = re.compile(
    r"(?P<number>\d+(?:[.,]\d+)*)|(?P<word>\w+(?:['’]\w+)*)|(?P<punctuation>[^\s\u200b\u2060\ufeff])"
)


_KINDS = ("text", "word", "number", "punctuation")


_ROLES = ("", "variable", "number", "")


class PlainText:
    """Prose, which has no functions, definitions, calls or constructs.

    It follows the protocol `sonde.languages.engine.language.Language`.

    Args:
        package: The folder as a package, ``__name__`` in its ``__init__.py``.
    """

    def __init__(self, package: str) -> None:
        self._package = package

    @cached_property
    def _settings(self) -> dict[str, Any]:
        return read_table(self._package, "language")

    @property
    def name(self) -> str:
        """Return the public name, the folder's name."""
        return get_public_name(self._package)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Return the file suffixes with their dot."""
        return tuple(self._settings["suffixes"])

    @property
    def builtins(self) -> frozenset[str]:
        """Return the empty set: prose has no builtin names."""
        return frozenset()

    @property
    def version(self) -> str:
        """Return the folder's rules number; there is no grammar."""
        return f"rules {self._settings['rules']}"

    def parse(self, text: str) -> Tree:
        """Build a tree of one root and a leaf per word, number or sign."""
        spans = [(_KINDS.index(leaf.lastgroup or ""), *leaf.span()) for leaf in _LEAF.finditer(text)]
        root = (0, spans[0][1], spans[-1][2]) if spans else (0, 0, 0)
        rows = np.array([root, *spans], np.int32)
        nodes = np.arange(len(rows), dtype=np.int32)
        return Tree(
            text=text,
            language=self.name,
            kinds=_KINDS,
            kind=rows[:, 0],
            parent=np.where(nodes == 0, -1, 0).astype(np.int32),
            start=rows[:, 1],
            end=rows[:, 2],
            last=np.where(nodes == 0, len(rows), nodes + 1).astype(np.int32),
            named=np.ones(len(rows), bool),
            error=np.zeros(len(rows), bool),
            leaves=nodes[1:],
        )

    def functions(self, text: str) -> tuple[()]:
        """Return an empty tuple; so do definitions and calls."""
        return ()

    definitions = calls = functions

    def tokens(self, tree: Tree) -> CodeTokens:
        """Return the leaves as tokens: words are identifiers, numbers literals, signs punctuation."""
        kind_indices = [
            TOKEN_KINDS.index(name) for name in ("layout", "identifier", "literal", "punctuation")
        ]
        kind = tree.kind[tree.leaves]
        return CodeTokens(
            start=tree.start[tree.leaves],
            end=tree.end[tree.leaves],
            kind=np.array(kind_indices, np.int32)[kind],
            role=tuple(_ROLES[index] for index in kind.tolist()),
            node=tree.leaves,
        )

    def constructs(self, tree: Tree) -> tuple[Construct, ...]:
        """Return an empty tuple."""
        return ()


language = PlainText(__name__)
