"""Model names as users write them, the bundled models, and what a model says it was trained on.

A name has the form ``[FAMILY.py:]NAME[@REVISION][?gguf=FILE&adapter=PATH&quantise=8bit]``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import UInt64

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.files import expand_home
from sonde.models.engine.family import ModelSpec
from sonde.results.schema import scan_files

PREFIX = "openai:"
"""What stands before the name of a model that a server with OpenAI's protocol runs."""


NONE = "none"


QUANTISATIONS = (NONE, "8bit", "4bit")
"""How bitsandbytes may hold the weights of linear layers: as they are, in 8 bits (LLM.int8) or in 4 (NF4)."""


_OPTIONS = ("gguf", "adapter", "quantise")
"""What may stand behind the question mark, in the order in which names in tables have it."""


def split_revision(name: str) -> tuple[str, str]:
    """Split ``name@revision``; a folder whose path holds an ``@`` is a name.

    >>> split_revision("bigcode/santacoder@dedup")
    ('bigcode/santacoder', 'dedup')
    >>> split_revision("gpt2")
    ('gpt2', '')
    """
    if "@" not in name or expand_home(name).is_dir():
        return name, ""
    model_name, _, revision = name.rpartition("@")
    return model_name, revision


def split_family(name: str) -> tuple[str, str]:
    """Split ``FAMILY.py:MODEL`` into the file of a model family and the model; the file is empty without one.

    >>> split_family("./my_family.py:./checkpoint")
    ('./my_family.py', './checkpoint')
    >>> split_family("gpt2")
    ('', 'gpt2')
    """
    stem, separator, model = name.partition(".py:")
    return (f"{stem}.py", model) if separator else ("", name)


def split_options(name: str) -> tuple[str, dict[str, str]]:
    """Split what stands behind the question mark of a name; a folder whose path holds one is a name.

    >>> split_options("gpt2?quantise=8bit")
    ('gpt2', {'quantise': '8bit'})

    Raises:
        UnknownNameError: An option or a quantisation that there is not.
        UsageError: Something else than ``option=value`` stands there.
    """
    if "?" not in name or name.startswith(PREFIX) or expand_home(split_family(name)[1]).is_dir():
        return name, {}
    model_name, _, options_text = name.partition("?")
    options: dict[str, str] = {}
    for part in options_text.split("&"):
        option, equals, value = part.partition("=")
        if option not in _OPTIONS:
            raise UnknownNameError(f"option of model {name!r}", option, _OPTIONS)
        if not equals or not value or option in options:
            raise UsageError(
                f"model {name!r}: {part!r} is not OPTION=VALUE, each once; for example "
                f"{model_name}?quantise=8bit"
            )
        options[option] = value
    if (quantise := options.get("quantise", NONE)) not in QUANTISATIONS:
        raise UnknownNameError(f"quantise of model {name!r}", quantise, QUANTISATIONS)
    return model_name, options


def full_name(name: str, *, adapter: str = "", quantise: str = NONE) -> str:
    """Build a name with the settings of all models of a run, unless the name has its own.

    >>> full_name("gpt2?adapter=./lora", quantise="8bit")
    'gpt2?adapter=./lora&quantise=8bit'
    >>> full_name("gpt2?quantise=none", quantise="8bit")
    'gpt2'

    Raises:
        UsageError: The name cannot be read, or is that of a model behind a server.
    """
    model_name, name_options = split_options(name)
    if name.startswith(PREFIX):
        if adapter or quantise != NONE:
            raise UsageError(
                f"model {name!r} runs on a server, which has its weights; leave out --adapter and --quantise"
            )
        return name
    options = {"gguf": NONE, "adapter": adapter or NONE, "quantise": quantise} | name_options
    parts = [f"{option}={options[option]}" for option in _OPTIONS if options[option] != NONE]
    return f"{model_name}?{'&'.join(parts)}" if parts else model_name


def parse_spec(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    device_map: str = "",
    trust_remote_code: bool = False,
) -> ModelSpec:
    """Parse a name into the specification to load.

    Args:
        name: As a user writes it.
        device: Where it runs.
        dtype: Type of its numbers.
        device_map: Where its parts lie, as text; empty for all on the device.
        trust_remote_code: Whether a model's own code may run.

    Raises:
        UsageError: The name cannot be read.
    """
    model_name, options = split_options(name)
    model_name, revision = split_revision(model_name)
    settings = {option: value for option, value in options.items() if value != NONE}
    return ModelSpec(
        name=model_name,
        revision=revision,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        gguf=settings.get("gguf", ""),
        adapter=settings.get("adapter", ""),
        quantise=settings.get("quantise", ""),
        device_map=device_map,
    )


