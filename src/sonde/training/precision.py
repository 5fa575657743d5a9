"""Numeric precision of training, and compilation of models.

``torch.compile`` fuses operations, which takes a C++ compiler on a CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sonde.base.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import nn

PRECISIONS = ("auto", "float32", "bfloat16")
"""Auto is bfloat16 where the device multiplies in it."""


def uses_bfloat16(precision: str, device: torch.device) -> bool:
    """Return whether products are taken in bfloat16; weights, sums and optimiser stay in float32."""
    return precision == "bfloat16" or (precision == "auto" and _is_native(device))


def _is_native(device: torch.device) -> bool:
    """Return whether a device multiplies in bfloat16 itself; others emulate it and only lose time."""
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def check_compiler(option: str) -> None:
    """Say in one line, before any work is done, that a model is to be compiled and there is no C++ compiler.

    Args:
        option: What asks for it, as ``training.compile``.

    Raises:
        InputError: Nothing is there that compiles.
    """
    # Half a second that only those pay who ask for it.
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler as error:
        raise InputError(
            f"{option} needs a C++ compiler and finds none; install g++ or leave it out"
        ) from error


def compile_body(body: nn.Module) -> None:
    """Compile a body with torch when it first reads; its weights keep their names."""
    # Lengths differ from batch to batch, and each would be compiled by itself.
    body.compile(dynamic=True)
