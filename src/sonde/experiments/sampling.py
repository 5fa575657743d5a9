"""Selection of items from corpora, their groups, and reports on items with parse errors.

A group has either chosen items or none, for tasks that read whole files themselves. An item that the grammar
cannot parse as a whole has labels of fragments only; such items are counted and named.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence

from sonde.base.errors import InputError
from sonde.base.fingerprint import fingerprint
from sonde.corpora import (
    BEYOND_CAP,
    BEYOND_LIMIT,
    FirstItems,
    Item,
    ItemSet,
    Selection,
    SkipCounter,
    content_hash,
    read_files,
    select,
)
from sonde.corpora.engine.content_cache import LOST
from sonde.corpora.engine.parallel import ItemChunk, ParallelMap
from sonde.corpora.engine.walk import UNREAD
from sonde.experiments.plan import Group
from sonde.experiments.progress import Session
from sonde.languages import parses

DROPPED = "does not parse"
"""The reason by which data sets count what they leave out."""


_NAMED = 3


def find_parse_errors(items: Iterable[Item], spread: ParallelMap) -> list[Item]:
    """Return the items with a parse error, in their order.

    Args:
        items: The items.
        spread: Processes that parse; any number gives the same.
    """
    return [item for item, parsed in spread.map(_check_parse, None, items) if not parsed]


def _check_parse(part: ItemChunk[None, Item]) -> list[bool]:
    """Whether some items parse; runs in any process."""
    return [parses(item.language, item.text) for item in part.items]


def describe_parse_errors(corpus: str, unparsed: Sequence[Item], total: int, unit: str) -> str:
    """Return a line on the items with a parse error; empty where there is none.

    >>> describe_parse_errors("local:a", [Item("id", "f(", "python", "function", "a.py", "f")], 9, "function")
    'local:a: 1 of 9 functions does not parse (a.py f): its labels are of what could be read'
    """
    if not unparsed:
        return ""
    named = ", ".join(f"{item.path} {item.name}".strip() for item in unparsed[:_NAMED])
    more = f" and {len(unparsed) - _NAMED:,} more" if len(unparsed) > _NAMED else ""
    verb, whose = ("does", "its") if len(unparsed) == 1 else ("do", "their")
    return (
        f"{corpus}: {len(unparsed):,} of {total:,} {unit}s {verb} not parse ({named}{more}): "
        f"{whose} labels are of what could be read"
    )


def describe_dropped_items(corpus: str, language: str, number: int) -> str:
    """Return a line on the functions with a parse error that data sets leave out.

    >>> describe_dropped_items("local:a", "python", 1)
    'local:a in python: data sets leave out 1 function that does not parse'
    """
    what = "1 function that does" if number == 1 else f"{number:,} functions that do"
    return f"{corpus} in {language}: data sets leave out {what} not parse"


CHARACTERS_BEFORE = 100_000
"""Of a file's text before an item this much is kept, which is more than most models can take."""


def select_items(session: Session, selection: Selection, first: FirstItems | None = None) -> list[ItemSet]:
    """Choose the items of each corpus.

    Args:
        session: The run.
        selection: How they are chosen.
        first: As for `sonde.corpora.select`.

    Raises:
        SondeError: See `sonde.corpora.select`.
    """
    corpora, progress = session.experiment.corpora, session.progress
    sets: list[ItemSet] = []
    with session.outcome.measure_stage("select"):
        for corpus in corpora:
            with progress.stage(f"reading {corpus}") as advance:
                lock, spread = session.execution.lock, session.spread
                sets.append(select(corpus, selection, lock, spread=spread, first=first, advance=advance))
    for chosen in sets:
        progress.note(describe_selection(chosen))
        if line := describe_unused_files(chosen.corpus, chosen.intake, chosen.left_out):
            progress.note(line)
    return sets


def note_parse_errors(session: Session, sets: Sequence[ItemSet]) -> None:
    """Say which of the chosen items do not parse."""
    for chosen in sets:
        unparsed = find_parse_errors(chosen.items, session.spread)
        if line := describe_parse_errors(chosen.corpus, unparsed, len(chosen.items), chosen.selection.unit):
            session.progress.note(line)


