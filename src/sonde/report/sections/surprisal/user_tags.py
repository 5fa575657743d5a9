"""Surprisal by the labels that the user put on the text."""

from __future__ import annotations

from sonde.report.sections.surprisal._scores import RankedDimension, ranking_section

plot = ranking_section(
    RankedDimension(dimension="user_tag", what="label"),
    title="Your labels",
    order=35,
    caption=(
        "Mean surprisal of the subwords under each label that came with the corpus, with 95 % intervals "
        "clustered by repository, module or file. A subword with several labels counts for each."
    ),
)
