"""The subwords that a baseline reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sonde.alignment.subwords import encode
from sonde.models import ModelSpec, describe, describe_special, load_tokenizer
from sonde.training.baselines.recipe import PROGRAM, Sizes
from sonde.training.finetuning.data import Data, TextEncoder, reader_of
from sonde.training.finetuning.recipe import FineTuning
from sonde.training.program_vocabulary import learn_program_vocabulary
from sonde.training.vocabulary import BOS, EOS, PAD, SPECIALS, with_template

_PAD, _BOS, _EOS = map(SPECIALS.index, (PAD, BOS, EOS))


def baseline_reader(spec: ModelSpec, data: Data, recipe: FineTuning, sizes: Sizes) -> TextEncoder:
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
        reader = reader_of(load_tokenizer(spec), describe_special(spec), describe(spec).kind)
    else:
        learned = learn_program_vocabulary(training_texts(data), sizes.vocabulary)
        tokenizer = with_template(learned, "encoder", recipe.length)
        reader = TextEncoder(tokenizer, np.array([_BOS]), np.array([_EOS]), _PAD)
    reader.check(recipe.length, recipe.length, "baseline")
    return reader


def training_texts(data: Data) -> list[str]:
    """The distinct texts of train, in their order."""
    return list(dict.fromkeys(sample.text for sample in data.train))


def sentences(texts: Sequence[str], reader: TextEncoder, length: int) -> list[list[int]]:
    """Texts as subwords, in stretches of at most ``length``: what is around a text takes no part."""
    found: list[list[int]] = []
    for text in texts:
        ids: list[int] = encode(reader.tokenizer, text).ids.tolist()
        found += [ids[start : start + length] for start in range(0, len(ids), length)]
    return found
