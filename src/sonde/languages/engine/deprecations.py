"""Deprecated and removed names by `deprecations.scm` and `.toml`, the same code for every language.

A message is a string literal in a position that the query captures, or the part of a documentation string
after "deprecated". Messages that are built at run time are not read. Captures of one match:

- ``definition`` with its ``name``, ``class`` if it is one, ``parameter`` for each of a function's;
- ``arguments``, the first of which is the message: of ``given`` (a statement about the enclosing definition),
  or of ``decorated`` (a definition);
- ``documentation`` of a ``definition``;
- ``variable`` and ``value`` of an assignment of a string, which a message may refer to;
- ``branch``: a message inside one is not given by every call.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Any, Protocol, runtime_checkable

import tree_sitter

from sonde.languages.engine.components import facet_of
from sonde.languages.engine.grammar import Match, node_text
from sonde.languages.engine.imports import Imports, PackageFiles, read_packages
from sonde.languages.engine.treesitter import TreeSitterLanguage

_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"


_MARKED = rf"(?::[a-z:]+:)?[`'\"]+~?(?P<marked>{_NAME})(?:\([^`'\"]*\))?[`'\"]+"


_BARE = rf"(?P<bare>{_NAME})(?P<call>\(\))?(?=\s+instead|\s*[.,;:]?\s*$|\s*[.;]\s|\()"


_VERB = r"(?:use|switch(?:ing)? to|replaced (?:by|with)|in favou?r of|renamed(?: to)?|prefer)"


_IN_A_CASE = r"(?!\s+(?:when|if|unless|where)\b)"


_SUBSTITUTE = re.compile(rf"\b{_VERB}\s+(?:the\s+)?(?:{_MARKED}|{_BARE}){_IN_A_CASE}", re.IGNORECASE)


_ABOUT = re.compile(
    rf"^\W*(?:the\s+)?(?:(?:function|method|class|property|attribute|module)\s+)?(?::[a-z:]+:)?[`'\"]*~?"
    rf"(?P<name>{_NAME})(?:\(\))?[`'\"]*(?:\s+(?:function|method|class|property|attribute))?"
    r"\s+(?:is|was|are|were|has been|have been|will be)\s+(?:now\s+|an?\s+)?(?:deprecated|removed|renamed)\b"
    r"(?!\s+(?:when|if|unless|with|without)\b)",
    re.IGNORECASE,
)


_ABOUT_ITSELF = re.compile(
    r"^\W*(?:(?:please\s+)?use\b(?!\s+of\b)|deprecated\b(?!\s+(?:argument|parameter|keyword|option|value)s?\b)|"
    r"(?:this|the) (?:method|function|class|property|attribute)\s+(?:is|was|has been|will be)\b|"
    r"(?:it )?(?:is|was|has been) (?:deprecated|removed)\b|"
    r"(?:renamed|replaced|superseded|in favou?r of|prefer|switch)\b)",
    re.IGNORECASE,
)


_WORDS = frozenset(("a", "an", "the", "it", "this", "that", "of", "to", "with", "your", "one", "instead"))


NO_REPLACEMENT, NOT_ITSELF = "names no replacement", "is about something else"


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
class Said:
    """The content of a deprecation message, in names as written.

    Attributes:
        subject: The deprecated name; empty for the definition that contains the message.
        replacement: Its replacement.
    """

    about: str
    replacement: str


@runtime_checkable
class Deprecations(Protocol):
    """The facet ``deprecations`` of a language."""

    @property
    def version(self) -> str:
        """Return the version, which is raised whenever a result changes."""
        ...

    def read(self, text: str, path: str) -> tuple[list[Deprecation], Counter[str]]:
        """Read the deprecations of a file, and count the reasons of messages that give none.

        Args:
            text: The full text of the file.
            path: Path from the root of its imports, see `ImportReader.to_import_paths`.
        """
        ...

    def public(self, names: Iterable[str], files: Iterable[tuple[str, str]]) -> Mapping[str, str]:
        """Map each name to the name under which users import it.

        Args:
            names: Fully qualified, from `read`.
            files: Text and path, as for `read`, of all files of the repository.
        """
        ...


def said(message: str) -> Said | str:
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
    substitute = next((one for one in map(_substitute, _SUBSTITUTE.finditer(words)) if one), "")
    if not substitute:
        return NO_REPLACEMENT
    about = _ABOUT.match(words)
    if about is not None and about["name"].lower() not in _WORDS:
        return Said(about["name"], substitute)
    return Said("", substitute) if _ABOUT_ITSELF.match(words) else NOT_ITSELF


def _substitute(found: re.Match[str]) -> str:
    name = found["marked"] or found["bare"] or ""
    return "" if name.lower() in _WORDS else name


UNKNOWN, SAME = "names nothing that the file knows", "names itself"


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
    imported: Mapping[str, str]
    constructors: Set[str] = frozenset()
    defined: dict[tuple[str, ...], bool] = field(default_factory=dict)

    def pair(
        self, here: tuple[str, ...], message: str, parameters: Set[str], *, sure: bool
    ) -> tuple[str, str, tuple[int, int]] | str:
        """Return the old name, the new name and their member levels, or the reason for no pair.

        Args:
            definition: The definition that contains the message.
            message: The message.
            parameters: Names of its parameters, which a message may be about instead.
            is_certain: Whether every call gives the message; one that is conditional must name its subject.
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
        owner = here[:-1] if here[-1] in self.constructors else here
        return self._placed(owner) if owner else None

    def _is_about(self, old: str, here: tuple[str, ...]) -> bool:
        """Return whether a name is the definition of a message, or another of the module by its full name."""
        return old == self.module or old.startswith(f"{self.module}.") or not here or old.endswith(here[-1])

    def _full(self, name: str, here: tuple[str, ...]) -> tuple[str, int] | None:
        """Return the fully qualified name of a name used in a definition, and its levels inside a class."""
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
    """Count the member levels of a name of another file: names spelt like classes are classes (PEP 8)."""
    levels = name.split(".")
    classes = next((at for at, level in enumerate(levels) if level[:1].isupper()), len(levels) - 1)
    return name, len(levels) - 1 - classes


