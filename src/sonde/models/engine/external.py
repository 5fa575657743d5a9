"""Models that sonde does not load itself: outside encoders, and servers that speak OpenAI's protocol.

An outside encoder is any object that gives one vector per text, defined in a file or offered by a package:

    class Mine:
        weights = "all-MiniLM-L6-v2@c9745ed1"

        def encode(self, texts):
            return ...  # one row per text

    encoder = Mine()

``-m ./my_encoder.py`` reads it, and ``-m mine`` does if a package offers it by the entry point `GROUP`. It
has no subwords, layers or heads: probes on whole functions read its vectors as those of one layer.

Servers are queried with the official client, which retries if a server is busy or fails, after the time that
``Retry-After`` states. This module keeps what a run needs beyond the client: several requests at a time, the
number of tokens that they cost, and a one-line error for each kind of failure.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float

from sonde.base.errors import CaptureError, InputError, UsageError, explain_nan
from sonde.base.files import expand_home
from sonde.base.fingerprint import fingerprint
from sonde.base.registry import (
    find_entry_points,
    find_source_file,
    hash_path,
    import_entry_point,
    import_from_path,
)
from sonde.models.engine.family import Capabilities, ModelSpec
from sonde.models.engine.model_names import PREFIX

if TYPE_CHECKING:
    from openai import OpenAI

KEY = "OPENAI_API_KEY"


BASE_URL = "https://api.openai.com/v1"


_TRIES = 6


_TIMEOUT_S = 300.0


_DECLINE_STATUSES = (400, 404, 405, 413, 422, 501)


_MESSAGE_LIMIT = 300
"""Characters of what a server says that an error line repeats."""


Asked = TypeVar("Asked")


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Address of a server and settings of the requests.

    Attributes:
        base_url: What stands before ``/chat/completions``.
        concurrency: Requests at a time.
        token_limit: Tokens that this process may spend, prompts and replies together; 0 for no limit.
        parameters: What each request says beside the prompt, as a JSON object; null takes away what sonde
            itself says.
    """

    base_url: str = BASE_URL
    concurrency: int = 1
    token_limit: int = 0
    parameters: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's reply in a conversation.

    Attributes:
        text: The reply; empty where there is none.
        thinking: What a server gives apart as the model's reasoning.
        refused: Whether the server says that the model, or a filter before it, refused.
        cut: Whether the reply ends where its tokens ran out.
        read: Tokens of the prompt, as the server counts; 0 where it does not say.
        written: Tokens of the reply, reasoning included, likewise.
    """

    text: str
    thinking: str = ""
    refused: bool = False
    cut: bool = False
    read: int = 0
    written: int = 0


class DeclinedError(InputError):
    """A server understood a request and declined it, for example since a text is too long for its model."""


class FailedError(InputError):
    """A server answers a request with an internal error, as llama.cpp's does to what it does not support."""


