"""A fine-tuned model asked as it is: nothing is trained, and all examples of a corpus are a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from sonde.base.errors import InputError
from sonde.lenses.finetune.data import TEST, samples_of
from sonde.lenses.finetune.rows import asked_rows
from sonde.models._resolve import locate

if TYPE_CHECKING:
    from sonde.lenses._lens import Method, Training


def ask(method: Method, training: Training, examples: pl.DataFrame) -> pl.DataFrame:
    """The item table of a model that was fine-tuned before.

    Args:
        method: What is asked for; its task has to be that of the model.
        training: The run's model, and how a training would go.
        examples: All examples, whatever their split; see `sonde.lenses.finetune.data.with_evidence`.

    Raises:
        InputError: The model is not one that was fine-tuned for the task.
    """
    from sonde.training.finetuning.answers import answer
    from sonde.training.finetuning.data import read_all, reader_of
    from sonde.training.finetuning.saved import FineTuned

    place = locate(training.model)
    model = FineTuned.from_pretrained(place.name, training.model.device)
    task = model.facts.about.get("task", method.task)
    if task != method.task:
        raise InputError(
            f"model {training.model.name!r} was fine-tuned for task {task!r} and is asked {method.task!r}; "
            f"name -t {task}"
        )
    asked = examples.with_columns(split=pl.lit(TEST)).sort("example_id")
    samples = samples_of(method.task, asked, model.classes, training.language)
    loaded, recipe = model.loaded, model.facts.recipe
    reader = reader_of(loaded.tokenizer, loaded.special, loaded.capabilities.kind)
    encoded = read_all(samples, reader, recipe.length, recipe.cut)
    answers = answer(model.model, encoded, reader.pad)
    return asked_rows(answers, asked, model.classes, samples)
