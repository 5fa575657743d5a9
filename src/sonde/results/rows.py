"""From estimates to rows of scores: one place fills the columns that every lens's numbers carry."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float

from sonde.results.contributions import Contributions
from sonde.results.estimate import Estimates
from sonde.results.scores import Score


def rows_of(
    found: Estimates,
    templates: Sequence[Score],
    counts: Float[np.ndarray, " group"] | Sequence[float],
    *,
    factor: float = 1.0,
    fields: Mapping[str, Any] = MappingProxyType({}),
    contributions: Iterable[Contributions] | None = None,
) -> Iterator[Score]:
    """One row an estimate; those without a value are left out, and what is not known is null.

    Args:
        found: The estimates, one a template.
        templates: What each row carries besides.
        counts: Observations behind each.
        factor: By which values and intervals are multiplied (nats to bits).
        fields: Columns that all rows share beside their templates.
        contributions: What each cluster contributes to each, before ``factor``; None where that is not known.
    """
    parts = [None] * len(templates) if contributions is None else contributions
    for place, (template, n, part) in enumerate(zip(templates, counts, parts, strict=True)):
        value = float(found.value[place])
        if not math.isfinite(value):
            continue
        low, high = float(found.low[place]), float(found.high[place])
        known = math.isfinite(low) and math.isfinite(high)
        yield dataclasses.replace(
            template,
            value=value * factor,
            ci_low=low * factor if known else None,
            ci_high=high * factor if known else None,
            ci_method=found.method,
            n=int(n),
            n_clusters=int(found.n_clusters[place]),
            effective_clusters=float(found.effective[place]),
            n_eff=_finite(found.n_eff[place]),
            df=_finite(found.df[place]),
            p_value=_finite(found.p_value[place]),
            contributions=part,
            **fields,
        )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
