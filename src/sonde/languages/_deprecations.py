"""What a file says of its own names: that one is deprecated or removed, and which takes its place.

Files are read, never run. A language's `deprecations.scm` finds the messages; what a message names is read
here: a replacement is what a message says to use, written as a name. Messages about parameters, about ways to
call something, or with words in place of a name give no pair.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"
_MARKED = rf"(?::[a-z:]+:)?[`'\"]+~?(?P<marked>{_NAME})(?:\([^`'\"]*\))?[`'\"]+"
_BARE = rf"(?P<bare>{_NAME})(?P<call>\(\))?(?=\s+instead|\s*[.,;:]?\s*$|\s*[.;]\s|\()"
_VERB = r"(?:use|switch(?:ing)? to|replaced (?:by|with)|in favou?r of|renamed(?: to)?|prefer)"
_IN_A_CASE = r"(?!\s+(?:when|if|unless|where)\b)"
_SUBSTITUTE = re.compile(rf"\b{_VERB}\s+(?:the\s+)?(?:{_MARKED}|{_BARE}){_IN_A_CASE}", re.IGNORECASE)
_ABOUT = re.compile(
    rf"^\W*(?:the\s+)?(?:(?:function|method|class|property|attribute|module)\s+)?(?::[a-z:]+:)?[`'\"]*~?"
    rf"(?P<name>{_NAME})(?:\(\))?[`'\"]*(?:\s+(?:function|method|class|property|attribute))?"
    r"\s+(?:is|was|are|were|has been|have been|will be)\s+(?:now\s+|an?\s+)?(?:deprecated|removed|renamed)\b"
    r"(?!\s+(?:when|if|unless|with|without)\b)",
    re.IGNORECASE,
)
_ABOUT_ITSELF = re.compile(
    r"^\W*(?:(?:please\s+)?use\b(?!\s+of\b)|deprecated\b(?!\s+(?:argument|parameter|keyword|option|value)s?\b)|"
    r"(?:this|the) (?:method|function|class|property|attribute)\s+(?:is|was|has been|will be)\b|"
    r"(?:it )?(?:is|was|has been) (?:deprecated|removed)\b|"
    r"(?:renamed|replaced|superseded|in favou?r of|prefer|switch)\b)",
    re.IGNORECASE,
)
_WORDS = frozenset(("a", "an", "the", "it", "this", "that", "of", "to", "with", "your", "one", "instead"))

NO_REPLACEMENT, NOT_ITSELF = "names no replacement", "is about something else"


@dataclass(frozen=True, slots=True, order=True)
class Deprecation:
    """A name that should no longer be used, and the one to use.

    Attributes:
        deprecated: The old name, fully qualified.
        replacement: The new one, fully qualified.
        members: Levels at the end of each that are members of a class, which no import can name.
        start: First character of the definition or statement that says so.
    """

    deprecated: str
    replacement: str
    members: tuple[int, int]
    start: int


@dataclass(frozen=True, slots=True)
class Said:
    """What a message says, in names as written.

    Attributes:
        about: What is deprecated; empty for the definition that the message stands in.
        replacement: What takes its place.
    """

    about: str
    replacement: str


@runtime_checkable
class Deprecations(Protocol):
    """The facet ``deprecations`` of a language."""

    @property
    def version(self) -> str:
        """Raised when an answer changes."""
        ...

    def read(self, text: str, path: str) -> tuple[list[Deprecation], Counter[str]]:
        """The pairs of a file, and why messages gave none.

        Args:
            text: The whole file.
            path: Path from the root of its imports, as `Imports.rooted` gives it.
        """
        ...

    def public(self, names: Iterable[str], files: Iterable[tuple[str, str]]) -> Mapping[str, str]:
        """The name under which users import each of some names.

        Args:
            names: Fully qualified, as `read` gives them.
            files: Text and path, as for `read`, of all files of the repository.
        """
        ...


def said(message: str) -> Said | str:
    """What a message about a deprecation says, or why it gives no pair.

    >>> said("readmailcapfile is deprecated, use getcaps instead")
    Said(about='readmailcapfile', replacement='getcaps')
    >>> said("This method is deprecated. Use `find_spec` instead.")
    Said(about='', replacement='find_spec')
    >>> said("Passing None to split() is deprecated, use join instead")
    'is about something else'
    >>> said("keyfile is deprecated, use a custom context instead")
    'names no replacement'
    >>> said("The ``'auto'`` engine options are deprecated. Use 'fast' instead.")
    'is about something else'
    """
    words = " ".join(message.split())
    substitute = next((one for one in map(_substitute, _SUBSTITUTE.finditer(words)) if one), "")
    if not substitute:
        return NO_REPLACEMENT
    about = _ABOUT.match(words)
    if about is not None and about["name"].lower() not in _WORDS:
        return Said(about["name"], substitute)
    return Said("", substitute) if _ABOUT_ITSELF.match(words) else NOT_ITSELF


def _substitute(found: re.Match[str]) -> str:
    name = found["marked"] or found["bare"] or ""
    return "" if name.lower() in _WORDS else name
