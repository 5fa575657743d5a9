"""Files of a model as a run sees them: it plans with these files and reads no others.

`point_to_folder` and its helpers describe a model as every machine that shares a folder finds it: by its
content, not by its path on this machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from sonde.base.errors import InputError
from sonde.base.files import write_folder
from sonde.models.engine.family import ModelSpec
from sonde.models.engine.files import (
    Location,
    Tensor,
    _locate,
    adapter_files,
    adapter_hash,
    adapter_location,
    content_files,
    content_hash,
    copy_files,
    files_hash,
    find_weights,
    gguf_file,
    read_headers,
    resolve_commit,
    takes_texts,
)
from sonde.models.engine.model_names import bundled_folder, split_family


def locate_model(spec: ModelSpec) -> Location:
    """Find a model without opening it; a GGUF file is where sonde keeps what it makes of it.

    Raises:
        UnknownNameError: The name looks like a path or a bundled name, and nothing is there.
        InputError: The folder holds no model, or the GGUF file cannot be read.
    """
    if (file := gguf_file(spec)) is not None:
        from sonde.models.engine.gguf import convert_gguf

        return Location(name=str(convert_gguf(file, spec.full_name)), local=True, revision="")
    return _locate(spec)


def pin_revision(spec: ModelSpec) -> ModelSpec:
    """Return the specification of a model's files as they are now; loading it refuses any others.

    Raises:
        UnknownNameError: No model has this name.
        InputError: An adapter cannot be found.
    """
    return spec if takes_texts(spec) else dataclasses.replace(spec, content=_content(spec))


def files_revision(spec: ModelSpec) -> str:
    """Return the commit of a model on the hub, or the hash of its folder's files, or of its GGUF file."""
    if (file := gguf_file(spec)) is not None:
        return f"gguf-{files_hash([file])}"
    location = locate_model(spec)
    return content_hash(location.name) if location.local else resolve_commit(location)


def _content(spec: ModelSpec) -> str:
    adapter = f"+{adapter_hash(spec)}" if spec.adapter else ""
    return f"{files_revision(spec)}{adapter}"


def check_content(spec: ModelSpec) -> None:
    """Refuse weights that are not those that a run has planned with, and files its numbers under.

    Raises:
        InputError: The files were written again.
    """
    if spec.content and _content(spec) != spec.content:
        raise InputError(
            f"model {spec.name!r}: its files were written again after the run had begun; repeat the command "
            "to read them as they are now"
        )


def point_to_folder(spec: ModelSpec, folder: Path) -> ModelSpec:
    """Return the specification by which another machine loads the very same model.

    A local checkpoint is copied below the folder under the hash of its files, unless it is there. A hub name
    gets the revision that it stands for on this machine. Bundled models come with sonde.

    Args:
        spec: The model, as this machine finds it.
        folder: An absolute path that every machine sees.

    Raises:
        StoreError: The folder cannot be written to, or is full.
        SondeError: The model is not there.
    """
    family, model_name = split_family(spec.name)
    if spec.adapter:
        spec = dataclasses.replace(spec, adapter=_stored_adapter(spec, folder))
    if takes_texts(spec) or bundled_folder(model_name):
        return spec
    location = locate_model(spec)
    if not location.local:
        return dataclasses.replace(spec, revision=resolve_commit(location))
    copy = folder / content_hash(location.name)
    if not copy.is_dir() or content_hash(str(copy)) != copy.name:
        _copy([*content_files(Path(location.name)), *Path(location.name).glob("*.jinja")], copy)
    return dataclasses.replace(spec, name=f"{family}:{copy}" if family else str(copy))


def _stored_adapter(spec: ModelSpec, folder: Path) -> str:
    """Copy the adapter of a model likewise; one from the hub gets its revision on this machine."""
    location = adapter_location(spec)
    if not location.local:
        return f"{location.name}@{resolve_commit(location)}"
    files = adapter_files(spec)
    copy = folder / f"adapter-{files_hash(files)}"
    if not copy.is_dir() or files_hash([copy / file.name for file in files]) != files_hash(files):
        _copy(files, copy)
    return str(copy)


def _copy(files: Iterable[Path], copy: Path) -> None:
    write_folder(copy, lambda new_folder: copy_files(files, new_folder), replace=True)


def local_headers(spec: ModelSpec) -> dict[str, Tensor]:
    """Read the safetensors headers of a local folder; empty for pickles and for models on the hub.

    Raises:
        InputError: A file is missing or damaged.
    """
    location = locate_model(spec)
    weights = find_weights(location, spec.name) if location.local else None
    if weights is None or weights.pickled:
        return {}
    return read_headers(weights.files, spec.name)
