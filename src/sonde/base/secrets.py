"""Keeping keys and logins out of what a person or a file gets to read."""

from __future__ import annotations

import os
import re

_LOGIN = re.compile(r"(?<=://)[^/\s'\"]+@")
_NAMED = re.compile(r"TOKEN(?!IZ)|SECRET|PASSW(?:OR)?D|CREDENTIAL|(?:^|_)KEY(?:_|$)", re.IGNORECASE)
_SHORTEST = 8
"""Characters of a key; shorter values, such as ``true``, may stand in any sentence."""

_HIDDEN = "***"


def without_secrets(text: str) -> str:
    """A text without the logins in its addresses and without the values of variables that hold keys.

    A variable of the environment holds a key where its name says so: ``HF_TOKEN``, ``PGPASSWORD``,
    ``AWS_SECRET_ACCESS_KEY``, ``OPENAI_API_KEY``.

    >>> without_secrets("https://me:pass@host/simple cannot be reached")
    'https://***@host/simple cannot be reached'
    """
    text = _LOGIN.sub(f"{_HIDDEN}@", text)
    held = {value for name, value in os.environ.items() if _NAMED.search(name) and len(value) >= _SHORTEST}
    # The longest first: one may be a part of another.
    for value in sorted(held, key=len, reverse=True):
        text = text.replace(value, _HIDDEN)
    return text
