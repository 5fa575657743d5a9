"""The fixed set: commands of the command line whose files are compared. Runs with the Python of either tree.

It calls nothing but the command line, which is the contract of both trees.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path

LIMIT = 300
"""Functions of each language that every task labels."""

_READ = {
    "codesyntax": ("syntax_relations", "python"),
    "cubert": ("variable_misuse", "python"),
    "inspect": ("cpx", "java"),
}
"""Published formats, each with a task and language that it holds."""

_SMALL = ("--workers", "1", "--limit", "60")
_RUNS: dict[str, tuple[str, ...]] = {
    "surprisal": ("-m", "sonde/mini-decoder", *_SMALL),
    "surprisal-encoder": ("-l", "surprisal", "-m", "sonde/mini-encoder", *_SMALL),
    "attention": ("-m", "sonde/mini-encoder", *_SMALL),
    "cloze": ("-m", "sonde/mini-encoder", *_SMALL),
    "probe": (
        *("-m", "sonde/mini-encoder", "--workers", "1", "--limit", "200"),
        *("-t", "csc", "-t", "jbl", "-t", "ast", "-t", "same_scope"),
        *("--option", "probe.folds=3", "--option", "probe.seeds=2"),
    ),
    "finetune": (
        *("-m", "sonde/mini-encoder", "--workers", "1", "--limit", "120"),
        *("-t", "wrong_operator", "-t", "misuse_repair", "--option", "finetune.length=64"),
        *("--option", "finetune.epochs=1", "--option", "finetune.seeds=2", "--option", "finetune.rates=1e-3"),
    ),
}
"""Small runs by name; a lens of the same name unless one is given."""


@dataclass(frozen=True)
class Command:
    """A call of the command line.

    Attributes:
        name: Folder of what it writes.
        arguments: Its arguments.
    """

    name: str
    arguments: tuple[str, ...]


def commands(corpora: dict[str, str], tasks: list[str], output: Path) -> Iterator[Command]:
    """Every command: labels of every task, published formats, and runs of every lens in both modes.

    Args:
        corpora: The corpus of each language.
        tasks: Public names of the tasks.
        output: Where they write.
    """
    for mode in ("corrected", "paper"):
        for name, arguments in _RUNS.items():
            place = f"run-{name}-{mode}"
            lens = () if "-l" in arguments else ("-l", name)
            corpus = ("-c", corpora["python"], "--mode", mode, "-o", str(output / place))
            yield Command(place, ("run", *lens, *arguments, *corpus))
        for language, corpus in corpora.items():
            for task in tasks:
                place = f"label-{language}-{mode}-{task}"
                yield Command(place, _label(task, corpus, output / place, "--mode", mode, "--raw"))
    for form, (task, language) in _READ.items():
        place = f"format-{form}"
        yield Command(place, _label(task, corpora[language], output / place, "--format", form))


def _label(task: str, corpus: str, output: Path, *more: str) -> tuple[str, ...]:
    limit = ("--limit", str(LIMIT), "--workers", "1")
    return "label", task, "-c", corpus, *limit, "-o", str(output / "labels"), *more


def carry_out(command: Command, output: Path) -> str:
    """Call the command line, and note how it ended beside what it wrote; gives its name.

    What the same command has written already is kept.
    """
    from sonde.cli.commands import main

    place = output / command.name
    if _is_kept(place, command):
        return command.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    sys.argv, code = ["sonde", *command.arguments], 0
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(told):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    (place / "told.txt").write_text(told.getvalue())
    (place / "ended.json").write_text(json.dumps({"code": code, "arguments": command.arguments}))
    return command.name


_STOPPED = 128
"""Exit codes from here on are of signals."""


def _is_kept(place: Path, command: Command) -> bool:
    if not (place / "ended.json").exists():
        return False
    ended = json.loads((place / "ended.json").read_text())
    return ended["code"] < _STOPPED and ended.get("arguments") == list(command.arguments)


def collect(corpora: dict[str, str], tasks: list[str], output: Path, names: list[str], workers: int) -> None:
    """Carry the fixed set out, or what of it has one of some names (with ``*`` for any letters)."""
    every = [
        command
        for command in commands(corpora, tasks, output)
        if any(fnmatch(command.name, name) for name in names)
    ]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for number, name in enumerate(pool.map(carry_out, every, [output] * len(every)), 1):
            print(f"{number}/{len(every)} {name}", flush=True)


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    collect(wanted["corpora"], wanted["tasks"], Path(wanted["output"]), wanted["names"], wanted["workers"])
