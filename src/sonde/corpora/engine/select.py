"""Selection of items from a corpus: copies, near-copies, filters, caps, periods, transforms, splits.

Clusters take turns by hash. Splits keep each cluster on one side and give every side its share. Transformed
items are other wordings of the same program (`sonde.languages.engine.transforms`).

A cut-off day separates older from newer items, so that the two can be compared. A model that was trained
before the day may have read the older ones and cannot have read the newer ones. An item with lines of both
times belongs to neither, and a newer item that nearly duplicates an older one is left out: a model that has
read the older one knows it too.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import fingerprint, fingerprint_rows, hash_text, unit_hash
from sonde.corpora.engine.candidates import CandidateItem, FirstFiles, FirstItems
from sonde.corpora.engine.content_cache import SpansIndex, spans_index
from sonde.corpora.engine.corpus import (
    Item,
    ItemSet,
    LabelledSource,
    Selection,
    SkipCounter,
    SourceFile,
    assign_file_clusters,
    assign_package_clusters,
    item_id,
)
from sonde.corpora.engine.dedup import NearDuplicateIndex, duplicate_tokens
from sonde.corpora.engine.lock import Lock, read_lock, resolve_lock
from sonde.corpora.engine.manifest import SPLITS, ManifestRow
from sonde.corpora.engine.parallel import ONE, ParallelMap
from sonde.corpora.engine.read import check_corpus, extract_items, read_files
from sonde.languages import LANGUAGES
from sonde.languages.engine.transforms import DOCSTRINGS, MISLEAD, TransformedText, Transforms
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.stats.verdict import MIN_CLUSTERS

PERIOD_BEFORE, PERIOD_AFTER = "before", "after"


LIKE_OLDER = "near duplicate of an older one"


BOTH_TIMES = "changed on both sides of the cut-off date"


SINGLE_PERIOD = "nothing on the other side of the cut-off date in its cluster"


def with_period(item: Item, cut_off: str) -> Item:
    """Set the `Item.period` of an item; empty if it has lines of both periods.

    Args:
        item: An item with its days.
        cut_off: The first day of the later time.
    """
    period = PERIOD_BEFORE if item.newest < cut_off else PERIOD_AFTER if item.oldest >= cut_off else ""
    return dataclasses.replace(item, period=period)


def select_both_periods(
    items: Sequence[CandidateItem], cut_off: str, leave_out: Callable[[str, int, str], None]
) -> list[CandidateItem]:
    """Select the items on one side of the cut-off day from clusters that have items on both sides.

    Args:
        items: Items with their days and periods, each content once.
        cut_off: The first day of the later time, for the message.
        leave_out: Called with reason, 1 and path of each item that is left out.

    Returns:
        The items in their order.

    Raises:
        InputError: No cluster has items on both sides.
    """
    older: defaultdict[str, NearDuplicateIndex] = defaultdict(NearDuplicateIndex)
    for item in items:
        if item.period != PERIOD_AFTER:
            older[item.language].add(item.item_id, duplicate_tokens(item.text))
    dated_items: list[CandidateItem] = []
    for item in items:
        if not item.period:
            leave_out(BOTH_TIMES, 1, item.path)
        elif (
            item.period == PERIOD_AFTER and older[item.language].find(duplicate_tokens(item.text)) is not None
        ):
            leave_out(LIKE_OLDER, 1, item.path)
        else:
            dated_items.append(item)
    sides = {(item.language, item.cluster, item.period) for item in dated_items}
    result: list[CandidateItem] = []
    for item in dated_items:
        if all((item.language, item.cluster, side) in sides for side in (PERIOD_BEFORE, PERIOD_AFTER)):
            result.append(item)
        else:
            leave_out(SINGLE_PERIOD, 1, item.path)
    if items and not result:
        first, last = min(item.oldest for item in items), max(item.newest for item in items)
        raise InputError(
            f"no cluster has items on both sides of the cut-off date {cut_off}: the corpus was written from "
            f"{first} to {last}; name another date, or a corpus with older and newer code of each repository"
        )
    return result


T = TypeVar("T")


_NEIGHBOURS = 20
"""Functions whose names may mislead in one before them."""


SAME_AS_ANOTHER = "the same as another once changed"


def transform_items(
    items: Sequence[Item], transform: str, seed: int, leave_out: Callable[[str, int, str], None]
) -> tuple[Item, ...]:
    """Transform the texts of items; each result has its own id and the id of its original.

    Args:
        items: The items as they stand in their files.
        transform: One of `sonde.languages.engine.transforms.TRANSFORMS`.
        seed: Seed of the transform.
        leave_out: Called with reason, 1 and path of each item that is left out: one without anything to
            change, or one whose tokens the change would not preserve.

    Raises:
        UsageError: A language is no code.
    """
    items_by_id: dict[str, Item] = {}
    for language in sorted({item.language for item in items}):
        rules = Transforms(code_language(language, transform))
        language_items = [item for item in items if item.language == language]
        names = [rules.names(item.text) for item in language_items] if transform == MISLEAD else []
        for index, item in enumerate(language_items):
            change = transform_text(item, rules, transform, seed, iterate_name_donors(names, index + 1))
            if isinstance(change, str):
                leave_out(change, 1, item.path)
                continue
            new_item = transformed_item(item, change.text, transform)
            if new_item.item_id in items_by_id:
                leave_out(SAME_AS_ANOTHER, 1, item.path)
            else:
                items_by_id[new_item.item_id] = new_item
    return tuple(items_by_id.values())


def iterate_name_donors(donors: Sequence[T], first: int) -> Iterator[T]:
    """Yield the entries of `donors` from ``first`` on, cyclically, whose names may mislead in the one before.

    Of few functions it is among them itself, and the names that a text holds never mislead in it.
    """
    for step in range(min(_NEIGHBOURS, len(donors))):
        yield donors[(first + step) % len(donors)]


def transform_text(
    item: Item, rules: Transforms, transform: str, seed: int, other_names: Iterable[Sequence[str]] = ()
) -> TransformedText | str:
    """Transform an item's text, or return the reason why it cannot be transformed.

    Args:
        item: The item.
        rules: The transforms of its language.
        transform: One of `sonde.languages.engine.transforms.TRANSFORMS`.
        seed: Seed of the transform.
        other_names: Names of the variables of each other function, for names that mislead.
    """
    if item.tags or item.given:
        return "labels of its own on characters"
    change = rules.change(item.text, transform, seed, [name for names in other_names for name in names])
    if change.text == item.text:
        return f"nothing to change by {transform}"
    is_valid = change.text and rules.preserves_tokens(item.text, change.text, transform)
    return change if is_valid else f"{transform} would not keep it"


def transformed_item(item: Item, text: str, transform: str) -> Item:
    """Build the item of a transformed text, with its own id and the id of its original."""
    name = item_id(text, item.language, item.unit)
    docstring = "" if transform == DOCSTRINGS else item.docstring
    return dataclasses.replace(item, item_id=name, text=text, original=item.item_id, docstring=docstring)


def code_language(language: str, transform: str) -> TreeSitterLanguage:
    """Return the language if a transform can change its texts.

    Raises:
        UsageError: It is no code.
    """
    implementation = LANGUAGES.load(language)
    if not isinstance(implementation, TreeSitterLanguage):
        raise UsageError(f"transform = {transform!r} changes code, and {language!r} is not code")
    return implementation


BEYOND_LIMIT = "beyond the limit"


BEYOND_CAP = "beyond the cap of a cluster"


BEYOND_DRAW = "beyond what is drawn"


_RETRY_FACTOR = 8
"""Where the first items are not enough, so many times as many are tried."""


def select(
    corpus: str,
    selection: Selection,
    lock: Path | None = None,
    *,
    parallel: ParallelMap = ONE,
    first: FirstItems | None = None,
    advance: Callable[[int], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> ItemSet:
    """Select the items of a run.

    The items of each cluster are put in an order by hash. Clusters give in turn, in an order by hash as well,
    their next item that repeats none kept before and fails no filter, until there are enough or a cluster has
    given all it may. So the choice depends neither on the order of files nor on the machine, a larger limit
    contains a smaller one, and no cluster has much more in a sample than another that could give as much.

    Args:
        corpus: The corpus as named on the command line.
        selection: Unit, languages, limits and filters.
        lock: A lock file: its items are taken as they are, and of ``selection`` nothing.
        parallel: Processes that find functions; their number does not change the items.
        first: Of a table with labels, asks for no more items than are enough.
        advance: Called with the number of further files, or rows of a table, that were read.
        tell: Called with a line on what is about to be downloaded.

    Raises:
        SondeError: The corpus cannot be read (see `read_files`), no item is left, or the corpus no longer
            holds what the lock file names.
    """
    record = read_lock(lock) if lock is not None else None
    if record is not None:
        if selection.cut_off not in (None, record.selection.cut_off):
            raise UsageError(
                f"lock file {str(lock)!r} was written for cut-off {record.selection.cut_off or 'none'}, not "
                f"{selection.cut_off}; lock the corpus again with --cut-off {selection.cut_off}"
            )
        selection = dataclasses.replace(record.selection, transform=selection.transform)
    if record or selection.unit != "function" or not isinstance(check_corpus(corpus), LabelledSource):
        first = None
    while True:
        intake = SkipCounter(keep_all=record is not None)
        intake.advance = advance or intake.advance
        intake.tell = tell or intake.tell
        scan = _CorpusScan(selection, record, intake, first)
        items = _chosen_items(corpus, scan, parallel, record, lock)
        if first is None or scan.first is None or scan.first.are_enough(items, first.enough):
            break
        first = dataclasses.replace(first, number=_RETRY_FACTOR * first.number)
    if selection.transform != "none":
        items = transform_items(items, selection.transform, selection.seed, scan.skip_items)
        if not items:
            raise InputError(f"corpus {corpus!r}: {selection.transform} changes none of the items")
    return ItemSet(
        corpus=corpus,
        items=items,
        corpus_hash=fingerprint_rows(sorted(scan.hashes.items())),
        intake=intake,
        selection=selection,
        file_hashes={item.path: scan.hashes[item.path] for item in items},
        found=scan.found,
        left_out=dict(scan.left_out),
    )


def _chosen_items(
    corpus: str, scan: _CorpusScan, parallel: ParallelMap, record: Lock | None, lock: Path | None
) -> tuple[Item, ...]:
    """Read a corpus and select its items; see `select`."""
    selection, intake = scan.selection, scan.intake
    with spans_index(corpus, selection.languages) as index:
        with_dates = selection.cut_off is not None
        files = scan.count(read_files(corpus, selection.languages, intake, with_dates=with_dates))
        # Of a locked corpus most files may not be wanted.
        for file in index.prefetch(files, parallel) if selection.unit == "function" and not record else files:
            scan.take(file, index)
    scan.settle_clusters()
    if record:
        candidates = resolve_lock(record, scan.candidates, scan.hashes, lock)
        scan.skip_items("not in the lock file", scan.found - len(candidates))
    else:
        candidates = _choose(scan)
    if not candidates:
        raise InputError(_empty_message(corpus, selection, scan, intake))
    return tuple(candidate.item() for candidate in candidates)


class _CorpusScan:
    """The candidates, counts and hashes of one pass over a corpus.

    Attributes:
        candidates: Items that may be selected; those that a cheap filter refuses are never stored.
        intake: Counts what is skipped.
        found: Number of items, including the refused ones.
        left_out: Items that were refused, by reason.
        hashes: Path to content hash, of every file.
        repository_files: Number of files by language and repository, if requested.
        first: The first files by hash, if requested.
    """

    def __init__(
        self,
        selection: Selection,
        record: Lock | None,
        intake: SkipCounter,
        first: FirstItems | None = None,
    ) -> None:
        self.selection = selection
        self.candidates: list[CandidateItem] = []
        self.intake = intake
        self.found = 0
        self.left_out: Counter[str] = Counter()
        self.hashes: dict[str, str] = {}
        self.first = None if first is None else FirstFiles(first.seed, first.number, self._drop)
        self.repository_files: Counter[tuple[str, str]] = Counter()
        self._clusters: set[tuple[str, str]] = set()
        self._repositories: set[str] = set()
        self._units: dict[str, str] = {}
        self._wanted = None if record is None else {row.path for row in record.items}
        # A lock file names its items one by one: nothing is left for a filter to refuse.
        self._refusal = _cheap_filter(selection if record is None else Selection(min_chars=0))

    def count(self, files: Iterable[SourceFile]) -> Iterator[SourceFile]:
        """Hash and count all files; yield all of them, or only the first by hash."""
        for file in files:
            self.intake.advance(1)
            self.hashes[file.path] = content_hash(file)
            if self.selection.several_files:
                self.repository_files[file.language, file.repository] += 1
            # Of many repositories it is only asked whether they are several.
            if len(self._repositories) < 2:
                self._repositories.add(file.repository)
                self._clusters.add((file.cluster, file.repository))
            if self.first is None:
                yield file
            else:
                # The file is one function, and functions inside it do not matter.
                for item in extract_items(file, self.selection.unit, self.intake, lambda _: ()):
                    self.first.add(file, item.item_id)
        if self.first is not None:
            yield from self.first.files()

    def take(self, file: SourceFile, index: SpansIndex) -> None:
        """Add the candidates of a file."""
        if len(self._repositories) < 2:
            self._units[file.path] = file.unit
        if self._wanted is not None and file.path not in self._wanted:
            return
        cut_off = self.selection.cut_off
        if self.selection.unit == "function":
            index.count_incomplete(file, self.intake)
        for item in extract_items(file, self.selection.unit, self.intake, index.functions):
            item = item if cut_off is None else with_period(item, cut_off)
            self.found += 1
            if reason := self._refusal(item):
                self.skip_items(reason, 1, item.path)
            else:
                self.candidates.append(CandidateItem.from_item(item))

    def _drop(self, file: SourceFile) -> None:
        self.found += 1
        self.skip_items(BEYOND_DRAW, 1, file.path)

    def skip_items(self, reason: str, number: int, path: str = "") -> None:
        """Count items that are not selected."""
        if number:
            self.left_out[reason] += number
            self.intake.counts[reason] += number - 1
            self.intake.note(reason, path)

    def settle_clusters(self) -> None:
        """Set the clusters of a corpus of one repository to its packages, else to its files.

        Files too where the source's own clusters, its packages, are fewer than a verdict needs. Where the
        times before and after a date are compared, several repositories are the clusters themselves.
        """
        if len({repository for _, repository in self._clusters}) != 1:
            if self.selection.cut_off is not None:
                for candidate in self.candidates:
                    candidate.cluster = candidate.repository
            return
        if len(self._clusters) == 1 and len(set(next(iter(self._clusters)))) == 1:
            clusters = assign_package_clusters(self._units)
        elif len(self._clusters) < MIN_CLUSTERS:
            clusters = assign_file_clusters(self._units)
        else:
            return
        for candidate in self.candidates:
            candidate.cluster = clusters.get(candidate.path, candidate.cluster)


def content_hash(file: SourceFile) -> str:
    """Hash the content of a file: its text, and the tags and labels that the source brings."""
    labels = (*file.tags, *file.given)
    return fingerprint(file.text, labels) if labels else hash_text(file.text)


def _cheap_filter(selection: Selection) -> Callable[[Item], str]:
    """Build the cheap filters: a function that returns why an item is left out, or an empty text."""
    longest = selection.max_chars if selection.max_chars is not None else float("inf")
    # A word may go on (GPL matches GPLv3) but must not start inside another (GPL does not match LGPL).
    words = "|".join(re.escape(word) for word in selection.licences)
    licence = re.compile(rf"(?<![a-z0-9])(?:{words})", re.IGNORECASE) if words else None

    def refusal(item: Item) -> str:
        if len(item.text) < selection.min_chars:
            return "shorter than wanted"
        if len(item.text) > longest:
            return "longer than wanted"
        if licence is not None and not licence.search(item.licence):
            return "other licence"
        return ""

    return refusal


def _choose(scan: _CorpusScan) -> list[CandidateItem]:
    selection = scan.selection
    unique = _without_copies(scan)
    if selection.several_files:
        file_counts = scan.repository_files
        remaining = [item for item in unique if file_counts[item.language, item.repository] > 1]
        scan.skip_items("repository of one file", len(unique) - len(remaining))
        unique = remaining
    if selection.cut_off is not None:
        unique = select_both_periods(unique, selection.cut_off, scan.skip_items)
    order = {item.item_id: unit_hash(selection.seed, item.item_id) for item in unique}
    unique.sort(key=lambda item: (order[item.item_id], item.item_id))
    result: list[CandidateItem] = []
    for language in sorted({item.language for item in unique}):
        result += _in_turn([item for item in unique if item.language == language], scan)
    return result


def _without_copies(scan: _CorpusScan) -> list[CandidateItem]:
    """Keep one item per content: the oldest copy, else the one whose path and offset come first."""
    first: dict[str, CandidateItem] = {}
    for item in scan.candidates:
        previous = first.setdefault(item.item_id, item)
        if previous is not item:
            scan.skip_items("exact duplicate", 1, item.path)
            if (item.newest, item.path, item.offset) < (previous.newest, previous.path, previous.offset):
                first[item.item_id] = item
    return list(first.values())


def _in_turn(candidates: list[CandidateItem], scan: _CorpusScan) -> list[CandidateItem]:
    """Select items of one language round-robin by cluster; run the costly filters only on those reached."""
    selection = scan.selection
    limit = len(candidates) if selection.limit is None else selection.limit
    queues: defaultdict[tuple[str, str], list[CandidateItem]] = defaultdict(list)
    for item in reversed(candidates):
        queues[item.cluster, item.period].append(item)
    is_single_cluster = len({cluster for cluster, _ in queues}) == 1
    cap = len(candidates) if is_single_cluster or not selection.per_cluster else selection.per_cluster
    stays = _costly_filter(scan)
    result: list[CandidateItem] = []
    turn = sorted(queues, key=lambda cluster: (unit_hash(selection.seed, "cluster", cluster[0]), *cluster))
    for _ in range(cap):
        for cluster in turn:
            if len(result) < limit and (item := next(stays(queues[cluster]), None)):
                result.append(item)
        turn = [cluster for cluster in turn if queues[cluster]]
        if len(result) == limit or not turn:
            break
    remaining = sum(map(len, queues.values()))
    scan.skip_items(BEYOND_LIMIT if len(result) == limit else BEYOND_CAP, remaining)
    return result


def _costly_filter(scan: _CorpusScan) -> Callable[[list[CandidateItem]], Iterator[CandidateItem]]:
    """Build the costly filters: a generator that pops items that parse and are no near-duplicates."""
    selection, index = scan.selection, NearDuplicateIndex()

    def stays(queue: list[CandidateItem]) -> Iterator[CandidateItem]:
        while queue:
            item = queue.pop()
            text = item.text if selection.parses or selection.near_duplicates else ""
            if selection.parses and LANGUAGES.load(item.language).parse(text).has_error:
                scan.skip_items("does not parse", 1, item.path)
                continue
            if selection.near_duplicates:
                tokens = duplicate_tokens(text)
                if index.find(tokens) is not None:
                    scan.skip_items("near duplicate", 1, item.path)
                    continue
                index.add(item.item_id, tokens)
            yield item

    return stays


def _empty_message(corpus: str, selection: Selection, scan: _CorpusScan, intake: SkipCounter) -> str:
    languages = ", ".join(selection.languages) or "any language"
    skip_counts = ", ".join(f"{count} {reason}" for reason, count in intake.counts.most_common() if count)
    return (
        f"corpus {corpus!r}: no {selection.unit} to study in {len(scan.hashes)} files of {languages}; "
        f"skipped: {skip_counts or 'nothing'}; loosen the filters or name another corpus"
    )


SPLIT_OF = {
    **dict.fromkeys(("train", "training", "tr"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "va", "dev"), "valid"),
    **dict.fromkeys(("test", "testing", "te", "eval"), "test"),
}
"""What published tables call them, in lower case."""


SplitMember = Item | ManifestRow
"""What can be given to a split: an item, or a file."""


def split(
    items: Iterable[SplitMember], fractions: tuple[float, float, float] = (0.6, 0.2, 0.2), seed: int = 0
) -> dict[str, str]:
    """Assign each item to ``"train"``, ``"valid"`` or ``"test"``, whole clusters at a time.

    Clusters are dealt out from the largest to the smallest, each to the split that is furthest below its
    share of the items of the cluster's languages; ties fall by hash. The order of the items does not
    matter, and a cluster of several languages stays together.

    Args:
        items: Items of one or several languages.
        fractions: Shares of train, valid and test; they sum to one.
        seed: Breaks ties another way.

    Returns:
        Item id to the name of its split.

    Raises:
        UsageError: A share is negative, or they do not sum to one.
    """
    check_fractions(fractions)
    members: defaultdict[str, list[SplitMember]] = defaultdict(list)
    totals: Counter[str] = Counter()
    for item in items:
        members[item.cluster].append(item)
        totals[item.language] += 1
    split_sizes = {name: Counter[str]() for name in SPLITS}

    def need(name: str, fraction: float, sizes: Counter[str]) -> float:
        """Return how many items a split lacks, weighted by the languages of a cluster."""
        short = (
            size * (fraction * totals[language] - split_sizes[name][language])
            for language, size in sizes.items()
        )
        return sum(short) / sizes.total()

    splits: dict[str, str] = {}
    for cluster in sorted(members, key=lambda name: (-len(members[name]), unit_hash(seed, name), name)):
        sizes = Counter(item.language for item in members[cluster])
        target = max(
            ((name, fraction) for name, fraction in zip(SPLITS, fractions, strict=True) if fraction > 0),
            key=lambda share: (need(*share, sizes), unit_hash(seed, cluster, share[0])),
        )[0]
        split_sizes[target].update(sizes)
        splits.update({item.item_id: target for item in members[cluster]})
    return splits


def check_fractions(fractions: tuple[float, float, float]) -> None:
    """Raise an error if split fractions are invalid.

    Raises:
        UsageError: A share is negative, or they do not sum to one.
    """
    # Written so that a share that is no number fails as well.
    if not (min(fractions) >= 0 and abs(sum(fractions) - 1) <= 1e-6):
        raise UsageError(
            f"split fractions {fractions} must be at least 0 and sum to 1, such as (0.6, 0.2, 0.2)"
        )


_RESERVED_SHARE = 0.3


def is_holdout_package(name: str) -> bool:
    """Return whether a distribution or JDK package is held out of every training run: 30 % by hash of name.

    The name decides, so that a later version, and a package nobody has seen yet, falls the same way.

    Args:
        name: The normalised name of a distribution or the name of a JDK package: the ``cluster`` that
            the sources `environment`, `pypi` and `jdk` give.
    """
    return unit_hash("reserved", name) < _RESERVED_SHARE
