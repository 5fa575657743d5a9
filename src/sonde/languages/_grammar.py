"""A grammar and its queries, loaded when first used."""

from __future__ import annotations

import importlib
import threading
from functools import cached_property
from importlib.resources import files

import tree_sitter

Match = dict[str, list[tree_sitter.Node]]


class Grammar:
    """A tree-sitter grammar with the queries of a language's folder.

    Args:
        module: Importable package of the grammar.
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
        capsule: object = importlib.import_module(self._module).language()
        return tree_sitter.Language(capsule)

    def parse(self, data: bytes) -> tree_sitter.Tree:
        """Parse UTF-8; each thread has its own parser."""
        parser: tree_sitter.Parser | None = getattr(self._local, "parser", None)
        if parser is None:
            parser = self._local.parser = tree_sitter.Parser(self.language)
        return parser.parse(data)

    def query(self, name: str) -> tree_sitter.Query:
        """The compiled query of a file, ``name`` without its ``.scm``."""
        if name not in self._queries:
            text = (files(self._package) / f"{name}.scm").read_text(encoding="utf-8")
            self._queries[name] = tree_sitter.Query(self.language, text)
        return self._queries[name]

    def matches(self, name: str, root: tree_sitter.Node) -> list[Match]:
        """What each match of a query captured, by capture name."""
        return [found for _, found in tree_sitter.QueryCursor(self.query(name)).matches(root)]

    def captures(self, name: str, root: tree_sitter.Node) -> list[tuple[str, list[tree_sitter.Node]]]:
        """Captured nodes by capture name, in the order in which the names first stand in the file."""
        query = self.query(name)
        found = tree_sitter.QueryCursor(query).captures(root)
        names = [query.capture_name(index) for index in range(query.capture_count)]
        return [(capture, found[capture]) for capture in names if capture in found]

    def errors(self, root: tree_sitter.Node) -> list[tuple[int, int]]:
        """Byte spans of the outermost ERROR nodes, in text order."""
        if not root.has_error:
            return []
        if "(ERROR)" not in self._queries:
            self._queries["(ERROR)"] = tree_sitter.Query(self.language, "(ERROR) @error")
        found = tree_sitter.QueryCursor(self._queries["(ERROR)"]).captures(root).get("error", [])
        spans: list[tuple[int, int]] = []
        for start, end in sorted((node.start_byte, node.end_byte) for node in found):
            if spans and start < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        return spans
