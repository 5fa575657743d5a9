"""Queries with what the model answers, wrong ones first: an explorer, and the same as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sonde.base.formatting import number
from sonde.report.charts import TEMPLATES
from sonde.report.run_tables import RunData
from sonde.report.section import EmbeddedView, Figure
from sonde.report.sections.cloze import ANSWERS, LENS, QueryExample, list_query_examples
from sonde.report.text import collapse_blanks
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT

_PLACES: Mapping[str, str] = {"top": "library", "inner": "module", "member": "last level"}


class ClozeAnswers:
    """An explorer of queries."""

    title = "Names of APIs: what is answered"
    lens = LENS
    order = 420
    caption = (
        "Cloze queries with the first answers and their probabilities, wrong ones first and among them the "
        "names that the corpus calls most. The gap is what was asked for; the right answer is marked where "
        "it is among those shown."
    )

    def draw(self, run: RunData) -> Figure | None:
        """The most called names of each model's wrong answers, then of its right ones."""
        shown = [one for model in run.models for one in list_query_examples(run, model)]
        if not shown:
            return None
        table = Table(
            summary="The same as a table",
            columns=[
                Column(title="Model", value="model"),
                Column(title="Statement", value="statement"),
                Column(
                    title="Cloze query", value="quiz", help="The code, with [?] where the name is asked for."
                ),
                Column(title="Answer", value="answer", help="The name that stands there."),
                Column(title="Answered", value="answered", help="The likeliest names and probabilities."),
                Column(title="Rank", value="rank", format=COUNT, help="Place of the name among all answers."),
                Column(title="Calls", value="calls", format=COUNT, help="How often the corpus calls it."),
            ],
            rows=[_to_record(one) for one in shown],
        )
        notes = ("Among whole statements, a probability is that of a name among its candidates.",)
        whole = any(one.competing for one in shown)
        return Figure(
            embed=EmbeddedView(
                template="sections/cloze/queries.html.j2",
                data=_build_data(shown),
                context=_build_context(shown),
            ),
            table=table,
            notes=notes if whole else (),
        )


def _build_data(shown: Sequence[QueryExample]) -> Mapping[str, Any]:
    models = list(dict.fromkeys(one.model for one in shown))
    return {
        "templates": dict(TEMPLATES),
        "places": dict(_PLACES),
        "queries": [
            {
                "model": models.index(one.model),
                "template": one.template,
                "mode": one.mode,
                "place": one.place,
                "before": one.before,
                "answer": one.answer,
                "behind": one.behind,
                "rank": one.rank,
                "calls": one.calls,
                "competing": one.competing,
                "top": [[text, round(share, 4), right] for text, share, right in one.top],
            }
            for one in shown
        ],
    }


def _build_context(shown: Sequence[QueryExample]) -> Mapping[str, Any]:
    held = {one.template for one in shown}
    modes = dict.fromkeys(one.mode for one in shown)
    return {
        "models": list(dict.fromkeys(one.model for one in shown)),
        "templates": [(name, text) for name, text in TEMPLATES.items() if name in held],
        "modes": [mode for mode in ("full", "first", "middle", "last", "whole") if mode in modes],
        "answers": ANSWERS,
    }


def _to_record(one: QueryExample) -> dict[str, Any]:
    said = [f"{collapse_blanks(text.replace(' ', '␣'))} {number(share, 2)}" for text, share, _ in one.top[:5]]
    return {
        "model": one.model,
        "statement": f"{TEMPLATES[one.template]}, {one.mode}",
        "quiz": collapse_blanks(f"{one.before}[?]{one.behind}".replace("\n", "↵")),
        "answer": one.answer,
        "answered": ", ".join(said) or None,
        "rank": one.rank,
        "calls": one.calls,
    }


plot = ClozeAnswers()
