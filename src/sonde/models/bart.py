"""BART and its like (PLBART): absolute positions, a bias on the final logits."""

from typing import Any

from sonde.models._kinds import EncoderDecoderFamily


def _separate(model: Any) -> tuple[Any, Any]:
    from sonde.models._heads import head_of

    return model.model, head_of(model, "model", states="decoder_inputs_embeds")


family = EncoderDecoderFamily(model_types=frozenset({"bart", "plbart", "mbart"}), separate=_separate)
