"""The oddities of CodeSyntax's Java labeller, by name."""

from __future__ import annotations

from collections.abc import Mapping

EMPTY_BRACKETS = "codesyntax.empty_brackets"
GLUED = "codesyntax.glued"
JAVA_1_3 = "codesyntax.java_1_3"
JAVALANG_STRINGS = "codesyntax.javalang_strings"
SHIFTED_OFFSETS = "codesyntax.shifted_offsets"

QUIRKS: Mapping[str, str] = {
    EMPTY_BRACKETS: "no edge whose head or dependent holds nothing but brackets, or whose dependent ends in "
    "empty ones, as a call without arguments does",
    GLUED: "what follows a name or keyword without a blank, as the block in try{f();}, begins with that word",
    JAVA_1_3: "Java 1.3 in Eclipse's tree of level JLS3: nothing inside a lambda, method reference or switch "
    "expression, no resources of a try, no body where there is an assert, a local enum or record, or a yield",
    JAVALANG_STRINGS: "a text block is three words, and a text with an escape that javalang lacks has none",
    SHIFTED_OFFSETS: "positions are counted in UTF-16 behind Java's Scanner: empty first lines, line ends of "
    "two characters and characters beyond U+FFFF shift the words after them",
}
