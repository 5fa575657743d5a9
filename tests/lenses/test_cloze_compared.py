"""Queries asked otherwise, against loops: frames and their spread, seen and unseen libraries, aliases."""

from collections import defaultdict
from itertools import chain, product
from statistics import mean, stdev
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import t as student
from tests.lenses.test_cloze_scores import answer, found, query, scoring, tables

from sonde.lenses.cloze import lens
from sonde.lenses.cloze.ranks import KS, with_seen_libraries
from sonde.results import Mean, means
from sonde.results.scores import Score
from sonde.stats.intervals import bootstrap_t_factors
from sonde.tasks.engine.cloze_queries import path_number

FRAMES = ("assigned", "commented", "spaced")
Rows = list[dict[str, Any]]

NOTHING = Score(model="m", lens="cloze", metric="", value=float("nan"), n=0, n_clusters=0)


@pytest.fixture(scope="module")
def framed() -> tuple[Rows, Rows]:
    """Forty queries of twelve libraries, each in three frames but one, which lacks a frame."""
    rng = np.random.default_rng(3)
    queries, answers = [], []
    for number in range(40):
        library = f"lib{number % 12}"
        queries.append(query(number, library=library, majority=1))
        answers.append(answer(f"q{number}", int(rng.integers(1, 9))))
        for place, frame in enumerate(FRAMES):
            if number == 7 and frame == "spaced":
                continue
            made = query(100 + 10 * number + place, library=library, frame=frame)
            queries.append({**made, "base_id": f"q{number}"})
            answers.append(answer(made["query_id"], int(rng.integers(1, 9 + 4 * place))))
    return queries, answers


@pytest.fixture(scope="module")
def frame_scores(framed: tuple[Rows, Rows]) -> list[Score]:
    return lens.score(scoring(*framed))


def hits(framed: tuple[Rows, Rows], k: int) -> dict[str, dict[str, list[int]]]:
    """By frame and library, whether each query that was answered in every frame was hit."""
    ranks = {one["query_id"]: one["rank"] for one in framed[1]}
    table: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for one in framed[0]:
        if one["base_id"] != "q7":
            table[one["frame"] or "plain"][one["library"]].append(int(ranks[one["query_id"]] <= k))
    return table


@pytest.mark.parametrize("k", [1, 5, 10])
def test_frames_are_compared_on_the_same_queries(
    framed: tuple[Rows, Rows], frame_scores: list[Score], k: int
) -> None:
    table = hits(framed, k)
    rates = {frame: mean(chain(*by.values())) for frame, by in table.items()}
    assert set(rates) == {"plain", *FRAMES}
    for frame, rate in rates.items():
        score = found(frame_scores, "p_at_k", f"template=call;frame={frame}", k=k)
        assert (score.value, score.n) == (pytest.approx(rate), 39)
    every = found(frame_scores, "p_at_k", "template=call;frame=every", k=k)
    assert (every.value, every.n) == (pytest.approx(mean(rates.values())), 39)
    spread = found(frame_scores, "p_at_k_sd", "template=call", k=k)
    assert spread.value == pytest.approx(stdev(rates.values()))
    reach = found(frame_scores, "p_at_k_range", "template=call", k=k)
    assert reach.value == pytest.approx(max(rates.values()) - min(rates.values()))


def test_the_interval_of_the_spread_leaves_out_one_library_at_a_time(
    framed: tuple[Rows, Rows], frame_scores: list[Score]
) -> None:
    table = hits(framed, 5)
    libraries = sorted(table["plain"])

    def spread(left_out: str) -> float:
        kept = [one for one in libraries if one != left_out]
        return stdev(mean(chain(*(by[one] for one in kept))) for by in table.values())

    whole = spread("")
    sizes = [len(table["plain"][one]) for one in libraries]
    squares = sum((spread(one) - whole) ** 2 for one in libraries)
    error = (squares * (len(libraries) - 1) / len(libraries)) ** 0.5
    effective = sum(sizes) ** 2 / sum(size**2 for size in sizes)
    half = student.ppf(0.975, effective - 1) * error
    score = found(frame_scores, "p_at_k_sd", "template=call", k=5)
    moved = np.array([whole - spread(one) for one in libraries])
    wider = bootstrap_t_factors(np.zeros(len(libraries), int), moved, np.array([whole]), "nonnegative")
    assert score.ci_low == pytest.approx(whole * np.exp(-wider.low[0] * half / whole))
    assert score.ci_high == pytest.approx(whole * np.exp(wider.high[0] * half / whole))
    assert (score.n, score.n_clusters) == (39, 12)


