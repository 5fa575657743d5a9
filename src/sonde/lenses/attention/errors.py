"""Error analysis of the best head of each relation, and its attention in a snippet of the user's.

The second stage of the lens records what the best head of each relation picks when it misses (an automatic
version of table 7 of CodeSyntax).

A snippet is read together with the items, so that the report can draw what the best heads do in it. It is a
separate input with its own id and is never counted among the items. The attention between its words is kept
for the heads that are best for its relations. Of the items, a few have it kept too (see `DRAWN`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.base.fingerprint import display_rank, fingerprint, unit_hash
from sonde.base.options import Option
from sonde.capture.requests import Lookups, Prepared, WordRanks
from sonde.corpora import Item, SkipCounter, find_path_language, read_text
from sonde.languages import LANGUAGES, TOKEN_KINDS, get_facet, has_facet
from sonde.languages.engine.relations import Relations, Words
from sonde.lenses.attention.observe import FACET, TOO_LONG, AttentionOptions, Edges, provided_split, read_item
from sonde.lenses.engine.lens import CapturedItem, LensSettings
from sonde.results import Score, share_rows
from sonde.results.schema import Columns, to_schema
from sonde.tasks.engine.task import resolve_task
from sonde.tasks.syntax.syntax_relations import task

SUFFIX = "-snippet"
"""Ends its id, which so is that of no item, even of the same text."""


MOST_WORDS = 200
"""Words that a picture can hold."""


Heads = Mapping[str, tuple[tuple[int, int], ...]]
"""By side, heads as (layer, head)."""


def is_snippet(item_id: str) -> bool:
    """Return whether an input is the snippet."""
    return item_id.endswith(SUFFIX)


def read_snippet(options: Mapping[str, Option]) -> Item | None:
    """Read the snippet that the options name; None where they name none.

    Raises:
        InputError: The file does not exist, is not text, or has more words than a picture holds.
        UsageError: Its language has no relations.
    """
    file_name = AttentionOptions.read(options).snippet
    if not file_name:
        return None
    path = expand_home(file_name)
    label = f"snippet {str(path)!r}"
    if not path.is_file():
        raise InputError(f"{label}: no such file")
    intake = SkipCounter()
    text = read_text(path, str(path), intake)
    if text is None:
        raise InputError(f"{label}: {', '.join(intake.counts)}")
    language = find_path_language(str(path))
    if language is None or not has_facet(language, FACET):
        languages = " or ".join(name for name in LANGUAGES.names() if has_facet(name, FACET))
        raise UsageError(f"{label}: its language has no syntactic relations; give a file in {languages}")
    # Blank lines at the end are no words to be drawn.
    text = text.rstrip() + "\n"
    # Empty words, which end a block or the text, are not drawn.
    words = sum(word != "" for word in get_facet(language, FACET, Relations).words(text).surface)
    if words > MOST_WORDS:
        raise InputError(
            f"{label}: too long for a picture ({words} words, the maximum is {MOST_WORDS}); give a single "
            "function"
        )
    name = fingerprint("snippet", language, text) + SUFFIX
    return Item(name, text, language, "function", path.name, path.stem, cluster=name)


def label_relations(item: Item, settings: LensSettings) -> pl.DataFrame:
    """Return the relations of a snippet, as the task labels them.

    Raises:
        InputError: It does not parse, or holds none.
    """
    rows = resolve_task(task, settings.mode, settings.quirks).label([item], {})[item.item_id]
    if rows["label"].null_count():
        raise InputError(
            f"snippet {item.path!r}: does not parse as {item.language}; give a complete function"
        )
    if rows.is_empty():
        raise InputError(f"snippet {item.path!r}: contains no syntactic relation; give a longer one")
    return rows


def heads_of_relations(rows: pl.DataFrame, settings: LensSettings) -> Heads:
    """Return the best heads of the relations among the rows by side, in order of layers."""
    relations = set(rows["label"].to_list())
    heads_by_side: dict[str, set[tuple[int, int]]] = {}
    for name, head in settings.found.items():
        side, _, relation = name.partition(" ")
        if relation in relations:
            layer, _, number = str(head).partition(" ")
            heads_by_side.setdefault(side, set()).add((int(layer), int(number)))
    return {side: tuple(sorted(heads)) for side, heads in heads_by_side.items()}


def head_rows(side: str, heads: Heads, ranks: WordRanks, words: Words, item: Item) -> list[dict[str, object]]:
    """Build one row per head: the snippet's words, and their attention as ``float16`` bytes."""
    if ranks.attention is None:
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
        for (layer, head), weights in zip(heads[side], ranks.attention, strict=True)
    ]


ITEMS = 100
"""Items that are looked at: enough for shares, as each has tens of relations; each is read once more."""


DRAWN = 16
"""Items of which the whole attention of the best heads is kept, for a page that shows single functions."""


_SHARE = "share"


_DRAWN = "drawn"


