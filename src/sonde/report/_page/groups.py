"""The sections of a page by lens, and its contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sonde.report._page.header import Facts, asked
from sonde.report._shared.plot import Section
from sonde.report._shared.run import RunData
from sonde.report._shared.title import Title, Top
from sonde.results.words import plain_words


@dataclass(frozen=True, slots=True, kw_only=True)
class LensGroup:
    """The sections of one lens.

    Attributes:
        lens: Public name of the lens.
        name: Heading of the group.
        lead: Its finding in a sentence.
        top: What the lens says above its sections.
        sections: In their order.
        contents: Name and short title of each.
        tasks: By family the tasks that it scored, as its sections abbreviate them, with what they ask.
    """

    lens: str
    name: str
    lead: str
    top: Top | None
    sections: list[Section]
    contents: list[tuple[str, str]]
    tasks: list[tuple[str, Facts]]


def name_of(lens: str, declared: Mapping[str, Title]) -> str:
    """What a lens is called on the page."""
    return declared[lens].name if lens in declared else plain_words(lens).capitalize()


def groups_of(
    run: RunData,
    sections: Sequence[Section],
    declared: Mapping[str, Title],
    leads: Mapping[str, str],
    tops: Mapping[str, Top],
) -> list[LensGroup]:
    """The sections by lens, in the order of the first section of each; lenses without one have their lead."""
    held: dict[str, list[Section]] = {}
    for section in sections:
        held.setdefault(section.plot.lens, []).append(section)
    for lens in leads:
        held.setdefault(lens, [])
    return [
        LensGroup(
            lens=lens,
            name=name_of(lens, declared),
            lead=leads.get(lens, ""),
            top=tops.get(lens),
            sections=own,
            contents=_contents(own, name_of(lens, declared)),
            tasks=asked(run, lens),
        )
        for lens, own in held.items()
    ]


def _contents(sections: list[Section], group: str) -> list[tuple[str, str]]:
    """Where each section is, and its short name: before the colon, or after it if shared or the group's."""
    parts = [section.plot.title.partition(":") for section in sections]
    before = Counter(first for first, _, _ in parts)
    return [
        (section.name, first if before[first] == 1 and first != group else rest.strip().capitalize() or first)
        for section, (first, _, rest) in zip(sections, parts, strict=True)
    ]
