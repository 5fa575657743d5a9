"""What a fine-tuned model says of new files: the class, where a bug stands, and what would undo it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.experiments.plan import group_prefix
from sonde.facade.new_files import NewFunction, new_functions
from sonde.facade.predicted import PredictedFunction, Predictions, ScoredProbe
from sonde.languages import facet_of, has_facet
from sonde.languages._bugs import Bugs
from sonde.lenses.finetune.options import LENS
from sonde.results import mean_rows
from sonde.results.columns import scan_files
from sonde.results.scores import Score
from sonde.store.rundir import RunDirectory
from sonde.tasks import TASKS
from sonde.tasks._bugs import CORRECT, BugTask, Edit
from sonde.training.finetuning.saved import FACTS, NOTHING, FineTuned, Told

_MOST = 256
"""Edits of a function that are tried."""


def is_tuned(folder: Path) -> bool:
    """Whether a folder holds a model that sonde fine-tuned, as ``RUN/trained/KEY/model`` does."""
    return (folder / FACTS).is_file()


def tuned_in(run: RunDirectory, task: str | None, model: str | None) -> Path | None:
    """The fine-tuned model of a run that answers for a task: of several seeds the best on validation.

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
    found: list[dict[str, Any]] = []
    for table in map(run.intact, sorted(run.root.glob(f"observations/lens={LENS}/model=*/*.parquet"))):
        folder = run.trained / table.stem.rpartition("-")[2] / "model"
        if not is_tuned(folder):
            continue
        about = FineTuned.about(folder)
        rows = scan_files(table).filter(pl.col("kind") == "epoch", pl.col("chosen")).select("valid")
        best = rows.collect()["valid"].max()
        if about.get("method") == "pretrained":
            found.append({"folder": folder, "valid": best, **about})
    for kind, named, flag in (("task", task, "-t"), ("base", model, "-m")):
        known = list(dict.fromkeys(one[kind] for one in found))
        if named is not None and found and named not in known:
            raise UnknownNameError(
                f"{'model' if kind == 'base' else kind} fine-tuned in this run", named, known
            )
        if named is None and len(known) > 1:
            word = "models" if kind == "base" else "tasks"
            raise UsageError(
                f"the run has several fine-tuned {word}; name one with {flag}: {', '.join(known)}"
            )
        found = [one for one in found if named in (None, one[kind])]
    return max(found, key=lambda one: one["valid"])["folder"] if found else None


def predict_tuned(folder: Path, files: Iterable[Path]) -> Predictions:
    """The class of the functions of files by a fine-tuned model.

    Of a task about bugs also where each stands and what would undo it: as the model points at it, or, where
    it gives a class alone, the edit after which it is surest that nothing is wrong. Where the model lies in
    its run, its accuracy on the run's test examples stands beside them.

    Args:
        folder: The model, with its head.
        files: Files of code; one without functions counts as a whole.

    Raises:
        InputError: The model is damaged or gives no class for single texts, or no file holds anything.
    """
    about = _about(folder)
    skipped: list[str] = []
    functions = new_functions(files, skipped)
    wanted = about["language"]
    mine = [one for one in functions if not wanted or one.item.language == wanted]
    if left := len(functions) - len(mine):
        skipped.append(f"{left} functions in other languages than {wanted}, which the model was trained on")
    if not mine:
        raise InputError(f"nothing to predict: {'; '.join(skipped) or 'no file holds a function'}")
    model = FineTuned.from_pretrained(folder)
    try:
        told = model.tell([one.item.text for one in mine])
    except UsageError as error:
        raise InputError(f"model {str(folder)!r}: {error}; single functions are predicted") from None
    if cut := sum(one.cut for one in told):
        skipped.append(f"of {cut} functions what is beyond {model.facts.recipe.length} subwords")
    probe = ScoredProbe(
        model=str(folder),
        task=about["task"],
        language=wanted,
        layer=None,
        pooling=model.facts.recipe.pooling,
        probes=1,
        accuracy=about["accuracy"],
        gain=None,
    )
    task = _bug_task(about["task"])
    found = [
        _with_bug(one.said(said.chances), one, said, model, task)
        for one, said in zip(mine, told, strict=True)
    ]
    return Predictions((probe,), tuple(found), tuple(skipped))


def _bug_task(name: str) -> BugTask | None:
    """The task of a model where it is one about bugs."""
    task = TASKS.load(name) if name in TASKS.names() else None
    return task if isinstance(task, BugTask) and CORRECT in task.labels else None


def _with_bug(
    said: PredictedFunction, function: NewFunction, told: Told, model: FineTuned, task: BugTask | None
) -> PredictedFunction:
    """What is said of a function, with the place of its bug and what would undo it."""
    clean = NOTHING if told.label not in model.classes else CORRECT
    if clean not in said.chances:
        return said
    said = dataclasses.replace(said, clean=clean, key=function.item.item_id)
    if said.label == clean:
        return said
    text = function.item.text
    edit = None
    if told.repair is not None and told.place is not None:
        edit = Edit(*told.place, text[slice(*told.repair)])
    elif task is not None:
        edit = _undoing(function, told, model, task)
    place = told.place if edit is None else (edit.start, edit.end)
    return dataclasses.replace(
        said,
        spot=None if place is None else function.spot(*place),
        repair=None if edit is None else edit.surface,
    )


def _undoing(function: NewFunction, told: Told, model: FineTuned, task: BugTask) -> Edit | None:
    """The edit after which a model is surest that nothing is wrong; None where it is not even then.

    Of a function with too many, those are tried that touch what the model rests on.
    """
    language, text = function.item.language, function.item.text
    if not has_facet(language, task.facet):
        return None
    edits = list(task.undone(text, facet_of(language, task.facet, Bugs)))
    if len(edits) > _MOST and told.place is not None:
        start, end = told.place
        edits = [edit for edit in edits if edit.start < end and edit.end > start]
    if not 0 < len(edits) <= _MOST:
        return None
    after: Sequence[Told] = model.tell([edit.made_in(text) for edit in edits])
    best = max(range(len(edits)), key=lambda at: after[at].chances[CORRECT])
    return edits[best] if after[best].label == CORRECT else None


def _about(folder: Path) -> Mapping[str, Any]:
    """Task and language that a model was trained for, and its accuracy, from the run that it lies in."""
    held = FineTuned.about(folder)
    known = {"task": held.get("task", folder.name), "language": held.get("language", ""), "accuracy": None}
    training = folder.resolve().parent
    run = RunDirectory(training.parent.parent)
    tables = list(run.root.glob(f"observations/lens=*/model=*/*-{training.name}.parquet"))
    if training.parent != run.trained or len(tables) != 1 or not run.summary.is_file():
        return known
    rows = scan_files(run.intact(tables[0])).collect()
    tested = rows.filter(pl.col("kind") == "example", pl.col("split") == "test")
    groups = run.read_summary().get("corpus") or ()
    language = next(
        (
            one["language"]
            for one in groups
            if tables[0].name.startswith(group_prefix(one["name"], one["language"]))
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
    clusters = tested["cluster"].rank("dense").to_numpy() - 1
    (score,) = mean_rows(template, tested["correct"].to_numpy()[None], clusters)
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
