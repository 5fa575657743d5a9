"""A grammar and its queries, loaded when first used."""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Protocol

import tree_sitter

from sonde.base.errors import InputError

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
