"""PHP up to 8.4, by tree-sitter-php."""

from __future__ import annotations

import re

from sonde.languages.engine.grammar import Parsed, Subtree
from sonde.languages.engine.text import EncodedText
from sonde.languages.engine.treesitter import TreeSitterLanguage, starred

docstring = starred


# A file begins in HTML, PHP code follows a tag. Only a heredoc begins with the same sign.
_FILE = re.compile(r"[\s\ufeff]*(<(?!<<)|#!)")


_TAG = re.compile(r"<\?(php\b|=)", re.IGNORECASE)


_MEMBER = re.compile(
    r"\s*(?:#\[[^\]]*\]\s*)*(?:(?:public|protected|private|abstract|final|static|readonly)\s+)+function\b",
    re.IGNORECASE,
)


_OPENING = b"<?php\n"


_CLASS, _END = b"<?php class _ {\n", b"\n}"


class PhpLanguage(TreeSitterLanguage):
    """PHP, whose functions are no files: they lack the opening tag, and a method parses inside a class only.

    The tag and the class are parsed before a text that needs them and occupy no characters, so that the tree
    is that of the text.
    """

    def _parse(self, text: str) -> tuple[EncodedText, Parsed]:
        if _FILE.match(text):
            return super()._parse(text)
        ways = [self._code, self._member]
        if _MEMBER.match(text):
            ways.reverse()
        if _TAG.search(text):
            # A template that begins with words, unless it is code that mentions a tag.
            ways.append(super()._parse)
        first = None
        for way in ways:
            source, parsed = way(text)
            if not parsed.root_node.has_error:
                return source, parsed
            first = first or (source, parsed)
        assert first is not None
        return first

    def _code(self, text: str) -> tuple[EncodedText, Parsed]:
        source = EncodedText.of(text, _OPENING)
        return source, self.grammar.parse(source.data)

    def _member(self, text: str) -> tuple[EncodedText, Parsed]:
        """Parse the text as members of a class, or as code if it closes the class."""
        source = EncodedText.of(text, _CLASS, _END)
        parsed = self.grammar.parse(source.data)
        body = next((one.child_by_field_name("body") for one in parsed.root_node.named_children[1:2]), None)
        if body is None or body.end_byte < len(source.data):
            return self._code(text)
        return source, Subtree(body)


language = PhpLanguage(__name__, docstring=docstring)
