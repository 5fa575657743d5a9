"""CuBERT's tasks: functions as they were written, and the same functions with one bug put in.

Each eligible function gives exactly one example without a bug and one with it, both in the same split. Every
choice falls by hash of the seed and the function, so neither the order of functions nor the number of
processes matters.

For variable misuse, `make_misuse` decides which use is replaced by which variable, and `find_pointers` where
a pointer may point then.

Kanade et al. 2020, appendix B.2.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from sonde.base.fingerprint import derive_seed, fingerprint
from sonde.corpora import Item
from sonde.corpora.engine.parallel import ONE, ItemChunk, ParallelMap
from sonde.languages import get_facet, has_facet
from sonde.languages.engine.bug_sites import BugSites, Spot
from sonde.tasks.engine.balance import shares_for_test, split_sizes
from sonde.tasks.engine.faults import make_faulty_item
from sonde.tasks.engine.sampling import (
    DatasetRequest,
    Pool,
    length_tier,
    round_robin,
    split_clusters,
    take_blocks,
)
from sonde.tasks.engine.task import PAIR_SCHEMA, TASKS, Example, ItemLabels, Repository, SplitExamples

CORRECT = "Correct"


AS_WRITTEN = "original"
"""What the provenance of an example says whose text nothing was done to."""


_SMALL_REQUEST_FACTOR = 4


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BugExample:
    """One example that a function gives.

    Attributes:
        label: Its label.
        text: Its text.
        edit: What was done to the function, in the words of the published provenance.
        start: First character of what is labelled.
        end: One past the last; None for all of the text.
        other_start: First character of the other place, where there is one.
        other_end: One past its last.
    """

    label: str
    text: str
    edit: str = AS_WRITTEN
    start: int = 0
    end: int | None = None
    other_start: int | None = None
    other_end: int | None = None


class Edit(NamedTuple):
    """Characters of a text and what is to stand there."""

    start: int
    end: int
    surface: str

    def made_in(self, text: str) -> str:
        """Return the text with the edit."""
        return text[: self.start] + self.surface + text[self.end :]


class RandomChoice:
    """The random choices about one function, each independent of the others and of their order.

    Args:
        parts: Seed and function.
    """

    def __init__(self, *parts: str | int) -> None:
        self._value = fingerprint("choice", *parts)

    def pick(self, choices: Sequence[T], *, subject: str) -> T:
        """Return one of the choices, all equally likely.

        Args:
            choices: In an order of their own, such as that of the text.
            subject: What is chosen; another name is another draw.
        """
        choice_texts = [str(choice) for choice in choices]
        return choices[derive_seed(self._value, subject, choice_texts) % len(choices)]

    def first(self, choices: Sequence[T], *, subject: str) -> Iterator[T]:
        """Yield all choices in a random order; the first is drawn as by `pick`."""
        left = list(choices)
        while left:
            choice = self.pick(left, subject=subject)
            left.remove(choice)
            yield choice


class BugTask(ItemLabels):
    """Base of CuBERT's tasks. A subclass gives ``name``, ``labels`` and `variants`.

    Attributes:
        examples_per_function: How many examples a function gives.
        hint: Text that every eligible function holds, where few do.
        repeats: Another task that puts the same bugs into the same functions and asks otherwise.
    """

    target: ClassVar[str] = "mutation"
    facet: ClassVar[str] = "bugs"
    schema = PAIR_SCHEMA
    examples_per_function: ClassVar[int] = 2
    hint: ClassVar[str] = ""
    repeats: ClassVar[str] = ""

    @abstractmethod
    def variants(self, text: str, bugs: BugSites, choice: RandomChoice) -> tuple[BugExample, ...]:
        """Return the examples of a function, the one without a bug first; none where it is not eligible."""

    def repair_edits(self, text: str, bugs: BugSites) -> Iterator[Edit]:
        """Yield every edit that would undo a bug of this kind, whether or not there is one, in text order."""
        yield from ()

    def draw_examples(
        self, pool: Pool, sides: Mapping[str, str], request: DatasetRequest, parallel: ParallelMap
    ) -> Iterator[tuple[Item, Sequence[BugExample]]]:
        """Return the functions of a pool with their examples, none if not eligible, in its order."""
        return parallel.map(_make, (self.name, request.language, request.seed), pool.items)

    def original_label(self, item: Item) -> tuple[int, int, str | None]:
        """Place and label in an item as it was written."""
        bugs = get_facet(item.language, self.facet, BugSites)
        examples = self.variants(item.text, bugs, make_choice(0, item)) if bugs.parses(item.text) else ()
        return 0, len(item.text), examples[0].label if examples else None

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[tuple[Any, ...]]:
        """Return the label of the code as it was written; null if no label fits.

        The other place is null where there is none. A corpus holds code without bugs; they come with a data
        set (`sonde.tasks.build`).
        """
        is_supported = has_facet(item.language, self.facet)
        label_row = self.original_label(item) if is_supported else (0, len(item.text), None)
        return [(*label_row, None, None, None)]


def make_choice(seed: int, item: Item) -> RandomChoice:
    """Return the random choices about a function."""
    return RandomChoice(seed, item.item_id)


def _make(part: ItemChunk[tuple[str, str, int], Item]) -> list[tuple[BugExample, ...]]:
    """Make the examples of some functions; runs in any process."""
    name, language, seed = part.rule
    task = TASKS.load(name)
    assert isinstance(task, BugTask)
    bugs = get_facet(language, task.facet, BugSites)
    return [task.variants(item.text, bugs, make_choice(seed, item)) for item in part.items]


_Block = list[Example]
"""The examples of one function."""


_STRETCH = 2_000
"""Functions that are read before it is asked whether there are enough; then twice as many, and so on."""


def draw_bugs(pool: Pool, request: DatasetRequest, parallel: ParallelMap = ONE) -> SplitExamples:
    """Draw the examples of as many functions as requested, with clusters dealt to splits.

    Functions are read in the order of the pool, only until there are enough.

    Raises:
        InputError: A split has too few eligible functions.
    """
    task = request.task
    assert isinstance(task, BugTask)
    clusters = {item.cluster for item in pool.items}
    sides = split_clusters(pool, request.seed, shares_for_test(len(clusters), len(pool.items)))
    sizes = split_sizes(request.size // task.examples_per_function)
    blocks: dict[str, list[_Block]] = {name: [] for name in sizes}
    new_blocks: list[tuple[str, _Block]] = []
    counts: Counter[str] = Counter()
    stretch = _STRETCH
    # One process reads only until there are enough; several read all.
    is_small_request = _SMALL_REQUEST_FACTOR * sum(sizes.values()) < len(pool.items)
    for item, variants in task.draw_examples(pool, sides, request, ONE if is_small_request else parallel):
        counts["read"] += 1
        if variants:
            tokens = pool.tokens[item.item_id]
            block = [_example(item, variant, task.name, tokens) for variant in variants]
            new_blocks.append((sides[item.cluster], block))
        else:
            counts["not eligible"] += 1
        if counts["read"] == stretch:
            _settle(new_blocks, blocks)
            stretch *= 2
            if all(len(blocks[name]) >= size for name, size in sizes.items()):
                break
    _settle(new_blocks, blocks)
    return take_blocks(blocks, request, task.examples_per_function, counts, "eligible functions")


def _settle(new_blocks: list[tuple[str, _Block]], blocks: Mapping[str, list[_Block]]) -> None:
    """Append the new examples, interleaved by cluster.

    Stretches end at the same places whatever is asked for, so a larger data set contains a smaller one. Where
    few functions of a cluster are eligible, the others would fill a split before its turn comes.
    """
    ordered_blocks = round_robin(
        new_blocks, lambda entry: (length_tier(entry[1][0].tokens), entry[1][0].cluster)
    )
    for split, block in sorted(ordered_blocks, key=lambda entry: length_tier(entry[1][0].tokens)):
        blocks[split].append(block)
    new_blocks.clear()


def _example(item: Item, variant: BugExample, task: str, tokens: int) -> Example:
    """Build an example; a changed text becomes an item of its own, named for the edit."""
    example_item = item
    if variant.text != item.text:
        faulty_item = make_faulty_item(item, variant.text, task)
        example_item = dataclasses.replace(faulty_item, name=f"{item.name}/{variant.edit}")
    return Example(
        item=example_item,
        source=item,
        label=variant.label,
        start=variant.start,
        end=len(variant.text) if variant.end is None else variant.end,
        other_start=variant.other_start,
        other_end=variant.other_end,
        tokens=tokens,
        cluster=item.cluster,
    )


MISUSE = "Variable misuse"


_MINIMUM_VARIABLES, _MAXIMUM_VARIABLES = 2, 50
"""Variables of an eligible function; those with more tend to be generated."""


@dataclass(frozen=True, slots=True)
class Misuse:
    """A function in which one variable is used instead of another.

    Attributes:
        text: The function.
        start: First character of the misused variable.
        end: One past its last.
        right: The variable that stood there.
        wrong: The variable that stands there.
    """

    text: str
    start: int
    end: int
    right: str
    wrong: str


@dataclass(frozen=True, slots=True)
class Pointers:
    """The places of a function at which a pointer may and should point; characters, end exclusive.

    Attributes:
        candidates: Every place of a variable that the function defines, in text order.
        error: The misused variable, None where there is none.
        targets: Places of the variable that is right there; empty where there is no error.
    """

    candidates: tuple[tuple[int, int], ...]
    error: tuple[int, int] | None
    targets: tuple[tuple[int, int], ...]


def make_misuse(text: str, bugs: BugSites, choice: RandomChoice) -> Misuse | None:
    """Put a misuse into a function; None where it is not eligible.

    What is put in may be read there: a name that is bound only in a function or comprehension inside is not.
    """
    variables = bugs.variables(text)
    if not _MINIMUM_VARIABLES <= len(variables.names) <= _MAXIMUM_VARIABLES:
        return None
    replacements = {use: bugs.replacements(text, use) for use in variables.uses}
    uses = [use for use in variables.uses if replacements[use]]
    if not uses:
        return None
    use: Spot = choice.pick(uses, subject="use")
    wrong = choice.pick(replacements[use], subject="variable")
    changed_text = text[: use.start] + wrong + text[use.end :]
    return Misuse(changed_text, use.start, use.start + len(wrong), use.surface, wrong)


def find_pointers(
    text: str, language: str, error: tuple[int, int] | None, repair: tuple[int, int] | None
) -> Pointers:
    """Find the pointers of an example of `misuse_repair`.

    Args:
        text: Text of the example's input.
        language: Its language.
        error: ``start`` and ``end`` of the example; None, or an empty stretch, for one without an error.
        repair: ``other_start`` and ``other_end``: one place of the variable that is right.
    """
    occurrences = get_facet(language, "misuse", BugSites).variables(text).places
    candidates = tuple((occurrence.start, occurrence.end) for occurrence in occurrences)
    if error is None or repair is None or error[0] == error[1]:
        return Pointers(candidates, None, ())
    right = text[slice(*repair)]
    targets = tuple(
        (occurrence.start, occurrence.end) for occurrence in occurrences if occurrence.surface == right
    )
    return Pointers(candidates, error, targets)
