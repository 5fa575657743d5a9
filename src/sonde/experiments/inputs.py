"""What each lens reads: the items of a group with their labels, made once before any model is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import chain

import polars as pl

from sonde.base.errors import UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.progress import Progress
from sonde.corpora import Intake, Item, ItemSet, Selection, read_items
from sonde.executors import kept_processes
from sonde.experiments.arguments import with_full_names
from sonde.experiments.datasets import DataSets, draw, pool_first, pool_selection, unseen
from sonde.experiments.experiment import Execution, Experiment, LensChoice, settings_of
from sonde.experiments.labels import LabelTables, forget_files_around, write_labels
from sonde.experiments.plan import Group, ModelChoice, Plan, Reading, ScoringJob, identity, plan
from sonde.experiments.progress import Session
from sonde.experiments.resolve import (
    Readable,
    check_names,
    components,
    draws,
    lens_choices,
    model_choices,
    readable,
    settled_options,
)
from sonde.experiments.sampling import behind_files, groups_of, note_unparsed, select_items, survey_files
from sonde.experiments.score import handed_on
from sonde.lenses import LENSES, LensSettings, Method, TrainingLens, reading_lens
from sonde.lenses.engine.item_tables import items_frame
from sonde.results.scores import Score
from sonde.store.cache import PartStore
from sonde.tasks import DrawingTask, effective_clusters, lack_of_clusters, more_clusters
from sonde.tasks.engine.task import TASKS

_PATHS = ("cluster", "path")


_ROW_GROUP = 2_048
"""Items that are read together: a job wants some dozens that stand beside each other."""


def read(session: Session, lenses: Sequence[LensChoice]) -> tuple[list[Reading], list[ItemSet]]:
    """What each lens is shown, written into the folder of the run, and the items of the corpora among it.

    Three kinds of lenses: those that read the chosen items, those that draw data sets from all functions of
    the corpora, and those whose tasks read whole files. Processes that label start once for all of them.
    """
    execution = session.execution
    with kept_processes(execution.executor, execution.light_workers):
        found = _read(session, lenses)
    forget_files_around()
    return found


def _read(session: Session, lenses: Sequence[LensChoice]) -> tuple[list[Reading], list[ItemSet]]:
    shown = [lens for lens in lenses if not draws(lens)]
    drawing = [lens for lens in lenses if lens not in shown]
    from_files = [lens for lens in drawing if _reads_files(lens)]
    from_functions = [lens for lens in drawing if lens not in from_files]
    chosen = session.experiment.selection
    if chosen.transform != "none":
        _check_transformed(shown, from_files)
    readings: list[Reading] = []
    sets: list[ItemSet] = []
    if shown:
        items = select_items(session, chosen)
        note_unparsed(session, items)
        if any(reading_lens(lens.source).reads_before(settings_of(lens)) for lens in shown):
            with session.outcome.timed("select"):
                items = [behind_files(one) for one in items]
        readings += _read_items(session, shown, groups_of(items))
        sets += items
    if from_functions:
        pools = select_items(session, pool_selection(chosen), pool_first(session, from_functions))
        readings += _read_drawn(session, from_functions, groups_of(pools))
        sets += pools
    if from_files:
        files, groups = survey_files(session)
        readings += _read_drawn(session, from_files, groups)
        sets += files
    return readings, _write_inputs(session.store, sets, readings)


def _check_transformed(shown: Sequence[LensChoice], from_files: Sequence[LensChoice]) -> None:
    """Refuse lenses that read files, which stay as they are.

    Raises:
        UsageError: There is one.
    """
    behind = [lens for lens in shown if reading_lens(lens.source).reads_before(settings_of(lens))]
    for lens in (*from_files, *behind):
        raise UsageError(
            f"lens {lens.name!r} reads whole files, and transform changes the chosen items alone; leave out "
            "one of them"
        )


def _reads_files(lens: LensChoice) -> bool:
    return all(isinstance(TASKS.load(task), DrawingTask) for task in lens.tasks)


def _write_inputs(store: PartStore, sets: Sequence[ItemSet], readings: Sequence[Reading]) -> list[ItemSet]:
    """Write what the lenses read: items of the corpora, and apart from them what tasks derived.

    Returns:
        The sets with the items that are read.
    """
    inputs = {(reading.group.corpus, item.item_id): item for reading in readings for item in reading.inputs}
    used: dict[str, ItemSet] = {}
    for chosen in sets:
        items = [item for item in chosen.items if inputs.pop((chosen.corpus, item.item_id), None)]
        before = used[chosen.corpus].items if chosen.corpus in used else ()
        used[chosen.corpus] = dataclasses.replace(chosen, items=(*before, *items))
    derived: dict[str, list[Item]] = {chosen.corpus: [] for chosen in sets}
    for (corpus, _), item in inputs.items():
        derived[corpus].append(item)
    _write_table(store, "items.parquet", [(name, chosen.items) for name, chosen in used.items()])
    _write_table(store, "inputs.parquet", list(derived.items()))
    return list(used.values())


def _write_table(store: PartStore, name: str, corpora: Sequence[tuple[str, Sequence[Item]]]) -> None:
    days = [(item.oldest, item.newest, item.period) for _, items in corpora for item in items if item.period]
    key = fingerprint(
        name,
        [(corpus, [identity(item) for item in items]) for corpus, items in corpora],
        *([days] if days else []),
    )
    if store.notes(name, key) is None:
        store.put(name, key, items_frame(corpora), {}, row_group=_ROW_GROUP)


def _read_items(session: Session, lenses: Sequence[LensChoice], groups: Sequence[Group]) -> list[Reading]:
    """Label the groups for lenses that read the items, and say what each reads of each group."""
    store, progress = session.store, session.progress
    tasks = sorted({(task, lens.labels, lens.mode, lens.quirks) for lens in lenses for task in lens.tasks})
    readings: list[Reading] = []
    with (
        session.outcome.timed("label"),
        progress.stage("labelling", len(tasks) * len(groups)) as advance,
    ):
        for group in groups:
            rules = {
                (task, of): write_labels(store, task, group, mode, quirks, advance, session.spread, of)
                for task, of, mode, quirks in tasks
            }
            readings += [_reading(lens, group, rules, store, progress) for lens in lenses]
    for group in groups:
        if lack := _lack_of_clusters(group, session.experiment.selection):
            progress.note(f"{group.corpus} in {group.language}: {lack}")
    return readings


def _lack_of_clusters(group: Group, selection: Selection) -> str:
    """Why no verdict can come of the items of a group, and what would help; empty where one can."""
    paths = pl.DataFrame([(item.cluster, item.path) for item in group.items], _PATHS, orient="row")
    count = len(group.items)
    remedies = more_clusters(
        group.corpus,
        group.language,
        limited=selection.limit is not None and count >= selection.limit,
        files=paths if selection.unit == "function" else None,
    )
    return lack_of_clusters({f"{count:,} {selection.unit}s": effective_clusters(paths)}, remedies)


def _read_drawn(session: Session, lenses: Sequence[LensChoice], pools: Sequence[Group]) -> list[Reading]:
    """Draw the data sets of lenses that ask for them, and say what each reads of each pool."""
    outcome = session.outcome
    readings: list[Reading] = []
    with outcome.timed("draw"):
        for pool in pools:
            items = list(pool.items) if session.experiment.include_seen else unseen(pool.items)
            if left := len(pool.items) - len(items):
                session.progress.note(
                    f"{pool.corpus}: {left:,} of {len(pool.items):,} {pool.language} functions are in the "
                    "training data of a bundled model and in no data set (--include-seen takes them in)"
                )
            for lens in lenses:
                drawn = draw(session, lens, pool, items)
                readings.append(_drawn_reading(lens, pool, drawn, session.store, session.progress))
                outcome.refused.extend(drawn.refused)
                outcome.data_sets[f"{lens.name}/{pool.prefix}"] = drawn.reports
    return readings


def _drawn_reading(
    lens: LensChoice, pool: Group, drawn: DataSets, store: PartStore, progress: Progress
) -> Reading:
    able = dataclasses.replace(lens, tasks=drawn.tasks)
    reader, settings = LENSES.load(lens.source), settings_of(lens)
    if isinstance(reader, TrainingLens):
        methods = _trained_on(reader, drawn, settings, pool.language)
        return Reading(lens=able, group=pool, inputs=drawn.inputs, labels=drawn.key, methods=methods)
    reader = reading_lens(lens.source)
    labels = LabelTables(store, drawn.tasks, pool, lens.labels)
    inputs = tuple(reader.inputs(drawn.inputs, labels, settings))
    if about := reader.about_inputs(inputs, labels, settings):
        progress.note(f"{lens.name}: {about}")
    return Reading(
        lens=able,
        group=pool,
        inputs=inputs,
        labels=drawn.key,
        controls=reader.controls_over(inputs, labels, settings),
    )


def _trained_on(
    lens: TrainingLens, drawn: DataSets, settings: LensSettings, language: str
) -> dict[Method, str]:
    """Every method with the fingerprint of what it is trained on."""
    methods = lens.methods(drawn.tasks, settings)
    named = {
        method: [str(value) for option, value in method.options if option in lens.corpus_options and value]
        for method in methods
    }
    held = {corpus: _contents(corpus, language) for corpus in sorted(set(chain(*named.values())))}
    return {
        method: fingerprint("beside", drawn.keys[method.task], [held[corpus] for corpus in named[method]])
        if named[method]
        else drawn.keys[method.task]
        for method in methods
    }


def _contents(corpus: str, language: str) -> str:
    """Fingerprint of a corpus's functions, whose ids are hashes of their texts."""
    items = {(item.item_id, item.cluster) for item in read_items(corpus, Intake(), languages=(language,))}
    return fingerprint("contents", sorted(items))


