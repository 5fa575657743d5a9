"""Which names of APIs the model knows, in calls, imports and aliased imports (INK).

Models that fill in what is left out are asked for the piece: masked ones under a mask, encoder-decoders in a
gap, and so, with the objective ``masked``, decoders trained to fill in the middle. Models of any kind can be
given the whole statement with each of at most a hundred names of the same place in it (BEAR): decoders score
it from left to right, the others by pseudo-log-likelihood. So decoders are asked by default, and every model
of a run that holds one. With the objective ``answers`` the name alone is scored in each of these statements,
all of its subtokens: under as many masks, or from what stands before it, so that every tokenizer answers
every query. Pairs of statements (tasks ``api_deprecated``, ``api_fakes``) are always scored whole.
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
    ONE,
    TOP_K,
    ClozeQuery,
    QueryRequest,
    build_query_requests,
    collect_statements,
    distinct_gaps,
    distinct_variants,
    find_name,
    observe_queries,
    observe_texts,
    queries_by_item,
)
from sonde.lenses.cloze.paired import MARGIN_TASKS, score_margins
from sonde.lenses.cloze.ranks import shared_surfaces
from sonde.lenses.cloze.score import (
    UNIFIED,
    ClozeOptions,
    list_statements,
    score_candidates,
    score_masked_model,
    write_predictions,
)
from sonde.lenses.engine.lens import CapturedItem, Control, LensDefaults, LensSettings, ScoringContext
from sonde.lenses.engine.observations import word_gaps, word_masks
from sonde.models import Capabilities
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import has_dimensions
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score
from sonde.store.run_folder import RunDirectory
from sonde.tasks.engine.cloze_options import ANSWERS, CANDIDATES, GIVEN, MASKED

NEEDS = ("encoder", "decoder", "encoder-decoder")

TASK = "api_cloze"
CONTROL_SHARE = 0.25
_FEW = 10
"""Candidates for each level that a run is advised to take where it would be long."""


class ClozeLens(LensDefaults):
    """The cloze lens."""

    name = "cloze"
    version = "5"
    typed_options = ClozeOptions
    tasks = (TASK,)
    targets = frozenset({"corpus"})
    uses_datasets = True
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
        """Models that cannot fill in what is left out are refused, decoders with a head excepted."""
        if not capabilities.lacks:
            return None
        return (
            f"lens 'cloze' asks for what is left out, and this {capabilities.kind} has {capabilities.lacks}; "
            "use a model that has, or a decoder, for example sonde/mini-encoder"
        )

    def resolve_options(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, Option]:
        """The options with the objective that all models of a run can be asked by.

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
                f"run; give {CANDIDATES} or {ANSWERS}, by which every model can be asked"
            )
        # What models share is ranked beside each one's own vocabulary as soon as there are several.
        compared = {"unified": ",".join(sorted(models))} if len(models) > 1 else {}
        options = {**compared, **options}
        settled = ClozeOptions.read(options)
        if settled.ranking == UNIFIED and not settled.unified:
            raise UsageError(
                f"lens 'cloze': option ranking = {UNIFIED!r} needs several models, or their names in the "
                "option unified"
            )
        return options

    def controls(self, settings: LensSettings) -> tuple[Control, ...]:
        """One, which reads a quarter of the statements where each is asked by itself."""
        return (Control(settings.seed, CONTROL_SHARE if _objective(settings) == MASKED else 1.0),)

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """The statements that queries are cut from, or the candidate statements of each query and pair.

        Raises:
            UsageError: A task of another lens is among them.
            InputError: The models compared share no subtoken.
        """
        if compared := ClozeOptions.read(settings.options).unified:
            shared_surfaces(compared)
        known = (TASK, *MARGIN_TASKS)
        for task in labels:
            if task not in known:
                raise UsageError(f"lens 'cloze' asks the tasks {', '.join(known)}, and not {task!r}")
        found: dict[str, Item] = {}
        if TASK in labels and _objective(settings) == MASKED:
            asked = set(labels[TASK]["item_id"])
            found |= {item.item_id: item for item in items if item.item_id in asked}
        elif TASK in labels:
            # Words that a published file brings are compared as whole texts.
            answers = _objective(settings) == ANSWERS and GIVEN not in labels[TASK]["template"]
            found |= {item.item_id: item for item in collect_statements(labels[TASK], answers=answers)}
        for task in MARGIN_TASKS:
            if task in labels:
                found |= {item.item_id: item for item in collect_statements(labels[task])}
        return list(found.values())

    def describe_inputs(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> str:
        """How many statements there are of few names, where each is made with many candidates."""
        options = ClozeOptions.read(settings.options)
        if TASK not in labels or options.objective == MASKED:
            return ""
        made = f"{len(inputs):,} statements of {labels[TASK]['name'].n_unique():,} names"
        fewer = f"; fewer with --option cloze.candidates={_FEW}" if options.candidates > _FEW else ""
        return f"{made}, with up to {options.candidates} candidates at each level{fewer}"

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """What is left out of every statement, or the statements as they are, as each kind can be asked."""
        queries = _queries(labels, settings)
        asks = {
            one.item.item_id: build_query_requests(one, queries[one.item.item_id])
            for one in prepared
            if one.item.item_id in queries
        }
        texts = [one for one in prepared if one.item.item_id not in asks]
        whole = frozenset(one.item.item_id for one in texts)
        plain = Pass(Plain(), (TokenScores(top_k=1),), ("decoder",), whole)
        if not asks:
            return (plain, *_filled_in(texts))
        # Words that a published file brings compete by their probability, whatever models share.
        alone = (
            ClozeOptions.read(settings.options).ranking == UNIFIED and GIVEN not in labels[TASK]["template"]
        )
        return (*_pieces(asks, settings, alone=alone), plain, *_filled_in(texts))

    def observe(
        self,
        observed: Sequence[CapturedItem],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """A row a query, or a row a statement; see `sonde.lenses.cloze.observe`.

        Raises:
            CaptureError: A capture holds no scores.
        """
        queries = _queries(labels, settings)
        pieces = [one for one in observed if one.prepared.item.item_id in queries]
        whole = [one for one in observed if one.prepared.item.item_id not in queries]
        tables = [observe_queries(pieces, labels[TASK], surfaces)] if pieces else []
        return pl.concat([*tables, observe_texts(whole)])

    def score(self, scoring: ScoringContext) -> list[Score]:
        """P@k, MRR and log-probabilities with their controls, each number with its interval."""
        found: list[Score] = []
        if TASK in scoring.labels:
            score = score_masked_model if _objective(scoring.settings) == MASKED else score_candidates
            found += score(scoring, scoring.labels[TASK])
        for task in MARGIN_TASKS:
            if task in scoring.labels:
                found += score_margins(scoring, task)
        return found

    def details(self, scores: pl.DataFrame) -> Iterator[str]:
        """How often names are right by kind of statement, and which statement is preferred."""
        return list_statements(scores)

    def write_files(self, run: RunDirectory) -> Sequence[str]:
        """The names of each library, and the predictions that the published evaluator of ClozeTest takes."""
        return [
            *(f"libraries: {path} ({names} names)" for path, names in write_libraries(run)),
            *(
                f"predictions: {path} ({given} of {asked} entries)"
                for path, given, asked in write_predictions(run)
            ),
        ]


def _pieces(
    asks: Mapping[str, Sequence[QueryRequest]], settings: LensSettings, *, alone: bool
) -> Iterator[Pass]:
    """Inputs that ask for pieces; answers of one piece need no score where only the shared ones rank."""
    compared = ClozeOptions.read(settings.options).unified
    right = {
        item: {
            ask.variants[0][0]: Answer(ask.query.answer, ask.query.word_start, ask.initial)
            for ask in mine
            if ask.status == ONE
        }
        for item, mine in asks.items()
    }
    ranks = AnswerRanks(right, shared_surfaces(compared) if compared else None, alone=alone)
    scores = TokenScores(top_k=TOP_K)
    for kind, inputs in (
        ("encoder", distinct_variants),
        ("encoder-decoder", distinct_gaps),
        ("decoder", distinct_gaps),
    ):
        every = {item: inputs(mine) for item, mine in asks.items()}
        if not alone:
            yield Pass(Masked(every), (scores, ranks), (kind,))
            continue
        several = {item: inputs([ask for ask in mine if ask.status != ONE]) for item, mine in asks.items()}
        # In the order of all inputs: some are asked for nothing but ranks, the others for everything.
        yield Pass(Masked(every), (ranks,), (kind,))
        yield Pass(Masked(several), (scores,), (kind,))


def _filled_in(texts: Sequence[Prepared]) -> Iterator[Pass]:
    """Whole statements of models that fill in: a mask a subword, or a gap a word; of some a name alone."""
    for kind, inputs in (("encoder", word_masks), ("encoder-decoder", word_gaps)):
        writes = kind == "encoder-decoder"
        masked = Masked(
            {
                one.item.item_id: _of_name(one, writes=writes) if one.item.cuts else inputs(one.alignment)
                for one in texts
            }
        )
        yield Pass(masked, (TokenScores(top_k=1),), (kind,))


def _of_name(one: Prepared, *, writes: bool) -> tuple[tuple[int, ...], ...]:
    ask = find_name(one)
    return ask.full_inputs if writes else ask.variants


def _objective(settings: LensSettings) -> str:
    return ClozeOptions.read(settings.options).objective


def _queries(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> Mapping[str, list[ClozeQuery]]:
    """The queries that are asked for a piece, by item; none where whole statements are scored."""
    asked = TASK in labels and _objective(settings) == MASKED
    return queries_by_item(labels[TASK]) if asked else {}


lens = ClozeLens()
