"""Arguments of a caller (command line or Python) as an experiment and its execution.

Options that a caller gives override those of an experiment.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar, Unpack, cast

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.options import Option, parse_value
from sonde.base.progress import Progress
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


class ModelArguments(TypedDict, total=False):
    """Keywords of `sonde.run` and `sonde.load_model`; None stands for "not given"."""

    adapter: Place | None
    """A PEFT adapter over each model."""

    quantise: str | None
    """``"8bit"`` or ``"4bit"``: bits of the weights of linear layers, by bitsandbytes."""

    device: str | None
    """``"auto"`` by default, ``"cpu"``, ``"cuda"``, ..."""

    device_map: DeviceMap | None
    """Where the parts of a model lie: ``"auto"``, or devices by module (also as a JSON file), ``"cpu"`` and
    ``"disk"`` among them; by default all on the device."""

    dtype: str | None
    """``"auto"`` by default (that of its weights, but float32 for float16 on a processor), ``"float32"``,
    ``"bfloat16"``, ``"float16"``, ``"tf32"``."""

    trust_remote_code: bool | None
    """Let a hub model run its code."""


class LabellingArguments(TypedDict, total=False):
    """Keywords of `sonde.run` and `sonde.label`; None stands for "not given"."""

    corpus: Names | None
    """One corpus; the same as ``corpora``."""

    languages: Names | None
    """Only these."""

    language: Names | None
    """One language; the same as ``languages``."""

    unit: str | None
    """What an item is: ``"function"`` or ``"file"``."""

    limit: int | None
    """At most this many items a task and language; a larger limit contains a smaller one."""

    seed: int | None
    """Seed of sampling and of everything random."""

    mode: str | None
    """``"corrected"``, or ``"paper"``: as published, quirks included."""

    quirks: Names | None
    """Single quirks of a paper that are switched on."""

    quirk: Names | None
    """One quirk; the same as ``quirks``."""

    executor: str | None
    """Where jobs run; this machine by default."""

    address: str | None
    """Where a Ray cluster answers; by default at ``RAY_ADDRESS``, else one is started here."""

    workers: int | None
    """Processes at a time; by default 1 with a model, else one a core."""


class RunArguments(LabellingArguments, ModelArguments, total=False):
    """Keywords of `sonde.run`; None stands for "not given"."""

    models: Names | None
    """Paths, hub names (``name@revision``) or bundled names; ``name?adapter=PATH&quantise=8bit`` for one with
    an adapter, or with weights of fewer bits."""

    model: Names | None
    """One model; the same as ``models``."""

    corpora: Names | None
    """``stdlib``, ``local:DIR``, ...; ``sonde list corpora``."""

    experiment: Experiment | None
    """What is measured, as plain data."""

    file: Place | None
    """Or an experiment file (TOML)."""

    lenses: Names | None
    """Public names or ``.py`` files; ``sonde list lenses``."""

    lens: Names | None
    """One lens; the same as ``lenses``."""

    tasks: Names | None
    """Run these instead of the defaults, public names or ``.py`` files; ``sonde list tasks``."""

    task: Names | None
    """One task; the same as ``tasks``."""

    per_cluster: int | None
    """At most this many items a cluster; 0 for no cap."""

    cut_off: str | None
    """Only items written wholly before this day (``"2024-12-31"``) or wholly since."""

    transform: str | None
    """The same programs in other words: ``"rename"``, ``"shuffle"``, ``"mislead"``, ``"layout"``,
    ``"comments"``, ``"docstrings"`` or ``"swap"``."""

    context: int | None
    """At most this many subwords are read at once."""

    stride: int | None
    """Subwords by which windows of a longer text are apart."""

    bos: str | None
    """Whether a text is read behind the token that begins one: ``"auto"``, ``"none"`` or ``"always"``."""

    options: GivenOptions | None
    """Options of lenses, ``{"probe": {"folds": 3}}``, or as on the command line, ``["probe.folds=3"]``;
    ``sonde list options``."""

    option: GivenOptions | None
    """One option, ``"probe.folds=3"``; the same as ``options``."""

    include_seen: bool | None
    """Score items of a bundled model's training data too."""

    lock: Place | None
    """Run on exactly the items of a lock file."""

    output: Place | None
    """Folder of the run, or an address (``s3://bucket/run``); by default a folder below ``runs/`` that is
    named after what is measured."""

    budget: str | None
    """A time, as ``"2h"``: the largest sample is taken whose expected time fits, the same again when the same
    call is repeated. Finding it out takes a few runs on some items, in processes of their own."""

    batch_tokens: int | None
    """Subwords that a model reads at once; fewer take less memory and change no score."""

    progress: Progress | None
    """Is told where the run stands; nothing is said by default."""


