"""Classes of tokens: keywords, operators and signs (KTX), identifiers (IDN), and both at once (AST).

A language's `tagging.toml` holds the tables; `tagging.py` says what they cannot, which is mostly what a
name names. Classes of KTX, after INSPECT: ``KPT`` primitive types, ``KFC`` control flow, ``KMD`` modifiers,
``KEH`` errors, ``OAR`` arithmetic, ``OAS`` assignment, ``ORE`` comparison, ``OLB`` logical and bitwise,
``OUT`` unary and conditional operators, ``SYM`` brackets and separators. AST adds identifiers, words for
objects (``KOB``) and constants (``KOT``), and literals (``STR``, ``NUM``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from sonde.languages.engine.components import facet_of
from sonde.languages.engine.metrics import MetricsOf
from sonde.languages.engine.tokens import Leaf, surfaces, told_by_word
from sonde.languages.engine.treesitter import TreeSitterLanguage

KTX_CLASSES: tuple[str, ...] = ("KPT", "KFC", "KMD", "KEH", "OAR", "OAS", "ORE", "OLB", "OUT", "SYM")


IDN_CLASSES: tuple[str, ...] = ("IDC", "IDM", "IDP", "IDV")


AST_CLASSES: tuple[str, ...] = (*IDN_CLASSES, *KTX_CLASSES, "KOB", "KOT", "STR", "NUM")


_BY_ROLE = {
    **dict.fromkeys(("class", "type", "decorator"), "IDC"),
    **dict.fromkeys(("function", "call"), "IDM"),
}


_LABELS = frozenset({"label_name", "statement_identifier"})


_LABELLED = frozenset(
    {"labeled_statement", "named_label_statement", "break_statement", "continue_statement", "goto_statement"}
)
"""Kinds of the labels of jumps, and of the statements whose direct names are labels."""


class Tagged(NamedTuple):
    """A token with its class; characters of the text."""

    start: int
    end: int
    label: str


@runtime_checkable
class Tagging(Protocol):
    """What a language says of the class of each token."""

    def keywords(self, text: str) -> tuple[Tagged, ...]:
        """Keywords, operators and signs with their class in `KTX_CLASSES`; others are left out."""
        ...

    def identifiers(self, text: str, imports: str = "") -> tuple[Tagged, ...]:
        """Identifiers with their class in `IDN_CLASSES`: classes, methods, packages, variables.

        Args:
            text: The code.
            imports: The import statements of its file, see `imports`; what they name as a package or module
                is one in the text.
        """
        ...

    def nodes(self, text: str, imports: str = "") -> tuple[Tagged, ...]:
        """Tokens with their class in `AST_CLASSES`."""
        ...

    def imports(self, text: str) -> str:
        """The import statements of a file, one a line."""
        ...


@dataclass(frozen=True, slots=True)
class TaggingTables:
    """What a `tagging.toml` says.

    Attributes:
        classes: From the kind of a leaf to its class.
        under: For a parent kind, exceptions by the kind of the leaf; empty for no class.
        words: From the text of an identifier to its class.
        more: What AST adds: from the kind of a leaf to its class.
        more_words: The same from the text of an identifier, which may be spelt as a kind is: `string`.
    """

    classes: Mapping[str, str]
    under: Mapping[str, Mapping[str, str]]
    words: Mapping[str, str]
    more: Mapping[str, str] = field(default_factory=dict)
    more_words: Mapping[str, str] = field(default_factory=dict)


def read_tables(language: TreeSitterLanguage) -> TaggingTables:
    """Read a language's `tagging.toml`."""
    raw = language.table("tagging")
    return TaggingTables(
        classes=surfaces(raw["classes"]),
        under=raw.get("under", {}),
        words=surfaces(raw.get("words", {})),
        more=surfaces(raw.get("more", {})),
        more_words=surfaces(raw.get("more_words", {})),
    )


