"""AST depth: named nodes on the longest path down the function's syntax tree, in five bins.

Trees are those of the tree-sitter grammars, so depths of different languages cannot be compared.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, get_metrics, range_classes

SYNONYMS = ("syntax tree depth",)


class SyntaxDepth(MetricTask):
    """Depth of the syntax tree."""

    name = "ast_depth"
    classes = range_classes("1-8", "9-10", "11-12", "13-15", "16-")

    def value(self, text: str, language: str) -> float:
        """Return the depth of the tree."""
        return get_metrics(language).depth(text)


task = SyntaxDepth()
