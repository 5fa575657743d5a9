"""PHP up to 8.4, by tree-sitter-php.

The code below covers what the queries cannot express: where the PHP code of a text begins, and the words of a
documentation comment.
"""

from __future__ import annotations

import re

import tree_sitter

from sonde.languages.engine.text import EncodedText
from sonde.languages.engine.treesitter import TreeSitterLanguage, strip_comment_stars

extract_documentation = strip_comment_stars


# A file begins in HTML, PHP code follows a tag. Only a heredoc begins with the same sign.
_FILE_START = re.compile(r"[\s\ufeff]*(<(?!<<)|#!)")


_TAG = re.compile(r"<\?(php\b|=)", re.IGNORECASE)


_MEMBER = re.compile(
    r"\s*(?:#\[[^\]]*\]\s*)*(?:(?:public|protected|private|abstract|final|static|readonly)\s+)+function\b",
    re.IGNORECASE,
)


_OPEN_TAG = b"<?php\n"


_CLASS_PREFIX, _CLASS_SUFFIX = b"<?php class _ {\n", b"\n}"


class PhpLanguage(TreeSitterLanguage):
    """PHP, whose functions are no files: they lack the opening tag, and a method parses inside a class only.

    The tag and the class are parsed before a text that needs them and occupy no characters, so that the tree
    is that of the text.
    """

    def _parse(self, text: str) -> tuple[EncodedText, tree_sitter.Node]:
        if _FILE_START.match(text):
            return super()._parse(text)
        parsers = [self._parse_code, self._parse_member]
        if _MEMBER.match(text):
            parsers.reverse()
        if _TAG.search(text):
            # A template that begins with words, unless it is code that mentions a tag.
            parsers.append(super()._parse)
        first = None
        for parse in parsers:
            source, root = parse(text)
            if not root.has_error:
                return source, root
            first = first or (source, root)
        assert first is not None
        return first

    def _parse_code(self, text: str) -> tuple[EncodedText, tree_sitter.Node]:
        source = EncodedText.of(text, _OPEN_TAG)
        return source, self.grammar.parse(source.data).root_node

    def _parse_member(self, text: str) -> tuple[EncodedText, tree_sitter.Node]:
        """Parse the text as members of a class, or as code if it closes the class."""
        source = EncodedText.of(text, _CLASS_PREFIX, _CLASS_SUFFIX)
        root = self.grammar.parse(source.data).root_node
        body = next((node.child_by_field_name("body") for node in root.named_children[1:2]), None)
        if body is None or body.end_byte < len(source.data):
            return self._parse_code(text)
        return source, body


language = PhpLanguage(__name__, extract_documentation=extract_documentation)
