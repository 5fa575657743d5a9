"""Methods cut out of their class: a decorated one begins in another column than its `def`."""

from __future__ import annotations

import re

_DEFINITION = re.compile(r"^([ \t]*)(?:class|def|async)\b", re.MULTILINE)


def margin_begin(text: str) -> int:
    r"""Where a text parses from: the definition of a decorated method, the beginning of anything else.

    >>> margin_begin("@property\n    def f(self):\n        return 1\n")
    14
    >>> margin_begin("@property\ndef f(self):\n    return 1\n")
    0
    """
    if not text.startswith("@"):
        return 0
    found = _DEFINITION.search(text)
    return found.end(1) if found is not None and found[1] else 0
