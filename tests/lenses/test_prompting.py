"""Prompts to a tiny server on this machine and to tiny decoders; parsing and tables against loops."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl
import pytest
import torch
from tests.models.conftest import build, tiny_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from sonde.base.errors import InputError, UsageError
from sonde.capture.generate import continuations, converses
from sonde.corpora import SourceFile
from sonde.lenses import LENSES, LensSettings, Method, Scoring, Training, TrainingLens
from sonde.lenses.prompting.endpoint import Endpoint
from sonde.lenses.prompting.prompt import INSTRUCTION, listed, prompt_of
from sonde.models import Capabilities, LoadedModel, ModelSpec, load_model
from sonde.models._bundled import bundled_folder
from sonde.results.scores import Score, scores_frame
from sonde.tasks import TASKS

LENS = LENSES.load("prompting")
CODE = "\n".join(
    ["import numpy as np", "np.zeros_like(1)", "np.ones(1)"]
    + [f"import lib{n}" for n in range(12)]
    + [f"lib{n}.read_all()" for n in range(12)]
)


class Server:
    """A server that speaks just enough of the protocol.

    Attributes:
        asked: The bodies and keys of the requests.
        replies: What it replies, one after the other, the last again and again; numbers are errors, functions
            are given the request.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, Any], str | None]] = []
        self.replies: list[Any] = ["1. zeros"]
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((body, self.headers["Authorization"]))
                reply = outer.replies.pop(0) if len(outer.replies) > 1 else outer.replies[0]
                reply = reply(body) if callable(reply) else reply
                code = (
                    reply if isinstance(reply, int) else 200 if self.path == "/v1/chat/completions" else 404
                )
                message = {"choices": [{"message": {"role": "assistant", "content": reply}}]}
                data = reply if isinstance(reply, bytes) else json.dumps(message).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, daemon=True)
    thread.start()
    yield made
    made.http.shutdown()
    made.http.server_close()
    thread.join()


def examples(size: int = 30) -> pl.DataFrame:
    file = SourceFile("a.py", CODE, "python", "c", "r")
    task = TASKS.load("api_prompts")
    options = {"templates": "call,import"}
    return task.draw([file], size=size, seed=0, language="python", mode="corrected", options=options).examples


def asked(folder: Path, model: str, table: pl.DataFrame, **options: Any) -> pl.DataFrame:
    settings = LensSettings(options=options)
    (method,) = LENS.methods(["api_prompts"], settings)
    training = Training(
        examples=table, model=ModelSpec(name=model, device="cpu"), language="python", folder=folder,
        settings=settings,
    )  # fmt: skip
    return LENS.train(method, training)


def test_the_lens_answers_the_protocol() -> None:
    assert isinstance(LENS, TrainingLens)
    assert LENS.methods(["api_prompts"], LensSettings(seed=3)) == (
        Method(name="prompted", task="api_prompts", seed=3),
    )

    def capabilities(kind: str) -> Capabilities:
        return Capabilities(
            kind=kind, layers=0, heads=0, d_model=0, vocab=0, context=0, attention="none", masks=False
        )

    assert LENS.refuses(capabilities("decoder")) is LENS.refuses(capabilities("endpoint")) is None
    assert "this model is an encoder" in str(LENS.refuses(capabilities("encoder")))


def test_prompts_hold_the_published_instruction_and_each_is_sent_once(server: Server, tmp_path: Path) -> None:
    table = examples()
    rows = asked(tmp_path, "openai:tiny", pl.concat([table, table]), base_url=server.url, tokens=77)
    assert rows.height == 2 * table.height
    texts = [body["messages"][0]["content"] for body, _ in server.asked]
    assert sorted(texts) == sorted(
        {f"{INSTRUCTION}\n{row['prefix']}<mask>{row['suffix']}" for row in table.to_dicts()}
    )
    assert {(body["model"], body["max_tokens"], body["temperature"]) for body, _ in server.asked} == {
        ("tiny", 77, 0)
    }
    assert {key for _, key in server.asked} == {None}
    (answer,) = {row["top"][0] for row in rows.to_dicts()}
    assert answer == "zeros"
    by_query = {row["query_id"]: row["answer"] for row in table.to_dicts()}
    for row in rows.to_dicts():
        assert row["rank"] == (1 if by_query[row["query_id"]] == "zeros" else None)
        assert (row["listed"], row["short"], row["refused"], row["asked"]) == (1, True, False, True)


def test_a_key_comes_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert Endpoint("openai:m", server.url).reply("p", 5) == "1. zeros"
    assert server.asked[0][1] == "Bearer k"


def test_refusals_are_counted(server: Server, tmp_path: Path) -> None:
    table = examples(4)
    server.replies = ["I am sorry, I cannot do that.", None, "1. a\n2. b"]
    rows = asked(tmp_path, "openai:m", table, base_url=server.url)
    assert sorted(rows["refused"].to_list()) == [False] * (table.height - 2) + [True, True]
    assert rows.filter("refused")["listed"].to_list() == [0, 0]


