"""A snippet that the user gives: read beside the items, so that a page can draw what the best heads do in it.

It is an input of its own with an id of its own, is never counted among the items, and is the one text whose
attention is kept: that between its words, in the heads that its relations have as their best.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.base.fingerprint import fingerprint
from sonde.base.options import Option
from sonde.capture.requests import WordRanks
from sonde.corpora import Intake, Item, language_of_path, read_text
from sonde.languages import LANGUAGES, facet_of, has_facet
from sonde.languages._relations import Relations, Words
from sonde.lenses._lens import LensSettings
from sonde.lenses.attention.options import AttentionOptions
from sonde.lenses.attention.words import FACET
from sonde.tasks.syntax.syntax_relations import task

SUFFIX = "-snippet"
"""Ends its id, which so is that of no item, even of the same text."""

MOST_WORDS = 200
"""Words that a picture can hold."""

Heads = Mapping[str, tuple[tuple[int, int], ...]]
"""By side, heads as (layer, head)."""


def is_snippet(item_id: str) -> bool:
    """Whether an input is the snippet."""
    return item_id.endswith(SUFFIX)


def read_snippet(options: Mapping[str, Option]) -> Item | None:
    """The snippet that the options name; None where they name none.

    Raises:
        InputError: The file does not exist, is not text, or has more words than a picture holds.
        UsageError: Its language has no relations.
    """
    named = AttentionOptions.read(options).snippet
    if not named:
        return None
    path = expand_home(named)
    where = f"snippet {str(path)!r}"
    if not path.is_file():
        raise InputError(f"{where}: no such file")
    intake = Intake()
    text = read_text(path, str(path), intake)
    if text is None:
        raise InputError(f"{where}: {', '.join(intake.counts)}")
    language = language_of_path(str(path))
    if language is None or not has_facet(language, FACET):
        known = " or ".join(name for name in LANGUAGES.names() if has_facet(name, FACET))
        raise UsageError(f"{where}: no language with syntactic relations; give a file in {known}")
    # Blank lines at the end are no words to be drawn.
    text = text.rstrip() + "\n"
    # Empty words, which end a block or the text, are not drawn.
    words = sum(word != "" for word in facet_of(language, FACET, Relations).words(text).surface)
    if words > MOST_WORDS:
        raise InputError(f"{where}: {words} words, and a picture holds {MOST_WORDS}; give a single function")
    name = fingerprint("snippet", language, text) + SUFFIX
    return Item(name, text, language, "function", path.name, path.stem, cluster=name)


def related(item: Item, settings: LensSettings) -> pl.DataFrame:
    """The relations of a snippet, as the task labels them.

    Raises:
        InputError: It does not parse, or holds none.
    """
    rows = task.label([item], {}, mode=settings.mode, quirks=settings.quirks)[item.item_id]
    if rows["label"].null_count():
        raise InputError(f"snippet {item.path!r}: does not parse as {item.language}; give a whole function")
    if rows.is_empty():
        raise InputError(f"snippet {item.path!r}: holds no syntactic relation; give a longer one")
    return rows


def heads_of_relations(rows: pl.DataFrame, settings: LensSettings) -> Heads:
    """By side, the best heads of the relations among the rows, in the order of the layers."""
    relations = set(rows["label"].to_list())
    found: dict[str, set[tuple[int, int]]] = {}
    for name, head in settings.found.items():
        side, _, relation = name.partition(" ")
        if relation in relations:
            layer, _, number = str(head).partition(" ")
            found.setdefault(side, set()).add((int(layer), int(number)))
    return {side: tuple(sorted(heads)) for side, heads in found.items()}


def head_rows(side: str, heads: Heads, found: WordRanks, words: Words, item: Item) -> list[dict[str, object]]:
    """One row a head: the words of the snippet, and what each pays to each other in bytes of ``float16``."""
    if found.attention is None:
        return []
    return [
        {
            "item_id": item.item_id,
            "language": item.language,
            "split": "",
            "side": side,
            "relation": "",
            "layer": layer,
            "head": head,
            "words": list(words.surface),
            "starts": words.start.tolist(),
            "weights": np.ascontiguousarray(weights.astype(np.float16)).tobytes(),
        }
        for (layer, head), weights in zip(heads[side], found.attention, strict=True)
    ]
