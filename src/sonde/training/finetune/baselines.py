"""CuBERT's baselines: LSTMs and Transformers over token vectors, without a pre-trained model.

LSTMs read in both directions for CuBERT's BiLSTM, in one for the LSTM + pointer. The table of token vectors
that they begin with is trained like everything else. Vectors (Word2Vec) are learned once for a training and
kept with what they were learned on.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import BertConfig, BertForMaskedLM, BertModel

from sonde.alignment.subwords import encode
from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed
from sonde.models import ModelSpec, describe_model, describe_special, load_tokenizer, resolve_auto
from sonde.training.finetune.batches import Batch
from sonde.training.finetune.checkpoint import replace_file
from sonde.training.finetune.data import TaskData, TextEncoder, build_text_encoder
from sonde.training.finetune.model import HeadedModel, States, build_head, segment_ids, use_seed
from sonde.training.finetune.recipe import (
    LSTM_POINTER,
    PROGRAM,
    SIZE_OPTIONS,
    TRANSFORMER,
    WORD2VEC,
    FinetuneRecipe,
)
from sonde.training.finetune.tune import FinetuneResult, OnStep, TrainingSetup, train
from sonde.training.pretrain.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    learn_vocabulary,
    with_template,
)


def build_baseline_encoder(spec: ModelSpec, data: TaskData, recipe: FinetuneRecipe) -> TextEncoder:
    """Build a baseline's input encoder: that of the model, or a vocabulary of the training texts.

    No weight of the model is read.

    Args:
        spec: The model under study.
        data: The examples; a vocabulary is learned on those of train alone.
        recipe: Its length, whose subwords are read, and how many there are.

    Raises:
        UsageError: The limit is too short for any text.
        InputError: The training texts have fewer subwords than are asked for.
    """
    if recipe.subwords != PROGRAM:
        reader = build_text_encoder(load_tokenizer(spec), describe_special(spec), describe_model(spec).kind)
    else:
        vocabulary = learn_vocabulary(list_training_texts(data), recipe.vocabulary, "program")
        tokenizer = with_template(vocabulary, "encoder", recipe.length)
        reader = TextEncoder(tokenizer, np.array([BOS_ID]), np.array([EOS_ID]), PAD_ID)
    reader.check(recipe.length, recipe.length, "baseline")
    return reader


def list_training_texts(data: TaskData) -> list[str]:
    """List the distinct texts of train, in their order."""
    return list(dict.fromkeys(sample.text for sample in data.train))


def split_sentences(texts: Sequence[str], reader: TextEncoder, length: int) -> list[list[int]]:
    """Split texts into pieces of at most ``length`` subwords, without the ids around a text."""
    sentences: list[list[int]] = []
    for text in texts:
        ids: list[int] = encode(reader.tokenizer, text).ids.tolist()
        sentences += [ids[start : start + length] for start in range(0, len(ids), length)]
    return sentences


TokenVectors = tuple[Int[np.ndarray, " subword"], Float[np.ndarray, "subword width"]]
"""The subwords that occur, each once, and the vectors learned of them."""


def learn_vectors(sentences: Sequence[Sequence[int]], name: str, recipe: FinetuneRecipe) -> TokenVectors:
    """Learn a vector for every subword that occurs.

    Args:
        sentences: Subwords in the order of their texts.
        name: One of `WORD2VEC`.
        recipe: Width, epochs, window, negative samples, and the seed of vectors and of all that is drawn;
            the rest is as gensim has it.

    Raises:
        InputError: gensim is not installed, or there is nothing to learn from.
    """
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise InputError(
            "Word2Vec needs gensim, which is not installed; install sonde[baselines], or leave out "
            f"{', '.join(WORD2VEC)}"
        ) from error
    if not any(map(len, sentences)):
        raise InputError(f"baseline {name!r}: there is no subword to learn vectors of; use a larger corpus")
    skipgram, softmax = WORD2VEC[name]
    model = Word2Vec(
        # Whole numbers would be taken for places of its vocabulary.
        sentences=[list(map(str, sentence)) for sentence in sentences],
        vector_size=recipe.embedding,
        window=recipe.word2vec_window,
        sg=int(skipgram),
        hs=int(softmax),
        negative=0 if softmax else recipe.word2vec_negative,
        epochs=recipe.word2vec_epochs,
        min_count=1,
        seed=derive_seed("word2vec", recipe.seed) % 2**31,
        # Two workers would take turns as the machine has it; Python's hash differs between processes.
        workers=1,
        hashfxn=stable_hash,
    )
    vectors: Any = model.wv
    ids = np.array([int(key) for key in vectors.index_to_key], np.int64)
    return ids, np.array(vectors.vectors, np.float32)


def stable_hash(word: str) -> int:
    """Return a hash that is the same in every process."""
    return zlib.crc32(word.encode())


FILE = "vectors.safetensors"


FurtherTexts = tuple[Sequence[str], Mapping[str, Any]]
"""Texts to learn vectors on of which none is evaluated, and where they are from, for the record."""


LearnedVectors = tuple[TokenVectors, Mapping[str, Any]]
"""Vectors, and what they were learned on."""


def get_vectors(
    name: str,
    data: TaskData,
    reader: TextEncoder,
    recipe: FinetuneRecipe,
    folder: Path,
    load_texts: Callable[[], FurtherTexts] | None,
) -> LearnedVectors:
    """Learn vectors on the texts of train, and on further texts if there are any; once per folder.

    Raises:
        InputError: gensim is not installed, or there is nothing to learn from.
        StoreError: They could not be written.
    """
    path = folder / FILE
    if not path.is_file():
        texts = list_training_texts(data)
        further_texts, source = ((), {}) if load_texts is None else load_texts()
        sentences = split_sentences([*texts, *further_texts], reader, recipe.length)
        ids, values = learn_vectors(sentences, name, recipe)
        metadata = {
            "training texts": len(texts),
            "further texts": len(further_texts),
            "further texts from": dict(source),
            "subwords": sum(map(len, sentences)),
            "distinct subwords": len(ids),
        }
        tensors, about = {"ids": ids, "values": values}, {"about": json.dumps(metadata)}
        replace_file(path, lambda target: save_arrays(tensors, target, metadata=about))
    with safe_open(path, framework="numpy") as archive:
        vectors = archive.get_tensor("ids"), archive.get_tensor("values")
        return vectors, json.loads(archive.metadata()["about"])


def build_embedding(vocabulary: int, width: int, vectors: TokenVectors | None) -> nn.Embedding:
    """Build a table of vectors: learned, or drawn as Glorot and Bengio 2010, which CuBERT names.

    Beside learned ones, a subword that never occurred has a vector of the size that Word2Vec draws at first.
    """
    embedding = nn.Embedding(vocabulary, width)
    if vectors is None:
        nn.init.xavier_uniform_(embedding.weight)
        return embedding
    nn.init.uniform_(embedding.weight, -1 / width, 1 / width)
    with torch.no_grad():
        ids, values = map(torch.from_numpy, vectors)
        embedding.weight[ids] = values
    return embedding


class RecurrentBody(nn.Module):
    """Token vectors and LSTM layers on them.

    Args:
        embedding: The table of token vectors.
        recipe: Layers, hidden units and dropout.
        bidirectional: Whether each layer reads in both directions.

    Attributes:
        width: Of the states.
    """

    def __init__(self, embedding: nn.Embedding, recipe: FinetuneRecipe, *, bidirectional: bool) -> None:
        super().__init__()
        self.embedding = embedding
        self.lstm = nn.LSTM(
            embedding.embedding_dim,
            recipe.lstm_width,
            recipe.lstm_layers,
            batch_first=True,
            dropout=recipe.lstm_dropout if recipe.lstm_layers > 1 else 0.0,
            bidirectional=bidirectional,
        )
        self.width = recipe.lstm_width * (2 if bidirectional else 1)

    def forward(self, batch: Batch) -> States:
        """Compute the last layer's states; 0 on padding, which no direction reads."""
        lengths = (batch.part >= 0).sum(1).cpu()
        # Step after step in half precision, errors would add up; there is little to be won in such products.
        with torch.autocast(batch.ids.device.type, enabled=False):
            packed_sequence = pack_padded_sequence(
                self.embedding(batch.ids), lengths, batch_first=True, enforce_sorted=False
            )
            states, _ = pad_packed_sequence(
                self.lstm(packed_sequence)[0], batch_first=True, total_length=batch.ids.shape[1]
            )
        return states


