"""Running git on a repository of somebody else: nothing that the repository says of itself is carried out.

Its configuration may name programs (hooks, monitors, filters, signature checks, remotes to fetch missing
objects from) and files to read (`include.path`, `blame.ignoreRevsFile`). Git has no switch that passes over
them all, so it never sees them: it runs in a folder of ours, whose configuration is empty, on the objects and
names of theirs. What else obeys a repository (grafts, replaced objects, attributes) stays behind as well.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sonde.base.errors import InputError

_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_EXTENSIONS = {"objectformat": ("sha1", "sha256"), "refstorage": ("files", "reftable")}
"""How a repository is stored; all that is taken over from its configuration."""

_LINK = re.compile(r"(gitdir|ref): (.+?)\s*")
_LONGEST_LINK = 4_096
_MAX_SECONDS = 1_800


@dataclass(frozen=True, slots=True)
class GitRepository:
    """The objects and names of a repository.

    Attributes:
        path: The folder as named.
        environment: That of a git which reads them and nothing else.
    """

    path: Path
    environment: Mapping[str, str]

    def git(self, *arguments: str, given: str = "") -> bytes:
        """What git answers, also to what it is given on standard input.

        Raises:
            InputError: It refuses, in its own words, or does not end.
        """
        return _answer(self.path, self.environment, *arguments, given=given)


@contextmanager
def open_repository(path: Path) -> Generator[GitRepository]:
    """The repository of a folder, that of a checkout or a bare one, or of a folder below.

    Raises:
        InputError: There is no git or no repository, or it is stored in a way that is not known.
    """
    own = _own_folder(path)
    told = _link(own / "commondir", "")
    common = own / told if told else own
    # What a caller has set for a git of its own, such as GIT_DIR in a hook, is of another repository.
    outer = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**outer, **_ENVIRONMENT}
    with tempfile.TemporaryDirectory(prefix="sonde-git-") as folder:
        view = Path(folder)
        (view / "config").write_text(_configuration(path, common, environment), "utf-8")
        (view / "HEAD").write_text(_head(path, own), "utf-8")
        (view / "objects").mkdir()
        for name in ("refs", "logs", "reftable"):
            if os.path.isdir(common / name):  # noqa: PTH112  False where the folder cannot be looked at
                (view / name).symlink_to((common / name).resolve())
        for name in ("packed-refs", "shallow"):
            if os.path.isfile(common / name):  # noqa: PTH113
                (view / name).symlink_to((common / name).resolve())
        (view / "refs").mkdir(exist_ok=True)
        environment["GIT_DIR"] = str(view)
        environment["GIT_OBJECT_DIRECTORY"] = str((common / "objects").resolve())
        yield GitRepository(path, environment)


def is_repository(path: Path) -> bool:
    """Whether a folder is a repository itself: with a checkout, or bare."""
    return os.path.lexists(path / ".git") or _is_bare(path)


def _is_bare(path: Path) -> bool:
    # `os.path` says False of what cannot be looked at, where `Path` raises.
    return os.path.isdir(path / "objects") and os.path.lexists(path / "HEAD")  # noqa: PTH112


def _own_folder(path: Path) -> Path:
    """Where the repository of a folder is stored; of a further checkout its own part.

    Raises:
        InputError: Neither the folder nor one above it is a repository.
    """
    start = path.resolve()
    for folder in (start, *start.parents):
        linked = folder / ".git"
        if _is_bare(linked):
            return linked
        if target := _link(linked, "gitdir"):
            return folder / target
        if _is_bare(folder):
            return folder
    raise InputError(f"corpus 'git:{path}': not a git repository (or any of the folders above)")


def _link(path: Path, kind: str) -> str:
    """Where a small file of git leads; empty where there is no such file, or it says something else."""
    if not os.path.isfile(path):  # noqa: PTH113  nothing that blocks is opened
        return ""
    try:
        with path.open("rb") as handle:
            text = os.fsdecode(handle.read(_LONGEST_LINK))
    except OSError:
        return ""
    if not kind:
        return text.strip()
    found = _LINK.fullmatch(text)
    return found[2] if found and found[1] == kind else ""


def _head(path: Path, own: Path) -> str:
    """The checked-out branch or commit.

    Raises:
        InputError: There is none.
    """
    head = own / "HEAD"
    # Versions before 1.6 linked to the branch.
    if os.path.islink(head):  # noqa: PTH114
        return f"ref: {head.readlink()}\n"
    text = _link(head, "")
    if not re.fullmatch(r"ref: refs/.+|[0-9a-f]{40,64}", text):
        raise InputError(f"corpus 'git:{path}': not a git repository: its HEAD names no branch and no commit")
    return f"{text}\n"


def _configuration(path: Path, common: Path, environment: Mapping[str, str]) -> str:
    """A configuration that says how the repository is stored, and nothing else.

    Raises:
        InputError: It is stored in a way that is not known, or its configuration is none.
    """
    lines = ["[core]", "repositoryformatversion = 1", "bare = true", "[extensions]"]
    theirs = common / "config"
    if os.path.isfile(theirs):  # noqa: PTH113
        # One file as it lies: what it includes is not read.
        told = _answer(path, environment, "config", "--file", str(theirs), "--no-includes", "-z", "--list")
        for setting in os.fsdecode(told).split("\0"):
            key, _, value = setting.partition("\n")
            name = key.removeprefix("extensions.")
            if name != key and name in _EXTENSIONS:
                if value not in _EXTENSIONS[name]:
                    known = " and ".join(_EXTENSIONS[name])
                    raise InputError(f"corpus 'git:{path}': {key} is {value!r}; {known} can be read")
                lines.append(f"{name} = {value}")
    return "\n".join([*lines, ""])


def _answer(path: Path, environment: Mapping[str, str], *arguments: str, given: str = "") -> bytes:
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            env=environment,
            input=given.encode(),
            timeout=_MAX_SECONDS,
            check=True,
        )
    except FileNotFoundError:
        raise InputError("corpus 'git': the program git is not installed (apt-get install git)") from None
    except subprocess.TimeoutExpired:
        raise InputError(
            f"corpus 'git:{path}': git {arguments[0]} has not ended after {_MAX_SECONDS // 60} minutes"
        ) from None
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.decode("utf-8", "replace").strip().splitlines() or ["git failed"])[0]
        raise InputError(f"corpus 'git:{path}': {reason.removeprefix('fatal: ')}") from None
    return done.stdout
