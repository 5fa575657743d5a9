"""A Ray cluster: a pool of actors that keep what they load, on this machine or on many.

Each actor runs one job at a time, so that no more jobs are in flight than the pool can hold. If an actor
dies, alone or with its node, another actor repeats its job. Before an actor gets a job, it reports its
versions and reads a token from the folder of the run. Actors hold an accelerator, or a share of one, if the
jobs run models, and none otherwise.

The cluster is one that this process starts and that ends with it, or a running one that it joins. The map
ends if the cluster is lost: its head or the node of this process. A thread checks that they still answer,
since Ray may wait for ever for a cluster that is gone.
"""

from __future__ import annotations

import atexit
import dataclasses
import importlib
import logging
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import distributions
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from sonde.base.errors import (
    SondeError,
    StoreError,
    UsageError,
    log_native_error,
    log_path,
    redirect_native_errors,
)
from sonde.base.registry import get_plugin_environment
from sonde.executors import count_cores

SYNONYMS = ("cluster", "distributed")

LOCAL_ADDRESS = "local"
"""Ray's address for a new cluster on this machine."""


_OBJECT_STORE_BYTES = 100_000_000
"""Object store of a local cluster: jobs and results are small, tables are written to the folder."""


_CONNECT_SECONDS = 10
"""Time limit for the first answer of a cluster, in seconds."""


_ENVIRONMENT_DEFAULTS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_enable_metrics_collection": "0",
    # Ray's threads silently end this process if the head is gone for so long (default: a minute). A map
    # notices before, and a run between two maps needs no cluster.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
}
"""Defaults of environment variables that Ray reads on import."""


def import_ray() -> Any:
    """Import and return Ray.

    Raises:
        UsageError: Ray is not installed.
    """
    for name, value in _ENVIRONMENT_DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UsageError("the executor 'ray' needs Ray: pip install 'sonde[ray]'") from error


def start_cluster(ray: Any, workers: int) -> None:
    """Start a cluster on this machine, which ends with this process."""
    _initialise_ray(
        ray,
        address=LOCAL_ADDRESS,
        num_cpus=max(count_cores(), workers),
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
    )


def join_cluster(ray: Any, address: str) -> None:
    """Join a running cluster, after a quick check of its address, since Ray itself waits for minutes.

    Raises:
        UsageError: No cluster answers at the address.
    """
    try:
        if ":" in address:
            host, _, port = address.rpartition("/")[2].rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
            if "://" not in address:
                _check_ray_health(address)
        _initialise_ray(ray, address=address)
    except (OSError, ImportError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"no Ray cluster answers at {address!r}; start one with `ray start --head`, or leave out "
            "--address and RAY_ADDRESS to use this machine"
        ) from error


def leave_cluster(ray: Any) -> None:
    """Leave a lost cluster in a thread, since Ray's shutdown may wait forever for an answer."""
    atexit.unregister(ray.shutdown)
    thread = threading.Thread(target=ray.shutdown, name="ray-shutdown", daemon=True)
    thread.start()
    thread.join(_CONNECT_SECONDS)
    if thread.is_alive():
        # The thread would crash while the interpreter shuts down.
        atexit.register(_exit_immediately)


def _exit_immediately() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _initialise_ray(ray: Any, **options: Any) -> None:
    """Initialise Ray in this process, send its messages to the log and restore the signal handler."""
    is_main_thread = threading.current_thread() is threading.main_thread()
    previous_handler = signal.getsignal(signal.SIGTERM)
    redirect_native_errors()
    try:
        ray.init(log_to_driver=False, logging_level="error", **options)
    finally:
        if is_main_thread:
            signal.signal(signal.SIGTERM, previous_handler)
    logger = logging.getLogger("ray")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    logger.addHandler(_LogHandler())
    # Ray prints messages of nodes ("(raylet) ...") to standard output, among the command's own lines.
    worker = sys.modules.get("ray._private.worker")
    if hasattr(worker, "print_to_stdstream"):
        vars(worker)["print_to_stdstream"] = _print_to_log


class _LogHandler(logging.Handler):
    """Logging handler that appends Ray's messages to the log."""

    def emit(self, record: logging.LogRecord) -> None:
        log_native_error(f"ray: {self.format(record)}")


def _print_to_log(data: dict[str, Any], *_: Any, **_options: Any) -> None:
    lines = "\n".join(str(line) for line in data.get("lines", ()))
    log_native_error(f"ray ({data.get('pid')}): {lines}")


