"""Executors: one map over jobs, in this process or in several."""

from sonde.base.registry import Registry
from sonde.executors._executor import Executor

EXECUTORS: Registry[Executor] = Registry("sonde.executors", "executor", "executor")

__all__ = ["EXECUTORS", "Executor"]
