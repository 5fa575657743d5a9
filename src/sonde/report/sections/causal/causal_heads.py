"""Costs of ablating the best head of each relation, compared with other heads of its layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import plural
from sonde.lenses.causal.findings import (
    ALIKE,
    COST,
    LESS,
    MORE,
    bits,
    compare_with_other_heads,
    count_shared_tests,
    select_ablation_scores,
)
from sonde.report.charts import plot_differences
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.causal import LENS, read_all_scores
from sonde.results.tables import MODEL, Column, Table, score_columns
from sonde.results.text_format import COUNT, TOO_LITTLE


def _draw(run: RunData, single: pl.DataFrame) -> Figure:
    """Draw one chart at the dependents of relations and one elsewhere."""
    rows = _read_rows(run)
    share = pl.col("metric").is_in(["top1_lost", "top1_excess"])
    at_dependents = single.filter(pl.col("where") == "here").group_by("name").agg(pl.col("value").max())
    order = at_dependents.sort("value", descending=True)["name"].to_list()
    return Figure(
        answer="\n".join(_list_answers(run, rows)),
        charts=[
            Chart(
                name=f"causal-heads-{location}",
                title=f"Bits beyond other heads, {title}",
                spec=plot_differences(
                    single.filter((pl.col("where") == location) & pl.col("name").is_in(order)),
                    order,
                    "bits per subword",
                    "subwords",
                ),
            )
            for location, title in (("here", "at the dependents"), ("elsewhere", "elsewhere"))
        ],
        table=Table(
            summary="Every relation, in bits per subword and points of right subwords",
            columns=[
                Column(title="Relation", value="relation"),
                MODEL,
                Column(title="Layer", value="layer", format=COUNT),
                Column(title="Head", value="head", format=COUNT),
                Column(title="Where", value=lambda row: row["where"] or "everywhere"),
                Column(title="What", value=_describe_metric),
                *score_columns("Number", digits=3, n="Subwords"),
            ],
            rows=rows.sort("relation", "where", "metric", maintain_order=True).with_columns(
                pl.col("value", "ci_low", "ci_high") * pl.when(share).then(100.0).otherwise(1.0)
            ),
        ),
    )


_EXCESS = (pl.col("metric") == "excess") & (pl.col("control") == "random")


def _read_rows(run: RunData) -> pl.DataFrame:
    return select_ablation_scores(read_all_scores(run)).with_columns(name=pl.col("relation"))


def _list_answers(run: RunData, rows: pl.DataFrame) -> Iterator[str]:
    scores = read_all_scores(run)
    tests = count_shared_tests(scores)
    comparisons = list(compare_with_other_heads(scores))
    for model in run.models:
        relations = [(row, kind) for row, kind in comparisons if row["model"] == model.name]
        if not relations:
            continue
        by_kind = {
            verdict: [row for row, kind in relations if kind == verdict] for verdict in (MORE, LESS, ALIKE)
        }
        more_text, less_text = (
            f"{len(by_kind[kind])}{f' ({names})' if names else ''}"
            for kind in (MORE, LESS)
            for names in (", ".join(row["relation"] for row in by_kind[kind]),)
        )
        inconclusive_count = len(relations) - sum(map(len, by_kind.values()))
        rest = COST.null_results(by_kind[ALIKE], tests)
        if inconclusive_count:
            rest.append(f"{TOO_LITTLE} in {inconclusive_count}{_explain_missing_verdict(relations)}")
        yield (
            f"{model.label}: of {plural(len(relations), 'relation')}, ablating the best head surely costs "
            f"more at the dependents than other heads of its layer in {more_text}, less in {less_text}"
            f"{''.join(f'; {clause}' for clause in rest)}."
        )
    for row in rows.filter(_EXCESS & pl.col("head").is_null()).iter_rows(named=True):
        costs = f"all chosen heads at once cost {bits(row, sign='+')} bits per subword compared with"
        caveat_text = COST.difference_caveat(row)
        yield f"{row['shown']}: {costs} the same number of others in the same layers{caveat_text}."


def _explain_missing_verdict(relations: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """Explain why the first inconclusive relation has no verdict, with its estimate."""
    row, reason = next((row, kind) for row, kind in relations if kind not in (MORE, LESS, ALIKE))
    return f" ({reason}; {row['relation']}: {bits(row, sign='+')} bits)"


def _describe_metric(row: Mapping[str, Any]) -> str:
    ablation = "other heads" if row["control"] else "the head"
    return {
        "bits": f"bits, ablated: {ablation}",
        "excess": "bits, difference from other heads",
        "apart": "bits, how much further than elsewhere",
        "top1_lost": f"points of right subwords lost, ablated: {ablation}",
        "top1_excess": "points of right subwords lost, difference from other heads",
    }[row["metric"]]


plot = SectionPlot(
    title="Interventions: heads that follow relations",
    lens=LENS,
    order=354,
    caption=(
        "The output of the head that follows a relation best is replaced by its output at a similar place "
        "in another function (resample ablation; the mean if there is no such place). Heads are chosen on "
        "functions that are not tested. Shown are bits per subword beyond the same intervention on other "
        "heads of the layer with outputs of similar norm, with 95 % intervals: at the dependents of the "
        "relation, and everywhere else."
    ),
    select=lambda run: _read_rows(run).filter(_EXCESS & pl.col("head").is_not_null()),
    figure=_draw,
)
