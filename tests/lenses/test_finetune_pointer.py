"""A planted misuse that a bag of tokens cannot see is located and repaired by the pointer model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.lenses.test_finetune import save_encoder
from tests.slices import with_slices

from sonde.lenses import LensSettings, Method, ScoringContext, Training, load_training_lens
from sonde.models import ModelSpec
from sonde.results.scores import Score, scores_to_frame

LENS = load_training_lens("finetune")
NAMES = "abcdef"
OPTIONS = {"epochs": 12, "length": 48, "batch": 32, "rates": "1e-3", "patience": 12}


def functions(size: int) -> pl.DataFrame:
    """A function has to return its first argument; how often it names either is left to chance."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    for number in range(size):
        first, second = rng.choice(list(NAMES), 2, replace=False)
        calls = [f"    emit({name})\n" for name in rng.choice([first, second], int(rng.integers(1, 4)))]
        buggy = number % 2 == 1
        text = f"def f({first}, {second}):\n{''.join(calls)}    return {second if buggy else first}\n"
        end = len(text) - 1
        rows.append(
            {
                "example_id": f"{number:05}",
                "item_id": f"{number:05}",
                "text": text,
                "start": end - 1 if buggy else 0,
                "end": end if buggy else 0,
                "other_start": 6 if buggy else None,
                "other_end": 7 if buggy else None,
                "label": "Variable misuse" if buggy else "Correct",
                "split": "train" if number < 0.6 * size else "valid" if number < 0.8 * size else "test",
                "cluster": f"c{number % 40}",
                "type": "",
                "characters": len(text),
                "tokens": len(text.split()),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


@pytest.mark.slow
def test_a_planted_misuse_that_a_bag_of_tokens_cannot_see_is_found(tmp_path: Path) -> None:
    examples = functions(2_000)
    encoder = save_encoder(tmp_path / "encoder", examples["text"].to_list()[:200], context=64)
    tables: list[pl.DataFrame] = []
    for name in ("bag_of_tokens", "pretrained"):
        training = Training(
            examples=examples,
            model=ModelSpec(name=str(encoder), device="cpu", dtype="float32"),
            language="python",
            folder=tmp_path / name,
            settings=LensSettings(options=OPTIONS),
        )
        table = LENS.train(Method(name=name, task="misuse_repair", seed=0), training)
        named = {"method": name, "task": "misuse_repair", "seed": 0, "variant": ""}
        tables.append(table.with_columns(**{column: pl.lit(value) for column, value in named.items()}))
    scoring = ScoringContext(
        observations=pl.concat(tables).lazy(),
        items=pl.DataFrame(),
        template=Score(model="m", lens="finetune", metric="", value=0.0, n=0, n_clusters=0),
        settings=LensSettings(),
        labels={"misuse_repair": examples},
    )
    scores = with_slices(scores_to_frame(LENS.score(scoring)))
    told = {
        (row["metric"], row["control"]): row["value"]
        for row in scores.filter(pl.col("slice") == "all").iter_rows(named=True)
    }
    assert told["classification", "bag_of_tokens"] < 0.6
    assert told["classification", None] > 0.95
    assert told["true_positive", None] > 0.9
    assert told["localisation", None] > 0.9
    assert told["localisation_repair", None] > 0.9
    assert ("localisation", "bag_of_tokens") not in told
