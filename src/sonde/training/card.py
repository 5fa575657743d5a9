"""The model card, written by code from what was measured."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined

from sonde.languages import spelled
from sonde.models import bundled_names
from sonde.training.copies import THRESHOLD, Copies
from sonde.training.documents import MIN_TOKENS
from sonde.training.evaluate import MASKED_SHARE, Figures
from sonde.training.recipe import Recipe

_LARGEST = 12


def card(
    recipe: Recipe,
    files: pl.DataFrame,
    figures: Figures,
    copies: Sequence[Copies],
    run: dict[str, Any],
    parameters: int,
) -> str:
    """The card as Markdown; the text is in ``card.md.jinja``.

    Args:
        recipe: What was trained.
        files: What it was trained on, from `sonde.training.export.manifest`.
        figures: What it can do.
        copies: Those files that are near held-out code.
        run: ``seconds`` of training, ``hardware``, ``versions`` of libraries, ``loss`` of the last updates.
        parameters: Number of weights.
    """
    environment = Environment(
        loader=PackageLoader("sonde.training", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        # Markdown, made from a recipe and from the metadata of what is installed; never served as HTML.
        autoescape=False,
    )
    return environment.get_template("card.md.jinja").render(
        recipe=recipe,
        model=recipe.model,
        training=recipe.training,
        optimiser=recipe.optimiser,
        decoder=recipe.model.role == "decoder",
        figures=figures,
        run=run,
        parameters=parameters,
        corpora=_corpora(files),
        copies=copies,
        near=THRESHOLD,
        read=_read(recipe, files),
        pairs=recipe.pairs if recipe.objective == "pairs" else None,
        languages=_listed(recipe, frozenset()),
        unmeasured=_listed(recipe, {one.language for one in figures.languages}),
        bundled=f"sonde/{recipe.name}" in bundled_names(),
        masked_share=MASKED_SHARE,
        min_tokens=MIN_TOKENS,
    )


def _listed(recipe: Recipe, without: Set[str]) -> str:
    """The languages of the training data in words, but for some."""
    names = dict.fromkeys(corpus.language for corpus in recipe.data.corpora)
    *most, last = ["", *(spelled(name) for name in names if name not in without)]
    return f"{', '.join(most[1:])} and {last}" if most[1:] else last


def _read(recipe: Recipe, files: pl.DataFrame) -> float:
    """Subwords read in training; pairs are of different lengths, blocks are not."""
    if recipe.objective == "pairs":
        return float((files["subwords"] * files["epochs"]).sum())
    return recipe.training.steps * recipe.training.blocks_per_step * recipe.training.block


def _corpora(files: pl.DataFrame) -> list[dict[str, Any]]:
    """What was read of each corpus: totals, licences by size, largest distributions."""
    seen = files.filter("seen_in_training").with_columns(read=pl.col("subwords") * pl.col("epochs"))
    read = float(seen["read"].sum())
    found: list[dict[str, Any]] = []
    for (name,), part in seen.sort("corpus", "path").group_by("corpus", maintain_order=True):
        licences = part.group_by("licence").agg(pl.col("bytes").sum())
        clusters = part.group_by("distribution", "version").agg(pl.col("bytes").sum())
        largest = clusters.sort(["bytes", "distribution"], descending=[True, False])
        found.append(
            {
                "name": name,
                "files": len(part),
                "bytes": int(part["bytes"].sum()),
                "clusters": len(clusters),
                "share": float(part["read"].sum()) / read,
                "licences": licences.sort(["bytes", "licence"], descending=[True, False]).rows(),
                "largest": largest.head(_LARGEST).to_dicts(),
            }
        )
    return found
