"""An experiment: models, lenses and corpora with their selection; plain data, from a file or options.

A `LensChoice` is a lens of a run with the settings that its observations and their keys depend on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

from sonde.base.errors import UsageError
from sonde.base.files import read_toml
from sonde.base.fingerprint import OMITTED_AT_DEFAULT
from sonde.base.options import (
    NO_DEFAULT,
    AnyDevice,
    Count,
    OneOf,
    Option,
    build_record,
    check_fields,
    option,
    parse_duration,
)
from sonde.capture.settings import CaptureOptions
from sonde.corpora import Selection
from sonde.lenses import DEFAULT_LENS, LensSettings
from sonde.models import QUANTISATIONS, ModelSpec
from sonde.models.engine.model_names import NONE

MODES = ("corrected", "paper")


DTYPES = ("auto", "float32", "tf32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Everything that is measured. Two equal experiments on equal inputs give equal scores."""

    models: tuple[str, ...] = option(
        ("sonde/mini-decoder",),
        "a model by path, hub name or bundled name; see `sonde list models`",
        flag="--model",
        short="-m",
        synonyms=("checkpoint", "network"),
    )
    lenses: tuple[str, ...] = option(
        (DEFAULT_LENS,), "a lens by name or path; see `sonde list lenses`", flag="--lens", short="-l"
    )
    tasks: tuple[str, ...] = option(
        (),
        "run these tasks instead of the defaults; see `sonde list tasks`",
        flag="--task",
        short="-t",
        unset="those of each lens",
    )
    corpora: tuple[str, ...] = option(
        ("stdlib",),
        "a corpus by name, such as stdlib or local:DIR; see `sonde list corpora`",
        flag="--corpus",
        short="-c",
        unset="stdlib; with --language, a corpus of that language",
        synonyms=("dataset", "data set", "source code"),
    )
    selection: Selection = field(default_factory=Selection)
    capture: CaptureOptions = field(default=CaptureOptions(), metadata=OMITTED_AT_DEFAULT)
    mode: Annotated[str, OneOf(MODES)] = option(
        "corrected",
        "how it is measured: corrected, or as published with the quirks of each lens",
        flag="--mode",
        synonyms=("replicate", "reproduce a paper"),
    )
    quirks: tuple[str, ...] = option((), "switch on a quirk of a paper", flag="--quirk")
    options: Mapping[str, Mapping[str, Option]] = option(
        dict,
        "an option of a lens as LENS.NAME=VALUE; see `sonde list options LENS`",
        flag="--option",
        synonyms=("setting", "hyperparameter"),
    )
    include_seen: bool = option(
        False,
        "also score items that a model was trained on",
        flag="--include-seen",
        synonyms=("training data", "leakage", "contamination"),
    )
    quantise: Annotated[str, OneOf(QUANTISATIONS)] = option(
        NONE,
        "quantise linear layers with bitsandbytes; for one of several models, NAME?quantise=8bit",
        flag="--quantise",
        omitted_at_default=True,
        synonyms=("quantize", "4bit", "int8", "low precision"),
    )
    adapter: str = option(
        "",
        "PEFT adapter for each model; for one of several, NAME?adapter=PATH",
        flag="--adapter",
        omitted_at_default=True,
        synonyms=("LoRA", "fine-tuned weights"),
    )
    replicates: tuple[str, ...] = option(
        (),
        "published tables that the report compares with this run, such as inspect/table2",
        omitted_at_default=True,
        synonyms=("published results", "replication"),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("models", "lenses", "corpora"):
            if not getattr(self, name):
                raise UsageError(f"{name} = () is empty; leave it out for the default")

    @property
    def seed(self) -> int:
        """Return the seed of everything random; the sample of items follows it too."""
        return self.selection.seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How and where an experiment runs; nothing here changes its scores beyond rounding.

    Attributes:
        light_workers: Processes at a time for what takes little memory, such as labels.
        merges: Fingerprint of the plan whose tables lie in the folder already; another plan is refused.
    """

    output: Path = option(
        NO_DEFAULT,
        "folder of the run, or an address as s3://bucket/run",
        flag="--output",
        short="-o",
        unset="a folder for the experiment in runs/",
        synonyms=("directory", "save", "results"),
    )
    executor: str = option("local", "executor of the jobs; see `sonde list executors`", flag="--executor")
    address: str = option(
        "",
        "address of a Ray cluster, as HOST:PORT",
        flag="--address",
        unset="RAY_ADDRESS, else this machine",
    )
    workers: Count = option(
        1,
        "number of processes",
        flag="--workers",
        unset="1 with a model, else one per core",
        synonyms=("parallel", "processes", "cores", "threads", "CPU"),
    )
    light_workers: Count = 1
    shard: str = option(
        "",
        "observe only this share, as 3/16; `sonde merge` combines all shares",
        flag="--shard",
        unset="all of it",
        synonyms=("split a run", "several machines", "Slurm"),
    )
    merges: str = ""
    device: AnyDevice = option(
        "auto",
        "device of the models",
        flag="--device",
        synonyms=("GPU", "accelerator", "hardware"),
    )
    device_map: str = option(
        "",
        "placement of the parts of a model: auto, another policy of accelerate, or a JSON object "
        "or file of devices (also cpu, disk) by module",
        flag="--device-map",
        unset="all on the device",
        synonyms=("offload", "several GPUs", "model parallel"),
    )
    dtype: Annotated[str, OneOf(DTYPES)] = option(
        "auto",
        "dtype of a model; auto keeps that of its weights (float32 for float16 on CPU); tf32 is "
        "float32 with TF32 products, only on cuda",
        flag="--dtype",
        synonyms=("precision", "half precision", "fp16", "bf16"),
    )
    batch_tokens: Count | None = option(
        None,
        "subwords per batch, including padding; lower it to save memory",
        flag="--batch-tokens",
        unset="1,024 on CPU, 32,768 on an accelerator",
        synonyms=("batch size", "out of memory", "OOM"),
    )
    budget: str = option(
        "",
        "stop reading items after this time, as 2h, 90m, 1h30m or 3600s",
        flag="--budget",
        unset="no limit",
        synonyms=("time limit", "timeout"),
    )
    lock: Path | None = option(
        None,
        "run on exactly the items of this lock file",
        flag="--lock",
        synonyms=("reproduce", "same items"),
    )
    trust_remote_code: bool = option(False, "let a hub model run its own code", flag="--trust-remote-code")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.budget:
            parse_duration(self.budget, "--budget")


def load_experiment(path: Path) -> Experiment:
    """Read an experiment file.

    Raises:
        InputError: The file is missing or is not TOML.
        UnknownNameError: A key that no experiment has; the nearest is named.
        UsageError: A value of the wrong type, or an empty list.
    """
    return parse_experiment(read_toml(path, "experiment"), str(path))


_TABLES: Mapping[str, type[Selection | CaptureOptions]] = {"selection": Selection, "capture": CaptureOptions}


def parse_experiment(table: Mapping[str, Any], source: str) -> Experiment:
    """Build an experiment from plain data; null values, as JSON may have them, count as not given.

    Args:
        table: Values by name.
        source: The place that the table was read from, for errors.

    Raises:
        UnknownNameError: A key that no experiment has; the nearest is named.
        UsageError: A value of the wrong type.
    """
    table = _drop_nulls(table)
    try:
        tables = {
            name: build_record(kind, table[name], name) for name, kind in _TABLES.items() if name in table
        }
        return build_record(Experiment, {**table, **tables}, "experiment")
    except UsageError as error:
        raise error.located(source) from None


def _drop_nulls(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _drop_nulls(cast("Mapping[str, Any]", value)) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }


def to_plain_data(experiment: Experiment) -> dict[str, Any]:
    """Convert an experiment to plain data, as in ``run.json``."""
    return json.loads(json.dumps(dataclasses.asdict(experiment), default=list))


@dataclass(frozen=True, slots=True, kw_only=True)
class LensChoice:
    """A lens of a run with the settings that its observations depend on.

    Attributes:
        name: Public name.
        source: What it is loaded by: its name, or the path of a file.
        version: The lens's own version.
        tasks: Tasks whose labels it joins, by public name.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Quirks that are on.
        options: Options as sorted pairs.
        scoring: Names of options that scores depend on and observations do not.
        seed: Seed of the experiment.
        stage: 0, or the number of stages done before, see `sonde.lenses.engine.lens.ReadingLens.next_stage`.
        found: What the stage before found, as sorted pairs.
        capture: How its inputs are read, the same for all lenses that read a model.
        paired: Whether its data sets are minimal pairs, see `sonde.lenses.Lens.pairs`.
        labels: What the names of its tables of labels end in, where another lens of the run asks the same
            tasks otherwise; empty where the tables are named by the task alone.
        base: Model that is read beside each model, of a lens that compares with a base; None for others.
        base_revision: Revision of its weights.
    """

    name: str
    source: str
    version: str
    tasks: tuple[str, ...]
    mode: str
    quirks: tuple[str, ...]
    options: tuple[tuple[str, Option], ...]
    seed: int
    scoring: tuple[str, ...] = ()
    stage: int = 0
    found: tuple[tuple[str, Option], ...] = ()
    capture: CaptureOptions = field(default=CaptureOptions(), metadata=OMITTED_AT_DEFAULT)
    paired: bool = field(default=False, metadata=OMITTED_AT_DEFAULT)
    labels: str = field(default="", metadata=OMITTED_AT_DEFAULT)
    base: ModelSpec | None = field(default=None, metadata=OMITTED_AT_DEFAULT)
    base_revision: str = field(default="", metadata=OMITTED_AT_DEFAULT)

    @property
    def folder(self) -> str:
        """Name of the lens among the folders of observations; a later stage has one of its own."""
        return f"{self.name}.{self.stage}" if self.stage else self.name

    @property
    def observation_lens(self) -> LensChoice:
        """Return the lens without the options that change only scores, as keys of observations have it."""
        observation_options = tuple((name, value) for name, value in self.options if name not in self.scoring)
        return dataclasses.replace(self, options=observation_options, scoring=(), labels="")


def get_lens_settings(lens: LensChoice, root: str = "") -> LensSettings:
    """Return the settings that the methods of a lens take.

    Args:
        lens: The lens.
        root: The folder of the run, where a stage before may have handed something on.
    """
    return LensSettings(
        mode=lens.mode,
        quirks=frozenset(lens.quirks),
        options=dict(lens.options),
        seed=lens.seed,
        stage=lens.stage,
        found=dict(lens.found),
        root=root,
        base=lens.base,
    )