@pytest.mark.parametrize("dimension", ["imports", "imports_hide"])
def test_calls_behind_imports_are_paired_with_the_same_calls_alone(dimension: str) -> None:
    rng = np.random.default_rng(5)
    queries, answers, pairs = [], [], []
    for number in range(60):
        library, shown = f"lib{number % 12}", number % 7 == 0
        behind = query(100 + number, library=library, frame="imports", visible=shown)
        queries += [query(number, library=library), {**behind, "base_id": f"q{number}"}]
        alone, after = (int(rank) for rank in rng.integers(1, 4, size=2))
        answers += [answer(f"q{number}", alone), answer(behind["query_id"], after)]
        if dimension == "imports" or not shown:
            pairs.append({"library": library, "without": alone == 1, "with": after == 1})
    scores = lens.score(scoring(queries, answers))
    template = queries[0]["template"]
    for side in ("with", "without"):
        score = found(scores, "p_at_k", f"template={template};{dimension}={side}", k=1)
        assert score.value == pytest.approx(mean(pair[side] for pair in pairs))
    apart = found(scores, "p_at_k", f"template={template};{dimension}=with-without", k=1)
    differences = pl.DataFrame(pairs).select("library", less=pl.col("with").cast(int) - pl.col("without"))
    (expected,) = means(
        differences, [Mean("p_at_k", pl.col("less"), "difference")], NOTHING, cluster="library"
    )
    assert apart.value == pytest.approx(mean(pair["with"] - pair["without"] for pair in pairs))
    assert (apart.n, apart.n_clusters) == (len(pairs), 12)
    assert apart.ci_low == pytest.approx(expected.ci_low)
    assert apart.ci_high == pytest.approx(expected.ci_high)


def test_framed_queries_stand_in_no_other_table(frame_scores: list[Score]) -> None:
    assert found(frame_scores, "p_at_k", "template=call", matching="single", k=10).n == 40
    assert found(frame_scores, "p_at_k", "template=call", control="majority", k=10).n == 40


def test_seen_and_unseen_at_every_k(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    libraries = [f"lib{number}" for number in range(30)]
    queries, answers = [], []
    for number in range(300):
        library = str(rng.choice(libraries))
        known = int(library[3:]) < 18
        template = str(rng.choice(["call", "import"]))
        name = f"a{rng.integers(30 if known else 12)}"
        queries.append(query(number, library=library, trained=known, template=template, answer=name))
        answers.append(answer(f"q{number}", int(rng.integers(1, 40 if known else 60))))
    scores = lens.score(scoring(queries, answers))
    pairs = list(zip(queries, answers, strict=True))
    for template, k in product(("call", "import"), KS):
        sides = {
            seen: [a["rank"] <= k for q, a in pairs if q["template"] == template and q["trained"] is seen]
            for seen in (True, False)
        }
        for seen, side in sides.items():
            score = found(scores, "p_at_k", f"template={template};seen={str(seen).lower()}", k=k)
            assert (score.value, score.n) == (pytest.approx(mean(side)), len(side))
        gap = found(scores, "p_at_k", f"template={template};seen=true-false", k=k)
        assert gap.value == pytest.approx(mean(sides[True]) - mean(sides[False]))
        assert gap.n_clusters == 30
        assert gap.ci_low is not None and gap.ci_low < gap.value
    mine = {seen: {q["answer"] for q, _ in pairs if q["template"] == "call" and q["trained"] is seen}
            for seen in (True, False)}  # fmt: skip
    share = found(scores, "answer_overlap", "template=call;seen=false")
    assert share.value == pytest.approx(len(mine[True] & mine[False]) / len(mine[False]))
    assert share.n == len(mine[False])
    assert found(scores, "answers", "template=call;seen=true").value == len(mine[True])


def test_a_manifest_says_more_than_a_named_corpus() -> None:
    rows = [query(0, library="a", paths=[path_number("none.py")], trained=True)]
    _, labels = tables(rows, [])
    assert with_seen_libraries(labels, "org/unknown")["seen"].to_list() == [True]
    assert with_seen_libraries(labels, "sonde/mini-encoder")["seen"].to_list() == [False]


def test_names_and_their_aliases_are_counted_once() -> None:
    queries = [query(number, name="np.ones", aliases=2, library="np") for number in range(5)]
    queries += [query(10 + at, name=f"lib{at}.f", aliases=1, library=f"lib{at}") for at in range(3)]
    queries += [query(20 + at, name=f"bare{at}.f", aliases=0, library=f"bare{at}") for at in range(3)]
    scores = lens.score(scoring(queries, [answer(one["query_id"], 1) for one in queries]))
    counted = found(scores, "aliases", "names=aliased")
    assert (counted.value, counted.n) == (pytest.approx(5 / 4), 4)
    assert found(scores, "share_several_aliases", "names=aliased").value == pytest.approx(1 / 4)


def test_a_library_is_resampled_by_its_names() -> None:
    queries = [query(number, library="one", name=f"one.f{number % 15}") for number in range(60)]
    answers = [answer(f"q{number}", 1 + number % 20) for number in range(60)]
    score = found(lens.score(scoring(queries, answers)), "p_at_k", "template=call;library=one", k=10)
    assert (score.n, score.n_clusters) == (60, 15)
    assert score.ci_low is not None and "by name" in score.ci_method
