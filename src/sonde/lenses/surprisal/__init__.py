"""Which tokens and constructs the model is unsure of (PERPLEXED and CODETOKENIZERS).

One plain pass gives the surprisal of every subword; the tables say where it is high: by subword, syntax tag,
construct, token kind, ancestor and user's label, and for calls into the repository against calls out of it.
Masked models are asked subword by subword instead: their pseudo-log-likelihood is a number of its own kind,
and so is what models that fill in give the code tokens left out. With the option ``pairs`` minimal pairs are
read in place of the items (`sonde.lenses.surprisal.minimal_pairs`).

`headline` builds what a run prints about surprisal: constructs by surprisal, code from before and after a
date, and minimal pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from sonde.base.errors import CaptureError, explain_nan
from sonde.base.options import Option
from sonde.capture.requests import Masked, Pass, Prepared, ScoredSubwords, TokenScores
from sonde.corpora import Item
from sonde.languages import format_language
from sonde.lenses.engine.lens import CapturedItem, Control, LensDefaults, LensSettings, ScoringContext
from sonde.lenses.engine.observations import combine_masked_scores, word_gaps, word_masks
from sonde.lenses.surprisal.common_text import TokenRows, score_common_text
from sonde.lenses.surprisal.file_context import (
    decoder_requests,
    file_context_requests,
    name_file_context_scores,
    score_changes,
    uses_file_context,
    with_file_context,
)
from sonde.lenses.surprisal.minimal_pairs import (
    PREFERRED,
    check_pair_settings,
    get_paired_task_names,
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
    PLL,
    SurprisalOptions,
    check_no_quirks,
    find_unfit_models,
    resolve_objective,
    select_masked_items,
    with_objective,
)
from sonde.lenses.surprisal.origin import SUMMARY, OriginSummary, pad_rows, scores_by_origin
from sonde.lenses.surprisal.score import (
    BITS,
    BY_ID,
    NONE_FIRST,
    SUMS,
    Sums,
    collect_sums,
    items_by_period,
    overall_scores,
    period_scores,
    score_calibration,
    score_frequency,
    slice_scores,
)
from sonde.models import Capabilities
from sonde.models.engine.model_names import PREFIX
from sonde.results.extremes import describe_ends
from sonde.results.headlines import CUTOFF_CHANGE, PERIOD, describe_contamination
from sonde.results.schema import (
    IS_FIRST,
    OBSERVATIONS_SCHEMA,
    SHARED_TOKENS,
    dimension_value,
    has_dimension_names,
    has_dimensions,
)
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score
from sonde.results.tables import Column, Table, sample_size_column
from sonde.results.text_format import (
    PERCENT,
    Interval,
    Number,
    caveat,
    format_score,
    insufficient_data_reason,
)

_ROWS = 10


_COLUMNS = (
    Column(title="Construct", value="construct"),
    Column(title="Bits", format=Number()),
    Column(title="95 % interval", format=Interval(missing="")),
    sample_size_column("cluster"),
)


_SCORED = {"pll": "bits of pseudo-log-likelihood per {unit}", "infill": "bits per {unit} that it fills in"}
"""What bits are of where both sides were seen."""


_PAIRED = (
    Column(title="Fault", value="task"),
    Column(title="%", format=PERCENT),
    Column(title="95 % interval", format=Interval(digits=1, scale=100, missing="")),
    Column(title="Best control", value="best"),
    Column(title="% by it", value="reached", format=PERCENT),
    sample_size_column("cluster"),
)


def headline(scores: pl.DataFrame) -> Iterator[str]:
    """Lines for a person, from the lens's rows of ``scores.parquet``; nothing where there are none."""
    own = has_dimension_names("construct") & (pl.col("metric") == "bits")
    shared = has_dimension_names(SHARED_TOKENS[0], "construct") & (pl.col("metric") == "nats_per_token")
    rows = scores.filter(pl.col("control").is_null())
    # Several models stand one below the other: over the code tokens that all of them have whole.
    table = rows.filter(shared) if (several := not rows.filter(shared).is_empty()) else rows.filter(own)
    scale = BITS if several else 1.0
    table = table.with_columns(
        pl.col("value", "ci_low", "ci_high") * scale, construct=dimension_value("construct")
    )
    for (model, language), rows in sorted(
        table.group_by("model", "language"), key=lambda entry: str(entry[0])
    ):
        worst = rows.sort("value", descending=True, nulls_last=True).head(_ROWS)
        yield ""
        what = _SCORED.get(str(worst["objective"].first()), "bits per {unit}")
        what = what.format(unit="code token that all models have whole" if several else "subword")
        shown = (
            f"the {worst.height} highest of {rows.height} means"
            if worst.height < rows.height
            else "all means"
        )
        yield f"{format_language(language)} constructs for {model}, in {what}: {shown}"
        yield from Table(summary="Constructs", columns=_COLUMNS, rows=worst).lines(header=False, indent=2)
        if said := describe_ends(
            rows.to_dicts(),
            lambda row: row["construct"],
            lambda row: format_score(row, digits=2),
            noun="constructs",
            verbs=("surprises most", "surprises least"),
        ):
            yield f"  {said}."
    yield from _of_times(scores)
    yield from _of_pairs(scores)


