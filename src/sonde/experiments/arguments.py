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
from sonde.lenses import DEFAULT_LENS, LENSES
from sonde.models import device_map_text, full_name
from sonde.models.engine.model_names import NONE

Record = TypeVar("Record", Experiment, Selection, CaptureOptions)


def build_selection(overrides: Mapping[str, Any]) -> Selection:
    """Build a selection from the given options; None stands for "not given"."""
    return _merge_fields(Selection(), overrides)


def merge_overrides(base: Experiment | None, overrides: Mapping[str, Any]) -> Experiment:
    """Merge given options into an experiment.

    Args:
        base: What a file says.
        overrides: Fields of `Experiment`, `Selection` and `CaptureOptions` by name; None stands for "not
            given". ``options`` are laid over the file's one by one.

    Raises:
        UnknownNameError: A mode that does not exist.
    """
    start = base or Experiment()
    fields: dict[str, Any] = {
        **overrides,
        "selection": _merge_fields(start.selection, overrides),
        "capture": _merge_fields(start.capture, overrides),
    }
    if options := overrides.get("options"):
        fields["options"] = {
            lens: {**start.options.get(lens, {}), **options.get(lens, {})}
            for lens in {**start.options, **options}
        }
    return _merge_fields(start, fields)


def with_full_names(experiment: Experiment) -> Experiment:
    """Move adapter and quantisation of an experiment into the names of its models.

    Raises:
        UsageError: A name that cannot be read, or a model behind a server that is to have either.
    """
    names = [
        full_name(name, adapter=experiment.adapter, quantise=experiment.quantise)
        for name in experiment.models
    ]
    return dataclasses.replace(experiment, models=tuple(names), adapter="", quantise=NONE)


def _merge_fields(base: Record, overrides: Mapping[str, Any]) -> Record:
    """Replace fields of plain data by those that are given, lists as tuples."""
    values = {
        field.name: tuple(value) if isinstance(value, list) else value
        for field in dataclasses.fields(base)
        if (value := overrides.get(field.name)) not in (None, [], {})
    }
    return dataclasses.replace(base, **values)


def default_output(experiment: Experiment, name: str | None) -> Path:
    """Return the default folder of a run, which is the same for equal arguments, so that a run resumes."""
    return Path("runs") / f"{name or '-'.join(experiment.lenses)}-{fingerprint(experiment)[:8]}"


StrPath = str | os.PathLike[str]
"""A file or folder."""


Names = StrPath | Sequence[StrPath]
"""One name, or several; what is handed in as a file may be named by its path."""


DeviceMap = StrPath | Mapping[str, str | int]
"""Where the parts of a model lie: a policy of accelerate, devices by module, or a file of them."""


GivenOptions = Mapping[str, Mapping[str, Option | Sequence[Option]]] | Sequence[str]
"""Options by lens and name, or each as a text ``LENS.NAME=VALUE``."""


_DEMO = Path(__file__).parent / "demo.toml"


class ModelArguments(TypedDict, total=False):
    """Keywords of `sonde.run` and `sonde.load_model`, which explain them; None stands for "not given"."""

    adapter: StrPath | None
    quantise: str | None
    device: str | None
    device_map: DeviceMap | None
    dtype: str | None
    trust_remote_code: bool | None


class LabellingArguments(TypedDict, total=False):
    """Keywords of `sonde.run` and `sonde.label`, which explain them; None stands for "not given"."""

    corpus: Names | None
    languages: Names | None
    language: Names | None
    unit: str | None
    limit: int | None
    seed: int | None
    mode: str | None
    quirks: Names | None
    quirk: Names | None
    executor: str | None
    address: str | None
    workers: int | None


