"""Vocabulary entries that surprise most and least."""

from __future__ import annotations

from sonde.report.sections.surprisal._scores import RankedDimension, ranking_section
from sonde.report.text import collapse_blanks


def extract_surface(label: str) -> str:
    """Extract the readable surface of `label`, which is ``surface#id``.

    >>> extract_surface("##x#17")
    '##x'
    """
    return collapse_blanks(label.rpartition("#")[0] or label)


plot = ranking_section(
    RankedDimension(dimension="subword", what="subword", surface=extract_surface),
    title="Vocabulary: which subwords surprise it",
    order=40,
    caption=(
        "Mean surprisal of each entry of the vocabulary over its occurrences in the corpus, with 95 % "
        "intervals clustered by repository or module. Entries belong to one tokenizer: compare them within "
        "a model, not between models."
    ),
)
