"""The terminal: text that others wrote is shown there, and never obeyed.

A name may hold what moves the cursor, colours, links, asks the terminal for an answer, turns the direction of
reading, or ends a line and begins one that looks like ours.
"""

from __future__ import annotations

import errno
import os
import sys
import unicodedata

from sonde.base.errors import StoreError


def escaped(text: object, kept: str = "") -> str:
    r"""A text whose every character is seen: what is no sign or blank is written as Python writes it.

    >>> print(escaped("a\x1b[0m\u202eb\nc\ud800"))
    a\x1b[0m\u202eb\nc\ud800

    Args:
        text: The text; of anything else the one that says it.
        kept: Characters that stay as they are.
    """
    line = str(text)
    return line if line.isprintable() else "".join(sign if sign in kept else _visible(sign) for sign in line)


def _visible(sign: str) -> str:
    plain = sign.isprintable() or unicodedata.category(sign) == "Zs"
    return sign if plain else sign.encode("unicode_escape").decode()


def open_closed_streams() -> None:
    """Let standard streams that were closed when the process began (``>&-``) lead nowhere.

    Otherwise Python has none to write to, and the next file that is opened takes its number: what a native
    library writes to standard error would then stand in that file.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def say(*lines: object, err: bool = False) -> None:
    """Print lines for a person: all that goes to the terminal goes through here.

    Args:
        lines: Each is one line there, see `escaped`.
        err: On standard error, beside the progress, which stops no work if it cannot be written.

    Raises:
        StoreError: Standard output leads to a file that cannot be written, such as one on a full disk.
    """
    write_text("".join(f"{escaped(line)}\n" for line in lines), err=err)


def write_text(text: str, *, err: bool = False) -> None:
    """Write a text as it is; see `say` for what is raised.

    Args:
        text: The text, which holds nothing that a terminal obeys.
        err: On standard error.
    """
    stream = sys.stderr if err else sys.stdout
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # A reader that has gone asks for no more.
        if error.errno == errno.EPIPE:
            raise
        if not err:
            raise StoreError(f"cannot write standard output: {error.strerror or error}") from error


def note(line: str) -> None:
    """Print a line on standard error."""
    say(line, err=True)
