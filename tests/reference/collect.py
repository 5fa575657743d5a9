"""Carry commands of the fixed set out with the interpreter of either tree.

Each command is a process of its own, as a user's is: nothing but the command line is called, which is the
contract of both trees.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.reference.commands import Command
from tests.reference.server import serve

_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "OPENAI_API_KEY": "none",
}
"""What texts and sums depend on."""

_SIGNALS = range(-64, 0)
"""Exit codes of processes that a signal ended."""


@dataclass(frozen=True)
class Tree:
    """A tree of sources and what runs it.

    Attributes:
        source: Its root.
        python: An interpreter with the dependencies, which may have another tree installed.
        declared: Folder for what the tree's package declares, as an installation has it.
    """

    source: Path
    python: Path
    declared: Path

    def environment(self) -> dict[str, str]:
        """Return the variables of its processes: what leads to this tree, and to no other."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name != "PYTHONPATH" and not name.startswith("SONDE_") and not name.lower().endswith("_proxy")
        }
        paths = f"{self.declared}{os.pathsep}{self.source / 'src'}"
        return {**kept, **_SETTINGS, "PYTHONPATH": paths}

    def call(self, *arguments: str) -> list[str]:
        """Return the call of its command line."""
        module, _, function = self._project()["scripts"]["sonde"].partition(":")
        start = f"import sys; sys.argv[0] = 'sonde'; from {module} import {function} as run; sys.exit(run())"
        return [str(self.python), "-P", "-c", start, *arguments]

    def declare(self) -> None:
        """Write which entry points its package has; those of an installed tree name modules of that tree."""
        project = self._project()
        groups = {"console_scripts": project["scripts"], **project.get("entry-points", {})}
        lines = [
            line
            for group, points in groups.items()
            for line in (f"[{group}]", *(f"{name} = {point}" for name, point in points.items()))
        ]
        folder = self.declared / "sonde-0.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: sonde\nVersion: 0\n")
        (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")

    def check(self) -> None:
        """Raise RuntimeError where its interpreter would import another tree's package."""
        ask = [str(self.python), "-P", "-c", "import sonde; print(sonde.__file__)"]
        path = subprocess.run(
            ask, env=self.environment(), capture_output=True, text=True, check=True
        ).stdout.strip()
        if not Path(path).resolve().is_relative_to(self.source.resolve()):
            raise RuntimeError(f"the tree {self.source} would be run with {path}")

    def _project(self) -> dict[str, Any]:
        return tomllib.loads((self.source / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def collect(tree: Tree, commands: Sequence[Command], output: Path, workers: int) -> list[str]:
    """Carry commands out, those that others need first; return what ended otherwise than it was meant to.

    What the same command has written already is kept.
    """
    tree.declare()
    tree.check()
    ended: dict[str, int] = {}
    waiting = list(commands)
    with serve() as proxy, ThreadPoolExecutor(workers) as pool:
        environment = {**tree.environment(), "http_proxy": proxy, "HTTP_PROXY": proxy}
        while waiting:
            ready = [command for command in waiting if ended.keys() >= set(command.needs)]
            waiting = [command for command in waiting if command not in ready]
            codes = pool.map(partial(_carry_out, tree, output, environment), ready)
            for command, code in zip(ready, codes, strict=True):
                ended[command.name] = code
                print(f"{len(ended)}/{len(commands)} {command.name}", flush=True)
    return [
        f"{command.name} ended with {ended[command.name]}, and was meant to with {command.code}"
        for command in commands
        if ended[command.name] != command.code
    ]


def _carry_out(tree: Tree, output: Path, environment: dict[str, str], command: Command) -> int:
    """Call the command line in the command's own folder, and note there what it printed and how it ended."""
    place = output / command.name
    if (code := _kept(command, output)) is not None:
        return code
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name, text in command.files.items():
        (place / name).write_text(text, encoding="utf-8")
    if command.copied:
        shutil.copytree(output / command.copied / "run", place / "run")
    # A cache of its own: what another command left there would change what is computed and what is said.
    with TemporaryDirectory() as cache:
        done = subprocess.run(
            tree.call(*command.arguments),
            cwd=place,
            env={**environment, "XDG_CACHE_HOME": cache},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    (place / "told.txt").write_bytes(done.stdout)
    (place / "warned.txt").write_bytes(done.stderr)
    (place / "ended.json").write_text(json.dumps({"code": done.returncode, **_described(command)}))
    return done.returncode


def _kept(command: Command, output: Path) -> int | None:
    """How the same command ended before; None where it did not, or what it needs is newer."""
    note = output / command.name / "ended.json"
    if not note.exists():
        return None
    ended = json.loads(note.read_text())
    times = [(output / name / "ended.json").stat().st_mtime for name in command.needs]
    same = {name: ended.get(name) for name in _described(command)} == _described(command)
    fresh = all(time <= note.stat().st_mtime for time in times)
    return ended["code"] if same and fresh and ended["code"] not in _SIGNALS else None


def _described(command: Command) -> dict[str, object]:
    return {"arguments": list(command.arguments), "files": dict(command.files)}