def _check_ray_health(address: str) -> None:
    """Check that Ray listens at an address, by its health-check command: its client waits for minutes."""
    subprocess.run(
        [sys.executable, "-P", "-m", "ray.scripts.scripts", "health-check", "--address", address],
        check=True,
        capture_output=True,
        timeout=_CONNECT_SECONDS,
    )


_HEARTBEAT_SECONDS = 3.0
"""Pause between two queries, in seconds."""


ANSWER_SECONDS = 5.0
"""Time limit for an answer, in seconds."""


SILENCE_SECONDS = 30.0
"""Silence after which a cluster counts as lost, in seconds; a head may restart within it."""


class ClusterLostError(SondeError):
    """The head of the cluster, or the node of this process, does not answer any more."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"the Ray cluster {address!r} does not answer: its head, or the node of this "
            "process, is gone; finished parts are kept. Run the same command again once it is "
            f"back, or with --executor local. The messages of Ray are in {log_path()}"
        )


class Heartbeat:
    """Context in which a thread queries the head of a cluster and the node of this process.

    Raises:
        ClusterLostError: They do not answer on entry.
    """

    def __init__(self, ray: Any, address: str) -> None:
        self._ray, self._address = ray, address
        self._asked = threading.Condition()
        self._question_number = self._answer_number = 0
        self._is_stopped = False
        self._nodes: list[dict[str, Any]] = []
        self._places: list[tuple[str, int]] = []
        self._last_answer_number = 0
        self._silence, self._checked = 0.0, time.monotonic()

    def __enter__(self) -> Self:
        threading.Thread(target=self._ask, name="ray-heartbeat", daemon=True).start()
        self.nodes()
        return self

    def __exit__(self, *_: object) -> None:
        with self._asked:
            self._is_stopped = True
            self._asked.notify_all()

    def answers(self) -> bool:
        """Return whether a query that starts now is answered in time."""
        with self._asked:
            question_number = self._question_number
            self._asked.notify_all()
            return self._asked.wait_for(lambda: self._answer_number > question_number, timeout=ANSWER_SECONDS)

    def nodes(self) -> list[dict[str, Any]]:
        """Return the current nodes of the cluster.

        Raises:
            ClusterLostError: The head does not answer.
        """
        while not self.answers():
            self.check_silence()
        return self._nodes

    def check_silence(self) -> None:
        """Check the time without an answer, counted over the calls of this method.

        Raises:
            ClusterLostError: The silence is too long.
        """
        current_time = time.monotonic()
        # Time in which this process itself was stopped does not count as silence.
        self._silence += min(current_time - self._checked, 2 * ANSWER_SECONDS)
        self._checked = current_time
        if self._answer_number != self._last_answer_number:
            self._silence, self._last_answer_number = 0.0, self._answer_number
        if self._silence >= SILENCE_SECONDS:
            raise ClusterLostError(self._address)

    def _ask(self) -> None:
        while not self._is_stopped:
            with self._asked:
                self._question_number += 1
                number = self._question_number
            if nodes := self._query_nodes():
                with self._asked:
                    self._nodes, self._answer_number = nodes, number
                    self._asked.notify_all()
            with self._asked:
                if not self._is_stopped:
                    self._asked.wait(_HEARTBEAT_SECONDS)

    def _query_nodes(self) -> list[dict[str, Any]]:
        """Return all nodes if the head answers and the node of this process is alive, else none."""
        try:
            for address in self._places:
                socket.create_connection(address, timeout=ANSWER_SECONDS).close()
            nodes = self._ray.nodes()
            context = self._ray.get_runtime_context()
            local_node = next(node for node in nodes if node["NodeID"] == context.get_node_id())
            if not local_node["Alive"]:
                return []
            host, _, port = context.gcs_address.rpartition(":")
            self._places = [
                (host.strip("[]"), int(port)),
                (local_node["NodeManagerAddress"], int(local_node["NodeManagerPort"])),
            ]
        except Exception:
            # Any error is no answer: a lost node shows in many ways.
            return []
        return nodes


def find_accelerator_share(ray: Any, jobs: Sequence[Any], workers: int) -> float:
    """Return the share of an accelerator per actor; 0 if the models of the jobs run on the CPU.

    Raises:
        UsageError: A job names an accelerator by its number, or the cluster has none.
    """
    devices = {str(job.model.device) for job in jobs if hasattr(job, "model")} - {"cpu"}
    if not devices:
        return 0.0
    if with_number := sorted(device for device in devices if ":" in device):
        kind = with_number[0].partition(":")[0]
        raise UsageError(
            f"device {with_number[0]!r}: Ray gives each actor its own accelerator; name {kind!r}"
        )
    return compute_accelerator_share(int(ray.cluster_resources().get("GPU", 0)), workers)


def compute_accelerator_share(accelerators: int, workers: int) -> float:
    """Compute the share of an accelerator per worker; workers share one if there are too few.

    >>> compute_accelerator_share(4, 2), compute_accelerator_share(4, 8), compute_accelerator_share(1, 3)
    (1.0, 0.5, 0.3333)

    Raises:
        UsageError: There is no accelerator.
    """
    if accelerators < 1:
        raise UsageError("the Ray cluster has no accelerator; use --device cpu, or add a node that has one")
    # Ray counts in ten thousandths; shares rounded up would leave none for the last actor.
    return math.floor(10_000 / math.ceil(workers / accelerators)) / 10_000


Job = TypeVar("Job")


Result = TypeVar("Result")


MAXIMUM_ATTEMPTS = 3
"""Starts of a job after which the death of its actor counts as the job's fault."""


