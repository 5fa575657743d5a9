"""What a caller names, on the command line or from Python, to an experiment and how it is carried out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from sonde.base.errors import UsageError
from sonde.base.options import Option
from sonde.corpora import read_lock
from sonde.executors import cores
from sonde.experiments._experiment import Execution, Experiment, load_experiment
from sonde.experiments.overrides import default_output, overridden, with_full_names, written_options
from sonde.experiments.replication import experiment_file
from sonde.languages import corpora_of
from sonde.models import device_map_text

Place = str | os.PathLike[str]
"""A file or folder."""

Names = Place | Sequence[Place]
"""One name, or several; what is handed in as a file may be named by its path."""

DeviceMap = Place | Mapping[str, str | int]
"""Where the parts of a model lie: a policy of accelerate, devices by module, or a file of them."""

GivenOptions = Mapping[str, Mapping[str, Option | Sequence[Option]]] | Sequence[str]
"""Options by lens and name, or each as a text ``LENS.NAME=VALUE``."""

_DEMO = Path(__file__).parent / "demo.toml"


def from_arguments(
    *,
    experiment: Experiment | None = None,
    file: Place | None = None,
    models: Names | None = None,
    lenses: Names | None = None,
    tasks: Names | None = None,
    corpora: Names | None = None,
    languages: Names | None = None,
    unit: str | None = None,
    limit: int | None = None,
    per_cluster: int | None = None,
    cut_off: str | None = None,
    transform: str | None = None,
    context: int | None = None,
    stride: int | None = None,
    bos: str | None = None,
    mode: str | None = None,
    quirks: Names | None = None,
    adapter: Place | None = None,
    quantise: str | None = None,
    seed: int | None = None,
    options: GivenOptions | None = None,
    include_seen: bool | None = None,
    lock: Place | None = None,
    output: Place | None = None,
    executor: str | None = None,
    address: str | None = None,
    shard: str | None = None,
    budget: str | None = None,
    workers: int | None = None,
    device: str | None = None,
    device_map: DeviceMap | None = None,
    dtype: str | None = None,
    batch_tokens: int | None = None,
    trust_remote_code: bool = False,
) -> tuple[Experiment, Execution]:
    """What is measured and how, with the defaults that a run has; `sonde.run` says what each argument is.

    None stands for "not given"; where nothing is given of what is measured, or languages alone, it is the
    demo. Languages without a corpus are read in the first of `sonde.languages.corpora_of`.

    Raises:
        UsageError: A value of the wrong type, outside its range, or that contradicts another.
        InputError: The experiment or lock file cannot be read.
    """
    if lock is not None and corpora is None:
        corpora = read_lock(Path(lock)).corpus
    given: dict[str, Any] = {
        "models": several("models", models),
        "lenses": several("lenses", lenses),
        "tasks": several("tasks", tasks),
        "corpora": several("corpora", corpora),
        "quirks": several("quirks", quirks),
        "mode": mode,
        "adapter": None if adapter is None else os.fspath(adapter),
        "quantise": quantise,
        "include_seen": include_seen,
        "unit": unit,
        "languages": several("languages", languages),
        "limit": limit,
        "per_cluster": per_cluster,
        "cut_off": cut_off,
        "transform": transform,
        "context": context,
        "stride": stride,
        "bos": bos,
        "seed": seed,
    }
    if experiment is not None and file is not None:
        raise UsageError("both an experiment and an experiment file are given; give one of them")
    source, name = (None, None) if file is None else experiment_file(Path(file))
    if experiment is None and source is None:
        if not options and all(one is None for what, one in given.items() if what != "languages"):
            source, name = _DEMO, _DEMO.stem
        given["corpora"] = given["corpora"] or _corpora_of(given["languages"] or ())
    base = load_experiment(source) if source else experiment or Experiment()
    given["options"] = _by_lens(options or {}, given["lenses"] or base.lenses)
    wanted = with_full_names(overridden(base, given))
    folder = default_output(wanted, name) if output is None else Path(output)
    if shard is not None and output is None:
        folder = folder.with_name(f"{folder.name}-{shard.replace('/', '-of-')}")
    where: dict[str, Any] = {
        "executor": executor,
        "address": address,
        "shard": shard,
        "budget": budget,
        "workers": workers,
        "device": device,
        "device_map": None if device_map is None else device_map_text(device_map),
        "dtype": dtype,
        "batch_tokens": batch_tokens,
    }
    execution = Execution(
        output=folder,
        light_workers=cores() if workers is None else workers,
        lock=None if lock is None else Path(lock),
        trust_remote_code=trust_remote_code,
        **{name: value for name, value in where.items() if value is not None},
    )
    return wanted, execution


def several(what: str, names: Names | None) -> tuple[str, ...] | None:
    """One name or several as a tuple; None stays.

    Raises:
        UsageError: It names nothing, or is no name.
    """
    if names is None:
        return None
    if isinstance(names, str | os.PathLike):
        names = (names,)
    try:
        given = tuple(os.fspath(name) for name in names)
    except TypeError:
        raise UsageError(f"{what} = {names!r} is neither a name nor a list of names") from None
    if not given or "" in given:
        raise UsageError(f"{what} = {names!r} names nothing; leave it out for the default")
    return given


def _corpora_of(languages: Sequence[str]) -> tuple[str, ...] | None:
    """A corpus of each language; None where no language says one."""
    return tuple(dict.fromkeys(corpus for one in languages for corpus in corpora_of(one)[:1])) or None


def _by_lens(given: GivenOptions, lenses: Sequence[str]) -> dict[str, dict[str, Option]]:
    """Values by lens and name; several of one option become one text, as they are written in a file."""
    if isinstance(given, Mapping):
        return {
            lens: {
                name: ",".join(map(str, value)) if isinstance(value, list | tuple) else value
                for name, value in _of_lens(lens, held).items()
            }
            for lens, held in given.items()
        }
    return written_options([given] if isinstance(given, str) else given, lenses)


def _of_lens(lens: str, held: object) -> Mapping[str, Option]:
    if not isinstance(held, Mapping):
        raise UsageError(f"options of lens {lens!r} = {held!r} are not values by name")
    return cast("Mapping[str, Option]", held)