def test_a_server_that_stumbles_is_asked_again(server: Server) -> None:
    waited: list[float] = []
    server.replies = [503, 429, "1. a"]
    assert Endpoint("m", server.url, waited.append).reply("p", 5) == "1. a"
    assert waited == [1.0, 2.0]
    server.replies = [500]
    with pytest.raises(InputError, match="answers 500"):
        Endpoint("m", server.url, waited.append).reply("p", 5)


@pytest.mark.parametrize(
    ("reply", "words"), [(401, "answers 401"), (b"[]", "no conversation"), (b"<", "no conv")]
)
def test_what_is_wrong_with_a_server_is_one_line(server: Server, reply: Any, words: str) -> None:
    server.replies = [reply]
    with pytest.raises(InputError, match=words) as caught:
        Endpoint("m", server.url).reply("p", 5)
    assert "\n" not in str(caught.value) and len(server.asked) == 1


def test_a_server_that_is_not_there_is_one_line(server: Server) -> None:
    with pytest.raises(InputError, match="answers 404"):
        Endpoint("m", server.url.removesuffix("/v1")).reply("p", 5)
    with pytest.raises(InputError, match="cannot be reached"):
        Endpoint("m", "http://127.0.0.1:1/v1", lambda _: None).reply("p", 5)
    with pytest.raises(UsageError, match="base_url = 'localhost' is no address"):
        Endpoint("m", "localhost")


