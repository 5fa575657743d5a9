"""Does the function call itself by its name?

Bare or through the object itself: ``f()``, and ``this.f()`` in Java, ``self.f()`` and ``cls.f()`` in
Python. Calls through another object go by the same name to what nobody knows here, and overloads of Java
count as the same.
"""

from __future__ import annotations

from sonde.tasks._measured import Pattern


class Recursion(Pattern):
    """Calls of itself."""

    name = "recursion"


task = Recursion()
