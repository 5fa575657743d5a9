"""Folders whose names are patterns to other programs: every command reads what stands there."""

import re
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import sonde
from sonde.cli.commands import app
from sonde.experiments import Execution
from sonde.experiments.run import run
from tests.experiments.test_run import experiment

ROOT = Path(sonde.__file__).parent
NAME = "a[1]*?{x}"


def command(*words: object) -> str:
    """What a command prints; it has to succeed."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such names")
def test_every_command_takes_a_folder_whose_name_is_a_pattern(
    decoder: Path, project: Path, tmp_path: Path
) -> None:
    here = tmp_path / NAME

    def scores(folder: Path) -> pl.DataFrame:
        return sonde.Run(folder).scores.sort(pl.all())

    wanted = experiment(decoder, project, lenses=("surprisal", "attention"))
    first = run(wanted, Execution(output=here / "run"))
    again = run(wanted, Execution(output=here / "run"))
    assert first.observed and not again.observed
    for number in (1, 2):
        run(wanted, Execution(output=here / f"shard{number}", shard=f"{number}/2"))
    command("merge", here / "shard1", here / "shard2", "-o", here / "merged")
    assert scores(here / "merged").equals(scores(here / "run"))
    command("report", here / "run")
    command("card", here / "run")
    command("compare", here / "run", here / "merged", "-o", here / "compared")
    for folder in ("run", "merged", "compared"):
        assert ", 0 files damaged" in command("verify", here / folder)


def test_tables_are_read_by_name_in_one_place() -> None:
    # What is in memory already has no name.
    reads = re.compile(r"\bpl\.(scan|read)_(parquet|csv|ndjson|json|ipc)(?!\(io\.BytesIO)")
    found = {
        module.relative_to(ROOT).as_posix()
        for module in ROOT.rglob("*.py")
        if reads.search(module.read_text(encoding="utf-8"))
    }
    assert found == {"results/schema.py"}
