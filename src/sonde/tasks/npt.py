"""NPT: NPath, the number of acyclic execution paths (Nejmeh 1988), in the paper's ten bins.

Java counts as checkstyle does, Python by analogy; the rules stand at ``npath`` in each language's
`metrics.py`. Above 100 no class fits.

``paper`` (quirk ``inspect.exact_paths``): the released labels are exact values from 1 to 10, not the bins
of the text.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from sonde.tasks._measured import Measured, binned, exact, metrics


class NPath(Measured):
    """Number of acyclic paths."""

    name = "npt"
    corrected = binned("1", "2", "3", "4-6", "7-8", "9-10", "11-15", "16-20", "21-30", "31-100")
    paper = exact(1, 10)
    quirks: Mapping[str, str] = {
        "inspect.exact_paths": "NPath has one class a value, 1 to 10, and counts what stands inside classes"
    }

    def value(self, text: str, language: str, paper: bool) -> float:
        """NPath; beyond what a float holds, the largest that it does."""
        return min(metrics(language).npath(text, paper=paper), sys.float_info.max)


task = NPath()
