"""Reads one PyTorch pickle with the restricted reader and writes it as safetensors; run as a script.

It runs in a process of its own and imports nothing of sonde: whatever a file does to its reader, its memory
or its time ends with the process. Standard output gets one JSON object: ``{"refused": reason}`` and the like.
"""

from __future__ import annotations

import json
import os
import re
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

_SAFE = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}


_COPIES = 8
"""Times the size of its file that weights may take: those that share their memory are written apart."""


_SPARE = 2 << 30
"""Bytes of memory that PyTorch itself may take beside the weights."""


class _RefusedError(Exception):
    pass


def _limit_memory(size: int) -> None:
    try:
        import resource
    except ImportError:
        # Windows has no such bounds; the parent's clock is what is left there.
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory, file_size = _SPARE + 3 * size, _COPIES * size + (1 << 24)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))


def _read(source: str) -> dict[str, Any]:
    import torch

    is_zip = zipfile.is_zipfile(source)
    if is_zip:
        with zipfile.ZipFile(source) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise _RefusedError("its archive is compressed, which PyTorch never does")
    content = torch.load(source, map_location="cpu", weights_only=True, mmap=is_zip)
    if not isinstance(content, dict):
        raise _RefusedError(f"it has a {type(content).__name__}, not a table of weights")
    weights = {str(name): weight for name, weight in content.items() if isinstance(weight, torch.Tensor)}
    if not weights:
        raise _RefusedError("it has no weights by name")
    return weights


def _check(weights: dict[str, Any], size: int) -> None:
    import torch

    total = 0
    for name, weight in weights.items():
        kind = str(weight.dtype).removeprefix("torch.")
        if weight.layout != torch.strided or kind not in _SAFE or weight.device.type != "cpu":
            raise _RefusedError(f"{name!r} is a {weight.layout} tensor of {kind} on {weight.device}")
        byte_count = weight.numel() * weight.element_size()
        if byte_count > weight.untyped_storage().nbytes():
            raise _RefusedError(
                f"{name!r} claims {byte_count} bytes and has {weight.untyped_storage().nbytes()}"
            )
        total += byte_count
    if total > _COPIES * size:
        raise _RefusedError(f"its weights would take {total} bytes, and the file has {size}")


def _write(weights: dict[str, Any], target: str) -> None:
    """Write tensor after tensor, so that no more than one is copied at a time."""
    import torch

    order = sorted(weights, key=lambda name: (-weights[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name in order:
        weight = weights[name]
        end = offset + weight.numel() * weight.element_size()
        kind = _SAFE[str(weight.dtype).removeprefix("torch.")]
        header[name] = {"dtype": kind, "shape": list(weight.shape), "data_offsets": [offset, end]}
        offset = end
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    with Path(target).open("wb") as handle:
        handle.write(struct.pack("<Q", len(raw)) + raw)
        for name in order:
            flat = weights[name].detach().contiguous().reshape(-1)
            handle.write(memoryview(flat.view(torch.uint8).numpy()))
        handle.flush()
        os.fsync(handle.fileno())


def _reason(error: Exception) -> str:
    line = " ".join(str(error).split())
    if "allocate memory" in line or "Cannot allocate" in line or isinstance(error, MemoryError):
        return "it does not fit into the memory that its size allows"
    name = re.search(r"GLOBAL (\S+)", line) or re.search(
        r"(?:Unsupported|disallowed) (?:class|global) (\S+)", line
    )
    if name is not None:
        return f"it calls {name[1]}, which the restricted reader does not allow"
    if isinstance(error, EOFError) or "central directory" in line or "unexpected EOF" in line:
        return "it is damaged or was fetched incompletely"
    # PyTorch's advice to read the file without restrictions is not passed on.
    return "the restricted reader does not understand it; it is damaged or no PyTorch checkpoint"


def convert(source: str, target: str) -> dict[str, Any]:
    """Write one pickle as safetensors; gives what is said of it."""
    try:
        weights = _read(source)
        _check(weights, Path(source).stat().st_size)
        _write(weights, target)
    except OSError as error:
        return {"unwritten": error.strerror or str(error)}
    except _RefusedError as error:
        return {"refused": str(error)}
    except Exception as error:
        return {"refused": _reason(error)}
    return {"tensors": len(weights)}


if __name__ == "__main__":
    _limit_memory(Path(sys.argv[1]).stat().st_size)
    print(json.dumps(convert(*sys.argv[1:])), flush=True)  # noqa: T201  what the parent reads
