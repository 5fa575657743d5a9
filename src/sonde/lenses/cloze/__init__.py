"""Measures which API names the model knows, in calls, imports and aliased imports (INK).

Models that fill in text predict the missing subtoken: masked models at a mask, encoder-decoders in a gap,
and, with the objective ``masked``, also decoders trained to fill in the middle. With the objective
``candidates``, models of any kind score the whole statement with each of up to a hundred candidate names
(BEAR): decoders from left to right, others by pseudo-log-likelihood. This is the default for runs with a
decoder. With the objective ``answers``, only the name is scored in each of these statements, with all of its
subtokens: under as many masks, or from left to right, so that every tokenizer can answer every query. Pairs
of statements (tasks ``api_deprecated``, ``api_fakes``) are always scored whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from sonde.base.errors import UsageError
from sonde.base.options import Option
from sonde.capture.requests import Answer, AnswerRanks, Masked, Pass, Plain, Prepared, TokenScores
from sonde.corpora import Item
from sonde.lenses.cloze.libraries import write_libraries
from sonde.lenses.cloze.observe import (
    ONE_PIECE,
    TOP_K,
    ClozeQuery,
    QueryRequest,
    build_query_requests,
    collect_statements,
    distinct_inputs,
    find_name,
    observe_queries,
    observe_texts,
    queries_by_item,
)
from sonde.lenses.cloze.paired import MARGIN_TASKS, score_margins
from sonde.lenses.cloze.ranks import shared_surfaces
from sonde.lenses.cloze.score import (
    SHARED_VOCABULARY,
    ClozeOptions,
    list_statements,
    score_queries,
    write_predictions,
)
from sonde.lenses.engine.lens import CapturedItem, Control, LensSettings, ReadingLens, ScoringContext
from sonde.lenses.engine.observations import word_gaps, word_masks
from sonde.models import Capabilities
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import has_dimensions
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score
from sonde.store.run_folder import RunDirectory
from sonde.tasks.engine.cloze_options import ANSWERS, CANDIDATES, MASKED, PROVIDED_TEMPLATE

NEEDS = ("encoder", "decoder", "encoder-decoder")

SYNONYMS = ("fill in the blank", "masked language modelling", "API knowledge", "LAMA")

TASK = "api_cloze"
CONTROL_SHARE = 0.25
_SUGGESTED_CANDIDATES = 10
"""Candidates for each level that a run is advised to take where it would be long."""


class ClozeLens(ReadingLens):
    """The cloze lens."""

    name = "cloze"
    version = "5"
    typed_options = ClozeOptions
    tasks = (TASK,)
    targets = frozenset({"corpus"})
    uses_datasets = True
    savings = f"--option cloze.candidates={_SUGGESTED_CANDIDATES}"
    headline = HeadlineMetric(
        subject="Guesses at API names",
        measure="names right at the first try",
        metrics=("p_at_k",),
        where=has_dimensions({})
        & (pl.col("k") == 1)
        & pl.col("matching").is_in(["single", "candidates", "unified"])
        & (pl.col("aggregation").fill_null("sum") == "sum"),
        controls={
            "majority": "the most frequent answers",
            "unigram": "the most frequent subtokens",
            "random_weights": "the same model with random weights",
            "chance": "chance",
        },
    )
    comparable_metrics = (
        ComparableMetric(metric="p_at_k", direction="higher", k=1, without=("library",)),
        ComparableMetric(metric="preferred", direction="higher"),
    )

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Refuse models that cannot fill in what is left out, except decoders with a head."""
        if not capabilities.lacks:
            return None
        return (
            f"lens 'cloze' needs a model that fills in text, but this {capabilities.kind} has "
            f"{capabilities.lacks}; use a masked model or a decoder, for example sonde/mini-encoder"
        )

    def resolve_options(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, Option]:
        """Add the objective by which all models of a run can be asked.

        Raises:
            UsageError: They cannot be asked by the objective chosen.
        """
        decoders = {name: model.masks for name, model in models.items() if model.kind == "decoder"}
        if "objective" not in options:
            options = {**options, "objective": CANDIDATES if decoders else MASKED}
        objective = ClozeOptions.read(options).objective
        unfit = [name for name, fills in decoders.items() if not (fills and objective == MASKED)]
        if unfit and objective not in (CANDIDATES, ANSWERS):
            raise UsageError(
                f"lens 'cloze': objective {objective!r} does not fit the decoder {unfit[0]!r} of this "
                f"run; use {CANDIDATES} or {ANSWERS}, which fit every model"
            )
        # With several models, their shared vocabulary is ranked in addition to each one's own.
        default_models = {"unified": ",".join(sorted(models))} if len(models) > 1 else {}
        options = {**default_models, **options}
        resolved = ClozeOptions.read(options)
        if resolved.ranking == SHARED_VOCABULARY and not resolved.unified:
            raise UsageError(
                f"lens 'cloze': option ranking = {SHARED_VOCABULARY!r} needs several models, or their names "
                f"in option unified"
            )
        return options

    def controls(self, settings: LensSettings) -> tuple[Control, ...]:
        """Return one control, which reads a quarter of the statements if each is queried separately."""
        return (Control(settings.seed, CONTROL_SHARE if _objective(settings) == MASKED else 1.0),)

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """Return the statements that queries are cut from, or the candidate statements of each query.

        Raises:
            UsageError: A task of another lens is among them.
            InputError: The models compared share no subtoken.
        """
        if models := ClozeOptions.read(settings.options).unified:
            shared_surfaces(models)
        known_tasks = (TASK, *MARGIN_TASKS)
        for task in labels:
            if task not in known_tasks:
                raise UsageError(f"lens 'cloze' has the tasks {', '.join(known_tasks)}, not {task!r}")
        statements: dict[str, Item] = {}
        for task in (task for task in known_tasks if task in labels):
            queries = labels[task]
            if task == TASK and _objective(settings) == MASKED:
                query_ids = set(queries["item_id"])
                statements |= {item.item_id: item for item in items if item.item_id in query_ids}
                continue
            # Words that a published file brings are compared as whole texts.
            answers = (
                task == TASK
                and _objective(settings) == ANSWERS
                and PROVIDED_TEMPLATE not in queries["template"]
            )
            statements |= {item.item_id: item for item in collect_statements(queries, answers=answers)}
        return list(statements.values())

    def describe_inputs(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> str:
        """Describe how many statements there are, if each is made with many candidates."""
        options = ClozeOptions.read(settings.options)
        if TASK not in labels or options.objective == MASKED:
            return ""
        line = f"{len(inputs):,} statements of {labels[TASK]['name'].n_unique():,} names"
        suggestion = (
            f"; fewer with --option cloze.candidates={_SUGGESTED_CANDIDATES}"
            if options.candidates > _SUGGESTED_CANDIDATES
            else ""
        )
        return f"{line}, with up to {options.candidates} candidates per level{suggestion}"

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Request what is left out of every statement, or the statements as they are."""
        queries = _queries(labels, settings)
        asks = {
            item_input.item.item_id: build_query_requests(item_input, queries[item_input.item.item_id])
            for item_input in prepared
            if item_input.item.item_id in queries
        }
        texts = [item_input for item_input in prepared if item_input.item.item_id not in asks]
        text_ids = frozenset(item_input.item.item_id for item_input in texts)
        plain = Pass(Plain(), (TokenScores(top_k=1),), ("decoder",), text_ids)
        if not asks:
            return (plain, *_filled_in(texts))
        # Words that a published file brings compete by their probability, whatever models share.
        ranks_shared_only = (
            ClozeOptions.read(settings.options).ranking == SHARED_VOCABULARY
            and PROVIDED_TEMPLATE not in labels[TASK]["template"]
        )
        return (*_pieces(asks, settings, shared_only=ranks_shared_only), plain, *_filled_in(texts))

    def observe(
        self,
        observed: Sequence[CapturedItem],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """Build one row per query or statement; see `sonde.lenses.cloze.observe`.

        Raises:
            CaptureError: A capture holds no scores.
        """
        queries = _queries(labels, settings)
        pieces = [observation for observation in observed if observation.prepared.item.item_id in queries]
        texts = [observation for observation in observed if observation.prepared.item.item_id not in queries]
        tables = [observe_queries(pieces, labels[TASK], surfaces)] if pieces else []
        return pl.concat([*tables, observe_texts(texts)])

    def score(self, scoring: ScoringContext) -> list[Score]:
        """Compute P@k, MRR and log-probabilities with their controls and intervals."""
        scores: list[Score] = []
        if TASK in scoring.labels:
            scores += score_queries(scoring, scoring.labels[TASK])
            scoring.advance()
        for task in MARGIN_TASKS:
            if task in scoring.labels:
                scores += score_margins(scoring, task)
                scoring.advance()
        return scores

    def details(self, scores: pl.DataFrame) -> Iterator[str]:
        """Yield the share of right names by kind of statement, and the preferred statements."""
        return list_statements(scores)

    def write_files(self, run: RunDirectory) -> Sequence[str]:
        """Write the names of each library, and predictions for the published evaluator of ClozeTest."""
        return [
            *(f"libraries: {path} ({names} names)" for path, names in write_libraries(run)),
            *(
                f"predictions: {path} ({count} of {total} entries)"
                for path, count, total in write_predictions(run)
            ),
        ]


def _pieces(
    asks: Mapping[str, Sequence[QueryRequest]], settings: LensSettings, *, shared_only: bool
) -> Iterator[Pass]:
    """Yield the requests for pieces; answers of one piece need no score if only shared ones rank."""
    models = ClozeOptions.read(settings.options).unified
    right = {
        item: {
            ask.variants[0][0]: Answer(ask.query.answer, ask.query.word_start, ask.initial)
            for ask in requests
            if ask.status == ONE_PIECE
        }
        for item, requests in asks.items()
    }
    ranks = AnswerRanks(right, shared_surfaces(models) if models else None, alone=shared_only)
    scores = TokenScores(top_k=TOP_K)
    for kind in ("encoder", "encoder-decoder", "decoder"):
        writes = kind != "encoder"
        all_inputs = {item: distinct_inputs(requests, writes=writes) for item, requests in asks.items()}
        yield Pass(Masked(all_inputs), (ranks,) if shared_only else (scores, ranks), (kind,))
        if shared_only:
            # In the order of all inputs: some are asked for nothing but ranks, the others for everything.
            long_answers = {
                item: [ask for ask in requests if ask.status != ONE_PIECE] for item, requests in asks.items()
            }
            inputs = {
                item: distinct_inputs(requests, writes=writes) for item, requests in long_answers.items()
            }
            yield Pass(Masked(inputs), (scores,), (kind,))


def _filled_in(texts: Sequence[Prepared]) -> Iterator[Pass]:
    """Yield the requests of models that fill in: one mask per subword, or one gap per word."""
    for kind, inputs in (("encoder", word_masks), ("encoder-decoder", word_gaps)):
        writes = kind == "encoder-decoder"
        positions = {
            item_input.item.item_id: find_name(item_input).inputs(writes=writes)
            if item_input.item.cuts
            else inputs(item_input.alignment)
            for item_input in texts
        }
        yield Pass(Masked(positions), (TokenScores(top_k=1),), (kind,))


def _objective(settings: LensSettings) -> str:
    return ClozeOptions.read(settings.options).objective


def _queries(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> Mapping[str, list[ClozeQuery]]:
    """Return the queries that ask for a piece, by item; empty if whole statements are scored."""
    masks_pieces = TASK in labels and _objective(settings) == MASKED
    return queries_by_item(labels[TASK]) if masks_pieces else {}


lens = ClozeLens()
