"""What travels in the wheel: queries, templates and bundled models, so that a run works from any folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("sonde-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def sonde(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = (
        f"import sonde; assert sonde.__file__.startswith({str(site)!r}); import sonde.cli; sonde.cli.main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )


def test_a_run_works_from_another_folder(unpacked: Path, tmp_path: Path) -> None:
    done = sonde(unpacked, tmp_path, "run", "--limit", "20")
    assert done.returncode == 0, done.stderr
    page = tmp_path / done.stdout.strip().splitlines()[-1].removeprefix("report: ")
    assert page.is_file()
    assert "20 items observed" in done.stdout


def test_everything_that_is_no_code_travels(unpacked: Path) -> None:
    source = ROOT / "src" / "sonde"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {
        path.relative_to(unpacked / "sonde").as_posix()
        for path in (unpacked / "sonde").rglob("*")
        if path.is_file()
    }
    assert expected <= found


def test_neither_tests_nor_caches_travel(unpacked: Path) -> None:
    assert {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")} == {"sonde"}
    parts = {part for path in unpacked.rglob("*") for part in path.relative_to(unpacked).parts}
    assert not {"tests", "__pycache__", ".training"} & parts
