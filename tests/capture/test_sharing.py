"""Texts that begin alike: their beginning is read once, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.capture.caches import can_share_prefixes, shared_batches
from sonde.capture.forward import observe
from sonde.capture.requests import HiddenStates, Pass, Plain, Prepared, TokenScores
from sonde.capture.settings import CaptureSettings
from sonde.capture.windows import Row
from sonde.models import LoadedModel

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

BOS = 256
SCORES = [Pass(Plain(), (TokenScores(3),))]
TEXTS = [
    *(f"import numpy as np\nnp.{name}(" for name in ("zeros", "ones", "zeros_like", "z", "")),
    *(f"from os.path import {name}" for name in ("join", "joint", "exists", "x")),
    "import numpy as np",
    "yield",
]


def row(tokens: list[int]) -> Row:
    nothing = np.zeros(0, np.int64)
    return Row(0, np.array(tokens), 0, 0, 0, nothing, nothing, nothing)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bigcode", "neox", "codegen"])
@pytest.mark.parametrize("budget", [0, 40])
def test_scores_equal_a_plain_forward(name: str, budget: int, tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny(name)
    assert can_share_prefixes(loaded, loaded.model.base_model)
    items = [prepare(text) for text in TEXTS]
    found = observe(loaded, items, SCORES, settings=CaptureSettings(token_budget=budget, chunk=7))
    for item, capture in zip(items, found, strict=True):
        ids = torch.tensor([BOS, *item.alignment.subwords.ids])
        with torch.no_grad():
            logs = loaded.model(ids[None]).logits[0, :-1].double().log_softmax(-1)
        gold = logs.gather(1, ids[1:, None])
        scores = capture.scores
        assert scores is not None and scores.scored.all()
        np.testing.assert_allclose(scores.nats, -gold[:, 0], atol=1e-4)
        np.testing.assert_allclose(scores.entropy, -(logs.exp() * logs).sum(1), atol=1e-4)
        np.testing.assert_array_equal(scores.rank, (logs >= gold - 1e-4).sum(1))
        np.testing.assert_array_equal(scores.top_ids, logs.topk(3).indices)
        np.testing.assert_allclose(scores.top_nats, -logs.topk(3).values, atol=1e-4)


def test_beginnings_are_read_once(tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = tiny("llama")
    read: list[int] = []
    forward = loaded.model.base_model.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        read.append(kwargs["input_ids"].numel())
        return forward(*args, **kwargs)

    items = [prepare(f"import numpy as np\nnp.{name}(") for name in ("zeros", "ones", "eye", "dot")]
    assert can_share_prefixes(loaded, loaded.model.base_model)
    monkeypatch.setattr(loaded.model.base_model, "forward", counted)
    list(observe(loaded, items, SCORES))
    prefix = 1 + len("import numpy as np\nnp.")
    assert read == [prefix, 4 * len("zeros")]
    read.clear()
    # States are those of the whole text, so it is read whole.
    list(observe(loaded, items, [Pass(Plain(), (TokenScores(1), HiddenStates((0,))))]))
    assert read == [4 * (prefix + len("zeros("))]


@pytest.mark.parametrize("name", ["mistral", "bert", "t5"])
def test_other_models_read_whole_texts(name: str, tiny: Tiny) -> None:
    loaded = tiny(name)
    assert not can_share_prefixes(loaded, loaded.model.base_model)


def test_recurrent_models_read_whole_texts(tiny: Tiny, prepare: Prepare) -> None:
    from dataclasses import replace

    torch.manual_seed(0)
    config = transformers.MambaConfig(
        vocab_size=260, hidden_size=16, state_size=4, num_hidden_layers=2, use_mambapy=False
    )
    model = transformers.MambaForCausalLM(config).eval()
    loaded = replace(tiny("llama"), model=model, family="decoder")
    assert not can_share_prefixes(loaded, model.base_model)
    items = [prepare(text) for text in TEXTS[:4]]
    for item, capture in zip(items, observe(loaded, items, SCORES), strict=True):
        ids = torch.tensor([BOS, *item.alignment.subwords.ids])
        with torch.no_grad():
            logs = model(ids[None]).logits[0, :-1].log_softmax(-1)
        assert capture.scores is not None
        np.testing.assert_allclose(capture.scores.nats, -logs.gather(1, ids[1:, None])[:, 0], atol=1e-4)


def test_a_first_token_alone_is_not_worth_a_cache() -> None:
    rows = [row([0, *range(at + 1, at + 60)]) for at in range(40)]
    assert shared_batches(rows, [f"{at:02}" for at in range(40)], 4096) == ([], list(range(40)))
    rows = [row([0, 1, at]) for at in range(40)]
    batches, alone = shared_batches(rows, [f"{at:02}" for at in range(40)], 4096)
    assert [len(batch) for batch in batches] == [40]
    assert (batches[0][0].shared, alone) == (2, [])


_TOKENS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=12)


@settings(deadline=None, max_examples=60)
@given(_TOKENS, st.integers(1, 60), st.randoms())
def test_batches_hold_each_row_once_and_what_it_shares(
    tokens: list[list[int]], budget: int, random: Any
) -> None:
    rows, keys = [row(one) for one in tokens], [f"{at:02}" for at in range(len(tokens))]
    batches, alone = shared_batches(rows, keys, budget)
    held = [one for batch in batches for one in batch]
    assert sorted([one.tokens.tolist() for one in held] + [tokens[at] for at in alone]) == sorted(tokens)
    for batch in batches:
        (length,) = {one.shared for one in batch}
        assert 0 < length <= min(len(one.tokens) for one in batch)
        prefixes = {tuple(one.tokens[:length].tolist()) for one in batch}
        longest = max(len(one.tokens) for one in batch) - length
        assert len(batch) == 1 or len(prefixes) * length + len(batch) * longest <= budget
    order = list(range(len(rows)))
    random.shuffle(order)
    other, rest = shared_batches([rows[at] for at in order], [keys[at] for at in order], budget)
    assert [[one.tokens.tolist() for one in batch] for batch in other] == [
        [one.tokens.tolist() for one in batch] for batch in batches
    ]
    assert sorted(order[at] for at in rest) == alone
