"""The notebooks run from top to bottom, each in a folder with some code, and keep what they printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import examples
from notebook_pages import render_notebook
from sonde.lenses import LENSES

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST = 100_000
"""Bytes of a notebook with its outputs."""


def code_cells(notebook: Any) -> Iterator[Any]:
    """Yield the cells with code."""
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def output_kinds(notebook: Any) -> list[list[str]]:
    """Return the kind of each output that a cell keeps; progress is not kept."""
    return [
        [output.output_type for output in cell.outputs if output.output_type in ("execute_result", "error")]
        for cell in code_cells(notebook)
    ]


def test_every_lens_has_a_notebook() -> None:
    assert set(LENSES.names()) <= {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_kept_small_and_name_no_folder_of_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST
    assert not [place for place in ("/home/", "/root/", "/tmp/", "<script") if place in text]
    assert examples.EMPTY_TABLE not in text
    cells = list(code_cells(nbformat.read(path, as_version=4)))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert output_kinds(nbformat.read(path, as_version=4)) == [["execute_result"]] * len(cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_page_of_a_notebook_shows_every_output(path: Path) -> None:
    page = render_notebook(path)
    cells = list(code_cells(nbformat.read(path, as_version=4)))
    assert page.startswith("# ") and f"({path.name})" in page
    assert page.count("```python\n") == len(cells)
    assert page.count('class="notebook-output"') + page.count("```text\n") == len(cells)


@pytest.mark.parametrize("rows", [0, 2])
def test_a_notebook_with_a_table_without_rows_is_not_written(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"shape: ({rows}, 6)"
    output = nbformat.v4.new_output("execute_result", {"text/plain": text}, execution_count=1)
    cell = nbformat.v4.new_code_cell("table", outputs=[output], execution_count=1)
    cell.metadata = nbformat.NotebookNode(executed=True)
    path = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    before = path.read_bytes()
    monkeypatch.setattr(examples, "WORKPLACE", tmp_path)
    monkeypatch.setattr(NotebookClient, "execute", lambda self: None)
    if rows:
        examples.update_notebook(path)
        assert path.read_bytes() != before and text in path.read_text(encoding="utf-8")
    else:
        with pytest.raises(ValueError, match=r"page\.ipynb: a table has no rows:\ntable"):
            examples.update_notebook(path)
        assert path.read_bytes() == before


@pytest.mark.slow
@pytest.mark.end_to_end
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_gives_the_outputs_that_it_keeps(path: Path, workplace: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    kept = output_kinds(notebook)
    resources = {"metadata": {"path": str(workplace)}}
    NotebookClient(notebook, timeout=examples.NOTEBOOK_SECONDS, resources=resources).execute()
    assert output_kinds(notebook) == kept
