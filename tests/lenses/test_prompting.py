"""Prompts to a tiny server on this machine and to tiny decoders; parsing and tables against loops."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl
import pytest
import torch
from tests.lenses.serving import ProtocolServer
from tests.models.conftest import build, tiny_tokenizer
from tests.slices import slice_of, with_slices
from transformers import AutoModelForCausalLM, AutoTokenizer

from sonde.base.errors import InputError, UsageError
from sonde.capture.generate import generate_continuations, has_chat_template
from sonde.corpora import SourceFile
from sonde.lenses import LENSES, LensSettings, Method, ScoringContext, Training, TrainingLens
from sonde.lenses.prompting import INSTRUCTION, build_prompt, parse_reply
from sonde.models import Capabilities, LoadedModel, ModelSpec, load_model
from sonde.models.engine.external import Server, ServerSettings, get_server
from sonde.models.engine.model_names import bundled_folder
from sonde.results.scores import Score, scores_to_frame
from sonde.tasks.engine.task import TASKS

LENS = LENSES.load("prompting")
CODE = "\n".join(
    ["import numpy as np", "np.zeros_like(1)", "np.ones(1)"]
    + [f"import lib{n}" for n in range(12)]
    + [f"lib{n}.read_all()" for n in range(12)]
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProtocolServer]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = ProtocolServer()
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
    return task.draw([file], size=size, seed=0, language="python", options=options).examples


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

    assert (
        LENS.unsupported_reason(capabilities("decoder"))
        is LENS.unsupported_reason(capabilities("endpoint"))
        is None
    )
    assert "but this is an encoder" in str(LENS.unsupported_reason(capabilities("encoder")))


def test_prompts_hold_the_published_instruction_and_each_is_sent_once(
    server: ProtocolServer, tmp_path: Path
) -> None:
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


def asking(url: str, **settings: Any) -> Server:
    return Server("openai:m", ServerSettings(base_url=url, **settings))


def test_a_key_comes_from_the_environment(server: ProtocolServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert asking(server.url).chat("p", 5).text == "1. zeros"
    assert server.asked[0][1] == "Bearer k"


def test_refusals_are_told_from_what_cannot_be_read(server: ProtocolServer, tmp_path: Path) -> None:
    table = examples(6)
    message = {"role": "assistant", "content": None, "refusal": "No."}
    cut = {
        "choices": [
            {"message": {"content": "Let me think", "reasoning_content": "Hm."}, "finish_reason": "length"}
        ]
    }
    server.replies = [
        "I am sorry, I cannot do that.",
        {"choices": [{"message": message, "finish_reason": "stop"}]},
        cut,
        "- `a`\n- **b**: the second",
        "1. a\n2. b",
    ]
    rows = asked(tmp_path, "openai:m", table, base_url=server.url, concurrency=1).sort("query_id")
    assert rows.height == 6 and rows["refused"].sum() == 2
    assert rows.filter("refused")["listed"].to_list() == [0, 0]
    (unread,) = rows.filter("unread").to_dicts()
    assert unread["cut"] and unread["thinking"] == "Hm." and unread["reply"] == "Let me think"
    (bullets,) = rows.filter((pl.col("listed") == 0) & (pl.col("listed_lenient") > 0)).to_dicts()
    assert bullets["top_lenient"] == ["a", "b"] and not bullets["refused"] and not bullets["unread"]


def test_a_server_that_stumbles_is_asked_again_when_it_says(server: ProtocolServer) -> None:
    server.replies = [503, 429, "1. a"]
    assert asking(server.url).chat("p", 5).text == "1. a"
    server.headers = {"Retry-After": "1"}
    server.replies, begin = [429, "1. a"], time.monotonic()
    assert asking(server.url).chat("p", 5).text == "1. a"
    assert time.monotonic() - begin > 0.9
    server.headers, server.replies = {"Retry-After-Ms": "1"}, [500]
    with pytest.raises(InputError, match="answers 500"):
        asking(server.url).chat("p", 5)


@pytest.mark.parametrize(
    ("reply", "words"),
    [(401, "answers 401"), (b"[]", "not a chat/completions"), (b"<", "something that is no")],
)
def test_what_is_wrong_with_a_server_is_one_line(server: ProtocolServer, reply: Any, words: str) -> None:
    server.replies = [reply]
    with pytest.raises(InputError, match=words) as caught:
        asking(server.url).chat("p", 5)
    assert "\n" not in str(caught.value) and len(server.asked) == 1


def test_a_server_that_is_not_there_is_one_line(
    server: ProtocolServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sonde.models.engine.external._TRIES", 2)
    with pytest.raises(InputError, match="answers 404"):
        asking(server.url.removesuffix("/v1")).chat("p", 5)
    with pytest.raises(InputError, match="cannot be reached"):
        asking("http://127.0.0.1:1/v1").chat("p", 5)
    with pytest.raises(UsageError, match="base_url is not an address"):
        asked(tmp_path, "openai:m", examples(2), base_url="localhost")
    with pytest.raises(UsageError, match="parameters is not a JSON object"):
        asked(tmp_path, "openai:m", examples(2), parameters="temperature=1")


def test_parameters_of_a_provider(server: ProtocolServer) -> None:
    given = '{"max_completion_tokens": 9, "max_tokens": null, "temperature": null, "reasoning_effort": "low"}'
    asking(server.url, parameters=given).chat("p", 5)
    assert server.asked[0][0] == {
        "model": "m", "messages": [{"role": "user", "content": "p"}], "max_completion_tokens": 9,
        "reasoning_effort": "low",
    }  # fmt: skip


def test_several_requests_at_a_time(server: ProtocolServer) -> None:
    together = threading.Barrier(3, timeout=20)

    def reply(body: dict[str, Any]) -> str:
        # No request is answered before two others are there.
        together.wait()
        return f"1. {body['messages'][0]['content']}"

    server.replies = [reply]
    one = asking(server.url, concurrency=3)
    found = dict(one.ask_all(lambda prompt: one.chat(prompt, 5).text, list("abcdef")))
    assert found == {name: f"1. {name}" for name in "abcdef"}


def test_what_was_answered_before_a_fault_is_given(server: ProtocolServer) -> None:
    server.replies = [lambda body: 401 if body["messages"][0]["content"] == "c" else "1. x"]
    one, found = asking(server.url), []
    with pytest.raises(InputError, match="answers 401"):
        for prompt, _ in one.ask_all(lambda prompt: one.chat(prompt, 5), list("abcdef")):
            found.append(prompt)
    sent = [body["messages"][0]["content"] for body, _ in server.asked]
    assert found == [prompt for prompt in sent if prompt != "c"] and found[:2] == ["a", "b"] and len(sent) < 6


def test_a_limit_of_tokens_keeps_what_was_answered(server: ProtocolServer, tmp_path: Path) -> None:
    message = {"choices": [{"message": {"content": "1. zeros"}, "finish_reason": "stop"}]}
    server.replies = [{**message, "usage": {"prompt_tokens": 70, "completion_tokens": 30}}]
    table = examples(6)
    for call in (1, 2):
        # A call of the command is a process of its own, with a count of its own.
        get_server.cache_clear()
        with pytest.raises(InputError, match="200 tokens are spent and token_limit is 150"):
            asked(tmp_path, "openai:m", table, base_url=server.url, token_limit=150, concurrency=1)
        assert len((tmp_path / "replies.jsonl").read_text().splitlines()) == len(server.asked) == 2 * call
    get_server.cache_clear()
    rows = asked(tmp_path, "openai:m", table, base_url=server.url)
    assert len(server.asked) == table.height and rows["read_tokens"].to_list() == [70] * table.height
    assert rows["written_tokens"].to_list() == [30] * table.height


def test_a_killed_run_goes_on_behind_its_last_reply(server: ProtocolServer, tmp_path: Path) -> None:
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
def test_lists_are_read_as_published(reply: str, answers: tuple[str, ...]) -> None:
    assert parse_reply(reply).strict == answers


@pytest.mark.parametrize(
    ("reply", "answers"),
    [
        ("1. zeros\n2. ones", ("zeros", "ones")),
        ("- zeros\n* ones\n• `full`", ("zeros", "ones", "full")),
        ("zeros\nones()\n`eye`,", ("zeros", "ones", "eye")),
        ("| # | name | use |\n|--|--|--|\n| 1 | `zeros` | all zeros |\n| 2 | ones | |", ("zeros", "ones")),
        ("1. `np.zeros(shape)` - all zeros\n2. **np.ones**: all ones", ("zeros", "ones")),
        ("1. numpy.zeros\n2. np.ones", ("zeros", "ones")),
        ("```\nzeros\nones\n```", ("zeros", "ones")),
        ("<think>\n1. wrong\n</think>\n1. zeros", ("zeros",)),
        ("<think>\n1. it never ends", ()),
        ("Here are the answers that I would give.", ()),
        ("I'm sorry, but I can't do that.", ()),
    ],
)
def test_lists_are_read_leniently(reply: str, answers: tuple[str, ...]) -> None:
    found = parse_reply(reply, "np.", "(")
    assert found.lenient == answers
    assert found.refused == ("sorry" in reply)
    assert found.thinking.startswith("1. ") == reply.startswith("<think>")


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
    assert not has_chat_template(decoder)
    texts = ["import ", "x = 1", "return ", "y = 2", "a" * 62, *(f"x{one} = " for one in range(20))]
    written = dict(generate_continuations(decoder, [*texts, "a" * 64], 6, chat=False))
    assert written.pop("a" * 64) is None
    assert written == {text: greedy(decoder, text, 6) for text in texts}


def test_a_row_that_ends_early_is_cut_at_its_end(
    decoder: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"x{one} = " for one in range(10)]
    before = dict(generate_continuations(decoder, texts, 6, chat=False))
    ids = [decoder.special.bos, *decoder.tokenizer(texts[0], add_special_tokens=False)["input_ids"]]
    with torch.inference_mode():
        end = int(decoder.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
    # What one of them writes first becomes the end: that row stops there, and others continue.
    monkeypatch.setattr(decoder.model.generation_config, "eos_token_id", [end])
    written = dict(generate_continuations(decoder, texts, 6, chat=False))
    alone = {text: dict(generate_continuations(decoder, [text], 6, chat=False))[text] for text in texts}
    assert written == alone != before


def test_a_template_for_conversations_is_used(decoder: LoadedModel) -> None:
    decoder.tokenizer.chat_template = (
        "{% for one in messages %}[{{ one.role }}]{{ one.content }}{% endfor %}:"
    )
    try:
        assert has_chat_template(decoder)
        ids = decoder.tokenizer("[user]hi:", add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            best = int(decoder.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
        (written,) = generate_continuations(decoder, ["hi"], 1, chat=True)
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
def test_a_model_behind_a_server_lists_what_it_lists_here(server: ProtocolServer, tmp_path: Path) -> None:
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
            "rank_lenient": pl.Series([rank if rank <= 21 else None for rank in ranks], dtype=pl.Int32),
            "listed_lenient": [20 if rank < 22 else 0 for rank in ranks],
            "refused": [rank > 23 for rank in ranks],
            "unread": [rank == 23 for rank in ranks],
            "cut": [rank == 23 for rank in ranks],
            "short": [rank > 20 for rank in ranks],
            "asked": [rank != 25 for rank in ranks],
            "method": "prompted", "task": "api_prompts", "seed": 0,
        }
    )  # fmt: skip
    found = LENS.score(
        ScoringContext(
            observations=observations.lazy(), items=pl.DataFrame(),
            template=Score(model="m", lens="prompting", metric="", value=0.0, n=0, n_clusters=0),
            settings=LensSettings(), labels={"api_prompts": labels},
        )
    )  # fmt: skip
    value = {(slice_of(s.dimensions), s.metric, s.k): s for s in found if s.matching == "generative"}
    lenient = {
        (slice_of(s.dimensions), s.metric, s.k): s for s in found if s.matching == "generative_lenient"
    }
    assert len(value) + len(lenient) == len(found)
    assert lenient["all", "p_at_k", 20].value == value["all", "p_at_k", 20].value
    assert lenient["all", "mrr", None].value == pytest.approx(mean(1 / r if r <= 21 else 0 for r in ranks))
    for k in (1, 5, 10, 20):
        assert value["all", "p_at_k", k].value == pytest.approx(mean(rank <= k for rank in ranks))
    assert value["all", "mrr", None].value == pytest.approx(mean(1 / r if r <= 20 else 0 for r in ranks))
    assert value["all", "share_refused", None].value == pytest.approx(mean(r == 24 for r in ranks))
    assert value["all", "share_unread", None].value == pytest.approx(mean(r == 23 for r in ranks))
    assert value["all", "share_cut", None].value == pytest.approx(mean(r == 23 for r in ranks))
    assert value["all", "share_short", None].value == pytest.approx(mean(r in (21, 22) for r in ranks))
    assert value["all", "share_too_long", None].value == pytest.approx(mean(r == 25 for r in ranks))
    calls = [rank for rank, one in zip(ranks, labels["template"], strict=True) if one == "call"]
    assert value["template=call", "p_at_k", 5].value == pytest.approx(mean(rank <= 5 for rank in calls))
    assert value["all", "p_at_k", 5].n_clusters == labels["library"].n_unique()
    assert value["all", "p_at_k", 5].ci_low is not None
    assert any("unparsable" in line for line in LENS.details(with_slices(scores_to_frame(found))))


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
    with pytest.raises(InputError, match="prompts about API names"):
        TASKS.load("api_prompts").draw(
            [SourceFile("a.py", "x = 1\n", "python", "c", "r")],
            size=5, seed=0, language="python", options={},
        )  # fmt: skip


def test_the_instruction_names_the_language() -> None:
    assert "following Java API" in build_prompt("java", "a.", "(") and "Python" not in build_prompt(
        "java", "a.", "("
    )
