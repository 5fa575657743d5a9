"""The study of real models: its files fit together, and each claim's rule finds only what is planted."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tools import claims as rules
from tools import study
from tools.claims import FAILS, HOLDS, OPEN, Claim, Row
from tools.fetch_models import MODELS

from generators import real_models
from sonde.corpora import Item
from sonde.experiments.experiment import load_experiment
from sonde.results import Mean, Score, means
from sonde.results.scores import SCORES_SCHEMA, scores_to_frame

CLAIMS = rules.load_claims()
STORED = [name for name, claim in CLAIMS.items() if claim.runs and claim.estimand == "stored"]
TASKS = ("a", "b", "c")


def measure(seed: int, shift: float, clusters: int, spread: float, **fields: Any) -> Score:
    """Score the mean difference of made observations; it is planted, and clusters differ a little."""
    random = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), 12)
    values = shift + random.normal(0, spread / 10, clusters)[cluster] + random.normal(0, spread, len(cluster))
    frame = pl.DataFrame({"value": values, "cluster": cluster})
    dimensions = tuple(fields.pop("dimensions", {}).items())
    template = Score(
        **{"model": "m", "value": 0.0, "n": 0, "n_clusters": 0, "dimensions": dimensions, **fields}
    )
    (score,) = means(frame, [Mean(template.metric, pl.col("value"), "real")], template)
    return score


def make_scores(claim: Claim, shift: float, clusters: int = 60, spread: float = 0.3) -> pl.DataFrame:
    """Make scores that a stored claim selects, a test for each task, beside rows that it does not select."""
    where = {"task": "", **claim.where}
    tasks = TASKS if "task" not in claim.where else (where["task"],)
    scores = [
        measure(seed, shift, clusters, spread, **{**where, "task": task, "language": "python"})
        for seed, task in enumerate(tasks)
    ]
    others = [dataclasses.replace(score, value=-9 * score.value, metric="other") for score in scores]
    return scores_to_frame([*others, *scores])


def judge(claim: Claim, tests: Sequence[Row]) -> str:
    """Return the verdict of one sample."""
    return rules.decide(outcome for outcome, _ in rules.judge_tests([(claim, row) for row in tests]))


@pytest.mark.parametrize("name", STORED)
def test_a_planted_truth_is_found_and_its_opposite_refuted(name: str) -> None:
    claim = CLAIMS[name]
    sign = 1 if claim.direction == "higher" else -1
    for planted, verdict in ((sign, HOLDS), (-sign, FAILS)):
        scores = make_scores(claim, planted * max(0.2, 5 * claim.least))
        assert judge(claim, rules.select_stored(claim, scores, Path())) == verdict


@pytest.mark.parametrize("name", STORED)
def test_where_nothing_is_nothing_holds(name: str) -> None:
    claim = CLAIMS[name]
    assert judge(claim, rules.select_stored(claim, make_scores(claim, 0.0), Path())) == OPEN
    precise = make_scores(claim, 0.0, clusters=400, spread=claim.least / 10)
    assert judge(claim, rules.select_stored(claim, precise, Path())) == FAILS


@pytest.mark.parametrize("name", STORED)
def test_too_little_data_settles_nothing(name: str) -> None:
    claim = CLAIMS[name]
    sign = 1 if claim.direction == "higher" else -1
    tests = rules.select_stored(claim, make_scores(claim, sign, clusters=6), Path())
    assert tests
    assert {outcome for outcome, _ in rules.judge_tests([(claim, row) for row in tests])} == {OPEN}
    assert "effective clusters" in rules.judge_tests([(claim, tests[0])])[0][1]


def test_a_family_of_nothing_finds_little() -> None:
    claim = CLAIMS["probes-surface"]
    found = 0
    for draw in range(40):
        rows = [
            dataclasses.asdict(measure(1000 * draw + task, 0.0, 40, 0.3, lens="probe", metric="gain"))
            for task in range(15)
        ]
        found += any(outcome == HOLDS for outcome, _ in rules.judge_tests([(claim, row) for row in rows]))
    assert found <= 5, "at 5 % in 40 families, more than five have a chance below 1 %"


def make_names(internal_nats: float, frequent_nats: float) -> Iterator[dict[str, Any]]:
    """Yield units of names in 30 repositories: internal names are rare there, and rare names cost more."""
    random = np.random.default_rng(0)
    for repository in range(30):
        units: list[dict[str, Any]] = []
        for place in range(60):
            internal = place % 3 == 0
            is_rare = random.random() < (0.9 if internal else 0.3)
            word = f"rare{repository:02}{place:02}" if is_rare else "frequen1"
            nats = (8.0 if is_rare else frequent_nats) + internal * internal_nats + random.normal(0, 0.5)
            origin = "internal" if internal else "external"
            unit = {
                "start": 10 * place,
                "word": word,
                "role": "call",
                "part": "exact",
                "origin": origin,
            }
            units.append({**unit, "origin_part": "name", "call_form": "bare", "nats": nats})
        yield {"item_id": f"i{repository}", "cluster": f"c{repository}", "language": "python", "units": units}


def test_matching_takes_out_what_frequency_does_and_keeps_what_is_planted() -> None:
    claim = CLAIMS["perplexed-matched"]
    for planted, verdict in ((1.0, HOLDS), (0.0, OPEN), (-1.0, FAILS)):
        names = rules.select_call_names(pl.DataFrame(list(make_names(planted, 2.0))))
        sides = names.group_by("origin").agg(pl.col("nats").mean()).sort("origin")["nats"]
        assert sides[1] - sides[0] > planted + 2, "unmatched, frequency alone makes internal names dear"
        (score,) = rules.compare_matched(names, "m", "nats_per_token")
        assert score.value == pytest.approx(planted, abs=0.15)
        assert judge(claim, [dataclasses.asdict(score)]) == verdict
    (few,) = rules.compare_matched(names.filter(pl.col("cluster") < "c14"), "m", "nats_per_token")
    assert judge(claim, [dataclasses.asdict(few)]) == OPEN


def make_layers(task: str, best: int, gap: float) -> Iterator[Score]:
    """Yield a probe's scores of nine layers, one of them ahead of all others."""
    fields: dict[str, Any] = {
        "lens": "probe",
        "task": task,
        "language": "python",
        "pooling": "mean",
        "method": "linear",
    }
    seed = sum(map(ord, task))
    for layer in range(9):
        level = 0.7 - (gap if layer != best else 0.0) - 0.001 * abs(layer - best)
        for split in ("valid", "test"):
            score = measure(seed, level, 60, 0.1, metric="accuracy", split=split, layer=layer, **fields)
            yield dataclasses.replace(score, value=level)
        if layer != best:
            yield measure(seed, -gap, 60, 0.3, metric="layer_difference", split="test", layer=layer, **fields)
    best_score = measure(seed, 0.7, 60, 0.1, metric="accuracy", split="test", layer=best, **fields)
    yield best_score.within(("selection", "best"))


