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
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path

import polars as pl

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.formatting import bracket, plural
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
from sonde.experiments.plan import (
    Group,
    LensInput,
    ObserveJob,
    Plan,
    ResolvedModel,
    ScoringJob,
    build_plan,
    input_key,
)
from sonde.experiments.progress import Session
from sonde.experiments.resolve import (
    check_compatibility,
    check_names,
    components_key,
    resolve_bases,
    resolve_lenses,
    resolve_models,
    resolve_options,
    uses_datasets,
)
from sonde.experiments.score import stage_output
from sonde.languages import parses
from sonde.lenses import LENSES, LensSettings, Method, TrainingLens, load_reading_lens
from sonde.lenses.engine.item_tables import items_to_frame
from sonde.results.schema import scan_files
from sonde.results.scores import Score
from sonde.store.parts import PartStore
from sonde.store.run_folder import label_path
from sonde.tasks import DrawingTask, check_cluster_count, effective_clusters, suggest_more_clusters
from sonde.tasks.engine.task import TASKS

_MAX_COLUMNS, _LONGEST_NAME = 8, 30
"""Columns of a user's table that are named in a line, and characters of each."""


_EXAMPLES = 3


def find_parse_errors(items: Iterable[Item], parallel: ParallelMap) -> list[Item]:
    """Return the items with a parse error, in their order.

    Args:
        items: The items.
        parallel: Processes that parse; any number gives the same.
    """
    return [item for item, is_valid in parallel.map(_check_parse, None, items) if not is_valid]


def _check_parse(part: ItemChunk[None, Item]) -> list[bool]:
    """Check whether some items parse; runs in any process."""
    return [parses(item.language, item.text) for item in part.items]


