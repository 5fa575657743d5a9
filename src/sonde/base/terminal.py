"""Terminal output with control characters escaped.

Text by others may contain characters that move the cursor, colour, link, query the terminal, reverse the
reading direction, or start a line that looks like one of sonde's.
"""

from __future__ import annotations

import errno
import os
import sys
import unicodedata

from sonde.base.errors import StoreError


def escape_text(text: object, safe: str = "") -> str:
    r"""Escape unprintable characters as Python does.

    >>> print(escape_text("a\x1b[0m\u202eb\nc\ud800"))
    a\x1b[0m\u202eb\nc\ud800

    Args:
        text: The text, or an object to convert with `str`.
        safe: Characters that are not escaped.
    """
    line = str(text)
    return (
        line
        if line.isprintable()
        else "".join(character if character in safe else _escape_character(character) for character in line)
    )


def _escape_character(character: str) -> str:
    is_visible = character.isprintable() or unicodedata.category(character) == "Zs"
    return character if is_visible else character.encode("unicode_escape").decode()


def reopen_closed_streams() -> None:
    """Redirect standard streams that were closed at the start of the process (``>&-``) to the null device.

    Otherwise the next opened file gets the descriptor of the stream, and what a native library writes to
    standard error would end up in that file.
    """
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def print_lines(*lines: object, err: bool = False) -> None:
    """Print lines to the terminal; all output for a person goes through this function.

    Args:
        lines: Each is printed as one line, escaped by `escape_text`.
        err: Whether to print on standard error, where a failure to write is ignored.

    Raises:
        StoreError: Standard output is a file that cannot be written, for example on a full disk.
    """
    write_text("".join(f"{escape_text(line)}\n" for line in lines), err=err)


def write_text(text: str, *, err: bool = False) -> None:
    """Write a text unescaped; raises as `print_lines`.

    Args:
        text: The text, without control characters by others.
        err: Whether to write to standard error.
    """
    stream = sys.stderr if err else sys.stdout
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # The reader of a closed pipe wants no more.
        if error.errno == errno.EPIPE:
            raise
        if not err:
            raise StoreError(f"cannot write standard output: {error.strerror or error}") from error


def print_note(line: str) -> None:
    """Print a line on standard error."""
    print_lines(line, err=True)
