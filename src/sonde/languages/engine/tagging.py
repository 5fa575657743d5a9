"""Classes of tokens: keywords, operators and punctuation (KTX), identifiers (IDN), and both at once (AST).

A language's `tagging.toml` holds the tables; its `tagging.py` decides what the tables cannot, mostly what a
name refers to. Classes of KTX, after INSPECT: ``KPT`` primitive types, ``KFC`` control flow, ``KMD``
modifiers, ``KEH`` error handling, ``OAR`` arithmetic, ``OAS`` assignment, ``ORE`` comparison, ``OLB`` logical
and bitwise, ``OUT`` unary and conditional operators, ``SYM`` brackets and separators. AST adds identifiers,
words for objects (``KOB``) and constants (``KOT``), and literals (``STR``, ``NUM``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sonde.languages.engine.language import get_facet
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.tokens import Leaf, classify_word, invert_table
from sonde.languages.engine.treesitter import TreeSitterLanguage

KTX_CLASSES: tuple[str, ...] = ("KPT", "KFC", "KMD", "KEH", "OAR", "OAS", "ORE", "OLB", "OUT", "SYM")


IDN_CLASSES: tuple[str, ...] = ("IDC", "IDM", "IDP", "IDV")


AST_CLASSES: tuple[str, ...] = (*IDN_CLASSES, *KTX_CLASSES, "KOB", "KOT", "STR", "NUM")


_CLASS_BY_ROLE = {
    **dict.fromkeys(("class", "type", "decorator"), "IDC"),
    **dict.fromkeys(("function", "call"), "IDM"),
}


_LABEL_KINDS = frozenset({"label_name", "statement_identifier"})


_LABEL_PARENTS = frozenset(
    {"labeled_statement", "named_label_statement", "break_statement", "continue_statement", "goto_statement"}
)
"""Node kinds of jump labels, and of the statements whose direct names are labels."""


class TaggedToken(NamedTuple):
    """A token and its class; positions are characters of the text."""

    start: int
    end: int
    label: str


class Tagger:
    """The facet ``tagging`` of a language: the class of each token, by its tables.

    A language may override how names are classified.

    Args:
        language: The language, whose folder holds `tagging.toml`, `tagging.scm` and the files of its metrics.

    Attributes:
        classes: Maps the kind of a leaf to its class.
        parent_overrides: For a parent kind, exceptions by the kind of the leaf; empty for no class.
        words: Maps the text of an identifier to its class.
        extra_classes: Maps the kind of a leaf to its class in AST only.
        extra_words: The same by the text of an identifier, which may be spelt like a kind: `string`.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self.language = language
        table = language.table("tagging")
        self.classes = invert_table(table["classes"])
        self.parent_overrides: Mapping[str, Mapping[str, str]] = table.get("under", {})
        self.words = invert_table(table.get("words", {}))
        self.extra_classes = invert_table(table.get("more", {}))
        self.extra_words = invert_table(table.get("more_words", {}))
        self.metrics = get_facet(language.name, "tokens", Metrics)
        self.rules = language.settings.tokens
        self.kinds = self.rules.identifiers

    def keywords(self, text: str) -> tuple[TaggedToken, ...]:
        """Return keywords, operators and punctuation with their class in `KTX_CLASSES`; omit other tokens."""
        pairs = ((leaf, self._classify_leaf(leaf)) for leaf in self.metrics.leaves(text))
        return tuple(TaggedToken(leaf.start, leaf.end, label) for leaf, label in pairs if label)

    def identifiers(self, text: str, imports: str = "") -> tuple[TaggedToken, ...]:
        """Return identifiers with their class in `IDN_CLASSES`: class, method, package or variable.

        Args:
            text: The code.
            imports: The import statements of its file, see `imports`; a package or module that they name is
                one in the text.
        """
        return self.tag_identifiers(text, self.packages(text, imports))

    def tag_identifiers(self, text: str, packages: set[int]) -> tuple[TaggedToken, ...]:
        """Return identifiers with their class; ``packages`` are the starts of package or module names."""
        leaves = self.metrics.leaves(text)
        roles = self.roles(text)
        tags: list[TaggedToken] = []
        for index, leaf in enumerate(leaves):
            if (
                leaf.kind in self.kinds
                and not classify_word(leaf, self.rules)
                and not _is_label(leaf, roles.get(leaf.start, ""))
            ):
                label = (
                    "IDP"
                    if leaf.start in packages
                    else self.classify_name(leaves, index, roles.get(leaf.start, ""))
                )
                if label:
                    tags.append(TaggedToken(leaf.start, leaf.end, label))
        return tuple(tags)

    def nodes(self, text: str, imports: str = "") -> tuple[TaggedToken, ...]:
        """Return every token that has a class, with its class in `AST_CLASSES`."""
        labels = {tag.start: tag.label for tag in self.identifiers(text, imports)}
        extra_classes, words = self.extra_classes, self.extra_words
        tags: list[TaggedToken] = []
        for leaf in self.metrics.leaves(text):
            label = words.get(leaf.text, "") if leaf.kind in self.kinds else extra_classes.get(leaf.kind, "")
            if not label or leaf.kind in self.parent_overrides.get(leaf.parent, {}):
                label = self._classify_leaf(leaf) or labels.get(leaf.start, "")
            if label:
                tags.append(TaggedToken(leaf.start, leaf.end, label))
        return tuple(tags)

    def imports(self, text: str) -> str:
        """Return the import statements of a file, one per line."""
        parsed_text = self.metrics.reading(text)
        nodes = dict(self.language.grammar.captures("tagging", parsed_text.root)).get("import", [])
        return "\n".join(parsed_text.text(node) for node in sorted(nodes, key=lambda node: node.start_byte))

    def roles(self, text: str) -> dict[int, str]:
        """Map the start of each name to its role in `identifiers.scm`; a later capture takes precedence."""
        parsed_text = self.metrics.reading(text)
        roles: dict[int, str] = {}
        for role, nodes in self.language.roles(parsed_text.root):
            if not role.startswith("within."):
                roles |= {parsed_text.span(node)[0]: role for node in nodes if parsed_text.contains(node)}
        return roles

    def packages(self, text: str, imports: str) -> set[int]:
        """Return the start positions of package or module names: those with the role ``module``."""
        return {start for start, role in self.roles(text).items() if role == "module"}

    def classify_name(self, leaves: tuple[Leaf, ...], index: int, role: str) -> str:
        """Return the class of the name at ``index`` by its role: ``IDC``, ``IDM``, ``IDV``, or empty."""
        return _CLASS_BY_ROLE.get(role, "IDV")

    def _classify_leaf(self, leaf: Leaf) -> str:
        override = self.parent_overrides.get(leaf.parent, {}).get(leaf.kind)
        if override is not None:
            return override
        if leaf.kind in self.kinds:
            return self.words.get(leaf.text, "")
        return self.classes.get(leaf.kind, "")


def _is_label(leaf: Leaf, role: str) -> bool:
    """Return whether a name is the label of a jump, which has no class."""
    return leaf.kind in _LABEL_KINDS or (leaf.parent in _LABEL_PARENTS and not role)


def has_next(leaves: tuple[Leaf, ...], index: int, text: str) -> bool:
    """Return whether the token after ``index`` is ``text``."""
    return index + 1 < len(leaves) and leaves[index + 1].text == text


def has_previous(leaves: tuple[Leaf, ...], index: int, text: str) -> bool:
    """Return whether the token before ``index`` is ``text``."""
    return index > 0 and leaves[index - 1].text == text


def is_class_name(name: str) -> bool:
    """Return whether a name is spelt like a class: an initial capital, and not all capitals."""
    return name[:1].isupper() and (len(name) == 1 or any(letter.islower() for letter in name))


facet = Tagger
