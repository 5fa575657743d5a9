"""Word2Vec (Mikolov et al. 2013) of subwords, by gensim; the same vectors in every process."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed
from sonde.training.baselines.recipe import WORD2VEC, Sizes

if TYPE_CHECKING:
    from gensim.models import Word2Vec


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """What was learned.

    Attributes:
        ids: The subwords that occur, each once.
        values: Their vectors.
    """

    ids: Int[np.ndarray, " subword"]
    values: Float[np.ndarray, "subword width"]


def learn_vectors(sentences: Sequence[Sequence[int]], name: str, sizes: Sizes, seed: int) -> Vectors:
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
    return Vectors(ids, np.array(vectors.vectors, np.float32))


def train_gensim(sentences: Sequence[Sequence[int]], name: str, sizes: Sizes, seed: int) -> Word2Vec:
    """Gensim's own model of the sentences; its words are the subwords' numbers, written out.

    Raises:
        InputError: gensim is not installed.
    """
    skipgram, softmax = WORD2VEC[name]
    return gensim_word2vec()(
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


def gensim_word2vec() -> Any:
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
