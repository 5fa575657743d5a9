"""Every architecture of the installed transformers: a sample of the page's rows is made again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import transformers

from sonde.base.process import SAFE_PATH_ENV

ROOT = Path(__file__).parents[2]
SAMPLE = (
    *("llama:causal", "gpt_oss:causal", "gemma2:causal", "falcon:causal", "mamba:causal", "xlm:causal"),
    *("longformer:masked", "fnet:masked", "mobilebert:masked", "bert:masked", "t5:seq2seq", "bart:seq2seq"),
)


def rows() -> dict[tuple[str, str], list[str]]:
    page = (ROOT / "docs" / "architectures.md").read_text(encoding="utf-8").partition("## Not built")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()]
    return {(one[0], one[1]): one[2:] for one in cells if len(one) > 6 and one[0] not in ("type", "---")}


def test_a_hundred_types_are_built_and_none_is_wrong():
    found = rows()
    assert len({model_type for model_type, _ in found}) >= 100
    assert {cell for one in found.values() for cell in one[1:4]} == {"exact", "refused"}
    for one in found.values():
        assert ("refused" in one[1:4]) == bool(one[4]), one


@pytest.mark.slow
def test_the_page_says_what_happens():
    page = (ROOT / "docs" / "architectures.md").read_text(encoding="utf-8")
    if f"transformers {transformers.__version__}." not in page:
        pytest.skip("the page was written with another transformers")
    command = [sys.executable, "-W", "ignore", "-m", "bench.architectures", *SAMPLE]
    # A test that calls the command line in this process leaves it the variable that hides the current folder.
    free = {name: value for name, value in os.environ.items() if name != SAFE_PATH_ENV}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=free, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == len(SAMPLE)
    for one in found:
        expected = rows()[one["model_type"], one["head"]]
        assert [one[key] for key in ("kind", "attention", "states", "losses")] == expected[:4], one
