"""Minimal pairs of fault and bug tasks, token counts as their controls, and variable exchanges.

A pair is a function as it was written, and the same with one fault. The method is that of BLiMP (Warstadt et
al. 2020, section 3): two texts that differ in one thing only, of which a model should find the first more
likely. No class is learnt, so nothing is split or balanced; what decides without reading the code is stored
with each text, for the controls of a lens.

`TokenCounts` gives two of these controls: an n-gram model and the frequency of names. It counts functions of
other clusters only, so that a text never counts itself.

In a `VariableExchange` two variables are exchanged everywhere except at one place, so that the other one
becomes right there. A function and its mutant differ at the place only, and what a decoder reads before it is
the same in both. So the names are exchanged around the place instead: what stood there is wrong now, though
it still stands there (Zhang and Nanda 2024: the corrupt input changes the right answer and little else).
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import fingerprint, unit_hash
from sonde.corpora import Item
from sonde.corpora.engine.ngram import MAX_ORDER, NGram
from sonde.corpora.engine.parallel import ONE, ItemChunk, ParallelMap
from sonde.languages import get_facet, has_facet
from sonde.languages.engine.bug_sites import BugSites, Spot
from sonde.languages.engine.data_flow import Flow, Variable
from sonde.languages.engine.edits import Edits, TextSpan, replace_spans
from sonde.results.schema import Columns, to_schema
from sonde.tasks.engine.balance import SMALLEST
from sonde.tasks.engine.bugs import BugTask, RandomChoice
from sonde.tasks.engine.dataset import PoolTransform
from sonde.tasks.engine.faults import ORIGINAL, FaultRule, Mutation, make_faulty_item
from sonde.tasks.engine.sampling import DatasetRequest, Pool, build_pool
from sonde.tasks.engine.spans import LabelRequest, Place, find_changed_spans
from sonde.tasks.engine.task import Dataset, Task
from sonde.tasks.engine.user_labels import has_provided_labels

_READ = 4_000
"""Functions that are counted."""


_PARTS = 5


_BORDER, _UNKNOWN, _FIRST = 0, 1, 2


_DISTINCT = 60_000
"""Code tokens that are told apart, the most frequent; `NGram` takes 65,536 at most."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Counts for the clusters of one part."""

    model: NGram
    numbers: Mapping[str, int]
    counts: Counter[str]


class TokenCounts:
    """Counts of the code tokens of a pool, for each of five parts of its clusters over the other four.

    Args:
        items: The functions, the first of which are counted.
        language: Their language.
        seed: Deals clusters to parts.
        parallel: Processes that read functions.
        transform_items: Shows the functions that are counted otherwise.
    """

    def __init__(
        self,
        items: Sequence[Item],
        language: str,
        seed: int,
        parallel: ParallelMap,
        transform_items: Callable[[Iterable[Item]], Iterable[Item]] | None = None,
    ) -> None:
        first = items[:_READ]
        read = [*parallel.map(_surfaces, language, transform_items(first) if transform_items else first)]
        clusters = sorted(
            {item.cluster for item in items}, key=lambda name: (unit_hash(seed, "counted", name), name)
        )
        self.functions = len(read)
        self._part = {cluster: index % _PARTS for index, cluster in enumerate(clusters)}
        self._parts: dict[int, _Part] = {}
        if len(clusters) > 1:
            for part in range(min(_PARTS, len(clusters))):
                texts = [words for item, words in read if self._part[item.cluster] != part]
                self._parts[part] = _count_part(texts)

    def nats(self, cluster: str, words: Sequence[str]) -> float | None:
        """Return the negative log-probability of a text of code tokens; None if there is no other cluster.

        A Kneser-Ney model of order 4 (`sonde.corpora.engine.ngram`); tokens that it does not know are one
        token.
        """
        part = self._parts.get(self._part[cluster])
        if part is None:
            return None
        stream = np.array([_BORDER, *(part.numbers.get(word, _UNKNOWN) for word in words)])
        return float(part.model.nats(stream)[1:].sum())

    def frequency(self, cluster: str, word: str) -> int | None:
        """Return how often a code token occurs in other clusters; None if there is none."""
        part = self._parts.get(self._part[cluster])
        return None if part is None else part.counts[word]


