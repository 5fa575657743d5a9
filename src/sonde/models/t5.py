"""T5 and its like (CodeT5): relative positions; tied embeddings scale the states before the head."""

from typing import Any

from sonde.models._kinds import EncoderDecoderFamily


def _separate(model: Any) -> tuple[Any, Any]:
    from sonde.models._heads import head_of

    def body(input_ids: Any, decoder_input_ids: Any, attention_mask: Any = None, **more: Any) -> Any:
        encoded = model.encoder(input_ids=input_ids, attention_mask=attention_mask, **more)
        return model.decoder(
            input_ids=decoder_input_ids,
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=attention_mask,
            **more,
        )

    return body, head_of(model, "encoder", "decoder", states="decoder_inputs_embeds")


family = EncoderDecoderFamily(model_types=frozenset({"t5", "mt5", "umt5"}), separate=_separate)
