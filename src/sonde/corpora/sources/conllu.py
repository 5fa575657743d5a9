"""Sentences with their syntactic relations, from treebanks in CoNLL-U.

``conllu:FILE`` names a treebank, such as ``en_ewt-ud-test.conllu``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import conllu
from conllu.exceptions import ParseException

from sonde.base.errors import InputError, UsageError
from sonde.corpora.engine.corpus import Given, SkipCounter, SourceFile
from sonde.corpora.engine.source_files import numbered_lines
from sonde.corpora.engine.tables import EntryError, Faults, named_file, read_entries

SYNONYMS = ("universal dependencies",)

_TASK = "syntax_relations"


_LANGUAGE = "text"


_OPTION = "root=included"


@dataclass(frozen=True, slots=True)
class _Word:
    """A syntactic word with its position in the sentence's text."""

    identifier: int
    start: int
    end: int
    head: int | None
    relation: str


class Treebank:
    """`conllu:FILE[?root=included]`: a treebank of Universal Dependencies, or a conversion to Stanford's.

    A sentence is an item in the language ``text``. Its text is its words, with the blanks that the file
    says. Each word but the root gives a relation of `syntax_relations` under the name that the file gives
    it: from its head, with the word as the dependent. With ``root=included`` the root is there as well, as
    its own head: what a word pays to itself does not count as attention and no baseline has the offset
    zero, so that both sides miss it alike.

    Words that share the characters of one word (``zum`` for ``zu`` and ``dem``) share its place; relations
    inside of such a word are left out, as are words that are not in the text.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield one file per sentence, in the file's order; its cluster is its document, or itself.

        Sentences without a relation, such as those of one word, are counted as ``no relation``.

        Raises:
            InputError: The file does not exist or is not UTF-8, or sentences of it are malformed: all of them
                are looked for, and the first few are named by number.
            UsageError: FILE is missing, or the option does not exist.
        """
        path, with_root = _argument(argument)
        corpus = f"conllu:{argument}"
        document = ""
        first_numbers: dict[str, int] = {}
        faults = Faults(corpus, "sentences")

        def parse(entry: tuple[int, list[dict[str, Any]], dict[str, str]]) -> SourceFile | None:
            nonlocal document
            number, tokens, metadata = entry
            document = _document(metadata, document)
            identifier = metadata.get("sent_id") or str(number)
            if (first := first_numbers.setdefault(identifier, number)) != number:
                raise EntryError(f"sent_id {identifier!r} is that of sentence {first}")
            text, words = _locate_words(tokens, intake)
            labels = tuple(_relations(words, with_root, intake))
            if not labels:
                intake.note("no relation", identifier)
                return None
            return SourceFile(
                path=f"{path.name}#{identifier}",
                text=text,
                language=_LANGUAGE,
                cluster=document or identifier,
                repository=document or identifier,
                unit="function",
                name=identifier,
                identifier=identifier,
                given=labels,
            )

        entries = (
            (f"sentence {number}", (number, *sentence))
            for number, sentence in enumerate(_sentences(corpus, path, faults), 1)
        )
        yield from read_entries(entries, parse, faults, languages, intake)


def _argument(argument: str) -> tuple[Path, bool]:
    name, _, option = argument.partition("?")
    path = named_file("conllu", argument, name)
    if option and option != _OPTION:
        raise UsageError(f"corpus 'conllu:{argument}': unknown option {option!r}; known: {_OPTION}")
    return path, bool(option)


def _sentences(
    corpus: str, path: Path, faults: Faults
) -> Iterator[tuple[list[dict[str, Any]], dict[str, str]]]:
    """Yield tokens and metadata of each sentence; one that does not parse is empty and noted."""
    with path.open("rb") as handle:
        blocks = conllu.parse_sentences(cast(TextIO, _decode_lines(handle, corpus)))
        number = 0
        while True:
            try:
                block = next(blocks, None)
            except UnicodeDecodeError:
                raise InputError(f"corpus {corpus!r}: not UTF-8 after sentence {number}") from None
            if block is None:
                return
            number += 1
            try:
                token_list = conllu.parse_token_and_metadata(block)
            except (ParseException, ValueError, IndexError) as error:
                faults.note(f"sentence {number}", str(error).partition("\n")[0][:120])
                yield [], {}
                continue
            yield [dict(token) for token in token_list], dict(token_list.metadata)


