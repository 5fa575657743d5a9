"""How a command ends that does not end well: one line, an exit code, and a log of what nobody foresaw."""

from __future__ import annotations

import io
import signal
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer

from sonde.base.error_log import append_to_log, discard_native_errors, log_path, set_log_folder
from sonde.base.errors import SondeError, UsageError, redact_secrets
from sonde.base.files import get_home_folder
from sonde.base.terminal import print_note

GOES_ON = ("run", "merge", "pretrain")
"""Commands that go on where they stood."""


# Newer versions of typer have a click of their own.
_WRONG_CALL: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


_LONGEST = 4_000


class SignalExit(BaseException):
    """A signal has asked this process to end; not an error, and caught by nothing that catches errors."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_command(command: Callable[[], object], arguments: list[str]) -> int:
    """Run a command to its end.

    Args:
        command: What is run; it may raise `SystemExit` itself, and returns its exit code or nothing.
        arguments: Those of the command line; with ``--debug`` among them a traceback is shown.

    Returns:
        The exit code: that of an error, 1 where nobody foresaw it, 128 and the number of a signal.
    """
    set_log_folder(None)
    try:
        with _raise_on_signals():
            code = command()
    except _WRONG_CALL as error:
        with io.StringIO() as shown:
            error.show(shown)
            for line in shown.getvalue().splitlines():
                print_note(line)
        return error.exit_code
    except SondeError as error:
        line = f"sonde: {error}"
        # A name may be as long as a file; where it was found stands at the end.
        print_note(line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}")
        if "--debug" in arguments:
            traceback.print_exc()
        return error.exit_code
    except SignalExit as stopped:
        return _exit_by_signal(stopped, arguments)
    except Exception as error:
        if stopped := _find_signal(error):
            return _exit_by_signal(stopped, arguments)
        if isinstance(error, RuntimeError) and (missing := _missing_home_error()):
            # Libraries look for a home folder when they are imported.
            print_note(f"sonde: {missing}")
            return missing.exit_code
        reason = redact_secrets(" ".join(f"{type(error).__name__}: {error}".split()))[:300]
        print_note(
            f"sonde: unexpected {reason}; the traceback is in {_save_traceback(arguments)} (--debug shows it)"
        )
        if "--debug" in arguments:
            traceback.print_exc()
        return 1
    discard_native_errors()
    return code if isinstance(code, int) else 0


def _exit_by_signal(stopped: SignalExit, arguments: list[str]) -> int:
    goes_on = arguments[:1] and arguments[0] in GOES_ON
    print_note(
        f"sonde: stopped{'; finished parts are kept, run the same command to go on' if goes_on else ''}"
    )
    return 128 + stopped.number


def _missing_home_error() -> UsageError | None:
    """What to set if the user has no home folder."""
    try:
        get_home_folder()
    except UsageError as error:
        return error
    return None


def _find_signal(error: BaseException | None) -> SignalExit | None:
    """The signal that an error comes of: a native library may give its own error where one arrives."""
    while error is not None and not isinstance(error, SignalExit):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def _raise_on_signals() -> Generator[None]:
    def stop(number: int, _frame: FrameType | None) -> None:
        raise SignalExit(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _save_traceback(arguments: list[str]) -> str:
    """Write the traceback that is being handled; where it cannot be written, say so."""
    written = append_to_log(f"sonde {' '.join(arguments)}\n{traceback.format_exc()}")
    return str(log_path()) if written else "no file, since none could be written"
