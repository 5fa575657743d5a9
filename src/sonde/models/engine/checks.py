"""Checks of a checkpoint before anything is measured with it; each fault is reported in one line.

The headers of weight files are compared with the configuration before a weight is read. Transformers itself
says what would be missing: it is given weights without numbers. So a checkpoint without a head, or with other
layers than its configuration has, is recognised before any model is run. Files and their headers are read in
`sonde.models.engine.files`; here are the configuration, the vocabulary, and the weights after loading.
Weights that no part of the model takes are either needless or a sign of another model (`unused_weights`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError
from sonde.models.engine import config_values
from sonde.models.engine.config_values import architectures, check_sizes, names_language_model
from sonde.models.engine.convert import locate_safetensors
from sonde.models.engine.family import Capabilities, Contents, ModelSpec, SpecialTokens
from sonde.models.engine.files import (
    JSON_LIMIT,
    VOCABULARY_LIMIT,
    check_size,
    find_file,
    read_object,
    resolve_commit,
    small_files,
)
from sonde.models.engine.locate import locate_model
from sonde.models.engine.quantise import saved_quantisation
from sonde.models.engine.silence import silence_libraries

_PARTS = (
    *(
        "classifier",
        "classification_head",
        "pre_classifier",
        "score",
        "qa_outputs",
        "qa_classifier",
        "pooler",
    ),
    *("sequence_summary", "sop_classifier", "logits_proj", "discriminator_predictions", "v_head"),
    *("vision_tower", "vision_model", "visual", "multi_modal_projector", "audio_tower", "embed_vision"),
)
"""Parts of a checkpoint with another purpose than reading or scoring a text."""


_PARTS_OF_PARTS = (
    ("cls", "seq_relationship"),
    *(("head", "dense"), ("head", "norm")),
    *(("dense", "weight"), ("dense", "bias")),
)
"""The same, where a part's own name may be that of a head that scores."""


_ENCODER = ("encoder", "shared", "final_logits_bias")
"""What a decoder that is read by itself leaves to the other side of its pair."""


_COMPUTED_NAMES = re.compile(
    r"(^|\.)(rotary(_pos)?_emb\.inv_freq|position_ids|token_type_ids|num_batches_tracked"
    r"|(attn|attention|self_attn)\.(bias|masked_bias|causal_mask|rotary_emb\.\w+))$"
)
"""Masks and angles that models compute by themselves, and files of earlier versions of transformers hold."""


def unused_weights(model: Any, names: Iterable[str]) -> list[str]:
    """Return the weights that change what is measured, and that no part of a model takes.

    Examples are biases that a configuration does not ask for, scales of quantised weights without their
    configuration, tables of positions of a kind that transformers no longer has, and adapters.

    Args:
        model: The model that was read.
        names: Names of the weights that transformers has no place for.
    """
    body = getattr(model, model.base_model_prefix, model)
    needless = _PARTS if hasattr(body, "encoder") else (*_PARTS, *_ENCODER)

    def is_needless(name: str) -> bool:
        parts = name.removeprefix(f"{model.base_model_prefix}.").split(".")
        return (
            bool(_COMPUTED_NAMES.search(name)) or parts[0] in needless or tuple(parts[:2]) in _PARTS_OF_PARTS
        )

    return sorted(name for name in names if not is_needless(name))