_HEAD = 64


def _choose_head_count(width: int) -> int:
    """Return the number of heads with `_HEAD` units each, or fewer that share all units evenly."""
    return next(heads for heads in range(max(1, width // _HEAD), 0, -1) if width % heads == 0)


class TransformerBody(nn.Module):
    """BERT with weights drawn anew.

    Args:
        vocabulary: Number of subwords.
        recipe: Most subwords of an input, layers and hidden units.

    Attributes:
        width: Of the states.
    """

    def __init__(self, vocabulary: int, recipe: FinetuneRecipe) -> None:
        super().__init__()
        self.width = recipe.transformer_width
        config = BertConfig(
            vocab_size=vocabulary,
            hidden_size=self.width,
            num_hidden_layers=recipe.transformer_layers,
            num_attention_heads=_choose_head_count(self.width),
            intermediate_size=4 * self.width,
            max_position_embeddings=recipe.length,
            # Where the end of a text pads as well, its vector is to be learned.
            pad_token_id=None,
        )
        self.inner = BertModel(config, add_pooling_layer=False)

    def forward(self, batch: Batch) -> States:
        """Compute the last layer's states."""
        return self.inner(
            input_ids=batch.ids,
            attention_mask=(batch.part >= 0).long(),
            token_type_ids=segment_ids(batch),
        ).last_hidden_state

    def save_pretrained(self, folder: Path) -> None:
        """Write it as a masked model, so that every lens can read its states; its head is not trained."""
        with use_seed(0):
            masked_model = BertForMaskedLM(self.inner.config)
        masked_model.bert.load_state_dict(self.inner.state_dict())
        masked_model.save_pretrained(folder)


FACTS = "baseline.json"
"""What a baseline is and what its vectors were learned on, beside its weights."""


def tune_baseline(
    name: str,
    spec: ModelSpec,
    data: TaskData,
    recipe: FinetuneRecipe,
    folder: Path,
    *,
    load_texts: Callable[[], FurtherTexts] | None = None,
    on_step: OnStep | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> FinetuneResult:
    """Train a baseline as a model is fine-tuned: same inputs, order, checkpoints and answers.

    Args:
        name: One of `sonde.training.finetune.recipe.BASELINES`.
        spec: The model under study; only its tokenizer is read, and where it runs.
        data: The examples.
        recipe: How, how large, and in whose subwords; a frozen body is of no use here, so all is trained.
        folder: A folder of this training's own. A call after a kill resumes from what is there.
        load_texts: Gives further texts that Word2Vec learns on; asked once.
        on_step: Is told the number of every update done.
        metadata: Task, language and model, which are kept beside the head.

    Raises:
        UsageError: The limit is too short for any text.
        InputError: The data cannot be trained on, or gensim is not installed.
        StoreError: A checkpoint or the model could not be written.
    """
    recipe = dataclasses.replace(recipe, frozen=False)
    reader = build_baseline_encoder(spec, data, recipe)
    vectors = None
    if name in WORD2VEC:
        vectors = get_vectors(name, data, reader, recipe, folder, load_texts)
    with use_seed(derive_seed("body", recipe.seed)):
        body = _build_body(name, reader, recipe, vectors)
    head = build_head(data, recipe, body.width, "mean", _pointer_pooling(name, reader))
    model = HeadedModel(body, head, frozen=False).to(resolve_auto(spec).device)

    def save(target: Path) -> None:
        if isinstance(body, TransformerBody):
            body.save_pretrained(target)
        else:
            save_file(
                {key: weight.cpu() for key, weight in body.state_dict().items()}, target / "model.safetensors"
            )
        reader.tokenizer.save_pretrained(target)
        sizes = {option: getattr(recipe, option) for option in SIZE_OPTIONS}
        facts: dict[str, Any] = {"baseline": name, "sizes": sizes}
        if vectors is not None:
            _, facts["vectors"] = vectors
        (target / FACTS).write_text(json.dumps(facts, indent=2), encoding="utf-8")

    return train(TrainingSetup(model, reader, save), data, recipe, folder, on_step=on_step, metadata=metadata)


def _build_body(
    name: str, reader: TextEncoder, recipe: FinetuneRecipe, vectors: LearnedVectors | None
) -> RecurrentBody | TransformerBody:
    rows = 1 + max(*reader.tokenizer.get_vocab().values(), reader.pad, *reader.before, *reader.behind)
    if name == TRANSFORMER:
        return TransformerBody(rows, recipe)
    embedding = build_embedding(rows, recipe.embedding, vectors and vectors[0])
    return RecurrentBody(embedding, recipe, bidirectional=name != LSTM_POINTER)


def _pointer_pooling(name: str, reader: TextEncoder) -> str:
    """Return the pooling for a pointer: Vasic et al. 2019 take the LSTM's last state."""
    if name == LSTM_POINTER:
        return "last"
    return "first" if name == TRANSFORMER and len(reader.before) else "mean"
