"""Tiny random models that fill in what is left out, saved with tokenizers learned on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
    PLBartConfig,
    PLBartForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

SENTINELS = ("<extra_id_0>", "<extra_id_1>")
FILLING = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<mask>", "<lang>"]


def save_t5(folder: Path, texts: Sequence[str], *, sentinels: Sequence[str] = SENTINELS) -> Path:
    """A T5 whose tokenizer marks blanks as SentencePiece does, ``</s>`` behind each text."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
    )
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>", *sentinels]
    trainer = trainers.BpeTrainer(vocab_size=75, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", special.index("</s>"))]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=list(sentinels),
    )
    fields: dict[str, Any] = {
        "vocab_size": len(fast) + 3, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
        "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
    }  # fmt: skip
    return _save(folder, T5ForConditionalGeneration, T5Config(**fields), fast)


def save_infilling(folder: Path, texts: Sequence[str], *, context: int = 64) -> Path:
    """A decoder over bytes with tokens for filling in, and nothing put before a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", *FILLING],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", additional_special_tokens=list(FILLING)
    )
    fields: dict[str, Any] = {
        "vocab_size": len(fast), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": context, "bos_token_id": None,
        "eos_token_id": 0, "pad_token_id": None,
    }  # fmt: skip
    return _save(folder, LlamaForCausalLM, LlamaConfig(**fields), fast)


def save_bart(folder: Path, texts: Sequence[str], *, plbart: bool = False) -> Path:
    """A BART over bytes, each text in ``<s> </s>``; a PLBART with ``</s>`` and a language behind it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s> <lang>" if plbart else "<s> $A </s>",
        special_tokens=[(name, SPECIAL.index(name)) for name in ("<s>", "</s>", "<lang>")],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip
    fields: dict[str, Any] = {
        "vocab_size": len(fast), "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48, "max_position_embeddings": 64, "pad_token_id": 0,
        "bos_token_id": SPECIAL.index("<s>"), "eos_token_id": SPECIAL.index("</s>"),
    }  # fmt: skip
    if plbart:
        return _save(folder, PLBartForConditionalGeneration, PLBartConfig(**fields), fast)
    fields |= {"decoder_start_token_id": SPECIAL.index("</s>"), "forced_eos_token_id": None}
    return _save(folder, BartForConditionalGeneration, BartConfig(**fields), fast)


def _save(folder: Path, maker: Any, config: Any, tokenizer: PreTrainedTokenizerFast) -> Path:
    torch.manual_seed(0)
    model = maker(config)
    with torch.no_grad():
        # Fresh weights give nearly even predictions; these give ranks something to tell.
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
