from pathlib import Path

import pytest

from sonde.base.errors import InputError
from sonde.store.run_folder import RunDirectory, slug


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


def test_long_names_of_models_make_folders_that_a_file_system_takes_and_stay_apart(tmp_path: Path) -> None:
    """A local model's name is its path, which may be longer than the 255 bytes of a file's name."""
    first, second = (slug("models/" + "deep/" * 100 + end) for end in ("one", "two"))
    assert first != second
    for name in (first, second):
        (tmp_path / f"model={name}").mkdir()
