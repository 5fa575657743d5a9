"""Whether a Ray cluster still answers, asked beside the work: Ray may wait for ever for one that is gone."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any, Self

from sonde.base.error_log import log_path
from sonde.base.errors import SondeError

_PAUSE_SECONDS = 3.0
"""Between two questions."""

ANSWER_SECONDS = 5.0
"""How long an answer may take, and a wait for one."""

SILENCE_SECONDS = 30.0
"""Without an answer for so long, a cluster is held to be gone; a head that is started again has that time."""


class ClusterLostError(SondeError):
    """The head of the cluster, or the node that this process belongs to, does not answer any more."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"the Ray cluster {address!r} does not answer: its head, or the node of this process, is gone; "
            "finished parts are kept, run the same command again once it is back, or with --executor local; "
            f"what Ray said is in {log_path()}"
        )


class Heartbeat:
    """Within it, a thread asks the head of a cluster and the node of this process.

    Raises:
        ClusterLostError: On entering, where they do not answer.
    """

    def __init__(self, ray: Any, address: str) -> None:
        self._ray, self._address = ray, address
        self._asked = threading.Condition()
        self._begun = self._answered = 0
        self._stopped = False
        self._nodes: list[dict[str, Any]] = []
        self._places: list[tuple[str, int]] = []
        self._seen = 0
        self._silence, self._checked = 0.0, time.monotonic()

    def __enter__(self) -> Self:
        threading.Thread(target=self._ask, name="ray-heartbeat", daemon=True).start()
        self.nodes()
        return self

    def __exit__(self, *_: object) -> None:
        with self._asked:
            self._stopped = True
            self._asked.notify_all()

    def answers(self) -> bool:
        """Whether a question that begins now is answered in time."""
        with self._asked:
            after = self._begun
            self._asked.notify_all()
            return self._asked.wait_for(lambda: self._answered > after, timeout=ANSWER_SECONDS)

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes of the cluster, as its head knows them now.

        Raises:
            ClusterLostError: It does not answer.
        """
        while not self.answers():
            self.must_answer()
        return self._nodes

    def must_answer(self) -> None:
        """Add the time since the last call, or since the last answer, to the silence.

        Raises:
            ClusterLostError: The silence is too long.
        """
        now = time.monotonic()
        # A process that was stopped for a while does not take that for a silence of others.
        self._silence += min(now - self._checked, 2 * ANSWER_SECONDS)
        self._checked = now
        if self._answered != self._seen:
            self._silence, self._seen = 0.0, self._answered
        if self._silence >= SILENCE_SECONDS:
            raise ClusterLostError(self._address)

    def _ask(self) -> None:
        while not self._stopped:
            with self._asked:
                self._begun += 1
                number = self._begun
            if nodes := self._answer():
                with self._asked:
                    self._nodes, self._answered = nodes, number
                    self._asked.notify_all()
            with self._asked:
                if not self._stopped:
                    self._asked.wait(_PAUSE_SECONDS)

    def _answer(self) -> list[dict[str, Any]]:
        """All nodes, where the head answers and holds the node of this process to be alive; else none."""
        try:
            for place in self._places:
                socket.create_connection(place, timeout=ANSWER_SECONDS).close()
            nodes = self._ray.nodes()
            context = self._ray.get_runtime_context()
            here = next(one for one in nodes if one["NodeID"] == context.get_node_id())
            if not here["Alive"]:
                return []
            host, _, port = context.gcs_address.rpartition(":")
            self._places = [
                (host.strip("[]"), int(port)),
                (here["NodeManagerAddress"], int(here["NodeManagerPort"])),
            ]
        except Exception:
            # Whatever Ray says, it is no answer: a node that is gone shows in many ways.
            return []
        return nodes
