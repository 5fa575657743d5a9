"""A grammar and its queries, loaded when first used."""

from __future__ import annotations

import importlib
import re
import threading
import tomllib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import tree_sitter
from jaxtyping import Bool, Int

from sonde.base.errors import InputError
from sonde.languages.engine.text import EncodedText
from sonde.languages.engine.tree import ERROR, Call, CodeTokens, Construct, Definition, Function, Tree

# Children of one ERROR node beyond which a query is not run over them together; far more than in code that
# somebody is still writing.
_WIDE = 5_000


# Depth below which no match begins: a query takes time quadratic in the depth of a tree, a minute for a chain
# of 64,000 attributes. No code that a person wrote comes near.
_DEEP = 6_000


_PREDICATE = re.compile(r"\(#([\w-]+[?!])")


_KNOWN = frozenset({*("eq?", "not-eq?", "any-eq?", "match?", "not-match?", "any-match?", "any-of?"), "set!"})
"""Conditions that tree-sitter's binding holds a query to; any other, ``not-any-of?`` too, it passes over."""


Match = dict[str, list[tree_sitter.Node]]


class Parsed(Protocol):
    """The tree of a text: the grammar's own, or the part of one that stands for the text."""

    @property
    def root_node(self) -> tree_sitter.Node:
        """The node around everything in the text."""
        ...


@dataclass(frozen=True, slots=True)
class Subtree:
    """The part of a tree that stands for a text, where more had to be parsed around it."""

    root_node: tree_sitter.Node


class Grammar:
    """A tree-sitter grammar with the queries of a language's folder.

    Args:
        module: Importable package of the grammar, its function behind a colon if it is not ``language``.
        package: The language's package, which holds the ``.scm`` files.
    """

    def __init__(self, module: str, package: str) -> None:
        self._module = module
        self._package = package
        self._queries: dict[str, tree_sitter.Query] = {}
        self._local = threading.local()

    @cached_property
    def language(self) -> tree_sitter.Language:
        """The compiled grammar."""
        module, _, function = self._module.partition(":")
        capsule: object = getattr(importlib.import_module(module), function or "language")()
        return tree_sitter.Language(capsule)

    def parse(self, data: bytes) -> tree_sitter.Tree:
        """Parse UTF-8; each thread has its own parser."""
        parser: tree_sitter.Parser | None = getattr(self._local, "parser", None)
        if parser is None:
            parser = self._local.parser = tree_sitter.Parser(self.language)
        return parser.parse(data)

    def query(self, name: str) -> tree_sitter.Query:
        """The compiled query of a file, ``name`` without its ``.scm``; without a file it finds nothing.

        Raises:
            InputError: It has a condition that would not be looked at.
        """
        if name not in self._queries:
            file = files(self._package) / f"{name}.scm"
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            unknown = set(_PREDICATE.findall(text)) - _KNOWN
            if unknown:
                raise InputError(
                    f"{self._package}: {name}.scm has the condition #{min(unknown)}, which is not looked at; "
                    f"write it with #{', #'.join(sorted(_KNOWN))}"
                )
            self._queries[name] = tree_sitter.Query(self.language, text)
        return self._queries[name]

    def matches(self, name: str, root: tree_sitter.Node) -> list[Match]:
        """What each match of a query captured, by capture name."""
        cursor = _cursor(self.query(name))
        return [found for part in _parts(root) for _, found in cursor.matches(part)]

    def captures(self, name: str, root: tree_sitter.Node) -> list[tuple[str, list[tree_sitter.Node]]]:
        """Captured nodes by capture name, in the order in which the names first stand in the file."""
        query = self.query(name)
        cursor = _cursor(query)
        found: dict[str, list[tree_sitter.Node]] = {}
        for part in _parts(root):
            for capture, nodes in cursor.captures(part).items():
                found.setdefault(capture, []).extend(nodes)
        names = [query.capture_name(index) for index in range(query.capture_count)]
        return [(capture, found[capture]) for capture in names if capture in found]


def _cursor(query: tree_sitter.Query) -> tree_sitter.QueryCursor:
    cursor = tree_sitter.QueryCursor(query)
    cursor.set_max_start_depth(_DEEP)
    return cursor


def error_spans(root: tree_sitter.Node) -> list[tuple[int, int]]:
    """Byte spans of the outermost ERROR nodes, in text order."""
    spans: list[tuple[int, int]] = []
    cursor = root.walk()
    while True:
        node = cursor.node
        assert node is not None
        if node.is_error:
            spans.append(node.byte_range)
        elif node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return spans


def node_text(node: tree_sitter.Node) -> str:
    """The characters that a node stands for."""
    return (node.text or b"").decode("utf-8", "replace")


