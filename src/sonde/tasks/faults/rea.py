"""REA: is one relational operator replaced by an assignment?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from random import Random

from sonde.languages.engine.edits import Edits, replace_spans
from sonde.tasks.engine.faults import Fault, FaultContext, Mutation, Stratum, sample_by_weight

SYNONYMS = ("wrong comparison", "assignment in condition")

_DRAWS = 6


class RelationalToAssignment(Mutation):
    """Code as written, or with one relational operator replaced by an assignment operator; it still parses.

    The new operator is drawn as often as the corpus has it, so it mostly is ``=``. An untouched function
    beside the faulty one has the same operator, and looks as faulty by all its words: comparisons go with
    ``if``, so that one less would show.

    In Python assignment is a statement: ``if a = b`` does not parse, nor does any relational operator inside
    an expression that becomes ``=``, save in arguments of a call; a parser answers. So the direction is the
    other one there, ``=`` becomes relational (``a == b`` for ``a = b``, a statement that does nothing), which
    parses and is mistyped as easily.
    """

    name = "rea"
    facet = "operators"
    matches_fault_level = True

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """Count each operator that faults put in."""
        return Counter(span.surface for text in texts for span in edits.places(text, edits.confused["taken"]))

    def stratum(self, text: str, context: FaultContext, draw: Random) -> Stratum | None:
        """Draw an operator of the kind that faults put in."""
        edits = context.edits
        replaced_operators, inserted_operators = (
            edits.places(text, kind) for kind in (edits.confused["given"], edits.confused["taken"])
        )
        if not replaced_operators or not inserted_operators:
            return None
        return draw.choice(inserted_operators).surface

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace one operator, unless that would leave none of its kind."""
        replaced_operators = context.edits.places(text, context.edits.confused["given"])
        for _ in range(_DRAWS if len(replaced_operators) > 1 and context.survey else 0):
            sign, span = sample_by_weight(context.survey, draw), draw.choice(replaced_operators)
            yield Fault(replace_spans(text, (span, sign)), sign)


task = RelationalToAssignment()
