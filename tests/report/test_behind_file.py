"""What the text of the file changes stands in a section of its own, with both numbers beside each change."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from tests.report.synthetic import Source, dims, write_run

from sonde.report.run_tables import RunData
from sonde.report.section import PLOTS
from sonde.report.sections import surprisal
from sonde.report.sections.surprisal._scores import BITS_PER_NAT
from sonde.results.scores import Score, scores_to_frame
from sonde.store.run_folder import RunDirectory

PLOT = PLOTS.load("behind_file")

# Dimensions, metric, alone, behind, what it is a row of.
TOLD = (
    ((), "bits_per_byte", 1.5, 1.25, {}),
    ((), "top1", 0.41, 0.45, {}),
    (dims(kind="identifier"), "bits", 7.0, 6.0, {}),
    (dims(kind="keyword"), "bits", 4.0, 3.9, {}),
    (dims(kind="identifier"), "top1", 0.3, 0.36, {}),
    (dims(role="parameter"), "bits", 6.0, 4.0, {}),
    (dims(origin="internal"), "nats", 5.0, 4.5, {"task": "call_origin"}),
    (dims(origin="internal"), "nats", 6.0, 5.9, {"task": "call_origin", "weighting": "unweighted"}),
    (dims(origin="external"), "nats", 4.0, 3.9, {"task": "call_origin"}),
    (dims(origin="internal", tag="x -> y"), "nats", 4.0, 3.9, {"task": "call_origin"}),
    (dims(origin="internal-external"), "nats", 1.0, 0.6, {"task": "call_origin", "weighting": "count"}),
)


def told(model: str, clusters: float = 40) -> Iterator[Score]:
    row = Score(
        model=model, lens="surprisal", language="python", metric="", value=0, n=500, n_clusters=50,
        effective_clusters=clusters,
    )  # fmt: skip
    for own, metric, alone, behind, more in TOLD:
        named = (
            (own, alone),
            ((*dims(before="file"), *own), behind),
            ((*dims(before="file-none"), *own), behind - alone),
        )
        for name, value in named:
            ends = {"ci_low": value - 0.03, "ci_high": value + 0.03}
            yield dataclasses.replace(row, dimensions=name, metric=metric, value=value, **ends, **more)


def behind(folder: Path, *scores: Score, above: int = 7) -> RunData:
    """A run with these scores, whose second item has so many subwords above it."""
    scores_to_frame(scores).write_parquet(RunDirectory(folder).scores)
    for path in (folder / "observations").rglob("*.parquet"):
        rows = pl.read_parquet(path)
        second = pl.col("item_id") == rows["item_id"].unique(maintain_order=True)[1]
        rows.with_columns(file_context=pl.col("context") + second.cast(pl.Int32) * above).write_parquet(path)
    return RunData(folder)


def test_a_run_of_texts_alone_has_no_such_section(run_directory: Path) -> None:
    run = RunData(run_directory)
    assert PLOT.draw(run) is None
    header = surprisal.title.top(run)
    assert header is not None and "read alone, without its file" in header.note


def test_every_change_stands_beside_its_two_numbers(tmp_path: Path, sources: list[Source]) -> None:
    run = behind(write_run(tmp_path / "run", sources[:3], {"m": 1.0}), *told("m"))
    # The page no longer says that functions were read without their file.
    header = surprisal.title.top(run)
    assert header is not None and "read alone" not in header.note
    figure = PLOT.draw(run)
    assert figure is not None and figure.table is not None
    text, first, calls = figure.answer.splitlines()
    assert text.startswith(
        "After the code above it in its file, a text costs 1.25 bits per byte instead of 1.50, "
        "a change of −0.25 ["
    )
    assert first.startswith(
        "The first guess is right for 45.0 % of the subwords instead of 41.0 %, a change of 4.0 ["
    )
    internal, gap = (f"−{bits * BITS_PER_NAT:.2f}" for bits in (0.5, 0.4))
    assert f"by {internal} [" in calls and "for calls into the repository" in calls
    assert (
        f"helps more with calls into the repository than with calls out of it: a difference of {gap} ["
        in calls
    )
    rows = {(row[0].text, row[1].text): [cell.text for cell in row[2:5]] for row in figure.table.cells()}
    assert rows["kind: identifier", "bits per subword"] == ["7.00", "6.00", "−1.00"]
    assert rows["kind: identifier", "top-1 accuracy, %"] == ["30.00", "36.00", "6.00"]
    # Of what carries the name of a weighting, or a tag, nothing is taken for the plain mean.
    shown = [f"{nats * BITS_PER_NAT:.2f}" for nats in (5.0, 4.5)]
    assert rows["internal call", "bits per subword"][:2] == shown
    assert len(figure.table.cells()) == len(TOLD) - 2
    assert [chart.name for chart in figure.charts] == [
        "behind-file-kind-bits", "behind-file-kind-top1", "behind-file-role-bits", "behind-file-origin-bits",
    ]  # fmt: skip
    assert "1 of 3 texts have something above them" in figure.notes[0] and "median of 7 " in figure.notes[0]


def test_what_allows_no_verdict_is_said_so(tmp_path: Path, sources: list[Source]) -> None:
    run = behind(write_run(tmp_path / "run", sources[:3], {"m": 1.0}), *told("m", clusters=4))
    figure = PLOT.draw(run)
    assert figure is not None
    text, first, calls = figure.answer.splitlines()
    assert text.endswith("] †.") and first.endswith(" points †.")
    assert "] for calls into the repository † and by " in calls
    assert "on whether it helps" in calls


def test_several_models_are_named(tmp_path: Path, sources: list[Source]) -> None:
    run = behind(write_run(tmp_path / "run", sources[:3], {"a": 1.0, "b": 1.0}), *told("a"), *told("b"))
    figure = PLOT.draw(run)
    assert figure is not None and figure.table is not None
    assert [line[:3] for line in figure.answer.splitlines()] == ["a: "] * 3 + ["b: "] * 3
    assert figure.table.titles[0] == "Model"
