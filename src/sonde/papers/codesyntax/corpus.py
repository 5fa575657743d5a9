"""Functions with the syntactic relations of a CodeSyntax file.

``codesyntax:FILE`` names a file as published, such as ``deps_python.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError
from sonde.corpora.engine.corpus import Given, SkipCounter, SourceFile
from sonde.corpora.engine.source_files import is_usable
from sonde.corpora.engine.tables import EntryError, Faults, json_list, named_file
from sonde.languages import LANGUAGES, get_facet, has_facet
from sonde.languages.engine.relations import RelationOptions, Relations, Words

_TASK = "syntax_relations"


# The published files say nothing of splits: samples from CodeSearchNet's test set come first, those of its
# validation set follow. First id of the latter, and number of samples of the published file.
_PUBLISHED_SPLITS: Mapping[str, tuple[int, int]] = {"python": (8680, 18701), "java": (11009, 13711)}


class CodeSyntaxSource:
    """`codesyntax:FILE`, a JSON list of ``{"code", "tokens", "id", "relns"}``.

    The file does not name its language; it is the one that knows all the relations in it and gives the same
    tokens.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield one file a sample, in the file's order, with its relations.

        Samples whose tokens are not those of the language are counted as ``tokens differ`` and left out.

        Raises:
            InputError: The file does not exist or is no such list, or samples of it are malformed: all of
                them are looked for, and the first few are named by number.
            UsageError: FILE is missing.
        """
        path = named_file("codesyntax", argument)
        for name in languages:
            LANGUAGES.load(name)
        corpus = f"codesyntax:{argument}"
        samples = _read_samples(corpus, path)
        language = _detect_language(corpus, samples, languages)
        boundary, size = _PUBLISHED_SPLITS.get(language, (0, -1))
        first_numbers: dict[str, int] = {}
        faults = Faults(corpus, "samples")
        for number, sample in enumerate(samples, 1):
            identifier = str(sample["id"])
            if identifier in first_numbers:
                faults.note(
                    f"sample {number}", f"id {identifier!r} is that of sample {first_numbers[identifier]}"
                )
            first_numbers.setdefault(identifier, number)
            words = _find_words(sample, language)
            if words is None:
                intake.note("tokens differ", identifier)
                continue
            split = ""
            if len(samples) == size and identifier.isdecimal():
                split = "test" if int(identifier) < boundary else "valid"
            try:
                labels = tuple(_iterate_labels(sample, words, split))
            except EntryError as error:
                faults.note(f"sample {number}", error)
                continue
            if not faults and is_usable(sample["code"], identifier, intake):
                yield SourceFile(
                    path=identifier,
                    text=sample["code"],
                    language=language,
                    cluster=identifier,
                    repository=identifier,
                    unit="function",
                    identifier=identifier,
                    given=labels,
                )
        faults.refuse()


def _read_samples(corpus: str, path: Path) -> list[dict[str, Any]]:
    """Read the samples of a file and check their keys and types.

    Raises:
        InputError: See `CodeSyntaxSource.files`.
    """
    samples = json_list(corpus, path, "samples; unpack CodeSyntax's archives first")
    faults = Faults(corpus, "samples")
    for number, sample in enumerate(samples, 1):
        if fault := _find_fault(sample):
            faults.note(f"sample {number}", fault)
    faults.refuse()
    return samples


def _find_fault(sample: Any) -> str:
    match sample:
        case {"code": str(), "tokens": list(), "id": int() | str(), "relns": dict(relations)}:
            malformed_names = [name for name, edges in relations.items() if not isinstance(edges, list)]
            return f"relation {malformed_names[0]!r} is not a list of edges" if malformed_names else ""
        case dict():
            return "not an object with 'code', 'tokens', 'id' and 'relns'"
        case _:
            return "not a JSON object"


def _detect_language(corpus: str, samples: list[dict[str, Any]], languages: tuple[str, ...]) -> str:
    """Detect the language of the samples.

    Raises:
        InputError: No language, or none of those wanted, has these relations.
    """
    relations = {relation for sample in samples for relation in sample["relns"]}
    candidates = [name for name in LANGUAGES.names() if has_facet(name, "relations")]
    fits = [
        name
        for name in candidates
        if relations <= set(get_facet(name, "relations", Relations).relation_types)
    ]
    fits = [name for name in fits if not languages or name in languages]
    if not fits:
        odd = {
            name: len(relations - set(get_facet(name, "relations", Relations).relation_types))
            for name in candidates
        }
        summary = ", ".join(f"{name} lacks {count}" for name, count in odd.items())
        raise InputError(
            f"corpus {corpus!r}: no language wanted has all its {len(relations)} relations ({summary})"
        )
    if len(fits) == 1:
        return fits[0]
    match_counts = {
        name: sum(_find_words(sample, name) is not None for sample in samples[:50]) for name in fits
    }
    return max(fits, key=lambda name: match_counts[name])


def _find_words(sample: Mapping[str, Any], language: str) -> Words | None:
    """Return the words of a sample, with newlines if its tokens have them; None if they differ."""
    facet = get_facet(language, "relations", Relations)
    # Of code that does not parse the words of both modes differ, and either may have been written.
    for mode, newlines in product(("paper", "corrected"), (False, True)):
        words = facet.words(sample["code"], RelationOptions(mode=mode, newlines=newlines))
        if list(words.surface) == sample["tokens"]:
            return words
    return None


def _iterate_labels(sample: Mapping[str, Any], words: Words, split: str) -> Iterator[Given]:
    starts, ends = words.start.tolist(), words.end.tolist()
    for relation, edges in sample["relns"].items():
        for edge in edges:
            match edge:
                case [int(head), int(first), int(last)] if (
                    min(edge) >= 0 and max(edge) < len(words) and first <= last
                ):
                    pass
                case _:
                    edge_text = json.dumps(edge)[:60]
                    raise EntryError(f"edge {edge_text} of {relation!r} is not within {len(words)} tokens")
            yield Given(_TASK, relation, starts[head], ends[head], starts[first], ends[last], split)


source = CodeSyntaxSource()
