"""Check the English of texts that users read: pages of the documentation, and texts that the program prints.

    python -m tools.prose                       # every place, with the rule and the better words
    python -m tools.prose docs/cost.md src/sonde/cli    # those of some files and folders
    python -m tools.prose --check               # exit 1 if there is one

Rules, limits and exceptions are in ``prose.toml``. Texts of the program are those of `docs/strings.py`. Only
the newest part of the changelog is read. In recipes and settings, comments are read, and titles, notes and
descriptions. Generated pages are read in their sources: templates, texts of the program, and strings of
`docs/generators/`, which are read as pages.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from docs.strings import list_texts

ROOT = Path(__file__).parents[1]

PLACES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "CITATION.cff",
    "Makefile",
    "mkdocs.yml",
    "pyproject.toml",
    ".github",
    "docs",
    "recipes",
    "src/sonde",
)
_SETTINGS = (".toml", ".yml", ".cff", ".sh", ".in")
"""Files of settings: their comments are read, and the texts of some keys."""
GENERATORS = ROOT / "docs" / "generators"
BUNDLED = ROOT / "src" / "sonde" / "models" / "bundled"
GENERATED = frozenset(
    f"docs/{name}.md"
    for name in (
        "tasks",
        "checkpoints",
        "performance",
        "glossary",
        "metrics",
        "files",
        "languages",
        "options",
    )
) | {"docs/paper-modes.md"}
"""Pages of `docs/generate.py`: their words are in templates and in the program."""

_CODE = re.compile(r"(`+).+?\1", re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)# (.*)")
_KEY = re.compile(r"\s*(?:title|notes?|name|description|site_description|message)(?:: | = )")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_TAG = re.compile(r"<[^>]*>")
_BULLET = re.compile(r"^\s*(?:[-*]|\d+\.) ")
_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\)))(?<!\bal\.)\s+(?=[A-Z`(\[{\d]|sonde\b)")
_WORD = re.compile(r"[^\W\d_]|\d")


class Rule(NamedTuple):
    """A pattern that is not to be written.

    Attributes:
        name: The name, as it is printed.
        pattern: A regular expression.
        better: The words to write instead.
        pages: Whether it holds for pages of the documentation.
        strings: Whether it holds for texts of the program.
    """

    name: str
    pattern: re.Pattern[str]
    better: str
    pages: bool = True
    strings: bool = True


class Passage(NamedTuple):
    """A paragraph, bullet, heading, table cell or text of the program.

    Attributes:
        line: The line on which it begins.
        text: Its text on one line; code is a placeholder.
        kind: ``text``, ``bullet``, ``cell`` or ``string``.
    """

    line: int
    text: str
    kind: str = "text"


class Finding(NamedTuple):
    """A place to be mended.

    Attributes:
        place: File and line.
        rule: The name of the rule.
        excerpt: The words that break it.
        better: The words to write instead.
    """

    place: str
    rule: str
    excerpt: str
    better: str


class Prose:
    """The rules, limits and exceptions of a TOML file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path = ROOT / "tools" / "prose.toml") -> None:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        self._rules = [Rule(pattern=re.compile(rule.pop("pattern")), **rule) for rule in content["rule"]]
        self._limits: dict[str, int] = content["limits"]
        self._exceptions: list[dict[str, Any]] = content.get("exception", [])

    def check_file(self, path: Path) -> Iterator[Finding]:
        """Yield every place of a file that breaks a rule."""
        name = _name_file(path)
        for passage in read_passages(path):
            for rule, excerpt, better in self.check_passage(passage):
                if not self._is_exception(name, rule, passage.text):
                    yield Finding(f"{name}:{passage.line}", rule, excerpt, better)

    def check_passage(self, passage: Passage) -> Iterator[tuple[str, str, str]]:
        """Yield rule, words and better words of everything that a passage breaks."""
        is_string = passage.kind == "string"
        for rule in self._rules:
            if rule.strings if is_string else rule.pages:
                for match in rule.pattern.finditer(passage.text):
                    yield rule.name, match[0].strip(), rule.better
        limit = self._limits["bullet"]
        if passage.kind == "bullet" and (count := count_words(passage.text)) > limit:
            yield "long bullet", f"{count} words", f"at most {limit} words"
        limit = self._limits["sentence"]
        for sentence in _SENTENCE_END.split(passage.text) if passage.kind in ("text", "string") else ():
            if (count := count_words(sentence)) > limit:
                yield "long sentence", f"{count} words: {sentence[:50]}...", f"at most {limit} words"

    def _is_exception(self, name: str, rule: str, text: str) -> bool:
        return any(
            exception["file"] == name and exception["rule"] == rule and exception["text"] in text
            for exception in self._exceptions
        )


