import copy

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from sonde.training.pretrain.optimiser import MuonAdamW, OptimiserConfig, orthogonalise, split_parameters


@pytest.fixture
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=50,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            tie_word_embeddings=True,
        )
    )


def test_every_parameter_is_in_one_group(model):
    hidden, rest = split_parameters(model)
    assert {id(p) for p in hidden}.isdisjoint({id(p) for p in rest})
    assert {id(p) for p in hidden} | {id(p) for p in rest} == {id(p) for p in model.parameters()}
    assert all(p.ndim == 2 for p in hidden)
    assert len(hidden) == 2 * 7
    assert any(p is model.model.embed_tokens.weight for p in rest)
    assert len(rest) == 1 + 2 * 2 + 1


def test_an_untied_projection_is_no_hidden_matrix():
    config = LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2
    )
    model = LlamaForCausalLM(config)
    hidden, _ = split_parameters(model)
    assert all(p is not model.lm_head.weight for p in hidden)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 8, 20), (2, 20, 8)])
def test_orthogonalised_matrices_have_singular_values_near_one(shape):
    matrices = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert values.min() > 0.3
    assert values.max() < 1.4


@pytest.mark.parametrize(("precision", "most"), [("float32", 1e-4), ("bfloat16", 0.03)])
@pytest.mark.parametrize("shape", [(2, 16, 16), (1, 48, 20), (1, 20, 48)])
def test_the_iteration_is_that_of_double_precision(shape, precision, most):
    matrices = torch.randn(*shape, generator=torch.Generator().manual_seed(4))
    for one, own in zip(matrices.double(), orthogonalise(matrices, precision=precision), strict=True):
        x = one / one.norm()
        for _ in range(5):
            x = 3.4445 * x - 4.7750 * x @ x.mT @ x + 2.0315 * x @ x.mT @ x @ x.mT @ x
        assert (own - x).norm() < most * x.norm()


def test_muon_is_the_reference(model):
    # torch's own iterates in bfloat16, whose step is 2^-8, and this one too where the device does.
    mine, theirs = model, copy.deepcopy(model)
    config = OptimiserConfig(hidden_lr=0.02, weight_decay=0.1)
    own = MuonAdamW(mine, config)
    reference = torch.optim.Muon(
        split_parameters(theirs)[0], lr=0.02, weight_decay=0.1, momentum=0.95, adjust_lr_fn="original"
    )
    tokens = torch.randint(50, (4, 12), generator=torch.Generator().manual_seed(2))
    mine(input_ids=tokens, labels=tokens).loss.backward()
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        other.grad = one.grad.clone()
    before = [p.detach().clone() for p in split_parameters(mine)[0]]
    for _ in range(3):
        own.step()
        reference.step()
    for one, other, start in zip(split_parameters(mine)[0], split_parameters(theirs)[0], before, strict=True):
        moved = (other - start).norm()
        assert (one - other).norm() < 0.03 * moved


def test_adamw_is_the_reference(model):
    mine, theirs = model, copy.deepcopy(model)
    own = MuonAdamW(mine, OptimiserConfig(hidden="adamw", hidden_lr=0.01, lr=0.01, weight_decay=0.0))
    reference = torch.optim.AdamW(theirs.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.0)
    generator = torch.Generator().manual_seed(3)
    for _ in range(4):
        for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        own.step()
        reference.step()
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_state_survives_saving(model):
    own = MuonAdamW(model, OptimiserConfig())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    own.step()
    state = copy.deepcopy(own.state_dict())
    control = copy.deepcopy(model)
    other = MuonAdamW(control, OptimiserConfig())
    other.load_state_dict(state)
    for parameter in control.parameters():
        parameter.grad = torch.ones_like(parameter)
    own.step()
    other.step()
    for one, two in zip(model.parameters(), control.parameters(), strict=True):
        assert torch.equal(one, two)
