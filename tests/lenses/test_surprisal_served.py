"""Surprisal of a model behind a server against the same model on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.lenses.scoring_server import ScoringModel
from tests.lenses.serving import ProtocolServer
from tests.slices import with_slices
from transformers import AutoModelForCausalLM, AutoTokenizer

import sonde
from sonde.base.errors import InputError, UsageError
from sonde.models import ModelSpec, describe_special
from sonde.models.engine.external import get_server
from sonde.models.engine.model_names import bundled_folder

NAME = "sonde/mini-decoder"
CODE = '''import math


def area(radius: float) -> float:
    """The area of a circle, in {unit}²."""
    return math.pi * radius ** 2 + {number}


def greet(name):
    print("héllo 🙂", name, area(len(name)))
    return [area(one) for one in range({number})]
'''
UNKNOWN = {"entropy", "mrr"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProtocolServer]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    get_server.cache_clear()
    made = ProtocolServer()
    thread = threading.Thread(target=made.http.serve_forever, daemon=True)
    thread.start()
    yield made
    made.http.shutdown()
    made.http.server_close()
    thread.join()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("code")
    for number in range(12):
        (folder / f"part{number}").mkdir()
        text = CODE.format(unit="cm" * (number + 1), number=number)
        (folder / f"part{number}" / "shapes.py").write_text(text)
    return f"local:{folder}"


@pytest.fixture(scope="module")
def here(corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("here") / "run"
    sonde.run(models=[NAME], lenses=["surprisal"], corpora=[corpus], output=folder)
    return folder


def model(way: str, **settings: Any) -> ScoringModel:
    folder = bundled_folder(NAME)
    assert folder is not None
    start = describe_special(ModelSpec(name=NAME)).bos
    return ScoringModel(
        AutoModelForCausalLM.from_pretrained(folder),
        AutoTokenizer.from_pretrained(folder),
        start=start,
        way=way,
        **settings,
    )


def served(folder: Path, corpus: str, server: ProtocolServer, **options: Any) -> Path:
    sonde.run(
        models=["openai:tiny"],
        lenses=["surprisal"],
        corpora=[corpus],
        output=folder,
        options={"surprisal": {"base_url": server.url, **options}},
    )
    return folder


def observed(folder: Path) -> pl.DataFrame:
    (folder,) = (folder / "observations" / "lens=surprisal").iterdir()
    return pl.concat(pl.read_parquet(path) for path in sorted(folder.glob("*.parquet"))).sort(
        "item_id", "position"
    )


@pytest.mark.parametrize("way", ["echo", "prompt_logprobs"])
def test_a_model_gives_the_same_figures_behind_a_server_and_here(
    way: str, server: ProtocolServer, corpus: str, here: Path, tmp_path: Path
) -> None:
    server.completes = model(way)
    folder = served(tmp_path / "run", corpus, server)
    mine, theirs = observed(here), observed(folder)
    same = ["item_id", "position", "start", "end", "tag", "construct", "context", "text_characters"]
    assert theirs.select(same).equals(mine.select(same))
    # Which bytes a piece of a character is, a server that writes U+FFFD for it does not say.
    whole = ~theirs["subword"].str.contains("\ufffd")
    assert theirs.filter(whole)["subword"].equals(mine.filter(whole)["subword"]) and not whole.all()
    for name in ("bytes", "text_bytes"):
        sums = [
            table.group_by("item_id", "start").agg(pl.col(name).sum()).sort("item_id", "start")
            for table in (mine, theirs)
        ]
        assert sums[0].equals(sums[1])
    assert float((theirs["nats"] - mine["nats"]).abs().max()) < 1e-4
    known = theirs["rank"].is_not_null()
    assert theirs.filter(known)["rank"].equals(mine.filter(known)["rank"])
    assert mine.filter(~known & whole)["rank"].min() > 5 if way == "echo" else known.all()
    assert theirs["entropy"].null_count() == theirs.height
    if way == "prompt_logprobs":
        assert theirs["subword_id"].equals(mine["subword_id"])
    scores = [with_slices(pl.read_parquet(one / "scores.parquet")) for one in (here, folder)]
    keys = ["metric", "of_metric", "compared_to", "control", "slice", "language", "k", "binning", "unit"]
    wanted = UNKNOWN if way == "echo" else {"entropy"}
    # Without vocabulary ids a subword is known by what it spells, and nothing by how often it was trained on.
    apart = pl.col("slice").str.starts_with("subword=") | (pl.col("unit").eq_missing("subword"))
    # Of alternatives that are parts of characters it does not say which they are, nor how many, so that
    # it is not known from the places before them how far a completion is right.
    unclear = ["accuracy", "confidence", "ece", "top1", "top5", "accepted_characters", "accepted_line"]
    apart |= pl.any_horizontal(
        pl.col("metric", "of_metric").is_in(unclear if way == "echo" else []).fill_null(value=False)
    )
    mine, theirs = (table.filter(~apart).select(*keys, "value", "ci_low", "ci_high", "n") for table in scores)
    assert set(mine["metric"]) - set(theirs["metric"]) == wanted
    both = mine.filter(~pl.col("metric").is_in(wanted)).join(
        theirs, on=keys, how="full", nulls_equal=True, coalesce=True
    )
    if way == "echo":
        top = [
            table.filter((pl.col("metric") == "top1") & (pl.col("slice") == "all")).row(0, named=True)
            for table in scores
        ]
        assert top[1]["n"] == (observed(folder)["top"].list.len() > 0).sum() < top[0]["n"]
        assert abs(top[1]["value"] - top[0]["value"]) < 0.05
    assert both["n"].equals(both["n_right"], check_names=False) and both.height > 100
    for name in ("value", "ci_low", "ci_high"):
        # The interval of a mean over two or three clusters reaches far, and so does what rounding does to it.
        apart = ((both[name] - both[f"{name}_right"]).abs() / both[name].abs().clip(1.0)).max()
        assert apart is None or float(apart) < (1e-4 if name == "value" else 1e-3)
    page = sonde.Run(folder).page.read_text()
    assert "openai:tiny" in page


def test_what_a_server_declines_is_counted(server: ProtocolServer, corpus: str, tmp_path: Path) -> None:
    server.completes = model("echo", longest=52)
    folder = served(tmp_path / "run", corpus, server)
    summary = json.loads((folder / "run.json").read_text())
    assert summary["forwards"]["texts that it declined"] > 0
    assert "maximum context length" in summary["models"][0]["reading"]["declined"][0]
    assert observed(folder)["item_id"].n_unique() == (
        summary["forwards"]["texts sent to a server"] - summary["forwards"]["texts that it declined"]
    )


def test_what_a_server_said_to_another_run_is_asked_again(
    server: ProtocolServer, corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SONDE_CACHE_SIZE", "1")
    server.completes = model("echo")
    served(tmp_path / "first", corpus, server)
    asked = len(server.asked)
    get_server.cache_clear()
    served(tmp_path / "second", corpus, server)
    assert len(server.asked) > asked + 10


def test_a_server_that_declines_everything_leaves_no_scores(
    server: ProtocolServer, corpus: str, tmp_path: Path
) -> None:
    server.completes = model("echo", longest=6)
    folder = served(tmp_path / "run", corpus, server)
    assert observed(folder).is_empty() and sonde.Run(folder).scores.is_empty()


def test_a_server_without_scores_of_its_prompt_is_refused(
    server: ProtocolServer, corpus: str, tmp_path: Path
) -> None:
    server.completes = lambda body: {"choices": [{"text": "x", "logprobs": None}]}
    with pytest.raises(InputError, match="scores no prompt, neither by echo nor by prompt_logprobs"):
        served(tmp_path / "run", corpus, server)


def test_a_run_goes_on_where_tokens_ran_out(
    server: ProtocolServer, corpus: str, here: Path, tmp_path: Path
) -> None:
    server.completes = model("echo")
    with pytest.raises(InputError, match="token_limit is 10"):
        served(tmp_path / "run", corpus, server, token_limit=10)
    get_server.cache_clear()
    folder = served(tmp_path / "run", corpus, server, token_limit=10_000_000)
    asked = len(server.asked)
    served(tmp_path / "run", corpus, server)
    assert len(server.asked) == asked and observed(folder).height == observed(here).height


@pytest.mark.parametrize("options", [{"before": "both"}, {"objective": "pll"}])
def test_what_a_server_cannot_do_is_refused(
    options: dict[str, str], server: ProtocolServer, corpus: str, tmp_path: Path
) -> None:
    server.completes = model("echo")
    with pytest.raises(UsageError, match=r"a server scores each text without its file|by causal"):
        served(tmp_path / "run", corpus, server, **options)
