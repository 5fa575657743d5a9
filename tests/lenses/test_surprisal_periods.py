"""A model that has read the older half predicts it better; one that has not shows no difference."""

import dataclasses

import numpy as np
import polars as pl
import pytest
import torch
from tests.corpora.test_dates import commit, function, repository
from tests.experiments.conftest import save_decoder
from tests.slices import slice_of, with_slices
from transformers import LlamaForCausalLM

from sonde.alignment import encode
from sonde.corpora import Selection, select
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.lenses.surprisal.score import items_by_period, period_scores
from sonde.models import ModelSpec, load_model
from sonde.results.memorisation import contamination_verdict
from sonde.results.scores import Score

TEMPLATE = Score(model="m", lens="surprisal", metric="", value=0, n=0, n_clusters=0)
CLUSTERS, FUNCTIONS, SUBWORDS = 14, 12, 40
CONSTRUCTS = ("call", "name", "loop", "")
CHANGE = "period=after-before"

Found = dict[tuple[str, str, str | None, str | None], Score]


def items(rng: np.random.Generator) -> pl.DataFrame:
    """Functions of some clusters, half of each from before the day."""
    rows = [
        (f"{cluster}/{number}", f"c{cluster}", "after" if number % 2 else "before")
        for cluster in range(CLUSTERS)
        for number in range(FUNCTIONS)
    ]
    return pl.DataFrame(rows, ["item_id", "cluster", "period"], orient="row")


def observed(
    items: pl.DataFrame, rng: np.random.Generator, *, memory: float = 0.0, drift: float = 0.0
) -> pl.DataFrame:
    """Losses as a model has them: of a cluster, a function, a construct and a subword each.

    Args:
        items: The functions.
        rng: Source of the noise.
        memory: By how much less a subword of older code costs, in nats.
        drift: By how many more subwords of calls, which are dear, newer code has.
    """
    frames: list[pl.DataFrame] = []
    of_cluster = {name: rng.normal(0, 0.3) for name in items["cluster"].unique(maintain_order=True)}
    for row in items.iter_rows(named=True):
        newer = row["period"] == "after"
        odds = np.array([1 + drift * newer, 1, 1, 1])
        construct = rng.choice(len(CONSTRUCTS), SUBWORDS, p=odds / odds.sum())
        level = 1.5 + of_cluster[row["cluster"]] + rng.normal(0, 0.2) + np.array([2.0, 0, 0.5, 0])[construct]
        nats = rng.gamma(2, np.maximum(level, 0.1) / 2) - memory * (not newer)
        frames.append(
            pl.DataFrame(
                {
                    "item_id": row["item_id"],
                    "kind": ["layout" if CONSTRUCTS[one] == "" else "identifier" for one in construct],
                    "construct": [CONSTRUCTS[one] for one in construct],
                    "context": np.arange(SUBWORDS),
                    "nats": np.maximum(nats, 0),
                    "text_bytes": rng.integers(1, 8, SUBWORDS),
                }
            )
        )
    return pl.concat(frames)


def scored(observations: pl.DataFrame, items: pl.DataFrame, *controls: pl.DataFrame) -> Found:
    found = period_scores(
        observations.lazy(), [one.lazy() for one in controls], items_by_period(items), TEMPLATE, 20
    )
    return {(slice_of(one.dimensions), one.metric, one.control, one.compared_to): one for one in found}


def verdict(found: Found) -> str:
    change = dataclasses.asdict(found[CHANGE, "bits", None, None])
    beyond = found.get((CHANGE, "bits", None, "random_weights"))
    return contamination_verdict(change, None if beyond is None else dataclasses.asdict(beyond))


def test_a_model_that_has_read_the_older_half_is_seen() -> None:
    rng = np.random.default_rng(1)
    held = items(rng)
    reader, stranger = observed(held, rng, memory=0.4), observed(held, rng)
    untrained = reader.with_columns(nats=pl.Series(rng.gamma(20, 0.2, len(reader))))
    found = scored(reader, held, untrained)
    change = found[CHANGE, "bits", None, None]
    assert change.ci_low is not None and change.ci_low > 0
    assert change.value == pytest.approx(0.4 / np.log(2), rel=0.35)
    before, after = (found[f"period={time}", "bits", None, None].value for time in ("before", "after"))
    assert change.value == pytest.approx(after - before)
    beyond = found[CHANGE, "bits", None, "random_weights"]
    assert beyond.value == pytest.approx(change.value - found[CHANGE, "bits", "random_weights", None].value)
    assert beyond.ci_low is not None and beyond.ci_low > 0
    assert verdict(found) == "contamination seen"
    assert verdict(scored(stranger, held)) == "contamination not seen"


def test_drift_that_random_weights_have_too_is_no_memory() -> None:
    rng = np.random.default_rng(2)
    held = items(rng)
    both = observed(held, rng, memory=0.4)
    alike = both.with_columns(nats=pl.col("nats") + rng.normal(0, 0.05, len(both)))
    assert verdict(scored(both, held)) == "contamination seen"
    assert verdict(scored(both, held, alike)) == "contamination not seen"


