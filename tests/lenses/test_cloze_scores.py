"""Tables of the cloze lens against loops over hand-made answers."""

import dataclasses
import re
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.slices import slice_of, with_slices

from sonde.alignment.vocabulary import get_vocabulary
from sonde.base.errors import InputError
from sonde.lenses import LensSettings, ScoringContext
from sonde.lenses.cloze import lens
from sonde.lenses.cloze import ranks as cloze_vocabulary
from sonde.lenses.cloze.observe import (
    ANSWERS_SCHEMA,
    ONE_PIECE,
    SEVERAL_PIECES,
    TEXT,
    UNSPELLABLE,
    candidate_ids,
    collect_statements,
)
from sonde.lenses.cloze.ranks import KS, rank_answers, rank_statements, with_agreement, with_seen_libraries
from sonde.lenses.cloze.score import select_preferred_words
from sonde.lenses.engine.lens import Control, ControlObservations
from sonde.models import ModelSpec, load_tokenizer
from sonde.results.scores import Score, scores_to_frame
from sonde.tasks.engine.cloze_queries import QUERY_SCHEMA, path_number

LIBRARIES = [f"lib{number}" for number in range(15)]


def query(number: int, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "item_id": f"i{number}", "query_id": f"q{number}", "base_id": f"q{number}", "template": "call",
        "mode": "full", "name": f"lib.f{number}", "kind": "call", "language": "python", "library": "lib",
        "level": 1, "levels": 2, "pieces": 1, "prefix": f"lib{number}.", "answer": f"f{number}",
        "context": "", "frame": "", "aliases": 0, "suffix": "(", "start": 4, "end": 6, "level_start": 4,
        "level_end": 6, "alias": "", "visible": False, "calls": 1, "files": 1, "repositories": 1,
        "paths": [1], "candidates": [], "majority": None, "unigram": None,
    }  # fmt: skip
    return {**row, **changes}


def answer(query_id: str, rank: int | None, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "item_id": "i", "query_id": query_id, "status": UNSPELLABLE if rank is None else ONE_PIECE,
        "pieces": 1,
        "nats": None if rank is None else float(rank), "rank_id": None if rank is None else rank + 1,
        "rank": rank, "greedy": rank == 1, "gold_id": 0, "characters": 2,
    }  # fmt: skip
    return {**row, **changes}


