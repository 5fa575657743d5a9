"""Time and memory of whole commands, each with all processes that it starts."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_BETWEEN_LOOKS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Time and memory that a command took.

    Attributes:
        wall: Seconds on the clock.
        processor: CPU seconds.
        memory: Bytes that all its processes together held, looked at five times a second.
        output: What it printed.
    """

    wall: float
    processor: float
    memory: int
    output: str


def took(
    command: Sequence[str], place: Path | None = None, environment: Mapping[str, str] | None = None
) -> Took:
    """Run a command to its end.

    Args:
        command: Its words.
        place: Where it runs; by default here.
        environment: Variables of its environment besides ours.

    Raises:
        RuntimeError: It did not end well.
    """
    before, begun, most = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [*command], cwd=place, env={**os.environ, **(environment or {})}, stdout=output, stderr=said
        )
        while process.returncode is None:
            most = max(most, _held(process.pid))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_BETWEEN_LOOKS)
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        output.seek(0)
        said.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)}: {said.read()[-2000:]}")
        used = sum(getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
        return Took(wall=wall, processor=used, memory=most, output=output.read())


def _held(process: int) -> int:
    """Resident bytes of a process and of all below it."""
    total = 0
    with contextlib.suppress(psutil.Error):
        top = psutil.Process(process)
        for one in (top, *top.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += one.memory_info().rss
    return total
