"""Deprecated and removed names with their replacements, by `deprecations.scm` and `.toml`.

The code is the same for every language. It reads what a file says about its own names: that one is
deprecated or removed, and which name replaces it. Files are read, never run.

A message is a string literal in a position that the query captures, or the part of a documentation string
after "deprecated". Messages that are built at run time are not read. Captures of one match:

- ``definition`` with its ``name``, ``class`` if it is one, ``parameter`` for each of a function's;
- ``arguments``, the first of which is the message: of ``given`` (a statement about the enclosing definition),
  or of ``decorated`` (a definition);
- ``documentation`` of a ``definition``;
- ``variable`` and ``value`` of an assignment of a string, which a message may refer to;
- ``branch``: a message inside one is not given by every call.

The query finds the messages, `parse_notice` interprets them: the replacement is what a message says to use,
written as a name. Messages about parameters, about ways to call something, or with words in place of a name
give no pair. `DefinedNames` makes the names of a message fully qualified, by what its file defines and
imports. `Exports` finds the names under which users import a definition that other modules of the package
re-export.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Any

import tree_sitter

from sonde.languages.engine.imports import ImportReader
from sonde.languages.engine.language import Match, get_facet, node_text
from sonde.languages.engine.treesitter import TreeSitterLanguage

_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"


_MARKED_NAME = rf"(?::[a-z:]+:)?[`'\"]+~?(?P<marked>{_NAME})(?:\([^`'\"]*\))?[`'\"]+"


_BARE_NAME = rf"(?P<bare>{_NAME})(?P<call>\(\))?(?=\s+instead|\s*[.,;:]?\s*$|\s*[.;]\s|\()"


_VERB = r"(?:use|switch(?:ing)? to|replaced (?:by|with)|in favou?r of|renamed(?: to)?|prefer)"


_NOT_CONDITIONAL = r"(?!\s+(?:when|if|unless|where)\b)"


_REPLACEMENT = re.compile(
    rf"\b{_VERB}\s+(?:the\s+)?(?:{_MARKED_NAME}|{_BARE_NAME}){_NOT_CONDITIONAL}", re.IGNORECASE
)


_SUBJECT = re.compile(
    rf"^\W*(?:the\s+)?(?:(?:function|method|class|property|attribute|module)\s+)?(?::[a-z:]+:)?[`'\"]*~?"
    rf"(?P<name>{_NAME})(?:\(\))?[`'\"]*(?:\s+(?:function|method|class|property|attribute))?"
    r"\s+(?:is|was|are|were|has been|have been|will be)\s+(?:now\s+|an?\s+)?(?:deprecated|removed|renamed)\b"
    r"(?!\s+(?:when|if|unless|with|without)\b)",
    re.IGNORECASE,
)


_OWN_SUBJECT = re.compile(
    r"^\W*(?:(?:please\s+)?use\b(?!\s+of\b)|deprecated\b(?!\s+(?:argument|parameter|keyword|option|value)s?\b)|"
    r"(?:this|the) (?:method|function|class|property|attribute)\s+(?:is|was|has been|will be)\b|"
    r"(?:it )?(?:is|was|has been) (?:deprecated|removed)\b|"
    r"(?:renamed|replaced|superseded|in favou?r of|prefer|switch)\b)",
    re.IGNORECASE,
)


_STOP_WORDS = frozenset(
    ("a", "an", "the", "it", "this", "that", "of", "to", "with", "your", "one", "instead")
)


NO_REPLACEMENT, OTHER_SUBJECT = "names no replacement", "is about something else"


@dataclass(frozen=True, slots=True, order=True)
class Deprecation:
    """A deprecated name and its replacement.

    Attributes:
        deprecated: The old name, fully qualified.
        replacement: The new name, fully qualified.
        members: Number of trailing levels of each that are members of a class, which cannot be imported.
        start: First character of the definition or statement with the message.
    """

    deprecated: str
    replacement: str
    members: tuple[int, int]
    start: int


@dataclass(frozen=True, slots=True)
class Notice:
    """The content of a deprecation message, in names as written.

    Attributes:
        subject: The deprecated name; empty for the definition that contains the message.
        replacement: Its replacement.
    """

    subject: str
    replacement: str


def parse_notice(message: str) -> Notice | str:
    """Parse a deprecation message, or return the reason why it gives no pair of names.

    >>> parse_notice("readmailcapfile is deprecated, use getcaps instead")
    Notice(subject='readmailcapfile', replacement='getcaps')
    >>> parse_notice("This method is deprecated. Use `find_spec` instead.")
    Notice(subject='', replacement='find_spec')
    >>> parse_notice("Passing None to split() is deprecated, use join instead")
    'is about something else'
    >>> parse_notice("keyfile is deprecated, use a custom context instead")
    'names no replacement'
    >>> parse_notice("The ``'auto'`` engine options are deprecated. Use 'fast' instead.")
    'is about something else'
    """
    words = " ".join(message.split())
    replacement = next((name for name in map(_get_replacement, _REPLACEMENT.finditer(words)) if name), "")
    if not replacement:
        return NO_REPLACEMENT
    subject = _SUBJECT.match(words)
    if subject is not None and subject["name"].lower() not in _STOP_WORDS:
        return Notice(subject["name"], replacement)
    return Notice("", replacement) if _OWN_SUBJECT.match(words) else OTHER_SUBJECT


def _get_replacement(match: re.Match[str]) -> str:
    name = match["marked"] or match["bare"] or ""
    return "" if name.lower() in _STOP_WORDS else name


UNKNOWN_NAME, SAME_NAME = "names nothing that the file knows", "names itself"


@dataclass(slots=True)
class DefinedNames:
    """The names that a file defines and imports.

    Attributes:
        module: The module name of the file.
        imports_by_name: Maps each imported name to its fully qualified name.
        constructors: Methods whose messages are about their class.
        definitions: The definitions, by their levels from the outside in, and whether each is a class.
    """

    module: str
    imports_by_name: Mapping[str, str]
    constructors: Set[str] = frozenset()
    definitions: dict[tuple[str, ...], bool] = field(default_factory=dict)

    def pair(
        self, definition: tuple[str, ...], message: str, parameters: Set[str], *, is_certain: bool
    ) -> tuple[str, str, tuple[int, int]] | str:
        """Return the old name, the new name and their member levels, or the reason for no pair.

        Args:
            definition: The definition that contains the message.
            message: The message.
            parameters: Names of its parameters, which a message may be about instead.
            is_certain: Whether every call gives the message; one that is conditional must name its subject.
        """
        notice = parse_notice(message)
        if isinstance(notice, str):
            return notice
        if not (notice.subject or is_certain) or {notice.subject, notice.replacement} & parameters:
            return OTHER_SUBJECT
        old = self._qualify(notice.subject, definition) if notice.subject else self._find_owner(definition)
        if old is None or (notice.subject and not self._is_subject(old[0], definition)):
            return OTHER_SUBJECT
        new = self._qualify(notice.replacement, definition)
        if new is None:
            return UNKNOWN_NAME
        if old[0] == new[0]:
            return SAME_NAME
        return old[0], new[0], (old[1], new[1])

    def _find_owner(self, definition: tuple[str, ...]) -> tuple[str, int] | None:
        if not definition:
            return None
        owner = definition[:-1] if definition[-1] in self.constructors else definition
        return self._qualify_definition(owner) if owner else None

    def _is_subject(self, old: str, definition: tuple[str, ...]) -> bool:
        """Return whether a name is the definition of a message, or another of the module by its full name."""
        return (
            old == self.module
            or old.startswith(f"{self.module}.")
            or not definition
            or old.endswith(definition[-1])
        )

    def _qualify(self, name: str, definition: tuple[str, ...]) -> tuple[str, int] | None:
        """Return the fully qualified name of a name used in a definition, and its levels inside a class."""
        levels = tuple(name.split("."))
        for depth in range(len(definition), -1, -1):
            scope = definition[:depth]
            if (*scope, *levels) in self.definitions and (not scope or self.definitions.get(scope)):
                return self._qualify_definition((*scope, *levels))
        if len(levels) > 1 and (levels[:-1]) in self.definitions and self.definitions[levels[:-1]]:
            return self._qualify_definition(levels)
        first = levels[0] if levels else ""
        if first in self.imports_by_name:
            return _split_external_name(".".join([self.imports_by_name[first], *levels[1:]]))
        top = self.module.partition(".")[0]
        if len(levels) > 1 and first == top.lstrip("_"):
            rest = tuple(name.removeprefix(f"{self.module}.").split("."))
            return self._qualify_definition(rest) if rest in self.definitions else _split_external_name(name)
        return None

    def _qualify_definition(self, levels: tuple[str, ...]) -> tuple[str, int]:
        class_depth = next(
            (depth for depth in range(1, len(levels)) if self.definitions.get(levels[:depth])), len(levels)
        )
        return ".".join([self.module, *levels]), len(levels) - class_depth


def _split_external_name(name: str) -> tuple[str, int]:
    """Count the member levels of a name of another file: names spelt like classes are classes (PEP 8)."""
    levels = name.split(".")
    class_depth = next((index for index, level in enumerate(levels) if level[:1].isupper()), len(levels) - 1)
    return name, len(levels) - 1 - class_depth


_MAX_ALIASES = 500
"""Limit of aliases to try for a name; packages with circular re-exports have no end of them."""


@dataclass(frozen=True, slots=True)
class Exports:
    """The imports at module level of some files: which modules re-export which names.

    Attributes:
        names: Maps a fully qualified name to its aliases.
        stars: Maps a module to the modules that import everything from it.
        export_lists: The text of each module that lists its exports.
        modules: All modules; a member of one is not imported through an alias of the module.
    """

    names: Mapping[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    stars: Mapping[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    export_lists: dict[str, str] = field(default_factory=dict)
    modules: Set[str] = frozenset()

    def public(self, name: str) -> str:
        """Return the shortest alias of a name; those without a leading underscore come first."""
        aliases = {name: None}
        queue = [name]
        while queue and len(aliases) < _MAX_ALIASES:
            for alias in self._iterate_aliases(queue.pop(0)):
                if alias not in aliases:
                    aliases[alias] = None
                    queue.append(alias)
        return min(aliases, key=lambda alias: (*_rank_name(alias), alias != name, alias))

    def _iterate_aliases(self, name: str) -> Iterator[str]:
        levels = name.split(".")
        for depth in range(2, len(levels) + 1):
            module, member = ".".join(levels[: depth - 1]), levels[depth - 1]
            rest = levels[depth:]
            if rest and f"{module}.{member}" in self.modules:
                continue
            for alias in self.names.get(f"{module}.{member}", ()):
                yield ".".join([alias, *rest])
            text = self.export_lists.get(module, "")
            if not member.startswith("_") and (not text or f'"{member}"' in text or f"'{member}'" in text):
                for alias in self.stars.get(module, ()):
                    yield ".".join([alias, member, *rest])


def read_exports(imports: ImportReader, files: Iterable[tuple[str, str]]) -> Exports:
    """Read the re-exports of some files.

    Args:
        imports: Reads imports.
        files: Text and path from the root of imports of each.
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    stars: defaultdict[str, list[str]] = defaultdict(list)
    export_lists: dict[str, str] = {}
    modules: set[str] = set()
    for text, path in files:
        module = imports.to_module_name(path)
        modules.add(module)
        if imports.export_list in text:
            export_lists[module] = text
        if "import" not in text:
            continue
        file_imports = imports.read(text, path)
        for binding in file_imports.imports:
            # In the first column: imports inside a function bind no name of the module.
            if text[binding.start - 1 : binding.start] in ("", "\n") and binding.member:
                names[binding.name].append(f"{module}.{binding.bound}")
        for star in file_imports.stars:
            stars[star].append(module)
    return Exports(names, stars, export_lists, modules)


