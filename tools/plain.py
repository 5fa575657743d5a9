"""Measure how plainly packages are named and documented, and how large they are.

    python -m tools.plain                       # the figures of sonde
    python -m tools.plain --list                # every place that counts against a figure
    python -m tools.plain --check               # exit 1 where a figure misses its bar

Bars of names and docstrings are what admired packages keep (scikit-learn, httpx, datasets, transformers).
Words of a closed class (articles, pronouns, prepositions, adverbs, numerals) and bare participles count,
since neither says what a value is; a synonym of the same class counts as well. The bars of sizes are the
figures that were reached last, so that they only fall.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from typing_extensions import TypeIs

ROOT = Path(__file__).parents[1]

_WORDS = {
    kind: frozenset(words.split())
    for kind, words in tomllib.loads(
        (ROOT / "tools" / "plain_words.toml").read_text(encoding="utf-8")
    ).items()
}


class Bar(NamedTuple):
    """What a figure has to keep."""

    value: float
    at_least: bool = False

    def is_missed(self, figure: float) -> bool:
        """Tell whether a figure misses the bar."""
        return figure < self.value if self.at_least else figure > self.value


BARS = {
    "variables that are one word of a closed class, per 1,000": Bar(10),
    "variables that are a bare participle, per 1,000": Bar(30),
    "functions whose last word is of a closed class or a participle, %": Bar(6),
    "functions named x_of, %": Bar(1),
    "classes of one word that is of a closed class or a participle, %": Bar(7),
    "modules whose last word is of a closed class or a participle": Bar(30),
    "docstrings that begin with a question word or a preposition, %": Bar(3),
    "docstrings of functions that begin with a verb, %": Bar(50, at_least=True),
    "lines of the middle module": Bar(150, at_least=True),
    "statements": Bar(45_400),
    "lines of code": Bar(70_200),
    "files": Bar(540),
}
(CLOSED, PARTICIPLE, ENDING, X_OF, CLASS, MODULE, QUESTION, VERB, MIDDLE, STATEMENTS, LINES, FILES) = BARS


def is_participle(word: str) -> bool:
    """Tell whether a word is a participle that is no noun."""
    ending = (word.endswith("ed") and len(word) > 4) or (word.endswith("ing") and len(word) > 5)
    return word in _WORDS["irregular_participles"] or (ending and word not in _WORDS["nouns"])


def is_vague(word: str) -> bool:
    """Tell whether a word is a participle or of a closed class."""
    return word in _WORDS["closed_class"] or is_participle(word)


def get_last_word(name: str) -> str:
    """Return the last word of a name."""
    return name.strip("_").lower().split("_")[-1]


def count_statements(tree: ast.Module) -> int:
    """Count statements that are neither imports nor texts alone."""
    return sum(
        isinstance(node, ast.stmt)
        and not isinstance(node, (ast.Import, ast.ImportFrom))
        and not _is_text(node)
        for node in ast.walk(tree)
    )


def count_code_lines(text: str, tree: ast.Module) -> int:
    """Count lines that are neither docstring, import, comment nor blank."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) or _is_text(node):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1].strip().startswith("#"):
            skipped.add(token.start[0])
    return sum(bool(line.strip()) for number, line in enumerate(lines, 1) if number not in skipped)


def _is_text(node: ast.AST) -> TypeIs[ast.Expr]:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


class Measure:
    """Counts over the modules of packages.

    Attributes:
        places: The places that count against each figure.
    """

    def __init__(self) -> None:
        self.places: defaultdict[str, list[str]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        self._sizes: list[int] = []

    def add_module(self, path: Path, text: str) -> None:
        """Count a module."""
        tree = ast.parse(text)
        self._sizes.append(text.count("\n"))
        self._counts[STATEMENTS] += count_statements(tree)
        self._counts[LINES] += count_code_lines(text, tree)
        if path.stem != "__init__" and is_vague(get_last_word(path.stem)):
            self.places[MODULE].append(str(path))
        for node in ast.walk(tree):
            self._add_names(node, f"{path}:{getattr(node, 'lineno', 1)}")
            self._add_docstring(node, f"{path}:{getattr(node, 'lineno', 1)}")

    def _add_names(self, node: ast.AST, place: str) -> None:
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                self._counts["variables"] += 1
                word = name.strip("_").lower()
                if is_vague(word):
                    self.places[CLOSED if word in _WORDS["closed_class"] else PARTICIPLE].append(
                        f"{place}: {name}"
                    )
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self._counts["functions"] += 1
                if name.endswith("_of"):
                    self.places[X_OF].append(f"{place}: {name}")
                elif is_vague(get_last_word(name)):
                    self.places[ENDING].append(f"{place}: {name}")
            case ast.ClassDef(name=name):
                self._counts["classes"] += 1
                if is_vague(name.strip("_").lower()):
                    self.places[CLASS].append(f"{place}: {name}")
            case _:
                pass

    def _add_docstring(self, node: ast.AST, place: str) -> None:
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        words = (ast.get_docstring(node) or "").split()
        if not words:
            return
        first = words[0].strip("`.,:;").lower()
        self._counts["docstrings"] += 1
        if first in _WORDS["question_words"]:
            self.places[QUESTION].append(f"{place}: {' '.join(words[:8])}")
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._counts["docstrings of functions"] += 1
            self._counts[VERB] += first in _WORDS["verbs"] or first.removesuffix("s") in _WORDS["verbs"]

    def get_figures(self) -> dict[str, float]:
        """Return every figure by its name."""

        def per(name: str, whole: str, scale: int) -> float:
            number = self._counts[name] or len(self.places[name])
            return scale * number / max(1, self._counts[whole])

        return {
            CLOSED: per(CLOSED, "variables", 1000),
            PARTICIPLE: per(PARTICIPLE, "variables", 1000),
            ENDING: per(ENDING, "functions", 100),
            X_OF: per(X_OF, "functions", 100),
            CLASS: per(CLASS, "classes", 100),
            MODULE: len(self.places[MODULE]),
            QUESTION: per(QUESTION, "docstrings", 100),
            VERB: per(VERB, "docstrings of functions", 100),
            MIDDLE: statistics.median(self._sizes or [0]),
            STATEMENTS: self._counts[STATEMENTS],
            LINES: self._counts[LINES],
            FILES: len(self._sizes),
        }


def measure(folders: Sequence[Path]) -> Measure:
    """Measure every module below folders, without their tests."""
    result = Measure()
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        if not {"test", "tests"} & set(path.parts):
            result.add_module(path, path.read_text(encoding="utf-8"))
    return result


def main(words: Sequence[str] | None = None) -> int:
    """Print the figures; 1 where `--check` is given and a figure misses its bar."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.plain",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", type=Path, nargs="*", default=[ROOT / "src" / "sonde"])
    parser.add_argument("--list", action="store_true", help="print every place that counts against a figure")
    parser.add_argument("--check", action="store_true", help="fail where a figure misses its bar")
    arguments = parser.parse_args(words)
    result = measure(arguments.folders)
    if arguments.list:
        for name, places in result.places.items():
            print(f"\n{name}", *places, sep="\n  ")
        print()
    is_any_missed = False
    for name, figure in result.get_figures().items():
        bar = BARS[name]
        is_any_missed |= bar.is_missed(figure)
        limit = f"at {'least' if bar.at_least else 'most'} {bar.value:,.0f}"
        print(f"{figure:>10,.1f}  {limit:<16}  {'*' if bar.is_missed(figure) else ' '} {name}")
    return int(arguments.check and is_any_missed)


if __name__ == "__main__":
    sys.exit(main())
