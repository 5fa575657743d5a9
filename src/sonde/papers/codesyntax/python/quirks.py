"""The oddities of CodeSyntax's Python labeller, by name."""

from __future__ import annotations

from collections.abc import Mapping

BYTE_COLUMNS = "codesyntax.byte_columns"
EMPTY_ENDS = "codesyntax.empty_ends"
FIRST_LINE = "codesyntax.first_line"
GLUED = "codesyntax.glued"
HANDLER_ORELSE = "codesyntax.handler_orelse"
LAYOUT_ENDS = "codesyntax.layout_ends"
MARGIN = "codesyntax.margin"
NEWLINE_ALONE = "codesyntax.newline_alone"
RETOKENIZED = "codesyntax.retokenized"
UNFILTERED_ELSE = "codesyntax.unfiltered_else"

QUIRKS: Mapping[str, str] = {
    BYTE_COLUMNS: "columns in bytes are applied to characters, so words shift behind non-ASCII text",
    EMPTY_ENDS: "without a newline at the end of the text, what ends there ends on empty words",
    FIRST_LINE: "whatever stands on the first line is taken to be the first word",
    GLUED: "what follows a name without a blank, as the generator in f(x for x in y), is placed on the name",
    HANDLER_ORELSE: "Try:handler->orelse ends with the first statement of the else block",
    LAYOUT_ENDS: "the word next to a bracket that is left out may be a newline or a comment",
    MARGIN: "a method that begins with its decorator, cut out of a class, does not parse",
    NEWLINE_ALONE: "where dependents take in newlines, an attribute before one is that newline alone",
    RETOKENIZED: "an expression over several lines inside brackets ends with its first line",
    UNFILTERED_ELSE: "If:if->else is kept where `if` is the first word of the text",
}
