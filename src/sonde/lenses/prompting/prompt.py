"""The instruction of INK's generative variant."""

from __future__ import annotations

from sonde.languages import spelled

MASK = "<mask>"
LISTED = 20
"""Answers asked for."""

INSTRUCTION = (
    f"Predict top-{LISTED} answers of {MASK} part of the following Python API fully qualified name, pay "
    f"attention to the connected characters right after {MASK}. Note the number of masked characters is at "
    f"least one. Print each of {LISTED} answers per line with index"
)
"""As published (INK, section 4.5)."""


def instruction(language: str) -> str:
    """The instruction for a language: the published one names Python.

    >>> instruction("java")[33:61]
    'part of the following Java A'
    """
    return INSTRUCTION.replace("Python", spelled(language))


def prompt_of(language: str, prefix: str, suffix: str) -> str:
    """The instruction, and the statement with the mask in the place of the answer."""
    return f"{instruction(language)}\n{prefix}{MASK}{suffix}"
