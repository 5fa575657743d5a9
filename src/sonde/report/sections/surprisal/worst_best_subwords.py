"""Vocabulary entries that surprise most and least."""

from __future__ import annotations

from sonde.report.run_tables import RunData
from sonde.report.section import Figure
from sonde.report.sections.surprisal._scores import LENS, Ranking, rank
from sonde.report.text import readable


def surface(label: str) -> str:
    """The readable form in a label ``surface#id``.

    >>> surface("##x#17")
    '##x'
    """
    return readable(label.rpartition("#")[0] or label)


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
        return rank(run, Ranking(dimension="subword", what="subword", surface=surface))


plot = WorstBestSubwords()
