"""Inputs of the lenses: selected items, their groups and labels, and the first steps of a run.

The inputs of a lens are the items of a group with their labels, made once before any model is loaded. A group
has either chosen items or none, for tasks that read whole files themselves. An item that the grammar cannot
parse as a whole has labels of fragments only; such items are counted and named.

A plan of a run takes the same first steps as the run itself: experiment, inputs and jobs are resolved.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain

import polars as pl

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.progress import Progress
from sonde.corpora import (
    BEYOND_CAP,
    BEYOND_LIMIT,
    FirstItems,
    Item,
    ItemSet,
    Selection,
    SkipCounter,
    content_hash,
    read_files,
    read_items,
    select,
)
from sonde.corpora.engine.content_cache import INCOMPLETE_REASON
from sonde.corpora.engine.parallel import ItemChunk, ParallelMap
from sonde.corpora.engine.source_files import UNREAD
from sonde.executors import keep_processes
from sonde.experiments.arguments import with_full_names
from sonde.experiments.datasets import (
    LabelTables,
    LensDatasets,
    build_datasets,
    clear_repositories,
    exclude_training_items,
    find_pool_limit,
    select_pool,
    write_labels,
)
from sonde.experiments.experiment import Execution, Experiment, LensChoice, get_lens_settings
from sonde.experiments.plan import Group, LensInput, Plan, ResolvedModel, ScoringJob, build_plan, input_key
from sonde.experiments.progress import Session
from sonde.experiments.resolve import (
    Compatibility,
    check_compatibility,
    check_names,
    components_key,
    resolve_lenses,
    resolve_models,
    resolve_options,
    uses_datasets,
)
from sonde.experiments.score import stage_output
from sonde.languages import parses
from sonde.lenses import LENSES, LensSettings, Method, TrainingLens, load_reading_lens
from sonde.lenses.engine.item_tables import items_to_frame
from sonde.results.scores import Score
from sonde.store.parts import PartStore
from sonde.tasks import DrawingTask, check_cluster_count, effective_clusters, suggest_more_clusters
from sonde.tasks.engine.task import TASKS

_NAMED = 3


def find_parse_errors(items: Iterable[Item], spread: ParallelMap) -> list[Item]:
    """Return the items with a parse error, in their order.

    Args:
        items: The items.
        spread: Processes that parse; any number gives the same.
    """
    return [item for item, parsed in spread.map(_check_parse, None, items) if not parsed]


def _check_parse(part: ItemChunk[None, Item]) -> list[bool]:
    """Whether some items parse; runs in any process."""
    return [parses(item.language, item.text) for item in part.items]


def describe_parse_errors(corpus: str, unparsed: Sequence[Item], total: int, unit: str) -> str:
    """Return a line on the items with a parse error; empty where there is none.

    >>> describe_parse_errors("local:a", [Item("id", "f(", "python", "function", "a.py", "f")], 9, "function")
    'local:a: 1 of 9 functions does not parse (a.py f): its labels are of what could be read'
    """
    if not unparsed:
        return ""
    named = ", ".join(f"{item.path} {item.name}".strip() for item in unparsed[:_NAMED])
    more = f" and {len(unparsed) - _NAMED:,} more" if len(unparsed) > _NAMED else ""
    verb, whose = ("does", "its") if len(unparsed) == 1 else ("do", "their")
    return (
        f"{corpus}: {len(unparsed):,} of {total:,} {unit}s {verb} not parse ({named}{more}): "
        f"{whose} labels are of what could be read"
    )


CHARACTERS_BEFORE = 100_000
"""Of a file's text before an item this much is kept, which is more than most models can take."""


def select_items(session: Session, selection: Selection, first: FirstItems | None = None) -> list[ItemSet]:
    """Choose the items of each corpus.

    Args:
        session: The run.
        selection: How they are chosen.
        first: As for `sonde.corpora.select`.

    Raises:
        SondeError: See `sonde.corpora.select`.
    """
    corpora, progress = session.experiment.corpora, session.progress
    sets: list[ItemSet] = []
    with session.outcome.measure_stage("select"):
        for corpus in corpora:
            with progress.stage(f"reading {corpus}") as advance:
                lock, spread = session.execution.lock, session.spread
                sets.append(select(corpus, selection, lock, parallel=spread, first=first, advance=advance))
    for chosen in sets:
        progress.note(describe_selection(chosen))
        if line := describe_unused_files(chosen.corpus, chosen.intake, chosen.left_out):
            progress.note(line)
    return sets


