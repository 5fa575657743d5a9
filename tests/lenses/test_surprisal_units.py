"""Units of comparison between tokenizers: what a code token costs does not depend on how the text is cut."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.lenses.conftest import item_of

from sonde.alignment import Subwords, align
from sonde.alignment.vocabulary import get_codec
from sonde.capture.forward import observe
from sonde.capture.requests import ItemCapture, Prepared, ScoredSubwords, ScoredTokenEnds, prepare
from sonde.corpora import SourceFile
from sonde.lenses import LENSES, CapturedItem, LensSettings
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.tasks import repositories
from sonde.tasks.engine.task import TASKS

LENS = LENSES.load("surprisal")
TEXTS = (
    "def total(values, key=None):\n    '''Sums up.'''\n    text = 'a b  c'\n\n    return helper(values)[0]\n",
    "class Häuser(Base):\n    def find(self, key=None):\n        if key != '→x':\n            return {}\n",
    "for index in range(10):\n    print((index, [index]))  # → so\n    total += helper(index) - 2.5\n",
    "x = 1\n\n\n",
)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model(ModelSpec(name="sonde/mini-decoder"))


@pytest.fixture(scope="module")
def prepared(loaded: LoadedModel) -> list[Prepared]:
    items = [item_of(text, item_id=f"i{number}", cluster=f"c{number}") for number, text in enumerate(TEXTS)]
    return prepare(loaded, items)


@pytest.fixture(scope="module")
def logits(loaded: LoadedModel, prepared: Sequence[Prepared]) -> list[torch.Tensor]:
    """Log-probabilities at each subword, by transformers alone."""
    tables: list[torch.Tensor] = []
    for one in prepared:
        ids = one.alignment.subwords.ids.tolist()
        with torch.no_grad():
            whole = loaded.model(torch.tensor([[loaded.tokenizer.bos_token_id, *ids]])).logits
        tables.append(whole[0, :-1].double().log_softmax(-1))
    return tables


@pytest.fixture(scope="module")
def spellings(loaded: LoadedModel) -> list[bytes]:
    codec, special = get_codec(loaded.tokenizer), set(loaded.tokenizer.all_special_ids)
    return [b"" if number in special else spelled for number, spelled in enumerate(codec.spellings)]


def cost_of(row: torch.Tensor, prefix: bytes, spellings: Sequence[bytes]) -> float:
    """Nats of all entries that begin with a prefix, by looking at each entry."""
    return (
        -row[[number for number, one in enumerate(spellings) if one.startswith(prefix)]].logsumexp(0).item()
    )


def rows_of(prepared: Sequence[Prepared], captures: Sequence[ItemCapture]) -> pl.DataFrame:
    files = [SourceFile("there.py", "def helper(a): ...", "python", "c", prepared[0].item.repository)]
    task, known = TASKS.load("call_origin"), repositories(files)
    tables = [
        task.label([one.item], known)[one.item.item_id].with_columns(item_id=pl.lit(one.item.item_id))
        for one in prepared
    ]
    labels = {"call_origin": pl.concat(tables)}
    captured = [CapturedItem(one, (capture,)) for one, capture in zip(prepared, captures, strict=True)]
    return LENS.observe(captured, labels, LensSettings(), [f"<{number}>" for number in range(10_000)])


def units_of(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("item_id", "units").drop_nulls().explode("units").unnest("units")


def captured(loaded: LoadedModel, prepared: Sequence[Prepared]) -> list[ItemCapture]:
    passes = LENS.input_requests(prepared, {}, LensSettings())
    return list(observe(loaded, prepared, passes))


def test_units_cost_what_the_entries_that_begin_likewise_say(loaded, prepared, logits, spellings) -> None:
    rows = rows_of(prepared, captured(loaded, prepared))
    units = units_of(rows)
    seen = 0
    for one, table in zip(prepared, logits, strict=True):
        text, subwords, ids = one.item.text, one.alignment.subwords, one.alignment.subwords.ids.tolist()
        data = text.encode()
        ends = np.cumsum([len(spellings[number]) for number in ids]).tolist()
        assert ends[-1] == len(data), "the tokenizer spells every byte"
        own = [-table[place, number].item() for place, number in enumerate(ids)]

        costs: list[float] = []
        for byte in (len(text[:end].encode()) for end in one.tokens.end.tolist()):
            # Whole subwords up to there, then all entries that begin with the rest.
            place = next(place for place, end in enumerate(ends) if end >= byte)
            begin = ends[place] - len(spellings[ids[place]])
            if byte == ends[0]:
                # What follows is given the first subword.
                costs.append(own[0])
                continue
            costs.append(sum(own[:place]) + cost_of(table[place], data[begin:byte], spellings))
        expected = np.diff([0.0, *costs, sum(own)])
        found = units.filter(pl.col("item_id") == one.item.item_id).sort("unit")
        assert found["unit"].to_list() == list(range(len(one.tokens) + 1))
        assert found["nats"].to_list() == pytest.approx(expected.tolist(), abs=2e-4)
        scored = rows.filter(pl.col("item_id") == one.item.item_id)["nats"].cast(pl.Float64).sum()
        assert found["nats"].sum() / math.log(2) == pytest.approx(scored / math.log(2), abs=1e-9)
        assert found["bytes"].sum() == len(data)
        parts = found["part"].to_list()
        assert parts[0] == "first" and set(parts[1:]) == {"exact"} and len(subwords) == len(own)
        seen += sum(end in ends for end in (len(text[:end].encode()) for end in one.tokens.end.tolist()))
    assert 0 < seen < sum(len(one.tokens) for one in prepared), "some ends are inside subwords, some are not"


Recut = list[tuple[int, int, float, Callable[[bytes], float]]]
"""Pieces: characters from and to, nats, and nats of what begins with given bytes."""


def recut(one: Prepared, table: torch.Tensor, spellings: Sequence[bytes], kind: str) -> Recut:
    """The same model with its subwords cut otherwise; probabilities follow from its own."""
    subwords, text = one.alignment.subwords, one.item.text
    own = [-table[place, number].item() for place, number in enumerate(subwords.ids.tolist())]

    def piece(place: int, skipped: bytes = b"") -> Callable[[bytes], float]:
        before = cost_of(table[place], skipped, spellings) if skipped else 0.0
        return lambda prefix: cost_of(table[place], skipped + prefix, spellings) - before

    spans = list(zip(subwords.start.tolist(), subwords.end.tolist(), strict=True))
    result: Recut = []
    place = 0
    while place < len(spans):
        start, end = spans[place]
        written, following = text[start:end], text[slice(*spans[place + 1])] if place + 1 < len(spans) else ""
        cut = 0
        if kind == "blank" and written[:1] == " " and written.strip():
            cut = 1
        elif kind == "halves" and len(written) >= 6 and written.isalpha() and written.isascii():
            cut = len(written) // 2
        if (
            kind == "breaks"
            and written
            and not written[-1].isalnum()
            and written.isascii()
            and (following[:1] == "\n" and following.isspace())
        ):
            first, second, size = piece(place), piece(place + 1), end - start

            def begins(
                prefix: bytes,
                first: Any = first,
                second: Any = second,
                size: int = size,
                nats: float = own[place],
            ) -> float:
                return first(prefix) if len(prefix) <= size else nats + second(prefix[size:])

            result.append((start, spans[place + 1][1], own[place] + own[place + 1], begins))
            place += 1
        elif cut and place:
            head = cost_of(table[place], written[:cut].encode(), spellings)
            result.append((start, start + cut, head, piece(place)))
            result.append((start + cut, end, own[place] - head, piece(place, written[:cut].encode())))
        else:
            result.append((start, end, own[place], piece(place)))
        place += 1
    return result


@pytest.mark.parametrize("kind", ["blank", "breaks", "halves"])
def test_a_model_with_its_subwords_cut_otherwise_costs_the_same(
    prepared, logits, spellings, kind: str
) -> None:
    tables: list[pl.DataFrame] = []
    counts: list[int] = []
    for how in ("none", kind):
        others: list[Prepared] = []
        captures: list[ItemCapture] = []
        for one, table in zip(prepared[:3:2], logits[:3:2], strict=True):
            pieces = recut(one, table, spellings, how)
            start, end = (np.array([piece[side] for piece in pieces]) for side in (0, 1))
            size = len(pieces)
            subwords = Subwords(one.item.text, np.arange(size), start, end, end - start, ("",) * size)
            other = dataclasses.replace(one, alignment=align(subwords, one.tree, one.tokens))
            ends: list[tuple[int, int, float]] = []
            for token, stop in enumerate(one.tokens.end.tolist()):
                place = int(np.flatnonzero(start < stop)[-1])
                ends.append((place, token, pieces[place][3](one.item.text[start[place] : stop].encode())))
            scores = dataclasses.replace(
                ScoredSubwords.empty(size, 1),
                nats=np.array([piece[2] for piece in pieces]),
                scored=np.ones(size, np.bool_),
                context=np.arange(size),
            )
            place, token, nats = (np.array(column) for column in zip(*ends, strict=True))
            found = ScoredTokenEnds(place, token, nats)
            others.append(other)
            captures.append(ItemCapture(one.item.item_id, scores=scores, extra={"token_ends": found}))
            counts.append(size)
        tables.append(units_of(rows_of(others, captures)))
    assert sum(counts[:2]) != sum(counts[2:])
    first, second = (table.filter(pl.col("part") == "exact") for table in tables)
    assert first["unit"].to_list() == second["unit"].to_list() and first.height > 50
    differences: dict[str, list[float]] = defaultdict(list)
    for left, right in zip(first.to_dicts(), second.to_dicts(), strict=True):
        for column in ("construct", "kind", "role", "tag"):
            differences[f"{column} {left[column]}"].append((left["nats"] - right["nats"]) / math.log(2))
    for name, values in differences.items():
        assert abs(np.mean(values)) < 0.005, name
    # Shares of subwords by their characters would not do.
    assert max(abs(one) for values in differences.values() for one in values) < 1e-6


def test_without_logits_units_are_sums_of_subwords_that_end_where_they_do(loaded, prepared) -> None:
    with_logits = captured(loaded, prepared)
    rows = rows_of(prepared, [dataclasses.replace(capture, extra={}) for capture in with_logits])
    units, known = units_of(rows), units_of(rows_of(prepared, with_logits))
    assert set(units["part"]) == {"first", "mixed"}
    assert units["piece_nats"].drop_nulls().len() > 20
    # The beginning of a text is first for both; the unit behind it for the one that knows the rest of it.
    assert units.filter(pl.col("unit") > 1)["piece_nats"].to_list() == (
        known.filter(pl.col("unit") > 1)["piece_nats"].to_list()
    )
    assert units.group_by("item_id").agg(pl.col("nats").sum()).sort("item_id")["nats"].to_list() == (
        pytest.approx(known.group_by("item_id").agg(pl.col("nats").sum()).sort("item_id")["nats"].to_list())
    )
