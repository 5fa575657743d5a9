"""The models of the papers, tiny and with random weights, saved as they were published: pickles alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from .conftest import tiny_tokenizer

VOCAB = 300
_SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
_ENCODER = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 67,
    "pad_token_id": 2,
}
_BERT = {**_ENCODER, "max_position_embeddings": 64}
_T5 = {"vocab_size": VOCAB, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
_T5 |= {"decoder_start_token_id": 2, "pad_token_id": 2, "eos_token_id": 1}
_GPT = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
_PLBART = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 1,
}


@dataclass(frozen=True)
class Published:
    """How a checkpoint was saved.

    Attributes:
        saved: Class that it was saved from.
        fields: Of its configuration.
        family: Which file of `models` takes it.
        old_names: Whether layer norms are called gamma and beta, as in what came from TensorFlow.
        legacy: Whether the pickle is older than the zip format of PyTorch 1.6.
        more: Weights that today's classes do not have.
    """

    saved: str
    fields: dict[str, Any]
    family: str
    old_names: bool = False
    legacy: bool = False
    more: dict[str, tuple[int, ...]] = field(default_factory=dict)


_POSITIONS = {"roberta.embeddings.position_ids": (1, 67)}
_NEXT = {"cls.seq_relationship.weight": (2, 32), "cls.seq_relationship.bias": (2,)}
_bert = {"family": "bert", "fields": _BERT, "old_names": True, "legacy": True, "more": _NEXT}
_plbart = {"saved": "PLBartForConditionalGeneration", "fields": _PLBART, "family": "bart"}

PUBLISHED: dict[str, Published] = {
    "bigcode/gpt_bigcode-santacoder": Published("GPTBigCodeForCausalLM", _GPT, "gpt"),
    "google-bert/bert-base-uncased": Published("BertForMaskedLM", **_bert),
    "microsoft/codebert-base": Published("RobertaModel", _ENCODER, "roberta", legacy=True),
    "huggingface/CodeBERTa-small-v1": Published("RobertaForMaskedLM", _ENCODER, "roberta", legacy=True),
    "microsoft/graphcodebert-base": Published("RobertaForMaskedLM", _ENCODER, "roberta", more=_POSITIONS),
    "CAUKiel/JavaBERT": Published(
        "BertForMaskedLM", _BERT, "bert", more={"bert.embeddings.position_ids": (1, 64)}
    ),
    "uclanlp/plbart-multi_task-java": Published(**_plbart),
    "Salesforce/codet5-base": Published("T5ForConditionalGeneration", _T5, "t5"),
    "microsoft/unixcoder-base-unimodal": Published("RobertaModel", _ENCODER, "roberta"),
    "microsoft/codereviewer": Published("T5ForConditionalGeneration", _T5, "t5"),
    "claudios/cubert-20210711-Python-512": Published("BertForPreTraining", _BERT, "bert"),
    "google-bert/bert-large-cased": Published("BertForMaskedLM", **_bert),
    "google-bert/bert-base-multilingual-cased": Published("BertForMaskedLM", **_bert),
    "FacebookAI/roberta-base": Published("RobertaForMaskedLM", _ENCODER, "roberta", legacy=True),
    "FacebookAI/xlm-roberta-base": Published("XLMRobertaForMaskedLM", _ENCODER, "roberta", legacy=True),
    "microsoft/codebert-base-mlm": Published("RobertaForMaskedLM", _ENCODER, "roberta", legacy=True),
    "neulab/codebert-python": Published("RobertaForMaskedLM", _ENCODER, "roberta", more=_POSITIONS),
    "uclanlp/plbart-base": Published(**_plbart),
    "uclanlp/plbart-large": Published(**_plbart),
}
"""PERPLEXED's model, INSPECT's nine, then what CodeSyntax and INK add to them."""


def save_published(name: str, folder: Path, *, shards: int = 1) -> Any:
    """Save a tiny model as its paper's was published; gives the model whose weights they are."""
    made = PUBLISHED[name]
    kind = getattr(transformers, made.saved)
    torch.manual_seed(0)
    model = kind(kind.config_class(**made.fields)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    weights = dict(model.state_dict())
    for key, shape in made.more.items():
        weights[key] = torch.arange(shape[-1]).expand(shape).contiguous()
    if made.old_names:
        weights = {_old(key): one for key, one in weights.items()}
    folder.mkdir(parents=True)
    config = model.config.to_dict() | {"architectures": [made.saved]}
    (folder / "config.json").write_text(json.dumps(config))
    tiny_tokenizer(template=made.family != "gpt", **_SPECIAL).save_pretrained(folder)
    _save(weights, folder, shards, zipped=not made.legacy)
    return model


def _old(key: str) -> str:
    return key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def _save(weights: dict[str, torch.Tensor], folder: Path, shards: int, *, zipped: bool) -> None:
    if shards == 1:
        torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        return
    places: dict[str, str] = {}
    for number in range(shards):
        file = f"pytorch_model-{number + 1:05}-of-{shards:05}.bin"
        part = {key: weights[key] for key in list(weights)[number::shards]}
        torch.save(part, folder / file, _use_new_zipfile_serialization=zipped)
        places |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
