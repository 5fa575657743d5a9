"""Exports of a card to Weights & Biases, MLflow and the Hugging Face Hub.

Each model of a run is one entry there, so that dashboards compare models by metrics of one name. W&B and
MLflow write where their own settings say (``WANDB_PROJECT``, ``WANDB_MODE=offline``, ``MLFLOW_TRACKING_URI``,
...). Files for the Hub are written beside the card and never sent.
"""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from sonde.base.errors import SondeError, StoreError, UsageError, build_listing_error
from sonde.base.files import write_atomic
from sonde.base.fingerprint import fingerprint
from sonde.base.process import read_clock
from sonde.report.card import (
    Card,
    CardEntry,
    CardModel,
    CardNumber,
    describe_card_metric,
    describe_verdict,
    format_card_number,
    render_markdown,
)
from sonde.results.schema import SELECTION
from sonde.store.run_folder import slug

PROJECT = "sonde"
"""Project of W&B and experiment of MLflow, unless their own variables name another."""


HUB_FOLDER = "hub"
"""Folder, in that of a run, of the files for the Hub."""


def export_card(card: Card, target: str, directory: Path) -> list[str]:
    """Export a card.

    Args:
        card: The card.
        target: ``"wandb"``, ``"mlflow"`` or ``"hub"``.
        directory: Folder of the run, in which files for the Hub are written.

    Returns:
        Where each model's entry is, one line per model.

    Raises:
        UnknownNameError: There is no such target.
        UsageError: The package of the target is not installed, or the run has no headline to export.
        StoreError: The target does not take the card.
    """
    check_targets([target])
    if not card.headlines:
        raise UsageError(f"card of {card.provenance.run!r}: it has no headline to export to {target}")
    try:
        return TARGETS[target](card, directory)
    except SondeError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "no reason given"
        raise StoreError(f"{target}: the card was not taken: {type(error).__name__}: {reason}") from error


def check_targets(names: Iterable[str]) -> None:
    """Check that cards can be exported to each of some targets.

    Raises:
        UnknownNameError: There is no such target.
    """
    for name in names:
        if name not in TARGETS:
            raise build_listing_error("target of a card", name, TARGETS)


