"""CPX: cyclomatic complexity (McCabe 1976), exact values in ten classes.

Complexity starts at 1, so the classes are 1 to 10. The `metrics.scm` of each language captures decisions as
``decision``; Java and Python count as the usual tools there do.

In Java, as checkstyle counts, these are if, loops, case labels, catch, ``?:``, ``&&`` and ``||``. Methods of
classes inside the method are methods of their own; bodies of lambdas belong to the method.

In Python, as radon counts, these are if, elif, loops and their else, except, else of a try, cases,
conditional expressions, ``and``, ``or``, comprehensions and their ifs, and assert. Functions and classes
inside are left out.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, exact_classes, get_metrics

SYNONYMS = ("cyclomatic complexity", "code complexity")


class CyclomaticComplexity(MetricTask):
    """Number of decisions plus one."""

    name = "cpx"
    classes = exact_classes(1, 10)

    def value(self, text: str, language: str) -> float:
        """Return the cyclomatic complexity."""
        return get_metrics(language).complexity(text)


task = CyclomaticComplexity()
