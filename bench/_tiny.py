"""Tiny models of every architecture that transformers has, with random weights, from their configurations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers.models.auto import modeling_auto

VOCAB = 300
_MOST = 20_000_000
"""Parameters that a tiny model may have at most."""

_TOKENS = {"bos": 0, "cls": 0, "decoder_start": 0, "eos": 1, "sep": 1, "forced_eos": 1, "pad": 2, "mask": 3}

HEADS = {
    "causal": ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    "masked": ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),
    "seq2seq": ("AutoModelForSeq2SeqLM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),
}

# The first pattern that matches a field's name says how large it becomes.
_SIZES: tuple[tuple[str, int], ...] = (
    (r"vocab", VOCAB),
    (r"qk_rope_head_dim|qk_nope_head_dim|rotary_dim", 4),
    (r"compress_ratio|conv|period|interval|pattern|every|group_size|n_groups?$|ngroups|num_groups", 2),
    (r"offset|start_index|dense_replace|num_dense_layers|nextn|kv_shared", 0),
    (r"sliding_window|window_size|local_attention|local_radius|keep_window|attention_chunk", 8),
    (r"(experts?|topk|top_k|moe_k).*per_tok|moe_topk|topk|top_k|moe_k$", 2),
    (r"shared_experts?$|topk_group|n_group$", 1),
    (r"num_key_value|kv_heads|key_heads|n_kv|num_query_groups", 2),
    (r"experts?$|expert_num|num_local_experts|n_routed", 4),
    (r"heads?$|heads_per|n_head$", 4),
    (r"layers?(_per_stack)?$|n_layer$|blocks$|_cycles$", 2),
    (r"position|seq_len|n_ctx|context_length|model_max_length|max_length|target_pos|source_pos", 128),
    (r"head_dim|head_size|d_head|dim_head|headdim|d_kv|kv_channels|key_dim|value_dim", 8),
    (r"rank$|state_size|d_state|groups$", 8),
    (r"intermediate|ffn|ff$|d_inner|feed_forward|hidden_dim|dff$", 48),
    (r"hidden|d_model|n_embd|emb|width|size$|dim$|channels", 32),
)


def model_types() -> list[tuple[str, str]]:
    """Every model type of the installed transformers with each of its heads."""
    return sorted(
        (name, head) for head, (_, mapping) in HEADS.items() for name in getattr(modeling_auto, mapping)
    )


def small(config: Any) -> dict[str, Any]:
    """Return the fields of a configuration that are sizes or ids, made small."""
    fields: dict[str, Any] = {}
    for name, value in vars(config).items():
        if isinstance(value, transformers.PretrainedConfig):
            fields[name] = {**small(value), "model_type": value.model_type}
        elif "softcap" in name and isinstance(value, float):
            fields[name] = 2.0
        elif name.startswith("_") or isinstance(value, bool) or not isinstance(value, int):
            continue
        elif name.endswith(("token_id", "token_index")):
            fields[name] = _TOKENS.get(name.rsplit("_token", 1)[0], min(value, VOCAB - 1))
        elif name not in ("num_labels", "type_vocab_size", "chunk_size_feed_forward"):
            if name == "vocab_size":
                value = VOCAB
            rule = next((size for pattern, size in _SIZES if re.search(pattern, name)), None)
            fields[name] = min(value, 64 if rule is None else rule)
    if "qk_rope_head_dim" in fields:
        # Low-rank attention turns a part of each head and has no shared keys.
        fields |= {"qk_head_dim": 8, "head_dim": 4, "num_key_value_heads": fields["num_attention_heads"]}
    return fields | _OVERRIDES.get(config.model_type, {})


_MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_ssm": 64, "num_hidden_layers": 2}
_FOUR = {"num_hidden_layers": 4}
_AXES = {"num_key_value_heads": 4}

# Sizes that the validation of a configuration requires, besides being small.
_OVERRIDES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("bamba", "falcon_h1", "granitemoehybrid"), _MAMBA),
    **dict.fromkeys(("kimi_linear", "lfm3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"), _FOUR),
    **dict.fromkeys(("qwen4_exp_text", "recurrent_gemma"), _FOUR),
    **dict.fromkeys(("dots3_note_text", "esmc"), _AXES),
    "bailing_hybrid": {"num_hidden_layers": 4, "num_experts": 16},
    "convbert": {"conv_kernel_size": 3},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "hrm_text": {"num_hidden_layers": 24},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "ministral": {"head_dim": 8},
    "nemotron": {"num_key_value_heads": 2},
    "nystromformer": {"conv_kernel_size": 3},
    "reformer": {"axial_pos_embds": False, "axial_pos_embds_dim": (16, 16), "max_position_embeddings": 128},
    "xlnet": {"d_head": 8},
}


def build(model_type: str, head: str) -> Any:
    """Build a tiny model whose every parameter, biases included, makes a difference.

    Raises:
        Exception: Transformers cannot build it.
    """
    config = transformers.AutoConfig.for_model(model_type)
    fields = small(config)
    if head == "causal" and hasattr(config, "is_decoder"):
        fields["is_decoder"] = True
    config = transformers.AutoConfig.for_model(model_type, **fields)
    picker = getattr(transformers, HEADS[head][0])
    with torch.device("meta"):
        parameters = sum(one.numel() for one in picker.from_config(config).parameters())
    if parameters > _MOST:
        raise ValueError(f"{parameters:,} parameters however small its configuration is made")
    torch.manual_seed(0)
    model = picker.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.2 if parameter.ndim > 1 else 0.1))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model.eval()


def tokenizer(*, template: bool) -> transformers.PreTrainedTokenizerFast:
    """Build a tokenizer over bytes; ``template`` puts special tokens around a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<s>", "</s>", "<pad>", "<mask>", "<extra_id_0>"]
    bare = Tokenizer(models.BPE({piece: number for number, piece in enumerate([*special, *alphabet])}, []))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    bare.add_special_tokens(special)
    if template:
        bare.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bare,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        mask_token="<mask>",
        model_input_names=["input_ids", "attention_mask"],
    )


def save(model_type: str, head: str, folder: Path) -> Any:
    """Build a tiny model and save it with a tokenizer."""
    model = build(model_type, head)
    model.save_pretrained(folder)
    tokenizer(template=head != "causal").save_pretrained(folder)
    return model
