"""How a process comes to a Ray cluster: one that it starts and that ends with it, or one that is there."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

from sonde.base.errors import UsageError
from sonde.executors import cores

HERE = "local"
"""Ray's name for a cluster that is started on this machine."""

_OBJECT_STORE_BYTES = 100_000_000
"""Memory of a cluster started here for what travels: jobs and results are small, tables go to the folder."""

_ANSWER_SECONDS = 10
"""How long a cluster may take to answer at all."""

_QUIET = {"log_to_driver": False, "logging_level": "error"}


def start(ray: Any, workers: int) -> None:
    """A cluster of this machine, which ends with this process."""
    ray.init(
        address=HERE,
        num_cpus=max(cores(), workers),
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        **_QUIET,
    )


def join(ray: Any, address: str) -> None:
    """A cluster that runs already; whether anything answers is asked first, since Ray waits for minutes.

    Raises:
        UsageError: There is none.
    """
    try:
        if ":" in address:
            host, _, port = address.rpartition("/")[2].rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
            if "://" not in address:
                _must_be_ray(address)
        ray.init(address=address, **_QUIET)
    except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"no Ray cluster answers at {address!r}; start one with `ray start --head`, or leave out "
            "--address and RAY_ADDRESS to use this machine"
        ) from error


def _must_be_ray(address: str) -> None:
    """Ask whether what listens at an address is Ray, by Ray's own command: its client waits for minutes."""
    subprocess.run(
        [sys.executable, "-P", "-m", "ray.scripts.scripts", "health-check", "--address", address],
        check=True,
        capture_output=True,
        timeout=_ANSWER_SECONDS,
    )
