"""Tasks whose labels a user's table or a published file provides, and the data sets made of them.

A published file brings its labels and its splits, which are taken as they are (`draw_provided_labels`). Rows
of a user's table with nearly the same code form clusters (`NearDuplicateRows`); the report of the data set
describes them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sonde.base.errors import InputError
from sonde.base.fingerprint import unit_hash
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
"""Key of what is said, in the report of a data set."""


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
        parts = [_texts(one) for one in examples]
        texts = list(dict.fromkeys(text for each in parts for text in each))
        cluster = dict(zip(texts, cluster_near_duplicates(texts, language), strict=True))
        return cls(examples, [tuple(sorted(map(cluster.__getitem__, each))) for each in parts], language)

    @property
    def cluster_names(self) -> list[str]:
        """Return the cluster of each example: that of the first example with nearly the same texts."""
        first: dict[tuple[int, ...], str] = {}
        return [
            first.setdefault(texts, one.cluster) for one, texts in zip(self.examples, self.texts, strict=True)
        ]

    def to_dict(self, splits: Sequence[str], *, grouped: bool, left: int) -> dict[str, Any]:
        """Return the numbers, with a sentence about them as ``said``.

        Args:
            splits: The split that the table gives each example; empty where it gives none.
            grouped: Whether the table names groups.
            left: Texts that were left out since they nearly repeat another one.
        """
        code = "text" if self.language == _PROSE else "code"
        numbers: dict[str, Any] = {"rows": len(self.examples), "clusters": len(set(self.texts))}
        said: list[str] = []
        if not grouped:
            said.append(f"no group column: {self._clusters(code, left, numbers)}")
        if any(splits):
            said.append(self._describe_leakage(splits, code, numbers))
        return {**numbers, "said": "; ".join(said)}

    def _clusters(self, code: str, left: int, numbers: dict[str, Any]) -> str:
        rows, clusters = numbers["rows"], numbers["clusters"]
        if any(one.type for one in self.examples):
            texts = len({one.item.item_id for one in self.examples}) + left
            numbers["left_out"] = left
            kept = f"of texts with nearly the same {code} one is kept ({left:,} of {texts:,} left out), and "
            return f"{kept if left else ''}spans that say the same share a cluster"
        pairs = any(len(texts) > 1 for texts in self.texts)
        same = "nearly the same two texts" if pairs else f"nearly the same {code}"
        said = f"rows with {same} share a cluster ({clusters:,} clusters of {rows:,} rows)"
        if clusters == rows:
            said = f"no two of {rows:,} rows have {same}, and each is a cluster"
        if pairs and (sharing := self._count_shared_texts()):
            numbers["sharing"] = sharing
            said += f"; {sharing:,} rows share one of their texts with rows of other clusters"
        return said

    def _count_shared_texts(self) -> int:
        """Count the pairs of which a text is also in a pair of another cluster."""
        clusters: defaultdict[int, set[tuple[int, ...]]] = defaultdict(set)
        for texts in self.texts:
            for text in texts:
                clusters[text].add(texts)
        return sum(any(len(clusters[text]) > 1 for text in texts) for texts in self.texts)

    def _describe_leakage(self, splits: Sequence[str], code: str, numbers: dict[str, Any]) -> str:
        trained = {texts for texts, split in zip(self.texts, splits, strict=True) if split == "train"}
        tested = [texts for texts, split in zip(self.texts, splits, strict=True) if split == "test"]
        known = numbers["in_training"] = sum(texts in trained for texts in tested)
        return (
            f"the table's splits are kept: {known:,} of {len(tested):,} test rows have nearly the same "
            f"{code} as a training row"
        )


def _texts(one: Example) -> tuple[str, ...]:
    """Return the texts of an example that are compared: the text, or both texts of a pair."""
    if one.other_start is None or one.other_end is None:
        return (one.item.text,)
    return one.item.text[one.start : one.end], one.item.text[one.other_start : one.other_end]


def has_provided_labels(items: Sequence[Item], task: str) -> bool:
    """Return whether any item brings labels of the task."""
    return any(get_provided_labels(item, task) for item in items)


def brings_splits(items: Sequence[Item], task: str) -> bool:
    """Return whether labels of the task come with a split, which is then kept."""
    return any(given.split for item in items for given in get_provided_labels(item, task))


def brings_groups(items: Sequence[Item], task: str) -> bool:
    """Return whether labels of the task come with a group, which is then resampled and split as one."""
    return any(given.group for item in items for given in get_provided_labels(item, task))


def make_example(item: Item, given: Given, edits: Edits | None, surface: str = "") -> Example:
    """Build an example from a label of its source.

    Those of one surface, where there is one, share a cluster, unless the source groups them itself.
    """
    return Example(
        item=item,
        source=item,
        label=given.label,
        start=given.start,
        end=given.end,
        other_start=None if given.other_start < 0 else given.other_start,
        other_end=None if given.other_end < 0 else given.other_end,
        tokens=count_tokens(item.text, edits),
        value=given.value,
        cluster=item.cluster if given.group else surface or item.cluster,
        type=surface,
    )


def provided_examples(items: Sequence[Item], asked: DatasetRequest) -> list[tuple[str, Example]]:
    """Build the examples of all labels that the items bring for the task, each with its split or ""."""
    edits = get_edits(asked.language)
    tokens_alone = asked.task.target == "span"
    return [
        (
            given.split,
            make_example(item, given, edits, item.text[given.start : given.end] if tokens_alone else ""),
        )
        for item in items
        for given in get_provided_labels(item, asked.task.name)
    ]


def draw_provided_labels(items: Sequence[Item], asked: DatasetRequest) -> SplitExamples:
    """Draw all labels that the items bring for the task, without balancing.

    Where the source says no split, whole clusters are dealt to splits.

    Raises:
        InputError: A split is without a class, or holds nothing.
    """
    rows = provided_examples(items, asked)
    sides = assign_splits(count_unsplit_classes(rows), asked.seed)
    drawn = SplitExamples([(split or sides[one.cluster], False, one) for split, one in rows])
    drawn.report = {"published": True}
    held = Counter((split, one.label) for split, _, one in drawn.rows)
    for split in SHARES:
        for label in sorted({one.label for _, one in rows}):
            if not held[split, label]:
                raise InputError(
                    f"task {asked.task.name!r} in {asked.language}: the {split} split of the published "
                    f"labels has no example of class {label!r}; name a file with all classes in all splits"
                )
    return drawn


def count_unsplit_classes(rows: Sequence[tuple[str, Example]]) -> dict[str, Counter[str]]:
    """Count the classes of each cluster, over the rows without a split."""
    counts: dict[str, Counter[str]] = {}
    for split, one in rows:
        if not split:
            counts.setdefault(one.cluster, Counter())[one.label] += 1
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


def draw_user_labels(items: Sequence[Item], asked: DatasetRequest) -> SplitExamples:
    """Draw the labels of a user's table, as frequent as they are there.

    The file's splits are kept; where it has no validation rows, a quarter of the training clusters become
    them. Where it says no split, whole clusters are dealt to splits. Where it names no group, texts of nearly
    the same code are one cluster, and so are pairs of such texts; a span's cluster is what it says, and of
    texts of nearly the same code one is kept. Where it names groups and no split, near-duplicates by their
    words are left out. Of more labels than asked for, texts are taken by hash.

    Args:
        items: The items in one language.
        asked: What is asked for.

    Raises:
        InputError: No item brings a label, there is one class only, or a split would be without one.
    """
    name, what = asked.task.name, f"task {asked.task.name!r} in {asked.language}"
    splits, groups = brings_splits(items, name), brings_groups(items, name)
    left = Counter[str]()
    rows = provided_examples(_first(items, asked, left, splits=splits, groups=groups), asked)[: asked.size]
    if not rows:
        raise InputError(f"{what} takes the labels of a table of one's own; name it as labelled:FILE")
    classes = sorted({one.label for _, one in rows})
    if len(classes) < 2:
        raise InputError(f"{what}: all {len(rows)} labels are {classes[0]!r}, and two classes are needed")
    report: dict[str, Any] = {}
    if splits or not groups:
        copies = NearDuplicateRows.from_examples([one for _, one in rows], asked.language)
        report[COPIES] = copies.to_dict([split for split, _ in rows], grouped=groups, left=left.total())
        if not groups and asked.task.target != "span":
            rows = [
                (split, replace(one, cluster=own))
                for (split, one), own in zip(rows, copies.cluster_names, strict=True)
            ]
    if left:
        report["dropped"] = dict(left)
    drawn = SplitExamples(
        [(split, False, one) for split, one in _with_splits(rows, asked.seed, what)], report
    )
    _check_splits(drawn, classes, what)
    return drawn


def are_enough(items: Sequence[Item], beyond: Sequence[Item], asked: DatasetRequest) -> bool:
    """Return whether the first items of a table, by hash, bring all the labels that are drawn.

    Args:
        items: The first items in the language.
        beyond: Some of the others, one a kind: with a split or a group, and without.
        asked: What is asked for.
    """
    name, every = asked.task.name, (*items, *beyond)
    splits, groups = brings_splits(every, name), brings_groups(every, name)
    taken = _first(items, asked, Counter(), splits=splits, groups=groups)
    return sum(len(get_provided_labels(item, name)) for item in taken) >= asked.size


def _first(
    items: Sequence[Item], asked: DatasetRequest, left: Counter[str], *, splits: bool, groups: bool
) -> list[Item]:
    """Take the first items by hash that bring as many labels as requested; count what is left out."""
    ordered = sorted(items, key=lambda item: (unit_hash(asked.seed, item.item_id), item.item_id))
    kept: Iterable[Item] = ordered
    if not splits and (groups or asked.task.target == "span"):
        kept = _drop_near_duplicates(ordered, NearTexts(asked.language, shapes=not groups), left)
    taken: list[Item] = []
    labels = 0
    for item in kept:
        taken.append(item)
        labels += len(get_provided_labels(item, asked.task.name))
        if labels >= asked.size:
            break
    return taken


def _drop_near_duplicates(items: Sequence[Item], near: NearTexts, left: Counter[str]) -> Iterator[Item]:
    """Yield the items whose code nearly repeats none before them, and count the others."""
    for number, item in enumerate(items):
        bags = near.read(item.text)
        if next(near.matches(bags), None) is not None:
            left["near duplicate"] += 1
        else:
            near.add(number, item.text, bags)
            yield item


def _with_splits(rows: Sequence[tuple[str, Example]], seed: int, what: str) -> list[tuple[str, Example]]:
    """Give each row a split."""
    given = {split for split, _ in rows if split}
    if given and not {"train", "test"} <= given:
        raise InputError(
            f"{what}: its split says {' and '.join(sorted(given))} alone, and train and test are needed; "
            "leave it out (split=) and clusters are dealt to splits"
        )
    shares = SHARES
    if given and "valid" not in given:
        rows = [("" if split == "train" else split, one) for split, one in rows]
        shares = {name: share for name, share in SHARES.items() if name != "test"}
        shares = {name: share / sum(shares.values()) for name, share in shares.items()}
    sides = assign_splits(count_unsplit_classes(rows), seed, shares=shares)
    return [(split or sides[one.cluster], one) for split, one in rows]


def _check_splits(drawn: SplitExamples, classes: Sequence[str], what: str) -> None:
    held = {(split, one.label) for split, _, one in drawn.rows}
    for split in SHARES:
        for label in classes:
            if (split, label) not in held:
                raise InputError(
                    f"{what}: the {split} split has no example of class {label!r}; name a table with more "
                    "rows or groups of it (rows of nearly the same code are one group where the table names "
                    "none), or leave the class out"
                )