OBSERVATIONS_COLUMNS: Columns = {
    "item_id": (pl.String, "the item; ends in `-snippet` for a given snippet"),
    "language": (pl.String, "public name"),
    "split": (pl.String, "the split that its source gives, else empty"),
    "side": (pl.String, "`encoder`, `decoder`, `cross`"),
    "relation": (pl.String, "the relation; empty in a row of a head"),
    "layer": (pl.Int16, "layer of the head, from 0"),
    "head": (pl.Int16, "the head, from 0"),
    "asked": (pl.String, "the word whose attention is read"),
    "asked_start": (pl.Int32, "its first character"),
    "asked_end": (pl.Int32, "end of its characters, exclusive"),
    "expected": (pl.String, "the first target word"),
    "expected_start": (pl.Int32, "first character of the target words"),
    "expected_end": (pl.Int32, "end of their characters, exclusive"),
    "picked": (pl.String, "the word that the head ranks first"),
    "picked_start": (pl.Int32, "its first character"),
    "picked_end": (pl.Int32, "end of its characters, exclusive"),
    "picked_kind": (
        pl.String,
        "kind of the code token that it begins in; `newline`, `indent`, `empty` or `other` if there is none",
    ),
    "offset": (pl.Int32, "distance from the attending word to the word picked, in words"),
    "hit": (pl.Boolean, "whether it is the first target word"),
    "situation": (
        pl.String,
        "position of the word picked relative to the attending word and the target words; or `longer than "
        "the context`",
    ),
    "words": (pl.List(pl.String), "rows of a head only (for the snippet and a few items): the words"),
    "starts": (pl.List(pl.Int32), "rows of a head only: first characters of the words"),
    "weights": (pl.Binary, "rows of a head only: attention (float16, word x word, NaN = no candidate)"),
}
"""Columns of the second stage's item table; in rows of heads what is about an edge is empty."""


OBSERVATIONS = to_schema(OBSERVATIONS_COLUMNS)


_HEADS_ONLY = ("words", "starts", "weights")


def select_best_heads(scores: Sequence[Score]) -> Mapping[str, Option] | None:
    """Select the best head of each relation and side for the second stage; None without any."""
    best_heads: dict[str, Option] = {}
    items = total = 0.0
    for score in scores:
        if score.metric == "items":
            # Those that another model could not read are among the inputs all the same.
            total += score.value
            items = items if score.dimensions else score.value
        is_best = score.metric == "first_hit" and score.control is None and score.k == 1
        if is_best and (relation := dict(score.dimensions).get("relation")) is not None:
            best_heads[f"{score.side} {relation}"] = f"{score.layer} {score.head}"
    if not best_heads:
        return None
    return {
        **best_heads,
        _SHARE: min(1.0, ITEMS / max(items, 1.0)),
        _DRAWN: min(1.0, DRAWN / max(total, 1.0)),
    }


def is_in_error_sample(item_id: str, settings: LensSettings) -> bool:
    """Return whether every miss of an item is looked at."""
    share = float(settings.found.get(_SHARE, 1.0))
    return is_snippet(item_id) or unit_hash("attention errors", item_id) < share


def is_input(item_id: str, settings: LensSettings) -> bool:
    """Return whether the second stage reads an item, for its misses or its attention."""
    return is_in_error_sample(item_id, settings) or _is_in_attention_sample(item_id, settings)


def _is_in_attention_sample(item_id: str, settings: LensSettings) -> bool:
    return is_snippet(item_id) or display_rank(item_id) < float(settings.found.get(_DRAWN, 0.0))


def sample_heads(item: Item, words: int, rows: pl.DataFrame, settings: LensSettings) -> Heads:
    """Return the heads by side whose attention between all words is kept; none of most items.

    Args:
        item: The item.
        words: How many words it has; the attention grows with their square.
        rows: Its relations.
        settings: What the first stage found among them.
    """
    is_short = is_snippet(item.item_id) or words <= MOST_WORDS
    return (
        heads_of_relations(rows, settings)
        if is_short and _is_in_attention_sample(item.item_id, settings)
        else {}
    )


def observe_items(
    observed: Sequence[CapturedItem], labels: pl.DataFrame, settings: LensSettings
) -> pl.DataFrame:
    """Build one row per edge and side: the word that the best head ranks first."""
    by_item = labels.filter(pl.col("label").is_not_null()).partition_by("item_id", as_dict=True)
    rows: list[pl.DataFrame] = [pl.DataFrame(schema=dict(OBSERVATIONS))]
    for captured_item in observed:
        sides = captured_item.captures[0].words if captured_item.captures else {}
        item = captured_item.prepared.item
        if not sides:
            if is_snippet(item.item_id):
                rows.append(_rows([{"item_id": item.item_id, "situation": TOO_LONG}]))
            continue
        is_snippet_item = is_snippet(item.item_id)
        relations = label_relations(item, settings) if is_snippet_item else by_item[(item.item_id,)]
        words, edges = read_item(item, relations, settings)
        if heads := sample_heads(item, len(words), relations, settings):
            rows += [_rows(head_rows(side, heads, ranks, words, item)) for side, ranks in sides.items()]
        if not is_in_error_sample(item.item_id, settings):
            continue
        kinds = _kinds(words, captured_item.prepared)
        for side, ranks in sides.items():
            best_heads = [settings.found.get(f"{side} {relation}") for relation in edges.relation]
            has_head = np.array([head is not None for head in best_heads], np.bool_)
            if not has_head.any() or ranks.picks is None:
                continue
            positions = np.array([str(head).split() for head in best_heads if head is not None], np.int64)
            layer, head = positions.T
            picks = ranks.picks[layer, head, np.flatnonzero(has_head)].astype(np.int64)
            table = _table(
                words,
                edges,
                has_head,
                edges.causal_lookups if side == "decoder" else edges.bidirectional_lookups,
                picks,
            )
            rows.append(
                table.with_columns(
                    item_id=pl.lit(item.item_id),
                    language=pl.lit(item.language),
                    split=pl.lit(provided_split(item)),
                    side=pl.lit(side),
                    layer=pl.Series(layer),
                    head=pl.Series(head),
                    picked_kind=pl.Series([kinds[place] for place in picks.tolist()], dtype=pl.String),
                    **{name: pl.lit(None) for name in _HEADS_ONLY},
                )
                .select(list(OBSERVATIONS))
                .cast(dict(OBSERVATIONS))  # type: ignore[arg-type]
            )
    return pl.concat(rows)


