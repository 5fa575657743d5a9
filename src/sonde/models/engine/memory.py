"""Out-of-memory errors on the device and the host, and work that may be tried again in smaller parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")


_SIGNS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    # Libraries that find no room for what they need beside a product say it in their own words.
    "cublas_status_alloc_failed",
    "cublas_status_not_initialized",
    "cusolver_status_alloc_failed",
    "cusparse_status_insufficient_resources",
    "cudnn_status_alloc_failed",
    "cudnn_status_internal_error_device_allocation_failed",
    "cudnn_status_internal_error_host_allocation_failed",
    "unable to find an engine to execute this computation",
)


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out."""
    message = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(sign in message for sign in _SIGNS)


def if_it_fits(work: Callable[[], Result], device: torch.device) -> Result | None:
    """Return the result of `work`, or None if memory ran out; what it allocated is then free again.

    Args:
        work: Gives something other than None.
        device: Where its tensors lie.

    Raises:
        RuntimeError: It failed for another reason.
    """
    try:
        return work()
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
    # Outside the handler, since the traceback keeps the tensors of the failed work alive.
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return None