def _name_file(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()


def count_words(text: str) -> int:
    """Count words: what is between spaces and has a letter or a digit."""
    return sum(_WORD.search(word) is not None for word in text.split())


def read_passages(path: Path) -> Iterator[Passage]:
    """Yield the passages of a page or notebook, or the texts of a file of the program."""
    if path.suffix == ".ipynb":
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                yield from _split_page("".join(cell["source"]).splitlines())
        return
    if path.is_relative_to(GENERATORS):
        for line, text in list_texts(path):
            for passage in _split_page(text.splitlines()):
                yield passage._replace(line=line + passage.line - 1)
        return
    if _is_settings(path):
        yield from _split_page([*_read_settings(path.read_text(encoding="utf-8").splitlines())])
        return
    if path.suffix != ".md":
        for line, text in list_texts(path):
            for paragraph in text.split("\n\n"):
                yield Passage(line, _strip_markup(paragraph), "string")
        return
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.name == "CHANGELOG.md":
        headings = [number for number, line in enumerate(lines) if line.startswith("### ")]
        lines = lines[: headings[1]] if len(headings) > 1 else lines
    yield from _split_page(lines)


def _is_settings(path: Path) -> bool:
    is_program = path.is_relative_to(ROOT / "src")
    return not is_program and (path.suffix in _SETTINGS or path.name == "Makefile")


def _read_settings(lines: Sequence[str]) -> Iterator[str]:
    """Yield the comment of each line, or the text of its key as a heading; otherwise an empty line."""
    for line in lines:
        if key := _KEY.match(line):
            yield "# " + line[key.end() :].strip("'\"")
        elif comment := _COMMENT.search(line):
            yield comment[1]
        else:
            yield ""


def _split_page(lines: Sequence[str]) -> Iterator[Passage]:
    """Yield the passages of a page in Markdown, without code."""
    fence, begin, kind, parts = "", 1, "text", list[str]()
    for number, line in enumerate([*lines, ""], 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        is_code = bool(fence or mark)
        if mark and (not fence or line.strip() == fence):
            fence = "" if fence else mark[1]
        is_row = line.lstrip().startswith("|")
        is_start = bool(_BULLET.match(line)) or line.startswith(("#", "!!!", "???", ">"))
        if parts and (is_code or is_row or is_start or not line.strip()):
            yield Passage(begin, _strip_markup(" ".join(parts)), kind)
            parts = []
        if is_code or not line.strip():
            continue
        if is_row:
            yield from (
                Passage(number, _strip_markup(cell), "cell") for cell in line.strip(" |").split(" | ")
            )
        else:
            if not parts:
                begin, kind = number, "bullet" if _BULLET.match(line) else "text"
            parts.append(_BULLET.sub("", line, count=1) if not parts else line)


def _strip_markup(text: str) -> str:
    """Put text on one line; code becomes one word, and a link its text."""
    text = _TAG.sub("", _LINK.sub(r"\1", _CODE.sub("`x`", text)))
    return " ".join(re.sub(r"\*\*|__|^#+ ", "", text).split())


def list_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files with texts that users read among paths and in the folders among them."""
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            is_source = file.is_relative_to(ROOT / "src")
            is_page = file.suffix in (".md", ".ipynb") and _name_file(file) not in GENERATED
            is_shown = is_page and (not is_source or file.is_relative_to(BUNDLED))
            is_setting = _is_settings(file) and not file.is_relative_to(GENERATORS)
            is_program = is_source and file.suffix in (".py", ".j2", ".toml")
            is_generator = file.is_relative_to(GENERATORS) and file.suffix == ".py"
            if is_shown or is_setting or is_program or is_generator or not path.is_dir():
                yield file


def main(words: Sequence[str] | None = None) -> int:
    """Print every place and how many each rule has; 1 if `--check` is given and there is one."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.prose",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", type=Path, nargs="*", default=[ROOT / name for name in PLACES])
    parser.add_argument("--check", action="store_true", help="fail if a place breaks a rule")
    arguments = parser.parse_args(words)
    prose = Prose()
    findings = [
        finding
        for file in list_files([path.resolve() for path in arguments.paths])
        for finding in prose.check_file(file)
    ]
    for finding in findings:
        print(f"{finding.place}: {finding.rule}: {finding.excerpt!r}; better: {finding.better}")
    for rule, count in Counter(finding.rule for finding in findings).most_common():
        print(f"{count:>6,}  {rule}")
    print(f"{len(findings):>6,}  places")
    return int(arguments.check and bool(findings))


if __name__ == "__main__":
    sys.exit(main())
