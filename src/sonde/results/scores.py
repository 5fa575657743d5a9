"""Scores: rows of ``scores.parquet`` with everything that qualifies a number, built from estimates.

The table has one row per number. `estimates_to_scores` alone converts estimates to rows: it fills the columns
that the numbers of every lens have.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.base.errors import InputError
from sonde.results.schema import DIMENSIONS, REASON, Columns, Dimensions, scan_files, to_schema
from sonde.stats.estimate import Contributions, Estimates

SCHEMA_VERSION = 2


_MAX_ROWS = 5_000_000
"""A run has some thousand numbers; a file of some kilobytes may promise a thousand million."""


SCORES_COLUMNS: Columns = {
    "model": (pl.String, "the model, as named by the user"),
    "revision": (pl.String, "its revision, or a hash of its files"),
    "lens": (pl.String, "the lens"),
    "task": (pl.String, "the task; empty if the lens has none"),
    "language": (pl.String, "the language"),
    "corpus_hash": (pl.String, "hash of the corpus with its selection"),
    "item_set": (pl.String, "hash of the ids of the items scored"),
    "split": (pl.String, "`train`, `valid`, `test`, `external` (an external test set) or `all`"),
    "dimensions": (DIMENSIONS, "further dimensions of the number, the outermost first; empty: everything"),
    "side": (pl.String, "of an attention: `encoder`, `decoder` or `cross`"),
    "layer": (pl.Int32, "of the states, 0 the embeddings; of an attention head, from 0"),
    "head": (pl.Int32, "of the layer, from 0"),
    "pooling": (pl.String, "how the states of subwords became one"),
    "metric": (pl.String, "the metric"),
    "of_metric": (pl.String, "of a gain, a change or a ceiling: the metric that it is of"),
    "compared_to": (
        pl.String,
        (
            "of a gain of heads: the control subtracted; of a change: the swept values that it is "
            "compared with"
        ),
    ),
    "k": (
        pl.Int64,
        "a number of the metric: ranks that count as a hit, examples of a data set, folds, bins of a "
        "calibration error, fewest occurrences of what is correlated, epoch",
    ),
    "l2": (pl.Float64, "the penalty of a probe, chosen on validation"),
    "method": (pl.String, "kind of probe: `linear`, `mlp`, `ridge` or `paper`"),
    "fold_layers": (pl.List(pl.Int32), "the layer that each fold of a probe chose; null with one fold"),
    "matching": (
        pl.String,
        (
            "right answers and their competitors: `single`, `filtered`, `any`, `id`, `unified`, "
            "`common`, `candidates`, `generative` or `generative_lenient`"
        ),
    ),
    "aggregation": (pl.String, "log-probabilities of the subwords of a statement: `sum` or `mean`"),
    "objective": (
        pl.String,
        (
            "`causal` log-probabilities, a masked model's pseudo-log-likelihoods (`pll`), or those "
            "of filled gaps (`infill`)"
        ),
    ),
    "weighting": (
        pl.String,
        "of calls: `count` (each subword), or of the tags of both sides `count_common`, `unweighted`, "
        "`standardised_external`, `standardised_internal`",
    ),
    "binning": (pl.String, "bins of a calibration error: `equal_width` or `equal_mass`"),
    "unit": (pl.String, "unit whose loss and frequency are correlated: `subword` or `tag`"),
    "chosen": (pl.String, "of a relation: the offsets or keywords chosen on validation, or which of both"),
    "n_relations": (pl.Int32, "relations that an average is over"),
    "value": (pl.Float64, "the number"),
    "ci_low": (pl.Float64, "lower end of its 95 % interval; null if none is known"),
    "ci_high": (pl.Float64, "upper end"),
    "ci_method": (pl.String, "how the interval was found"),
    "n": (pl.Int64, "observations of the number"),
    "n_clusters": (pl.Int64, "clusters that these come from"),
    "effective_clusters": (pl.Float64, "effective number of these clusters (Kish)"),
    "n_eff": (pl.Float64, "effective number of independent observations of a proportion"),
    "df": (pl.Float64, "degrees of freedom of the interval"),
    "p_value": (pl.Float64, "of a difference, against none"),
    "seeds": (
        pl.Int64,
        "independent trainings, or random draws of a control, of the number; null if nothing is random",
    ),
    "seed": (pl.Int64, "seed of whatever is random"),
    "control": (
        pl.String,
        "kind of control that the row is of or a gain is over; null: the model itself",
    ),
    "mode": (pl.String, "`corrected` or `paper`"),
    "fingerprint": (pl.String, "key of the scored input"),
    "schema_version": (pl.Int32, "version of these columns"),
}
"""Columns in their order, each with its type and what it holds."""


SCORES_SCHEMA = to_schema(SCORES_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One score of a run; its fields are the columns of `SCORES_COLUMNS`.

    Attributes:
        contributions: Contribution of each cluster, for paired comparisons; in no table. None where the score
            has no such parts.
    """

    model: str
    lens: str
    metric: str
    value: float
    n: int
    n_clusters: int
    revision: str = ""
    task: str = ""
    language: str = ""
    corpus_hash: str = ""
    item_set: str = ""
    split: str = "all"
    dimensions: Dimensions = ()
    side: str = ""
    layer: int | None = None
    head: int | None = None
    pooling: str = ""
    of_metric: str | None = None
    compared_to: str | None = None
    k: int | None = None
    l2: float | None = None
    method: str | None = None
    fold_layers: tuple[int, ...] | None = None
    matching: str | None = None
    aggregation: str | None = None
    objective: str | None = None
    weighting: str | None = None
    binning: str | None = None
    unit: str | None = None
    chosen: str | None = None
    n_relations: int | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    ci_method: str = ""
    effective_clusters: float | None = None
    n_eff: float | None = None
    df: float | None = None
    p_value: float | None = None
    seeds: int | None = None
    seed: int = 0
    control: str | None = None
    mode: str = "corrected"
    fingerprint: str = ""
    schema_version: int = SCHEMA_VERSION
    contributions: Contributions | None = field(default=None, repr=False, compare=False)

    def within(self, *dimensions: tuple[str, str]) -> Score:
        """Return the score with further dimensions, inside those that it has."""
        return dataclasses.replace(self, dimensions=(*self.dimensions, *dimensions))

    def over(self, clusters: Sequence[str]) -> Score:
        """Return the score with its contributing clusters by name instead of number."""
        if self.contributions is None:
            return self
        return dataclasses.replace(self, contributions=self.contributions.named(clusters))


