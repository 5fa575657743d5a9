"""Subwords that a baseline reads, and their Word2Vec vectors, learned once per training.

The vectors are kept with what they were learned on. They are Word2Vec (Mikolov et al. 2013) of subwords, by
gensim; the same vectors in every process.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from safetensors import safe_open
from safetensors.numpy import save_file as save_arrays

from sonde.alignment.subwords import encode
from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed
from sonde.models import ModelSpec, describe_model, describe_special, load_tokenizer
from sonde.training.baselines.recipe import PROGRAM, WORD2VEC, BaselineSizes
from sonde.training.finetune.checkpoint import replace_file
from sonde.training.finetune.data import TaskData, TextEncoder, build_text_encoder
from sonde.training.finetune.recipe import FinetuneRecipe
from sonde.training.pretrain.vocabulary import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    learn_program_vocabulary,
    with_template,
)

if TYPE_CHECKING:
    from gensim.models import Word2Vec

_PAD, _BOS, _EOS = map(SPECIALS.index, (PAD, BOS, EOS))


def build_baseline_encoder(
    spec: ModelSpec, data: TaskData, recipe: FinetuneRecipe, sizes: BaselineSizes
) -> TextEncoder:
    """How a baseline's inputs are made: as those of the model, or by a vocabulary of the training texts.

    No weight of the model is read.

    Args:
        spec: The model under study.
        data: The examples; a vocabulary is learned on those of train alone.
        recipe: Its length.
        sizes: Whose subwords are read, and how many there are.

    Raises:
        UsageError: The limit is too short for any text.
        InputError: The training texts have fewer subwords than are asked for.
    """
    if sizes.subwords != PROGRAM:
        reader = build_text_encoder(load_tokenizer(spec), describe_special(spec), describe_model(spec).kind)
    else:
        learned = learn_program_vocabulary(list_training_texts(data), sizes.vocabulary)
        tokenizer = with_template(learned, "encoder", recipe.length)
        reader = TextEncoder(tokenizer, np.array([_BOS]), np.array([_EOS]), _PAD)
    reader.check(recipe.length, recipe.length, "baseline")
    return reader


def list_training_texts(data: TaskData) -> list[str]:
    """The distinct texts of train, in their order."""
    return list(dict.fromkeys(sample.text for sample in data.train))


def split_sentences(texts: Sequence[str], reader: TextEncoder, length: int) -> list[list[int]]:
    """Texts as subwords, in stretches of at most ``length``: what is around a text takes no part."""
    found: list[list[int]] = []
    for text in texts:
        ids: list[int] = encode(reader.tokenizer, text).ids.tolist()
        found += [ids[start : start + length] for start in range(0, len(ids), length)]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class TokenVectors:
    """What was learned.

    Attributes:
        ids: The subwords that occur, each once.
        values: Their vectors.
    """

    ids: Int[np.ndarray, " subword"]
    values: Float[np.ndarray, "subword width"]


def learn_vectors(
    sentences: Sequence[Sequence[int]], name: str, sizes: BaselineSizes, seed: int
) -> TokenVectors:
    """Learn a vector for every subword that occurs.

    Args:
        sentences: Subwords in the order of their texts.
        name: One of `WORD2VEC`.
        sizes: Width, epochs, window and negative samples; the rest is as gensim has it.
        seed: Of first vectors and of everything drawn.

    Raises:
        InputError: gensim is not installed, or there is nothing to learn from.
    """
    if not any(map(len, sentences)):
        raise InputError(f"baseline {name!r}: there is no subword to learn vectors of; draw from more code")
    vectors: Any = train_gensim(sentences, name, sizes, seed).wv
    ids = np.array([int(key) for key in vectors.index_to_key], np.int64)
    return TokenVectors(ids, np.array(vectors.vectors, np.float32))


def train_gensim(sentences: Sequence[Sequence[int]], name: str, sizes: BaselineSizes, seed: int) -> Word2Vec:
    """Gensim's own model of the sentences; its words are the subwords' numbers, written out.

    Raises:
        InputError: gensim is not installed.
    """
    skipgram, softmax = WORD2VEC[name]
    return import_word2vec()(
        # Whole numbers would be taken for places of its vocabulary.
        sentences=[list(map(str, sentence)) for sentence in sentences],
        vector_size=sizes.embedding,
        window=sizes.word2vec_window,
        sg=int(skipgram),
        hs=int(softmax),
        negative=0 if softmax else sizes.word2vec_negative,
        epochs=sizes.word2vec_epochs,
        min_count=1,
        seed=derive_seed("word2vec", seed) % 2**31,
        # Two workers would take turns as the machine has it; Python's hash differs between processes.
        workers=1,
        hashfxn=stable_hash,
    )


def stable_hash(word: str) -> int:
    """A hash that is the same in every process."""
    return zlib.crc32(word.encode())


def import_word2vec() -> Any:
    """Gensim's class.

    Raises:
        InputError: gensim is not installed.
    """
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise InputError(
            "Word2Vec needs gensim, which is not installed; install sonde[baselines], or leave out "
            f"{', '.join(WORD2VEC)}"
        ) from error
    return Word2Vec


FILE = "vectors.safetensors"


@dataclass(frozen=True, slots=True)
class UnlabelledTexts:
    """Further texts to learn vectors on; none of them is evaluated.

    Attributes:
        texts: The texts.
        about: Where they are from and what was left out, for the record.
    """

    texts: Sequence[str]
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])


Learned = tuple[TokenVectors, Mapping[str, Any]]
"""Vectors, and what they were learned on."""


def get_vectors(
    name: str,
    data: TaskData,
    reader: TextEncoder,
    recipe: FinetuneRecipe,
    sizes: BaselineSizes,
    folder: Path,
    unlabelled: Callable[[], UnlabelledTexts] | None,
) -> Learned:
    """Vectors learned on the texts of train, and on further texts where there are any; once for a folder.

    Raises:
        InputError: gensim is not installed, or there is nothing to learn from.
        StoreError: They could not be written.
    """
    path = folder / FILE
    if not path.is_file():
        texts = list_training_texts(data)
        more = UnlabelledTexts(()) if unlabelled is None else unlabelled()
        found = split_sentences([*texts, *more.texts], reader, recipe.length)
        vectors = learn_vectors(found, name, sizes, recipe.seed)
        about = {
            "training texts": len(texts),
            "further texts": len(more.texts),
            "further texts from": dict(more.about),
            "subwords": sum(map(len, found)),
            "distinct subwords": len(vectors.ids),
        }
        tensors = {"ids": vectors.ids, "values": vectors.values}
        replace_file(path, lambda to: save_arrays(tensors, to, metadata={"about": json.dumps(about)}))
    with safe_open(path, framework="numpy") as held:
        read = TokenVectors(held.get_tensor("ids"), held.get_tensor("values"))
        return read, json.loads(held.metadata()["about"])
