"""From finished runs to a paired comparison: two sides are scored together, on what both of them read.

Nothing is forwarded: the lenses score the observations that the runs hold once more, each side beside the
other, on the items and examples that both have, so that a difference is never one of the items.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.experiments._progress import Progress, Silent
from sonde.experiments.moved import MOVED_COLUMNS
from sonde.experiments.sides import RunModel, checkpoints, sides_of
from sonde.experiments.together import Covered, Together
from sonde.lenses import LENSES
from sonde.results.columns import schema_of
from sonde.results.comparison import Difference, adjusted, compared
from sonde.results.differences import differences_frame
from sonde.results.dimensions import REASON
from sonde.results.findings import findings
from sonde.results.least import check_sizes
from sonde.results.pairing import Compared, Direction, Unpaired, paired
from sonde.results.scores import LEFT_OUT, SCHEMA_VERSION, Score, read_scores, scores_frame
from sonde.results.series import series_frame
from sonde.store.receipts import verify, write_with_receipt
from sonde.store.rundir import slug


@dataclass(slots=True, kw_only=True)
class Comparison:
    """A model held against another.

    Attributes:
        base: The side that is held against.
        side: The other.
        differences: Every pair of scores that could be compared, tested together.
        unpaired: Scores that could not, by lens and reason.
        covered: What both sides have in common.
        moved: What moved most, a table a lens that can say it.
    """

    base: RunModel
    side: RunModel
    differences: Sequence[Difference] = ()
    unpaired: list[Unpaired] = field(default_factory=list[Unpaired])
    covered: list[Covered] = field(default_factory=list[Covered])
    moved: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])


def compare(
    directories: Sequence[Path],
    progress: Progress | None = None,
    *,
    series: str = "",
    least: Mapping[str, float] = MappingProxyType({}),
) -> list[Comparison]:
    """Compare the models of one run with its first, or those of further runs with the first run's.

    Args:
        directories: Folders of finished runs.
        progress: Is told how far it is.
        series: For checkpoints of one training, the regular expression whose group is the step in the names
            of models or runs: the last is compared with the first.
        least: The least size of a difference that matters, by metric and in its unit; of others see
            `sonde.results.least`.

    Returns:
        One comparison a pair of models; p-values are adjusted over all of them together.

    Raises:
        InputError: A folder holds no run, or two have nothing in common.
        UsageError: There is one model only, or a size is given of a metric that is not compared.
    """
    if series:
        (_, first), *_, (_, last) = checkpoints(directories, series)
        sides = [(first, last)]
    else:
        sides = sides_of(directories)
    teller = progress or Silent()
    found: list[Comparison] = []
    with teller.stage("comparing", len(sides)) as advance:
        for base, side in sides:
            found.append(_compared(base, side, least))
            advance()
    metrics = {one.score.metric: one for comparison in found for one in comparison.differences}
    check_sizes(least, metrics)
    together = iter(adjusted([one for comparison in found for one in comparison.differences]))
    for comparison in found:
        comparison.differences = [next(together) for _ in comparison.differences]
    return found


def _compared(base: RunModel, side: RunModel, least: Mapping[str, float]) -> Comparison:
    """Score two sides together and test every difference."""
    found = Comparison(base=base, side=side)
    pairs: list[tuple[Score, Score, Direction]] = []
    lenses = [str(one["name"]) for one in base.summary.get("lenses") or ()]
    for name in lenses:
        ours, theirs = base.lens(name), side.lens(name)
        if ours is None or theirs is None:
            found.unpaired.append(Unpaired(name, "only one of the runs has this lens", 1, name))
            continue
        if reason := _apart_in(ours, theirs):
            found.unpaired.append(Unpaired(name, reason, 1, name))
            continue
        for groups in _groups(base, side):
            together = Together(base, side, name, *groups)
            if together.items.is_empty():
                continue
            found.covered.append(together.covered)
            bases, scores = together.scores()
            found.unpaired += together.refused
            if not (bases or scores or together.refused):
                reason = "its numbers are not made from what the runs hold alone; see each run's own page"
                found.unpaired.append(Unpaired(name, reason, 1, name))
                continue
            wanted = LENSES.load(str(ours["source"])).compared or _speaking(bases)
            held = paired(bases, scores, wanted, same_tokens=together.same_tokens, changed=together.changed)
            pairs += held.pairs
            if together.same_tokens and (most := together.moved()) is not None:
                found.moved.append(most)
            found.unpaired += held.unpaired
            found.unpaired += [_not_scored(one) for one in (*bases, *scores) if one.metric == LEFT_OUT]
    if not found.covered and not found.unpaired:
        raise InputError(f"{base.run.root} and {side.run.root} have no lens over the same items in common")
    found.differences = compared(pairs, least)
    return found


def _speaking(scores: Sequence[Score]) -> tuple[Compared, ...]:
    """For a lens that does not say what is compared: the metric that speaks for it."""
    found = findings(scores_frame(scores))
    return tuple(Compared(metric=metric) for metric in dict.fromkeys(one.row["metric"] for one in found))


def _not_scored(score: Score) -> Unpaired:
    about = " ".join(filter(None, (score.task, score.control)))
    return Unpaired(score.lens, f"not scored: {dict(score.dimensions).get(REASON, '')}", 1, about)


def _apart_in(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """What of a lens's settings differs, in words; empty where its numbers mean the same."""
    for name in ("version", "mode", "quirks", "seed", "capture"):
        if (one := ours.get(name)) != (two := theirs.get(name)):
            return f"{name} differs: {_shown(one)} against {_shown(two)}"
    first, second = dict(ours.get("options") or ()), dict(theirs.get("options") or ())
    for name in sorted({*first, *second}):
        if first.get(name) != second.get(name):
            return f"option {name} differs: {_shown(first.get(name))} against {_shown(second.get(name))}"
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    return (
        ", ".join(map(str, value)) if isinstance(value, list) else "default" if value is None else str(value)
    )


