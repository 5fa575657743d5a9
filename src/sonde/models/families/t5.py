"""T5 and its like (CodeT5): relative positions; tied embeddings scale the states before the head."""

from typing import Any

from sonde.models.engine.architectures import EncoderDecoderFamily, ModuleNames, find_token_id
from sonde.models.engine.family import Gap

_SENTINELS = ("<extra_id_0>", "\u2581<extra_id_0>")
"""The first sentinel as tokenizers spell it; mT5 keeps it among its SentencePiece pieces."""


def _separate(model: Any) -> tuple[Any, Any]:
    from sonde.models.engine.lm_head import build_head

    def body(
        input_ids: Any,
        decoder_input_ids: Any,
        attention_mask: Any = None,
        use_cache: bool | None = None,
        **arguments: Any,
    ) -> Any:
        encoder_output = model.encoder(input_ids=input_ids, attention_mask=attention_mask, **arguments)
        return model.decoder(
            input_ids=decoder_input_ids,
            encoder_hidden_states=encoder_output.last_hidden_state,
            encoder_attention_mask=attention_mask,
            use_cache=use_cache,
            **arguments,
        )

    return body, build_head(model, "encoder", "decoder", states="decoder_inputs_embeds")


def _gap(tokenizer: Any, config: Any, prefix: tuple[int, ...], _: tuple[int, ...]) -> Gap | None:
    """Ask by a sentinel in the encoder's text; the decoder reads it, and writes what it stands for.

    Pre-training made targets with the tokenizer, so what that puts before a text stands before the sentinel
    too: CodeT5 answers ``<pad><s><extra_id_0>...`` (salesforce/CodeT5, issue 81).
    """
    start = getattr(config, "decoder_start_token_id", None)
    start = config.pad_token_id if start is None else start
    for name in _SENTINELS:
        if (sign := find_token_id(tokenizer, name, config.vocab_size)) is not None:
            return Gap(sign=sign, before=(start, *prefix, sign), repeats=False)
    return None


_MODULE_NAMES = {
    "encoder": ModuleNames(
        layers=("encoder.block",), heads=("layer.0.SelfAttention.o",), final=("encoder.final_layer_norm",)
    ),
    "decoder": ModuleNames(
        layers=("decoder.block",),
        heads=("layer.0.SelfAttention.o",),
        cross=("layer.1.EncDecAttention.o",),
        final=("decoder.final_layer_norm",),
    ),
}


family = EncoderDecoderFamily(
    model_types=frozenset({"t5", "mt5", "umt5"}), separate=_separate, gap=_gap, places=_MODULE_NAMES
)