def note_parse_errors(session: Session, sets: Sequence[ItemSet]) -> None:
    """Say which of the chosen items do not parse."""
    for chosen in sets:
        unparsed = find_parse_errors(chosen.items, session.spread)
        if line := describe_parse_errors(chosen.corpus, unparsed, len(chosen.items), chosen.selection.unit):
            session.progress.note(line)


def describe_unused_files(corpus: str, intake: SkipCounter, left_out: Container[str] = ()) -> str:
    """Return what a source left out of what it read, by reason with an example each; empty where it took all.

    Args:
        corpus: The corpus as named.
        intake: What the source counted.
        left_out: Reasons that are told elsewhere.

    >>> skips = SkipCounter()
    >>> skips.note("no label", "row 7")
    >>> describe_unused_files("labelled:a.csv", skips)
    'labelled:a.csv: not used: 1 no label (row 7)'
    >>> skips.note(".ts file, a kind of code that is not read", "a.ts")
    >>> describe_unused_files("local:a", skips)
    'local:a: not used: 1 no label (row 7); not read: 1 .ts'
    """
    skipped: list[str] = []
    unread: list[str] = []
    partial: list[str] = []
    for reason, count in intake.counts.most_common():
        if reason.endswith(UNREAD):
            unread.append(f"{count:,} {reason.partition(' ')[0]}")
        elif count and reason not in left_out:
            example = next(iter(intake.examples.get(reason, ())), "")
            told = f"{count:,} {reason}{f' ({example})' if example else ''}"
            (partial if reason == INCOMPLETE_REASON else skipped).append(told)
    parts = (("not used", skipped), ("not read", unread), ("files", partial))
    line = "; ".join(f"{title}: {', '.join(listed)}" for title, listed in parts if listed)
    return f"{corpus}: {line}" if line else ""


def with_file_context(chosen: ItemSet) -> ItemSet:
    """The items with the text of their files before them, as `Item.context`; at most its end.

    Files are read once more, so that only the text around the items that were chosen is held.
    """
    wanted: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(chosen.items):
        wanted[item.path].append(place)
    items = list(chosen.items)
    for file in read_files(
        chosen.corpus, tuple({item.language for item in items}), SkipCounter(keep_all=True)
    ):
        for place in wanted.get(file.path, ()):
            item = items[place]
            begin = max(0, item.offset - CHARACTERS_BEFORE)
            # A path may name several files of a corpus: the text itself says which.
            if file.text.startswith(item.text, item.offset):
                items[place] = dataclasses.replace(item, context=file.text[begin : item.offset])
    return dataclasses.replace(chosen, items=tuple(items))


def describe_selection(chosen: ItemSet) -> str:
    """How many items of a corpus were taken, and where the others went.

    >>> left_out = {BEYOND_CAP: 8, "near duplicate": 1}
    >>> describe_selection(ItemSet("stdlib", (), "", SkipCounter(), found=9, left_out=left_out))
    'stdlib: 0 of 9 functions: 8 beyond --per-cluster 200, 1 near duplicate'
    """
    options = {
        BEYOND_LIMIT: f"beyond --limit {chosen.selection.limit}",
        BEYOND_CAP: f"beyond --per-cluster {chosen.selection.per_cluster}",
    }
    reasons = sorted(chosen.left_out.items(), key=lambda entry: (-entry[1], entry[0]))
    left = ", ".join(f"{count:,} {options.get(reason, reason)}" for reason, count in reasons)
    taken = f"{chosen.corpus}: {len(chosen.items):,} of {chosen.found:,} {chosen.selection.unit}s"
    return f"{taken}: {left}" if left else taken


def build_groups(sets: Sequence[ItemSet]) -> tuple[Group, ...]:
    """One group a corpus and language."""
    return tuple(
        Group(
            corpus=chosen.corpus,
            corpus_hash=chosen.corpus_hash,
            language=language,
            items=tuple(item for item in chosen.items if item.language == language),
        )
        for chosen in sets
        for language in sorted({item.language for item in chosen.items})
    )


