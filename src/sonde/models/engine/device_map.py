"""Placement of a model's parts: on one device, or over devices, memory and disk as accelerate maps them.

What lies in memory or on disk is fetched by accelerate for each module that computes. `copy_to_device` gives
a head its weights where it computes.
"""

from __future__ import annotations

import copy
import difflib
import json
import os
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.files import expand_home, get_cache_folder
from sonde.models.engine.family import ModelSpec, iterate_hooks

POLICIES = ("auto", "balanced", "balanced_low_0", "sequential")
"""How accelerate fills devices by itself: fastest first, evenly, evenly but the first, or one by one."""


_OFFLOAD_DEVICES = ("cpu", "disk")


def device_map_text(device_map: str | os.PathLike[str] | Mapping[str, str | int]) -> str:
    """Write a device map as one text: a policy, or devices by module as sorted JSON.

    >>> device_map_text({"model": "cpu", "lm_head": 0})
    '{"lm_head": 0, "model": "cpu"}'

    Args:
        device_map: A policy, such a mapping, a JSON object, or a file that holds one; empty for none.

    Raises:
        UsageError: It is none of these.
    """
    value: Any = device_map
    if not isinstance(device_map, Mapping):
        text = os.fspath(device_map)
        if not text or text in POLICIES:
            return text
        if not text.lstrip().startswith("{"):
            path = expand_home(text)
            if not path.is_file():
                matches = difflib.get_close_matches(text, POLICIES, n=1)
                raise UsageError(
                    (
                        f"device map {text!r} is neither one of {', '.join(POLICIES)}, nor a JSON "
                        "object of devices by module, nor a file with one"
                    )
                    + (f"; did you mean {matches[0]!r}?" if matches else "")
                )
            text = path.read_text(encoding="utf-8")
        try:
            value = json.loads(text)
        except ValueError as error:
            raise UsageError(f"device map {text[:80]!r} is not valid JSON: {error}") from None
    devices = cast("dict[str, object]", value) if isinstance(value, Mapping) else {}
    if not devices or not all(type(device) in (str, int) for device in devices.values()):
        raise UsageError(
            f"device map {str(value)[:80]!r} is not a JSON object of devices by module, such as "
            '{"model.layers.0": "cpu", "model.layers.1": "disk", ...}'
        )
    return json.dumps(dict(sorted(devices.items())))


def parse_map(spec: ModelSpec) -> str | dict[str, str | int] | None:
    """Return the device map of a specification as accelerate takes it."""
    if not spec.device_map:
        return None
    return spec.device_map if spec.device_map in POLICIES else json.loads(spec.device_map)


def complete_map(spec: ModelSpec, device_map: Mapping[str, str | int], model: Any) -> dict[str, str | int]:
    """Check a device map against the parts of a model, and complete it.

    Args:
        spec: What was asked for, for messages.
        device_map: Devices by module.
        model: The architecture; its weights do not matter.

    Raises:
        UsageError: A module or device does not exist.
    """
    import torch

    names = [name for name, _ in (*model.named_modules(), *model.named_parameters(), *model.named_buffers())]
    for module, device in device_map.items():
        if module not in names:
            matches = difflib.get_close_matches(module, names, n=1)
            raise UsageError(
                (
                    f"model {spec.name!r}: the device map names {module!r}, which is not a part of "
                    f"{type(model).__name__}"
                )
                + (f"; did you mean {matches[0]!r}?" if matches else "")
            )
        kind, _, number = str(device).partition(":") if isinstance(device, str) else ("cuda", "", str(device))
        device_count = torch.cuda.device_count() if kind == "cuda" else kind in _OFFLOAD_DEVICES
        if not device_count or (kind == "cuda" and int(number or 0) >= device_count):
            raise UsageError(
                f"model {spec.name!r}: the device map puts {module!r} on {device!r}, which this machine does "
                "not have; give cpu, disk or the number of an accelerator"
            )
    return _whole_map(model, device_map)


def _whole_map(model: Any, device_map: Mapping[str, str | int]) -> dict[str, str | int]:
    """Complete a device map: a part that it does not name is where the part around it is.

    What shares a weight with another part lies beside it, since a weight has one place.
    """
    from accelerate.utils import find_tied_parameters

    rest = next((device for device in device_map.values() if device != "disk"), "cpu")
    device_map = {"": rest, **device_map}
    groups: list[set[str]] = []
    for parts in find_tied_parameters(model):
        modules = {part.rpartition(".")[0] for part in parts}
        for group in [group for group in groups if group & modules]:
            groups.remove(group)
            modules |= group
        groups.append(modules)
    for modules in groups:
        device = _find_device(min(modules), device_map)
        if any(_find_device(module, device_map) != device for module in modules):
            device_map |= dict.fromkeys(modules, device)
    return dict(_iterate_parts("", model, device_map, rest))


