"""A server that answers OpenAI's protocol from the prompt alone, the same way each time.

It is reached as a proxy, so that its address in arguments is the same whatever port is free.
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ADDRESS = "http://reference.invalid/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = _converse(body) if self.path.endswith("/chat/completions") else _complete(body)
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


_NAMES = """
calcsize exc_info getmodule getpass getrecursionlimit intern isabs items join listxattr log namedtuple
parse_and_bind signature sin zeros_like
"""


def _converse(body: dict[str, Any]) -> dict[str, Any]:
    """List names in an order of the prompt's own, in one of several forms; decline some prompts."""
    prompt = body["messages"][-1]["content"]
    names = sorted(_NAMES.split(), key=lambda name: _hash(prompt + name))[:10]
    form = _hash(prompt) % 5
    if form == 0:
        content = "I am sorry, but I cannot help with that."
    elif form == 1:
        content = "```\n" + "\n".join(names) + "\n```"
    else:
        content = "\n".join(f"{number}. {name}" for number, name in enumerate(names, 1))
    message = {"role": "assistant", "content": content}
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


def _complete(body: dict[str, Any]) -> dict[str, Any]:
    """Score the words of the prompt, and one after it, by a hash of each."""
    tokens = [*re.findall(r"\s*\w+|\s*[^\w\s]|\s+$", body["prompt"]), " end"]
    values = [-(_hash(token) % 5_000) / 1_000 - 0.001 for token in tokens]
    best = [{token: value, "?": value - 0.5} for token, value in zip(tokens, values, strict=True)]
    told = {
        "tokens": tokens,
        "token_logprobs": [None, *values[1:]],
        "top_logprobs": [None, *best[1:]],
    }
    usage = {"prompt_tokens": len(tokens) - 1, "completion_tokens": 1}
    return {"choices": [{"text": "", "logprobs": told}], "usage": usage}


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())


@contextmanager
def serve() -> Generator[str]:
    """Serve in a thread of this process; yield the address of the proxy."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
