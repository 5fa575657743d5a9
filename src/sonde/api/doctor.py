"""Examination of this installation: versions, device, caches, hub access and extras, with what is wrong.

Nothing is downloaded, and no key is read into the result: of a token of the hub it says only whether there
is one.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sonde.base.errors import redact_secrets
from sonde.base.files import get_cache_root, measure_folder
from sonde.base.formatting import format_bytes
from sonde.base.registry import find_entry_points
from sonde.executors import count_cores
from sonde.models import locate_checkpoints
from sonde.version import __version__

CPU_TORCH = "pip install --force-reinstall --no-deps torch --index-url https://download.pytorch.org/whl/cpu"
"""Installs the build of torch without CUDA, which is some gigabytes smaller."""


_DISTRIBUTION = "sonde"


_MINIMUM_FREE = 1 << 30
"""Free bytes below which a cache is reported as nearly full."""


_SHOWN = (
    "torch",
    "transformers",
    "tokenizers",
    "huggingface_hub",
    "datasets",
    "polars",
    "numpy",
    "tree-sitter",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder of cached files.

    Attributes:
        path: The folder; it need not exist.
        size: Bytes that its files take.
        free: Free bytes on its disk; None if the disk cannot be asked.
        writable: Whether files can be written there.
    """

    path: Path
    size: int
    free: int | None
    writable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAccess:
    """Access to the Hugging Face hub.

    Attributes:
        cache: Its cache.
        models: Names of the models whose weights are in the cache.
        endpoint: Its address.
        offline: Names of the environment variables that forbid the network.
        has_token: Whether a token is configured; it is neither shown nor checked.
    """

    cache: Folder
    models: tuple[str, ...]
    endpoint: str
    offline: tuple[str, ...]
    has_token: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """An extra of the distribution.

    Attributes:
        lacks: Requirements that are not met.
        install: The command that installs it.
    """

    lacks: tuple[str, ...]
    install: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What was found.

    Attributes:
        versions: Of sonde, Python, the system and the main libraries; None for what is not installed.
        torch_build: What torch was built for: ``CPU``, ``CUDA 12.8``, ``ROCm 6.3`` or ``macOS``.
        cpu_torch: The command that installs torch for CPUs only.
        device: What ``--device auto`` is here.
        accelerators: Accelerators that torch can use, with their memory.
        cores: CPU cores that this process may use.
        memory: Bytes of memory.
        cache: The cache of sonde.
        hub: Access to the Hugging Face hub.
        extras: Extras of the distribution, by name.
        problems: What is wrong, each with what to do.
    """

    versions: Mapping[str, str | None]
    torch_build: str
    cpu_torch: str
    device: str
    accelerators: tuple[str, ...]
    cores: int
    memory: int
    cache: Folder
    hub: HubAccess
    extras: Mapping[str, Extra]
    problems: tuple[str, ...]


def examine() -> Diagnosis:
    """Examine this installation and machine."""
    import psutil

    build, device, accelerators = _examine_torch()
    cache, hub = _examine_folder(get_cache_root()), _examine_hub()
    versions = {
        "sonde": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        **{name: _find_version(name) for name in _SHOWN},
    }
    return Diagnosis(
        versions=versions,
        torch_build=build,
        cpu_torch=CPU_TORCH,
        device=device,
        accelerators=accelerators,
        cores=count_cores(),
        memory=psutil.virtual_memory().total,
        cache=cache,
        hub=hub,
        extras=_examine_extras(),
        problems=tuple(_find_problems(build, accelerators, (cache, hub.cache))),
    )


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _examine_torch() -> tuple[str, str, tuple[str, ...]]:
    """Return what torch was built for, the device that ``auto`` means, and the accelerators."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return f"cannot be imported: {' '.join(str(error).split())}", "none", ()
    from sonde.models import ModelSpec
    from sonde.models.engine.weights import resolve_device

    hip, cuda = getattr(torch.version, "hip", None), torch.version.cuda
    build = (
        f"ROCm {hip}" if hip else f"CUDA {cuda}" if cuda else "macOS" if sys.platform == "darwin" else "CPU"
    )
    # Devices are counted by the driver, and a driver that is too old lets none be used.
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    devices = [torch.cuda.get_device_properties(index) for index in range(count)]
    accelerators = tuple(f"{device.name}, {format_bytes(device.total_memory)}" for device in devices)
    if torch.backends.mps.is_available():
        accelerators += ("Apple GPU (--device mps)",)
    return build, str(resolve_device(ModelSpec(name=""))), accelerators