def _rank_name(name: str) -> tuple[bool, int]:
    levels = name.split(".")
    return any(level.startswith("_") for level in levels), len(levels)


_MENTIONS = re.compile(r"deprecat|removed", re.IGNORECASE)


_SENTENCE = re.compile(r"^deprecated\b(?P<text>[^\n]*(?:\n[^\s.][^\n]*)*)", re.IGNORECASE | re.MULTILINE)


_VERSION_CLAUSE = re.compile(r"\b(?:since|in)(?: version)?(?: [A-Z]\w+)? v?\d[\w.]*\d|\b(?:since|in) v?\d+\b")


@dataclass(frozen=True, slots=True)
class Deprecations:
    """The facet ``deprecations`` of a language, by its query and table."""

    language: TreeSitterLanguage
    constructors: frozenset[str]
    directive: re.Pattern[str]
    literals: Mapping[str, Any]

    def read(self, text: str, path: str) -> tuple[list[Deprecation], Counter[str]]:
        """Read what a file says of its own names, and count why other messages give no pair.

        Args:
            text: The full text of the file.
            path: Path from the root of its imports.
        """
        if not _MENTIONS.search(text):
            return [], Counter()
        source, root = self.language.syntax(text)
        file = _DeprecationMatches(self, self.language.grammar.matches("deprecations", root))
        imports = get_facet(self.language.name, "imports", ImportReader)
        names = DefinedNames(
            imports.to_module_name(path),
            {binding.bound: binding.name for binding in reversed(imports.read(text, path).imports)},
            self.constructors,
        )
        names.definitions.update((file.levels(node), node.id in file.classes) for node in file.definitions)
        deprecations: set[Deprecation] = set()
        reasons: Counter[str] = Counter()
        for node, message, is_certain in file.iterate_messages():
            pair = names.pair(file.levels(node), message, file.parameters[node.id], is_certain=is_certain)
            if isinstance(pair, str):
                reasons[pair] += 1
            else:
                deprecations.add(Deprecation(*pair, start=source.to_character(node.start_byte)))
        return sorted(deprecations), reasons

    def public(self, names: Iterable[str], files: Iterable[tuple[str, str]]) -> Mapping[str, str]:
        """Return the name under which users import each name.

        Args:
            names: Fully qualified names.
            files: Text and path from the root of imports of each file of the package.
        """
        imports = get_facet(self.language.name, "imports", ImportReader)
        package_exports = read_exports(imports, files)
        return {name: package_exports.public(name) for name in names}

    def read_literal(self, node: tree_sitter.Node, *, keep_lines: bool = False) -> str | None:
        """Return the text of a string literal, or None if a part of it is known at run time only."""
        if node.type in self.literals["joined"]:
            parts = [self.read_literal(child, keep_lines=keep_lines) for child in _get_named_children(node)]
            return "".join(map(str, parts)) if None not in parts and parts else None
        kinds = {child.type for child in node.children}
        if node.type != self.literals["text"] or self.literals["unknown"] in kinds:
            return None
        content = self.literals["content"]
        text = "".join(node_text(child) for child in node.children if child.type == content)
        return text if keep_lines else text.replace("\\n", " ")

    def find_messages(self, node: tree_sitter.Node) -> Iterator[str]:
        """Yield the parts of a documentation string after "deprecated"."""
        text = cleandoc(self.read_literal(node, keep_lines=True) or "")
        matches = list(self.directive.finditer(text)) or list(_SENTENCE.finditer(text))[:1]
        yield from (_VERSION_CLAUSE.sub("", match["text"]).strip(" .,:;-\n") for match in matches)


