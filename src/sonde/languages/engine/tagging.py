"""Classes of tokens: keywords, operators and punctuation (KTX), identifiers (IDN), and both at once (AST).

A language's `tagging.toml` holds the tables; its `tagging.py` decides what the tables cannot, mostly what a
name refers to. Classes of KTX, after INSPECT: ``KPT`` primitive types, ``KFC`` control flow, ``KMD``
modifiers, ``KEH`` error handling, ``OAR`` arithmetic, ``OAS`` assignment, ``ORE`` comparison, ``OLB`` logical
and bitwise, ``OUT`` unary and conditional operators, ``SYM`` brackets and separators. AST adds identifiers,
words for objects (``KOB``) and constants (``KOT``), and literals (``STR``, ``NUM``).
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
"""Node kinds of jump labels, and of the statements whose direct names are labels."""


class Tagged(NamedTuple):
    """A token and its class; positions are characters of the text."""

    start: int
    end: int
    label: str


@runtime_checkable
class Tagging(Protocol):
    """The facet ``tagging`` of a language: the class of each token."""

    def keywords(self, text: str) -> tuple[Tagged, ...]:
        """Return keywords, operators and punctuation with their class in `KTX_CLASSES`; omit other tokens."""
        ...

    def identifiers(self, text: str, imports: str = "") -> tuple[Tagged, ...]:
        """Return identifiers with their class in `IDN_CLASSES`: class, method, package or variable.

        Args:
            text: The code.
            imports: The import statements of its file, see `imports`; a package or module that they name is
                one in the text.
        """
        ...

    def nodes(self, text: str, imports: str = "") -> tuple[Tagged, ...]:
        """Return tokens with their class in `AST_CLASSES`."""
        ...

    def imports(self, text: str) -> str:
        """Return the import statements of a file, one per line."""
        ...


@dataclass(frozen=True, slots=True)
class TaggingTables:
    """The content of a `tagging.toml`.

    Attributes:
        classes: Maps the kind of a leaf to its class.
        parent_overrides: For a parent kind, exceptions by the kind of the leaf; empty for no class.
        words: Maps the text of an identifier to its class.
        extra_classes: Maps the kind of a leaf to its class in AST only.
        extra_words: The same by the text of an identifier, which may be spelt like a kind: `string`.
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
    """The `Tagger` of a language by its tables; a language may override how names are classified.

    Args:
        language: The language, whose folder holds `tagging.toml`, `tagging.scm` and the files of its metrics.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self.language = language
        self.tables = read_tables(language)
        self.metrics = facet_of(language.name, "tokens", MetricsOf)
        self.rules = language.settings.tokens
        self.kinds = self.rules.identifiers

    def keywords(self, text: str) -> tuple[Tagged, ...]:
        """Return keywords, operators and punctuation with their class."""
        found = ((leaf, self._class(leaf)) for leaf in self.metrics.leaves(text))
        return tuple(Tagged(leaf.start, leaf.end, label) for leaf, label in found if label)

    def identifiers(self, text: str, imports: str = "") -> tuple[Tagged, ...]:
        """Return identifiers with their class."""
        return self.named_in(text, self.packages(text, imports))

    def named_in(self, text: str, packages: set[int]) -> tuple[Tagged, ...]:
        """Return identifiers with their class; ``packages`` are the starts of package or module names."""
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
        """Return every token that has a class."""
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
        """Return the import statements of a file, one per line."""
        reading = self.metrics.reading(text)
        found = dict(self.language.grammar.captures("tagging", reading.root)).get("import", [])
        return "\n".join(reading.text(node) for node in sorted(found, key=lambda node: node.start_byte))

    def roles(self, text: str) -> dict[int, str]:
        """Map the start of each name to its role in `identifiers.scm`; a later capture takes precedence."""
        reading = self.metrics.reading(text)
        roles: dict[int, str] = {}
        for role, nodes in self.language.roles(reading.root):
            if not role.startswith("within."):
                roles |= {reading.span(node)[0]: role for node in nodes if reading.inside(node)}
        return roles

    def packages(self, text: str, imports: str) -> set[int]:
        """Return the start positions of package or module names: those with the role ``module``."""
        return {start for start, role in self.roles(text).items() if role == "module"}

    def named(self, listed: tuple[Leaf, ...], place: int, role: str) -> str:
        """Return the class of the name at ``index`` by its role: ``IDC``, ``IDM``, ``IDV``, or empty."""
        return _BY_ROLE.get(role, "IDV")

    def _class(self, leaf: Leaf) -> str:
        special = self.tables.under.get(leaf.parent, {}).get(leaf.kind)
        if special is not None:
            return special
        if leaf.kind in self.kinds:
            return self.tables.words.get(leaf.text, "")
        return self.tables.classes.get(leaf.kind, "")


def _is_label(leaf: Leaf, role: str) -> bool:
    """Return whether a name is the label of a jump, which has no class."""
    return leaf.kind in _LABELS or (leaf.parent in _LABELLED and not role)


def follows(listed: tuple[Leaf, ...], place: int, text: str) -> bool:
    """Return whether the token after ``index`` is ``text``."""
    return place + 1 < len(listed) and listed[place + 1].text == text


def preceded(listed: tuple[Leaf, ...], place: int, text: str) -> bool:
    """Return whether the token before ``index`` is ``text``."""
    return place > 0 and listed[place - 1].text == text


def like_a_class(name: str) -> bool:
    """Return whether a name is spelt like a class: an initial capital, and not all capitals."""
    return name[:1].isupper() and (len(name) == 1 or any(letter.islower() for letter in name))


def facet(language: TreeSitterLanguage) -> TaggingOf:
    """Return the facet ``tagging`` of a language whose folder has the table."""
    return TaggingOf(language)
