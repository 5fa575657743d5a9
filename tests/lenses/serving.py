"""A server on this machine that speaks just enough of OpenAI's protocol for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Completing = Callable[[Mapping[str, Any]], Any]


class ProtocolServer:
    """What it was asked, and what it answers.

    Attributes:
        asked: The bodies and keys of the requests, in the order in which they came.
        replies: What it replies in conversations, one after the other, the last again and again: texts,
            numbers for errors, bytes as they are, mappings for whole answers, functions of the request for
            any of these.
        completes: Answers requests for completions; None for a server that has none.
        headers: What errors are sent with.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, Any], str | None]] = []
        self.replies: list[Any] = ["1. zeros"]
        self.completes: Completing | None = None
        self.headers: dict[str, str] = {"Retry-After-Ms": "1"}
        lock, outer = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    outer.asked.append((body, self.headers["Authorization"]))
                    reply = outer.replies.pop(0) if len(outer.replies) > 1 else outer.replies[0]
                if self.path == "/v1/completions" and outer.completes is not None:
                    reply = outer.completes(body)
                elif self.path != "/v1/chat/completions":
                    reply = 404
                else:
                    reply = reply(body) if callable(reply) else reply
                code, data = _answer(reply)
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                for name, value in outer.headers.items() if code != 200 else ():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"


def _answer(reply: Any) -> tuple[int, bytes]:
    """Code and body of a reply; a number may stand beside the reason of an error."""
    if isinstance(reply, tuple):
        code, reason = reply
        return code, json.dumps({"error": {"message": reason}}).encode()
    if isinstance(reply, int):
        return reply, json.dumps({"error": {"message": "no"}}).encode()
    if isinstance(reply, bytes):
        return 200, reply
    if isinstance(reply, Mapping):
        return 200, json.dumps(reply).encode()
    message = {"role": "assistant", "content": reply}
    return 200, json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