def _import_package(name: str) -> Any:
    """Import the package of a target.

    Raises:
        UsageError: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"--to {name} needs the package {name}: pip install 'sonde[{name}]'") from error


def _export_to_wandb(card: Card, directory: Path) -> list[str]:
    del directory
    wandb = _import_package("wandb")
    lines: list[str] = []
    for model in card.provenance.models:
        entries = _select_entries(card, model)
        if not entries:
            continue
        wandb_run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=_derive_id(card, model),
            name=_name_entry(card, model),
            job_type="evaluation",
            config=_list_parameters(card, model),
            # A card that is exported again replaces the numbers of its run.
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )
        try:
            table = wandb.Table(
                columns=["lens", "task", "language", "metric", "number", "n", "verdict"],
                data=[
                    [
                        entry.number.lens,
                        entry.number.task,
                        entry.number.language,
                        describe_card_metric(entry.number),
                        format_card_number(entry.number),
                        entry.number.n,
                        describe_verdict(entry),
                    ]
                    for entry in entries
                ],
            )
            wandb_run.log({**_list_metrics(card, model), "headlines": table})
            artifact = wandb.Artifact(f"card-{_derive_id(card, model)}", type="card")
            for name, text in _list_files(card).items():
                with artifact.new_file(name, mode="w", encoding="utf-8") as file:
                    file.write(text)
            wandb_run.log_artifact(artifact)
        except Exception:
            wandb_run.finish(exit_code=1)
            raise
        location = wandb_run.url or wandb_run.settings.sync_dir
        wandb_run.finish()
        lines.append(f"wandb: {model.name}: {location}")
    return lines


def _export_to_mlflow(card: Card, directory: Path) -> list[str]:
    del directory
    mlflow = _import_package("mlflow")
    client = mlflow.MlflowClient()
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    experiment = client.get_experiment_by_name(name)
    experiment_id = client.create_experiment(name) if experiment is None else experiment.experiment_id
    lines: list[str] = []
    for model in card.provenance.models:
        metrics = _list_metrics(card, model)
        if not metrics:
            continue
        tag, key = "sonde.card", _derive_id(card, model)
        # A card that is exported again replaces the numbers of its run.
        earlier_runs = client.search_runs([experiment_id], f"tags.`{tag}` = '{key}'", max_results=1)
        run_id = (
            earlier_runs[0].info.run_id
            if earlier_runs
            else client.create_run(
                experiment_id, run_name=_name_entry(card, model), tags={tag: key}
            ).info.run_id
        )
        try:
            _fill_mlflow_run(mlflow.entities, client, run_id, metrics, _list_parameters(card, model))
            for file, text in _list_files(card).items():
                client.log_text(run_id, text, file)
        except Exception:
            client.set_terminated(run_id, "FAILED")
            raise
        client.set_terminated(run_id)
        lines.append(f"mlflow: {model.name}: run {run_id} of experiment {name!r} at {_get_uri(mlflow)}")
    return lines


def _fill_mlflow_run(
    entities: Any, client: Any, run_id: str, metrics: Mapping[str, float], parameters: Mapping[str, Any]
) -> None:
    milliseconds = round(1000 * read_clock())
    client.log_batch(
        run_id,
        metrics=[entities.Metric(metric, value, milliseconds, 0) for metric, value in metrics.items()],
        params=[entities.Param(name, str(value)[:_PARAMETER_LENGTH]) for name, value in parameters.items()],
    )


_PARAMETER_LENGTH = 500
"""Characters of a parameter that every version of MLflow takes."""


def _get_uri(mlflow: Any) -> str:
    return str(mlflow.get_tracking_uri())


def _export_to_hub(card: Card, directory: Path) -> list[str]:
    """Write the model index of each model, and evaluation results of corpora that are on the Hub."""
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    from huggingface_hub.repocard_data import eval_results_to_model_index
    from huggingface_hub.utils import yaml_dump

    lines: list[str] = []
    for model in card.provenance.models:
        entries = _select_entries(card, model)
        if not entries:
            continue
        folder = directory / HUB_FOLDER / slug(model.name)
        name = model.name.rstrip("/").rpartition("/")[2]
        index = eval_results_to_model_index(name, [_to_eval_result(entry) for entry in entries])
        write_atomic(folder / "model-index.yaml", yaml_dump({"model-index": index}, sort_keys=False))
        results = [
            EvalResultEntry(
                dataset_id=dataset,
                task_id=_name_task(entry.number),
                value=entry.number.value,
                notes=f"{describe_card_metric(entry.number)}, {format_card_number(entry.number)}, "
                f"n = {entry.number.n}, {entry.number.language}",
            )
            for entry in entries
            if (dataset := _find_hub_dataset(entry.number.corpus))
        ]
        if results:
            text = yaml_dump(eval_result_entries_to_yaml(results), sort_keys=False)
            write_atomic(folder / ".eval_results" / "sonde.yaml", text)
        lines.append(f"hub: {model.name}: {folder}")
    return lines


def _to_eval_result(entry: CardEntry) -> Any:
    from huggingface_hub import EvalResult

    number = entry.number
    return EvalResult(
        task_type=_name_task(number),
        task_name=" ".join(filter(None, (number.lens, number.task, number.side))),
        dataset_type=_find_hub_dataset(number.corpus) or number.corpus or number.corpus_hash,
        dataset_name=number.corpus or number.corpus_hash,
        dataset_config=number.language or None,
        dataset_split=number.split,
        dataset_args={"corpus_hash": number.corpus_hash, "item_set": number.item_set},
        metric_type=number.metric,
        metric_name=describe_card_metric(number),
        metric_value=number.value,
        metric_args={
            name: value
            for name, value in (
                ("ci_low", number.ci_low),
                ("ci_high", number.ci_high),
                ("ci_level", 0.95),
                ("n", number.n),
                ("effective_clusters", number.effective_clusters),
                ("difference_to_control", None if entry.difference is None else entry.difference.value),
                ("control", None if entry.control is None else entry.control.control),
                ("conclusion", entry.conclusion),
            )
            if value is not None
        },
    )


def _name_task(number: CardNumber) -> str:
    return "-".join(filter(None, (number.lens, number.task, number.side)))


def _find_hub_dataset(corpus: str) -> str:
    """Return the name of a corpus on the Hub; empty for another.

    >>> _find_hub_dataset("hub:org/data?split=test"), _find_hub_dataset("local:src")
    ('org/data', '')
    """
    source, _, argument = corpus.partition(":")
    name = re.split(r"[?@,]", argument, maxsplit=1)[0]
    # The name may be a folder of this machine.
    is_name = re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name) and not Path(name).exists()
    return name if source == "hub" and is_name else ""


TARGETS: Mapping[str, Callable[[Card, Path], list[str]]] = {
    "wandb": _export_to_wandb,
    "mlflow": _export_to_mlflow,
    "hub": _export_to_hub,
}
"""Where a card can go, by name."""


def _select_entries(card: Card, model: CardModel) -> list[CardEntry]:
    return [
        entry
        for entry in card.headlines
        if entry.number.model == model.name and entry.number.value is not None
    ]


def _derive_id(card: Card, model: CardModel) -> str:
    # Parameters of an entry cannot change, so other versions or corpora are another entry.
    return fingerprint(card.provenance.fingerprint, _list_parameters(card, model))


def _name_entry(card: Card, model: CardModel) -> str:
    return f"{model.name.rstrip('/').rpartition('/')[2]}, {card.provenance.run}"


def _list_files(card: Card) -> dict[str, str]:
    return {"card.json": card.json_text(), "card.md": render_markdown(card)}


def _list_metrics(card: Card, model: CardModel) -> dict[str, float]:
    """List the numbers of a model under names that both trackers take, each with its interval."""
    metrics: dict[str, float] = {}
    numbers = [entry.number for entry in card.headlines]
    qualifier_columns = [
        column
        for column in ("corpus", "language")
        if len({getattr(number, column) for number in numbers}) > 1
    ]
    for entry in _select_entries(card, model):
        number = entry.number
        qualifiers = [getattr(number, column) for column in qualifier_columns]
        slices = [f"{name} {value}" for name, value in number.slice.items() if name != SELECTION]
        parts = [number.lens, number.task, *qualifiers, number.side, *slices, number.metric]
        key = "/".join(_KEY_SIGNS.sub("_", part.replace("/", "_")) for part in parts if part)
        if key in metrics:
            continue
        for suffix, scored in (("", number), ("_difference", entry.difference)):
            if scored is not None:
                metrics |= {
                    f"{key}{suffix}{end}": value
                    for end, value in (("", scored.value), ("_low", scored.ci_low), ("_high", scored.ci_high))
                    if value is not None and math.isfinite(value)
                }
        metrics[f"{key}_n"] = float(number.n)
    return metrics


_KEY_SIGNS = re.compile(r"[^A-Za-z0-9_. :-]")
"""Characters that MLflow refuses in names of metrics, and the slash, which sorts them into groups."""


def _list_parameters(card: Card, model: CardModel) -> dict[str, Any]:
    provenance = card.provenance
    return {
        "model": model.name,
        "revision": model.revision,
        "weights": model.weights,
        "corpora": ", ".join(
            f"{corpus.name} ({corpus.language}, {corpus.hash}, {corpus.items} items)"
            for corpus in provenance.corpora
        ),
        "mode": provenance.mode,
        "quirks": ", ".join(provenance.quirks),
        "seed": provenance.seed,
        "fingerprint": provenance.fingerprint,
        **{
            f"{_KEY_SIGNS.sub('_', lens)}.{_KEY_SIGNS.sub('_', name)}": value
            for lens, options in provenance.options.items()
            for name, value in options.items()
        },
        **{f"version.{_KEY_SIGNS.sub('_', name)}": text for name, text in provenance.versions.items()},
    }
