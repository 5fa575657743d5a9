"""Deprecated and removed names by `deprecations.scm` and `.toml`, the same code over every language.

A message is a text that stands where the query says, or the part of a documentation that begins with
"deprecated". Messages that are put together when the program runs are not read. Captures of one match:

- ``definition`` with its ``name``, ``class`` where it is one, ``parameter`` for each of a function's;
- ``arguments``, the first of which is the message: of ``given`` (a statement about the definition around), or
  of ``decorated`` (a definition);
- ``documentation`` of a ``definition``;
- ``variable`` and ``value`` of an assignment of a text, which a message may be given by;
- ``branch``: what is given in one is not given by every call.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any

import tree_sitter

from sonde.languages._deprecated_names import DefinedNames
from sonde.languages._deprecations import Deprecation
from sonde.languages._exports import exports, module_of
from sonde.languages._facets import facet_of
from sonde.languages._grammar import Match, node_text
from sonde.languages._imports import Imports, read_packages
from sonde.languages._treesitter import TreeSitterLanguage

_MENTIONS = re.compile(r"deprecat|removed", re.IGNORECASE)
_SENTENCE = re.compile(r"^deprecated\b(?P<text>[^\n]*(?:\n[^\s.][^\n]*)*)", re.IGNORECASE | re.MULTILINE)
_SINCE = re.compile(r"\b(?:since|in)(?: version)?(?: [A-Z]\w+)? v?\d[\w.]*\d|\b(?:since|in) v?\d+\b")


@dataclass(frozen=True, slots=True)
class DeprecationsOf:
    """`sonde.languages._deprecations.Deprecations` of a language by its query and table."""

    language: TreeSitterLanguage
    version: str
    constructors: frozenset[str]
    directive: re.Pattern[str]
    literals: Mapping[str, Any]

    def read(self, text: str, path: str) -> tuple[list[Deprecation], Counter[str]]:
        """See `Deprecations.read`."""
        if not _MENTIONS.search(text):
            return [], Counter()
        source, tree = self.language.syntax(text)
        file = _File(self, self.language.grammar.matches("deprecations", tree.root_node))
        imports = facet_of(self.language.name, "imports", Imports).read(text, path).imports
        names = DefinedNames(
            module_of(path, read_packages(self.language)),
            {one.bound: one.name for one in reversed(imports)},
            self.constructors,
        )
        names.defined.update((file.levels(node), node.id in file.classes) for node in file.definitions)
        found: set[Deprecation] = set()
        left_out: Counter[str] = Counter()
        for node, message, sure in file.messages():
            pair = names.pair(file.levels(node), message, file.parameters[node.id], sure=sure)
            if isinstance(pair, str):
                left_out[pair] += 1
            else:
                found.add(Deprecation(*pair, start=source.at(node.start_byte)))
        return sorted(found), left_out

    def public(self, names: Iterable[str], files: Iterable[tuple[str, str]]) -> Mapping[str, str]:
        """See `Deprecations.public`."""
        imports = facet_of(self.language.name, "imports", Imports)
        handed_on = exports(imports, files, read_packages(self.language))
        return {name: handed_on.public(name) for name in names}

    def literal(self, node: tree_sitter.Node, *, keep_lines: bool = False) -> str | None:
        """The text that is written; None where a part of it is known to the running program alone."""
        if node.type in self.literals["joined"]:
            parts = [self.literal(child, keep_lines=keep_lines) for child in _named(node)]
            return "".join(map(str, parts)) if None not in parts and parts else None
        kinds = {child.type for child in node.children}
        if node.type != self.literals["text"] or self.literals["unknown"] in kinds:
            return None
        content = self.literals["content"]
        text = "".join(node_text(child) for child in node.children if child.type == content)
        return text if keep_lines else text.replace("\\n", " ")

    def documented(self, node: tree_sitter.Node) -> Iterator[str]:
        """What documentation says after "deprecated"."""
        text = cleandoc(self.literal(node, keep_lines=True) or "")
        found = list(self.directive.finditer(text)) or list(_SENTENCE.finditer(text))[:1]
        yield from (_SINCE.sub("", one["text"]).strip(" .,:;-\n") for one in found)


class _File:
    """The definitions and messages of one file.

    Args:
        rules: The language's.
        matches: What the query finds.

    Attributes:
        definitions: All definitions.
        classes: Ids of those that are classes.
        parameters: Names of the parameters of each function, by its id.
    """

    def __init__(self, rules: DeprecationsOf, matches: list[Match]) -> None:
        self._rules = rules
        self._matches = matches
        self._names: dict[int, str] = {}
        self.definitions: list[tree_sitter.Node] = []
        self.classes: set[int] = set()
        self.parameters: defaultdict[int, set[str]] = defaultdict(set)
        self._branches: set[int] = set()
        for match in matches:
            self._branches |= {node.id for node in match.get("branch", ())}
            for node in match.get("definition", ()):
                self.parameters[node.id] |= {node_text(name) for name in match.get("parameter", ())}
                self.classes |= {node.id for node in match.get("class", ())}
                if "name" in match:
                    self.definitions.append(node)
                    self._names[node.id] = node_text(match["name"][0])

    def messages(self) -> Iterator[tuple[tree_sitter.Node, str, bool]]:
        """Messages with the definition, or else the statement, of each, and whether they always come."""
        seen: set[int] = set()
        for match in self._matches:
            for node in match.get("documentation", ()):
                yield from ((match["definition"][0], text, True) for text in self._rules.documented(node))
            for node in match.get("arguments", ()):
                arguments = _named(node)
                if node.id not in seen and arguments:
                    seen.add(node.id)
                    yield from self._given(match, arguments[0])

    def levels(self, node: tree_sitter.Node) -> tuple[str, ...]:
        """Names of the definitions around a node, its own last; none for a statement outside of them."""
        found: list[str] = []
        above: tree_sitter.Node | None = node
        while above is not None:
            if above.id in self._names:
                found.append(self._names[above.id])
            above = above.parent
        return tuple(reversed(found))

    def _given(
        self, match: Match, argument: tree_sitter.Node
    ) -> Iterator[tuple[tree_sitter.Node, str, bool]]:
        if "decorated" in match:
            node, here, sure = match["decorated"][0], None, True
        else:
            node = match["given"][0]
            here, sure = self._around(node)
            argument = self._value(argument, here) or argument
        message = self._rules.literal(argument)
        if message is not None:
            yield here or node, message, sure

    def _around(self, node: tree_sitter.Node) -> tuple[tree_sitter.Node | None, bool]:
        """The innermost definition around a node, and whether no branch of it holds the node."""
        above, sure = node.parent, True
        while above is not None and above.id not in self._names:
            sure = sure and above.id not in self._branches
            above = above.parent
        return above, sure

    def _value(self, name: tree_sitter.Node, here: tree_sitter.Node | None) -> tree_sitter.Node | None:
        """The only text that a definition assigns to a variable."""
        values = [
            match["value"][0]
            for match in self._matches
            if "variable" in match
            and node_text(match["variable"][0]) == node_text(name)
            and self._around(match["variable"][0])[0] == here
        ]
        return values[0] if len(values) == 1 else None


def _named(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    return [child for child in node.named_children if not child.is_extra]


def facet(language: TreeSitterLanguage) -> DeprecationsOf:
    """The facet ``deprecations`` of every language whose folder has the query and the table."""
    table = language.table("deprecations")
    return DeprecationsOf(
        language,
        table["version"],
        frozenset(table["constructors"]),
        re.compile(table["directive"], re.MULTILINE),
        table["literals"],
    )
