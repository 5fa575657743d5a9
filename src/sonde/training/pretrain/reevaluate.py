"""Measure a finished model again and write its card anew.

    python -m sonde.training.pretrain.reevaluate FOLDER

Nothing is trained. An encoder's figures are measured from its stored weights; a decoder's stay as they are,
since the n-gram model beside it needs the training data as they were packed. Which files are near held-out
code is looked up for both.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from sonde.results.schema import scan_files
from sonde.training.pretrain.data import find_contaminated_files
from sonde.training.pretrain.evaluate import Compression, EvaluationResult, sample_files
from sonde.training.pretrain.pretrain import encoder_evaluation, evaluate_languages, write_card
from sonde.training.pretrain.recipe import Recipe, read_recipe
from sonde.training.pretrain.vocabulary import load_vocabulary


def reevaluate(folder: Path) -> Path:
    """Write ``figures.json`` and ``README.md`` of a finished model anew.

    Args:
        folder: The model's, with its recipe, manifest, frequencies and figures.

    Returns:
        The card.

    Raises:
        InputError: The recipe or a corpus cannot be used.
        StoreError: The folder cannot be written.
    """
    recipe = read_recipe(folder / "recipe.toml")
    files = scan_files(folder / "manifest.parquet").collect()
    content = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    figures = _reevaluate_figures(recipe, folder, content["figures"])
    copies = find_contaminated_files(files, recipe.data.held_out)
    return write_card(folder, recipe, files, figures, copies, content["run"])


def _reevaluate_figures(recipe: Recipe, folder: Path, figures: dict[str, Any]) -> EvaluationResult:
    evaluation = recipe.evaluation
    if recipe.model.role == "decoder":
        parts: dict[str, Any] = {
            "compression": tuple(Compression(**part) for part in figures["compression"]),
            "guesses": (),
            "languages": tuple(
                _reevaluate_figures(recipe, folder, entry) for entry in figures.get("languages", ())
            ),
        }
        return EvaluationResult(**{**figures, **parts})
    counts = scan_files(folder / "frequencies.parquet").collect().sort("subword_id")["count"].to_numpy()
    tell = encoder_evaluation(recipe, load_vocabulary(folder / "tokenizer.json"), counts, folder)
    files = sample_files(evaluation.corpus, evaluation.language, evaluation.bytes)
    # What models before had no line for a language, and their corpora may be gone.
    languages = tuple(evaluate_languages(recipe, tell)) if figures.get("languages") else ()
    result = tell(files, corpus=evaluation.corpus)
    return dataclasses.replace(result, language=figures.get("language", ""), languages=languages)


if __name__ == "__main__":
    print(reevaluate(Path(sys.argv[1])))  # noqa: T201  the path of the card
