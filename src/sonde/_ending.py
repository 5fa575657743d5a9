"""How a command ends that does not end well: one line, an exit code, and a log of what nobody foresaw."""

from __future__ import annotations

import datetime
import io
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from sonde.base.errors import SondeError
from sonde.base.secrets import without_secrets
from sonde.base.terminal import note

LOG = "error.log"
GOES_ON = ("run", "merge", "pretrain")
"""Commands that go on where they stood."""

# Newer versions of typer have a click of their own.
_WRONG_CALL: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LONGEST = 4_000
_folder: Path | None = None


class Stopped(BaseException):
    """A signal has asked this process to end; not an error, and caught by nothing that catches errors."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def log_beside(folder: Path) -> None:
    """Let a traceback of this command be written into a folder, that of its run."""
    global _folder
    _folder = folder


def ended(command: Callable[[], object], arguments: list[str]) -> int:
    """Run a command to its end.

    Args:
        command: What is run; it may raise `SystemExit` itself, and returns its exit code or nothing.
        arguments: Those of the command line; with ``--debug`` among them a traceback is shown.

    Returns:
        The exit code: that of an error, 1 where nobody foresaw it, 128 and the number of a signal.
    """
    global _folder
    _folder = None
    try:
        with _stopped_by_signals():
            code = command()
    except _WRONG_CALL as error:
        with io.StringIO() as shown:
            error.show(shown)
            for line in shown.getvalue().splitlines():
                note(line)
        return error.exit_code
    except SondeError as error:
        line = f"sonde: {error}"
        # A name may be as long as a file; where it was found stands at the end.
        note(line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}")
        if "--debug" in arguments:
            traceback.print_exc()
        return error.exit_code
    except Stopped as stopped:
        kept = "; finished parts are kept, run the same command to go on"
        note(f"sonde: stopped{kept if GOES_ON and set(GOES_ON) & set(arguments[:1]) else ''}")
        return 128 + stopped.number
    except Exception as error:
        reason = without_secrets(" ".join(f"{type(error).__name__}: {error}".split()))[:300]
        note(f"sonde: unexpected {reason}; the traceback is in {_log(arguments)} (--debug shows it)")
        if "--debug" in arguments:
            traceback.print_exc()
        return 1
    return code if isinstance(code, int) else 0


@contextmanager
def _stopped_by_signals() -> Generator[None]:
    def stop(number: int, _frame: FrameType | None) -> None:
        raise Stopped(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _log(arguments: list[str]) -> str:
    """Write the traceback that is being handled; where it cannot be written, say so."""
    folder = _folder if _folder is not None and _folder.is_dir() else Path(tempfile.gettempdir())
    path = folder / (LOG if folder == _folder else f"sonde-{LOG}")
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as handle:
            told = f"{now} sonde {' '.join(arguments)}\n{traceback.format_exc()}\n"
            handle.write(without_secrets(told))
    except OSError:
        return "no file, since none could be written"
    return str(path)
