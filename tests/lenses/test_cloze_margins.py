"""Margins between statements, against loops and against the lens's own tables of statements."""

import dataclasses
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl
import pytest
import torch
from tests.lenses.test_cloze_scores import query, scoring
from tests.slices import slice_of, with_slices

from sonde.alignment import align, encode, get_surfaces
from sonde.base.errors import UsageError
from sonde.capture.forward import observe_lenses
from sonde.capture.requests import Prepared
from sonde.corpora import SourceFile
from sonde.languages import LANGUAGES
from sonde.lenses import CapturedItem, LensSettings, ScoringContext
from sonde.lenses.cloze import lens
from sonde.lenses.cloze.observe import ANSWERS_SCHEMA, TEXT, collect_statements
from sonde.lenses.engine.lens import Control, ControlObservations
from sonde.models import ModelSpec, load_model
from sonde.results.scores import Score, scores_to_frame
from sonde.tasks.engine.cloze_queries import QUERY_SCHEMA
from sonde.tasks.engine.task import TASKS

PAIRS = "\n".join(f"lib{n}.old,lib{n}.renewed" for n in range(12))


def table(tmp_path: Path) -> pl.DataFrame:
    path = tmp_path / "pairs.csv"
    path.write_text(f"deprecated,replacement\n{PAIRS}\n", encoding="utf-8")
    file = SourceFile("a.py", "import json\njson.loads('')\n", "python", "c", "r")
    task = TASKS.load("api_deprecated")
    options = {"deprecated": str(path)}
    return task.draw([file], size=100, seed=0, language="python", options=options).examples


def answers(rows: list[dict[str, Any]]) -> pl.LazyFrame:
    return pl.DataFrame(rows, schema=dict(ANSWERS_SCHEMA), orient="row").lazy()


def test_margins_equal_a_loop(tmp_path: Path) -> None:
    labels = table(tmp_path)
    items = collect_statements(labels)
    rows = [
        {"item_id": item.item_id, "status": TEXT, "nats": float(1 + 7 * n % 11), "pieces": 1 + n % 3}
        for n, item in enumerate(items)
    ]
    nats = {item.text: row for item, row in zip(items, rows, strict=True)}
    scoring = ScoringContext(
        observations=answers([*rows, {"item_id": "x", "query_id": "q", "nats": 1.0}]),
        items=pl.DataFrame(),
        template=Score(model="m", lens="cloze", metric="", value=0.0, n=0, n_clusters=0),
        settings=LensSettings(options={"objective": "candidates"}),
        labels={"api_deprecated": labels},
        controls=(ControlObservations(Control(0), answers(rows[:2])),),
    )
    found = lens.score(scoring)
    assert {score.task for score in found} == {"api_deprecated"}
    assert {score.objective for score in found} == {"causal"}
    for form in (None, "call", "import"):
        pairs = [row["candidates"] for row in labels.to_dicts() if form in (None, row["mode"])]
        sums = [nats[worse]["nats"] - nats[better]["nats"] for better, worse in pairs]
        per_piece = [
            nats[worse]["nats"] / nats[worse]["pieces"] - nats[better]["nats"] / nats[better]["pieces"]
            for better, worse in pairs
        ]
        where = "pair=replacement" + (f";form={form}" if form else "")
        for other, values in (("sum", sums), ("mean", per_piece)):
            (margin,) = one(found, where, "margin", other)
            (preferred,) = one(found, where, "preferred", other)
            assert margin.value == pytest.approx(mean(values))
            assert preferred.value == pytest.approx(mean(value > 0 for value in values))
            assert (margin.n, margin.n_clusters) == (len(values), 12)
            assert margin.ci_low is not None and margin.ci_low < margin.value
        (length,) = [s for s in found if s.control == "length" and slice_of(s.dimensions) == where]
        assert length.value == 0.0
    control = [score for score in found if score.control == "random_weights" and score.metric == "margin"]
    assert control and all(score.n == 1 for score in control)
    lines = list(lens.details(with_slices(scores_to_frame(found))))
    assert any(line.strip().startswith("replacement") and "12 libraries" in line for line in lines)


def one(scores: list[Score], where: str, metric: str, other: str) -> list[Score]:
    return [
        score
        for score in scores
        if (slice_of(score.dimensions), score.metric, score.control) == (where, metric, None)
        and score.aggregation == other
    ]


