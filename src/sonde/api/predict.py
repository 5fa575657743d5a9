"""Predictions for new files by a run's probes or by a fine-tuned model.

The probes are those that the run tested, applied to other functions. A fine-tuned model predicts the class of
a function and, for a bug task, the location of the bug and the edit that repairs it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.api.hidden_states import (
    PROBE_LENS,
    ProbeTarget,
    check_model_families,
    find_probe_targets,
    find_probe_tasks,
    select_name,
)
from sonde.api.predictions import (
    FunctionPrediction,
    InputFunction,
    Predictions,
    ScoredProbe,
    read_functions,
)
from sonde.base.errors import InputError, UsageError
from sonde.base.formatting import plural
from sonde.capture import observe, prepare
from sonde.capture.requests import with_bos
from sonde.capture.settings import CaptureOptions
from sonde.languages import get_facet, has_facet, parses
from sonde.languages.engine.bug_sites import BugSites
from sonde.lenses.engine.lens import CapturedItem
from sonde.lenses.finetune.options import LENS
from sonde.lenses.probe.data import (
    SPAN,
    WHOLE,
    gather_vectors,
    get_poolings,
    observe_items,
    state_requests,
)
from sonde.lenses.probe.fit import BEST, Examples, select_probe_device
from sonde.models import load_model, parse_spec, resolve_auto, resolve_revision
from sonde.report import ModelInfo, RunData
from sonde.results import mean_rows
from sonde.results.layers import summarise_layers
from sonde.results.schema import has_dimensions, scan_files
from sonde.results.scores import Score
from sonde.store.remote import fetch_folder
from sonde.store.run_folder import RunDirectory, group_prefix
from sonde.tasks import EXAMPLE_SCHEMA
from sonde.tasks.engine.bugs import CORRECT, BugTask, Edit
from sonde.tasks.engine.task import TASKS, resolve_task
from sonde.training.finetune.predict import FACTS, NOTHING, FineTuned, Prediction
from sonde.training.probes.linear import probe_layers
from sonde.training.probes.splits import Splits

_MAXIMUM_EDITS = 256
"""Edits of a function that are tried."""


def is_finetuned_model(folder: Path) -> bool:
    """Return whether a folder holds a model that sonde fine-tuned, as ``RUN/trained/KEY/model`` does."""
    return (folder / FACTS).is_file()


def find_finetuned_model(run: RunDirectory, task: str | None, model: str | None) -> Path | None:
    """Find the fine-tuned model of a run for a task: of several seeds, the best on validation.

    Args:
        run: The folder of the run.
        task: Public name of the task; None where the run has one.
        model: Name of the model that it was made of; None where the run has one.

    Returns:
        Its folder; None where the run trained none.

    Raises:
        UsageError: Several tasks or models are to choose from.
        UnknownNameError: The run has trained none for the task or the model.
    """
    candidates: list[dict[str, Any]] = []
    for table in map(run.intact, sorted(run.root.glob(f"observations/lens={LENS}/model=*/*.parquet"))):
        folder = run.trained / table.stem.rpartition("-")[2] / "model"
        if not is_finetuned_model(folder):
            continue
        facts = FineTuned.about(folder)
        rows = scan_files(table).filter(pl.col("kind") == "epoch", pl.col("chosen")).select("valid")
        best = rows.collect()["valid"].max()
        if facts.get("method") == "pretrained":
            candidates.append({"folder": folder, "valid": best, **facts})
    for key, kind, name, flag in (("task", "task", task, "-t"), ("base", "model", model, "-m")):
        names = tuple(dict.fromkeys(candidate[key] for candidate in candidates))
        selection = select_name(f"fine-tuned {kind}", name, names, flag) if candidates else None
        candidates = [candidate for candidate in candidates if candidate[key] == selection]
    return max(candidates, key=lambda candidate: candidate["valid"])["folder"] if candidates else None


def predict_with_model(folder: Path, files: Iterable[Path]) -> Predictions:
    """Predict the classes of the functions of files with a fine-tuned model.

    Of a task about bugs also where each stands and what would undo it: as the model points at it, or, where
    it gives a class alone, the edit after which it is surest that nothing is wrong. Where the model lies in
    its run, its accuracy on the run's test examples stands beside them.

    Args:
        folder: The model, with its head.
        files: Files of code; one without functions counts as a whole.

    Raises:
        InputError: The model is damaged or gives no class for single texts, or no file holds anything.
    """
    facts = _describe_model(folder)
    messages: list[str] = []
    functions = read_functions(files, messages)
    language = facts["language"]
    language_functions = [
        function for function in functions if not language or function.item.language == language
    ]
    if left := len(functions) - len(language_functions):
        messages.append(
            f"{plural(left, 'function')} in other languages than {language}, the language of the model"
        )
    if not language_functions:
        raise InputError(f"nothing to predict: {'; '.join(messages) or 'no file holds a function'}")
    model = FineTuned.from_pretrained(folder)
    try:
        answers = model.tell([function.item.text for function in language_functions])
    except UsageError as error:
        raise InputError(f"model {str(folder)!r}: {error}; only single functions are predicted") from None
    if cut_count := sum(answer.cut for answer in answers):
        length = model.facts.recipe.length
        messages.append(f"the end of {plural(cut_count, 'function')}, after the first {length} subwords")
    probe = ScoredProbe(
        model=str(folder),
        task=facts["task"],
        language=language,
        layer=None,
        pooling=model.facts.recipe.pooling,
        probes=1,
        accuracy=facts["accuracy"],
        gain=None,
    )
    task = _find_bug_task(facts["task"])
    predictions = [
        _add_bug(function.build_prediction(answer.chances), function, answer, model, task)
        for function, answer in zip(language_functions, answers, strict=True)
    ]
    return Predictions((probe,), tuple(predictions), tuple(messages))


def _find_bug_task(name: str) -> BugTask | None:
    """Return the task of a model if it is a bug task."""
    task = TASKS.load(name) if name in TASKS.names() else None
    return task if isinstance(task, BugTask) and CORRECT in task.labels else None


def _add_bug(
    prediction: FunctionPrediction,
    function: InputFunction,
    answer: Prediction,
    model: FineTuned,
    task: BugTask | None,
) -> FunctionPrediction:
    """Add the location of a bug and its repair to a prediction."""
    clean = NOTHING if answer.label not in model.classes else CORRECT
    if clean not in prediction.chances:
        return prediction
    prediction = dataclasses.replace(prediction, clean=clean, key=function.item.item_id)
    if prediction.label == clean:
        return prediction
    text = function.item.text
    edit = None
    if answer.repair is not None and answer.place is not None:
        edit = Edit(*answer.place, text[slice(*answer.repair)])
    elif task is not None:
        edit = _find_repair(function, answer, model, task)
    span = answer.place if edit is None else (edit.start, edit.end)
    return dataclasses.replace(
        prediction,
        spot=None if span is None else function.spot(*span),
        repair=None if edit is None else edit.surface,
    )


def _find_repair(function: InputFunction, answer: Prediction, model: FineTuned, task: BugTask) -> Edit | None:
    """Find the edit after which the model is surest that nothing is wrong; None if no edit makes it say so.

    Of a function with too many, those are tried that touch what the model rests on.
    """
    language, text = function.item.language, function.item.text
    if not has_facet(language, task.facet):
        return None
    edits = list(task.repair_edits(text, get_facet(language, task.facet, BugSites)))
    if len(edits) > _MAXIMUM_EDITS and answer.place is not None:
        start, end = answer.place
        edits = [edit for edit in edits if edit.start < end and edit.end > start]
    if not 0 < len(edits) <= _MAXIMUM_EDITS:
        return None
    answers: Sequence[Prediction] = model.tell([edit.made_in(text) for edit in edits])
    best = max(range(len(edits)), key=lambda index: answers[index].chances[CORRECT])
    return edits[best] if answers[best].label == CORRECT else None


def _describe_model(folder: Path) -> Mapping[str, Any]:
    """Return task, language and test accuracy of a fine-tuned model, from the run that contains it."""
    facts = FineTuned.about(folder)
    description = {
        "task": facts.get("task", folder.name),
        "language": facts.get("language", ""),
        "accuracy": None,
    }
    training = folder.resolve().parent
    run = RunDirectory(training.parent.parent)
    tables = list(run.root.glob(f"observations/lens=*/model=*/*-{training.name}.parquet"))
    if training.parent != run.trained or len(tables) != 1 or not run.summary.is_file():
        return description
    rows = scan_files(run.intact(tables[0])).collect()
    test_rows = rows.filter(pl.col("kind") == "example", pl.col("split") == "test")
    groups = run.read_summary().get("corpus") or ()
    language = next(
        (
            group["language"]
            for group in groups
            if tables[0].name.startswith(group_prefix(group["name"], group["language"]))
        ),
        "",
    )
    template = Score(
        model=folder.name,
        lens="",
        language=language,
        task=rows["task"][0],
        metric="accuracy",
        value=float("nan"),
        n=0,
        n_clusters=0,
    )
    clusters = test_rows["cluster"].rank("dense").to_numpy() - 1
    (score,) = mean_rows(template, test_rows["correct"].to_numpy()[None], clusters)
    accuracy = {name: getattr(score, name, None) for name in _NUMBERS}
    return {"task": rows["task"][0], "language": language, "accuracy": accuracy}


_NUMBERS = (
    "value",
    "ci_low",
    "ci_high",
    "n",
    "n_clusters",
    "effective_clusters",
    "n_eff",
    "seeds",
    "control",
)


def predict(
    folder: Path,
    files: Iterable[Path],
    *,
    task: str | None = None,
    model: str | None = None,
    layer: int | None = None,
) -> Predictions:
    """Predict for the functions of files, as the command ``sonde predict`` and `sonde.Run.predict` do.

    Args:
        folder: The folder or address of a run, whose probes or fine-tuned models predict; or the folder of a
            fine-tuned model.
        files: Files of code; one without functions counts as a whole.
        task: A task of the run; None where it has one.
        model: A model of the run; None where it has one.
        layer: The layer that a probe reads; None for the one that most folds chose.

    Raises:
        UsageError: Several tasks or models are to choose from, the code of a function does not tell the
            places that the task is about, or an option is of no use here.
        UnknownNameError: The run has no such task or model.
        InputError: There is nothing to predict with, the model has changed since, or no file holds anything
            to predict.
    """
    if is_finetuned_model(folder):
        if (task, model, layer) != (None, None, None):
            raise UsageError(
                f"{str(folder)!r} is a fine-tuned model of one task; leave out -t, -m and --layer"
            )
        return predict_with_model(folder, files)
    run = RunData(fetch_folder(folder))
    check_model_families(run, model)
    tasks = find_probe_tasks(run)
    if not tasks or (task is not None and task not in tasks):
        finetuned_model = find_finetuned_model(run.directory, task, model)
        if finetuned_model is not None and layer is not None:
            raise UsageError("--layer chooses a probe; a fine-tuned model reads all layers")
        if finetuned_model is not None:
            return predict_with_model(finetuned_model, files)
    if not tasks:
        raise InputError(
            f"{run.directory.root}: no probes and no fine-tuned models; run the lens {PROBE_LENS!r} or "
            f"{LENS!r}"
        )
    chosen_task = select_name("task", task, tasks, "-t")
    model_name = select_name("model", model, [run_model.name for run_model in run.models], "-m")
    info = next(run_model for run_model in run.models if run_model.name == model_name)
    messages: list[str] = []
    functions = read_functions(files, messages)
    groups = find_probe_targets(run, info, chosen_task)
    targets = _find_spans(chosen_task, groups[0], functions, messages)
    predictions: dict[int, FunctionPrediction] = {}
    probes: list[ScoredProbe] = []
    for language in sorted({target.item.language for target in targets}):
        indices = [number for number, target in enumerate(targets) if target.item.language == language]
        language_groups = [group for group in groups if group.language == language]
        if len(language_groups) > 1:
            raise UsageError(
                f"{run.directory.root}: task {chosen_task!r} was probed on several corpora in {language}; "
                "make a run of one of them"
            )
        if not language_groups:
            messages.append(f"{plural(len(indices), 'function')} in {language}: the run has no probe for it")
            continue
        probe, language_predictions = _predict_language(
            run, info, language_groups[0], [targets[number] for number in indices], layer
        )
        probes.append(probe)
        messages += [
            f"{targets[number].file}: {targets[number].item.name}: the model has no state of it"
            for number, prediction in zip(indices, language_predictions, strict=True)
            if prediction is None
        ]
        predictions |= {
            number: prediction
            for number, prediction in zip(indices, language_predictions, strict=True)
            if prediction is not None
        }
    if not predictions:
        raise InputError(f"nothing to predict: {'; '.join(messages) or 'no file holds a function'}")
    return Predictions(
        tuple(probes), tuple(predictions[number] for number in sorted(predictions)), tuple(messages)
    )


def _find_spans(
    task: str, group: ProbeTarget, functions: Sequence[InputFunction], messages: list[str]
) -> Sequence[InputFunction]:
    """Return the functions, or the spans in them that the task asks about."""
    if group.probe_examples.options.protocol.fit is not None:
        raise UsageError(f"task {task!r} was probed as published; new files are predicted in corrected mode")
    if group.probe_examples.examples.are_texts:
        return functions
    asks = TASKS.load(task)
    if asks.needs_repository or not asks.labels:
        raise UsageError(f"task {task!r} is about places that cannot be found from the code of a function")
    asks = resolve_task(asks, group.settings.mode, group.settings.quirks)
    rows = asks.label([function.item for function in functions], {})
    spans: list[InputFunction] = []
    for function in functions:
        if not parses(function.item.language, function.item.text):
            messages.append(
                f"{function.file}: {function.item.name}: does not parse, so its places are unknown"
            )
            continue
        label_rows = rows[function.item.item_id].filter(pl.col("label").is_not_null()).to_dicts()
        if not label_rows:
            messages.append(f"{function.file}: {function.item.name}: task {task!r} finds nothing in it")
        for row in label_rows:
            other_ends = (
                [(row["other_start"], row["other_end"])] if row.get("other_start") is not None else []
            )
            ends = ((row["start"], row["end"]), *other_ends)
            spans.append(dataclasses.replace(function, ends=ends, right=row["label"]))
    return spans


def _predict_language(
    run: RunData,
    model: ModelInfo,
    group: ProbeTarget,
    targets: Sequence[InputFunction],
    layer: int | None,
) -> tuple[ScoredProbe, list[FunctionPrediction | None]]:
    """Predict with the probe of one language; returns the probe and its predictions."""
    examples, options = group.probe_examples.examples, group.probe_examples.options
    pooling = get_poolings(examples, options)[0]
    rows = _probe_scores(run, model, group, pooling)
    selected_layer, accuracy = _select_layer(rows, layer, examples.task)
    states, layer_examples = group.probe_examples.at_layer(selected_layer, pooling)
    new = _read_states(run, model, group, targets, pooling, selected_layer)
    indices = np.flatnonzero(~np.isnan(new).any(axis=1))
    chances = _compute_probabilities(
        layer_examples, states.values, new[indices], options.l2, select_probe_device(options.device, "cpu")
    )
    # That over the best surface baseline comes first; the one over random weights names a share.
    gains = rows.filter(pl.col("metric") == "gain", has_dimensions(dict([BEST])))
    probe = ScoredProbe(
        model=model.name,
        task=examples.task,
        language=group.language,
        layer=selected_layer,
        pooling=pooling,
        probes=len(layer_examples.folds),
        accuracy=accuracy,
        gain=next(iter(gains.to_dicts()), None),
        encoded=_describe_layers(run, model, group),
    )
    predictions: list[FunctionPrediction | None] = [None] * len(targets)
    for number, row in zip(indices.tolist(), chances, strict=True):
        target = targets[number]
        probabilities = dict(zip(layer_examples.classes, row.tolist(), strict=True))
        predictions[number] = target.build_prediction(probabilities)
    return probe, predictions


def _probe_scores(run: RunData, model: ModelInfo, group: ProbeTarget, pooling: str) -> pl.DataFrame:
    """Return the scores of a task's linear probes, and of their gain over the best surface baseline."""
    condition = (
        (pl.col("model") == model.name)
        & (pl.col("language") == group.language)
        & (pl.col("corpus_hash") == group.corpus_hash)
        & (pl.col("pooling") == pooling)
        & (pl.col("split") == "test")
        & (pl.col("method") == "linear")
    )
    rows = run.scores(
        metrics=["accuracy", "gain"],
        where=condition,
        lens=PROBE_LENS,
        task=group.probe_examples.examples.task,
        controls=True,
    )
    return rows.filter((pl.col("metric") == "gain") | pl.col("control").is_null())


