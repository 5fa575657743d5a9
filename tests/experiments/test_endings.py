"""However a command ends: one line, an exit code, and nothing half written by two at once."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.base.errors import StoreError, UsageError
from sonde.base.terminal import print_note
from sonde.cli.commands import main
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.store.lock import lock_folder

FAILING = {
    "run": ("sonde.experiments.run.run", ["run", "-c", "local:."]),
    "label": (
        "sonde.experiments.label_files.write_label_files",
        ["label", "ocu", "-c", "local:.", "-o", "x"],
    ),
    "list": ("sonde.api.catalogue.list_entries", ["list", "lenses"]),
    "align": ("sonde.api.label.align_functions", ["align", "x.py"]),
    "corpus": ("sonde.experiments.corpus_stats.count_corpus", ["corpus", "stats", "-c", "local:."]),
    "report": ("sonde.report.write_report", ["report", "."]),
    "figures": ("sonde.report.save_figures", ["figures", "."]),
}


@pytest.mark.parametrize("command", FAILING)
@pytest.mark.parametrize("debug", [False, True])
def test_what_nobody_foresaw_is_one_line_and_a_log(
    command: str,
    debug: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_arguments: object, **_named: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    name, arguments = FAILING[command]
    monkeypatch.setattr(name, fails)
    if command == "run":
        (tmp_path / "out").mkdir()
        arguments = [*arguments, "-o", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["sonde", *arguments, *(["--debug"] if debug else [])])
    with pytest.raises(SystemExit) as ended:
        main()
    err = capsys.readouterr().err
    assert ended.value.code == 1
    assert ("Traceback" in err) == debug
    line = err.splitlines()[0]
    assert line.startswith("sonde: unexpected ZeroDivisionError: division by zero; the traceback is in ")
    log = tmp_path / ("out/error.log" if command == "run" else "sonde-error.log")
    assert str(log) in line
    assert "Traceback" in log.read_text() and "ZeroDivisionError" in log.read_text()


def test_a_library_that_finds_no_home_folder_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_arguments: object, **_named: object) -> None:
        Path.home()

    name, arguments = FAILING["list"]
    monkeypatch.setattr(name, fails)
    monkeypatch.setattr("os.path.expanduser", lambda user: user)
    monkeypatch.setattr(sys, "argv", ["sonde", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(
        "no home folder for the files of libraries; set HOME to a folder\n"
    )


BELOW_A_FILE = {
    "run": ["run", "-m", "sonde/mini-decoder", "-c", "local:.", "-o"],
    "label": ["label", "len", "-c", "local:.", "--raw", "-o"],
    "align": ["align", "code.py", "-o"],
    "report": ["report"],
    "verify": ["verify"],
    "card": ["card"],
    "table": ["table"],
    "figures": ["figures"],
    "compare": ["compare"],
}


@pytest.mark.parametrize("command", BELOW_A_FILE)
@pytest.mark.parametrize("place", ["file/x.csv", "file/deep/x.csv", "bad\udcff/x.csv"])
def test_a_place_that_cannot_be_is_one_line(
    command: str,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Below a file, or with a name that the libraries that read tables refuse."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "code.py").write_text("def f(x):\n    return x\n")
    given = [str(tmp_path / place)] * (2 if command == "compare" else 1)
    monkeypatch.setattr(sys, "argv", ["sonde", *BELOW_A_FILE[command], *given])
    with pytest.raises(SystemExit) as ended:
        main()
    err = capsys.readouterr().err
    if place.startswith("bad") and command in ("label", "align"):
        assert ended.value.code == 0, err
        return
    assert ended.value.code in (1, 2)
    line = err.splitlines()[-1]
    assert re.match("sonde: (cannot write|folder |.*(no run here|no checksums here))", line)
    assert "unexpected" not in line and (tmp_path / "file").read_text() == "mine"


CLOSED = """
import os, sys
sys.argv = ["sonde", "list", "lenses"]
from sonde.cli import main
try:
    main()
finally:
    nowhere = os.stat(os.devnull).st_rdev
    closed = [number for number in (0, 1, 2) if os.fstat(number).st_rdev != nowhere]
    with open("ended", "w") as file:
        file.write(f"{sys.exc_info()[1].code} {closed}")
