"""PEFT adapters: found beside a base, held against it, and merged into its weights where they can be."""

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
"""Subwords on which a merged adapter is held against the same beside the weights."""


_PROMPTS = frozenset({"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CARTRIDGE"})
"""Kinds that stand before a text in the place of subwords, and so shift every position."""


def check_adapter(spec: ModelSpec, vocabulary: int) -> None:
    """Hold an adapter against its base by their configurations and headers; no weight is read.

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
    about = f"model {spec.name!r}: adapter {spec.adapter!r}"
    config = read_object(settings, spec.adapter)
    kind = str(config.get("peft_type", ""))
    if kind in _PROMPTS:
        raise InputError(
            f"{about} is of kind {kind}, learned vectors before a text in the place of subwords; sonde reads "
            "adapters of weights, such as LORA"
        )
    named = str(config.get("base_model_name_or_path") or "")
    if _is_different_model(spec, named):
        raise InputError(
            f"{about} was trained over {named!r}; name that as the model, or correct base_model_name_or_path "
            f"in its {ADAPTER_CONFIG}"
        )
    shapes, own = local_headers(spec), read_header(weights, spec.adapter)
    _check_vocabulary(about, config.get("trainable_token_indices"), own, shapes, vocabulary)
    for name, held in own.items():
        _check_shape(about, name, held, shapes)


def _is_different_model(spec: ModelSpec, named: str) -> bool:
    """Return whether the base of an adapter is known to be another model than the one of `spec`."""
    place = locate_model(spec)
    bare = split_revision(split_family(spec.name)[1])[0]
    if not named or named == bare:
        return False
    folder = expand_home(named)
    if folder.is_dir():
        # A folder that has been moved or copied is known by what it holds.
        return place.local and content_hash(str(folder)) != content_hash(place.name)
    bundled = bundled_folder(bare) is not None
    mine = bare if bundled or not place.local else hub_name(Path(place.name))
    # A path of another machine says nothing, nor does a folder whose origin is not known.
    return bool(mine) and named.count("/") <= 1 and named[:1] not in "./~" and named.lower() != mine.lower()


def _check_vocabulary(
    about: str, trained: Any, own: dict[str, Tensor], base: dict[str, Tensor], vocabulary: int
) -> None:
    """Refuse an adapter over a base whose vocabulary was resized, by whichever way PEFT keeps new rows."""
    rows: set[int] = set()
    for name, held in own.items():
        module, found, which = name.removeprefix("base_model.model.").rpartition(".lora_")
        weight = base.get(f"{module}.weight" if found else name.removeprefix("base_model.model."))
        if weight is None or len(weight.shape) != 2 or len(held.shape) != 2 or weight.shape[0] != vocabulary:
            continue
        if which == "embedding_A":
            rows.add(held.shape[1])
        elif not found and held.shape[1] == weight.shape[1]:
            rows.add(held.shape[0])
    by_module = cast("dict[str, list[int]]", trained if isinstance(trained, dict) else {"": trained or []})
    last = max((row for some in by_module.values() for row in some), default=-1)
    resized = max((*rows, *([last + 1] if last >= vocabulary else [])), default=vocabulary)
    if resized != vocabulary:
        raise InputError(
            f"{about} was trained over a vocabulary of {resized:,}, and the base has {vocabulary:,}: its "
            "embeddings were resized first; resize the base's (resize_token_embeddings), save it with the "
            "adapter's tokenizer, and name that"
        )


def _check_shape(about: str, name: str, held: Tensor, base: dict[str, Tensor]) -> None:
    """Refuse a LoRA matrix that does not fit the weight that it changes."""
    module, found, which = name.removeprefix("base_model.model.").rpartition(".lora_")
    weight = base.get(f"{module}.weight")
    if not found or weight is None or len(weight.shape) != 2 or len(held.shape) != 2:
        return
    side = held.shape[1] if which.startswith("A") else held.shape[0]
    # Conv1D of GPT-2 holds its matrix the other way round.
    if which[:2] in ("A.", "B.") and side not in weight.shape:
        raise InputError(
            f"{about} is another model's: its {name!r} is {_times(held)}, and {module!r} of the base is "
            f"{_times(weight)}; name the base that it was trained over"
        )


def _times(one: Tensor) -> str:
    return " x ".join(map(str, one.shape))


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
        wrapped = peft.PeftModel(model, config, autocast_adapter_dtype=False)
        told = wrapped.load_adapter(
            folder, "default", torch_device=str(model.device), autocast_adapter_dtype=False
        )
        lost = [*told.missing_keys, *told.unexpected_keys]
        can_merge = merge and hasattr(wrapped.base_model, "merge_and_unload")
        if not lost and can_merge and not _changes_tied_weights(model):
            return _merge_adapter(wrapped)
    if lost:
        raise InputError(
            f"model {spec.name!r}: adapter {spec.adapter!r} is another model's: {lost[0]!r} is in one of the "
            f"two alone{fix}"
        )
    return wrapped.get_base_model()


def _changes_tied_weights(model: Any) -> bool:
    """Tell whether an adapter changes a weight that has another use, as tied embeddings have."""
    names = Counter(id(weight) for _, weight in model.named_parameters(remove_duplicate=False))
    changed = (module.base_layer for module in model.modules() if hasattr(module, "base_layer"))
    return any(names[id(weight)] > 1 for layer in changed for weight in layer.parameters(recurse=False))


def _merge_adapter(wrapped: Any) -> Any:
    """Return a base with its adapter in the weights where it reads as before, else beside them."""
    import torch

    wrapped.eval()
    words = min(_TRIAL, wrapped.get_input_embeddings().num_embeddings)
    some = torch.arange(words, device=wrapped.device)[None]
    given = {"input_ids": some}
    if getattr(wrapped.config, "is_encoder_decoder", False):
        given["decoder_input_ids"] = some
    near = 1e-3 if wrapped.dtype == torch.float32 else 5e-2
    with torch.inference_mode():
        beside = wrapped(**given).logits.float()
        wrapped.merge_adapter(safe_merge=True)
        moved = (wrapped(**given).logits.float() - beside).abs().max()
    if moved > near * (1 + beside.abs().max()):
        wrapped.unmerge_adapter()
        return wrapped.get_base_model()
    return wrapped.unload()


def lacks_adapter(model: Any) -> bool:
    """Return whether no adapter is beside the weights of a model."""
    return not any(hasattr(module, "base_layer") for module in model.modules())
