from pathlib import Path

import pytest

from sonde.base.errors import InputError
from sonde.store.rundir import RunDirectory, slug


def test_slugs_are_safe_folder_names() -> None:
    assert slug("sonde/mini-decoder") == "sonde_mini-decoder"
    assert slug("/models/a b/../c@v1") == "models_a_b_.._c_v1"
    assert slug("///") == "model"


def test_summary_round_trip(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.write_summary({"name": "é"})
    assert directory.read_summary() == {"name": "é"}


def test_missing_and_broken_summaries_are_one_line(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    with pytest.raises(InputError, match="no run here"):
        directory.read_summary()
    directory.summary.write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        directory.read_summary()
