"""What a run prints of surprisal: constructs by surprisal, code of two times, minimal pairs."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.languages import spelled
from sonde.lenses.surprisal.preferences import PREFERRED
from sonde.lenses.surprisal.rows import BITS
from sonde.results.dimensions import dimension, dimensions_are, dimensions_named
from sonde.results.extremes import describe_ends
from sonde.results.formats import PERCENT, Interval, Number
from sonde.results.memory import CHANGE, PERIOD, describe_memory
from sonde.results.observations import SHARED_TOKENS
from sonde.results.tables import Column, Table, rests_on
from sonde.results.words import figures, standing, too_little

_ROWS = 10
_COLUMNS = (
    Column(title="Construct", value="construct"),
    Column(title="Bits", format=Number()),
    Column(title="95 % interval", format=Interval(missing="")),
    rests_on("cluster"),
)

_SCORED = {"pll": "bits of pseudo-log-likelihood per {unit}", "infill": "bits per {unit} that it fills in"}
"""What bits are of where both sides were seen."""

_PAIRED = (
    Column(title="Fault", value="task"),
    Column(title="%", format=PERCENT),
    Column(title="95 % interval", format=Interval(digits=1, scale=100, missing="")),
    Column(title="Best control", value="best"),
    Column(title="% by it", value="reached", format=PERCENT),
    rests_on("cluster"),
)


def headline(scores: pl.DataFrame) -> Iterator[str]:
    """Lines for a person, from the lens's rows of ``scores.parquet``; nothing where there are none."""
    own = dimensions_named("construct") & (pl.col("metric") == "bits")
    shared = dimensions_named(SHARED_TOKENS[0], "construct") & (pl.col("metric") == "nats_per_token")
    rows = scores.filter(pl.col("control").is_null())
    # Several models stand one below the other: over the code tokens that all of them have whole.
    table = rows.filter(shared) if (several := not rows.filter(shared).is_empty()) else rows.filter(own)
    scale = BITS if several else 1.0
    table = table.with_columns(pl.col("value", "ci_low", "ci_high") * scale, construct=dimension("construct"))
    for (model, language), rows in sorted(
        table.group_by("model", "language"), key=lambda entry: str(entry[0])
    ):
        worst = rows.sort("value", descending=True, nulls_last=True).head(_ROWS)
        yield ""
        what = _SCORED.get(str(worst["objective"].first()), "bits per {unit}")
        what = what.format(unit="code token that all models have whole" if several else "subword")
        shown = (
            f"the {worst.height} highest of {rows.height} means"
            if worst.height < rows.height
            else "all means"
        )
        yield f"{spelled(language)} constructs for {model}, in {what}: {shown}"
        yield from Table(summary="Constructs", columns=_COLUMNS, rows=worst).lines(headed=False, indent=2)
        if said := describe_ends(
            rows.to_dicts(),
            lambda row: row["construct"],
            lambda row: figures(row, digits=2),
            noun="constructs",
            verbs=("surprises most", "surprises least"),
        ):
            yield f"  {said}."
    yield from _of_times(scores)
    yield from _of_pairs(scores)


def _of_pairs(scores: pl.DataFrame) -> Iterator[str]:
    """How often each fault is the less likely text, beside its best control; nothing without pairs."""
    rows = scores.filter((pl.col("metric") == PREFERRED) & dimensions_are({}))
    for (model, language), part in sorted(
        rows.partition_by("model", "language", as_dict=True).items(), key=lambda entry: str(entry[0])
    ):
        controls = part.filter(pl.col("control").is_not_null()).sort("value", descending=True)
        best = controls.unique("task", keep="first", maintain_order=True).select(
            "task", best=pl.col("control").str.replace_all("_", " "), reached=pl.col("value")
        )
        own = part.filter(pl.col("control").is_null()).join(best, on="task", how="left")
        yield ""
        yield f"Originals likelier than their mutants on {spelled(language)} for {model}, in % of the pairs"
        table = Table(summary="Minimal pairs", columns=_PAIRED, rows=own.sort("value", descending=True))
        yield from table.lines(indent=2)


def _of_times(scores: pl.DataFrame) -> Iterator[str]:
    """Whether newer code costs more than older code of the same kind; nothing in a run without a date."""
    rows = scores.filter(
        dimensions_named(PERIOD)
        & (dimension(PERIOD) == CHANGE)
        & (pl.col("metric") == "bits")
        & pl.col("control").is_null()
    )
    for (model, language), part in rows.partition_by("model", "language", as_dict=True).items():
        (change, *beyond) = part.sort("compared_to", nulls_last=False).to_dicts()
        yield ""
        yield (
            f"Newer {language} code less older code of the same kind for {model}: "
            f"{figures(change, digits=2, sign='+')} bits per subword{standing(change)}"
        )
        for row in beyond:
            yield f"  less the same with random weights: {figures(row, digits=2, sign='+')}{standing(row)}"
        if not any(map(too_little, (change, *beyond))):
            yield f"  {describe_memory(change, beyond[0] if beyond else None)}"