def _count_part(texts: Sequence[Sequence[str]]) -> _Part:
    counts = Counter(word for words in texts for word in words)
    vocabulary = sorted(counts, key=lambda word: (-counts[word], word))[:_DISTINCT]
    numbers = {word: number for number, word in enumerate(vocabulary, start=_FIRST)}
    stream = [number for words in texts for number in (_BORDER, *(numbers.get(w, _UNKNOWN) for w in words))]
    return _Part(NGram(np.array(stream, np.int64), len(vocabulary) + _FIRST, MAX_ORDER), numbers, counts)


def _surfaces(part: ItemChunk[str, Item]) -> list[tuple[str, ...]]:
    """Return the code tokens of some functions; runs in any process."""
    edits = get_facet(part.rule, "edits", Edits)
    return [tuple(token.surface for token in edits.tokens(item.text)) for item in part.items]


PAIRED_COLUMNS: Columns = {
    "example_id": (pl.String, "hash of the task, its version, the pair and the side"),
    "item_id": (pl.String, "the text; a derived item for the mutant"),
    "source_id": (pl.String, "the corpus item that both texts of the pair come from: the pair's name"),
    "original": (pl.Boolean, "whether it is the text as it was written"),
    "label": (pl.String, "the class that the task gives it"),
    "start": (pl.Int32, "first character of the place where the two texts differ"),
    "end": (pl.Int32, "its end, exclusive"),
    "operator": (pl.String, "the original operator or keyword at the place; empty for anything else"),
    "distance": (
        pl.Int32,
        "code tokens from the declaration of the original variable to the place; null if it was no variable",
    ),
    "parses": (pl.Boolean, "whether the text parses"),
    "frequency": (
        pl.Int64,
        "how often the code token at the place occurs in functions of other clusters; null unless it is one "
        "token in both texts",
    ),
    "ngram_nats": (
        pl.Float64,
        "negative log-probability of the text by a Kneser-Ney model of order 4 over the code tokens of "
        "functions of other clusters; null if there are none",
    ),
    "split": (pl.String, "`test`: nothing is trained"),
    "cluster": (pl.String, "unit of resampling: the cluster of the item"),
    "characters": (pl.Int32, "length of the text in characters"),
    "tokens": (pl.Int32, "its length in code tokens"),
}
"""Columns of a data set of minimal pairs, one row a text; two rows with one ``source_id`` are a pair."""


PAIRED_SCHEMA = to_schema(PAIRED_COLUMNS)


_QUOTED_TEXT, _WORD_OR_QUOTE = re.compile(r"`([^`]*)`"), re.compile(r"[\w\"']")