def describe_parse_errors(corpus: str, items: Sequence[Item], total: int, unit: str) -> str:
    """Return a line on the items with a parse error; empty where there is none.

    >>> describe_parse_errors("local:a", [Item("id", "f(", "python", "function", "a.py", "f")], 9, "function")
    'local:a: 1 of 9 functions does not parse (a.py f): its labels are of what could be read'
    """
    if not items:
        return ""
    examples = ", ".join(f"{item.path} {item.name}".strip() for item in items[:_EXAMPLES])
    remainder = f" and {len(items) - _EXAMPLES:,} more" if len(items) > _EXAMPLES else ""
    verb, possessive = ("does", "its") if len(items) == 1 else ("do", "their")
    return (
        f"{corpus}: {len(items):,} of {total:,} {unit}s {verb} not parse "
        f"({examples}{remainder}): {possessive} labels come from the parts that parse"
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
    lock, parallel = session.execution.lock, session.spread
    with session.outcome.measure_stage("select"):
        return [
            select_with_notes(corpus, selection, session.progress, parallel, lock=lock, first=first)
            for corpus in session.experiment.corpora
        ]


def select_with_notes(
    corpus: str,
    selection: Selection,
    progress: Progress,
    parallel: ParallelMap,
    *,
    lock: Path | None = None,
    first: FirstItems | None = None,
) -> ItemSet:
    """Select the items of a corpus, and say how many, and what was not used; see `sonde.corpora.select`."""
    with progress.stage(f"reading {corpus}") as advance:
        item_set = select(
            corpus, selection, lock, parallel=parallel, first=first, advance=advance, tell=progress.note
        )
    progress.note(describe_selection(item_set))
    if line := describe_unused_files(item_set.corpus, item_set.intake, item_set.left_out):
        progress.note(line)
    return item_set


def _note_parse_errors(session: Session, sets: Sequence[ItemSet]) -> None:
    """Say which of the chosen items do not parse."""
    for item_set in sets:
        parse_errors = find_parse_errors(item_set.items, session.spread)
        if line := describe_parse_errors(
            item_set.corpus, parse_errors, len(item_set.items), item_set.selection.unit
        ):
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
    >>> from sonde.corpora.engine.corpus import TableCounts
    >>> skips = SkipCounter(table=TableCounts(9, 8, ("repo", "notes"), "?group=COLUMN"))
    >>> skips.note("no label", "line 7")
    >>> describe_unused_files("labelled:a.csv", skips)
    "labelled:a.csv: 8 of 9 rows used; not used: 1 no label (line 7); columns not read: 'repo', 'notes' \
(name one after the file, as ?group=COLUMN)"
    """
    table = intake.table
    # Rows that a user labelled are looked up one by one.
    max_examples = _EXAMPLES if table else 1
    unused: list[str] = []
    unread: list[str] = []
    partial: list[str] = []
    for reason, count in intake.counts.most_common():
        if reason.endswith(UNREAD):
            unread.append(f"{count:,} {reason.partition(' ')[0]}")
        elif count and reason not in left_out:
            examples = ", ".join(intake.examples.get(reason, [])[:max_examples])
            examples += ", ..." if table and examples and count > max_examples else ""
            entry = f"{count:,} {reason}{bracket(examples)}"
            (partial if reason == INCOMPLETE_REASON else unused).append(entry)
    parts = (("not used", unused), ("not read", unread), ("files", partial))
    clauses = [f"{title}: {', '.join(entries)}" for title, entries in parts if entries]
    if table:
        clauses = [f"{table.used:,} of {plural(table.rows, 'row')} used", *clauses]
        if table.unread_columns:
            hint = bracket(table.hint and f"name one after the file, as {table.hint}")
            names = ", ".join(repr(name[:_LONGEST_NAME]) for name in table.unread_columns[:_MAX_COLUMNS])
            if (more := len(table.unread_columns) - _MAX_COLUMNS) > 0:
                names += f" and {more:,} more"
            clauses.append(f"columns not read: {names}{hint}")
    return f"{corpus}: {'; '.join(clauses)}" if clauses else ""


def with_file_context(item_set: ItemSet) -> ItemSet:
    """Add the text before each item in its file as `Item.context`, at most its end.

    Files are read once more, so that only the text around the items that were chosen is held.
    """
    indices: dict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(item_set.items):
        indices[item.path].append(index)
    items = list(item_set.items)
    for file in read_files(
        item_set.corpus, tuple({item.language for item in items}), SkipCounter(keep_all=True)
    ):
        for index in indices.get(file.path, ()):
            item = items[index]
            begin = max(0, item.offset - CHARACTERS_BEFORE)
            # A path may name several files of a corpus: the text itself says which.
            if file.text.startswith(item.text, item.offset):
                items[index] = dataclasses.replace(item, context=file.text[begin : item.offset])
    return dataclasses.replace(item_set, items=tuple(items))


def describe_selection(item_set: ItemSet) -> str:
    """Describe how many items of a corpus were selected, and why the others were not.

    >>> left_out = {BEYOND_CAP: 8, "near duplicate": 1}
    >>> describe_selection(ItemSet("stdlib", (), "", SkipCounter(), found=9, left_out=left_out))
    'stdlib: 0 of 9 functions: 8 beyond --per-cluster 200, 1 near duplicate'
    """
    options = {
        BEYOND_LIMIT: f"beyond --limit {item_set.selection.limit}",
        BEYOND_CAP: f"beyond --per-cluster {item_set.selection.per_cluster}",
    }
    reasons = sorted(item_set.left_out.items(), key=lambda entry: (-entry[1], entry[0]))
    left = ", ".join(f"{count:,} {options.get(reason, reason)}" for reason, count in reasons)
    line = f"{item_set.corpus}: {len(item_set.items):,} of {item_set.found:,} {item_set.selection.unit}s"
    return f"{line}: {left}" if left else line


def build_groups(sets: Sequence[ItemSet]) -> tuple[Group, ...]:
    """Build one group per corpus and language."""
    return tuple(
        Group(
            corpus=item_set.corpus,
            corpus_hash=item_set.corpus_hash,
            language=language,
            items=tuple(item for item in item_set.items if item.language == language),
        )
        for item_set in sets
        for language in sorted({item.language for item in item_set.items})
    )


def build_file_groups(session: Session) -> tuple[list[ItemSet], tuple[Group, ...]]:
    """Build groups without items, for tasks that read whole files themselves; nothing is parsed here.

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
                language_names = " or ".join(selection.languages) or "a known language"
                raise InputError(f"corpus {corpus!r}: no file in {language_names}")
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


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The inputs of a run.

    Attributes:
        readings: What each lens is shown.
        sets: The items of the corpora among it.
        models: The models that read it.
    """

    readings: tuple[LensInput, ...]
    sets: tuple[ItemSet, ...]
    models: tuple[ResolvedModel, ...]


def read_inputs(session: Session) -> RunInputs:
    """Read what each lens is shown, and write it into the folder of the run.

    Three kinds of lenses: those that read the chosen items, those that draw data sets from all functions of
    the corpora, and those whose tasks read whole files. Processes that label start once for all of them.

    Raises:
        SondeError: A corpus cannot be read, or gives no items.
    """
    execution, selection = session.execution, session.experiment.selection
    item_lenses = [lens for lens in session.lenses if not uses_datasets(lens)]
    dataset_lenses = [lens for lens in session.lenses if lens not in item_lenses]
    from_files = [
        lens
        for lens in dataset_lenses
        if all(isinstance(TASKS.load(task), DrawingTask) for task in lens.tasks)
    ]
    from_functions = [lens for lens in dataset_lenses if lens not in from_files]
    with_context = [
        lens
        for lens in item_lenses
        if load_reading_lens(lens.source).needs_file_context(get_lens_settings(lens))
    ]
    if selection.transform != "none" and (file_lenses := [*from_files, *with_context]):
        raise UsageError(
            f"lens {file_lenses[0].name!r} reads whole files, and transform changes only the "
            "chosen items; leave out one of them"
        )
    readings: list[LensInput] = []
    sets: list[ItemSet] = []
    with keep_processes(execution.executor, execution.light_workers):
        if item_lenses:
            items = select_items(session, selection)
            _note_parse_errors(session, items)
            if with_context:
                with session.outcome.measure_stage("select"):
                    items = [with_file_context(item_set) for item_set in items]
            readings += _label_inputs(session, item_lenses, build_groups(items))
            sets += items
        if from_functions:
            pools = select_items(session, select_pool(selection), find_pool_limit(session, from_functions))
            readings += _dataset_inputs(session, from_functions, build_groups(pools))
            sets += pools
        if from_files:
            files, groups = build_file_groups(session)
            readings += _dataset_inputs(session, from_files, groups)
            sets += files
        sets = _write_inputs(session.store, sets, readings)
    clear_repositories()
    readings = [
        dataclasses.replace(lens_input, models=session.models[lens_input.lens.name])
        for lens_input in readings
    ]
    return RunInputs(tuple(readings), tuple(sets), resolve_models(session, readings))


BEYOND_BUDGET = "beyond the budget"
"""The reason by which a run counts the items that it did not come to in its time."""


def keep_read_inputs(session: Session, inputs: RunInputs, unread: Iterable[ObserveJob]) -> RunInputs:
    """Keep of each lens the inputs before the first that one of its models has not read.

    So all models are scored on the same inputs, which are the first ones in their order.
    """
    unread_ids = {
        (part.lens, job.corpus, job.language, item_id)
        for job in unread
        for part in job.parts
        for item_id in job.item_ids
    }
    readings: list[LensInput] = []
    for lens_input in inputs.readings:
        scope = lens_input.lens, lens_input.group.corpus, lens_input.group.language
        read = takewhile(
            lambda item, scope=scope: (*scope, item.item_id) not in unread_ids, lens_input.inputs
        )
        readings.append(dataclasses.replace(lens_input, inputs=tuple(read)))
    sets: list[ItemSet] = []
    for before, after in zip(inputs.sets, _write_inputs(session.store, inputs.sets, readings), strict=True):
        dropped = len(before.items) - len(after.items)
        left_out = {**after.left_out, BEYOND_BUDGET: dropped} if dropped else after.left_out
        sets.append(dataclasses.replace(after, left_out=left_out))
    _drop_labels(session.store, inputs.readings, readings)
    item_ids = {item.item_id for lens_input in readings for item in lens_input.inputs}
    models = tuple(dataclasses.replace(model, seen=model.seen & item_ids) for model in inputs.models)
    return RunInputs(readings=tuple(readings), sets=tuple(sets), models=models)


def _drop_labels(store: PartStore, all_inputs: Sequence[LensInput], read_inputs: Sequence[LensInput]) -> None:
    """Remove the labels of inputs that no lens came to; other labels may have ids that no input has."""
    unread_ids: defaultdict[str, set[str]] = defaultdict(set)
    read_ids: defaultdict[str, set[str]] = defaultdict(set)
    for before, after in zip(all_inputs, read_inputs, strict=True):
        for task in after.lens.tasks:
            path = label_path(task, after.group.prefix, after.lens.labels)
            read_ids[path].update(item.item_id for item in after.inputs)
            unread_ids[path].update(item.item_id for item in before.inputs[len(after.inputs) :])
    for path, ids in unread_ids.items():
        if dropped_ids := sorted(ids - read_ids[path]):
            is_dropped = pl.col("item_id").is_in(pl.Series(dropped_ids, dtype=pl.String).implode())
            labels = scan_files([store.path(path)]).filter(~is_dropped).collect()
            # Another key than that of all labels, which a later call makes again.
            store.put(path, fingerprint("within budget", dropped_ids), labels, {})


def _write_inputs(store: PartStore, sets: Sequence[ItemSet], readings: Sequence[LensInput]) -> list[ItemSet]:
    """Write what the lenses read: items of the corpora, and apart from them what tasks derived.

    Returns:
        The sets with the items that are read.
    """
    inputs = {
        (lens_input.group.corpus, item.item_id): item for lens_input in readings for item in lens_input.inputs
    }
    used: dict[str, ItemSet] = {}
    for item_set in sets:
        items = [item for item in item_set.items if inputs.pop((item_set.corpus, item.item_id), None)]
        earlier_items = used[item_set.corpus].items if item_set.corpus in used else ()
        used[item_set.corpus] = dataclasses.replace(item_set, items=(*earlier_items, *items))
    derived_items: dict[str, list[Item]] = {item_set.corpus: [] for item_set in sets}
    for (corpus, _), item in inputs.items():
        derived_items[corpus].append(item)
    _write_table(store, "items.parquet", [(name, item_set.items) for name, item_set in used.items()])
    _write_table(store, "inputs.parquet", list(derived_items.items()))
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
    progress, selection = session.progress, session.experiment.selection
    requests = sorted({(task, lens.labels, lens.mode, lens.quirks) for lens in lenses for task in lens.tasks})
    readings: list[LensInput] = []
    with (
        session.outcome.measure_stage("label"),
        progress.stage("labelling", len(requests) * sum(len(group.items) for group in groups)) as advance,
    ):
        for group in groups:
            rules: dict[tuple[str, str], str] = {}
            for task, suffix, mode, quirks in requests:
                rules[task, suffix] = write_labels(session, task, group, mode, quirks, suffix, advance)
            for lens in lenses:
                key = fingerprint("labels", [rules[task, lens.labels] for task in lens.tasks])
                public = dataclasses.replace(lens, tasks=tuple(map(TASKS.public, lens.tasks)))
                readings.append(_build_input(session, public, group, group.items, key))
    for group in groups:
        paths = pl.DataFrame([(item.cluster, item.path) for item in group.items], _PATHS, orient="row")
        remedies = suggest_more_clusters(
            group.corpus,
            group.language,
            has_limit=selection.limit is not None and len(group.items) >= selection.limit,
            files=paths if selection.unit == "function" else None,
        )
        sample = f"{len(group.items):,} {selection.unit}s"
        if lack := check_cluster_count({sample: effective_clusters(paths)}, remedies):
            progress.note(f"{group.corpus} in {group.language}: {lack}")
    return readings


def _build_input(
    session: Session, lens: LensChoice, group: Group, items: Sequence[Item], key: str
) -> LensInput:
    """Build the input of a lens that reads models.

    Args:
        session: The run.
        lens: The lens, with the tasks that have labels in this group.
        group: Where the items come from.
        items: The items.
        key: Fingerprint of their labels.
    """
    reader, settings = load_reading_lens(lens.source), get_lens_settings(lens)
    labels = LabelTables(session.store, lens.tasks, group, lens.labels)
    inputs = tuple(reader.inputs(items, labels, settings))
    if description := reader.describe_inputs(inputs, labels, settings):
        session.progress.note(f"{lens.name}: {description}")
    controls = reader.assign_controls(inputs, labels, settings)
    return LensInput(lens=lens, group=group, inputs=inputs, labels=key, controls=controls)


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
                    f"{pool.corpus}: {left:,} of {len(pool.items):,} {pool.language} functions "
                    "are in the training data of a bundled model and left out of data sets "
                    "(--include-seen keeps them)"
                )
            for lens in lenses:
                datasets = build_datasets(session, lens, pool, items)
                dataset_lens = dataclasses.replace(lens, tasks=datasets.tasks)
                reader = LENSES.load(lens.source)
                if isinstance(reader, TrainingLens):
                    methods = _training_keys(reader, datasets, get_lens_settings(lens), pool.language)
                    readings.append(
                        LensInput(
                            lens=dataset_lens,
                            group=pool,
                            inputs=datasets.inputs,
                            labels=datasets.key,
                            methods=methods,
                        )
                    )
                else:
                    readings.append(_build_input(session, dataset_lens, pool, datasets.inputs, datasets.key))
                outcome.refused.extend(datasets.refused)
                outcome.data_sets[f"{lens.name}/{pool.prefix}"] = datasets.reports
    return readings


def _training_keys(
    lens: TrainingLens, datasets: LensDatasets, settings: LensSettings, language: str
) -> dict[Method, str]:
    """Return the fingerprint of the training data of every method."""
    methods = lens.methods(datasets.tasks, settings)
    corpora = {
        method: [str(value) for option, value in method.options if option in lens.corpus_options and value]
        for method in methods
    }
    corpus_keys = {corpus: _corpus_key(corpus, language) for corpus in sorted(set(chain(*corpora.values())))}
    return {
        method: fingerprint(
            "beside", datasets.keys[method.task], [corpus_keys[corpus] for corpus in corpora[method]]
        )
        if corpora[method]
        else datasets.keys[method.task]
        for method in methods
    }


def _corpus_key(corpus: str, language: str) -> str:
    """Return the fingerprint of a corpus's functions, whose ids are hashes of their texts."""
    items = {
        (item.item_id, item.cluster) for item in read_items(corpus, SkipCounter(), languages=(language,))
    }
    return fingerprint("contents", sorted(items))


def next_stage_inputs(
    store: PartStore, answers: Sequence[ScoringJob], scores: Mapping[str, Sequence[Score]]
) -> list[LensInput]:
    """Return the inputs of the lenses that want a second stage, model by model."""
    inputs: list[LensInput] = []
    for answer in answers:
        lens_input, lens = answer.reading, answer.reading.lens
        if lens_input.methods:
            continue
        stage_options = load_reading_lens(lens.source).next_stage(scores[answer.key], get_lens_settings(lens))
        if stage_options is not None:
            stage_options = {**stage_options, **stage_output(store, answer)}
            next_stage = dataclasses.replace(
                lens, stage=lens.stage + 1, found=tuple(sorted(stage_options.items()))
            )
            inputs.append(
                dataclasses.replace(lens_input, lens=next_stage, controls=(), models=(answer.model.name,))
            )
    return inputs


def resolve_experiment(experiment: Experiment, execution: Execution, progress: Progress) -> Session:
    """Check the names and options of an experiment, before anything is read.

    Raises:
        SondeError: Something that is named does not exist, or does not go together.
    """
    experiment = with_full_names(experiment)
    lenses = resolve_lenses(experiment)
    check_names(experiment, execution, lenses)
    models, left_out = check_compatibility(lenses, experiment, execution)
    lenses, models, not_compared = resolve_bases(lenses, models, experiment, execution)
    left_out += not_compared
    session = Session(
        experiment=experiment,
        execution=execution,
        progress=progress,
        lenses=resolve_options(lenses, models),
        models={lens: tuple(capabilities) for lens, capabilities in models.items()},
    )
    session.outcome.refused += left_out
    for skipped_task in left_out:
        progress.note(
            f"{skipped_task.model} is left out of the lens {skipped_task.lens}: {skipped_task.reason}"
        )
    return session


def plan_stage(session: Session, models: Sequence[ResolvedModel], readings: Sequence[LensInput]) -> Plan:
    """Plan the jobs of a stage of a run."""
    languages = {lens_input.group.language for lens_input in readings}
    versions = {language: components_key(language) for language in sorted(languages)}
    return build_plan(session.outcome.directory, models, readings, versions)
