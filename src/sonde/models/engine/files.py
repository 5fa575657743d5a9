"""Checkpoint files: where a model is, which files it has, and their safetensors headers.

A model's name leads to a bundled folder, a local folder, the hub, or a server. A model behind a server is
known only by name and is only asked in words. Files are found in their folder or on the hub, and each is read
within size limits. The header of a safetensors file says what the file holds and whether it is complete,
before a weight is read.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.files import FileStamp, expand_home, get_cache_folder, get_file_stamps, write_folder
from sonde.models.engine.external import is_encoder
from sonde.models.engine.family import Capabilities, ModelSpec, SpecialTokens
from sonde.models.engine.model_names import (
    PREFIX,
    bundled_folder,
    bundled_names,
    known_names,
    split_family,
    split_revision,
)
from sonde.models.engine.silence import format_error

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
    """Location of a model.

    Attributes:
        name: What transformers is given: a folder or a hub name.
        local: Whether it is a folder.
        revision: Hub revision; empty means the default branch.
    """

    name: str
    local: bool
    revision: str


def uses_server(spec: ModelSpec) -> bool:
    """Return whether a model is behind a server."""
    return spec.name.startswith(PREFIX)


def takes_texts(spec: ModelSpec) -> bool:
    """Return whether a model takes texts as they are: behind a server, or an encoder from outside."""
    return uses_server(spec) or is_encoder(spec)


def gguf_file(spec: ModelSpec) -> Path | None:
    """Find the GGUF file that a model is; None where it is none.

    Raises:
        UnknownNameError: There is no such file.
    """
    model_name, _ = split_revision(split_family(spec.name)[1])
    path = expand_home(model_name)
    if not spec.gguf:
        if path.suffix != SUFFIX or path.is_dir():
            return None
        if not path.is_file():
            raise UnknownNameError("model", model_name, _list_folder_files(path), "no file is there")
        return path
    if path.is_dir():
        file = path / spec.gguf
        if not file.is_file():
            raise UnknownNameError(f"GGUF file of {model_name!r}", spec.gguf, _list_folder_files(file))
        return file

    file = find_file(_locate(spec), spec.gguf)
    if file is None:
        raise InputError(f"model {model_name!r}: the hub gave no {spec.gguf!r}; see its files on the hub")
    return file


def _list_folder_files(file: Path) -> list[str]:
    return sorted(path.name for path in file.parent.glob(f"*{SUFFIX}"))


def _locate(spec: ModelSpec) -> Location:
    model_name, revision = split_revision(split_family(spec.name)[1])
    revision = spec.revision or revision
    folder = bundled_folder(model_name) or expand_home(model_name)
    if folder.is_dir():
        folder = _snapshot(folder, revision)
        if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
            raise InputError(
                f"model {model_name!r}: the folder has only an adapter; name its base, "
                f"BASE?adapter={model_name}"
            )
        if not any((folder / file).is_file() for file in ("config.json", "tokenizer.json")):
            raise InputError(
                f"model {model_name!r}: the folder has no config.json; name a saved transformers model"
            )
        return Location(name=str(folder), local=True, revision="")
    if model_name.startswith(".") or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", model_name, re.ASCII):
        raise UnknownNameError(
            "model", model_name, _neighbours(model_name), "give a folder, a hub name or a bundled name"
        )
    return Location(name=model_name, local=False, revision=revision)


def _snapshot(folder: Path, revision: str) -> Path:
    """Return the folder of a revision in the hub's cache (``models--OWNER--NAME``); else `folder`.

    Raises:
        InputError: The cache holds no such revision.
    """
    snapshots = folder / "snapshots"
    if not snapshots.is_dir() or (folder / "config.json").is_file():
        return folder
    reference = folder / "refs" / (revision or "main")
    commits = sorted(entry.name for entry in snapshots.iterdir() if entry.is_dir())
    commit_prefix = reference.read_text(encoding="utf-8").strip() if reference.is_file() else revision
    matches = [commit for commit in commits if commit.startswith(commit_prefix)]
    if len(matches) == 1:
        return snapshots / matches[0]
    raise InputError(
        f"model {str(folder)!r}: the hub cache has {', '.join(commits) or 'no snapshot'}, not "
        f"{commit_prefix or revision or 'main'!r}; name one as {folder}@REVISION"
    )


def hub_name(folder: Path) -> str:
    """Return the hub name of a snapshot in the hub's cache; empty for any other folder."""
    folder_name = next((part for part in reversed(folder.parts) if part.startswith("models--")), "")
    return folder_name.removeprefix("models--").replace("--", "/")


