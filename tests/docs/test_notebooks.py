"""The notebooks run from top to bottom, each in a folder with some code, and are kept without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from sonde.lenses import LENSES

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_every_lens_has_a_notebook() -> None:
    assert set(LENSES.names()) <= {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_outputs_are_kept(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    assert all(
        not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code"
    )


@pytest.mark.slow
@pytest.mark.end_to_end
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, workplace: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(workplace)}}).execute()
    assert any(cell.outputs for cell in notebook.cells if cell.cell_type == "code")
