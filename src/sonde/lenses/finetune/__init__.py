"""Fine-tunes a model on a task; compares it with training from scratch and a bag of tokens (CuBERT).

Each method is trained on a task's training examples. Learning rate and epoch are chosen on validation, and
the test examples are evaluated once. The trained models are stored in the run's folder, and every lens can
read them. The card of each states its training data, its accuracy and how to load it. A model that was
fine-tuned before can be evaluated as it is (`reevaluate`): nothing is trained, and all examples of a corpus
are test examples.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sonde.base.errors import InputError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import derive_seed
from sonde.lenses.engine.lens import LensSettings, Method, ScoringContext, Training, TrainingLens
from sonde.lenses.finetune.data import (
    EXAMPLE,
    TEST,
    answer_rows,
    baseline_rows,
    build_samples,
    build_training_data,
    split_examples,
    trained_rows,
    with_evidence,
)
from sonde.lenses.finetune.options import (
    BAG,
    LENS,
    POINTER_TASKS,
    PRETRAINED,
    SCRATCH,
    FinetuneOptions,
    further_texts,
    inapplicable_reason,
    make_method,
    variants,
)
from sonde.lenses.finetune.score import CONTROL_NAMES, is_whole_test_set, list_training_notes, score_all
from sonde.models import Capabilities
from sonde.models.engine.locate import locate_model
from sonde.results import mean_rows
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import has_dimensions
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score
from sonde.results.text_format import SHARE
from sonde.training.finetune.recipe import BASELINES

if TYPE_CHECKING:
    from sonde.training.finetune.data import TaskData
    from sonde.training.finetune.tune import FinetuneResult

SYNONYMS = ("fine tuning", "training", "transfer learning")

CARD_FILE = "README.md"


_INSERTED_BUGS = """ Rules inserted the bugs of the
examples; these numbers do not show how well the model finds bugs that people made."""

_CLASSIFIER_USAGE = """\
It is a transformers classifier:

```python
from transformers import AutoModelForSequenceClassification, AutoTokenizer

model = AutoModelForSequenceClassification.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
```

or, with the same text before each input as in training:
"""


def render_card(result: FinetuneResult, rows: pl.DataFrame, data: TaskData, facts: Mapping[str, Any]) -> str:
    """Render the card as Markdown.

    Args:
        result: The training.
        rows: Its item table.
        data: What it was trained on.
        facts: Task, language, base model, method and seed.
    """
    setting, kind = result.setting, result.head
    settings_text = ", ".join(
        f"rate {hyperparameters.rate:g} x batch {hyperparameters.batch} x {hyperparameters.epochs} epochs"
        for hyperparameters in sorted(result.courses, key=str)
    )
    classes = "\n".join(f"- `{name}`" for name in data.classes)
    usage = _CLASSIFIER_USAGE if kind == "OwnHead" else ""
    bugs = _INSERTED_BUGS if facts["task"] in TASKS else ""
    return f"""\
---
library_name: {"transformers" if usage else "sonde"}
pipeline_tag: text-classification
base_model: {facts["base"]}
tags: [code, {facts["task"]}]
---

# {facts["task"]} ({facts["language"]}), {facts["method"]} from {facts["base"]}

Trained by sonde's lens `finetune`, method `{facts["method"]}`, seed {facts["seed"]}; its head is a `{kind}`.

## Classes

{classes}

## Training and test

- Examples: {len(data.train):,} for training, {len(data.valid):,} for validation, {len(data.test):,} for
testing.
- Tried: {settings_text}.
- Chosen on validation: rate {setting.rate:g}, batch {setting.batch}, epoch {result.epoch} of \
{setting.epochs}, with {100 * result.valid.share:.1f} % right.
- Test: {_describe_test(rows)}.

This is one training from one seed: another seed may give another model.{bugs}

## Use

{usage}
```python
import sonde

model = sonde.FineTuned.from_pretrained("FOLDER")
model.tell(["def f(a, b):\\n    return a"])
```

`sonde predict FOLDER FILE... --format sarif` prints its prediction for each function of a file; every lens
that needs states can read the folder as a model (`sonde run -m FOLDER -l probe`).
"""


def _describe_test(rows: pl.DataFrame) -> str:
    test_rows = rows.filter((pl.col("kind") == EXAMPLE) & (pl.col("split") == TEST))
    if test_rows.is_empty():
        return "not tested"
    template = Score(model="", lens="", metric="accuracy", value=0.0, n=0, n_clusters=0)
    clusters = test_rows["cluster"].rank("dense").to_numpy() - 1
    (score,) = mean_rows(template, test_rows["correct"].to_numpy()[None], clusters)
    row = {name: getattr(score, name) for name in ("value", "ci_low", "ci_high")}
    estimate = f"{SHARE.estimate(row)} right of {score.n:,} examples"
    return f"{estimate} in {score.n_clusters} clusters (95 % interval over clusters)"


def reevaluate(method: Method, training: Training, examples: pl.DataFrame) -> pl.DataFrame:
    """Evaluate a model that was fine-tuned before; return its item table.

    Args:
        method: What is asked for; its task has to be that of the model.
        training: The run's model, and how a training would go.
        examples: All examples, whatever their split; see `sonde.lenses.finetune.data.with_evidence`.

    Raises:
        InputError: The model is not one that was fine-tuned for the task.
    """
    from sonde.training.finetune.data import build_text_encoder, encode_samples
    from sonde.training.finetune.predict import FineTuned, predict_examples

    location = locate_model(training.model)
    model = FineTuned.from_pretrained(location.name, training.model.device)
    task = model.facts.about.get("task", method.task)
    if task != method.task:
        raise InputError(
            f"model {training.model.name!r} was fine-tuned for task {task!r}, not {method.task!r}; use -t "
            f"{task}"
        )
    test_examples = examples.with_columns(split=pl.lit(TEST)).sort("example_id")
    samples = build_samples(method.task, test_examples, model.classes, training.language)
    loaded_model, recipe = model.loaded, model.facts.recipe
    reader = build_text_encoder(loaded_model.tokenizer, loaded_model.special, loaded_model.capabilities.kind)
    encoded_examples = encode_samples(samples, reader, recipe.length, recipe.cut)
    answers = predict_examples(model.model, encoded_examples, reader.pad)
    return answer_rows(answers, test_examples, model.classes, samples)


TASKS = (
    "variable_misuse", "wrong_operator", "swapped_operand", "function_docstring", "exception_type",
    "misuse_repair",
)  # fmt: skip
"""The six of CuBERT's paper."""


