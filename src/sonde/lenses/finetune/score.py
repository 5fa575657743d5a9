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
from sonde.lenses.engine.lens import LensSettings, ScoringContext
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
    chosen = epochs.filter("chosen").row(0, named=True)
    longest = chosen["epochs"] == epochs["epochs"].max()
    rates = epochs["rate"].unique()
    at_edge = chosen["rate"] in (rates.min(), rates.max())
    return longest and chosen["epoch"] == chosen["epochs"], bool(at_edge)


def convergence_lines(scores: pl.DataFrame) -> Iterator[str]:
    """Yield a line per task about trainings that may need more epochs or rates, or learned nothing.

    Args:
        scores: Rows of the lens.
    """
    own = scores.with_columns(who=pl.col("control").fill_null("pretrained"))
    for (model, task), part in own.partition_by("model", "task", as_dict=True, maintain_order=True).items():
        if said := "; ".join(_enough(part)):
            yield f"{task}, {model}: {said}"
        if said := "; ".join(_describe_collapses(part)):
            yield f"{task}, {model}: gave one answer to everything (collapsed): {said}"


def _enough(rows: pl.DataFrame) -> Iterator[str]:
    shown = {AT_END: "best after its last epoch", AT_EDGE: "best at the edge of its rates"}
    for (who,), part in _by_method(rows.filter(pl.col("metric").is_in(list(shown)))):
        said = [
            f"{words} in {int(held.sum())} of {plural(len(held), 'training')}"
            for metric, words in shown.items()
            if (held := part.filter(pl.col("metric") == metric)["value"]).sum()
        ]
        yield f"{who} may want more: {' and '.join(said)}" if said else f"{who} was trained enough"


def _describe_collapses(rows: pl.DataFrame) -> Iterator[str]:
    told = (pl.col("metric") == "commonest_answer") & (pl.col("split") == "test")
    for (who,), part in _by_method(rows.filter(told)):
        if lost := int((part["value"] >= COLLAPSED).sum()):
            yield f"{who} in {lost} of {plural(part.height, 'training')}"


def _by_method(rows: pl.DataFrame) -> Iterator[tuple[tuple[object, ...], pl.DataFrame]]:
    yield from rows.partition_by("who", as_dict=True, maintain_order=True).items()


OUT_OF_REACH, CEILING, TRUNCATED = "out_of_reach", "ceiling", "truncated"
"""Metrics: the share of the examples whose label rests on what is not read, the most that any answers could
get right, and the share of which something is not read."""


REACHABLE = ("reachable", "true")
"""Dimension of scores over the examples whose label rests on what is read, where others are asked as well."""


def find_truncated_examples(examples: pl.DataFrame) -> pl.Series:
    """Return the ids of examples whose label rests on text that a method does not read."""
    return examples.filter(~pl.col("reached"))["example_id"].unique()


def exclude_examples(examples: pl.DataFrame, out: pl.Series) -> pl.DataFrame:
    """Remove examples by id."""
    return examples.filter(~pl.col("example_id").is_in(out.implode()))


def select_readable_examples(examples: pl.DataFrame, cut: str) -> pl.DataFrame:
    """Select the examples that count: all of them, or those whose evidence is read."""
    return examples if cut == KEEP else exclude_examples(examples, find_truncated_examples(examples))


def score_truncation(examples: pl.DataFrame) -> Iterator[tuple[Mean, pl.DataFrame]]:
    """Yield the shares of a test set that a training does not read, with their examples.

    Of a pointer, something is cut off where there is an error of which it or all its repairs are not read.
    """
    first = examples.filter(pl.col("seed") == pl.col("seed").min())
    known = first.filter(pl.col("reached").is_not_null())
    if not known.is_empty():
        yield Mean(OUT_OF_REACH, ~pl.col("reached")), known
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
    counted = rows.group_by("read", "buggy" if pointer else "label").len()
    best = float(counted.group_by("read").agg(pl.col("len").max())["len"].sum()) / rows.height
    if not pointer:
        return {"accuracy": best}
    found = {"classification": best, "accuracy": _share(~(rows["buggy"] & rows["truncated"]))}
    wrong = rows.filter("buggy")
    if not wrong.is_empty():
        found["localisation"] = _share(wrong["locatable"])
        found["localisation_repair"] = _share(~wrong["truncated"])
    return found


