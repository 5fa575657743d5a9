"""Tell whether two trees of Python are the same but for names, comments, docstrings, imports and files.

    python -m tools.same_but_names before-house            # a revision against the working tree
    python -m tools.same_but_names OLD NEW --inside src --allow changed.txt

Every statement at the top of a module is written as a shape: its syntax with local names numbered by first
use, while strings, numbers, operators, order and everything from outside the tree stay as they are. A shape
has no place, so that modules may be moved and merged. Statements of equal shapes are paired, which says
where each definition went. Then every reference has to lead to where its definition went, and an attribute
or keyword may change its name only as a class or function of the tree did.

What it cannot see: the order of statements at the top of a module, an attribute that keeps a name which its
class has lost (a type checker sees that), and names that become texts when the code runs (columns, options,
files).

Exits with 0 where the trees are the same, 1 where they differ and 2 where they cannot be compared.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tools.shapes import (
    ATTRIBUTE,
    DEFINED,
    KEYWORD,
    MEMBER,
    PARAMETER,
    REFERENCE,
    Statement,
    write_statements,
)
from tools.trees import MODULE, Target, Tree


class Pairing:
    """Which statement became which, and so where definitions and modules went.

    What is unique by its shape is paired first. References within pairs tell the others apart, then their
    modules and names.
    """

    def __init__(self, before: Sequence[Statement], after: Sequence[Statement]) -> None:
        self.pairs: list[tuple[Statement, Statement]] = []
        self.went: dict[Target, Target] = {}
        self.moves: Counter[tuple[str, str]] = Counter()
        self._references: Counter[tuple[Target | str, Target | str]] = Counter()
        groups: dict[str, tuple[list[Statement], list[Statement]]] = defaultdict(lambda: ([], []))
        for side, statements in enumerate((before, after)):
            for statement in statements:
                groups[statement.shape][side].append(statement)
        self._sizes = Counter(statement.module for statement in before)
        both = [group for group in groups.values() if all(group)]
        for old, new in both:
            if len(old) == len(new) == 1:
                self._pair(old, new, old[0], new[0])
        for depth in (2, None):
            while sum(self._pair_clear(old, new, depth) for old, new in both):
                pass
        for old, new in both:
            while old and new:
                ranked = [
                    (self._rank(first, second), -i, -j)
                    for i, first in enumerate(old)
                    for j, second in enumerate(new)
                ]
                _, i, j = max(ranked)
                self._pair(old, new, old[-i], new[-j])
        self.only_before = [statement for old, _ in groups.values() for statement in old]
        self.only_after = [statement for _, new in groups.values() for statement in new]

    def _pair(self, old: list[Statement], new: list[Statement], first: Statement, second: Statement) -> None:
        old.remove(first)
        new.remove(second)
        self.pairs.append((first, second))
        self.moves[first.module, second.module] += 1
        for (kind, value), (_, other) in zip(first.identifiers, second.identifiers, strict=True):
            self._references[value, other] += kind == REFERENCE
            if kind == DEFINED and isinstance(value, Target) and isinstance(other, Target):
                self.went.setdefault(value, other)

    def _rank(self, first: Statement, second: Statement) -> tuple[float, ...]:
        """Rank a pair: names that disagree, references that agree, modules, and its own name."""
        disagreeing = sum(
            self.went.get(value, other) != other if isinstance(value, Target) else value != other
            for (_, value), (_, other) in zip(first.identifiers, second.identifiers, strict=True)
        )
        referred = sum(self._references[pair] for pair in zip(first.targets(), second.targets(), strict=True))
        moved = self.moves[first.module, second.module] / self._sizes[first.module]
        return (-disagreeing, referred, moved, first.label == second.label, first.module == second.module)

    def _pair_clear(self, old: list[Statement], new: list[Statement], depth: int | None) -> bool:
        """Pair those of one shape that rank each other higher than any other; return whether any did."""
        ranks = [[self._rank(first, second)[:depth] for second in new] for first in old]
        best_of_old = [max(row) for row in ranks] if new else []
        best_of_new = [max(column) for column in zip(*ranks, strict=True)]
        clear = [
            (old[i], new[j])
            for i, row in enumerate(ranks)
            for j, rank in enumerate(row)
            if rank == best_of_old[i] == best_of_new[j]
            and row.count(rank) == [other[j] for other in ranks].count(rank) == 1
        ]
        for first, second in clear:
            self._pair(old, new, first, second)
        return bool(clear)


class Comparison:
    """What two trees differ in.

    Args:
        before: Statements of one tree.
        after: Statements of the other.
        allowed: Names of definitions that were meant to change, alone or with their module.
    """

    def __init__(
        self, before: Sequence[Statement], after: Sequence[Statement], allowed: Iterable[str] = ()
    ) -> None:
        self._allowed = set(allowed)
        self._used: set[str] = set()
        self._modules = {statement.module for statement in after}
        self._pairing = Pairing(before, after)
        self._came = {new: old for old, new in self._pairing.went.items()}
        self.only_before = [str(line) for line in self._pairing.only_before if not self._is_allowed(line)]
        self.only_after = [str(line) for line in self._pairing.only_after if not self._is_allowed(line)]
        self.elsewhere = list(self._find_elsewhere())
        self.unused = sorted(self._allowed - self._used)

    def sections(self) -> dict[str, list[str]]:
        """Return everything that differs, by title."""
        return {
            "only before": self.only_before,
            "only after": self.only_after,
            "goes elsewhere": self.elsewhere,
            "allowed but unchanged": self.unused,
        }

    def _is_allowed(self, *changed: Statement) -> bool:
        names = {name for line in changed for name in (line.label, *map(str, line.targets()))}
        names |= {target.name for line in changed for target in line.targets()}
        self._used |= names & self._allowed
        return bool(names & self._allowed)

    def _find_elsewhere(self) -> Iterator[str]:
        """Find names within pairs that are not those which the pairs themselves make of them."""
        renamed: dict[int, set[tuple[Target | str, Target | str]]] = defaultdict(set)
        for first, second in self._pairing.pairs:
            for (kind, value), (_, other) in zip(first.identifiers, second.identifiers, strict=True):
                renamed[kind].add((value, other))
        attributes = renamed[MEMBER] | {(old.name, new.name) for old, new in self._pairing.went.items()}
        keywords = renamed[MEMBER] | renamed[PARAMETER]
        for first, second in self._pairing.pairs:
            wrong: dict[str, None] = {}
            for (kind, value), (_, other) in zip(first.identifiers, second.identifiers, strict=True):
                if isinstance(value, Target) and isinstance(other, Target):
                    right = self._leads(value, other, kind)
                else:
                    known = {ATTRIBUTE: attributes, KEYWORD: keywords}.get(kind)
                    right = value == other or known is None or (value, other) in known
                if not right:
                    note = ", which two became or which became two" if kind == DEFINED else ""
                    wrong[f"{value} became {other}{note}"] = None
            if wrong and not self._is_allowed(first, second):
                yield from (f"{first} -> {second}: {what}" for what in wrong)

    def _leads(self, value: Target, other: Target, kind: int) -> bool:
        """Tell whether a reference leads to where its target went."""
        if value.kind != other.kind:
            return False
        if value.kind == MODULE:
            return value == other or self._has_become(value.module, other.module)
        if value in self._pairing.went:
            # Two definitions that became one of the same name hide each other.
            alone = kind != DEFINED or self._came.get(other) == value
            return self._pairing.went[value] == other and alone
        if value.name in self._allowed or str(value) in self._allowed:
            self._used |= {value.name, str(value)} & self._allowed
            return True
        return other not in self._came

    def _has_become(self, module: str, other: str) -> bool:
        """Tell whether a module went into another: some of it did or, if it is gone, of what is below it."""
        if (module, other) in self._pairing.moves:
            return True
        gone = not any(name == module or name.startswith(f"{module}.") for name in self._modules)
        return gone and any(
            old.startswith(f"{module}.") and f"{new}.".startswith(f"{other}.")
            for old, new in self._pairing.moves
        )


def read_sources(where: str, inside: Sequence[str]) -> dict[str, str]:
    """Read the Python files of a folder or of a revision, by their path from where imports begin.

    Args:
        where: A folder, else a git revision.
        inside: Folders in it; one that is a package is imported by its own name.
    """
    if Path(where).is_dir():
        root = Path(where)
        files = {
            path.relative_to(root).as_posix(): path.read_bytes()
            for part in inside
            for path in (root / part).rglob("*.py")
        }
    else:
        command = ["git", "archive", where, "--", *inside]
        with tarfile.open(
            fileobj=io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout)
        ) as tar:
            members = [member for member in tar.getmembers() if member.name.endswith(".py")]
            files = {
                member.name: content.read() for member in members if (content := tar.extractfile(member))
            }
    starts = [f"{part.strip('/')}/" for part in inside if f"{part.strip('/')}/__init__.py" not in files]
    shortened = {path: next((start for start in starts if path.startswith(start)), "") for path in files}
    return {path.removeprefix(shortened[path]): text.decode("utf-8") for path, text in files.items()}


def read_statements(where: str, inside: Sequence[str]) -> list[Statement]:
    """Read every statement at the top of the modules of a folder or revision."""
    return list(write_statements(Tree(read_sources(where, inside))))


def main(words: Sequence[str] | None = None) -> int:
    """Compare two trees, print what differs and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", help="a folder or a revision")
    parser.add_argument(
        "after", nargs="?", default=".", help="a folder or a revision (default: the working tree)"
    )
    parser.add_argument("--inside", action="append", help="folder to compare, may be repeated (default: src)")
    parser.add_argument(
        "--allow", type=Path, help="file of definitions that were meant to change, one per line"
    )
    options = parser.parse_args(words)
    inside = options.inside or ["src"]
    try:
        text = options.allow.read_text(encoding="utf-8") if options.allow else ""
        with ProcessPoolExecutor(2) as pool:
            before, after = pool.map(read_statements, [options.before, options.after], [inside, inside])
    except (OSError, SyntaxError) as error:
        parser.error(f"{error.filename}: {error}")
    except subprocess.CalledProcessError as error:
        parser.error(error.stderr.decode().strip())
    allowed = [name for line in text.splitlines() if (name := line.partition("#")[0].strip())]
    comparison = Comparison(before, after, allowed)
    for title, lines in comparison.sections().items():
        print(f"{title}: {len(lines)}")
        print(*(f"  {line}\n" for line in lines[:200]), sep="", end="")
    print(f"{len(before)} statements before, {len(after)} after")
    return int(any(comparison.sections().values()))


if __name__ == "__main__":
    sys.exit(main())
