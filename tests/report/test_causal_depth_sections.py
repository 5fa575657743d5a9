"""Sections of layers and of patching: what they draw and say of scores made by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from sonde.report.run_tables import RunData
from sonde.report.sections.causal.causal_layers import plot as layers
from sonde.report.sections.causal.causal_patching import CELLS
from sonde.report.sections.causal.causal_patching import plot as patching
from sonde.results.scores import Score, scores_to_frame

BASE = Score(
    model="m", lens="causal", metric="", value=0.0, n=60, n_clusters=40, language="python",
    effective_clusters=40.0, df=39.0, ci_method="clustered jackknife",
)  # fmt: skip


def number(metric: str, value: float, half: float, *dimensions: tuple[str, str], **fields: object) -> Score:
    return dataclasses.replace(
        BASE, metric=metric, value=value, ci_low=value - half, ci_high=value + half, dimensions=dimensions,
        **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def layered() -> list[Score]:
    found = [number("bits", 9.0, 0.2, method="logit_lens", control="unigram")]
    for method, bits in (("logit_lens", (80.0, 9.1, 3.0)), ("tuned_lens", (11.0, 6.0, 3.0))):
        for layer, value in enumerate(bits):
            found.append(number("bits", value, 0.1, method=method, layer=layer))
            found.append(
                number("settled", 0.3 * layer, 0.05, ("construct", "call"), method=method, layer=layer)
            )
            found.append(number("bits", value, 0.1, ("construct", "call"), method=method, layer=layer))
        found.append(number("first_layer", 1.4, 0.1, method=method))
        found.append(number("first_layer", 1.2, 0.1, ("construct", "call"), method=method))
    return found


def patched(change: float) -> list[Score]:
    found = [
        number("margin_change", change, 1.0, method="patch"),
        number("prefers_right", 0.8, 0.1, ("text", "clean"), method="patch"),
        number("prefers_right", 0.3, 0.1, ("text", "corrupt"), method="patch"),
        number("aligned", 0.6, 0.1, method="patch"),
        number("spearman", 0.4, 0.2, method="attribution"),
    ]
    for direction in ("denoising", "noising"):
        for cell in CELLS:
            for layer in range(4):
                value = {"names": 1.0 - 0.4 * layer, "place": 0.3 * layer}.get(cell, -0.001)
                about = (("direction", direction), ("cell", cell))
                found.append(number("recovered", value, 0.05, *about, method="attribution", layer=layer))
                if layer < 3 and cell != "uses":
                    found.append(number("recovered", value, 0.05, *about, method="patch", layer=layer))
    return found


def run_of(folder: Path, scores: list[Score]) -> RunData:
    (folder / "run.json").write_text(json.dumps({"models": [{"name": "m"}]}))
    scores_to_frame(scores).write_parquet(folder / "scores.parquet")
    return RunData(folder)


def test_layers_are_lines_beside_frequency(tmp_path: Path) -> None:
    figure = layers.draw(run_of(tmp_path, layered()))
    assert figure is not None
    assert [chart.name for chart in figure.charts] == ["causal-layers", "causal-settled"]
    text = json.dumps(figure.charts[0].spec)
    assert "logit lens" in text and "tuned lens" in text and "by frequency 9.00" in text
    assert "from layer 1.40 [1.30, 1.50] of 2 on" in figure.answer
    assert "surely worse than layer 2" in figure.answer
    assert figure.table is not None
    (row,) = figure.table.texts()
    assert row[:2] == ["m", "call"]


def test_cells_are_measured_or_said_to_be_guessed(tmp_path: Path) -> None:
    figure = patching.draw(run_of(tmp_path, patched(6.0)))
    assert figure is not None
    assert len(figure.charts) == 2
    text = json.dumps(figure.charts[0].spec)
    assert '"text": "~0"' in text and '"text": "100"' in text and '"text": "\\u22120"' not in text
    assert "moves the answer by 6.00 [5.00, 7.00] logits over 60 pairs" in figure.answer
    assert (
        "patching the positions of both variables surely recovers more than half of that at layers 0 to 1 (60"
        in figure.answer
    )
    assert (
        "patching the answer's position surely recovers more than half of that at layer 2 (60"
        in figure.answer
    )
    assert any("rank correlation of 0.40" in note for note in figure.notes)
    # Behind the last layer the place is all, so that it is not drawn.
    assert '"layer": 3' not in text


@pytest.mark.parametrize(("half", "named"), [(0.07, "layers 0 to 1"), (0.09, "layer 0")])
def test_layers_are_named_at_a_level_that_holds_for_all_of_them(
    half: float, named: str, tmp_path: Path
) -> None:
    """60 % with an interval of 9 points is above a half by itself, and not as one of three layers."""
    scores = [
        dataclasses.replace(one, ci_low=one.value - half, ci_high=one.value + half)
        if one.metric == "recovered"
        else one
        for one in patched(6.0)
    ]
    figure = patching.draw(run_of(tmp_path, scores))
    assert figure is not None
    assert f"surely recovers more than half of that at {named} (" in figure.answer


def test_a_model_that_does_not_follow_says_nothing(tmp_path: Path) -> None:
    figure = patching.draw(run_of(tmp_path, patched(0.5)))
    assert figure is not None
    assert "over 60 pairs, no difference found (1.42 logits or more would have been found)" in figure.answer


@pytest.mark.parametrize("plot", [layers, patching])
def test_nothing_is_drawn_without_scores(plot: object, tmp_path: Path) -> None:
    other = [number("bits", 0.1, 0.1, ("selection", "best"), method="erase", layer=1)]
    assert plot.draw(run_of(tmp_path, other)) is None  # type: ignore[attr-defined]
