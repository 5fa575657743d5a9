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
        REFERENCE, "tokenizer that cuts names into subtokens: a bundled model or a tokenizer.json"
    )


class PromptOptions(QueryOptions):
    """Options of the queries that are asked in words."""

    lens = "prompting"

    templates: tuple[Annotated[str, OneOf(PROMPTED)], ...] = option(
        PROMPTED, "which statements are asked about"
    )


class PairOptions(QueryOptions):
    """Options of pairs of names, one of them the better."""

    scope: Annotated[str, OneOf(SCOPES)] = option(
        SHARED,
        "shared for names that others can use (public, and called from outside the repository that defines "
        "them, or documented), public for all without a leading underscore on their path, all for every name",
    )
    per_library: Count = option(PER_LIBRARY, "names of a library at most, so that no large one decides")
    deprecated: str = option(
        "",
        "for task api_deprecated: CSV file with the columns deprecated and replacement, in place of the "
        "pairs that the corpus states",
        file_name=True,
    )


class StatementOptions(PairOptions):
    """Options of the queries that are cut from statements."""

    templates: tuple[Annotated[str, OneOf(TEMPLATES)], ...] = option(
        TEMPLATES, "which statements are asked about"
    )
    libraries: tuple[str, ...] = option(
        (), "libraries whose names alone are asked about, so that each has enough of them; all by default"
    )
    within: Annotated[str, OneOf(WITHIN)] = option(
        "file", "file for every call, function for those inside functions alone"
    )
    propagate: bool = option(False, "calls on what an imported name gave count, one step far")
    training: str = option(
        "",
        "a corpus by name: names of its libraries count as seen, for models that do not say what they were "
        "trained on",
        corpus_name=True,
    )
    frames: Share = option(
        0.05, "share of the names whose calls and imports are also asked with other code around them"
    )
    imports: Share = option(
        0.0, "share of the names whose calls are also asked behind the imports of a file that calls them"
    )
    release: str = option(
        "",
        "a release of a library, as pypi:NAME==VERSION: its public names are asked about",
        corpus_name=True,
    )
    earlier_release: str = option(
        "", "an earlier release: names that it lacks are told apart from those that it has", corpus_name=True
    )
    contexts: Annotated[int, Ge(0), Le(MAXIMUM_INTEGER)] = option(
        0, "at most so many lines of words before a statement, each a cloze query of its own"
    )
    queries: str = option(
        "", "JSON file of words by name, in place of the first lines of documentation", file_name=True
    )
    separator: str = option("\n", "what stands between words and statement")
    objective: Annotated[str, OneOf((MASKED, CANDIDATES, PLL, ANSWERS))] = option(
        MASKED,
        "masked: one subtoken is left out, of decoders those with tokens for filling in; candidates: "
        "whole statements with each of several names, which decoders score from left to right and other "
        "models by pseudo-log-likelihood; pll: the same, without decoders; answers: of each of several names "
        "its own subtokens alone are scored, all of them; where none is named, candidates if a decoder is "
        "among the models",
    )
    candidates: Annotated[int, Ge(2), Le(MAXIMUM_CANDIDATES)] = option(
        MAXIMUM_CANDIDATES, "names for each level at most, with candidates, pll and answers"
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
