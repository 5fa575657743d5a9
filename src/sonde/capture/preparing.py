"""Items to what a forward pass takes: parsed, tokenized and aligned for one model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sonde.alignment import align, encode
from sonde.capture.requests import Prepared
from sonde.corpora import Item
from sonde.languages import LANGUAGES
from sonde.models import LoadedModel


def prepare(loaded: LoadedModel, items: Iterable[Item]) -> list[Prepared]:
    """Parse, tokenize and align items for a model.

    Raises:
        InputError: The tokenizer gives no offsets that hold.
    """
    return prepare_items(loaded.tokenizer, items)


def prepare_items(tokenizer: Any, items: Iterable[Item]) -> list[Prepared]:
    """Parse, tokenize and align items for the models of a tokenizer; see `prepare`."""
    prepared: list[Prepared] = []
    for item in items:
        language = LANGUAGES.load(item.language)
        tree = language.parse(item.text)
        tokens = language.tokens(tree)
        alignment = align(encode(tokenizer, item.text, item.cuts), tree, tokens, item=item.path)
        prepared.append(Prepared(item, tree, tokens, alignment))
    return prepared
