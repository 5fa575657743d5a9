"""Baselines trained from scratch: their networks, and their training on the examples of a task.

- LSTMs over token vectors: in both directions for CuBERT's BiLSTM, in one for the LSTM + pointer. The table
  of token vectors that they begin with is trained like everything else.
- A Transformer: BERT's own, as in CuBERT's paper, at a size of one's choice.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import BertConfig, BertForMaskedLM, BertModel

from sonde.base.fingerprint import derive_seed
from sonde.models import ModelSpec, resolve_auto
from sonde.training.baselines.recipe import LSTM_POINTER, TRANSFORMER, WORD2VEC, BaselineSizes
from sonde.training.baselines.vectors import (
    Learned,
    TokenVectors,
    UnlabelledTexts,
    build_baseline_encoder,
    get_vectors,
)
from sonde.training.finetune.batches import Batch
from sonde.training.finetune.data import TaskData, TextEncoder
from sonde.training.finetune.model import HeadedModel, States, build_head, segment_ids
from sonde.training.finetune.recipe import FinetuneRecipe
from sonde.training.finetune.tune import FinetuneResult, OnStep, TrainingSetup, train


def init_embedding(vocabulary: int, width: int) -> nn.Embedding:
    """Vectors drawn as Glorot and Bengio 2010 have it, which is what CuBERT's paper names."""
    embedding = nn.Embedding(vocabulary, width)
    nn.init.xavier_uniform_(embedding.weight)
    return embedding


def build_embedding(vocabulary: int, vectors: TokenVectors) -> nn.Embedding:
    """Learned vectors; a subword that never occurred has one of the size that Word2Vec draws at first."""
    width = vectors.values.shape[1]
    embedding = nn.Embedding(vocabulary, width)
    nn.init.uniform_(embedding.weight, -1 / width, 1 / width)
    with torch.no_grad():
        embedding.weight[torch.from_numpy(vectors.ids)] = torch.from_numpy(vectors.values)
    return embedding


class RecurrentBody(nn.Module):
    """Token vectors and LSTM layers on them.

    Args:
        embedding: The table of token vectors.
        sizes: Layers, hidden units and dropout.
        both: Whether each layer reads in both directions.

    Attributes:
        width: Of the states.
    """

    def __init__(self, embedding: nn.Embedding, sizes: BaselineSizes, *, both: bool) -> None:
        super().__init__()
        self.embedding = embedding
        self.lstm = nn.LSTM(
            embedding.embedding_dim,
            sizes.lstm_width,
            sizes.lstm_layers,
            batch_first=True,
            dropout=sizes.lstm_dropout if sizes.lstm_layers > 1 else 0.0,
            bidirectional=both,
        )
        self.width = sizes.lstm_width * (2 if both else 1)

    def forward(self, batch: Batch) -> States:
        """The last layer's states; 0 on padding, which no direction reads."""
        lengths = (batch.part >= 0).sum(1).cpu()
        # Step after step in half precision, errors would add up; there is little to be won in such products.
        with torch.autocast(batch.ids.device.type, enabled=False):
            packed = pack_padded_sequence(
                self.embedding(batch.ids), lengths, batch_first=True, enforce_sorted=False
            )
            states, _ = pad_packed_sequence(
                self.lstm(packed)[0], batch_first=True, total_length=batch.ids.shape[1]
            )
        return states


_HEAD = 64


def _choose_head_count(width: int) -> int:
    """As many heads as have `_HEAD` units each, or fewer that share all units evenly."""
    return next(heads for heads in range(max(1, width // _HEAD), 0, -1) if width % heads == 0)


class TransformerBody(nn.Module):
    """BERT with weights drawn anew.

    Args:
        vocabulary: Number of subwords.
        length: Most subwords of an input.
        sizes: Layers and hidden units.

    Attributes:
        width: Of the states.
    """

    def __init__(self, vocabulary: int, length: int, sizes: BaselineSizes) -> None:
        super().__init__()
        self.width = sizes.transformer_width
        config = BertConfig(
            vocab_size=vocabulary,
            hidden_size=self.width,
            num_hidden_layers=sizes.transformer_layers,
            num_attention_heads=_choose_head_count(self.width),
            intermediate_size=4 * self.width,
            max_position_embeddings=length,
            # Where the end of a text pads as well, its vector is to be learned.
            pad_token_id=None,
        )
        self.inner = BertModel(config, add_pooling_layer=False)

    def forward(self, batch: Batch) -> States:
        """The last layer's states."""
        return self.inner(
            input_ids=batch.ids,
            attention_mask=(batch.part >= 0).long(),
            token_type_ids=segment_ids(batch),
        ).last_hidden_state

    def save_pretrained(self, folder: Path) -> None:
        """Write it as a masked model, so that every lens can read its states; its head is not trained."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            whole = BertForMaskedLM(self.inner.config)
        whole.bert.load_state_dict(self.inner.state_dict())
        whole.save_pretrained(folder)


FACTS = "baseline.json"
"""What a baseline is and what its vectors were learned on, beside its weights."""


def tune_baseline(
    name: str,
    spec: ModelSpec,
    data: TaskData,
    recipe: FinetuneRecipe,
    sizes: BaselineSizes,
    folder: Path,
    *,
    unlabelled: Callable[[], UnlabelledTexts] | None = None,
    on_step: OnStep | None = None,
    about: Mapping[str, Any] | None = None,
) -> FinetuneResult:
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
    reader = build_baseline_encoder(spec, data, recipe, sizes)
    learned = None
    if name in WORD2VEC:
        learned = get_vectors(name, data, reader, recipe, sizes, folder, unlabelled)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("body", recipe.seed) % 2**63)
        body = _build_body(name, reader, recipe, sizes, learned)
    head = build_head(data, recipe, body.width, "mean", _pointer_pooling(name, reader))
    model = HeadedModel(body, head, frozen=False).to(resolve_auto(spec).device)

    def save(target: Path) -> None:
        if isinstance(body, TransformerBody):
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

    return train(TrainingSetup(model, reader, save), data, recipe, folder, on_step=on_step, about=about)


def _build_body(
    name: str, reader: TextEncoder, recipe: FinetuneRecipe, sizes: BaselineSizes, learned: Learned | None
) -> RecurrentBody | TransformerBody:
    rows = 1 + max(*reader.tokenizer.get_vocab().values(), reader.pad, *reader.before, *reader.behind)
    if name == TRANSFORMER:
        return TransformerBody(rows, recipe.length, sizes)
    if learned is not None:
        embedding = build_embedding(rows, learned[0])
    else:
        embedding = init_embedding(rows, sizes.embedding)
    return RecurrentBody(embedding, sizes, both=name != LSTM_POINTER)


def _pointer_pooling(name: str, reader: TextEncoder) -> str:
    """What sums a text up for a pointer: Vasic et al. 2019 take the LSTM's last state."""
    if name == LSTM_POINTER:
        return "last"
    return "first" if name == TRANSFORMER and len(reader.before) else "mean"
