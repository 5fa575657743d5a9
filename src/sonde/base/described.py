"""Options as a person reads them, each a row, from the declarations that check their values.

Fields of plain data (`sonde.base.checked`) say what they are in their annotation, fields of typed options
(`sonde.base.options`) in `option`; both are described here alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sonde.base.checked import Help, annotated_fields
from sonde.base.values import Values

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One option.

    Attributes:
        name: Its name, where it is set in a file.
        values: What it can be.
        line: What it is, in one line that begins small and has no full stop.
        default: Its value where a user gives none.
        unset: What then holds, in words, where the value itself does not say it.
        flag: Its name on a command line; empty where it has none of its own.
        scoring: Whether it changes scores alone, so that nothing is forwarded again for it.
    """

    name: str
    values: Values
    line: str
    default: object = None
    unset: str = ""
    flag: str = ""
    scoring: bool = False

    @property
    def default_words(self) -> str:
        """What holds where a user gives nothing."""
        spelled = self.values.spelled(self.default).replace("\n", "a newline")
        return self.unset or ("none" if self.default in (None, "", ()) else spelled)

    @property
    def sentence(self) -> str:
        """What it is, can be and is by default."""
        return f"{self.line} ({self.values}; default {self.default_words})"

    @property
    def help(self) -> str:
        """The help of its flag, which takes several values by being repeated."""
        begin = f"{self.line[:1].upper()}{self.line[1:]}"
        if self.values.kind is bool:
            return f"{begin}."
        said = [self.values.range] if self.values.range and self.values.range not in self.line else []
        said += ["may be repeated"] if self.values.several else []
        said += [f"default {self.default_words}"] if self.default_words != "none" else []
        return f"{begin} ({'; '.join(said)})." if said else f"{begin}."


def described_fields(kind: type[DataclassInstance], table: str = "") -> tuple[Described, ...]:
    """The fields of plain data that a person sets: those that say what they are with `Help`.

    Args:
        kind: The dataclass.
        table: The table of a file that holds them; empty for the file itself.
    """
    annotated = annotated_fields(kind)
    rows: list[Described] = []
    for field in dataclasses.fields(kind):
        said = next((mark for mark in annotated[field.name].metadata if isinstance(mark, Help)), None)
        if said is None:
            continue
        missing = field.default is dataclasses.MISSING
        rows.append(
            Described(
                name=f"{table}.{field.name}" if table else field.name,
                values=Values.of(annotated[field.name]),
                line=said.line,
                default=None if missing else field.default,
                unset=said.unset,
                flag=said.flag,
            )
        )
    return tuple(rows)


def named(lines: Mapping[str, str]) -> tuple[Described, ...]:
    """Options that are known by name and line alone, as those of a lens from outside may be."""
    anything = Values(object)
    return tuple(
        Described(name=name, values=anything, line=line, unset="see there") for name, line in lines.items()
    )


COLUMNS: Mapping[str, Callable[[Described], str]] = {
    "option": lambda one: one.name,
    "flag": lambda one: one.flag,
    "type": lambda one: one.values.type,
    "default": lambda one: one.default_words,
    "range or choices": lambda one: one.values.range,
    "scores alone": lambda one: "yes" if one.scoring else "",
    "what it is": lambda one: one.line,
}
"""What a table says of an option, by title."""


def table_of(options: Sequence[Described]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Titles and rows of a table of options; a column that is empty for all of them is left out."""
    shown = [title for title, cell in COLUMNS.items() if any(map(cell, options))]
    return tuple(shown), [tuple(COLUMNS[title](one) for title in shown) for one in options]