def _reading(
    lens: LensChoice, group: Group, rules: dict[tuple[str, str], str], store: PartStore, progress: Progress
) -> Reading:
    reader, settings = reading_lens(lens.source), settings_of(lens)
    rule = fingerprint("labels", [rules[task, lens.labels] for task in lens.tasks])
    lens = dataclasses.replace(lens, tasks=tuple(map(TASKS.public, lens.tasks)))
    labels = LabelTables(store, lens.tasks, group, lens.labels)
    inputs = tuple(reader.inputs(group.items, labels, settings))
    if about := reader.about_inputs(inputs, labels, settings):
        progress.note(f"{lens.name}: {about}")
    return Reading(
        lens=lens,
        group=group,
        inputs=inputs,
        labels=rule,
        controls=reader.controls_over(inputs, labels, settings),
    )


def follow_ups(
    store: PartStore, answers: Sequence[ScoringJob], scores: Mapping[str, Sequence[Score]]
) -> list[Reading]:
    """What the lenses want to look at more closely, model by model, now that the scores are there."""
    more: list[Reading] = []
    for answer in answers:
        reading, lens = answer.reading, answer.reading.lens
        if reading.methods:
            continue
        found = reading_lens(lens.source).follow_up(scores[answer.key], settings_of(lens))
        if found is not None:
            found = {**found, **handed_on(store, answer)}
            next_stage = dataclasses.replace(lens, stage=lens.stage + 1, found=tuple(sorted(found.items())))
            more.append(
                dataclasses.replace(reading, lens=next_stage, controls=(), models=(answer.model.name,))
            )
    return more


