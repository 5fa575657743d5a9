"""Any other masked language model that transformers loads."""

from sonde.models.engine.architectures import EncoderFamily

family = EncoderFamily()
