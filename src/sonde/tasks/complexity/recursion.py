"""Does the function call itself by its name?

Calls count if they are bare or go through the object itself: ``f()``, and ``this.f()`` in Java, ``self.f()``
and ``cls.f()`` in Python, ``t.f()`` in Go where ``t`` is the receiver. In Python, Go, JavaScript and PHP a
bare ``f()`` in a method means another function and does not count; in Java and Ruby it calls the method.
Names of a parameter, a variable or an inner function do not count. Neither do calls through another object,
whose target is unknown. Overloads in Java count as the same function.
"""

from __future__ import annotations

from sonde.corpora import Item
from sonde.tasks.engine.task_types import PatternTask, get_metrics


class Recursion(PatternTask):
    """Calls of itself."""

    name = "recursion"
    version = "2"

    def item_value(self, item: Item) -> float:
        """Return the number of calls; the qualified name of an item says whether it stands in a class."""
        method = item.unit == "function" and "." in item.name
        return get_metrics(item.language).patterns(item.text, method=method)[self.name]


task = Recursion()
