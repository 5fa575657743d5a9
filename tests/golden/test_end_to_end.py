"""A whole run against two independent answers: transformers' own loss, and tree-sitter's own node look-up."""

import json
from pathlib import Path

import polars as pl
import pytest
import torch
import tree_sitter
import tree_sitter_java
import tree_sitter_python
from tests.experiments.conftest import save_decoder
from transformers import AutoModelForCausalLM, AutoTokenizer

from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run

TEXTS = {
    "plain": ("python", "def f(a, b):\n    return a + b\n"),
    "non_ascii": ("python", "def größe(naïve):\n    return '日本語' + naïve  # Übung\n"),
    "crlf": ("python", "def f(x):\r\n    if x:\r\n        return x['é']\r\n    return None\r\n"),
    "tabs": ("python", "def f(x):\n\tfor y in x:\n\t\tprint(y)\n"),
    "emoji": ("python", "def f():\n    return '\U0001f468‍\U0001f469‍\U0001f467' # \U0001f600 ok\n"),
    "no_final_newline": ("python", "def f(): return g(1, 'a')"),
    "methods": ("python", "def f(obj):\n    obj.f(  x, key = [1, 2] ).g()\n"),
    "broken": ("python", "def f(:\n    return ((\n"),
    "java": ("java", 'int f(int[] a) {\n  for (int x : a) { g("é" + x); }\n  return a[0];\n}\n'),
}
GRAMMARS = {
    "python": tree_sitter.Language(tree_sitter_python.language()),
    "java": tree_sitter.Language(tree_sitter_java.language()),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_decoder(tmp_path_factory.mktemp("golden") / "decoder", context=512)


@pytest.fixture(scope="module")
def table(model: Path, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    folder = tmp_path_factory.mktemp("golden_run")
    lines = [
        json.dumps({"id": name, "code": code, "language": language})
        for name, (language, code) in TEXTS.items()
    ]
    (folder / "texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    experiment = Experiment(
        models=(str(model),),
        corpora=(f"jsonl:{folder / 'texts.jsonl'}",),
        selection=Selection(near_duplicates=False),
    )
    run(experiment, Execution(output=folder / "run"))
    items = pl.read_parquet(folder / "run" / "items.parquet").select("item_id", "identifier", "text")
    rows = pl.read_parquet(folder / "run" / "observations/**/*.parquet")
    return rows.join(items, on="item_id").sort("identifier", "position")


def of(table: pl.DataFrame, name: str) -> pl.DataFrame:
    found = table.filter(pl.col("identifier") == name)
    assert found.height > 0
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_losses_equal_a_plain_forward(table: pl.DataFrame, model: Path, name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    plain = AutoModelForCausalLM.from_pretrained(model, attn_implementation="eager").eval()
    ids = tokenizer(TEXTS[name][1], add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = plain(torch.tensor([[tokenizer.bos_token_id, *ids]])).logits[0, :-1].double()
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(ids), reduction="none")
    found = of(table, name)
    assert found["subword_id"].to_list() == ids
    assert found["nats"].to_list() == pytest.approx(expected.tolist(), abs=1e-4)
    gold = logits.gather(1, torch.tensor(ids)[:, None])
    rank = torch.tensor(found["rank"].to_list())
    # Near-ties count against the model: the rank is that of the worst place that rounding could give.
    assert bool((rank >= (logits > gold).sum(1) + 1).all())
    assert bool((rank <= (logits >= gold - 2e-4).sum(1)).all())
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    assert found["entropy"].to_list() == pytest.approx(entropy.tolist(), abs=1e-4)


@pytest.mark.parametrize("name", TEXTS)
def test_tags_name_the_node_that_holds_the_token(table: pl.DataFrame, name: str) -> None:
    language, text = TEXTS[name]
    data = text.encode()
    tree = tree_sitter.Parser(GRAMMARS[language]).parse(data)
    checked = 0
    for row in of(table, name).iter_rows(named=True):
        piece = text[row["start"] : row["end"]]
        if not piece.strip():
            assert row["tag"] == "layout"
            continue
        if row["merged"] != 1 or row["kind"] == "error":
            continue
        lead = len(piece) - len(piece.lstrip())
        first = len(text[: row["start"] + lead].encode())
        last = first + len(piece.strip().encode())
        node = tree.root_node.descendant_for_byte_range(first, last)
        assert node is not None
        assert row["tag"] == f"{node.parent.type} -> {node.type}", (piece, row)
        checked += 1
    assert checked > 3


def test_pieces_over_several_tokens_are_never_given_to_the_first(table: pl.DataFrame) -> None:
    merged = table.filter(pl.col("merged") > 1)
    assert (merged["kind"] == "merged").all()
    assert merged["tag"].str.contains(" + ", literal=True).all()
