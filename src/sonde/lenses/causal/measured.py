"""How surprisal is asked with something changed, and what stands where it is.

A decoder is asked for every subword. A masked model is shown the function with a seventh of its code tokens
hidden at once, as in its pre-training, and asked for these: one forward a function and change, where a
pseudo-log-likelihood would take one a subword. An encoder-decoder fills a few gaps of one token each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from sonde.base.fingerprint import unit_hash
from sonde.capture.interventions import Change
from sonde.capture.requests import Changed, ItemCapture, Masked, Pass, Plain, Prepared, Request, TokenScores
from sonde.languages import LANGUAGES
from sonde.lenses._states import subwords_of
from sonde.lenses.causal.fits import FittedChange
from sonde.lenses.causal.rows import Rows

HIDDEN = 0.15
"""Share of the code tokens that a masked model is asked for."""

LONGEST, MOST = 12, 48
"""Subwords of a token, and of all tokens of a function together, that are hidden at most: a long string or
function would leave a short context nothing to see."""

GAPS = 3
"""Gaps of a function that an encoder-decoder fills."""

_SCORES = TokenScores(top_k=1)


def hidden_tokens(one: Prepared) -> list[tuple[int, ...]]:
    """The subwords of the code tokens that are hidden, in a random order."""
    tokens = one.tokens
    places = list(zip(tokens.start.tolist(), tokens.end.tolist(), strict=True))
    if not places:
        return []
    first, stop = subwords_of(places, one.alignment.subwords)
    order = sorted(range(len(places)), key=lambda at: unit_hash("hidden", one.item.item_id, at))
    found: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for at in order:
        own = tuple(range(first[at], stop[at]))
        if 0 < len(own) <= min(LONGEST, MOST - len(taken)) and not taken.intersection(own):
            found.append(own)
            taken.update(own)
    return found[: max(1, round(HIDDEN * len(places)))]


def asking(
    prepared: Sequence[Prepared],
    changes: Mapping[str, tuple[Change, ...]],
    items: frozenset[str],
    requests: tuple[Request, ...] = (_SCORES,),
) -> list[Pass]:
    """Passes that ask for the surprisal of some items, once as they are and once with each change.

    Args:
        prepared: The items of a job.
        changes: What is changed, by name.
        items: Ids of those that are asked.
        requests: What is asked of each input.
    """
    hidden = {one.item.item_id: hidden_tokens(one) for one in prepared if one.item.item_id in items}
    together = {item: (tuple(sorted(sum(held, ()))),) for item, held in hidden.items() if held}
    apart = {item: tuple(held[:GAPS]) for item, held in hidden.items()}
    found: list[Pass] = []
    for kind, of in (
        ("decoder", Plain()),
        ("encoder", Masked(together)),
        ("encoder-decoder", Masked(apart)),
    ):
        found.append(Pass(of, requests, (kind,), items))
        found += [Pass(Changed(of, held, name), requests, (kind,), items) for name, held in changes.items()]
    return found


def scores_of(
    captures: Sequence[ItemCapture], subwords: int
) -> tuple[Float[np.ndarray, " subword"], Bool[np.ndarray, " subword"]]:
    """What the captures say of each subword that one of them has scored.

    Returns:
        Surprisal in nats, NaN for the others; and whether the model finds the subword likeliest.
    """
    nats, right = np.full(subwords, np.nan), np.zeros(subwords, dtype=np.bool_)
    for one in captures:
        if one.scores is not None:
            scored = one.scores.scored
            nats[scored], right[scored] = one.scores.nats[scored], one.scores.rank[scored] == 1
    return nats, right


def constructs_of(one: Prepared) -> tuple[list[str], Int[np.ndarray, " subword"]]:
    """What each subword belongs to: keywords are by themselves, others by the innermost construct around.

    Returns:
        Names, and of each subword the number of its name.
    """
    text, alignment = one.item.text, one.alignment
    spans = sorted(
        LANGUAGES.load(one.tree.language).constructs(one.tree), key=lambda span: span.start - span.end
    )
    painted = np.full(len(text) + 1, -1)
    names: dict[str, int] = {}
    for span in spans:
        painted[span.start : span.end] = names.setdefault(span.label, len(names))
    found = np.empty(len(alignment.subwords), dtype=np.int64)
    edges = zip(alignment.subwords.start.tolist(), alignment.subwords.end.tolist(), strict=True)
    for at, (start, end) in enumerate(edges):
        word = text[start:end]
        inked = start + len(word) - len(word.lstrip())
        if not word.strip():
            label = "layout"
        elif alignment.kind[at] == "keyword":
            label = f"`{word.strip()}`"
        else:
            found[at] = painted[min(inked, len(text))]
            if found[at] >= 0:
                continue
            label = "other"
        found[at] = names.setdefault(label, len(names))
    return list(names), found


def add_effects(
    rows: Rows,
    item: str,
    fits: Sequence[FittedChange],
    captures: Mapping[str, Sequence[ItemCapture]],
    groups: tuple[Sequence[str], Sequence[Int[np.ndarray, " subword"]]],
) -> None:
    """Add what changes do to the surprisal of a function, by group of its subwords.

    Args:
        rows: Where to.
        item: The function.
        fits: The changes.
        captures: Its captures by the name of the change, with nothing changed by an empty one.
        groups: Names of groups, and arrays that give each subword the number of one of them, -1 for none.
    """
    names, arrays = groups
    size = len(arrays[0]) if arrays else 0
    before, hit = scores_of(captures.get("", ()), size)
    for one in fits:
        if one.name not in captures:
            continue
        after, hits = scores_of(captures[one.name], size)
        for group in arrays:
            told = np.isfinite(before) & np.isfinite(after) & (group >= 0)
            count = np.bincount(group[told], minlength=len(names))
            was, now, right, still = (
                np.bincount(group[told], values[told], minlength=len(names))
                for values in (before, after, hit, hits)
            )
            for at in np.flatnonzero(count).tolist():
                rows.add(
                    item_id=item, what="effect", method=one.method, subject=one.subject, kind=one.kind,
                    layer=None if one.together else one.layer, group=names[at], n=int(count[at]),
                    before=float(was[at]), after=float(now[at]),
                    right_before=int(right[at]), right_after=int(still[at]),
                )  # fmt: skip
