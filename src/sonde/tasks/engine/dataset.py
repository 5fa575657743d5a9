"""Data sets of tasks, balanced so that no trick solves them, and the same data sets in other words.

`build` makes a data set that is balanced, split by cluster, and alike in length between classes.

`transform_dataset` makes one over the same programs after a transform: each example is mapped to its changed
text, so that both can be paired. The examples are those of the code as it was written. The forwarded text of
each is changed, the place that it labels is found again by its code tokens, and what the code already has is
labelled anew. A text with a fault or a bug gets the same one put into the changed function. Examples that
cannot be mapped are left out.
"""

from __future__ import annotations

import dataclasses
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import polars as pl

from sonde.base.errors import InputError, SondeError, UsageError
from sonde.corpora import FirstItems, Item
from sonde.corpora.engine.parallel import ONE, ParallelMap
from sonde.corpora.engine.select import (
    SAME_AS_ANOTHER,
    code_language,
    iterate_name_donors,
    transform_text,
    transformed_item,
)
from sonde.languages.engine.transforms import DOCSTRINGS, MISLEAD, SpanMapper, TransformedText, Transforms
from sonde.tasks.engine.bugs import BugTask, draw_bugs
from sonde.tasks.engine.faults import draw_fault_examples
from sonde.tasks.engine.label_cache import cached_labels, hash_items, label_keys
from sonde.tasks.engine.sampling import (
    ITEMS_FOR_TOKENS,
    DatasetRequest,
    Pool,
    build_pool,
    count_tokens,
    draw_functions,
    draw_tokens,
    find_extra_items,
    get_edits,
)
from sonde.tasks.engine.spans import (
    PICKED,
    LabelledSpan,
    LabelRequest,
    Picks,
    Place,
    label_items,
    select_all_spans,
    select_spans,
)
from sonde.tasks.engine.task import (
    EXAMPLE_SCHEMA,
    TASKS,
    Dataset,
    Repository,
    SplitExamples,
    Task,
    example_table,
)
from sonde.tasks.engine.user_labels import (
    UserLabels,
    are_enough,
    brings_splits,
    draw_provided_labels,
    draw_user_labels,
    has_provided_labels,
)

__all__ = [
    "DRAWING",
    "EXAMPLE_SCHEMA",
    "Dataset",
    "build",
    "collect_labelled_spans",
    "plan_first_items",
    "select_source_items",
]

DRAWING = "3"
"""Raised when the same pool gives other examples: part of the key of every data set."""


NO_PICKS: Picks = MappingProxyType({})


_TEXT_FACTOR = 2
"""For tables with labels: how many times the requested number of examples is tried."""


_TRIAL_ITEMS, _WORTH_A_TRIAL = 40, 4_000
"""Functions of each half of a pool that are labelled to know how long others take, and the functions that
make it worth while."""