NODES_LOST = 10
"""Losses of nodes with the same job after which the job counts as their cause; fewer may be preemptions."""


_COMPARED_PACKAGES = (
    "sonde", "torch", "transformers", "tokenizers", "tree-sitter", "polars", "numpy", "scipy", "scikit-learn",
)  # fmt: skip
"""Prefixes of the names of packages whose version can change a score."""


class Worker:
    """Actor that reports its node and versions, then runs jobs in one process."""

    def greet(
        self, tokens: Mapping[str, str], environment: Mapping[str, str]
    ) -> tuple[str, str, dict[str, str], list[str]]:
        """Return Ray's id of the actor's node, its name, versions and the tokens that it could not read.

        Args:
            tokens: Expected contents by path.
            environment: Environment variables with the paths of users' extensions.
        """
        os.environ.update(environment)
        missing_paths = [path for path, token in tokens.items() if _read_token(path) != token]
        node = import_ray().get_runtime_context().get_node_id()
        return node, os.uname().nodename, get_versions(), missing_paths

    def run(self, function: Callable[[Any], Any], job: Any) -> Any:
        """Run a job and return its result."""
        return function(job)


_idle_actors: ContextVar[list[Any] | None] = ContextVar("kept", default=None)
"""Idle actors without an accelerator in a context of `keep_processes`, else None."""


@cache
def get_versions() -> dict[str, str]:
    """Return the versions of packages that can change a score, by name."""
    versions_by_name = {
        (distribution.name or "").lower().replace("_", "-"): distribution.version
        for distribution in distributions()
    }
    return {
        name: versions_by_name[name]
        for name in sorted(versions_by_name)
        if name.startswith(_COMPARED_PACKAGES)
    }


class RayExecutor:
    """Executor on a Ray cluster, either a running one or one that starts and ends with this process."""

    def __init__(self) -> None:
        self._joined = ""

    def connect(self, address: str, workers: int) -> None:
        """Connect to a cluster; ``RAY_ADDRESS`` is the default address.

        See `sonde.executors.ClusterExecutor.connect`.

        Raises:
            UsageError: Ray is not installed, there is no cluster at the address, or this process is
                connected to another one.
        """
        ray, cluster = import_ray(), address or os.environ.get("RAY_ADDRESS", "") or LOCAL_ADDRESS
        if not ray.is_initialized():
            start_cluster(ray, workers) if cluster == LOCAL_ADDRESS else join_cluster(ray, cluster)
            self._joined = cluster
        elif address and self._joined not in ("", address):
            raise UsageError(
                f"this process is connected to the Ray cluster {self._joined!r}; use {address!r} "
                "in another process, or call ray.shutdown() first"
            )

    def map(
        self, function: Callable[[Job], Result], jobs: Iterable[Job], *, workers: int
    ) -> Iterator[tuple[Job, Result]]:
        """Yield jobs with results, see `sonde.executors.Executor.map`.

        Raises:
            UsageError: Ray is not installed, or there is no cluster at the address.
            StoreError: A node cannot access the ``root`` folder of the jobs.
            SondeError: A node has other versions, a job failed, its actors died repeatedly, or the cluster is
                lost.
        """
        remaining = iter(jobs)
        first = list(islice(remaining, max(1, workers)))
        if not first:
            return
        self.connect("", workers)
        if self._joined:
            # The folder of a run is created after the connection, and the log with it.
            redirect_native_errors()
        ray = import_ray()
        idle_actors = _idle_actors.get()
        try:
            with _write_tokens(first) as tokens, Heartbeat(ray, self._joined) as heartbeat:
                accelerators = find_accelerator_share(ray, first, workers)
                reusable_actors = None if accelerators else idle_actors
                pool = _ActorPool(ray, function, chain(first, remaining), accelerators, tokens, heartbeat)
                try:
                    for _ in first:
                        pool.hire(reusable_actors.pop() if reusable_actors else None)
                    yield from pool.results()
                finally:
                    pool.close(reusable_actors)
        except ClusterLostError:
            if idle_actors:
                idle_actors.clear()
            if self._joined:
                leave_cluster(ray)
            raise

    @contextmanager
    def keep_processes(self, workers: int) -> Generator[None]:
        """Keep actors without an accelerator, see `sonde.executors.PersistentExecutor.keep_processes`."""
        actors: list[Any] = []
        token = _idle_actors.set(actors)
        try:
            yield
        finally:
            _idle_actors.reset(token)
            if actors:
                with Heartbeat(import_ray(), self._joined) as heartbeat:
                    _kill_actors(import_ray(), actors, heartbeat)


