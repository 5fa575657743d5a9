"""What pages for those who change sonde name in backticks is there: paths, functions, members, commands."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import typer.main

import sonde
from sonde.cli.commands import app

ROOT = Path(__file__).parents[2]
SOURCE = Path(sonde.__file__).parent
PAGES = {
    page.relative_to(ROOT).as_posix(): page
    for page in (
        ROOT / "docs/design.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs/contributing").glob("*.md")),
    )
}
INVENTED = {
    *(
        "area",
        "src/shapes.py",
        "labels/",
        "./file.py",
        "./folder",
        "./my_lens.py",
        "share_correct",
        "papers.bib",
    ),
    *("numbers_LENS", 'run.plot("numbers_my_lens")', "run.table(lens, model)", "figures/", "run.json"),
    *(
        "const f = (a) => ...",
        "A.prototype.f = function ...",
        "key: ...",
        "{name:/}",
        "language()",
        "php-pear",
    ),
    *("tree_sitter_php:language_php", 'means(scoring.observations, [Mean("top1", pl.col("rank") == 1)]'),
}
"""Examples, and what is no code of sonde."""

COMMANDS = set(getattr(typer.main.get_command(app), "commands", ()))


def read_names(page: Path) -> list[str]:
    """Return what is in backticks outside of code blocks, without what the blocks hold or are written to."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```.*?```", text, flags=re.DOTALL)
    written = set(re.findall(r"(\w+)(?:/\w+)?\.(?:py|toml)`[^`]*\n\n```", text))
    names = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return sorted(
        name
        for name in {name.replace("\n", " ") for name in names} - INVENTED
        if not any(name in block for block in blocks) and not written & set(re.findall(r"\w+", name))
    )


@cache
def read_code() -> str:
    """Return all code, queries and tables, without comments, docstrings and sentences."""
    prose = re.compile(r'""".*?"""|^ *#.*?$|"[^"\n]* [^"\n]* [^"\n]*"', flags=re.DOTALL | re.MULTILINE)
    modules = [prose.sub("", path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
    tables = (*SOURCE.rglob("*.scm"), *SOURCE.rglob("*.toml"), ROOT / "pyproject.toml", ROOT / "Makefile")
    return "\n".join([*modules, *(path.read_text(encoding="utf-8") for path in tables)])


@cache
def list_words() -> frozenset[str]:
    """Return the words of the code: names, and texts such as those of options and columns."""
    return frozenset(re.findall(r"[\w.-]+", read_code()))


def has_parameters(function: str, parameters: set[str]) -> bool:
    """Return whether a function or method of that name has the parameters."""
    signatures = re.findall(rf"def {function}\((.*?)\)(?: ->[^\n]*)?:\n", read_code(), flags=re.DOTALL)
    return any(parameters <= set(re.findall(r"\w+", signature)) for signature in signatures)


def has_members(body: list[ast.stmt], members: list[str]) -> bool:
    """Return whether a module or class defines or imports a member, and that the next one, and so on."""
    if not members:
        return True
    for part in body:
        targets = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
        imported = part.names if isinstance(part, ast.ImportFrom) else []
        names = [getattr(part, "name", ""), *(getattr(target, "id", "") for target in targets)]
        if members[0] in [*names, *(alias.asname or alias.name for alias in imported)]:
            inner = part.body if isinstance(part, ast.ClassDef) else []
            return bool(imported) or has_members(inner, members[1:])
    return False


def is_defined(parts: list[str]) -> bool:
    """Return whether the first part is a module or a class, and the others are members of it."""
    folder = SOURCE / parts[0]
    if folder.is_dir() and len(parts) > 1 and is_defined([f"{parts[0]}/{parts[1]}", *parts[2:]]):
        return True
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    if file.is_file():
        return has_members(ast.parse(file.read_text(encoding="utf-8")).body, parts[1:])
    classes = [
        path for path in SOURCE.rglob("*.py") if f"class {parts[0]}" in path.read_text(encoding="utf-8")
    ]
    return any(has_members(ast.parse(path.read_text(encoding="utf-8")).body, parts) for path in classes)


def exists(name: str) -> bool:
    """Return whether a name leads somewhere."""
    words = list_words()
    if name.startswith("sonde "):
        return name.split()[1] in COMMANDS
    if name.startswith(("-", "make ")):
        return all(word in words for word in re.findall(r"--[\w-]+|(?<=make )\w+", name))
    if name.endswith("/") or re.fullmatch(r"[\w./<>*-]+\.(py|md|toml|scm|json|txt|bib)", name):
        pattern = re.sub(r"<\w+>", "*", name).rstrip("/")
        found = (*SOURCE.glob(pattern), *ROOT.glob(pattern), *SOURCE.glob(f"l[ae]n*/*/{pattern}"))
        return bool(found) or name in ("engine/", "sections/") or name in words
    if call := re.fullmatch(r"(\w+)\(([\w=, ]*)\)", name):
        return has_parameters(call[1], set(re.findall(r"\w+", call[2])))
    if re.fullmatch(r"[\w/]+(\.\w+)*", name) and re.search(r"[/.]", name):
        return name in words or is_defined(name.removeprefix("sonde.").split("."))
    if corpus := re.match(r"([a-z]+)\[?:", name):
        return corpus[1] in words
    if "(" in name:
        return re.split(r"\W", name)[0] in words
    return all(word in words for word in re.findall(r"(?<!\w)[A-Za-z_][\w.-]*", name))


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    names = read_names(PAGES[page])
    assert names
    assert [name for name in names if not exists(name)] == []


@pytest.mark.parametrize("page", PAGES)
def test_prose_fits_into_an_editor(page: str) -> None:
    prose = re.sub(r"```.*?```", "", PAGES[page].read_text(encoding="utf-8"), flags=re.DOTALL)
    long = [line for line in prose.splitlines() if len(line) > 120]
    assert [line for line in long if page == "docs/design.md" or not line.startswith("|")] == []


@pytest.mark.parametrize(
    "name",
    [
        "passes(prepared, labels, settings)",
        "follow_up(scores, settings)",
        "corpora/_releases.ReleaseSource",
        "api/run.walk",
        "results.means.of",
        "src/sonde/models/<name>.bib",
        "SourceFile.lock",
        "sonde measure",
        "--per-lens",
        "by_meaning",
        "why_verdict",
    ],
)
def test_what_is_not_there_is_found_out(name: str) -> None:
    assert not exists(name)