@dataclass(frozen=True, slots=True)
class LabellingEstimate:
    """An estimate of the time that functions take to label.

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


_DRAW = {"item": draw_functions, "span": draw_tokens, "pair": draw_functions}


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
    parallel: ParallelMap = ONE,
    picks: Picks = NO_PICKS,
) -> Dataset:
    """Build the data set of a task.

    Classes are exactly balanced in each split; train, valid and test have 60, 20 and 20 % of them. No
    cluster (for token tasks: no token type) is in two splits, and near-duplicates are left out before.
    Getters, setters and code that does not parse are left out, short functions come first. Everything falls
    by hash: the order of ``items`` does not matter, and a larger data set from the same items contains a
    smaller one.

    Labels that the items bring for this task (`sonde.corpora.Given`) are taken as they are, splits included;
    of a user's own table as many as asked for, see `sonde.tasks.engine.user_labels.draw_user_labels`.

    Args:
        task_name: Public name of the task, or a path to a ``.py`` file.
        items: The pool to draw from, of any language.
        size: Examples wanted of all classes and splits together; where a class has too few, all classes
            shrink to it.
        seed: Draws another data set.
        language: Public name of the language wanted.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks in addition to the mode's preset.
        repositories: The definitions around, where the task needs them.
        parallel: Processes that read functions; any number gives the same data set.
        picks: The task's labelled places, where they were gathered before; see `collect_labelled_spans`.

    Raises:
        UsageError: ``size`` is too small for the classes.
        InputError: A class has too few examples, or a split would be without one.
    """
    question = LabelRequest(task_name, seed, mode, frozenset(quirks), repositories)
    task = question.load()
    language_items = [item for item in items if item.language == language]
    request = DatasetRequest(task, size, seed, language, picks, repositories)
    if has_provided_labels(language_items, task.name) or isinstance(task, UserLabels):
        draw = draw_user_labels if isinstance(task, UserLabels) else draw_provided_labels
        sample, pool = draw(language_items, request), Pool(tuple(language_items), {}, {})
        given_split = brings_splits(language_items, task.name)
    else:
        classes = len(task.labels) or 2
        if size < 5 * classes:
            raise UsageError(
                f"a data set of {size} examples is too small for the {classes} classes of task "
                f"{task.name!r}; use {5 * classes} or more"
            )
        pool = build_pool(
            language_items, language, seed, task.hint if isinstance(task, BugTask) else "", parallel
        )
        if not pool.items:
            raise InputError(
                f"task {task.name!r}: the corpus has no function in {language}; use another corpus"
            )
        if isinstance(task, BugTask):
            sample = draw_bugs(pool, request, parallel)
        elif task.target == "mutation":
            sample = draw_fault_examples(pool, request, question, parallel)
        else:
            # What is known of whole repositories is much to send to other processes.
            processes = ONE if task.needs_repository else parallel
            spans_by_item = picks or _picks([question], pool.items, processes)[task_name]
            sample = _DRAW[task.target](pool, replace(request, picks=spans_by_item))
        # A token type is not in one split of a corpus alone, so the splits of token tasks are always dealt.
        given_split = bool(pool.splits) and task.target != "span"
    return _dataset(task, sample, pool, size, given_split)


def plan_first_items(
    names: Sequence[str],
    *,
    size: int,
    seed: int,
    keep: Callable[[Sequence[Item]], Sequence[Item]] = lambda items: items,
) -> FirstItems | None:
    """Return how many items of a labelled table its data sets need; None if tasks label code.

    Args:
        names: The tasks.
        size: As for `build`; so is the seed.
        seed: Draws another data set.
        keep: The items that may be drawn.
    """
    tasks = [TASKS.load(name) for name in names]
    if not all(isinstance(task, UserLabels) for task in tasks):
        return None

    def enough(items: Sequence[Item], other_items: Sequence[Item], /) -> bool:
        usable_items, usable_others = keep(items), keep(other_items)
        requests = [DatasetRequest(task, size, seed, other_items[0].language) for task in tasks]
        return all(are_enough(usable_items, usable_others, request) for request in requests)

    return FirstItems(seed, _TEXT_FACTOR * size, enough)


def collect_labelled_spans(
    questions: Sequence[LabelRequest],
    items: Sequence[Item],
    *,
    language: str,
    parallel: ParallelMap,
    tell: Callable[[LabellingEstimate], None] = lambda estimate: None,
) -> dict[str, Picks]:
    """Label the functions that data sets of several tasks are drawn from, each function once.

    Args:
        questions: The tasks and how they are asked, all with the seed of the data sets.
        items: The pool, as for `build`.
        language: Public name of the language wanted.
        parallel: Processes that read functions.
        tell: Is told before the functions are labelled how long it will take, if many are not known yet.

    Returns:
        What `build` takes as ``picks``, of those tasks that label what the code already has.
    """
    language_items = [item for item in items if item.language == language]
    open_questions = [
        question for question in questions if not has_provided_labels(language_items, question.load().name)
    ]
    if not open_questions:
        return {}
    pool = build_pool(language_items, language, open_questions[0].seed, "", parallel).items
    answerable_questions = [question for question in open_questions if pool and _answers(question, pool[0])]
    return _picks(answerable_questions, pool, parallel, tell)


def _estimate(
    questions: Sequence[LabelRequest], pool: Sequence[Item], parallel: ParallelMap
) -> LabellingEstimate:
    """Estimate the time from a sample of each half of the pool."""
    seconds, item_count = 0.0, 0
    for part, part_questions in _select_requests(questions, pool):
        trial_items = (
            [part[index * len(part) // _TRIAL_ITEMS] for index in range(_TRIAL_ITEMS)]
            if part and part_questions
            else []
        )
        select_all_spans(part_questions, trial_items[:1], ONE)
        begin = time.perf_counter()
        select_all_spans(part_questions, trial_items, ONE)
        seconds += (time.perf_counter() - begin) / _TRIAL_ITEMS * len(part)
        item_count += len(trial_items)
    return LabellingEstimate(len(pool), len(questions), seconds / parallel.processes(len(pool)), item_count)


def _select_requests(
    questions: Sequence[LabelRequest], pool: Sequence[Item]
) -> list[tuple[Sequence[Item], Sequence[LabelRequest]]]:
    """Choose the functions to label: all of them for function tasks, a prefix for token and pair tasks."""
    item_questions = [question for question in questions if TASKS.load(question.task).target == "item"]
    return [(pool[:ITEMS_FOR_TOKENS], questions), (pool[ITEMS_FOR_TOKENS:], item_questions)]


def select_source_items(
    task: Task, items: Sequence[Item], seed: int, language: str, parallel: ParallelMap = ONE
) -> Sequence[Item]:
    """Return the functions from which the data set of a task that labels existing code is drawn.

    Args:
        task: The task.
        items: The pool, as for `build`; so are the others.
        seed: Draws another data set.
        language: Public name of the language wanted.
        parallel: Processes that read functions.
    """
    language_items = [item for item in items if item.language == language]
    if has_provided_labels(language_items, task.name):
        return language_items
    pool = build_pool(language_items, language, seed, "", parallel).items
    return pool if task.target == "item" else pool[:ITEMS_FOR_TOKENS]


def _picks(
    questions: Sequence[LabelRequest],
    pool: Sequence[Item],
    parallel: ParallelMap,
    tell: Callable[[LabellingEstimate], None] = lambda estimate: None,
) -> dict[str, Picks]:
    """Label the functions of a pool, and the texts that tasks read beside them, as far as it is not known."""
    spans_by_task: dict[str, dict[str, tuple[LabelledSpan, ...]]] = {}
    texts_by_task = {
        question.task: [
            text for _, text in find_extra_items(TASKS.load(question.task), pool, question.repositories)
        ]
        for question in questions
    }
    hashes = hash_items(chain(pool, *texts_by_task.values())) if questions else {}
    known: dict[str, Picks] = {}
    with ExitStack() as stack:
        caches = {question.task: stack.enter_context(_cached_spans(question, pool)) for question in questions}
        keys: dict[str, dict[str, str]] = {}
        for question in questions:
            items, answers = [*pool, *texts_by_task[question.task]], caches[question.task]
            keys[question.task] = label_keys(items, hashes, question.repositories)
            found = ((name, answers.get(key)) for name, key in keys[question.task].items())
            known[question.task] = {name: picks for name, picks in found if picks is not None}
            spans_by_task[question.task] = {}
        missing_counts = Counter(
            question.task
            for part, part_questions in _select_requests(questions, pool)
            for question in part_questions
            for item in part
            if item.item_id not in known[question.task]
        )
        if any(count >= _WORTH_A_TRIAL for count in missing_counts.values()):
            left = [question for question in questions if missing_counts[question.task]]
            tell(_estimate(left, pool, parallel))
        for part, part_questions in _select_requests(questions, pool):
            for name, picks in select_all_spans(part_questions, part, parallel, known).items():
                spans_by_task[name].update(picks)
        for question in questions:
            texts = texts_by_task[question.task]
            picks_by_task = select_all_spans([question], texts, parallel, known)
            spans_by_task[question.task].update(picks_by_task[question.task])
        for name, answers in caches.items():
            for item, picks in spans_by_task[name].items():
                if item not in known[name]:
                    answers[keys[name][item]] = picks
    return {**spans_by_task}


def _cached_spans(
    question: LabelRequest, pool: Sequence[Item]
) -> AbstractContextManager[MutableMapping[str, tuple[LabelledSpan, ...]]]:
    """Open what earlier calls labelled; empty for tasks whose rules are not all in sonde's own tasks."""
    task = question.load()
    # A user's file may hold a class of sonde's, and paper variants are not below `sonde.tasks`.
    is_own = TASKS.is_own(question.task) and type(task).__module__.startswith("sonde.tasks.")
    if task.needs_repository or not is_own:
        return nullcontext({})
    return cached_labels(
        pool,
        lambda rows: tuple([LabelledSpan(*row) for row in rows]),
        list,
        *("spans", question.task, question.mode, sorted(question.quirks), question.seed, pool[0].language),
    )


