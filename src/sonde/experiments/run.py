"""Run of an experiment from its resolution to ``run.json``, and the merging of a run's shares.

The stages resolve, read, plan, observe, train and score; those that are finished already are skipped.
``run.json`` records what was asked for, what it resolved to, what was skipped, and on what it ran.

Shares of a run (`sonde.experiments.shards`) become one: compared, put into one folder, and
scored there.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, SondeError, StoreError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.formatting import plural
from sonde.base.options import parse_duration
from sonde.base.process import read_clock, safe_path_environment
from sonde.base.progress import NullProgress, Progress
from sonde.comparison.compare import compare, default_output, load_compared_key, write_comparison
from sonde.corpora import ItemSet
from sonde.experiments.catalogue import describe_replication
from sonde.experiments.experiment import Execution, Experiment, parse_experiment, to_plain_data
from sonde.experiments.inputs import (
    RunInputs,
    keep_read_inputs,
    next_stage_inputs,
    plan_stage,
    read_inputs,
    resolve_experiment,
)
from sonde.experiments.observe import has_tables, observe_jobs
from sonde.experiments.plan import LensInput, ObserveJob, ResolvedModel, TrainJob
from sonde.experiments.progress import AGAIN, Outcome, Session, describe_hardware, list_versions
from sonde.experiments.score import count_tasks, score_all, write_scores
from sonde.experiments.shards import (
    FILE,
    ShardRecord,
    check_merged_plan,
    count_missing_tables,
    observe_shard,
    parse_shard,
    read_shard_record,
    tables_key,
)
from sonde.experiments.train import train_jobs
from sonde.lenses import LENSES
from sonde.models import describe_model, describe_special
from sonde.results.scores import Score
from sonde.store.checksums import copy_files_with_receipts
from sonde.store.lock import lock_folder
from sonde.store.parts import CACHED_NOTE, PartStore
from sonde.store.run_folder import RunDirectory, slug


def build_run_json(session: Session, inputs: RunInputs) -> dict[str, Any]:
    """Build the content of ``run.json`` except timings."""
    experiment, execution, outcome = session.experiment, session.execution, session.outcome
    models, sets = inputs.models, inputs.sets
    coverage, precision, forwards = _gather_notes(models, outcome, session.store)
    return {
        "name": execution.output.name,
        "fingerprint": fingerprint(experiment),
        "arguments": to_plain_data(experiment),
        "execution": {
            "executor": execution.executor,
            "workers": execution.workers,
            "device": execution.device,
            "device_map": execution.device_map,
            "dtype": execution.dtype,
            "trust_remote_code": execution.trust_remote_code,
        },
        **({"budget": outcome.budget} if outcome.budget else {}),
        **({"published": replication} if (replication := describe_replication(experiment)) else {}),
        "models": [{**_model_entry(model, sets), "reading": precision[model.name]} for model in models],
        "lenses": [dataclasses.asdict(lens) for lens in session.lenses],
        "corpus": [
            _corpus_entry(item_set, language, inputs.readings)
            for item_set in sets
            for language in sorted(
                {
                    reading.group.language
                    for reading in inputs.readings
                    if reading.group.corpus == item_set.corpus
                }
            )
        ],
        "mode": experiment.mode,
        "quirks": sorted({quirk for lens in session.lenses for quirk in lens.quirks}),
        "seed": experiment.seed,
        "versions": list_versions(),
        "hardware": describe_hardware(),
        "alignment": coverage,
        "forwards": forwards,
        "refused": [dataclasses.asdict(skipped_task) for skipped_task in outcome.refused],
        "data_sets": outcome.data_sets,
        "scores_key": outcome.scores_key,
    }


def _corpus_entry(item_set: ItemSet, language: str, readings: Sequence[LensInput]) -> dict[str, Any]:
    items = [item for item in item_set.items if item.language == language]
    # Where all that is shown was derived from files, as prompts are, the clusters are theirs.
    items = items or [
        item
        for lens_input in readings
        if (lens_input.group.corpus, lens_input.group.language) == (item_set.corpus, language)
        for item in lens_input.inputs
    ]
    return {
        "name": item_set.corpus,
        "hash": item_set.corpus_hash,
        "language": language,
        "items": len(items),
        "files": len({item.path for item in items}),
        "clusters": len({item.cluster for item in items}),
        "found": item_set.found,
        "left_out": dict(item_set.left_out),
        "skipped": {reason: count for reason, count in item_set.intake.counts.most_common() if count},
        "examples": item_set.intake.examples,
        **({"table": dataclasses.asdict(table)} if (table := item_set.intake.table) else {}),
    }


def _model_entry(model: ResolvedModel, sets: Sequence[ItemSet]) -> dict[str, Any]:
    total = sum(len(item_set.items) for item_set in sets)
    return {
        "name": model.name,
        "slug": slug(model.name),
        "revision": model.revision,
        "device": model.spec.device,
        "dtype": model.spec.dtype,
        **dataclasses.asdict(describe_model(model.spec)),
        "special": dataclasses.asdict(describe_special(model.spec)),
        "seen": len(model.seen),
        "items": total - len(model.seen),
    }


def _gather_notes(
    models: Sequence[ResolvedModel], outcome: Outcome, store: PartStore
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, Any]], dict[str, int]]:
    """Sum the notes of the parts.

    Returns:
        Alignment coverage of each model; in which precision each was read, and how near its attention is to
        eager attention; and forward passes.
    """
    coverage = {model.spec: Counter[str]() for model in models}
    precision = {model.spec: dict[str, Any]() for model in models}
    forwards: Counter[str] = Counter()
    for job in outcome.jobs:
        notes = [store.notes(part.relative, part.key) or {} for part in job.parts]
        from_cache = notes[0].get(CACHED_NOTE)
        forwards.update(
            {"inputs from the cache": len(job.item_ids)} if from_cache else notes[0].get("forwards", {})
        )
        # Random-weights controls and later stages read the same inputs again.
        if job.model in coverage and not job.parts[0].lens.stage:
            coverage[job.model].update(notes[0].get("coverage", {}))
        for part_precision in (note.get("reading", {}) for note in notes) if job.model in precision else ():
            model_precision = precision[job.model]
            # Each job loads the model by itself: the largest difference counts.
            maximum = max(model_precision.get("difference", 0.0), part_precision.get("difference", 0.0))
            model_precision |= part_precision | (
                {"difference": maximum} if "difference" in {**model_precision, **part_precision} else {}
            )
    for training in outcome.trainings:
        forwards.update((store.notes(training.part.relative, training.part.key) or {}).get("forwards", {}))
    return (
        {slug(model.name): dict(coverage[model.spec]) for model in models},
        {model.name: precision[model.spec] for model in models},
        dict(forwards),
    )


@safe_path_environment()
def run(experiment: Experiment, execution: Execution, progress: Progress | None = None) -> Outcome:
    """Run an experiment, or resume an earlier call.

    Every stage writes atomically under a key of everything that can change it, so that a run killed at any
    moment and started again ends with the scores of an undisturbed one.

    Raises:
        SondeError: One line for a person; whatever was finished is kept.
    """
    session = resolve_experiment(experiment, execution, progress or NullProgress())
    with lock_folder(session.outcome.directory.root):
        return _run_stages(session)


def _run_stages(session: Session) -> Outcome:
    """Run the stages of a checked experiment."""
    begun, store, outcome = read_clock(), session.store, session.outcome
    directory = outcome.directory
    previous_summary = _read_previous_summary(outcome)
    if previous_summary and previous_summary.get("fingerprint") != fingerprint(session.experiment):
        session.progress.note(
            f"{directory.root} has another experiment: matching parts are reused, its scores and "
            "report are replaced"
        )
    inputs = read_inputs(session)
    for model in inputs.models:
        if model.seen:
            session.progress.note(
                f"{model.name}: left out {plural(len(model.seen), 'input')} of its training data "
                "(--include-seen keeps them)"
            )
    if session.execution.shard:
        observe_shard(session, plan_stage(session, inputs.models, inputs.readings))
        store.remove_unfinished()
        return outcome
    if session.execution.budget:
        inputs = _read_within_budget(session, inputs, begun)
    outcome.scores_key = write_scores(store, observe_and_score(session, inputs))
    _drop_stale(store, [*outcome.jobs, *outcome.trainings])
    outcome.damaged += store.damaged
    for relative in outcome.damaged:
        session.progress.note(f"{relative} was damaged and has been computed again")
    directory.write_summary(build_run_json(session, inputs) | _build_timing(outcome, previous_summary))
    for lens in session.lenses:
        outcome.files += LENSES.load(lens.source).write_files(directory)
    if len(inputs.models) > 1:
        _compare_models(session)
    return outcome


def _compare_models(session: Session) -> None:
    """Compare the models of a run with its first; what cannot be compared costs nothing else."""
    outcome = session.outcome
    folder = default_output([outcome.directory.root])
    if load_compared_key(folder) == outcome.scores_key:
        return
    try:
        comparison = compare([outcome.directory.root], session.progress)
        write_comparison(comparison, folder, scores_key=outcome.scores_key)
    except SondeError as error:
        session.progress.note(f"the models were not compared: {error}")


def _read_within_budget(session: Session, inputs: RunInputs, begun: float) -> RunInputs:
    """Observe until the budget is spent; return the inputs that all models have read."""
    budget, outcome = session.execution.budget, session.outcome
    jobs = plan_stage(session, inputs.models, inputs.readings).jobs
    unread = observe_jobs(session, jobs, deadline=begun + parse_duration(budget, "--budget"))
    read_inputs = keep_read_inputs(session, inputs, unread)
    count, total = (
        len({(reading.group.corpus, item.item_id) for reading in readings for item in reading.inputs})
        for readings in (read_inputs.readings, inputs.readings)
    )
    outcome.budget = {"budget": budget, "inputs": count, "of": total}
    session.progress.note(
        (
            f"--budget {budget}: {count:,} of {total:,} inputs were read in time; the same command "
            "resumes there"
        )
        if count < total
        else f"--budget {budget}: all {total:,} inputs were read in time"
    )
    return read_inputs


def observe_and_score(session: Session, inputs: RunInputs) -> dict[str, list[Score]]:
    """Observe, train and score what is read, and then whatever the lenses want to look at more closely."""
    outcome = session.outcome
    scores: dict[str, list[Score]] = {}
    readings: Sequence[LensInput] = inputs.readings
    while readings:
        stage = plan_stage(session, inputs.models, readings)
        if not scores:
            check_merged_plan(session.execution.merges, stage)
        outcome.jobs += stage.jobs
        # What was read within a budget is counted already.
        jobs = [job for job in stage.jobs if scores or not (outcome.budget and has_tables(job))]
        observe_jobs(session, jobs, AGAIN if scores else "observe")
        if stage.trainings:
            train_jobs(session, stage.trainings)
        with (
            outcome.measure_stage("score"),
            session.progress.stage("scoring", count_tasks(stage.answers)) as advance,
        ):
            stage_scores = score_all(session.store, stage.answers, session.execution, advance)
        scores |= stage_scores
        readings = next_stage_inputs(session.store, stage.answers, stage_scores)
    return scores


def _read_previous_summary(outcome: Outcome) -> Mapping[str, Any]:
    """Read the summary of an earlier run; empty if there is none, or it is damaged."""
    try:
        return outcome.directory.read_summary()
    except StoreError:
        outcome.damaged.append(outcome.directory.summary.name)
    except InputError:
        pass
    return {}


def _build_timing(outcome: Outcome, previous_summary: Mapping[str, Any]) -> dict[str, Any]:
    """Build ``timing``: that of the run that computed, and beside it that of a rerun."""
    computing_times = previous_summary.get("timing")
    if outcome.observed or outcome.trained or not isinstance(computing_times, dict):
        return {"timing": outcome.seconds}
    scoring_time = (
        {}
        if previous_summary.get("scores_key") == outcome.scores_key
        else {"score": outcome.seconds["score"]}
    )
    return {"timing": {**computing_times, **scoring_time}, "timing_of_rerun": outcome.seconds}


def _drop_stale(store: PartStore, jobs: Sequence[ObserveJob | TrainJob]) -> None:
    """Remove parts of earlier plans, so that the folder holds what the scores are about and nothing else."""
    current_paths = {part.relative for job in jobs for part in job.parts}
    for folder in {Path(relative).parent.as_posix() for relative in current_paths}:
        store.remove_unplanned_parts(folder, current_paths)
    store.remove_unfinished()


def merge(
    folders: Sequence[Path], output: Path, progress: Progress | None = None, *, workers: int = 1
) -> Outcome:
    """Put the shares of a run together and score them as one run.

    The corpora are read again, and everything is compared with what a run in one folder would do here: where
    that differs, as with another device or version, nothing is observed anew but the merge is refused.

    Args:
        folders: One a share, in any order.
        output: The folder of the run; what is in it already is not copied again.
        progress: Is told how far it is.
        workers: Processes at a time.

    Raises:
        UsageError: The folders are shares of different runs, or one is given twice.
        InputError: A share, or a table of one, is missing, or this machine would do something else.
        SondeError: The run cannot be scored.
    """
    if duplicate := next((folder for folder in folders if folders.count(folder) > 1), None):
        raise UsageError(f"folder {str(duplicate)!r} is given twice; name each shard once")
    shares = {folder: read_shard_record(folder) for folder in folders}
    _check_compatible(shares)
    _check_complete(shares)
    first = next(iter(shares.values()))
    experiment = _read_experiment(first)
    execution = Execution(
        output=output,
        workers=workers,
        light_workers=workers,
        lock=Path(first.execution["lock"]) if first.execution["lock"] else None,
        merges=first.plan,
        **{name: value for name, value in first.execution.items() if name != "lock"},
    )
    progress = progress or NullProgress()
    with lock_folder(output), progress.stage("merging", len(shares)) as advance:
        for folder in shares:
            copy_files_with_receipts(folder, output, exclude=(FILE,))
            _copy_trained_models(RunDirectory(folder).trained, RunDirectory(output).trained)
            advance()
    return run(experiment, execution, progress)


def _copy_trained_models(source: Path, target: Path) -> None:
    """Copy trained models, which have no receipts and belong to one share each."""
    try:
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise StoreError(f"cannot copy {source} to {target}: {error}; free space and merge again") from error


def _check_compatible(shares: Mapping[Path, ShardRecord]) -> None:
    first, first_record = next(iter(shares.items()))
    for folder, record in shares.items():
        for difference, expected_value, actual_value in (
            ("other arguments", first_record.experiment, record.experiment),
            ("another number of shards", parse_shard(first_record.shard).of, parse_shard(record.shard).of),
            ("other inputs, models or versions", first_record.plan, record.plan),
        ):
            if expected_value != actual_value:
                raise UsageError(f"{folder} (shard {record.shard}) was run with {difference} than {first}")
    folders: dict[str, Path] = {}
    for folder, record in shares.items():
        if record.shard in folders:
            raise UsageError(f"shard {record.shard} is given twice: {folders[record.shard]} and {folder}")
        folders[record.shard] = folder
    total = parse_shard(first_record.shard).of
    if absent := [name for number in range(1, total + 1) if (name := f"{number}/{total}") not in folders]:
        remainder = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        raise InputError(
            f"shard {', '.join(absent[:3])}{remainder} is missing; run it, and name its folder as well"
        )


def _check_complete(shares: Mapping[Path, ShardRecord]) -> None:
    for folder, record in shares.items():
        if missing_count := count_missing_tables(folder, record):
            raise InputError(
                f"{folder}: {missing_count} of the {len(record.parts)} tables of shard "
                f"{record.shard} are missing or damaged; run it again; nothing else is computed"
            )
    combined_key = tables_key((relative, key) for record in shares.values() for relative, key in record.parts)
    if combined_key != next(iter(shares.values())).plan:
        raise InputError("the shards lack parts of the plan; run each again, then merge")


def _read_experiment(record: ShardRecord) -> Experiment:
    experiment = parse_experiment(record.arguments, FILE)
    if fingerprint(experiment) != record.experiment:
        raise InputError(
            f"{FILE} was written by another version of sonde; merge with the one that ran the shards"
        )
    return experiment