def test_a_killed_run_goes_on_behind_its_last_reply(server: Server, tmp_path: Path) -> None:
    table = examples()
    whole = asked(tmp_path / "a", "openai:m", table, base_url=server.url)
    sent = len(server.asked)
    kept = (tmp_path / "a" / "replies.jsonl").read_text()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "replies.jsonl").write_text(kept[: len(kept) // 2])
    before = kept[: len(kept) // 2].count("\n")
    again = asked(tmp_path / "b", "openai:m", table, base_url=server.url)
    assert again.equals(whole)
    assert 0 < before < sent and len(server.asked) == 2 * sent - before
    assert sorted((tmp_path / "b" / "replies.jsonl").read_text().splitlines()) == sorted(kept.splitlines())


@pytest.mark.parametrize(
    ("reply", "answers"),
    [
        ("1. zeros\n2. ones", ("zeros", "ones")),
        ("  1) `zeros`\n2: \"ones\"\n3 'full'\n10.eye", ("zeros", "ones", "full", "eye")),
        ("Here you are:\n1. a\n\n2. a\n3. b\nDone.", ("a", "b")),
        ("\n".join(f"{n}. n{n}" for n in range(1, 30)), tuple(f"n{n}" for n in range(1, 21))),
        ("1. **bold**\n2. _like\n3.", ("bold", "_like")),
        ("zeros\nones", ()),
        ("", ()),
    ],
)
def test_lists_are_read(reply: str, answers: tuple[str, ...]) -> None:
    assert listed(reply).answers == answers
    assert listed(reply).refused == (not answers)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = str(tmp_path_factory.mktemp("models") / "gpt2")
    model = build("gpt2")
    model.save_pretrained(folder)
    tiny_tokenizer(bos_token="<s>", eos_token="</s>", pad_token="<pad>").save_pretrained(folder)
    return load_model(ModelSpec(name=folder, device="cpu"))


@torch.inference_mode()
def greedy(loaded: LoadedModel, text: str, most: int) -> str:
    ids = [loaded.special.bos, *loaded.tokenizer(text, add_special_tokens=False)["input_ids"]]
    written: list[int] = []
    while len(written) < most and len(ids) < loaded.capabilities.context:
        best = int(loaded.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
        if best == loaded.tokenizer.eos_token_id:
            break
        ids.append(best)
        written.append(best)
    return loaded.tokenizer.decode(written, skip_special_tokens=True)


def test_a_decoder_writes_the_likeliest_pieces_behind_each_of_several_prompts(decoder: LoadedModel) -> None:
    assert not converses(decoder)
    texts = ["import ", "x = 1", "return ", "y = 2", "a" * 62, *(f"x{one} = " for one in range(20))]
    written = dict(continuations(decoder, [*texts, "a" * 64], 6, chat=False))
    assert written.pop("a" * 64) is None
    assert written == {text: greedy(decoder, text, 6) for text in texts}


def test_a_row_that_ends_early_is_cut_at_its_end(
    decoder: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"x{one} = " for one in range(10)]
    before = dict(continuations(decoder, texts, 6, chat=False))
    ids = [decoder.special.bos, *decoder.tokenizer(texts[0], add_special_tokens=False)["input_ids"]]
    with torch.inference_mode():
        end = int(decoder.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
    # What one of them writes first becomes the end: that row stops there, and others go on.
    monkeypatch.setattr(decoder.model.generation_config, "eos_token_id", [end])
    written = dict(continuations(decoder, texts, 6, chat=False))
    alone = {text: dict(continuations(decoder, [text], 6, chat=False))[text] for text in texts}
    assert written == alone != before


def test_a_template_for_conversations_is_used(decoder: LoadedModel) -> None:
    decoder.tokenizer.chat_template = (
        "{% for one in messages %}[{{ one.role }}]{{ one.content }}{% endfor %}:"
    )
    try:
        assert converses(decoder)
        ids = decoder.tokenizer("[user]hi:", add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            best = int(decoder.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
        (written,) = continuations(decoder, ["hi"], 1, chat=True)
        assert written == ("hi", decoder.tokenizer.decode([best], skip_special_tokens=True))
    finally:
        decoder.tokenizer.chat_template = None


def test_prompts_that_do_not_fit_are_counted(decoder: LoadedModel, tmp_path: Path) -> None:
    rows = asked(tmp_path, decoder.spec.name, examples(4), tokens=4)
    assert rows["asked"].to_list() == [False] * 4
    with pytest.raises(UsageError, match="tokens = 0"):
        asked(tmp_path, decoder.spec.name, examples(4), tokens=0)


def test_the_bundled_decoder_is_asked(tmp_path: Path) -> None:
    rows = asked(tmp_path, "sonde/mini-decoder", examples(2), tokens=8)
    assert rows["asked"].all()
    # Without a template the first index is part of the prompt and of what is read.
    assert all(reply.startswith("1.") for reply in rows["reply"].to_list())


@pytest.mark.slow
def test_a_model_behind_a_server_lists_what_it_lists_here(server: Server, tmp_path: Path) -> None:
    source = bundled_folder("sonde/mini-decoder")
    assert source is not None
    folder = tmp_path / "conversing"
    shutil.copytree(source, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{% for one in messages %}# {{ one.content }}\n{% endfor %}1."
    tokenizer.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()

    def serve(body: dict[str, Any]) -> str:
        text = tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            written = model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=body["max_tokens"],
                do_sample=False, pad_token_id=0,
            )  # fmt: skip
        return tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True)

    server.replies = [serve]
    table = examples(4)
    served = asked(tmp_path / "served", "openai:conversing", table, base_url=server.url, tokens=12)
    here = asked(tmp_path / "here", str(folder), table, tokens=12)
    assert served.equals(here)
    assert len(server.asked) == table.height and any(served["reply"].to_list())


def test_tables_equal_a_loop() -> None:
    labels = examples(200)
    ranks = [(7 * n) % 25 + 1 for n in range(labels.height)]
    observations = pl.DataFrame(
        {
            "query_id": labels["query_id"],
            "rank": pl.Series([rank if rank <= 20 else None for rank in ranks], dtype=pl.Int32),
            "listed": [20 if rank < 21 else 0 for rank in ranks],
            "refused": [rank > 22 for rank in ranks],
            "short": [rank > 20 for rank in ranks],
            "asked": [rank != 25 for rank in ranks],
            "method": "prompted", "task": "api_prompts", "seed": 0,
        }
    )  # fmt: skip
    found = LENS.score(
        Scoring(
            observations=observations.lazy(), items=pl.DataFrame(),
            template=Score(model="m", lens="prompting", metric="", value=0.0, n=0, n_clusters=0),
            settings=LensSettings(), labels={"api_prompts": labels},
        )
    )  # fmt: skip
    value = {(s.slice, s.metric, s.k): s for s in found}
    assert {score.matching for score in found} == {"generative"}
    for k in (1, 5, 10, 20):
        assert value["all", "p_at_k", k].value == pytest.approx(mean(rank <= k for rank in ranks))
    assert value["all", "mrr", None].value == pytest.approx(mean(1 / r if r <= 20 else 0 for r in ranks))
    assert value["all", "share_refused", None].value == pytest.approx(mean(r in (23, 24) for r in ranks))
    assert value["all", "share_short", None].value == pytest.approx(mean(r in (21, 22) for r in ranks))
    assert value["all", "share_too_long", None].value == pytest.approx(mean(r == 25 for r in ranks))
    calls = [rank for rank, one in zip(ranks, labels["template"], strict=True) if one == "call"]
    assert value["template=call", "p_at_k", 5].value == pytest.approx(mean(rank <= 5 for rank in calls))
    assert value["all", "p_at_k", 5].n_clusters == labels["library"].n_unique()
    assert value["all", "p_at_k", 5].ci_low is not None
    assert any("no list in" in line for line in LENS.headline(scores_frame(found)))


def test_queries_are_as_many_of_each_statement() -> None:
    table = examples(10)
    assert dict(table.group_by("template").len().iter_rows()) == {"call": 5, "import": 5}
    assert set(table["mode"]) <= {"full", "first", "last"}
    assert table["example_id"].equals(table["query_id"], check_names=False)
    assert (
        examples(6)
        .filter(pl.col("template") == "call")
        .equals(table.filter(pl.col("template") == "call").head(3))
    )
    with pytest.raises(InputError, match="prompts about names"):
        TASKS.load("api_prompts").draw(
            [SourceFile("a.py", "x = 1\n", "python", "c", "r")],
            size=5, seed=0, language="python", mode="corrected", options={},
        )  # fmt: skip


def test_the_instruction_names_the_language() -> None:
    assert "following Java API" in prompt_of("java", "a.", "(") and "Python" not in prompt_of(
        "java", "a.", "("
    )
