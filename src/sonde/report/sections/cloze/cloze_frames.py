"""The same queries in other code and after words: how much an answer depends on the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.base.formatting import plural
from sonde.report.charts import TEMPLATE, TEMPLATES, plot_curves, plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.cloze import (
    LENS,
    build_k_table,
    list_differences,
    plot_statements,
    read_parts,
)
from sonde.results.text_format import verdict_mark, with_interval

_WAYS: Mapping[str, Mapping[str, str]] = {
    "frame": {"plain": "only the statement", "every": "mean over all"},
    "words": {
        "without": "without words",
        "with": "after words",
        "with-without": "difference, paired",
    },
    "imports": {
        "without": "without imports",
        "with": "after its file's imports",
        "with-without": "imports: difference, paired",
    },
    "imports_hide": {
        "without": "answer not in the imports: without them",
        "with": "answer not in the imports: after them",
        "with-without": "answer not in the imports: difference, paired",
    },
}
"""How queries were asked, by what varies: other frames have names of their own."""


_CONTEXT_PHRASES = {
    "words": "after words",
    "imports": "after the imports of their file",
    "imports_hide": "after the imports of their file that do not show it",
}


_K = 10


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw frames, words and imports, as far as they were asked."""
    frames, words = (rows.filter(pl.col("cut") == dimension) for dimension in ("frame", "words"))
    difference = pl.col("group") == "with-without"
    pairs = rows.filter(difference & (pl.col("cut") != "frame")).sort(
        pl.col("cut") != "words", maintain_order=True
    )
    return Figure(
        answer="\n".join(
            [
                *_describe_variation(run),
                *list_differences(
                    pairs,
                    lambda row: (
                        f"{_CONTEXT_PHRASES[row['cut']]}, {row['statement']} are answered among the first ten"
                    ),
                    " than without them",
                ),
            ]
        ),
        charts=[
            *plot_statements(
                frames.filter(pl.col("k") == _K), "cloze-frames", _plot_frames, ": other code around them"
            ),
            *plot_statements(
                words.filter(~difference).with_columns(who="way"),
                "cloze-words",
                lambda part: plot_curves(part, list(_WAYS["words"].values())[:2]),
                ": after words",
            ),
        ],
        table=build_k_table(
            "Every frame and k, in %",
            rows.sort("template", "place", "subject", maintain_order=True),
            {"Statement": "statement", "Of": "subject", "Asked": "way"},
        ),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    """Read the scores by how queries were asked; none where they were asked in one way alone."""
    parts = [
        read_parts(run, ["p_at_k"], dimension).with_columns(
            cut=pl.lit(dimension), way=pl.col("group").replace(dict(ways))
        )
        for dimension, ways in _WAYS.items()
    ]
    return pl.concat(parts, how="vertical_relaxed")


def _plot_frames(rows: pl.DataFrame) -> dict[str, Any]:
    ways = set(rows["way"]) - set(_WAYS["frame"].values())
    plain_label, mean_label = _WAYS["frame"].values()
    chart_rows = rows.with_columns(name=pl.col("way"), shown="subject")
    return plot_dots(chart_rows, [plain_label, *sorted(ways), mean_label], f"P@{_K}, %", "queries", scale=100)


def _describe_variation(run: RunData) -> list[str]:
    sd_metric, range_metric = "p_at_k_sd", "p_at_k_range"
    rows = run.scores(metrics=[sd_metric, range_metric], by=TEMPLATE, lens=LENS)
    rows = rows.with_columns(subject=run.subject)
    rows = rows.filter((pl.col("k") == _K) & pl.col("label").is_in(list(TEMPLATES)))
    rows_by_key = {(row["subject"], row["label"], row["metric"]): row for row in rows.iter_rows(named=True)}
    return [
        f"{subject}: over the frames of {TEMPLATES[template]}, P@{_K} has a standard deviation of "
        f"{with_interval(row, 100, 1)} and a range of "
        f"{with_interval(rows_by_key[subject, template, range_metric], 100, 1)} percentage points "
        f"({plural(row['n'], 'cloze query', 'cloze queries')}){verdict_mark(row)}."
        for (subject, template, metric), row in rows_by_key.items()
        if metric == sd_metric and (subject, template, range_metric) in rows_by_key
    ]


plot = SectionPlot(
    title="Names of APIs: other prompts",
    lens=LENS,
    order=415,
    caption=(
        "A share of the names is also asked for with other code around the statement (assigned, returned, "
        "after a comment, indented, ...). If the run asks for it, statements also follow words of "
        "documentation, or the imports of a file that makes the call. Only cloze queries answered in every "
        "frame count. Intervals are 95 %, clustered by library."
    ),
    select=_read_rows,
    figure=_draw,
)
