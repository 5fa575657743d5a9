"""Measures how unsure the model is of each token and construct (PERPLEXED and CODETOKENIZERS).

One forward pass gives the surprisal of every subword. The tables show where it is high: by subword, syntax
tag, construct, token kind, ancestor and user's label, and for calls into the repository against calls out of
it. Masked models are scored by pseudo-log-likelihood, one masked subword at a time, and models that fill in
text by the code tokens left out. Numbers of these three kinds cannot be compared. With the option ``pairs``,
minimal pairs are read instead of the items (`sonde.lenses.surprisal.minimal_pairs`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from sonde.base.errors import CaptureError, UsageError, explain_nan
from sonde.base.options import Option
from sonde.capture.requests import Masked, Pass, Prepared, ScoredSubwords, TokenEndScores, TokenScores
from sonde.corpora import Item
from sonde.languages import format_language
from sonde.lenses.engine.lens import CapturedItem, Control, LensSettings, ReadingLens, ScoringContext
from sonde.lenses.engine.observations import combine_masked_scores, word_gaps, word_masks
from sonde.lenses.surprisal.accepted import (
    add_completions,
    describe_accepted,
    observe_places,
    score_accepted,
)
from sonde.lenses.surprisal.common_text import score_common_text
from sonde.lenses.surprisal.file_context import (
    FILE_CONTEXT,
    decoder_requests,
    file_context_requests,
    replace_text_scores,
    score_changes,
    uses_file_context,
    with_file_context,
)
from sonde.lenses.surprisal.minimal_pairs import (
    PREFERRED,
    observe_pairs,
    pair_requests,
    score_pairs,
    select_masked_pairs,
)
from sonde.lenses.surprisal.observe import (
    FIRST_APART,
    LENS,
    PADS,
    SUBWORD,
    check_active_quirks,
    observe_items,
    unknown_metrics,
)
from sonde.lenses.surprisal.options import (
    CAUSAL,
    NO_CONTEXT,
    PLL,
    SurprisalOptions,
    check_no_quirks,
    explain_unfit,
    select_masked_items,
    select_objective,
)
from sonde.lenses.surprisal.origin import SUMMARY, OriginSummary, is_summary, pad_rows, scores_by_origin
from sonde.lenses.surprisal.score import (
    BITS,
    BY_ID,
    NONE_FIRST,
    SUMS,
    Sums,
    collect_sums,
    is_of_subwords,
    items_by_period,
    overall_scores,
    period_scores,
    score_calibration,
    score_frequency,
    slice_scores,
)
from sonde.lenses.surprisal.units import observe_units
from sonde.models import Capabilities
from sonde.models.engine.files import SERVED
from sonde.models.engine.model_names import PREFIX
from sonde.results.accepted import CHARACTERS, LINE
from sonde.results.extremes import describe_ends
from sonde.results.headlines import HeadlineMetric
from sonde.results.memorisation import CUTOFF_CHANGE, PERIOD, describe_contamination
from sonde.results.schema import (
    IS_FIRST,
    OBSERVATIONS_SCHEMA,
    SHARED_PLACES,
    SHARED_TOKENS,
    dimension_value,
    has_dimension_names,
    has_dimensions,
)
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score, split_by_model
from sonde.results.tables import Column, Table, estimate_columns, sample_size_column
from sonde.results.text_format import PERCENT, insufficient_data_reason, verdict_mark, with_interval
from sonde.tasks.engine.pairs import makes_pairs
from sonde.tasks.engine.task import TASKS

_IS_SHARED = has_dimensions({"text": "shared"})


_MAX_CONSTRUCTS = 10


_ALL_TASKS = "all"
"""Value of the option ``pairs`` that names all tasks."""


_COLUMNS = (Column(title="Construct", value="construct"), *estimate_columns("Bits"))


_BITS = {"pll": "bits of pseudo-log-likelihood per {unit}", "infill": "bits per {unit} that it fills in"}
"""Measures by objective, where both sides were seen."""


_PAIR_COLUMNS = (
    Column(title="Fault", value="task"),
    *estimate_columns("%", 1, 100),
    Column(title="Best control", value="best"),
    Column(title="% by it", value="reached", format=PERCENT),
    sample_size_column("pair", "cluster"),
)


def _list_constructs(scores: pl.DataFrame) -> Iterator[str]:
    """Yield lines with constructs by surprisal, the highest first; none without any."""
    is_construct = has_dimension_names("construct") & (pl.col("metric") == "bits")
    is_shared = has_dimension_names(SHARED_TOKENS[0], "construct") & (pl.col("metric") == "nats_per_token")
    rows = scores.filter(pl.col("control").is_null())
    # Several models stand one below the other: over the code tokens that all of them score.
    is_comparison = not rows.filter(is_shared).is_empty()
    unit, scale = ("code token", BITS) if is_comparison else ("subword", 1.0)
    table = rows.filter(is_shared if is_comparison else is_construct).with_columns(
        pl.col("value", "ci_low", "ci_high") * scale, construct=dimension_value("construct")
    )
    for model, language, part in split_by_model(table):
        highest_rows = part.sort("value", descending=True, nulls_last=True).head(_MAX_CONSTRUCTS)
        measure = _BITS.get(str(highest_rows["objective"].first()), "bits per {unit}").format(unit=unit)
        selection = "all means"
        if highest_rows.height < part.height:
            selection = f"the {highest_rows.height} highest of {part.height} means"
        yield ""
        yield f"{format_language(language)} constructs for {model}, in {measure}: {selection}"
        columns = (*_COLUMNS, sample_size_column(unit, "cluster"))
        yield from Table(summary="Constructs", columns=columns, rows=highest_rows).lines(
            header=False, indent=2
        )
        if sentence := describe_ends(
            part.to_dicts(),
            lambda row: row["construct"],
            with_interval,
            noun="constructs",
            verbs=("surprises most", "surprises least"),
        ):
            yield f"  {sentence}."


def _list_pairs(scores: pl.DataFrame) -> Iterator[str]:
    """Yield lines with how often each fault is the less likely text, and its best control."""
    for model, language, part in split_by_model(
        scores.filter((pl.col("metric") == PREFERRED) & has_dimensions({}))
    ):
        controls = part.filter(pl.col("control").is_not_null()).sort("value", descending=True)
        best = controls.unique("task", keep="first", maintain_order=True).select(
            "task", best=pl.col("control").str.replace_all("_", " "), reached=pl.col("value")
        )
        model_rows = part.filter(pl.col("control").is_null()).join(best, on="task", how="left")
        table = Table(
            summary="Minimal pairs", columns=_PAIR_COLUMNS, rows=model_rows.sort("value", descending=True)
        )
        yield ""
        yield (
            f"Originals likelier than their mutants for {model} in {format_language(language)}, in % of the "
            "pairs"
        )
        yield from table.lines(indent=2)


def _list_periods(scores: pl.DataFrame) -> Iterator[str]:
    """Yield lines on whether newer code costs more than older code of the same kind, if a run has a date."""
    rows = scores.filter(
        has_dimension_names(PERIOD)
        & (dimension_value(PERIOD) == CUTOFF_CHANGE)
        & (pl.col("metric") == "bits")
        & pl.col("control").is_null()
    )
    for model, language, part in split_by_model(rows):
        (change, *control_changes) = part.sort("compared_to", nulls_last=False).to_dicts()
        yield ""
        yield (
            f"Newer minus older {format_language(language)} code of the same kind for {model}: "
            f"{with_interval(change, sign='+')} bits per subword{verdict_mark(change)}"
        )
        for row in control_changes:
            yield f"  minus the same with random weights: {with_interval(row, sign='+')}{verdict_mark(row)}"
        if not any(map(insufficient_data_reason, (change, *control_changes))):
            yield f"  {describe_contamination(change, control_changes[0] if control_changes else None)}"


NEEDS = ("encoder", "decoder", "encoder-decoder", "endpoint")

SYNONYMS = ("perplexity", "cross entropy", "log likelihood", "loss", "calibration")


TOP_K = 5


def _compare_places(metric: str) -> tuple[ComparableMetric, ComparableMetric]:
    """Declare a metric of places: over those of one tokenizer, and over those of both."""
    name, _ = SHARED_PLACES
    return (
        ComparableMetric(metric=metric, direction="higher", gated=False, without=(name,), tokenizers="same"),
        ComparableMetric(metric=metric, direction="higher", gated=False, within=(name,), tokenizers="other"),
    )


class SurprisalLens(ReadingLens):
    """The surprisal lens."""

    name = LENS
    version = "11"
    typed_options = SurprisalOptions
    tasks = ("call_origin",)
    headline = HeadlineMetric(
        subject="Surprisal",
        measure="bits per byte",
        metrics=("bits_per_byte",),
        # Of several models over what all of them cover, of one over all that it read.
        where=pl.when(_IS_SHARED.any().over("language")).then(_IS_SHARED).otherwise(has_dimensions({})),
        share=False,
        lower=True,
        subjects={"pll": "Pseudo-log-likelihood", "infill": "What is filled in"},
        otherwise=HeadlineMetric(
            subject="Likelier originals",
            measure="minimal pairs",
            finding="{task}: the model tells originals from their mutants",
            metrics=(PREFERRED,),
            controls={
                "chance": "chance",
                "length": "the shorter text",
                "ngram": "n-grams of code tokens",
                "parse_error": "a parser",
                "frequency": "the more frequent name",
            },
        ),
    )
    comparable_metrics = (
        ComparableMetric(
            metric="bits",
            direction="lower",
            without=("subword", "name", PERIOD),
            tokenizers="same",
            of_subwords=is_of_subwords,
        ),
        ComparableMetric(metric="bits_per_character", direction="lower", tokenizers="other"),
        ComparableMetric(
            metric="nats_per_token",
            direction="lower",
            without=("name",),
            within=(SHARED_TOKENS[0],),
            tokenizers="other",
            excludes=is_summary,
        ),
        ComparableMetric(
            metric="nats_per_token",
            direction="lower",
            without=("subword", "name", PERIOD, SHARED_TOKENS[0]),
            tokenizers="changed",
            excludes=is_summary,
        ),
        ComparableMetric(metric=PREFERRED, direction="higher"),
        *_compare_places(CHARACTERS),
        *_compare_places(LINE),
    )

    def pairs(self, options: Mapping[str, Option]) -> tuple[str, ...]:
        """Return the tasks of the option ``pairs``.

        Raises:
            UnknownNameError: There is no such task.
            UsageError: A task gives no pairs.
        """
        names = SurprisalOptions.read(options).pairs
        if _ALL_TASKS in names:
            tasks = {name: TASKS.load(name) for name in TASKS.names()}
            return tuple(
                name for name, task in tasks.items() if makes_pairs(task) and not getattr(task, "repeats", "")
            )
        for name in names:
            if not makes_pairs(TASKS.load(name)):
                raise UsageError(
                    f"lens 'surprisal': task {name!r} has no pairs of an original and a mutant; set pairs to "
                    f"a task of faults or bugs, for example variable_misuse, or {_ALL_TASKS}"
                )
        return names

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Return why a model cannot be scored: it neither predicts the next subword nor fills in."""
        if not capabilities.lacks:
            return None
        return (
            f"lens 'surprisal' scores decoders and models that fill in text, but this {capabilities.kind} "
            f"has {capabilities.lacks}; use another model, for example sonde/mini-decoder"
        )

    def excluded_models(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, str]:
        """Return masked models of a run with decoders, and those that the objective does not fit."""
        objective = select_objective(models, options)
        if SurprisalOptions.read(options).before != NO_CONTEXT:
            server_models = [name for name, model in models.items() if model.kind == SERVED.kind]
            reason = "lens 'surprisal': a server scores each text without its file; leave out option before"
            return dict.fromkeys(server_models, reason)
        reasons = {name: explain_unfit(name, model, objective) for name, model in models.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def resolve_options(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, Option]:
        """Return the options with the objective that fits the models."""
        objective = select_objective(models, options)
        return options if objective == CAUSAL else {**options, "objective": objective}

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """Return the items; of many, or of long ones, an objective with masks selects a part."""
        options = SurprisalOptions.read(settings.options)
        if options.objective == CAUSAL:
            return items
        if options.pairs:
            # Filling in takes one forward a text.
            return select_masked_pairs(items, labels, options) if options.objective == PLL else items
        return select_masked_items(items, settings, options)

    def needs_file_context(self, settings: LensSettings) -> bool:
        """Return whether each text is also scored after the text of its file."""
        return uses_file_context(settings, SurprisalOptions.read(settings.options))

    def controls(self, settings: LensSettings) -> tuple[Control, ...]:
        """Return no controls; refuse options that exclude each other before a corpus is read.

        Raises:
            UsageError: Pairs, and published code, quirks, files before the texts or a choice of items.
        """
        options = SurprisalOptions.read(settings.options)
        if options.pairs and (
            settings.mode == "paper"
            or settings.quirks
            or options.before != NO_CONTEXT
            or options.with_internal_calls
        ):
            raise UsageError(
                "lens 'surprisal': pairs cannot be combined with paper mode, quirks, before or "
                "with_internal_calls; leave out those or pairs"
            )
        if options.completions and (
            options.objective != CAUSAL or options.pairs or check_active_quirks(settings)
        ):
            raise UsageError(
                "lens 'surprisal': completions are those of decoders on whole items; leave out option "
                "completions, or else pairs, quirks and another objective"
            )
        return ()

    def assign_controls(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Control, ...]:
        """Return a control with random weights if texts from before and after a day are compared."""
        return (Control(settings.seed),) if any(item.period for item in inputs) else ()

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Return a plain pass, with a quirk also a padded one, or a pass per hidden part."""
        scores = TokenScores(top_k=TOP_K)
        options = SurprisalOptions.read(settings.options)
        if options.pairs:
            return pair_requests(prepared, labels, options)
        if options.objective != CAUSAL:
            check_no_quirks(settings)
            mask_words = word_masks if options.objective == PLL else word_gaps
            words = {
                prepared_item.item.item_id: mask_words(prepared_item.alignment) for prepared_item in prepared
            }
            return (Pass(Masked(words), (scores,)),)
        passes = decoder_requests(scores, options.bos, settings)
        if options.completions:
            passes = add_completions(passes, prepared, options.completions, settings.seed)
        return (
            (*passes, *file_context_requests(prepared, scores, options.bos))
            if uses_file_context(settings, options)
            else passes
        )

    def observe(
        self,
        observed: Sequence[CapturedItem],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """Return a row per scored subword, or per text of a pair; docs/files.md describes the columns.

        Raises:
            CaptureError: The captures hold no scores, not those of an item's subwords, or infinite ones.
        """
        options = SurprisalOptions.read(settings.options)
        if options.pairs:
            return observe_pairs(observed, labels, options)
        if not observed:
            # A server may decline all that a job sends it.
            return pl.DataFrame(schema=OBSERVATIONS_SCHEMA)
        item_scores = [_scores(captured_item, options.objective) for captured_item in observed]
        prepared_items = [captured_item.prepared for captured_item in observed]
        if PADS not in check_active_quirks(settings):
            units = completion = None
            if not check_active_quirks(settings):
                ends = [
                    captured_item.captures[0].extra.get(TokenEndScores.answer) for captured_item in observed
                ]
                units = observe_units(
                    prepared_items, item_scores, ends, labels, settings, causal=options.objective == CAUSAL
                )
                if options.objective == CAUSAL:
                    captures = [captured_item.captures[0] for captured_item in observed]
                    completion = observe_places(prepared_items, captures, options.completions, settings.seed)
            rows = observe_items(prepared_items, item_scores, labels, settings, surfaces, units, completion)
            return with_file_context(rows, observed) if uses_file_context(settings, options) else rows
        frames: list[pl.DataFrame] = []
        for captured_item, scores in zip(observed, item_scores, strict=True):
            frames.append(observe_items([captured_item.prepared], [scores], labels, settings, surfaces))
            frames += [
                pad_rows(captured_item.prepared, pad_capture, surfaces)
                for pad_capture in captured_item.captures[1:]
            ]
        return pl.concat(frames)

    def score(self, scoring: ScoringContext) -> list[Score]:
        """Return every table of the lens, each number with its interval."""
        settings = scoring.settings
        options = SurprisalOptions.read(settings.options)
        template = dataclasses.replace(scoring.template, objective=options.objective)
        if options.pairs:
            return list(score_pairs(scoring, template, options.min_count))
        minimum = options.min_count
        observations, batches = scoring.observations, scoring.batches
        if options.with_internal_calls:
            observations = _calling_internally(observations)
            batches = batches.map(_calling_internally)
        # Which items call internally, each model's own subwords decide.
        shared = {} if options.with_internal_calls else scoring.shared
        summary = SUMMARY.resolve(settings, OriginSummary(minimum))
        subword = SUBWORD.resolve(settings, BY_ID)
        first = FIRST_APART.resolve(settings, IS_FIRST if options.objective == CAUSAL else NONE_FIRST)
        sums = SUMS.resolve(settings, collect_sums(batches, subword=subword, first=first))
        periods = items_by_period(scoring.items)
        scores = [
            *score_common_text(
                observations,
                scoring.beside,
                scoring.texts,
                template,
                minimum,
                # Under published rules a subword may be filed under another's token.
                None if check_active_quirks(settings) else summary,
                periods,
                shared,
            ),
            *_tables(sums, template, scoring.frequencies, minimum, summary),
            *period_scores(
                observations,
                [control.observations for control in scoring.controls],
                periods,
                template,
                minimum,
            ),
        ]
        if uses_file_context(settings, options):
            file_sums = collect_sums(batches.map(replace_text_scores), subword=subword, first=first)
            file_sums = SUMS.resolve(settings, file_sums)
            file_template = template.within(FILE_CONTEXT)
            scores += _tables(file_sums, file_template, scoring.frequencies, minimum, summary)
            scores += score_changes(sums, file_sums, template, minimum, summary)
        if options.objective == CAUSAL and not check_active_quirks(settings):
            read = dataclasses.replace(
                scoring, observations=observations, tables=batches.tables, shared=shared
            )
            has_file = uses_file_context(settings, options)
            scores += score_accepted(read, template, options, has_file=has_file)
        unknown = unknown_metrics(observations) if template.model.startswith(PREFIX) else frozenset[str]()
        return [score for score in scores if score.metric not in unknown]

    def details(self, scores: pl.DataFrame) -> Iterator[str]:
        """Describe constructs by surprisal, completions, both sides of a date, and minimal pairs."""
        yield from _list_constructs(scores)
        yield from describe_accepted(scores)
        yield from _list_periods(scores)
        yield from _list_pairs(scores)


def _tables(
    sums: Sums, template: Score, frequencies: pl.DataFrame | None, minimum: int, summary: OriginSummary
) -> Iterator[Score]:
    """Yield every table of the texts, alone or after their files."""
    # Ids of one slice are counted together.
    training_counts = (
        None
        if frequencies is None
        else sums.vocabulary.join(frequencies, on="subword_id").group_by("slice").agg(pl.col("count").sum())
    )
    yield from overall_scores(sums, template)
    yield from slice_scores(sums, template, minimum)
    yield from scores_by_origin(sums.calls, template, summary)
    yield from score_calibration(sums.calibration, template)
    yield from score_frequency(sums.slices["subword"], "subword", template, minimum, training_counts)
    yield from score_frequency(sums.slices["tag"], "tag", template, minimum)


def _scores(captured_item: CapturedItem, objective: str) -> ScoredSubwords:
    item, size = captured_item.prepared.item, len(captured_item.prepared.alignment.subwords)
    if objective != CAUSAL:
        scores = combine_masked_scores(captured_item.captures)
    else:
        scores = captured_item.captures[0].scores if captured_item.captures else None
    if scores is None or len(scores.nats) != size:
        score_count = 0 if scores is None else len(scores.nats)
        raise CaptureError(
            f"item {item.path!r} {item.name!r}: {score_count} scores for {size} subwords; "
            "capture and alignment have to use one tokenizer"
        )
    if not np.isfinite(scores.nats[scores.scored]).all():
        raise CaptureError(f"item {item.path!r} {item.name!r}: a surprisal is not finite; {explain_nan()}")
    return scores


def _calling_internally(observations: pl.LazyFrame) -> pl.LazyFrame:
    """Select the rows of items that hold a call into their repository (PERPLEXED, section 3.1)."""
    calling = observations.filter(pl.col("origin") == "internal").select(pl.col("item_id").unique())
    # A list rather than a join: the rows of an item have to stay together and in order.
    return observations.filter(pl.col("item_id").is_in(calling.collect()["item_id"].to_list()))


lens = SurprisalLens()
