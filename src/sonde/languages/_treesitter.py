"""A language made of a tree-sitter grammar and a folder of queries.

The folder holds `language.toml` (see `_settings`), `definitions.scm` and `calls.scm` (see `_definitions`),
`identifiers.scm` (captures are ``TOKEN_ROLES``, see `_tokens`), `constructs.scm` (captures are
``CONSTRUCT_LABELS``), and in `rules.py` what none of them can say.
"""

from __future__ import annotations

import importlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import cached_property
from importlib.metadata import version
from typing import Any

import tree_sitter

from sonde.base.outside import public_stem
from sonde.languages import _definitions
from sonde.languages._grammar import Grammar, error_spans
from sonde.languages._parse import columns
from sonde.languages._settings import Settings, read_settings, read_table
from sonde.languages._text import EncodedText
from sonde.languages._tokens import code_tokens
from sonde.languages._tree import Call, CodeTokens, Construct, Definition, Function, Tree

# Callers ask the same text for its tree, its tokens and, when its batch has been forwarded, its constructs:
# the trees of a job's functions, or of one large file.
_KEPT_CHARACTERS = 200_000


def _member(package: str) -> Any:
    return importlib.import_module(package).language


class TreeSitterLanguage:
    """The `Language` protocol over a folder's `language.toml`, queries and rules.

    Args:
        package: The folder as a package, ``__name__`` in its ``__init__.py``.
        docstring: Takes documentation as it stands in the text, marks included, and gives its words;
            empty for what is not documentation after all.
    """

    def __init__(self, package: str, *, docstring: Callable[[str], str]) -> None:
        self._package = package
        self._docstring = docstring
        self._kept: OrderedDict[str, tuple[EncodedText, tree_sitter.Tree]] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _member, (self._package,)

    @property
    def name(self) -> str:
        """Public name, the folder's name."""
        return public_stem(self._package)

    @cached_property
    def settings(self) -> Settings:
        """What `language.toml` says."""
        return read_settings(self._package)

    @cached_property
    def grammar(self) -> Grammar:
        """The grammar and its queries."""
        return Grammar(self.settings.grammar, self._package)

    def table(self, name: str) -> dict[str, Any]:
        """What a TOML file of the folder says, ``name`` without its ``.toml``; for facets."""
        return read_table(self._package, name)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File suffixes with their dot."""
        return self.settings.suffixes

    @property
    def builtins(self) -> frozenset[str]:
        """Names that the language provides."""
        return self.settings.builtins

    @property
    def version(self) -> str:
        """Versions of tree-sitter and of the grammar, and the folder's rules number."""
        parts = (f"{name} {version(name)}" for name in ("tree-sitter", self.settings.distribution))
        return ", ".join([*parts, f"rules {self.settings.rules}"])

    def syntax(self, text: str) -> tuple[EncodedText, tree_sitter.Tree]:
        """The grammar's own tree of a text, with the way from its bytes to characters; for facets."""
        found = self._kept.get(text)
        if found is None:
            found = self._parse(text)
            with self._lock:
                if text not in self._kept:
                    self._kept[text] = found
                    self._characters += len(text)
                while self._characters > _KEPT_CHARACTERS and len(self._kept) > 1:
                    self._characters -= len(self._kept.popitem(last=False)[0])
        return found

    def parse(self, text: str) -> Tree:
        """The syntax tree as columns."""
        source, parsed = self.syntax(text)
        return columns(parsed, source, self.name, self.grammar.language)

    def functions(self, text: str) -> tuple[Function, ...]:
        """Definitions with no enclosing function, methods included, in text order."""
        found, source = self._sites(text)
        return _definitions.functions(found, source, self._docstring)

    def definitions(self, text: str) -> tuple[Definition, ...]:
        """Every named definition, nested ones included, in text order."""
        found, source = self._sites(text)
        return _definitions.definitions(found, source)

    def calls(self, text: str) -> tuple[Call, ...]:
        """Every call by name, in text order."""
        source, parsed = self.syntax(text)
        root = parsed.root_node
        return _definitions.calls(self.grammar.matches("calls", root), error_spans(root), source)

    def tokens(self, tree: Tree) -> CodeTokens:
        """Code tokens with kind and role."""
        source, parsed = self.syntax(tree.text)
        captures = self.grammar.captures("identifiers", parsed.root_node)
        return code_tokens(tree, self.settings.tokens, captures, source)

    def constructs(self, tree: Tree) -> tuple[Construct, ...]:
        """Spans of language-neutral constructs, in text order, outer ones first."""
        source, parsed = self.syntax(tree.text)
        return _construct_spans(self.grammar.captures("constructs", parsed.root_node), source)

    def _parse(self, text: str) -> tuple[EncodedText, tree_sitter.Tree]:
        source = EncodedText.of(text)
        return source, self.grammar.parse(source.data)

    def _sites(self, text: str) -> tuple[list[_definitions.Site], EncodedText]:
        source, parsed = self.syntax(text)
        return _definitions.sites(self.grammar.matches("definitions", parsed.root_node)), source


def _construct_spans(
    captures: Iterable[tuple[str, list[tree_sitter.Node]]], source: EncodedText
) -> tuple[Construct, ...]:
    """The labelled spans, each once, by start and outer before inner; empty spans are left out."""
    found = {
        (node.start_byte, -node.end_byte, label)
        for label, nodes in captures
        for node in nodes
        if node.end_byte > node.start_byte
    }
    return tuple(
        Construct(label, source.at(start), source.at(-negative_end))
        for start, negative_end, label in sorted(found)
    )
