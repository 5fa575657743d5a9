"""Ways of counting an answer: several rankings, and what answers of several pieces cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.report.charts import TEMPLATE, TEMPLATES, plot_dots, sort_by_k
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.cloze import LENS, WHOLE
from sonde.results.schema import dimension_value, has_dimension_names, has_dimensions
from sonde.results.tables import Column, Table, score_columns

_COUNTING_RULES: Mapping[str, str] = {
    "single": "the one right answer",
    "filtered": "other right answers left out",
    "any": "any right answer",
    "id": "the very subtoken of the vocabulary",
    "unified": "among the subtokens that all models have",
    "common": "of what every model of the run was asked",
    f"{WHOLE} sum": "log-probability summed over the statement",
    f"{WHOLE} mean": "log-probability per subword",
    "unified sum": "summed, among names that are one subtoken for all models",
    "common sum": "summed, of what every model of the run was asked",
}


_METRICS: Mapping[str, tuple[str, float, int]] = {
    "p_at_k": ("P@", 100, 1),
    "mrr": ("MRR", 1, 3),
    "nats": ("nats an answer", 1, 2),
    "nats_per_character": ("nats per character", 1, 2),
    "greedy": ("every subtoken first, %", 100, 1),
    "share_one_piece": ("answers of one subtoken, %", 100, 1),
    "share_several_pieces": ("answers of several subtokens, %", 100, 1),
    "share_cut": ("answers that the vocabulary cannot spell, %", 100, 1),
    "share_spelled_otherwise": ("answers whose letters the tokenizer changes (uncased), %", 100, 1),
}


def _draw(run: RunData, rows: pl.DataFrame) -> Figure | None:
    """Draw all ways of counting that the run has."""
    is_overall, is_by_template = has_dimensions({}), has_dimension_names(TEMPLATE)
    plain = (is_overall | is_by_template) & pl.col("statement").is_in([*TEMPLATES, "all"])
    has_rule = pl.col("counted").is_in(list(_COUNTING_RULES))
    ranking_rows = rows.filter(
        has_rule & plain & (pl.col("k").is_in((1, 10, 50)) | (pl.col("metric") == "mrr"))
    )
    chart_rows = ranking_rows.filter(is_overall & (pl.col("k") == 10)).with_columns(
        name=pl.col("counted").replace(dict(_COUNTING_RULES)), shown="subject"
    )
    if chart_rows.is_empty():
        return None
    order = [name for name in _COUNTING_RULES.values() if name in chart_rows["name"]]
    piece_rows = rows.filter(
        ~pl.col("metric").is_in(["p_at_k", "mrr"]) & (is_by_template | has_dimension_names(TEMPLATE, "mode"))
    )
    positions = {name: index for index, name in enumerate(("all", *TEMPLATES))}
    statement = pl.col("statement").replace_strict(positions, default=9)
    mode = pl.col("mode").fill_null("")
    spec = plot_dots(chart_rows, order, "P@10, %", "queries", scale=100)
    return Figure(
        charts=[Chart(name="cloze-matching", title="Right among the first ten", spec=spec)],
        table=Table(
            summary="Every way of counting, and answers of several subtokens",
            columns=[
                Column(title="Of", value="subject"),
                Column(title="Statement", value=_format_statement),
                Column(
                    title="Counted",
                    value=lambda row: _COUNTING_RULES.get(row["counted"] or "", ""),
                    help="Which answers count as the name asked for.",
                ),
                Column(
                    title="What",
                    value=lambda row: (
                        _METRICS[row["metric"]][0] + (f"{row['k']}, %" if row["metric"] == "p_at_k" else "")
                    ),
                ),
                *score_columns(
                    "Value",
                    digits=lambda row: _METRICS[row["metric"]][2],
                    scale=lambda row: _METRICS[row["metric"]][1],
                    n="Queries",
                    clusters="Libraries",
                ),
            ],
            rows=pl.concat([ranking_rows, piece_rows]).sort(
                statement, "statement", mode, "place", "subject", "counted", "metric", "k", nulls_last=True
            ),
        ),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    return sort_by_k(run, run.scores(metrics=list(_METRICS), lens=LENS)).with_columns(
        counted=pl.concat_str("matching", "aggregation", separator=" ", ignore_nulls=True),
        statement=dimension_value(TEMPLATE).fill_null("all"),
        mode=dimension_value("mode"),
    )


def _format_statement(row: Mapping[str, Any]) -> str:
    statement, mode = row["statement"], row["mode"]
    name = "calls and imports" if statement == "all" else TEMPLATES.get(statement, statement)
    return f"{name}, {mode}" if mode else name


plot = SectionPlot(
    title="Names of APIs: how an answer is counted",
    lens=LENS,
    order=412,
    caption=(
        "Share of call and import queries that are right among the first ten, under each way of counting. "
        "Ids with the same surface are one answer unless the very subtoken is asked for. A prompt may have "
        "several right answers. Log-probabilities of whole statements are summed or averaged. Answers of "
        "several subtokens are predicted one subtoken at a time, with the later ones hidden, and their "
        "log-probabilities are added."
    ),
    select=_read_rows,
    figure=_draw,
)
