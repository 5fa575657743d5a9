"""Which precision training may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


PRECISIONS = ("auto", "float32", "bfloat16")
"""Auto is bfloat16 where the device multiplies in it."""


def in_bfloat16(precision: str, device: torch.device) -> bool:
    """Whether products are taken in bfloat16; weights, sums and optimiser stay in float32."""
    return precision == "bfloat16" or (precision == "auto" and _is_native(device))


def _is_native(device: torch.device) -> bool:
    """Whether a device multiplies in bfloat16 itself; others emulate it and only lose time."""
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
