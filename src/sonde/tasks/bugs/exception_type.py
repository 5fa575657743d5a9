"""CuBERT's exception type: which of twenty types is caught at the hole?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sonde.base.errors import UsageError
from sonde.corpora import Item
from sonde.corpora.engine.parallel import Spread
from sonde.languages import facet_of
from sonde.languages.engine.bug_sites import Bugs, Spot
from sonde.tasks.engine.bugs import BugExample, BugTask, Choice, choice_of
from sonde.tasks.engine.sampling import DatasetRequest, Pool

HOLE = "__HOLE__"


class ExceptionType(BugTask):
    """A function with one type in one of its handlers hidden; other mentions of the type stay.

    Classes are as frequent as they are in code.
    """

    name = "exception_type"
    labels = (
        *("ValueError", "KeyError", "AttributeError", "TypeError", "OSError", "IOError", "ImportError"),
        *("IndexError", "DoesNotExist", "KeyboardInterrupt", "StopIteration", "AssertionError", "SystemExit"),
        *("RuntimeError", "HTTPError", "UnicodeDecodeError", "NotImplementedError", "ValidationError"),
        *("ObjectDoesNotExist", "NameError"),
    )
    version = "2"
    each = 1
    hint = "except"

    def variants(self, text: str, bugs: Bugs, choice: Choice) -> tuple[BugExample, ...]:
        """See `BugTask.variants`."""
        place = _place(text, bugs, choice)
        if place is None:
            return ()
        changed = text[: place.start] + HOLE + text[place.end :]
        return (BugExample(place.surface, changed, "", place.start, place.start + len(HOLE)),)

    def drawn(
        self, pool: Pool, sides: Mapping[str, str], asked: DatasetRequest, spread: Spread
    ) -> Iterator[tuple[Item, Sequence[BugExample]]]:
        """See `BugTask.drawn`.

        Raises:
            UsageError: The language names no types that are asked for.
        """
        if not facet_of(asked.language, "bugs", Bugs).exceptions:
            raise UsageError(
                f"task {self.name!r}: language {asked.language!r} has no types of exceptions to ask for; "
                "name another task or language"
            )
        return super().drawn(pool, sides, asked, spread)

    def as_written(self, item: Item) -> tuple[int, int, str | None]:
        """The type that would be hidden."""
        bugs = facet_of(item.language, "bugs", Bugs)
        place = _place(item.text, bugs, choice_of(0, item))
        return place if place else (0, len(item.text), None)


def _place(text: str, bugs: Bugs, choice: Choice) -> Spot | None:
    caught = bugs.caught(text) if bugs.parses(text) else ()
    return choice.pick(caught, about="exception") if caught else None


task = ExceptionType()
