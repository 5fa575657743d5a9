"""LEN: number of code tokens, in five bins.

Tokens are those of a lexer: comments and layout are none, a string is one (with everything in it, in Python
also the expressions of an f-string). Functions shorter than 21 or longer than 250 tokens have no class.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, NumberClasses, get_token_metrics

SYNONYMS = ("function length", "code length", "token count", "lines of code")


class LengthClass(MetricTask):
    """Number of code tokens."""

    name = "len"
    facet = "tokens"
    classes = NumberClasses(
        (("A", 21, 50), ("B", 51, 100), ("C", 101, 150), ("D", 151, 200), ("E", 201, 250))
    )

    def value(self, text: str, language: str) -> float:
        """Count the tokens."""
        return len(get_token_metrics(language).leaves(text))


task = LengthClass()
