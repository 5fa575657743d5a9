"""How well length, words, spelling and parse errors predict each task; writes ``docs/tasks.md``.

On the standard library of this interpreter. Every example is tested once: baselines learn on three fifths of
the clusters, choose their settings on one fifth and predict another, in turns.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from sonde.base.errors import SondeError
from sonde.corpora import Item, Selection, SkipCounter, read_files, select
from sonde.executors import EXECUTORS, count_cores
from sonde.stats.estimate import Estimates, cluster_sums, estimate_ratios
from sonde.tasks import PICKED, Dataset, Repository, build, index_imports, needs_imports, repositories
from sonde.tasks.engine.surface import surface_predictions
from sonde.tasks.engine.task import TASKS
from sonde.training.probes.splits import make_grouped_folds

CORPUS, LANGUAGE = "stdlib", "python"
FUNCTIONS = 3_000
SIZE = 500
FOLDS = 5
PAGE = Path(__file__).parents[1] / "docs" / "tasks.md"

_HEADING = "## What the surface gives away\n"
"""Where the part of the page begins that this module measures; `docs/generators/tasks.py` writes the rest."""

_BEHIND = "\n## What the making of the data left\n"
"""Where the part of the page begins that `python -m tests.artefacts` measures."""

_BEFORE = """
Written by `python -m bench baselines`, from {functions} Python functions of the standard library of
{python}: {size} examples per task, or as many as there are. Classes are balanced, so chance is one over the
number of classes. A baseline does not read code as code:

- `length`: a tree over the numbers of tokens and characters;
- `bag_of_tokens`: counts of words and symbols;
- `parse_error`: whether the code parses;
- `artefacts`: a tree over rules, [see below](#what-the-making-of-the-data-left);
- for tokens and pairs also `surface` (the spelling of the tokens), `type` (the most common class of the
  same token) and `distance`.

A baseline learns on some clusters and is tested on others, five-fold, so every example is tested once.
Accuracy is in percent with its 95 % interval, clustered by module (tokens: by token).

A task is **not solved by its surface** if no baseline's interval is above chance. Otherwise a probe must
beat that baseline. So the headline of `sonde run -l probe` is the paired gain over the best baseline.

A wide interval that includes chance proves nothing: on small data sets (see the number of examples) a
baseline may still be some points better than chance.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The baselines of one task."""

    task: str
    target: str
    examples: int
    chance: float
    accuracy: Mapping[str, Estimates]

    @property
    def best(self) -> str:
        """The baseline that is right most often."""
        return max(self.accuracy, key=lambda name: (float(self.accuracy[name].value[0]), name))

    @property
    def above(self) -> bool:
        """Whether a baseline's whole interval lies above chance."""
        return any(float(one.low[0]) > self.chance for one in self.accuracy.values())


def run() -> Iterator[dict[str, str | float | None]]:
    """Fit all baselines and write the page; a row per task: its best baseline's accuracy above chance."""
    found: list[Found] = []
    refused: list[str] = []
    tasks = {name: TASKS.load(name) for name in TASKS.names()}
    # A task without labels of its own takes those of a user's table.
    names = [name for name, task in tasks.items() if task.target in (*PICKED, "mutation") and task.labels]
    for name, one in EXECUTORS.load("local").map(_baselines, names, workers=count_cores()):
        if isinstance(one, str):
            refused.append(one)
            continue
        found.append(one)
        gain = 100 * (float(one.accuracy[one.best].value[0]) - one.chance)
        yield {"name": f"{name}: {one.best} above chance", "value": gain, "unit": "points", "target": None}
    text = PAGE.read_text(encoding="utf-8")
    before, heading, _ = text.partition(_HEADING)
    page = before + heading + _page(found, sorted(refused)) + "".join(text.partition(_BEHIND)[1:])
    PAGE.write_text(page, encoding="utf-8")


@functools.cache
def _items() -> tuple[Item, ...]:
    return select(CORPUS, Selection(languages=(LANGUAGE,), per_cluster=0, limit=FUNCTIONS)).items


@functools.cache
def _around(kind: str) -> Mapping[str, Repository]:
    """Collect what tasks may know of the files around."""
    files = read_files(CORPUS, (LANGUAGE,), SkipCounter())
    return repositories(files) if kind == "repositories" else index_imports(files) if kind else {}


def _baselines(name: str) -> Found | str:
    """Return the baselines of a task, or why it has none; runs in any process."""
    task = TASKS.load(name)
    kind = "repositories" if task.needs_repository else "imports" if needs_imports(task) else ""
    try:
        data = build(name, _items(), size=SIZE, language=LANGUAGE, repositories=_around(kind))
        frame = data.examples
        labels = np.unique(frame["label"].to_numpy(), return_inverse=True)[1]
        clusters = np.unique(frame["cluster"].to_numpy(), return_inverse=True)[1]
        folds = [(one.train, one.valid, one.test) for one in make_grouped_folds(labels, clusters, FOLDS, 0)]
    except SondeError as error:
        return str(error)
    table = surface_predictions(Dataset(name, task.version, frame, data.inputs), _items(), folds)
    cluster = dict(zip(frame["example_id"].to_list(), clusters.tolist(), strict=True))
    accuracy = {
        str(control): estimate(rows, cluster)
        for (control,), rows in table.partition_by("control", as_dict=True, maintain_order=True).items()
        if control != "majority"
    }
    return Found(name, task.target, frame.height, 1 / frame["label"].n_unique(), accuracy)


def estimate(rows: pl.DataFrame, cluster: Mapping[str, int]) -> Estimates:
    """Estimate how often the predictions of a table are right, by cluster of each example."""
    right = rows["correct"].to_numpy().astype(np.float64)
    places = np.array([cluster[example] for example in rows["example_id"]])
    return estimate_ratios(cluster_sums(right[None, :], places), "proportion")


def _page(found: Sequence[Found], refused: Sequence[str]) -> str:
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    held = [one for one in found if not one.above]
    lines = [
        _BEFORE.format(python=python, size=f"{SIZE:,}", functions=f"{FUNCTIONS:,}"),
        f"No baseline is above chance in {len(held)} of {len(found)} tasks: "
        + (", ".join(sorted(f"`{one.task}`" for one in held)) or "none")
        + ".\n",
        "| task | about | examples | chance | best baseline | accuracy | others | above chance |",
        "|---|---|--:|--:|---|--:|---|---|",
        *(_row(one) for one in sorted(found, key=lambda one: (one.above, one.target, one.task))),
    ]
    if refused:
        lines += ["", "Without a data set here:", "", *(f"- {reason}" for reason in refused)]
    return "\n".join(lines) + "\n"


def _row(one: Found) -> str:
    others = ", ".join(
        f"{name} {_percent(estimate)}" for name, estimate in one.accuracy.items() if name != one.best
    )
    cells: Iterable[str] = (
        f"`{one.task}`",
        one.target,
        f"{one.examples:,}",
        f"{100 * one.chance:.1f}",
        one.best,
        _percent(one.accuracy[one.best]),
        others,
        "yes" if one.above else "no",
    )
    return f"| {' | '.join(cells)} |"


def _percent(one: Estimates) -> str:
    value, low, high = (100 * float(part[0]) for part in (one.value, one.low, one.high))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"