def _of_pairs(scores: pl.DataFrame) -> Iterator[str]:
    """How often each fault is the less likely text, beside its best control; nothing without pairs."""
    rows = scores.filter((pl.col("metric") == PREFERRED) & has_dimensions({}))
    for (model, language), part in sorted(
        rows.partition_by("model", "language", as_dict=True).items(), key=lambda entry: str(entry[0])
    ):
        controls = part.filter(pl.col("control").is_not_null()).sort("value", descending=True)
        best = controls.unique("task", keep="first", maintain_order=True).select(
            "task", best=pl.col("control").str.replace_all("_", " "), reached=pl.col("value")
        )
        own = part.filter(pl.col("control").is_null()).join(best, on="task", how="left")
        yield ""
        yield (
            f"Originals likelier than their mutants on {format_language(language)} for {model}, in % of the "
            "pairs"
        )
        table = Table(summary="Minimal pairs", columns=_PAIRED, rows=own.sort("value", descending=True))
        yield from table.lines(indent=2)


def _of_times(scores: pl.DataFrame) -> Iterator[str]:
    """Whether newer code costs more than older code of the same kind; nothing in a run without a date."""
    rows = scores.filter(
        has_dimension_names(PERIOD)
        & (dimension_value(PERIOD) == CUTOFF_CHANGE)
        & (pl.col("metric") == "bits")
        & pl.col("control").is_null()
    )
    for (model, language), part in rows.partition_by("model", "language", as_dict=True).items():
        (change, *beyond) = part.sort("compared_to", nulls_last=False).to_dicts()
        yield ""
        yield (
            f"Newer {language} code less older code of the same kind for {model}: "
            f"{format_score(change, digits=2, sign='+')} bits per subword{caveat(change)}"
        )
        for row in beyond:
            yield f"  less the same with random weights: {format_score(row, digits=2, sign='+')}{caveat(row)}"
        if not any(map(insufficient_data_reason, (change, *beyond))):
            yield f"  {describe_contamination(change, beyond[0] if beyond else None)}"


NEEDS = ("encoder", "decoder", "encoder-decoder", "endpoint")


TOP_K = 5


BINS = 10


