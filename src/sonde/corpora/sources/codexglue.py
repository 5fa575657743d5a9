"""Functions with a word left out, as CodeXGLUE's ClozeTest publishes them.

``codexglue:FILE`` names a file as published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError
from sonde.corpora.engine.corpus import Given, SkipCounter, SourceFile
from sonde.corpora.engine.tables import EntryError, Faults, json_list, named_file, read_entries
from sonde.languages import LANGUAGES

MASK = "<mask>"


TASK = "api_cloze"


WORDS: Mapping[str, tuple[str, ...]] = {"maxmin": ("max", "min")}
"""What may stand at the mask, by the name before the number of an entry."""


_PUBLISHED_STEM = "clozeTest"
"""Stem of the published files, which lie in a folder a language."""


WORD_LIST = "cloze_test_words.txt"
"""The words of other tests, one a line, beside a file or in the folder above it."""


_SEPARATOR = "<CODESPLIT>"


_TEXT = "text"


class CodeXGlue:
    """`codexglue:FILE`, a JSON list of ``{"idx", "nl_tokens", "pl_tokens"}`` with one ``<mask>`` an entry.

    The text is what the published script reads: words, then code, joined by blanks. At the mask stands the
    first of the words that compete; a given label of the task `api_cloze` says where, and which words compete
    (``max,min``; those of ClozeTest-all are read from the `WORD_LIST` that comes with it). The answers are
    not published. The language is that of the file's name or folder where
    sonde knows it, else ``text``.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield one file per entry, in the file's order.

        Raises:
            InputError: The file does not exist or is no such list, or entries of it are malformed: all of
                them are looked for, and the first few are named by number.
            UsageError: FILE is missing.
        """
        corpus, path = f"codexglue:{argument}", named_file("codexglue", argument)
        language = _language(path)
        words, folder = _read_word_list(corpus, path), _folder(path)

        def parse(entry: Any) -> SourceFile:
            if fault := _fault(entry, has_word_list=bool(words)):
                raise EntryError(fault)
            return _file(entry, language, folder, words)

        entries = (
            (f"entry {number}", entry) for number, entry in enumerate(json_list(corpus, path, "entries"), 1)
        )
        yield from read_entries(entries, parse, Faults(corpus, "entries"), languages, intake, id_name="idx")


def predictions(answers: Iterable[tuple[str, str]]) -> str:
    """Format answers as the published evaluator reads them, one line each: ``idx<CODESPLIT>word``.

    Args:
        answers: Number of each entry and the word for it.
    """
    return "".join(f"{number}{_SEPARATOR}{word}\n" for number, word in answers)


def _file(entry: Mapping[str, Any], language: str, folder: str, word_list: tuple[str, ...]) -> SourceFile:
    number, code = entry["idx"], entry["pl_tokens"]
    words = WORDS.get(number.rpartition("-")[0], word_list)
    mask_index = code.index(MASK)
    prefix = " ".join([*entry["nl_tokens"], *code[:mask_index], ""])
    text = prefix + " ".join([words[0], *code[mask_index + 1 :]])
    label = Given(TASK, ",".join(words), len(prefix), len(prefix) + len(words[0]))
    return SourceFile(
        path=f"{folder}/{number}",
        text=text,
        language=language,
        cluster=f"{folder}/{number}",
        repository=f"{folder}/{number}",
        unit="function",
        identifier=number,
        given=(label,),
    )


def _read_word_list(corpus: str, path: Path) -> tuple[str, ...]:
    """Read the word list that comes with a file; empty if there is none.

    Raises:
        InputError: A word has a comma, or the list cannot be read.
    """
    word_file = next(
        (candidate for folder in path.parents[:2] if (candidate := folder / WORD_LIST).is_file()), None
    )
    if word_file is None:
        return ()
    try:
        words = tuple(dict.fromkeys(word_file.read_text(encoding="utf-8").split()))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"corpus {corpus!r}: {word_file} cannot be read ({error})") from None
    if wrong_word := next((word for word in words if "," in word), ""):
        raise InputError(f"corpus {corpus!r}: {word_file}: {wrong_word!r} is not a word")
    return words


def _fault(entry: Any, *, has_word_list: bool) -> str:
    match entry:
        case {"idx": str(number), "nl_tokens": list(words), "pl_tokens": list(code)}:
            pass
        case dict():
            return "not an object with 'idx', 'nl_tokens' and 'pl_tokens'"
        case _:
            return "not a JSON object"
    if not all(isinstance(token, str) for token in (*words, *code)):
        return "a token is not a string"
    if (masks := code.count(MASK)) != 1:
        return f"{masks} tokens of the code are {MASK}, not one"
    kind = number.rpartition("-")[0]
    if kind not in WORDS and not has_word_list:
        return (
            f"idx {number!r} belongs to no known test; known: {', '.join(WORDS)}, and others "
            f"with a {WORD_LIST} next to the file or above it"
        )
    return ""


def _folder(path: Path) -> str:
    """Return the folder where the evaluator expects predictions: the language as the test names it."""
    return path.parent.name or path.stem if path.stem == _PUBLISHED_STEM else path.stem


def _language(path: Path) -> str:
    language_names = LANGUAGES.names()
    return next((name for name in (path.stem, path.parent.name) if name in language_names), _TEXT)


source = CodeXGlue()