_MOST = 500
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
    listed: dict[str, str] = field(default_factory=dict)
    modules: Set[str] = frozenset()

    def public(self, name: str) -> str:
        """Return the shortest alias of a name; those without a leading underscore come first."""
        found = {name: None}
        waiting = [name]
        while waiting and len(found) < _MOST:
            for other in self._also(waiting.pop(0)):
                if other not in found:
                    found[other] = None
                    waiting.append(other)
        return min(found, key=lambda one: (*_rank(one), one != name, one))

    def _also(self, name: str) -> Iterator[str]:
        levels = name.split(".")
        for count in range(2, len(levels) + 1):
            module, own = ".".join(levels[: count - 1]), levels[count - 1]
            rest = levels[count:]
            if rest and f"{module}.{own}" in self.modules:
                continue
            for other in self.names.get(f"{module}.{own}", ()):
                yield ".".join([other, *rest])
            text = self.listed.get(module, "")
            if not own.startswith("_") and (not text or f'"{own}"' in text or f"'{own}'" in text):
                for other in self.stars.get(module, ()):
                    yield ".".join([other, own, *rest])


def exports(imports: Imports, files: Iterable[tuple[str, str]], packages: PackageFiles) -> Exports:
    """Read the re-exports of some files.

    Args:
        imports: Reads imports.
        files: Text and path from the root of imports of each.
        packages: The layout of the language's packages.
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    stars: defaultdict[str, list[str]] = defaultdict(list)
    listed: dict[str, str] = {}
    modules: set[str] = set()
    for text, path in files:
        module = module_of(path, packages)
        modules.add(module)
        if packages.listing in text:
            listed[module] = text
        if "import" not in text:
            continue
        found = imports.read(text, path)
        for one in found.imports:
            # In the first column: imports inside a function bind no name of the module.
            if text[one.start - 1 : one.start] in ("", "\n") and one.member:
                names[one.name].append(f"{module}.{one.bound}")
        for star in found.stars:
            stars[star].append(module)
    return Exports(names, stars, listed, modules)


def module_of(path: str, packages: PackageFiles) -> str:
    """Return the module name of a file, from its path from the root of imports."""
    stem = path.rpartition(".")[0] or path
    return ".".join(stem.removesuffix(f"/{packages.file}").split("/"))


def _rank(name: str) -> tuple[bool, int]:
    levels = name.split(".")
    return any(level.startswith("_") for level in levels), len(levels)


_MENTIONS = re.compile(r"deprecat|removed", re.IGNORECASE)


_SENTENCE = re.compile(r"^deprecated\b(?P<text>[^\n]*(?:\n[^\s.][^\n]*)*)", re.IGNORECASE | re.MULTILINE)


_SINCE = re.compile(r"\b(?:since|in)(?: version)?(?: [A-Z]\w+)? v?\d[\w.]*\d|\b(?:since|in) v?\d+\b")


@dataclass(frozen=True, slots=True)
class DeprecationsOf:
    """`Deprecations` of a language by its query and table."""

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
        """Return the text of a string literal, or None if a part of it is known at run time only."""
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
        """Yield the parts of a documentation string after "deprecated"."""
        text = cleandoc(self.literal(node, keep_lines=True) or "")
        found = list(self.directive.finditer(text)) or list(_SENTENCE.finditer(text))[:1]
        yield from (_SINCE.sub("", one["text"]).strip(" .,:;-\n") for one in found)


class _File:
    """The definitions and messages of one file.

    Args:
        rules: The language's facet.
        matches: The matches of the query.

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
        """Yield each message with its definition, or else its statement, and whether it is unconditional."""
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
        """Return the names of the enclosing definitions of a node, innermost last, its own included."""
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
        """Return the innermost enclosing definition of a node, and whether the node is in no branch of it."""
        above, sure = node.parent, True
        while above is not None and above.id not in self._names:
            sure = sure and above.id not in self._branches
            above = above.parent
        return above, sure

    def _value(self, name: tree_sitter.Node, here: tree_sitter.Node | None) -> tree_sitter.Node | None:
        """Return the only string that a definition assigns to a variable."""
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
    """Return the facet ``deprecations`` of a language whose folder has the query and the table."""
    table = language.table("deprecations")
    return DeprecationsOf(
        language,
        table["version"],
        frozenset(table["constructors"]),
        re.compile(table["directive"], re.MULTILINE),
        table["literals"],
    )
