"""``sonde doctor``: what this installation has, what it lacks, and what is wrong with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sonde.base.terminal import print_lines
from sonde.cli.output import CommandOutput, with_output

if TYPE_CHECKING:
    from sonde.api.doctor import Diagnosis, Folder


@with_output()
def doctor() -> CommandOutput:
    """Check this installation: versions, device, caches, hub access and extras."""
    from sonde.api.doctor import examine

    diagnosis = examine()
    return CommandOutput(
        dataclasses.asdict(diagnosis),
        lambda: print_lines(*_lines(diagnosis)),
        exit_code=int(bool(diagnosis.problems)),
    )


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    from sonde.base.formatting import format_bytes, plural, shorten_names

    yield "Versions"
    for name, version in diagnosis.versions.items():
        build = f" ({diagnosis.torch_build} build)" if name == "torch" and version else ""
        yield f"  {name:<16} {version or 'not installed'}{build}"
    yield f"  torch for CPUs only, without gigabytes of CUDA: {diagnosis.cpu_torch}"
    yield "Device"
    yield (
        f"  --device auto is {diagnosis.device}; {plural(diagnosis.cores, 'CPU core')}, "
        f"{format_bytes(diagnosis.memory)} of memory"
    )
    yield from (f"  {accelerator}" for accelerator in diagnosis.accelerators)
    yield "Caches"
    yield f"  {'sonde':<16} {_format_folder(diagnosis.cache)}; see `sonde cache info`"
    hub = diagnosis.hub
    models = f", {plural(len(hub.models), 'model')}"
    yield f"  {'hub':<16} {_format_folder(hub.cache)}{models}; see `sonde list models`"
    yield "Hugging Face hub"
    yield f"  {'address':<16} {hub.endpoint}"
    network = f"not used: {', '.join(hub.offline)} is set" if hub.offline else "allowed"
    yield f"  {'network':<16} {network}"
    token = "configured" if hub.has_token else "none; gated models need one: hf auth login, or set HF_TOKEN"
    yield f"  {'token':<16} {token}"
    yield "Extras"
    for name, extra in diagnosis.extras.items():
        state = f"lacks {shorten_names(extra.lacks)}: {extra.install}" if extra.lacks else "installed"
        yield f"  {name:<16} {state}"
    yield "Problems"
    yield from (f"  {problem}" for problem in diagnosis.problems or ("none found",))


def _format_folder(folder: Folder) -> str:
    from sonde.base.formatting import format_bytes

    free = f", {format_bytes(folder.free)} free" if folder.free is not None else ""
    return f"{folder.path}: {format_bytes(folder.size)}{free}"