class _ActorTask(NamedTuple):
    """Task of an actor: a job with its number, or a greeting, optionally before a job."""

    actor: Any
    job: tuple[int, Any] | None
    greets: bool


class _ActorPool:
    """Pool of actors with their tasks and the queue of jobs."""

    def __init__(
        self,
        ray: Any,
        function: Callable[[Any], Any],
        jobs: Iterable[Any],
        accelerators: float,
        tokens: Mapping[str, str],
        heartbeat: Heartbeat,
    ) -> None:
        self._ray, self._function, self._tokens, self._heartbeat = ray, function, tokens, heartbeat
        self._jobs = enumerate(jobs)
        self._waiting: deque[tuple[int, Any]] = deque()
        self._deaths: Counter[tuple[int | None, bool]] = Counter()
        self._nodes: dict[Any, str] = {}
        self._busy: dict[Any, _ActorTask] = {}
        self._idle: list[Any] = []
        self._type = ray.remote(num_cpus=1, num_gpus=accelerators, max_restarts=0)(Worker)

    def hire(self, actor: Any = None, job: tuple[int, Any] | None = None) -> None:
        """Add an actor, a new one by default, and assign it a job once it answers."""
        actor = self._type.remote() if actor is None else actor
        # Retried until the actor answers or is known to be dead.
        greeting = actor.greet.options(max_task_retries=-1).remote(self._tokens, get_plugin_environment())
        self._busy[greeting] = _ActorTask(actor, job, greets=True)

    def results(self) -> Iterator[tuple[Any, Any]]:
        """Yield each job with its result, in order of completion."""
        errors = self._ray.exceptions
        while self._has_jobs():
            with self._translate_errors():
                ready, _ = self._ray.wait(list(self._busy), num_returns=1, timeout=ANSWER_SECONDS)
            self._heartbeat.check_silence()
            if not ready:
                continue
            actor, job, greets = self._busy.pop(ready[0])
            try:
                with self._translate_errors():
                    answer = self._ray.get(ready[0])
            except errors.RayTaskError as error:
                self._idle.append(actor)
                raise error.cause from None
            except errors.ActorUnavailableError:
                self.hire(actor, job)
                continue
            except errors.ObjectLostError as error:
                # The node that stored a result was lost; the actor may be on another one.
                self._handle_death(actor, job, error)
                self.hire(actor)
                continue
            except _get_death_errors(errors) as error:
                self._handle_death(actor, job, error)
                self.hire(self._idle.pop() if self._idle else None)
                continue
            if greets:
                self._nodes[actor], *greeting = answer
                _check_node(*greeting)
                # In a long run many actors come and go; only deaths with none at work in between count.
                del self._deaths[None, False], self._deaths[None, True]
            if next_job := job if greets and job else self._next_job():
                reference = actor.run.remote(self._function, _with_absolute_root(next_job[1]))
                self._busy[reference] = _ActorTask(actor, next_job, greets=False)
            else:
                self._idle.append(actor)
            if job is not None and not greets:
                yield job[1], answer

    def close(self, idle_actors: list[Any] | None) -> None:
        """Stop the actors; those without a job go to `idle_actors` if it is a list."""
        # The last ones are taken first: they have answered. One that waits for a processor might wait forever
        # for one of them.
        jobless_actors = [task.actor for task in self._busy.values() if task.job is None] + self._idle
        if idle_actors is not None:
            idle_actors.extend(jobless_actors)
        busy_actors = [task.actor for task in self._busy.values() if task.job]
        _kill_actors(
            self._ray,
            busy_actors if idle_actors is not None else [*jobless_actors, *busy_actors],
            self._heartbeat,
        )

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        """Translate errors of Ray in this context.

        Raises:
            ClusterLostError: The cluster is lost.
            SondeError: Ray failed for another reason.
        """
        errors = self._ray.exceptions
        try:
            yield
        except (OSError, errors.RayError) as error:
            # A job failed, or lost its actor or its result.
            if isinstance(error, (errors.RayTaskError, errors.ObjectLostError, *_get_death_errors(errors))):
                raise
            self._heartbeat.nodes()
            message = " ".join(str(error).split())[:300]
            raise SondeError(
                f"Ray failed: {message}; finished parts are kept, run the same command again"
            ) from error

    def _has_jobs(self) -> bool:
        """Return whether a job has no result yet."""
        if next_job := self._next_job():
            self._waiting.appendleft(next_job)
        return bool(self._waiting) or any(task.job is not None for task in self._busy.values())

    def _next_job(self) -> tuple[int, Any] | None:
        return self._waiting.popleft() if self._waiting else next(self._jobs, None)

    def _handle_death(self, actor: Any, job: tuple[int, Any] | None, error: Exception) -> None:
        """Return the job of a dead actor to the queue.

        Raises:
            SondeError: The actors of the job died too often.
        """
        location = self._nodes.pop(actor, None) or str(error)
        is_node_lost = any(
            not node["Alive"] and node["NodeID"] in location for node in self._heartbeat.nodes()
        )
        job_number = None if job is None else job[0]
        self._deaths[job_number, is_node_lost] += 1
        if self._deaths[job_number, is_node_lost] >= (
            maximum := NODES_LOST if is_node_lost else MAXIMUM_ATTEMPTS
        ):
            moment = "before its first job" if job_number is None else f"at job {job_number + 1}"
            subject = "the node of a Ray actor was lost" if is_node_lost else "a Ray actor died"
            memory = "its node ran low on memory" if "low on memory" in str(error) else "out of memory?"
            raise SondeError(
                f"{subject} {maximum} times {moment} ({memory}); finished parts are kept, run "
                "the same command again, with fewer --workers if it repeats"
            ) from error
        if job is not None:
            self._waiting.appendleft(job)