def _rows(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(OBSERVATIONS), orient="row")


def _table(
    words: Words, edges: Edges, has_head: np.ndarray, lookups: Lookups, picks: Int[np.ndarray, " edge"]
) -> pl.DataFrame:
    query_words, first, last = lookups.query[has_head], lookups.first[has_head], lookups.last[has_head]
    surface = np.array(words.surface, object)
    names = [relation for relation, is_kept in zip(edges.relation, has_head.tolist(), strict=True) if is_kept]
    return pl.DataFrame(
        {
            "relation": pl.Series(names, dtype=pl.String),
            "asked": pl.Series(surface[query_words].tolist(), dtype=pl.String),
            "asked_start": words.start[query_words],
            "asked_end": words.end[query_words],
            "expected": pl.Series(surface[first].tolist(), dtype=pl.String),
            "expected_start": words.start[first],
            "expected_end": words.end[last],
            "picked": pl.Series(surface[picks].tolist(), dtype=pl.String),
            "picked_start": words.start[picks],
            "picked_end": words.end[picks],
            "offset": picks - query_words,
            "hit": picks == first,
            "situation": pl.Series(_situations(surface, query_words, first, last, picks), dtype=pl.String),
        }
    )


def _situations(
    surface: np.ndarray,
    query_words: Int[np.ndarray, " edge"],
    first: Int[np.ndarray, " edge"],
    last: Int[np.ndarray, " edge"],
    picks: Int[np.ndarray, " edge"],
) -> list[str]:
    """Describe the position of the picked word relative to the query and the target words."""
    low, high = np.minimum(query_words, first), np.maximum(query_words, last)
    cases = [
        (picks == first, "the first word looked for"),
        ((picks > first) & (picks <= last), "another word looked for"),
        (surface[picks] == surface[query_words], "the same word as the one asked"),
        ((picks > low) & (picks < high), "a word in between"),
        (picks < low, "a word before both"),
    ]
    return np.select(
        [np.asarray(case, np.bool_) for case, _ in cases], [name for _, name in cases], "a word after both"
    ).tolist()


def _kinds(words: Words, prepared: Prepared) -> list[str]:
    """Return the kind of code token that each word begins in; empty words have their own kinds."""
    tokens = prepared.tokens
    positions = np.searchsorted(tokens.end, words.start, side="right")
    kinds: list[str] = []
    for word, start, position in zip(words.surface, words.start.tolist(), positions.tolist(), strict=True):
        if not word.strip():
            kinds.append("newline" if "\n" in word else "indent" if word else "empty")
        elif position < len(tokens.start) and tokens.start[position] <= start:
            kinds.append(TOKEN_KINDS[tokens.kind[position]])
        else:
            kinds.append("other")
    return kinds


def score_errors(
    observations: pl.LazyFrame, template: Score, test: Sequence[str], clusters: Mapping[str, str]
) -> list[Score]:
    """Score the misses of each relation's best head by kind of word and by situation.

    Args:
        observations: The item table of the second stage.
        template: What the rows share.
        test: Items that are scored.
        clusters: Cluster of each item.
    """
    misses = observations.filter(pl.col("item_id").is_in(list(test)) & ~pl.col("hit"))
    rows_missed = (
        misses.select("item_id", "side", "relation", "layer", "head", "picked_kind", "situation")
        .collect()
        .with_columns(cluster=pl.col("item_id").replace(clusters))
    )
    scores: list[Score] = []
    for (side, relation, layer, head), rows in sorted(
        rows_missed.partition_by("side", "relation", "layer", "head", as_dict=True).items()
    ):
        head_template = dataclasses.replace(
            template, side=str(side), layer=int(str(layer)), head=int(str(head))
        )
        part_template = dataclasses.replace(
            head_template.within(("relation", str(relation))), metric="picked"
        )
        for column, name in (("picked_kind", "kind"), ("situation", "situation")):
            scores += share_rows(part_template, rows[column].to_list(), rows["cluster"].to_list(), name)
    return scores
