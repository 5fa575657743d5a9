"""Tiny random models of many architectures, and a tokenizer to save beside them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoConfig, PreTrainedTokenizerFast

VOCAB = 300
_SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "sliding_window": 64,
}
_GPT = {
    "vocab_size": VOCAB,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "rotary_dim": 4,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
_NEO = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 4,
    "max_position_embeddings": 64,
    "attention_types": [[["global", "local"], 1]],
    "bos_token_id": 0,
    "eos_token_id": 1,
}
_BART = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
}
_MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_ssm": 64, "mamba_d_state": 8}
_T5 = {"vocab_size": VOCAB, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}

DECODERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "gpt2": ("gpt2", _GPT, "gpt"),
    "gpt_bigcode": ("gpt_bigcode", _GPT, "gpt"),
    "gptj": ("gptj", _GPT, "gpt"),
    "codegen": ("codegen", _GPT, "gpt"),
    "gpt_neo": ("gpt_neo", _NEO, "gpt"),
    "gpt_neox": ("gpt_neox", _SMALL, "gpt"),
    "llama": ("llama", _SMALL, "llama"),
    "mistral": ("mistral", _SMALL, "llama"),
    "qwen2": ("qwen2", _SMALL, "llama"),
    "qwen3": ("qwen3", _SMALL, "llama"),
    "starcoder2": ("starcoder2", _SMALL, "llama"),
    "phi": ("phi", {**_SMALL, "num_key_value_heads": 4}, "llama"),
    "gemma2, soft-capped": ("gemma2", {**_SMALL, "final_logit_softcapping": 0.01}, "llama"),
    "granite, scaled": ("granite", {**_SMALL, "logits_scaling": 7.0}, "llama"),
    "cohere, scaled": ("cohere", {**_SMALL, "logit_scale": 0.3}, "llama"),
    "mixtral": ("mixtral", {**_SMALL, "num_local_experts": 2}, "llama"),
    "opt": ("opt", {**_SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32}, "decoder"),
    "falcon_h1, scaled": ("falcon_h1", {**_SMALL, **_MAMBA, "lm_head_multiplier": 0.5}, "decoder"),
    "bloom": ("bloom", {"vocab_size": VOCAB, "hidden_size": 32, "n_layer": 2, "n_head": 4}, "decoder"),
}
ENCODERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "bert": ("bert", _SMALL, "bert"),
    "roberta": ("roberta", {**_SMALL, "max_position_embeddings": 67}, "roberta"),
    "modernbert": ("modernbert", {**_SMALL, "cls_token_id": 0, "sep_token_id": 1}, "modernbert"),
    "electra": ("electra", {**_SMALL, "embedding_size": 16}, "bert"),
    "albert": ("albert", {**_SMALL, "embedding_size": 16}, "encoder"),
    "deberta": ("deberta-v2", _SMALL, "encoder"),
    "deberta, its newer head": ("deberta-v2", {**_SMALL, "legacy": False}, "encoder"),
}
SEQ2SEQ: dict[str, tuple[str, dict[str, Any], str]] = {
    "t5, tied": ("t5", _T5, "t5"),
    "t5, untied": ("t5", {**_T5, "tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"}, "t5"),
    "bart": ("bart", _BART, "bart"),
    "plbart": ("plbart", _BART, "bart"),
    "pegasus": ("pegasus", _BART, "pegasus"),
    "marian": ("marian", {**_BART, "pad_token_id": 2, "decoder_start_token_id": 2}, "pegasus"),
    "blenderbot": ("blenderbot", _BART, "pegasus"),
}
HEADS = {
    **dict.fromkeys(DECODERS, "AutoModelForCausalLM"),
    **dict.fromkeys(ENCODERS, "AutoModelForMaskedLM"),
    **dict.fromkeys(SEQ2SEQ, "AutoModelForSeq2SeqLM"),
}
ALL = {**DECODERS, **ENCODERS, **SEQ2SEQ}


def build(name: str) -> Any:
    """A random model whose every parameter, biases included, makes a difference."""
    model_type, fields, _ = ALL[name]
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **fields)
    model = getattr(transformers, HEADS[name]).from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model.eval()


def tiny_tokenizer(*, template: bool = False, **special: str) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<s>", "</s>", "<pad>", "<mask>", *alphabet]
    tokenizer = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>", "<pad>", "<mask>"])
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


@pytest.fixture(scope="session")
def every_type() -> Any:
    """Tiny models of every type of the installed transformers, as `bench.architectures` has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2]))
        return importlib.import_module("bench._tiny")


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Save a tiny model with a tokenizer, once a name."""
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp("model") / HEADS[name]
            build(name).save_pretrained(folder)
            around = name not in DECODERS
            special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
            tiny_tokenizer(template=around, **special).save_pretrained(folder)
            made[name] = folder
        return made[name]

    return get
