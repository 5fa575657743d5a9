"""The queries of the cloze lens in a real browser: filters work, and what models answer stays text."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.report.synthetic import write_run
from tests.report.test_browser import BROWSER, FLAGS
from tests.report.test_cloze_sections import MODELS, scores_of, write

from sonde.report import build_report
from sonde.results.scores import scores_frame
from sonde.store.rundir import RunDirectory

HOSTILE = "</script><img src=x onerror=alert(1)>"

FILTER = """
<script>
window.addEventListener("load", () => setTimeout(() => {
  const form = document.querySelector(".qz-bar");
  const tell = (name) => {
    const codes = [...document.querySelectorAll(".qz-code")].map((code) => code.textContent);
    document.body.dataset[name] = JSON.stringify(codes);
  };
  const choose = (name, value) => {
    form.elements[name].value = value;
    form.elements[name].dispatchEvent(new Event("input", { bubbles: true }));
  };
  tell("all");
  choose("side", "right");
  tell("right");
  choose("side", "");
  choose("find", "ZERO");
  tell("found");
  choose("find", "nowhere");
  document.body.dataset.none = document.querySelector(".qz-none").textContent;
  document.body.dataset.told = document.querySelector(".qz-count").textContent;
  choose("find", "");
  choose("template", "import");
  choose("model", "1");
  tell("imports");
  document.body.dataset.images = String(document.images.length);
}, 3000));
</script>
"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_queries_in_a_browser(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "cloze", [], MODELS)
    scores = [score for model in MODELS for score in scores_of(model, 0.3)]
    scores_frame(scores).write_parquet(RunDirectory(folder).scores)
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
    page = build_report(folder)
    text = page.read_text(encoding="utf-8")
    before, end, after = text.rpartition("</body>")
    page.write_text(before + FILTER + end + after, encoding="utf-8")
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert [line for line in said if 'WARN Dropping "fit-y"' not in line] == []
    body = re.search(r"<body[^>]*>", done.stdout)
    assert body is not None
    told = {
        name: value.replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">")
        for name, value in re.findall(r'data-(\w+)="([^"]*)"', body[0])
    }
    hostile = f'"from {HOSTILE} import b"'
    assert told["all"] == f'[{hostile},"np.zeros(","os.path("]'
    assert told["right"] == '["os.path("]'
    assert told["found"] == '["np.zeros("]'
    assert (told["none"], told["told"]) == ("No cloze query is like this.", "0 shown, 0 of them wrong")
    assert told["imports"] == f"[{hostile}]"
    assert told["images"] == "0"
    drawn = len(re.findall(r'<svg[^>]*class="marks"', done.stdout))
    assert drawn == text.count("data-chart=")
