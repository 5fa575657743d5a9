"""Token vectors of one training: learned once, kept with what they were learned on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.numpy import save_file

from sonde.training.baselines.recipe import Sizes
from sonde.training.baselines.vocabulary import sentences, training_texts
from sonde.training.baselines.word2vec import Vectors, learn_vectors
from sonde.training.finetuning.checkpoint import replacing
from sonde.training.finetuning.data import Data, TextEncoder
from sonde.training.finetuning.recipe import FineTuning

FILE = "vectors.safetensors"


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Further texts to learn vectors on; none of them is evaluated.

    Attributes:
        texts: The texts.
        about: Where they are from and what was left out, for the record.
    """

    texts: Sequence[str]
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])


Learned = tuple[Vectors, Mapping[str, Any]]
"""Vectors, and what they were learned on."""


def vectors_of(
    name: str,
    data: Data,
    reader: TextEncoder,
    recipe: FineTuning,
    sizes: Sizes,
    folder: Path,
    unlabelled: Callable[[], Unlabelled] | None,
) -> Learned:
    """Vectors learned on the texts of train, and on further texts where there are any; once for a folder.

    Raises:
        InputError: gensim is not installed, or there is nothing to learn from.
        StoreError: They could not be written.
    """
    path = folder / FILE
    if not path.is_file():
        texts = training_texts(data)
        more = Unlabelled(()) if unlabelled is None else unlabelled()
        found = sentences([*texts, *more.texts], reader, recipe.length)
        vectors = learn_vectors(found, name, sizes, recipe.seed)
        about = {
            "training texts": len(texts),
            "further texts": len(more.texts),
            "further texts from": dict(more.about),
            "subwords": sum(map(len, found)),
            "distinct subwords": len(vectors.ids),
        }
        tensors = {"ids": vectors.ids, "values": vectors.values}
        replacing(path, lambda to: save_file(tensors, to, metadata={"about": json.dumps(about)}))
    with safe_open(path, framework="numpy") as held:
        read = Vectors(held.get_tensor("ids"), held.get_tensor("values"))
        return read, json.loads(held.metadata()["about"])
