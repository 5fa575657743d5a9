"""Rules that tell the labels of made data sets apart without knowing code: how right each is, by language.

A label that such a rule tells is an artefact of how the data were made. Rules are those of the probe's
baseline (`sonde.tasks.engine.surface`) and, where the machine has one, what the language's own parser
refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from sonde.base.errors import SondeError
from sonde.corpora import Item, Selection, select
from sonde.stats.estimate import cluster_sums, estimate_ratios
from sonde.tasks import build, get_languages
from sonde.tasks.engine.surface import RULES, artefact_features, extract_code
from sonde.tasks.engine.task import TASKS
from sonde.training.probes.splits import make_grouped_folds
from tests.artefacts.parsers import refused

LANGUAGES = ("python", "java", "go", "javascript", "php", "ruby")
CORPORA: Mapping[str, str] = {
    "python": "stdlib",
    "java": "jdk",
    "go": "debian:golang-src",
    "javascript": "local:/usr/lib/node_modules/npm/node_modules",
    "php": "debian:phpmyadmin",
    "ruby": "debian:libruby",
}
"""Where a machine has code of each language."""

OWN_PARSER, TREE = "own_parser", "tree"
FOLDS, DEPTH = 5, 2


@dataclass(frozen=True, slots=True)
class Measured:
    """How right a rule is on one task in one language.

    Attributes:
        task: The task.
        language: The language.
        rule: The rule, or `TREE` for all of them in a tree of depth 2.
        examples: Examples, each tested once.
        accuracy: Share of them that it is right on.
        low: Lower end of the 95 % interval, clustered as the probe clusters.
        high: Its upper end.
        chance: One in the number of classes, weighed by how frequent they are: the share of the commonest.
    """

    task: str
    language: str
    rule: str
    examples: int
    accuracy: float
    low: float
    high: float
    chance: float


def made_tasks() -> list[str]:
    """Return the tasks whose examples are made, or are marked pairs."""
    tasks = {name: TASKS.load(name) for name in TASKS.names()}
    return [name for name, task in tasks.items() if task.target in ("mutation", "pair") and task.labels]


def draw_items(corpus: str, language: str, limit: int) -> tuple[Item, ...]:
    """Select functions of a corpus."""
    return select(corpus, Selection(languages=(language,), per_cluster=0, limit=limit)).items


def measure(task: str, language: str, items: Sequence[Item], size: int) -> Iterator[Measured]:
    """Yield how right each rule is on one task, the tree of all of them first.

    Raises:
        SondeError: No data set can be drawn of the items.
    """
    data = build(task, items, size=size, language=language)
    rows = data.examples.to_dicts()
    texts = {item.item_id: item for item in (*items, *data.inputs)}
    names = [*RULES, OWN_PARSER]
    paired = all(row["other_start"] is not None for row in rows)
    codes = [extract_code(row, texts[row["item_id"]].text, is_paired=paired) for row in rows]
    features = np.column_stack([np.array(artefact_features(rows, texts)), refused(codes, language)])
    labels = np.unique(data.examples["label"].to_numpy(), return_inverse=True)[1]
    clusters = np.unique(data.examples["cluster"].to_numpy(), return_inverse=True)[1]
    folds = make_grouped_folds(labels, clusters, FOLDS, 0)
    chance = float(np.bincount(labels).max() / len(labels))
    for rule, columns in [(TREE, features), *((name, features[:, [at]]) for at, name in enumerate(names))]:
        right, tested = list[np.ndarray](), list[np.ndarray]()
        for fold in folds:
            model = DecisionTreeClassifier(max_depth=DEPTH, random_state=0).fit(
                columns[fold.train], labels[fold.train]
            )
            right.append(model.predict(columns[fold.test]) == labels[fold.test])
            tested.append(fold.test)
        hits = np.concatenate(right).astype(np.float64)
        one = estimate_ratios(cluster_sums(hits[None, :], clusters[np.concatenate(tested)]), "proportion")
        bounds = (float(one.value[0]), float(one.low[0]), float(one.high[0]))
        yield Measured(task, language, rule, len(rows), *bounds, chance)


def measure_all(
    language: str, items: Sequence[Item], size: int, tasks: Sequence[str]
) -> Iterator[list[Measured] | str]:
    """Yield the rules of each task of a language, or why it has no data set here."""
    for task in tasks:
        if language in get_languages(TASKS.load(task)):
            try:
                yield list(measure(task, language, items, size))
            except SondeError as error:
                yield str(error)
