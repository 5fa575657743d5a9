"""Words that name an extreme, and where they name none."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sonde"

WORDS = re.compile(
    r"\b(most|least|best|worst|highest|lowest|last|half|top|peak\w*|strongest|weakest|largest|smallest|"
    r"greatest|fewest|commonest|hardest|easiest|likeliest|first|from layer|on from)\b",
    re.IGNORECASE,
)

IDIOMS: Mapping[str, str] = {
    r"\b[Aa]t (most|least)\b": "a bound that was asked for, or how many are shown",
    r"\b[Bb]est (attention )?heads?\b": "the head that was chosen on validation, as the caption says",
    r"\b[Bb]est (surface|control|rule)\b": "of several controls the one to beat, which makes it harder",
    r"\bis among the first$|\branks? first|\bits first": "k of P@k, or how many are shown",
    r"\bfirst (ten|words?|tokens?|k)\b": "k of P@k, or a place",
    r"(^The first$|\bfirst (\d+|\{\}))": "how many are shown, or count",
    r"\b(first (try|hit)|in the first\b|right at once)": "k of P@k",
    r"\bmost frequent (answers|subtokens)|\bcommonest class": "the name of a control",
    r"\b[Ll]ongest word\b": "the name of a control",
    r"\b[Tt]op-?(\d\b|\{\})": "k of P@k",
    r"\bfirst guess\b": "the answer of rank 1",
    r"\b(finds?|find) most of (them )?on validation\b": "a choice on validation",
    r"± half\b": "half a width",
    r"\bchosen on validation\b": "a choice on validation",
    r"\bthat most repositories call\b": "a choice by use in the corpus, made without a look at the numbers",
    r"\bmore than half\b": "counted by `split_by_threshold`",
    r"with most (edges|observations|subwords|pairs)|with the most (observations|subwords)": (
        "a choice by size, made without a look at the numbers"
    ),
}
"""Expressions that hold such a word and name no extreme of measured numbers, and why."""


REVIEWED: Mapping[str, str] = {
    "each at a lower level, at worst 0.05 divided": "a bound, from the correction for many tests",
    "least size of": "the name of an option",
    "--least {}": "the name of an option",
    "largest change first": "heading of a table that is sorted by its column",
    "the smallest difference that matters": "a bound that was asked for",
    "(?!most often)": "an expression over texts, which no user reads",
    "the smallest difference that this sample can detect": "a bound, from the sample's design",
    "where their spread is largest": "a bound, from arithmetic",
    "highest, %": "a column of what was counted, beside the middle and the lowest",
    "Least expected subwords": "single places of one text, which are read and not estimated",
    "differ most, in bits": "the same",
    "--option probe.pooling=mean,last leaves it out": "the name of an option",
    "each with the head that finds most of them in this text": "says itself that it is no finding",
    "after the first ones": "time of a run",
    "estimated from the first": "time of a run",
    "from layer {} of {}": "the layer that a probe was made for",
    "trees from layer": "chosen on validation, which the sentence says",
    "Best at the last epoch": "validation of one training, which is observed",
    "Best at the smallest": "validation of one training, which is observed",
    "best after its last epoch": "validation of one training, which is observed",
    "best at the edge of its rates": "validation of one training, which is observed",
    "no training was best at its last epoch": "validation of one training, which is observed",
    "highest of {} means": "how many of a sorted list are shown; the sentence below names the extreme",
    "{} highest means": "title of a sorted chart with intervals; the sentence above names the extreme",
    "{} lowest means": "the same",
    "highest and {} lowest of": "title of a table sorted at both ends; no value is named",
    "highest and {} lowest": "title of a sorted chart or table with intervals; no value is named",
    "for being worst, best or median": "how examples were chosen to be looked at",
    ", the highest of {}": "the card, which says beside it how many cannot be told from the highest",
    "Best relation of each head": "a choice on validation",
    "follows best": "a choice on validation",
    "those that find most of any relation": "which heads are drawn; none is named",
    "the {} words attended to most": "k of P@k",
    "which model is right most often": "no extreme is named",
    "which rank correlation loses most without length": "no extreme is named",
    "is the most surprising": "no verdict",
    "The likeliest word of every entry": "an answer of rank 1",
    "in the last layer of the fine-tuned model": "a place in the model",
    "from the first seed": "a place in a list",
    "of which the mutant is likelier by most": "single pairs, sorted to be looked at",
    "Least of all could be matched": "bytes of the texts that were read, counted and not estimated",
    "chose in each fold (most often": "the layer that most folds chose, counted and not estimated",
    "names, most often": "calls in the texts that were read, counted and not estimated",
    "names called most": "the same",
}  # fmt: skip
"""Texts with such a word that do not go through `sonde.results.extremes`, and why they need not."""


_FRAGMENTS = [re.escape(fragment).replace(r"\{\}", ".+?") for fragment in REVIEWED]


def is_reviewed(text: str) -> bool:
    """Whether a text, what it is a piece of, or what was filled in, was reviewed."""
    piece = text.strip(",: ;")
    is_piece = len(piece) > 7 and any(piece in fragment for fragment in REVIEWED)
    return is_piece or any(re.search(fragment, text) for fragment in _FRAGMENTS)


def without_idioms(text: str) -> str:
    for idiom in IDIOMS:
        text = re.sub(idiom, "", text)
    return text


def names_extreme(text: str) -> bool:
    return WORDS.search(without_idioms(text)) is not None


def modules() -> Iterator[tuple[str, Path]]:
    """What speaks to users; texts of interventions and comparisons have tests of their own."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        folder, _, _ = name.partition("/")
        spoken = folder in ("report", "lenses", "results", "stats", "comparison", "api", "experiments", "cli")
        if spoken and "causal" not in name and name != "report/comparison_page.py":
            yield name, path


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module that a user can meet."""
    spec = importlib.util.spec_from_file_location("strings", ROOT / "docs" / "strings.py")
    assert spec is not None and spec.loader is not None
    strings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(strings)
    for line, text in strings.list_texts(path):
        yield line, " ".join(text.split())


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of a module that numbers or names are filled into."""
    for line, text in texts(path):
        if "{}" in text and re.search(r"[A-Za-z]{2,}[ ,:]", text):
            yield line, text


def pieces(path: Path) -> Iterator[tuple[int, str]]:
    """Constants in functions that may be pieces of a sentence: those that are no argument by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    named = {
        part
        for node in (*docstrings, *(node for node in ast.walk(tree) if isinstance(node, ast.keyword)))
        for part in ast.walk(node.value)
        if isinstance(node, ast.keyword) or isinstance(node.value, ast.Constant)
    }
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                text = node.value if isinstance(node, ast.Constant) and node not in named else None
                if isinstance(text, str) and " " in text.strip():
                    yield node.lineno, " ".join(text.split())
