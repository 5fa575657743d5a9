"""Which files a model has: a run plans with them, and reads no others."""

from __future__ import annotations

import dataclasses

from sonde.base.errors import InputError
from sonde.models._adapting import adapter_hash
from sonde.models._family import ModelSpec
from sonde.models._files import revision_of
from sonde.models._resolve import content_hash, files_hash, gguf_file, locate, takes_texts


def pin(spec: ModelSpec) -> ModelSpec:
    """Return the specification of a model's files as they are now; loading it refuses any others.

    Raises:
        UnknownNameError: No model has this name.
        InputError: An adapter cannot be found.
    """
    return spec if takes_texts(spec) else dataclasses.replace(spec, content=_content(spec))


def files_revision(spec: ModelSpec) -> str:
    """Return the commit of a model on the hub, or the hash of its folder's files, or of its GGUF file."""
    if (file := gguf_file(spec)) is not None:
        return f"gguf-{files_hash([file])}"
    place = locate(spec)
    return content_hash(place.name) if place.local else revision_of(place)


def _content(spec: ModelSpec) -> str:
    adapter = f"+{adapter_hash(spec)}" if spec.adapter else ""
    return f"{files_revision(spec)}{adapter}"


def check_content(spec: ModelSpec) -> None:
    """Refuse weights that are not those that a run has planned with, and files its numbers under.

    Raises:
        InputError: The files were written again.
    """
    if spec.content and _content(spec) != spec.content:
        raise InputError(
            f"model {spec.name!r}: its files were written again after the run had begun; repeat the command "
            "to read them as they are now"
        )
