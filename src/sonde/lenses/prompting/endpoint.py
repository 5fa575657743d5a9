"""Replies of a server that speaks OpenAI's protocol for conversations, asked with the standard library."""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.models._resolve import PREFIX

KEY = "OPENAI_API_KEY"
BASE_URL = "https://api.openai.com/v1"

_TRIES = 3
_AGAIN = (429, 500, 502, 503, 504)
_TIMEOUT_S = 300.0
_WAIT_S = 1.0


class Endpoint:
    """A model behind a server.

    Args:
        name: The model's name, with or without ``openai:``.
        base_url: What stands before ``/chat/completions``.
        wait: Called with seconds before another try.

    Raises:
        UsageError: The address is none.
    """

    def __init__(self, name: str, base_url: str, wait: Callable[[float], None] = time.sleep) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise UsageError(
                f"lens 'prompting': option base_url = {base_url!r} is no address; give one such as {BASE_URL}"
            )
        self._model = name.removeprefix(PREFIX)
        self._address = f"{base_url.rstrip('/')}/chat/completions"
        self._wait = wait

    def reply(self, prompt: str, most: int) -> str:
        """What the model replies to a prompt, drawn at temperature 0.

        Args:
            prompt: The user's turn.
            most: Tokens of the reply at most.

        Raises:
            InputError: The server cannot be reached, refuses, or replies with something else.
        """
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": most,
        }
        for tried in range(1, _TRIES + 1):
            try:
                return _content(self._post(body))
            except urllib.error.HTTPError as error:
                if error.code not in _AGAIN or tried == _TRIES:
                    reason = " ".join(error.read(300).decode("utf-8", "replace").split())
                    raise self._fault(f"answers {error.code}: {reason}") from None
            except (OSError, http.client.HTTPException) as error:
                if tried == _TRIES:
                    raise self._fault(f"cannot be reached: {getattr(error, 'reason', error)}") from None
            except (ValueError, LookupError, TypeError):
                raise self._fault("replies with something that is no conversation") from None
            self._wait(_WAIT_S * 2 ** (tried - 1))
        raise AssertionError("unreachable")

    def replies(self, prompts: Sequence[str], most: int) -> Iterator[tuple[str, str]]:
        """Each prompt and what the model replies to it; see `reply`."""
        return ((prompt, self.reply(prompt, most)) for prompt in prompts)

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        # From the environment alone: options are written into the run's files.
        if key := os.environ.get(KEY, ""):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self._address, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            return json.loads(response.read())

    def _fault(self, what: str) -> InputError:
        return InputError(f"endpoint {self._address} of model {self._model!r} {what[:300]}")


def _content(reply: Any) -> str:
    """The text of the first choice; empty where the model wrote none."""
    content = reply["choices"][0]["message"]["content"]
    if content is not None and not isinstance(content, str):
        raise TypeError
    return content or ""
