"""Apply the rules of the study's claims to the scores of its runs.

A claim of ``recipes/studies/real-models/claims.toml`` selects scores; each is a test of one model, language
and task. `judge_tests` gives every test an outcome, and `summarise` gives every claim and model a verdict.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from scipy.special import stdtr, stdtrit

from sonde.comparison.summary import add_text_columns, select_overview
from sonde.results import Mean, means
from sonde.results.group_means import match_cells
from sonde.results.layers import find_third, summarise_layers
from sonde.results.schema import has_dimensions, scan_files
from sonde.results.scores import Score, read_scores
from sonde.stats.power import (
    ClusterDesign,
    adjust_p_values,
    degrees_of_freedom,
    detectable_from_score,
    discovery_level,
    standard_error,
)
from sonde.stats.verdict import classify_effect, no_verdict_reason
from sonde.store.run_folder import slug

STUDY = Path(__file__).parents[1] / "recipes" / "studies" / "real-models"
HOLDS, FAILS, OPEN = "holds here", "does not hold here", "not settled"
SAMPLES = ("first", "second")
FALSE_DISCOVERIES = 0.05

Row = Mapping[str, Any]

NUMBERS = (
    "model", "language", "task", "metric", "value", "ci_low", "ci_high", "n", "effective_clusters",
)  # fmt: skip
"""Columns of a test that the page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim, as its table in ``claims.toml`` writes it down.

    Attributes:
        sentence: The claim in words.
        runs: Runs whose scores decide.
        where: Columns of these scores with their values; ``dimensions`` wants exactly these.
        direction: The sign of the difference if the claim is true, ``higher`` or ``lower``.
        family: Claims whose tests are adjusted together.
        least: Smallest difference that matters.
        spread: Assumed standard deviation of one observation, for the power table.
        per_item: Assumed observations per item.
        refuted: What holds if the claim does not.
        untold: What to say if neither is settled.
        paper: The paper that published it; empty for a claim of this study.
        estimand: What is tested, a name of `ESTIMANDS`.
        minus: With ``unpaired``, the scores that are subtracted.
        not_built: Why no run can decide it; empty if one can.
    """

    sentence: str
    runs: tuple[str, ...]
    where: Mapping[str, Any]
    direction: str
    family: str
    least: float
    spread: float
    per_item: float
    refuted: str
    untold: str
    paper: str = ""
    estimand: str = "stored"
    minus: Mapping[str, Any] = field(default_factory=dict)
    not_built: str = ""

    def detectable(self, clusters: Sequence[int]) -> float:
        """Return the smallest difference that four of five samples of clusters of these sizes show."""
        design = ClusterDesign.from_sizes(clusters)
        design = dataclasses.replace(design, items=self.per_item * design.items)
        return design.detectable(self.spread)


def load_claims() -> dict[str, Claim]:
    """Load the claims by name, in the order of the page."""
    tables = tomllib.loads((STUDY / "claims.toml").read_text(encoding="utf-8"))
    claims: dict[str, Claim] = {}
    for name, table in tables.items():
        fields: dict[str, Any] = {**table, "runs": tuple(table["runs"])}
        claims[name] = Claim(**fields)
    return claims


def matches(where: Mapping[str, Any]) -> pl.Expr:
    """Return the condition that a claim's ``where`` puts on rows of scores."""
    plain = {name: value for name, value in where.items() if name != "dimensions"}
    conditions = [pl.col(name) == value for name, value in plain.items()]
    if "dimensions" in where:
        conditions.append(has_dimensions(where["dimensions"]))
    return pl.all_horizontal(pl.lit(value=True), *conditions)


def select_stored(claim: Claim, scores: pl.DataFrame, folder: Path) -> Sequence[Row]:
    """Select rows of ``scores.parquet``; of several rows of one test the first counts."""
    rows = scores.filter(matches(claim.where))
    return rows.unique(["model", "language", "task"], keep="first", maintain_order=True).to_dicts()


def subtract_unpaired(claim: Claim, scores: pl.DataFrame, folder: Path) -> Sequence[Row]:
    """Subtract scores of the same model, language and task as if they were of independent samples.

    Both are of the same libraries, so the interval is too wide rather than too narrow.
    """
    other = {
        _key(row): row for row in select_stored(dataclasses.replace(claim, where=claim.minus), scores, folder)
    }
    rows: list[Row] = []
    for row in select_stored(claim, scores, folder):
        if (subtracted := other.get(_key(row))) is None:
            continue
        df = min(degrees_of_freedom(row), degrees_of_freedom(subtracted))
        error = math.hypot(standard_error(row), standard_error(subtracted))
        value = row["value"] - subtracted["value"]
        half = float(stdtrit(df, 0.975)) * error if df >= 1 else math.nan
        clusters = min(row["effective_clusters"], subtracted["effective_clusters"])
        update = {
            "value": value, "ci_low": value - half, "ci_high": value + half, "ci_method": "unpaired",
            "n": row["n"] + subtracted["n"], "n_eff": None, "df": df, "effective_clusters": clusters,
            "p_value": None,
        }  # fmt: skip
        rows.append({**row, **update})
    return rows