def _iterate_parts(
    name: str, module: Any, device_map: Mapping[str, str | int], parent_device: str | int
) -> Iterator[tuple[str, str | int]]:
    device = device_map.get(name, parent_device)
    begin = f"{name}." if name else ""
    devices = {
        device for part_name, device in device_map.items() if part_name and part_name.startswith(begin)
    }
    if devices <= {device}:
        yield name, device
        return
    parameters = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    yield from (
        (f"{begin}{part_name}", device_map.get(f"{begin}{part_name}", device)) for part_name, _ in parameters
    )
    for child, child_module in module.named_children():
        yield from _iterate_parts(f"{begin}{child}", child_module, device_map, device)


def _find_device(part: str, device_map: Mapping[str, str | int]) -> str | int:
    """Return the device of a part: that of the nearest enclosing part that the map names."""
    parts = part.split(".")
    enclosing_parts = (".".join(parts[:size]) for size in range(len(parts), -1, -1))
    return next(device_map[name] for name in enclosing_parts if name in device_map)


def architecture(picker: Any, config: Any, *, trust_remote_code: bool) -> Any:
    """Build a model without weights."""
    from accelerate import init_empty_weights

    with init_empty_weights():
        model = picker.from_config(copy.deepcopy(config), trust_remote_code=trust_remote_code)
    model.tie_weights()
    return model


def offload_folder() -> Path:
    """Make a folder for weights that go to disk in another form than they were saved in.

    Raises:
        StoreError: It cannot be made.
    """
    home = get_cache_folder("offloaded")
    try:
        home.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=home))
    except OSError as error:
        raise StoreError(
            f"cannot write {home}: {error.strerror or error}; free space and run again"
        ) from error


def delete_folder_after_model(model: Any, folder: Path) -> None:
    """Remove a folder when a model is let go."""
    weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)


def dispatch_model(model: Any, device_map: str | Mapping[str, str | int], folder: Path) -> Any:
    """Lay a model that is in memory over devices, as ``from_pretrained`` does while it reads.

    Args:
        model: The model.
        device_map: A policy, or devices by module.
        folder: Where what goes to disk is written.

    Raises:
        ValueError: The map does not cover the model.
    """
    from accelerate import dispatch_model, infer_auto_device_map
    from accelerate.utils import get_balanced_memory

    layout: dict[str, Any] = {} if isinstance(device_map, str) else dict(device_map)
    if isinstance(device_map, str):
        arguments: dict[str, Any] = {"no_split_module_classes": list(model._no_split_modules or ())}
        is_balanced = device_map.startswith("balanced")
        low = device_map == "balanced_low_0"
        max_memory = get_balanced_memory(model, low_zero=low, **arguments) if is_balanced else None
        layout = dict(infer_auto_device_map(model, max_memory=max_memory, **arguments))
    if set(layout.values()) == {"cpu"}:
        return model
    return dispatch_model(model, device_map=layout, offload_dir=folder, force_hooks=True)


def count_modules_by_device(model: Any) -> dict[str, int]:
    """Count the modules on each device; empty if all are on one device."""
    device_map = getattr(model, "hf_device_map", None) or {}
    counts = Counter(map(str, device_map.values()))
    return counts if len(counts) > 1 or "disk" in counts else {}


def spans_devices(model: Any) -> bool:
    """Return whether accelerate moves a model's weights or states between devices."""
    return any(hasattr(module, "_hf_hook") for module in model.modules())


def fetch_parameter(module: Any, name: str) -> Any:
    """Return a parameter of a module itself, read from where it is offloaded if needed."""
    from torch import nn

    parameter = module._parameters[name]
    if parameter is None or parameter.device.type != "meta":
        return parameter
    for hook in iterate_hooks(module):
        if hook.offload and hook.weights_map is not None:
            weight = hook.weights_map[name].to(hook.execution_device, parameter.dtype)
            return nn.Parameter(weight, requires_grad=False)
    raise InputError("weights were laid on disk and cannot be found there")


def copy_to_device(module: Any) -> Any:
    """Copy a module with its weights where it computes, so that it needs no hook."""
    module_copy = copy.copy(module)
    for name in ("forward", "_hf_hook", "_old_forward"):
        vars(module_copy).pop(name, None)
    module_copy._parameters = {name: fetch_parameter(module, name) for name in module._parameters}
    module_copy._modules = {name: child and copy_to_device(child) for name, child in module._modules.items()}
    return module_copy
