"""Loading of models ready for capture, saving, and derived checkpoints (8-bit or random weights).

`load_model` goes from a specification to a model; transformers is imported inside. `wrap_model` takes a model
that is in memory. `save_model` saves as transformers does, but omits a head that the model's files never
held. `derive_checkpoint` makes a checkpoint to compare another with.
"""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.files import FileStamp, get_file_stamps, write_folder
from sonde.models.engine.adapters import check_adapter, lacks_adapter
from sonde.models.engine.architectures import ArchitectureFamily, EncoderDecoderFamily
from sonde.models.engine.catalogue import ATTENTION_WEIGHTS, MASKED_HEAD, Checkpoint
from sonde.models.engine.checks import check_vocabulary, contents_by_headers, head_weights
from sonde.models.engine.config_values import architectures, names_language_model, number, text_config
from sonde.models.engine.configuration import load_config
from sonde.models.engine.device_map import count_modules_by_device
from sonde.models.engine.external import VECTORS, encoder_revision, is_encoder, load_encoder
from sonde.models.engine.family import (
    FAMILIES,
    Capabilities,
    Contents,
    Family,
    LoadedModel,
    ModelSpec,
    SpecialTokens,
    computing_device,
    get_contents,
)
from sonde.models.engine.files import (
    SERVED,
    SERVED_REVISION,
    SERVED_SPECIAL,
    adapter_hash,
    check_folder_empty,
    content_files,
    copy_files,
    gguf_file,
    small_files,
    takes_texts,
    uses_server,
)
from sonde.models.engine.gguf import gguf_facts
from sonde.models.engine.locate import check_content, files_revision, locate_model
from sonde.models.engine.model_names import split_family
from sonde.models.engine.quantise import (
    check_quantisation,
    disable_outliers,
    find_quantisation,
    needs_bitsandbytes,
    quantiser,
)
from sonde.models.engine.silence import MODEL_CODE_ERRORS, one_line_errors, silence_libraries
from sonde.models.engine.tokenizer import load_tokenizer, tokenizer_fact
from sonde.models.engine.weights import TF32, resolve_device, resolve_dtype

_FALLBACKS = ("encoder", "decoder")
"""Families that take whatever transformers loads; they are asked last, in this order."""


def load_model(spec: ModelSpec) -> LoadedModel:
    """Load a model with its tokenizer and check its head against a plain forward.

    Raises:
        UnknownNameError: No model has this name.
        InputError: It cannot be reached, or cannot be read by sonde.
    """
    config = load_config(spec)
    name, family = _find_family(spec, config)
    capabilities, special = _describe_by_family(spec, family)
    _check_weight_options(spec, config)
    model = family.load(spec, config)
    if contents := get_contents(model):
        capabilities = _with_head(capabilities, contents)
    if capabilities.head:
        _check_head(spec, family, model, capabilities)
    kind = find_quantisation(spec, config)
    if spec.reinitialise is not None and not needs_bitsandbytes(kind):
        # Weights drawn at random are quantised by bitsandbytes alone.
        kind = ""
    revision = resolve_revision(spec)
    check_content(spec)
    loaded_model = LoadedModel(
        spec=spec,
        revision=revision,
        model=model,
        tokenizer=load_tokenizer(spec),
        capabilities=capabilities,
        special=special,
        family=name,
        # The columns that 8 bits spare are chosen over all rows of a batch.
        alone=kind == "8bit",
        facts=_facts(spec, config, model, kind),
    )
    return _with_trial_facts(loaded_model)


def wrap_model(model: Any, tokenizer: Any, name: str) -> LoadedModel:
    """Make a model in memory ready for capture, for example one that is being trained; no file is read.

    Args:
        model: The transformers module with its head, in evaluation mode.
        tokenizer: Its fast tokenizer.
        name: Its name in messages; a file of a model family may stand before it, as in `ModelSpec.name`.

    Raises:
        InputError: No family takes it, the tokenizer is of another model, or it fails on a few subwords.
    """
    spec, config = ModelSpec(name=name), model.config
    family_name, family = _find_family(spec, config)
    capabilities, special = family.capabilities(config), family.special_tokens(tokenizer, config)
    check_vocabulary(spec, tokenizer, capabilities, special)
    _check_head(spec, family, model, capabilities)
    loaded_model = LoadedModel(
        spec=spec,
        revision="",
        model=model,
        tokenizer=tokenizer,
        capabilities=_with_signs(capabilities, special),
        special=special,
        family=family_name,
    )
    return _with_trial_facts(loaded_model)


