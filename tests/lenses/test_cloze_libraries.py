"""Libraries by use and releases, against loops over answers written by hand."""

from collections import defaultdict
from statistics import mean
from typing import Any

import polars as pl
import pytest
from tests.lenses.test_cloze_scores import answer, found, query, scoring
from tests.slices import slice_of

from sonde.lenses.cloze import lens
from sonde.lenses.cloze.libraries import scores_by_use
from sonde.results import Score

USERS = [f"d{number}" for number in range(12)]


def queries_of_two_libraries() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for library, size in (("numpy", 40), ("polars", 20)):
        for number in range(size):
            at = len(rows)
            used = USERS[: 1 + number % 12]
            rows.append(
                query(at, library=library, name=f"{library}.f{number}", users=used, majority=1 + number % 3)
            )
            rank = None if number % 7 == 0 else 1 + (number % 4 > 1)
            answers.append(answer(f"q{at}", rank))
    return rows, answers


def test_a_library_is_weighed_by_who_uses_its_names() -> None:
    queries, answers = queries_of_two_libraries()
    scores = list(lens.score(scoring(queries, answers)))
    ranks = {one["query_id"]: one["rank"] for one in answers}
    for library in ("numpy", "polars"):
        mine = [one for one in queries if one["library"] == library]
        pairs = [(ranks[one["query_id"]], user, one["majority"]) for one in mine for user in one["users"]]
        ranked = [(rank == 1, majority == 1) for rank, _, majority in pairs if rank is not None]
        score = found(scores, "known_by_use", f"library={library}")
        assert score.value == pytest.approx(mean(hit for hit, _ in ranked))
        assert (score.n, score.n_clusters) == (len(ranked), 12)
        assert score.ci_low is not None and score.ci_high is not None
        assert score.ci_low < score.value < score.ci_high
        control = found(scores, "known_by_use", f"library={library}", control="majority")
        assert control.value == pytest.approx(mean(hit for _, hit in ranked))
        gain = found(scores, "known_by_use_gain", f"library={library}", control="majority")
        assert gain.value == pytest.approx(score.value - control.value)
        # What was not asked stays in sight.
        asked = found(scores, "asked_by_use", f"library={library}")
        assert asked.value == pytest.approx(len(ranked) / len(pairs))
        assert found(scores, "names", f"library={library}").value == len(mine)


def test_deciles_go_from_the_names_used_most() -> None:
    queries, answers = queries_of_two_libraries()
    scores = list(lens.score(scoring(queries, answers)))
    used: defaultdict[int, set[str]] = defaultdict(set)
    mine = sorted(
        (one for one in queries if one["library"] == "numpy"),
        key=lambda one: (-len(one["users"]), one["name"]),
    )
    for at, one in enumerate(mine):
        used[1 + 10 * at // len(mine)].add(one["query_id"])
    ranks = {one["query_id"]: one["rank"] for one in answers}
    for decile, members in used.items():
        pairs = [
            ranks[one["query_id"]] == 1
            for one in mine
            if one["query_id"] in members and ranks[one["query_id"]] is not None
            for _ in one["users"]
        ]
        score = found(scores, "known_by_use", f"library=numpy;decile={decile}")
        assert score.value == pytest.approx(mean(pairs))
        assert found(scores, "names", f"library=numpy;decile={decile}").value == len(members)


def test_libraries_with_few_queries_have_no_row() -> None:
    queries, answers = queries_of_two_libraries()
    scores = list(lens.score(scoring(queries, answers, min_count=30)))
    assert {
        slice_of(score.dimensions)
        for score in scores
        if score.metric == "names" and "decile" not in slice_of(score.dimensions)
    } == {"library=numpy"}


def test_new_names_are_held_apart_from_kept_ones() -> None:
    queries = [
        query(number, name=f"lib.f{number}", release="new" if number % 3 else "kept", users=[])
        for number in range(60)
    ]
    answers = [answer(f"q{number}", 1 if number % 3 == 0 or number % 2 else 20) for number in range(60)]
    scores = list(lens.score(scoring(queries, answers)))
    new, kept = (found(scores, "p_at_k", f"release={side}", k=1) for side in ("new", "kept"))
    assert (new.n_clusters, kept.n_clusters) == (40, 20)
    assert kept.value == 1.0
    assert new.value == pytest.approx(0.5)
    apart = found(scores, "p_at_k", "release=new-kept", k=1)
    assert apart.value == pytest.approx(-0.5)
    assert found(scores, "asked_in_release", "release=new").value == 1.0


def test_a_release_has_the_same_controls_on_both_sides() -> None:
    queries = [
        query(number, name=f"lib.f{number}", release="new" if number % 3 else "kept", users=[])
        | {"majority": 1 if number % 5 == 0 else 30}
        for number in range(60)
    ]
    ranks = {f"q{number}": 1 if number % 2 else 20 for number in range(60)}
    scores = list(lens.score(scoring(queries, [answer(*one) for one in ranks.items()])))
    rates: dict[str, float] = {}
    for side in ("new", "kept"):
        mine = [one for one in queries if one["release"] == side]
        rates[side] = mean(one["majority"] == 1 for one in mine)
        control = found(scores, "p_at_k", f"release={side}", control="majority", k=1)
        assert control.value == pytest.approx(rates[side])
        gain = found(scores, "p_at_k_gain", f"release={side}", control="majority", k=1)
        assert gain.value == pytest.approx(mean(ranks[one["query_id"]] == 1 for one in mine) - rates[side])
        assert gain.ci_low is not None and gain.ci_high is not None
    apart = found(scores, "p_at_k", "release=new-kept", control="majority", k=1)
    assert apart.value == pytest.approx(rates["new"] - rates["kept"])


def test_chance_stands_beside_answers_that_compete() -> None:
    """Of four names one is right by chance in a quarter of the uses, whoever the library is."""
    queries = [query(number, users=USERS[:3]) for number in range(40)]
    frame = pl.DataFrame(queries).with_columns(
        competing=pl.lit(4), rank=pl.int_range(pl.len()) % 4 + 1, place=pl.lit("member")
    )
    base = Score(model="m", lens="cloze", metric="", value=float("nan"), n=0, n_clusters=0)
    scores = list(scores_by_use(frame, base, 20))
    where = f"library={queries[0]['library']}"
    assert found(scores, "known_by_use", where, control="chance").value == pytest.approx(0.25)
    gain = found(scores, "known_by_use_gain", where, control="chance")
    assert gain.value == pytest.approx(found(scores, "known_by_use", where).value - 0.25)


def test_nothing_is_said_where_nobody_else_calls() -> None:
    queries = [query(number, users=[]) for number in range(30)]
    scores = list(lens.score(scoring(queries, [answer(f"q{number}", 1) for number in range(30)])))
    assert not {"known_by_use", "asked_in_release"} & {score.metric for score in scores}
