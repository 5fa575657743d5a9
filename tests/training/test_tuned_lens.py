"""Maps of the tuned lens on a model whose layers are rotated: what the head cannot read becomes legible."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

from sonde.models import Capabilities, LoadedModel, ModelSpec, SpecialTokens
from sonde.training.tuned_lens import LayerHead, score_with_translators, train_translators

WIDTH, VOCAB = 16, 40


@pytest.fixture(scope="module")
def head() -> LayerHead:
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=16, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32, bos_token_id=1,
            eos_token_id=2, pad_token_id=0,
        )
    )  # fmt: skip
    with torch.no_grad():
        model.lm_head.weight.normal_()
    return LayerHead(
        LoadedModel(
            spec=ModelSpec(name="tiny"), revision="random", model=model.eval(), tokenizer=None,
            capabilities=Capabilities(
                kind="decoder", layers=2, heads=2, d_model=WIDTH, vocab=VOCAB, context=32,
                attention="interface", masks=False,
            ),
            special=SpecialTokens(bos=1, bos_source="bos"),
            family="llama",
        )
    )  # fmt: skip


def states(count: int, seed: int) -> np.ndarray:
    """A layer that is the last one turned, a layer of noise, and the last one as the norm leaves it."""
    rng = np.random.default_rng(seed)
    last = rng.normal(size=(count, WIDTH))
    last /= np.sqrt((last**2).mean(1, keepdims=True))
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(WIDTH, WIDTH)))[0]
    return np.stack([last @ turn, rng.normal(size=last.shape), last]).astype(np.float32)


def test_a_turned_layer_is_read_and_noise_is_not(head: LayerHead) -> None:
    train, test = states(1500, 0), states(400, 1)
    with torch.no_grad():
        final = head.last(torch.from_numpy(test[-1]))
        plain = head(torch.from_numpy(test[0]))
    gold = final.argmax(1).numpy()
    translators = train_translators(head, train, steps=600, rate=1e-2)
    assert len(translators) == 2
    nats, rank = score_with_translators(head, translators, test, gold)
    right = (rank == 1).mean(1)
    # The last layer is the model's own prediction; the turned one was illegible, and is nearly as good now.
    assert right[2] == 1.0
    np.testing.assert_allclose(nats[2], -final.max(1).values.numpy(), atol=1e-4)
    assert (plain.argmax(1).numpy() == gold).mean() < 0.2
    assert right[0] > 0.85
    assert right[1] < 0.2
    # What is known of the noise is how often each id is right: no more surprisal than a guess among all.
    assert nats[1].mean() < np.log(VOCAB) + 1.0


def test_training_has_no_randomness(head: LayerHead) -> None:
    train = states(300, 0)
    one, two = (train_translators(head, train, steps=20) for _ in range(2))
    torch.testing.assert_close(one[0].weight, two[0].weight, rtol=0, atol=0)
    # Without a step the map leaves states as they are.
    (same, _) = train_translators(head, train, steps=0)
    some = torch.from_numpy(train[0])
    torch.testing.assert_close(same(some), some)
