"""The tutorial is true: its commands run as printed, one after the other, on a checkpoint of one's own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


@pytest.mark.slow
def test_the_commands_run_as_printed(workplace: Path, environment: Mapping[str, str]) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) == 7
    printed: list[str] = []
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=workplace, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}\n{done.stdout}"
        printed.append(done.stdout)
    assert "idn" in printed[3] and "bits_per_byte" not in printed[3]
    assert "ci_low" in printed[5]
    for run in ("first", "both", "probes"):
        assert (workplace / "runs" / run / "report.html").is_file()
