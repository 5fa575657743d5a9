"""Work told without a clock: how many instructions of Python an action takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(action: Callable[[], object]) -> int:
    """Instructions that an action runs in Python; what it leaves to compiled code counts as one."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def grows_by(action: Callable[[int], object], size: int = 100) -> float:
    """How many times as much work twice the size is: 2 where it is linear, 4 where it is quadratic."""
    # What is loaded when first used is not counted.
    action(3)
    return steps(lambda: action(2 * size)) / steps(lambda: action(size))