def settled(
    experiment: Experiment, execution: Execution, progress: Progress
) -> tuple[Session, tuple[LensChoice, ...], Readable]:
    """An experiment whose names and options are checked, before anything is read.

    Returns:
        The run, its lenses, and which models each of them reads.

    Raises:
        SondeError: Something that is named does not exist, or does not go together.
    """
    experiment = with_full_names(experiment)
    session = Session.of(experiment, execution, progress)
    lenses = lens_choices(experiment)
    check_names(experiment, execution, lenses)
    able = readable(lenses, experiment, execution)
    lenses = settled_options(lenses, able.by_lens)
    session.outcome.refused += able.left_out
    for refused in able.left_out:
        session.progress.note(f"{refused.model} is left out of the lens {refused.lens}: {refused.reason}")
    return session, lenses, able


def read_by_models(
    session: Session, lenses: Sequence[LensChoice], able: Readable
) -> tuple[list[Reading], list[ItemSet], tuple[ModelChoice, ...]]:
    """What each lens is shown, written into the folder of the run, with the models that read it.

    Raises:
        SondeError: A corpus cannot be read, or gives no items.
    """
    readings, sets = read(session, lenses)
    readings = [
        dataclasses.replace(reading, models=tuple(able.by_lens[reading.lens.name])) for reading in readings
    ]
    models = model_choices(session.experiment, session.execution, readings, able.models)
    return readings, sets, models


def planned(session: Session, models: Sequence[ModelChoice], readings: Sequence[Reading]) -> Plan:
    """The jobs of a stage of a run."""
    languages = {reading.group.language for reading in readings}
    versions = {language: components(language) for language in sorted(languages)}
    return plan(session.outcome.directory, models, readings, versions)
