"""PEFT adapters: found beside a base, checked against it, and merged into its weights where they can be."""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.models.engine.family import ModelSpec
from sonde.models.engine.files import (
    ADAPTER_CONFIG,
    Tensor,
    adapter_files,
    content_hash,
    hub_name,
    read_header,
    read_object,
)
from sonde.models.engine.locate import local_headers, locate_model
from sonde.models.engine.model_names import bundled_folder, split_family, split_revision
from sonde.models.engine.silence import one_line_errors

_TRIAL = 16
"""Subwords on which a merged adapter is compared with the same beside the weights."""


_PROMPTS = frozenset({"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CARTRIDGE"})
"""Kinds that stand before a text in the place of subwords, and so shift every position."""


def check_adapter(spec: ModelSpec, vocabulary: int) -> None:
    """Check an adapter against its base by their configurations and headers; no weight is read.

    Args:
        spec: The base with the adapter.
        vocabulary: Rows of the base's embeddings.

    Raises:
        UsageError: PEFT is not installed.
        InputError: The adapter is damaged, of a kind that is not read, or another model's.
    """
    if find_spec("peft") is None:
        raise UsageError(f"model {spec.name!r}: adapters need PEFT: pip install 'sonde[peft]'")
    settings, weights = adapter_files(spec)
    subject = f"model {spec.name!r}: adapter {spec.adapter!r}"
    config = read_object(settings, spec.adapter)
    kind = str(config.get("peft_type", ""))
    if kind in _PROMPTS:
        raise InputError(
            f"{subject} is of kind {kind}, learned vectors before a text in the place of subwords; sonde "
            "reads adapters of weights, such as LORA"
        )
    base_name = str(config.get("base_model_name_or_path") or "")
    if _is_different_model(spec, base_name):
        raise InputError(
            f"{subject} was trained over {base_name!r}; name that as the model, or correct "
            f"base_model_name_or_path in its {ADAPTER_CONFIG}"
        )
    shapes, tensors = local_headers(spec), read_header(weights, spec.adapter)
    _check_vocabulary(subject, config.get("trainable_token_indices"), tensors, shapes, vocabulary)
    for name, tensor in tensors.items():
        _check_shape(subject, name, tensor, shapes)


def _is_different_model(spec: ModelSpec, base_name: str) -> bool:
    """Return whether the base of an adapter is known to be another model than the one of `spec`."""
    location = locate_model(spec)
    model_name = split_revision(split_family(spec.name)[1])[0]
    if not base_name or base_name == model_name:
        return False
    folder = expand_home(base_name)
    if folder.is_dir():
        # A folder that has been moved or copied is known by what it holds.
        return location.local and content_hash(str(folder)) != content_hash(location.name)
    is_bundled = bundled_folder(model_name) is not None
    expected_name = model_name if is_bundled or not location.local else hub_name(Path(location.name))
    # A path of another machine says nothing, nor does a folder whose origin is not known.
    return (
        bool(expected_name)
        and base_name.count("/") <= 1
        and base_name[:1] not in "./~"
        and base_name.lower() != expected_name.lower()
    )


def _check_vocabulary(
    subject: str, token_indices: Any, tensors: dict[str, Tensor], base: dict[str, Tensor], vocabulary: int
) -> None:
    """Refuse an adapter over a base whose vocabulary was resized, by whichever way PEFT keeps new rows."""
    rows: set[int] = set()
    for name, tensor in tensors.items():
        module, separator, suffix = name.removeprefix("base_model.model.").rpartition(".lora_")
        weight = base.get(f"{module}.weight" if separator else name.removeprefix("base_model.model."))
        if (
            weight is None
            or len(weight.shape) != 2
            or len(tensor.shape) != 2
            or weight.shape[0] != vocabulary
        ):
            continue
        if suffix == "embedding_A":
            rows.add(tensor.shape[1])
        elif not separator and tensor.shape[1] == weight.shape[1]:
            rows.add(tensor.shape[0])
    by_module = cast(
        "dict[str, list[int]]",
        token_indices if isinstance(token_indices, dict) else {"": token_indices or []},
    )
    last = max((row for indices in by_module.values() for row in indices), default=-1)
    trained_size = max((*rows, *([last + 1] if last >= vocabulary else [])), default=vocabulary)
    if trained_size != vocabulary:
        raise InputError(
            f"{subject} was trained over a vocabulary of {trained_size:,}, and the base has "
            f"{vocabulary:,}: its embeddings were resized first; resize the base's "
            "(resize_token_embeddings), save it with the adapter's tokenizer, and name that"
        )