def resolve_auto(spec: ModelSpec, *, attention: bool = False) -> ModelSpec:
    """Replace ``auto`` by its meaning on this machine, so that results of other machines are distinguished.

    Args:
        spec: A model.
        attention: Whether its attention is read: half precision moves the weights of a deep model by some
            hundredths, and a processor computes in float32 as fast.

    Raises:
        UsageError: The device or dtype does not exist here.
    """
    if takes_texts(spec):
        return spec
    device, config = resolve_device(spec), load_config(spec)
    dtype = str(resolve_dtype(spec, config, device)).removeprefix("torch.")
    if attention and spec.dtype == "auto" and device.type == "cpu" and not find_quantisation(spec, config):
        dtype = "float32"
    # Its weights are those of float32, and its numbers are not.
    dtype = TF32 if spec.dtype == TF32 else dtype
    return dataclasses.replace(spec, device=str(device), dtype=dtype)


def is_trainable(spec: ModelSpec) -> bool:
    """Return whether a model's weights are numbers on one device, as training needs; none is read."""
    return takes_texts(spec) or not (spec.device_map or find_quantisation(spec, load_config(spec)))


def describe_model(spec: ModelSpec) -> Capabilities:
    """Describe a model by its configuration and tokenizer; no weight is read.

    The weights of a folder are checked against their headers, so a damaged one is refused before work begins.

    Raises:
        UnknownNameError: No model has this name.
        InputError: It cannot be reached, or no family takes it.
    """
    if uses_server(spec):
        return SERVED
    if is_encoder(spec):
        load_encoder(spec)
        return VECTORS
    config = load_config(spec)
    _, family = _find_family(spec, config)
    capabilities, _ = _describe_by_family(spec, family)
    _check_weight_options(spec, config)
    return capabilities


def describe_checkpoint(checkpoint: Checkpoint) -> Capabilities:
    """Return what lenses ask before they read a known checkpoint; nothing is fetched.

    Of a published checkpoint the sizes are 0: only its configuration says them, and no lens of sonde's
    refuses a model for its size.
    """
    if checkpoint.bundled:
        return describe_model(ModelSpec(name=checkpoint.name))

    family = FAMILIES.load(checkpoint.family)
    assert isinstance(family, ArchitectureFamily), checkpoint.family
    return Capabilities(
        kind=family.kind,
        layers=0,
        heads=0,
        d_model=0,
        vocab=0,
        context=0,
        attention="none" if ATTENTION_WEIGHTS in checkpoint.lacks else "interface",
        masks=family.kind != "decoder" and MASKED_HEAD not in checkpoint.lacks,
        head=MASKED_HEAD not in checkpoint.lacks,
    )


def describe_special(spec: ModelSpec) -> SpecialTokens:
    """Return a model's special-token policy; no weight is read."""
    if takes_texts(spec):
        return SERVED_SPECIAL
    config = load_config(spec)
    _, family = _find_family(spec, config)
    return family.special_tokens(load_tokenizer(spec), config)


def _check_weight_options(spec: ModelSpec, config: Any) -> None:
    """Refuse an adapter or a quantisation that cannot be read, before a weight is."""
    check_quantisation(spec, config)
    if spec.adapter:
        check_adapter(spec, number(text_config(config), "vocab_size"))


def _facts(spec: ModelSpec, config: Any, model: Any, kind: str) -> dict[str, str]:
    """Return the facts of how a model was read, for ``run.json``."""
    facts = {"tokenizer": tokenizer_fact(spec)}
    if gguf_file(spec) is not None:
        facts |= gguf_facts(Path(locate_model(spec).name))
    class_names, contents = architectures(config), get_contents(model)
    is_language_model = type(model).__name__ in class_names or names_language_model(class_names)
    if contents and contents.head and class_names and not is_language_model:
        source = "its tied input embeddings" if contents.tied else "weights of its files"
        facts["head"] = f"{source}; its configuration names {', '.join(class_names)}"
    if kind:
        facts["quantised"] = quantiser(kind)
    if spec.adapter and spec.reinitialise is None:
        facts["adapter"] = "merged" if lacks_adapter(model) else "beside the weights"
    if device_counts := count_modules_by_device(model):
        facts["placed"] = ", ".join(
            f"{count} module{'s' * (count > 1)} on {device}" for device, count in device_counts.items()
        )
    return facts


