"""Token explorer: code coloured by surprisal, with everything known of each token."""

from __future__ import annotations

from sonde.report._drawing.theme import HEAT_EDGES
from sonde.report._shared.numbers import count
from sonde.report._shared.plot import Embed, Figure
from sonde.report._shared.run import RunData
from sonde.report.surprisal._explore import ExplorerLimits, choose, pack
from sonde.report.surprisal._scores import LENS


class Explorer:
    """Functions that the model found hardest, easiest and ordinary, and a random sample."""

    title = "Token explorer: read along with the model"
    lens = LENS
    order = 0
    caption = (
        "Point at a token, or focus the code and press the arrow keys, to see how surprised the model was "
        "and what it expected instead. Outlined subwords span several code tokens; blanks are tinted "
        "faintly; uncoloured text was not scored."
    )

    limits = ExplorerLimits()

    def draw(self, run: RunData) -> Figure | None:
        """About forty items, each cut to its first characters."""
        data = pack(run, choose(run, self.limits), self.limits)
        if not any(rows for item in data["items"] for rows in item["pieces"].values()):
            return None
        cut = sum(item["cut"] > 0 for item in data["items"])
        notes = [
            f"{count(len(data['items']))} items, chosen for being worst, best or median in bits per byte, or "
            f"as a random sample; of each at most its first {count(self.limits.characters)} characters "
            f"({count(cut)} cut)."
        ]
        edges = [f"{edge:g}" for edge in HEAT_EDGES]
        return Figure(
            notes=notes,
            embed=Embed(
                template="surprisal/explorer.html.j2",
                script="surprisal/explorer.js",
                data={**data, "edges": list(HEAT_EDGES)},
                context={"edges": edges, "models": data["models"]},
            ),
        )


plot = Explorer()
