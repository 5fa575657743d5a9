"""Models behind a server: known by name alone, and asked in words alone."""

from __future__ import annotations

from sonde.models._family import Capabilities, ModelSpec, SpecialTokens

PREFIX = "openai:"
"""What stands before the name of a model that a server with OpenAI's protocol runs."""

CAPABILITIES = Capabilities(
    kind="endpoint", layers=0, heads=0, d_model=0, vocab=0, context=0, attention="none", masks=False
)

SPECIAL = SpecialTokens(bos=None, bos_source="none")

REVISION = "endpoint"
"""A server does not say which weights it runs."""


def behind_a_server(spec: ModelSpec) -> bool:
    """Whether a model is one of a server's."""
    return spec.name.startswith(PREFIX)