def tables(queries: list[dict[str, Any]], answers: list[dict[str, Any]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    return (
        pl.DataFrame(answers, schema=dict(ANSWERS_SCHEMA), orient="row"),
        pl.DataFrame(queries, schema=dict(QUERY_SCHEMA), orient="row"),
    )


def scoring(
    queries: list[dict[str, Any]],
    answers: list[dict[str, Any]],
    *,
    control: list[dict[str, Any]] | None = None,
    **options: Any,
) -> ScoringContext:
    observations, labels = tables(queries, answers)
    controls = (
        () if control is None else (ControlObservations(Control(0, 1.0), tables([], control)[0].lazy()),)
    )
    return ScoringContext(
        observations=observations.lazy(),
        items=pl.DataFrame(),
        template=Score(model="m", lens="cloze", metric="", value=float("nan"), n=0, n_clusters=0),
        settings=LensSettings(options=options),
        labels={"api_cloze": labels},
        controls=controls,
    )


def found(
    scores: list[Score], metric: str, where: str, *, control: str | None = None, **columns: Any
) -> Score:
    (one,) = [
        score
        for score in scores
        if (score.metric, slice_of(score.dimensions), score.control) == (metric, where, control)
        and all(getattr(score, name) == value for name, value in columns.items())
    ]
    return one


@pytest.fixture(scope="module")
def many() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rng = np.random.default_rng(0)
    queries, answers = [], []
    for number in range(600):
        queries.append(
            query(
                number,
                template=str(rng.choice(["call", "import"])),
                mode=str(rng.choice(["full", "first", "last", "middle", "whole"])),
                library=str(rng.choice(LIBRARIES)),
                calls=int(rng.integers(1, 40)),
                answer=f"a{rng.integers(20)}",
                level=int(rng.integers(3)),
                levels=3,
            )
        )
        rank = None if rng.random() < 0.1 else int(rng.integers(1, 80))
        answers.append(answer(f"q{number}", rank))
    return queries, answers


def test_models_are_also_compared_on_what_all_of_them_were_asked() -> None:
    queries = [query(number, library=f"lib{number % 3}") for number in range(12)]
    mine = [answer(f"q{number}", 1 + number % 2) for number in range(12)]
    # The other model was not asked the first four, and has the next two in several pieces.
    other = [answer(f"q{number}", None if number < 4 else 1) for number in range(12)]
    for row in other[4:6]:
        row |= {"rank": None, "rank_id": None, "status": SEVERAL_PIECES, "pieces": 2, "nats": 3.0}
    beside = (tables([], other)[0].lazy(),)
    scores = lens.score(dataclasses.replace(scoring(queries, mine), beside=beside))
    own = found(scores, "p_at_k", "template=call", matching="single", k=1)
    common = found(scores, "p_at_k", "template=call", matching="common", k=1)
    assert (own.n, own.value) == (12, 0.5)
    assert (common.n, common.value) == (6, 0.5)
    assert found(scores, "mrr", "all", matching="common").n == 6
    assert found(scores, "greedy", "template=call;mode=full", matching="common").n == 8
    alone = lens.score(scoring(queries, mine))
    assert not any(score.matching == "common" for score in alone)


def test_rates_and_reciprocal_ranks(many: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> None:
    queries, answers = many
    scores = lens.score(scoring(queries, answers))
    ranks = [
        a["rank"]
        for q, a in zip(queries, answers, strict=True)
        if q["template"] == "call" and q["mode"] in ("full", "first", "last") and a["rank"]
    ]
    for k in KS:
        score = found(scores, "p_at_k", "template=call", matching="single", k=k)
        assert score.value == pytest.approx(mean(rank <= k for rank in ranks))
        assert (score.n, score.n_clusters) == (len(ranks), len(LIBRARIES))
        assert score.ci_low is not None and score.ci_low < score.value < score.ci_high
        strict = found(scores, "p_at_k", "template=call", matching="id", k=k)
        assert strict.value == pytest.approx(mean(rank + 1 <= k for rank in ranks))
    mrr = found(scores, "mrr", "template=call", matching="single")
    assert mrr.value == pytest.approx(mean(1 / rank for rank in ranks))


def test_cuts(many: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> None:
    queries, answers = many
    scores = lens.score(scoring(queries, answers, min_count=5))
    groups: dict[str, list[int]] = defaultdict(list)
    for q, a in zip(queries, answers, strict=True):
        if q["template"] != "import" or not a["rank"]:
            continue
        groups[f"mode={q['mode']}"].append(a["rank"])
        if q["mode"] in ("full", "first", "last"):
            groups[f"place={('top', 'inner', 'member')[q['level']]}"].append(a["rank"])
            calls = q["calls"]
            bucket = "1" if calls == 1 else "2-4" if calls < 5 else "5-19" if calls < 20 else "20+"
            groups[f"calls={bucket}"].append(a["rank"])
            groups[f"library={q['library']}"].append(a["rank"])
    assert len(groups) > 20
    for name, ranks in groups.items():
        score = found(scores, "p_at_k", f"template=import;{name}", k=10)
        assert score.value == pytest.approx(mean(rank <= 10 for rank in ranks)), name
        assert score.n == len(ranks)


def test_unasked_answers_are_counted(many: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> None:
    queries, answers = many
    scores = lens.score(scoring(queries, answers))
    status = [
        a["status"]
        for q, a in zip(queries, answers, strict=True)
        if q["template"] == "call" and q["mode"] != "whole"
    ]
    share = found(scores, "share_cut", "template=call")
    assert share.value == pytest.approx(mean(one == UNSPELLABLE for one in status))


def test_several_right_answers() -> None:
    prompt = {"prefix": "np.", "suffix": "("}
    queries = [query(number, **prompt, answer=name) for number, name in enumerate(["ones", "zeros", "full"])]
    queries.append(query(3, prefix="os.", answer="path"))
    answers = [answer("q0", 2), answer("q1", 5), answer("q2", 9), answer("q3", 4)]
    frame = rank_answers(*tables(queries, answers))
    assert frame["rank_filtered"].to_list() == [2, 4, 7, 4]
    assert frame["rank_any"].to_list() == [2, 2, 2, 4]


def test_the_same_statement_asked_twice_is_one_answer() -> None:
    prompt = {"prefix": "import a as k\nk.", "suffix": "(", "answer": "f", "template": "adversarial"}
    frame = rank_answers(
        *tables([query(0, **prompt), query(1, **prompt)], [answer("q0", 3), answer("q1", 3)])
    )
    assert frame["rank_filtered"].to_list() == [3, 3]


def test_controls_of_the_corpus_are_read_from_the_queries() -> None:
    queries = [query(number, library=f"l{number}", majority=1 + number, unigram=20) for number in range(12)]
    scores = lens.score(scoring(queries, [answer(f"q{number}", 1) for number in range(12)]))
    assert found(scores, "p_at_k", "all", control="majority", k=10).value == pytest.approx(10 / 12)
    assert found(scores, "p_at_k", "all", control="unigram", k=10).value == 0
    assert found(scores, "p_at_k_gain", "all", control="majority", k=1).value == pytest.approx(11 / 12)


def test_controls_stand_beside_the_model() -> None:
    queries = [query(number, library=f"l{number % 12}") for number in range(48)]
    answers = [answer(f"q{number}", 1 if number % 2 else 7) for number in range(48)]
    control = [answer(f"q{number}", 60 if number % 3 else 1) for number in range(24)]
    scores = lens.score(scoring(queries, answers, control=control))
    own = found(scores, "p_at_k", "template=call", control="random_weights", k=1)
    assert (own.value, own.n) == (pytest.approx(8 / 24), 24)
    gain = found(scores, "p_at_k_gain", "template=call", control="random_weights", k=1)
    assert gain.value == pytest.approx(0.5 - 8 / 24)
    assert gain.n == 24


def test_adversarial_aliases_are_compared_in_pairs() -> None:
    queries, answers, differences = [], [], []
    rng = np.random.default_rng(1)
    for number in range(40):
        library = f"l{number % 12}"
        queries.append(query(number, template="alias", library=library, alias="np"))
        rank = int(rng.integers(1, 12))
        answers.append(answer(f"q{number}", rank))
        others = rng.integers(1, 12, size=10).tolist()
        for place, other in enumerate(others):
            made = query(1000 + 10 * number + place, template="adversarial", library=library)
            queries.append({**made, "base_id": f"q{number}"})
            answers.append(answer(made["query_id"], other))
        differences.append((rank <= 5) - mean(other <= 5 for other in others))
    score = found(lens.score(scoring(queries, answers)), "p_at_k", "template=alias-adversarial", k=5)
    assert score.value == pytest.approx(mean(differences))
    assert (score.n, score.n_clusters) == (40, 12)


def test_words_are_averaged_within_a_query() -> None:
    queries = [query(number, library=f"l{number}") for number in range(12)]
    answers = [answer(f"q{number}", 9) for number in range(12)]
    for number in range(6):
        for place, rank in enumerate((1, 1, 9) if number < 3 else (9,)):
            made = query(
                100 + 10 * number + place, context="Do it.", base_id=f"q{number}", library=f"l{number}"
            )
            queries.append(made)
            answers.append(answer(made["query_id"], rank))
    scores = lens.score(scoring(queries, answers))
    named = "template=call;words="
    assert found(scores, "p_at_k", f"{named}with", k=1).value == pytest.approx(3 * (2 / 3) / 6)
    assert found(scores, "p_at_k", f"{named}without", k=1).value == 0
    difference = found(scores, "p_at_k", f"{named}with-without", k=1)
    assert (difference.value, difference.n) == (pytest.approx(1 / 3), 6)
    # Queries behind words stand in no other table.
    assert found(scores, "p_at_k", "template=call", matching="single", k=10).n == 12


def test_statements_are_ranked_among_their_candidates() -> None:
    queries = [query(0, candidates=["f0", "g", "h"]), query(1, candidates=["f1", "g"])]
    _, labels = tables(queries, [])
    items = collect_statements(labels)
    assert [item.text for item in items] == ["lib0.f0(", "lib0.g(", "lib0.h(", "lib1.f1(", "lib1.g("]
    nats = {"lib0.f0(": (6.0, 3), "lib0.g(": (5.0, 1), "lib0.h(": (6.0, 3), "lib1.f1(": (1.0, 2)}
    answers = [
        {"item_id": item.item_id, "status": TEXT, "nats": nats[item.text][0], "pieces": nats[item.text][1]}
        for item in items
        if item.text in nats
    ]
    frame = rank_statements(pl.DataFrame(answers, schema=dict(ANSWERS_SCHEMA), orient="row"), labels)
    # The tie counts against the right one; the second query lacks a statement.
    assert frame.select("query_id", "rank", "rank_per_piece", "competing").rows() == [("q0", 3, 2, 3)]
    assert [item.item_id for item in items[:3]] == candidate_ids(next(labels.iter_rows(named=True)))


def test_candidate_tables() -> None:
    queries = [query(number, library=f"l{number}", candidates=[f"f{number}", "g"]) for number in range(12)]
    _, labels = tables(queries, [])
    answers = [
        {
            "item_id": item.item_id,
            "status": TEXT,
            "nats": 1.0 if "g" in item.text else 0.5 + n % 2,
            "pieces": 2,
        }
        for n, item in enumerate(collect_statements(labels))
    ]
    scores = lens.score(
        ScoringContext(
            observations=pl.DataFrame(answers, schema=dict(ANSWERS_SCHEMA), orient="row").lazy(),
            items=pl.DataFrame(),
            template=Score(model="m", lens="cloze", metric="", value=0.0, n=0, n_clusters=0),
            settings=LensSettings(options={"objective": "candidates"}),
            labels={"api_cloze": labels},
        )
    )
    best = found(scores, "p_at_k", "template=call", matching="candidates", aggregation="sum", k=1)
    assert best.value == 1.0
    assert found(scores, "p_at_k", "template=call", control="chance", k=1).value == pytest.approx(0.5)
    assert found(scores, "mrr", "template=call", control="chance").value == pytest.approx(0.75)


def test_nothing_is_said_of_k_where_no_more_than_k_compete() -> None:
    sizes = [2, 6, 12]
    queries = [
        query(
            number,
            library=f"l{number}",
            majority=1,
            candidates=[f"f{number}", *(f"g{at}" for at in range(sizes[number % 3] - 1))],
            aliases=0,
        )
        for number in range(30)
    ]
    queries += [{**one, "query_id": f"x{at}", "frame": "spaced"} for at, one in enumerate(queries)]
    _, labels = tables(queries, [])
    rows = [
        {"item_id": item.item_id, "status": TEXT, "nats": 1.0 + at % 3, "pieces": 2}
        for at, item in enumerate(collect_statements(labels))
    ]
    given = dataclasses.replace(
        scoring(queries, [], objective="candidates"),
        observations=pl.DataFrame(rows, schema=dict(ANSWERS_SCHEMA), orient="row").lazy(),
    )
    scores = lens.score(given)
    for control in (None, "chance", "majority"):
        counts = {
            score.k: score.n
            for score in scores
            if (score.metric, slice_of(score.dimensions), score.control) == ("p_at_k", "all", control)
            and score.aggregation == "sum"
            and score.matching == "candidates"
        }
        assert counts == {1: 30, 5: 20, 10: 10}
    assert found(scores, "p_at_k", "all", control="chance", k=5).value == pytest.approx((5 / 6 + 5 / 12) / 2)
    assert found(scores, "p_at_k", "all", control="chance", k=10).value == pytest.approx(10 / 12)
    # Chance is a control like the others: the model is compared with it query by query.
    for k in (1, 5, 10):
        own = found(scores, "p_at_k", "all", matching="candidates", aggregation="sum", k=k).value
        at_random = found(scores, "p_at_k", "all", control="chance", k=k).value
        gain = found(scores, "p_at_k_gain", "all", control="chance", k=k)
        assert gain.value == pytest.approx(own - at_random)
        assert gain.ci_low < gain.value < gain.ci_high
    largest = max(score.k or 0 for score in scores if score.metric.startswith("p_at_k"))
    assert largest == 10


def test_words_are_preferred_where_no_answer_is_published() -> None:
    words = [
        ("e1", "max", 2.0),
        ("e1", "min", 1.0),
        ("e2", "max", 3.0),
        ("e2", "min", 3.0),
        ("e3", "max", 1.0),
    ]
    queries = [
        query(number, template="clozetest", name=name, answer=word, prefix=name, candidates=[word])
        for number, (name, word, _) in enumerate([*words, ("e3", "min", None)])
    ]
    answers = [answer(f"q{number}", 1, nats=nats) for number, (_, _, nats) in enumerate(words)]
    answers.append(answer("q5", None))
    observations, labels = tables(queries, answers)
    assert select_preferred_words(observations, labels).select("name", "word").rows() == [
        ("e1", "min"),
        ("e2", "max"),
    ]
    scores = lens.score(scoring(queries, answers))
    assert [(slice_of(score.dimensions), score.value, score.n, score.control) for score in scores] == [
        (f"template=clozetest;word={word}", 0.5, 2, control)
        for control in (None, "chance")
        for word in ("max", "min")
    ]
    texts = [
        {"item_id": item.item_id, "status": TEXT, "nats": float(number), "pieces": 3}
        for number, item in enumerate(collect_statements(labels))
    ]
    whole = pl.DataFrame(texts, schema=dict(ANSWERS_SCHEMA), orient="row")
    found_words = select_preferred_words(whole, labels).select("name", "word").rows()
    assert found_words == [("e1", "max"), ("e2", "max"), ("e3", "max")]


def test_the_shared_vocabulary_is_ranked_beside_the_own_one() -> None:
    models = ["sonde/mini-encoder", "sonde/mini-decoder"]
    queries = [query(number, answer=word) for number, word in enumerate(("path", "join", "xqzv", "os"))]
    ranks = [(12, 3), (99, 60), (5, None), (1, 1)]
    answers = [answer(f"q{number}", rank, rank_unified=shared) for number, (rank, shared) in enumerate(ranks)]
    frame = with_agreement(rank_answers(*tables(queries, answers)), models)
    cut = [
        load_tokenizer(ModelSpec(name=name))(
            [one["answer"] for one in queries], add_special_tokens=False
        ).tokens
        for name in models
    ]
    assert frame["agree"].to_list() == [cut[0](at) == cut[1](at) for at in range(len(queries))]
    scores = lens.score(
        dataclasses.replace(scoring(queries, answers, unified=",".join(models)), template=OWN)
    )
    score = found(scores, "p_at_k", "template=call", matching="unified", k=50)
    assert (score.n, score.value) == (3, pytest.approx(2 / 3))
    assert found(scores, "p_at_k", "template=call", matching="single", k=50).n == 4
    assert sum(slice_of(score.dimensions).startswith("template=call;agree=") for score in scores) >= 1


def test_candidates_of_the_shared_vocabulary_are_ranked_beside_all() -> None:
    names = ["b", "a", "c", "d"]
    queries = [query(0, answer="b", candidates=names), query(1, answer="d", candidates=names[::-1])]
    labels = pl.DataFrame(queries, schema=dict(QUERY_SCHEMA), orient="row")
    nats = {"a": 1.0, "b": 2.0, "c": 0.5, "d": 3.0}
    rows = [
        {"item_id": item, "status": TEXT, "nats": nats[name], "pieces": 1}
        for one in labels.iter_rows(named=True)
        for item, name in zip(candidate_ids(one), one["candidates"], strict=True)
    ]
    answers = pl.DataFrame(rows, schema=dict(ANSWERS_SCHEMA), orient="row")
    frame = rank_statements(answers, labels, frozenset({"a", "b"}))
    assert frame.select("rank", "rank_unified").rows() == [(3, 2), (4, None)]
    assert rank_statements(answers, labels)["rank_unified"].to_list() == [None, None]


OWN = Score(model="sonde/mini-encoder", lens="cloze", metric="", value=0.0, n=0, n_clusters=0)


def test_vocabularies_that_share_nothing_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabularies = iter([get_vocabulary(("x", "y")), get_vocabulary(("u", "v"))])
    monkeypatch.setattr(cloze_vocabulary, "get_vocabulary", lambda _surfaces: next(vocabularies))
    tokenizer = load_tokenizer(ModelSpec(name="sonde/mini-encoder"))
    monkeypatch.setattr(cloze_vocabulary, "load_tokenizer", lambda spec: tokenizer)
    with pytest.raises(InputError, match="a, b share no subtoken"):
        cloze_vocabulary.shared_surfaces(("a", "b"))


def test_a_library_is_seen_where_a_training_file_calls_it(tmp_path: Path) -> None:
    pl.DataFrame({"path": ["x.py", "y.py"], "seen_in_training": [True, False]}).write_parquet(
        tmp_path / "manifest.parquet"
    )
    queries = [
        query(0, library="a", paths=[path_number("x.py"), path_number("z.py")]),
        query(1, library="a", paths=[path_number("z.py")]),
        query(2, library="b", paths=[path_number("y.py")]),
    ]
    frame = rank_answers(*tables(queries, [answer(f"q{number}", 1) for number in range(3)]))
    assert with_seen_libraries(frame, str(tmp_path))["seen"].to_list() == [True, True, False]
    assert with_seen_libraries(frame, "org/unknown")["seen"].to_list() == [None] * 3


def test_the_headline_names_the_best_control() -> None:
    queries = [query(number, library=f"l{number % 12}") for number in range(24)]
    answers = [answer(f"q{number}", 1 if number % 2 else 20) for number in range(24)]
    scores = with_slices(
        scores_to_frame(lens.score(scoring(queries, answers, control=[answer("q0", 1), answer("q1", 9)])))
    )
    lines = list(lens.details(scores))
    assert len(lines) == 4
    assert lines[2].split()[:3] == ["call", "k=1", "50.0"]
    assert re.search(r"best control: random_weights 50\.0 \[[\d.]+, [\d.]+\]$", lines[2])
    assert list(lens.details(scores.clear())) == []


def test_the_headline_of_statements_has_a_line_a_template_and_k() -> None:
    others = [f"g{number}" for number in range(11)]
    queries = [
        query(number, library=f"l{number}", candidates=[f"f{number}", *others]) for number in range(12)
    ]
    _, labels = tables(queries, [])
    rows = [
        {"item_id": item.item_id, "status": TEXT, "nats": 1.0, "pieces": 2}
        for item in collect_statements(labels)
    ]
    given = dataclasses.replace(
        scoring(queries, [], objective="candidates"),
        observations=pl.DataFrame(rows, schema=dict(ANSWERS_SCHEMA), orient="row").lazy(),
    )
    lines = list(lens.details(with_slices(scores_to_frame(lens.score(given)))))
    assert [line.split()[:2] for line in lines[2:]] == [["call", "k=1"], ["call", "k=10"]]
