"""A few of each; ``python -m tests.fuzz`` runs as many as asked for."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.fuzz import pages, targets


@pytest.mark.slow
def test_no_text_ends_in_a_traceback() -> None:
    tally = targets.Tally()
    targets.warm()
    for seed in range(1_000_000, 1_000_400):
        tally.attempt(seed, partial(targets.code, seed))
    assert tally.done == 400
    assert not tally.failed, tally.failed


@pytest.mark.slow
def test_no_damaged_file_ends_in_a_traceback(tmp_path: Path) -> None:
    tally = targets.Tally()
    for seed in range(2_000_000, 2_000_800):
        tally.attempt(seed, partial(targets.data_file, seed, tmp_path))
    assert 0 < tally.refused < 800
    assert not tally.failed, tally.failed


@pytest.mark.slow
def test_no_name_or_text_of_a_corpus_becomes_markup_or_stops_a_page(tmp_path: Path) -> None:
    tally = targets.Tally()
    for seed in (3_000_000, 3_000_001):
        tally.attempt(seed, partial(pages.page, seed, tmp_path / str(seed), 60))
    assert not tally.failed, tally.failed
