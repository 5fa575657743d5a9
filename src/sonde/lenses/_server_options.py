"""Options of lenses that read a model behind a server."""

from __future__ import annotations

import json
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from sonde.base.options import Options, option
from sonde.base.values import Count, Whole
from sonde.models._naming import PREFIX
from sonde.models._server import BASE_URL, KEY, ServerSettings


class ServerOptions(Options):
    """Where a server is and how it is asked."""

    base_url: str = option(
        BASE_URL, f"address of the server for models named {PREFIX}NAME; its key is read from {KEY}"
    )
    concurrency: Count = option(4, "requests to the server at a time", scoring=True)
    token_limit: Whole = option(
        0,
        "tokens that a call of the command may spend at the server, as it counts them, prompts and replies "
        "together; what was answered by then is kept",
        scoring=True,
        unset="no limit",
    )
    parameters: str = option(
        "",
        "what each request says beside the prompt, as a JSON object, such as "
        '{"reasoning_effort": "low", "max_completion_tokens": 512, "max_tokens": null}; null leaves out what '
        "sonde says by itself",
    )

    @model_validator(mode="after")
    def _check_server(self) -> Self:
        if "@" in urlsplit(self.base_url).netloc:
            # Options are written into the files of the run.
            raise PydanticCustomError("login", f"option base_url has a login in it; put the key into {KEY}")
        if not self.base_url.startswith(("http://", "https://")):
            raise PydanticCustomError(
                "address", "option base_url is no address; give one such as {url}", {"url": BASE_URL}
            )
        if self.parameters and not isinstance(_object(self.parameters), dict):
            raise PydanticCustomError("json", "option parameters is no JSON object")
        return self

    @property
    def server(self) -> ServerSettings:
        """The same for the client."""
        return ServerSettings(
            base_url=self.base_url,
            concurrency=self.concurrency,
            token_limit=self.token_limit,
            parameters=self.parameters,
        )


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