def _describe_layers(run: RunData, model: ModelInfo, group: ProbeTarget) -> str:
    """Say at which layers the run found a task encoded, as its page does."""
    key = (model.name, group.probe_examples.examples.task, group.language)
    accounts = summarise_layers(run.every_score.filter(pl.col("lens") == PROBE_LENS))
    return next((account.describe() for account in accounts if account.key == key), "")


def _select_layer(rows: pl.DataFrame, layer: int | None, task: str) -> tuple[int, dict[str, Any]]:
    """Return the layer to read, and the score of its accuracy."""
    accuracy = rows.filter(pl.col("metric") == "accuracy")
    best = accuracy.filter(has_dimensions(dict([BEST])))
    layer_rows = accuracy.filter(has_dimensions({}))
    if best.is_empty() or layer_rows.is_empty():
        raise InputError(f"task {task!r} has no tested probe in this run; the report of the run explains why")
    count = layer_rows.height
    selected_layer = best["layer"][0] if layer is None else layer
    if not -count <= selected_layer < count:
        raise UsageError(f"layer = {layer} is not one of 0 (the embeddings) to {count - 1}")
    number = selected_layer % count
    return number, layer_rows.filter(pl.col("layer") == number).row(0, named=True)


def _read_states(
    run: RunData,
    model: ModelInfo,
    group: ProbeTarget,
    targets: Sequence[InputFunction],
    pooling: str,
    layer: int,
) -> Float[np.ndarray, "place width"]:
    """Read the states of functions or spans as a run stores them; NaN for those without a state."""
    ran = run.summary.get("execution") or {}
    spec = resolve_auto(
        parse_spec(
            model.name,
            device=ran.get("device", "auto"),
            dtype=ran.get("dtype", "auto"),
            device_map=ran.get("device_map", ""),
        )
    )
    if resolve_revision(spec) != model.facts.get("revision"):
        raise InputError(f"model {model.name!r} has changed since the run; run again to probe the new one")
    loaded_model = load_model(spec)
    capture, poolings = CaptureOptions(**group.capture), group.probe_examples.options.pooling
    # Functions of the same text are read once, with the places of all of them.
    prepared_items = prepare(
        loaded_model, list({target.item.item_id: target.item for target in targets}.values())
    )
    schema = {name: EXAMPLE_SCHEMA[name] for name in _ROW_COLUMNS}
    rows = pl.DataFrame([_to_row(target) for target in targets], schema=schema)
    task = group.probe_examples.examples.task
    passes = with_bos(state_requests(prepared_items, {task: rows}, poolings), capture.bos)
    captures = observe(loaded_model, prepared_items, passes, settings=capture.settings)
    captured_items = [
        CapturedItem(prepared_item, (item_capture,))
        for prepared_item, item_capture in zip(prepared_items, captures, strict=True)
    ]
    table = observe_items(captured_items, {task: rows}, poolings)
    if table.is_empty():
        raise InputError(f"nothing to predict: {model.name} has no state of any of the functions")
    if pooling == SPAN:
        other_ends = rows.select("item_id", start="other_start", end="other_end").drop_nulls()
        ends = [rows.select("item_id", "start", "end"), *([] if other_ends.is_empty() else [other_ends])]
    else:
        ends = [rows.select("item_id", start=pl.lit(WHOLE, pl.Int32), end=pl.lit(WHOLE, pl.Int32))]
    states, present = gather_vectors(table.lazy(), task, pooling, ends, layer)
    vectors = np.full((len(targets), states.shape[2]), np.nan, np.float32)
    vectors[present] = states[0]
    return vectors


