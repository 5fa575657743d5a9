"""The head on the body's states is the model, for every architecture that is tried."""

import pytest
import torch
from transformers import AutoConfig

from sonde.models import Family, ModelSpec
from sonde.models.engine.family import FAMILIES
from sonde.models.engine.lm_head import is_separable
from sonde.models.engine.load import _find_family

from .conftest import ALL, SEQ2SEQ, VOCAB, build


@pytest.mark.parametrize("name", ALL)
@torch.inference_mode()
def test_head_on_states_is_the_model(name):
    model = build(name)
    found, family = _find_family(ModelSpec(name=name), model.config)
    assert found == ALL[name][2]
    body, head = family.body_and_head(model)
    ids = torch.randint(4, VOCAB, (2, 9), generator=torch.Generator().manual_seed(1))
    arguments = {"input_ids": ids}
    if name in SEQ2SEQ:
        arguments["decoder_input_ids"] = ids.flip(1)
    whole = model(**arguments).logits
    states = body(**arguments).last_hidden_state
    torch.testing.assert_close(head(states), whole, rtol=0, atol=1e-6)
    torch.testing.assert_close(head(states[1, 3:5]), whole[1, 3:5], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model(**arguments).logits, whole, rtol=0, atol=0)


@torch.inference_mode()
def test_a_model_that_cannot_be_separated_is_seen():
    model = build("llama")
    body, head = FAMILIES.load("llama").body_and_head(model)
    ids = torch.arange(4)[None]
    assert is_separable(body, head, model, input_ids=ids)
    assert not is_separable(body, lambda states: head(states) * 2, model, input_ids=ids)


def test_every_family_file_answers_the_protocol():
    for header in FAMILIES.headers():
        assert header.summary
        assert isinstance(FAMILIES.load(header.name), Family)


@pytest.mark.parametrize("name", ALL)
def test_capabilities_need_the_configuration_alone(name):
    model_type, fields, family = ALL[name]
    capabilities = FAMILIES.load(family).capabilities(AutoConfig.for_model(model_type, **fields))
    assert (capabilities.layers, capabilities.heads, capabilities.d_model) == (
        4 if name in SEQ2SEQ else 2,
        4,
        32,
    )
    assert capabilities.vocab == VOCAB
    # Neither relative positions nor ALiBi run out; 2,048 is what is documented for them.
    assert capabilities.context == (2048 if model_type in ("bloom", "t5") else 64)
