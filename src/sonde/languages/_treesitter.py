"""A language made of a tree-sitter grammar and a folder of queries.

The folder holds `language.toml` (see `_settings`), `definitions.scm` and `calls.scm` (see `_definitions`),
`identifiers.scm` (captures are ``TOKEN_ROLES``, see `_tokens`; ``unbound.ROLE`` is one of names that mean no
variable), `constructs.scm` (captures are ``CONSTRUCT_LABELS``), and in `rules.py` what none of them can say.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Set
from functools import cached_property
from importlib.metadata import version
from typing import Any

import tree_sitter

from sonde.base.outside import public_stem
from sonde.languages import _definitions
from sonde.languages._grammar import Grammar, Parsed, Subtree, error_spans
from sonde.languages._kept import Kept
from sonde.languages._leaves import Leaf, ParsedText, leaves, read
from sonde.languages._locals import Locals, locals_of, unbound
from sonde.languages._parse import columns, node_rows
from sonde.languages._settings import Settings, has_table, read_settings, read_table
from sonde.languages._text import EncodedText, plain_breaks
from sonde.languages._tokens import code_tokens
from sonde.languages._tree import Call, CodeTokens, Construct, Definition, Function, Tree

_UNBOUND = "unbound."


def _member(package: str) -> Any:
    return importlib.import_module(package).language


class TreeSitterLanguage:
    """The `Language` protocol over a folder's `language.toml`, queries and rules.

    Args:
        package: The folder as a package, ``__name__`` in its ``__init__.py``.
        docstring: Takes documentation as it stands in the text, marks included, and gives its words;
            empty for what is not documentation after all.
        compiles: Whether the language's own compiler takes a text, where Python has it at hand.
    """

    def __init__(
        self,
        package: str,
        *,
        docstring: Callable[[str], str],
        compiles: Callable[[str], bool] = lambda text: True,
    ) -> None:
        self._package = package
        self._docstring = docstring
        self.compiles = compiles
        """Whether the language's own compiler takes a text; for facets."""
        self.syntax: Callable[[str], tuple[EncodedText, Parsed]] = Kept(self._parse)
        """The grammar's own tree of a text, with the way from its bytes to characters; for facets."""
        self._sites: Callable[[str], tuple[list[_definitions.Site], EncodedText]] = Kept(self._find_sites)
        self.parse: Callable[[str], Tree] = Kept(self._columns)
        """The syntax tree as columns."""
        self.reading: Callable[[str], ParsedText] = Kept(self._read)
        """The tree of a function, perhaps inside a wrapper; for facets."""
        self.leaves: Callable[[str], tuple[Leaf, ...]] = Kept(self._leaves)
        """The tokens as a lexer lists them: no comments, no layout, a string is one; for facets."""
        self.locals: Callable[[str], Locals] = Kept(self._locals)
        """What binds names in a function and what refers to them; for facets."""
        self.unbound: Callable[[str], frozenset[int]] = Kept(self._unbound_in)
        """First bytes of a function's names that mean no variable; for facets."""

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
        """What a TOML file of the folder says, ``name`` without its ``.toml``, or nothing; for facets."""
        return read_table(self._package, name) if has_table(self._package, name) else {}

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

    def functions(self, text: str) -> tuple[Function, ...]:
        """Definitions with no enclosing function, methods included, in text order."""
        found, source = self._sites(text)
        return _definitions.functions(found, source, lambda written: self._docstring(plain_breaks(written)))

    def definitions(self, text: str) -> tuple[Definition, ...]:
        """Every named definition, nested ones included, in text order."""
        found, source = self._sites(text)
        return _definitions.definitions(found, source)

    def calls(self, text: str) -> tuple[Call, ...]:
        """Every call by name, in text order."""
        source, parsed = self.syntax(text)
        root = parsed.root_node
        return _definitions.calls(
            self.grammar.matches("calls", root),
            error_spans(root),
            source,
            lambda: self._unbound(root),
        )

    def tokens(self, tree: Tree) -> CodeTokens:
        """Code tokens with kind and role."""
        source, parsed = self.syntax(tree.text)
        return code_tokens(tree, self.settings.tokens, self.roles(parsed.root_node), source)

    def roles(self, root: tree_sitter.Node) -> list[tuple[str, list[tree_sitter.Node]]]:
        """The nodes of each role of `identifiers.scm`, a later one taking precedence; for facets."""
        found = self.grammar.captures("identifiers", root)
        if not any(role.startswith(_UNBOUND) for role, _ in found):
            return found
        free = self._unbound(root)
        return [
            (role.removeprefix(_UNBOUND), [node for node in nodes if node.start_byte in free])
            if role.startswith(_UNBOUND)
            else (role, nodes)
            for role, nodes in found
        ]

    def constructs(self, tree: Tree) -> tuple[Construct, ...]:
        """Spans of language-neutral constructs, in text order, outer ones first."""
        source, parsed = self.syntax(tree.text)
        return _construct_spans(self.grammar.captures("constructs", parsed.root_node), source)

    def _unbound(self, root: tree_sitter.Node) -> frozenset[int]:
        """First bytes of names that mean no variable."""
        return unbound(locals_of(self.grammar, root), ordered=self.settings.declared_first)

    def _parse(self, text: str) -> tuple[EncodedText, Parsed]:
        source = EncodedText.of(text)
        parsed = self.grammar.parse(source.data)
        if parsed.root_node.has_error:
            for before, after in self.settings.members:
                around = EncodedText.of(text, before.encode(), after.encode())
                start = len(before.encode()) + len(source.data) - len(source.data.lstrip())
                span = start, start + len(source.data.strip())
                root = self.grammar.parse(around.data).root_node
                node = root.named_descendant_for_byte_range(*span)
                if not root.has_error and node and node.byte_range == span and self._is_function(node):
                    return around, Subtree(node)
        return source, parsed

    def _is_function(self, node: tree_sitter.Node) -> bool:
        return any(match.get("function") == [node] for match in self.grammar.matches("definitions", node))

    def _columns(self, text: str) -> Tree:
        source, parsed = self.syntax(text)
        return columns(node_rows(parsed), source, self.name, self.grammar.language)

    def _read(self, text: str) -> ParsedText:
        return read(self.syntax, text, self.settings.wrappers)

    def _locals(self, text: str) -> Locals:
        return locals_of(self.grammar, self.reading(text).root)

    def _unbound_in(self, text: str) -> frozenset[int]:
        return unbound(self.locals(text), ordered=self.settings.declared_first)

    def _leaves(self, text: str) -> tuple[Leaf, ...]:
        rules = self.settings.tokens
        return self.leaves_of(self.reading(text), without=rules.comments | rules.layout)

    def whole(self, text: str) -> ParsedText:
        """The tree of a text that stands in no wrapper, whether or not it parses so; for facets."""
        source, parsed = self.syntax(text)
        return ParsedText(source, parsed, 0, len(text))

    def leaves_of(self, reading: ParsedText, *, without: Set[str] = frozenset()) -> tuple[Leaf, ...]:
        """The tokens of a parsed text and its comments, but for some kinds; for facets."""
        return leaves(reading, self.settings.tokens, self.grammar.language, without=without)

    def _find_sites(self, text: str) -> tuple[list[_definitions.Site], EncodedText]:
        source, parsed = self.syntax(text)
        return _definitions.sites(self.grammar.matches("definitions", parsed.root_node)), source


def _construct_spans(
    captures: Iterable[tuple[str, list[tree_sitter.Node]]], source: EncodedText
) -> tuple[Construct, ...]:
    """The labelled spans, each once, by start and outer before inner; empty spans are left out."""
    found = {
        (node.start_byte, -_visible_end(node, source), label)
        for label, nodes in captures
        for node in nodes
        if node.end_byte > node.start_byte
    }
    return tuple(
        Construct(label, source.at(start), source.at(-negative_end))
        for start, negative_end, label in sorted(found)
    )


def _visible_end(node: tree_sitter.Node, source: EncodedText) -> int:
    """Return the last byte of a node, without the carriage return of a line end that a comment may hold."""
    end = node.end_byte
    return end - 1 if source.data[end - 1 : end + 1] == b"\r\n" else end
