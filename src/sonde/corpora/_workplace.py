"""Where a corpus is built: a hidden folder beside its place, which becomes it in one step or is gone."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sonde.base.errors import StoreError, UsageError
from sonde.base.files import expand_home
from sonde.corpora._manifest import MANIFEST

_MARK = "building"


@dataclass(frozen=True, slots=True)
class Workplace:
    """A folder to build in.

    Attributes:
        folder: Where files are written.
        output: Where they will be.
    """

    folder: Path
    output: Path
    _token: str

    def publish(self) -> None:
        """Make the folder the corpus.

        Raises:
            StoreError: Something else is there by now, or another build has taken the folder over.
        """
        mark = self.folder / _MARK
        try:
            if mark.read_text("utf-8") != self._token:
                raise StoreError(
                    f"cannot write {self.output}: another build is writing it; let that one finish"
                )
            mark.unlink()
            with suppress(FileNotFoundError):
                self.output.rmdir()  # an empty folder may be there
            self.folder.rename(self.output)
        except OSError as error:
            raise StoreError(
                f"cannot write {self.output}: {error.strerror or error}; nothing was changed, run again"
            ) from error


def check_free(output: Path) -> bool:
    """Whether a corpus stands at a place already; else the place is free.

    Raises:
        UsageError: Something else is there.
    """
    if (output / MANIFEST).is_file():
        return True
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(
            f"output {str(output)!r} is there already and is no built corpus; name another folder with -o"
        )
    return False


@contextmanager
def workplace(output: Path) -> Generator[Workplace]:
    """A fresh folder to build in; what a killed build left behind is removed, and so is this one in the end.

    Args:
        output: Where the corpus will be.

    Raises:
        StoreError: The folder cannot be made, or the disk is full.
    """
    place = expand_home(output).absolute()
    folder = place.with_name(f".{place.name}.building")
    token = secrets.token_hex(8)
    try:
        if (folder / _MARK).is_file():  # never what sonde did not make
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / _MARK).write_text(token, "utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror or error}; name another -o") from error
    try:
        yield Workplace(folder, place, token)
    except OSError as error:
        if not str(error.filename or "").startswith(str(folder)):
            raise
        raise StoreError(
            f"cannot write {place}: {Path(str(error.filename)).name} was taken away meanwhile "
            "(by another build of the same folder?); nothing was changed, run again"
        ) from error
    finally:
        if _is_ours(folder, token):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path, token: str) -> bool:
    with suppress(OSError):
        return (folder / _MARK).read_text("utf-8") == token
    return False
