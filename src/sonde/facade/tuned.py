"""What a model that was fine-tuned for a task says of new files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from safetensors import SafetensorError
from safetensors.torch import load_file

from sonde.base.errors import InputError, SondeError
from sonde.experiments.plan import group_prefix
from sonde.facade.new_files import new_functions
from sonde.facade.predicted import Predictions, ScoredProbe
from sonde.models import ModelSpec
from sonde.results import mean_rows
from sonde.results.scores import Score
from sonde.store.rundir import RunDirectory
from sonde.training.finetuning.answers import answer
from sonde.training.finetuning.data import Data, Sample, read_all, reader_of
from sonde.training.finetuning.heads import ClassHead
from sonde.training.finetuning.model import HeadedModel, headed, load_for_training
from sonde.training.finetuning.recipe import KEEP, FineTuning

HEAD, FACTS = "head.safetensors", "head.json"


def is_tuned(folder: Path) -> bool:
    """Whether a folder holds a model that sonde fine-tuned, as ``RUN/trained/KEY/model`` does."""
    return (folder / FACTS).is_file()


def predict_tuned(folder: Path, files: Iterable[Path]) -> Predictions:
    """The class of the functions of files by a fine-tuned model.

    Where the model lies in its run, its accuracy on the run's test examples stands beside them.

    Args:
        folder: The model, with its head.
        files: Files of code; one without functions counts as a whole.

    Raises:
        InputError: The model is damaged or gives no class for single texts, or no file holds anything.
    """
    about = _about(folder)
    skipped: list[str] = []
    functions = new_functions(files, skipped)
    wanted = about["language"] if about else ""
    mine = [one for one in functions if not wanted or one.item.language == wanted]
    if left := len(functions) - len(mine):
        skipped.append(f"{left} functions in other languages than {wanted}, which the model was trained on")
    if not mine:
        raise InputError(f"nothing to predict: {'; '.join(skipped) or 'no file holds a function'}")
    samples = [Sample(one.item.item_id, one.item.text, 0) for one in mine]
    model, classes, recipe, reader = _loaded(folder, samples)
    answers = answer(model, read_all(samples, reader, recipe.length, KEEP), reader.pad)
    cut = int(answers.truncated.sum())
    skipped += [f"of {cut} functions what is beyond {recipe.length} subwords"] if cut else []
    found = [
        one.said(dict(zip(classes, row, strict=True)))
        for one, row in zip(mine, answers.probability.tolist(), strict=True)
    ]
    probe = ScoredProbe(
        model=str(folder),
        task=about["task"] if about else folder.name,
        language=wanted,
        layer=None,
        pooling=recipe.pooling,
        probes=1,
        accuracy=about["accuracy"] if about else None,
        gain=None,
    )
    return Predictions((probe,), tuple(found), tuple(skipped))


def _loaded(folder: Path, samples: list[Sample]) -> tuple[HeadedModel, tuple[str, ...], FineTuning, Any]:
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        if facts["kind"] != ClassHead.__name__:
            raise InputError(
                f"model {str(folder)!r} points at places; a class of whole functions is predicted"
            )
        classes, recipe = tuple(map(str, facts["classes"])), FineTuning(**facts["recipe"])
        loaded = load_for_training(ModelSpec(name=str(folder)))
        model = headed(loaded, Data(classes, samples, samples, samples), recipe)
        model.head.load_state_dict(load_file(folder / HEAD))
    except SondeError:
        raise
    except RuntimeError as error:
        if "size mismatch" not in str(error):
            raise
        raise InputError(
            f"model {str(folder)!r} reads pairs of texts; single functions are predicted"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise InputError(f"model {str(folder)!r}: its head cannot be read ({error})") from None
    reader = reader_of(loaded.tokenizer, loaded.special, loaded.capabilities.kind)
    return model, classes, recipe, reader


def _about(folder: Path) -> Mapping[str, Any] | None:
    """Task and language that a model was trained for, and its accuracy, from the run that it lies in."""
    training = folder.resolve().parent
    run = RunDirectory(training.parent.parent)
    tables = list(run.root.glob(f"observations/lens=*/model=*/*-{training.name}.parquet"))
    if training.parent != run.trained or len(tables) != 1 or not run.summary.is_file():
        return None
    rows = pl.read_parquet(tables[0])
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
