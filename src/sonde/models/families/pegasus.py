"""PEGASUS, Marian, Blenderbot and their like: built as BART is, and never asked for a gap in a text."""

from typing import Any

from sonde.models.engine.architectures import EncoderDecoderFamily


def _no_gap(*_: Any) -> None:
    """Return None: they were trained on omitted sentences, on translations, or on answers.

    Some of their tokenizers have a mask all the same.
    """


family = EncoderDecoderFamily(
    model_types=frozenset({"pegasus", "marian", "blenderbot", "blenderbot-small", "mvp", "m2m_100"}),
    gap=_no_gap,
)
