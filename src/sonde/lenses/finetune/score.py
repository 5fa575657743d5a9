"""Scores of fine-tuning: accuracy per method, paired differences, caveats and headlines.

Methods are compared on the same examples. A difference from a model that was not trained enough is a
difference in budget, so trainings that may want more are named. Of a test set, the examples that can be
answered rightly within the input limit are found, and how many cannot.

`list_training_notes` builds what a run prints about the length and the end of training.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.base.formatting import plural
from sonde.lenses.engine.lens import ScoringContext
from sonde.lenses.finetune.data import EPOCH, EXAMPLE, TEST, TESTED
from sonde.lenses.finetune.options import (
    BAG,
    PRETRAINED,
    SCRATCH,
    FinetuneOptions,
    inapplicable_reason,
    is_subset,
    variants,
)
from sonde.results import Mean, Score, left_out, mean_rows, means, trained_rows
from sonde.results.headlines import describe_task
from sonde.results.schema import dimension_value
from sonde.results.text_format import SHARE
from sonde.tasks.engine.surface import BIGRAMS, NGRAM
from sonde.training.finetune.recipe import KEEP

AT_END, AT_EDGE = "best_at_end", "rate_at_edge"
"""Metrics of a training, 1 or 0: validation was best after the last epoch of the longest setting that was
tried, and the rate that it chose is the smallest or the largest of those tried, or the only one."""


COLLAPSED = 0.99
"""Share of equal answers from which a training has learned nothing."""


def stopped_early(epochs: pl.DataFrame) -> tuple[bool, bool]:
    """Return whether more epochs, and whether another rate, might have been better.

    Args:
        epochs: All epochs of one training, in columns of the item table.
    """
    best_row = epochs.filter("chosen").row(0, named=True)
    longest = best_row["epochs"] == epochs["epochs"].max()
    rates = epochs["rate"].unique()
    at_edge = best_row["rate"] in (rates.min(), rates.max())
    return longest and best_row["epoch"] == best_row["epochs"], bool(at_edge)


def convergence_lines(scores: pl.DataFrame) -> Iterator[str]:
    """Yield a line per task about trainings that may need more epochs or rates, or learned nothing.

    Args:
        scores: Rows of the lens.
    """
    rows = scores.with_columns(who=pl.col("control").fill_null("pretrained"))
    for (model, task), part in rows.partition_by("model", "task", as_dict=True, maintain_order=True).items():
        if text := "; ".join(_enough(part)):
            yield f"{task}, {model}: {text}"
        test = (pl.col("metric") == "commonest_answer") & (pl.col("split") == "test")
        collapses = (
            f"{method} in {count} of {plural(len(shares), 'training')}"
            for method, shares in part.filter(test)
            .group_by("who", maintain_order=True)
            .agg("value")
            .iter_rows()
            if (count := sum(share >= COLLAPSED for share in shares))
        )
        if text := "; ".join(collapses):
            yield f"{task}, {model}: gives the same answer to everything (collapsed): {text}"


def _enough(rows: pl.DataFrame) -> Iterator[str]:
    words_by_metric = {AT_END: "best after its last epoch", AT_EDGE: "best at the edge of its rates"}
    rows = rows.filter(pl.col("metric").is_in(list(words_by_metric)))
    for (method,), part in rows.group_by("who", maintain_order=True):
        phrases = [
            f"{words} in {int(values.sum())} of {plural(len(values), 'training')}"
            for metric, words in words_by_metric.items()
            if (values := part.filter(pl.col("metric") == metric)["value"]).sum()
        ]
        yield (
            f"{method} may need more: {' and '.join(phrases)}" if phrases else f"{method} was trained enough"
        )


OUT_OF_REACH, CEILING, TRUNCATED = "out_of_reach", "ceiling", "truncated"
"""Metrics: the share of the examples whose label rests on what is not read, the most that any answers could
get right, and the share of which something is not read."""


REACHABLE = ("reachable", "true")
"""Dimension of scores over the examples whose label rests on what is read, where others are asked as well."""


def find_truncated_examples(examples: pl.DataFrame) -> pl.Series:
    """Return the ids of examples whose label rests on text that a method does not read."""
    return examples.filter(~pl.col("reached"))["example_id"].unique()


def exclude_examples(examples: pl.DataFrame, example_ids: pl.Series) -> pl.DataFrame:
    """Remove examples by id."""
    return examples.filter(~pl.col("example_id").is_in(example_ids.implode()))


def select_readable_examples(examples: pl.DataFrame, truncation: str) -> pl.DataFrame:
    """Select the examples that count: all of them, or those whose evidence is read."""
    return examples if truncation == KEEP else exclude_examples(examples, find_truncated_examples(examples))


def score_truncation(examples: pl.DataFrame) -> Iterator[tuple[Mean, pl.DataFrame]]:
    """Yield the shares of a test set that a training does not read, with their examples.

    A pointer example counts as truncated if its error, or all of its repairs, are not read.
    """
    first = examples.filter(pl.col("seed") == pl.col("seed").min())
    known_examples = first.filter(pl.col("reached").is_not_null())
    if not known_examples.is_empty():
        yield Mean(OUT_OF_REACH, ~pl.col("reached")), known_examples
    wrong = first.filter(pl.col("truncated").is_not_null() & pl.col("buggy").fill_null(value=True))
    if not wrong.is_empty():
        yield Mean(TRUNCATED, pl.col("truncated")), wrong


def accuracy_ceilings(examples: pl.DataFrame) -> dict[str, float]:
    """Compute the upper bound of a method's metrics, by metric; empty if it reads everything.

    Examples of which the same is read get the same answer, so of contradictory ones the most frequent label
    is right at best. An error that is not read is not found.
    """
    rows = examples.filter((pl.col("seed") == pl.col("seed").min()) & pl.col("read").is_not_null())
    if rows.is_empty():
        return {}
    pointer = rows["buggy"].is_not_null().all()
    counts = rows.group_by("read", "buggy" if pointer else "label").len()
    best = float(counts.group_by("read").agg(pl.col("len").max())["len"].sum()) / rows.height
    if not pointer:
        return {"accuracy": best}
    ceilings = {"classification": best, "accuracy": _share(~(rows["buggy"] & rows["truncated"]))}
    wrong = rows.filter("buggy")
    if not wrong.is_empty():
        ceilings["localisation"] = _share(wrong["locatable"])
        ceilings["localisation_repair"] = _share(~wrong["truncated"])
    return ceilings


def _share(values: pl.Series) -> float:
    return float(values.cast(pl.Float64).sum()) / len(values)


ACCURACY = "accuracy"


SEED = "seed"
"""Dimension of what one training of several gives."""


_SETTING = ("rate", "batch", "epochs")


_SETTING_METRICS = {"learning_rate": "rate", "batch": "batch", "epochs": "epochs", "best_epoch": "epoch"}
"""Metrics that say what was chosen on validation, by the column that holds it."""


@dataclass(frozen=True, slots=True, eq=False)
class _MetricValues:
    """One metric of one method: a value per example and seed.

    Attributes:
        examples: Ids of the examples.
        clusters: Their clusters.
        values: What each training gives, between 0 and 1.
        seeds: Seeds of the trainings.
        trainings: Number of independent trainings; None of a surface baseline, which has no randomness.
    """

    examples: list[str]
    clusters: list[str]
    values: Float[np.ndarray, "seed example"]
    seeds: tuple[int, ...]
    trainings: int | None


def score_all(scoring: ScoringContext) -> Iterator[Score]:
    """Yield every score of every task."""
    observations = scoring.observations.collect()
    all_variants = variants(scoring.settings)
    for task in scoring.labels:
        rows = observations.filter(pl.col("task") == task)
        yield from _skipped_scores(scoring, task)
        if rows.is_empty():
            continue
        template = dataclasses.replace(scoring.template, task=task)
        test_examples: dict[str, pl.DataFrame] = {}
        for variant in all_variants:
            settings = variant.settings(scoring.settings)
            truncation = FinetuneOptions.read(settings.options).recipe(settings).cut
            # A method that lacks some of the options has fewer of them in its name.
            names = [name for name in rows["variant"].unique().to_list() if is_subset(name, variant.name)]
            own_rows = rows.filter(pl.col("variant").is_in(names))
            test_examples[variant.name] = select_readable_examples(_examples(own_rows, TEST), truncation)
            yield from _variant(own_rows, template.within(*variant.dimensions), truncation)
        # The others are compared with the last value: all of the data, the longest input.
        (*others, last) = all_variants
        change_template = dataclasses.replace(template, metric="change", split=TEST, compared_to=last.name)
        for variant in others:
            yield from _changes(
                test_examples[variant.name],
                test_examples[last.name],
                change_template.within(*variant.dimensions),
            )


def _skipped_scores(scoring: ScoringContext, task: str) -> Iterator[Score]:
    """Yield a row for each requested method that does not apply to a task."""
    for method in FinetuneOptions.read(scoring.settings.options).methods:
        if reason := inapplicable_reason(method, task):
            method_template = dataclasses.replace(scoring.template, task=task, split="test", control=method)
            yield left_out(method_template, reason)


def _variant(rows: pl.DataFrame, template: Score, truncation: str) -> Iterator[Score]:
    for split in TESTED:
        examples = _examples(rows, split)
        if not examples.is_empty():
            yield from _score_test_set(examples, dataclasses.replace(template, split=split), truncation)
    yield from _courses(rows, template)


def _examples(rows: pl.DataFrame, split: str) -> pl.DataFrame:
    return rows.filter((pl.col("kind") == EXAMPLE) & (pl.col("split") == split))


def _score_test_set(examples: pl.DataFrame, template: Score, truncation: str) -> Iterator[Score]:
    """Score each method on one test set, the gains of the model, and the upper bounds."""
    readable_examples = select_readable_examples(examples, truncation)
    yield from _compare_methods(readable_examples, template)
    yield from _confusions(readable_examples.filter(pl.col("method") == PRETRAINED), template)
    yield from _commonest(readable_examples.filter(pl.col("baseline") == ""), template)
    for name, part in _subjects(readable_examples):
        for metric, value in accuracy_ceilings(part).items():
            yield dataclasses.replace(
                template,
                metric=CEILING,
                of_metric=metric,
                control=_control(name),
                value=value,
                n=part["example_id"].n_unique(),
                n_clusters=part["cluster"].n_unique(),
            )
    for share, part in score_truncation(examples.filter(pl.col("method") == PRETRAINED)):
        yield from means(part, [share], dataclasses.replace(template, seed=part["seed"][0]))
    truncated_ids = find_truncated_examples(readable_examples)
    if len(truncated_ids) < readable_examples["example_id"].n_unique() and len(truncated_ids):
        yield from _compare_methods(
            exclude_examples(readable_examples, truncated_ids), template.within(REACHABLE)
        )


def _commonest(examples: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score the share of each training's most common answer: 1 if it has collapsed."""
    for (method, seed), part in examples.partition_by(
        "method", "seed", as_dict=True, maintain_order=True
    ).items():
        times = part.group_by("predicted").len()["len"].to_list()
        yield dataclasses.replace(
            template.within((SEED, str(seed))),
            metric="commonest_answer",
            control=_control(str(method)),
            seed=int(seed),
            value=max(times) / part.height,
            n=part.height,
            n_clusters=part["cluster"].n_unique(),
        )


