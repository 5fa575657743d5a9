"""What can be refused before a corpus is read or a model is opened, and which lens reads which model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.corpora import Intake, check_corpora, check_corpus, read_files
from sonde.executors import reach
from sonde.experiments._experiment import Execution, Experiment
from sonde.experiments._outcome import Refused
from sonde.experiments.choices import model_specs
from sonde.experiments.lens_choice import LensChoice
from sonde.experiments.replication import replicated
from sonde.experiments.shards import check_shard
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES, Lens, ReadingLens, TrainingLens, typed_options
from sonde.models import Capabilities, ModelSpec, describe, settle, trainable
from sonde.models.engine.files import adapter_location, takes_texts
from sonde.models.engine.locate import locate

_ANYWHERE = ("auto", "cpu")
"""Devices that every machine has."""


def check_names(experiment: Experiment, execution: Execution, lenses: Sequence[LensChoice]) -> None:
    """Refuse names of models, corpora, languages, executors, devices and files that there are not.

    Nothing is read but the first file of each of several corpora, and nothing heavy is imported for a name.

    Raises:
        UnknownNameError: There is no such thing; the nearest is named.
        InputError: A corpus, model or file is not there.
        UsageError: A combination that cannot be.
    """
    if execution.shard:
        check_shard(execution.shard, execution.output)
    replicated(experiment)
    for language in experiment.selection.languages:
        LANGUAGES.load(language)
    specs = model_specs(experiment, execution)
    if execution.device_map and execution.device != "auto":
        raise UsageError(
            f"--device-map says where each part of a model lies, --device {execution.device} that all lie "
            "there; leave out one"
        )
    for spec in specs:
        if not takes_texts(spec):
            locate(spec)
        if spec.adapter:
            adapter_location(spec)
    check_corpora(experiment.corpora)
    for lens in lenses:
        _check_named(lens)
    if execution.lock is not None and len(experiment.corpora) != 1:
        raise UsageError(f"--lock fixes the items of one corpus, but {len(experiment.corpora)} are named")
    reach(execution.executor, execution.address, execution.workers)
    if len(experiment.corpora) > 1:
        # One corpus says by itself at once that it cannot be read; a second one only when the first has been.
        for corpus in experiment.corpora:
            next(read_files(corpus, experiment.selection.languages, Intake()), None)
    if execution.device not in _ANYWHERE:
        for spec in specs:
            settle(spec)


def _check_named(lens: LensChoice) -> None:
    """Refuse corpora and files that options name and that there are not."""
    typed, options = typed_options(LENSES.load(lens.source)), dict(lens.options)
    for name in typed.names("corpus_name") & options.keys():
        if options[name]:
            check_corpus(str(options[name]))
    for name in typed.names("file_name") & options.keys():
        if options[name] and not expand_home(str(options[name])).is_file():
            raise InputError(f"lens {lens.name!r}: option {name} = {options[name]!r}: no such file")


@dataclass(frozen=True, slots=True)
class Readable:
    """Which lens reads which models.

    Attributes:
        by_lens: What each model can be asked for, by lens and model.
        left_out: Models that a lens cannot read, and why.
    """

    by_lens: Mapping[str, Mapping[str, Capabilities]]
    left_out: tuple[Refused, ...]

    @property
    def models(self) -> frozenset[str]:
        """Models that some lens reads."""
        return frozenset[str]().union(*self.by_lens.values())


def readable(lenses: Sequence[LensChoice], experiment: Experiment, execution: Execution) -> Readable:
    """Say from configurations alone which models each lens can read, those of this run together.

    Raises:
        UsageError: A lens can read none of them; says why and which it could.
    """
    specs = dict(zip(experiment.models, model_specs(experiment, execution), strict=True))
    models = {name: describe(spec) for name, spec in specs.items()}
    by_lens: dict[str, Mapping[str, Capabilities]] = {}
    left_out: list[Refused] = []
    for choice in lenses:
        lens = LENSES.load(choice.source)
        found = {name: _refusal(lens, one, specs[name]) for name, one in models.items()}
        reasons = {name: reason for name, reason in found.items() if reason}
        able = {name: one for name, one in models.items() if name not in reasons}
        if isinstance(lens, ReadingLens):
            reasons |= lens.leaves_out(able, dict(choice.options))
        able = {name: one for name, one in models.items() if name not in reasons}
        if not able:
            name, reason = next(iter(reasons.items()))
            raise UsageError(f"model {name!r}: {reason}")
        by_lens[choice.name] = able
        left_out += [Refused(choice.name, "", "", reason, model=name) for name, reason in reasons.items()]
    return Readable(by_lens, tuple(left_out))


def _refusal(lens: Lens, capabilities: Capabilities, spec: ModelSpec) -> str | None:
    if capabilities.kind == "endpoint":
        able = [one.name for one in LENSES.headers() if "endpoint" in one.needs]
        if lens.name not in able:
            return (
                f"a server gives words alone, and lens {lens.name!r} reads states; "
                f"use the lens {' or '.join(able)}"
            )
    if capabilities.kind == "vectors":
        able = [one.name for one in LENSES.headers() if "vectors" in one.needs]
        if lens.name not in able:
            return (
                f"an encoder gives a vector a text, and lens {lens.name!r} reads more; "
                f"use the lens {' or '.join(able)}"
            )
    if isinstance(lens, TrainingLens) and not trainable(spec):
        return (
            f"lens {lens.name!r} trains all weights of a model; neither weights of fewer bits nor those "
            "under a device map can be trained; leave out --quantise and --device-map"
        )
    return lens.refuses(capabilities)
