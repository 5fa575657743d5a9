import pytest
import torch
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from sonde.training.pretrain import objectives
from sonde.training.pretrain.objectives import causal_loss, mask_tokens, projected_cross_entropy


@pytest.mark.parametrize("chunk", [1, 7, 512])
def test_chunks_change_neither_loss_nor_gradients(monkeypatch, chunk):
    monkeypatch.setitem(objectives._CHUNK, "cpu", chunk)
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(33, 8, generator=generator, dtype=torch.float32).requires_grad_()
    weight = torch.randn(50, 8, generator=generator).requires_grad_()
    targets = torch.randint(50, (33,), generator=generator)
    (3 * projected_cross_entropy(states, weight, targets)).backward()
    plain_states, plain_weight = (t.detach().clone().requires_grad_() for t in (states, weight))
    loss = functional.cross_entropy(plain_states @ plain_weight.T, targets)
    (3 * loss).backward()
    own = projected_cross_entropy(states, weight, targets)
    torch.testing.assert_close(own, loss)
    torch.testing.assert_close(states.grad, plain_states.grad)
    torch.testing.assert_close(weight.grad, plain_weight.grad)


def test_autocast_stays_near():
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(40, 16, generator=generator).requires_grad_()
    weight = (torch.randn(30, 16, generator=generator) / 4).requires_grad_()
    targets = torch.randint(30, (40,), generator=generator)
    exact = projected_cross_entropy(states, weight, targets)
    with torch.autocast("cpu", torch.bfloat16):
        rough = projected_cross_entropy(states, weight, targets)
    rough.backward()
    assert rough.dtype == torch.float32
    assert states.grad.dtype == weight.grad.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=0.02, atol=0.02)


def test_causal_loss_is_that_of_transformers():
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=60, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2
        )
    )
    blocks = torch.randint(60, (3, 10))
    torch.testing.assert_close(causal_loss(model, blocks), model(input_ids=blocks, labels=blocks).loss)


def test_hiding():
    block = torch.cat([torch.tensor([1]), torch.arange(5, 100).repeat(200), torch.tensor([2])])
    shown, labels = mask_tokens(block, share=0.3, vocabulary=100, generator=torch.Generator().manual_seed(0))
    chosen = labels >= 0
    assert torch.equal(labels[chosen], block[chosen])
    assert torch.equal(shown[~chosen], block[~chosen])
    assert not chosen[0]
    assert not chosen[-1]
    assert abs(chosen.float().mean() - 0.3) < 0.01
    masked, kept = (shown[chosen] == 3).float().mean(), (shown[chosen] == block[chosen]).float().mean()
    assert abs(masked - 0.8) < 0.02
    assert abs(kept - 0.101) < 0.02
    assert int(shown.max()) < 100