def resolve_revision(spec: ModelSpec) -> str:
    """Return the revision of a name: a hub commit or a hash of files, and the changes to the weights.

    That is the adapter by its content, the quantisation, and the seed of random weights.
    """
    if uses_server(spec):
        return SERVED_REVISION
    if is_encoder(spec):
        return encoder_revision(spec)
    revision = files_revision(spec)
    if file := split_family(spec.name)[0]:
        revision += f"+{FAMILIES.source_hash(file)[:8]}"
    if spec.adapter:
        revision += f"+adapter-{adapter_hash(spec)}"
    if kind := find_quantisation(spec, load_config(spec)):
        revision += f"+{quantiser(kind)}"
    return revision if spec.reinitialise is None else f"{revision}+reinitialised-{spec.reinitialise}"


def _describe_by_family(spec: ModelSpec, family: Family) -> tuple[Capabilities, SpecialTokens]:
    """Describe a model by its family, and check vocabulary and files; without a mask none masks."""
    config, tokenizer = load_config(spec), load_tokenizer(spec)
    capabilities, special = family.capabilities(config), family.special_tokens(tokenizer, config)
    check_vocabulary(spec, tokenizer, capabilities, special)
    capabilities = _with_signs(capabilities, special)
    location = locate_model(spec)
    if location.local:
        stamps = get_file_stamps(content_files(Path(location.name)))
        contents = _find_local_contents(spec, capabilities.kind, stamps)
    else:
        # Not cached: a hub that did not answer is asked again.
        contents = contents_by_headers(spec, config, capabilities.kind)
    return capabilities if contents is None else _with_head(capabilities, contents), special


@lru_cache(maxsize=16)
def _find_local_contents(spec: ModelSpec, kind: str, stamps: tuple[FileStamp, ...]) -> Contents | None:
    return contents_by_headers(spec, load_config(spec), kind)


def _with_signs(capabilities: Capabilities, special: SpecialTokens) -> Capabilities:
    """Return the capabilities without masks where the tokenizer has no sign for what is left out."""
    signs = {"encoder-decoder": special.gap, "decoder": special.infill}
    sign = signs.get(capabilities.kind, special.mask)
    return dataclasses.replace(capabilities, masks=capabilities.masks and sign is not None)


def _with_head(capabilities: Capabilities, contents: Contents) -> Capabilities:
    """Replace the capabilities by those of the files' contents; without a head it cannot fill in."""
    return dataclasses.replace(capabilities, head=contents.head, masks=capabilities.masks and contents.head)


def _find_family(spec: ModelSpec, config: Any) -> tuple[str, Family]:
    if file := split_family(spec.name)[0]:
        family = FAMILIES.load(file)
        if not family.matches(config):
            raise InputError(f"model {spec.name!r}: {file} does not take the type {config.model_type!r}")
        return file, family
    names = [name for name in FAMILIES.names() if name not in _FALLBACKS]
    for name in (*names, *_FALLBACKS):
        family = FAMILIES.load(name)
        if family.matches(config):
            return name, family
    families = (family for name in names if isinstance(family := FAMILIES.load(name), EncoderDecoderFamily))
    if any(config.model_type in (family.model_types or ()) for family in families):
        raise InputError(
            f"model {spec.name!r}: its config.json describes one half of an encoder-decoder of type "
            f"{config.model_type!r}, which is read whole; name the checkpoint that has both"
        )
    raise InputError(
        f"model {spec.name!r}: type {config.model_type!r} is neither a causal, a masked nor a known "
        "encoder-decoder language model"
    )


