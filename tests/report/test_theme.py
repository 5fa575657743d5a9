from __future__ import annotations

import pytest

from sonde.report.theme import (
    HEAT_STEPS,
    MODES,
    build_css_variables,
    compute_contrast,
    compute_luminance,
    heat_colours,
    model_colours,
    oklch_to_hex,
    word_cloud_colours,
)


def test_oklch_against_known_colours() -> None:
    # CSS Color 4: red is oklch(0.62796 0.25768 29.234), and greys have no chroma.
    assert oklch_to_hex(0.62796, 0.25768, 29.234) == "#ff0000"
    assert oklch_to_hex(1.0, 0.0, 0.0) == "#ffffff" and oklch_to_hex(0.0, 0.0, 0.0) == "#000000"


def test_contrast_of_black_and_white() -> None:
    assert compute_contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("mode", MODES)
def test_text_is_legible_on_every_step(mode: str) -> None:
    assert len(heat_colours(mode)) == HEAT_STEPS
    assert all(compute_contrast(background, text) >= 4.5 for background, text in heat_colours(mode))


@pytest.mark.parametrize("mode", MODES)
def test_lightness_moves_one_way(mode: str) -> None:
    light = [compute_luminance(background) for background, _ in heat_colours(mode)]
    assert light == sorted(light, reverse=mode == "light")


@pytest.mark.parametrize("mode", MODES)
def test_words_marks_and_notes_are_legible_on_the_paper(mode: str) -> None:
    surface = build_css_variables(mode)
    assert all(
        compute_contrast(colour, surface["paper"]) >= 3.0
        for colour in [*word_cloud_colours(mode), *model_colours(mode)]
    )
    assert all(
        compute_contrast(surface[text], surface[ground]) >= 4.5
        for text in ("ink", "muted", "accent")
        for ground in ("paper", "raised")
    )
