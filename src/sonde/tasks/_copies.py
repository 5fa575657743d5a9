"""Rows of a user's table that hold nearly the same code: the cluster of each, and what is said of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sonde.corpora import near_clusters
from sonde.tasks._examples import Example

COPIES = "copies"
"""Key of what is said, in the report of a data set."""

_PROSE = "text"


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """Examples by what their texts nearly repeat.

    Attributes:
        examples: The examples.
        texts: For each the clusters of its texts, sorted: one, or both of a pair.
        language: Public name of their language.
    """

    examples: Sequence[Example]
    texts: Sequence[tuple[int, ...]]
    language: str

    @classmethod
    def of(cls, examples: Sequence[Example], language: str) -> CopiedRows:
        """Find what nearly repeats what.

        Args:
            examples: The examples of a table in one language; a span is compared by its whole text.
            language: Public name of it.
        """
        parts = [_texts(one) for one in examples]
        texts = list(dict.fromkeys(text for each in parts for text in each))
        cluster = dict(zip(texts, near_clusters(texts, language), strict=True))
        return cls(examples, [tuple(sorted(map(cluster.__getitem__, each))) for each in parts], language)

    @property
    def named(self) -> list[str]:
        """The cluster of each example: that of the first example with nearly the same texts."""
        first: dict[tuple[int, ...], str] = {}
        return [
            first.setdefault(texts, one.cluster) for one, texts in zip(self.examples, self.texts, strict=True)
        ]

    def told(self, splits: Sequence[str], *, grouped: bool, left: int) -> dict[str, Any]:
        """The numbers, and as ``said`` a sentence with them.

        Args:
            splits: The split that the table gives each example; empty where it gives none.
            grouped: Whether the table names groups.
            left: Texts that were left out since they nearly repeat another one.
        """
        code = "text" if self.language == _PROSE else "code"
        numbers: dict[str, Any] = {"rows": len(self.examples), "clusters": len(set(self.texts))}
        said: list[str] = []
        if not grouped:
            said.append(f"no group column: {self._clusters(code, left, numbers)}")
        if any(splits):
            said.append(self._across(splits, code, numbers))
        return {**numbers, "said": "; ".join(said)}

    def _clusters(self, code: str, left: int, numbers: dict[str, Any]) -> str:
        rows, clusters = numbers["rows"], numbers["clusters"]
        if any(one.type for one in self.examples):
            texts = len({one.item.item_id for one in self.examples}) + left
            numbers["left_out"] = left
            kept = f"of texts with nearly the same {code} one is kept ({left:,} of {texts:,} left out), and "
            return f"{kept if left else ''}spans that say the same share a cluster"
        pairs = any(len(texts) > 1 for texts in self.texts)
        same = "nearly the same two texts" if pairs else f"nearly the same {code}"
        said = f"rows with {same} share a cluster ({clusters:,} clusters of {rows:,} rows)"
        if clusters == rows:
            said = f"no two of {rows:,} rows have {same}, and each is a cluster"
        if pairs and (sharing := self._sharing()):
            numbers["sharing"] = sharing
            said += f"; {sharing:,} rows share one of their texts with rows of other clusters"
        return said

    def _sharing(self) -> int:
        """Pairs of which a text stands in a pair of another cluster too."""
        clusters: defaultdict[int, set[tuple[int, ...]]] = defaultdict(set)
        for texts in self.texts:
            for text in texts:
                clusters[text].add(texts)
        return sum(any(len(clusters[text]) > 1 for text in texts) for texts in self.texts)

    def _across(self, splits: Sequence[str], code: str, numbers: dict[str, Any]) -> str:
        trained = {texts for texts, split in zip(self.texts, splits, strict=True) if split == "train"}
        tested = [texts for texts, split in zip(self.texts, splits, strict=True) if split == "test"]
        known = numbers["in_training"] = sum(texts in trained for texts in tested)
        return (
            f"the table's splits are kept: {known:,} of {len(tested):,} test rows have nearly the same "
            f"{code} as a training row"
        )


def _texts(one: Example) -> tuple[str, ...]:
    """What of an example is compared: the text, both texts of a pair, the whole text around a span."""
    if one.other_start is None or one.other_end is None:
        return (one.item.text,)
    return one.item.text[one.start : one.end], one.item.text[one.other_start : one.other_end]