def _share(values: pl.Series) -> float:
    return float(values.cast(pl.Float64).sum()) / len(values)


ACCURACY = "accuracy"


SEED = "seed"
"""Dimension of what one training of several gives."""


_SETTING = ("rate", "batch", "epochs")


_CHOSEN = {"learning_rate": "rate", "batch": "batch", "epochs": "epochs", "best_epoch": "epoch"}
"""Metrics that say what was chosen on validation, by the column that holds it."""


@dataclass(frozen=True, slots=True, eq=False)
class _MetricValues:
    """One metric of one method: a value an example and seed.

    Attributes:
        examples: Ids of the examples.
        clusters: Their clusters.
        values: What each training gives, between 0 and 1.
        seeds: Seeds of the trainings.
        trained: Whether another seed could have given other values; not so for a surface baseline.
    """

    examples: list[str]
    clusters: list[str]
    values: Float[np.ndarray, "seed example"]
    seeds: tuple[int, ...]
    trained: bool

    @property
    def trainings(self) -> int | None:
        """Number of independent trainings, or None if nothing was trained with randomness."""
        return len(self.seeds) if self.trained else None


def score_all(scoring: ScoringContext) -> Iterator[Score]:
    """Yield every score of every task."""
    observations = scoring.observations.collect()
    every = variants(scoring.settings)
    for task in scoring.labels:
        rows = observations.filter(pl.col("task") == task)
        yield from _skipped_scores(scoring, task)
        if rows.is_empty():
            continue
        template = dataclasses.replace(scoring.template, task=task)
        found = [
            (one, _select_variant(rows, one.name), _truncation_policy(one.settings(scoring.settings)))
            for one in every
        ]
        for one, own, cut in found:
            yield from _variant(own, template.within(*one.dimensions), cut)
        # The last value is what the others are held against: all of the data, the longest input.
        (*others, (last, kept, last_cut)) = found
        held = select_readable_examples(_examples(kept, TEST), last_cut)
        for one, own, cut in others:
            about = template.within(*one.dimensions)
            changed = dataclasses.replace(about, metric="change", split=TEST, compared_to=last.name)
            yield from _changes(select_readable_examples(_examples(own, TEST), cut), held, changed)


def _truncation_policy(settings: LensSettings) -> str:
    return FinetuneOptions.read(settings.options).recipe(settings).cut


def _skipped_scores(scoring: ScoringContext, task: str) -> Iterator[Score]:
    """Yield a row for each requested method that does not apply to a task."""
    for method in FinetuneOptions.read(scoring.settings.options).methods:
        if reason := inapplicable_reason(method, task):
            about = dataclasses.replace(scoring.template, task=task, split="test", control=method)
            yield left_out(about, reason)


def _select_variant(rows: pl.DataFrame, variant: str) -> pl.DataFrame:
    """Select the rows of a variant; a method that lacks some options has fewer of them in its name."""
    held = [name for name in rows["variant"].unique().to_list() if is_subset(name, variant)]
    return rows.filter(pl.col("variant").is_in(held))


def _variant(rows: pl.DataFrame, template: Score, cut: str) -> Iterator[Score]:
    for split in TESTED:
        examples = _examples(rows, split)
        if not examples.is_empty():
            yield from _score_test_set(examples, dataclasses.replace(template, split=split), cut)
    yield from _courses(rows, template)


def _examples(rows: pl.DataFrame, split: str) -> pl.DataFrame:
    return rows.filter((pl.col("kind") == EXAMPLE) & (pl.col("split") == split))