_PREFIX = "sonde/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFiles:
    """Files beside a model's weights that say what it has seen; None where there is none.

    Attributes:
        files: One row a training file, with version, licence and hash.
        seen: ``item_hash``: first 16 digits of the ids of all items trained on, as sorted numbers.
        frequencies: ``subword_id, count`` in the training data.
    """

    files: Path | None
    seen: Path | None
    frequencies: Path | None


def bundled_names() -> tuple[str, ...]:
    """Return the public names of the bundled models, sorted."""
    home = _home()
    if not home.is_dir():
        return ()
    folders = [folder for folder in home.iterdir() if (folder / "config.json").is_file()]
    return tuple(sorted(_PREFIX + folder.name for folder in folders))


@lru_cache(maxsize=1)
def read_catalogue() -> dict[str, dict[str, Any]]:
    """Read the table of published checkpoints, by name."""
    return tomllib.loads((files("sonde.models") / "catalogue.toml").read_text(encoding="utf-8"))


def known_names() -> tuple[str, ...]:
    """Return the names of the bundled models and of the published checkpoints in the catalogue."""
    return (*bundled_names(), *read_catalogue())


def bundled_folder(name: str) -> Path | None:
    """Return the folder of a bundled model, or None for any other name.

    Raises:
        UnknownNameError: The name belongs to the bundled models but none of them has it.
    """
    if not name.startswith(_PREFIX):
        return None
    if name not in bundled_names():
        raise UnknownNameError("bundled model", name, bundled_names(), "see `sonde list models`")
    return _home() / name.removeprefix(_PREFIX)


def manifest(name: str) -> ManifestFiles:
    """Find the files that say what a model was trained on; any folder may contain them.

    What stands behind a name, revision or quantisation, does not change what its weights have seen.
    """
    model_name = split_revision(split_options(name)[0])[0]
    folder = bundled_folder(model_name) or expand_home(model_name)
    paths = {
        field: path if (path := folder / f"{file}.parquet").is_file() else None
        for field, file in (("files", "manifest"), ("seen", "seen"), ("frequencies", "frequencies"))
    }
    return ManifestFiles(**paths)


def find_training_file(name: str, text_hash: str) -> str:
    """Find a file among those that a model was trained on.

    Args:
        name: The model.
        text_hash: Hash of the text of the file.

    Returns:
        Distribution, version and path; empty if no training file of the manifest has this text.
    """
    path = manifest(name).files
    if path is None:
        return ""
    rows = scan_files(path).filter(pl.col("hash") == text_hash)
    columns = ("distribution", "version", "path")
    for distribution, version, file in rows.select(*columns).head(1).collect().iter_rows():
        return f"{' '.join(filter(None, (distribution, version)))}, {file}"
    return ""


def read_frequencies(name: str) -> pl.DataFrame | None:
    """Read ``subword_id, count`` in a model's training data, or return None if it has no such file."""
    path = manifest(name).frequencies
    return None if path is None else scan_files(path).collect()


def seen_items(name: str, item_ids: Iterable[str]) -> frozenset[str]:
    """Return the items that a model was trained on, as far as its manifest says."""
    path = manifest(name).seen
    ids = list(item_ids)
    if path is None or not ids:
        return frozenset()
    hashes = _hashes(path)
    item_hashes = np.array([int(item[:16], 16) for item in ids], np.uint64)
    positions = np.searchsorted(hashes, item_hashes)
    seen_mask = positions < len(hashes)
    seen_mask[seen_mask] = hashes[positions[seen_mask]] == item_hashes[seen_mask]
    return frozenset(item for item, is_seen in zip(ids, seen_mask.tolist(), strict=True) if is_seen)


@lru_cache(maxsize=2)
def _hashes(path: Path) -> UInt64[np.ndarray, " item"]:
    return np.sort(scan_files(path).select("item_hash").collect()["item_hash"].to_numpy())


def _home() -> Path:
    return Path(str(files("sonde.models"))) / "bundled"
