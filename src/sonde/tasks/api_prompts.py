"""Cloze queries about the names of APIs, asked in words: as many of each statement (INK, section 4.5).

They are those of ``api_cloze`` with single-piece answers; models list what they think was left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.base.fingerprint import unit_hash
from sonde.corpora import SourceFile
from sonde.tasks import Dataset
from sonde.tasks._cloze_items import items_of_quizzes, listed
from sonde.tasks._cloze_options import PER_LIBRARY, PromptOptions
from sonde.tasks._cloze_quizzes import QuizRules, quizzes
from sonde.tasks._cloze_segments import FIRST, FULL, LAST
from sonde.tasks._names import NameUses, gather


class ApiPrompts:
    """Draws quizzes for prompts."""

    name = "api_prompts"
    version = "1"
    target = "corpus"

    def collect(self, files: Iterable[SourceFile], *, mode: str = "corrected") -> list[dict[str, Any]]:
        """Every such quiz of a corpus, as of `api_cloze`; no mode changes them."""
        return listed(_asked(gather(files), PromptOptions(), 0))

    def draw(
        self,
        files: Iterable[SourceFile],
        *,
        size: int,
        seed: int,
        language: str,
        mode: str,
        options: Mapping[str, Any],
    ) -> Dataset:
        """At most ``size`` quizzes, as many of each template; see `sonde.tasks.DrawingTask`.

        Args:
            files: The files of a corpus in one language.
            size: Quizzes wanted.
            seed: Draws other ones.
            language: Public name of the language.
            mode: No mode changes the quizzes.
            options: ``templates`` and ``reference`` as for ``api_cloze``.

        Raises:
            InputError: No name gives a quiz.
        """
        gathered = gather(files)
        table = _asked(gathered, PromptOptions.among(options), seed)
        templates = table["template"].unique(maintain_order=True).to_list()
        share = max(size // max(len(templates), 1), 1)
        chosen = table.group_by("template", maintain_order=True).head(share)
        if chosen.is_empty():
            raise InputError(
                f"prompts about names of APIs: {len(gathered.names)} names in {gathered.files} files of "
                f"{language} give none; name a larger corpus"
            )
        examples = chosen.with_columns(example_id="quiz_id")
        report = {"asked": size, "size": examples.height, "quizzes": table.height}
        return Dataset(self.name, self.version, examples, tuple(items_of_quizzes(examples)), report)


def _asked(gathered: NameUses, options: PromptOptions, seed: int) -> pl.DataFrame:
    """The quizzes in an order by hash."""
    wanted = QuizRules(
        templates=options.templates,
        reference=options.reference,
        per_library=PER_LIBRARY,
        seed=seed,
    )
    table = quizzes(gathered, wanted).table.filter(pl.col("mode").is_in([FULL, FIRST, LAST]))
    order = [unit_hash("prompts", seed, quiz) for quiz in table["quiz_id"].to_list()]
    return (
        table.with_columns(_order=pl.Series(order, dtype=pl.Float64))
        .sort("_order", "quiz_id")
        .drop("_order")
        .unique("quiz_id", keep="first", maintain_order=True)
    )


task = ApiPrompts()
