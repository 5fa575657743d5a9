"""Real packages and names against made-up ones of the same parts, for the margin between them.

Models that write code invent packages that could exist; what is measured is whether a model finds the real
one likelier. Fakes are checked against every word of the corpus.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sonde.base.errors import InputError
from sonde.corpora import SourceFile
from sonde.corpora.engine.parallel import ONE, ParallelMap
from sonde.languages import get_facet
from sonde.languages.engine.imports import ImportReader
from sonde.tasks.engine.api_names import ALL, PUBLIC, ApiName, NameUses, gather_names
from sonde.tasks.engine.cloze_margins import (
    FAKE_NAME,
    FAKE_PACKAGE,
    FakeNames,
    collect_words,
    margin_items,
    margin_rows,
    margin_table,
    to_label_row,
)
from sonde.tasks.engine.cloze_options import PER_LIBRARY, PairOptions
from sonde.tasks.engine.cloze_queries import REFERENCE, segments
from sonde.tasks.engine.task import Dataset


class ApiFakes:
    """Real names beside made-up ones."""

    name = "api_fakes"
    version = "2"
    target = "corpus"

    def collect(self, files: Iterable[SourceFile], *, mode: str = "corrected") -> list[dict[str, Any]]:
        """Every pair of a corpus with its statements; no mode changes them."""
        held = list(files)
        known = collect_words(file.text for file in held)
        pairs, _ = make_fake_pairs(gather_names(held), known, 0, PER_LIBRARY, REFERENCE, PUBLIC)
        return [to_label_row(row) for row in margin_table(pairs, None, 0).iter_rows(named=True)]

    def draw(
        self,
        files: Iterable[SourceFile],
        *,
        size: int,
        seed: int,
        language: str,
        mode: str,
        options: Mapping[str, Any],
        spread: ParallelMap = ONE,
    ) -> Dataset:
        """At most ``size`` statements of pairs; see `sonde.tasks.DrawingTask`.

        Args:
            files: The files of a corpus in one language.
            size: Statements wanted.
            seed: Makes other fakes and draws other names.
            language: Public name of the language.
            mode: No mode changes the pairs.
            options: ``per_library`` and ``reference`` as for queries.
            spread: Processes that read files; any number gives the same.

        Raises:
            InputError: No name of the corpus has a fake.
        """
        held = list(files)
        gathered = gather_names(held, spread=spread)
        chosen = PairOptions.among(options)
        known = collect_words(file.text for file in held)
        pairs, left_out = make_fake_pairs(
            gathered, known, seed, chosen.per_library, chosen.reference, chosen.scope
        )
        examples = margin_table(pairs, size, seed)
        if examples.is_empty():
            raise InputError(
                f"made-up names in {language}: {len(gathered.names)} names in {gathered.files} files give "
                f"none under a limit of {size}; name a larger corpus, or raise the limit"
            )
        report = {
            "asked": size,
            "size": examples.height,
            "names": len(gathered.names),
            "words": len(known),
            "left_out": dict(sorted(left_out.items())),
        }
        return Dataset(self.name, self.version, examples, tuple(margin_items(examples)), report)


def make_fake_pairs(
    gathered: NameUses, known: set[str], seed: int, per_library: int, reference: str, scope: str
) -> tuple[Sequence[list[dict[str, Any]]], Counter[str]]:
    """A pair a library, under its most called name, and a pair a public name; and how many had no fake."""
    by_language: dict[str, list[ApiName]] = defaultdict(list)
    for name in sorted(gathered.names.values(), key=lambda one: (-one.calls, one.name, one.kind)):
        levels = name.name.split(".")
        if len(levels) > get_facet(name.language, "imports", ImportReader).library_levels and gathered.usable(
            name, PUBLIC if scope == ALL else scope
        ):
            by_language[name.language].append(name)
    pairs: list[list[dict[str, Any]]] = []
    left_out: Counter[str] = Counter()
    for language, names in sorted(by_language.items()):
        facet = get_facet(language, "imports", ImportReader)
        at = facet.library_levels - 1
        for pair, level in ((FAKE_PACKAGE, at), (FAKE_NAME, -1)):
            chosen = _select_names(names, 1 if pair == FAKE_PACKAGE else per_library)
            parts = [name.name.split(".")[level] for name in names]
            fakes = FakeNames(parts, segments(parts, reference), known, seed)
            for name in chosen:
                levels = name.name.split(".")
                found = fakes.make_fake(levels[level])
                if found is None:
                    left_out[f"{pair}: no new name of its length and spelling"] += 1
                    continue
                levels[level], spelling = found
                pairs.append(
                    margin_rows(
                        pair,
                        name.name,
                        ".".join(levels),
                        language=language,
                        library=name.library,
                        templates=facet.templates[name.kind],
                        calls=name.calls,
                        spelling=spelling,
                    )
                )
    return pairs, left_out


def _select_names(names: Sequence[ApiName], per_library: int) -> list[ApiName]:
    taken: Counter[str] = Counter()
    chosen: list[ApiName] = []
    for name in names:
        taken[name.library] += 1
        if taken[name.library] <= per_library:
            chosen.append(name)
    return chosen


task = ApiFakes()