def _get_death_errors(errors: Any) -> tuple[type[Exception], ...]:
    """Return the errors that Ray raises if an actor has died."""
    return (errors.RayActorError, errors.OutOfMemoryError, errors.WorkerCrashedError)


def _kill_actors(ray: Any, actors: Iterable[Any], heartbeat: Heartbeat) -> None:
    """Stop actors, unless the cluster is lost: Ray would wait for an answer."""
    if heartbeat.answers():
        for actor in actors:
            ray.kill(actor)


def _check_node(name: str, versions: Mapping[str, str], missing_paths: Sequence[str]) -> None:
    """Check that a node has the same versions and can access the folder of the run.

    Raises:
        StoreError: It cannot access the folder.
        SondeError: It has other versions.
    """
    if missing_paths:
        folder = Path(missing_paths[0]).parent
        raise StoreError(
            f"the node {name!r} does not see the folder {str(folder)!r} of the run; give -o a folder "
            "that every node mounts under the same path"
        )
    local_versions = get_versions()
    differences = [
        f"{package} {versions.get(package, 'absent')} (here {local_versions.get(package, 'absent')})"
        for package in sorted({*local_versions, *versions})
        if local_versions.get(package) != versions.get(package)
    ]
    if differences:
        raise SondeError(
            f"the node {name!r} has other versions: {', '.join(differences)}; install the same on every node"
        )


@contextmanager
def _write_tokens(jobs: Sequence[Any]) -> Generator[dict[str, str]]:
    """Write a file with a random token into the ``root`` folders of jobs, and remove it at the end."""
    roots = sorted({str(job.root) for job in jobs if getattr(job, "root", "")})
    tokens = {str(Path(root).absolute() / f".seen-{uuid.uuid4().hex}"): uuid.uuid4().hex for root in roots}
    try:
        for path, token in tokens.items():
            Path(path).write_text(token, encoding="ascii")
        yield tokens
    finally:
        for path in tokens:
            Path(path).unlink(missing_ok=True)


def _with_absolute_root(job: Any) -> Any:
    """Return the job with an absolute ``root``: actors have other working folders."""
    root = getattr(job, "root", "")
    return dataclasses.replace(job, root=str(Path(root).absolute())) if root else job


def _read_token(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError):
        return None


executor = RayExecutor()
