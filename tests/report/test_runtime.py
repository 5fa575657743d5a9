"""What a page takes beside its data: the runtime of its charts, and no library it can do without."""

import subprocess
import sys
from pathlib import Path

import pytest
import vl_convert

from sonde.report import export


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often the runtime was put together, and a cache of its own."""
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path))
    made: list[str] = []
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: made.append("") or "a < b </script> <!-- c")
    return made


def made() -> str:
    """The runtime as another process would get it."""
    return export.load_vega_runtime.__wrapped__()


def test_the_runtime_is_put_together_once(bundled: list[str], tmp_path: Path) -> None:
    first = made()
    assert first == r"a < b \x3c/script> \x3c!-- c"
    assert made() == first and len(bundled) == 1
    (path,) = (tmp_path / export.FOLDER).iterdir()
    for damaged in (
        b"",
        path.read_bytes()[:-1],
        b"\xff" + path.read_bytes(),
        path.read_bytes() + b"<script>",
    ):
        path.write_bytes(damaged)
        assert made() == first
    assert len(bundled) == 5


def test_a_cache_that_cannot_be_written_costs_time_alone(
    bundled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "file"))
    assert made() == made() and len(bundled) == 2


def test_neither_runs_nor_pages_import_what_takes_long_for_nothing() -> None:
    code = (
        "import sys, sonde.cli.progress, sonde.experiments.run, sonde.report\n"
        "from sonde.lenses import LENSES\n"
        "from sonde.report import PLOTS\n"
        "[LENSES.load(name) for name in LENSES.names()], [PLOTS.load(name) for name in PLOTS.names()]\n"
        "import sonde.lenses.probe.score, sonde.lenses.surprisal.score\n"
        "from sonde.report.sections.surprisal.word_clouds import _draw_cloud\n"
        "import polars as pl\n"
        "row = {'word': 'a', 'bits': 1.0, 'calls': 3, 'step': 0}\n"
        "_draw_cloud(pl.DataFrame([row, row | {'word': 'b'}]), '', '')\n"
        "print([name for name in ('scipy.stats', 'matplotlib.pyplot') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