@dataclass(frozen=True, slots=True)
class _PairText:
    """One text of a pair, before it is measured.

    Attributes:
        item: The text.
        label: The class that the task gives it.
        span: Where the texts differ, if the task says so.
        original_id: With a transform, the id of the item before it.
    """

    item: Item
    label: str
    span: Place | None = None
    original_id: str = ""


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two texts of one function, and what was done to it in words."""

    source: Item
    original: _PairText
    mutant: _PairText
    edit: str = ""
    original_id: str = ""


def makes_pairs(task: Task) -> bool:
    """Return whether a task gives the original of a function together with its mutant."""
    return isinstance(task, Mutation) or (isinstance(task, BugTask) and task.examples_per_function == 2)


def build_pairs(
    task_name: str,
    items: Sequence[Item],
    *,
    size: int,
    seed: int = 0,
    language: str,
    mode: str = "corrected",
    quirks: AbstractSet[str] = frozenset(),
    parallel: ParallelMap = ONE,
    transform: PoolTransform | None = None,
) -> Dataset:
    """Make the minimal pairs of a task.

    Functions come in the order of data sets (`sonde.tasks.engine.sampling`): near-duplicates, accessors and
    what does not parse are left out, short ones come first, clusters take turns. Each gives one pair, with
    the fault that data sets of this seed put into it.

    Args:
        task_name: Public name of the task, or a path to a ``.py`` file.
        items: The pool to draw from, of any language.
        size: Pairs wanted.
        seed: Draws other faults.
        language: Public name of the language wanted.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks in addition to the mode's preset.
        parallel: Processes that read functions; any number gives the same pairs.
        transform: Shows the pairs as it changes them, each under its id; what it cannot change is left out.

    Raises:
        UsageError: The task gives no pairs, or the items bring labels of their own for it.
        InputError: There are too few functions with a place for the fault.
    """
    question = LabelRequest(task_name, seed, mode, frozenset(quirks), {})
    task = question.load()
    if not makes_pairs(task):
        raise UsageError(
            f"task {task.name!r} has no pairs of an original and a mutant; use a task of faults or bugs"
        )
    language_items = [item for item in items if item.language == language]
    if has_provided_labels(language_items, task.name):
        raise UsageError(
            f"task {task.name!r}: the corpus has its own labels, whose texts are not pairs; use a corpus of "
            f"code"
        )
    pool = build_pool(
        language_items, language, seed, task.hint if isinstance(task, BugTask) else "", parallel
    )
    request = DatasetRequest(task, size, seed, language)
    make = _make_bug_pairs if isinstance(task, BugTask) else _make_fault_pairs
    counts: Counter[str] = Counter()
    pairs: list[_Pair] = []
    for pair in make(pool, request, question, parallel):
        counts["read"] += 1
        if pair is None:
            counts["not eligible"] += 1
        else:
            pairs.append(pair)
            if len(pairs) == size:
                break
    left_out: Counter[str] = Counter()
    if transform is not None:
        pairs = list(_transform_pairs(pairs, transform, left_out))
    if len(pairs) < SMALLEST:
        loss_text = f" and {left_out.total()} cannot be transformed" if left_out else ""
        raise InputError(
            f"task {task.name!r} in {language}: {len(pairs)} functions have a place for the fault, out of "
            f"{counts['read']} functions read{loss_text}; use a larger corpus"
        )
    token_counts = _count_pool_tokens(pool, language, seed, parallel, transform)
    edits = get_facet(language, "edits", Edits)
    rows = [row for pair in pairs for row in _rows(pair, task, edits, token_counts)]
    derived_items = {
        side.item.item_id: side.item
        for pair in pairs
        for side in (pair.original, pair.mutant)
        if transform is not None or side.item is not pair.source
    }
    report = {
        "asked": size,
        "size": len(pairs),
        "pool": len(pool.items),
        "dropped": dict(pool.dropped),
        "counted": token_counts.functions,
        **counts,
        **({"transform": {"kept": len(pairs), **left_out}} if transform is not None else {}),
    }
    return Dataset(
        task=task.name,
        version=task.version,
        examples=pl.DataFrame(rows, schema=dict(PAIRED_SCHEMA), orient="row").sort("example_id"),
        inputs=tuple(derived_items[name] for name in sorted(derived_items)),
        report=report,
    )


@functools.lru_cache(maxsize=1)
def _count_pool_tokens(
    pool: Pool, language: str, seed: int, parallel: ParallelMap, transform: PoolTransform | None
) -> TokenCounts:
    """Count the tokens once for all tasks: those of a run draw from one pool."""
    return TokenCounts(pool.items, language, seed, parallel, transform.iterate_items if transform else None)


def _transform_pairs(
    pairs: Iterable[_Pair], transform: PoolTransform, left_out: Counter[str]
) -> Iterator[_Pair]:
    """Yield the pairs over the changed functions, with the same faults in them."""
    for pair in pairs:
        sides: list[_PairText] = []
        for side in (pair.original, pair.mutant):
            # The words paired with a function follow it on a new line.
            end = None if side.span is None else side.span[0] - 1
            changed_item = transform.item(pair.source, side.item, end)
            if isinstance(changed_item, str):
                left_out[changed_item] += 1
                break
            shift = len(changed_item.text) - len(side.item.text)
            span = None if side.span is None else (side.span[0] + shift, side.span[1] + shift)
            sides.append(_PairText(changed_item, side.label, span, side.item.item_id))
        source = transform.item(pair.source, pair.source)
        if len(sides) == 2 and not isinstance(source, str):
            yield _Pair(source, sides[0], sides[1], pair.edit, pair.source.item_id)


def _make_bug_pairs(
    pool: Pool, request: DatasetRequest, question: LabelRequest, parallel: ParallelMap
) -> Iterator[_Pair | None]:
    task = request.task
    assert isinstance(task, BugTask)
    sides = dict.fromkeys((item.cluster for item in pool.items), "test")
    for item, variants in task.draw_examples(pool, sides, request, parallel):
        if not variants:
            yield None
            continue
        first, second = (
            _PairText(
                item if example.text == item.text else make_faulty_item(item, example.text, task.name),
                example.label,
                # Text that was added to a function, such as a summary, is a separate place.
                (example.other_start or 0, example.other_end or 0) if task.target == "pair" else None,
            )
            for example in variants
        )
        edit = variants[1].edit
        named_item = dataclasses.replace(second.item, name=f"{item.name}/{edit}")
        yield _Pair(item, first, dataclasses.replace(second, item=named_item), edit)


def _make_fault_pairs(
    pool: Pool, request: DatasetRequest, question: LabelRequest, parallel: ParallelMap
) -> Iterator[_Pair | None]:
    task = request.task
    splits = dict.fromkeys((item.cluster for item in pool.items), "test")
    rule = FaultRule.from_pool(pool, request, question, splits)
    for item, text in parallel.map(_faulty, rule, pool.items, share=FaultRule.restrict):
        if text is None or text == item.text:
            yield None
            continue
        mutant = make_faulty_item(item, text, task.name)
        yield _Pair(item, _PairText(item, ORIGINAL), _PairText(mutant, task.labels[1]))


def _faulty(part: ItemChunk[FaultRule, Item]) -> list[str | None]:
    """Make the faulty texts of some items; runs in any process."""
    faults = (
        task.compiled_fault(item.text, context, draw)
        for item, task, context, draw in part.rule.draws(part.items)
    )
    return [None if fault is None else fault.text for fault in faults]


def _rows(pair: _Pair, task: Task, edits: Edits, token_counts: TokenCounts) -> Iterator[tuple[Any, ...]]:
    """Yield one row per text in `PAIRED_SCHEMA`."""
    sides = (pair.original, pair.mutant)
    tokens = [edits.tokens(side.item.text) for side in sides]
    spans: Sequence[Place]
    if pair.original.span is not None and pair.mutant.span is not None:
        spans = pair.original.span, pair.mutant.span
    else:
        spans = find_changed_spans(pair.original.item.text, pair.mutant.item.text, *tokens)
    single_tokens = [
        next((token.surface for token in side_tokens if (token.start, token.end) == span), None)
        for side_tokens, span in zip(tokens, spans, strict=True)
    ]
    for span, side, side_tokens, word in zip(spans, sides, tokens, single_tokens, strict=True):
        original = side is pair.original
        original_ids = pair.original_id or pair.source.item_id, side.original_id or side.item.item_id
        frequency = None if None in single_tokens else token_counts.frequency(pair.source.cluster, word or "")
        yield (
            fingerprint("pair", task.name, task.version, *original_ids),
            side.item.item_id,
            pair.source.item_id,
            original,
            side.label,
            *span,
            _operator(pair, single_tokens[0] or "", edits),
            _distance(pair, spans[0], tokens[0]),
            edits.parses(side.item.text),
            frequency,
            token_counts.nats(pair.source.cluster, [token.surface for token in side_tokens]),
            "test",
            pair.source.cluster,
            len(side.item.text),
            len(side_tokens),
        )


def _operator(pair: _Pair, word: str, edits: Edits) -> str:
    """Return the operator or keyword that the fault changes; empty for names, literals and longer spans."""
    match = _QUOTED_TEXT.search(pair.edit)
    operator = match.group(1) if match else word
    keywords = {keyword for words in edits.keywords.values() for keyword in words}
    signs = (part in keywords or not _WORD_OR_QUOTE.search(part) for part in operator.split())
    return operator if all(signs) else ""


def _distance(pair: _Pair, span: Place, tokens: Sequence[TextSpan]) -> int | None:
    """Return the distance, in code tokens, from a variable's declaration to the use at ``span``."""
    item = pair.original.item
    if not has_facet(item.language, "flow"):
        return None
    for variable in get_facet(item.language, "flow", Flow).variables(item.text):
        if span in [tuple(occurrence) for occurrence in variable.places[1:]]:
            return sum(variable.places[0].start < token.start <= span[0] for token in tokens)
    return None


