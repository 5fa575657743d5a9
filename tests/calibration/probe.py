"""How often probes of labels that mean nothing, or the length alone, are said to beat or lose to the surface.

Of the same labels by coin, how often they are called encoded at any layer.

States of the bundled encoder over functions of the standard library are read once; each draw labels them anew
and goes through the lens, its folds, its baselines and the rule of the page's first screen.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

import sonde
from sonde.lenses import LENSES
from sonde.lenses.engine.lens import LensSettings, ScoringContext
from sonde.lenses.probe.fit import read_options
from sonde.lenses.probe.score import score_task
from sonde.results import Score
from sonde.results.headlines import ABOVE, BELOW, SLIGHT, compare_with_controls
from sonde.results.layers import Status, summarise_layers
from sonde.results.scores import scores_to_frame
from tests.calibration import Row, at_most_by_chance

DRAWS, SHORT = 100, 5
"""Of labels by coin; of tertiles of the length a fifth of them."""

_FUNCTIONS = 300
_TASK = "len"
_OPTIONS = {"pooling": ["mean"], "curves": False, "probe": ["linear"], "device": "cpu"}


def run(draws: int, seed: int) -> list[Row]:
    """Two rows for labels by coin, one for tertiles of the length."""
    rng = np.random.default_rng([seed, 3])
    with _observed() as scoring:
        table = scoring.labels[_TASK]
        coins = [_verdicts(scoring, _coins(table, rng), place) for place in range(draws)]
        tertiles = [_verdicts(scoring, _tertiles(table, rng), place) for place in range(max(draws // 5, 1))]
    false = sum(one in (ABOVE, BELOW, SLIGHT) for one, _ in coins)
    encoded = sum(status not in ("absent", "open") for _, status in coins)
    beats = sum(one == ABOVE for one, _ in tertiles)
    return [
        Row("labels by coin are said to differ from the surface", draws, false, at_most_by_chance(draws)),
        Row("labels by coin are called encoded at some layer", draws, encoded, at_most_by_chance(draws)),
        Row(
            "tertiles of the length beat the surface",
            len(tertiles),
            beats,
            at_most_by_chance(len(tertiles)),
        ),
    ]


@contextmanager
def _observed() -> Iterator[ScoringContext]:
    """What a run over real functions holds, to be scored with other labels."""
    with tempfile.TemporaryDirectory() as folder:
        run = sonde.run(
            models=["sonde/mini-encoder"],
            lenses=["probe"],
            tasks=[_TASK],
            limit=_FUNCTIONS,
            options={"probe": _OPTIONS | {"controls": False}},
            output=Path(folder) / "run",
            workers=1,
        )
        yield _scoring(run.directory)


def _scoring(root: Path) -> ScoringContext:
    labels = next(path for path in root.glob(f"labels/task={_TASK}/*.parquet") if ".inputs" not in path.name)
    items = pl.read_parquet(root / "items.parquet")
    template = Score(
        model="sonde/mini-encoder", lens="probe", language="python", metric="", value=0, n=0, n_clusters=0
    )
    return ScoringContext(
        observations=pl.scan_parquet(sorted(root.glob("observations/**/*.parquet"))),
        items=items,
        template=template,
        settings=LensSettings(options=_OPTIONS),
        labels={_TASK: pl.read_parquet(labels)},
        texts=items.lazy().select("item_id", "text"),
    )


def _coins(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    coins = np.array(["heads", "tails"], object)[rng.integers(2, size=table.height)]
    return table.with_columns(label=pl.Series(coins.tolist()), value=None)


def _tertiles(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Two thirds of the functions, by whether they are short, middling or long."""
    kept = table.filter(pl.Series(rng.random(table.height) < 2 / 3))
    third = pl.col("tokens").qcut(3, labels=["short", "middling", "long"])
    return kept.with_columns(label=third.cast(pl.String), value=None)


def _verdicts(scoring: ScoringContext, table: pl.DataFrame, seed: int) -> tuple[str, Status]:
    """What the page's first screen says of the probe of these labels, and what the account of its layers."""
    own = replace(scoring, labels={_TASK: table}, template=replace(scoring.template, seed=seed), answers=[])
    rows = list(score_task(own, _TASK, read_options(scoring.settings)))
    scores = scores_to_frame(rows)
    headline = LENSES.load("probe").headline
    assert headline is not None
    held = compare_with_controls(scores.filter(headline.where).to_dicts(), headline)
    assert held is not None and held.gain is not None
    (account,) = summarise_layers(scores)
    return held.kind, account.status
