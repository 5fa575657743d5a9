"""What a language's folder says in `language.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


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
