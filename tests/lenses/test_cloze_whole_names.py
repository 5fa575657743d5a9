"""Names of several subtokens inside P@k: every candidate's whole answer, against transformers run by hand."""

import math
from collections.abc import Callable, Sequence

import polars as pl
import pytest
import torch
from tests.lenses.test_cloze import drawn, log_probabilities, model, observed

from sonde.lenses import LensSettings
from sonde.lenses.cloze import lens
from sonde.lenses.cloze.observe import ANSWER, candidate_ids, candidate_statements
from sonde.lenses.cloze.ranks import rank_statements
from sonde.tasks import Dataset


@pytest.fixture(scope="module")
def data() -> Dataset:
    return drawn(objective="answers", candidates=5, templates="call,import")


def parts(name: str, text: str, start: int, end: int) -> tuple[list[int], list[int], list[int]]:
    """Ids before, of and behind a name, each encoded by itself; a blank before the name goes with it."""
    tokenizer = model(name).tokenizer

    def ids(part: str) -> list[int]:
        return tokenizer(part, add_special_tokens=False)["input_ids"] if part else []

    blank = start - (text[:start].endswith(" "))
    return ids(text[:blank]), ids(text[blank:end]), ids(text[end:])


def masked(before: Sequence[int], answer: Sequence[int], behind: Sequence[int]) -> float:
    """As many masks as the name has subtokens, uncovered from left to right."""
    ids = [*before, *answer, *behind]
    places = list(range(len(before), len(before) + len(answer)))
    return -sum(float(log_probabilities(ids, places[number:])[ids[at]]) for number, at in enumerate(places))


def from_left(before: Sequence[int], answer: Sequence[int], behind: Sequence[int]) -> float:
    """The product over the name's subtokens of each given what stands before it."""
    loaded = model("sonde/mini-decoder")
    ids = [loaded.special.bos, *before, *answer]
    values = loaded.model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return -sum(float(values[at - 1, ids[at]]) for at in range(1 + len(before), len(ids)))


@torch.inference_mode()
@pytest.mark.parametrize(
    ("name", "by_hand"), [("sonde/mini-encoder", masked), ("sonde/mini-decoder", from_left)]
)
def test_every_candidate_is_scored_whole(
    name: str, by_hand: Callable[[list[int], list[int], list[int]], float], data: Dataset
) -> None:
    rows = observed(name, data, objective="answers")
    assert set(rows["status"]) == {ANSWER}
    nats = dict(rows.select("item_id", "nats").iter_rows())
    pieces = dict(rows.select("item_id", "pieces").iter_rows())
    ranked = rank_statements(rows, data.examples)
    # Every tokenizer answers every query, those of several subtokens as well.
    assert ranked.height == data.examples.height
    assert ranked["rank"].null_count() == 0
    assert max(pieces.values()) > 1
    ranks = dict(ranked.select("query_id", "rank").iter_rows())
    for query in data.examples.head(8).iter_rows(named=True):
        scores: list[float] = []
        statements = candidate_statements(query, answers=True)
        for item, candidate in zip(statements, query["candidates"], strict=True):
            split = parts(name, item.text, query["start"], query["start"] + len(candidate))
            scores.append(by_hand(*split))
            assert nats[item.item_id] == pytest.approx(scores[-1], abs=2e-3)
            assert pieces[item.item_id] == len(split[1])
        assert ranks[query["query_id"]] == sum(score <= scores[0] + 1e-4 for score in scores)


def test_what_a_vocabulary_cannot_spell_comes_last(data: Dataset) -> None:
    rows = observed("sonde/mini-decoder", data, objective="answers")
    query = data.examples.row(0, named=True)
    right = candidate_ids(query, answers=True)[0]
    lost = rows.with_columns(nats=pl.when(pl.col("item_id") == right).then(math.inf).otherwise("nats"))
    ranked = rank_statements(lost, data.examples).filter(pl.col("query_id") == query["query_id"])
    assert ranked["rank"].item() == len(query["candidates"])


def test_each_statement_is_cut_at_the_ends_of_its_name(data: Dataset) -> None:
    settings = LensSettings(options={"objective": "answers"})
    labels = {"api_cloze": data.examples}
    texts = lens.inputs((), labels, settings)
    assert all(len(item.cuts) == 2 for item in texts)
    assert len(texts) == len({item.item_id for item in texts})