def describe_unused_files(corpus: str, intake: SkipCounter, left_out: Container[str] = ()) -> str:
    """Return what a source left out of what it read, by reason with an example each; empty where it took all.

    Args:
        corpus: The corpus as named.
        intake: What the source counted.
        left_out: Reasons that are told elsewhere.

    >>> skips = SkipCounter()
    >>> skips.note("no label", "row 7")
    >>> describe_unused_files("labelled:a.csv", skips)
    'labelled:a.csv: not used: 1 no label (row 7)'
    >>> skips.note(".ts file, a kind of code that is not read", "a.ts")
    >>> describe_unused_files("local:a", skips)
    'local:a: not used: 1 no label (row 7); not read: 1 .ts'
    """
    skipped: list[str] = []
    unread: list[str] = []
    partial: list[str] = []
    for reason, count in intake.counts.most_common():
        if reason.endswith(UNREAD):
            unread.append(f"{count:,} {reason.partition(' ')[0]}")
        elif count and reason not in left_out:
            example = next(iter(intake.examples.get(reason, ())), "")
            told = f"{count:,} {reason}{f' ({example})' if example else ''}"
            (partial if reason == LOST else skipped).append(told)
    parts = (("not used", skipped), ("not read", unread), ("files", partial))
    line = "; ".join(f"{title}: {', '.join(listed)}" for title, listed in parts if listed)
    return f"{corpus}: {line}" if line else ""


def with_file_context(chosen: ItemSet) -> ItemSet:
    """The items with the text of their files before them, as `Item.context`; at most its end.

    Files are read once more, so that only the text around the items that were chosen is held.
    """
    wanted: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(chosen.items):
        wanted[item.path].append(place)
    items = list(chosen.items)
    for file in read_files(
        chosen.corpus, tuple({item.language for item in items}), SkipCounter(keep_all=True)
    ):
        for place in wanted.get(file.path, ()):
            item = items[place]
            begin = max(0, item.offset - CHARACTERS_BEFORE)
            # A path may name several files of a corpus: the text itself says which.
            if file.text.startswith(item.text, item.offset):
                items[place] = dataclasses.replace(item, context=file.text[begin : item.offset])
    return dataclasses.replace(chosen, items=tuple(items))


def describe_selection(chosen: ItemSet) -> str:
    """How many items of a corpus were taken, and where the others went.

    >>> left_out = {BEYOND_CAP: 8, "near duplicate": 1}
    >>> describe_selection(ItemSet("stdlib", (), "", SkipCounter(), found=9, left_out=left_out))
    'stdlib: 0 of 9 functions: 8 beyond --per-cluster 200, 1 near duplicate'
    """
    options = {
        BEYOND_LIMIT: f"beyond --limit {chosen.selection.limit}",
        BEYOND_CAP: f"beyond --per-cluster {chosen.selection.per_cluster}",
    }
    reasons = sorted(chosen.left_out.items(), key=lambda entry: (-entry[1], entry[0]))
    left = ", ".join(f"{count:,} {options.get(reason, reason)}" for reason, count in reasons)
    taken = f"{chosen.corpus}: {len(chosen.items):,} of {chosen.found:,} {chosen.selection.unit}s"
    return f"{taken}: {left}" if left else taken


def build_groups(sets: Sequence[ItemSet]) -> tuple[Group, ...]:
    """One group a corpus and language."""
    return tuple(
        Group(
            corpus=chosen.corpus,
            corpus_hash=chosen.corpus_hash,
            language=language,
            items=tuple(item for item in chosen.items if item.language == language),
        )
        for chosen in sets
        for language in sorted({item.language for item in chosen.items})
    )


def build_file_groups(session: Session) -> tuple[list[ItemSet], tuple[Group, ...]]:
    """Groups without items, for tasks that read whole files themselves; nothing is parsed here.

    Raises:
        InputError: A corpus holds no file in the languages wanted.
        SondeError: See `sonde.corpora.read_files`.
    """
    corpora, selection = session.experiment.corpora, session.experiment.selection
    sets: list[ItemSet] = []
    groups: list[Group] = []
    with session.outcome.measure_stage("select"), session.progress.stage("reading", len(corpora)) as advance:
        for corpus in corpora:
            intake = SkipCounter()
            languages: set[str] = set()
            hashes: dict[str, str] = {}
            for file in read_files(corpus, selection.languages, intake):
                languages.add(file.language)
                hashes[file.path] = content_hash(file)
            if not hashes:
                wanted = " or ".join(selection.languages) or "a known language"
                raise InputError(f"corpus {corpus!r}: no file in {wanted}")
            corpus_hash = fingerprint(sorted(hashes.items()))
            sets.append(ItemSet(corpus, (), corpus_hash, intake, selection))
            groups += [
                Group(corpus=corpus, corpus_hash=corpus_hash, language=language, items=())
                for language in sorted(languages)
            ]
            advance()
    return sets, tuple(groups)
