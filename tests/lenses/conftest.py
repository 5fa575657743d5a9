"""Hand-made items, alignments and captures: a tokenizer is a list of pieces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest
from tests.slices import with_slices

from sonde.alignment.subwords import Alignment, Coverage, Subwords
from sonde.capture.requests import ItemCapture, Prepared, ScoredSubwords
from sonde.corpora import Item, SourceFile
from sonde.languages import LANGUAGES, TOKEN_KINDS, CodeTokens, Tree
from sonde.lenses import LENSES, CapturedItem, LensSettings, ScoringContext
from sonde.lenses.engine.lens import get_quirk_tasks
from sonde.lenses.surprisal.observe import check_active_quirks
from sonde.results.scores import Score, scores_to_frame
from sonde.tasks import repositories
from sonde.tasks.engine.task import TASKS


def tasks_of(settings: LensSettings) -> tuple[str, ...]:
    """The tasks whose labels the lens `surprisal` is given."""
    lens = LENSES.load("surprisal")
    return (*lens.tasks, *get_quirk_tasks(lens.name, check_active_quirks(settings)))


def item_of(text: str, **changes: object) -> Item:
    fields: dict[str, object] = {
        "item_id": "item", "text": text, "language": "python", "unit": "function", "path": "here.py",
        "name": "f", "offset": 0, "cluster": "cluster", "repository": "repository",
    }  # fmt: skip
    return Item(**{**fields, **changes})  # type: ignore[arg-type]


def words_of(text: str) -> list[str]:
    """Pieces with their leading blanks, as a byte-level tokenizer would make them."""
    return re.findall(r"\s*\w+|\s*[^\w\s]|\s+", text)


def prepared_of(item: Item, pieces: Sequence[str]) -> Prepared:
    assert "".join(pieces) == item.text
    language = LANGUAGES.load(item.language)
    tree = language.parse(item.text)
    tokens = language.tokens(tree)
    return Prepared(item, tree, tokens, _align(item.text, pieces, tree, tokens))


def capture_of(
    item: Item,
    nats: Sequence[float],
    *,
    rank: Sequence[int] | None = None,
    context: Sequence[int] | None = None,
) -> ItemCapture:
    size = len(nats)
    values = np.asarray(nats, np.float32)
    return ItemCapture(
        item.item_id,
        scores=ScoredSubwords(
            nats=values,
            rank=np.asarray(rank if rank is not None else np.ones(size), np.int32),
            entropy=values / 2,
            context=np.arange(size) if context is None else np.array(context),
            scored=~np.isnan(values),
            top_ids=np.tile(np.arange(2), (size, 1)),
            top_nats=np.tile(np.array([0.5, 1.5], np.float32), (size, 1)),
        ),
    )


def _align(text: str, pieces: Sequence[str], tree: Tree, tokens: CodeTokens) -> Alignment:
    ends = np.cumsum([len(piece) for piece in pieces]).astype(np.int32)
    starts = ends - np.array([len(piece) for piece in pieces], np.int32)
    vocabulary = {piece: index for index, piece in enumerate(sorted(set(pieces)))}
    rows = [_row(text, int(s), int(e), tree, tokens) for s, e in zip(starts, ends, strict=True)]
    first, last, node, kind, role, tag = zip(*rows, strict=True)
    return Alignment(
        subwords=Subwords(
            text=text,
            ids=np.array([vocabulary[piece] for piece in pieces]),
            start=starts,
            end=ends,
            bytes=np.array([len(piece.encode()) for piece in pieces]),
            surface=tuple(pieces),
        ),
        first=np.array(first),
        last=np.array(last),
        node=np.array(node),
        kind=kind,
        role=role,
        tag=tag,
        coverage=Coverage(
            characters=len(text), covered=len(text), subwords=len(pieces), merged=0, layout=0, unknown=0,
            tokens=len(tokens), tokens_whole=0,
        ),
    )  # fmt: skip


def _row(
    text: str, start: int, end: int, tree: Tree, tokens: CodeTokens
) -> tuple[int, int, int, str, str, str]:
    inked = [place for place in range(start, end) if not text[place].isspace()]
    found = [
        index
        for index, (left, right) in enumerate(zip(tokens.start.tolist(), tokens.end.tolist(), strict=True))
        if any(left <= place < right for place in inked)
    ]
    if not found:
        return 0, 0, -1, "layout", "", "layout"
    tags = [_tag(tree, int(tokens.node[index])) for index in found]
    if len(found) == 1:
        (index,) = found
        return (
            index,
            index + 1,
            int(tokens.node[index]),
            TOKEN_KINDS[tokens.kind[index]],
            tokens.role[index],
            tags[0],
        )
    nodes = [int(tokens.node[index]) for index in found]
    common = next(a for a in tree.ancestors(nodes[0]) if all(a in tree.ancestors(node) for node in nodes))
    return found[0], found[-1] + 1, common, "merged", "", " + ".join(tags)


def _tag(tree: Tree, node: int) -> str:
    parent = int(tree.parent[node])
    return f"{tree.kind_name(parent)} -> {tree.kind_name(node)}" if parent >= 0 else tree.kind_name(node)


@dataclass(frozen=True)
class Study:
    """The surprisal lens on items whose pieces and losses are written by hand.

    Attributes:
        there: Another file of the items' repository.
        quirks: Those that are on.
        mode: The mode of the lens.
    """

    there: str = ""
    quirks: frozenset[str] = frozenset()
    mode: str = "corrected"
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    @property
    def settings(self) -> LensSettings:
        return LensSettings(mode=self.mode, quirks=self.quirks, options=self.options)

    def observe(
        self,
        text: str,
        nats: Sequence[float] | None = None,
        pieces: Sequence[str] | None = None,
        *,
        rank: Sequence[int] | None = None,
        context: Sequence[int] | None = None,
        **item: object,
    ) -> pl.DataFrame:
        """One row a piece; by default words with a loss of 1, 2, 3, ..."""
        made = item_of(text, **item)
        pieces = words_of(text) if pieces is None else pieces
        nats = [float(index + 1) for index in range(len(pieces))] if nats is None else nats
        lens = LENSES.load("surprisal")
        files = [
            SourceFile(path, code, made.language, made.cluster, made.repository)
            for path, code in ((made.path, text), ("there", self.there))
        ]
        known = repositories(files)
        labels = {
            name: TASKS.load(name)
            .label([made], known)[made.item_id]
            .with_columns(item_id=pl.lit(made.item_id))
            for name in tasks_of(self.settings)
        }
        capture = capture_of(made, nats, rank=rank, context=context)
        captured = CapturedItem(prepared_of(made, pieces), (capture,))
        return lens.observe([captured], labels, self.settings, ["best", "next"])

    def score(self, *observations: pl.DataFrame, frequencies: pl.DataFrame | None = None) -> pl.DataFrame:
        """The table of scores, with ``name``: which weighting, bins or unit a number has."""
        template = Score(model="model", lens="surprisal", metric="", value=0.0, n=0, n_clusters=0)
        scoring = ScoringContext(
            observations=pl.concat(observations).lazy(),
            items=pl.DataFrame(),
            template=template,
            settings=self.settings,
            frequencies=frequencies,
        )
        table = with_slices(scores_to_frame(LENSES.load("surprisal").score(scoring)))
        return table.with_columns(name=pl.coalesce("weighting", "binning", "unit"))

    @staticmethod
    def value(scores: pl.DataFrame, where: str, metric: str, name: str | None = None) -> float:
        """The one value of a slice and metric."""
        same = pl.col("name").eq_missing(pl.lit(name, pl.String))
        return scores.filter((pl.col("slice") == where) & (pl.col("metric") == metric) & same)["value"].item()


@pytest.fixture
def study() -> type[Study]:
    return Study
