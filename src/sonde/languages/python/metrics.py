"""Metrics of Python: counted by `metrics.scm`, the rest by the rules here.

Cyclomatic complexity is radon's: if, elif, loops, ``except``, cases of a match (all of them, one that takes
everything excepted), conditional expressions, ``and`` and ``or``, comprehensions and their ifs, the
``else`` of a loop or try, and assert, each one, and one more. An assert is one decision, whatever it says.
Functions and classes inside the function count apart; decorators and default values belong to no path
through it.
"""

from __future__ import annotations

import tree_sitter

from sonde.languages._metrics import Cover, MetricsOf, outermost
from sonde.languages._npath import ancestors
from sonde.languages._treesitter import TreeSitterLanguage


class PythonMetrics(MetricsOf):
    """Python's `Metrics`."""

    def decisions(self, text: str, *, everywhere: bool = False) -> int:
        """Number of branchings; an assert is one, and a case that takes everything none."""
        found = self.captured(text).get("decision", [])
        decisions = found if everywhere else self.own(text, found)
        asserted = Cover(outermost([node for node in decisions if node.type == "assert_statement"]))
        decisions = [
            node for node in decisions if node.type == "assert_statement" or not asserted.holds(node)
        ]
        open_matches = {
            match.id
            for match in (
                _match(node) for node in decisions if node.type == "case_clause" and takes_all(node)
            )
            if match is not None
        }
        return len(decisions) - len(open_matches)


def takes_all(case: tree_sitter.Node) -> bool:
    """Whether a case matches everything: ``case _`` or a bare name."""
    patterns = [child for child in case.named_children if child.type == "case_pattern"]
    if len(patterns) != 1 or any(child.type == "," for child in case.children):
        return False
    inner = patterns[0].named_children
    if not inner:
        return (patterns[0].text or b"") == b"_"
    return len(inner) == 1 and inner[0].type == "dotted_name" and inner[0].named_child_count == 1


def _match(case: tree_sitter.Node) -> tree_sitter.Node | None:
    return next((node for node in ancestors(case) if node.type == "match_statement"), None)


def facet(language: TreeSitterLanguage) -> PythonMetrics:
    """Python's metrics."""
    return PythonMetrics(language)
