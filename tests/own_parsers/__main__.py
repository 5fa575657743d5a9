"""``python -m tests.own_parsers [LANGUAGE...]``: labels of functions against the language's own parser.

Functions come from code that the machine has; ``--corpus php=local:FOLDER`` names other code, and more of it
where it stands several times. Python's parser is the running one's. The others need node with acorn and
eslint-scope, go, java (a JDK), php with php-parser, and ruby. A row per language and label.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator

from sonde.base.errors import SondeError
from tests.artefacts import CORPORA, LANGUAGES
from tests.own_parsers import LABELS, NOT_COVERED, Comparison, compare
from tests.own_parsers.parsers import MissingParserError

_HEAD = """\
| language | label | compared | equal | different |
|---|---|--:|--:|--:|"""


def main(arguments: list[str]) -> int:
    """Print the table, what could not be compared, and differences; 1 where nothing was compared."""
    parser = argparse.ArgumentParser(prog="python -m tests.own_parsers", description=__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all six")
    parser.add_argument("--corpus", action="append", default=[], metavar="LANGUAGE=CORPUS")
    parser.add_argument("--functions", type=int, default=5000)
    parser.add_argument("--differences", type=int, default=5, help="shown of each label")
    asked = parser.parse_args(arguments)
    unknown = set(asked.languages) - set(LANGUAGES)
    if unknown:
        parser.error(f"no language has the name {min(unknown)}: {', '.join(LANGUAGES)}")
    corpora: defaultdict[str, list[str]] = defaultdict(list)
    for language, _, corpus in (one.partition("=") for one in asked.corpus):
        corpora[language].append(corpus)
    print(_HEAD, flush=True)
    told: list[str] = []
    compared = 0
    for language in asked.languages or LANGUAGES:
        try:
            result = compare(language, corpora[language] or [CORPORA[language]], asked.functions)
        except (MissingParserError, SondeError) as error:
            told.append(f"{language}: {error}")
            continue
        compared += result.compared
        print("\n".join(rows(result)), flush=True)
        told += notes(result, asked.differences)
    print("\n" + "\n".join(told))
    print("\nNot compared: " + "; ".join(f"{name} ({reason})" for name, reason in NOT_COVERED.items()))
    return 0 if compared else 1


def rows(result: Comparison) -> Iterator[str]:
    """Yield a line of the table for each label of a language that was compared."""
    for label in LABELS:
        if label in result.tallies:
            tally = result.tallies[label]
            figures = (tally.equal + tally.different, tally.equal, tally.different)
            yield f"| {result.language} | `{label}` | " + " | ".join(f"{one:,}" for one in figures) + " |"


def notes(result: Comparison, shown: int) -> Iterator[str]:
    """Yield what could not be compared, and the first differences of each label."""
    refused = f"{result.refused:,} files that its parser refuses"
    yield f"{result.language}: {result.compared:,} functions; {refused}"
    for reason, count in sorted(result.skipped.items()):
        yield f"{result.language}: {count:,} files left out for {reason}"
    absent = [label for label in LABELS if label not in result.tallies]
    if absent:
        yield f"{result.language}: not told by its parser here: {', '.join(absent)}"
    for label in LABELS:
        if label in result.tallies:
            for path, line, name, ours, theirs in result.tallies[label].examples[:shown]:
                where = f"{result.language} {label}: {path}:{line} {name}"
                yield f"{where}: {ours} here, {theirs} to the parser"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
