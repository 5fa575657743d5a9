"""Vocabulary entries that surprise most and least."""

from __future__ import annotations

from sonde.report.run_tables import RunData
from sonde.report.section import Figure
from sonde.report.sections.surprisal._scores import LENS, Ranking, build_ranking
from sonde.report.text import collapse_blanks


def extract_surface(label: str) -> str:
    """The readable form in a label ``surface#id``.

    >>> extract_surface("##x#17")
    '##x'
    """
    return collapse_blanks(label.rpartition("#")[0] or label)


class WorstBestSubwords:
    """Ranks the dimension ``subword`` within each model, since vocabularies differ."""

    title = "Vocabulary: which subwords surprise it"
    lens = LENS
    order = 40
    caption = (
        "Mean surprisal of each entry of the vocabulary wherever the corpus holds it, with 95 % intervals "
        "clustered by repository or module. Entries are those of one tokenizer: compare them within a model, "
        "not between models."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Worst and best for each model."""
        return build_ranking(run, Ranking(dimension="subword", what="subword", surface=extract_surface))


plot = WorstBestSubwords()