class SurprisalLens(LensDefaults):
    """The surprisal lens."""

    name = LENS
    version = "8"
    typed_options = SurprisalOptions
    tasks = ("call_origin",)
    comparable_metrics = (
        ComparableMetric(
            metric="bits", direction="lower", without=("subword", "name", PERIOD), tokenizers="same"
        ),
        ComparableMetric(metric="bits_per_character", direction="lower", tokenizers="other"),
        ComparableMetric(
            metric="nats_per_token",
            direction="lower",
            without=("name", PERIOD),
            within=(SHARED_TOKENS[0],),
            tokenizers="other",
        ),
        ComparableMetric(
            metric="nats_per_token",
            direction="lower",
            without=("subword", "name", PERIOD, SHARED_TOKENS[0]),
            tokenizers="changed",
        ),
        ComparableMetric(metric=PREFERRED, direction="higher"),
    )

    def pairs(self, options: Mapping[str, Option]) -> tuple[str, ...]:
        """Return the tasks of the option ``pairs``."""
        return get_paired_task_names(SurprisalOptions.read(options))

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Return why a model cannot be read: it predicts no subword and fills in none."""
        if not capabilities.lacks:
            return None
        return (
            f"lens 'surprisal' scores decoders and models that fill in, and this {capabilities.kind} has "
            f"{capabilities.lacks}; use one of them, for example sonde/mini-decoder"
        )

    def excluded_models(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, str]:
        """Return masked models beside decoders, and those that the objective asked for does not fit."""
        return find_unfit_models(models, options)

    def resolve_options(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, Option]:
        """Resolve the options with the objective that the models support."""
        return resolve_objective(models, options)

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """Return the items; of masked readings those that are few and short enough."""
        options = SurprisalOptions.read(settings.options)
        if options.objective == CAUSAL:
            return items
        if options.pairs:
            # Filling in takes one forward a text.
            return select_masked_pairs(items, labels, options) if options.objective == PLL else items
        return select_masked_items(items, settings, options)

    def needs_file_context(self, settings: LensSettings) -> bool:
        """Return the files, where each text is also to be read behind its own."""
        return uses_file_context(settings, SurprisalOptions.read(settings.options))

    def controls(self, settings: LensSettings) -> tuple[Control, ...]:
        """Return no controls; options that contradict are refused before a corpus is read."""
        check_pair_settings(settings, SurprisalOptions.read(settings.options))
        return ()

    def assign_controls(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Control, ...]:
        """Assign random weights over the same items, where periods are compared."""
        return (Control(settings.seed),) if any(item.period for item in inputs) else ()

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Request one plain pass (one over pads too with that quirk), or one per hidden part."""
        scores = TokenScores(top_k=TOP_K)
        options = SurprisalOptions.read(settings.options)
        if options.pairs:
            return pair_requests(prepared, labels, options)
        if options.objective != CAUSAL:
            check_no_quirks(settings)
            mask_words = word_masks if options.objective == PLL else word_gaps
            words = {item.item.item_id: mask_words(item.alignment) for item in prepared}
            return (Pass(Masked(words), (scores,)),)
        passes = decoder_requests(scores, options.bos, settings)
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
        """Build one row per scored subword, or per text of a pair; see docs/files.md.

        Raises:
            CaptureError: The captures hold no scores, not those of an item's subwords, or infinite ones.
        """
        options = SurprisalOptions.read(settings.options)
        if options.pairs:
            return observe_pairs(observed, labels, options)
        if not observed:
            # A server may decline all that a job sends it.
            return pl.DataFrame(schema=OBSERVATIONS_SCHEMA)
        scores_of_items = [_scores(item, options.objective) for item in observed]
        items = [item.prepared for item in observed]
        if PADS not in check_active_quirks(settings):
            rows = observe_items(items, scores_of_items, labels, settings, surfaces)
            return with_file_context(rows, observed) if uses_file_context(settings, options) else rows
        frames: list[pl.DataFrame] = []
        for item, scores in zip(observed, scores_of_items, strict=True):
            frames.append(observe_items([item.prepared], [scores], labels, settings, surfaces))
            frames += [pad_rows(item.prepared, capture, surfaces) for capture in item.captures[1:]]
        return pl.concat(frames)

    def score(self, scoring: ScoringContext) -> list[Score]:
        """Score every table of the lens, each number with its interval."""
        settings = scoring.settings
        options = SurprisalOptions.read(settings.options)
        if options.pairs:
            return list(with_objective(score_pairs(scoring), options.objective))
        minimum = options.min_count
        observations, batches = scoring.observations, scoring.batches
        if options.with_internal_calls:
            observations = _calling_internally(observations)
            batches = batches.map(_calling_internally)
        summary = SUMMARY.resolve(settings, OriginSummary(minimum))
        subword = SUBWORD.resolve(settings, BY_ID)
        first = FIRST_APART.resolve(settings, IS_FIRST if options.objective == CAUSAL else NONE_FIRST)
        sums = SUMS.resolve(settings, collect_sums(batches, bins=BINS, subword=subword, first=first))
        template = scoring.template
        # Under published rules a subword may be filed under another's token.
        tokens = (
            None
            if check_active_quirks(settings)
            else TokenRows(first=first, minimum=minimum, summary=summary)
        )
        scores = [
            *score_common_text(observations, scoring.beside, scoring.texts, template, tokens),
            *_tables(sums, scoring, minimum, summary),
            *period_scores(
                observations,
                [control.observations for control in scoring.controls],
                items_by_period(scoring.items),
                template,
                minimum,
            ),
        ]
        if uses_file_context(settings, options):
            with_file = collect_sums(batches, bins=BINS, subword=subword, first=first, with_file=True)
            with_file = SUMS.resolve(settings, with_file)
            scores += name_file_context_scores(_tables(with_file, scoring, minimum, summary))
            scores += score_changes(sums, with_file, template, minimum, summary)
        unknown = unknown_metrics(observations) if template.model.startswith(PREFIX) else frozenset[str]()
        return list(
            with_objective((score for score in scores if score.metric not in unknown), options.objective)
        )

    def headline(self, scores: pl.DataFrame) -> Iterator[str]:
        """The most confusing constructs of each model."""
        yield from headline(scores)