def _parts(root: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The subtrees to run a query on: the whole tree, unless it holds a very wide ERROR node.

    A query takes time quadratic in the children of one ERROR node (tree-sitter balances all other lists),
    hours for a megabyte that is no code at all. There the query runs on each child alone; matches that
    join siblings of such a node, which nothing is sure of anyway, are lost.
    """
    wide = [node for node in (root, *root.children) if node.is_error and node.child_count > _WIDE]
    if not wide:
        yield root
        return
    for node in root.children:
        yield from node.children if node in wide else (node,)


# tree-sitter's own number for ERROR nodes (ts_builtin_sym_error).
_ERROR_KIND = 0xFFFF


@dataclass(frozen=True, slots=True, eq=False)
class NodeRows:
    """The nodes of a tree in pre-order, as the grammar counts: kinds are its numbers, places are bytes.

    Attributes:
        kind: The grammar's number of each node's kind.
        start: First byte.
        end: One past the last byte.
        parent: Row of the parent, -1 for the root.
        last: One past the last row of the node's subtree.
        missing: Rows of the nodes that the parser supposed where the text has nothing.
    """

    kind: list[int]
    start: list[int]
    end: list[int]
    parent: list[int]
    last: list[int]
    missing: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class _Kinds:
    """The kinds of a grammar; that of ERROR nodes is the last of each column.

    Attributes:
        names: Their names, sorted. Several numbers may share one (aliases; a rule and its keyword).
        place: For each number its name's place.
        named: For each number whether the grammar names it.
        name_of: From a number to its name.
    """

    names: tuple[str, ...]
    place: Int[np.ndarray, " number"]
    named: Bool[np.ndarray, " number"]
    name_of: Mapping[int, str]


@lru_cache
def _kinds(grammar: tree_sitter.Language) -> _Kinds:
    numbers = range(grammar.node_kind_count)
    spelled = [*(grammar.node_kind_for_id(number) or "" for number in numbers), ERROR]
    names = tuple(sorted(set(spelled)))
    places = {name: place for place, name in enumerate(names)}
    return _Kinds(
        names,
        place=np.array([places[name] for name in spelled], np.int32),
        named=np.array([*(grammar.node_kind_is_named(number) for number in numbers), True], np.bool_),
        name_of=MappingProxyType(dict(zip([*numbers, _ERROR_KIND], spelled, strict=True))),
    )


def names_of_kinds(grammar: tree_sitter.Language) -> Mapping[int, str]:
    """From the grammar's numbers to the names of its kinds."""
    return _kinds(grammar).name_of


@lru_cache
def named_kinds(grammar: tree_sitter.Language, names: Set[str]) -> frozenset[int]:
    """The grammar's numbers of the kinds that it names (``string``) and that are among some names."""
    known = _kinds(grammar)
    return frozenset(
        number
        for (number, name), named in zip(known.name_of.items(), known.named.tolist(), strict=True)
        if named and name in names
    )


def node_rows(parsed: Parsed) -> NodeRows:
    """The nodes of a parsed text.

    The walk keeps its own stack, so depth costs memory but never the interpreter's stack.
    """
    nodes: list[tree_sitter.Node] = []
    parent: list[int] = []
    last: list[int] = []
    cursor = parsed.root_node.walk()
    down, across, up = cursor.goto_first_child, cursor.goto_next_sibling, cursor.goto_parent
    stack: list[int] = []
    above, beyond = -1, 0
    while True:
        node = cursor.node
        assert node is not None
        nodes.append(node)
        parent.append(above)
        beyond += 1
        last.append(beyond)
        if down():
            stack.append(above)
            above = beyond - 1
            continue
        while not across():
            if not up():
                return _rows_of(nodes, parent, last)
            last[above] = beyond
            above = stack.pop()


def _rows_of(nodes: list[tree_sitter.Node], parent: list[int], last: list[int]) -> NodeRows:
    start = [node.start_byte for node in nodes]
    end = [node.end_byte for node in nodes]
    return NodeRows(
        kind=[node.kind_id for node in nodes],
        start=start,
        end=end,
        parent=parent,
        last=last,
        missing=[
            row
            for row, (first, beyond) in enumerate(zip(start, end, strict=True))
            if first == beyond and nodes[row].is_missing
        ],
    )


def columns(rows: NodeRows, source: EncodedText, language: str, grammar: tree_sitter.Language) -> Tree:
    """The columns of a parsed text.

    Args:
        rows: Its nodes.
        source: The text.
        language: Public name of the language.
        grammar: Where kind numbers get their names.
    """
    known = _kinds(grammar)
    kind, begin, beyond, parent, last = np.array(
        [rows.kind, rows.start, rows.end, rows.parent, rows.last], np.int32
    )
    error = kind == _ERROR_KIND
    numbers = np.where(error, len(known.place) - 1, kind)
    places = known.place[numbers]
    occurs = np.zeros(len(known.names), np.bool_)
    occurs[places] = True
    start, end = source.characters(begin), source.characters(beyond)
    error[rows.missing] = True
    childless = last == np.arange(1, len(last) + 1)
    return Tree(
        text=source.text,
        language=language,
        kinds=tuple(known.names[place] for place in np.flatnonzero(occurs).tolist()),
        kind=(np.cumsum(occurs, dtype=np.int32) - 1)[places],
        parent=parent,
        start=start,
        end=end,
        last=last,
        named=known.named[numbers],
        error=error,
        leaves=np.flatnonzero(childless & (end > start)).astype(np.int32),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """How the leaves of a tree become code tokens.

    Every list holds node kinds as the grammar spells them. A leaf whose kind no list holds is punctuation.

    Attributes:
        keywords: Reserved words.
        identifiers: Names; their roles come from `identifiers.scm`, else they are variables.
        operators: Operators.
        comments: Comments.
        layout: Characters that only join or part lines, such as a backslash before a newline.
        literals: Kind to role (``string``, ``number``, ...).
        whole: Kinds with children that are one token to tasks: strings.
        holds_text: Kinds with children whose own text, between the children, is a literal too.
        under: Parent kind to exceptions: kind to token kind.
        words: Parent kind, or empty for any, to words that the grammar takes for identifiers there: word to
            token kind.
    """

    keywords: frozenset[str]
    identifiers: frozenset[str]
    operators: frozenset[str]
    comments: frozenset[str]
    layout: frozenset[str]
    literals: Mapping[str, str]
    whole: frozenset[str]
    holds_text: frozenset[str]
    under: Mapping[str, Mapping[str, str]]
    words: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The head of a `language.toml`.

    Attributes:
        grammar: Importable package of the grammar; its ``language()`` gives the tree-sitter language, or the
            function that is named behind a colon.
        distribution: Its name for package tools, where its version is asked.
        rules: Raised by hand whenever a change in the folder changes an answer.
        suffixes: File suffixes with their dot.
        builtins: Names that the language provides.
        members: Text before and after a function that is no file of its own. What parses there alone, as one,
            is read so by all: its tree is that node.
        wrappers: Text before and after a function that is no file of its own.
        declared_first: Whether a name means a variable only after its declaration, else in all of its scope.
        tokens: From leaves to code tokens.
    """

    grammar: str
    distribution: str
    rules: int
    suffixes: tuple[str, ...]
    builtins: frozenset[str]
    members: tuple[tuple[str, str], ...]
    wrappers: tuple[tuple[str, str], ...]
    declared_first: bool
    tokens: TokenRules


def read_table(package: str, name: str) -> dict[str, Any]:
    """What a TOML file of a language's package says, ``name`` without its ``.toml``."""
    return tomllib.loads((files(package) / f"{name}.toml").read_text(encoding="utf-8"))


def has_table(package: str, name: str) -> bool:
    """Whether a language's package holds a TOML file."""
    return (files(package) / f"{name}.toml").is_file()


def has_grammar(package: str) -> bool:
    """Whether a language is read by a tree-sitter grammar."""
    return has_table(package, "language") and "grammar" in read_table(package, "language")


def read_settings(package: str) -> Settings:
    """Read the `language.toml` of a language's package."""
    raw = read_table(package, "language")
    tokens: dict[str, Any] = raw["tokens"]
    lists = ("keywords", "identifiers", "operators", "comments", "layout", "whole", "holds_text")
    return Settings(
        grammar=raw["grammar"],
        distribution=raw["distribution"],
        rules=raw["rules"],
        suffixes=tuple(raw["suffixes"]),
        builtins=frozenset(raw["builtins"]),
        members=tuple((before, after) for before, after in raw.get("members", ())),
        wrappers=tuple((before, after) for before, after in raw.get("wrappers", ())),
        declared_first=raw.get("declared_first", False),
        tokens=TokenRules(
            **{name: frozenset(tokens[name]) for name in lists},
            literals={kind: role for role, kinds in tokens["literals"].items() for kind in kinds},
            under=tokens.get("under", {}),
            words=tokens.get("words", {}),
        ),
    )


@runtime_checkable
class Language(Protocol):
    """A programming language (or plain text), as one folder of queries and rules.

    All positions are characters; ends are exclusive. No method executes or imports the code it reads.
    """

    @property
    def name(self) -> str:
        """Public name, the folder's name."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File suffixes with their dot."""
        ...

    @property
    def builtins(self) -> frozenset[str]:
        """Names that the language itself provides."""
        ...

    @property
    def version(self) -> str:
        """Version of the grammar and of this folder's rules; part of every fingerprint built on them."""
        ...

    def parse(self, text: str) -> Tree:
        """The syntax tree of a text; text that does not parse gives a tree with ERROR nodes."""
        ...

    def functions(self, text: str) -> tuple[Function, ...]:
        """Definitions with no enclosing function, in text order; fast, without building a `Tree`."""
        ...

    def definitions(self, text: str) -> tuple[Definition, ...]:
        """Every function, method and class definition, nested ones included; fast."""
        ...

    def calls(self, text: str) -> tuple[Call, ...]:
        """Every call by name, in text order; fast."""
        ...

    def tokens(self, tree: Tree) -> CodeTokens:
        """The code tokens with kind and role."""
        ...

    def constructs(self, tree: Tree) -> tuple[Construct, ...]:
        """Spans of language-neutral constructs; they nest and may overlap."""
        ...
