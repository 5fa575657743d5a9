"""``python -m tests.reference.relations``: relations by query beside those of CodeSyntax's trees, by edge.

The tree that CodeSyntax's authors walk is Python's ``ast``, or Eclipse's of Java; `sonde.papers.codesyntax`
has both, here without any quirk. Functions are those of the standard library of the Python that runs this,
and of the Java Development Kit that is installed.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from sonde.base.fingerprint import unit_hash
from sonde.languages import LANGUAGES, facet_of
from sonde.languages._relations import AS_PUBLISHED, EdgeLabeller, PublishedLabeller, Related
from sonde.languages._treesitter import TreeSitterLanguage

FUNCTIONS = 3_000
_A_FILE = 5
"""Functions of one file at most."""

Edge = tuple[str, int, int, int]
"""A relation with the first character of the head and the first and last character of the dependent."""


@dataclass(slots=True)
class Compared:
    """What came of the functions of a language.

    Attributes:
        functions: How many were compared.
        equal: Edges that both have.
        classes: Edges that only one of them has, by class: texts with the edge and whose it is.
        problems: Functions that one of them did not label, by what it said.
    """

    functions: int = 0
    equal: int = 0
    classes: defaultdict[str, list[tuple[str, Edge, str]]] = field(default_factory=lambda: defaultdict(list))
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
            yield function.taken_from(text)


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
    ours = facet_of(language, "edges", EdgeLabeller)
    published = facet_of(language, "published_edges", PublishedLabeller)
    found = Compared()
    for text in texts(language):
        by_query = ours.relate(text, AS_PUBLISHED)
        by_tree = published.relate(text, AS_PUBLISHED, frozenset())
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
                found.classes[_class(of, text, edge)].append((text, edge, whose))
        if found.functions == functions:
            break
    return found


def _edges(related: Related) -> Counter[Edge]:
    start, end = related.words.start.tolist(), related.words.end.tolist()
    return Counter(
        (edge.relation, start[edge.head], start[edge.first], end[edge.last]) for edge in related.edges
    )


def _class(language: TreeSitterLanguage, text: str, edge: Edge) -> str:
    """The relation, and the node of the grammar that holds head and dependent."""
    relation, head, _, end = edge
    reading = language.reading(text)
    encoded = len(text[:head].encode()), len(text[:end].encode())
    before = len(reading.source.text[: reading.before].encode())
    node = reading.root.named_descendant_for_byte_range(encoded[0] + before, encoded[1] + before)
    return f"{relation.partition(':')[0]} in {node.type if node else 'nothing'}"


def main(arguments: list[str]) -> int:
    """Print what differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.reference.relations", description=__doc__)
    parser.add_argument("language", nargs="*", default=["python", "java"])
    parser.add_argument("--functions", type=int, default=FUNCTIONS)
    parser.add_argument("--examples", type=int, default=3)
    given = parser.parse_args(arguments)
    for language in given.language:
        found = compare(language, given.functions)
        print(f"{language}: {found.functions} functions, {found.equal} edges equal, {found.share:.4%}")
        print(dict(found.problems))
        for name, held in sorted(found.classes.items(), key=lambda entry: -len(entry[1])):
            whose = Counter(one for _, _, one in held)
            print(f"\n{name}: {len(held)} ({whose['query']} of the query alone)")
            for text, (relation, head, start, end), one in held[: given.examples]:
                word = text[head : head + 12].split("\n")[0]
                line = text[text.rfind("\n", 0, head) + 1 : end + 10]
                print(f"  {one}: {relation} {word!r} -> {text[start:end][:60]!r} in {line[:100]!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
