"""From the examples of a task to a trained baseline."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from sonde.base.fingerprint import derive_seed
from sonde.models import ModelSpec, settle
from sonde.training.baselines.recipe import LSTM_POINTER, TRANSFORMER, WORD2VEC, Sizes
from sonde.training.baselines.recurrent import Recurrent, fresh_embedding, learned_embedding
from sonde.training.baselines.transformer import ScratchTransformer
from sonde.training.baselines.vectors import Learned, Unlabelled, vectors_of
from sonde.training.baselines.vocabulary import baseline_reader
from sonde.training.finetuning.data import Data, TextEncoder
from sonde.training.finetuning.fit import OnStep
from sonde.training.finetuning.model import HeadedModel, head_for
from sonde.training.finetuning.recipe import FineTuning
from sonde.training.finetuning.tune import Trainee, Tuned, train

FACTS = "baseline.json"
"""What a baseline is and what its vectors were learned on, beside its weights."""


def tune_baseline(
    name: str,
    spec: ModelSpec,
    data: Data,
    recipe: FineTuning,
    sizes: Sizes,
    folder: Path,
    *,
    unlabelled: Callable[[], Unlabelled] | None = None,
    on_step: OnStep | None = None,
    about: Mapping[str, Any] | None = None,
) -> Tuned:
    """Train a baseline as a model is fine-tuned: same inputs, order, checkpoints and answers.

    Args:
        name: One of `sonde.training.baselines.recipe.BASELINES`.
        spec: The model under study; only its tokenizer is read, and where it runs.
        data: The examples.
        recipe: How; a frozen body is of no use here, so all is trained.
        sizes: How large, and in whose subwords.
        folder: A folder of this training's own. A call after a kill goes on from what is there.
        unlabelled: Gives further texts that Word2Vec learns on; asked once.
        on_step: Is told the number of every update done.
        about: Task, language and model, which are kept beside the head.

    Raises:
        UsageError: The limit is too short for any text.
        InputError: The data cannot be trained on, or gensim is not installed.
        StoreError: A checkpoint or the model could not be written.
    """
    recipe = dataclasses.replace(recipe, frozen=False)
    reader = baseline_reader(spec, data, recipe, sizes)
    learned = None
    if name in WORD2VEC:
        learned = vectors_of(name, data, reader, recipe, sizes, folder, unlabelled)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("body", recipe.seed) % 2**63)
        body = _body(name, reader, recipe, sizes, learned)
    head = head_for(data, recipe, body.width, "mean", _pointed(name, reader))
    model = HeadedModel(body, head, frozen=False).to(settle(spec).device)

    def save(target: Path) -> None:
        if isinstance(body, ScratchTransformer):
            body.save_pretrained(target)
        else:
            save_file(
                {key: one.cpu() for key, one in body.state_dict().items()}, target / "model.safetensors"
            )
        reader.tokenizer.save_pretrained(target)
        facts: dict[str, Any] = {"baseline": name, "sizes": dataclasses.asdict(sizes)}
        if learned is not None:
            _, facts["vectors"] = learned
        (target / FACTS).write_text(json.dumps(facts, indent=2), encoding="utf-8")

    return train(Trainee(model, reader, save), data, recipe, folder, on_step=on_step, about=about)


def _body(
    name: str, reader: TextEncoder, recipe: FineTuning, sizes: Sizes, learned: Learned | None
) -> Recurrent | ScratchTransformer:
    rows = 1 + max(*reader.tokenizer.get_vocab().values(), reader.pad, *reader.before, *reader.behind)
    if name == TRANSFORMER:
        return ScratchTransformer(rows, recipe.length, sizes)
    if learned is not None:
        embedding = learned_embedding(rows, learned[0])
    else:
        embedding = fresh_embedding(rows, sizes.embedding)
    return Recurrent(embedding, sizes, both=name != LSTM_POINTER)


def _pointed(name: str, reader: TextEncoder) -> str:
    """What sums a text up for a pointer: Vasic et al. 2019 take the LSTM's last state."""
    if name == LSTM_POINTER:
        return "last"
    return "first" if name == TRANSFORMER and len(reader.before) else "mean"
