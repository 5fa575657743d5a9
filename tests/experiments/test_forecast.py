"""What a run says of its own length, with seconds that are made up."""

import pytest

from sonde.base.formatting import duration
from sonde.base import progress_display as progress
from sonde.experiments.cost import Forecast, JobProfile, group_trial_jobs, put_trials_first


def work(
    does: str, size: int, *, subject: str = "org/m", where: str = "c python", control: bool = False
) -> JobProfile:
    return JobProfile(subject=subject, does=frozenset({does}), where=where, size=size, control=control)


def said(works: list[JobProfile], seconds: dict[str, float], workers: int = 1) -> list[tuple[int, str]]:
    """The lines, each with the number of jobs that were done before it."""
    forecast = Forecast("observing", "input", works, workers)
    found: list[tuple[int, str]] = []
    for at, one in enumerate(works, 1):
        (does,) = one.does
        if line := forecast.done(one, seconds[does] * one.size):
            found.append((at, line))
    return found


def test_one_line_after_two_jobs_says_how_long_the_rest_takes() -> None:
    ((at, line),) = said([work("probe", 64)] * 200, {"probe": 1 / 36})
    assert at == 2
    assert line == (
        "observing 12,800 inputs with org/m: about 6 min left at 36 inputs a second "
        "(estimated from the first 128)"
    )


def test_a_long_job_is_enough_and_two_workers_take_half_the_time() -> None:
    ((at, line),) = said([work("probe", 64)] * 20, {"probe": 2.0}, workers=2)
    assert at == 1
    assert "about 20 min left at one input every 1.0 s" in line  # 19 * 64 * 2 s / 2
    ((_, alone),) = said([work("probe", 64)] * 20, {"probe": 4.0})
    assert "about 81 min left at one input every 4.0 s" in alone


def test_lenses_of_one_run_are_measured_each_and_named_with_their_inputs() -> None:
    works = [work("probe", 60)] * 100 + [work("cloze", 60)] * 50 + [work("probe", 60, control=True)] * 25
    works = put_trials_first(works, lambda one: one)
    assert ["".join(one.does) for one in works[:5]] == ["probe", "probe", "cloze", "cloze", "probe"]
    ((at, line),) = said(works, {"probe": 0.01, "cloze": 0.1})
    assert at == 4
    # 98 * 60 * 0.01 + 48 * 60 * 0.1 + 25 * 60 * 0.01 of the control, which is as fast as the model
    assert line.startswith(
        "observing 10,500 inputs with org/m (probe 6,000, cloze 3,000, controls 1,500): about "
    )
    assert "about 6 min left" in line


def test_what_is_there_already_counts_for_nothing() -> None:
    forecast = Forecast("observing", "input", [work("probe", 64)] * 100, 1)
    assert not any(forecast.done(work("probe", 64), None) for _ in range(50))
    assert forecast.done(work("probe", 64), 8.0) == ""
    line = forecast.done(work("probe", 64), 8.0)
    assert line.startswith("observing 3,200 inputs") and "about 6 min left at 8 inputs a second" in line


def test_the_models_that_come_after_are_named() -> None:
    works = [work("probe", 64)] * 50 + [work("probe", 64, subject="org/n")] * 50
    first, second = said(works, {"probe": 0.5})
    assert first[1].endswith("; then 3,200 with org/n, another 27 min by the size of the models")
    assert second[0] == 51 and "with org/n: about 26 min left" in second[1] and "then" not in second[1]


def test_what_there_is_to_do_is_said_before_the_first_job_is_done() -> None:
    works = [work("probe", 60)] * 3 + [work("surprisal", 60), work("probe", 60, control=True)]
    (line,) = Forecast("observing", "input", works, 1).describe_plan()
    assert line.startswith("observing 300 inputs with org/m (probe 180, surprisal 60, controls 60); ")


def test_a_few_inputs_that_were_tried_tell_before_the_first_job_how_long_all_take() -> None:
    works = [work("probe", 60)] * 100 + [work("cloze", 60)] * 50 + [work("probe", 60, control=True)] * 25
    forecast = Forecast("observing", "input", works, 1)
    forecast.add_trial(work("probe", 20), 0.2)
    assert forecast.start("org/m").endswith("; how long it takes is said when the first are done")
    forecast.add_trial(work("cloze", 4), 0.4)
    # 6,000 * 0.01 + 3,000 * 0.1 + 1,500 * 0.01 of the control, which is as fast as the model
    assert forecast.start("org/m") == (
        "observing 10,500 inputs with org/m (probe 6,000, cloze 3,000, controls 1,500): about 6 min at "
        "28 inputs a second (estimated from 24 of them)"
    )
    assert not any(forecast.done(one, 1.0) for one in works), "said once"


def test_a_trial_counts_only_what_is_left() -> None:
    forecast = Forecast("observing", "input", [work("probe", 64)] * 100, 1)
    for _ in range(90):
        forecast.done(work("probe", 64), None)
    forecast.add_trial(work("probe", 8), 0.8)
    assert forecast.start("org/m").startswith("observing 640 inputs with org/m: about 64 s at 10 inputs a")
    for _ in range(10):
        forecast.done(work("probe", 64), None)
    assert forecast.start("org/m") == ""


def test_only_what_is_much_is_tried_and_no_control() -> None:
    many, few = [work("probe", 64)] * 10, [work("cloze", 64)]
    controls = [work("probe", 64, control=True)] * 10
    assert group_trial_jobs([*many, *controls], lambda one: one, 512) == [many]
    assert group_trial_jobs([*many, *few], lambda one: one, 512) == []


def test_nothing_is_said_of_what_is_over_soon() -> None:
    assert said([work("probe", 64)] * 10, {"probe": 0.001}) == []


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.25, "0.2 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")]
)
def test_durations(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_plain_lines_say_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.PlainProgress().stage("observing", 1_000) as advance:
        now = 20.0
        advance(100)
    assert "observing: 100/1000 after 20 s, about 3 min left\n" in capsys.readouterr().err
