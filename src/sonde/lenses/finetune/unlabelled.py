"""Texts without labels that token vectors may be learned on: none that is chosen on or evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.corpora import Intake, NearDuplicateIndex, duplicate_tokens, read_items

if TYPE_CHECKING:
    from sonde.training.baselines.vectors import Unlabelled

_MOST = 40_000
"""Functions that are read; by hash, as many as data sets are drawn from at most."""


def further_texts(corpus: str, language: str, splits: Mapping[str, pl.DataFrame]) -> Unlabelled:
    """The functions of a corpus without those of validation and test, and without what is like them.

    Args:
        corpus: The corpus as named on the command line.
        language: Public name of the language.
        splits: The examples; ``valid`` and ``test`` are kept away from.

    Raises:
        SondeError: The corpus cannot be read.
    """
    from sonde.training.baselines.vectors import Unlabelled

    apart = pl.concat([splits["valid"], splits["test"]])
    clusters = set(apart["cluster"].to_list())
    index = NearDuplicateIndex()
    for name, text in apart.select("example_id", "text").iter_rows():
        index.add(name, duplicate_tokens(text))
    every = {item.item_id: item for item in read_items(corpus, Intake(), languages=(language,))}
    read = sorted(every.values(), key=lambda item: (unit_hash("further", item.item_id), item.item_id))[:_MOST]
    texts: list[str] = []
    near = shared = 0
    for item in read:
        if item.cluster in clusters:
            shared += 1
        elif index.find(duplicate_tokens(item.text)) is not None:
            near += 1
        else:
            texts.append(item.text)
    about = {"corpus": corpus, "clusters of valid or test": shared, "near valid or test": near}
    return Unlabelled(texts, about)
