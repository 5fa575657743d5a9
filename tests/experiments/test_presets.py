"""Comparisons whose outcome is known beforehand: rounding, weights drawn anew, training on one more habit."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import polars as pl
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import sonde
from sonde.models import derive_checkpoint
from sonde.models.engine.model_names import bundled_folder

LOST = ("If:if->test", "Attribute:value->attr", "children:parent->child")
"""Relations that heads of the bundled encoder follow and random ones do not; named before they were tried."""

LEARNED = {"role": "parameter", "construct": "parameters", "kind": "identifier"}
"""Where training on code that calls ``self`` otherwise has to show; named before it was tried."""


@pytest.mark.slow
def test_what_rounding_and_random_weights_change(tmp_path: Path) -> None:
    derived = [derive_checkpoint("sonde/mini-encoder", tmp_path / kind, kind) for kind in ("int8", "random")]
    run = sonde.run(
        models=["sonde/mini-encoder", *map(str, derived)],
        lenses="attention",
        corpora="stdlib",
        limit=120,
        options={"attention": {"random_weights_share": 0.0}},
        output=tmp_path / "run",
    )
    assert (run.directory / "comparison" / "comparison.parquet").is_file()
    rows = sonde.compare(run).differences.filter(pl.col("metric") == "first_hit")
    rounded, random = (rows.filter(pl.col("model") == str(path)) for path in derived)
    for relation in LOST:
        named = pl.lit({"name": "relation", "value": relation})
        (row,) = random.filter(pl.col("dimensions").list.contains(named)).to_dicts()
        assert row["outcome"] == "worse", row
    overall = random.row(0, named=True)
    assert random["difference"].max() < 0.05
    assert overall["base_value"] > 0.15
    # Rounding moves no number by more than some points, and the table says what would have been found.
    assert rounded["difference"].abs().max() < 0.2
    decided = rounded.filter(pl.col("outcome") != "undecided").height
    assert decided <= random.filter(pl.col("outcome") == "worse").height / 2


@pytest.mark.slow
def test_what_training_on_one_more_habit_changes(tmp_path: Path) -> None:
    # Files the model has not seen, all of which say "whoever" for "self": half to train on, half to read.
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = [re.sub(r"\bself\b", "whoever", file.read_text(encoding="utf-8")) for file in files]
    read = tmp_path / "read"
    read.mkdir()
    for number, text in enumerate(texts[1::2]):
        (read / f"module_{number}.py").write_text(text, encoding="utf-8")
    tuned = _trained("\n".join(texts[::2]), tmp_path / "tuned")
    run = sonde.run(
        models=["sonde/mini-decoder", str(tuned)],
        lenses="surprisal",
        corpora=f"local:{read}",
        limit=250,
        output=tmp_path / "run",
    )
    rows = sonde.compare(run).differences.filter(pl.col("metric") == "bits")
    assert rows.filter(pl.col("dimensions").list.len() == 0)["outcome"].to_list() == ["better"]
    for name, value in LEARNED.items():
        named = pl.lit({"name": name, "value": value})
        (row,) = rows.filter(pl.col("dimensions").list.contains(named)).to_dicts()
        assert row["outcome"] == "better", row
    # The names of parameters are what was learned: nothing gained as much as they.
    most = rows.filter(pl.col("outcome") == "better").sort("difference")["dimensions"][0].to_list()
    assert most == [{"name": "tag", "value": "parameters -> identifier"}]


def _trained(text: str, target: Path) -> Path:
    """The bundled decoder after forty steps on a text."""
    folder = bundled_folder("sonde/mini-decoder")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).train()
    tokens = torch.tensor(tokenizer(text)["input_ids"])
    rows = tokens[: len(tokens) // 256 * 256].view(-1, 256)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    draw = torch.Generator().manual_seed(0)
    for _ in range(40):
        batch = rows[torch.randint(len(rows), (8,), generator=draw)]
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return target
