"""What sonde says of other programs' servers, against answers that these programs gave.

``recorded_servers.json`` holds requests' prompts with status and body of the answers. From programs that ran:
llama-cpp-python 0.3.36 (its server, ``--logits_all true``) with Gemma 3 270M, whose tokenizer puts a start
token before each text, and SmolLM2 135M, whose tokenizer does not; asked with ``max_tokens=1, temperature=0``
and ``echo=true, logprobs=5`` or ``prompt_logprobs=5``; log-probabilities rounded to four digits.

From elsewhere: vLLM 0.16.0's ``echo`` as posted in llama.cpp's pull request 15189 (the alternatives of the
last five tokens are left out); vLLM's ``prompt_logprobs`` as in the example of
infra.acsresearch.org/tutorial/examples/prompt-logprobs, whose entries are in the order of their ranks; and
llama.cpp's own server: its code throws "Only no echo is supported" (``tools/server/server-common.cpp`` at
0c1e57098), which is an answer of status 500, and it ignores ``prompt_logprobs``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lenses.serving import ProtocolServer

from sonde.base.errors import InputError
from sonde.capture.server import ServedItems, score_by_server
from sonde.corpora import Item
from sonde.models.engine.external import Server, ServerSettings, get_server

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "recorded_servers.json").read_text("utf-8")
)


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


def replay(server: ProtocolServer, **answers: str) -> None:
    """Answer each protocol as recorded; one without a record is declined."""

    def complete(body: Mapping[str, Any]) -> Any:
        way = "echo" if "echo" in body else "prompt_logprobs"
        if way not in answers:
            return 400, "unknown parameter"
        answer = RECORDED[answers[way]]
        return (
            answer["body"]
            if answer["status"] == 200
            else (answer["status"], answer["body"]["error"]["message"])
        )

    server.completes = complete


def score(server: ProtocolServer, name: str) -> ServedItems:
    item = Item("recorded", RECORDED[name]["prompt"], "python", "function", path="shapes.py", name="f")
    return score_by_server(Server("openai:recorded", ServerSettings(base_url=server.url)), [item], 5)


def test_llama_cpp_python_scores_a_prompt_by_echo(server: ProtocolServer) -> None:
    name = "llama-cpp-python, echo, Gemma 3 270M"
    replay(server, echo=name)
    served = score(server, name)
    ((prepared, capture),) = served.captured
    scores, recorded = capture.scores, RECORDED[name]["body"]["choices"][0]["logprobs"]
    assert served.way == "echo" and scores is not None
    assert list(prepared.alignment.subwords.surface) == recorded["tokens"][:-1]
    # The start token is in no list, and the first token has no score.
    assert scores.scored.tolist() == [False] + [True] * 16
    np.testing.assert_allclose(-scores.nats[1:], recorded["token_logprobs"][1:-1], rtol=1e-6)
    assert scores.rank[1:5].tolist() == [0, 1, 1, 1]


def test_characters_that_llama_cpp_python_leaves_empty_are_located(server: ProtocolServer) -> None:
    name = "llama-cpp-python, echo, Gemma 3 270M, bytes"
    replay(server, echo=name)
    ((prepared, capture),) = score(server, name).captured
    subwords = prepared.alignment.subwords
    assert RECORDED[name]["body"]["choices"][0]["logprobs"]["tokens"][3:7] == [""] * 4
    assert list(zip(subwords.start.tolist(), subwords.end.tolist(), strict=True))[2:8] == [
        (3, 5), *[(5, 6)] * 4, (6, 7)
    ]  # fmt: skip
    assert capture.scores is not None and capture.scores.rank[3:7].tolist() == [0] * 4


def test_log_probabilities_of_the_next_token_are_refused(server: ProtocolServer) -> None:
    shifted = "llama-cpp-python, echo, SmolLM2 135M"
    replay(server, echo=shifted, prompt_logprobs="llama-cpp-python, prompt_logprobs")
    recorded = RECORDED[shifted]["body"]["choices"][0]["logprobs"]
    # The likeliest alternative of each of these tokens is the token after it.
    likeliest = [max(best, key=lambda text: best[text]) for best in recorded["top_logprobs"][1:3]]
    assert likeliest == recorded["tokens"][2:4]
    with pytest.raises(InputError, match=r"those of the next token each, as from llama-cpp-python") as caught:
        score(server, shifted)
    assert "prompt_logprobs: no log-probabilities" in str(caught.value)


def test_vllm_scores_a_prompt_by_echo(server: ProtocolServer) -> None:
    name = "vLLM, echo"
    replay(server, echo=name)
    ((prepared, capture),) = score(server, name).captured
    recorded = RECORDED[name]["body"]["choices"][0]["logprobs"]
    assert list(prepared.alignment.subwords.surface) == recorded["tokens"][:-1]
    assert capture.scores is not None
    np.testing.assert_allclose(-capture.scores.nats[1:], recorded["token_logprobs"][1:-1], rtol=1e-6)
    assert capture.scores.rank[1:4].tolist() == [0, 1, 0]


def test_vllm_scores_a_prompt_by_prompt_logprobs(server: ProtocolServer) -> None:
    name = "vLLM, prompt_logprobs"
    replay(server, prompt_logprobs=name)
    served = score(server, name)
    ((prepared, capture),) = served.captured
    scores = capture.scores
    assert served.way == "prompt_logprobs" and prepared.alignment.subwords.ids.tolist() == [791]
    assert scores is not None and scores.rank.tolist() == [4]
    assert scores.nats[0] == pytest.approx(3.679518699645996)
    assert [served.surfaces[number] for number in scores.top_ids[0]] == [
        "Question", "def", "#", "The", "Tags"
    ]  # fmt: skip


def test_the_server_of_llama_cpp_is_refused_in_one_line(server: ProtocolServer) -> None:
    server.headers = {"Retry-After-Ms": "1"}
    replay(server, echo="llama.cpp, echo", prompt_logprobs="llama.cpp, prompt_logprobs")
    with pytest.raises(InputError, match="Only no echo is supported") as caught:
        score(server, "llama.cpp, echo")
    message = str(caught.value)
    assert "scores no prompt, neither by echo nor by prompt_logprobs" in message and "\n" not in message
    assert message.endswith("use one that does, such as vLLM")
