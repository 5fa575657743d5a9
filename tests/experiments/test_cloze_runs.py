"""Whole runs of the cloze lens: models of every kind in one, and one or two processes."""

import itertools
import re
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from sonde.alignment import get_surfaces
from sonde.alignment.vocabulary import get_vocabulary
from sonde.base.progress import Advance, NullProgress
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment, observe
from sonde.experiments.run import run
from sonde.lenses.cloze.ranks import shared_surfaces
from sonde.models import ModelSpec, load_tokenizer
from sonde.store.run_folder import RunDirectory
from tests.denoisers import save_bart, save_t5
from tests.slices import with_slices

LIBRARIES = ("numpy", "torch", "scipy", "pandas", "flask", "requests", "django", "click", "attrs", "jinja")
CALLS = ("load", "dump", "zeros.like", "path.join", "s")  # every vocabulary holds a letter
CODE = "\n".join(
    [f"import {library}" for library in LIBRARIES]
    + [f"{library}.{call}(1)" for library in LIBRARIES for call in CALLS]
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "calls.py").write_text(CODE, encoding="utf-8")
    return f"local:{folder}"


@pytest.fixture(scope="module")
def denoisers(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("denoisers")
    lines = CODE.splitlines() * 2
    return str(save_t5(folder / "t5", lines)), str(save_bart(folder / "bart", lines))


def experiment(corpus: str, models: tuple[str, ...], **options: str | int) -> Experiment:
    return Experiment(
        models=models,
        lenses=("cloze",),
        corpora=(corpus,),
        selection=Selection(limit=1000),
        options={"cloze": {"templates": "call,import", "frames": 0, **options}},
    )


def answers(folder: Path, model: str) -> pl.DataFrame:
    where = RunDirectory(folder).observations("cloze", model)
    return pl.read_parquet(folder / where / "*.parquet").sort("item_id", "query_id")


def scores(folder: Path, model: str) -> pl.DataFrame:
    table = with_slices(pl.read_parquet(folder / "scores.parquet")).filter(pl.col("model") == model)
    return table.with_columns(name=pl.coalesce("matching", "objective"), other="aggregation")


@pytest.mark.slow
def test_models_of_every_kind_answer_the_same_queries(
    corpus: str, denoisers: tuple[str, str], encoder: Path, decoder: Path, tmp_path: Path
) -> None:
    models = (str(encoder), str(decoder), *denoisers)
    run(experiment(corpus, models, candidates=4), Execution(output=tmp_path))
    measures = {model: set(answers(tmp_path, model)["measure"]) for model in models}
    assert measures == {
        str(encoder): {"pll"}, str(decoder): {"causal"}, denoisers[0]: {"pll"}, denoisers[1]: {"pll"},
    }  # fmt: skip
    asked = {tuple(answers(tmp_path, model)["item_id"]) for model in models}
    assert len(asked) == 1
    first = (pl.col("metric") == "p_at_k") & (pl.col("k") == 1) & pl.col("control").is_null()
    queries = pl.read_parquet(next(tmp_path.glob("labels/task=api_cloze/*[0-9a-f].parquet")))
    shared = shared_surfaces(tuple(sorted(models)))
    among = pl.col("candidates").list.set_intersection(pl.lit(sorted(shared))).list.len()
    answerable = queries.filter(pl.col("answer").is_in(list(shared)) & (among > 1)).height
    assert answerable < queries.height
    cut = {model: load_tokenizer(ModelSpec(name=model)) for model in models}
    alike = 0
    for row in queries.iter_rows(named=True):
        level = (row["prefix"] + row["answer"] + row["suffix"])[row["level_start"] : row["level_end"]]
        pieces = set()
        for tokenizer in cut.values():
            texts = get_vocabulary(get_surfaces(tokenizer)).texts
            ids = tokenizer(level, add_special_tokens=False)["input_ids"]
            pieces.add(tuple(text for number in ids if (text := texts[number])))
        alike += len(pieces) == 1
    for model in models:
        table = scores(tmp_path, model).filter(first)
        whole = table.filter((pl.col("slice") == "all") & (pl.col("other") == "sum"))
        counts = dict(whole.select("name", "n").iter_rows())
        every = {"candidates": queries.height, "common": queries.height}
        # An answer alone among the shared ones is always first, and says nothing.
        assert counts == every | ({"unified": answerable} if answerable else {})
        agree = table.filter(pl.col("slice").str.contains("agree=true")).filter(pl.col("name") == "single")
        assert agree["n"].sum() == alike


class Heard(NullProgress):
    """What a run says, in order, with the beginnings of its stages."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, title: str, total: int | None = None) -> AbstractContextManager[Advance]:
        self.lines.append(f"{title}: begins")
        return super().stage(title, total)

    def note(self, line: str) -> None:
        self.lines.append(line)


def test_a_run_says_how_many_statements_it_reads_and_how_long_that_takes(
    corpus: str, decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(0, 30.0)
    monkeypatch.setattr(observe.time, "monotonic", lambda: next(ticks))
    heard = Heard()
    outcome = run(experiment(corpus, (str(decoder),)), Execution(output=tmp_path), heard)
    (begins,) = [at for at, line in enumerate(heard.lines) if line == "observing: begins"]
    own = sum(len(job.item_ids) for job in outcome.jobs if job.model.reinitialise is None)
    (counted,) = [line for line in heard.lines[:begins] if line.startswith("cloze: ")]
    assert counted == (
        f"cloze: {own:,} statements of 50 names, with up to 100 candidates per level; fewer with "
        "--option cloze.candidates=10"
    )
    # Whatever is timed takes 30 seconds on this clock; inputs of either kind are tried before the first job.
    forecast, advice = [line for line in heard.lines[begins:] if line.startswith("observing ")]
    assert advice.endswith("or fewer models or --option cloze.candidates=10")
    assert forecast.startswith(
        f"observing {2 * own:,} inputs with {decoder} (cloze {own:,}, controls {own:,}): about "
    )
    assert re.search(r"at one input every \d+ s \(estimated from \d+ of them\)$", forecast)


@pytest.mark.slow
def test_the_unified_ranks_are_those_of_both_models(
    corpus: str, denoisers: tuple[str, str], encoder: Path, tmp_path: Path
) -> None:
    models = (str(encoder), *denoisers)
    run(experiment(corpus, models), Execution(output=tmp_path / "both"))
    run(experiment(corpus, models, ranking="unified"), Execution(output=tmp_path / "alone"))
    shared = shared_surfaces(tuple(sorted(models)))
    queries = pl.read_parquet(next((tmp_path / "both").glob("labels/task=api_cloze/*[0-9a-f].parquet")))
    texts = dict(queries.select("query_id", "answer").iter_rows())
    for model in models:
        both, alone = (answers(tmp_path / name, model) for name in ("both", "alone"))
        assert_frame_equal(alone.select("query_id", "rank_unified"), both.select("query_id", "rank_unified"))
        one = both.filter(pl.col("status") == "one piece")
        known = [texts[query] in shared for query in one["query_id"]]
        assert one["rank_unified"].is_not_null().to_list() == known
        names = scores(tmp_path / "alone", model).filter((pl.col("metric") == "p_at_k") & (pl.col("k") == 50))
        assert set(names.filter(pl.col("control").is_null())["name"]) <= {"unified"}


@pytest.mark.slow
def test_processes_do_not_change_ranks(
    corpus: str, denoisers: tuple[str, str], encoder: Path, decoder: Path, tmp_path: Path
) -> None:
    ranked = ("status", "rank", "rank_id", "rank_unified", "greedy")
    for kind, models in (("masked", (str(encoder), denoisers[0])), ("candidates", (str(decoder),))):
        wanted = experiment(corpus, models, objective=kind, candidates=3)
        for workers in (1, 2):
            folder = tmp_path / f"{kind}{workers}"
            outcome = run(wanted, Execution(output=folder, workers=workers))
            assert outcome.observed > 64  # several jobs, so that two processes have something to share
        for model in models:
            alone, together = (answers(tmp_path / f"{kind}{workers}", model) for workers in (1, 2))
            assert_frame_equal(
                alone.select("item_id", "query_id", *ranked), together.select("item_id", "query_id", *ranked)
            )
            np.testing.assert_allclose(alone["nats"], together["nats"], atol=1e-4)
            ours, theirs = (scores(tmp_path / f"{kind}{workers}", model) for workers in (1, 2))
            hits = pl.col("metric").is_in(["p_at_k", "mrr"])
            assert_frame_equal(
                ours.filter(hits).select("slice", "control", "name", "k", "value", "n"),
                theirs.filter(hits).select("slice", "control", "name", "k", "value", "n"),
            )