class Server:
    """One model of a server.

    Args:
        name: The model's name, with or without ``openai:``.
        settings: Where it is and how it is asked.

    Raises:
        UsageError: The package ``openai`` is missing.
    """

    def __init__(self, name: str, settings: ServerSettings) -> None:
        address = settings.base_url.rstrip("/")
        self._model, self._address, self._settings = name.removeprefix(PREFIX), address, settings
        self._parameters: dict[str, Any] = json.loads(settings.parameters or "{}")
        self._client = _client(address)
        self._lock, self._spent = threading.Lock(), 0

    def chat(self, prompt: str, max_tokens: int) -> Reply:
        """Return the model's reply to a prompt, at temperature 0 unless the parameters say otherwise.

        Args:
            prompt: The user's turn.
            max_tokens: Tokens of the reply at most.

        Raises:
            InputError: The server cannot be reached, refuses, or replies with something else.
        """
        fields = {
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": max_tokens,
        }
        return self._ask("/chat/completions", fields, _reply)

    def complete(self, prompt: str, **fields: Any) -> Mapping[str, Any]:
        """Return the first choice of a completion, as the server gives it.

        Args:
            prompt: The text that is completed.
            **fields: What the request says beside it.

        Raises:
            DeclinedError: The server declines the request.
            InputError: The server cannot be reached or replies with something else.
        """
        return self._ask("/completions", {"prompt": prompt, **fields}, _choice)

    def ask_all(
        self, ask: Callable[[Asked], Answer], queries: Sequence[Asked]
    ) -> Iterator[tuple[Asked, Answer]]:
        """Yield each question with its answer as answers arrive, several requests at a time.

        Raises:
            Exception: The first that a request raised; answers that come after it are given before it is
                raised.
        """
        fault: BaseException | None = None
        with ThreadPoolExecutor(self._settings.concurrency) as pool:
            query_by_future = {pool.submit(ask, query): query for query in queries}
            pending_futures = set(query_by_future)
            try:
                while pending_futures:
                    done, pending_futures = wait(pending_futures, return_when=FIRST_COMPLETED)
                    for future in done:
                        if fault := fault or future.exception():
                            pending_futures = {future for future in pending_futures if not future.cancel()}
                    yield from (
                        (query_by_future[future], future.result())
                        for future in done
                        if future.exception() is None
                    )
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        if fault is not None:
            raise fault

    def _ask(self, path: str, fields: Mapping[str, Any], read: Callable[[Any], Answer]) -> Answer:
        import openai

        self._within_limit()
        body = {"model": self._model, **fields, **self._parameters}
        body = {name: value for name, value in body.items() if value is not None}
        try:
            response: Any = json.loads(self._client.post(path, body=body, cast_to=str, options=_headers()))
        except openai.APIStatusError as error:
            reason = " ".join(error.response.text.split())
            status = error.status_code
            kind = (
                DeclinedError if status in _DECLINE_STATUSES else FailedError if status == 500 else InputError
            )
            raise kind(self._fault(f"answers {error.status_code}: {reason}")) from None
        except openai.APIConnectionError as error:
            raise InputError(self._fault(f"cannot be reached: {error.__cause__ or error}")) from None
        except (openai.OpenAIError, ValueError):
            raise InputError(self._fault("replies with something that is not JSON")) from None
        try:
            answer = read(response)
            self._count(response.get("usage") or {})
        except (LookupError, TypeError, AttributeError):
            raise InputError(self._fault(f"replies with something that is not a {path[1:]}")) from None
        return answer

    def _within_limit(self) -> None:
        limit = self._settings.token_limit
        if limit and self._spent >= limit:
            raise InputError(
                f"model {self._model!r}: {self._spent} tokens are spent and token_limit is "
                f"{limit}; answers are kept, and the same command resumes"
            )

    def _count(self, usage: Mapping[str, Any]) -> None:
        token_count = _number(usage, "prompt_tokens") + _number(usage, "completion_tokens")
        with self._lock:
            self._spent += token_count

    def _fault(self, message: str) -> str:
        return f"endpoint {self._address} of model {self._model!r} {message[:_MESSAGE_LIMIT]}"


@lru_cache(maxsize=4)
def get_server(name: str, settings: ServerSettings) -> Server:
    """Return the server of a model; one per process, so that all its requests count together."""
    return Server(name, settings)


def _client(address: str) -> OpenAI:
    try:
        from openai import OpenAI
    except ImportError:
        raise UsageError(
            f"models named {PREFIX}NAME are asked with the package openai, which is missing; "
            "install it with pip install 'sonde[server]'"
        ) from None
    # From the environment alone: options are written into the run's files.
    return OpenAI(
        base_url=address, api_key=os.environ.get(KEY) or "none", max_retries=_TRIES - 1, timeout=_TIMEOUT_S
    )


def _headers() -> Any:
    """Build headers without the stand-in for a key: many servers want none, and the client requires one."""
    from openai import Omit

    return {} if os.environ.get(KEY) else {"headers": {"Authorization": Omit()}}


