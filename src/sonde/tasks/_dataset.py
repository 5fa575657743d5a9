"""Data sets that a trick cannot solve: balanced, split by cluster, alike in length."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType

from sonde.base.errors import InputError, SondeError, UsageError
from sonde.corpora import FirstItems, Item
from sonde.corpora._spread import ONE, Spread
from sonde.tasks import TASKS
from sonde.tasks._bugs import BugTask, draw_bugs
from sonde.tasks._drawn import (
    ITEMS_FOR_TOKENS,
    DatasetRequest,
    draw_items,
    draw_pairs,
    draw_tokens,
    texts_beside,
)
from sonde.tasks._examples import EXAMPLE_SCHEMA, Dataset, SplitExamples, example_table
from sonde.tasks._given import brings_splits, draw_given, is_given
from sonde.tasks._mutated import draw_mutated
from sonde.tasks._own import OwnLabels, are_enough, draw_own
from sonde.tasks._picked import PICKED, Pick, Picks, Question, pick_all, picks_of
from sonde.tasks._pool import Pool, pool_of
from sonde.tasks._task import Repository, Task, classes_of

__all__ = ["DRAWING", "EXAMPLE_SCHEMA", "Dataset", "build", "drawn_from", "first_drawn", "gather_picks"]

DRAWING = "3"
"""Raised when the same pool gives other examples: part of the key of every data set."""

NO_PICKS: Picks = MappingProxyType({})

_MORE = 2
"""Of a table with labels so many times as many texts are tried as examples are wanted."""

_TRIED, _WORTH_A_TRIAL = 40, 4_000
"""Functions of each half of a pool that are labelled to know how long others take, and the functions that
make it worth while."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long functions will take to label.

    Attributes:
        functions: How many there are.
        tasks: How many tasks ask them.
        seconds: How long it will take.
        tried: How many functions were labelled and timed for it.
    """

    functions: int
    tasks: int
    seconds: float
    tried: int


_DRAW = {"item": draw_items, "span": draw_tokens, "pair": draw_pairs}


def build(
    task_name: str,
    items: Sequence[Item],
    *,
    size: int,
    seed: int = 0,
    language: str,
    mode: str = "corrected",
    quirks: AbstractSet[str] = frozenset(),
    repositories: Mapping[str, Repository] = {},
    spread: Spread = ONE,
    picks: Picks = NO_PICKS,
) -> Dataset:
    """Build the data set of a task.

    Classes are exactly balanced in each split; train, valid and test have 60, 20 and 20 % of them. No
    cluster (for token tasks: no token type) is in two splits, and near-duplicates are left out before.
    Getters, setters and code that does not parse are left out, short functions come first. Everything falls
    by hash: the order of ``items`` does not matter, and a larger data set from the same items contains a
    smaller one.

    Labels that the items bring for this task (`sonde.corpora.Given`) are taken as they are, splits included;
    of a user's own table as many as asked for, see `sonde.tasks._own.draw_own`.

    Args:
        task_name: Public name of the task, or a path to a ``.py`` file.
        items: The pool to draw from, of any language.
        size: Examples wanted of all classes and splits together; where a class has too few, all classes
            shrink to it.
        seed: Draws another data set.
        language: Public name of the language wanted.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks beside the mode's preset.
        repositories: The definitions around, where the task needs them.
        spread: Processes that read functions; any number gives the same data set.
        picks: The task's labelled places, where they were gathered before; see `gather_picks`.

    Raises:
        UsageError: ``size`` is too small for the classes.
        InputError: A class has too few examples, or a split would be without one.
    """
    task = TASKS.load(task_name)
    wanted = [item for item in items if item.language == language]
    asked = DatasetRequest(task, size, seed, language, mode, quirks, repositories, picks)
    if is_given(wanted, task.name) or isinstance(task, OwnLabels):
        draw = draw_own if isinstance(task, OwnLabels) else draw_given
        drawn, pool = draw(wanted, asked), Pool(tuple(wanted), {}, {})
        given_split = brings_splits(wanted, task.name)
    else:
        classes = len(classes_of(task, mode, quirks)) or 2
        if size < 5 * classes:
            raise UsageError(
                f"a data set of {size} examples has no room for the {classes} classes of task {task.name!r}; "
                f"ask for {5 * classes} or more"
            )
        pool = pool_of(wanted, language, seed, task.hint if isinstance(task, BugTask) else "", spread)
        if not pool.items:
            raise InputError(
                f"task {task.name!r}: no function in {language} to draw from; name another corpus"
            )
        question = Question(task_name, seed, mode, frozenset(quirks), repositories)
        if not picks and not spread.alone and _answers(question, pool.items[0]):
            asked = replace(asked, picks=_picks([question], pool.items, spread)[task_name])
        if isinstance(task, BugTask):
            drawn = draw_bugs(pool, asked, spread)
        elif task.target == "mutation":
            drawn = draw_mutated(pool, asked, task_name, spread)
        else:
            drawn = _DRAW[task.target](pool, asked)
        # A token type is not in one split of a corpus alone, so the splits of token tasks are always dealt.
        given_split = bool(pool.splits) and task.target != "span"
    return _dataset(task, drawn, pool, size, given_split)


def first_drawn(
    names: Sequence[str],
    *,
    size: int,
    seed: int,
    keep: Callable[[Sequence[Item]], Sequence[Item]] = lambda items: items,
) -> FirstItems | None:
    """How many items of a table with labels are enough for its data sets; None where tasks label code.

    Args:
        names: The tasks.
        size: As for `build`; so is the seed.
        seed: Draws another data set.
        keep: The items that may be drawn.
    """
    tasks = [TASKS.load(name) for name in names]
    if not all(isinstance(task, OwnLabels) for task in tasks):
        return None

    def enough(items: Sequence[Item], beyond: Sequence[Item], /) -> bool:
        kept, others = keep(items), keep(beyond)
        asked = [
            DatasetRequest(task, size, seed, beyond[0].language, "corrected", frozenset(), {})
            for task in tasks
        ]
        return all(are_enough(kept, others, one) for one in asked)

    return FirstItems(seed, _MORE * size, enough)


def gather_picks(
    repositories: Mapping[str, Mapping[str, Repository]],
    items: Sequence[Item],
    *,
    seed: int,
    language: str,
    mode: str,
    quirks: AbstractSet[str],
    spread: Spread,
    tell: Callable[[Estimate], None] = lambda estimate: None,
) -> dict[str, Picks]:
    """Label the functions that data sets of several tasks are drawn from, each function once.

    Args:
        repositories: The tasks by name or path, each with what it may know of the files around.
        items: The pool, as for `build`.
        seed: As for `build`; so are the others.
        language: Public name of the language wanted.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks beside the mode's preset.
        spread: Processes that read functions.
        tell: Is told before the functions are labelled how long it will take, where they are many.

    Returns:
        What `build` takes as ``picks``, of those tasks that label what the code already has.
    """
    wanted = [item for item in items if item.language == language]
    questions = [
        Question(name, seed, mode, frozenset(quirks), around)
        for name, around in repositories.items()
        if not is_given(wanted, TASKS.load(name).name)
    ]
    pool = pool_of(wanted, language, seed, "", spread).items
    able = [one for one in questions if pool and _answers(one, pool[0])]
    if able and len(pool) >= _WORTH_A_TRIAL:
        tell(_estimate(able, pool, spread))
    return _picks(able, pool, spread)


def _estimate(questions: Sequence[Question], pool: Sequence[Item], spread: Spread) -> Estimate:
    """What some functions take, as much of each half of the pool as is asked of it."""
    seconds, timed = 0.0, 0
    for some, asked in _asked(questions, pool):
        tried = [some[place * len(some) // _TRIED] for place in range(_TRIED)] if some and asked else []
        pick_all(asked, tried[:1], ONE)
        begin = time.perf_counter()
        pick_all(asked, tried, ONE)
        seconds += (time.perf_counter() - begin) / _TRIED * len(some)
        timed += len(tried)
    return Estimate(len(pool), len(questions), seconds / spread.processes(len(pool)), timed)


def _asked(
    questions: Sequence[Question], pool: Sequence[Item]
) -> list[tuple[Sequence[Item], Sequence[Question]]]:
    """What is asked of the functions of a pool: of whole functions all, of tokens and pairs its beginning."""
    whole = [one for one in questions if TASKS.load(one.task).target == "item"]
    return [(pool[:ITEMS_FOR_TOKENS], questions), (pool[ITEMS_FOR_TOKENS:], whole)]


def drawn_from(
    task: Task, items: Sequence[Item], seed: int, language: str, spread: Spread = ONE
) -> Sequence[Item]:
    """The functions that the data set of a task about what the code already has is drawn from.

    Args:
        task: The task.
        items: The pool, as for `build`; so are the others.
        seed: Draws another data set.
        language: Public name of the language wanted.
        spread: Processes that read functions.
    """
    wanted = [item for item in items if item.language == language]
    if is_given(wanted, task.name):
        return wanted
    pool = pool_of(wanted, language, seed, "", spread).items
    return pool if task.target == "item" else pool[:ITEMS_FOR_TOKENS]


def _picks(questions: Sequence[Question], pool: Sequence[Item], spread: Spread) -> dict[str, Picks]:
    """What tasks need of a pool, and the texts that they read beside it."""
    found: dict[str, dict[str, tuple[Pick, ...]]] = {one.task: {} for one in questions}
    for some, asked in _asked(questions, pool):
        for name, picks in pick_all(asked, some, spread).items():
            found[name].update(picks)
    for question in questions:
        texts = [text for _, text in texts_beside(TASKS.load(question.task), pool, question.repositories)]
        found[question.task].update(pick_all([question], texts, spread)[question.task])
    return {**found}


def is_picked(task: Task) -> bool:
    """Whether a task labels what the code already has, and changes nothing of it."""
    return task.target in PICKED and not isinstance(task, BugTask)


def _answers(question: Question, item: Item) -> bool:
    """Whether a task's labels can be gathered with others': one that fails is to fail by itself."""
    task = TASKS.load(question.task)
    if not is_picked(task) or task.needs_repository:
        return False
    try:
        picks_of(
            task, item, question.repositories, seed=question.seed, mode=question.mode, quirks=question.quirks
        )
    except SondeError:
        return False
    return True


def _dataset(task: Task, drawn: SplitExamples, pool: Pool, size: int, given_split: bool) -> Dataset:
    kept = Counter(one.label for _, _, one in drawn.rows)
    splits = Counter(split for split, _, _ in drawn.rows)
    derived = {one.item.item_id: one.item for _, _, one in drawn.rows if one.item is not one.source}
    report = {
        "asked": size,
        "size": len(drawn.rows),
        "pool": len(pool.items),
        "dropped": dict(pool.dropped),
        "kept": dict(sorted(kept.items())),
        "splits": {name: splits[name] for name in ("train", "valid", "test")},
        **drawn.report,
    }
    return Dataset(
        task=task.name,
        version=task.version,
        examples=example_table(drawn.rows, task.name, task.version, given_split=given_split),
        inputs=tuple(derived[name] for name in sorted(derived)),
        report=report,
    )