def _with_trial_facts(loaded_model: LoadedModel) -> LoadedModel:
    """Read a few subwords to set the number of positions, if smaller than configured, and the padding."""
    from sonde.models.engine.trial_batches import table_positions, takes_padding

    capabilities = loaded_model.capabilities
    with _trial_errors(loaded_model.spec, loaded_model.model), disable_outliers(loaded_model.model):
        positions = table_positions(loaded_model)
        if positions is not None and positions < capabilities.context:
            fact = {
                "positions": (f"{positions} of the {capabilities.context} that its configuration declares")
            }
            new_capabilities = dataclasses.replace(capabilities, context=positions)
            loaded_model = dataclasses.replace(
                loaded_model, capabilities=new_capabilities, facts={**loaded_model.facts, **fact}
            )
        return dataclasses.replace(loaded_model, takes_padding=takes_padding(loaded_model))


def _check_head(spec: ModelSpec, family: Family, model: Any, capabilities: Capabilities) -> None:
    import torch

    from sonde.models.engine.lm_head import is_separable

    token_ids = torch.arange(
        min(4, capabilities.vocab, capabilities.context), device=computing_device(model)
    )[None]
    inputs = {"input_ids": token_ids}
    if capabilities.kind == "encoder-decoder":
        inputs["decoder_input_ids"] = token_ids
    try:
        with _trial_errors(spec, model):
            separable = is_separable(*family.body_and_head(model), model, **inputs)
    except FloatingPointError as error:
        dtype = str(model.dtype).removeprefix("torch.")
        fix = (
            "run it with --dtype float32 or bfloat16" if dtype == "float16" else "it is damaged or untrained"
        )
        raise InputError(f"model {spec.name!r}: its logits are NaN or infinite in {dtype}; {fix}") from error
    if not separable:
        raise InputError(
            f"model {spec.name!r}: {type(model).__name__} does more after its body than sonde can separate"
        )


def _trial_errors(spec: ModelSpec, model: Any) -> AbstractContextManager[None]:
    """Turn whatever a model's own code raises on a few subwords into one line."""
    subject = f"model {spec.name!r}: {type(model).__name__} fails on a few subwords"
    return one_line_errors(subject, MODEL_CODE_ERRORS)


def save_model(loaded_model: LoadedModel, folder: Path) -> None:
    """Write the weights and configuration of a model; a head of random weights is left out.

    Raises:
        OSError: The folder cannot be written.
    """
    model = loaded_model.model
    state = None
    if not loaded_model.capabilities.head:
        absent = head_weights(model, ())
        state = {name: weight for name, weight in model.state_dict().items() if name not in absent}
    with silence_libraries():
        model.save_pretrained(folder, state_dict=state)


WEIGHTS = ("int8", "random")
"""``int8``: every matrix rounded row by row to 255 steps (symmetric, by the row's largest weight), written as
float32, so that rounding is all that changes; ``random``: drawn anew, as the architecture begins."""


_STEPS = 127


def derive_checkpoint(name: str, target: Path, weights: str, *, seed: int = 0) -> Path:
    """Write a checkpoint with derived weights, its tokenizer and other files beside them.

    Args:
        name: A folder, a hub name or a bundled name.
        target: The new folder.
        weights: One of `WEIGHTS`.
        seed: Of random weights.

    Returns:
        ``target``.

    Raises:
        UnknownNameError: No such weights, or no model has this name.
        UsageError: The folder is not empty, or the model is no folder.
        InputError: The model cannot be read.
        StoreError: The folder cannot be written.
    """
    if weights not in WEIGHTS:
        raise UnknownNameError("weights", weights, WEIGHTS)
    location = locate_model(ModelSpec(name=name))
    if not location.local:
        raise UsageError(f"model {name!r}: only weights of a folder are derived; download it first")
    check_folder_empty(target)
    spec = ModelSpec(
        name=name, device="cpu", dtype="float32", reinitialise=seed if weights == "random" else None
    )
    loaded_model = load_model(spec)
    if weights == "int8":
        _round(loaded_model.model)

    def write(new_folder: Path) -> None:
        save_model(loaded_model, new_folder)
        copy_files(small_files(Path(location.name)), new_folder)

    write_folder(target, write)
    return target


def _round(model: Any) -> None:
    """Round every matrix in place, one that several layers share once."""
    import torch

    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim != 2:
                continue
            step = weight.abs().amax(dim=1, keepdim=True) / _STEPS
            if not torch.isfinite(step).all():
                raise InputError("weights are infinite or NaN; they cannot be rounded")
            weight.copy_(torch.where(step > 0, (weight / step).round() * step, weight))