def _check_shape(subject: str, name: str, tensor: Tensor, base: dict[str, Tensor]) -> None:
    """Refuse a LoRA matrix that does not fit the weight that it changes."""
    module, separator, suffix = name.removeprefix("base_model.model.").rpartition(".lora_")
    weight = base.get(f"{module}.weight")
    if not separator or weight is None or len(weight.shape) != 2 or len(tensor.shape) != 2:
        return
    side = tensor.shape[1] if suffix.startswith("A") else tensor.shape[0]
    # Conv1D of GPT-2 holds its matrix the other way round.
    if suffix[:2] in ("A.", "B.") and side not in weight.shape:
        raise InputError(
            f"{subject} is another model's: its {name!r} is {_times(tensor)}, and {module!r} of the base is "
            f"{_times(weight)}; name the base that it was trained over"
        )


def _times(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))


def apply_adapter(spec: ModelSpec, model: Any, *, merge: bool) -> Any:
    """Apply an adapter to its base.

    Args:
        spec: What was asked for.
        model: The base, in memory.
        merge: Whether the adapter may become part of the weights; not of rounded ones, which would be rounded
            again.

    Returns:
        The model; an adapter that is not merged is in its layers, beside their weights.

    Raises:
        InputError: The adapter does not fit.
    """
    peft: Any = importlib.import_module("peft")

    settings, _ = adapter_files(spec)
    folder = str(settings.parent)
    subject = f"model {spec.name!r}: adapter {spec.adapter!r} does not fit it"
    fix = "; name the base that it was trained over"
    with one_line_errors(subject, fix=fix), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = peft.PeftConfig.from_pretrained(folder)
        peft_model = peft.PeftModel(model, config, autocast_adapter_dtype=False)
        report = peft_model.load_adapter(
            folder, "default", torch_device=str(model.device), autocast_adapter_dtype=False
        )
        unmatched_keys = [*report.missing_keys, *report.unexpected_keys]
        can_merge = merge and hasattr(peft_model.base_model, "merge_and_unload")
        if not unmatched_keys and can_merge and not _changes_tied_weights(model):
            return _merge_adapter(peft_model)
    if unmatched_keys:
        raise InputError(
            f"model {spec.name!r}: adapter {spec.adapter!r} is another model's: "
            f"{unmatched_keys[0]!r} is only in one of the two{fix}"
        )
    return peft_model.get_base_model()


def _changes_tied_weights(model: Any) -> bool:
    """Tell whether an adapter changes a weight that has another use, as tied embeddings have."""
    names = Counter(id(weight) for _, weight in model.named_parameters(remove_duplicate=False))
    base_layers = (module.base_layer for module in model.modules() if hasattr(module, "base_layer"))
    return any(names[id(weight)] > 1 for layer in base_layers for weight in layer.parameters(recurse=False))


def _merge_adapter(peft_model: Any) -> Any:
    """Return a base with its adapter in the weights where it reads as before, else beside them."""
    import torch

    peft_model.eval()
    words = min(_TRIAL, peft_model.get_input_embeddings().num_embeddings)
    token_ids = torch.arange(words, device=peft_model.device)[None]
    inputs = {"input_ids": token_ids}
    if getattr(peft_model.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = token_ids
    tolerance = 1e-3 if peft_model.dtype == torch.float32 else 5e-2
    with torch.inference_mode():
        unmerged_logits = peft_model(**inputs).logits.float()
        peft_model.merge_adapter(safe_merge=True)
        difference = (peft_model(**inputs).logits.float() - unmerged_logits).abs().max()
    if difference > tolerance * (1 + unmerged_logits.abs().max()):
        peft_model.unmerge_adapter()
        return peft_model.get_base_model()
    return peft_model.unload()


def lacks_adapter(model: Any) -> bool:
    """Return whether no adapter is beside the weights of a model."""
    return not any(hasattr(module, "base_layer") for module in model.modules())