def build_file_groups(session: Session) -> tuple[list[ItemSet], tuple[Group, ...]]:
    """Groups without items, for tasks that read whole files themselves; nothing is parsed here.

    Raises:
        InputError: A corpus holds no file in the languages wanted.
        SondeError: See `sonde.corpora.read_files`.
    """
    corpora, selection = session.experiment.corpora, session.experiment.selection
    sets: list[ItemSet] = []
    groups: list[Group] = []
    with session.outcome.measure_stage("select"), session.progress.stage("reading", len(corpora)) as advance:
        for corpus in corpora:
            intake = SkipCounter()
            languages: set[str] = set()
            hashes: dict[str, str] = {}
            for file in read_files(corpus, selection.languages, intake):
                languages.add(file.language)
                hashes[file.path] = content_hash(file)
            if not hashes:
                wanted = " or ".join(selection.languages) or "a known language"
                raise InputError(f"corpus {corpus!r}: no file in {wanted}")
            corpus_hash = fingerprint(sorted(hashes.items()))
            sets.append(ItemSet(corpus, (), corpus_hash, intake, selection))
            groups += [
                Group(corpus=corpus, corpus_hash=corpus_hash, language=language, items=())
                for language in sorted(languages)
            ]
            advance()
    return sets, tuple(groups)


_PATHS = ("cluster", "path")


_ROW_GROUP = 2_048
"""Items that are read together: a job wants some dozens that stand beside each other."""


def read_inputs(session: Session, lenses: Sequence[LensChoice]) -> tuple[list[LensInput], list[ItemSet]]:
    """What each lens is shown, written into the folder of the run, and the items of the corpora among it.

    Three kinds of lenses: those that read the chosen items, those that draw data sets from all functions of
    the corpora, and those whose tasks read whole files. Processes that label start once for all of them.
    """
    execution = session.execution
    with keep_processes(execution.executor, execution.light_workers):
        found = _read_all(session, lenses)
    clear_repositories()
    return found


def _read_all(session: Session, lenses: Sequence[LensChoice]) -> tuple[list[LensInput], list[ItemSet]]:
    shown = [lens for lens in lenses if not uses_datasets(lens)]
    drawing = [lens for lens in lenses if lens not in shown]
    from_files = [lens for lens in drawing if _reads_files(lens)]
    from_functions = [lens for lens in drawing if lens not in from_files]
    chosen = session.experiment.selection
    if chosen.transform != "none":
        _check_transform(shown, from_files)
    readings: list[LensInput] = []
    sets: list[ItemSet] = []
    if shown:
        items = select_items(session, chosen)
        note_parse_errors(session, items)
        if any(load_reading_lens(lens.source).needs_file_context(get_lens_settings(lens)) for lens in shown):
            with session.outcome.measure_stage("select"):
                items = [with_file_context(one) for one in items]
        readings += _label_inputs(session, shown, build_groups(items))
        sets += items
    if from_functions:
        pools = select_items(session, select_pool(chosen), find_pool_limit(session, from_functions))
        readings += _dataset_inputs(session, from_functions, build_groups(pools))
        sets += pools
    if from_files:
        files, groups = build_file_groups(session)
        readings += _dataset_inputs(session, from_files, groups)
        sets += files
    return readings, _write_inputs(session.store, sets, readings)


def _check_transform(shown: Sequence[LensChoice], from_files: Sequence[LensChoice]) -> None:
    """Refuse lenses that read files, which stay as they are.

    Raises:
        UsageError: There is one.
    """
    behind = [
        lens for lens in shown if load_reading_lens(lens.source).needs_file_context(get_lens_settings(lens))
    ]
    for lens in (*from_files, *behind):
        raise UsageError(
            f"lens {lens.name!r} reads whole files, and transform changes the chosen items alone; leave out "
            "one of them"
        )


def _reads_files(lens: LensChoice) -> bool:
    return all(isinstance(TASKS.load(task), DrawingTask) for task in lens.tasks)


