"""What is read of a reply: the published way, and a lenient one that takes a list as chat models write it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sonde.lenses.prompting.prompt import LISTED

_INDEXED = re.compile(r"^\s*\d+[.):]?\s*(?P<answer>.*?)\s*$")
_QUOTES = "`'\"“”‘’*"

_THINKING = re.compile(r"^\s*<think(?:ing)?>(?P<thinking>.*?)(?:</think(?:ing)?>|\Z)", re.DOTALL)
_ENTRY = re.compile(r"^\s*(?:\d+\s*[.):\]]|\d+\s+|[-*+•–]\s)\s*(?P<answer>.+?)\s*$")
_RULE = re.compile(r"^[\s|:+-]*$")
_QUOTED = re.compile(r"`+([^`]+)`+|\*\*([^*]+)\*\*")
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_BEFORE, _BEHIND = re.compile(r"[\w.]*$"), re.compile(r"[\w.]*")
_REFUSING = re.compile(
    r"\b(?:I(?:'m| am) (?:sorry|unable|not able)|I (?:can(?:no|')?t|cannot|won't|will not|do not|don't)"
    r"|as an AI\b|(?:can(?:no|')t|cannot) (?:help|assist|comply|provide))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedAnswers:
    """What a reply says.

    Attributes:
        strict: Distinct answers of lines with an index, in their order, at most `LISTED`: the published way.
        lenient: Distinct names of numbered and bulleted lines, of table rows and of lines that hold a name
            alone; of a whole name (``np.zeros`` for ``np.<mask>``) the part that was left out.
        thinking: What stands before the reply between ``<think>`` and ``</think>``, which no answer is read
            of.
        refused: Whether it lists nothing either way and says that it will not, or cannot.
    """

    strict: tuple[str, ...]
    lenient: tuple[str, ...]
    thinking: str
    refused: bool


def read(reply: str, prefix: str = "", suffix: str = "") -> ListedAnswers:
    r"""Read a reply both ways.

    Args:
        reply: The reply, with what the model thinks before it if that is part of it.
        prefix: What stands before the part that was left out.
        suffix: What stands behind it.

    >>> read("Sure!\n1. `zeros`\n2) 'ones'\n3: zeros\n\nI hope this helps.").strict
    ('zeros', 'ones')
    >>> read("- **zeros**: an array of zeros\n- `np.ones()`", prefix="np.").lenient
    ('zeros', 'ones')
    >>> read("| # | name |\n|---|---|\n| 1 | `zeros(shape)` |").lenient
    ('zeros',)
    >>> read("I'm sorry, I cannot help with that.").refused
    True
    """
    found = _THINKING.match(reply)
    said = reply[found.end() :] if found else reply
    strict = _first(_indexed(said))
    lenient = _first(filter(None, (_left_out(name, prefix, suffix) for name in _names(said))))
    refused = not strict and not lenient and _REFUSING.search(said) is not None
    return ListedAnswers(
        strict=strict, lenient=lenient, thinking=found["thinking"].strip() if found else "", refused=refused
    )


def _first(answers: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(answers))[:LISTED]


def _indexed(said: str) -> Iterator[str]:
    """Lines with an index, without quotes and backticks."""
    for line in said.splitlines():
        match = _INDEXED.match(line)
        if match is not None and (answer := match["answer"].strip(_QUOTES).strip()):
            yield answer


def _names(said: str) -> Iterator[str]:
    """Names, one a line; of lines of prose none."""
    lines = said.splitlines()
    for place, line in enumerate(lines):
        row = line.strip()
        if row.startswith("|") and row.count("|") > 1:
            # The row above the rule of a table is its heading.
            heading = place + 1 < len(lines) and "-" in lines[place + 1] and _RULE.match(lines[place + 1])
            cells = [] if heading or _RULE.match(row) else row.strip("|").split("|")
            names = (_name(cell) for cell in cells if not cell.strip().rstrip(".").isdigit())
            yield from [name for name in names if name][:1]
        elif entry := _ENTRY.match(line):
            if name := _name(entry["answer"]):
                yield name
        elif _NAME.fullmatch(bare := row.strip(_QUOTES + ",;").removesuffix("()").strip(_QUOTES)):
            yield bare


def _name(entry: str) -> str:
    """The name that an entry of a list begins with: what is quoted first, else its first word."""
    quoted = _QUOTED.search(entry)
    text = (quoted[1] or quoted[2]) if quoted else entry
    match = _NAME.match(text.strip().strip(_QUOTES).lstrip("."))
    return match[0] if match else ""


def _left_out(name: str, prefix: str, suffix: str) -> str:
    """Of a name the part that was left out, where it repeats what stands around it.

    >>> _left_out("np.zeros_like", "np.zeros", "(")
    '_like'
    >>> _left_out("numpy.zeros", "np.", "(")
    'zeros'
    """
    before, behind = _BEFORE.search(prefix), _BEHIND.match(suffix)
    if before and before[0] and name.startswith(before[0]):
        name = name.removeprefix(before[0])
    elif before and before[0].endswith("."):
        name = name.rpartition(".")[2]
    return name.removesuffix(behind[0]) if behind and name != behind[0] else name
