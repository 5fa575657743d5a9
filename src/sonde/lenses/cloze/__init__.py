"""Which names of APIs the model knows, in calls, imports and aliased imports (INK).

Masked models are asked for the piece that is left out. Models that score texts are given the whole statement
with each of at most a hundred names of the same place in it (BEAR); masked models can be asked so as well, by
pseudo-log-likelihood. Pairs of statements (tasks ``api_deprecated``, ``api_fakes``) are always scored whole.
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
from sonde.lenses.cloze.margins import MARGIN_TASKS, score_margins
from sonde.lenses.cloze.observe import TOP_K, observe_quizzes, observe_texts
from sonde.lenses.cloze.plan import Quiz, asks_of, distinct_variants, quizzes_by_item
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
        "deprecated": "for task api_deprecated: CSV file with the columns deprecated and replacement, in "
        "place of the pairs that the corpus states",
        "min_count": "fewest quizzes that a library needs for a row of its own (default 20)",
    }
    tasks = (TASK,)
    takes = frozenset({"corpus"})
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
        """The statements that quizzes are cut from, or the candidate statements of each quiz and pair.

        Raises:
            UsageError: A task of another lens is among them.
        """
        known = (TASK, *MARGIN_TASKS)
        for task in labels:
            if task not in known:
                raise UsageError(f"lens 'cloze' asks the tasks {', '.join(known)}, and not {task!r}")
        found: dict[str, Item] = {}
        if TASK in labels and _objective(settings) == MASKED:
            asked = set(labels[TASK]["item_id"])
            found |= {item.item_id: item for item in items if item.item_id in asked}
        elif TASK in labels:
            found |= {item.item_id: item for item in statements(labels[TASK])}
        for task in MARGIN_TASKS:
            if task in labels:
                found |= {item.item_id: item for item in statements(labels[task])}
        return list(found.values())

    def passes(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Masked inputs of every statement, or the statements as they are."""
        if _objective(settings) == CANDIDATES:
            return (Pass(Plain(), (TokenScores(top_k=1),)),)
        quizzes = _quizzes(labels, settings)
        variants = {
            one.item.item_id: distinct_variants(asks_of(one, quizzes[one.item.item_id]))
            if one.item.item_id in quizzes
            else word_by_word(one.alignment)
            for one in prepared
        }
        return (Pass(Masked(variants), (TokenScores(top_k=TOP_K if quizzes else 1),)),)

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
        quizzes = _quizzes(labels, settings)
        pieces = [one for one in observed if one.prepared.item.item_id in quizzes]
        whole = [one for one in observed if one.prepared.item.item_id not in quizzes]
        tables = [observe_quizzes(pieces, labels[TASK], surfaces)] if pieces else []
        return pl.concat([*tables, observe_texts(whole)])

    def score(self, scoring: Scoring) -> list[Score]:
        """P@k, MRR and log-probabilities with their controls, each number with its interval."""
        found: list[Score] = []
        if TASK in scoring.labels:
            score = score_masked if _objective(scoring.settings) == MASKED else score_candidates
            found += score(scoring, scoring.labels[TASK])
        for task in MARGIN_TASKS:
            if task in scoring.labels:
                found += score_margins(scoring, task)
        return found

    def headline(self, scores: pl.DataFrame) -> Iterator[str]:
        """How often each model is right among the first and the first ten, beside the best control."""
        return headline(scores)


def _objective(settings: LensSettings) -> str:
    return objective_of(settings.options)


def _quizzes(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> Mapping[str, list[Quiz]]:
    """The quizzes that are asked for a piece, by item; none where whole statements are scored."""
    asked = TASK in labels and _objective(settings) == MASKED
    return quizzes_by_item(labels[TASK]) if asked else {}


lens = Cloze()
