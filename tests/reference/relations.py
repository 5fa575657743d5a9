"""``python -m tests.reference.relations``: relations by query beside those of CodeSyntax's trees, by edge.

The tree that CodeSyntax's authors walk is Python's ``ast``, or Eclipse's of Java; `sonde.papers.codesyntax`
has both, here without any quirk. Functions are those of the standard library of the Python that runs this,
and of the Java Development Kit that is installed.
"""

from __future__ import annotations

import argparse
import re
import sys
import sysconfig
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from sonde.base.fingerprint import unit_hash
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.relations import (
    PUBLISHED_OPTIONS,
    EdgeLabeller,
    RelationGraph,
)
from sonde.languages.engine.treesitter import TreeSitterLanguage

FUNCTIONS = 3_000
_A_FILE = 5
"""Functions of one file at most."""

UNEXPLAINED = "not explained"

_PYTHON_2 = "`print >> f`", "Python 2 to the grammar, a shift to `ast`"
_STARRED = "`[*f(x)]`", "the grammar calls `*f`, where Python unpacks `f(x)`"
_CHAINS = (
    "operands in a row",
    "Eclipse joins the operands of equal operators unless one of them is an operation itself, and joins "
    "neighbouring string literals first; the query relates the first two of each sequence of equal operators",
)
_SEMICOLONS = "a lone `;`", "Eclipse's empty statement, which the grammar has no node for"
REASONS: dict[str, tuple[str, str]] = {
    "children in print_statement": _PYTHON_2,
    "children in chevron": _PYTHON_2,
    "BinOp in print_statement": _PYTHON_2,
    "Assign in assignment": ("`a = b = c = d = 0`", "the query names the value behind up to three `=`"),
    "children in call": _STARRED,
    "children in list_splat": _STARRED,
    "InfixExpr in binary_expression": _CHAINS,
    "children in array_creation_expression": (
        "`new int[2][3]`",
        "the type ends with its first size; the query language returns only the first of several fields",
    ),
    "children in block": _SEMICOLONS,
    "children in constructor_body": _SEMICOLONS,
    "children in while_statement": _SEMICOLONS,
    "children in for_statement": _SEMICOLONS,
}
"""What a difference is, and why it is there, by `_where`."""

Edge = tuple[str, int, int, int]
"""A relation with the first character of the head and the first and last character of the dependent."""


@dataclass(slots=True)
class Compared:
    """What came of the functions of a language.

    Attributes:
        functions: How many were compared.
        equal: Edges that both have.
        classes: Edges that only one of them has, by class and reason: texts, the edge and whose it is.
        problems: Functions that one of them did not label, by what it said.
    """

    functions: int = 0
    equal: int = 0
    classes: defaultdict[tuple[str, str], list[tuple[str, Edge, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    problems: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """Equal edges of all that either has."""
        return self.equal / (self.equal + sum(map(len, self.classes.values())))


def texts(language: str) -> Iterator[str]:
    """Functions of whole libraries in an order that looks random, a few of each file."""
    known = LANGUAGES.load(language)
    for name, text in sorted(_files(language), key=lambda file: unit_hash(file[0])):
        found = known.functions(text)
        for function in Random(name).sample(found, min(_A_FILE, len(found))):
            yield function.slice_from(text)


def _files(language: str) -> Iterator[tuple[str, str]]:
    if language == "java":
        with zipfile.ZipFile(min(Path("/usr/lib/jvm").glob("*/lib/src.zip"))) as archive:
            for name in archive.namelist():
                if name.endswith(".java"):
                    yield name, archive.read(name).decode("utf-8", "replace")
        return
    root = Path(sysconfig.get_path("stdlib"))
    for path in root.rglob("*.py"):
        if "site-packages" not in path.parts and "lib2to3" not in path.parts:
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8", errors="replace")


def compare(language: str, functions: int = FUNCTIONS) -> Compared:
    """Label functions both ways."""
    of = LANGUAGES.load(language)
    assert isinstance(of, TreeSitterLanguage)
    ours = get_facet(language, "edges", EdgeLabeller)
    published = get_facet(language, "published_edges", EdgeLabeller)
    found = Compared()
    for text in texts(language):
        by_query = ours.relate(text, PUBLISHED_OPTIONS)
        by_tree = published.relate(text, PUBLISHED_OPTIONS)
        if by_query.problem or by_tree.problem:
            found.problems[
                f"query: {by_query.problem or 'labelled'}; tree: {by_tree.problem or 'labelled'}"
            ] += 1
            continue
        mine, theirs = _edges(by_query), _edges(by_tree)
        found.functions += 1
        found.equal += (mine & theirs).total()
        for whose, edges in (("query", mine - theirs), ("tree", theirs - mine)):
            for edge in edges.elements():
                where = _where(of, text, edge)
                found.classes[REASONS.get(where, (where, UNEXPLAINED))].append((text, edge, whose))
        if found.functions == functions:
            break
    return found


def _edges(related: RelationGraph) -> Counter[Edge]:
    start, end = related.words.start.tolist(), related.words.end.tolist()
    return Counter(
        (edge.relation, start[edge.head], start[edge.first], end[edge.last]) for edge in related.edges
    )


def _where(language: TreeSitterLanguage, text: str, edge: Edge) -> str:
    """The relation, and the node of the grammar that holds head and dependent."""
    relation, head, _, end = edge
    reading = language.reading(text)
    encoded = len(text[:head].encode()), len(text[:end].encode())
    before = len(reading.source.text[: reading.before].encode())
    node = reading.root.named_descendant_for_byte_range(encoded[0] + before, encoded[1] + before)
    return f"{relation.partition(':')[0]} in {node.type if node else 'nothing'}"


def table(found: Compared, examples: int) -> Iterator[str]:
    """The classes as a table in Markdown, the most frequent first."""
    yield "| code | only query | only tree | reason | examples |"
    yield "|---|---|---|---|---|"
    for (name, reason), held in sorted(found.classes.items(), key=lambda entry: -len(entry[1])):
        whose = Counter(one for _, _, one in held)
        shown = dict.fromkeys(_example(text, edge, one) for text, edge, one in held)
        few = "; ".join(list(shown)[:examples])
        yield f"| {name} | {whose['query']} | {whose['tree']} | {reason} | {few} |"


def _example(text: str, edge: Edge, whose: str) -> str:
    _, head, start, end = edge
    word = re.match(r"\w+|\S", text[head:])
    dependent = " ".join(text[start:end].split())
    shown = dependent if len(dependent) < 40 else f"{dependent[:18]} .. {dependent[-18:]}"
    of = f"{word[0] if word else ''} -> {shown}".replace("|", "\\|")
    return f"`` {of} `` ({whose})"


def main(arguments: list[str]) -> int:
    """Print what differs; 1 where fewer than 99.5 % of edges are equal, or a difference has no reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.reference.relations", description=__doc__)
    parser.add_argument("language", nargs="*", default=["python", "java"])
    parser.add_argument("--functions", type=int, default=FUNCTIONS, help="of each language")
    parser.add_argument("--examples", type=int, default=3, help="of each class of difference")
    given = parser.parse_args(arguments)
    good = True
    for language in given.language:
        found = compare(language, given.functions)
        share = f"{found.equal:,} edges equal, {found.share:.3%}"
        print(f"{language}: {found.functions:,} functions, {share}", end="\n\n")
        for problem, count in found.problems.items():
            print(f"not labelled by both: {count} ({problem})")
        print(*table(found, given.examples), sep="\n", end="\n\n")
        explained = all(reason != UNEXPLAINED for _, reason in found.classes)
        good = good and explained and found.share >= 0.995
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