def _neighbours(name: str) -> list[str]:
    parent = expand_home(name).parent
    siblings = [entry for entry in parent.iterdir() if entry.is_dir()] if parent.is_dir() else []
    return [*bundled_names(), *(str(Path(name).parent / entry.name) for entry in siblings)]


def content_hash(folder: str) -> str:
    """Hash a model folder's configuration, vocabulary and weights into 32 hexadecimal digits."""
    return files_hash(content_files(Path(folder)))


def content_files(folder: Path) -> list[Path]:
    """List a model folder's configuration, vocabulary, code and weights, by name."""
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    files = [path for path in paths if path.suffix in _CONTENT]
    if not any(path.suffix == ".safetensors" for path in files):
        # Pickles count where they are what is read.
        files = [path for path in paths if path in files or path.match("pytorch_model*.bin")]
    return files


def files_hash(files: Iterable[Path]) -> str:
    """Hash files with their names, in the order given, into 32 hexadecimal digits."""
    return _files_hash(get_file_stamps(files))


@lru_cache(maxsize=16)
def _files_hash(stamps: tuple[FileStamp, ...]) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for path, *_ in stamps:
        with Path(path).open("rb") as handle:
            digest = hashlib.file_digest(handle, lambda: hashlib.blake2b(digest_size=16)).digest()
        hasher.update(Path(path).name.encode() + b"\0" + digest)
    return hasher.hexdigest()


WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"


INDEX_SUFFIX = ".index.json"


JSON_LIMIT = 64 << 20
"""Bytes that a configuration or an index may have; the largest published ones have a tenth of it."""