def _groups(base: RunModel, side: RunModel) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Corpora in one language that both runs have: of one name, else the only ones in that language."""
    ours, theirs = (list(one.summary.get("corpus") or ()) for one in (base, side))
    for group in ours:
        there = [one for one in theirs if one["language"] == group["language"]]
        same = [one for one in there if one["name"] == group["name"]]
        alone = len([one for one in ours if one["language"] == group["language"]]) == len(there) == 1
        for other in same or (there if alone else []):
            yield group, other


def write_series(
    directories: Sequence[Path],
    pattern: str,
    output: Path,
    *,
    least: Mapping[str, float] = MappingProxyType({}),
) -> Path:
    """Write ``series.parquet``: what the lenses compare, of every checkpoint, with its best control.

    Raises:
        InputError: A folder holds no run, or one without scores.
        UsageError: See `checkpoints`.
        StoreError: The file cannot be written.
    """
    found = checkpoints(directories, pattern)
    wanted = {
        str(one["name"]): LENSES.load(str(one["source"])).compared
        for _, side in found
        for one in side.summary.get("lenses") or ()
    }
    scores = [
        (step, read_scores(side.run.scores).filter(pl.col("model") == side.name))
        for step, side in found
        if side.run.holds(side.run.scores)
    ]
    if len(scores) < len(found):
        raise InputError("a run of the series has no scores; run it again with the same arguments")
    buffer = io.BytesIO()
    series_frame(scores, wanted, least).write_parquet(buffer, compression="zstd", statistics=False)
    write_with_receipt(output, "series.parquet", buffer.getvalue())
    return output


def compared_before(folder: Path) -> str:
    """The key of the scores that the comparison in a folder is of; empty where there is no whole one."""
    try:
        if verify(folder).damaged:
            return ""
        return str(json.loads((folder / "comparison.json").read_text(encoding="utf-8"))["of"])
    except (OSError, ValueError, KeyError, InputError):
        return ""


def write_comparison(found: Sequence[Comparison], output: Path, *, of: str = "") -> Path:
    """Write ``comparison.parquet``, ``moved.parquet`` and ``comparison.json``; the folder is made if need be.

    Args:
        found: What was compared.
        output: The folder.
        of: Key of the scores of the run whose models are compared.

    Raises:
        StoreError: A file cannot be written.
    """
    buffer = io.BytesIO()
    every = [one for comparison in found for one in comparison.differences]
    differences_frame(every).write_parquet(buffer, compression="zstd", statistics=False)
    write_with_receipt(output, "comparison.parquet", buffer.getvalue())
    tables = [table for comparison in found for table in comparison.moved]
    buffer = io.BytesIO()
    pl.concat([pl.DataFrame(schema=schema_of(MOVED_COLUMNS)), *tables]).write_parquet(buffer)
    write_with_receipt(output, "moved.parquet", buffer.getvalue())
    about = [
        {
            "base": comparison.base.facts(),
            "model": comparison.side.facts(),
            "covered": [dataclasses.asdict(one) for one in comparison.covered],
            "unpaired": [dataclasses.asdict(one) for one in comparison.unpaired],
        }
        for comparison in found
    ]
    content = {"schema_version": SCHEMA_VERSION, "of": of, "comparisons": about}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_with_receipt(output, "comparison.json", text)
    return output


def default_output(directories: Sequence[Path]) -> Path:
    """Where a comparison is written: into the one run, else beside the first."""
    if len(directories) == 1:
        return directories[0] / "comparison"
    names = "-".join(slug(directory.resolve().name) for directory in directories)
    return directories[0].parent / slug(f"compare-{names}")
