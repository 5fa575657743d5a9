"""Code of two times stands in a section of its own, beside random weights and what could not be matched."""

import dataclasses
from pathlib import Path

from tests.report.synthetic import Source, dims, rewrite_summary, write_run

from sonde.lenses import LENSES
from sonde.report.run_tables import RunData
from sonde.report.section import PLOTS
from sonde.results.scores import Score, scores_to_frame
from sonde.store.run_folder import RunDirectory

PLOT = PLOTS.load("periods")
ROW = Score(
    model="m", lens="surprisal", language="python", metric="bits", value=0, n=500, n_clusters=12,
    effective_clusters=12,
)  # fmt: skip


def told(change: float, random: float, model: str = "m") -> list[Score]:
    """Numbers of both times, of the model and of random weights."""
    found: list[Score] = []
    for control, before, apart in ((None, 2.0, change), ("random_weights", 13.0, random)):
        for period, value in (("before", before), ("after", before + apart), ("after-before", apart)):
            found.append(number(value, control=control, dimensions=dims(period=period)))
    found.append(
        number(change - random, compared_to="random_weights", dimensions=dims(period="after-before"))
    )
    for period, value in (("before", 0.99), ("after", 0.97)):
        found.append(number(value, metric="matched", dimensions=dims(period=period)))
    few = dims(period="after", construct="async_for")
    found.append(number(0.25, metric="matched", dimensions=few))
    return [dataclasses.replace(one, model=model) for one in found]


def number(value: float, **changes: object) -> Score:
    ends = {"ci_low": value - 0.05, "ci_high": value + 0.05}
    return dataclasses.replace(ROW, value=value, **ends, **changes)  # type: ignore[arg-type]


def dated(folder: Path, sources: list[Source], *scores: Score) -> RunData:
    write_run(folder, sources[:3], {"m": 1.0})
    scores_to_frame(scores).write_parquet(RunDirectory(folder).scores)
    corpus = {
        "name": "git:x",
        "language": "python",
        "left_out": {"near duplicate of an older one": 1200, "near duplicate": 3},
    }
    rewrite_summary(folder, arguments={"selection": {"cut_off": "2024-01-01"}}, corpus=[corpus])
    return RunData(folder)


def test_a_run_without_a_date_has_no_such_section(run_directory: Path) -> None:
    assert PLOT.draw(RunData(run_directory)) is None


def test_memory_is_told_with_its_limits(tmp_path: Path, sources: list[Source]) -> None:
    figure = PLOT.draw(dated(tmp_path / "run", sources, *told(0.3, 0.1)))
    assert figure is not None and figure.table is not None
    assert figure.answer == (
        "At the same mix of constructs, code since 2024-01-01 costs 2.30 bits per subword and older code "
        "2.00, a difference of 0.30 [0.25, 0.35]. With random weights it is 0.10 [0.05, 0.15], so that "
        "0.20 [0.15, 0.25] remain. Contamination seen: a model that has read the older code predicts it "
        "better than matched newer code; other causes of drift over time are not excluded."
    )
    assert [row["name"] for row in figure.table.rows.iter_rows(named=True)].count("random weights") == 3  # type: ignore[union-attr]
    matched, left_out, _ = figure.notes
    assert matched.startswith("97.0 % of the newer and 99.0 % of the older code, by bytes, has its like")
    assert matched.endswith("Least of all could be matched of async for (25 % of the newer).")
    assert left_out == ("git:x: on neither side, by reason: near duplicate of an older one (1,200).")


def test_drift_that_random_weights_show_too_is_no_memory(tmp_path: Path, sources: list[Source]) -> None:
    figure = PLOT.draw(dated(tmp_path / "run", sources, *told(0.3, 0.28)))
    assert figure is not None
    assert "Contamination not seen: no difference found by which newer code costs more" in figure.answer


def test_the_terminal_says_the_same() -> None:
    *_, newer, random, verdict = LENSES.load("surprisal").details(scores_to_frame(told(0.3, 0.1)))
    assert newer == (
        "Newer minus older Python code of the same kind for m: +0.30 [+0.25, +0.35] bits per subword"
    )
    assert random == "  minus the same with random weights: +0.20 [+0.15, +0.25]"
    assert verdict.startswith("  Contamination seen: a model that has read the older code")
