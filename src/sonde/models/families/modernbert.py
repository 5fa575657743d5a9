"""ModernBERT: rotary positions, local attention in most layers."""

from sonde.models.engine.architectures import EncoderFamily

family = EncoderFamily(model_types=frozenset({"modernbert"}))
