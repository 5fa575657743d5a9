"""Labels of functions compared with the language's own parser, for every language that `sonde` reads.

What the parser tells is counted over its own tree by a program in its own language; see `parsers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item, SkipCounter, SourceFile, item_id, read_files
from sonde.languages import LANGUAGES, Function
from sonde.languages.engine.text import EncodedText
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.tasks import get_languages
from sonde.tasks.engine.task import TASKS
from sonde.tasks.engine.task_types import MetricTask, TokenClasses, get_tagger
from tests.own_parsers.parsers import Answer, ask_parser

MEASURED = (
    *("cpx", "npt", "nms", "nml", "csc", "nested_loop", "if_in_loop", "early_return", "recursion", "mxn"),
    *("len", "oct", "ocu", "tan", "vcu", "vct"),
)
"""Tasks that measure a function and that a parser's own tree answers without the grammar of `sonde`."""

LITERALS: Mapping[str, str] = {"strings": "STR", "numbers": "NUM"}
"""Counts of literals, by their class in the task `ast`."""

FILES, FUNCTIONS, READ, NAMES = "files", "functions", "read", "idn"
LABELS = (FILES, FUNCTIONS, READ, *MEASURED, *LITERALS, NAMES)

NOT_COVERED: Mapping[str, str] = {
    "ast_depth, whole_trees": "nodes of the tree-sitter grammar are what they count",
    "ktx, and ast but for literals": "which words are modifiers is a choice; tan and oct count them",
    "idn of names that are used and not defined": "rests on the convention for names",
    "block_depth": "mxn compares the depth of the deepest token",
    "same_scope, next_use, data_dependency": "rest on the variables that vcu and vct count",
    "npt of Java": "compared with checkstyle in tests/languages",
    "constructs, syntax_relations": "have referees of their own in tests/languages",
    "call_origin, argument_names, api_*": "rest on other files",
    "faults, bugs": "`python -m tests.artefacts` asks the parsers what they refuse",
}
"""Labels that no count over another tree can check, and why."""

_BATCH = 200
"""Files that a parser is given at once."""


@dataclass(slots=True)
class Tally:
    """How often a label was compared.

    Attributes:
        equal: Functions on which both say the same.
        different: Functions on which they do not.
        examples: The first few differences: path, line, name, what `sonde` says and what the parser says.
    """

    equal: int = 0
    different: int = 0
    examples: list[tuple[str, int, str, Any, Any]] = field(default_factory=list)

    def note(self, place: tuple[str, int, str], ours: Any, theirs: Any) -> None:
        """Count one comparison."""
        if ours == theirs:
            self.equal += 1
            return
        self.different += 1
        self.examples.append((*place, ours, theirs))


@dataclass(slots=True)
class Comparison:
    """What came out for one language.

    Attributes:
        language: Its name.
        tallies: By label.
        compared: Functions whose labels were compared.
        refused: Files that the language's own parser refuses.
        skipped: Files that cannot be compared, by reason.
    """

    language: str
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    compared: int = 0
    refused: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])

    def tally(self, label: str) -> Tally:
        """Return the tally of a label."""
        return self.tallies.setdefault(label, Tally())


def compare(language: str, corpora: Sequence[str], limit: int) -> Comparison:
    """Compare the labels of the functions of corpora, until so many are compared."""
    result = Comparison(language)
    files = [file for corpus in corpora for file in read_files(corpus, (language,), SkipCounter())]
    files.sort(key=lambda file: (unit_hash(0, "own parsers", file.path), file.path))
    for start in range(0, len(files), _BATCH):
        chosen = [file for file in files[start : start + _BATCH] if _is_comparable(file, result)]
        for file, answer in zip(chosen, ask_parser(language, [file.text for file in chosen]), strict=True):
            compare_file(file, answer, result)
            if result.compared >= limit:
                return result
    return result


def _is_comparable(file: SourceFile, result: Comparison) -> bool:
    # Own parsers count in characters, in UTF-16 or in bytes, and take other characters for the end of a line.
    reasons = {
        "characters beyond the basic plane": max(file.text, default="") > "\uffff",
        "lines that end in a carriage return alone": "\r" in file.text.replace("\r\n", ""),
        "a byte order mark": file.text.startswith("\ufeff"),
        "a NUL": "\0" in file.text,
    }
    told = next((reason for reason, holds in reasons.items() if holds), "")
    if told:
        result.skipped[told] += 1
    return not told