def _choice(response: Any) -> Mapping[str, Any]:
    choice = response["choices"][0]
    if not isinstance(choice, Mapping):
        raise TypeError
    return choice


def _reply(response: Any) -> Reply:
    """Parse the first choice of a conversation; servers have two names for a model's reasoning."""
    choice, usage = _choice(response), response.get("usage") or {}
    message, finish_reason = choice["message"], choice.get("finish_reason")
    content, reasoning_text = (
        message.get("content"),
        message.get("reasoning_content") or message.get("reasoning"),
    )
    if content is not None and not isinstance(content, str):
        raise TypeError
    return Reply(
        text=content or "",
        thinking=reasoning_text if isinstance(reasoning_text, str) else "",
        refused=bool(message.get("refusal")) or finish_reason == "content_filter",
        cut=finish_reason == "length",
        read=_number(usage, "prompt_tokens"),
        written=_number(usage, "completion_tokens"),
    )


def _number(usage: Mapping[str, Any], name: str) -> int:
    count = usage.get(name)
    return count if isinstance(count, int) else 0


GROUP = "sonde.encoders"
"""Entry points of encoders, by the name that ``-m`` takes."""


VECTORS = Capabilities(
    kind="vectors", layers=0, heads=0, d_model=0, vocab=0, context=0, attention="none", masks=False
)


@runtime_checkable
class OutsideEncoder(Protocol):
    """An encoder; what it has as ``weights``, a text, is part of its revision beside its file."""

    def encode(self, texts: list[str], /) -> Any:
        """Return one vector per text: an array of shape (text, width), or what becomes one."""
        ...


def is_encoder(spec: ModelSpec) -> bool:
    """Return whether a model is an encoder from outside."""
    return spec.name.endswith(".py") or spec.name in find_entry_points(GROUP)


def load_encoder(spec: ModelSpec) -> OutsideEncoder:
    """Load the encoder that a specification names.

    Raises:
        InputError: There is none, or it is no encoder.
        UsageError: Something is asked of its weights.
    """
    subject = f"encoder {spec.name!r}"
    if spec.adapter or spec.quantise or spec.device_map:
        raise UsageError(f"{subject} has its own weights; leave out adapter, quantise and device map")
    if entry := find_entry_points(GROUP).get(spec.name):
        module = import_entry_point(entry, subject)
    else:
        module = import_from_path(expand_home(spec.name), "sonde.models", subject)
    encoder = getattr(module, "encoder", None)
    if isinstance(encoder, type) or not isinstance(encoder, OutsideEncoder):
        raise InputError(f"{subject}: its file defines no `encoder`, an object with encode(texts)")
    return encoder


def encoder_revision(spec: ModelSpec) -> str:
    """Hash of the encoder's file and of what it says of its weights."""
    entry = find_entry_points(GROUP).get(spec.name)
    source = find_source_file(entry) if entry else expand_home(spec.name)
    weights = str(getattr(load_encoder(spec), "weights", ""))
    return fingerprint("encoder", "" if source is None else hash_path(source), weights)[:32]


def encode_texts(spec: ModelSpec, texts: Sequence[str]) -> Float[np.ndarray, "text width"]:
    """Encode texts into vectors.

    Raises:
        InputError: It fails.
        CaptureError: It gives something else than a vector of finite numbers per text.
    """
    subject = f"encoder {spec.name!r}"
    encoder = load_encoder(spec)
    try:
        vectors = np.asarray(encoder.encode(list(texts)), dtype=np.float32)
    except Exception as error:
        raise InputError(f"{subject}: {type(error).__name__}: {error}".splitlines()[0]) from error
    if vectors.ndim != 2 or len(vectors) != len(texts):
        shape = " x ".join(map(str, vectors.shape))
        raise CaptureError(f"{subject}: {len(texts)} texts gave an array of {shape}, not one row per text")
    if not np.isfinite(vectors).all():
        raise CaptureError(f"{subject}: a vector is not finite; {explain_nan()}")
    return vectors
