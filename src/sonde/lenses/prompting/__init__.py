"""Which names of APIs a model lists when it is asked in words (INK, the generative variant).

Any decoder that transformers runs is asked, in a conversation where its tokenizer has a template for one; so
is any server that speaks OpenAI's protocol (``openai:NAME`` with the option ``base_url``). Replies are read
as published and, beside that, leniently.

The scores are P@k and MRR of the listed answers, and the shares of replies that were refusals or short.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import polars as pl

from sonde.lenses.engine.lens import LensDefaults, LensSettings, Method, ScoringContext, Training
from sonde.lenses.prompting.replies import PromptingOptions, Replies, collect_answers
from sonde.models import Capabilities, ModelSpec
from sonde.models.engine.external import Reply, get_server
from sonde.models.engine.files import uses_server
from sonde.results import Mean, means
from sonde.results.pairing import ComparableMetric
from sonde.results.schema import has_dimensions
from sonde.results.scores import Score
from sonde.results.text_format import caveat, format_score, plural

KS = (1, 5, 10, 20)


MATCHING, LENIENT = "generative", "generative_lenient"
"""Lists read as published and leniently: their ranks stand in no table with those of masks or statements."""


def score_replies(scoring: ScoringContext, task: str) -> Iterator[Score]:
    """Every table; a refusal and a prompt that does not fit count as wrong."""
    rows = scoring.observations.collect().drop("item_id", "task", "seed", "method", strict=False)
    frame = scoring.labels[task].join(rows, on="query_id", how="inner", maintain_order="left")
    lenient = frame.with_columns(rank="rank_lenient", listed="listed_lenient")
    for held, matching in ((frame, MATCHING), (lenient, LENIENT)):
        yield from _tables(held, dataclasses.replace(scoring.template, task=task, matching=matching))


def _tables(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    names = frame.filter(pl.col("template").is_in(["call", "import"]))
    yield from _table(names, base)
    for template in frame["template"].unique(maintain_order=True).to_list():
        part = frame.filter(pl.col("template") == template)
        named = base.within(("template", template))
        yield from _table(part, named)
        yield from _table(part, named, by="mode")


def _table(frame: pl.DataFrame, template: Score, by: str | None = None) -> Iterator[Score]:
    reciprocal = (1.0 / pl.col("rank")).fill_null(0.0)
    strict = [
        Mean("share_refused", pl.col("refused") & pl.col("asked")),
        Mean("share_unread", pl.col("unread")),
        Mean("share_cut", pl.col("cut").fill_null(value=False)),
        Mean("share_short", pl.col("short") & ~pl.col("refused") & ~pl.col("unread")),
        Mean("share_too_long", ~pl.col("asked")),
    ]
    wanted = [
        *(Mean("p_at_k", (pl.col("rank") <= k).fill_null(value=False), fields={"k": k}) for k in KS),
        Mean("mrr", reciprocal, "unit"),
        *(strict if template.matching == MATCHING else ()),
        Mean("listed", pl.col("listed"), "nonnegative"),
    ]
    return means(frame, wanted, template, by=by or (), cluster="library")


NEEDS = ("decoder", "endpoint")


TASK = "api_prompts"


class PromptingLens(LensDefaults):
    """The prompting lens."""

    name = "prompting"
    version = "3"
    typed_options = PromptingOptions
    tasks = (TASK,)
    uses_datasets = True
    comparable_metrics = (ComparableMetric(metric="p_at_k", direction="higher", k=1),)

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Models that write no text are refused."""
        if capabilities.kind in ("decoder", "endpoint"):
            if not capabilities.lacks:
                return None
            return (
                f"lens 'prompting' asks models that write, and this model has {capabilities.lacks}; use one "
                "that has, for example sonde/mini-decoder"
            )
        return (
            f"lens 'prompting' asks models that write, and this model is an {capabilities.kind}; use a "
            "decoder, for example sonde/mini-decoder, or the lens cloze"
        )

    def methods(self, tasks: Sequence[str], settings: LensSettings) -> tuple[Method, ...]:
        """One a task: nothing is trained, but replies are kept as checkpoints are."""
        return tuple(Method(name="prompted", task=task, seed=settings.seed) for task in tasks)

    def train(self, method: Method, training: Training) -> pl.DataFrame:
        """Ask the model; see `sonde.lenses.prompting.replies.collect_answers` for the rows.

        Raises:
            UsageError: An option makes no sense.
            SondeError: The model cannot be asked.
        """
        options = PromptingOptions.read({**training.unkeyed, **training.settings.options})
        asked = _server if uses_server(training.model) else _writer
        return collect_answers(training.examples, asked(training.model, options), training.folder)

    def score(self, scoring: ScoringContext) -> list[Score]:
        """P@k, MRR and shares of refusals and short lists, each number with its interval."""
        return list(score_replies(scoring, TASK))

    def headline(self, scores: pl.DataFrame) -> Iterator[str]:
        """How often each model lists the right answer, and how often it lists none."""
        table = scores.filter(has_dimensions({}))
        for (model, language), rows in sorted(
            table.group_by("model", "language"), key=lambda one: str(one[0])
        ):
            found = {(row["matching"], row["metric"], row["k"]): row for row in rows.iter_rows(named=True)}
            first, listed = found[MATCHING, "p_at_k", 1], found[MATCHING, "p_at_k", 20]
            lenient = found[LENIENT, "p_at_k", 20]
            refused, unread = (found[MATCHING, name, None] for name in ("share_refused", "share_unread"))
            yield ""
            yield (
                f"{model} lists names of {language} APIs: top-1 accuracy {format_score(first, 100)} %, "
                f"among 20 {format_score(listed, 100)} % ({format_score(lenient, 100)} % read leniently); "
                f"refused {format_score(refused, 100)} %, nothing read of {format_score(unread, 100)} % "
                f"(n={first['n']}, {plural(first['n_clusters'], 'library', 'libraries')}){caveat(first)}"
            )


def _server(spec: ModelSpec, options: PromptingOptions) -> Replies:
    """A model behind a server, several prompts at a time."""
    server = get_server(spec.name, options.server)

    def replies(prompts: Sequence[str]) -> Iterator[tuple[str, Reply]]:
        return server.ask_all(lambda prompt: server.chat(prompt, options.tokens), prompts)

    return replies


def _writer(spec: ModelSpec, options: PromptingOptions) -> Replies:
    """A model of this machine; one without a template for conversations goes on behind the first index."""
    from sonde.capture.generate import generate_continuations, has_chat_template
    from sonde.models import load_model

    loaded = load_model(spec)
    chat = has_chat_template(loaded)
    begun = "" if chat else "1."

    def replies(prompts: Sequence[str]) -> Iterator[tuple[str, Reply | None]]:
        asked = {prompt if chat else f"{prompt}\n{begun}": prompt for prompt in prompts}
        for prompt, text in generate_continuations(loaded, list(asked), options.tokens, chat=chat):
            yield asked[prompt], None if text is None else Reply(text=begun + text)

    return replies


lens = PromptingLens()
