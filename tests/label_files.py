"""Labels of one task as a file."""

from __future__ import annotations

from pathlib import Path

from sonde.experiments.label_files import LabelOptions, write_label_files


def write_label_file(wanted: LabelOptions, output: Path) -> int:
    """Write a file and say how many labels it holds."""
    (found,) = write_label_files(wanted, [wanted.task], str(output))
    assert found["file"] == output
    return int(found["rows"])
