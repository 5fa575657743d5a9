"""Resolution of model, lens and task names, with every check that needs no corpus and no model.

Whatever can be refused is refused before anything costs time: before a corpus is read or a model is opened.
`check_compatibility` decides from configurations only which lens reads which model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sonde.alignment import VERSION as ALIGNMENT_VERSION
from sonde.alignment import get_surfaces
from sonde.base.errors import InputError, SondeError, StoreError, UnknownNameError, UsageError
from sonde.base.files import expand_home
from sonde.base.fingerprint import fingerprint
from sonde.base.options import Option
from sonde.capture.settings import VERSION as CAPTURE_VERSION
from sonde.capture.settings import CaptureOptions
from sonde.corpora import SkipCounter, check_corpora, check_corpus, read_files, tasks_from_corpora
from sonde.executors import connect_executor, is_on_cluster
from sonde.experiments.catalogue import describe_replication, find_lenses
from sonde.experiments.experiment import Execution, Experiment, LensChoice, get_lens_settings
from sonde.experiments.plan import LensInput, ResolvedModel
from sonde.experiments.progress import Session, SkippedTask, list_computing_versions
from sonde.experiments.shards import parse_shard, read_shard_record
from sonde.languages import LANGUAGES
from sonde.lenses import (
    LENSES,
    Lens,
    ReadingLens,
    TrainingLens,
)
from sonde.lenses.engine.lens import get_quirk_tasks
from sonde.models import (
    Capabilities,
    ModelSpec,
    describe_model,
    is_trainable,
    load_tokenizer,
    parse_spec,
    pin_revision,
    resolve_auto,
    resolve_revision,
    seen_items,
)
from sonde.models.engine.files import adapter_location, takes_texts
from sonde.models.engine.locate import locate_model
from sonde.store.run_folder import slug
from sonde.tasks import get_ablations, get_quirks
from sonde.tasks.engine.task import TASKS


def resolve_lenses(experiment: Experiment) -> tuple[LensChoice, ...]:
    """Resolve the lenses of an experiment with their quirks.

    Raises:
        UnknownNameError: A lens, quirk or option table that does not exist.
    """
    lenses = [LENSES.load(name) for name in experiment.lenses]
    _check_tasks(experiment.tasks, lenses)
    labelling = [lens for lens in lenses if "item" in lens.targets]
    corpus_tasks = tasks_from_corpora(experiment.corpora) if labelling and not experiment.tasks else ()
    _check_accepted_tasks(corpus_tasks, labelling)
    tasks = {
        lens.name: _resolve_tasks(experiment.tasks or (corpus_tasks if lens in labelling else ()), lens)
        for lens in lenses
    }
    loaded_tasks = {name: [TASKS.load(task) for task in names] for name, names in tasks.items()}
    quirks = {
        lens.name: frozenset(lens.quirks).union(*map(get_quirks, loaded_tasks[lens.name])) for lens in lenses
    }
    # What a user may switch on beside the quirks, and no mode does.
    ablations = {
        name: frozenset[str]().union(*map(get_ablations, names)) for name, names in loaded_tasks.items()
    }
    known_quirks = frozenset[str]().union(*quirks.values(), *ablations.values())
    for quirk in experiment.quirks:
        if quirk not in known_quirks:
            raise UnknownNameError(
                "quirk", quirk, known_quirks, "quirks belong to a lens or a task; see `sonde list quirks`"
            )
    names = [lens.name for lens in lenses]
    for name in experiment.options:
        if name not in names:
            raise UnknownNameError("lens", name, names, "in the experiment's options")
    if experiment.capture != CaptureOptions() and not any(isinstance(lens, ReadingLens) for lens in lenses):
        raise UsageError(
            "context, stride and bos are for lenses that read an unchanged model, and "
            f"{', '.join(names)} does not; leave them out, or name another lens"
        )
    choices: list[LensChoice] = []
    for source, lens in zip(experiment.lenses, lenses, strict=True):
        _check_options(lens, experiment.options.get(lens.name, {}))
        requested_quirks = (quirks[lens.name] | ablations[lens.name]) & set(experiment.quirks)
        pairs = lens.pairs(experiment.options.get(lens.name, {}))
        active_quirks = (
            quirks[lens.name] | requested_quirks if experiment.mode == "paper" else requested_quirks
        )
        choices.append(
            LensChoice(
                name=lens.name,
                source=source if source.endswith(".py") else lens.name,
                version=lens.version + LENSES.source_hash(source),
                tasks=pairs
                or tuple(dict.fromkeys((*tasks[lens.name], *get_quirk_tasks(lens.name, active_quirks)))),
                mode=experiment.mode,
                quirks=tuple(sorted(active_quirks)),
                options=tuple(sorted(experiment.options.get(lens.name, {}).items())),
                scoring=tuple(sorted(lens.scoring_options)),
                seed=experiment.seed,
                capture=experiment.capture if isinstance(lens, ReadingLens) else CaptureOptions(),
                paired=bool(pairs),
            )
        )
    return _separate_label_tables(choices)


def _separate_label_tables(choices: Sequence[LensChoice]) -> tuple[LensChoice, ...]:
    """Give lenses separate tables of labels if an earlier lens labels a task with other settings.

    Labels of all tokens of the items, a balanced data set of the same task, and its minimal pairs are three
    tables; so are data sets drawn with other options.
    """
    settings_by_task: dict[str, tuple[Any, ...]] = {}
    separated: list[LensChoice] = []
    for choice in choices:
        from_datasets = uses_datasets(choice)
        settings = (
            from_datasets,
            choice.paired,
            choice.mode,
            choice.quirks,
            choice.observation_lens.options if from_datasets else (),
        )
        tasks = [TASKS.public(task) for task in choice.tasks]
        if any(settings_by_task.get(task, settings) != settings for task in tasks):
            choice = dataclasses.replace(choice, labels=slug(choice.name).replace(".", "_"))
        else:
            settings_by_task |= dict.fromkeys(tasks, settings)
        separated.append(choice)
    return tuple(separated)


def uses_datasets(lens: LensChoice) -> bool:
    """Return whether data sets are drawn for a lens; else it reads the items."""
    return lens.paired or LENSES.load(lens.source).uses_datasets


def resolve_options(
    lenses: Sequence[LensChoice], models: Mapping[str, Mapping[str, Capabilities]]
) -> tuple[LensChoice, ...]:
    """Resolve the options of each lens for the models that it reads.

    Raises:
        UsageError: A lens cannot ask these models so, or does not take an option's value.
    """
    resolved: list[LensChoice] = []
    for choice in lenses:
        lens = LENSES.load(choice.source)
        # Lenses read their options for the errors alone, before a corpus is read for them in vain.
        if isinstance(lens, ReadingLens):
            options = lens.resolve_options(models[choice.name], dict(choice.options))
            choice = dataclasses.replace(choice, options=tuple(sorted(options.items())))
            lens.controls(get_lens_settings(choice))
        elif isinstance(lens, TrainingLens):
            lens.methods(choice.tasks, get_lens_settings(choice))
        resolved.append(choice)
    return tuple(resolved)


def _check_options(lens: Lens, options: Mapping[str, Option]) -> None:
    """Refuse options that a lens does not have, and values that its typed options do not."""
    for option in options:
        if option not in lens.options:
            raise UnknownNameError(
                f"option of lens {lens.name!r}", option, lens.options, descriptions=lens.options
            )
    # A lens from outside may name its options in a mapping alone, and then reads them itself.
    if lens.typed_options.names() >= options.keys():
        lens.typed_options.read(options)


def _resolve_tasks(task_names: Sequence[str], lens: Lens) -> tuple[str, ...]:
    """Return the tasks of a lens: those named by the user or a corpus, else its own."""
    if not (task_names and lens.targets):
        return tuple(lens.tasks)
    tasks = {task: TASKS.load(task) for task in task_names}
    accepted = [
        name if name.endswith(".py") else task.name
        for name, task in tasks.items()
        if task.target in lens.targets
    ]
    return tuple(dict.fromkeys(accepted))


def _check_tasks(task_names: Sequence[str], lenses: Sequence[Lens]) -> None:
    for name in task_names:
        task = TASKS.load(name)
        if not any(task.target in lens.targets or task.name in lens.tasks for lens in lenses):
            takes = "; ".join(_accepted_task(lens, name) for lens in lenses)
            others = f"; use -l {' or -l '.join(names)}" if (names := find_lenses(name)) else ""
            raise UsageError(
                f"task {name!r} is about {task.target}, and no lens of this run takes it: {takes}{others}"
            )
    _check_accepted_tasks(task_names, lenses)


def _accepted_task(lens: Lens, name: str) -> str:
    """Describe what a lens accepts instead of a task."""
    option = "pairs"
    if option in lens.options:
        with suppress(SondeError):
            if lens.pairs({option: name}):
                return (
                    f"{lens.name!r} reads its minimal pairs (originals with mutants) with "
                    f"--option {lens.name}.{option}={name} in place of -t {name}"
                )
    return f"{lens.name!r} takes tasks about {', '.join(sorted(lens.targets)) or 'nothing but its own'}"


def _check_accepted_tasks(task_names: Sequence[str], lenses: Sequence[Lens]) -> None:
    """Refuse a lens that takes tasks, and none of those that the user or a corpus names."""
    for lens in lenses:
        if task_names and lens.targets and not _resolve_tasks(task_names, lens):
            listing = ", ".join(task_names)
            raise UsageError(
                f"lens {lens.name!r} takes tasks about {', '.join(sorted(lens.targets))}, and none of those "
                f"named ({listing}) is; name one, or leave out the lens"
            )


def resolve_model_specs(experiment: Experiment, execution: Execution) -> tuple[ModelSpec, ...]:
    """Resolve what is loaded for each model name; a duplicate name is an error."""
    if len(set(experiment.models)) < len(experiment.models):
        duplicate = next(name for name in experiment.models if experiment.models.count(name) > 1)
        raise UsageError(f"model {duplicate!r} is named twice; name each model once")
    return tuple(
        parse_spec(
            name,
            device=execution.device,
            dtype=execution.dtype,
            device_map=execution.device_map,
            trust_remote_code=execution.trust_remote_code,
        )
        for name in experiment.models
    )


def resolve_models(session: Session, readings: Sequence[LensInput]) -> tuple[ResolvedModel, ...]:
    """Resolve the models that are read, with the inputs that they were trained on."""
    experiment = session.experiment
    read = frozenset[str]().union(*session.models.values())
    originals = {item.item_id: item.original for lens_input in readings for item in lens_input.inputs}
    # Who has read a function knows it in other words too.
    ids = sorted({*originals, *filter(None, originals.values())})
    attention = any(LENSES.load(name).reads_attention for name in experiment.lenses)
    choices: list[ResolvedModel] = []
    for name, spec in zip(experiment.models, resolve_model_specs(experiment, session.execution), strict=True):
        if name not in read:
            continue
        seen_ids = frozenset[str]()
        for source in () if experiment.include_seen else filter(None, (spec.name, spec.adapter)):
            training_ids = seen_items(source, ids)
            seen_ids |= {item for item, original in originals.items() if training_ids & {item, original}}
        revision, resolved = resolve_revision(spec), resolve_auto(spec, attention=attention)
        choices.append(
            ResolvedModel(name=name, spec=pin_revision(resolved), revision=revision, seen=seen_ids)
        )
    return tuple(choices)


def components_key(language: str) -> str:
    """Return the fingerprint of the versions below the lenses that can change an observation."""
    return fingerprint("components", CAPTURE_VERSION, ALIGNMENT_VERSION, list_computing_versions(language))


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
        shard, existing_shard = str(parse_shard(execution.shard)), ""
        # Where there is none, or a damaged one, it is written anew by the run that begins now.
        with suppress(InputError, StoreError):
            existing_shard = read_shard_record(execution.output).shard
        if existing_shard and existing_shard != shard:
            raise UsageError(
                f"folder {str(execution.output)!r} has shard {existing_shard}; give shard "
                f"{shard} another one with -o"
            )
    if execution.budget:
        _check_budget(execution, lenses)
    describe_replication(experiment)
    for language in experiment.selection.languages:
        LANGUAGES.load(language)
    specs = resolve_model_specs(experiment, execution)
    if execution.device_map and execution.device != "auto":
        raise UsageError(
            f"--device-map places each part of a model, --device {execution.device} all of it; leave out one"
        )
    for spec in specs:
        if not takes_texts(spec):
            locate_model(spec)
        if spec.adapter:
            adapter_location(spec)
    check_corpora(experiment.corpora)
    for lens in lenses:
        _check_option_corpora(lens)
    if execution.lock is not None and len(experiment.corpora) != 1:
        raise UsageError(f"--lock fixes the items of one corpus, but {len(experiment.corpora)} are named")
    connect_executor(execution.executor, execution.address, execution.workers)
    if len(experiment.corpora) > 1:
        # One corpus says by itself at once that it cannot be read; a second one only when the first has been.
        for corpus in experiment.corpora:
            next(read_files(corpus, experiment.selection.languages, SkipCounter()), None)
    if execution.device not in _ANYWHERE:
        for spec in specs:
            resolve_auto(spec)


def _check_budget(execution: Execution, lenses: Sequence[LensChoice]) -> None:
    """Refuse a budget for a run that cannot end where its time is up."""
    if execution.shard:
        raise UsageError(
            f"--budget {execution.budget} limits the time of a whole run, and --shard "
            f"{execution.shard} is one share of it; give the shards a --limit, which `sonde run "
            "--plan` helps to choose"
        )
    if execution.lock is not None:
        raise UsageError(
            f"--budget {execution.budget} chooses a sample, and the lock file {str(execution.lock)!r} fixes "
            "it; leave one of them out"
        )
    for lens in lenses:
        if isinstance(LENSES.load(lens.source), TrainingLens):
            raise UsageError(
                f"--budget {execution.budget} ends the reading of inputs, and lens {lens.name!r} trains on "
                "all of them; give --limit instead"
            )
    if len(lenses) > 1 and (drawn := next(filter(uses_datasets, lenses), None)):
        raise UsageError(
            f"--budget {execution.budget} reads inputs in one order, and lens {drawn.name!r} has "
            "another; give it its own run, or --limit"
        )


def _check_option_corpora(lens: LensChoice) -> None:
    """Refuse corpora and files that options name and that there are not."""
    option_type, options = LENSES.load(lens.source).typed_options, dict(lens.options)
    for name in option_type.names("corpus_name") & options.keys():
        if options[name]:
            check_corpus(str(options[name]))
    for name in option_type.names("file_name") & options.keys():
        if options[name] and not expand_home(str(options[name])).is_file():
            raise InputError(f"lens {lens.name!r}: option {name} = {options[name]!r}: no such file")


def check_compatibility(
    lenses: Sequence[LensChoice], experiment: Experiment, execution: Execution
) -> tuple[Mapping[str, Mapping[str, Capabilities]], tuple[SkippedTask, ...]]:
    """Say from configurations alone which models each lens can read, those of this run together.

    Returns:
        What each model can be asked for, by lens and model; and the models that a lens cannot read, and why.

    Raises:
        UsageError: A lens can read none of them; says why and which it could.
    """
    specs = dict(zip(experiment.models, resolve_model_specs(experiment, execution), strict=True))
    models = {name: describe_model(spec) for name, spec in specs.items()}
    by_lens: dict[str, Mapping[str, Capabilities]] = {}
    left_out: list[SkippedTask] = []
    for choice in lenses:
        lens = LENSES.load(choice.source)
        all_reasons = {
            name: _unsupported_reason(lens, capabilities, specs[name])
            for name, capabilities in models.items()
        }
        reasons = {name: reason for name, reason in all_reasons.items() if reason}
        compatible = {name: capabilities for name, capabilities in models.items() if name not in reasons}
        if isinstance(lens, ReadingLens):
            reasons |= lens.excluded_models(compatible, dict(choice.options))
        compatible = {name: capabilities for name, capabilities in models.items() if name not in reasons}
        if not compatible:
            name, reason = next(iter(reasons.items()))
            raise UsageError(f"model {name!r}: {reason}")
        by_lens[choice.name] = compatible
        left_out += [SkippedTask(choice.name, "", "", reason, model=name) for name, reason in reasons.items()]
    return by_lens, tuple(left_out)


def resolve_bases(
    lenses: Sequence[LensChoice],
    models: Mapping[str, Mapping[str, Capabilities]],
    experiment: Experiment,
    execution: Execution,
) -> tuple[tuple[LensChoice, ...], Mapping[str, Mapping[str, Capabilities]], tuple[SkippedTask, ...]]:
    """Resolve the model beside which a lens reads the others, and leave out those of another vocabulary.

    Returns:
        The lenses with their bases, what each lens can ask each model for, and the models that are not
        compared, and why.

    Raises:
        UsageError: A lens is left without a model, or would read two models on another machine.
    """
    resolved: list[LensChoice] = []
    by_lens = dict(models)
    left_out: list[SkippedTask] = []
    for choice in lenses:
        lens = LENSES.load(choice.source)
        if not lens.compares_with_base:
            resolved.append(choice)
            continue
        if is_on_cluster(execution.executor):
            raise UsageError(
                f"lens {choice.name!r} reads two models side by side, which it does only on this machine; "
                "give --executor local"
            )
        options = dict(choice.options)
        options["base"] = options.get("base") or experiment.models[0]
        base = str(options["base"])
        specs = resolve_model_specs(dataclasses.replace(experiment, models=(base,)), execution)
        spec = pin_revision(resolve_auto(specs[0]))
        if reason := _unsupported_reason(lens, describe_model(spec), spec):
            raise UsageError(f"base {base!r}: {reason}")
        reasons = {name: _explain_other_vocabulary(name, base, execution) for name in models[choice.name]}
        reasons[base] = "the other models are compared with it"
        reasons = {name: reason for name, reason in reasons.items() if reason and name in models[choice.name]}
        by_lens[choice.name] = {
            name: capabilities for name, capabilities in models[choice.name].items() if name not in reasons
        }
        if not by_lens[choice.name]:
            other = next((reason for name, reason in reasons.items() if name != base), "")
            raise UsageError(
                other
                or f"lens {choice.name!r} compares models with a base, and {base!r} is the only one; name "
                f"another with -m, for example -m '{base}?quantise=4bit'"
            )
        left_out += [
            SkippedTask(choice.name, "", "", reason, model=name)
            for name, reason in reasons.items()
            if name != base
        ]
        resolved.append(
            dataclasses.replace(
                choice,
                options=tuple(sorted(options.items())),
                base=spec,
                base_revision=resolve_revision(spec),
            )
        )
    return tuple(resolved), by_lens, tuple(left_out)


def _explain_other_vocabulary(name: str, base: str, execution: Execution) -> str:
    """Explain how the vocabulary of a model differs from that of the base; empty if it is the same."""
    specs = [parse_spec(model, trust_remote_code=execution.trust_remote_code) for model in (name, base)]
    sizes = [describe_model(spec).vocab for spec in specs]
    if sizes[0] != sizes[1]:
        return f"model {name!r} predicts {sizes[0]:,} subwords and the base {base!r} {sizes[1]:,}"
    surfaces = [get_surfaces(load_tokenizer(spec), sizes[0]) for spec in specs]
    for number, (surface, base_surface) in enumerate(zip(*surfaces, strict=False)):
        if surface != base_surface and not {surface, base_surface} & _placeholders(number):
            return (
                f"model {name!r} has another vocabulary than the base {base!r}: subword {number:,} is "
                f"{surface!r}, and {base_surface!r} in the base"
            )
    return ""


def _placeholders(number: int) -> set[str]:
    """Return how an id is spelled that no text has, by a tokenizer that lacks it and by files of weights."""
    return {"", f"<unused {number}>", f"[PAD{number}]"}


_LIMITED_KINDS = {
    "endpoint": "a server gives only words, and lens {lens!r} reads states",
    "vectors": "an encoder gives one vector per text, and lens {lens!r} reads more",
}
"""Kinds of models that give less than others, and why a lens that does not name them cannot read them."""


def _unsupported_reason(lens: Lens, capabilities: Capabilities, spec: ModelSpec) -> str | None:
    if capabilities.kind in _LIMITED_KINDS:
        lens_names = [header.name for header in LENSES.headers() if capabilities.kind in header.needs]
        if lens.name not in lens_names:
            reason = _LIMITED_KINDS[capabilities.kind].format(lens=lens.name)
            return f"{reason}; use the lens {' or '.join(lens_names)}"
    if isinstance(lens, TrainingLens) and not is_trainable(spec):
        return (
            f"lens {lens.name!r} trains all weights of a model; neither weights of fewer bits nor those "
            "under a device map can be trained; leave out --quantise and --device-map"
        )
    return lens.unsupported_reason(capabilities)
