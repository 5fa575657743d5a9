"""LSTMs over token vectors: in both directions for CuBERT's BiLSTM, in one for the LSTM + pointer.

The table of token vectors that they begin with is trained like everything else.
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
from sonde.models import ModelSpec, settle
from sonde.training.baselines.recipe import LSTM_POINTER, TRANSFORMER, WORD2VEC, Sizes
from sonde.training.baselines.vectors import Learned, Unlabelled, Vectors, baseline_reader, vectors_of
from sonde.training.finetune.batches import Batch
from sonde.training.finetune.data import Data, TextEncoder
from sonde.training.finetune.model import HeadedModel, States, head_for, segments
from sonde.training.finetune.recipe import FineTuning
from sonde.training.finetune.tune import OnStep, Trainee, Tuned, train


def fresh_embedding(vocabulary: int, width: int) -> nn.Embedding:
    """Vectors drawn as Glorot and Bengio 2010 have it, which is what CuBERT's paper names."""
    embedding = nn.Embedding(vocabulary, width)
    nn.init.xavier_uniform_(embedding.weight)
    return embedding


def learned_embedding(vocabulary: int, vectors: Vectors) -> nn.Embedding:
    """Learned vectors; a subword that never occurred has one of the size that Word2Vec draws at first."""
    width = vectors.values.shape[1]
    embedding = nn.Embedding(vocabulary, width)
    nn.init.uniform_(embedding.weight, -1 / width, 1 / width)
    with torch.no_grad():
        embedding.weight[torch.from_numpy(vectors.ids)] = torch.from_numpy(vectors.values)
    return embedding


class Recurrent(nn.Module):
    """Token vectors and LSTM layers on them.

    Args:
        embedding: The table of token vectors.
        sizes: Layers, hidden units and dropout.
        both: Whether each layer reads in both directions.

    Attributes:
        width: Of the states.
    """

    def __init__(self, embedding: nn.Embedding, sizes: Sizes, *, both: bool) -> None:
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


def _heads(width: int) -> int:
    """As many heads as have `_HEAD` units each, or fewer that share all units evenly."""
    return next(heads for heads in range(max(1, width // _HEAD), 0, -1) if width % heads == 0)


class ScratchTransformer(nn.Module):
    """BERT with weights drawn anew.

    Args:
        vocabulary: Number of subwords.
        length: Most subwords of an input.
        sizes: Layers and hidden units.

    Attributes:
        width: Of the states.
    """

    def __init__(self, vocabulary: int, length: int, sizes: Sizes) -> None:
        super().__init__()
        self.width = sizes.transformer_width
        config = BertConfig(
            vocab_size=vocabulary,
            hidden_size=self.width,
            num_hidden_layers=sizes.transformer_layers,
            num_attention_heads=_heads(self.width),
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
            token_type_ids=segments(batch),
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
