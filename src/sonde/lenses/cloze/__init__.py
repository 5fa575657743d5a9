"""Which names of APIs the model knows, in calls, imports and aliased imports (INK).

Masked models are asked for the piece that is left out. Models that score texts are given the whole statement
with each of at most a hundred names of the same place in it (BEAR); masked models can be asked so as well, by
pseudo-log-likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from sonde.base.errors import UsageError
from sonde.capture.requests import Masked, Pass, Plain, Prepared, TokenScores
from sonde.corpora import Item
from sonde.lenses._lens import Captured, LensDefaults, LensSettings, Option, Scoring, Twin
from sonde.lenses._words import word_by_word
from sonde.lenses.cloze.headline import headline
from sonde.lenses.cloze.observe import TOP_K, observe_quizzes, observe_texts
from sonde.lenses.cloze.plan import asks_of, distinct_variants, quizzes_by_item
from sonde.lenses.cloze.scores import score_candidates, score_masked
from sonde.lenses.cloze.statements import statements
from sonde.models import Capabilities
from sonde.stats.scores import Score
from sonde.tasks._cloze_options import CANDIDATES, MASKED, OPTIONS, PLL, objective_of

NEEDS = ("encoder", "decoder")

TASK = "api_cloze"
TWIN_SHARE = 0.25


class Cloze(LensDefaults):
    """The cloze lens."""

    name = "cloze"
    version = "1"
    quirks: Mapping[str, str] = {}
    options: Mapping[str, str] = {
        **OPTIONS,
        "unified": "models, with commas, whose shared vocabulary is ranked beside the model's own",
        "min_count": "fewest quizzes that a library needs for a row of its own (default 20)",
    }
    tasks = (TASK,)
    draws = True

    def refuses(self, capabilities: Capabilities) -> str | None:
        """Encoder-decoders and encoders without a mask are refused."""
        if capabilities.kind == "decoder" or (capabilities.kind == "encoder" and capabilities.masks):
            return None
        lacks = "no mask token" if capabilities.kind == "encoder" else "a decoder of its own behind the mask"
        return (
            f"lens 'cloze' asks masked models and decoders, and this {capabilities.kind} has {lacks}; "
            "use one of them, for example sonde/mini-encoder"
        )

    def options_for(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, Option]:
        """The options with the objective that the models of a run can be asked by.

        Raises:
            UsageError: They cannot be asked by the objective chosen, or not all by one.
        """
        kinds = {model.kind for model in models.values()}
        if "objective" not in options:
            if len(kinds) > 1:
                raise UsageError(
                    "lens 'cloze' asks masked models for a piece and gives decoders whole statements; "
                    "run models of each kind by themselves"
                )
            options = {**options, "objective": CANDIDATES if kinds == {"decoder"} else MASKED}
        objective = objective_of(options)
        for kind in sorted(kinds):
            if (kind == "decoder") != (objective == CANDIDATES):
                fit = CANDIDATES if kind == "decoder" else f"{MASKED} or {PLL}"
                raise UsageError(
                    f"lens 'cloze': objective {objective!r} does not fit the {kind} of this run; give {fit}"
                )
        # What models share is ranked beside each one's own vocabulary as soon as there are several.
        compared = {"unified": ",".join(sorted(models))} if len(models) > 1 and objective == MASKED else {}
        return {**compared, **options}

    def twins(self, settings: LensSettings) -> tuple[Twin, ...]:
        """One twin with random weights: over a quarter of the statements, where each is asked by itself."""
        return (Twin(settings.seed, TWIN_SHARE if _objective(settings) == MASKED else 1.0),)

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """The statements that quizzes are cut from, or the candidate statements of each quiz."""
        if _objective(settings) == MASKED:
            return items
        return statements(labels[TASK])

    def passes(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Masked inputs of every statement, or the statements as they are."""
        objective = _objective(settings)
        if objective == CANDIDATES:
            return (Pass(Plain(), (TokenScores(top_k=1),)),)
        if objective != MASKED:
            words = {one.item.item_id: word_by_word(one.alignment) for one in prepared}
            return (Pass(Masked(words), (TokenScores(top_k=1),)),)
        quizzes = quizzes_by_item(labels[TASK])
        variants = {
            one.item.item_id: distinct_variants(asks_of(one, quizzes.get(one.item.item_id, [])))
            for one in prepared
        }
        return (Pass(Masked(variants), (TokenScores(top_k=TOP_K),)),)

    def observe(
        self,
        observed: Sequence[Captured],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """A row a quiz, or a row a statement; see `sonde.lenses.cloze.observe`.

        Raises:
            CaptureError: A capture holds no scores.
        """
        if _objective(settings) == MASKED:
            return observe_quizzes(observed, labels[TASK], surfaces)
        return observe_texts(observed)

    def score(self, scoring: Scoring) -> list[Score]:
        """P@k, MRR and log-probabilities with their controls, each number with its interval."""
        labels = scoring.labels[TASK]
        if _objective(scoring.settings) == MASKED:
            return list(score_masked(scoring, labels))
        return list(score_candidates(scoring, labels))

    def headline(self, scores: pl.DataFrame) -> Iterator[str]:
        """How often each model is right among the first and the first ten, beside the best control."""
        return headline(scores)


def _objective(settings: LensSettings) -> str:
    return objective_of(settings.options)


lens = Cloze()
