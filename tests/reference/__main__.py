"""``make reference``: build the tree at ``before-claims`` once, run the fixed set with both, compare.

The earlier tree has a worktree and an environment of its own below ``.reference``; what its commands give is
kept there, so that only the tree at hand runs again. ``python -m tests.reference 'label-java-*'`` compares
some of the commands.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from itertools import product
from pathlib import Path
from typing import Any

from tests.reference.compare import DIFFERS, Intended, differences, told

TAG = "before-claims"
COMMIT = "ede2ce5d1c79857b1f8d15158c8c8cf41f172474"
"""The commit of the tag."""

ROOT = Path(__file__).parents[2]
PLACE = ROOT / ".reference"
INTENDED = {
    ("label-java-corrected-syntax_relations", "labels"): Intended(
        "Java's relations of corrected mode come from relations.scm, no longer from Eclipse's tree, which "
        "has a lone `;` as a statement",
        most=5,
    ),
} | {
    (command, "labels/task=argument_names/python.parquet"): Intended(
        "only a quirk of paper mode reads the names of arguments, so corrected mode no longer labels them"
    )
    for command in ("run-surprisal-corrected", "run-surprisal-encoder-corrected")
}
_LABELS: dict[tuple[str, str], tuple[str, int]] = {
    ("python", "ast"): ("names that are spelt as a kind of the grammar is are no literals", 42),
    ("python", "data_dependency"): ("marks stand on declarations; `x, y = a, b` moves b into y alone", 794),
    ("java", "data_dependency"): ("`a[i] = v` reads the index and does not write it", 10),
    ("python", "same_scope"): ("marks stand on declarations", 792),
}
_CORRECTED: dict[tuple[str, str], tuple[str, int]] = {
    ("java", "function_docstring"): ("`{@inheritDoc}` and the like are no summaries", 84),
    ("python", "srk"): ("keywords of the head are never replaced", 60),
    ("python", "sck"): ("keywords of the head are never replaced", 60),
    ("java", "srk"): ("keywords of the head are never replaced", 10),
    ("java", "sck"): ("keywords of the head are never replaced", 10),
}
"""Tasks whose labels differ by intention, with the reason and how many rows of both sides together."""

_MODES = ("corrected", "paper")
INTENDED |= {
    (f"label-{language}-{mode}-{task}", "labels"): Intended(reason, most)
    for mode, labels in zip(_MODES, (_LABELS | _CORRECTED, _LABELS), strict=True)
    for (language, task), (reason, most) in labels.items()
}
INTENDED |= {
    (f"label-{language}-{mode}-{task}", ""): Intended("nothing to label ends with 2")
    for language, mode in product(("python", "java"), _MODES)
    for task in ("labelled", "labelled_pairs", "labelled_spans", "api_deprecated")
}
"""Files that differ by intention, each with the reason."""

_WORKERS = 2
_MODULES = """
argparse ast bdb cgi cmd codeop configparser copy csv dataclasses difflib dis doctest enum fileinput
fractions ftplib getopt gettext glob gzip heapq imaplib inspect ipaddress locale mailbox mimetypes
nntplib optparse pathlib pickletools plistlib poplib pprint random sched shutil smtplib statistics
string tarfile tempfile textwrap threading tokenize typing uuid zipfile
"""
_CLASSES = "java.base/java/util/*.java"


def main(names: list[str]) -> int:
    """Run both, print what differs and what was added; 1 where anything differs that is not intended."""
    commit = _commit()
    if commit is None:
        print(
            f"reference: neither the tag {TAG} nor its commit is in this repository; fetch its whole history"
        )
        return 2
    tree = PLACE / commit[:12]
    python = _built(tree, commit)
    corpora = {"python": f"local:{_python_files()}", "java": f"local:{_java_files()}"}
    tasks = _tasks(python)
    before, after = tree / "before", PLACE / "now"
    wanted = {"corpora": corpora, "tasks": tasks, "names": names, "workers": _WORKERS}
    _collect(python, wanted, before)
    shutil.rmtree(after, ignore_errors=True)
    _collect(Path(sys.executable), wanted, after)
    found = list(differences(before, after, INTENDED, names))
    print(*told(found), sep="\n")
    wrong = sum(one.kind == DIFFERS for one in found)
    rest = f"{len(found) - wrong} additions and intended differences"
    print(f"reference: {wrong or 'no'} differences to {TAG}; {rest}")
    return 1 if wrong else 0


def _commit() -> str | None:
    """The commit to compare with: that of the tag, which a clone may lack."""
    for name in (TAG, COMMIT):
        asked = ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
        found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        if found:
            return found
    return None


def _built(tree: Path, commit: str) -> Path:
    """The interpreter of the earlier tree, with it installed."""
    source, python = tree / "source", tree / "venv" / "bin" / "python"
    if not (tree / "installed").exists():
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        subprocess.run(["git", "worktree", "add", "--detach", source, commit], cwd=ROOT, check=True)
        subprocess.run([sys.executable, "-m", "venv", tree / "venv"], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "-c", source / "constraints.txt"]
        subprocess.run([*install, "torch"], check=True)
        subprocess.run([*install, "-e", f"{source}[baselines,minhash]"], check=True)
        (tree / "installed").touch()
    return python


def _python_files() -> Path:
    """A folder with modules of the standard library, the same for both trees."""
    folder = PLACE / "python"
    for name in _MODULES.split():
        source = Path(sysconfig.get_path("stdlib")) / f"{name}.py"
        (folder / name).mkdir(parents=True, exist_ok=True)
        if source.exists():
            shutil.copyfile(source, folder / name / source.name)
    return folder


def _java_files() -> Path:
    """A folder with classes of the Java Development Kit that is installed here."""
    import zipfile

    folder = PLACE / "java"
    if not folder.exists():
        archive = min(Path("/usr/lib/jvm").glob("*/lib/src.zip"))
        with zipfile.ZipFile(archive) as held:
            for name in held.namelist():
                if Path(name).match(_CLASSES):
                    held.extract(name, folder)
    return folder


def _tasks(python: Path) -> list[str]:
    """The tasks of the earlier tree, by the names that its command line gives."""
    told = subprocess.run(
        [python.with_name("sonde"), "list", "tasks"], capture_output=True, text=True, check=True
    ).stdout
    return [line.split()[0] for line in told.splitlines() if line and not line.startswith(" ")]


def _collect(python: Path, wanted: dict[str, Any], output: Path) -> None:
    script = Path(__file__).with_name("collect.py")
    threads = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    caches = {"XDG_CACHE_HOME": str(output.parent / "cache")}
    subprocess.run(
        [python, script, json.dumps({**wanted, "output": str(output)})],
        check=True,
        env={**os.environ, **threads, **caches},
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["*"]))