def _tables(sums: Sums, scoring: ScoringContext, minimum: int, summary: OriginSummary) -> Iterator[Score]:
    """Score every table of one reading of the texts."""
    template, training_counts = scoring.template, _training_counts(sums, scoring.frequencies)
    yield from overall_scores(sums, template)
    yield from slice_scores(sums, template, minimum)
    yield from scores_by_origin(sums.calls, template, summary)
    yield from score_calibration(sums.calibration, template, BINS)
    yield from score_frequency(sums.slices["subword"], "subword", template, minimum, training_counts)
    yield from score_frequency(sums.slices["tag"], "tag", template, minimum)


def _scores(reading: CapturedItem, objective: str) -> ScoredSubwords:
    item, size = reading.prepared.item, len(reading.prepared.alignment.subwords)
    if objective != CAUSAL:
        scores = combine_masked_scores(reading.captures)
    else:
        scores = reading.captures[0].scores if reading.captures else None
    if scores is None or len(scores.nats) != size:
        count = 0 if scores is None else len(scores.nats)
        raise CaptureError(
            f"item {item.path!r} {item.name!r}: {count} scores for {size} subwords; "
            "capture and alignment have to use one tokenizer"
        )
    if not np.isfinite(scores.nats[scores.scored]).all():
        raise CaptureError(f"item {item.path!r} {item.name!r}: a surprisal is not finite; {explain_nan()}")
    return scores


def _calling_internally(observations: pl.LazyFrame) -> pl.LazyFrame:
    """Select the rows of items that hold a call into their repository (PERPLEXED, section 3.1)."""
    caller_ids = observations.filter(pl.col("origin") == "internal").select(pl.col("item_id").unique())
    # A list rather than a join: the rows of an item have to stay together and in order.
    return observations.filter(pl.col("item_id").is_in(caller_ids.collect()["item_id"].to_list()))


def _training_counts(sums: Sums, frequencies: pl.DataFrame | None) -> pl.DataFrame | None:
    """Counts in the training data by slice; ids that became one slice are counted together."""
    if frequencies is None:
        return None
    counts = sums.vocabulary.join(frequencies, on="subword_id")
    return counts.group_by("slice").agg(pl.col("count").sum())


lens = SurprisalLens()
