"""A model's configuration, read once for each state of its files; no weight is."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from sonde.base.files import FileStamp, file_stamps
from sonde.models._family import ModelSpec
from sonde.models._fetch import fetch
from sonde.models._files import small_files
from sonde.models._preflight import check_config
from sonde.models._resolve import locate

_ATTENTION = ("eager", "sdpa")
"""Implementations of attention that PyTorch has by itself, on every machine."""


def config_of(spec: ModelSpec) -> Any:
    """Return a model's configuration; no weight is read.

    Raises:
        UnknownNameError: No model has this name.
        InputError: It cannot be reached, or is damaged.
    """
    return _read_config(unweighted(spec), tokenizer_stamps(spec))


def tokenizer_stamps(spec: ModelSpec) -> tuple[FileStamp, ...]:
    """Return the stamps of the files that a model's configuration and tokenizer are read from.

    A name on the hub means one commit as long as this process runs, so it has none.
    """
    place = locate(spec)
    return file_stamps(small_files(Path(place.name))) if place.local else ()


def unweighted(spec: ModelSpec) -> ModelSpec:
    """What a configuration and a tokenizer depend on."""
    return ModelSpec(
        name=spec.name, revision=spec.revision, gguf=spec.gguf, trust_remote_code=spec.trust_remote_code
    )


@lru_cache(maxsize=8)
def _read_config(spec: ModelSpec, stamps: tuple[FileStamp, ...]) -> Any:
    from transformers import AutoConfig

    check_config(spec)
    return _as_read_here(fetch(AutoConfig, spec))


def _as_read_here(config: Any) -> Any:
    """A configuration without what it says of how a model was run where it was saved.

    Attention by a package of that machine gives way to what transformers chooses on this one, and outputs are
    asked for by their names.
    """
    parts = [getattr(config, name, None) for name in getattr(config, "sub_configs", ())]
    for one in (config, *(part for part in parts if part is not None)):
        if getattr(one, "_attn_implementation", None) not in (None, *_ATTENTION):
            one._attn_implementation = None
        one.return_dict = True
    return config
