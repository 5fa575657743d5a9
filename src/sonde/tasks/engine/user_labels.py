"""Tasks whose labels a user's table or a published file provides, and the data sets made of them.

A published file brings its labels and its splits, which are taken as they are (`draw_provided_labels`). Rows
of a user's table with nearly the same code form clusters (`NearDuplicateRows`); the report of the data set
describes them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from sonde.base.errors import InputError
from sonde.base.fingerprint import unit_hash
from sonde.base.formatting import plural
from sonde.corpora import Given, Item, NearTexts, cluster_near_duplicates
from sonde.languages.engine.edits import Edits
from sonde.tasks.engine.balance import SHARES, assign_splits
from sonde.tasks.engine.sampling import DatasetRequest, count_tokens, get_edits
from sonde.tasks.engine.task import (
    PAIR_SCHEMA,
    Example,
    ItemLabels,
    Repository,
    SplitExamples,
    get_provided_labels,
)

COPIES = "copies"
"""Key of the description of rows with nearly the same code, in the report of a data set."""


TESTED = "tested"
"""Key of how many examples are tested, and why no more, in the report of a data set."""


_PROSE = "text"


@dataclass(frozen=True, slots=True)
class NearDuplicateRows:
    """Examples by what their texts nearly repeat.

    Attributes:
        examples: The examples.
        texts: For each the clusters of its texts, sorted: one, or both of a pair.
        language: Public name of their language.
    """

    examples: Sequence[Example]
    texts: Sequence[tuple[int, ...]]
    language: str

    @classmethod
    def from_examples(cls, examples: Sequence[Example], language: str) -> NearDuplicateRows:
        """Find what nearly repeats what.

        Args:
            examples: The examples of a table in one language; a span is compared by its whole text.
            language: Public name of it.
        """
        parts = [_texts(example) for example in examples]
        texts = list(dict.fromkeys(text for example_texts in parts for text in example_texts))
        cluster = dict(zip(texts, cluster_near_duplicates(texts, language), strict=True))
        return cls(
            examples,
            [tuple(sorted(map(cluster.__getitem__, example_texts))) for example_texts in parts],
            language,
        )

    @property
    def cluster_names(self) -> list[str]:
        """Return the cluster of each example: that of the first example with nearly the same texts."""
        first: dict[tuple[int, ...], str] = {}
        return [
            first.setdefault(texts, example.cluster)
            for example, texts in zip(self.examples, self.texts, strict=True)
        ]

    def to_dict(self, splits: Sequence[str], *, has_groups: bool, left: int) -> dict[str, Any]:
        """Return the numbers, with a sentence about them as ``said``.

        Args:
            splits: The split that the table gives each example; empty where it gives none.
            has_groups: Whether the table names groups.
            left: Texts that were left out since they nearly repeat another one.
        """
        code = "text" if self.language == _PROSE else "code"
        numbers: dict[str, Any] = {"rows": len(self.examples), "clusters": len(set(self.texts))}
        sentences: list[str] = []
        if not has_groups:
            sentences.append(f"no group column: {self._clusters(code, left, numbers)}")
        if any(splits):
            sentences.append(self._describe_leakage(splits, code, numbers))
        return {**numbers, "said": "; ".join(sentences)}

    def _clusters(self, code: str, left: int, numbers: dict[str, Any]) -> str:
        rows, clusters = numbers["rows"], numbers["clusters"]
        if any(example.type for example in self.examples):
            texts = len({example.item.item_id for example in self.examples}) + left
            numbers["left_out"] = left
            note = (
                f"one of several texts with nearly the same {code} is kept ({left:,} of {texts:,} left out), "
                "and "
            )
            return f"{note if left else ''}spans with the same text share a cluster"
        pairs = any(len(texts) > 1 for texts in self.texts)
        match_text = "nearly the same two texts" if pairs else f"nearly the same {code}"
        sentence = f"rows with {match_text} share a cluster ({clusters:,} clusters of {rows:,} rows)"
        if clusters == rows:
            sentence = f"no two of {rows:,} rows have {match_text}, so each row is a cluster"
        if pairs and (shared_count := self._count_shared_texts()):
            numbers["sharing"] = shared_count
            sentence += f"; {shared_count:,} rows share one of their texts with rows of other clusters"
        return sentence

    def _count_shared_texts(self) -> int:
        """Count the pairs of which a text is also in a pair of another cluster."""
        clusters: defaultdict[int, set[tuple[int, ...]]] = defaultdict(set)
        for texts in self.texts:
            for text in texts:
                clusters[text].add(texts)
        return sum(any(len(clusters[text]) > 1 for text in texts) for texts in self.texts)

    def _describe_leakage(self, splits: Sequence[str], code: str, numbers: dict[str, Any]) -> str:
        training_texts = {texts for texts, split in zip(self.texts, splits, strict=True) if split == "train"}
        test_texts = [texts for texts, split in zip(self.texts, splits, strict=True) if split == "test"]
        known_count = numbers["in_training"] = sum(texts in training_texts for texts in test_texts)
        return (
            f"the table's splits are kept: {known_count:,} of {len(test_texts):,} test rows have nearly "
            f"the same {code} as a training row"
        )


def _texts(example: Example) -> tuple[str, ...]:
    """Return the texts of an example that are compared: the text, or both texts of a pair."""
    if example.other_start is None or example.other_end is None:
        return (example.item.text,)
    return example.item.text[example.start : example.end], example.item.text[
        example.other_start : example.other_end
    ]


def has_provided_labels(items: Sequence[Item], task: str) -> bool:
    """Return whether any item brings labels of the task."""
    return any(get_provided_labels(item, task) for item in items)


def brings_splits(items: Sequence[Item], task: str) -> bool:
    """Return whether labels of the task come with a split, which is then kept."""
    return any(source_label.split for item in items for source_label in get_provided_labels(item, task))


def brings_groups(items: Sequence[Item], task: str) -> bool:
    """Return whether labels of the task come with a group, which is then resampled and split as one."""
    return any(source_label.group for item in items for source_label in get_provided_labels(item, task))


def make_example(item: Item, source_label: Given, edits: Edits | None, surface: str = "") -> Example:
    """Build an example from a label of its source.

    Those of one surface, where there is one, share a cluster, unless the source groups them itself.
    """
    return Example(
        item=item,
        source=item,
        label=source_label.label,
        start=source_label.start,
        end=source_label.end,
        other_start=None if source_label.other_start < 0 else source_label.other_start,
        other_end=None if source_label.other_end < 0 else source_label.other_end,
        tokens=count_tokens(item.text, edits),
        value=source_label.value,
        cluster=item.cluster if source_label.group else surface or item.cluster,
        type=surface,
    )


def provided_examples(items: Sequence[Item], request: DatasetRequest) -> list[tuple[str, Example]]:
    """Build the examples of all labels that the items bring for the task, each with its split or ""."""
    edits = get_edits(request.language)
    tokens_alone = request.task.target == "span"
    return [
        (
            source_label.split,
            make_example(
                item,
                source_label,
                edits,
                item.text[source_label.start : source_label.end] if tokens_alone else "",
            ),
        )
        for item in items
        for source_label in get_provided_labels(item, request.task.name)
    ]


def draw_provided_labels(items: Sequence[Item], request: DatasetRequest) -> SplitExamples:
    """Draw all labels that the items bring for the task, without balancing.

    Where the source says no split, whole clusters are dealt to splits.

    Raises:
        InputError: A split is without a class, or holds nothing.
    """
    rows = provided_examples(items, request)
    sides = assign_splits(count_unsplit_classes(rows), request.seed)
    sample = SplitExamples([(split or sides[example.cluster], False, example) for split, example in rows])
    sample.report = {"published": True}
    if missing := _find_missing_class(sample, sorted({example.label for _, example in rows})):
        raise InputError(
            f"task {request.task.name!r} in {request.language}: the {missing[0]} split of the published "
            f"labels has no example of class {missing[1]!r}; use a file with all classes in all splits"
        )
    return sample


def count_unsplit_classes(rows: Sequence[tuple[str, Example]]) -> dict[str, Counter[str]]:
    """Count the classes of each cluster, over the rows without a split."""
    counts: dict[str, Counter[str]] = {}
    for split, example in rows:
        if not split:
            counts.setdefault(example.cluster, Counter())[example.label] += 1
    return counts


class UserLabels(ItemLabels):
    """A task that asks for the labels that the source brings. A subclass gives ``name`` and ``target``."""

    target: str
    version = "2"
    labels: tuple[str, ...] = ()
    schema = PAIR_SCHEMA

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[tuple[Any, ...]]:
        """Return no rows: an item without a label of its source has none."""
        return []


def draw_user_labels(items: Sequence[Item], request: DatasetRequest) -> SplitExamples:
    """Draw the labels of a user's table, as frequent as they are there.

    The file's splits are kept; where it has no validation rows, a quarter of the training clusters become
    them. Where it says no split, whole clusters are dealt to splits. Where it names no group, texts of nearly
    the same code are one cluster, and so are pairs of such texts; a span's cluster is what it says, and of
    texts of nearly the same code one is kept. Where it names groups and no split, near-duplicates by their
    words are left out. Of more labels than asked for, texts are taken by hash.

    Args:
        items: The items in one language.
        request: What is asked for.

    Raises:
        InputError: No item brings a label, there is one class only, or a split would be without one.
    """
    name, description = request.task.name, f"task {request.task.name!r} in {request.language}"
    splits, groups = brings_splits(items, name), brings_groups(items, name)
    left = Counter[str]()
    rows = provided_examples(_first(items, request, left, splits=splits, groups=groups), request)[
        : request.size
    ]
    if not rows:
        other_tasks = sorted({label.task for item in items for label in item.given})
        if other_tasks:
            raise InputError(
                f"{description}: the table has labels for {', '.join(map(repr, other_tasks))}; leave the "
                f"task out, or name the columns of spans (?start=COLUMN&end=COLUMN) or of pairs "
                f"(?text_b=COLUMN)"
            )
        raise InputError(f"{description} needs a table with your labels; name it as -c labelled:FILE")
    classes = sorted({example.label for _, example in rows})
    if len(classes) < 2:
        raise InputError(
            f"{description}: all {len(rows)} labels are {classes[0]!r}, but two classes are needed"
        )
    report: dict[str, Any] = {}
    if splits or not groups:
        copies = NearDuplicateRows.from_examples([example for _, example in rows], request.language)
        report[COPIES] = copies.to_dict([split for split, _ in rows], has_groups=groups, left=left.total())
        if not groups and request.task.target != "span":
            rows = [
                (split, replace(example, cluster=cluster))
                for (split, example), cluster in zip(rows, copies.cluster_names, strict=True)
            ]
    if left:
        report["dropped"] = dict(left)
    sample = SplitExamples(
        [(split, False, example) for split, example in _with_splits(rows, request.seed, description)], report
    )
    if missing := _find_missing_class(sample, classes):
        raise InputError(f"{description}: {_explain_missing_class(*missing, rows, request, splits, groups)}")
    return sample


def are_enough(items: Sequence[Item], other_items: Sequence[Item], request: DatasetRequest) -> bool:
    """Return whether the first items of a table, by hash, bring all the labels that are drawn.

    Args:
        items: The first items in the language.
        other_items: Some of the others, one a kind: with a split or a group, and without.
        request: What is asked for.
    """
    name, all_items = request.task.name, (*items, *other_items)
    splits, groups = brings_splits(all_items, name), brings_groups(all_items, name)
    first_items = _first(items, request, Counter(), splits=splits, groups=groups)
    return sum(len(get_provided_labels(item, name)) for item in first_items) >= request.size


def _first(
    items: Sequence[Item], request: DatasetRequest, left: Counter[str], *, splits: bool, groups: bool
) -> list[Item]:
    """Take the first items by hash that bring as many labels as requested; count what is left out."""
    sorted_items = sorted(items, key=lambda item: (unit_hash(request.seed, item.item_id), item.item_id))
    candidates: Iterable[Item] = sorted_items
    if not splits and (groups or request.task.target == "span"):
        candidates = _drop_near_duplicates(sorted_items, NearTexts(request.language, shapes=not groups), left)
    first_items: list[Item] = []
    labels = 0
    for item in candidates:
        first_items.append(item)
        labels += len(get_provided_labels(item, request.task.name))
        if labels >= request.size:
            break
    return first_items


def _drop_near_duplicates(items: Sequence[Item], near_texts: NearTexts, left: Counter[str]) -> Iterator[Item]:
    """Yield the items whose code nearly repeats none before them, and count the others."""
    for number, item in enumerate(items):
        bags = near_texts.read(item.text)
        if next(near_texts.matches(bags), None) is not None:
            left["near duplicate"] += 1
        else:
            near_texts.add(number, item.text, bags)
            yield item


def _with_splits(
    rows: Sequence[tuple[str, Example]], seed: int, description: str
) -> list[tuple[str, Example]]:
    """Give each row a split."""
    table_splits = {split for split, _ in rows if split}
    if table_splits and not {"train", "test"} <= table_splits:
        raise InputError(
            f"{description}: its split column has only {' and '.join(sorted(table_splits))}, but train and "
            f"test are needed; ignore it (split=) to have sonde split by cluster"
        )
    shares = SHARES
    if table_splits and "valid" not in table_splits:
        rows = [("" if split == "train" else split, example) for split, example in rows]
        shares = {name: share for name, share in SHARES.items() if name != "test"}
        shares = {name: share / sum(shares.values()) for name, share in shares.items()}
    sides = assign_splits(count_unsplit_classes(rows), seed, shares=shares)
    return [(split or sides[example.cluster], example) for split, example in rows]


def _explain_missing_class(
    split: str,
    label: str,
    rows: Sequence[tuple[str, Example]],
    request: DatasetRequest,
    splits: bool,
    groups: bool,
) -> str:
    """Explain why a split has no example of a class, and what would help."""
    examples = [example for _, example in rows if example.label == label]
    size = f"{plural(len(examples), 'row')} in {plural(len({one.cluster for one in examples}), 'cluster')}"
    rule, remedy = "the table's splits are kept", ""
    if not splits:
        are_spans = request.task.target == "span"
        texts = "spans with the same text" if are_spans else "rows with nearly the same code"
        rows_alike = "rows of one group" if groups else texts
        rule = f"{rows_alike} share a cluster, and a cluster is in one split"
        remedy = "" if groups else ", name the groups yourself (?group=COLUMN)"
    return (
        f"the {split} split has no example of class {label!r} ({size}; {rule}); label more of it{remedy}, or "
        f"drop the class"
    )


def _find_missing_class(sample: SplitExamples, classes: Iterable[str]) -> tuple[str, str] | None:
    """Return the first split and class without an example; None if all splits have all classes."""
    present_classes = {(split, example.label) for split, _, example in sample.rows}
    return next((pair for pair in product(SHARES, classes) if pair not in present_classes), None)