@pytest.mark.parametrize(
    ("best", "gap", "verdict"),
    [(4, 0.1, HOLDS), (0, 0.1, FAILS), (8, 0.1, FAILS), (4, 0.0, OPEN), (0, 0.0, OPEN)],
)
def test_the_middle_third_is_found_where_it_is_ahead(best: int, gap: float, verdict: str) -> None:
    claim = CLAIMS["inspect-middle"]
    scores = scores_to_frame([score for task in TASKS for score in make_layers(task, best, gap)])
    tests = rules.compare_thirds(claim, scores, Path())
    assert len(tests) == len(TASKS)
    assert all(abs(abs(test["value"]) - gap) < 0.05 for test in tests)
    assert judge(claim, tests) == verdict


@pytest.mark.parametrize(
    ("call", "imported", "verdict"), [(0.6, 0.3, HOLDS), (0.3, 0.6, FAILS), (0.4, 0.4, OPEN)]
)
def test_calls_and_imports_are_told_apart_where_they_differ(
    call: float, imported: float, verdict: str
) -> None:
    claim, random = CLAIMS["ink-calls"], np.random.default_rng(0)
    scores: list[Score] = []
    for where, share in ((claim.where, call), (claim.minus, imported)):
        fields = {name: value for name, value in where.items() if name != "dimensions"}
        template = Score(
            model="m", value=0.0, n=0, n_clusters=0, dimensions=tuple(where["dimensions"].items()), **fields
        )
        frame = pl.DataFrame({"hit": random.random(1200) < share, "cluster": np.repeat(np.arange(60), 20)})
        scores += means(frame, [Mean("p_at_k", pl.col("hit"))], template)
    (test,) = rules.subtract_unpaired(claim, scores_to_frame(scores), Path())
    assert test["value"] == pytest.approx(call - imported, abs=0.06)
    assert judge(claim, [test]) == verdict


