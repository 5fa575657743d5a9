"""The part of a Ray cluster's accelerators that each actor holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sonde.base.errors import UsageError


def accelerator_share(ray: Any, jobs: Sequence[Any], workers: int) -> float:
    """The share of an accelerator that each actor holds: none where the models of the jobs run without one.

    Raises:
        UsageError: The jobs name one accelerator by its number, or the cluster has none.
    """
    devices = {str(job.model.device) for job in jobs if hasattr(job, "model")} - {"cpu"}
    if not devices:
        return 0.0
    if numbered := sorted(device for device in devices if ":" in device):
        bare = numbered[0].partition(":")[0]
        raise UsageError(
            f"device {numbered[0]!r}: Ray gives each actor an accelerator of its own; name {bare!r}"
        )
    return share_of(int(ray.cluster_resources().get("GPU", 0)), workers)


def share_of(accelerators: int, workers: int) -> float:
    """The share of an accelerator for each of some workers: several share one where there are too few.

    >>> share_of(4, 2), share_of(4, 8), share_of(1, 3)
    (1.0, 0.5, 0.3333)

    Raises:
        UsageError: There is none.
    """
    if accelerators < 1:
        raise UsageError("the Ray cluster has no accelerator; use --device cpu, or add a node that has one")
    # Ray counts in ten thousandths; a share rounded up would leave the last actor without a place.
    return math.floor(10_000 / math.ceil(workers / accelerators)) / 10_000
