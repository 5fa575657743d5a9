"""The page of a comparison in a real browser: drawn without a complaint, whatever the names are."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.report.browser import charts_drawn, needs_browser, opened

from sonde.base.formatting import format_name
from sonde.comparison.compare import CHANGED_ITEM_COLUMNS
from sonde.comparison.differences import compute_differences, differences_to_frame
from sonde.report import write_comparison_page
from sonde.report.comparison_page import build_comparison_sections, read_comparison
from sonde.results import Score, mean_rows

HOSTILE = "</script><b>\x1b'\"if"


@pytest.fixture
def page(tmp_path: Path) -> str:
    """A comparison of forty numbers of two lenses, some of them different, under hostile names."""
    rng = np.random.default_rng(0)
    names = [f"c{place // 20}" for place in range(600)]
    pairs = []
    for lens in ("probe", HOSTILE):
        base = Score(model="old", lens=lens, task="typ", metric="accuracy", value=0.0, n=0, n_clusters=0)
        right = rng.random((20, 600)) < 0.6
        other = right ^ (rng.random((20, 600)) < 0.05)
        other[:5] |= rng.random((5, 600)) < 0.3
        fields = [{"dimensions": ((HOSTILE, f"{HOSTILE}{place}"),)} for place in range(20)]
        first = mean_rows(base, right, names, fields)
        second = mean_rows(dataclasses.replace(base, model=HOSTILE), other, names, fields)
        pairs += [(one, two, "higher") for one, two in zip(first, second, strict=True)]
    differences_to_frame(compute_differences(pairs)).write_parquet(tmp_path / "comparison.parquet")
    side = {"run": "run", "revision": "abc", "fingerprint": ""}
    covered = [{"lens": "probe", "corpus": "c", "language": "python", "shared": 30, "base": 30, "model": 31}]
    alone = [{"lens": HOSTILE, "reason": HOSTILE, "count": 3, "example": HOSTILE}]
    one = {
        "base": {"label": "old", "model": "old", **side},
        "model": {"label": HOSTILE, "model": HOSTILE, **side},
        "covered": covered,
        "unpaired": alone,
    }
    content = {"schema_version": 2, "of": "", "comparisons": [one]}
    (tmp_path / "comparison.json").write_text(json.dumps(content), encoding="utf-8")
    changed = [
        {"of": of, "item_id": f"i{place}", "n": 1, "base_bits": 3.0, "bits": 3.0 + difference}
        | {"difference": difference, "base": "old", "model": HOSTILE, "lens": HOSTILE, "path": HOSTILE}
        | {"name": HOSTILE, "start": 4, "end": 8, "text": HOSTILE, "before": HOSTILE, "after": HOSTILE}
        for of in ("place", "item")
        for place, difference in enumerate((2.5, 1.5, -0.25, -4.5))
    ]
    schema = {name: kind for name, (kind, _) in CHANGED_ITEM_COLUMNS.items()}
    pl.DataFrame(changed, schema=schema).write_parquet(tmp_path / "moved.parquet")
    return write_comparison_page(tmp_path).read_text(encoding="utf-8")


def test_texts_are_escaped_and_outcomes_are_counted(page: str, tmp_path: Path) -> None:
    assert "<b>" not in page.replace("<body>", "").partition("<script>")[0]
    frame = pl.read_parquet(tmp_path / "comparison.parquet")
    better = frame.filter(pl.col("outcome") == "better").height
    assert better >= 8
    assert "better" in page
    assert "What could not be compared" in page


def test_places_are_by_direction_with_the_bits_of_both_models(page: str, tmp_path: Path) -> None:
    sections = {part.name: part for part in build_comparison_sections(read_comparison(tmp_path))}
    for level in ("place", "item"):
        for name, wanted in (("less_sure", [2.5, 1.5]), ("surer", [-4.5, -0.25])):
            section = sections[f"compared_moved_{level}_{name}"]
            table = section.figure.table
            assert table is not None and section.title in page
            assert [row["difference"] for row in table.records()] == wanted
            assert table.titles[4:7] == ["old, bits", f"{format_name(HOSTILE)}, bits", "Difference, bits"]


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", [400, 1280])
def test_a_browser_draws_every_chart_and_nothing_is_wider_than_the_window(
    page: str, tmp_path: Path, width: int
) -> None:
    with opened(page, tmp_path, width=width) as shown:
        assert charts_drawn(shown) >= 3
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.locator("nav a").count() >= 5
        assert shown.locator("b").count() == 0
