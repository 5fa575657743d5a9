"""Options of tasks about names of APIs, as far as they concern the queries.

The lenses that ask the queries add options of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

from annotated_types import Ge, Le
from pydantic import TypeAdapter, ValidationError

from sonde.base.errors import InputError
from sonde.base.files import expand_home
from sonde.base.options import MAXIMUM_INTEGER, Count, OneOf, Options, Share, option
from sonde.tasks.engine.api_names import ALL, SCOPES, SHARED, WITHIN
from sonde.tasks.engine.cloze_statements import ALIAS, CALL, IMPORT, MAXIMUM_CANDIDATES, TEMPLATES

TASK = "api_cloze"


PROVIDED_TEMPLATE = "clozetest"
"""Template of the queries that a published file provides."""


PER_LIBRARY = 50


REFERENCE = "sonde/mini-encoder"


MASKED, CANDIDATES, PLL, ANSWERS = "masked", "candidates", "pll", "answers"


PROMPTED = (CALL, IMPORT, ALIAS)


class QueryOptions(Options):
    """Options of every task about names of APIs."""

    lens = "cloze"

    reference: str = option(
        REFERENCE, "tokenizer that splits names into subtokens: a bundled model or a tokenizer.json"
    )


class PromptOptions(QueryOptions):
    """Options of the queries that are asked in words."""

    lens = "prompting"

    templates: tuple[Annotated[str, OneOf(PROMPTED)], ...] = option(
        PROMPTED, "kinds of statements to make queries from"
    )


class PairOptions(QueryOptions):
    """Options of pairs of names, one of them the better."""

    scope: Annotated[str, OneOf(SCOPES)] = option(
        SHARED,
        "shared: names for others to use (public, and documented or called from outside their repository); "
        "public: names without a leading underscore in their path; all: every name",
    )
    per_library: Count = option(PER_LIBRARY, "maximum names per library, so that no large library dominates")
    deprecated: str = option(
        "",
        "for task api_deprecated: CSV file with the columns deprecated and replacement, instead of the "
        "corpus's own pairs",
        file_name=True,
    )


class StatementOptions(PairOptions):
    """Options of the queries that are cut from statements."""

    templates: tuple[Annotated[str, OneOf(TEMPLATES)], ...] = option(
        TEMPLATES, "kinds of statements to make queries from"
    )
    libraries: tuple[str, ...] = option(
        (), "only ask about names of these libraries, so that each has enough; default: all"
    )
    within: Annotated[str, OneOf(WITHIN)] = option(
        "file", "file: every call; function: only calls inside functions"
    )
    propagate: bool = option(False, "also count calls on the result of an imported name, one step deep")
    training: str = option(
        "",
        "corpus whose libraries count as seen in training, for models that do not list their training data",
        corpus_name=True,
    )
    frames: Share = option(
        0.05, "share of the names whose calls and imports are also queried with other code around them"
    )
    imports: Share = option(
        0.0, "share of the names whose calls are also queried after the imports of a file that calls them"
    )
    release: str = option(
        "",
        "release of a library, as pypi:NAME==VERSION, whose public names are queried",
        corpus_name=True,
    )
    earlier_release: str = option(
        "", "earlier release, to separate names that are new since then", corpus_name=True
    )
    contexts: Annotated[int, Ge(0), Le(MAXIMUM_INTEGER)] = option(
        0, "maximum lines of documentation to put before a statement, each as a query of its own"
    )
    queries: str = option(
        "", "JSON file with words for each name, instead of the first lines of documentation", file_name=True
    )
    separator: str = option("\n", "text between the words and the statement")
    objective: Annotated[str, OneOf((MASKED, CANDIDATES, PLL, ANSWERS))] = option(
        MASKED,
        "masked: predict one missing subtoken (decoders need fill-in tokens); candidates: score the whole "
        "statement with each of several names; pll: the same, without decoders; answers: score only the "
        "subtokens of each of several names. Decoders score whole statements from left to right, other "
        "models by pseudo-log-likelihood. Default: candidates if a decoder is among the models, else masked",
    )
    candidates: Annotated[int, Ge(2), Le(MAXIMUM_CANDIDATES)] = option(
        MAXIMUM_CANDIDATES, "maximum candidate names per level, with candidates, pll and answers"
    )

    @classmethod
    def of_every_name(
        cls,
        templates: Sequence[str] = TEMPLATES,
        reference: str = REFERENCE,
        per_library: int = MAXIMUM_INTEGER,
    ) -> Self:
        """Return the options that ask about all names of a corpus, the statements alone."""
        return cls.read(
            {
                "templates": tuple(templates),
                "reference": reference,
                "scope": ALL,
                "per_library": per_library,
                "frames": 0.0,
            }
        )

    def read_words(self) -> Mapping[str, Sequence[str]]:
        """Read the words for each name.

        Raises:
            InputError: The file of queries cannot be read.
        """
        if not self.queries:
            return {}
        try:
            return TypeAdapter(dict[str, list[str]]).validate_json(expand_home(self.queries).read_bytes())
        except OSError:
            raise InputError(f"queries {self.queries!r}: no such file") from None
        except ValidationError:
            raise InputError(
                f'queries {self.queries!r}: not of the form {{"name": ["words", ...]}}'
            ) from None
