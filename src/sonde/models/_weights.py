"""Reading weights: from safetensors, in a stated precision, on a stated device."""

from __future__ import annotations

import copy
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import derive_seed
from sonde.models._convert import converted
from sonde.models._family import ModelSpec
from sonde.models._files import weights_of
from sonde.models._headers import read_header
from sonde.models._resolve import Location, locate

_DTYPES = ("float32", "float16", "bfloat16")


def read_weights(auto_class: str, spec: ModelSpec, config: Any, *, head_required: bool = True) -> Any:
    """A model in evaluation mode on its device.

    Args:
        auto_class: Name of the transformers class that picks the architecture.
        spec: What was asked for; with ``reinitialise`` no weight is read.
        config: Its configuration.
        head_required: Whether a checkpoint without its head is refused.

    Raises:
        InputError: The weights are missing, incomplete, damaged, or refused by the reader of pickles.
        UsageError: An unknown device or precision.
    """
    import torch
    import transformers
    from safetensors import SafetensorError

    device = device_of(spec)
    dtype = dtype_of(spec, config, device)
    picker = getattr(transformers, auto_class)
    if spec.reinitialise is not None:
        with torch.random.fork_rng(devices=[]), quiet():
            torch.manual_seed(derive_seed("reinitialise", spec.reinitialise))
            model = picker.from_config(copy.deepcopy(config), trust_remote_code=spec.trust_remote_code)
        model = model.to(dtype)
    else:
        place = _safe_place(spec)
        try:
            with quiet():
                model, report = picker.from_pretrained(
                    place.name,
                    revision=place.revision or "main",
                    config=config,
                    dtype=dtype,
                    use_safetensors=True,
                    trust_remote_code=spec.trust_remote_code,
                    output_loading_info=True,
                )
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            line = " ".join(str(error).split())[:300]
            raise InputError(f"model {spec.name!r}: cannot be loaded: {line}") from error
        _complete(spec.name, model, report, head_required=head_required)
    return model.to(device).eval().requires_grad_(requires_grad=False)


def _safe_place(spec: ModelSpec) -> Location:
    """Where a model's safetensors are, whole; pickled weights are converted into the cache on first use."""
    place = locate(spec)
    with quiet():
        weights = weights_of(place, spec.name)
    if weights.pickled:
        place = Location(name=str(converted(place, weights, spec.name)), local=True, revision="")
        weights = weights_of(place, spec.name)
    for file in weights.files:
        read_header(file, spec.name)
    return place


def device_of(spec: ModelSpec) -> Any:
    """The device that a specification means.

    Raises:
        UsageError: It does not exist here.
    """
    import torch

    if spec.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(spec.device)
    except RuntimeError as error:
        raise UsageError(f"device {spec.device!r}: unknown; give auto, cpu, cuda or cuda:N") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise UsageError(f"device {spec.device!r}: this machine has {count} of that kind; give auto or cpu")
    return device


def dtype_of(spec: ModelSpec, config: Any, device: Any) -> Any:
    """Auto is float32, and what the checkpoint was trained in where an accelerator runs bfloat16."""
    import torch

    if spec.dtype in _DTYPES:
        return getattr(torch, spec.dtype)
    if spec.dtype != "auto":
        raise UsageError(f"dtype {spec.dtype!r}: unknown; give auto, {', '.join(_DTYPES)}")
    stored = getattr(config, "dtype", None)
    return torch.bfloat16 if device.type != "cpu" and stored == torch.bfloat16 else torch.float32


def _complete(name: str, model: Any, report: dict[str, Any], *, head_required: bool) -> None:
    missing = sorted(report.get("missing_keys", ()))
    body = f"{model.base_model_prefix}."
    if not head_required:
        missing = [key for key in missing if key.startswith(body)]
    if missing or report.get("mismatched_keys"):
        example = missing[0] if missing else str(next(iter(report["mismatched_keys"])))
        count = len(missing) + len(report.get("mismatched_keys", ()))
        raise InputError(
            f"model {name!r}: {count} weights of {type(model).__name__} are not in the checkpoint "
            f"({example!r} first); name a checkpoint saved with its head"
        )


@contextmanager
def quiet() -> Generator[None]:
    """Keep the progress bars, retries and advice of transformers and the hub out of the terminal."""
    from transformers.utils import logging as transformers_logging

    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    bars = transformers_logging.is_progress_bar_enabled()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars:
            transformers_logging.enable_progress_bar()
