"""Many looks at one training: the error of all of its verdicts, spent over looks and tests.

Each checkpoint is a new model on the same functions, so a confidence sequence, which gathers data on one
model, does not apply. By the union bound a false alarm anywhere has at most the probability `ERROR`.
"""

from __future__ import annotations

import math

from sonde.base.errors import UsageError
from sonde.base.formatting import plural

ERROR = 0.05
"""Probability of any false alarm over all looks at a training."""


def spend_error(look: int, tests: int, planned: int | None = None) -> float:
    """Return the error that each test of a look may have.

    Args:
        look: Number of the look, from 1.
        tests: Number of tests in this look.
        planned: Number of looks, if it is known beforehand; each then has the same share. Else look t has
            6 / (pi t)^2 of the error, a series that adds up to 1.

    Raises:
        UsageError: The look is beyond the planned ones.

    >>> round(spend_error(1, 10, 100), 7), round(spend_error(2, 10), 7)
    (5e-05, 0.0007599)
    """
    if planned is None:
        return ERROR * 6 / (math.pi * look) ** 2 / max(tests, 1)
    if look > planned:
        raise UsageError(
            f"look {look} at a training of {plural(planned, 'planned look')}: their error is spent; begin "
            "again with another state file"
        )
    return ERROR / planned / max(tests, 1)
