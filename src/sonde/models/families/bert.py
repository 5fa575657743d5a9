"""BERT and its like: absolute positions from 0, `[CLS]` and `[SEP]` around the text."""

from sonde.models.engine.architectures import EncoderFamily

family = EncoderFamily(model_types=frozenset({"bert", "distilbert", "electra", "mobilebert"}))
