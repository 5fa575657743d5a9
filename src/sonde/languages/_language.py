"""What a language has to answer: the one protocol between a grammar and the rest of sonde."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from sonde.languages._tree import Call, CodeTokens, Construct, Definition, Function, Tree


@runtime_checkable
class Language(Protocol):
    """A programming language (or plain text), as one folder of queries and rules.

    All positions are characters; ends are exclusive. No method executes or imports the code it reads.
    """

    @property
    def name(self) -> str:
        """Public name, the folder's name."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File suffixes with their dot."""
        ...

    @property
    def builtins(self) -> frozenset[str]:
        """Names that the language itself provides."""
        ...

    @property
    def version(self) -> str:
        """Version of the grammar and of this folder's rules; part of every fingerprint built on them."""
        ...

    def parse(self, text: str) -> Tree:
        """The syntax tree of a text; text that does not parse gives a tree with ERROR nodes."""
        ...

    def functions(self, text: str) -> tuple[Function, ...]:
        """Definitions with no enclosing function, in text order; fast, without building a `Tree`."""
        ...

    def definitions(self, text: str) -> tuple[Definition, ...]:
        """Every function, method and class definition, nested ones included; fast."""
        ...

    def calls(self, text: str) -> tuple[Call, ...]:
        """Every call by name, in text order; fast."""
        ...

    def tokens(self, tree: Tree) -> CodeTokens:
        """The code tokens with kind and role."""
        ...

    def constructs(self, tree: Tree) -> tuple[Construct, ...]:
        """Spans of language-neutral constructs; they nest and may overlap."""
        ...
