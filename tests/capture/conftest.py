"""Tiny random models over bytes, and items made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from sonde.alignment.subwords import Alignment, Coverage, Subwords
from sonde.capture.requests import Prepared
from sonde.corpora import Item, item_id
from sonde.languages import LANGUAGES
from sonde.models import Capabilities, LoadedModel, ModelSpec, SpecialTokens

VOCAB = 260
BOS, SEP, MASK, PAD = 256, 257, 258, 259
COMMON = {"vocab_size": VOCAB, "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": SEP}


def _llama() -> Any:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            **COMMON,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
        )
    )


def _mistral() -> Any:
    return transformers.MistralForCausalLM(
        transformers.MistralConfig(
            **COMMON,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            sliding_window=8,
        )
    )


def _gpt2() -> Any:
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**COMMON, n_positions=64, n_embd=32, n_layer=3, n_head=4)
    )


def _bigcode() -> Any:
    return transformers.GPTBigCodeForCausalLM(
        transformers.GPTBigCodeConfig(**COMMON, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    )


def _neox() -> Any:
    return transformers.GPTNeoXForCausalLM(
        transformers.GPTNeoXConfig(
            **COMMON,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=64,
        )
    )


def _gpt_oss() -> Any:
    return transformers.GptOssForCausalLM(
        transformers.GptOssConfig(
            **COMMON,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            num_local_experts=4,
            num_experts_per_tok=2,
            max_position_embeddings=64,
            sliding_window=8,
        )
    )


def _gemma2() -> Any:
    return transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(
            **COMMON,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=64,
            sliding_window=8,
            attn_logit_softcapping=2.0,
        )
    )


def _falcon() -> Any:
    return transformers.FalconForCausalLM(
        transformers.FalconConfig(
            **COMMON, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64
        )
    )


def _longformer() -> Any:
    return transformers.LongformerForMaskedLM(
        transformers.LongformerConfig(
            **COMMON,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            attention_window=[8, 8],
            max_position_embeddings=400,
        )
    )


def _codegen() -> Any:
    return transformers.CodeGenForCausalLM(
        transformers.CodeGenConfig(**COMMON, n_positions=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=4)
    )


def _bert() -> Any:
    return transformers.BertForMaskedLM(
        transformers.BertConfig(
            **COMMON,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=64,
        )
    )


def _roberta() -> Any:
    return transformers.RobertaForMaskedLM(
        transformers.RobertaConfig(
            **COMMON,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=VOCAB + 64,
        )
    )


def _modernbert() -> Any:
    return transformers.ModernBertForMaskedLM(
        transformers.ModernBertConfig(
            **COMMON,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=64,
            local_attention=8,
        )
    )


def _deberta() -> Any:
    return transformers.DebertaV2ForMaskedLM(
        transformers.DebertaV2Config(
            **COMMON,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=64,
            relative_attention=True,
            position_buckets=8,
            norm_rel_ebd="layer_norm",
            pos_att_type=["p2c", "c2p"],
        )
    )


def _bart() -> Any:
    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(
            **COMMON,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            max_position_embeddings=64,
            decoder_start_token_id=BOS,
        )
    )


def _t5() -> Any:
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            **COMMON,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=PAD,
        )
    )


MAKERS: dict[str, tuple[Callable[[], Any], str, int, str]] = {
    "llama": (_llama, "decoder", 3, "llama"),
    "mistral": (_mistral, "decoder", 2, "decoder"),
    "gpt2": (_gpt2, "decoder", 3, "gpt"),
    "bigcode": (_bigcode, "decoder", 2, "gpt"),
    "neox": (_neox, "decoder", 2, "decoder"),
    "gpt_oss": (_gpt_oss, "decoder", 2, "decoder"),
    "gemma2": (_gemma2, "decoder", 2, "llama"),
    "falcon": (_falcon, "decoder", 2, "decoder"),
    "longformer": (_longformer, "encoder", 2, "encoder"),
    "codegen": (_codegen, "decoder", 2, "decoder"),
    "bert": (_bert, "encoder", 3, "bert"),
    "roberta": (_roberta, "encoder", 2, "roberta"),
    "modernbert": (_modernbert, "encoder", 3, "modernbert"),
    "deberta": (_deberta, "encoder", 2, "encoder"),
    "bart": (_bart, "encoder-decoder", 4, "bart"),
    "t5": (_t5, "encoder-decoder", 4, "t5"),
}


@pytest.fixture(scope="session")
def tiny() -> Callable[[str], LoadedModel]:
    """A loader of tiny random models by name; the same weights each time, a fresh module each time."""

    def load(name: str) -> LoadedModel:
        maker, kind, layers, family = MAKERS[name]
        torch.manual_seed(0)
        model = maker().eval()
        # Fresh weights give nearly even predictions; larger ones give ranks and rows something to tell.
        # T5 begins with large ones, and does not scale its scores.
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1 and name != "t5":
                    parameter.mul_(4.0)
        decoder = kind == "decoder"
        return LoadedModel(
            spec=ModelSpec(name=f"tiny-{name}"),
            revision="random",
            model=model,
            tokenizer=None,
            capabilities=Capabilities(
                kind=kind,
                layers=layers,
                heads=4,
                d_model=32,
                vocab=VOCAB,
                context=64,
                attention="eager" if name in ("codegen", "deberta", "falcon", "longformer") else "interface",
                masks=not decoder,
            ),
            special=SpecialTokens(
                bos=BOS if decoder else None,
                bos_source="bos" if decoder else "none",
                prefix=() if decoder or name == "t5" else (BOS,),
                suffix=() if decoder else (SEP,),
                pad=PAD,
                mask=None if decoder else MASK,
            ),
            family=family,
        )

    return load


@pytest.fixture(scope="session")
def prepare() -> Callable[[str], Prepared]:
    """An item whose subwords are its UTF-8 bytes."""
    language = LANGUAGES.load("text")

    def make(text: str) -> Prepared:
        data = text.encode("utf-8", "surrogatepass")
        ids = np.frombuffer(data, dtype=np.uint8).astype(np.int32)
        at = np.arange(len(ids), dtype=np.int32)
        names = ("",) * len(ids)
        counts = Coverage(
            characters=len(text),
            covered=len(text),
            subwords=len(ids),
            merged=0,
            layout=0,
            unknown=0,
            tokens=0,
            tokens_whole=0,
        )
        subwords = Subwords(text, ids, at, at + 1, np.ones_like(ids), names)
        item = Item(
            item_id=item_id(text, "text", "file"),
            text=text,
            language="text",
            unit="file",
            path="by hand",
            name="item",
            offset=0,
            cluster="",
            repository="",
        )
        tree = language.parse(text)
        alignment = Alignment(subwords, at, at + 1, at, names, names, names, counts)
        return Prepared(item, tree, language.tokens(tree), alignment)

    return make


@pytest.fixture(scope="session")
def texts() -> tuple[str, ...]:
    """Texts that trip offsets: non-ASCII, CRLF, tabs, emoji, no newline at the end; and a single byte."""
    return (
        "naïve = 'façade'\n",
        "a = 1\r\nb = 2\r\n",
        "\tif x:\n\t\treturn\t0",
        "print('🙂👩‍👩‍👧')",
        "x",
        "def f(a, b):\n    return a + b\n",
        "数 = '数据'",
    )
