"""What a run says of its own length, with seconds that are made up."""

import contextlib
import dataclasses
import sys
import time
import types

import pytest

from sonde.base import progress_display as progress
from sonde.base.formatting import duration
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
        "observing 12,800 inputs with org/m: about 6 min left at 36 inputs per second "
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
    assert line.startswith("observing 3,200 inputs") and "about 6 min left at 8 inputs per second" in line


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
    assert forecast.start("org/m").endswith("; estimating time ...")
    forecast.add_trial(work("cloze", 4), 0.4)
    # 6,000 * 0.01 + 3,000 * 0.1 + 1,500 * 0.01 of the control, which is as fast as the model
    assert forecast.start("org/m") == (
        "observing 10,500 inputs with org/m (probe 6,000, cloze 3,000, controls 1,500): about 6 min at "
        "28 inputs per second (estimated from 24 of them)"
    )
    assert not any(forecast.done(one, 1.0) for one in works), "said once"


def test_what_takes_long_says_once_what_to_give_up() -> None:
    for inputs, advice in (
        (6_400, ""),
        (64_000, "observing takes more than 10 min; shorter with a smaller --limit or fewer models or -x"),
    ):
        forecast = Forecast("observing", "input", [work("probe", 64)] * (inputs // 64), 1, ["-x"])
        assert forecast.advise() == "", "nothing was measured"
        forecast.add_trial(work("probe", 20), 0.2)
        assert forecast.estimate() == pytest.approx(inputs * 0.01)
        assert [forecast.advise(), forecast.advise()] == [advice, ""]


def test_a_trial_counts_only_what_is_left() -> None:
    forecast = Forecast("observing", "input", [work("probe", 64)] * 100, 1)
    for _ in range(90):
        forecast.done(work("probe", 64), None)
    forecast.add_trial(work("probe", 8), 0.8)
    assert forecast.start("org/m").startswith("observing 640 inputs with org/m: about 64 s at 10 inputs per")
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


def test_units_of_an_earlier_run_say_nothing_about_the_speed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    monkeypatch.setattr(progress, "_repeat", lambda *_: contextlib.nullcontext())
    with progress.PlainProgress().stage("labelling", 1_000) as advance:
        advance(800, reused=True)
        now = 20.0
        advance(100)
    # Half of what had to be labelled is done: by all finished units the rest would take two seconds.
    assert "labelling: 900/1000 after 20 s, about 20 s left\n" in capsys.readouterr().err


def test_a_step_that_takes_long_is_not_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.02)
    with progress.PlainProgress().stage("scoring", 3):
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "scoring: begins" and lines[-1].startswith("scoring: done in ")
    assert "scoring: 0/3 after 0 s" in lines[1:-1]


def test_the_time_left_that_is_told_goes_before_that_of_the_units(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    # Without the thread that speaks in between.
    monkeypatch.setattr(progress, "_repeat", lambda *_: contextlib.nullcontext())
    with progress.PlainProgress().stage("observing", 1_000) as advance:
        advance(500, remaining=300.0)
    assert "observing: 500/1000 after 0 s, about 5 min left\n" in capsys.readouterr().err


def test_a_notebook_has_one_line_per_stage_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, content: dict[str, str], *, raw: bool) -> None:
            assert raw
            shown.append(content["text/plain"])

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert raw and display_id
        shown.append(f"new {content['text/plain']}")
        return Handle()

    class Shell:
        kernel = None

    ipython = types.SimpleNamespace(get_ipython=Shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    monkeypatch.setattr(progress, "_SECONDS_UNTIL_SHOWN", 0.0)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_UPDATES", 0.0)
    notebook = progress.make_progress()
    with notebook.stage("observing", 4) as advance:
        advance(1, remaining=20.0)
        advance(3, remaining=0.0)
    assert shown[0].startswith("new observing: ") and not any(line.startswith("new") for line in shown[1:])
    assert any(line == "observing: 1/4 after 0 s, about 20 s left" for line in shown)
    assert shown[-1].startswith("observing: done in ")


def test_lengths_are_weighed_as_the_work_of_inputs_says() -> None:
    """A masked model reads a text once per subword: what is twice as long takes four times as long."""

    def texts(*lengths: int) -> JobProfile:
        return JobProfile(
            subject="org/m",
            does=frozenset({"surprisal"}),
            where="c python",
            size=len(lengths),
            characters=sum(lengths),
            squares=sum(length**2 for length in lengths),
        )

    first, second = texts(100, 200), texts(400)
    forecast = Forecast("observing", "input", [first, second], 1)
    assert forecast.estimate() is None
    forecast.learn_lengths(first, [(100, 1.0), (200, 4.0)])
    forecast.follow([first], 0.5, 5.0)
    # 5 s for half of 1 + 4 units, so 2 s per unit: half of the first, and 16 units.
    assert forecast.estimate() == pytest.approx(5.0 + 32.0)
    forecast.done(first, 10.0)
    assert forecast.estimate() == pytest.approx(32.0)


def test_a_model_that_was_not_tried_is_as_slow_as_it_is_large() -> None:
    small, large = (
        JobProfile(
            subject=name,
            does=frozenset({"probe"}),
            where="c python",
            size=10,
            characters=100,
            token_cost=cost,
        )
        for name, cost in (("org/small", 1e6), ("org/large", 5e6))
    )
    forecast = Forecast("observing", "input", [small, large], 1)
    forecast.done(small, 4.0)
    assert forecast.estimate() == pytest.approx(20.0)
    forecast.add_trial(dataclasses.replace(large, size=1, characters=10), 1.0)
    assert forecast.estimate() == pytest.approx(10.0)
