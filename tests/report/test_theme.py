from __future__ import annotations

import pytest
from tests.report.contrast import compute_contrast, compute_luminance

from sonde.report.theme import (
    HEAT_COLOURS,
    HEAT_STEPS,
    MODEL_COLOURS,
    MODES,
    WORD_COLOURS,
    build_css_variables,
)


def test_contrast_of_black_and_white() -> None:
    assert compute_contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("mode", MODES)
def test_text_is_legible_on_every_step(mode: str) -> None:
    assert len(HEAT_COLOURS[mode]) == HEAT_STEPS
    assert all(compute_contrast(background, text) >= 4.5 for background, text in HEAT_COLOURS[mode])


@pytest.mark.parametrize("mode", MODES)
def test_lightness_moves_one_way(mode: str) -> None:
    light = [compute_luminance(background) for background, _ in HEAT_COLOURS[mode]]
    assert light == sorted(light, reverse=mode == "light")


@pytest.mark.parametrize("mode", MODES)
def test_words_marks_and_notes_are_legible_on_the_paper(mode: str) -> None:
    surface = build_css_variables(mode)
    assert all(
        compute_contrast(colour, surface["paper"]) >= 3.0
        for colour in [*WORD_COLOURS[mode], *MODEL_COLOURS[mode]]
    )
    assert all(
        compute_contrast(surface[text], surface[ground]) >= 4.5
        for text in ("ink", "muted", "accent")
        for ground in ("paper", "raised")
    )