def test_a_claim_needs_both_samples_to_agree() -> None:
    claims = {"probes-surface": CLAIMS["probes-surface"]}
    ahead, behind = (
        rules.select_stored(claims["probes-surface"], make_scores(claims["probes-surface"], shift), Path())
        for shift in (0.2, -0.2)
    )
    for second, verdict in ((ahead, HOLDS), (behind, OPEN), (None, OPEN)):
        tests = {"first": {"probes-surface": ahead}}
        if second is not None:
            tests["second"] = {"probes-surface": second}
        assert rules.summarise(claims, tests)["probes-surface"]["m"]["verdict"] == verdict


def test_samples_share_no_cluster_and_are_drawn_by_hash() -> None:
    items = [Item(f"{number}", "", "python", "", cluster=f"c{number % 10}") for number in range(100)]
    samples = study.split_clusters(items, 30)
    first, second = ({item.cluster for item in samples[name]} for name in study.SAMPLES)
    assert len(first) == len(second) == 5 and not first & second
    assert [len(samples[name]) for name in study.SAMPLES] == [30, 30]
    other = study.split_clusters(items[::-1], 100)
    assert {item.cluster for item in other["first"]} == first
    lock = study.describe_sample(samples["first"])
    assert (
        lock == study.describe_sample(samples["first"][::-1]) != study.describe_sample(samples["first"][1:])
    )


def test_every_claim_names_runs_and_columns_that_are_there() -> None:
    runs = study.load_runs()
    for name, claim in CLAIMS.items():
        assert set(claim.runs) <= set(runs) and bool(claim.runs) != bool(claim.not_built), name
        assert set(claim.where) | set(claim.minus) <= set(SCORES_SCHEMA), name
        assert claim.direction in ("higher", "lower") and claim.estimand in rules.ESTIMANDS, name
    assert 2 * sum(run["minutes"] for run in runs.values()) <= 8 * 60


def test_every_run_has_an_experiment_of_one_corpus_and_its_models() -> None:
    for name, run in study.load_runs().items():
        experiment = load_experiment(study.STUDY / f"{name}.toml")
        assert len(experiment.corpora) == 1, name
        files = {model for model in experiment.models if model.startswith("models/")}
        assert files == {f"models/{MODELS[model].path}" for model in run.get("models", ())}, name
        made = {model for model in experiment.models if model.startswith("runs/")}
        assert made == set(run.get("random", ())), name


def test_the_page_says_what_has_no_result_and_what_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(real_models, "RESULTS", tmp_path / "study.json")
    page = real_models.render_page()
    assert "No run is made yet." in page and page.count("| not run yet |") >= 10
    assert "| left out: it needs a GPU" in page and "| not built: " in page
    claims = {"codesyntax-first": CLAIMS["codesyntax-first"]}
    tests = rules.select_stored(
        claims["codesyntax-first"], make_scores(claims["codesyntax-first"], -0.2), Path()
    )
    verdicts = rules.summarise(claims, {sample: {"codesyntax-first": tests[:1]} for sample in rules.SAMPLES})
    stored = {"runs": {}, "verdicts": verdicts, "claims_sha256": ""}
    real_models.RESULTS.write_text(json.dumps(stored))
    page = real_models.render_page()
    assert "| m | holds here | −2" in page and "The claims were changed after the last run." in page
    assert "| m | holds here | −2" in real_models.render_replication()


def test_a_run_that_is_left_out_or_lacks_its_model_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.fetch_models.ROOT", tmp_path)
    monkeypatch.setattr(study, "run_sonde", lambda *_: pytest.fail("it was made"))
    study.main(["pairs"])
    assert capsys.readouterr().out.splitlines()[1].startswith("  skipped: it needs models that are not here")
    study.make("bugs", study.load_runs()["bugs"])
    assert capsys.readouterr().out.startswith("  left out: it needs a GPU")
    study.main(["--plan"])
    assert "together" in capsys.readouterr().out
