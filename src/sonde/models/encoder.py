"""Any other masked language model that transformers loads."""

from sonde.models._kinds import EncoderFamily

family = EncoderFamily()
