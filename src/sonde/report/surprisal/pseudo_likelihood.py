"""What the numbers are where masked models were scored: no surprisal, but a pseudo-log-likelihood."""

from __future__ import annotations

import polars as pl

from sonde.report._shared.numbers import count
from sonde.report._shared.plot import Figure
from sonde.report._shared.run import RunData
from sonde.report.surprisal._scores import LENS
from sonde.results.dimensions import dimensions_are


class PseudoLikelihood:
    """A note above the sections of the surprisal lens; there is none for decoders."""

    title = "Masked models: what is scored"
    lens = LENS
    order = 1
    caption = (
        "Each subword is predicted from everything around it, itself and the later subwords of its code "
        "token hidden (PLL-word-l2r, Kauf and Ivanova 2023)."
    )

    def draw(self, run: RunData) -> Figure | None:
        """A line a model that says how much was read."""
        rows = run.scores(lens=LENS, metrics=["bits"], where=dimensions_are({}))
        masked = rows.filter(pl.col("objective") == "pll")
        if masked.is_empty():
            return None
        lines = [
            f"{row['shown']}: {count(row['n'])} subwords of {row['language']}, each predicted in a forward "
            "pass of its own."
            for row in masked.sort("shown", "language").iter_rows(named=True)
        ]
        return Figure(
            answer="\n".join(lines),
            notes=(
                "Wherever these sections say surprisal, bits or nats, they mean this pseudo-log-likelihood. "
                "It sees both sides of a word and is no probability of a text: compare it with other masked "
                "models alone, never with the surprisal of a decoder.",
                "Each subword takes a forward pass, so only the first items of each corpus that are short "
                "enough are read; the options masked_items and masked_characters of the lens say how many "
                "and how short.",
            ),
        )


plot = PseudoLikelihood()
