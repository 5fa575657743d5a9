"""SRI: is one identifier replaced by another of the same function?"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from sonde.languages.engine.edits import replace_spans
from sonde.tasks.engine.faults import Fault, FaultContext, Mutation, Stratum

SYNONYMS = ("swapped identifier", "wrong identifier")


class SwitchRandomIdentifier(Mutation):
    """Code as written, or with one occurrence of an identifier replaced by another name of the function.

    The occurrence and the one whose name it takes are drawn alike, so that no name gains or loses by it.
    """

    name = "sri"

    def stratum(self, text: str, context: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum: one name more and one less are each as likely."""
        return () if len({span.surface for span in context.edits.places(text, "name")}) > 1 else None

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace one occurrence, where the function has two names."""
        spans = context.edits.places(text, "name")
        if len({span.surface for span in spans}) > 1:
            span = draw.choice(spans)
            name = draw.choice(
                [candidate.surface for candidate in spans if candidate.surface != span.surface]
            )
            yield Fault(replace_spans(text, (span, name)), ())


task = SwitchRandomIdentifier()
