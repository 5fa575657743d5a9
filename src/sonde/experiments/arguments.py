"""Arguments of a caller (command line or Python) as an experiment and its execution.

Options that a caller gives override those of an experiment.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from sonde.base.errors import UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.options import Option, parse_value
from sonde.capture.settings import CaptureOptions
from sonde.corpora import Selection, read_lock
from sonde.executors import count_cores
from sonde.experiments.catalogue import find_experiment_file
from sonde.experiments.experiment import Execution, Experiment, load_experiment
from sonde.languages import list_corpora
from sonde.lenses import DEFAULT_LENS, LENSES, get_option_type
from sonde.models import device_map_text, full_name
from sonde.models.engine.model_names import NONE

Record = TypeVar("Record", Experiment, Selection, CaptureOptions)


def build_selection(given: Mapping[str, Any]) -> Selection:
    """A selection with the options that were given; None stands for "not given"."""
    return _merge_fields(Selection(), given)


def merge_overrides(base: Experiment | None, given: Mapping[str, Any]) -> Experiment:
    """An experiment with what was given in place of its own.

    Args:
        base: What a file says.
        given: Fields of `Experiment`, `Selection` and `CaptureOptions` by name; None stands for "not given".
            ``options`` are laid over the file's one by one.

    Raises:
        UnknownNameError: A mode that does not exist.
    """
    start = base or Experiment()
    merged: dict[str, Any] = {
        **given,
        "selection": _merge_fields(start.selection, given),
        "capture": _merge_fields(start.capture, given),
    }
    if options := given.get("options"):
        merged["options"] = {
            lens: {**start.options.get(lens, {}), **options.get(lens, {})}
            for lens in {**start.options, **options}
        }
    return _merge_fields(start, merged)


def with_full_names(experiment: Experiment) -> Experiment:
    """An experiment whose models say by their names what adapter and quantisation they have.

    Raises:
        UsageError: A name that cannot be read, or a model behind a server that is to have either.
    """
    names = [
        full_name(name, adapter=experiment.adapter, quantise=experiment.quantise)
        for name in experiment.models
    ]
    return dataclasses.replace(experiment, models=tuple(names), adapter="", quantise=NONE)


def _merge_fields(base: Record, given: Mapping[str, Any]) -> Record:
    """Plain data with the fields that were given, their lists as tuples."""
    values = {
        field.name: tuple(value) if isinstance(value, list) else value
        for field in dataclasses.fields(base)
        if (value := given.get(field.name)) not in (None, [], {})
    }
    return dataclasses.replace(base, **values)


def parse_options(texts: Sequence[str], lenses: Sequence[str]) -> dict[str, dict[str, Option]]:
    """Options that were written ``LENS.NAME=VALUE``, by lens and name, of the types that they have there.

    >>> parse_options(["surprisal.min_count=50"], ["surprisal"])
    {'surprisal': {'min_count': 50}}

    Args:
        texts: The options; a lens may be the path of a file.
        lenses: The lenses of the experiment; those of others are kept as they look.

    Raises:
        UsageError: A text is something else.
    """
    loaded = {source: LENSES.load(source) for source in lenses}
    loaded |= {lens.name: lens for lens in loaded.values()}
    options: dict[str, dict[str, Option]] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        source, dot, name = path.rpartition(".")
        if not (equals and dot and source and name):
            raise UsageError(f"option {text!r}: expected LENS.NAME=VALUE, for example {_example_option()}")
        lens = loaded.get(source)
        read = get_option_type(lens).written(name, value) if lens else parse_value(value)
        options.setdefault(lens.name if lens else source, {})[name] = read
    return options


def _example_option() -> str:
    """An option that there is, as it is written."""
    known = get_option_type(LENSES.load(DEFAULT_LENS)).describe()
    one = next(one for one in known if one.values.kind is int and not one.scoring)
    return f"{DEFAULT_LENS}.{one.name}={one.default}"


def default_output(experiment: Experiment, name: str | None) -> Path:
    """The folder of a run that names none: the same arguments give the same folder, so it goes on there."""
    return Path("runs") / f"{name or '-'.join(experiment.lenses)}-{fingerprint(experiment)[:8]}"


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
    demo. Languages without a corpus are read in the first of `sonde.languages.list_corpora`.

    Raises:
        UsageError: A value of the wrong type, outside its range, or that contradicts another.
        InputError: The experiment or lock file cannot be read.
    """
    if lock is not None and corpora is None:
        corpora = read_lock(Path(lock)).corpus
    given: dict[str, Any] = {
        "models": as_tuple("models", models),
        "lenses": as_tuple("lenses", lenses),
        "tasks": as_tuple("tasks", tasks),
        "corpora": as_tuple("corpora", corpora),
        "quirks": as_tuple("quirks", quirks),
        "mode": mode,
        "adapter": None if adapter is None else os.fspath(adapter),
        "quantise": quantise,
        "include_seen": include_seen,
        "unit": unit,
        "languages": as_tuple("languages", languages),
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
    source, name = (None, None) if file is None else find_experiment_file(Path(file))
    if experiment is None and source is None:
        if not options and all(one is None for what, one in given.items() if what != "languages"):
            source, name = _DEMO, _DEMO.stem
        given["corpora"] = given["corpora"] or _default_corpora(given["languages"] or ())
    base = load_experiment(source) if source else experiment or Experiment()
    given["options"] = _group_options(options or {}, given["lenses"] or base.lenses)
    wanted = with_full_names(merge_overrides(base, given))
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
        light_workers=count_cores() if workers is None else workers,
        lock=None if lock is None else Path(lock),
        trust_remote_code=trust_remote_code,
        **{name: value for name, value in where.items() if value is not None},
    )
    return wanted, execution


def as_tuple(what: str, names: Names | None) -> tuple[str, ...] | None:
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


def _default_corpora(languages: Sequence[str]) -> tuple[str, ...] | None:
    """A corpus of each language; None where no language says one."""
    return tuple(dict.fromkeys(corpus for one in languages for corpus in list_corpora(one)[:1])) or None


def _group_options(given: GivenOptions, lenses: Sequence[str]) -> dict[str, dict[str, Option]]:
    """Values by lens and name; several of one option become one text, as they are written in a file."""
    if isinstance(given, Mapping):
        return {
            lens: {
                name: ",".join(map(str, value)) if isinstance(value, list | tuple) else value
                for name, value in _check_lens_options(lens, held).items()
            }
            for lens, held in given.items()
        }
    return parse_options([given] if isinstance(given, str) else given, lenses)


def _check_lens_options(lens: str, held: object) -> Mapping[str, Option]:
    if not isinstance(held, Mapping):
        raise UsageError(f"options of lens {lens!r} = {held!r} are not values by name")
    return cast("Mapping[str, Option]", held)