LEFT_OUT = "left_out"
"""Metric of a row whose dimension says why something was not scored."""


def left_out(template: Score, reason: str) -> Score:
    """Build the row that says why something was not scored."""
    return dataclasses.replace(
        template, metric=LEFT_OUT, dimensions=((REASON, reason),), value=0.0, n=0, n_clusters=0
    )


def scores_to_frame(scores: Iterable[Score]) -> pl.DataFrame:
    """Convert scores to a table in the schema of ``scores.parquet``."""
    rows = list(scores)
    plain = [name for name in SCORES_SCHEMA if name != "dimensions"]
    table = pl.DataFrame(
        {name: list(map(attrgetter(name), rows)) for name in plain},
        schema={name: SCORES_SCHEMA[name] for name in plain},
    )
    # Nested values are slow to build, and many numbers are about the same.
    indices = {
        dimensions: index for index, dimensions in enumerate({score.dimensions: None for score in rows})
    }
    structs = [[{"name": name, "value": value} for name, value in dimensions] for dimensions in indices]
    dimensions = pl.Series("dimensions", structs, dtype=DIMENSIONS).gather(
        [indices[score.dimensions] for score in rows]
    )
    return table.with_columns(dimensions).select(list(SCORES_SCHEMA))


def read_scores(path: Path) -> pl.DataFrame:
    """Read a file of scores as a table in `SCORES_SCHEMA`.

    Raises:
        InputError: It is of another version of the schema, or promises more rows than any run writes.
    """
    table = scan_files(path)
    rows = table.select(pl.len()).collect().item()
    if rows > _MAX_ROWS:
        raise InputError(f"{path} has {rows:,} rows, which no run writes")
    columns = table.collect_schema().names()
    missing_columns = [name for name in SCORES_SCHEMA if name not in columns]
    if "schema_version" not in missing_columns:
        versions = table.select(pl.col("schema_version").unique()).collect().to_series().to_list()
        if unknown := [version for version in versions if version != SCHEMA_VERSION]:
            raise InputError(
                f"scores {str(path)!r}: of schema version {unknown[0]}, and sonde reads {SCHEMA_VERSION}; "
                "run the experiment again"
            )
    if missing_columns:
        raise InputError(f"scores {str(path)!r}: no column {missing_columns[0]!r}; run the experiment again")
    return table.select(pl.col(name).cast(kind) for name, kind in SCORES_SCHEMA.items()).collect()


def split_by_model(scores: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Yield each model and language with its rows, by name."""
    parts = scores.partition_by("model", "language", as_dict=True, maintain_order=True)
    for model, language in sorted(parts, key=str):
        yield model, language, parts[model, language]


def frame_to_scores(frame: pl.DataFrame) -> list[Score]:
    """Return the scores of a table in `SCORES_SCHEMA`, in its order."""
    scores: list[Score] = []
    for row in frame.select(SCORES_SCHEMA.keys()).iter_rows(named=True):
        row["dimensions"] = tuple((dimension["name"], dimension["value"]) for dimension in row["dimensions"])
        row["fold_layers"] = None if row["fold_layers"] is None else tuple(row["fold_layers"])
        scores.append(Score(**row))
    return scores


def estimates_to_scores(
    estimates: Estimates,
    templates: Sequence[Score],
    counts: Float[np.ndarray, " group"] | Sequence[float],
    *,
    factor: float = 1.0,
    fields: Mapping[str, Any] = MappingProxyType({}),
    contributions: Iterable[Contributions] | None = None,
) -> Iterator[Score]:
    """Convert estimates to scores; estimates without a value are omitted, unknown fields are null.

    Args:
        estimates: The estimates, one a template.
        templates: Further columns of each score.
        counts: Number of observations of each.
        factor: Multiplies values and intervals (nats to bits).
        fields: Columns that all scores share.
        contributions: Contributions of the clusters to each estimate, before ``factor``; None if unknown.
    """
    parts = [None] * len(templates) if contributions is None else contributions
    for index, (template, n, part) in enumerate(zip(templates, counts, parts, strict=True)):
        value = float(estimates.value[index])
        if not math.isfinite(value):
            continue
        low, high = float(estimates.low[index]), float(estimates.high[index])
        has_interval = math.isfinite(low) and math.isfinite(high)
        yield dataclasses.replace(
            template,
            value=value * factor,
            ci_low=low * factor if has_interval else None,
            ci_high=high * factor if has_interval else None,
            ci_method=estimates.method,
            n=int(n),
            n_clusters=int(estimates.n_clusters[index]),
            effective_clusters=float(estimates.effective[index]),
            n_eff=_to_finite(estimates.n_eff[index]),
            df=_to_finite(estimates.df[index]),
            p_value=_to_finite(estimates.p_value[index]),
            contributions=part,
            **fields,
        )


def _to_finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
