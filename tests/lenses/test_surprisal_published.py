"""Paper mode against what the published code computes, with tokenizers that add a start token or none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from tests.experiments.conftest import CODE, save_decoder
from tests.lenses.conftest import tasks_of
from tokenizers import Tokenizer, processors
from torch.nn import CrossEntropyLoss
from transformers import AutoModelForCausalLM, AutoTokenizer

from sonde.alignment import get_surfaces
from sonde.base.errors import InputError, UnknownNameError
from sonde.capture.forward import observe_lenses
from sonde.capture.requests import prepare
from sonde.corpora import Item, SourceFile
from sonde.lenses import LENSES, CapturedItem, LensSettings
from sonde.models import ModelSpec, load_model
from sonde.tasks import repositories
from sonde.tasks.engine.task import TASKS

CONTEXT = 64
TEXTS = ("def f(a):\n    return a['é']\n", CODE, "x = 1\n")


def loss_func(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """As published."""
    shift_logits = logits[..., :-1, :].contiguous()
    shift_labels = labels[..., 1:].contiguous()
    loss_fct = CrossEntropyLoss(reduction="none")
    loss = loss_fct(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))
    return loss.view(*shift_labels.size())


def get_counts(model: Any, tokenizer: Any, batch: Any) -> tuple[Counter[str], Counter[str]]:
    """As published, without semantic columns: sums of losses and counts by decoded subword."""
    ids, mask = batch["input_ids"], batch["attention_mask"]
    with torch.no_grad():
        outputs = model(ids, attention_mask=mask, labels=ids, return_dict=True)
    loss = loss_func(outputs.logits, ids)
    losses: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for row, one in enumerate(ids):
        for place, token in enumerate(one[1:]):
            name = tokenizer.decode(token)
            losses[name] += loss[row][place].item()
            tokens[name] += 1
    return losses, tokens


def perplexed(folder: Path, texts: tuple[str, ...]) -> tuple[Counter[str], Counter[str]]:
    """As published: one text per batch, truncated and padded to the model's length."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.model_max_length = CONTEXT
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    losses: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for text in texts:
        batch = tokenizer(text, truncation=True, padding="max_length", return_tensors="pt")
        one, two = get_counts(model, tokenizer, batch)
        losses += one
        tokens += two
    return losses, tokens


@pytest.fixture(scope="module", params=["no start token", "a start token"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    saved = save_decoder(tmp_path_factory.mktemp("published") / "decoder", context=CONTEXT)
    if request.param == "a start token":
        path = saved / "tokenizer.json"
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<bos> $A", special_tokens=[("<bos>", tokenizer.token_to_id("<bos>"))]
        )
        tokenizer.save(str(path))
    return saved


def item_of(number: int, text: str) -> Item:
    return Item(
        item_id=str(number), text=text, language="python", unit="file", path=f"{number}.py", name="f",
        offset=0, cluster="c", repository="r",
    )  # fmt: skip


def observed(folder: Path, texts: tuple[str, ...], settings: LensSettings) -> pl.DataFrame:
    loaded, lens = load_model(ModelSpec(name=str(folder))), LENSES.load("surprisal")
    items = [item_of(number, text) for number, text in enumerate(texts)]
    known = repositories(SourceFile(one.path, one.text, "python", "c", "r") for one in items)
    labels = {
        name: pl.concat(
            frame.with_columns(item_id=pl.lit(key))
            for key, frame in TASKS.load(name).label(items, known).items()
        )
        for name in tasks_of(settings)
    }
    prepared = prepare(loaded, items)
    passes = {"surprisal": lens.input_requests(prepared, labels, settings)}
    found = [
        CapturedItem(one.prepared, one.captures["surprisal"])
        for one in observe_lenses(loaded, prepared, passes)
    ]
    return lens.observe(found, labels, settings, get_surfaces(loaded.tokenizer, loaded.capabilities.vocab))


def test_paper_mode_is_what_the_published_code_computes(folder: Path) -> None:
    losses, tokens = perplexed(folder, TEXTS)
    table = observed(folder, TEXTS, LensSettings(mode="paper"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    decoded = table.with_columns(
        name=pl.col("subword_id").map_elements(tokenizer.decode, return_dtype=pl.String)
    )
    ours = {
        name: (nats, count)
        for name, nats, count in decoded.group_by("name").agg(pl.col("nats").sum(), pl.len()).iter_rows()
    }
    assert {name: count for name, (_, count) in ours.items()} == dict(tokens)
    for name, (nats, _) in ours.items():
        assert nats == pytest.approx(losses[name], abs=1e-4), name


def test_the_first_subword_is_scored_where_something_stands_before_it(folder: Path) -> None:
    by_itself = "bos" in (folder / "tokenizer.json").read_text().split('"post_processor"')[1][:400]
    first = {
        start: observed(folder, ("x = 1\n",), LensSettings(options={"bos": start}))["position"].min() == 0
        for start in ("auto", "always", "none", "tokenizer")
    }
    assert first == {"auto": True, "always": True, "none": False, "tokenizer": by_itself}


def test_a_start_token_that_does_not_exist_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="bos"):
        observed(folder, ("x = 1\n",), LensSettings(options={"bos": "tokeniser"}))
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = tmp_path / "tokenizer_config.json"
    config.write_text(config.read_text().replace('"bos_token": "<bos>"', '"bos_token": null'))
    with pytest.raises(InputError, match="neither a start token"):
        observed(tmp_path, ("x = 1\n",), LensSettings(options={"bos": "always"}))
