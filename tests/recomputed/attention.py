"""Attention: ranks of every edge in every head, and how often the best head of each relation hits."""

from __future__ import annotations

import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from tests.recomputed.agreement import Agreement, compare
from tests.recomputed.plain_model import Encoded, PlainModel
from tests.recomputed.run_folder import RunFolder, hash_unit

NEVER = 255
"""The largest rank that is told apart."""

NEAR_TIE = 1e-5
"""Share of a word's attention within which another word ties with it, and ties count against it."""


class Word(NamedTuple):
    """A word of Python's tokenizer."""

    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """Cut a text into the words of Python's tokenizer, with newlines, indents and the empty ones."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    places = [
        [min(lines[row - 1 : row] or lines[-1:]) + column for row, column in (one.start, one.end)]
        for one in found
    ]
    return [Word(start, min(max(start, end), len(text))) for start, end in places]


def recompute(run: RunFolder, plain: PlainModel, most: int) -> Iterator[Agreement]:
    """Compare places of words and ranks, then the hits of heads on the test part."""
    labels = run.labels("syntax_relations", "attention").filter(pl.col("label").is_not_null())
    edges = {key[0]: rows for key, rows in labels.partition_by("item_id", as_dict=True).items()}
    observed = run.observations("attention").filter(pl.col("dropped") == "", pl.col("language") == "python")
    places: list[tuple[int, int]] = []
    ranks: list[tuple[np.ndarray, np.ndarray]] = []
    hits: defaultdict[str, list[tuple[str, np.ndarray]]] = defaultdict(list)
    whole = True
    for rows in observed.partition_by("item_id", maintain_order=True):
        item = rows["item_id"][0]
        if item not in edges:
            continue
        if most <= 0 or (words := _words(run.texts[item])) is None:
            whole = False
            continue
        most -= 1
        mine = edges[item]
        places += zip(mine["start"].to_list(), [words[at].start for at in mine["head_word"]], strict=True)
        places += zip(
            mine["other_start"].to_list(), [words[at].start for at in mine["dep_first"]], strict=True
        )
        encoded = plain.encode(run.texts[item])
        attention = _attention(plain, encoded, words, run.texts[item])
        for row in rows.iter_rows(named=True):
            stored = np.frombuffer(row["ranks"], np.uint8)
            stored = stored.reshape(row["edges"], 3, row["layers"], row["heads"])
            of = mine.filter(pl.col("label") == row["relation"])
            own = np.stack([_rank(attention, edge, plain.decoder) for edge in of.iter_rows(named=True)])
            ranks.append((stored[:, :2], own))
            hits[row["relation"]].append((item, own[:, 0] == 1))
    yield compare("place of a word of an edge", *zip(*places, strict=True), tolerance=0)
    stored, own = (np.concatenate([one[side].ravel() for one in ranks]) for side in (0, 1))
    yield compare("rank of an edge in a head", stored, own, tolerance=0, share=0.002)
    if whole:
        yield _best_heads(run, hits)


def _words(text: str) -> list[Word] | None:
    try:
        return split_words(text)
    except (tokenize.TokenError, SyntaxError):
        return None


def _attention(
    plain: PlainModel, encoded: Encoded, words: Sequence[Word], text: str
) -> Float[np.ndarray, "layer head word word"]:
    """Return what each word pays to each other one that competes; -1 to those that do not."""
    size = len(encoded.ids)
    layers = plain.read(encoded.ids, output_attentions=True).attentions
    begin = len(plain.before)
    paid = np.stack([layer[0, :, begin : begin + size, begin : begin + size].numpy() for layer in layers])
    start, end = _without_blanks(encoded, text)
    belongs = np.array([(end > word.start) & (start < word.end) for word in words], dtype=np.float32)
    count = belongs.sum(1)
    mean = belongs / np.maximum(count, 1.0)[:, None]
    found = mean @ paid @ belongs.T
    excluded = np.tile(count == 0, (len(words), 1)) | np.eye(len(words), dtype=bool)
    if plain.decoder:
        first = np.where(count > 0, belongs.argmax(1), size)
        stop = np.where(count > 0, size - belongs[:, ::-1].argmax(1), 0)
        excluded |= first[None, :] >= stop[:, None]
    found[:, :, excluded] = -1.0
    return found


def _without_blanks(
    encoded: Encoded, text: str
) -> tuple[Int[np.ndarray, " subword"], Int[np.ndarray, " subword"]]:
    """Return the places of subwords without blanks at their borders; blank ones keep all of theirs."""
    start, end = encoded.start.copy(), encoded.end.copy()
    for at, (left, right) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        word = text[left:right]
        if word.strip():
            start[at] = right - len(word.lstrip())
            end[at] = left + len(word.rstrip())
    return start, end


def _rank(
    attention: Float[np.ndarray, "layer head word word"], edge: Mapping[str, int], decoder: bool
) -> Int[np.ndarray, "end layer head"]:
    """Return the rank of the first and of the last word looked for.

    A decoder is asked by the later end of an edge for the earlier one, other models by the head.
    """
    head, first, last = edge["head_word"], edge["dep_first"], edge["dep_last"]
    backwards = decoder and first > head
    asked = ((first, head), (last, head)) if backwards else ((head, first), (head, last))
    found = []
    for query, target in asked:
        own = attention[:, :, query, target, None]
        rank = (attention[:, :, query] >= own * (1 - NEAR_TIE)).sum(2)
        found.append(np.where(own[..., 0] < 0, NEVER, np.minimum(rank, NEVER)))
    return np.stack(found)


def _best_heads(run: RunFolder, hits: Mapping[str, Sequence[tuple[str, np.ndarray]]]) -> Agreement:
    """Compare how often the best head of each relation hits on the test part."""
    read = run.items.join(run.observations("attention").select("item_id").unique(), on="item_id", how="semi")
    splits = deal_splits(read, {"valid": 0.3, "test": 0.7}, run.summary["seed"])
    rows = run.scores.filter(
        (pl.col("lens") == "attention")
        & (pl.col("metric") == "first_hit")
        & (pl.col("k") == 1)
        & pl.col("control").is_null()
        & pl.col("slice").str.contains(r"^relation=[^;]*$")
    )
    sonde, own = [], []
    for row in rows.iter_rows(named=True):
        relation = row["slice"].removeprefix("relation=")
        tested = np.concatenate([hit for item, hit in hits[relation] if splits[item] == "test"])
        chosen = [hit for item, hit in hits[relation] if splits[item] == "valid"]
        if chosen:
            # The head is the one that hits the most edges of the other part.
            counts = np.concatenate(chosen).sum(0)
            assert counts[row["layer"], row["head"]] == counts.max(), relation
        sonde.append(row["value"])
        own.append(tested[:, row["layer"], row["head"]].mean())
    return compare("hits of the best head of a relation", sonde, own, tolerance=0.005)


def deal_splits(items: pl.DataFrame, shares: Mapping[str, float], seed: int) -> dict[str, str]:
    """Deal whole clusters to splits as docs/design.md says; items of one language."""
    members = items.group_by("cluster").agg("item_id")
    clusters = dict(members.iter_rows())
    filled: Counter[str] = Counter()
    found: dict[str, str] = {}
    for name in sorted(clusters, key=lambda name: (-len(clusters[name]), hash_unit(seed, name), name)):
        split = max(
            shares, key=lambda side: (shares[side] * items.height - filled[side], hash_unit(seed, name, side))
        )
        filled[split] += len(clusters[name])
        found |= dict.fromkeys(clusters[name], split)
    return found
