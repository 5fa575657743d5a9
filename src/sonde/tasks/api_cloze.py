"""Quizzes about the names of APIs: statements of a corpus with a piece of a name left out (INK, section 3).

Calls, imports, aliased imports, and aliased imports under the alias of another module. The quizzes are fixed
in characters by one named reference segmentation; which models are asked never changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.corpora import SourceFile
from sonde.tasks import Dataset
from sonde.tasks._cloze_given import given_quizzes
from sonde.tasks._cloze_items import items_of_quizzes
from sonde.tasks._cloze_options import wanted_of, within_of
from sonde.tasks._cloze_quizzes import Wanted, quizzes
from sonde.tasks._names import gather


class ApiCloze:
    """Makes quizzes of whole files."""

    name = "api_cloze"
    version = "1"
    target = "corpus"

    def collect(self, files: Iterable[SourceFile], *, mode: str = "corrected") -> list[dict[str, Any]]:
        """Every quiz of a corpus with all templates, in `QUIZ_SCHEMA` but for the paths; no mode changes it.

        Raises:
            InputError: There are too few aliases for adversarial quizzes.
        """
        held = list(files)
        given = given_quizzes(held, limit=None, seed=0)
        table = quizzes(gather(held), Wanted()).table if given.is_empty() else given
        return table.drop("paths").to_dicts()

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
        """Draw at most ``size`` quizzes; see `sonde.tasks.DrawingTask`.

        Files that bring quizzes of their own (`codexglue`) are taken as they are.

        Args:
            files: The files of a corpus in one language.
            size: Quizzes wanted.
            seed: Draws other names and other adversarial aliases.
            language: Public name of the language.
            mode: No mode changes the quizzes.
            options: See `sonde.tasks._cloze_options.OPTIONS`; what is not named there is not looked at.

        Raises:
            UsageError: An option that makes no sense.
            InputError: No name gives a quiz under the size, or there are too few aliases.
        """
        held = list(files)
        given = given_quizzes(held, limit=size, seed=seed)
        if not given.is_empty():
            report = {"asked": size, "size": given.height, "files": len(held)}
            return Dataset(self.name, self.version, given, tuple(items_of_quizzes(given)), report)
        gathered = gather(held, within=within_of(options))
        made = quizzes(gathered, wanted_of(options, size, seed))
        if made.table.is_empty():
            raise InputError(
                f"quizzes about names of APIs: {len(gathered.names)} names in {gathered.files} files of "
                f"{language} give none under a limit of {size}; name a larger corpus, or raise the limit"
            )
        report = {
            "asked": size,
            "size": made.table.height,
            "files": gathered.files,
            "names": len(gathered.names),
            "star_imports": gathered.stars,
            "unplaced_imports": gathered.unplaced,
            "left_out": {reason: count for reason, count in made.left_out.items() if count},
            "aliases": _alias_statistics(made.table),
        }
        return Dataset(self.name, self.version, made.table, tuple(items_of_quizzes(made.table)), report)


def _alias_statistics(table: pl.DataFrame) -> dict[str, float | int]:
    """Names with an alias and with several, and how many they have on average (INK, section 5.2)."""
    counts = table.filter(pl.col("template") == "alias").group_by("name").agg(pl.col("alias").n_unique())
    several = (counts["alias"] > 1).sum()
    mean = counts["alias"].mean() if counts.height else 0.0
    assert isinstance(mean, float)
    return {"names": counts.height, "several": int(several), "mean": mean}


task = ApiCloze()
