"""Pointing before telling: a body first learns where a bug stands, and then whether there is one.

A label of a whole function says little about which of a hundred subwords it rests on. Where the examples
come as a function and its changed copy, the place is known; a pointer that learns it (Vasic et al. 2019)
gives the weights from which the classifier begins.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Sequence

from torch import nn

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed
from sonde.training.finetune.data import Sample, Span, TaskData
from sonde.training.finetune.model import HeadedModel, PointerHead, use_seed
from sonde.training.finetune.recipe import FinetuneRecipe

CLEAN = "Correct"
"""The class of what nothing was done to."""


_WORD = re.compile(r"\w+|[^\w\s]+")


PointerStage = tuple[HeadedModel, Sequence[Sample], Sequence[Sample]]
"""A body with a pointer, and its examples: those of training, and those to choose the epoch on."""


def build_pointer_stage(
    body: nn.Module, data: TaskData, recipe: FinetuneRecipe, width: int, summary: str
) -> PointerStage:
    """Build a body with a fresh pointer, and the examples of a task as places.

    Args:
        body: The body that the classifier reads.
        data: The examples of a task that tells what is ``Correct`` from what has a bug.
        recipe: Its dropout and seed.
        width: Of the states.
        summary: What sums a text up.

    Raises:
        InputError: The task has no such class, or does not say where its bugs stand.
    """
    if CLEAN not in data.classes or len(data.classes) != 2:
        raise InputError(
            f"finetune.pointer_epochs: the classes are {', '.join(data.classes)}; a task that tells "
            f"{CLEAN!r} from one kind of bug is needed"
        )
    clean = data.classes.index(CLEAN)
    train, valid = location_examples(data.train, clean), location_examples(data.valid, clean)
    if not any(sample.error for sample in train) or not valid:
        raise InputError("finetune.pointer_epochs: no example of this task has the place of its bug")
    with use_seed(derive_seed("pointer", recipe.seed)):
        head = PointerHead(width, summary, recipe)
    device = next(body.parameters()).device
    body.requires_grad_()
    return HeadedModel(body, head.to(device), frozen=False), train, valid


def location_examples(samples: Sequence[Sample], clean: int) -> list[Sample]:
    """Select the examples whose bug location is known, with every word as a place.

    Where a name was replaced, the places of the right one are those to repair it with.

    Args:
        samples: Examples of functions and their changed copies.
        clean: The class of what nothing was done to.
    """
    groups: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.group and sample.evidence is not None and sample.second is None:
            groups[sample.group].append(sample)
    examples: list[Sample] = []
    for example in (sample for sample in samples if len(groups.get(sample.group, ())) == 2):
        words = [match.span() for match in _WORD.finditer(example.text)]
        word_example = dataclasses.replace(example, candidates=tuple(words))
        if example.target == clean:
            examples.append(word_example)
            continue
        counterpart = next(counterpart for counterpart in groups[example.group] if counterpart is not example)
        error = find_word(example.text, example.evidence)
        right = find_word(counterpart.text, counterpart.evidence)
        if error is None or right is None:
            continue
        name = counterpart.text[slice(*right)]
        repairs = [span for span in words if name.isidentifier() and example.text[slice(*span)] == name]
        examples.append(dataclasses.replace(word_example, error=error, repairs=tuple(repairs)))
    return examples


def find_word(text: str, stretch: Span | None) -> Span | None:
    """Return the first word that overlaps `stretch`, else the next one; None if there is none."""
    if stretch is None:
        return None
    start, end = stretch
    words = [match.span() for match in _WORD.finditer(text)]
    return next((word for word in words if word[1] > start and word[0] < max(end, start + 1)), None) or next(
        (word for word in words if word[0] >= start), None
    )