class _DeprecationMatches:
    """The definitions and messages of one file.

    Args:
        rules: The language's facet.
        matches: The matches of the query.

    Attributes:
        definitions: All definitions.
        classes: Ids of those that are classes.
        parameters: Names of the parameters of each function, by its id.
    """

    def __init__(self, rules: Deprecations, matches: list[Match]) -> None:
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

    def iterate_messages(self) -> Iterator[tuple[tree_sitter.Node, str, bool]]:
        """Yield each message with its definition, or else its statement, and whether it is unconditional."""
        visited_ids: set[int] = set()
        for match in self._matches:
            for node in match.get("documentation", ()):
                yield from ((match["definition"][0], text, True) for text in self._rules.find_messages(node))
            for node in match.get("arguments", ()):
                arguments = _get_named_children(node)
                if node.id not in visited_ids and arguments:
                    visited_ids.add(node.id)
                    yield from self._read_message(match, arguments[0])

    def levels(self, node: tree_sitter.Node) -> tuple[str, ...]:
        """Return the names of the enclosing definitions of a node, innermost last, its own included."""
        names: list[str] = []
        current: tree_sitter.Node | None = node
        while current is not None:
            if current.id in self._names:
                names.append(self._names[current.id])
            current = current.parent
        return tuple(reversed(names))

    def _read_message(
        self, match: Match, argument: tree_sitter.Node
    ) -> Iterator[tuple[tree_sitter.Node, str, bool]]:
        if "decorated" in match:
            node, definition, is_certain = match["decorated"][0], None, True
        else:
            node = match["given"][0]
            definition, is_certain = self._find_enclosing_definition(node)
            argument = self._find_value(argument, definition) or argument
        message = self._rules.read_literal(argument)
        if message is not None:
            yield definition or node, message, is_certain

    def _find_enclosing_definition(self, node: tree_sitter.Node) -> tuple[tree_sitter.Node | None, bool]:
        """Return the innermost enclosing definition of a node, and whether the node is in no branch of it."""
        parent, is_certain = node.parent, True
        while parent is not None and parent.id not in self._names:
            is_certain = is_certain and parent.id not in self._branches
            parent = parent.parent
        return parent, is_certain

    def _find_value(
        self, name: tree_sitter.Node, definition: tree_sitter.Node | None
    ) -> tree_sitter.Node | None:
        """Return the only string that a definition assigns to a variable."""
        values = [
            match["value"][0]
            for match in self._matches
            if "variable" in match
            and node_text(match["variable"][0]) == node_text(name)
            and self._find_enclosing_definition(match["variable"][0])[0] == definition
        ]
        return values[0] if len(values) == 1 else None


def _get_named_children(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    return [child for child in node.named_children if not child.is_extra]


def facet(language: TreeSitterLanguage) -> Deprecations:
    """Return the facet ``deprecations`` of a language whose folder has the query and the table."""
    table = language.table("deprecations")
    return Deprecations(
        language,
        frozenset(table["constructors"]),
        re.compile(table["directive"], re.MULTILINE),
        table["literals"],
    )
