"""What a paper published stands in for the rule of a lens, at a seam that the lens declares.

A lens knows its seams and never what stands in at them. A paper hands over its quirks of a lens by an entry
point of the group `GROUP`, named ``<lens>.<paper>`` (sonde's own lie in `sonde.papers`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sonde.base.options import Option
from sonde.base.outside import check_published, offered, published
from sonde.lenses._lens import LensSettings

GROUP = "sonde.lenses.quirks"

T = TypeVar("T")
P = ParamSpec("P")


class Seam(Generic[T, P]):
    """A place where a lens has a published rule change what its own gave; P is what the rule is told besides.

    Args:
        lens: Public name of the lens.
    """

    def __init__(self, lens: str) -> None:
        self._lens = lens

    def quirk(self, rule: Callable[Concatenate[T, P], T], *tasks: str) -> PublishedRule:
        """What a paper hands over: a function from the corrected thing to the published one.

        Args:
            rule: The function.
            tasks: Tasks whose labels it asks for beside those of the lens.
        """
        return PublishedRule(self, rule, tasks)

    def as_asked(self, settings: LensSettings, corrected: T, *told: P.args, **named: P.kwargs) -> T:
        """The thing itself where no quirk of this seam is on, else as published."""
        for quirk in quirks_on(self._lens, settings):
            if quirk.published is not None and quirk.published.seam is self:
                corrected = quirk.published.rule(corrected, *told, **named)
        return corrected


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRule:
    """A published rule, the seam that it stands at, and tasks whose labels it asks for."""

    seam: Seam[Any, ...]
    rule: Callable[..., Any]
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Quirk:
    """What the released code of a paper does otherwise than a lens.

    Attributes:
        name: Its name, ``<paper>.<what>``.
        line: What the published code does.
        published: The published rule and its seam. None for a switch of the lens, which changes what a model
            is fed, and for what a task labels otherwise.
    """

    name: str
    line: str
    published: PublishedRule | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HandedOver:
    """What a paper hands over of a lens.

    Attributes:
        quirks: Its quirks, all on in paper mode.
        options: The values that options of the lens have in paper mode where none is given.
    """

    quirks: tuple[Quirk, ...]
    options: Mapping[str, Option] = field(default_factory=dict[str, Option])


def published_of(lens: str) -> tuple[HandedOver, ...]:
    """What papers published of a lens."""
    names = (name for name in sorted(offered(GROUP)) if name.partition(".")[0] == lens)
    return tuple(published(GROUP, name) for name in names)


def quirk_lines_of(lens: str) -> Mapping[str, str]:
    """The quirks of a lens, with one line each."""
    return {quirk.name: quirk.line for one in published_of(lens) for quirk in one.quirks}


def tasks_behind(lens: str, on: Collection[str]) -> tuple[str, ...]:
    """Tasks whose labels some quirks of a lens ask for, beside those that the lens always asks."""
    rules = (quirk.published for one in published_of(lens) for quirk in one.quirks if quirk.name in on)
    return tuple(task for rule in rules if rule is not None for task in rule.tasks)


def quirks_on(lens: str, settings: LensSettings) -> tuple[Quirk, ...]:
    """The quirks of a lens that are on: all of them in paper mode, else those that were named.

    Raises:
        InputError: Quirks are on, and what papers published is not registered.
    """
    everything = settings.mode == "paper"
    if not everything and not settings.quirks:
        return ()
    check_published(GROUP)
    known = (quirk for one in published_of(lens) for quirk in one.quirks)
    return tuple(quirk for quirk in known if everything or quirk.name in settings.quirks)


def paper_options(lens: str, settings: LensSettings) -> Mapping[str, Option]:
    """The values that options of a lens have where none is given: those of paper mode, else none."""
    if settings.mode != "paper":
        return {}
    return {name: value for one in published_of(lens) for name, value in one.options.items()}
