"""CuBERT's exception type: which of twenty types is caught at the hole?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sonde.base.errors import UsageError
from sonde.corpora import Item
from sonde.corpora.engine.parallel import ParallelMap
from sonde.languages import get_facet
from sonde.languages.engine.bug_sites import BugSites, Spot
from sonde.tasks.engine.bugs import BugExample, BugTask, RandomChoice, make_choice
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

    def variants(self, text: str, bugs: BugSites, choice: RandomChoice) -> tuple[BugExample, ...]:
        """Hide one type; see `BugTask.variants`."""
        place = _find_handler_type(text, bugs, choice)
        if place is None:
            return ()
        changed = text[: place.start] + HOLE + text[place.end :]
        return (BugExample(place.surface, changed, "", place.start, place.start + len(HOLE)),)

    def draw_examples(
        self, pool: Pool, sides: Mapping[str, str], asked: DatasetRequest, spread: ParallelMap
    ) -> Iterator[tuple[Item, Sequence[BugExample]]]:
        """Make the examples; see `BugTask.draw_examples`.

        Raises:
            UsageError: The language names no types that are asked for.
        """
        if not get_facet(asked.language, "bugs", BugSites).exceptions:
            raise UsageError(
                f"task {self.name!r}: language {asked.language!r} has no types of exceptions to ask for; "
                "name another task or language"
            )
        return super().draw_examples(pool, sides, asked, spread)

    def original_label(self, item: Item) -> tuple[int, int, str | None]:
        """Return the type that would be hidden."""
        bugs = get_facet(item.language, "bugs", BugSites)
        place = _find_handler_type(item.text, bugs, make_choice(0, item))
        return place if place else (0, len(item.text), None)


def _find_handler_type(text: str, bugs: BugSites, choice: RandomChoice) -> Spot | None:
    caught = bugs.caught_exceptions(text) if bugs.parses(text) else ()
    return choice.pick(caught, about="exception") if caught else None


task = ExceptionType()