def test_tasks_of_other_lenses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="api_fakes, not 'api_prompts'"):
        lens.inputs((), {"api_prompts": table(tmp_path)}, LensSettings())


CODE = "import json\nfrom csv import reader\njson.loads('')\nreader('')\n"


@pytest.mark.parametrize(
    ("name", "objective"), [("sonde/mini-encoder", "masked"), ("sonde/mini-decoder", "candidates")]
)
def test_pairs_run_beside_queries(tmp_path: Path, name: str, objective: str) -> None:
    options = {"objective": objective, "templates": "call"} | (
        {} if objective == "masked" else {"candidates": 2}
    )
    settings = LensSettings(options=options)
    file = SourceFile("a.py", CODE, "python", "c", "r")
    queries = TASKS.load("api_cloze").draw([file], size=100, seed=0, language="python", options=options)
    labels = {"api_cloze": queries.examples, "api_deprecated": table(tmp_path).head(3)}
    loaded, language = load_model(ModelSpec(name=name, device="cpu")), LANGUAGES.load("python")
    ready: list[Prepared] = []
    for item in lens.inputs(queries.inputs, labels, settings):
        tree = language.parse(item.text)
        tokens = language.tokens(tree)
        ready.append(
            Prepared(item, tree, tokens, align(encode(loaded.tokenizer, item.text, item.cuts), tree, tokens))
        )
    captured = [
        CapturedItem(found.prepared, found.captures["cloze"])
        for found in observe_lenses(loaded, ready, {"cloze": lens.input_requests(ready, labels, settings)})
    ]
    rows = lens.observe(captured, labels, settings, get_surfaces(loaded.tokenizer, loaded.capabilities.vocab))
    whole = rows.filter(pl.col("status") == TEXT)
    pairs = {text for row in labels["api_deprecated"].to_dicts() for text in row["candidates"]}
    texts = {one.item.item_id: one.item.text for one in ready}
    assert pairs <= {texts[number] for number in whole["item_id"]}
    if objective == "masked":
        assert set(rows["query_id"].drop_nulls()) == set(queries.examples["query_id"])
        assert whole.height == len(pairs)
        for row in whole.iter_rows(named=True):
            assert row["nats"] == pytest.approx(_by_letters(loaded, texts[row["item_id"]]), abs=1e-3)


@torch.inference_mode()
def _by_letters(loaded: Any, text: str) -> float:
    """A forward a piece; a word goes on as long as letters, digits and underscores do."""
    found = encode(loaded.tokenizer, text)
    ids, starts, ends = found.ids.tolist(), found.start.tolist(), found.end.tolist()
    nats = 0.0
    for at, number in enumerate(ids):
        stop = ends[at]
        while (
            text[ends[at] - 1].isalnum() and stop < len(text) and (text[stop].isalnum() or text[stop] == "_")
        ):
            stop += 1
        shown = [
            loaded.special.mask if other == at or (other > at and starts[other] < stop) else ids[other]
            for other in range(len(ids))
        ]
        row = torch.tensor([[*loaded.special.prefix, *shown, *loaded.special.suffix]])
        logits = loaded.model(input_ids=row, attention_mask=torch.ones_like(row)).logits[0]
        nats -= float(logits[len(loaded.special.prefix) + at].double().log_softmax(-1)[number])
    return nats


def test_chance_and_spelling_stand_beside_made_up_names() -> None:
    rows = [
        {
            **query(number, template="fake_name", mode="call", library=f"l{number}"),
            "candidates": [f"r{number}", f"f{number}"],
            "spelling": 0.2 if number % 4 else -0.2,
        }
        for number in range(12)
    ]
    labels = pl.DataFrame(rows, schema=dict(QUERY_SCHEMA), orient="row")
    texts = [
        {"item_id": item.item_id, "status": TEXT, "nats": 1.0, "pieces": 1}
        for item in collect_statements(labels)
    ]
    given = dataclasses.replace(
        scoring([], []),
        observations=pl.DataFrame(texts, schema=dict(ANSWERS_SCHEMA), orient="row").lazy(),
        labels={"api_fakes": labels},
    )
    scores = {
        (score.control, score.metric): score
        for score in lens.score(given)
        if slice_of(score.dimensions) == "pair=fake_name"
    }
    assert scores["spelling", "preferred"].value == pytest.approx(0.75)
    chance = scores["chance", "preferred"]
    assert (chance.value, chance.n, chance.ci_low) == (0.5, 12, None)
