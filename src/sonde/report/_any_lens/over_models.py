"""The section over models: whether what a lens measures goes with what models learn from fine-tuning."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from sonde.report._drawing.charts import specification
from sonde.report._shared.against import LensQuestion, Row, compared
from sonde.report._shared.asked import label_of
from sonde.report._shared.numbers import spelled, with_interval
from sonde.report._shared.plot import Chart, Figure
from sonde.report._shared.run import RunData
from sonde.report._shared.title import PlainTitle, titles
from sonde.results.dimensions import in_words
from sonde.results.formats import COUNT, WithInterval, join_names
from sonde.results.over_models import FEWEST, Correlation, lineage_of, rank_correlation
from sonde.results.tables import Column, Table, itself
from sonde.results.words import NO_DIFFERENCE, TOO_LITTLE, in_brackets, plain_words, would_be_found
from sonde.store.rundir import slug

_SHOWN = 3
"""Numbers without a verdict that a sentence names."""

OVER_MODELS = "over_models"
"""Public name of the section, and of its group on the page."""

title = PlainTitle(name="Models over lenses")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number that models have each: of one lens, task and language.

    Attributes:
        lens: Public name of the lens.
        name: What it is, as a heading and an axis.
        language: Public name of the language.
        question: What of the lens it answers.
        rows: By model the score, or the paired difference to its control where the lens asks for that.
    """

    lens: str
    name: str
    language: str
    question: LensQuestion
    rows: Mapping[str, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A measure held against an outcome, and how far they rank the models alike."""

    measure: Measure
    outcome: Measure
    found: Correlation


@dataclass(frozen=True, slots=True)
class OverModels:
    """A scatter of each number against each outcome, a dot a model, and the rank correlations."""

    lens: str = OVER_MODELS
    order: int = 9_000
    title: str = "Models over lenses: which numbers go with what is learned in fine-tuning"
    caption: str = (
        "A dot a model, with 95 % intervals over clusters both ways. The rank correlation (Spearman) is 1 "
        "where both numbers put the models into the same order, the best first. Its interval draws lineages: "
        "checkpoints of one training, and the same weights rounded, count as one; it is widened so that all "
        "intervals of the table hold at once (Bonferroni). A correlation says which number may stand in for "
        "another on models like these, and not that one is the reason for the other."
    )

    def draw(self, run: RunData) -> Figure | None:
        """The scatters; None where fewer than three models have an outcome and another number."""
        measures = list(_measures(run))
        outcomes = [one for one in measures if one.question.outcome]
        held = [
            (measure, outcome)
            for outcome in outcomes
            for measure in measures
            if not measure.question.outcome
            and measure.language == outcome.language
            and len({*measure.rows} & {*outcome.rows}) >= FEWEST
        ]
        if not held:
            return None
        pairs = [_pair(run, *both, among=len(held)) for both in held]
        labels = {model.name: model.label for model in run.models}
        return Figure(
            answer="\n".join(_sentences(pairs)),
            charts=list(_charts(pairs, labels)),
            table=_table(pairs),
            notes=[_lineages(pairs)],
        )


def _measures(run: RunData) -> Iterator[Measure]:
    """What the lenses of a run say first, and what would speak in its place, task by task."""
    for lens, declared in titles(run).items():
        question = declared.question
        while question is not None:
            yield from _of_question(run, lens, question)
            question = question.otherwise


def _of_question(run: RunData, lens: str, question: LensQuestion) -> Iterator[Measure]:
    rows = run.scores(metrics=question.with_gains, lens=lens, controls=True, where=question.where)
    rows = rows.with_columns(about=in_words(without=("selection",)))
    keys = ("language", "side", "task", "about")
    for (language, side, task, about), part in rows.partition_by(
        *keys, as_dict=True, maintain_order=True
    ).items():
        found: dict[str, Row] = {}
        for (model,), own in part.partition_by("model", as_dict=True, maintain_order=True).items():
            if (one := compared(own.to_dicts(), question)) is not None:
                paired = one.gain if question.paired and one.gain is not None else None
                found[str(model)] = paired or one.row
        if found:
            name = [question.subject, label_of(str(task)) if task else ""]
            name += [str(side)] if side == "cross" else []
            name += [plain_words(str(about))] if about else []
            yield Measure(
                lens=lens,
                name=", ".join(filter(None, name)),
                language=str(language),
                question=question,
                rows=found,
            )


def _pair(run: RunData, measure: Measure, outcome: Measure, *, among: int) -> _Pair:
    both = [model.name for model in run.models if model.name in measure.rows and model.name in outcome.rows]
    one, two = (np.array([float(held.rows[name]["value"]) for name in both]) for held in (measure, outcome))
    # Less is better of bits: turned round, so that 1 is always "the better, the better".
    turned = -one if measure.question.lower else one
    found = rank_correlation(turned, two, [lineage_of(name) for name in both], among=among)
    return _Pair(measure=measure, outcome=outcome, found=found)


def _sentences(pairs: Sequence[_Pair]) -> Iterator[str]:
    for outcome in dict.fromkeys(id(pair.outcome) for pair in pairs):
        some = [pair for pair in pairs if id(pair.outcome) == outcome]
        about = f"{some[0].outcome.name} ({spelled(some[0].outcome.language)})"
        numbers = f"{len(some)} number{'s' * (len(some) != 1)}"
        flat = [pair.measure.name for pair in some if not np.isfinite(pair.found.value)]
        some = [pair for pair in some if np.isfinite(pair.found.value)]
        judged = [pair for pair in some if not pair.found.why]
        few = [pair for pair in some if pair.found.why]
        if flat:
            yield f"{about}: no rank correlation with {join_names(flat)}, since one of both does not vary."
        if not some:
            continue
        if not judged:
            shown = "; ".join(f"{pair.measure.name} {_figures(pair.found)}" for pair in few[:_SHOWN])
            more = "; …" * (len(few) > _SHOWN)
            yield f"{about}: {TOO_LITTLE} on {numbers} ({few[0].found.why}): {shown}{more}."
            continue
        told = [pair for pair in judged if pair.found.low > 0 or pair.found.high < 0]
        named = "; ".join(f"{pair.measure.name} {_figures(pair.found)}" for pair in told)
        level = [pair.found.detectable for pair in judged if pair not in told]
        reach = would_be_found(max(level, default=math.nan), digits=2)
        rest = [f"{NO_DIFFERENCE} in {len(level)}{in_brackets(reach)}"] if level else []
        rest += [f"{TOO_LITTLE} in {len(few)} ({few[0].found.why})"] if few else []
        yield (
            f"{about}: of {numbers}, {len(told) or 'none'} rank{'s' * (len(told) <= 1)} the models "
            f"as fine-tuning does, or the other way round, with an interval that excludes 0"
            f"{f' ({named})' if named else ''}{''.join(f'; {one}' for one in rest)}."
        )


def _figures(found: Correlation) -> str:
    if not np.isfinite(found.value):
        return "none, since one number does not vary"
    bounds = f" [{found.low:+.2f}, {found.high:+.2f}]" if np.isfinite(found.low) else ""
    return f"{found.value:+.2f}{bounds}".replace("-", "\u2212")


def _lineages(pairs: Sequence[_Pair]) -> str:
    counts = sorted({pair.found.lineages for pair in pairs})
    among = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"{among} lineage{'s' * (among != '1')} of models: two names are of one lineage where only the step, "
        "the revision or the rounding of the weights differs. Whether two names share their training "
        "otherwise is not known."
    )


def _table(pairs: Sequence[_Pair]) -> Table:
    records = [
        {
            "outcome": pair.outcome.name,
            "language": spelled(pair.outcome.language),
            "measure": pair.measure.name,
            "lens": plain_words(pair.measure.lens),
            "value": pair.found.value,
            "ci_low": pair.found.low,
            "ci_high": pair.found.high,
            "models": pair.found.models,
            "lineages": pair.found.lineages,
            "why": pair.found.why or None,
        }
        for pair in pairs
    ]
    return Table(
        summary="Rank correlations over models",
        columns=[
            Column(title="Fine-tuned on", value="outcome"),
            Column(title="Language", value="language"),
            Column(title="Lens", value="lens"),
            Column(title="Number", value="measure"),
            Column(
                title="Spearman",
                value=itself,
                format=WithInterval(digits=2, missing=""),
                help="Rank correlation over models; 1 where the better of one is the better of the other.",
            ),
            Column(title="Models", value="models", format=COUNT),
            Column(title="Lineages", value="lineages", format=COUNT),
            Column(title="Why no verdict", value="why"),
        ],
        rows=records,
    )


def _charts(pairs: Sequence[_Pair], labels: Mapping[str, str]) -> Iterator[Chart]:
    for pair in pairs:
        x, y = pair.measure, pair.outcome
        spec = _spec(pair, [name for name in x.rows if name in y.rows], labels)
        language = spelled(y.language)
        yield Chart(
            name=slug(f"over-models-{x.name}-{y.name}-{language}".lower()),
            title=f"{x.name}: rank correlation {_figures(pair.found)}",
            spec=spec,
        )


def _spec(pair: _Pair, names: Sequence[str], labels: Mapping[str, str]) -> dict[str, Any]:
    records = [
        {
            "name": labels.get(name, name),
            **_ends("x", pair.measure, name),
            **_ends("y", pair.outcome, name),
        }
        for name in names
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=_axis("x", pair.measure),
        y=_axis("y", pair.outcome),
        tooltip=[
            alt.Tooltip("name:N", title=" "),
            alt.Tooltip("x_reading:N", title=pair.measure.name),
            alt.Tooltip("y_reading:N", title=pair.outcome.name),
        ],
    )
    layers = [
        base.mark_rule(style="interval", strokeWidth=1).encode(x="x_low:Q", x2="x_high:Q"),
        base.mark_rule(style="interval", strokeWidth=1).encode(y="y_low:Q", y2="y_high:Q"),
        base.mark_point(style="dot", filled=True),
    ]
    return specification(alt.layer(*layers))


def _ends(axis: str, measure: Measure, model: str) -> dict[str, Any]:
    row, share = measure.rows[model], measure.question.share
    return {
        axis: row["value"],
        f"{axis}_low": row["ci_low"],
        f"{axis}_high": row["ci_high"],
        f"{axis}_reading": with_interval(row, 100, 1) + " %" if share else with_interval(row),
    }


def _axis(axis: str, measure: Measure) -> Any:
    of, question = alt.X if axis == "x" else alt.Y, measure.question
    what = "" if question.share else f", {question.measure}"
    return of(
        f"{axis}:Q",
        title=f"{measure.name}{', beyond its control' if question.paired else what}",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(format="%", tickCount=5) if question.share else alt.Axis(tickCount=5),
    )
