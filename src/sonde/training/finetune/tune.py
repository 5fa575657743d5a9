"""Fine-tuning of a model: every setting in turn, the best on validation kept and saved.

`fit` is one training at one rate: from the last checkpoint to the best epoch.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sonde.base.errors import InputError
from sonde.base.files import report_full_disk, write_atomic, write_folder
from sonde.base.fingerprint import derive_seed
from sonde.models import ModelSpec
from sonde.models.engine.silence import silence_libraries
from sonde.models.engine.weights import resolve_device
from sonde.training.finetune import checkpoint
from sonde.training.finetune.batches import MicroBatches, collate, order_batches
from sonde.training.finetune.checkpoint import Epoch, TrainingState, select_best_epoch
from sonde.training.finetune.data import (
    EncodedExample,
    TaskData,
    TextEncoder,
    build_text_encoder,
    encode_samples,
)
from sonde.training.finetune.distributed import (
    all_reduce,
    barrier,
    has_sharded_weights,
    is_main_process,
    local_rows,
    select_device,
    shard_model,
    spawn_workers,
    world_size,
)
from sonde.training.finetune.model import (
    HeadedModel,
    LoadedBody,
    build_headed_model,
    default_poolings,
    load_for_training,
    merge_lora,
    save_body,
    use_seed,
)
from sonde.training.finetune.pointing import PointerStage, build_pointer_stage
from sonde.training.finetune.predict import ExamplePredictions, HeadConfig, predict_examples, write_head
from sonde.training.finetune.recipe import KEEP, FinetuneRecipe, Hyperparameters
from sonde.training.precision import compile_body, uses_bfloat16

CHECKPOINT, BEST, _COURSE = "checkpoint.pt", "best.safetensors", "course.json"


OnStep = Callable[[int], None]


def rate_factor(step: int, steps: int, warmup: float) -> float:
    """Return the rate of an update (from 0) as a share of its peak: linear up, then linear down to 0."""
    rising_steps = max(1, round(warmup * steps))
    if step < rising_steps:
        return (step + 1) / rising_steps
    return max(0.0, (steps - step) / max(1, steps - rising_steps))


def fit(
    model: HeadedModel,
    train: Sequence[EncodedExample],
    valid: Sequence[EncodedExample],
    recipe: FinetuneRecipe,
    *,
    rate: float,
    pad: int,
    folder: Path,
    portions: MicroBatches,
    on_step: OnStep | None = None,
) -> list[Epoch]:
    """Train, or resume a call that was killed, and leave the weights of the best epoch.

    A call after one that has finished gives what that has seen.

    The order of the examples follows from seed and epoch, and a checkpoint holds weights, optimiser, random
    numbers and place, so that a killed training ends with the weights of an undisturbed one (one thread, same
    machine). The rate follows from the number of the update.

    Args:
        model: A body with its head; trained in place.
        train: What is trained on.
        valid: What epochs are chosen on.
        recipe: How.
        rate: Peak learning rate.
        pad: Subword of padding.
        folder: Where checkpoints and the best weights go.
        portions: How much is read at once.
        on_step: Is told the number of every update done.

    Returns:
        What was seen of every epoch.

    Raises:
        StoreError: A checkpoint could not be written.
        InputError: The checkpoint found is of another architecture, or one example does not fit into memory.
    """
    course_path = folder / _COURSE
    if course_path.is_file():
        return [Epoch(**epoch) for epoch in json.loads(course_path.read_text(encoding="utf-8"))]
    optimiser = _build_optimiser(model, rate, recipe)
    steps = recipe.epochs * len(order_batches(train, recipe.batch, recipe.seed, 0))
    device = next(model.parameters()).device
    with use_seed(derive_seed("train", recipe.seed, rate), on_devices=True):
        course = checkpoint.read_checkpoint(folder / CHECKPOINT, model, optimiser)
        while not _is_done(course, recipe):
            batches = order_batches(train, recipe.batch, recipe.seed, course.epoch)
            model.train()
            # Summed where it is computed: to ask for each loss would have an accelerator wait for us.
            total = torch.tensor(course.total, dtype=torch.float64, device=device)
            for rows in batches[course.position :]:
                for group in optimiser.param_groups:
                    group["lr"] = rate * rate_factor(course.step, steps, recipe.warmup)
                total += _update(model, rows, train, pad, optimiser, recipe, portions)
                course.position += 1
                course.step += 1
                if course.step % recipe.checkpoint == 0 and course.position < len(batches):
                    course.total = float(total)
                    checkpoint.write_checkpoint(folder / CHECKPOINT, course, model, optimiser)
                if on_step is not None:
                    on_step(course.step)
            predictions = predict_examples(model, valid, pad, portions)
            course.epoch, course.position = course.epoch + 1, 0
            course.history.append(
                Epoch(course.epoch, float(total) / len(train), predictions.share, predictions.loss)
            )
            course.total = 0.0
            if course.best is course.history[-1]:
                checkpoint.write_weights(folder / BEST, model)
            checkpoint.write_checkpoint(folder / CHECKPOINT, course, model, optimiser)
            barrier()
    if is_main_process():
        write_atomic(course_path, json.dumps([asdict(epoch) for epoch in course.history]))
        (folder / CHECKPOINT).unlink(missing_ok=True)
    return course.history


def _is_done(course: TrainingState, recipe: FinetuneRecipe) -> bool:
    best = course.best
    return course.epoch >= recipe.epochs or (
        best is not None and course.epoch - best.epoch >= recipe.patience
    )


def _update(
    model: HeadedModel,
    rows: Sequence[int],
    train: Sequence[EncodedExample],
    pad: int,
    optimiser: torch.optim.Optimizer,
    recipe: FinetuneRecipe,
    portions: MicroBatches,
) -> Tensor:
    """Do one update; return the sum of the losses of its examples before it.

    A batch that does not fit into memory is read in portions, whose gradients add up to those of the whole.
    """
    device = next(model.parameters()).device
    random_state = checkpoint.get_random_state()
    has_shards = has_sharded_weights(model)
    # Where gradients are averaged over the processes, and have to be added up.
    share = (world_size() if has_shards else 1) / len(rows)

    def gradients(portion: Sequence[int], counts: float = 1.0) -> Tensor:
        batch = collate(portion, train, pad, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=uses_bfloat16(recipe.precision, device)):
            loss = model.head.loss(model(batch), batch)
        (loss * (len(portion) * share * counts)).backward()
        return loss.detach().double() * (len(portion) * counts)

    def reset() -> None:
        optimiser.zero_grad(set_to_none=True)
        checkpoint.set_random_state(random_state)

    own_rows = local_rows(rows)
    losses = [loss for _, loss in portions.done(own_rows, train, gradients, reset)] if len(own_rows) else []
    if has_shards:
        # A layer is put together by all processes at once, so each has to read as often as the others.
        portion_count = portions.number(-(-len(rows) // world_size()))
        losses += [gradients(rows[:1], 0.0) for _ in range(portion_count - len(losses))]
    total = torch.zeros((), dtype=torch.float64, device=device)
    for loss in losses:
        total += loss
    total = all_reduce(model, total, gradients=not has_shards)
    nn.utils.clip_grad_norm_(
        [parameter for parameter in model.parameters() if parameter.requires_grad], recipe.clip
    )
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return total


def _build_optimiser(model: HeadedModel, rate: float, recipe: FinetuneRecipe) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {
            "params": [parameter for parameter in parameters if parameter.ndim > 1],
            "weight_decay": recipe.decay,
        },
        {"params": [parameter for parameter in parameters if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=rate)


MODEL = "model"
"""Folder of the trained model below that of the training: transformers reads it like any other."""


_POINTER = "pointer"


@dataclass(frozen=True, slots=True, eq=False)
class FinetuneResult:
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

    setting: Hyperparameters
    epoch: int
    courses: dict[Hyperparameters, list[Epoch]]
    valid: ExamplePredictions
    test: ExamplePredictions
    halved: int
    head: str
    folder: Path


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSetup:
    """A model to train, with its input encoder.

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
    pointer: Callable[[], PointerStage] | None = None
    again: Callable[[], TrainingSetup] | None = None