def compare_file(file: SourceFile, answer: Answer, result: Comparison) -> None:
    """Compare one file with what the own parser tells of it, None where that refuses it."""
    language = LANGUAGES.load(file.language)
    readable = not language.parse(file.text).has_error
    result.tally(FILES).note((file.path, 1, ""), readable, answer is not None)
    if answer is None:
        result.refused += 1
        return
    found = language.functions(file.text)
    # A function that is given to a name has several firsts: its statement, its name, itself.
    at_end = answer["line"] == "end"
    ours = {
        (
            _spelling(function.name),
            _line(file.text, function.end if at_end else function.start),
            count,
        ): function
        for function, count in _numbered(found, file.text, at_end)
    }
    theirs = _by_key(answer["functions"])
    for key in sorted(ours.keys() | theirs.keys(), key=lambda key: (key[1], key[0], key[2])):
        place = (file.path, key[1], key[0])
        result.tally(FUNCTIONS).note(place, key in ours, key in theirs)
        if key in ours and key in theirs:
            _compare_function(file, ours[key], theirs[key], answer["offsets"], place, result)


def _numbered(found: Iterable[Function], text: str, at_end: bool) -> Iterator[tuple[Function, int]]:
    seen: Counter[tuple[str, int]] = Counter()
    for function in found:
        key = (_spelling(function.name), _line(text, function.end if at_end else function.start))
        yield function, seen[key]
        seen[key] += 1


def _by_key(functions: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int, int], Mapping[str, Any]]:
    seen: Counter[tuple[str, int]] = Counter()
    found: dict[tuple[str, int, int], Mapping[str, Any]] = {}
    for function in functions:
        key = (_spelling(function["name"]), function["line"])
        found[*key, seen[key]] = function
        seen[key] += 1
    return found


def _spelling(name: str) -> str:
    """Return a name without spaces, which a computed one may have."""
    return "".join(name.split())


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _compare_function(
    file: SourceFile,
    function: Function,
    told: Mapping[str, Any],
    offsets: str,
    place: tuple[str, int, str],
    result: Comparison,
) -> None:
    text = function.slice_from(file.text)
    item = Item(
        item_id(text, file.language, "function"),
        text,
        file.language,
        "function",
        file.path,
        function.qualified_name,
        function.start,
        file.cluster,
        file.repository,
    )
    language = LANGUAGES.load(file.language)
    assert isinstance(language, TreeSitterLanguage)
    readable = not language.reading(text).root.has_error
    result.tally(READ).note(place, readable, True)
    if not readable:
        return
    result.compared += 1
    for label, ours in labels_of(item, told["labels"]):
        # A task has no number beyond what a float tells apart.
        result.tally(label).note(place, ours, float(told["labels"][label]))
    tags = {tag.start: tag.label for tag in _tags("idn", item)}
    at = EncodedText.of(file.text).to_character if offsets == "bytes" else int
    names = sorted((function.to_function_position(at(start)), kind) for start, kind in told["names"])
    other = [(start, tags.get(start, ""), kind) for start, kind in names if tags.get(start, "") != kind]
    ours, theirs = ([(text[one[0] : one[0] + 20], one[side]) for one in other] for side in (1, 2))
    result.tally(NAMES).note(place, ours, theirs)


def labels_of(item: Item, wanted: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers that tasks give an item, of those that the parser tells too."""
    for name in MEASURED:
        task = TASKS.load(name)
        if name in wanted and item.language in get_languages(task):
            assert isinstance(task, MetricTask)
            yield name, float(task.item_value(item))
    counts = Counter(tag.label for tag in _tags("ast", item))
    for name, kind in LITERALS.items():
        if name in wanted:
            yield name, counts[kind]


def _tags(name: str, item: Item) -> Iterable[Any]:
    task = TASKS.load(name)
    assert isinstance(task, TokenClasses)
    return get_tagger(item.language).nodes(item.text) if name == "ast" else task.tags(item, "")