def _compare_methods(examples: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score each method, and the gain of the model over it."""
    metrics_by_method = {name: _measure(part) for name, part in _subjects(examples)}
    for name, metrics in metrics_by_method.items():
        for metric, values in metrics.items():
            metric_template = dataclasses.replace(template, metric=metric, control=_control(name))
            yield from _means(metric_template, values)
    model_metrics = metrics_by_method.get(PRETRAINED, {})
    for name, metrics in metrics_by_method.items():
        if name == PRETRAINED:
            continue
        for metric in (metric for metric in model_metrics if metric in metrics):
            gain = dataclasses.replace(template, metric="gain", control=name, of_metric=metric)
            yield from _difference(gain, model_metrics[metric], metrics[metric])


def _changes(examples: pl.DataFrame, last: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score the gain of each trained method with some values over the last, on common examples."""
    last_by_method = dict(_subjects(last))
    for name, part in _subjects(examples):
        if name not in last_by_method or part["variant"][0] == last_by_method[name]["variant"][0]:
            continue
        common_examples = (
            last_by_method[name].join(part, on="example_id", how="semi"),
            part.join(last_by_method[name], on="example_id", how="semi"),
        )
        last_metrics, metrics = map(_measure, common_examples)
        for metric in (metric for metric in metrics if metric in last_metrics):
            metric_template = dataclasses.replace(template, control=_control(name), of_metric=metric)
            yield from _difference(metric_template, metrics[metric], last_metrics[metric])


def _confusions(rows: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score confusions of classes over all seeds; for two classes accuracy is enough."""
    if rows.is_empty() or rows["classes"].list.len().max() == 2:
        return
    counts = rows.group_by("label", "predicted").len().sort("label", "predicted")
    counts_by_label = dict(rows.group_by("label").len().iter_rows())
    seeds = rows["seed"].n_unique()
    for gold, answer, times in counts.iter_rows():
        yield dataclasses.replace(
            template.within(("gold", gold), ("predicted", answer)),
            metric="confusion",
            value=times / counts_by_label[gold],
            n=counts_by_label[gold] // seeds,
            n_clusters=rows.filter(pl.col("label") == gold)["cluster"].n_unique(),
        )


def _subjects(examples: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the methods with their examples; those without a model by the name of the baseline."""
    named_examples = examples.with_columns(
        subject=pl.when(pl.col("baseline") == "").then(pl.col("method")).otherwise(pl.col("baseline"))
    )
    for (name,), part in named_examples.partition_by("subject", as_dict=True, maintain_order=True).items():
        yield str(name), part


def _control(subject: str) -> str | None:
    return None if subject == PRETRAINED else subject


def _measure(rows: pl.DataFrame) -> dict[str, _MetricValues]:
    """Compute the metrics of one method.

    Of a pointer as in CuBERT's tables: ``true_positive``, the clean functions in which it points at nothing;
    ``classification``, the functions of which it says rightly whether there is an error; ``localisation``,
    the errors that it points at; ``localisation_repair``, those for which it also points at what is right.
    An error beyond the limit is not found.
    """
    metrics: dict[str, tuple[pl.Expr, pl.Expr]] = {ACCURACY: (pl.lit(value=True), pl.col("correct"))}
    buggy = pl.col("buggy")
    if rows["buggy"].is_not_null().all():
        has_pointer = pl.col("located").is_not_null().all()
        says = (
            pl.when(has_pointer)
            .then(pl.col("predicted") == "something")
            .otherwise(pl.col("correct") == buggy)
        )
        metrics = {
            "true_positive": (~buggy, ~says),
            "classification": (pl.lit(value=True), says == buggy),
        }
        if rows["located"].is_not_null().all():
            metrics |= {
                "localisation": (buggy, pl.col("located")),
                "localisation_repair": (buggy, pl.col("located") & pl.col("repaired")),
                ACCURACY: (pl.lit(value=True), pl.col("correct")),
            }
    values_by_metric: dict[str, _MetricValues] = {}
    for metric, (condition, value) in metrics.items():
        part = rows.with_columns(value=value.cast(pl.Float64)).filter(condition)
        if not part.is_empty():
            values_by_metric[metric] = _pivot(part)
    return values_by_metric


def _pivot(rows: pl.DataFrame) -> _MetricValues:
    """Arrange the column ``value`` by seed and example."""
    sorted_rows = rows.sort("seed", "example_id")
    first = sorted_rows.filter(pl.col("seed") == sorted_rows["seed"][0])
    seeds = sorted_rows["seed"].unique(maintain_order=True).to_list()
    values = sorted_rows["value"].to_numpy().reshape(len(seeds), first.height)
    return _MetricValues(
        first["example_id"].to_list(),
        first["cluster"].to_list(),
        values,
        tuple(seeds),
        trainings=len(seeds) if (rows["baseline"] == "").all() else None,
    )


def _means(template: Score, values: _MetricValues) -> Iterator[Score]:
    """Score the mean over seeds, and each seed separately if there are several."""
    mean = dataclasses.replace(template, seed=values.seeds[0], seeds=values.trainings)
    yield from trained_rows(mean, values.values, values.clusters)
    if len(values.seeds) > 1:
        seed_fields = [
            {"seed": seed, "seeds": 1, "dimensions": (*template.dimensions, (SEED, str(seed)))}
            for seed in values.seeds
        ]
        yield from mean_rows(template, values.values, values.clusters, seed_fields)


def _difference(template: Score, first: _MetricValues, second: _MetricValues) -> list[Score]:
    """Score the mean over seeds of one method less that of another, over the same examples."""
    assert first.examples == second.examples
    seeds = min((side.trainings for side in (first, second) if side.trainings is not None), default=None)
    mean_template = dataclasses.replace(template, seeds=seeds)
    return trained_rows(mean_template, first.values, first.clusters, baseline=second.values)


def _courses(rows: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score the hyperparameters chosen on validation, their epochs, and the best epoch of the others."""
    epochs = rows.filter(pl.col("kind") == EPOCH)
    for (method, seed), part in epochs.partition_by(
        "method", "seed", as_dict=True, maintain_order=True
    ).items():
        best_row = part.filter(pl.col("chosen")).row(0, named=True)
        seed_template = dataclasses.replace(
            template, split="valid", control=_control(str(method)), seed=int(seed), n_clusters=0
        )
        for metric, column in _SETTING_METRICS.items():
            yield dataclasses.replace(seed_template, metric=metric, value=best_row[column], n=part.height)
        is_best_setting = pl.all_horizontal(pl.col(name) == best_row[name] for name in _SETTING)
        for row in part.filter(is_best_setting).iter_rows(named=True):
            entry = seed_template.within(("epoch", str(row["epoch"])))
            for metric in ("valid", "loss"):
                yield dataclasses.replace(entry, metric=metric, value=row[metric], n=1, k=row["epoch"])
        for metric, entry in zip((AT_END, AT_EDGE), stopped_early(part), strict=True):
            yield dataclasses.replace(seed_template, metric=metric, value=float(entry), n=part.height)
        settings = part.group_by(*_SETTING, maintain_order=True).agg(pl.col("valid").max())
        for row in settings.iter_rows(named=True) if settings.height > 1 else ():
            name = f"rate {row['rate']:g}, batch {row['batch']}, epochs {row['epochs']}"
            yield dataclasses.replace(
                seed_template.within(("setting", name)), metric="valid", value=row["valid"], n=1
            )


CONTROL_NAMES = {
    SCRATCH: "the same architecture from scratch",
    BAG: "a bag of tokens",
    BIGRAMS: "tokens and their neighbours",
    NGRAM: "n-grams of functions with and without bugs",
    "word2vec_cbow_ns": "a BiLSTM on CBOW (ns)",
    "word2vec_cbow_hs": "a BiLSTM on CBOW (hs)",
    "word2vec_skipgram_ns": "a BiLSTM on skip-grams (ns)",
    "word2vec_skipgram_hs": "a BiLSTM on skip-grams (hs)",
    "bilstm": "a BiLSTM",
    "transformer": "a Transformer",
    "lstm_pointer": "an LSTM with pointers",
    "majority": "the commonest class",
    "length": "the length of the code",
    "parse_error": "whether the code parses",
    "artefacts": "traces of how the examples were made",
}
"""Methods that the model is compared with, in words."""


def is_whole_test_set() -> pl.Expr:
    """Select scores of a whole test set, sonde's own or an external one, with any swept options."""
    parts = (dimension_value(name).is_not_null() for name in (SEED, "gold", REACHABLE[0]))
    return pl.col("split").is_in(TESTED) & ~pl.any_horizontal(parts)


def list_training_notes(scores: pl.DataFrame) -> Iterator[str]:
    """Yield how much the length leaves out or bounds, and whether training was long enough."""
    model_scores = scores.filter(is_whole_test_set() & pl.col("control").is_null())
    keys = ("model", "task", "language", "dimensions", "split")
    for rows in model_scores.partition_by(keys, maintain_order=True):
        metrics = {row["metric"]: row for row in rows.sort("metric").iter_rows(named=True)}
        out_of_reach, accuracy = metrics.get(OUT_OF_REACH), metrics.get(ACCURACY)
        if out_of_reach is None or accuracy is None or not out_of_reach["value"]:
            continue
        treatment = "left out" if accuracy["n"] < out_of_reach["n"] else "included"
        line = (
            f"{describe_task(out_of_reach)}: {SHARE.value(out_of_reach)} of the examples depend on text "
            f"beyond the length limit and are {treatment}"
        )
        for ceiling in rows.filter((pl.col("metric") == CEILING) & (pl.col("value") < 1)).iter_rows(
            named=True
        ):
            line += f"; {ceiling['of_metric'].replace('_', ' ')} is at most {SHARE.value(ceiling)}"
        yield line
    yield from convergence_lines(scores)
