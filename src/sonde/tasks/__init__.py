"""Tasks: questions about code, answered on characters before any tokenizer exists."""

from sonde.base.registry import Registry
from sonde.tasks._repository import repositories
from sonde.tasks._task import LABEL_SCHEMA, CorpusTask, Repository, Task

TASKS: Registry[Task] = Registry("sonde.tasks", "task", "task")

__all__ = ["LABEL_SCHEMA", "TASKS", "CorpusTask", "Repository", "Task", "repositories"]
