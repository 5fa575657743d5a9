"""Reading weights: from safetensors, in a stated precision, on a stated device."""

from __future__ import annotations

import copy
import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import derive_seed
from sonde.models._convert import converted
from sonde.models._family import ModelSpec
from sonde.models._files import revision_of, weights_of
from sonde.models._headers import check_fetched, read_header
from sonde.models._preflight import check_finite, check_keys
from sonde.models._resolve import Location, locate

_DTYPES = ("float32", "float16", "bfloat16")
TF32 = "tf32"
"""Weights in float32 whose products an accelerator makes from 10 bits behind the point."""


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

    device = device_of(spec)
    dtype = dtype_of(spec, config, device)
    picker = getattr(transformers, auto_class)
    if spec.reinitialise is not None:
        with torch.random.fork_rng(devices=[]), quiet():
            torch.manual_seed(derive_seed("reinitialise", spec.reinitialise))
            model = picker.from_config(copy.deepcopy(config), trust_remote_code=spec.trust_remote_code)
        model = model.to(dtype)
    else:
        place, files = _safe_place(spec)
        try:
            with quiet():
                model, report = picker.from_pretrained(
                    place.name,
                    revision=revision_of(place),
                    config=config,
                    dtype=dtype,
                    use_safetensors=True,
                    trust_remote_code=spec.trust_remote_code,
                    output_loading_info=True,
                    # Sizes that differ are named afterwards; transformers only logs which they are.
                    ignore_mismatched_sizes=True,
                )
        except Exception as error:
            raise InputError(f"model {spec.name!r}: cannot be loaded: {one_line(error)}") from error
        check_keys(spec, model, report, head_required=head_required)
        check_finite(spec, model, files)
    return model.to(device).eval().requires_grad_(requires_grad=False)


def check_files(spec: ModelSpec) -> None:
    """Hold the weights of a local folder against their headers; the hub's are fetched when they are loaded.

    Raises:
        InputError: A file is missing or damaged, or an index leads out of the folder.
    """
    place = locate(spec)
    if place.local:
        weights = weights_of(place, spec.name)
        for file in weights.files:
            if weights.pickled:
                check_fetched(file, spec.name)
            else:
                read_header(file, spec.name)


def _safe_place(spec: ModelSpec) -> tuple[Location, tuple[Path, ...]]:
    """Where a model's safetensors are, whole; pickled weights are converted into the cache on first use."""
    place = locate(spec)
    with quiet():
        weights = weights_of(place, spec.name)
    if weights.pickled:
        place = Location(name=str(converted(place, weights, spec.name)), local=True, revision="")
        weights = weights_of(place, spec.name)
    for file in weights.files:
        read_header(file, spec.name)
    return place, weights.files


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
    if spec.dtype == TF32:
        if device.type != "cuda":
            raise UsageError(
                f"dtype 'tf32': device {device} does not multiply so; give float32, or a cuda device"
            )
        return torch.float32
    if spec.dtype != "auto":
        raise UsageError(f"dtype {spec.dtype!r}: unknown; give auto, {', '.join((*_DTYPES, TF32))}")
    stored = getattr(config, "dtype", None)
    return torch.bfloat16 if device.type != "cpu" and stored == torch.bfloat16 else torch.float32


def one_line(error: BaseException) -> str:
    """What a library says, in one line; its kind where it says nothing."""
    return " ".join(str(error).split())[:300] or type(error).__name__


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
