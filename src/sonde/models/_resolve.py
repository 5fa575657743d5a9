"""From a model's name to where it is: a bundled folder, a local folder, the hub, or a server.

A model behind a server is known by name alone, and asked in words alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sonde.base.errors import InputError, UnknownNameError
from sonde.base.files import FileStamp, expand_home, file_stamps
from sonde.models._bundled import bundled_folder, bundled_names
from sonde.models._encoders import is_encoder
from sonde.models._family import Capabilities, ModelSpec, SpecialTokens
from sonde.models._naming import PREFIX, split_family, split_revision

SERVED = Capabilities(
    kind="endpoint", layers=0, heads=0, d_model=0, vocab=0, context=0, attention="none", masks=False
)

SERVED_SPECIAL = SpecialTokens(bos=None, bos_source="none")

SERVED_REVISION = "endpoint"
"""A server does not say which weights it runs."""

SUFFIX = ".gguf"

_CONTENT = (".safetensors", ".json", ".txt", ".model", ".py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a model is.

    Attributes:
        name: What transformers is given: a folder or a hub name.
        local: Whether it is a folder.
        revision: Hub revision; empty means the default branch.
    """

    name: str
    local: bool
    revision: str


def behind_a_server(spec: ModelSpec) -> bool:
    """Whether a model is one of a server's."""
    return spec.name.startswith(PREFIX)


def takes_texts(spec: ModelSpec) -> bool:
    """Whether a model is handed texts as they are: behind a server, or an encoder from outside."""
    return behind_a_server(spec) or is_encoder(spec)


def locate(spec: ModelSpec) -> Location:
    """Find a model without opening it; a GGUF file is where sonde keeps what it makes of it.

    Raises:
        UnknownNameError: The name looks like a path or a bundled name, and nothing is there.
        InputError: The folder holds no model, or the GGUF file cannot be read.
    """
    if (file := gguf_file(spec)) is not None:
        from sonde.models._gguf import converted_gguf

        return Location(name=str(converted_gguf(file, spec.full_name)), local=True, revision="")
    return _locate(spec)


def gguf_file(spec: ModelSpec) -> Path | None:
    """Find the GGUF file that a model is; None where it is none.

    Raises:
        UnknownNameError: There is no such file.
    """
    bare, _ = split_revision(split_family(spec.name)[1])
    named = expand_home(bare)
    if not spec.gguf:
        if named.suffix != SUFFIX or named.is_dir():
            return None
        if not named.is_file():
            raise UnknownNameError("model", bare, _files_beside(named), "no file is there")
        return named
    if named.is_dir():
        file = named / spec.gguf
        if not file.is_file():
            raise UnknownNameError(f"GGUF file of {bare!r}", spec.gguf, _files_beside(file))
        return file
    from sonde.models._files import file_of

    file = file_of(_locate(spec), spec.gguf)
    if file is None:
        raise InputError(f"model {bare!r}: the hub gave no {spec.gguf!r}; see the files of its page")
    return file


def _files_beside(file: Path) -> list[str]:
    return sorted(path.name for path in file.parent.glob(f"*{SUFFIX}"))


def _locate(spec: ModelSpec) -> Location:
    bare, revision = split_revision(split_family(spec.name)[1])
    revision = spec.revision or revision
    folder = bundled_folder(bare) or expand_home(bare)
    if folder.is_dir():
        folder = _snapshot(folder, revision)
        if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
            raise InputError(
                f"model {bare!r}: the folder holds an adapter alone; name its base, BASE?adapter={bare}"
            )
        if not any((folder / file).is_file() for file in ("config.json", "tokenizer.json")):
            raise InputError(
                f"model {bare!r}: the folder holds no config.json; name a saved transformers model"
            )
        return Location(name=str(folder), local=True, revision="")
    if not _is_hub_name(bare):
        raise UnknownNameError(
            "model", bare, _neighbours(bare), "give a folder, a hub name or a bundled name"
        )
    return Location(name=bare, local=False, revision=revision)


def _snapshot(folder: Path, revision: str) -> Path:
    """The files of a revision in a folder of the hub's cache (``models--OWNER--NAME``); else the folder.

    Raises:
        InputError: The cache holds no such revision.
    """
    held = folder / "snapshots"
    if not held.is_dir() or (folder / "config.json").is_file():
        return folder
    named = folder / "refs" / (revision or "main")
    commits = sorted(entry.name for entry in held.iterdir() if entry.is_dir())
    wanted = named.read_text(encoding="utf-8").strip() if named.is_file() else revision
    found = [commit for commit in commits if commit.startswith(wanted)]
    if len(found) == 1:
        return held / found[0]
    raise InputError(
        f"model {str(folder)!r}: this cache of the hub holds {', '.join(commits) or 'no snapshot'}, not "
        f"{(wanted or revision or 'main')!r}; name one as {folder}@REVISION"
    )


def hub_name(folder: Path) -> str:
    """The name on the hub of a snapshot in its cache; empty for any other folder."""
    found = next((part for part in reversed(folder.parts) if part.startswith("models--")), "")
    return found.removeprefix("models--").replace("--", "/")


def _is_hub_name(name: str) -> bool:
    return not name.startswith(".") and bool(re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name, re.ASCII))


def _neighbours(name: str) -> list[str]:
    parent = expand_home(name).parent
    siblings = [entry for entry in parent.iterdir() if entry.is_dir()] if parent.is_dir() else []
    return [*bundled_names(), *(str(Path(name).parent / entry.name) for entry in siblings)]


def content_hash(folder: str) -> str:
    """Hash a model folder's configuration, vocabulary and weights into 32 hexadecimal digits."""
    return files_hash(content_files(Path(folder)))


def content_files(folder: Path) -> list[Path]:
    """A model folder's configuration, vocabulary, code and weights, by name."""
    held = sorted(path for path in folder.iterdir() if path.is_file())
    files = [path for path in held if path.suffix in _CONTENT]
    if not any(path.suffix == ".safetensors" for path in files):
        # Pickles count where they are what is read.
        files = [path for path in held if path in files or path.match("pytorch_model*.bin")]
    return files


def files_hash(files: Iterable[Path]) -> str:
    """Hash files with their names, in the order given, into 32 hexadecimal digits."""
    return _files_hash(file_stamps(files))


@lru_cache(maxsize=16)
def _files_hash(stamps: tuple[FileStamp, ...]) -> str:
    whole = hashlib.blake2b(digest_size=16)
    for path, *_ in stamps:
        with Path(path).open("rb") as handle:
            digest = hashlib.file_digest(handle, lambda: hashlib.blake2b(digest_size=16)).digest()
        whole.update(Path(path).name.encode() + b"\0" + digest)
    return whole.hexdigest()
