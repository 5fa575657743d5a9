"""Any other causal language model that transformers loads."""

from sonde.models.engine.architectures import DecoderFamily

family = DecoderFamily()