@dataclass(frozen=True, slots=True)
class VariableExchange:
    """A function, and the same with two variables exchanged everywhere except at a place.

    Attributes:
        clean: The function as it was written.
        corrupt: The other one.
        place: Where the first variable is read in both, in characters of ``clean``.
        right: The variable that stands there, right in the clean text.
        other: The variable that would be right there in the corrupt text.
        definition: First place of the right variable.
        uses: Its further places, in text order, without the place itself.
        rival: Places of the other variable.
    """

    clean: str
    corrupt: str
    place: TextSpan
    right: str
    other: str
    definition: TextSpan
    uses: tuple[TextSpan, ...]
    rival: tuple[TextSpan, ...]

    def make_misuse(self) -> str:
        """Return the function with only the variable at the place replaced."""
        return replace_spans(self.clean, (self.place, self.other))


def iterate_exchanges(text: str, language: str, choice: RandomChoice) -> Iterator[VariableExchange]:
    """Yield the exchanges of a function in a random order.

    Both variables are defined before the place, both may be read there, and neither name means anything else
    in the text, a word of a comment included. A place gives one exchange at most.
    """
    bugs, flow = get_facet(language, "misuse", BugSites), get_facet(language, "flow", Flow)
    variables = _unambiguous_variables(text, flow.variables(text))
    variables_by_start = {
        stretch.start: variable for variable in variables.values() for stretch in variable.places
    }
    for use in choice.first(bugs.variables(text).uses, subject="place"):
        right = variables_by_start.get(use.start)
        if right is None or right.places[0].start == use.start:
            continue
        rivals = [
            name
            for name in bugs.replacements(text, use)
            if name in variables and variables[name].places[0].start < use.start
        ]
        if rivals:
            yield _exchange_variables(
                text, use, right, variables[choice.pick(rivals, subject=f"other at {use.start}")]
            )


def _unambiguous_variables(text: str, variables: tuple[Variable, ...]) -> dict[str, Variable]:
    """Return the variables whose names mean nothing else, by name."""
    names = [variable.name for variable in variables]
    return {
        variable.name: variable
        for variable in variables
        if names.count(variable.name) == 1 and len(_words(text, variable.name)) == len(variable.places)
    }


def _words(text: str, name: str) -> list[str]:
    return re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", text)


def _exchange_variables(text: str, use: Spot, right: Variable, rival_variable: Variable) -> VariableExchange:
    definition, *later_uses = [
        TextSpan(*occurrence, right.name) for occurrence in right.places if occurrence.start != use.start
    ]
    rival = [TextSpan(*occurrence, rival_variable.name) for occurrence in rival_variable.places]
    changes = [
        *((span, rival_variable.name) for span in (definition, *later_uses)),
        *((span, right.name) for span in rival),
    ]
    return VariableExchange(
        clean=text,
        corrupt=replace_spans(text, *changes),
        place=TextSpan(*use),
        right=right.name,
        other=rival_variable.name,
        definition=definition,
        uses=tuple(later_uses),
        rival=tuple(rival),
    )
