"""A model's configuration, read from transformers by the model's name, with one-line errors.

It is read once for each state of the model's files, and no weight is read.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, SondeError
from sonde.base.files import FileStamp, get_file_stamps
from sonde.models.engine.checks import check_config
from sonde.models.engine.family import ModelSpec
from sonde.models.engine.files import resolve_commit, small_files
from sonde.models.engine.locate import locate_model
from sonde.models.engine.silence import format_error, silence_libraries


def load_auto_class(auto_class: Any, spec: ModelSpec, **arguments: Any) -> Any:
    """Call ``from_pretrained`` of a transformers class for a model; a failure is told in one line."""
    location = locate_model(spec)
    try:
        with silence_libraries():
            return auto_class.from_pretrained(
                location.name,
                revision=resolve_commit(location),
                trust_remote_code=spec.trust_remote_code,
                **arguments,
            )
    except SondeError:
        raise
    except Exception as error:
        raise _fault(spec, error, local=location.local) from error


def _fault(spec: ModelSpec, error: BaseException, *, local: bool) -> Exception:
    line = format_error(error)
    # What transformers says begins with the name of the folder, which may be longer than a line.
    if "trust_remote_code" in str(error):
        return InputError(
            f"model {spec.name!r} has code of its own; allow it with `sonde run "
            "--trust-remote-code` or, in Python, trust_remote_code=True"
        )
    if local:
        return InputError(f"model {spec.name!r}: cannot be read: {line}")
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if HF_HUB_OFFLINE:
        revision = f" at {spec.revision!r}" if spec.revision else ""
        return InputError(
            f"model {spec.name!r}: HF_HUB_OFFLINE is set, and the hub cache of this machine does "
            f"not have it{revision}; fetch it once with a network, or name a folder"
        )
    return InputError(
        f"model {spec.name!r}: no folder or bundled model has this name and the hub gave none: {line}; "
        "see `sonde list models`"
    )


_ATTENTION = ("eager", "sdpa")
"""Implementations of attention that PyTorch has by itself, on every machine."""


def load_config(spec: ModelSpec) -> Any:
    """Return a model's configuration; no weight is read.

    Raises:
        UnknownNameError: No model has this name.
        InputError: It cannot be reached, or is damaged.
    """
    return _read_config(strip_weight_options(spec), tokenizer_stamps(spec))


def tokenizer_stamps(spec: ModelSpec) -> tuple[FileStamp, ...]:
    """Return the stamps of the files that a model's configuration and tokenizer are read from.

    A name on the hub means one commit as long as this process runs, so it has none.
    """
    location = locate_model(spec)
    return get_file_stamps(small_files(Path(location.name))) if location.local else ()


def strip_weight_options(spec: ModelSpec) -> ModelSpec:
    """Return the part of a specification that configuration and tokenizer depend on."""
    return ModelSpec(
        name=spec.name, revision=spec.revision, gguf=spec.gguf, trust_remote_code=spec.trust_remote_code
    )


@lru_cache(maxsize=8)
def _read_config(spec: ModelSpec, stamps: tuple[FileStamp, ...]) -> Any:
    from transformers import AutoConfig

    check_config(spec)
    return _strip_runtime_settings(load_auto_class(AutoConfig, spec))


def _strip_runtime_settings(config: Any) -> Any:
    """Remove the settings of the machine where a configuration was saved.

    Attention by a package of that machine gives way to what transformers chooses on this one, and outputs are
    asked for by their names.
    """
    parts = [getattr(config, name, None) for name in getattr(config, "sub_configs", ())]
    for part_config in (config, *(part for part in parts if part is not None)):
        if getattr(part_config, "_attn_implementation", None) not in (None, *_ATTENTION):
            part_config._attn_implementation = None
        part_config.return_dict = True
    return config
