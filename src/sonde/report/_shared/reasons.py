"""Reasons why something was left out, those that several tasks share said once."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TASK = re.compile(r"^task ('[^']*')( in \w+)?: (.*)$", re.DOTALL)


def by_reason(reasons: Iterable[tuple[str | None, str | None]]) -> dict[str, list[str]]:
    """What was left out with its reasons, in their order; reasons that begin with their task are joined.

    >>> by_reason([(None, "task 'len': no state"), (None, "task 'csc': no state"), ("length", "why")])
    {'': ["tasks 'len', 'csc': no state"], 'length': ['why']}

    Args:
        reasons: What was left out, None for a whole task, and why.
    """
    held: dict[str, dict[str, list[str]]] = {}
    for what, reason in reasons:
        found = _TASK.match(reason or "")
        task, rest = (found[1], f"{found[2] or ''}: {found[3]}") if found else ("", reason or "")
        held.setdefault(what or "", {}).setdefault(rest, []).append(task)
    return {
        what: [
            f"task{'s' * (len(tasks) > 1)} {', '.join(tasks)}{rest}" if tasks[0] else rest
            for rest, tasks in grouped.items()
        ]
        for what, grouped in held.items()
    }
