"""Every calibration in its short form, and the command around them."""

from __future__ import annotations

import pytest

from tests import calibration
from tests.calibration import Bound, Calibration, Row, calibrations
from tests.calibration.__main__ import in_line, main


@pytest.mark.slow
@pytest.mark.parametrize("one", calibrations(), ids=lambda one: one.name)
def test_the_short_form_keeps_its_bounds(one: Calibration) -> None:
    rows = one.run(one.short, 0)
    assert rows
    assert not [in_line(row) for row in rows if not row.holds]


def test_a_broken_bound_is_named_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row("kept", 20, 3, Bound(maximum=3)), Row("broken", 20, 17, Bound(least=18))]
    seen: list[tuple[int, int]] = []

    def run(draws: int, seed: int) -> list[Row]:
        seen.append((draws, seed))
        return rows

    monkeypatch.setattr(
        "tests.calibration.__main__.calibrations", lambda: [Calibration("planted", run, 20, 2)]
    )
    assert main(["planted", "--short", "--seed", "7"]) == 1
    assert seen == [(2, 7)]
    told = capsys.readouterr().out
    assert [line.split()[0] for line in told.splitlines() if line.endswith("BROKEN")] == ["broken"]
    assert "1 bounds are broken" in told


def test_what_a_valid_test_stays_within() -> None:
    assert [calibration.at_most_by_chance(draws).maximum for draws in (20, 100, 200)] == [3, 9, 15]
    assert calibration.at_least(0.9, 20).least == 18
