"""A model as every machine finds it that sees one folder: by what it holds, not by where it lies here."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from sonde.base.errors import StoreError
from sonde.models._adapting import adapter_files, adapter_location
from sonde.models._bundled import bundled_folder
from sonde.models._family import ModelSpec
from sonde.models._files import revision_of
from sonde.models._naming import split_family
from sonde.models._resolve import content_files, content_hash, files_hash, locate, takes_texts


def stored(spec: ModelSpec, folder: Path) -> ModelSpec:
    """The specification by which another machine loads the very same model.

    A local checkpoint is copied below the folder under the hash of its files, unless it is there. A hub name
    gets the revision that it stands for on this machine. Bundled models come with sonde.

    Args:
        spec: The model, as this machine finds it.
        folder: An absolute path that every machine sees.

    Raises:
        StoreError: The folder cannot be written to, or is full.
        SondeError: The model is not there.
    """
    family, bare = split_family(spec.name)
    if spec.adapter:
        spec = dataclasses.replace(spec, adapter=_stored_adapter(spec, folder))
    if takes_texts(spec) or bundled_folder(bare):
        return spec
    place = locate(spec)
    if not place.local:
        return dataclasses.replace(spec, revision=revision_of(place))
    copy = folder / content_hash(place.name)
    if not copy.is_dir() or content_hash(str(copy)) != copy.name:
        _copy(spec.name, [*content_files(Path(place.name)), *Path(place.name).glob("*.jinja")], copy)
    return dataclasses.replace(spec, name=f"{family}:{copy}" if family else str(copy))


def _stored_adapter(spec: ModelSpec, folder: Path) -> str:
    """The adapter of a model, copied likewise; what comes from the hub with the revision that it has here."""
    place = adapter_location(spec)
    if not place.local:
        return f"{place.name}@{revision_of(place)}"
    files = adapter_files(spec)
    copy = folder / f"adapter-{files_hash(files)}"
    if not copy.is_dir() or files_hash([copy / file.name for file in files]) != files_hash(files):
        _copy(spec.adapter, files, copy)
    return str(copy)


def _copy(source: str, files: Iterable[Path], copy: Path) -> None:
    """Copy what is read of a checkpoint; a copy that was cut off does not bear the name of a whole one."""
    begun = copy.with_name(f".{copy.name}.{os.getpid()}.tmp")
    try:
        shutil.rmtree(copy, ignore_errors=True)
        begun.mkdir(parents=True)
        for file in files:
            shutil.copyfile(file, begun / file.name)
        begun.rename(copy)
    except OSError as error:
        shutil.rmtree(begun, ignore_errors=True)
        raise StoreError(
            f"cannot copy model {source!r} to {copy}: {error.strerror or error}; finished results are "
            "kept, free space and run again"
        ) from error
