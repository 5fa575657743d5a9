"""A run that is killed at random moments ends with the scores of one that nobody disturbed; see `kills`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kills import FAULTS, QUICK, code_in, disturbed, undisturbed

pytestmark = pytest.mark.slow


def test_killed_runs_repeat_nothing_that_has_a_receipt(tmp_path: Path) -> None:
    code_in(tmp_path)
    whole, seconds = undisturbed(tmp_path, QUICK)
    for fault in FAULTS[:2]:
        found = disturbed(tmp_path, QUICK, fault, 1, whole=whole, seconds=seconds, seed=1)
        assert (found.faults, found.repeated, found.equal, found.strikes) == ([], 0, True, 1)
        assert found.written >= found.parts > 2
