"""Deprecated and removed names of Python: warnings, ``@deprecated``, documentation and errors that say so.

A message is a text that ``warn`` is given with a deprecation's category, that a decorator ``deprecated`` or
an error that says "removed" is given, or the part of a docstring that begins with "deprecated". Messages
that are put together when the program runs are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from inspect import cleandoc

import tree_sitter

from sonde.languages import facet_of
from sonde.languages._deprecations import NOT_ITSELF, Deprecation, said
from sonde.languages._grammar import node_text
from sonde.languages._imports import Imports
from sonde.languages._treesitter import TreeSitterLanguage
from sonde.languages.python._exports import exports, module_of

UNKNOWN, SAME = "names nothing that the file knows", "names itself"

_MENTIONS = re.compile(r"deprecat|removed", re.IGNORECASE)
_CATEGORY = re.compile(r"\b(?:Pending)?(?:Deprecation|Future)Warning\b")
# At the margin of a docstring alone: what is indented is said of a parameter or a member.
_DIRECTIVE = re.compile(
    r"^\.\.\s+(?:deprecated|versionremoved)::[^\n]*\n(?P<text>(?:[ \t]+[^\n]*(?:\n|\Z)|\n)+)", re.MULTILINE
)
_SENTENCE = re.compile(r"^deprecated\b(?P<text>[^\n]*(?:\n[^\s.][^\n]*)*)", re.IGNORECASE | re.MULTILINE)
_BRANCHES = (
    "if_statement", "elif_clause", "else_clause", "for_statement", "while_statement", "except_clause",
    "match_statement", "conditional_expression",
)  # fmt: skip
_SINCE = re.compile(r"\b(?:since|in)(?: version)?(?: [A-Z]\w+)? v?\d[\w.]*\d|\b(?:since|in) v?\d+\b")


def facet(language: TreeSitterLanguage) -> PythonDeprecations:
    """The facet ``deprecations``."""
    return PythonDeprecations(language)


@dataclass(frozen=True, slots=True)
class PythonDeprecations:
    """`sonde.languages._deprecations.Deprecations` for Python."""

    language: TreeSitterLanguage
    version: str = "2"

    def read(self, text: str, path: str) -> tuple[list[Deprecation], Counter[str]]:
        """See `Deprecations.read`."""
        if not _MENTIONS.search(text):
            return [], Counter()
        source, tree = self.language.syntax(text)
        captures = dict(self.language.grammar.captures("deprecations", tree.root_node))
        imports = facet_of(self.language.name, "imports", Imports).read(text, path).imports
        names = _Names(module_of(path), {one.bound: one.name for one in reversed(imports)})
        for node in captures.get("definition", []):
            levels = _levels(node)
            names.defined[levels] = node.type == "class_definition"
        found: set[Deprecation] = set()
        left_out: Counter[str] = Counter()
        for node, message, sure in _messages(captures):
            pair = names.pair(_levels(node), message, _parameters(node), sure=sure)
            if isinstance(pair, str):
                left_out[pair] += 1
            else:
                found.add(Deprecation(*pair, start=source.at(node.start_byte)))
        return sorted(found), left_out

    def public(self, names: Iterable[str], files: Iterable[tuple[str, str]]) -> Mapping[str, str]:
        """See `Deprecations.public`."""
        handed_on = exports(facet_of(self.language.name, "imports", Imports), files)
        return {name: handed_on.public(name) for name in names}


@dataclass(slots=True)
class _Names:
    """What names mean in one file: what it defines and imports."""

    module: str
    imported: Mapping[str, str]
    defined: dict[tuple[str, ...], bool] = field(default_factory=dict)

    def pair(
        self, here: tuple[str, ...], message: str, parameters: Set[str], *, sure: bool
    ) -> tuple[str, str, tuple[int, int]] | str:
        """Old name, new name and their members, or why a message at a definition gives no pair.

        Args:
            here: The definition.
            message: The message.
            parameters: Names of its parameters, which a message may be about instead.
            sure: Whether every call gives the message; what is given in some cases has to name it.
        """
        read = said(message)
        if isinstance(read, str):
            return read
        if not (read.about or sure) or {read.about, read.replacement} & parameters:
            return NOT_ITSELF
        old = self._full(read.about, here) if read.about else self._own(here)
        if old is None or (read.about and not self._is_about(old[0], here)):
            return NOT_ITSELF
        new = self._full(read.replacement, here)
        if new is None:
            return UNKNOWN
        if old[0] == new[0]:
            return SAME
        return old[0], new[0], (old[1], new[1])

    def _own(self, here: tuple[str, ...]) -> tuple[str, int] | None:
        if not here:
            return None
        owner = here[:-1] if here[-1] in ("__init__", "__new__", "__getattr__") else here
        return self._placed(owner) if owner else None

    def _is_about(self, old: str, here: tuple[str, ...]) -> bool:
        """A message at a definition is about it or about something else of the module by its full name."""
        return old == self.module or old.startswith(f"{self.module}.") or not here or old.endswith(here[-1])

    def _full(self, name: str, here: tuple[str, ...]) -> tuple[str, int] | None:
        """A name as written at a definition, fully qualified, with its levels inside a class."""
        levels = tuple(name.split("."))
        for outer in range(len(here), -1, -1):
            around = here[:outer]
            if (*around, *levels) in self.defined and (not around or self.defined.get(around)):
                return self._placed((*around, *levels))
        if len(levels) > 1 and (levels[:-1]) in self.defined and self.defined[levels[:-1]]:
            return self._placed(levels)
        first = levels[0] if levels else ""
        if first in self.imported:
            return _elsewhere(".".join([self.imported[first], *levels[1:]]))
        top = self.module.partition(".")[0]
        if len(levels) > 1 and first == top.lstrip("_"):
            return self._inside_module(name)
        return None

    def _inside_module(self, name: str) -> tuple[str, int]:
        rest = tuple(name.removeprefix(f"{self.module}.").split("."))
        return self._placed(rest) if rest in self.defined else _elsewhere(name)

    def _placed(self, levels: tuple[str, ...]) -> tuple[str, int]:
        classes = next((n for n in range(1, len(levels)) if self.defined.get(levels[:n])), len(levels))
        return ".".join([self.module, *levels]), len(levels) - classes


def _elsewhere(name: str) -> tuple[str, int]:
    """A name of another file: what is spelled like a class is taken for one, as PEP 8 has it."""
    levels = name.split(".")
    classes = next((at for at, level in enumerate(levels) if level[:1].isupper()), len(levels) - 1)
    return name, len(levels) - 1 - classes


def _messages(
    captures: Mapping[str, list[tree_sitter.Node]],
) -> Iterator[tuple[tree_sitter.Node, str, bool]]:
    """Messages with the definition, or else the statement, that each stands in, and if they always come."""
    assigned = captures.get("assigned", [])
    raised, decorated = captures.get("raised", []), captures.get("decorated", [])
    for node in captures.get("call", []):
        if _called(node) != "warn":
            continue
        arguments = _arguments(node)
        if arguments and any(_CATEGORY.search(_text(one)) for one in arguments[1:]):
            yield from _from_argument(node, arguments[0], assigned)
    for node in raised:
        arguments = _arguments(node)
        if arguments and "removed" in _text(arguments[0]):
            yield from _from_argument(node, arguments[0], assigned)
    for node in decorated:
        arguments = _arguments(node)
        if _called(node) == "deprecated" and arguments and (message := _literal(arguments[0])) is not None:
            below = (
                node.parent.parent.child_by_field_name("definition")
                if node.parent and node.parent.parent
                else None
            )
            if below is not None:
                yield below, message, True
    for node in captures.get("definition", []):
        yield from ((node, message, True) for message in _documented(node))


def _from_argument(
    node: tree_sitter.Node, argument: tree_sitter.Node, assigned: list[tree_sitter.Node]
) -> Iterator[tuple[tree_sitter.Node, str, bool]]:
    here = _around(node)
    if argument.type == "identifier":
        values = [
            one.child_by_field_name("right")
            for one in assigned
            if _around(one) == here and _text(one.child_by_field_name("left")) == _text(argument)
        ]
        argument = values[0] if len(values) == 1 and values[0] is not None else argument
    message = _literal(argument)
    if message is not None:
        yield here or node, message, not _in_a_case(node, here)


def _in_a_case(node: tree_sitter.Node, here: tree_sitter.Node | None) -> bool:
    """Whether a statement of a definition stands in a branch or a loop."""
    above = node.parent
    while above is not None and above != here:
        if above.type in _BRANCHES:
            return True
        above = above.parent
    return False


def _parameters(node: tree_sitter.Node) -> frozenset[str]:
    """Names of the parameters of a function; none of a class."""
    held = node.child_by_field_name("parameters")
    found: list[str] = []
    for child in held.named_children if held is not None else []:
        name = child
        while name.type != "identifier" and name.named_children:
            name = name.child_by_field_name("name") or name.named_children[0]
        found.append(_text(name))
    return frozenset(found)


def _documented(node: tree_sitter.Node) -> Iterator[str]:
    """What the docstring of a definition says after "deprecated"."""
    body = node.child_by_field_name("body")
    first = body.named_children[0] if body is not None and body.named_children else None
    if first is None or first.type != "expression_statement" or not first.named_children:
        return
    text = cleandoc(_literal(first.named_children[0], keep_lines=True) or "")
    directives = [found["text"] for found in _DIRECTIVE.finditer(text)]
    for one in directives or [found["text"] for found in _SENTENCE.finditer(text)][:1]:
        yield _SINCE.sub("", one).strip(" .,:;-\n")


def _literal(node: tree_sitter.Node, *, keep_lines: bool = False) -> str | None:
    """The text that is written; None where a part of it is known to the running program alone."""
    if node.type == "parenthesized_expression" and len(node.named_children) == 1:
        return _literal(node.named_children[0], keep_lines=keep_lines)
    if node.type == "concatenated_string":
        parts = [
            _literal(child, keep_lines=keep_lines) for child in node.named_children if child.type != "comment"
        ]
        return None if any(part is None for part in parts) else "".join(part or "" for part in parts)
    if node.type != "string" or any(child.type == "interpolation" for child in node.children):
        return None
    text = "".join(_text(child) for child in node.children if child.type == "string_content")
    return text if keep_lines else text.replace("\\n", " ")


def _called(node: tree_sitter.Node) -> str:
    return _text(node.child_by_field_name("function")).rpartition(".")[2]


def _arguments(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    held = node.child_by_field_name("arguments")
    return [] if held is None else [child for child in held.named_children if child.type != "comment"]


def _around(node: tree_sitter.Node) -> tree_sitter.Node | None:
    """The innermost definition around a node."""
    above = node.parent
    while above is not None and above.type not in ("function_definition", "class_definition"):
        above = above.parent
    return above


def _levels(node: tree_sitter.Node) -> tuple[str, ...]:
    """The names of the definitions around a node, its own last; none for a statement outside of them."""
    found: list[str] = []
    above: tree_sitter.Node | None = node
    while above is not None:
        if above.type in ("function_definition", "class_definition"):
            found.append(_text(above.child_by_field_name("name")))
        above = above.parent
    return tuple(reversed(found))


def _text(node: tree_sitter.Node | None) -> str:
    return "" if node is None else node_text(node)
