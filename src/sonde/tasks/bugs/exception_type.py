"""CuBERT's exception type: which of twenty exception types was removed from a handler?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sonde.base.errors import UsageError
from sonde.corpora import Item
from sonde.corpora.engine.parallel import ParallelMap
from sonde.languages import get_facet
from sonde.languages.engine.bug_sites import BugSites, Spot
from sonde.tasks.engine.bugs import BugExample, BugTask, RandomChoice, make_choice
from sonde.tasks.engine.sampling import DatasetRequest, Pool

SYNONYMS = ("exception classification",)

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
    examples_per_function = 1
    hint = "except"

    def variants(self, text: str, bugs: BugSites, choice: RandomChoice) -> tuple[BugExample, ...]:
        """Hide one type; see `BugTask.variants`."""
        spot = _find_handler_type(text, bugs, choice)
        if spot is None:
            return ()
        changed_text = text[: spot.start] + HOLE + text[spot.end :]
        return (BugExample(spot.surface, changed_text, "", spot.start, spot.start + len(HOLE)),)

    def draw_examples(
        self, pool: Pool, sides: Mapping[str, str], request: DatasetRequest, parallel: ParallelMap
    ) -> Iterator[tuple[Item, Sequence[BugExample]]]:
        """Make the examples; see `BugTask.draw_examples`.

        Raises:
            UsageError: The language names no types that are asked for.
        """
        if not get_facet(request.language, "bugs", BugSites).exceptions:
            raise UsageError(
                f"task {self.name!r}: language {request.language!r} has no exception types for this task; "
                f"use another task or language"
            )
        return super().draw_examples(pool, sides, request, parallel)

    def original_label(self, item: Item) -> tuple[int, int, str | None]:
        """Return the type that would be hidden."""
        bugs = get_facet(item.language, "bugs", BugSites)
        spot = _find_handler_type(item.text, bugs, make_choice(0, item))
        return spot if spot else (0, len(item.text), None)


def _find_handler_type(text: str, bugs: BugSites, choice: RandomChoice) -> Spot | None:
    handler_types = bugs.caught_exceptions(text) if bugs.parses(text) else ()
    return choice.pick(handler_types, subject="exception") if handler_types else None


task = ExceptionType()
