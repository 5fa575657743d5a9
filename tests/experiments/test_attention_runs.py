"""The attention lens in whole runs: several models on the same items, ablations, and a given snippet."""

from pathlib import Path

import polars as pl
import pytest

from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.store.rundir import RunDirectory

from .conftest import save_decoder

UNSHARED = "dropped=not read by every model of the run"


def function(number: int) -> str:
    """Functions that grow, so that only some fit into a small context."""
    name = f"work_{number}"
    lines = [
        f"def {name}(value, other_{number}):",
        f"    if value > {number}:",
        f"        value = other_{number}(value)",
    ]
    for step in range(number % 6):
        lines += [f"    for item_{step} in value:", f"        {name}(item_{step}, key={step * number})"]
    return "\n".join([*lines, f"    return value + {number}"])


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("attention")
    for package in range(12):
        (root / f"package{package}").mkdir()
        text = "\n\n\n".join(function(package * 5 + index) for index in range(5))
        (root / f"package{package}" / "module.py").write_text(text + "\n")
    return root


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_decoder(tmp_path_factory.mktemp("models") / "short", context=120)


def experiment(code: Path, *models: Path, **changes: object) -> Experiment:
    values: dict[str, object] = {
        "models": tuple(map(str, models)),
        "lenses": ("attention",),
        "corpora": (f"local:{code}",),
        "selection": Selection(limit=60, near_duplicates=False),
        **changes,
    }
    return Experiment(**values)  # type: ignore[arg-type]


def scores(folder: Path, model: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "scores.parquet").filter(pl.col("model") == str(model))


def edges(table: pl.DataFrame) -> dict[tuple[str, str], float]:
    rows = table.filter(pl.col("metric") == "edges").select("slice", "split", "value")
    return {(name, split): value for name, split, value in rows.iter_rows()}


def items(table: pl.DataFrame) -> dict[str, float]:
    rows = table.filter(pl.col("metric") == "items")
    return dict(zip(rows["slice"], rows["value"], strict=True))


def test_models_of_one_run_are_compared_on_the_items_that_fit_all(
    code: Path, encoder: Path, short: Path, tmp_path: Path
) -> None:
    run(experiment(code, encoder), Execution(output=tmp_path))
    alone = scores(tmp_path, encoder)
    run(experiment(code, encoder, short), Execution(output=tmp_path))
    together, other = scores(tmp_path, encoder), scores(tmp_path, short)

    observed = pl.read_parquet(tmp_path / RunDirectory(tmp_path).observations("attention", str(short)) / "*")
    fits = observed.filter(pl.col("dropped") == "")
    kept = set(fits["item_id"])
    too_long = observed["item_id"].n_unique() - len(kept)
    assert too_long and len(kept) > 10
    assert items(alone) == {"all": len(kept) + too_long}
    assert items(together) == {"all": len(kept), UNSHARED: too_long}
    assert items(other) == {"all": len(kept), "dropped=longer than the context": too_long}

    assert edges(together) == edges(other) != edges(alone)
    by_relation = dict(fits.group_by("relation").agg(pl.col("edges").sum()).iter_rows())
    assert {name: edges(together)[f"relation={name}", "valid"] + edges(together)[f"relation={name}", "test"]
            for name in by_relation} == by_relation  # fmt: skip
    assert together["item_set"].unique().to_list() != alone["item_set"].unique().to_list()
    first = (pl.col("metric") == "first_hit") & (pl.col("slice") == "all")
    assert set(together.filter(first)["item_set"]) == set(other.filter(first)["item_set"])
    assert set(together.filter(first)["fingerprint"]).isdisjoint(alone.filter(first)["fingerprint"])


def test_what_one_model_answers_among_others_is_kept(
    code: Path, encoder: Path, short: Path, tmp_path: Path
) -> None:
    wanted = experiment(code, encoder, short)
    run(wanted, Execution(output=tmp_path))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    outcome = run(wanted, Execution(output=tmp_path))
    assert outcome.observed == 0
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