def _write_inputs(store: PartStore, sets: Sequence[ItemSet], readings: Sequence[LensInput]) -> list[ItemSet]:
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
        [(corpus, [input_key(item) for item in items]) for corpus, items in corpora],
        *([days] if days else []),
    )
    if store.notes(name, key) is None:
        store.put(name, key, items_to_frame(corpora), {}, row_group=_ROW_GROUP)


def _label_inputs(session: Session, lenses: Sequence[LensChoice], groups: Sequence[Group]) -> list[LensInput]:
    """Label the groups for lenses that read the items, and say what each reads of each group."""
    store, progress = session.store, session.progress
    tasks = sorted({(task, lens.labels, lens.mode, lens.quirks) for lens in lenses for task in lens.tasks})
    readings: list[LensInput] = []
    with (
        session.outcome.measure_stage("label"),
        progress.stage("labelling", len(tasks) * len(groups)) as advance,
    ):
        for group in groups:
            rules = {
                (task, of): write_labels(store, task, group, mode, quirks, advance, session.spread, of)
                for task, of, mode, quirks in tasks
            }
            readings += [_item_input(lens, group, rules, store, progress) for lens in lenses]
    for group in groups:
        if lack := _check_cluster_count(group, session.experiment.selection):
            progress.note(f"{group.corpus} in {group.language}: {lack}")
    return readings


def _check_cluster_count(group: Group, selection: Selection) -> str:
    """Why no verdict can come of the items of a group, and what would help; empty where one can."""
    paths = pl.DataFrame([(item.cluster, item.path) for item in group.items], _PATHS, orient="row")
    count = len(group.items)
    remedies = suggest_more_clusters(
        group.corpus,
        group.language,
        limited=selection.limit is not None and count >= selection.limit,
        files=paths if selection.unit == "function" else None,
    )
    return check_cluster_count({f"{count:,} {selection.unit}s": effective_clusters(paths)}, remedies)


def _dataset_inputs(
    session: Session, lenses: Sequence[LensChoice], pools: Sequence[Group]
) -> list[LensInput]:
    """Draw the data sets of lenses that ask for them, and say what each reads of each pool."""
    outcome = session.outcome
    readings: list[LensInput] = []
    with outcome.measure_stage("draw"):
        for pool in pools:
            items = (
                list(pool.items) if session.experiment.include_seen else exclude_training_items(pool.items)
            )
            if left := len(pool.items) - len(items):
                session.progress.note(
                    f"{pool.corpus}: {left:,} of {len(pool.items):,} {pool.language} functions are in the "
                    "training data of a bundled model and in no data set (--include-seen takes them in)"
                )
            for lens in lenses:
                drawn = build_datasets(session, lens, pool, items)
                readings.append(_dataset_input(lens, pool, drawn, session.store, session.progress))
                outcome.refused.extend(drawn.refused)
                outcome.data_sets[f"{lens.name}/{pool.prefix}"] = drawn.reports
    return readings


def _dataset_input(
    lens: LensChoice, pool: Group, drawn: LensDatasets, store: PartStore, progress: Progress
) -> LensInput:
    able = dataclasses.replace(lens, tasks=drawn.tasks)
    reader, settings = LENSES.load(lens.source), get_lens_settings(lens)
    if isinstance(reader, TrainingLens):
        methods = _training_keys(reader, drawn, settings, pool.language)
        return LensInput(lens=able, group=pool, inputs=drawn.inputs, labels=drawn.key, methods=methods)
    reader = load_reading_lens(lens.source)
    labels = LabelTables(store, drawn.tasks, pool, lens.labels)
    inputs = tuple(reader.inputs(drawn.inputs, labels, settings))
    if about := reader.describe_inputs(inputs, labels, settings):
        progress.note(f"{lens.name}: {about}")
    return LensInput(
        lens=able,
        group=pool,
        inputs=inputs,
        labels=drawn.key,
        controls=reader.assign_controls(inputs, labels, settings),
    )