def _score_test_set(examples: pl.DataFrame, template: Score, cut: str) -> Iterator[Score]:
    """Score each method on one test set, the gains of the model, and the upper bounds."""
    counted = select_readable_examples(examples, cut)
    yield from _compare_methods(counted, template)
    yield from _confusions(counted.filter(pl.col("method") == PRETRAINED), template)
    yield from _commonest(counted.filter(pl.col("baseline") == ""), template)
    for name, part in _subjects(counted):
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
    out = find_truncated_examples(counted)
    if len(out) < counted["example_id"].n_unique() and len(out):
        yield from _compare_methods(exclude_examples(counted, out), template.within(REACHABLE))


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
    measured = {name: _measure(part) for name, part in _subjects(examples)}
    for name, metrics in measured.items():
        for metric, one in metrics.items():
            about = dataclasses.replace(template, metric=metric, control=_control(name))
            yield from _means(about, one)
    own = measured.get(PRETRAINED, {})
    for name, metrics in measured.items():
        if name == PRETRAINED:
            continue
        for metric in (metric for metric in own if metric in metrics):
            gain = dataclasses.replace(template, metric="gain", control=name, of_metric=metric)
            yield from _difference(gain, own[metric], metrics[metric])


def _changes(own: pl.DataFrame, last: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score the gain of each trained method with some values over the last, on common examples."""
    held = dict(_subjects(last))
    for name, part in _subjects(own):
        if name not in held or part["variant"][0] == held[name]["variant"][0]:
            continue
        both = (
            held[name].join(part, on="example_id", how="semi"),
            part.join(held[name], on="example_id", how="semi"),
        )
        before, after = map(_measure, both)
        for metric in (metric for metric in after if metric in before):
            about = dataclasses.replace(template, control=_control(name), of_metric=metric)
            yield from _difference(about, after[metric], before[metric])


def _confusions(rows: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score confusions of classes over all seeds; for two classes accuracy is enough."""
    if rows.is_empty() or rows["classes"].list.len().max() == 2:
        return
    counts = rows.group_by("label", "predicted").len().sort("label", "predicted")
    of = dict(rows.group_by("label").len().iter_rows())
    seeds = rows["seed"].n_unique()
    for gold, said, times in counts.iter_rows():
        yield dataclasses.replace(
            template.within(("gold", gold), ("predicted", said)),
            metric="confusion",
            value=times / of[gold],
            n=of[gold] // seeds,
            n_clusters=rows.filter(pl.col("label") == gold)["cluster"].n_unique(),
        )


def _subjects(examples: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the methods with their examples; those without a model by the name of the baseline."""
    named = examples.with_columns(
        subject=pl.when(pl.col("baseline") == "").then(pl.col("method")).otherwise(pl.col("baseline"))
    )
    for (name,), part in named.partition_by("subject", as_dict=True, maintain_order=True).items():
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
        pointed = pl.col("located").is_not_null().all()
        says = pl.when(pointed).then(pl.col("predicted") == "something").otherwise(pl.col("correct") == buggy)
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
    found: dict[str, _MetricValues] = {}
    for metric, (chosen, value) in metrics.items():
        part = rows.with_columns(value=value.cast(pl.Float64)).filter(chosen)
        if not part.is_empty():
            found[metric] = _pivot(part)
    return found


def _pivot(rows: pl.DataFrame) -> _MetricValues:
    """Arrange the column ``value`` by seed and example."""
    ordered = rows.sort("seed", "example_id")
    first = ordered.filter(pl.col("seed") == ordered["seed"][0])
    seeds = ordered["seed"].unique(maintain_order=True).to_list()
    values = ordered["value"].to_numpy().reshape(len(seeds), first.height)
    return _MetricValues(
        first["example_id"].to_list(),
        first["cluster"].to_list(),
        values,
        tuple(seeds),
        trained=bool((rows["baseline"] == "").all()),
    )


def _means(template: Score, one: _MetricValues) -> Iterator[Score]:
    """Score the mean over seeds, and each seed by itself if there are several."""
    mean = dataclasses.replace(template, seed=one.seeds[0], seeds=one.trainings)
    yield from trained_rows(mean, one.values, one.clusters)
    if len(one.seeds) > 1:
        each = [
            {"seed": seed, "seeds": 1, "dimensions": (*template.dimensions, (SEED, str(seed)))}
            for seed in one.seeds
        ]
        yield from mean_rows(template, one.values, one.clusters, each)


def _difference(template: Score, first: _MetricValues, second: _MetricValues) -> list[Score]:
    """Score the mean over seeds of one method less that of another, over the same examples."""
    assert first.examples == second.examples
    seeds = min((side.trainings for side in (first, second) if side.trainings is not None), default=None)
    about = dataclasses.replace(template, seeds=seeds)
    return trained_rows(about, first.values, first.clusters, baseline=second.values)


def _courses(rows: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score the hyperparameters chosen on validation, their epochs, and the best epoch of the others."""
    epochs = rows.filter(pl.col("kind") == EPOCH)
    for (method, seed), part in epochs.partition_by(
        "method", "seed", as_dict=True, maintain_order=True
    ).items():
        chosen = part.filter(pl.col("chosen")).row(0, named=True)
        own = dataclasses.replace(
            template, split="valid", control=_control(str(method)), seed=int(seed), n_clusters=0
        )
        for metric, column in _CHOSEN.items():
            yield dataclasses.replace(own, metric=metric, value=chosen[column], n=part.height)
        same = pl.all_horizontal(pl.col(name) == chosen[name] for name in _SETTING)
        for row in part.filter(same).iter_rows(named=True):
            at = own.within(("epoch", str(row["epoch"])))
            for metric in ("valid", "loss"):
                yield dataclasses.replace(at, metric=metric, value=row[metric], n=1, k=row["epoch"])
        for metric, at in zip((AT_END, AT_EDGE), stopped_early(part), strict=True):
            yield dataclasses.replace(own, metric=metric, value=float(at), n=part.height)
        tried = part.group_by(*_SETTING, maintain_order=True).agg(pl.col("valid").max())
        for row in tried.iter_rows(named=True) if tried.height > 1 else ():
            name = f"rate {row['rate']:g}, batch {row['batch']}, epochs {row['epochs']}"
            yield dataclasses.replace(own.within(("setting", name)), metric="valid", value=row["valid"], n=1)


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
    "artefacts": "what the making of the examples left",
}
"""Methods that the model is compared with, in words."""


def is_whole_test_set() -> pl.Expr:
    """Select scores of a whole test set, sonde's own or an external one, with any swept options."""
    parts = (dimension_value(name).is_not_null() for name in (SEED, "gold", REACHABLE[0]))
    return pl.col("split").is_in(TESTED) & ~pl.any_horizontal(parts)


def list_training_notes(scores: pl.DataFrame) -> Iterator[str]:
    """Yield how much the length leaves out or bounds, and whether training was long enough."""
    own = scores.filter(is_whole_test_set() & pl.col("control").is_null())
    keys = ("model", "task", "language", "dimensions", "split")
    for rows in own.partition_by(keys, maintain_order=True):
        metrics = {row["metric"]: row for row in rows.sort("metric").iter_rows(named=True)}
        beyond, accuracy = metrics.get(OUT_OF_REACH), metrics.get(ACCURACY)
        if beyond is None or accuracy is None or not beyond["value"]:
            continue
        reading = "left out" if accuracy["n"] < beyond["n"] else "asked as well"
        line = (
            f"{describe_task(beyond)}: {SHARE.value(beyond)} of the examples rest on what is beyond the "
            f"length and are {reading}"
        )
        for ceiling in rows.filter((pl.col("metric") == CEILING) & (pl.col("value") < 1)).iter_rows(
            named=True
        ):
            line += f"; {ceiling['of_metric'].replace('_', ' ')} is at most {SHARE.value(ceiling)}"
        yield line
    yield from convergence_lines(scores)
