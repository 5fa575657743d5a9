"""How a process comes to a Ray cluster: one that it starts and that ends with it, or one that is there."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

from sonde.base.error_log import append_native_error, send_native_errors_to_log
from sonde.base.errors import UsageError
from sonde.executors import cores

HERE = "local"
"""Ray's name for a cluster that is started on this machine."""

_OBJECT_STORE_BYTES = 100_000_000
"""Memory of a cluster started here for what travels: jobs and results are small, tables go to the folder."""

_ANSWER_SECONDS = 10
"""How long a cluster may take to answer at all."""

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_enable_metrics_collection": "0",
    # Ray's own threads end this process without a word when a head was gone so long (by itself, a minute). A
    # map notices before, and a run between two maps needs no cluster.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
}
"""What Ray reads from the environment when it is imported, where the user has set nothing else."""


def load() -> Any:
    """Ray itself.

    Raises:
        UsageError: It is not installed.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UsageError("the executor 'ray' needs Ray: pip install 'sonde[ray]'") from error


def start(ray: Any, workers: int) -> None:
    """A cluster of this machine, which ends with this process."""
    _begin(
        ray,
        address=HERE,
        num_cpus=max(cores(), workers),
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
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
        _begin(ray, address=address)
    except (OSError, ImportError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"no Ray cluster answers at {address!r}; start one with `ray start --head`, or leave out "
            "--address and RAY_ADDRESS to use this machine"
        ) from error


def leave(ray: Any) -> None:
    """Leave a cluster that is gone: what Ray does at the end of a process may wait for an answer for ever."""
    atexit.unregister(ray.shutdown)
    leaving = threading.Thread(target=ray.shutdown, name="ray-shutdown", daemon=True)
    leaving.start()
    leaving.join(_ANSWER_SECONDS)
    if leaving.is_alive():
        # It would go on while the interpreter takes itself apart, and crash.
        atexit.register(_end_at_once)


def _end_at_once() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _begin(ray: Any, **options: Any) -> None:
    """Start Ray in this process: what it says goes to the log, and signals stay those of the command."""
    in_main = threading.current_thread() is threading.main_thread()
    terminate = signal.getsignal(signal.SIGTERM)
    send_native_errors_to_log()
    try:
        ray.init(log_to_driver=False, logging_level="error", **options)
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, terminate)
    logger = logging.getLogger("ray")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    logger.addHandler(_ToLog())
    # Ray prints what a node says of itself ("(raylet) ...") to standard output, among a command's own lines.
    worker = sys.modules.get("ray._private.worker")
    if hasattr(worker, "print_to_stdstream"):
        vars(worker)["print_to_stdstream"] = _print_to_log


class _ToLog(logging.Handler):
    """Adds what Ray's Python part says to the log."""

    def emit(self, record: logging.LogRecord) -> None:
        append_native_error(f"ray: {self.format(record)}")


def _print_to_log(data: dict[str, Any], *_: Any, **_named: Any) -> None:
    lines = "\n".join(str(line) for line in data.get("lines", ()))
    append_native_error(f"ray ({data.get('pid')}): {lines}")


def _must_be_ray(address: str) -> None:
    """Ask whether what listens at an address is Ray, by Ray's own command: its client waits for minutes."""
    subprocess.run(
        [sys.executable, "-P", "-m", "ray.scripts.scripts", "health-check", "--address", address],
        check=True,
        capture_output=True,
        timeout=_ANSWER_SECONDS,
    )
