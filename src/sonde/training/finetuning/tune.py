"""Fine-tuning of a model: every setting in turn, the best on validation kept and saved."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from sonde.base.errors import InputError, StoreError
from sonde.base.files import write_atomic
from sonde.models import ModelSpec
from sonde.models._quiet import quiet
from sonde.models._saving import save_model
from sonde.models._weights import device_of
from sonde.training.compiling import compile_body
from sonde.training.finetuning import checkpoint
from sonde.training.finetuning.answers import Answers, answer
from sonde.training.finetuning.checkpoint import Epoch, best_of
from sonde.training.finetuning.data import Data, Encoded, TextEncoder, read_all, reader_of
from sonde.training.finetuning.fit import BEST, CHECKPOINT, OnStep, fit
from sonde.training.finetuning.lora import merge_lora
from sonde.training.finetuning.model import (
    HeadedModel,
    LoadedBody,
    OwnBody,
    headed,
    load_for_training,
    summaries,
)
from sonde.training.finetuning.own import save_own
from sonde.training.finetuning.pointing import Pointing, pointing
from sonde.training.finetuning.portions import Portions
from sonde.training.finetuning.recipe import KEEP, FineTuning, Setting
from sonde.training.finetuning.saved import Facts, write_head
from sonde.training.finetuning.sharded import shard
from sonde.training.finetuning.together import companions, device_for, is_first

MODEL = "model"
"""Folder of the trained model below that of the training: transformers reads it like any other."""

_COURSE = "course.json"
_POINTER = "pointer"


@dataclass(frozen=True, slots=True, eq=False)
class Tuned:
    """A model after training.

    Attributes:
        setting: The setting that was best on validation.
        epoch: The epoch whose weights were kept, from 1.
        courses: What was seen of every epoch, by setting.
        valid: What is answered to the validation examples.
        test: What is answered to the test examples.
        halved: How often a batch, or a part of one, did not fit into memory and was read as two.
        head: Name of the class of what stands on the body.
        folder: The trained model: ``model.safetensors`` is read by every lens, ``head.safetensors`` and
            ``head.json`` hold what was trained on top. A classifier of transformers is one file.
    """

    setting: Setting
    epoch: int
    courses: dict[Setting, list[Epoch]]
    valid: Answers
    test: Answers
    halved: int
    head: str
    folder: Path


@dataclass(frozen=True, slots=True, eq=False)
class Trainee:
    """What is trained.

    Attributes:
        model: A body with a fresh head; trained in place.
        reader: How a text reaches it.
        save: Writes the trained body, and what it reads with, into a folder.
        pointer: The same body with a pointer, where it learns to point first.
        again: The same once more, where the weights of ``model`` are shared out among processes: to be saved.
    """

    model: HeadedModel
    reader: TextEncoder
    save: Callable[[Path], None]
    pointer: Callable[[], Pointing] | None = None
    again: Callable[[], Trainee] | None = None


def tune(
    spec: ModelSpec,
    data: Data,
    recipe: FineTuning,
    folder: Path,
    *,
    on_step: OnStep | None = None,
    about: Mapping[str, Any] | None = None,
) -> Tuned:
    """Train a model on the examples of a task.

    Args:
        spec: The model; with ``reinitialise`` its architecture with weights drawn anew.
        data: The examples.
        recipe: How.
        folder: A folder of this training's own. A call after a kill goes on from what is there.
        on_step: Is told the number of every update done.
        about: Task, language and base model, which are kept beside the head.

    Raises:
        UsageError: The limit does not fit the model.
        InputError: The model or the data cannot be trained on.
        StoreError: A checkpoint or the model could not be written.
    """
    if recipe.processes > 1:
        with companions(recipe.processes, _tune, spec, data, recipe, folder):
            return _tune(spec, data, recipe, folder, on_step=on_step, about=about)
    return _tune(spec, data, recipe, folder, on_step=on_step, about=about)


def _tune(
    spec: ModelSpec,
    data: Data,
    recipe: FineTuning,
    folder: Path,
    *,
    rank: int = 0,
    on_step: OnStep | None = None,
    about: Mapping[str, Any] | None = None,
) -> Tuned:
    """What each of the processes does; see `tune`."""
    device = device_for(spec.device, rank, recipe.processes)
    trainee = _trainee(dataclasses.replace(spec, device="cpu" if recipe.fsdp else device), data, recipe)
    if recipe.fsdp:
        # Read where there is room for all of it; each process keeps its part.
        shard(trainee.model, device_of(dataclasses.replace(spec, device=device)), "answers")
        again = partial(_trainee, dataclasses.replace(spec, device="cpu"), data, recipe)
        trainee = dataclasses.replace(trainee, again=again)
    return train(trainee, data, recipe, folder, on_step=on_step, about=about)


def _trainee(spec: ModelSpec, data: Data, recipe: FineTuning) -> Trainee:
    """A model that is loaded, with a fresh head."""
    loaded = load_for_training(spec, recipe.weights)
    model = headed(loaded, data, recipe)

    def save(target: Path) -> None:
        merge_lora(model.body)
        if isinstance(model.body, OwnBody):
            save_own(model.body.inner, loaded, target)
        else:
            save_model(loaded, target)
        loaded.tokenizer.save_pretrained(target)

    reader = reader_of(loaded.tokenizer, loaded.special, loaded.capabilities.kind)
    pointer = None
    if recipe.pointer_epochs:
        whole, _ = summaries(loaded)
        body = LoadedBody(loaded)
        if recipe.compile:
            compile_body(body.inner)
        pointer = partial(pointing, body, data, recipe, loaded.capabilities.d_model, whole)
    return Trainee(model, reader, save, pointer)


def train(
    trainee: Trainee,
    data: Data,
    recipe: FineTuning,
    folder: Path,
    *,
    on_step: OnStep | None = None,
    about: Mapping[str, Any] | None = None,
) -> Tuned:
    """Train with every setting of a recipe, and keep and save the best on validation; see `tune`."""
    model, reader, pad = trainee.model, trainee.reader, trainee.reader.pad
    splits = [
        read_all(some, reader, recipe.length, recipe.cut) for some in (data.train, data.valid, data.test)
    ]
    fitted, chosen_on = (
        _usable(some, name, recipe) for some, name in zip(splits[:2], ("training", "validation"), strict=True)
    )
    portions = Portions(next(model.parameters()).device, folder, recipe.at_once, fixed=recipe.fsdp)
    if trainee.pointer is not None:
        _point(trainee.pointer(), reader, recipe, folder / _POINTER, portions)
    # Fresh weights for each setting come from here; a second load would draw or read the same.
    start = {name: weight.detach().clone() for name, weight in checkpoint.moving(model).items()}
    courses: dict[Setting, list[Epoch]] = {}
    best = recipe.settings[0]
    for setting in recipe.settings:
        own = _setting_folder(folder, recipe, setting)
        found = _finished(own)
        if found is None:
            checkpoint.put_back(model, start)
            one = dataclasses.replace(recipe, batch=setting.batch, epochs=setting.epochs)
            rate = setting.rate
            course = fit(
                model,
                fitted,
                chosen_on,
                one,
                rate=rate,
                pad=pad,
                folder=own,
                portions=portions,
                on_step=on_step,
            )
            found = course.history
        if is_first():
            write_atomic(own / _COURSE, json.dumps([asdict(epoch) for epoch in found]))
            (own / CHECKPOINT).unlink(missing_ok=True)
        courses[setting] = found
        # Of equals the first setting; weights are kept of the best so far alone.
        last, best = best, max(courses, key=lambda one: best_of(courses[one]).merit)
        for other in {last, setting} - {best} if is_first() else ():
            (_setting_folder(folder, recipe, other) / BEST).unlink(missing_ok=True)
    checkpoint.read_weights(_setting_folder(folder, recipe, best) / BEST, model)
    answers = [answer(model, some, pad, portions) for some in splits[1:]]
    head, pair = type(model.head).__name__, data.train[0].second is not None
    if is_first():
        if trainee.again is not None:
            trainee = trainee.again()
            checkpoint.read_weights(_setting_folder(folder, recipe, best) / BEST, trainee.model)
        _save(trainee, Facts(head, data.classes, recipe, pair, about or {}), folder / MODEL)
    epoch = best_of(courses[best]).epoch
    return Tuned(best, epoch, courses, answers[0], answers[1], portions.halved, head, folder / MODEL)


def _point(
    pointing: Pointing, reader: TextEncoder, recipe: FineTuning, folder: Path, portions: Portions
) -> None:
    """Have a body learn to point, at the first of the rates, and leave it as it was after the best epoch."""
    train, valid = (
        [
            one
            for one in read_all(some, reader, recipe.length, recipe.cut)
            # A pair of which the limit has lost a part teaches nothing.
            if one.reached is not False
        ]
        for some in (pointing.train, pointing.valid)
    )
    if _finished(folder) is None:
        one = dataclasses.replace(recipe, epochs=recipe.pointer_epochs)
        course = fit(
            pointing.model,
            train,
            valid,
            one,
            rate=recipe.rates[0],
            pad=reader.pad,
            folder=folder,
            portions=portions,
        )
        if is_first():
            write_atomic(folder / _COURSE, json.dumps([asdict(epoch) for epoch in course.history]))
            (folder / CHECKPOINT).unlink(missing_ok=True)
    checkpoint.read_weights(folder / BEST, pointing.model)


def _usable(encoded: Sequence[Encoded], name: str, recipe: FineTuning) -> Sequence[Encoded]:
    """What is learned from or chosen on: no example whose label rests on something that is not read."""
    if recipe.cut == KEEP:
        return encoded
    kept = [one for one in encoded if one.reached is not False]
    if not kept:
        raise InputError(
            f"none of the {len(encoded)} {name} examples shows within {recipe.length} subwords what its "
            "label rests on; raise finetune.length, or set finetune.cut to window"
        )
    return kept


def _setting_folder(folder: Path, recipe: FineTuning, setting: Setting) -> Path:
    return folder / f"setting-{recipe.settings.index(setting)}"


def _finished(folder: Path) -> list[Epoch] | None:
    path = folder / _COURSE
    if not path.is_file():
        return None
    return [Epoch(**epoch) for epoch in json.loads(path.read_text(encoding="utf-8"))]


def _save(trainee: Trainee, facts: Facts, folder: Path) -> None:
    """Write the trained body with its head and recipe, all at once."""

    def write(temporary: Path) -> None:
        temporary.mkdir(parents=True, exist_ok=True)
        with quiet():
            trainee.save(temporary)
        write_head(trainee.model.head, facts, temporary)

    _replace_folder(folder, write)


def _replace_folder(folder: Path, write: Callable[[Path], None]) -> None:
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.replace(folder)
    except (OSError, RuntimeError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        reason = " ".join(str(error).split())[:200]
        raise StoreError(f"cannot write {folder}: {reason}; free space and run again") from error
