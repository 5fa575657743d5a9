"""From labelled edges to what is looked up: words to subwords, and relations to a direction of looking.

A word and a subword belong together where they share a character; blanks at the borders of a subword that
holds more than blanks do not count, so that an indent does not get the attention of what it indents. A word
may have several subwords, share one with its neighbour, or have none.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.alignment.align import trim_spans
from sonde.alignment.subwords import Subwords
from sonde.capture.requests import Lookups
from sonde.corpora import Item
from sonde.languages import has_facet
from sonde.languages.engine.relations import Delimiters, Words
from sonde.languages.engine.text import whitespace_mask
from sonde.lenses.attention.options import AttentionOptions
from sonde.lenses.engine.lens import LensSettings
from sonde.tasks.engine.relation_rows import provided_relations, relation_words
from sonde.tasks.syntax.syntax_relations import NO_SEMICOLONS

FACET = "relations"


TASK = "syntax_relations"


# The items of a job: their words are wanted for the requests and again for the rows.
_KEPT = 512


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """The edges of one item.

    Attributes:
        relation: Name of the relation of each edge.
        head: Head word.
        first: First word of the dependent.
        last: Its last word.
        from_head: Whether the head is asked for the dependent, as in programs; in prose the dependent is
            asked for its head.
    """

    relation: tuple[str, ...]
    head: Int[np.ndarray, " edge"]
    first: Int[np.ndarray, " edge"]
    last: Int[np.ndarray, " edge"]
    from_head: bool = True

    def __len__(self) -> int:
        return len(self.head)

    @property
    def bidirectional_lookups(self) -> Lookups:
        """What is looked up in attention that sees the whole text."""
        head, dependent = (self.head, self.head), (self.first, self.last)
        asked, wanted = (head, dependent) if self.from_head else (dependent, head)
        return Lookups(*asked, *wanted)

    @property
    def causal_lookups(self) -> Lookups:
        """What is looked up where words see only those before them: the later is asked for the earlier."""
        later = self.first > self.head
        return Lookups(
            query=np.where(later, self.first, self.head),
            until=np.where(later, self.last, self.head),
            first=np.where(later, self.head, self.first),
            last=np.where(later, self.head, self.last),
        )


def find_word_subwords(
    words: Words, subwords: Subwords
) -> tuple[Int[np.ndarray, " word"], Int[np.ndarray, " word"]]:
    """First subword of each word, and one past its last; these are equal where a word has none."""
    left, right = trim_spans(subwords.start, subwords.end, ~whitespace_mask(subwords.text))
    written = left < right
    left = np.where(written, left, subwords.start)
    right = np.where(written, right, subwords.end)
    first = np.searchsorted(right, words.start, side="right")
    stop = np.searchsorted(left, words.end, side="left")
    # An empty word lies inside no subword, even where the search finds the one around it.
    return first, np.where(words.end > words.start, np.maximum(stop, first), first)


def read_item(item: Item, rows: pl.DataFrame, settings: LensSettings) -> tuple[Words, Edges]:
    """Words and edges of one item.

    Args:
        item: The item.
        rows: Its rows of the task ``syntax_relations``, those without a label left out.
        settings: What the user chose.
    """
    delimiters = Delimiters(
        newlines=bool(rows["newlines"].any()),
        semicolons=NO_SEMICOLONS not in settings.quirks,
        masked=AttentionOptions.read(settings.options).mask_delimiters,
    )
    # Relations that the source brings are counted in the words of the mode, whatever else is chosen.
    quirks = frozenset[str]() if provided_relations(item) else settings.quirks
    words = _words(item, settings.mode, quirks, delimiters)
    head, first, last = (
        rows[name].cast(pl.Int64).to_numpy() for name in ("head_word", "dep_first", "dep_last")
    )
    names = tuple(rows["label"].to_list())
    return words, Edges(names, head, first, last, from_head=has_facet(item.language, FACET))


def provided_split(item: Item) -> str:
    """The side of the split that the source of an item gives it; empty where it gives none."""
    splits = {given.split for given in item.given if given.task == TASK}
    return min(splits, default="")


@functools.lru_cache(maxsize=_KEPT)
def _words(item: Item, mode: str, quirks: frozenset[str], delimiters: Delimiters) -> Words:
    return relation_words(item, mode=mode, quirks=quirks, delimiters=delimiters)
