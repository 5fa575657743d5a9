"""The instruction of INK's generative variant, and what is read of a reply."""

from __future__ import annotations

import re
from dataclasses import dataclass

MASK = "<mask>"
LISTED = 20
"""Answers asked for."""

INSTRUCTION = (
    f"Predict top-{LISTED} answers of {MASK} part of the following Python API fully qualified name, pay "
    f"attention to the connected characters right after {MASK}. Note the number of masked characters is at "
    f"least one. Print each of {LISTED} answers per line with index"
)
"""As published (INK, section 4.5)."""

_INDEXED = re.compile(r"^\s*\d+[.):]?\s*(?P<answer>.*?)\s*$")
_QUOTES = "`'\"“”‘’*"


@dataclass(frozen=True, slots=True)
class Listed:
    """What a reply lists.

    Attributes:
        answers: Distinct answers in their order, at most `LISTED`.
        refused: Whether no line has an index and an answer.
    """

    answers: tuple[str, ...]
    refused: bool


def instruction(language: str) -> str:
    """The instruction for a language: the published one names Python.

    >>> instruction("java")[33:61]
    'part of the following Java A'
    """
    return INSTRUCTION.replace("Python", language.capitalize())


def prompt_of(language: str, prefix: str, suffix: str) -> str:
    """The instruction, and the statement with the mask in the place of the answer."""
    return f"{instruction(language)}\n{prefix}{MASK}{suffix}"


def listed(reply: str) -> Listed:
    r"""The answers that a reply lists: lines with an index, without quotes and backticks, each once.

    >>> listed("Sure!\n1. `zeros`\n2) 'ones'\n3: zeros\n\nI hope this helps.")
    Listed(answers=('zeros', 'ones'), refused=False)
    >>> listed("I cannot help with that.")
    Listed(answers=(), refused=True)
    """
    found: dict[str, None] = {}
    for line in reply.splitlines():
        match = _INDEXED.match(line)
        if match is not None and (answer := match["answer"].strip(_QUOTES).strip()):
            found.setdefault(answer)
    answers = tuple(found)[:LISTED]
    return Listed(answers, not answers)
