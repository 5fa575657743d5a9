"""What functions give data sets is kept between runs, and no example depends on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import sonde
from sonde.base.errors import SondeError
from sonde.corpora import Item, Selection, select
from sonde.tasks import LabelRequest, build, collect_labelled_spans
from sonde.tasks.engine import dataset, label_cache, sampling
from sonde.tasks.engine.dataset import labels_existing_code
from sonde.tasks.engine.spans import select_all_spans
from sonde.tasks.engine.task import TASKS, Task

PROJECT = Path(sonde.__file__).parent / "stats"


@pytest.fixture(scope="module")
def functions() -> list[Item]:
    return list(select(f"local:{PROJECT}", Selection(per_cluster=0, near_duplicates=False)).items)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path))
    monkeypatch.setenv("SONDE_CACHE_SIZE", "1")
    monkeypatch.setattr(label_cache, "_MINIMUM_ITEMS", 1)


def draw(name: str, functions: Sequence[Item]) -> Any:
    """Return the data set of a task, or why it has none."""
    sampling._pool.cache_clear()
    try:
        drawn = build(name, functions, size=60, language="python")
    except SondeError as error:
        return str(error)
    return drawn.examples.rows(), drawn.inputs, drawn.report


def draws_from_functions(name: str) -> bool:
    task = TASKS.load(name)
    return isinstance(task, Task) and task.target in ("item", "span", "pair", "mutation")


@pytest.mark.slow
@pytest.mark.usefixtures("kept")
def test_every_task_draws_the_same_examples_from_kept_labels(
    functions: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for name in TASKS.names() if draws_from_functions(name)]
    with monkeypatch.context() as without:
        without.setenv("SONDE_CACHE_SIZE", "0")
        alone = {name: draw(name, functions) for name in names}
    assert sum(not isinstance(one, str) for one in alone.values()) >= 15
    assert {name: draw(name, functions) for name in names} == alone
    measured: list[Item] = []
    monkeypatch.setattr(sampling, "_measure", lambda part: [measured.append(part.items)])
    assert {name: draw(name, functions) for name in names} == alone and not measured


@pytest.mark.usefixtures("kept")
def test_a_function_that_has_changed_is_labelled_again_and_no_other(
    functions: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    labelled: list[set[str]] = []

    def count(questions: Sequence[LabelRequest], items: Sequence[Item], *rest: Any) -> Any:
        known = rest[1] if len(rest) > 1 else {}
        labelled.append({item.item_id for item in items} - set(known.get("idn", {})))
        return select_all_spans(questions, items, *rest)

    def label(items: Sequence[Item]) -> set[str]:
        labelled.clear()
        question = LabelRequest("idn", 0, "corrected", frozenset(), {})
        collect_labelled_spans([question], items, language="python", parallel=dataset.ONE)
        return set().union(*labelled)

    monkeypatch.setattr(dataset, "select_all_spans", count)
    assert labels_existing_code(TASKS.load("idn"))
    assert len(label(functions)) > 50 and not label(functions)
    text = functions[0].text + "\n    changed = further\n"
    changed = dataclasses.replace(functions[0], text=text, item_id="changed")
    assert label([changed, *functions[1:]]) <= {"changed"}


@pytest.mark.parametrize("name", ["mine.py", "idn"])
@pytest.mark.usefixtures("kept")
def test_labels_of_a_users_task_are_never_kept(name: str, functions: list[Item], tmp_path: Path) -> None:
    """The rule may have changed since, and another folder may hold a file of the same name."""
    task = str(tmp_path / name) if name.endswith(".py") else name
    if name.endswith(".py"):
        Path(task).write_text('"""Mine."""\nfrom sonde.tasks.tokens.idn import task as task\n', "utf-8")
    question = LabelRequest(task, 0, "corrected", frozenset(), {})
    with dataset._cached_spans(question, functions) as answers:
        answers["key"] = ()
    with dataset._cached_spans(question, functions) as answers:
        assert dict(answers) == ({} if name.endswith(".py") else {"key": ()})
