"""Pickled weights become safetensors before anything loads them.

Many checkpoints were published as ``pytorch_model.bin`` alone. A pickle can hold any program, so it is read
by PyTorch's restricted reader, in a process of its own with bounded memory and time, which writes
safetensors; only those are loaded. What the restricted reader refuses stays refused.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.files import write_atomic, write_folder
from sonde.models.engine import unpickle
from sonde.models.engine.family import ModelSpec
from sonde.models.engine.files import (
    INDEX_SUFFIX,
    WEIGHTS,
    Location,
    Tensor,
    WeightFiles,
    check_folder_empty,
    check_not_pointer,
    convert_once,
    copy_files,
    find_file,
    find_weights,
    read_header,
    read_headers,
    resolve_commit,
    small_files,
)
from sonde.models.engine.locate import locate_model
from sonde.models.engine.silence import silence_libraries

VERSION = "1"
"""Raised when the same pickle would be written otherwise; part of a converted model's folder name."""


_CONFIG_FILES = ("config.json", "generation_config.json")
"""What transformers reads beside the weights, even where it is given the configuration."""


_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP")
"""What the reading process sees of the environment: no keys, no logins."""


_SECONDS, _BYTES_A_SECOND = 600, 4 << 20
"""A reading process may take this long, and a second more for every so many bytes."""


def convert_weights(location: Location, weights: WeightFiles, model: str) -> Path:
    """Convert pickled weights to safetensors in sonde's cache on first use; return the folder.

    It is named by the content of the pickles and of what is copied beside them: the configuration, and of a
    folder the code that a model brings.

    Raises:
        InputError: The restricted reader refuses a file, or its process did not end well.
        StoreError: The cache cannot be written.
    """
    other_files = [file for name in _CONFIG_FILES if (file := find_file(location, name))]
    if location.local:
        other_files += [path for path in small_files(Path(location.name)) if path.suffix == ".py"]
    convert = partial(_convert_files, weights, other_files, model)
    return convert_once("weights", [*weights.files, *other_files], VERSION, convert)


def convert_checkpoint(name: str, target: Path) -> Path:
    """Write a checkpoint with pickled weights as one with safetensors, its other files beside them.

    Args:
        name: A folder or a hub name, ``name@revision`` too.
        target: The new folder.

    Returns:
        ``target``.

    Raises:
        UsageError: The checkpoint has safetensors already, or the folder is not empty.
        InputError: It cannot be found or is refused.
        StoreError: The folder cannot be written.
    """
    location = locate_model(ModelSpec(name=name))
    check_folder_empty(target)
    weights = find_weights(location, name)
    if not weights.pickled:
        raise UsageError(f"model {name!r} already has safetensors weights; use it directly")
    write_folder(target, partial(_convert_files, weights, small_files(_cache_folder(location)), name))
    return target


def _cache_folder(location: Location) -> Path:
    if location.local:
        return Path(location.name)
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.txt", "*.model", "*.py"]
    return Path(snapshot_download(location.name, revision=resolve_commit(location), allow_patterns=patterns))


def _convert_files(weights: WeightFiles, other_files: Iterable[Path], model: str, folder: Path) -> None:
    copy_files(other_files, folder)
    if weights.index is None:
        _convert_in_child(weights.files[0], folder / WEIGHTS, model)
        return
    # Of every file what it holds; the index of the pickles may name weights that are not there.
    parts: dict[str, str] = {}
    size = 0
    for number, file in enumerate(weights.files, 1):
        name = f"model-{number:05}-of-{len(weights.files):05}.safetensors"
        _convert_in_child(file, folder / name, model)
        tensors = read_header(folder / name, model)
        parts |= dict.fromkeys(tensors, name)
        size += sum(tensor.bytes for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": parts}
    write_atomic(folder / (WEIGHTS + INDEX_SUFFIX), json.dumps(index, indent=1))


def _convert_in_child(source: Path, target: Path, model: str) -> None:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    check_not_pointer(source, model)
    limit = _SECONDS + source.stat().st_size // _BYTES_A_SECOND
    subject = f"model {model!r}: {source.name}"
    # -I: neither the folder that this runs in nor the user's site decides what torch is.
    command = [sys.executable, "-I", unpickle.__file__, str(source.resolve()), str(target.resolve())]
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{subject}: reading it took over {limit} s and was stopped") from error
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        hint = " (often for want of memory)" if name == "SIGKILL" else ""
        raise InputError(f"{subject}: the process that reads it was ended by {name}{hint}")
    try:
        answer: dict[str, str] = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise InputError(f"{subject}: the process that reads it failed: {' '.join(last)[:200]}") from None
    if "unwritten" in answer:
        raise StoreError(f"cannot write {target.parent}: {answer['unwritten']}; free space and run again")
    if "refused" in answer:
        raise InputError(f"{subject} is refused: {answer['refused']}")


def locate_safetensors(spec: ModelSpec) -> tuple[Location, tuple[Path, ...], dict[str, Tensor]]:
    """Return the location, files and headers of a model's safetensors; pickles are converted on first use.

    Raises:
        InputError: They are missing or damaged.
    """
    location = locate_model(spec)
    with silence_libraries():
        weights = find_weights(location, spec.name)
    if weights.pickled:
        location = Location(name=str(convert_weights(location, weights, spec.name)), local=True, revision="")
        weights = find_weights(location, spec.name)
    return location, weights.files, read_headers(weights.files, spec.name)
