"""Executors: one map over jobs, in this process or in several."""

import os

from sonde.base.registry import Registry
from sonde.executors._executor import Executor

EXECUTORS: Registry[Executor] = Registry("sonde.executors", "executor", "executor", protocols=(Executor,))

__all__ = ["EXECUTORS", "Executor", "cores"]


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
