"""NPath as INSPECT's released labels have it: Nejmeh alone.

A try is (body + catches) times finally, only conditions of if and loops count their ``&&`` and ``||``, and
what stands inside lambdas and classes multiplies.
"""

from __future__ import annotations

import tree_sitter

from sonde.languages import facet_of
from sonde.languages._metrics import MetricsOf
from sonde.languages._npath import Branching, paths, row
from sonde.languages.java.npath import GROUPS, PathRule, in_header, labels_of

_TRIES = frozenset({"try_statement", "try_with_resources_statement"})


def java_paths(text: str) -> int:
    """The number of paths through a Java method."""
    found = facet_of("java", "metrics", MetricsOf).captured(text)
    return paths(found.get("path", []), ReleasedPaths(found.get("boolean", [])).rule)


class ReleasedPaths:
    """NPath as the released labels have it.

    Args:
        signs: Expressions of ``&&`` or ``||``.
    """

    def __init__(self, signs: list[tree_sitter.Node]) -> None:
        self._count = PathRule(signs, [])

    def rule(self, region: Branching) -> None:
        """Set the value of one region."""
        node, kind = region.node, region.node.type
        if kind == "ternary_expression":
            region.value = 0 if any(in_header(above.node, node) for above in region.above()) else 2
            region.value *= max(row(region.parts), 1)
        elif kind in GROUPS or kind in ("return_statement", "catch_clause"):
            region.value = max(row(region.parts), 1)
        elif kind == "switch_expression":
            groups = [part for part in region.parts if part.node.type in GROUPS]
            default = any(labels_of(part.node)[1] for part in groups)
            region.value = max(sum(part.value for part in groups) + (not default), 1)
        elif kind in _TRIES:
            closing = [child for child in node.named_children if child.type == "finally_clause"]
            catches = [part for part in region.parts if part.node.type == "catch_clause"]
            last = region.within(*closing)
            body = [part for part in region.parts if part not in catches and part not in last]
            value = max(row(body), 1) + sum(part.value for part in catches)
            region.value = row(last, value)
        else:
            self._count.rule(region)
