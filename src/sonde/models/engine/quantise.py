"""Weights of fewer bits: by bitsandbytes while a model is read, or as a checkpoint was saved (GPTQ, AWQ).

Of 8 bits (LLM.int8) the inputs of a layer are rounded too, all but columns that hold a large number anywhere
in the batch. Of 4 bits (NF4) the weights are rounded alone.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, cast

from sonde.base.errors import UsageError
from sonde.models.engine.family import ModelSpec
from sonde.models.engine.silence import one_line_errors, silence_libraries

_PACKAGE = "bitsandbytes"


_PACKAGES = {"8bit": _PACKAGE, "4bit": _PACKAGE, "gptq": "gptqmodel", "awq": "gptqmodel"}
"""What computes with the weights of a quantisation, where it is not transformers itself."""


def saved_quantisation(config: Any) -> str:
    """Return how the weights of a checkpoint were quantised before saving; empty if they were not.

    ``"8bit"`` and ``"4bit"`` are bitsandbytes', others go by transformers' name: ``"gptq"``, ``"awq"``.
    """
    settings = _settings(config)
    if not settings:
        return ""
    if settings.get("load_in_8bit") or settings.get("load_in_4bit"):
        return "8bit" if settings.get("load_in_8bit") else "4bit"
    method = settings.get("quant_method", "")
    return str(getattr(method, "value", method)) or "unknown"


def _settings(config: Any) -> Mapping[str, Any]:
    settings = getattr(config, "quantization_config", None)
    if settings is None:
        return {}
    return cast("Mapping[str, Any]", settings if isinstance(settings, Mapping) else settings.to_dict())


def find_quantisation(spec: ModelSpec, config: Any) -> str:
    """Return the quantisation of a model's linear layers: as requested, as saved, or empty for none."""
    return spec.quantise or saved_quantisation(config)


def needs_bitsandbytes(kind: str) -> bool:
    """Return whether bitsandbytes implements a quantisation."""
    return kind in ("8bit", "4bit")


def check_quantisation(spec: ModelSpec, config: Any) -> None:
    """Refuse what cannot be quantised, or read, on this machine; no weight is read.

    Raises:
        UsageError: It was quantised before, or bitsandbytes is not installed.
        InputError: A package or device that the checkpoint needs is not there.
    """
    saved_kind = saved_quantisation(config)
    if spec.quantise:
        if saved_kind:
            raise UsageError(
                f"model {spec.name!r}: its weights were saved as {saved_kind} and are read so; leave out "
                f"--quantise {spec.quantise}"
            )
        _must_have_bitsandbytes(spec)
        if '"disk"' in spec.device_map or '"cpu"' in spec.device_map:
            raise UsageError(
                f"model {spec.name!r}: bitsandbytes does not fetch {spec.quantise} weights from memory or "
                "disk; leave out --quantise, or give --device-map auto"
            )
    elif saved_kind and spec.reinitialise is None:
        if needs_bitsandbytes(saved_kind):
            _must_have_bitsandbytes(spec)
        _must_be_readable(spec, config, saved_kind)


def _must_have_bitsandbytes(spec: ModelSpec) -> None:
    if find_spec(_PACKAGE) is None:
        raise UsageError(
            f"model {spec.name!r}: weights in {spec.quantise or 'few bits'} need bitsandbytes: "
            "pip install 'sonde[quantise]'"
        )


def _must_be_readable(spec: ModelSpec, config: Any, saved_kind: str) -> None:
    """Ask transformers whether this machine has what a quantised checkpoint needs."""
    from transformers.quantizers.auto import AutoHfQuantizer

    subject = f"model {spec.name!r}: its weights were saved as {saved_kind}, which is not read here"
    missing = (ImportError, RuntimeError, ValueError, TypeError, NotImplementedError)
    with (
        one_line_errors(subject, missing, fix="; or name its weights before they were quantised"),
        silence_libraries(),
    ):
        hf_quantiser = AutoHfQuantizer.from_config(dict(_settings(config)), pre_quantized=True)
        hf_quantiser.validate_environment(device_map=None, weights_only=True)


def bitsandbytes_settings(kind: str, dtype: Any) -> Any:
    """Build the settings: LLM.int8 with its published threshold, or NF4 without a second rounding."""
    from transformers import BitsAndBytesConfig

    if kind == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=dtype,
    )


def quantise_in_memory(model: Any, settings: Any) -> Any:
    """Replace the linear layers of a model with random weights, by the rules for reading a checkpoint."""
    from torch import nn
    from transformers.integrations.bitsandbytes import replace_with_bnb_linear
    from transformers.pytorch_utils import Conv1D
    from transformers.quantizers.base import HfQuantizer

    layers: Any = importlib.import_module("bitsandbytes.nn.modules")
    original_modules = dict(model.named_modules())
    skipped_modules = HfQuantizer.get_modules_to_not_convert(model, None, model._keep_in_fp32_modules)
    replace_with_bnb_linear(model, modules_to_not_convert=skipped_modules, quantization_config=settings)
    is_8bit = bool(settings.load_in_8bit)
    for name, module in model.named_modules():
        old = original_modules[name]
        if module is old or not isinstance(module, nn.Linear):
            continue
        weight = old.weight.data.T.contiguous() if isinstance(old, Conv1D) else old.weight.data
        if is_8bit:
            parameter = layers.Int8Params(weight, requires_grad=False, has_fp16_weights=False)
        else:
            parameter = layers.Params4bit(
                weight, requires_grad=False, compress_statistics=False, quant_type="nf4", module=module
            )
        module._parameters["weight"] = parameter.to("cpu")
        module._parameters["bias"] = old.bias
    model.config.quantization_config = settings
    return model


def compute_in_input_type(model: Any) -> None:
    """Make 4-bit layers widen and multiply in the type of their inputs.

    Where a processor multiplies in bfloat16, bitsandbytes rounds inputs to it and takes only some widths.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


@contextmanager
def disable_outliers(model: Any) -> Generator[None]:
    """Round every column of the inputs of 8-bit layers, so that a row does not depend on those beside it."""
    thresholds = [
        (module.state, module.state.threshold)
        for module in model.modules()
        if type(module).__name__ == "Linear8bitLt"
    ]
    for state, _ in thresholds:
        state.threshold = 0.0
    try:
        yield
    finally:
        for state, threshold in thresholds:
            state.threshold = threshold


def quantiser(kind: str) -> str:
    """Return a quantisation with the version of the package that computes it, for revisions.

    >>> quantiser("fp8")
    'fp8'
    """
    if (package := _PACKAGES.get(kind)) is None:
        return kind
    try:
        return f"{kind}-{package}-{version(package)}"
    except PackageNotFoundError:
        return f"{kind}-{package}-absent"


logging.getLogger(_PACKAGE).setLevel(logging.ERROR)
