"""What a run of several models ends with: the paired differences in words, and what the marks mean."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import polars as pl
from tests.report.test_answers import BEHIND, HEADS, RULE, WORSE_RULE, run_of
from tests.report.words import count_unfolded_words

from sonde.api.results import SectionFigure
from sonde.comparison.differences import WITHIN_PRECISION, compute_differences, differences_to_frame
from sonde.report import PLOTS, Figure, RunData, Section, write_report
from sonde.report.page import render_page
from sonde.report.run_summary import describe_model_differences, describe_run
from sonde.report.theme import explain_marks
from sonde.results import Score, mean_rows
from sonde.results.score_pairs import Direction
from sonde.results.text_format import MARK_MEANINGS, format_mark_legend, mark_reason, mark_reasons
from sonde.stats.verdict import no_verdict_reason

OTHER = "org/other"
BITS = Score(
    model=HEADS.model, lens="surprisal", language="python", metric="bits_per_character", value=0.0, n=0,
    n_clusters=0,
)  # fmt: skip


def compared(root: Path, gaps: dict[str, float], *, spread: float = 0.1, clusters: int = 40) -> RunData:
    """A run of two models over functions of some clusters, and its comparison: a gap for each task."""
    rng = np.random.default_rng(3)
    names = [f"c{place % clusters}" for place in range(400)]
    pairs: list[tuple[Score, Score, Direction]] = []
    for task, gap in gaps.items():
        base_values = rng.normal(2.0, 0.3, 400)
        values = base_values + gap + rng.normal(0.0, spread, 400)
        score = dataclasses.replace(BITS, task=task)
        (first,) = mean_rows(score, base_values[None], names, kind="real")
        (second,) = mean_rows(dataclasses.replace(score, model=OTHER), values[None], names, kind="real")
        pairs.append((first, second, "lower"))
    run = run_of(root, [HEADS, dataclasses.replace(HEADS, model=OTHER)])
    folder = root / "comparison"
    folder.mkdir()
    differences_to_frame(compute_differences(pairs)).write_parquet(folder / "comparison.parquet")
    sides = {"base": {"label": HEADS.model}, "model": {"label": OTHER}}
    unpaired = [
        {"lens": "attention", "reason": reason, "count": 3, "example": ""}
        for reason in ("side differs", "corpora differ")
    ]
    content = {"of": "", "comparisons": [{**sides, "covered": [], "unpaired": unpaired}]}
    (folder / "comparison.json").write_text(json.dumps(content), encoding="utf-8")
    summary = json.loads((root / "run.json").read_text(encoding="utf-8"))
    (root / "run.json").write_text(json.dumps({**summary, "scores_key": ""}), encoding="utf-8")
    return RunData(run.directory.root)


def altered(run: RunData, **columns: pl.Expr) -> RunData:
    """The same run with other columns in its comparison."""
    path = run.directory.root / "comparison" / "comparison.parquet"
    pl.read_parquet(path).with_columns(**columns).write_parquet(path)
    return RunData(run.directory.root)


def sentence(run: RunData) -> str:
    ((base, sentences),) = describe_model_differences(run).items()
    assert base == "m"
    assert sentences[1] == "attention: other is not compared: side differs; corpora differ"
    return sentences[0]


def test_a_difference_a_null_result_and_too_little_data_are_three_sentences(tmp_path: Path) -> None:
    for name in ("worse", "better", "level", "few"):
        (tmp_path / name).mkdir()
    worse = sentence(compared(tmp_path / "worse", {"": 0.2}))
    assert worse.startswith("surprisal: other is worse by 0.20")
    assert worse.endswith("] bits per character (n = 400 characters, 40 effective clusters)")
    better = sentence(compared(tmp_path / "better", {"": -0.2}))
    # The size stands without its sign, with the ends of its interval in their order.
    low, high = better.partition("[")[2].partition("]")[0].split(", ")
    assert better.startswith("surprisal: other is better by 0.") and 0 < float(low) < float(high)
    level = sentence(compared(tmp_path / "level", {"": 0.0}, spread=1.0))
    assert level.startswith("surprisal: no difference found for other: ")
    assert " bits per character or more would have been found; n = 400 characters" in level
    few = sentence(compared(tmp_path / "few", {"": 0.2}, clusters=4))
    assert few.startswith("surprisal: too little data to tell other from it †: +0.2")
    assert not any(word in few for word in ("worse", "better", "no difference"))


def test_several_tasks_of_a_lens_are_one_line(tmp_path: Path) -> None:
    gaps = {"idn": 0.5, "ktx": 0.0, "len": -0.5, "npt": 0.3}
    text = sentence(compared(tmp_path, gaps, spread=0.4))
    assert text.startswith("surprisal: other is better in 1 of 4 tasks (LEN by 0.")
    assert "; other is worse in 2 of 4 tasks (" in text
    assert "; no difference found in 1 of 4 tasks (KTX; " in text


def test_numerical_noise_is_not_too_little_data(tmp_path: Path) -> None:
    for name in ("one", "several"):
        (tmp_path / name).mkdir()
    run = compared(tmp_path / "one", {"": 1e-6}, spread=1e-7)
    noise = "numerical noise, since another batch or machine changes more"
    assert sentence(run) == (
        f"surprisal: no difference for other: {noise} (n = 400 characters, 40 effective clusters)"
    )
    assert not any("oo little data" in line or "¶" in line for line in describe_run(run))
    several = altered(
        compared(tmp_path / "several", {"idn": 0.5, "ktx": 0.1, "len": 0.1}),
        why=pl.when(pl.col("task") == "idn").then(pl.lit("")).otherwise(pl.lit(WITHIN_PRECISION)),
    )
    assert f"; no difference in 2 of 3 tasks (KTX and LEN): {noise}" in sentence(several)
    assert "too little data" not in sentence(several)


def test_a_slight_difference_is_one_whose_estimate_is_below_what_matters(tmp_path: Path) -> None:
    text = sentence(compared(tmp_path, {"": 0.002}, spread=0.001))
    before, _, after = text.partition(" (0.005 bits per character): ")
    assert before == ("surprisal: other differs, by an estimate below the smallest difference that matters")
    assert after.startswith("+0.002")


def test_a_clause_has_the_marks_of_all_its_rows(tmp_path: Path) -> None:
    reasons = {
        "idn": "8.3 effective clusters, a verdict needs 10",
        "ktx": "3 seeds or draws, a verdict needs 5",
    }
    run = altered(
        compared(tmp_path, {"idn": 0.5, "ktx": 0.1, "len": 0.2}),
        why=pl.col("task").replace_strict(reasons, default=""),
    )
    text = sentence(run)
    assert "; too little data to tell in 2 of 3 tasks (" in text
    assert set(text[-3:]) == {" ", "†", "‡"}
    legend = list(describe_run(run))[-1]
    assert "† fewer than 10 effective clusters; ‡ fewer than 5 seeds or draws" in legend


def test_amounts_of_different_metrics_are_not_in_one_clause(tmp_path: Path) -> None:
    metric = pl.when(pl.col("task") == "len").then(pl.lit("accuracy")).otherwise(pl.col("metric"))
    text = sentence(altered(compared(tmp_path, {"idn": 0.5, "ktx": 0.4, "len": 0.2}), metric=metric))
    assert text.count("other is worse in ") == 2
    assert "other is worse in 2 of 3 tasks (" in text and "other is worse in 1 of 3 tasks (LEN by " in text
    assert "] points (accuracy), n = " in text and "] bits per character, n = " in text


def test_a_single_number_names_its_task_and_of_several_languages_its_own(tmp_path: Path) -> None:
    run = compared(tmp_path, {"idn": 0.2})
    assert sentence(run).startswith("surprisal, IDN: other is worse by ")
    path = tmp_path / "scores.parquet"
    scores = pl.read_parquet(path)
    pl.concat([scores, scores.with_columns(language=pl.lit("java"))]).write_parquet(path)
    assert sentence(RunData(tmp_path)).startswith("surprisal, IDN Python: other is worse by ")


def test_of_a_number_that_is_better_neither_way_the_higher_value_is_named(tmp_path: Path) -> None:
    for name in ("one", "several"):
        (tmp_path / name).mkdir()
    outcome = pl.lit("higher")
    one = altered(compared(tmp_path / "one", {"": 0.2}), outcome=outcome)
    assert sentence(one).startswith("surprisal: other has the higher value, by 0.20")
    several = altered(compared(tmp_path / "several", {"idn": 0.2, "ktx": 0.3}), outcome=outcome)
    assert sentence(several).startswith("surprisal: other has the higher value in 2 of 2 tasks (")


def test_a_section_sign_in_quoted_code_is_no_mark() -> None:
    assert format_mark_legend(["the text 'a§b' and `§`"]) == ""
    assert "<abbr" not in explain_marks("the text 'a§b' and `§`")
    assert explain_marks("too little †‡: 2").count("<abbr") == 2
    assert format_mark_legend(["2 †‡"]).count("fewer than") == 2


def test_marks_are_explained_in_the_lead_of_a_lens_and_in_notebooks(tmp_path: Path) -> None:
    figure = Figure(answer="2 of 3 †", lead="5 of 9 ‡", notes=("1 of 2 §",))
    section = Section(name="probe_layers", plot=PLOTS.load("probe_layers"), figure=figure)
    shown = SectionFigure(section)._repr_html_()
    assert "2 of 3 <abbr" in shown and "1 of 2 <abbr" in shown
    page = render_page(run_of(tmp_path, [HEADS, RULE]), [section])
    assert '<p class="lede">5 of 9 <abbr' in page
    assert "‡ fewer than 5 seeds or draws" in page


def test_the_most_frequent_reason_is_still_called_so() -> None:
    text = "2 with too little data (most often 9.5 effective clusters, a verdict needs 10)"
    assert mark_reasons(text) == text


def test_a_number_over_everything_speaks_for_a_lens_that_has_numbers_of_tasks_too(tmp_path: Path) -> None:
    text = sentence(compared(tmp_path, {"call_origin": -0.5, "": 0.2}))
    assert text.startswith("surprisal: other is worse by 0.20")


def test_the_terminal_and_the_report_have_the_same_differences(tmp_path: Path) -> None:
    run = compared(tmp_path, {"": 0.2}, clusters=4)
    lines = list(describe_run(run))
    start = lines.index("Compared with m, on the same items:")
    assert lines[start + 1] == f"  {sentence(run)}"
    assert lines[-1] == "Too little data for a verdict: † fewer than 10 effective clusters."
    page = write_report(tmp_path).read_text(encoding="utf-8")
    first_screen = page.partition('id="findings"')[2].partition("</table>")[0]
    mark = '<abbr title="too little data for a verdict: fewer than 10 effective clusters">†</abbr>'
    assert sentence(run).replace("†", mark) in first_screen


def test_every_reason_has_a_mark_and_a_run_without_any_has_no_legend(tmp_path: Path) -> None:
    rows = {
        "†": {"effective_clusters": 9.9},
        "§": {"effective_clusters": 12.0, "ci_low": None, "ci_high": None},
        "¶": {"effective_clusters": 12.0, "ci_low": 0.1, "ci_high": 0.9, "n_eff": 50.0, "value": 0.5},
        "¶ few": {"effective_clusters": 12.0, "ci_low": 0.1, "ci_high": 0.3, "n_eff": 20.0, "value": 0.2},
        "¶ rare": {"effective_clusters": 12.0, "ci_low": 0.01, "ci_high": 0.09, "n_eff": 90.0, "value": 0.03},
        "‡": {"effective_clusters": 12.0, "ci_low": 0.1, "ci_high": 0.2, "seeds": 3},
    }
    for name, row in rows.items():
        mark = name[0]
        reason = no_verdict_reason(row)
        assert mark_reason(reason) == f" {mark}"
        assert mark_reasons(f"too little data on it ({reason}): 2") == f"too little data on it {mark}: 2"
        assert mark_reasons(f"2; too little data: {reason}") == f"2; too little data {mark}"
    assert {name[0] for name in rows} == set(MARK_MEANINGS)
    assert format_mark_legend(["12 clusters", "no mark"]) == ""
    lines = list(describe_run(run_of(tmp_path, [HEADS, RULE, WORSE_RULE, BEHIND])))
    assert not any("Too little data" in line for line in lines)


def test_words_are_counted_that_can_be_read_without_opening_anything() -> None:
    page = (
        "<head><title>not this</title></head><body>one <details><summary>two</summary>not <b>this</b>"
        "<details open>nor this</details></details><details open><summary>three</summary>four</details>"
        "<svg><title>not this</title></svg><div data-lens='probe'>five<div>six</div></div></body>"
    )
    assert count_unfolded_words(page) == 6
    assert count_unfolded_words(page, without=("probe",)) == 4