def test_another_mix_of_constructs_is_no_memory() -> None:
    rng = np.random.default_rng(3)
    held = items(rng)
    drifted = observed(held, rng, drift=3.0)
    newer = pl.col("period") == "after"
    plain = drifted.join(held, on="item_id").group_by(newer).agg(pl.col("nats").mean()).sort("period")
    assert plain["nats"][1] - plain["nats"][0] > 0.3
    assert abs(scored(drifted, held)[CHANGE, "bits", None, None].value) < 0.15


@pytest.mark.slow
def test_exchanged_dates_are_found_as_often_as_chance_allows() -> None:
    rng = np.random.default_rng(4)
    held = items(rng)
    read = observed(held, rng)
    found = dict.fromkeys(("bits_per_byte", "bits"), 0)
    for _ in range(200):
        drawn = held.with_columns(
            period=pl.Series(rng.permuted(held["period"].to_numpy().reshape(CLUSTERS, -1), axis=1).ravel())
        )
        scores = scored(read, drawn)
        for metric in found:
            change = scores[CHANGE, metric, None, None]
            assert change.ci_low is not None and change.ci_high is not None
            found[metric] += not change.ci_low <= 0 <= change.ci_high
    assert max(found.values()) <= 18


def test_what_has_no_like_on_the_other_side_is_counted() -> None:
    rng = np.random.default_rng(5)
    held = items(rng)
    newer = held.filter(pl.col("period") == "after")["item_id"].to_list()
    loops = (pl.col("construct") == "loop") & pl.col("item_id").is_in(newer)
    read = observed(held, rng).with_columns(
        construct=pl.when(loops).then(pl.lit("async for")).otherwise("construct")
    )
    found = scored(read, held)
    assert found["period=after;construct=async for", "matched", None, None].value == 0
    assert found["period=before;construct=call", "matched", None, None].value > 0.9
    share = found["period=after", "matched", None, None]
    bytes_of = read.filter(pl.col("item_id").is_in(newer))["text_bytes"].sum()
    assert share.n == bytes_of and 0.6 < share.value < 0.85


def test_few_clusters_allow_no_verdict() -> None:
    rng = np.random.default_rng(6)
    held = items(rng).filter(pl.col("cluster").is_in(["c1", "c2", "c3"]))
    assert verdict(scored(observed(held, rng, memory=0.4), held)).startswith("too little data: 3 effective")


def test_a_run_without_a_day_has_no_such_scores() -> None:
    nothing = pl.DataFrame({"item_id": ["a"], "cluster": ["c"]})
    assert not scored(pl.DataFrame(), nothing) and not scored(
        pl.DataFrame(), nothing.with_columns(period=pl.lit(""))
    )


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve repositories with functions from 2020 and from 2024."""
    root = tmp_path_factory.mktemp("dated")
    for place in range(12):
        one = repository(root / f"project{place}")
        for day, first in (("2020-03-01", 0), ("2024-05-01", 4)):
            names = [f"{'abcdefgh'[place % 8]}{place}{number}" for number in range(first, first + 4)]
            commit(one, day, {f"{name}.py": function(name, place * 17 + 5) for name in names})
    return f"git:{root}/*"


@pytest.mark.slow
def test_a_decoder_trained_on_the_older_half(dated: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """From repositories with dated commits to the verdict, with random weights beside."""
    selection = Selection(cut_off="2022-01-01", near_duplicates=False)
    older = [item.text for item in select(dated, selection).items if item.period == "before"]
    folder = save_decoder(tmp_path_factory.mktemp("reader") / "decoder", context=128)
    loaded, model = load_model(ModelSpec(name=str(folder))), LlamaForCausalLM.from_pretrained(folder)
    torch.manual_seed(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(8):
        for text in older:
            ids = torch.tensor([[loaded.special.bos, *encode(loaded.tokenizer, text).ids.tolist()]])
            model(ids, labels=ids).loss.backward()
            optimiser.step()
            optimiser.zero_grad()
    model.save_pretrained(folder)
    output = tmp_path_factory.mktemp("runs") / "dated"
    run(
        Experiment(models=(str(folder),), corpora=(dated,), lenses=("surprisal",), selection=selection),
        Execution(output=output),
    )
    table = with_slices(pl.read_parquet(output / "scores.parquet"))
    changes = table.filter((pl.col("slice") == CHANGE) & (pl.col("metric") == "bits"))
    (own,) = changes.filter(pl.col("control").is_null() & pl.col("compared_to").is_null()).to_dicts()
    (beyond,) = changes.filter(pl.col("compared_to") == "random_weights").to_dicts()
    (drift,) = changes.filter(pl.col("control") == "random_weights").to_dicts()
    assert own["value"] - drift["value"] == pytest.approx(beyond["value"])
    assert contamination_verdict(own, beyond) == "contamination seen"
