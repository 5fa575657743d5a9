"""Any other causal language model that transformers loads."""

from sonde.models._kinds import DecoderFamily

family = DecoderFamily()