VOCABULARY_LIMIT = 1 << 30
"""Bytes that a file of a tokenizer may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFiles:
    """The files that hold a model's weights.

    Attributes:
        files: In the order of their names.
        pickled: Whether they are PyTorch pickles, which are read in a process of their own alone.
        index: Name of a weight to the name of its file; None where one file holds all.
    """

    files: tuple[Path, ...]
    pickled: bool
    index: dict[str, str] | None


def find_file(location: Location, name: str) -> Path | None:
    """Return a file of a model, or None if it has none or it cannot be fetched."""
    if location.local:
        path = Path(location.name) / name
        return path if path.is_file() else None
    return _download_file(location, name, resolve_commit(location))


def resolve_commit(location: Location) -> str:
    """Return the commit of a hub name, requested once, so that all files of a model are of one commit.

    Where the hub does not tell, what the user named.
    """
    try:
        return _commit(location)
    except LookupError:
        return location.revision or "main"


@lru_cache(maxsize=64)
def _commit(location: Location) -> str:
    from transformers.utils.hub import extract_commit_hash

    files = () if location.local else ("config.json", "adapter_config.json")
    path = next(
        filter(None, (_download_file(location, name, location.revision or "main") for name in files)), None
    )
    commit = extract_commit_hash(None if path is None else str(path), None)
    if commit is None:
        # An answer that was not had is asked for again.
        raise LookupError(location.name)
    return commit


def _download_file(location: Location, name: str, revision: str) -> Path | None:
    from transformers.utils.hub import cached_file

    try:
        path = cached_file(
            location.name,
            name,
            revision=revision,
            # Of a model in the cache, a file that is not there is absent, whoever asks.
            _raise_exceptions_for_gated_repo=name == "config.json",
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except OSError as error:
        if (access_error := _access_error(location, error)) is None:
            raise
        raise access_error from error
    return None if path is None else Path(path)


def _access_error(location: Location, error: OSError) -> InputError | UsageError | None:
    """Return the error of a model that the hub lacks or does not give; None for any other."""
    from huggingface_hub import get_token
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    page = f"{ENDPOINT}/{location.name}"
    match error.__cause__:
        case GatedRepoError() if get_token():
            steps = (
                f"the token of this machine has no access to it; accept the terms on {page} with the account "
                "of the token, and run again once access is granted"
            )
        case GatedRepoError():
            steps = (
                f"accept the terms on {page}, then log in with `hf auth login` or set HF_TOKEN, and run again"
            )
        case RepositoryNotFoundError():
            return UnknownNameError(
                "model", location.name, known_names(), "if it is private, log in to the hub"
            )
        case RevisionNotFoundError():
            return InputError(f"model {location.name!r} has no revision {location.revision!r}; see {page}")
        case _:
            return None
    return InputError(f"model {location.name!r} is gated: {steps}")


def find_weights(location: Location, model: str) -> WeightFiles:
    """Find a model's weights: safetensors if there are any, else pickles.

    Args:
        location: Where the model is.
        model: Its name, for errors.

    Raises:
        InputError: There are none, or an index names a file that is missing or not beside it.
    """
    for name in (WEIGHTS, PICKLED):
        file = find_file(location, name)
        if file is not None:
            return WeightFiles(files=(file,), pickled=name == PICKLED, index=None)
        index = find_file(location, name + INDEX_SUFFIX)
        if index is not None:
            return _find_shards(location, model, index, name)
    raise InputError(
        f"model {model!r}: it has neither {WEIGHTS} nor {PICKLED}; "
        "name a folder or revision with PyTorch weights"
    )


def _find_shards(location: Location, model: str, index: Path, kind: str) -> WeightFiles:
    content = read_object(index, model)
    parts = content.get("weight_map")
    if not isinstance(parts, dict) or not parts or not isinstance(content.get("metadata"), dict):
        raise InputError(f"model {model!r}: {index.name} lacks weight_map or metadata; fetch the file again")
    parts = cast("dict[str, str]", parts)
    suffix = Path(kind).suffix
    files: list[Path] = []
    for name in sorted({str(part) for part in parts.values()}):
        # The hash of a model is that of the files of its folder, so nothing else may be read.
        if name != Path(name).name or "\\" in name or not name.endswith(suffix):
            raise InputError(
                f"model {model!r}: {index.name} names {name!r}, which is not a {suffix} file "
                "next to it; put all weights into the model's own folder"
            )
        file = find_file(location, name)
        if file is None:
            raise InputError(f"model {model!r}: {index.name} names {name!r}, which is missing; fetch it")
        files.append(file)
    return WeightFiles(files=tuple(files), pickled=kind == PICKLED, index=parts)


def check_size(path: Path, model: str, limit: int) -> None:
    """Refuse a file of more bytes than are read.

    Raises:
        InputError: It is too large.
    """
    size = path.stat().st_size
    if size > limit:
        raise InputError(
            f"model {model!r}: {path.name} has {size} bytes, more than the {limit} that are "
            "read; it is not a file of a model"
        )


def read_object(path: Path, model: str, *, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """Read a JSON object from a file of bounded size.

    Raises:
        InputError: It is too large, is no JSON, or holds something else than an object.
    """
    check_size(path, model, limit)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        value = None
    except ValueError as error:
        raise InputError(
            f"model {model!r}: {path.name} is not valid JSON: {format_error(error)}; fetch the file again"
        ) from error
    if not isinstance(value, dict):
        raise InputError(f"model {model!r}: {path.name} is not a JSON object; fetch the file again")
    return cast("dict[str, Any]", value)


def small_files(folder: Path) -> Iterable[Path]:
    """Yield the configuration, vocabulary and code of a model's folder, without weights and their indexes."""
    for path in sorted(folder.iterdir()):
        is_small_file = path.suffix in (".json", ".txt", ".model", ".py") and not path.name.endswith(
            INDEX_SUFFIX
        )
        if is_small_file and path.is_file():
            yield path


_LFS = b"version https://git-lfs"


_LIMIT = 100_000_000
"""Bytes of a header that safetensors itself takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One entry of a header.

    Attributes:
        dtype: As safetensors names it (``F32``, ``BF16``).
        shape: Its axes.
        bytes: What it takes in the file.
    """

    dtype: str
    shape: tuple[int, ...]
    bytes: int


def check_not_pointer(path: Path, model: str) -> None:
    """Refuse the pointer that Git leaves where the weights were not fetched.

    Raises:
        InputError: The file is one.
    """
    with path.open("rb") as handle:
        if handle.read(len(_LFS)) == _LFS:
            raise InputError(
                f"model {model!r}: {path.name} is a pointer of Git LFS, not the weights; fetch them with "
                "`git lfs pull`"
            )


