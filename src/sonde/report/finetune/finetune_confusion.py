"""Which classes a fine-tuned model takes for which: types of exceptions, above all."""

from __future__ import annotations

import polars as pl

from sonde.report._drawing.charts import confusions
from sonde.report._shared.numbers import DASH, number
from sonde.report._shared.plot import Cell, Chart, Figure, Table
from sonde.report._shared.run import RunData
from sonde.report.finetune._scores import LENS, labelled
from sonde.results.dimensions import dimension


class FinetuneConfusion:
    """A matrix a task with three classes or more, the commonest class first."""

    title = "Fine-tuning: which classes are taken for which"
    lens = LENS
    order = 420
    caption = (
        "Of the test examples of a class (a row), the share that the fine-tuned model gives to each class (a "
        "column), over all seeds; classes with more test examples stand first, and what is not drawn is "
        "never said. Classes with few examples have shares that mean little: the table has their numbers."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One matrix a model, task, language and test set."""
        rows = labelled(run.scores(metrics=["confusion"], lens=LENS), run).with_columns(
            gold=dimension("gold"), said=dimension("predicted")
        )
        if rows.is_empty():
            return None
        charts: list[Chart] = []
        cells: list[list[Cell]] = []
        for (subject, swept), part in rows.partition_by(
            "subject", "swept", as_dict=True, maintain_order=True
        ).items():
            about = ", ".join(str(one) for one in (subject, swept) if one)
            order = _order(part)
            name = "-".join(about.replace(",", "").split())
            charts.append(
                Chart(
                    name=f"finetune-confusion-{name}",
                    title=about.capitalize(),
                    spec=confusions(part, order, angle=-45),
                    wide=len(order) > 8,
                )
            )
            cells += [_row(part, gold, about) for gold in order if gold in set(part["gold"].to_list())]
        columns = ["Task", "Class", "Taken most for", "Right, %", "Taken so, %", "Examples", "Clusters"]
        return Figure(
            charts=charts,
            table=Table(
                summary="Every class, and what it is taken for most",
                columns=columns,
                rows=cells,
                numeric=frozenset(columns[3:]),
            ),
        )


def _order(rows: pl.DataFrame) -> list[str]:
    """Classes by their number of test examples, then those that are only said."""
    sizes = rows.group_by("gold").agg(pl.col("n").max()).sort(["n", "gold"], descending=[True, False])
    held = sizes["gold"].to_list()
    return [*held, *sorted(set(rows["said"].to_list()) - set(held))]


def _row(rows: pl.DataFrame, gold: str, about: str) -> list[Cell]:
    own = rows.filter(pl.col("gold") == gold)
    right = float(own.filter(pl.col("said") == gold)["value"].sum())
    other = own.filter(pl.col("said") != gold).sort("value", descending=True, maintain_order=True)
    most, often = other.select("said", "value").row(0) if other.height else ("", 0.0)
    row = own.row(0, named=True)
    return [
        Cell(about),
        Cell(gold),
        Cell(str(most) or DASH),
        Cell(number(100 * right, 1), right),
        Cell(number(100 * float(often), 1), float(often)),
        Cell(f"{row['n']:,}", row["n"]),
        Cell(f"{row['n_clusters']:,}", row["n_clusters"]),
    ]


plot = FinetuneConfusion()