_ROW_COLUMNS = ("item_id", "start", "end", "other_start", "other_end", "characters")


def _to_row(target: InputFunction) -> dict[str, object]:
    """Return a function or span as an example; a span never counts as the whole text."""
    size = len(target.item.text)
    if not target.ends:
        return {"item_id": target.item.item_id, "start": 0, "end": size, "characters": size}
    ends = zip(("start", "end", "other_start", "other_end"), chain.from_iterable(target.ends), strict=False)
    return {"item_id": target.item.item_id, **dict(ends), "characters": WHOLE}


def _compute_probabilities(
    examples: Examples,
    states: Float[np.ndarray, "example d_model"],
    new: Float[np.ndarray, "function d_model"],
    l2: Sequence[float],
    device: str,
) -> Float[np.ndarray, "function label"]:
    """Compute mean probabilities of the probes of all folds, fitted again to the run's examples."""
    known_count = len(examples.labels)
    all_states = np.concatenate([states, new])[None]
    labels = np.concatenate([examples.labels, np.zeros(len(new), np.int64)])
    test_rows = np.arange(known_count, known_count + len(new))
    log_probabilities = [
        probe_layers(
            all_states,
            labels[None],
            len(examples.classes),
            Splits(parts.train, parts.valid, test_rows),
            l2=l2,
            device=device,
        )[0].log_chance[0]
        for parts in examples.folds
    ]
    return np.exp(np.stack(log_probabilities)).mean(axis=0)
