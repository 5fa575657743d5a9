"""Sections of the lens `causal`."""

from __future__ import annotations

from sonde.report.section import LensTitle

title = LensTitle(
    name="Interventions",
    cites=(
        *("belrose2023leace", "elazar2021amnesic", "zhang2024patching", "kramar2024atp"),
        *("nostalgebraist2020logit", "belrose2023tuned"),
    ),
    method_text=(
        "Something is changed while a model reads, and surprisal is measured anew. Where a property is "
        "erased, it is taken out of the states of one layer so that no linear probe finds it there "
        "(LEACE, fitted on the training split), at every subword of a function or at the tokens that the "
        "property is about. Beside it stands what it costs to erase labels that "
        "say nothing of the property (those of other functions, a class drawn for each word, the same in "
        "another order), as many directions drawn uniformly, and as many that move states as far (as wide). "
        "A masked model is asked for a seventh of the code tokens, hidden together; a decoder for all."
    ),
)