def _examine_folder(path: Path) -> Folder:
    existing = next((folder for folder in (path, *path.parents) if folder.is_dir()), None)
    try:
        free = None if existing is None else shutil.disk_usage(existing).free
    except OSError:
        free = None
    is_writable = existing is not None and _is_writable(existing)
    return Folder(path=path, size=measure_folder(path)[1], free=free, writable=is_writable)


def _is_writable(folder: Path) -> bool:
    try:
        # The rights of a folder say nothing of a file system that is mounted to be read only.
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


def _examine_hub() -> HubAccess:
    from huggingface_hub import constants, get_token

    variables = (
        name for name in _OFFLINE if os.environ.get(name, "").upper() in constants.ENV_VARS_TRUE_VALUES
    )
    copies = locate_checkpoints()
    return HubAccess(
        cache=_examine_folder(Path(constants.HF_HUB_CACHE)),
        models=tuple(name for name, copy in copies.items() if copy.in_hub_cache and copy.has_weights),
        endpoint=redact_secrets(constants.ENDPOINT),
        offline=tuple(variables),
        has_token=bool(get_token()),
    )


def _examine_extras() -> dict[str, Extra]:
    requirements = _list_requirements()
    markers = [str(requirement.marker) for requirement in requirements if requirement.marker]
    names = sorted(
        {marker.rpartition("extra == ")[2].strip("\"'()") for marker in markers if "extra ==" in marker}
    )
    return {
        name: Extra(
            lacks=tuple(dict.fromkeys(_list_lacking(requirements, name))),
            install=f"pip install '{_DISTRIBUTION}[{name}]'",
        )
        for name in names
    }


def _list_requirements() -> list[Requirement]:
    """List the requirements of sonde and its extras; none if only its sources are on the path."""
    try:
        return [Requirement(line) for line in requires(_DISTRIBUTION) or ()]
    except PackageNotFoundError:
        return []


def _list_lacking(requirements: list[Requirement], extra: str = "") -> Iterator[str]:
    """Yield the requirements of an extra, or without one of sonde itself, that are not met."""
    for requirement in requirements:
        is_of_extra = requirement.marker is not None and "extra" in str(requirement.marker)
        if is_of_extra != bool(extra) or (
            requirement.marker and not requirement.marker.evaluate({"extra": extra})
        ):
            continue
        if canonicalize_name(requirement.name) == _DISTRIBUTION:
            for other in requirement.extras:
                yield from _list_lacking(requirements, other)
            continue
        installed = _find_version(requirement.name)
        if installed is None:
            yield requirement.name
        elif not requirement.specifier.contains(installed, prereleases=True):
            yield f"{requirement.name}{requirement.specifier} ({installed} is installed)"


def _find_problems(build: str, accelerators: tuple[str, ...], folders: tuple[Folder, ...]) -> Iterator[str]:
    for lacking in _list_lacking(_list_requirements()):
        name = lacking.partition(" ")[0]
        yield f"sonde needs {lacking}: pip install '{name}'"
    if not find_entry_points("sonde.corpora"):
        yield (
            "sonde is importable but not installed, so its papers and extras are missing: pip install sonde"
        )
    if build.startswith("cannot"):
        yield f"torch {build}; for CPUs: {CPU_TORCH}"
    elif build == "CPU" and not accelerators and shutil.which("nvidia-smi"):
        yield (
            "an NVIDIA driver is installed, but torch is built for CPUs only: install a CUDA build "
            "(pytorch.org)"
        )
    elif build.startswith("CUDA") and not accelerators and shutil.which("nvidia-smi"):
        yield f"torch ({build}) cannot use the GPU: update the NVIDIA driver, or install an older CUDA build"
    for folder in folders:
        if not folder.writable:
            yield f"{folder.path} cannot be written: make it writable, or set SONDE_CACHE or HF_HOME"
        elif folder.free is not None and folder.free < _MINIMUM_FREE:
            yield f"{folder.path} has only {format_bytes(folder.free)} free: free space, or move the cache"
