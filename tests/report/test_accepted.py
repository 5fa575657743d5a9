"""Accepted characters have a section: by place, construct, kind and role, and beside what was generated."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from tests.report.synthetic import dims, write_run

from sonde.report.run_tables import RunData
from sonde.report.section import PLOTS
from sonde.results.schema import SHARED_PLACES
from sonde.results.scores import Score, scores_to_frame
from sonde.store.run_folder import RunDirectory

PLOT = PLOTS.load("accepted")

CURSORS = {"line start": 9.0, "after .": 6.0, "after (": 3.0, "inside a name": 5.0, "other": 4.0}
GAIN = {"of_metric": "accepted_characters", "compared_to": "subword_pairs"}
GENERATED = {"of_metric": "generated_characters", "compared_to": "accepted_characters"}


def told(model: str, *, shared: bool = False, generated: bool = True) -> Iterator[Score]:
    row = Score(
        model=model, lens="surprisal", language="python", metric="", value=0, n=500, n_clusters=50,
        effective_clusters=40.0, objective="causal",
    )  # fmt: skip

    def score(metric: str, value: float, *dimensions: tuple[str, str], **columns: str) -> Score:
        low, high = (
            (value - 0.02, value + 0.02)
            if metric in ("accepted_line", "generation_agreement")
            else (
                value - 0.3,
                value + 0.3,
            )
        )
        return dataclasses.replace(
            row, metric=metric, value=value, ci_low=low, ci_high=high, dimensions=dimensions, **columns
        )

    for outer in ((), (SHARED_PLACES,)) if shared else ((),):
        # Over the shared places a completion is right for half as many characters.
        part = 0.5 if outer else 1.0
        yield score("accepted_characters", 4.5 * part, *outer)
        yield score("accepted_line", 0.2, *outer)
        for name, value in CURSORS.items():
            yield score("accepted_characters", value * part, *outer, *dims(cursor=name))
            yield score("accepted_line", value / 40, *outer, *dims(cursor=name))
        for dimension, name in (("construct", "call"), ("kind", "keyword"), ("role", "function")):
            yield score("accepted_characters", 7.0 * part, *outer, *dims(**{dimension: name}))
            yield score("accepted_line", 0.3, *outer, *dims(**{dimension: name}))
    yield score("accepted_characters", 0.5, control="subword_pairs")
    yield score("accepted_characters", 0.75, *dims(cursor="after ."), control="subword_pairs")
    yield score("gain", 4.0, **GAIN)
    if generated:
        yield dataclasses.replace(score("generated_characters", 4.75), n=120)
        yield dataclasses.replace(score("generation_agreement", 0.9), n=120)
        yield dataclasses.replace(score("gain", 0.25, **GENERATED), n=120)


def draw(folder: Path, *scores: Score) -> RunData:
    run = write_run(folder, [], dict.fromkeys(dict.fromkeys(score.model for score in scores), 1.0))
    scores_to_frame(scores).write_parquet(RunDirectory(run).scores)
    return RunData(run)


def test_a_run_without_places_has_no_such_section(run_directory: Path) -> None:
    assert PLOT.draw(RunData(run_directory)) is None


def test_every_number_of_one_model(tmp_path: Path) -> None:
    figure = PLOT.draw(draw(tmp_path / "run", *told("org/one")))
    assert figure is not None and figure.table is not None
    first, second, third = figure.answer.splitlines()
    assert first == (
        "From an average place a greedy completion is right for 4.50 [4.20, 4.80] characters, and in 20.0 % "
        "of the places to the end of the line (n = 500 places)."
    )
    assert second.startswith("At its 500 places it gets 4.00 [3.70, 4.30] characters more right than a table")
    assert third.startswith("Of the 5 kinds of place, “line start” (9.00 [8.70, 9.30]) gets the most")
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in figure.table.cells()}
    assert list(rows) == [
        "all places", *CURSORS, "construct: call", "kind: keyword", "role: function",
    ]  # fmt: skip
    assert rows["all places"][:5] == ["4.50", "[4.20, 4.80]", "20.0", "[18.0, 22.0]", "0.50"]
    assert rows["after ."][:5] == ["6.00", "[5.70, 6.30]", "15.0", "[13.0, 17.0]", "0.75"]
    assert rows["role: function"][0] == "7.00"
    assert [chart.name for chart in figure.charts] == [
        "accepted-cursor",
        "accepted-line",
        "accepted-construct",
    ]
    (note,) = [note for note in figure.notes if "sampled places" in note]
    assert "From 120 sampled places" in note and "4.75 [4.45, 5.05] characters are right" in note
    assert "+0.25 [−0.05, +0.55] compared with its ranks" in note and "90.0 [88.0, 92.0] % of these" in note


def test_several_models_are_shown_over_the_places_that_all_of_them_have(tmp_path: Path) -> None:
    scores = [score for name in ("org/one", "org/two") for score in told(name, shared=True, generated=False)]
    figure = PLOT.draw(draw(tmp_path / "run", *scores))
    assert figure is not None and figure.table is not None
    assert figure.answer.count("is right for 2.25 [1.95, 2.55] characters") == 2
    titles = figure.table.titles
    assert titles[:2] == ["Model", "Places"] and "By subword pairs" not in titles
    assert any("every model of the run" in note for note in figure.notes)
    assert not any("sampled places" in note for note in figure.notes)


def test_shares_of_lines_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    scores = [
        dataclasses.replace(score, value=float("nan")) if score.metric == "accepted_line" else score
        for score in told("org/one")
    ]
    figure = PLOT.draw(draw(tmp_path / "run", *scores))
    assert figure is not None and figure.table is not None
    sentence = "From an average place a greedy completion is right for 4.50 [4.20, 4.80] characters"
    assert figure.answer.startswith(f"{sentence} (n = 500 places).")
    assert figure.table.cells()[0][3].text == "–"