def _key(row: Row) -> tuple[str, str, str]:
    return row["model"], row["language"], row["task"]


def compare_models(claim: Claim, scores: pl.DataFrame, folder: Path) -> Sequence[Row]:
    """Take the paired differences of the other models from the run's first, as its comparison has them."""
    differences = add_text_columns(pl.read_parquet(folder / "comparison" / "comparison.parquet"))
    rows = select_overview(differences).with_columns(value="difference").filter(matches(claim.where))
    return [{**row, "n_eff": None, "seeds": None} for row in rows.to_dicts()]


def compare_thirds(claim: Claim, scores: pl.DataFrame, folder: Path) -> Sequence[Row]:
    """Compare the best layer of the middle third with the best one outside, as validation ranks them.

    The run has the paired difference of each layer from the one that validation chose, which is one of both.
    """
    rows = scores.filter(matches({"lens": claim.where["lens"]}))
    valid = rows.filter(
        matches({"metric": claim.where["metric"], "split": "valid", "dimensions": {}})
        & pl.col("control").is_null()
        & pl.col("method").ne_missing("mlp")
    )
    found: list[Row] = []
    for summary in summarise_layers(rows):
        chosen, depth = summary.chosen, 1 + max(layer.layer for layer in summary.layers)
        same = matches({name: summary.accuracy[name] for name in ("model", "task", "language", "pooling")})
        ranked = [
            layer
            for layer, _ in sorted(
                valid.filter(same).select("layer", "value").rows(), key=lambda row: -row[1]
            )
        ]
        is_middle = find_third(chosen, depth) == "middle"
        others = [layer for layer in ranked if (find_third(layer, depth) == "middle") != is_middle]
        differences = {layer.layer: layer.difference for layer in summary.layers}
        if not others or (row := differences.get(others[0])) is None:
            continue
        found.append(_negate(row) if is_middle else row)
    return found


def _negate(row: Row) -> Row:
    return {**row, "value": -row["value"], "ci_low": -row["ci_high"], "ci_high": -row["ci_low"]}


MATCHED = ("cluster", "language", "frequency", "length", "seen", "call_form")


def match_calls(claim: Claim, scores: pl.DataFrame, folder: Path) -> Sequence[Row]:
    """Compare names called in the repository with equal external ones of the same repository."""
    rows: list[Row] = []
    for path in sorted((folder / "observations" / "lens=surprisal").glob("model=*")):
        observations = scan_files(sorted(path.glob("*.parquet")))
        names = select_call_names(observations.select("item_id", "cluster", "language", "units").collect())
        models = scores.filter(pl.col("lens") == "surprisal")["model"].unique().to_list()
        model = next((name for name in models if path.name == f"model={slug(name)}"), path.name)
        rows += [dataclasses.asdict(score) for score in compare_matched(names, model, claim.where["metric"])]
    return rows


def select_call_names(observations: pl.DataFrame) -> pl.DataFrame:
    """Select the names of internal and external calls, with what they are matched on.

    Args:
        observations: ``item_id, cluster, language, units`` of the lens surprisal.

    Returns:
        A row per name with ``nats``; ``frequency`` and ``length`` are in powers of two, and ``seen`` tells
        whether the same word stands earlier in the item.
    """
    units = observations.explode("units").drop_nulls("units").unnest("units").filter(pl.col("word") != "")
    words = units.with_columns(
        frequency=pl.len().over("language", "word").log(2).floor().cast(pl.Int64),
        length=pl.col("word").str.len_chars().log(2).floor().cast(pl.Int64),
        seen=pl.col("start") > pl.col("start").min().over("item_id", "word"),
    )
    named = (pl.col("origin_part") == "name") & (pl.col("role") == "call") & (pl.col("part") == "exact")
    return words.filter(named & pl.col("origin").is_in(["internal", "external"]))


def compare_matched(names: pl.DataFrame, model: str, metric: str) -> list[Score]:
    """Compare internal with external names within cells of equal names, each repository with itself.

    Args:
        names: See `select_call_names`.
        model: The model.
        metric: What the difference is called.
    """
    sums = names.group_by(*MATCHED, "origin").agg(pl.col("nats").sum(), n=pl.len().cast(pl.Float64))
    cells = match_cells(sums, ("origin", "external", "internal"), MATCHED, "nats", "n")
    if cells.is_empty():
        return []
    mean = Mean(metric, pl.col("second"), "nonnegative", per=pl.col("w"), baseline=pl.col("first"))
    template = Score(
        model=model, lens="surprisal", metric=metric, value=0.0, n=0, n_clusters=0, task="call_origin"
    )
    held = int(cells["held"].sum())
    return [
        dataclasses.replace(score, n=held) for score in means(cells, [mean], template, columns=["language"])
    ]


