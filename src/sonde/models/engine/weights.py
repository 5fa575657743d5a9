"""Reading weights: from safetensors, in a stated precision, on a stated device."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from sonde.base.errors import UsageError
from sonde.base.fingerprint import derive_seed
from sonde.models.engine.adapters import apply_adapter
from sonde.models.engine.checks import check_finite, check_keys, head_weights
from sonde.models.engine.convert import locate_safetensors
from sonde.models.engine.device_map import (
    architecture,
    complete_map,
    delete_folder_after_model,
    dispatch_model,
    offload_folder,
    parse_map,
)
from sonde.models.engine.family import Contents, ModelSpec, set_contents
from sonde.models.engine.files import resolve_commit
from sonde.models.engine.locate import local_headers
from sonde.models.engine.quantise import (
    bitsandbytes_settings,
    compute_in_input_type,
    find_quantisation,
    needs_bitsandbytes,
    quantise_in_memory,
)
from sonde.models.engine.silence import one_line_errors, silence_libraries

_DTYPES = ("float32", "float16", "bfloat16")


TF32 = "tf32"
"""Weights in float32 whose products an accelerator makes from 10 bits behind the point."""


def read_weights(auto_class: str, spec: ModelSpec, config: Any) -> Any:
    """Read a model in evaluation mode, on the device where it computes.

    Args:
        auto_class: Name of the transformers class that picks the architecture.
        spec: What was asked for; with ``reinitialise`` no weight is read, and there is no adapter: one begins
            as nothing.
        config: Its configuration.

    Returns:
        The model; of a checkpoint without a head the head is random, see `sonde.models.engine.family`.

    Raises:
        InputError: The weights are missing, incomplete, damaged, or refused by the reader of pickles.
        UsageError: An unknown device or precision.
    """
    import transformers

    device = resolve_device(spec)
    dtype = resolve_dtype(spec, config, device)
    picker = getattr(transformers, auto_class)
    kind = find_quantisation(spec, config)
    settings = bitsandbytes_settings(kind, dtype) if needs_bitsandbytes(kind) else None
    device_map = parse_map(spec)
    if isinstance(device_map, dict):
        skeleton = architecture(picker, config, trust_remote_code=spec.trust_remote_code)
        device_map = complete_map(spec, device_map, skeleton)
    if spec.reinitialise is not None:
        model = _init_random(picker, spec, config, dtype)
        if settings is not None:
            model = quantise_in_memory(model, settings)
    else:
        # What is merged is whole in memory first.
        at_once = None if spec.adapter and not kind else device_map
        model, contents = _read(picker, spec, config, dtype, settings, at_once)
        if spec.adapter:
            model = apply_adapter(spec, model, merge=not kind)
        set_contents(model, contents)
        device_map = None if at_once else device_map
    if device_map and not kind:
        folder = offload_folder()
        with one_line_errors(f"model {spec.name!r}: cannot be placed", (ValueError,)), silence_libraries():
            model = dispatch_model(model, device_map, folder)
        delete_folder_after_model(model, folder)
    elif spec.reinitialise is not None or not (kind or spec.device_map):
        model = model.to(device)
    if kind == "4bit":
        compute_in_input_type(model)
    return model.eval().requires_grad_(requires_grad=False)


def _init_random(picker: Any, spec: ModelSpec, config: Any, dtype: Any) -> Any:
    """Build the architecture with random weights, in memory."""
    import torch

    config = copy.deepcopy(config)
    # Weights that were never quantised are drawn, whatever the checkpoint holds.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.random.fork_rng(devices=[]), silence_libraries():
        torch.manual_seed(derive_seed("reinitialise", spec.reinitialise))
        model = picker.from_config(config, trust_remote_code=spec.trust_remote_code)
    return model.to(dtype)


def _read(
    picker: Any, spec: ModelSpec, config: Any, dtype: Any, settings: Any, device_map: Any
) -> tuple[Any, Contents]:
    """Read the trained weights: into memory, or to where a device map or a quantisation puts them."""
    files_place, files, _ = locate_safetensors(spec)
    arguments: dict[str, Any] = {}
    folder = offload_folder() if device_map else None
    if spec.quantise:
        arguments["quantization_config"] = settings
    if device_map or find_quantisation(spec, config):
        arguments["device_map"] = device_map or {"": str(resolve_device(spec))}
    with one_line_errors(f"model {spec.name!r}: cannot be loaded"), silence_libraries():
        model, report = picker.from_pretrained(
            files_place.name,
            revision=resolve_commit(files_place),
            config=config,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=spec.trust_remote_code,
            output_loading_info=True,
            # Sizes that differ are named afterwards; transformers only logs which they are.
            ignore_mismatched_sizes=True,
            offload_folder=folder,
            **arguments,
        )
    if folder is not None:
        delete_folder_after_model(model, folder)
    contents = check_keys(spec, model, report)
    check_finite(spec, model, files, () if contents.head else head_weights(model, ()))
    return model, contents


def resolve_device(spec: ModelSpec) -> Any:
    """Return the device that a specification means.

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


def resolve_dtype(spec: ModelSpec, config: Any, device: Any) -> Any:
    """Return the dtype; auto is that of the saved weights, but float32 for float16 on a processor.

    Processors do not compute in float16: every number would be widened and rounded again at each step.
    """
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
    saved_dtype = getattr(config, "dtype", None) or _dtype_of_files(spec)
    if saved_dtype == torch.float16 and device.type == "cpu":
        return torch.float32
    return saved_dtype if saved_dtype in (torch.float16, torch.bfloat16) else torch.float32


def _dtype_of_files(spec: ModelSpec) -> Any:
    """Return the dtype of most numbers in a folder's safetensors, if the configuration names none."""
    import torch

    sizes: Counter[str] = Counter()
    for tensor in local_headers(spec).values():
        sizes[tensor.dtype] += tensor.bytes
    names = {"BF16": torch.bfloat16, "F16": torch.float16}
    return names.get(max(sizes, key=lambda name: sizes[name], default=""))