def labels_existing_code(task: Task) -> bool:
    """Return whether a task labels existing code and changes nothing in it."""
    return task.target in PICKED and not isinstance(task, BugTask)


def _answers(question: LabelRequest, item: Item) -> bool:
    """Return whether a task can be labelled together with others; one that fails has to fail by itself."""
    task = question.load()
    if not labels_existing_code(task) or task.needs_repository:
        return False
    try:
        select_spans(task, item, question.repositories, question.seed)
    except SondeError:
        return False
    return True


def _dataset(task: Task, sample: SplitExamples, pool: Pool, size: int, given_split: bool) -> Dataset:
    class_counts = Counter(example.label for _, _, example in sample.rows)
    splits = Counter(split for split, _, _ in sample.rows)
    derived_items = {
        example.item.item_id: example.item
        for _, _, example in sample.rows
        if example.item is not example.source
    }
    report = {
        "asked": size,
        "size": len(sample.rows),
        "pool": len(pool.items),
        "dropped": dict(pool.dropped),
        "kept": dict(sorted(class_counts.items())),
        "splits": {name: splits[name] for name in ("train", "valid", "test")},
        **sample.report,
    }
    return Dataset(
        task=task.name,
        version=task.version,
        examples=example_table(sample.rows, task.name, task.version, given_split=given_split),
        inputs=tuple(derived_items[name] for name in sorted(derived_items)),
        report=report,
    )


