"""Vectors of whole texts from an encoder from outside, as the states of one layer; no subwords are cut."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.alignment import align
from sonde.alignment._spelled import place_pieces
from sonde.base.errors import UsageError
from sonde.capture.requests import HiddenStates, ItemCapture, Pass, Plain, Prepared
from sonde.corpora import Item
from sonde.languages import LANGUAGES
from sonde.models import ModelSpec
from sonde.models._encoders import encoded


def read_encoded(
    spec: ModelSpec, items: Sequence[Item], passes: Sequence[Pass], lens: str
) -> list[tuple[Prepared, ItemCapture]]:
    """What an encoder gives for the texts of some items.

    Args:
        spec: The encoder.
        items: The items.
        passes: What the lens asks for; the first way to pool a whole text is what a vector stands under.
        lens: Its name.

    Raises:
        UsageError: More is asked for than a vector of the text as it is.
        InputError: The encoder fails.
        CaptureError: It gives something else than a vector a text.
    """
    match passes:
        case [Pass(variant=Plain(cut=False, padded=False), requests=(HiddenStates(pooling=(name, *_)), *_))]:
            vectors = encoded(spec, [item.text for item in items])
            states = [{name: vector[None]} for vector in vectors]
        case _:
            raise UsageError(f"lens {lens!r}: an encoder gives a vector of each text as it is, and no more")
    return [
        (_prepared(item), ItemCapture(item.item_id, states=own))
        for item, own in zip(items, states, strict=True)
    ]


def _prepared(item: Item) -> Prepared:
    """The item with its whole text as one piece, since no tokenizer cuts it."""
    language = LANGUAGES.load(item.language)
    tree = language.parse(item.text)
    tokens = language.tokens(tree)
    subwords, _ = place_pieces(item.text, [item.text], None)
    return Prepared(item, tree, tokens, align(subwords, tree, tokens, item=item.path))
