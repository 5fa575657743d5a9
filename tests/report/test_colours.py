"""One meaning has one colour: models by their place in the run, controls by what they are."""

from __future__ import annotations

import json
from typing import Any

import altair as alt
import pytest
import vl_convert
from tests.report.contrast import compute_contrast

from sonde.report import Chart, to_sized_spec, to_svg
from sonde.report.charts import colour_by_kind, colour_by_meaning, with_model_colours
from sonde.report.theme import (
    KIND_COLOURS,
    MEANING_COLOURS,
    MEANINGS,
    MODEL_COLOURS,
    MODES,
    build_css_variables,
)

LABELS = ["encoder", "decoder", "other"]


def chart(rows: list[dict[str, Any]], color: alt.Color | str | None, title: str = "Shares") -> Chart:
    drawn = alt.Chart(alt.Data(values=rows)).mark_bar().encode(x="value:Q", y="name:N")
    spec = drawn.encode(color=color) if color is not None else drawn
    return Chart(name="c", title=title, spec=spec.to_dict(validate=False))


def fills(one: Chart) -> set[str]:
    return {
        colour
        for colour in (*MODEL_COLOURS["light"], *MEANING_COLOURS["light"], *KIND_COLOURS["light"])
        if colour in to_svg(one)
    }


def rows_of(*models: str) -> list[dict[str, Any]]:
    return [{"name": f"n{at}", "model": model, "value": 1.0} for at, model in enumerate(models)]


def test_a_model_keeps_its_colour_where_others_are_missing() -> None:
    made = with_model_colours(chart(rows_of("other", "decoder"), alt.Color("model:N")), LABELS)
    assert fills(made) == {MODEL_COLOURS["light"][1], MODEL_COLOURS["light"][2]}
    assert made.spec["encoding"]["color"]["legend"]["values"] == ["decoder", "other"]


@pytest.mark.parametrize(
    ("rows", "title", "only", "place"),
    [
        (rows_of("decoder", "decoder"), "Shares", 0, 1),
        (rows_of("decoder, python"), "Shares", 0, 1),
        ([{"name": "n", "value": 1.0}], "Shares, other", 0, 2),
        ([{"name": "n", "value": 1.0}], "Shares, decoder, decoder", 0, 1),
        ([{"name": "n", "value": 1.0}], "Shares", 2, 2),
    ],
)
def test_a_chart_about_one_model_has_its_colour(
    rows: list[dict[str, Any]], title: str, only: int, place: int
) -> None:
    made = with_model_colours(chart(rows, None, title), LABELS, only)
    assert made.model == place and fills(made) == {MODEL_COLOURS["light"][place]}


def test_parts_of_what_is_about_one_model_have_no_models_colour() -> None:
    made = with_model_colours(
        chart(rows_of("decoder, external", "decoder, internal"), alt.Color("model:N")), LABELS
    )
    assert fills(made) == set(KIND_COLOURS["light"][:2])


def test_controls_have_their_colours_whichever_stand_beside_them() -> None:
    names = {"": "best head", "offset": "a rule", "chance": "chance"}
    rows = [{"name": "n", "who": "chance", "value": 1.0}, {"name": "m", "who": "best head", "value": 2.0}]
    made = chart(rows, colour_by_meaning("who", names, ["chance", "best head"]))
    wanted = {MEANING_COLOURS["light"][MEANINGS.index(name)] for name in ("", "chance")}
    assert fills(made) == wanted and made.spec["encoding"]["color"]["legend"]["values"] == [
        "best head",
        "chance",
    ]
    own = with_model_colours(Chart(name="c", title="Found, other", spec=made.spec), LABELS)
    assert fills(own) == {MODEL_COLOURS["light"][2], MEANING_COLOURS["light"][MEANINGS.index("chance")]}


def test_a_chart_taken_away_is_drawn_without_the_theme() -> None:
    made = chart(rows_of("a", "b"), colour_by_kind("model"))
    assert vl_convert.vegalite_to_svg(json.dumps(to_sized_spec(made))).count("<path") >= 2


@pytest.mark.parametrize("mode", MODES)
def test_every_mark_can_be_seen_on_the_paper(mode: str) -> None:
    paper = build_css_variables(mode)["paper"]
    assert all(
        compute_contrast(colour, paper) >= 3.0 for colour in (*MEANING_COLOURS[mode], *KIND_COLOURS[mode])
    )
    assert not set(MODEL_COLOURS[mode][1:]) & set(MEANING_COLOURS[mode])
    assert all(compute_contrast(build_css_variables(mode)[name], paper) >= 4.5 for name in ("right", "wrong"))
