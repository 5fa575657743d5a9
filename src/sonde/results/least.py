"""The least size of a difference that matters, and what a difference amounts to beside it.

A large sample is sure of differences that nobody would act on: rounding weights to 8 bits moves many
surprisals by thousandths of a bit. So a difference is said to go one way only where it is sure and its
estimate is as large as what matters; how large that is can be said by who asks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from sonde.base.errors import UnknownNameError, UsageError

Amount = Literal["higher", "lower", "slight", "alike", "undecided"]
"""``slight`` is sure and less than matters; ``alike``: no difference that matters."""

POINT = 0.01
"""Of what is bounded (shares, correlations, shares of a variance): one point of a hundred."""

_BITS_PER_BYTE = 0.005
_BYTES = 4
"""About as many bytes has a subword of code, or a code token."""
_NATS_IN_A_BIT = 0.6931

_BITS = _BYTES * _BITS_PER_BYTE

LEAST: Mapping[str, float] = MappingProxyType(
    {
        "bits_per_byte": _BITS_PER_BYTE,
        "bits_per_character": _BITS_PER_BYTE,
        "bits": _BITS,
        "excess": _BITS,
        "apart": _BITS,
        "nats": _BITS * _NATS_IN_A_BIT,
        "nats_per_token": _BITS * _NATS_IN_A_BIT,
        "nats_per_character": _BITS_PER_BYTE * _NATS_IN_A_BIT,
        "r2": POINT,
    }
)
"""Of some metrics in their own unit; of others without bounds it is not known, and nothing is too small."""

_BOUNDED = ("Korn-Graubard", "logit", "Fisher")
"""What the methods of intervals of bounded numbers are called."""

_DIFFERENCES = ("gain", "selectivity", "excess", "apart", "change", "difference")


def least_size(metric: str, method: str, asked: Mapping[str, float] = MappingProxyType({})) -> float:
    """The least size of a difference in a metric that matters; 0 where none is known.

    >>> least_size("accuracy", "Korn-Graubard"), least_size("bits_per_byte", "clustered jackknife, log")
    (0.01, 0.005)

    Args:
        metric: The metric.
        method: How its interval was found (``ci_method``), which says whether it is bounded.
        asked: Sizes by metric that a user gave; they go first.
    """
    if metric in asked:
        return asked[metric]
    bounded = any(name in method for name in _BOUNDED)
    return LEAST.get(metric, POINT if bounded else 0.0)


def is_difference(metric: str) -> bool:
    """Whether a metric is itself a difference, which 0 is none of."""
    return metric.endswith(_DIFFERENCES)


def amount(value: float, low: float, high: float, least: float, *, sure: bool) -> Amount:
    """What a difference amounts to, by its estimate, its 95 % interval and what matters.

    Args:
        value: The difference.
        low: Lower end of its interval.
        high: Upper end.
        least: The least size that matters; 0 where none is known.
        sure: Whether it is told from none: its interval excludes 0, among several after adjustment.

    >>> amount(-0.003, -0.004, -0.002, 0.005, sure=True), amount(0.002, -0.001, 0.004, 0.005, sure=False)
    ('slight', 'alike')
    """
    if sure:
        return "slight" if abs(value) < least else "higher" if value > 0 else "lower"
    return "alike" if -least < low and high < least else "undecided"


def check_sizes(asked: Mapping[str, float], compared: Iterable[str]) -> None:
    """Check the least sizes that a user gave.

    Args:
        asked: Sizes by metric.
        compared: The metrics that are compared.

    Raises:
        UnknownNameError: No number of that metric is compared; the nearest is named.
        UsageError: A size is negative or no number.
    """
    known = list(compared)
    for name, size in asked.items():
        if name not in known:
            raise UnknownNameError("metric of this comparison", name, known)
        if not 0 <= size < math.inf:
            raise UsageError(f"least size of {name} = {size:g}: give 0 or more, in the unit of the metric")


def sizes_of(texts: Sequence[str]) -> dict[str, float]:
    """Least sizes from the command line.

    >>> sizes_of(["accuracy=0.02"])
    {'accuracy': 0.02}

    Raises:
        UsageError: One is not written as ``METRIC=SIZE``.
    """
    sizes: dict[str, float] = {}
    for text in texts:
        name, _, size = text.partition("=")
        try:
            sizes[name] = float(size)
        except ValueError:
            raise UsageError(f"--least {text!r}: write METRIC=SIZE, as accuracy=0.02") from None
    return sizes