_VOCABULARIES = (
    *("tokenizer.json", "vocab.json", "vocab.txt", "merges.txt"),
    *("spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "source.spm", "vocab.spm"),
)
"""Files that a tokenizer may be made from."""


def check_config(spec: ModelSpec) -> None:
    """Hold the files that transformers will parse to their bounds, and the configuration to its form.

    Raises:
        InputError: A file is too large, or the configuration is missing, damaged, of an unknown
            type, or of sizes that no model has.
    """
    location = locate_model(spec)
    path = find_file(location, "config.json")
    if path is None:
        if location.local:
            raise InputError(f"model {spec.name!r}: the folder has no config.json; name a saved model")
        # The hub says why.
        return
    for file in small_files(path.parent):
        check_size(file, spec.name, VOCABULARY_LIMIT if file.name in _VOCABULARIES else JSON_LIMIT)
    config = read_object(path, spec.name)
    check_sizes(config, spec.name)
    if find_file(location, "adapter_config.json") is not None:
        raise InputError(
            f"model {spec.name!r}: there is an adapter_config.json next to its config.json, so "
            "transformers would read the base that it names; move the adapter into its own folder"
        )
    if "auto_map" in config:
        return
    from transformers import CONFIG_MAPPING, __version__

    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise InputError(
            f'model {spec.name!r}: its config.json has no model_type, such as "roberta"; name a saved model'
        )
    if kind not in CONFIG_MAPPING:
        matches = difflib.get_close_matches(kind, list(CONFIG_MAPPING.keys()), n=1)
        raise InputError(
            f"model {spec.name!r}: transformers {__version__} has no model type {kind!r}"
            + (f"; did you mean {matches[0]!r}?" if matches else "; a newer one may")
        )


def tokenizer_fault(spec: ModelSpec) -> str | None:
    """Return the reason why no tokenizer could be made, if the files show one."""
    location = locate_model(spec)
    vocabulary_files = [name for name in _VOCABULARIES if find_file(location, name) is not None]
    if not vocabulary_files:
        return "it has no tokenizer; save one (tokenizer.json) next to the model"
    if all(name.endswith((".model", ".spm")) for name in vocabulary_files):
        return (
            f"its tokenizer is only {vocabulary_files[0]}; install sentencepiece and protobuf, "
            "or save a fast one (tokenizer.json) next to it"
        )
    if "tokenizer.json" in vocabulary_files:
        path = find_file(location, "tokenizer.json")
        assert path is not None
        try:
            read_object(path, spec.name, limit=VOCABULARY_LIMIT)
        except InputError as error:
            return str(error).split(": ", 1)[1]
    return None


def check_tokenizer(spec: ModelSpec, tokenizer: Any) -> None:
    """Refuse a tokenizer that transformers made up, which knows its special tokens alone.

    Raises:
        InputError: The model has no vocabulary.
    """
    ordinary = set(tokenizer.get_vocab()) - set(tokenizer.added_tokens_encoder)
    if len(ordinary) < 2:
        reason = tokenizer_fault(spec) or (
            "its tokenizer has no vocabulary; save a whole one next to the model"
        )
        raise InputError(f"model {spec.name!r}: {reason}")


def check_vocabulary(
    spec: ModelSpec, tokenizer: Any, capabilities: Capabilities, special: SpecialTokens
) -> None:
    """Check the ids that the tokenizer gives against the embeddings that the model has.

    Special tokens that no text gets (a padding token beyond the vocabulary) do not count.

    Raises:
        InputError: A text could get an id that the model has no embedding for.
    """
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    spare = set(tokenizer.all_special_tokens)
    ids = {number for token, number in vocabulary.items() if token not in spare}
    ids.update(special.prefix, special.suffix, () if special.mask is None else (special.mask,))
    last = max(ids, default=0)
    if last >= capabilities.vocab:
        raise InputError(
            f"model {spec.name!r}: its tokenizer gives ids up to {last} "
            f"({tokenizer.convert_ids_to_tokens(last)!r}), and the model has {capabilities.vocab} "
            "embeddings; the tokenizer is another model's, or vocab_size is wrong"
        )


def check_keys(spec: ModelSpec, model: Any, report: dict[str, Any]) -> Contents:
    """Check what was read against what the configuration asks for.

    Args:
        spec: What was asked for.
        model: As it was read; its weights do not matter.
        report: What transformers says of the reading.

    Returns:
        What the files hold of the model: a body is enough.

    Raises:
        InputError: Weights of the body or some of the head's are missing, or are of another shape, or the
            files have layers that were not read.
    """
    subject = f"model {spec.name!r}:"
    prefix = f"{model.base_model_prefix}."
    for name, saved_shape, expected_shape in sorted(report.get("mismatched_keys", ()), key=str):
        raise InputError(
            f"{subject} {name!r} has shape {list(saved_shape)} in its files, but "
            f"{list(expected_shape)} in its config.json; the configuration is another "
            "checkpoint's"
        )
    missing = sorted(report.get("missing_keys", ()))
    body = [name for name in missing if name.startswith(prefix)]
    has_body = getattr(model, model.base_model_prefix, model) is not model
    missing_names = body if has_body else missing
    if missing_names:
        raise InputError(
            f"{subject} its files lack {_list(missing_names)}, which its config.json requires; "
            "fetch it again, or name the configuration that belongs to it"
        )
    head = head_weights(model, missing)
    missing_names = [name for name, absent in head.items() if absent]
    class_names = architectures(model.config)
    # A classifier may have weights under names that a language model's head has, too (ModernBERT).
    if (
        missing_names
        and len(missing_names) < len(head)
        and (not class_names or names_language_model(class_names))
    ):
        raise InputError(
            f"{subject} its files lack {_list(missing_names)} of the head of "
            f"{type(model).__name__} and have others of it; name a checkpoint saved with its "
            "whole head"
        )
    # Of weights that were quantised before they were saved, their package knows what else the files hold.
    unexpected_names = (
        () if getattr(model.config, "quantization_config", None) else report.get("unexpected_keys", ())
    )
    unused_names = unused_weights(model, unexpected_names)
    known_names = {_layerless(name.removeprefix(prefix)) for name in model.state_dict()}
    deeper = [
        name
        for name in unused_names
        if "#" in (layerless_name := _layerless(name.removeprefix(prefix))) and layerless_name in known_names
    ]
    if deeper:
        raise InputError(
            f"{subject} its files have {_list(deeper)}, of layers that its config.json lacks; "
            "name the configuration that belongs to it"
        )
    if unused_names:
        raise InputError(
            f"{subject} its files have {_list(unused_names)}, which has no place in "
            f"{type(model).__name__} as its config.json describes it; without it the scores "
            "would be those of another model"
        )
    return Contents(head=not missing_names, tied=not head)


def head_weights(model: Any, missing: Sequence[str]) -> dict[str, bool]:
    """Return the weights that a head does not share with the body; True for those that are missing."""
    body = getattr(model, model.base_model_prefix, None)
    weights = dict(model.named_parameters(remove_duplicate=False))
    if body is None or body is model:
        projection = model.get_output_embeddings()
        projection_ids = set() if projection is None else {id(weight) for weight in projection.parameters()}
        projection_name = next((name for name, module in model.named_modules() if module is projection), "")
        shared_ids = {
            id(weight) for name, weight in weights.items() if not name.startswith(f"{projection_name}.")
        }
        head = projection_ids - shared_ids
    else:
        shared_ids = {id(weight) for weight in body.parameters()}
        head = {id(weight) for weight in weights.values()} - shared_ids
    # What is tied to another weight goes by two names.
    absent = {id(weights[name]) for name in missing if name in weights}
    return {name: id(weight) in absent for name, weight in sorted(weights.items()) if id(weight) in head}


def _list(names: list[str]) -> str:
    return repr(names[0]) + (f" and {len(names) - 1} more weights" if len(names) > 1 else "")


def _layerless(name: str) -> str:
    return re.sub(r"(?<![^.])\d+(?![^.])", "#", name)


def check_finite(spec: ModelSpec, model: Any, files: Iterable[Path], absent: Container[str] = ()) -> None:
    """Refuse weights that are NaN or infinite; one pass over the memory.

    Args:
        spec: What was asked for.
        model: As it was read.
        files: Its weights.
        absent: Weights that the files do not hold, which are whatever was in memory.

    Raises:
        InputError: Some are, in the files or since they are held in half precision.
    """
    import torch

    names: list[str] = []
    elsewhere = False
    for name, weight in model.named_parameters():
        if name in absent:
            continue
        if weight.device.type == "meta":
            elsewhere = True
            continue
        # NaN and infinity survive a sum; only where there may be one is each number looked at.
        doubtful = weight.is_floating_point() and not weight.sum(dtype=torch.float32).isfinite()
        if doubtful and not weight.isfinite().all():
            names.append(name)
    if elsewhere:
        # What was left on disk is looked at there.
        names += _broken_in(files)
    if not names:
        return
    subject = f"model {spec.name!r}: in {_list(names)}"
    dtype = str(model.dtype).removeprefix("torch.")
    if dtype == "float16" and not _broken_in(files):
        raise InputError(
            f"{subject} numbers do not fit into float16; run it with --dtype float32 or bfloat16"
        )
    raise InputError(f"{subject} numbers are NaN or infinite; the checkpoint is damaged, fetch it again")


def _broken_in(files: Iterable[Path]) -> list[str]:
    """Names of weights with numbers that are NaN or infinite, one read at a time."""
    from safetensors import safe_open

    names: list[str] = []
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  no mapping
                weight = tensors.get_tensor(name)
                if weight.is_floating_point() and not weight.isfinite().all():
                    names.append(name)
    return names


_Shapes = Mapping[str, tuple[int, ...]]


def contents_by_headers(spec: ModelSpec, config: Any, kind: str) -> Contents | None:
    """Return the contents of the files, or None if only reading the weights shows them.

    That is so of code that a model brings, of weights that were quantised before they were saved, and of what
    the hub does not say.

    Args:
        spec: The model.
        config: Its configuration.
        kind: ``"decoder"``, ``"encoder"`` or ``"encoder-decoder"``.

    Raises:
        InputError: The weights are missing, damaged, or another configuration's.
    """
    model_class = config_values.model_class(kind, config)
    if getattr(config, "auto_map", None) or saved_quantisation(config):
        model_class = None
    if locate_model(spec).local:
        try:
            *_, headers = locate_safetensors(spec)
        except InputError:
            if spec.reinitialise is None:
                raise
            # Weights are drawn for a configuration that stands alone, too.
            return None
        shapes = {name: header.shape for name, header in headers.items()}
    else:
        shapes = None if model_class is None else _shapes_on_hub(spec)
    if shapes is None or model_class is None:
        return None
    return _inspect_shapes(spec.name, model_class, config, shapes)


def _shapes_on_hub(spec: ModelSpec) -> _Shapes | None:
    """Return the shapes of a model's tensors as the hub lists them, or None if it does not."""
    from huggingface_hub import HfApi

    location = locate_model(spec)
    try:
        with silence_libraries():
            metadata = HfApi().get_safetensors_metadata(location.name, revision=resolve_commit(location))
    except Exception:
        # No network, no safetensors, no permission: whatever it is, reading the model says it.
        return None
    return {
        tensor: tuple(entry.shape)
        for file in metadata.files_metadata.values()
        for tensor, entry in file.tensors.items()
    }


def _inspect_shapes(name: str, model_class: Any, config: Any, shapes: _Shapes) -> Contents | None:
    import copy

    import torch

    weights = {tensor: torch.empty(shape, device="meta") for tensor, shape in shapes.items()}
    try:
        with silence_libraries():
            model, report = model_class.from_pretrained(
                None,
                config=copy.deepcopy(config),
                state_dict=weights,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                device_map={"": "meta"},
            )
    except Exception:
        # What a class cannot do without numbers, it is asked for when they are read.
        return None
    return check_keys(ModelSpec(name=name), model, report)
