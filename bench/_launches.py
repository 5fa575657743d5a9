"""Kernel launches of some work, counted by torch's profiler on a processor."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

_FREE = ("aten::empty", "aten::empty_strided", "aten::empty_like", "aten::resize_", "aten::dropout")
"""Operators that reserve memory and compute nothing, and dropout, which in evaluation returns its input."""


def count_launches(work: Callable[[], object]) -> int:
    """Count the operators of some work that an accelerator would run as a kernel or a copy of its own.

    An operator that is made of others counts as these do; views and allocations launch nothing.
    """
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        work()
    return sum(_count(event) for event in recorded.events() or () if event.cpu_parent is None)


def _count(event: Any) -> int:
    inner = sum(map(_count, event.cpu_children))
    return inner or int(event.name.startswith("aten::") and not _is_free(event.name))


@cache
def _is_free(name: str) -> bool:
    """Return whether an operator allocates only, or returns its input under another shape."""
    # Some have forms for lists and texts as well, which share nothing.
    return name in _FREE or any(map(_is_view, torch._C._jit_get_schemas_for_operator(name)))


def _is_view(schema: torch._C.FunctionSchema) -> bool:
    # A view shares memory with an input and writes to none; an operator in place writes.
    aliases = [value.alias_info for value in schema.returns if value.alias_info is not None]
    return bool(aliases) and not any(alias.is_write for alias in aliases)