def tune(
    spec: ModelSpec,
    data: TaskData,
    recipe: FinetuneRecipe,
    folder: Path,
    *,
    on_step: OnStep | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> FinetuneResult:
    """Train a model on the examples of a task.

    Args:
        spec: The model; with ``reinitialise`` its architecture with weights drawn anew.
        data: The examples.
        recipe: How.
        folder: A folder of this training's own. A call after a kill resumes from what is there.
        on_step: Is told the number of every update done.
        metadata: Task, language and base model, which are kept beside the head.

    Raises:
        UsageError: The limit does not fit the model.
        InputError: The model or the data cannot be trained on.
        StoreError: A checkpoint or the model could not be written.
    """
    if recipe.processes > 1:
        with spawn_workers(recipe.processes, _tune, spec, data, recipe, folder):
            return _tune(spec, data, recipe, folder, on_step=on_step, metadata=metadata)
    return _tune(spec, data, recipe, folder, on_step=on_step, metadata=metadata)


def _tune(
    spec: ModelSpec,
    data: TaskData,
    recipe: FinetuneRecipe,
    folder: Path,
    *,
    rank: int = 0,
    on_step: OnStep | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> FinetuneResult:
    """Train in one of the processes; see `tune`."""
    device = select_device(spec.device, rank, recipe.processes)
    trainee = _load_setup(dataclasses.replace(spec, device="cpu" if recipe.fsdp else device), data, recipe)
    if recipe.fsdp:
        # Read where there is room for all of it; each process keeps its part.
        shard_model(trainee.model, resolve_device(dataclasses.replace(spec, device=device)), "answers")
        reload = partial(_load_setup, dataclasses.replace(spec, device="cpu"), data, recipe)
        trainee = dataclasses.replace(trainee, again=reload)
    return train(trainee, data, recipe, folder, on_step=on_step, metadata=metadata)


def _load_setup(spec: ModelSpec, data: TaskData, recipe: FinetuneRecipe) -> TrainingSetup:
    """Load a model and build a fresh head for it."""
    loaded_model = load_for_training(spec, recipe.weights)
    model = build_headed_model(loaded_model, data, recipe)

    def save(target: Path) -> None:
        merge_lora(model.body)
        save_body(model.body, loaded_model, target)

    reader = build_text_encoder(loaded_model.tokenizer, loaded_model.special, loaded_model.capabilities.kind)
    pointer = None
    if recipe.pointer_epochs:
        pooling, _ = default_poolings(loaded_model)
        body = LoadedBody(loaded_model)
        if recipe.compile:
            compile_body(body.inner)
        pointer = partial(build_pointer_stage, body, data, recipe, loaded_model.capabilities.d_model, pooling)
    return TrainingSetup(model, reader, save, pointer)


def train(
    trainee: TrainingSetup,
    data: TaskData,
    recipe: FinetuneRecipe,
    folder: Path,
    *,
    on_step: OnStep | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> FinetuneResult:
    """Train with every setting of a recipe, and keep and save the best on validation; see `tune`."""
    model, reader, pad = trainee.model, trainee.reader, trainee.reader.pad
    splits = [
        encode_samples(samples, reader, recipe.length, recipe.cut)
        for samples in (data.train, data.valid, data.test)
    ]
    train_examples, chosen_on = (
        _select_usable(split, name, recipe)
        for split, name in zip(splits[:2], ("training", "validation"), strict=True)
    )
    portions = MicroBatches(
        next(model.parameters()).device, folder, recipe.at_once, is_fixed_size=recipe.fsdp
    )
    if trainee.pointer is not None:
        _train_pointer(trainee.pointer(), reader, recipe, folder / _POINTER, portions)
    # Fresh weights for each setting come from here; a second load would draw or read the same.
    start = {name: weight.detach().clone() for name, weight in checkpoint.trainable_state(model).items()}
    courses: dict[Hyperparameters, list[Epoch]] = {}
    folders = {setting: folder / f"setting-{index}" for index, setting in enumerate(recipe.settings)}
    best = recipe.settings[0]
    for setting in recipe.settings:
        checkpoint.restore_state(model, start)
        setting_recipe = dataclasses.replace(recipe, batch=setting.batch, epochs=setting.epochs)
        courses[setting] = fit(
            model,
            train_examples,
            chosen_on,
            setting_recipe,
            rate=setting.rate,
            pad=pad,
            folder=folders[setting],
            portions=portions,
            on_step=on_step,
        )
        # Of equals the first setting; weights are kept of the best so far alone.
        last, best = best, max(courses, key=lambda candidate: select_best_epoch(courses[candidate]).merit)
        for obsolete in {last, setting} - {best} if is_main_process() else ():
            (folders[obsolete] / BEST).unlink(missing_ok=True)
    checkpoint.read_weights(folders[best] / BEST, model)
    answers = [predict_examples(model, split, pad, portions) for split in splits[1:]]
    head, pair = type(model.head).__name__, data.train[0].second is not None
    if is_main_process():
        if trainee.again is not None:
            trainee = trainee.again()
            checkpoint.read_weights(folders[best] / BEST, trainee.model)
        _save(trainee, HeadConfig(head, data.classes, recipe, pair, metadata or {}), folder / MODEL)
    epoch = select_best_epoch(courses[best]).epoch
    return FinetuneResult(best, epoch, courses, answers[0], answers[1], portions.halved, head, folder / MODEL)


def _train_pointer(
    stage: PointerStage, reader: TextEncoder, recipe: FinetuneRecipe, folder: Path, portions: MicroBatches
) -> None:
    """Train a body to point, at the first of the rates; its weights are those of the best epoch."""
    model, *splits = stage
    train, valid = (
        [
            example
            for example in encode_samples(samples, reader, recipe.length, recipe.cut)
            # A pair of which the limit has lost a part teaches nothing.
            if example.reached is not False
        ]
        for samples in splits
    )
    pointer_recipe = dataclasses.replace(recipe, epochs=recipe.pointer_epochs)
    rate = recipe.rates[0]
    fit(model, train, valid, pointer_recipe, rate=rate, pad=reader.pad, folder=folder, portions=portions)
    checkpoint.read_weights(folder / BEST, model)


def _select_usable(
    encoded_examples: Sequence[EncodedExample], name: str, recipe: FinetuneRecipe
) -> Sequence[EncodedExample]:
    """Select the examples to train or choose on: none whose label rests on text that is not read."""
    if recipe.cut == KEEP:
        return encoded_examples
    usable_examples = [example for example in encoded_examples if example.reached is not False]
    if not usable_examples:
        raise InputError(
            f"none of the {len(encoded_examples)} {name} examples has the code of its label "
            f"within {recipe.length} subwords; raise finetune.length, or set finetune.cut to "
            "window"
        )
    return usable_examples


def _save(trainee: TrainingSetup, facts: HeadConfig, folder: Path) -> None:
    """Write the trained body with its head and recipe, all at once."""

    def write(new_folder: Path) -> None:
        with report_full_disk(str(folder), "the best weights are kept"), silence_libraries():
            trainee.save(new_folder)
            write_head(trainee.model.head, facts, new_folder)

    write_folder(folder, write, replace=True)