def _training_keys(
    lens: TrainingLens, drawn: LensDatasets, settings: LensSettings, language: str
) -> dict[Method, str]:
    """Every method with the fingerprint of what it is trained on."""
    methods = lens.methods(drawn.tasks, settings)
    named = {
        method: [str(value) for option, value in method.options if option in lens.corpus_options and value]
        for method in methods
    }
    held = {corpus: _corpus_key(corpus, language) for corpus in sorted(set(chain(*named.values())))}
    return {
        method: fingerprint("beside", drawn.keys[method.task], [held[corpus] for corpus in named[method]])
        if named[method]
        else drawn.keys[method.task]
        for method in methods
    }


def _corpus_key(corpus: str, language: str) -> str:
    """Fingerprint of a corpus's functions, whose ids are hashes of their texts."""
    items = {
        (item.item_id, item.cluster) for item in read_items(corpus, SkipCounter(), languages=(language,))
    }
    return fingerprint("contents", sorted(items))


def _item_input(
    lens: LensChoice, group: Group, rules: dict[tuple[str, str], str], store: PartStore, progress: Progress
) -> LensInput:
    reader, settings = load_reading_lens(lens.source), get_lens_settings(lens)
    rule = fingerprint("labels", [rules[task, lens.labels] for task in lens.tasks])
    lens = dataclasses.replace(lens, tasks=tuple(map(TASKS.public, lens.tasks)))
    labels = LabelTables(store, lens.tasks, group, lens.labels)
    inputs = tuple(reader.inputs(group.items, labels, settings))
    if about := reader.describe_inputs(inputs, labels, settings):
        progress.note(f"{lens.name}: {about}")
    return LensInput(
        lens=lens,
        group=group,
        inputs=inputs,
        labels=rule,
        controls=reader.assign_controls(inputs, labels, settings),
    )


def next_stage_inputs(
    store: PartStore, answers: Sequence[ScoringJob], scores: Mapping[str, Sequence[Score]]
) -> list[LensInput]:
    """What the lenses want to look at more closely, model by model, now that the scores are there."""
    more: list[LensInput] = []
    for answer in answers:
        reading, lens = answer.reading, answer.reading.lens
        if reading.methods:
            continue
        found = load_reading_lens(lens.source).next_stage(scores[answer.key], get_lens_settings(lens))
        if found is not None:
            found = {**found, **stage_output(store, answer)}
            next_stage = dataclasses.replace(lens, stage=lens.stage + 1, found=tuple(sorted(found.items())))
            more.append(
                dataclasses.replace(reading, lens=next_stage, controls=(), models=(answer.model.name,))
            )
    return more


def resolve_experiment(
    experiment: Experiment, execution: Execution, progress: Progress
) -> tuple[Session, tuple[LensChoice, ...], Compatibility]:
    """An experiment whose names and options are checked, before anything is read.

    Returns:
        The run, its lenses, and which models each of them reads.

    Raises:
        SondeError: Something that is named does not exist, or does not go together.
    """
    experiment = with_full_names(experiment)
    session = Session.create(experiment, execution, progress)
    lenses = resolve_lenses(experiment)
    check_names(experiment, execution, lenses)
    able = check_compatibility(lenses, experiment, execution)
    lenses = resolve_options(lenses, able.by_lens)
    session.outcome.refused += able.left_out
    for refused in able.left_out:
        session.progress.note(f"{refused.model} is left out of the lens {refused.lens}: {refused.reason}")
    return session, lenses, able


def resolve_inputs(
    session: Session, lenses: Sequence[LensChoice], able: Compatibility
) -> tuple[list[LensInput], list[ItemSet], tuple[ResolvedModel, ...]]:
    """What each lens is shown, written into the folder of the run, with the models that read it.

    Raises:
        SondeError: A corpus cannot be read, or gives no items.
    """
    readings, sets = read_inputs(session, lenses)
    readings = [
        dataclasses.replace(reading, models=tuple(able.by_lens[reading.lens.name])) for reading in readings
    ]
    models = resolve_models(session.experiment, session.execution, readings, able.models)
    return readings, sets, models


def plan_stage(session: Session, models: Sequence[ResolvedModel], readings: Sequence[LensInput]) -> Plan:
    """The jobs of a stage of a run."""
    languages = {reading.group.language for reading in readings}
    versions = {language: components_key(language) for language in sorted(languages)}
    return build_plan(session.outcome.directory, models, readings, versions)
