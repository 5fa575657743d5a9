"""What a user may choose about prompts."""

from __future__ import annotations

from sonde.base.options import option
from sonde.base.values import Count
from sonde.lenses._server_options import ServerOptions
from sonde.tasks._cloze_options import PromptOptions


class PromptingOptions(PromptOptions, ServerOptions):
    """The options of the lens, beside those of its task."""

    lens = "prompting"

    tokens: Count = option(256, "tokens of a reply at most")
