"""Which functions the explorer of tokens shows, with their text, code tokens and tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import polars as pl

from sonde.base.fingerprint import sample_place
from sonde.languages import LANGUAGES
from sonde.report._shared.run import RunData
from sonde.report._shared.tokens import TokenLens

_MODERATE = (300, 1500)
"""Characters of a function that is read at a glance; the page opens on one of these where there is one."""

_AMONG = 200
"""Functions of the random sample that are tried for a place, since other reasons take some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerLimits:
    """How much the page carries.

    Attributes:
        worst: Functions with the most bits per byte.
        best: Functions with the fewest.
        median: Functions around the middle.
        spoken: Functions of each lens, those first that most lenses say something of.
        by_hash: A seeded random sample of functions, whatever they score.
        characters: Of each function, from its beginning.
        subwords: Fewest subwords of a function to be ranked; short ones have extreme means.
        packed: Characters of JSON for all functions together.
    """

    worst: int = 10
    best: int = 10
    median: int = 8
    spoken: int = 3
    by_hash: int = 12
    characters: int = 3000
    subwords: int = 30
    packed: int = 3_600_000


def choose(
    run: RunData, lenses: Mapping[str, TokenLens], limits: ExplorerLimits
) -> tuple[list[tuple[str, str]], str]:
    """Pairs of function and why it was chosen, and the one that is shown first.

    Where a lens says how hard functions are: the hardest, the easiest, and those around the middle. Always
    some of every lens, since lenses need not read the same functions, and a random sample. Reasons alternate,
    so that a cut leaves some of each.

    Args:
        run: The run.
        lenses: What its lenses offer.
        limits: How many.

    Returns:
        The pairs, and the id of the function nearest to the median of the sample that is neither long nor
        short; empty where there is none at all.
    """
    ranked = next((one for lens in lenses.values() if (one := lens.difficulty(run)) is not None), None)
    spoken = {lens: set(one.known(run)) for lens, one in lenses.items()}
    lenses_of = Counter(item for own in spoken.values() for item in own)
    most = [
        sorted(own, key=lambda item: (-lenses_of[item], sample_place(item)))[: limits.spoken]
        for own in spoken.values()
    ]
    order: list[str] = []
    sample = sorted(lenses_of, key=sample_place)[:_AMONG]
    if ranked is not None:
        known = ranked.filter(pl.col("subwords") >= limits.subwords)
        known = known if known.height else ranked
        order = known.sort(["difficulty", "item_id"], descending=[True, False])["item_id"].to_list()
        sample = sorted(ranked["item_id"].to_list(), key=sample_place)[:_AMONG]
    middle = max(0, len(order) // 2 - limits.median // 2)
    wanted = {
        "worst": order[: limits.worst],
        "best": order[::-1][: limits.best],
        "median": order[middle : middle + limits.median],
        "every lens": [item for of_lens in zip_longest(*most) for item in of_lens if item is not None],
        "random sample": sample,
    }
    taken: dict[str, str] = {}
    for turn in range(max(map(len, wanted.values()))):
        for reason, items in wanted.items():
            # Only the sample goes on where another reason took a function before it.
            enough = reason == "random sample" and list(taken.values()).count(reason) >= limits.by_hash
            if turn < len(items) and items[turn] not in taken and not enough:
                taken[items[turn]] = reason
    candidates = [item for item, why in taken.items() if why not in ("worst", "best")]
    pairs = () if ranked is None else ranked.select("item_id", "difficulty").iter_rows()
    difficulty = dict(pairs)
    return list(taken.items()), _opened(run, candidates or list(taken), lenses_of, difficulty)


def _opened(
    run: RunData,
    candidates: Sequence[str],
    lenses_of: Mapping[str, int],
    difficulty: Mapping[str, float],
) -> str:
    """Of the candidates that most lenses speak of and that are of moderate length, the most ordinary one."""
    if not candidates:
        return ""
    sizes = {row["item_id"]: row["characters"] or 0 for row in run.items(candidates).iter_rows(named=True)}
    held = [item for item in candidates if item in sizes] or list(candidates)
    least, most = _MODERATE
    middle = float(np.median([*difficulty.values()])) if difficulty else 0.0

    def unfit(item: str) -> tuple[float, ...]:
        away = abs(difficulty.get(item, middle) - middle)
        return (not least <= sizes.get(item, 0) <= most, -lenses_of.get(item, 0), away, sample_place(item))

    return min(held, key=unfit)


def described(
    row: Mapping[str, Any], reason: str, limits: ExplorerLimits, number: Callable[[str], int]
) -> dict[str, Any]:
    """A function as the page holds it: names, the beginning of its text, its code tokens and its tree.

    Args:
        row: The function in the columns of `RunData.items`.
        reason: Why it was chosen.
        limits: How much of it is shown.
        number: Gives a text its place among the texts of the page.
    """
    text = row["text"] or ""
    shown = text[: limits.characters]
    tokens, nodes = _syntax(text, row["language"], limits.characters, number)
    return {
        "id": row["item_id"],
        "name": row["name"] or row["path"] or row["item_id"],
        "path": row["path"] or "",
        "language": row["language"] or "",
        "cluster": row["cluster"] or "",
        "why": reason,
        "text": shown,
        "cut": max(0, len(text) - limits.characters),
        "tokens": tokens,
        "nodes": nodes,
    }


def _syntax(
    text: str, language: str | None, characters: int, number: Callable[[str], int]
) -> tuple[list[int], list[int]]:
    """Code tokens as start, end, and named nodes in pre-order as depth, kind, start, end; a list each."""
    if not language or language not in LANGUAGES.names():
        return [], []
    reader = LANGUAGES.load(language)
    tree = reader.parse(text)
    found = reader.tokens(tree)
    pairs = np.stack([found.start, found.end], axis=1)[found.start < characters]
    shown = np.flatnonzero(tree.named & (tree.start < characters))
    depth = np.zeros(len(tree), np.int64)
    for node in range(1, len(tree)):
        depth[node] = depth[tree.parent[node]] + int(tree.named[tree.parent[node]])
    nodes: list[int] = []
    for node in shown.tolist():
        nodes += [
            int(depth[node]),
            number(tree.kind_name(node)),
            int(tree.start[node]),
            min(int(tree.end[node]), characters),
        ]
    return np.minimum(pairs, characters).ravel().tolist(), nodes
