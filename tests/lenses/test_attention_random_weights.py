"""Why the control with random weights is near chance: its attention is even, and long words win."""

import re
import textwrap
from inspect import getsource

import numpy as np
import pytest
import torch

from sonde.models import ModelSpec, load_model

CODE = [getsource(one) for one in (textwrap.dedent, textwrap.indent, textwrap.shorten, textwrap.fill)]


def words_of(text, offsets):
    """Of each word the subwords that begin in it."""
    words = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
    starts = [first + len(text[first:last]) - len(text[first:last].lstrip()) for first, last in offsets]
    return [
        [
            place
            for place, ((first, last), start) in enumerate(zip(offsets, starts, strict=True))
            if last > first and begin <= start < end
        ]
        for begin, end in words
    ]


@pytest.mark.parametrize("trained", [False, True])
@torch.inference_mode()
def test_without_training_a_word_gets_what_its_pieces_add_up_to(trained):
    loaded = load_model(
        ModelSpec(name="sonde/mini-encoder", device="cpu", reinitialise=None if trained else 1)
    )
    loaded.model.set_attn_implementation("eager")
    evenness, longest = [], []
    for text in CODE:
        encoding = loaded.tokenizer(text, return_offsets_mapping=True, truncation=True, max_length=500)
        ids = torch.tensor([encoding["input_ids"]])
        rows = torch.cat(loaded.model(input_ids=ids, output_attentions=True).attentions, dim=1)[0]
        entropy = -(rows * rows.clamp_min(1e-20).log()).sum(-1)
        evenness.append(entropy.mean() / np.log(ids.shape[1]))
        words = [held for held in words_of(text, encoding["offset_mapping"]) if held]
        sizes = np.array([len(held) for held in words])
        summed = torch.stack([rows[:, :, held].sum(-1) for held in words], -1)
        for number, held in enumerate(words):
            weights = summed[:, held].mean(1).numpy()
            weights[:, number] = -1
            longest += (sizes[weights.argmax(-1)] == np.delete(sizes, number).max()).tolist()
    assert (np.mean(evenness) > 0.99) != trained
    assert (np.mean(longest) > 0.9) != trained
