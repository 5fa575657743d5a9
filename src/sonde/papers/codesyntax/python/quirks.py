"""The oddities of CodeSyntax's Python labeller, by name."""

from __future__ import annotations

from collections.abc import Mapping

from sonde.papers.declared import lines

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

QUIRKS: Mapping[str, str] = lines(__name__)
