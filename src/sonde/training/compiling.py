"""Compiled models: torch.compile fuses operations, which takes a C++ compiler on a processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sonde.base.errors import InputError

if TYPE_CHECKING:
    from torch import nn


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
    """Have torch fuse a body's operations when it first reads; its weights keep their names."""
    # Lengths differ from batch to batch, and each would be compiled by itself.
    body.compile(dynamic=True)