Estimand = Callable[[Claim, pl.DataFrame, Path], Sequence[Row]]

ESTIMANDS: Mapping[str, Estimand] = {
    "stored": select_stored,
    "unpaired": subtract_unpaired,
    "compared": compare_models,
    "middle_layers": compare_thirds,
    "matched_calls": match_calls,
}
"""What a claim tests, by name: functions of the claim, the scores of a run and its folder."""


def select_tests(claim: Claim, folder: Path) -> Sequence[Row]:
    """Return the tests of a claim in a finished run."""
    scores = read_scores(folder / "scores.parquet")
    return [{**row, "p_value": find_p_value(row)} for row in ESTIMANDS[claim.estimand](claim, scores, folder)]


def find_p_value(row: Row) -> float | None:
    """Return the p-value of a difference: the stored one, else that of its interval; None for neither."""
    if row.get("p_value") is not None:
        return float(row["p_value"])
    error = standard_error(row)
    return float(2 * stdtr(degrees_of_freedom(row), -abs(row["value"]) / error)) if error > 0 else None


def is_random(row: Row) -> bool:
    """Return whether a test is that of a copy with random weights."""
    return str(row["model"]).endswith("-random")


def judge_tests(tests: Sequence[tuple[Claim, Row]]) -> list[tuple[str, str]]:
    """Judge all tests of one sample; each family is adjusted by itself, random weights apart.

    A test without a verdict for lack of data is adjusted with no other.

    Returns:
        The outcome of each test, and the reason where it is not settled.
    """
    outcomes: dict[int, tuple[str, str]] = {}
    families: dict[tuple[str, bool], list[int]] = {}
    for number, (claim, row) in enumerate(tests):
        reason = no_verdict_reason(row) or ("" if find_p_value(row) is not None else "no p-value is known")
        if reason:
            outcomes[number] = (OPEN, reason)
        else:
            families.setdefault((claim.family, is_random(row)), []).append(number)
    for numbers in families.values():
        adjusted = adjust_p_values([find_p_value(tests[number][1]) or 0.0 for number in numbers])
        found = sum(value < FALSE_DISCOVERIES for value in adjusted)
        level = discovery_level(len(numbers), found)
        for number, value in zip(numbers, adjusted, strict=True):
            outcomes[number] = _judge(*tests[number], is_sure=value < FALSE_DISCOVERIES, level=level)
    return [outcomes[number] for number in range(len(tests))]


def _judge(claim: Claim, row: Row, *, is_sure: bool, level: float) -> tuple[str, str]:
    low, high = row["ci_low"], row["ci_high"]
    effect = classify_effect(row["value"], low, high, claim.least, is_sure=is_sure and (low > 0 or high < 0))
    if effect == claim.direction:
        return HOLDS, ""
    if effect in ("higher", "lower"):
        return FAILS, ""
    if -claim.least < low and high < claim.least:
        return FAILS, "the difference is smaller than what matters"
    detectable = detectable_from_score(row, FALSE_DISCOVERIES / level)
    return OPEN, f"a difference of {detectable:.2g} would have been found"


def decide(outcomes: Iterable[str]) -> str:
    """Return the outcome of more than half of the tests.

    >>> decide([HOLDS, HOLDS, OPEN]), decide([HOLDS, FAILS]), decide([])
    ('holds here', 'not settled', 'not settled')
    """
    counts = Counter(outcomes)
    return next((word for word in (HOLDS, FAILS) if 2 * counts[word] > counts.total()), OPEN)


def summarise(
    claims: Mapping[str, Claim], tests: Mapping[str, Mapping[str, Sequence[Row]]]
) -> dict[str, Any]:
    """Return the verdict of each claim for each model, with the numbers behind it.

    Args:
        claims: The claims by name.
        tests: Tests by sample and claim.
    """
    verdicts: dict[str, dict[str, Any]] = {}
    for sample, by_claim in tests.items():
        pairs = [(name, row) for name, rows in by_claim.items() for row in rows]
        outcomes = judge_tests([(claims[name], row) for name, row in pairs])
        for (name, row), (outcome, reason) in zip(pairs, outcomes, strict=True):
            model = verdicts.setdefault(name, {}).setdefault(row["model"], {"samples": {}})
            numbers = {column: row[column] for column in NUMBERS}
            model["samples"].setdefault(sample, []).append({**numbers, "outcome": outcome, "reason": reason})
    for models in verdicts.values():
        for model in models.values():
            decided = {decide(test["outcome"] for test in found) for found in model["samples"].values()}
            is_complete = set(model["samples"]) == set(SAMPLES)
            model["verdict"] = decided.pop() if is_complete and len(decided) == 1 else OPEN
    return verdicts
