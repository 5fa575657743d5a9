"""The queries of the cloze lens in a real browser: filters work, and what models answer stays text."""

from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.report.browser import charts_drawn, needs_browser, opened
from tests.report.synthetic import write_run
from tests.report.test_cloze_sections import MODELS, scores_of, write

from sonde.report import write_report
from sonde.results.scores import scores_to_frame
from sonde.store.run_folder import RunDirectory

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.mark.slow
@needs_browser
def test_queries_in_a_browser(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "cloze", [], MODELS)
    scores = [score for model in MODELS for score in scores_of(model, 0.3)]
    scores_to_frame(scores).write_parquet(RunDirectory(folder).scores)
    write(
        folder,
        [
            {"query_id": "q0", "prefix": "np.", "answer": "zeros", "calls": 5},
            {"query_id": "q1", "prefix": f"from {HOSTILE} import ", "answer": "b", "calls": 9}
            | {"template": "import", "suffix": ""},
            {"query_id": "q2", "prefix": "os.", "answer": "path", "calls": 7},
        ],
        [
            {"query_id": "q0", "rank": 3, "top": [HOSTILE, "zeros"], "top_nats": [0.7, 3.0]},
            {"query_id": "q1", "rank": 2, "top": ["c"], "top_nats": [1.0]},
            {"query_id": "q2", "rank": 1, "top": ["path"], "top_nats": [0.1]},
        ],
    )
    page = write_report(folder)
    text = page.read_text(encoding="utf-8")
    hostile = f"from {HOSTILE} import b"
    with opened(text, tmp_path) as shown:
        form, codes = shown.locator(".qz-bar"), shown.locator(".qz-code")
        expect(codes).to_have_text([hostile, "np.zeros(", "os.path("])
        side, find = form.locator("[name=side]"), form.locator("[name=find]")
        side.select_option("right")
        expect(codes).to_have_text(["os.path("])
        side.select_option("")
        find.fill("ZERO")
        expect(codes).to_have_text(["np.zeros("])
        find.fill("nowhere")
        expect(shown.locator(".qz-none")).to_have_text("No cloze query is like this.")
        expect(shown.locator(".qz-count")).to_have_text("0 shown, 0 of them wrong")
        find.fill("")
        form.locator("[name=template]").select_option("import")
        form.locator("[name=model]").select_option("1")
        expect(codes).to_have_text([hostile])
        assert shown.evaluate("document.images.length") == 0
        assert charts_drawn(shown) == text.count("data-chart=")
