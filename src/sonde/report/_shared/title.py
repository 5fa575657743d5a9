"""What a lens says at the top of the page, declared by the folder of its sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sonde.base.registry import Registry
from sonde.report._shared.against import LensQuestion
from sonde.report._shared.answers import LensAnswer, answers
from sonde.report._shared.joined import JoinedNumber
from sonde.report._shared.plot import Table
from sonde.report._shared.run import RunData
from sonde.report._shared.tokens import TokenLens


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A number shown large, with its interval, which is empty where none is known."""

    label: str
    value: str
    interval: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """The headline of a page and what stands beneath it.

    Attributes:
        headline: The finding in a few words.
        template: File below ``report`` that writes the sentences under it.
        context: What the template needs.
        note: What a reader has to know of every number above it.
        tiles: The few numbers shown large.
        table: Every overall number.
        intervals: How its intervals were made.
    """

    headline: str
    template: str
    context: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    tiles: Sequence[Tile] = ()
    table: Table | None = None
    intervals: str = ""


class Title(Protocol):
    """What the folder of a lens's sections declares as ``title``; most leave it at `PlainTitle`."""

    @property
    def name(self) -> str:
        """Heading of all its sections."""
        ...

    @property
    def question(self) -> LensQuestion | None:
        """Which number speaks for it on the first screen; None leaves that to its scores."""
        ...

    @property
    def cites(self) -> Sequence[str]:
        """Keys of the papers that its method is from, see `sonde.report._shared.papers`."""
        ...

    @property
    def explained(self) -> str:
        """How its numbers are made, in sentences for the part that says what was measured."""
        ...

    @property
    def in_float32(self) -> str:
        """What of it is computed in float32 whatever the weights are; empty for nothing."""
        ...

    @property
    def joined(self) -> JoinedNumber | None:
        """What it offers for the table over lenses; None for nothing."""
        ...

    @property
    def tokens(self) -> TokenLens | None:
        """What it offers for the explorer of tokens; None for nothing."""
        ...

    def top(self, run: RunData) -> Top | None:
        """The headline of the page; None where its sections say all that there is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTitle:
    """The title of a lens whose findings are sentences among others at the top of the page."""

    name: str
    question: LensQuestion | None = None
    cites: Sequence[str] = ()
    explained: str = ""
    in_float32: str = ""
    joined: JoinedNumber | None = None
    tokens: TokenLens | None = None

    def top(self, run: RunData) -> Top | None:
        """No headline of its own."""
        return None


TITLES: Registry[Title] = Registry("sonde.report", "folder of sections", "title")


def titles(run: RunData) -> dict[str, Title]:
    """What the lenses that have scores declare, by lens; those handed in from outside declare nothing."""
    known = {header.name for header in TITLES.headers()}
    return {lens: TITLES.load(lens) for lens in run.scored_lenses if lens in known}


def first_screen(run: RunData) -> list[LensAnswer]:
    """What each lens of a run answers in one row, the same on the page and in the terminal."""
    declared = titles(run).items()
    return answers(run, {lens: title.question for lens, title in declared if title.question})
