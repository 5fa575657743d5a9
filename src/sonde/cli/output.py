"""Output of a command: its result as text or JSON, or a one-line error, an exit code and a log.

With ``--json`` standard output holds one JSON object and nothing else: whatever else is printed while the
command works goes to standard error, beside its progress.

A command that fails prints one line; the traceback of an unexpected error goes to the log.
"""

from __future__ import annotations

import functools
import inspect
import io
import json
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from sonde.base.errors import (
    SondeError,
    UsageError,
    append_to_log,
    discard_native_errors,
    log_path,
    redact_secrets,
    set_log_folder,
)
from sonde.base.files import get_home_folder
from sonde.base.terminal import print_note, write_text
from sonde.cli.options import with_parameters


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a command found.

    Attributes:
        data: It as plain data; paths, tuples, dataclasses and models of pydantic may be in it.
        show: Prints it for a person.
        exit_code: How the command ends when it has been shown.
        opened: A page that a browser shows afterwards; None for none.
    """

    data: Mapping[str, Any]
    show: Callable[[], object]
    exit_code: int = 0
    opened: Path | None = None


OpenFlag = Annotated[bool, typer.Option("--open", help="Open the report in a browser.")]


_Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]


def with_output(*addresses: str) -> Callable[[Callable[..., CommandOutput]], Callable[..., None]]:
    """Make a command print what it found, and take the option ``--json``.

    Args:
        addresses: Parameters that may be addresses (``s3://bucket/run``). All other paths are of this
            machine, where an address would be a folder named ``s3:``.
    """

    def decorate(command: Callable[..., CommandOutput]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_json(*, as_json: bool, **values: Any) -> None:
            _refuse_addresses({name: value for name, value in values.items() if name not in addresses})
            with redirect_stdout(sys.stderr if as_json else sys.stdout):
                output = command(**values)
            if as_json:
                write_text(json_text(output.data))
            else:
                output.show()
            if output.opened is not None:
                _open_in_browser(output.opened)
            if output.exit_code:
                raise typer.Exit(output.exit_code)

        option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Json)
        return with_parameters(with_json, command, [option])

    return decorate


def _open_in_browser(page: Path) -> None:
    """Open a page in the user's browser, or print how to where none can be started."""
    import webbrowser

    try:
        is_open = webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        is_open = False
    if not is_open:
        print_note(f"sonde: no browser could be started on this machine; open {page} in one")


def _refuse_addresses(values: Mapping[str, Any]) -> None:
    from sonde.store.address import parse_address

    for value in values.values():
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path) and (address := parse_address(path)):
                raise UsageError(
                    f"{address} is an address, but a path on this machine is needed here; write "
                    "to a path, then copy"
                )


def json_text(data: Mapping[str, Any]) -> str:
    r"""Format data as JSON in ASCII, with null for what is not finite.

    >>> print(json_text({"value": float("nan"), "name": "\udc80"}), end="")
    {
      "value": null,
      "name": "\udc80"
    }
    """
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(data, inf_nan_mode="null", serialize_unknown=True)
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"


RESUMABLE = ("run", "merge", "pretrain")
"""Commands that resume when they are given again."""


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
        with io.StringIO() as buffer:
            error.show(buffer)
            for line in buffer.getvalue().splitlines():
                print_note(line)
        return error.exit_code
    except SondeError as error:
        line = f"sonde: {error}"
        # A name may be as long as a file; where it was found stands at the end.
        print_note(line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}")
        if "--debug" in arguments:
            traceback.print_exc()
        return error.exit_code
    except SignalExit as signal_exit:
        return _exit_by_signal(signal_exit, arguments)
    except Exception as error:
        if signal_exit := _find_signal(error):
            return _exit_by_signal(signal_exit, arguments)
        if isinstance(error, RuntimeError) and (missing := _missing_home_error()):
            # Libraries look for a home folder when they are imported.
            print_note(f"sonde: {missing}")
            return missing.exit_code
        reason = redact_secrets(" ".join(f"{type(error).__name__}: {error}".split()))[:300]
        # Imported here, so that the command line starts without it.
        from sonde.base.registry import find_extension_line

        if line := find_extension_line(error):
            reason += f" ({line})"
        print_note(
            f"sonde: unexpected {reason}; the traceback is in {_save_traceback(arguments)} (--debug shows it)"
        )
        if "--debug" in arguments:
            traceback.print_exc()
        return 1
    discard_native_errors()
    return code if isinstance(code, int) else 0


def _exit_by_signal(signal_exit: SignalExit, arguments: list[str]) -> int:
    # --fresh would delete what is kept; a plan keeps nothing.
    words = [argument for argument in arguments if argument not in ("--debug", "--fresh")]
    if words[:1] and words[0] in RESUMABLE and "--plan" not in words:
        command = redact_secrets(shlex.join(["sonde", *words]))
        print_note(f"sonde: stopped; finished parts are kept, this command resumes: {command}")
    else:
        print_note("sonde: stopped")
    return 128 + signal_exit.number


def _missing_home_error() -> UsageError | None:
    """Return the error that says what to set if the user has no home folder."""
    try:
        get_home_folder()
    except UsageError as error:
        return error
    return None


def _find_signal(error: BaseException | None) -> SignalExit | None:
    """Find the signal behind an error: a native library may raise its own error when one arrives."""
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
    previous_handlers = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _save_traceback(arguments: list[str]) -> str:
    """Write the traceback that is being handled; where it cannot be written, say so."""
    is_written = append_to_log(f"sonde {' '.join(arguments)}\n{traceback.format_exc()}")
    return str(log_path()) if is_written else "no file, since none could be written"