class FinetuneLens(TrainingLens):
    """The fine-tuning lens."""

    name = LENS
    version = "5"
    typed_options = FinetuneOptions
    tasks = TASKS
    targets = frozenset({"item", "mutation", "pair"})
    uses_datasets = True
    headline = HeadlineMetric(
        subject="Fine-tuned models",
        measure="examples right",
        finding="{task} can be learnt from the labels",
        metrics=("localisation_repair", "accuracy"),
        where=has_dimensions({}) & (pl.col("split") == "test"),
        listed=is_whole_test_set(),
        controls=CONTROL_NAMES,
        outcome=True,
    )
    comparable_metrics = tuple(
        ComparableMetric(metric=metric, direction="higher", without=("seed",))
        for metric in ("accuracy", "classification", "localisation_repair")
    )

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Return None: every model has states."""
        return None

    def methods(self, tasks: Sequence[str], settings: LensSettings) -> tuple[Method, ...]:
        """List the methods of each task: what needs no model first, then the others by seed and value."""
        methods: dict[Method, None] = {}
        for task in tasks:
            for variant in variants(settings):
                options = FinetuneOptions.read(variant.settings(settings).options)
                if options.as_saved:
                    methods[make_method(PRETRAINED, task, settings, variant)] = None
                    continue
                if BAG in options.methods:
                    # The same for all values of what it does not know.
                    methods[make_method(BAG, task, settings, variant)] = None
                for number, name in itertools.product(
                    range(options.seeds), (PRETRAINED, SCRATCH, *BASELINES)
                ):
                    if name in options.methods and not inapplicable_reason(name, task):
                        methods[make_method(name, task, settings, variant, number=number)] = None
        return tuple(methods)

    def train(self, method: Method, training: Training) -> pl.DataFrame:
        """Train a method; see `sonde.lenses.finetune.data.ROWS_SCHEMA` for the rows.

        Raises:
            SondeError: The data or the model cannot be trained on.
        """
        options = FinetuneOptions.read(training.settings.options)
        recipe = dataclasses.replace(options.recipe(training.settings), seed=method.seed)
        examples = with_evidence(training.examples)
        if options.as_saved:
            return reevaluate(method, training, examples)
        splits = split_examples(examples, options.fraction, options.valid, options.examples, method.seed)
        data = build_training_data(method.task, splits, training.language)
        metadata = {
            "task": method.task,
            "language": training.language,
            "base": training.model.name,
            "method": method.name,
            "seed": method.seed,
        }
        if method.name == BAG:
            return baseline_rows(method.task, splits, training.language, pointer=method.task in POINTER_TASKS)
        if method.name in BASELINES:
            from sonde.training.finetune.baselines import tune_baseline

            load_texts = None
            if options.word2vec_corpus:
                load_texts = partial(further_texts, options.word2vec_corpus, training.language, splits)
            result = tune_baseline(
                method.name,
                training.model,
                data,
                recipe.with_grid(options.baseline_rates, options.baseline_epochs),
                training.folder,
                load_texts=load_texts,
                metadata=metadata,
            )
        else:
            from sonde.training.finetune.tune import tune

            spec = training.model
            if method.name == SCRATCH:
                spec = dataclasses.replace(spec, reinitialise=derive_seed("scratch", method.seed) % 2**31)
                recipe = recipe.with_grid(options.scratch_rates, options.scratch_epochs)
            result = tune(spec, data, recipe, training.folder, metadata=metadata)
        if result.halved:
            training.counts["batches of trainings halved for memory"] = result.halved
        rows = trained_rows(result, splits, data)
        write_atomic(Path(result.folder) / CARD_FILE, render_card(result, rows, data, metadata))
        if method.name == PRETRAINED and method.seed == training.settings.seed:
            from sonde.lenses.finetune.attention import with_attention

            rows = with_attention(rows, result, training.model, splits["test"], data, recipe)
        return rows

    def score(self, scoring: ScoringContext) -> list[Score]:
        """Score each method's test accuracy and the gain of the model over the others."""
        return list(score_all(scoring))

    def details(self, scores: pl.DataFrame) -> Iterator[str]:
        """Yield how much the length leaves out, and whether training was long enough."""
        return list_training_notes(scores)


lens = FinetuneLens()
