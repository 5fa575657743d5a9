"""Constructs, tags and the like of several models: over the code tokens that every one of them has whole."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

from sonde.corpora import Tag
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES, ScoringContext
from sonde.lenses.surprisal import common_text
from sonde.lenses.surprisal.common_text import _accumulators
from sonde.lenses.surprisal.score import _SLICES, PARTS  # pyright: ignore[reportPrivateUsage]
from sonde.results.memorisation import PERIOD
from sonde.results.schema import SHARED_TOKENS, dimension_value
from sonde.results.score_pairs import pair_scores
from sonde.results.scores import Score, scores_to_frame

LENS = LENSES.load("surprisal")
GROUPINGS = sorted({*_accumulators()} - {"all", "calls", "text", PERIOD})
TEXTS = (
    "def total(values):\n    text = 'a b  c'\n    # sums up\n    return helper(values, text)[0]\n",
    "class Häuser:\n    def find(self, key=None):\n        if key != 'x':\n            return other(key)\n",
    "import json\nfor index in range(10):\n    print(json.dumps(index), json.loads(a, ab, abc, xyz))\n"
    "    total += helper(index) - 2.5\n",
    "x = 1\n",
)


def by_words(text: str) -> list[str]:
    return re.findall(r"\s*\w+|\s*[^\w\s]|\s+", text)


def by_threes(text: str) -> list[str]:
    return [text[at : at + 3] for at in range(0, len(text), 3)]


def by_signs(text: str) -> list[str]:
    """Blanks apart, names in halves, signs merged with each other."""
    return re.findall(r"\s+|[a-zä]{1,4}|\w|[^\w\s]+", text, re.IGNORECASE)


CUTS: Mapping[str, Callable[[str], list[str]]] = {"words": by_words, "threes": by_threes, "signs": by_signs}


def observed(study: Any, cut: str, *, texts: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(len(cut))
    frames: list[pl.DataFrame] = []
    for number, text in enumerate(TEXTS[:texts]):
        pieces = CUTS[cut](text)
        tags = (Tag(0, 30, "A"), Tag(text.index("\n"), len(text) - 3, "B"))
        frames.append(
            study(there="def helper(a): ...").observe(
                text, rng.exponential(2.0, len(pieces)).tolist(), pieces,
                item_id=f"i{number}", cluster=f"c{number % 2}", tags=tags,
            )
        )  # fmt: skip
    return pl.concat(frames)


def scored(
    own: pl.DataFrame, *beside: pl.DataFrame, shared: dict[str, Any] | None = None, **options: Any
) -> list[Score]:
    from tests.lenses.conftest import Study

    return LENS.score(
        ScoringContext(
            observations=own.lazy(),
            items=pl.DataFrame(),
            template=Score(model="m", lens="surprisal", metric="", value=0.0, n=0, n_clusters=0),
            settings=Study(options={"min_count": 1}, **options).settings,
            texts=pl.LazyFrame({"item_id": [f"i{at}" for at in range(len(TEXTS))], "text": TEXTS}),
            beside=tuple(one.lazy() for one in beside),
            shared={} if shared is None else shared,
        )
    )


def test_every_table_is_read_once_for_all_models_and_once_for_its_own(
    study, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {name: observed(study, name, texts=4 if name == "words" else 3) for name in CUTS}
    reads: list[str] = []
    read_units = common_text.read_units

    def count(rows: pl.LazyFrame) -> pl.DataFrame:
        reads.append("read_units")
        return read_units(rows)

    monkeypatch.setattr(common_text, "read_units", count)
    alone = {
        own: scored(table, *(other for name, other in tables.items() if name != own))
        for own, table in tables.items()
    }
    n_models = len(tables)
    assert reads.count("read_units") == n_models * (n_models + 1)
    reads.clear()
    shared: dict[str, Any] = {}
    for own, table in tables.items():
        others = [other for name, other in tables.items() if name != own]
        together = scores_to_frame(scored(table, *others, shared=shared))
        assert together.equals(scores_to_frame(alone[own]), null_equal=True)
    assert reads.count("read_units") == 2 * n_models


def shared_rows(scores: list[Score]) -> pl.DataFrame:
    is_shared = dimension_value(SHARED_TOKENS[0]) == SHARED_TOKENS[1]
    return scores_to_frame(scores).filter(is_shared & (pl.col("metric") == "nats_per_token"))


def slow(own: pl.DataFrame, *beside: pl.DataFrame) -> list[tuple[dict[str, Any], float]]:
    """The code tokens, each with the blanks before it, that begin and end where pieces of every table do."""
    found: list[tuple[dict[str, Any], float]] = []
    read = [set(table["item_id"]) for table in (own, *beside)]
    for number, text in enumerate(TEXTS):
        if not all(f"i{number}" in ids for ids in read):
            continue
        language = LANGUAGES.load("python")
        tokens = language.tokens(language.parse(text))
        tables = [table.filter(pl.col("item_id") == f"i{number}").to_dicts() for table in (own, *beside)]
        begin = 0
        for index, end in enumerate(tokens.end.tolist()):
            start, begin = begin, end
            held = [[row for row in rows if row["start"] < end and row["end"] > start] for rows in tables]
            if any(
                row["start"] < start or row["end"] > end or not row["position"]
                for rows in held
                for row in rows
            ):
                continue
            if not all(sum(row["end"] - row["start"] for row in rows) == end - start for rows in held):
                continue
            whole = [row for row in held[0] if row["token"] >= 0]
            assert {row["token"] for row in whole} == {index}
            labels = {**whole[0], "user_tag": "|".join(row["user_tag"] for row in whole)}
            starts = tokens.start.tolist()
            place = sum(1 for other in starts[: index + 1] if "\n" not in text[other : starts[index]])
            bounds = {1: "1", 2: "2", 5: "3 to 5", 10: "6 to 10", 999: "above 10"}
            labels["line_place"] = next(name for bound, name in bounds.items() if place <= bound)
            found.append((labels, sum(row["nats"] for row in held[0])))
    return found


def values_of(row: Mapping[str, Any], grouping: str) -> set[str]:
    if grouping in PARTS:
        column, mark = PARTS[grouping]
        return {*str(row[column]).split(mark)} - {""}
    if grouping == "name":
        return {row["word"]} if row["kind"] == "identifier" else set()
    return {row[grouping]} - {""}


def test_every_grouping_but_that_of_one_vocabulary_is_shared() -> None:
    assert {*GROUPINGS} == {*_SLICES} - {"all", "subword"} | {"name", "line_place"}


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("other", ["threes", "signs"])
def test_rows_are_over_the_tokens_that_all_have_whole(study, grouping: str, other: str) -> None:
    tables = {name: observed(study, name, texts=4 if name == "words" else 3) for name in CUTS}
    counted: list[dict[str, int]] = []
    for own, beside in (("words", other), (other, "words")):
        expected: dict[str, list[float]] = defaultdict(list)
        for labels, cost in slow(tables[own], tables[beside]):
            for value in values_of(labels, grouping):
                expected[value].append(cost)
        rows = shared_rows(scored(tables[own], tables[beside])).filter(
            (pl.col("dimensions").list.len() == 2) & dimension_value(grouping).is_not_null()
        )
        assert set(rows["metric"]) == {"nats_per_token"} and (rows["task"] == "").all()
        found = {row[0]: row[1:] for row in rows.select(dimension_value(grouping), "value", "n").iter_rows()}
        assert found == {
            value: (pytest.approx(np.mean(costs), abs=1e-6), len(costs)) for value, costs in expected.items()
        }
        counted.append({value: n for value, (_, n) in found.items()})
    assert counted[0] == counted[1] and counted[0], "both sides are over the same tokens"


def test_three_models_have_in_common_what_each_has(study) -> None:
    tables = [observed(study, name) for name in CUTS]
    for at, own in enumerate(tables):
        beside = [one for place, one in enumerate(tables) if place != at]
        tokens = slow(own, *beside)
        assert 0 < len(tokens) <= min(len(slow(own, one)) for one in beside)
        whole = shared_rows(scored(own, *beside)).filter(pl.col("dimensions").list.len() == 1)
        row = whole.filter(pl.col("task") == "").row(0, named=True)
        assert (row["n"], row["value"]) == (len(tokens), pytest.approx(np.mean([cost for _, cost in tokens])))


def test_calls_are_over_shared_tokens_too(study) -> None:
    own, other = observed(study, "words"), observed(study, "signs")
    rows = shared_rows(scored(own, other)).filter(
        (pl.col("task") == "call_origin")
        & (pl.col("dimensions").list.len() == 2)
        & dimension_value("origin").is_not_null()
    )
    plain = rows.filter(pl.col("weighting").is_null())
    expected: dict[str, list[float]] = defaultdict(list)
    for labels, cost in slow(own, other):
        if labels["origin"]:
            expected[labels["origin"]].append(cost)
    assert {
        row["dimensions"][1]["value"]: (row["value"], row["n"]) for row in plain.iter_rows(named=True)
    } == {origin: (pytest.approx(np.mean(costs), abs=1e-6), len(costs)) for origin, costs in expected.items()}
    assert len(expected) > 1


@pytest.mark.parametrize("cut", ["words", "threes"])
def test_a_token_without_a_score_is_not_shared(study, cut: str) -> None:
    # Without a start token the beginning has no row; the rest of the token that it begins is no token.
    own, other = observed(study, "signs"), observed(study, cut)
    without = other.filter(pl.col("position") > 0)
    assert shared_rows(scored(own, without)).equals(shared_rows(scored(own, other)))
    alone = own.filter(pl.col("position") > 0)
    assert shared_rows(scored(alone, other)).equals(shared_rows(scored(own, other)))


def test_rows_of_each_models_own_text_stay_as_they_are(study) -> None:
    own, other = observed(study, "words"), observed(study, "signs")
    alone, beside = scores_to_frame(scored(own)), scores_to_frame(scored(own, other))
    of_all = dimension_value(SHARED_TOKENS[0]).is_not_null() | (
        dimension_value("text") == "shared"
    ).fill_null(value=False)
    assert beside.filter(~of_all).equals(alone)
    assert shared_rows(scored(own)).is_empty()


def test_published_rules_have_no_shared_tokens(study) -> None:
    own, other = observed(study, "words"), observed(study, "signs")
    assert shared_rows(scored(own, other, quirks=frozenset({"perplexed.shift"}))).is_empty()


def test_a_comparison_of_two_tokenizers_is_over_shared_tokens(study) -> None:
    tables = [observed(study, name) for name in ("words", "signs")]
    first, second = scored(*tables), scored(*tables[::-1])
    held = pair_scores(first, second, LENS.comparable_metrics, same_tokens=False)
    about = [score for _, score, _ in held.pairs if score.metric == "nats_per_token"]
    assert about and all(score.dimensions[0] == SHARED_TOKENS for score in about)
    named = {score.dimensions[1][0] for score in about if len(score.dimensions) == 2}
    assert named >= {*GROUPINGS} - {"name"}
    for base, score, _ in held.pairs:
        assert base.n == score.n and math.isfinite(score.value)
    assert not [one for one in held.unpaired if "observations differ" in one.reason]
    same = pair_scores(first, first, LENS.comparable_metrics, same_tokens=True)
    assert not [score for _, score, _ in same.pairs if score.dimensions[:1] == (SHARED_TOKENS,)]
