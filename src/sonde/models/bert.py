"""BERT and its like: absolute positions from 0, `[CLS]` and `[SEP]` around the text."""

from sonde.models._kinds import EncoderFamily

family = EncoderFamily(model_types=frozenset({"bert", "distilbert", "electra", "mobilebert"}))