_PLURALS = {
    "model": "models",
    "lens": "lenses",
    "task": "tasks",
    "corpus": "corpora",
    "language": "languages",
    "quirk": "quirks",
    "option": "options",
}
"""Plural names of arguments that take several values, by the singular names of the command line."""


_CONVERSIONS: Mapping[str, Callable[[Any], object]] = {
    "adapter": os.fspath,
    "device_map": device_map_text,
    "file": Path,
    "lock": Path,
    "output": Path,
}
"""What arguments are read by, those apart that take several values."""


def collect_arguments(
    function: str, known: Iterable[str], keywords: Mapping[str, Any], **by_position: Any
) -> dict[str, Any]:
    """Return the arguments that are given, checked, under their plural names and with several as a tuple.

    >>> collect_arguments("sonde.run", RunArguments.__annotations__, {"lens": "probe", "limit": None})
    {'lenses': ('probe',)}

    Args:
        function: The function that was called, for errors.
        known: Names of all its arguments.
        keywords: What it was called with by name; None stands for "not given".
        by_position: What it was called with by position, under the names that it has.

    Raises:
        UnknownNameError: An argument that is not known; the nearest is named.
        UsageError: An argument is given twice, or names nothing.
    """
    given: dict[str, Any] = {}
    sources: dict[str, str] = {}
    positions = [(f"{name} (by position)", name, value) for name, value in by_position.items()]
    for source, name, value in [*positions, *((name, name, value) for name, value in keywords.items())]:
        if name not in known:
            raise UnknownNameError("argument", name, known, f"see help({function})")
        if value is None:
            continue
        plural = _PLURALS.get(name, name)
        if plural in given:
            raise UsageError(f"both {sources[plural]} and {source} are given; give one of them")
        sources[plural] = source
        if plural in _CONVERSIONS:
            try:
                given[plural] = _CONVERSIONS[plural](value)
            except TypeError as error:
                raise UsageError(f"{name} = {value!r}: {error}") from None
        elif plural in _PLURALS.values() and plural != "options":
            given[plural] = as_tuple(name, value)
        else:
            given[plural] = value
    return given


_MEASURED = {
    field.name for record in (Experiment, Selection, CaptureOptions) for field in dataclasses.fields(record)
}


_EXECUTED = {field.name for field in dataclasses.fields(Execution)}


def from_arguments(
    *,
    shard: str | None = None,
    by_position: Mapping[str, Any] = MappingProxyType({}),
    **arguments: Unpack[RunArguments],
) -> tuple[Experiment, Execution]:
    """What is measured and how, with the defaults that a run has.

    Where nothing is given of what is measured, or languages alone, it is the demo. Languages without a corpus
    are read in the first of `sonde.languages.list_corpora`.

    Args:
        shard: The share of the run that is observed, as ``3/16``; None for all of it.
        by_position: What `sonde.run` was called with by position, under the names that it has.
        arguments: As for `sonde.run`.

    Raises:
        UnknownNameError: An argument that `sonde.run` does not take; the nearest is named.
        UsageError: A value of the wrong type, outside its range, or that contradicts another.
        InputError: The experiment or lock file cannot be read.
    """
    given = collect_arguments("sonde.run", RunArguments.__annotations__, arguments, **by_position)
    experiment, file, options = given.get("experiment"), given.get("file"), given.pop("options", None) or {}
    if experiment is not None and file is not None:
        raise UsageError("both an experiment and an experiment file are given; give one of them")
    if "lock" in given:
        given.setdefault("corpora", as_tuple("corpora", read_lock(given["lock"]).corpus))
    source, name = (None, None) if file is None else find_experiment_file(file)
    if experiment is None and source is None:
        if not options and not (given.keys() & _MEASURED) - {"languages"}:
            source, name = _DEMO, _DEMO.stem
        given.setdefault("corpora", _default_corpora(given.get("languages", ())))
    base = load_experiment(source) if source else experiment or Experiment()
    given["options"] = _group_options(options, given.get("lenses", base.lenses))
    wanted = with_full_names(merge_overrides(base, given))
    folder = given["output"] if "output" in given else default_output(wanted, name)
    if shard is not None:
        given["shard"] = shard
        if "output" not in given:
            folder = folder.with_name(f"{folder.name}-{shard.replace('/', '-of-')}")
    execution: dict[str, Any] = {
        **{key: value for key, value in given.items() if key in _EXECUTED},
        "output": folder,
        "light_workers": given.get("workers", count_cores()),
    }
    return wanted, Execution(**execution)


def as_tuple(what: str, names: Names) -> tuple[str, ...]:
    """Return one name or several as a tuple.

    Raises:
        UsageError: It names nothing, or is no name.
    """
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
