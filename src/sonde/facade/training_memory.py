"""What the printed plan says of the memory of trainings, before a weight is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from sonde.experiments.lens_choice import settings_of
from sonde.experiments.plan import TrainJob
from sonde.lenses.finetune.options import LENS, PRETRAINED, SCRATCH, FinetuneOptions
from sonde.models._resolve import behind_a_server


def memory_of(jobs: Iterable[TrainJob]) -> tuple[Mapping[str, Any], ...]:
    """An entry a model and way of training: ``model, how, total, weights, moving, states, examples, length``.

    Args:
        jobs: Trainings; those of models count, baselines are small.
    """
    from sonde.models import settle
    from sonde.training.finetuning.memory import training_memory
    from sonde.training.precision import in_bfloat16

    found: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for job in jobs:
        if job.part.lens.name != LENS or behind_a_server(job.model):
            continue
        options = dict(job.method.options)
        if job.method.name not in (PRETRAINED, SCRATCH) or options.get("as_saved"):
            continue
        settings = settings_of(job.part.lens.observing)
        settings = dataclasses.replace(settings, options={**settings.options, **options})
        recipe = FinetuneOptions.read(settings.options).recipe(settings)
        spec = settle(job.model)
        import torch

        half = in_bfloat16(recipe.precision, torch.device(spec.device))
        one = training_memory(spec, recipe, half=half)
        how = f"LoRA of rank {recipe.lora_rank}" if recipe.lora_rank else "all weights"
        how = "the head alone" if recipe.frozen else how
        key = (spec.name, how, one, recipe.length)
        found[key] = {
            "model": spec.name,
            "how": how,
            "length": recipe.length,
            **dataclasses.asdict(one),
            "total": one.total,
        }
    return tuple(found.values())
