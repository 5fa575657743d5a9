"""Running git on a repository of somebody else: nothing that the repository names is carried out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from sonde.base.errors import InputError

# A repository's own configuration may name programs (hooks, monitors, signature checks) and remotes to
# fetch missing objects from. None of them may run because somebody reads code.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false")
ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
"""What such a call adds to the environment."""


def command(repository: Path, *arguments: str) -> list[str]:
    """The words of a call of git in a folder, to be run with `ENVIRONMENT`."""
    return ["git", "-C", str(repository), *_QUIET, *arguments]


def git(repository: Path, *arguments: str) -> bytes:
    """What git answers.

    Raises:
        InputError: There is no git, or it refuses; in its own words.
    """
    try:
        done = subprocess.run(
            command(repository, *arguments),
            capture_output=True,
            env=os.environ | ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            check=True,
        )
    except FileNotFoundError:
        raise InputError("corpus 'git': the program git is not installed (apt-get install git)") from None
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.decode("utf-8", "replace").strip().splitlines() or ["git failed"])[0]
        raise InputError(f"corpus 'git:{repository}': {reason.removeprefix('fatal: ')}") from None
    return done.stdout
