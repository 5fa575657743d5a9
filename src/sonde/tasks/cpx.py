"""CPX: cyclomatic complexity (McCabe 1976), exact values in ten classes.

Complexity starts at 1, so the classes are 1 to 10.

- Java, as checkstyle counts: if, loops, case labels, catch, ``?:``, ``&&``, ``||``. Methods of classes
  inside the method are methods of their own; bodies of lambdas belong to the method.
- Python, as radon counts: if, elif, loops and their else, except, else of a try, cases, conditional
  expressions, ``and``, ``or``, comprehensions and their ifs, assert. Functions and classes inside are left
  out.

``paper`` (quirk ``inspect.decisions``): decisions without the one, 0 to 9, with everything that the text
holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from sonde.tasks._measured import Measured, exact, metrics


class CyclomaticComplexity(Measured):
    """Number of decisions plus one."""

    name = "cpx"
    corrected = exact(1, 10)
    paper = exact(0, 9)
    quirks: Mapping[str, str] = {
        "inspect.decisions": "complexity is the number of decisions, without the one that it starts at"
    }

    def value(self, text: str, language: str, paper: bool) -> float:
        """Cyclomatic complexity; in ``paper`` mode the number of decisions."""
        return metrics(language).complexity(text, paper=paper)


task = CyclomaticComplexity()
