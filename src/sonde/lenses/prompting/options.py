"""What a user may choose about prompts."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from sonde.base.options import Count, option
from sonde.lenses.prompting.endpoint import BASE_URL, KEY, PREFIX
from sonde.tasks._cloze_options import PromptOptions


class PromptingOptions(PromptOptions):
    """The options of the lens, beside those of its task."""

    lens = "prompting"

    base_url: str = option(
        BASE_URL, f"address of the server for models named {PREFIX}NAME; its key is read from {KEY}"
    )
    tokens: Count = option(256, "tokens of a reply at most")

    @model_validator(mode="after")
    def _without_login(self) -> Self:
        if "@" in urlsplit(self.base_url).netloc:
            # Options are written into the files of the run.
            raise PydanticCustomError("login", f"option base_url has a login in it; put the key into {KEY}")
        return self
