"""A model that the hub lacks or does not give is one line that says why, and what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ANSWERS = {
    "gated": (401, "GatedRepo"),
    "absent": (401, "RepoNotFound"),
    "moved": (404, "RevisionNotFound"),
}

ASK = """
import json, sys
from sonde.base.errors import SondeError
from sonde.models import ModelSpec, describe_model, load_tokenizer
lines = {}
for name, revision in json.loads(sys.argv[1]):
    for ask in (describe_model, load_tokenizer):
        try:
            ask(ModelSpec(name=name, revision=revision))
        except SondeError as error:
            lines.setdefault(name, []).append(str(error))
print(json.dumps(lines))
"""


class Hub(BaseHTTPRequestHandler):
    """Answers every question about a model by the name of its owner."""

    def do_GET(self) -> None:
        status, code = ANSWERS.get(self.path.split("/")[1], (404, "EntryNotFound"))
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def errors(hub: str, home: Path, names: list[tuple[str, str]], **environment: str) -> dict[str, list[str]]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps(names)],
        env={**clean, "HF_ENDPOINT": hub, "HF_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_what_the_hub_does_not_give_says_why(hub: str, tmp_path: Path) -> None:
    lines = errors(hub, tmp_path, [("gated/model", ""), ("absent/gpt2", ""), ("moved/model", "v9")])
    assert set(lines["gated/model"]) == {
        f"model 'gated/model' is gated: accept the terms on {hub}/gated/model, then log in with "
        "`hf auth login` or set HF_TOKEN, and run again"
    }
    (line,) = set(lines["absent/gpt2"])
    assert line.startswith("unknown model 'absent/gpt2'; did you mean 'openai-community/gpt2'?")
    assert set(lines["moved/model"]) == {f"model 'moved/model' has no revision 'v9'; see {hub}/moved/model"}
    assert {len(both) for both in lines.values()} == {2}


def test_a_token_without_access_is_told_apart_and_never_printed(hub: str, tmp_path: Path) -> None:
    token = "hf_thisIsASecretToken"
    lines = errors(hub, tmp_path, [("gated/model", "")], HF_TOKEN=token)
    (line,) = set(lines["gated/model"])
    assert "the token of this machine has no access to it" in line
    assert token not in line