def read_header(path: Path, model: str) -> dict[str, Tensor]:
    """Read the header of a safetensors file: its tensors by name.

    Args:
        path: The file.
        model: Whose it is, for errors.

    Raises:
        InputError: The file is a pointer of Git LFS, was fetched by half, or is no safetensors.
    """
    check_not_pointer(path, model)
    subject = f"model {model!r}: {path.name}"
    size = path.stat().st_size
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if size < 8 or (length <= _LIMIT and 8 + length > size):
            raise InputError(f"{subject} ends inside its header ({size} bytes); fetch the file again")
        if length > _LIMIT:
            raise InputError(f"{subject} is not a safetensors file; fetch it again")
        raw = handle.read(length)
    try:
        tensors = _tensors(json.loads(raw))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"{subject} has a damaged header; fetch the file again") from error
    expected_size = 8 + length + sum(tensor.bytes for tensor in tensors.values())
    if expected_size != size:
        fault = "was fetched incompletely" if size < expected_size else "does not match its header"
        raise InputError(f"{subject} {fault}: {size} of {expected_size} bytes; fetch the file again")
    return tensors


def read_headers(files: Iterable[Path], model: str) -> dict[str, Tensor]:
    """Return the tensors of several safetensors files, by name; see `read_header`."""
    return {name: tensor for path in files for name, tensor in read_header(path, model).items()}


def _tensors(header: dict[str, Any]) -> dict[str, Tensor]:
    header.pop("__metadata__", None)
    tensors: dict[str, Tensor] = {}
    for name, entry in header.items():
        first, last = cast("list[int]", entry["data_offsets"])
        shape = tuple(int(axis) for axis in entry["shape"])
        tensors[name] = Tensor(dtype=str(entry["dtype"]), shape=shape, bytes=last - first)
    return tensors


ADAPTER_CONFIG, ADAPTER_WEIGHTS, ADAPTER_PICKLED = (
    "adapter_config.json",
    "adapter_model.safetensors",
    "adapter_model.bin",
)


def adapter_location(spec: ModelSpec) -> Location:
    """Return the location of a model's adapter.

    Raises:
        InputError: No folder and no hub name is called so.
    """
    adapter_name, revision = split_revision(spec.adapter)
    folder = expand_home(adapter_name)
    if folder.is_dir():
        return Location(name=str(folder), local=True, revision="")
    if adapter_name.startswith((".", "/", "~")) or adapter_name.count("/") != 1:
        raise InputError(
            f"model {spec.name!r}: adapter {adapter_name!r}: no such folder; name one that PEFT saved"
        )
    return Location(name=adapter_name, local=False, revision=revision)


def adapter_files(spec: ModelSpec) -> tuple[Path, Path]:
    """Return the configuration and the weights of a model's adapter.

    Raises:
        InputError: One is missing, or the weights are a pickle.
    """
    subject, location = f"model {spec.name!r}: adapter {spec.adapter!r}", adapter_location(spec)
    config = find_file(location, ADAPTER_CONFIG)
    if config is None:
        raise InputError(f"{subject} has no {ADAPTER_CONFIG}; name a folder that PEFT saved")
    weights = find_file(location, ADAPTER_WEIGHTS)
    if weights is None:
        has_pickle = find_file(location, ADAPTER_PICKLED) is not None
        raise InputError(
            f"{subject} has its weights as a pickle, {ADAPTER_PICKLED}, which can hold any program; save it "
            "again with safe_serialization"
            if has_pickle
            else f"{subject} has no {ADAPTER_WEIGHTS}; fetch it again"
        )
    return config, weights


def adapter_hash(spec: ModelSpec) -> str:
    """Hash an adapter's configuration and weights into 16 hexadecimal digits, with PEFT's version."""
    return f"{files_hash(adapter_files(spec))[:16]}-peft-{version('peft')}"


def check_folder_empty(folder: Path) -> None:
    """Check that a folder that a user named can be written.

    Raises:
        UsageError: It holds something, or is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"folder {str(folder)!r} is not empty; name a new one")


def convert_once(cache: str, files: Iterable[Path], version: str, convert: Callable[[Path], object]) -> Path:
    """Return the folder in sonde's cache that holds what files are converted to; written on first use.

    Args:
        cache: The cache's name.
        files: The folder is named by their content.
        version: Version of the conversion, a part of that name.
        convert: Fills the empty folder that it is given.

    Raises:
        StoreError: The cache cannot be written.
    """
    folder = get_cache_folder(cache) / f"{files_hash(files)}-{version}"
    if not folder.is_dir():
        write_folder(folder, convert)
    return folder


def copy_files(files: Iterable[Path], folder: Path) -> None:
    """Copy files into a folder, but those that it has."""
    for path in files:
        if not (folder / path.name).exists():
            shutil.copyfile(path, folder / path.name)