"""


def test_streams_that_are_closed_lead_nowhere(tmp_path: Path) -> None:
    """A file that is opened later would have their numbers, and in it what libraries print."""
    line = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, CLOSED]
    assert subprocess.run(line, cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "ended").read_text() == "0 []"


@pytest.mark.parametrize("arguments", [["list", "lenses"], ["list", "lenses", "--json"], ["--version"]])
def test_standard_output_on_a_full_disk_is_one_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sonde", *arguments])
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "stdout", Full())
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "sonde: cannot write standard output: No space left on device\n"


class Full(io.StringIO):
    """A stream to a full disk."""

    def write(self, _text: str, /) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_progress_that_cannot_be_written_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Full())
        print_note("reading: begins")


def test_a_lock_on_a_full_disk_is_one_line_and_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        monkeypatch.context() as patch,
        pytest.raises(StoreError, match=r"cannot be written to \(No space left on device\)"),
    ):
        patch.setattr(os, "write", full)
        with lock_folder(tmp_path):
            pytest.fail("held")
    with lock_folder(tmp_path):
        pass


WAITING = """
import sys, time
import {module} as module
def waits(*arguments, **named):
    print("ready", flush=True)
    time.sleep(60)
module.{name} = waits
sys.argv = ["sonde", *{arguments!r}]
from sonde.cli import main
main()
"""


@pytest.mark.parametrize("command", ["run", "list"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_both_signals_say_the_same(command: str, number: signal.Signals, code: int, tmp_path: Path) -> None:
    path, arguments = FAILING[command]
    module, _, name = path.rpartition(".")
    code_text = WAITING.format(module=module, name=name, arguments=arguments)
    process = subprocess.Popen(
        [sys.executable, "-c", code_text],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    kept = "; finished parts are kept, this command resumes: sonde run -c local:." if command == "run" else ""
    assert err == f"sonde: stopped{kept}\n"


HOLDING = """
import sys, time
from pathlib import Path
from sonde.store.lock import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_folder_is_one_process_s_and_free_again_when_that_dies(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(folder)], text=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with (
        pytest.raises(UsageError, match=f"in use by process {process.pid} on '.+' since 20") as caught,
        lock_folder(folder),
    ):
        pass
    assert "\n" not in str(caught.value)
    process.kill()
    process.communicate()
    with lock_folder(folder):
        assert json.loads((folder / ".lock").read_text())["pid"] == os.getpid()
    with lock_folder(folder):
        pass


@pytest.fixture
def asked(decoder: Path, tmp_path: Path) -> Experiment:
    folder = tmp_path / "code"
    folder.mkdir()
    text = "\n\n".join(f"def f{n}(x):\n    return g{n}(x) + {n}\n" for n in range(6))
    (folder / "a.py").write_text(text)
    return Experiment(models=(str(decoder),), corpora=(f"local:{folder}",))


def test_a_rerun_keeps_the_time_of_the_run_that_computed(asked: Experiment, tmp_path: Path) -> None:
    execution = Execution(output=tmp_path / "run")
    first = run(asked, execution)
    summary = json.loads(first.directory.summary.read_text())
    assert summary["timing"] == first.seconds and "timing_of_rerun" not in summary
    first.directory.write_summary({**summary, "timing": {**summary["timing"], "observe": 1234.5}})
    again = run(asked, execution)
    assert again.observed == 0
    summary = json.loads(first.directory.summary.read_text())
    assert summary["timing"]["observe"] == 1234.5
    assert summary["timing_of_rerun"] == again.seconds
    other = dataclasses.replace(asked, options={"surprisal": {"min_count": 1}})
    scored = run(other, execution)
    summary = json.loads(first.directory.summary.read_text())
    if not scored.observed:
        assert summary["timing"]["observe"] == 1234.5


class Noted:
    """A progress that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, title: str, total: int | None = None):
        from sonde.base.progress import NullProgress

        return NullProgress().stage(title, total)

    def note(self, line: str) -> None:
        self.lines.append(line)


def test_another_experiment_in_a_folder_says_so_and_replaces_the_scores(
    asked: Experiment, tmp_path: Path
) -> None:
    execution = Execution(output=tmp_path / "run")
    run(asked, execution)
    told = Noted()
    other = dataclasses.replace(asked, selection=dataclasses.replace(asked.selection, seed=3))
    outcome = run(other, execution, told)
    assert any("has another experiment" in line for line in told.lines)
    alone = run(other, Execution(output=tmp_path / "alone"))
    assert outcome.directory.scores.read_bytes() == alone.directory.scores.read_bytes()
    told = Noted()
    run(other, execution, told)
    assert not any("another experiment" in line for line in told.lines)