class RunArguments(LabellingArguments, ModelArguments, total=False):
    """Keywords of `sonde.run`, which explains them; None stands for "not given"."""

    models: Names | None
    model: Names | None
    corpora: Names | None
    experiment: Experiment | None
    file: StrPath | None
    lenses: Names | None
    lens: Names | None
    tasks: Names | None
    task: Names | None
    per_cluster: int | None
    cut_off: str | None
    transform: str | None
    context: int | None
    stride: int | None
    bos: str | None
    options: GivenOptions | None
    option: GivenOptions | None
    include_seen: bool | None
    lock: StrPath | None
    output: StrPath | None
    budget: str | None
    batch_tokens: int | None
    progress: Progress | bool | None


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
    function: str, names: Iterable[str], keywords: Mapping[str, Any], **by_position: Any
) -> dict[str, Any]:
    """Return the arguments that are given, checked, under their plural names and with several as a tuple.

    >>> collect_arguments("sonde.run", RunArguments.__annotations__, {"lens": "probe", "limit": None})
    {'lenses': ('probe',)}

    Args:
        function: The function that was called, for errors.
        names: Names of all its arguments.
        keywords: What it was called with by name; None stands for "not given".
        by_position: What it was called with by position, under the names that it has.

    Raises:
        UnknownNameError: An argument that is not known; the nearest is named.
        UsageError: An argument is given twice, or names nothing.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    positions = [(f"{name} (by position)", name, value) for name, value in by_position.items()]
    for source, name, value in [*positions, *((name, name, value) for name, value in keywords.items())]:
        if name not in names:
            raise UnknownNameError("argument", name, names, f"see help({function})")
        if value is None:
            continue
        plural = _PLURALS.get(name, name)
        if plural in values:
            raise UsageError(f"both {sources[plural]} and {source} are given; give one of them")
        sources[plural] = source
        if plural in _CONVERSIONS:
            try:
                values[plural] = _CONVERSIONS[plural](value)
            except TypeError as error:
                raise UsageError(f"{name} = {value!r}: {error}") from None
        elif plural in _PLURALS.values() and plural != "options":
            values[plural] = as_tuple(name, value)
        else:
            values[plural] = value
    return values


_EXPERIMENT_FIELDS = {
    field.name for record in (Experiment, Selection, CaptureOptions) for field in dataclasses.fields(record)
}


def from_arguments(
    *,
    shard: str | None = None,
    by_position: Mapping[str, Any] = MappingProxyType({}),
    **arguments: Unpack[RunArguments],
) -> tuple[Experiment, Execution]:
    """Build the experiment and its execution from the arguments of a caller, with the defaults of a run.

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
    values = collect_arguments("sonde.run", RunArguments.__annotations__, arguments, **by_position)
    experiment, file, options = (
        values.get("experiment"),
        values.get("file"),
        values.pop("options", None) or {},
    )
    if experiment is not None and file is not None:
        raise UsageError("both an experiment and an experiment file are given; give one of them")
    if "lock" in values:
        values.setdefault("corpora", as_tuple("corpora", read_lock(values["lock"]).corpus))
    source, name = (None, None) if file is None else find_experiment_file(file)
    if experiment is None and source is None:
        if not options and not (values.keys() & _EXPERIMENT_FIELDS) - {"languages"}:
            source, name = _DEMO, _DEMO.stem
        corpora = (
            corpus for language in values.get("languages", ()) for corpus in list_corpora(language)[:1]
        )
        values.setdefault("corpora", tuple(dict.fromkeys(corpora)) or None)
    base = load_experiment(source) if source else experiment or Experiment()
    values["options"] = parse_options(options, values.get("lenses", base.lenses))
    full_experiment = with_full_names(merge_overrides(base, values))
    folder = default_output(full_experiment, name)
    if shard is not None:
        values["shard"] = shard
        folder = folder.with_name(f"{folder.name}-{shard.replace('/', '-of-')}")
    defaults: dict[str, Any] = {"output": folder, "light_workers": values.get("workers", count_cores())}
    names = {field.name for field in dataclasses.fields(Execution)} & values.keys()
    return full_experiment, Execution(**defaults | {name: values[name] for name in names})


def parse_options(user_options: GivenOptions, lenses: Sequence[str]) -> dict[str, dict[str, Option]]:
    """Parse options into values by lens and name; several values of an option become one text, as in a file.

    >>> parse_options(["surprisal.min_count=50"], ["surprisal"])
    {'surprisal': {'min_count': 50}}

    Args:
        user_options: The options, by lens and name or each written ``LENS.NAME=VALUE``; a lens may be the
            path of a file.
        lenses: The lenses of the experiment; those of others are kept as they look.

    Raises:
        UsageError: A text is something else.
    """
    options: dict[str, dict[str, Option]] = {}
    if isinstance(user_options, Mapping):
        for lens, values in cast("Mapping[str, object]", user_options).items():
            if not isinstance(values, Mapping):
                raise UsageError(f"options of lens {lens!r} = {values!r} is not a table of values by name")
            options[lens] = {
                name: ",".join(map(str, value)) if isinstance(value, list | tuple) else value
                for name, value in values.items()
            }
        return options
    lenses_by_name = {source: LENSES.load(source) for source in lenses}
    lenses_by_name |= {lens.name: lens for lens in lenses_by_name.values()}
    for text in [user_options] if isinstance(user_options, str) else user_options:
        path, equals, value = text.partition("=")
        source, _, name = path.rpartition(".")
        if not (equals and source and name):
            descriptions = LENSES.load(DEFAULT_LENS).typed_options.describe()
            description = next(
                description
                for description in descriptions
                if description.values.kind is int and not description.scoring
            )
            example = f"{DEFAULT_LENS}.{description.name}={description.default}"
            raise UsageError(f"option {text!r}: expected LENS.NAME=VALUE, for example {example}")
        lens = lenses_by_name.get(source)
        read = lens.typed_options.written(name, value) if lens else parse_value(value)
        options.setdefault(lens.name if lens else source, {})[name] = read
    return options


def as_tuple(label: str, names: Names) -> tuple[str, ...]:
    """Return one name or several as a tuple.

    Raises:
        UsageError: It names nothing, or is no name.
    """
    if isinstance(names, str | os.PathLike):
        names = (names,)
    try:
        paths = tuple(os.fspath(name) for name in names)
    except TypeError:
        raise UsageError(f"{label} = {names!r} is neither a name nor a list of names") from None
    if not paths or "" in paths:
        raise UsageError(f"{label} = {names!r} is empty; leave it out for the default")
    return paths
