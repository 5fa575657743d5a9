"""ModernBERT: rotary positions, local attention in most layers."""

from sonde.models._kinds import EncoderFamily

family = EncoderFamily(model_types=frozenset({"modernbert"}))
