"""What a run prints of the probes: a line a task and model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from sonde.lenses.probe.fit import BEST
from sonde.results.dimensions import REASON, dimension, dimensions_are
from sonde.results.formats import counted, number
from sonde.results.layers import LayerAccount, account_layers
from sonde.results.local_cues import cues_by_key, describe_cues
from sonde.results.scores import LEFT_OUT
from sonde.results.verdict import verdict_allowed
from sonde.results.words import figures, standing


def headline_lines(scores: pl.DataFrame) -> Iterator[str]:
    """Yield the accuracy of each chosen layer, its gain, what local cues tell and where a task is encoded.

    First comes what the numbers rest on.
    """
    accounts = account_layers(scores)
    told = cues_by_key(scores.filter((pl.col("split") == "test") & dimensions_are(dict([BEST]))))
    parts: dict[tuple[str, str], list[LayerAccount]] = {}
    for account in accounts:
        model, _, language = account.key
        parts.setdefault((model, language), []).append(account)
    for part in parts.values():
        yield _rests(part)
    for account in accounts:
        model, task, language = account.key
        accuracy, gain = account.accuracy, account.gain
        line = (
            f"{task} ({language}), {model}: accuracy {figures(accuracy, 100)} % at "
            f"layer {account.chosen}, chosen on validation{standing(accuracy)}"
        )
        if gain is not None:
            line += f"; {figures(gain, 100, sign='+')} points over {gain['control']}{standing(gain)}"
        if (both := told.get(account.key)) is not None:
            line += f"; {describe_cues(accuracy, *both)}"
        yield f"{line}; {account.describe()}"
    left_out = scores.filter(pl.col("metric") == LEFT_OUT).with_columns(reason=dimension(REASON))
    for row in left_out.iter_rows(named=True):
        what = f" ({row['control']})" if row["control"] else ""
        yield f"left out{what}, {row['model']}: {row['reason']}"


def _rests(accounts: Sequence[LayerAccount]) -> str:
    """How the tasks of a model were tested, on how many effective clusters, and how many allow a verdict."""
    model, _, language = accounts[0].key
    rows = [account.accuracy for account in accounts]
    firm = sum(account.gain is not None and verdict_allowed(account.gain) for account in accounts)
    folds = sorted({row["k"] or 1 for row in rows})
    crossed = f"cross-fitted over {folds[-1]} folds by cluster"
    how = "on the test part of their split" if folds == [1] else crossed
    worth = sorted(row["effective_clusters"] for row in rows if row["effective_clusters"] is not None)
    fewest = [number(worth[0], 0)] if worth and number(worth[0], 0) != number(worth[-1], 0) else []
    rests = f", {' to '.join([*fewest, counted(worth[-1], 'effective cluster')])} a task" if worth else ""
    return (
        f"{model} ({language}): {counted(len(rows), 'task')} tested {how}{rests}; the gain over the surface "
        f"of the code allows a verdict in {firm}"
    )