class TaggingOf:
    """The `Tagging` of a language by its tables; a language may say better what its names name.

    Args:
        language: The language, whose folder holds `tagging.toml`, `tagging.scm` and what its metrics need.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self.language = language
        self.tables = read_tables(language)
        self.metrics = facet_of(language.name, "tokens", MetricsOf)
        self.rules = language.settings.tokens
        self.kinds = self.rules.identifiers

    def keywords(self, text: str) -> tuple[Tagged, ...]:
        """Keywords, operators and signs with their class."""
        found = ((leaf, self._class(leaf)) for leaf in self.metrics.leaves(text))
        return tuple(Tagged(leaf.start, leaf.end, label) for leaf, label in found if label)

    def identifiers(self, text: str, imports: str = "") -> tuple[Tagged, ...]:
        """Identifiers with their class."""
        return self.named_in(text, self.packages(text, imports))

    def named_in(self, text: str, packages: set[int]) -> tuple[Tagged, ...]:
        """Identifiers with their class, given where the names of packages or modules begin."""
        listed = self.metrics.leaves(text)
        roles = self.roles(text)
        found: list[Tagged] = []
        for place, leaf in enumerate(listed):
            if (
                leaf.kind in self.kinds
                and not told_by_word(leaf, self.rules)
                and not _is_label(leaf, roles.get(leaf.start, ""))
            ):
                label = (
                    "IDP" if leaf.start in packages else self.named(listed, place, roles.get(leaf.start, ""))
                )
                if label:
                    found.append(Tagged(leaf.start, leaf.end, label))
        return tuple(found)

    def nodes(self, text: str, imports: str = "") -> tuple[Tagged, ...]:
        """Every token that has one, with its class."""
        labels = {tag.start: tag.label for tag in self.identifiers(text, imports)}
        more, words = self.tables.more, self.tables.more_words
        found: list[Tagged] = []
        for leaf in self.metrics.leaves(text):
            label = words.get(leaf.text, "") if leaf.kind in self.kinds else more.get(leaf.kind, "")
            if not label or leaf.kind in self.tables.under.get(leaf.parent, {}):
                label = self._class(leaf) or labels.get(leaf.start, "")
            if label:
                found.append(Tagged(leaf.start, leaf.end, label))
        return tuple(found)

    def imports(self, text: str) -> str:
        """The import statements of a file, one a line."""
        reading = self.metrics.reading(text)
        found = dict(self.language.grammar.captures("tagging", reading.root)).get("import", [])
        return "\n".join(reading.text(node) for node in sorted(found, key=lambda node: node.start_byte))

    def roles(self, text: str) -> dict[int, str]:
        """The role of each name by its first character, from `identifiers.scm`; a later capture wins."""
        reading = self.metrics.reading(text)
        roles: dict[int, str] = {}
        for role, nodes in self.language.roles(reading.root):
            if not role.startswith("within."):
                roles |= {reading.span(node)[0]: role for node in nodes if reading.inside(node)}
        return roles

    def packages(self, text: str, imports: str) -> set[int]:
        """First characters of the names of packages or modules: those with that role."""
        return {start for start, role in self.roles(text).items() if role == "module"}

    def named(self, listed: tuple[Leaf, ...], place: int, role: str) -> str:
        """What the name at a place names, by its role: ``IDC``, ``IDM``, ``IDV``, or empty."""
        return _BY_ROLE.get(role, "IDV")

    def _class(self, leaf: Leaf) -> str:
        special = self.tables.under.get(leaf.parent, {}).get(leaf.kind)
        if special is not None:
            return special
        if leaf.kind in self.kinds:
            return self.tables.words.get(leaf.text, "")
        return self.tables.classes.get(leaf.kind, "")


def _is_label(leaf: Leaf, role: str) -> bool:
    """Return whether a name is the label of a jump, which names none of the four."""
    return leaf.kind in _LABELS or (leaf.parent in _LABELLED and not role)


def follows(listed: tuple[Leaf, ...], place: int, text: str) -> bool:
    """Whether the token after a place is this text."""
    return place + 1 < len(listed) and listed[place + 1].text == text


def preceded(listed: tuple[Leaf, ...], place: int, text: str) -> bool:
    """Whether the token before a place is this text."""
    return place > 0 and listed[place - 1].text == text


def like_a_class(name: str) -> bool:
    """Whether a name is written as both languages write classes: a capital first, and not all capitals."""
    return name[:1].isupper() and (len(name) == 1 or any(letter.islower() for letter in name))


def facet(language: TreeSitterLanguage) -> TaggingOf:
    """The facet ``tagging`` of every language whose folder has the table."""
    return TaggingOf(language)
