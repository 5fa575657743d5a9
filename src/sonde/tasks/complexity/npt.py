"""NPT: NPath, the number of acyclic execution paths (Nejmeh 1988), in the paper's ten bins.

Java counts as checkstyle does, Python by analogy; ``npath`` in each language's `npath.py` has the rules.
Functions with more than 100 paths have no class.
"""

from __future__ import annotations

import sys

from sonde.languages import get_facet
from sonde.languages.engine.metrics import ExecutionPaths
from sonde.tasks.engine.task_types import MetricTask, range_classes

SYNONYMS = ("path count", "path complexity")


class NPath(MetricTask):
    """Number of acyclic paths."""

    name = "npt"
    facet = "npath"
    classes = range_classes("1", "2", "3", "4-6", "7-8", "9-10", "11-15", "16-20", "21-30", "31-100")

    def value(self, text: str, language: str) -> float:
        """Return NPath, at most the largest float."""
        return min(get_facet(language, "npath", ExecutionPaths).count(text), sys.float_info.max)


task = NPath()