def _decode_lines(handle: BinaryIO, corpus: str) -> Iterator[str]:
    """Decode the lines of a file; keep a blank line between sentences."""
    expected_number = 1
    for number, line in numbered_lines(handle, corpus):
        if number > expected_number:
            yield "\n"
        expected_number = number + 1
        yield line.decode("utf-8-sig" if number == 1 else "utf-8").replace("\r\n", "\n")


def _document(metadata: dict[str, str], current: str) -> str:
    """Return the document of a sentence: `current` unless a new one begins."""
    for key, value in metadata.items():
        if key == "newdoc id":
            return value
        if key == "newdoc":
            return ""
    return current


def _locate_words(tokens: Sequence[dict[str, Any]], intake: SkipCounter) -> tuple[str, list[_Word]]:
    """Return the text of a sentence, and its syntactic words with their positions in it.

    Raises:
        EntryError: A word has no form, or the words are not numbered from one on.
    """
    text = ""
    words: list[_Word] = []
    part_spans: list[tuple[int, int]] = []
    last_covered = 0
    for token in tokens:
        identifier, form = token.get("id"), token.get("form")
        if not isinstance(form, str) or not form:
            raise EntryError(f"word {identifier!r} has no form")
        match identifier:
            case int() if identifier <= last_covered and part_spans:
                span = part_spans.pop(0)
            case (first, "-", last):
                span = len(text), len(text) + len(form)
                part_spans, last_covered = _split(span, form, _forms(tokens, first, last)), last
                text += form + _blank(token)
                continue
            case int():
                span = len(text), len(text) + len(form)
                text += form + _blank(token)
            case _:
                intake.note("empty node", form)
                continue
        if identifier != len(words) + 1:
            raise EntryError(f"word {len(words) + 1} is numbered {identifier}")
        words.append(_Word(identifier, *span, token.get("head"), token.get("deprel") or ""))
    return text.rstrip(" "), words


def _forms(tokens: Sequence[dict[str, Any]], first: int, last: int) -> list[str]:
    forms = [str(token.get("form")) for token in tokens if token.get("id") in range(first, last + 1)]
    if len(forms) != last + 1 - first:
        raise EntryError(f"words {first} to {last} are not all there")
    return forms


def _split(span: tuple[int, int], form: str, parts: Sequence[str]) -> list[tuple[int, int]]:
    """Return the spans of the words of a form: consecutive if they spell it, else the full span for each."""
    if "".join(parts) != form:
        return [span] * len(parts)
    spans: list[tuple[int, int]] = []
    start = span[0]
    for part in parts:
        spans.append((start, start + len(part)))
        start += len(part)
    return spans


def _blank(token: dict[str, Any]) -> str:
    misc = token.get("misc")
    return "" if isinstance(misc, dict) and misc.get("SpaceAfter") == "No" else " "


def _relations(words: Sequence[_Word], with_root: bool, intake: SkipCounter) -> Iterator[Given]:
    for word in words:
        if word.head is None:
            continue
        if not word.relation:
            raise EntryError(f"word {word.identifier} has a head and no relation to it")
        if not 0 <= word.head <= len(words) or word.head == word.identifier:
            raise EntryError(f"word {word.identifier} has the head {word.head} of {len(words)} words")
        if word.head == 0 and not with_root:
            continue
        head = words[word.head - 1] if word.head else word
        if head is not word and (head.start, head.end) == (word.start, word.end):
            intake.note("relation inside a word", word.relation)
            continue
        yield Given(_TASK, word.relation, head.start, head.end, word.start, word.end)


source = Treebank()