TRANSFORM_VERSION = "1"
"""Raised when a transform makes another data set of the same one: part of the key of those."""


_Row = dict[str, Any]


_NOT_HERE = "its place is not in the changed text"


class PoolTransform:
    """A transform of the functions of a pool, which remembers what it made of each.

    Args:
        name: One of `sonde.languages.engine.transforms.TRANSFORMS`.
        language: Public name of the language of all texts.
        seed: Of what is drawn.
        pool: The functions; misleading names come from the next functions in the order of their ids.

    Raises:
        UsageError: The language is no code.
    """

    def __init__(self, name: str, language: str, seed: int, pool: Sequence[Item]) -> None:
        self.name, self.language = name, language
        self._seed, self._code = seed, code_language(language, name)
        self._rules = Transforms(self._code)
        texts = {item.item_id: item.text for item in pool if item.language == language}
        self._order = sorted(texts)
        self._texts = texts
        self._made: dict[str, TransformedText | str] = {}
        self._names: dict[str, Sequence[str]] = {}

    def change(self, item: Item) -> TransformedText | str:
        """Transform an item, or return the reason why not."""
        if item.item_id not in self._made:
            donor_names = self._following_names(item.item_id) if self.name == MISLEAD else ()
            self._made[item.item_id] = transform_text(item, self._rules, self.name, self._seed, donor_names)
        return self._made[item.item_id]

    def item(self, source: Item, item: Item, end: int | None = None) -> Item | str:
        """Apply the edit that made ``item`` of a function to the transformed function.

        Args:
            source: The function.
            item: The function itself, or what was made of it.
            end: End of the function in its text, if words follow it; these stay as they are.

        Returns:
            The item, or why there is none.
        """
        change = self.change(source)
        if isinstance(change, str):
            return change
        if item.text == source.text:
            return transformed_item(item, change.text, self.name)
        function, words = item.text[:end], "" if end is None else item.text[end:]
        if self.name == DOCSTRINGS and words:
            text = self._rules.change(function, DOCSTRINGS).text
        else:
            text = SpanMapper(self._code, source.text, change, self.name).apply_edit(function)
        if text is None:
            return "its fault cannot be put into the changed text"
        if text == function:
            return f"nothing to change by {self.name}"
        return transformed_item(item, text + words, self.name)

    def iterate_items(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items, transformed where possible."""
        for item in items:
            changed_item = self.item(item, item)
            yield item if isinstance(changed_item, str) else changed_item

    def map_spans(self, item: Item, changed_item: Item, *spans: Place | None) -> list[Place | None]:
        """Map positions of an item to the changed one; None for those that are gone."""
        mapper = SpanMapper(self._code, item.text, TransformedText(changed_item.text), self.name)
        fixed_spans = {(0, len(item.text)): (0, len(changed_item.text)), (0, 0): (0, 0)}
        return [
            None if span is None else fixed_spans[span] if span in fixed_spans else mapper.map_span(*span)
            for span in spans
        ]

    def _following_names(self, name: str) -> Iterator[Sequence[str]]:
        """Yield the names of the functions that follow one."""
        first = bisect_right(self._order, name)
        for donor in iterate_name_donors(self._order, first):
            if donor not in self._names:
                self._names[donor] = self._rules.names(self._texts[donor])
            yield self._names[donor]


def transform_dataset(
    dataset: Dataset,
    pool: Iterable[Item],
    transform: PoolTransform,
    question: LabelRequest,
    parallel: ParallelMap,
) -> Dataset:
    """Build the data set of the same programs after a transform; example ids stay those of the original code.

    Classes are no longer exactly balanced where examples are left out or are of another class in other
    words. Of a task that changes functions, all examples of a function are kept or left out together.

    Args:
        dataset: The data set of the code as it was written.
        pool: What it was drawn from.
        transform: The transform.
        question: The task, with what it was asked.
        parallel: Processes that label texts.

    Raises:
        InputError: A split would be without a class.
    """
    task = TASKS.load(question.task)
    items = {item.item_id: item for item in (*pool, *dataset.inputs)}
    left_out: Counter[str] = Counter()
    if labels_existing_code(task):
        rows = _relabel_examples(dataset.examples, items, transform, question, parallel, left_out)
    else:
        rows = _edit_examples(dataset.examples, items, transform, task, left_out)
    changed_items: dict[str, Item] = {}
    changed_rows: list[_Row] = []
    for block in rows:
        if any(
            item.item_id in changed_items and changed_items[item.item_id].original != item.original
            for _, item in block
        ):
            left_out[SAME_AS_ANOTHER] += len(block)
            continue
        for row, item in block:
            changed_items[item.item_id] = item
            changed_rows.append({**row, "item_id": item.item_id, "characters": len(item.text)})
    # Of another test set all is told as it is.
    other_rows = dataset.examples.filter(pl.col("split").is_in(("train", "valid", "test")).not_())
    table = pl.concat([pl.DataFrame(changed_rows, schema=dict(EXAMPLE_SCHEMA), orient="row"), other_rows])
    _check_classes(dataset, table, transform.name)
    counts = {
        name: dict(sorted(Counter(row[column] for row in changed_rows).items()))
        for name, column in (("kept", "label"), ("splits", "split"))
    }
    details = {"kept": len(changed_rows), **dict(left_out)}
    report = {**dataset.report, "size": len(changed_rows), **counts, "transform": details}
    inputs = tuple(changed_items[name] for name in sorted(changed_items))
    return dataclasses.replace(dataset, examples=table, inputs=inputs, report=report)


def _original_rows(examples: pl.DataFrame) -> Iterator[_Row]:
    yield from examples.filter(pl.col("split").is_in(("train", "valid", "test"))).iter_rows(named=True)


def _relabel_examples(
    examples: pl.DataFrame,
    items: Mapping[str, Item],
    transform: PoolTransform,
    question: LabelRequest,
    parallel: ParallelMap,
    left_out: Counter[str],
) -> Iterator[list[tuple[_Row, Item]]]:
    """Yield the examples at the same positions of the changed texts, with their labels there."""
    rows = list(_original_rows(examples))
    changed_items = {
        name: transform.item(items[name], items[name]) for name in {row["item_id"] for row in rows}
    }
    results = [changed_items[name] for name in sorted(changed_items)]
    texts = [item for item in results if not isinstance(item, str)]
    labels_by_item = {
        item.item_id: {
            ((label["start"], label["end"]), _second_span(label)): label
            for label in table.iter_rows(named=True)
            if label["label"] is not None
        }
        for item, table in label_items(question, texts, parallel)
    }
    edits = get_edits(transform.language)
    for row in rows:
        item = changed_items[row["item_id"]]
        if isinstance(item, str):
            left_out[item] += 1
            continue
        span, other_span = transform.map_spans(
            items[row["item_id"]], item, (row["start"], row["end"]), _second_span(row)
        )
        pick = None if span is None else labels_by_item[item.item_id].get((span, other_span))
        if span is None or pick is None:
            left_out[_NOT_HERE] += 1
            continue
        details = {
            "label": pick["label"],
            "value": pick["value"],
            "type": item.text[slice(*span)] if row["type"] else "",
            "tokens": count_tokens(item.text, edits),
        }
        yield [({**row, **_to_row(span, other_span), **details}, item)]


def _edit_examples(
    examples: pl.DataFrame,
    items: Mapping[str, Item],
    transform: PoolTransform,
    task: Task,
    left_out: Counter[str],
) -> Iterator[list[tuple[_Row, Item]]]:
    """Yield the examples of functions and of their mutants, all or none of a function."""
    blocks: defaultdict[str, list[_Row]] = defaultdict(list)
    for row in _original_rows(examples):
        blocks[row["source_id"]].append(row)
    for source, block in blocks.items():
        results = [_move_example(row, items[row["item_id"]], items[source], transform, task) for row in block]
        reasons = [result for result in results if isinstance(result, str)]
        if reasons:
            left_out[reasons[0]] += len(block)
        else:
            yield [result for result in results if not isinstance(result, str)]


def _move_example(
    row: _Row, item: Item, source: Item, transform: PoolTransform, task: Task
) -> tuple[_Row, Item] | str:
    """Move an example to the changed text, or return the reason why not."""
    span, other_span = (row["start"], row["end"]), _second_span(row)
    changed_item = transform.item(source, item, row["end"] if task.target == "pair" else None)
    changed_source = transform.item(source, source)
    if isinstance(changed_item, str) or isinstance(changed_source, str):
        return str(changed_item)
    if task.target == "pair" and other_span is not None:
        shift = len(changed_item.text) - len(item.text)
        span, moved_span = (0, span[1] + shift), (other_span[0] + shift, other_span[1] + shift)
    else:
        span, moved_span = transform.map_spans(item, changed_item, span, other_span)
    if span is None or (moved_span is None) != (other_span is None):
        return _NOT_HERE
    # As data sets have it, the length is that of the function, whatever was put into it.
    tokens = count_tokens(changed_source.text, get_edits(transform.language))
    return {
        **row,
        **_to_row(span, moved_span),
        "source_id": changed_source.item_id,
        "tokens": tokens,
    }, changed_item


def _second_span(row: _Row) -> Place | None:
    """Return the second span of an example or label."""
    return None if row.get("other_start") is None else (row["other_start"], row["other_end"])


def _to_row(span: Place, other_span: Place | None) -> _Row:
    start, end = other_span or (None, None)
    return {"start": span[0], "end": span[1], "other_start": start, "other_end": end}


def _check_classes(dataset: Dataset, table: pl.DataFrame, transform: str) -> None:
    """Raise where a split has lost a class."""
    present_classes = set(table.select("split", "label").iter_rows())
    for split, label in sorted(set(dataset.examples.select("split", "label").iter_rows())):
        if (split, label) not in present_classes:
            raise InputError(
                f"task {dataset.task!r}: transform {transform!r} leaves no example of class {label!r} in the "
                f"{split} split; use a larger corpus"
            )
