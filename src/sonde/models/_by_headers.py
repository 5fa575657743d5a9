"""A checkpoint held against its configuration by the headers of its files, before a weight is read.

Transformers itself says what would be missing: it is handed weights without numbers. So a checkpoint without
a head, or with other layers than its configuration has, is known before any model has been run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError
from sonde.base.files import FileStamp, file_stamps
from sonde.models import _shapes
from sonde.models._contents import Contents
from sonde.models._family import ModelSpec
from sonde.models._files import revision_of
from sonde.models._headers import read_header
from sonde.models._preflight import check_keys
from sonde.models._quantising import saved_quantisation
from sonde.models._quiet import quiet
from sonde.models._resolve import locate
from sonde.models._weights import safe_place

_MAPPINGS = {
    "decoder": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "encoder": "MODEL_FOR_MASKED_LM_MAPPING",
    "encoder-decoder": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
}
"""Classes by kind, as the families load them."""

_Shapes = Mapping[str, tuple[int, ...]]


def contents_by_headers(spec: ModelSpec, config: Any, kind: str) -> Contents | None:
    """What the files hold; None where that is seen only when they are read.

    That is so of code that a model brings, of weights that were quantised before they were saved, and of what
    the hub does not say.

    Args:
        spec: The model.
        config: Its configuration.
        kind: ``"decoder"``, ``"encoder"`` or ``"encoder-decoder"``.

    Raises:
        InputError: The weights are missing, damaged, or another configuration's.
    """
    model_class = _shapes.model_class(_MAPPINGS[kind], config) if kind in _MAPPINGS else None
    if model_class is None or getattr(config, "auto_map", None) or saved_quantisation(config):
        return None
    if locate(spec).local:
        try:
            _, files = safe_place(spec)
        except InputError:
            if spec.reinitialise is None:
                raise
            # Weights are drawn for a configuration that stands alone, too.
            return None
        return _of_folder(spec.name, model_class, _Config(config), file_stamps(files))
    shapes = _shapes_on_hub(spec)
    return None if shapes is None else _found(spec.name, model_class, config, shapes)


class _Config:
    """A configuration as part of a key: one object as long as its files are the same."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def __hash__(self) -> int:
        return id(self.config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Config) and other.config is self.config


@lru_cache(maxsize=16)
def _of_folder(
    name: str, model_class: Any, config: _Config, stamps: tuple[FileStamp, ...]
) -> Contents | None:
    shapes: dict[str, tuple[int, ...]] = {}
    for path, *_ in stamps:
        shapes |= {tensor: one.shape for tensor, one in read_header(Path(path), name).items()}
    return _found(name, model_class, config.config, shapes)


def _shapes_on_hub(spec: ModelSpec) -> _Shapes | None:
    """What the hub says of the safetensors of a model, without fetching them; None where it says nothing."""
    from huggingface_hub import HfApi

    place = locate(spec)
    try:
        with quiet():
            told = HfApi().get_safetensors_metadata(place.name, revision=revision_of(place))
    except Exception:
        # No network, no safetensors, no permission: whatever it is, reading the model says it.
        return None
    return {
        tensor: tuple(one.shape)
        for file in told.files_metadata.values()
        for tensor, one in file.tensors.items()
    }


def _found(name: str, model_class: Any, config: Any, shapes: _Shapes) -> Contents | None:
    import copy

    import torch

    weights = {tensor: torch.empty(shape, device="meta") for tensor, shape in shapes.items()}
    try:
        with quiet():
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
