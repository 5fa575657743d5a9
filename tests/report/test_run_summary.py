"""What a run of several models ends with: the paired differences in words, and what the marks mean."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
from tests.report.test_answers import BEHIND, HEADS, RULE, WORSE_RULE, run_of
from tests.report.words import count_unfolded_words

from sonde.comparison.differences import compute_differences, differences_to_frame
from sonde.report import RunData, write_report
from sonde.report.run_summary import describe_model_differences, describe_run
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
    unpaired = [{"lens": "attention", "reason": "side differs", "count": 3, "example": ""}]
    content = {"of": "", "comparisons": [{**sides, "covered": [], "unpaired": unpaired}]}
    (folder / "comparison.json").write_text(json.dumps(content), encoding="utf-8")
    summary = json.loads((root / "run.json").read_text(encoding="utf-8"))
    (root / "run.json").write_text(json.dumps({**summary, "scores_key": ""}), encoding="utf-8")
    return RunData(run.directory.root)


def sentence(run: RunData) -> str:
    ((base, sentences),) = describe_model_differences(run).items()
    assert base == "m" and sentences[1] == "attention: other is not compared: side differs"
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
    assert text.startswith("surprisal: other is better in 1 of 4 (LEN by 0.")
    assert "; other is worse in 2 of 4 (" in text and "; no difference found in 1 of 4 (KTX; " in text


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
