"""The terminal: text that others wrote is shown there, and never obeyed.

A name may hold what moves the cursor, colours, links, asks the terminal for an answer, turns the direction of
reading, or ends a line and begins one that looks like ours.
"""

from __future__ import annotations

import sys
import unicodedata


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


def say(*lines: object, err: bool = False) -> None:
    """Print lines for a person: all that goes to the terminal goes through here.

    Args:
        lines: Each is one line there, see `escaped`.
        err: On standard error, beside the progress.
    """
    stream = sys.stderr if err else sys.stdout
    stream.write("".join(f"{escaped(line)}\n" for line in lines))
    stream.flush()


def note(line: str) -> None:
    """Print a line on standard error."""
    say(line, err=True)
