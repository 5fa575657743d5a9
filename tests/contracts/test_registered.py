"""What every registered lens and task has to hold, whoever wrote it."""

import dataclasses
import json
from pathlib import Path

import polars as pl
import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Item, SourceFile, item_id
from sonde.languages import LANGUAGES, get_facet, get_unsupported_tasks, has_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.lenses import LENSES, ReadingLens, TrainingLens
from sonde.models import Capabilities
from sonde.tasks import LABEL_SCHEMA, CorpusTask, Task, get_languages, repositories
from sonde.tasks.engine.task import TASKS

ROOT = Path(__file__).parents[2]
CODE = {
    "ruby": "def f(x)\n  g(x) + xs.size\nend\n",
    "php": "function f($x) { return g($x) + count($xs); }\n",
    "javascript": "function f(x) { return g(x) + parseInt(xs) }\n",
    "go": "func f(x int) int { return g(x) + len(xs) }\n",
    "python": "def f(x):\n    return g(x) + len(x)\n",
    "java": "int f(int x) { return g(x) + Math.abs(x); }\n",
}


def item(language: str) -> Item:
    text = CODE[language]
    return Item(
        item_id=item_id(text, language, "function"),
        text=text,
        language=language,
        unit="function",
        path=f"a.{language}",
        name="f",
        offset=0,
        cluster="c",
        repository="r",
    )


def capabilities(kind: str) -> Capabilities:
    return Capabilities(
        kind=kind, layers=2, heads=2, d_model=8, vocab=10, context=16, attention="interface", masks=True
    )


@pytest.mark.parametrize("name", LENSES.names())
def test_a_lens_keeps_its_protocol(name: str) -> None:
    lens = LENSES.load(name)
    assert isinstance(lens, ReadingLens | TrainingLens)
    assert lens.name == name
    assert lens.version
    header = next(header for header in LENSES.headers() if header.name == name)
    assert header.summary
    for task in lens.tasks:
        assert TASKS.load(task).name == task
    refusals = [
        lens.unsupported_reason(capabilities(kind)) for kind in ("decoder", "encoder", "encoder-decoder")
    ]
    assert any(refusal is None for refusal in refusals)
    assert all("\n" not in refusal for refusal in refusals if refusal)


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize("name", LENSES.names())
def test_a_body_is_refused_for_its_head_or_read(name: str, kind: str) -> None:
    lens = LENSES.load(name)
    body = dataclasses.replace(capabilities(kind), head=False, masks=False)
    refusal = lens.unsupported_reason(body)
    if name in ("attention", "probe", "finetune"):
        assert refusal is None
    elif lens.unsupported_reason(capabilities(kind)) is None:
        assert refusal is not None and body.lacks in refusal and "no mask token" not in refusal


@pytest.mark.parametrize("name", LENSES.names())
def test_quirks_are_documented(name: str) -> None:
    page = (ROOT / "docs" / "paper-modes.md").read_text(encoding="utf-8")
    for quirk, line in LENSES.load(name).quirks.items():
        assert f"`{quirk}`" in page
        assert line


LABELLING = [name for name in TASKS.names() if TASKS.load(name).target != "corpus"]
OF_NAMES = ("api_cloze", "api_fakes", "api_names", "api_prompts")
COLLECTING = sorted(set(TASKS.names()) - set(LABELLING))


@pytest.mark.parametrize("language", CODE)
def test_what_a_language_cannot_have_is_declared_with_a_reason(language: str) -> None:
    tasks = [TASKS.load(name) for name in TASKS.names()]
    unable = {task.name for task in tasks if language not in get_languages(task)}
    if not has_facet(language, "imports"):
        unable |= set(OF_NAMES)
    if not has_facet(language, "deprecations"):
        unable.add("api_deprecated")
    if not get_facet(language, "bugs", BugSites).exceptions:
        unable.add("exception_type")
    assert set(get_unsupported_tasks(language)) == unable
    assert all(get_unsupported_tasks(language).values())


def test_code_of_every_language_is_at_hand() -> None:
    assert set(CODE) == {name for name in LANGUAGES.names() if has_facet(name, "tokens")}


@pytest.mark.parametrize("language", CODE)
@pytest.mark.parametrize("name", COLLECTING)
def test_a_corpus_task_gives_rows_that_json_can_hold(name: str, language: str) -> None:
    task = TASKS.load(name)
    assert isinstance(task, CorpusTask)
    assert task.name == name
    assert task.version
    file = SourceFile(f"a.{language}", CODE[language], language, "c", "r")
    if name in OF_NAMES and not has_facet(language, "imports"):
        with pytest.raises(InputError, match="a corpus in a language with imports"):
            task.collect([file])
        return
    for row in task.collect([file]):
        assert json.loads(json.dumps(row)) == row


@pytest.mark.parametrize("language", CODE)
@pytest.mark.parametrize("name", LABELLING)
def test_a_task_labels_characters_inside_its_items(name: str, language: str) -> None:
    task = TASKS.load(name)
    assert isinstance(task, Task)
    assert task.name == name
    assert task.version
    assert task.target in ("item", "span", "pair", "relation", "mutation")
    one = item(language)
    file = SourceFile(one.path, one.text, language, "c", "r")
    around = repositories([file]) if task.needs_repository else {}
    if not has_facet(language, getattr(task, "facet", "tokens")):
        with pytest.raises(UsageError, match=f"language '{language}' has no"):
            task.label([one], around)
        return
    table = task.label([one], around)[one.item_id]
    if name in get_unsupported_tasks(language):
        assert table["label"].null_count() == table.height
    assert isinstance(table, pl.DataFrame)
    assert dict(LABEL_SCHEMA).items() <= dict(table.schema).items()
    assert (table["start"] >= 0).all()
    assert (table["start"] <= table["end"]).all()
    assert (table["end"] <= len(one.text)).all()
    assert set(table["label"].drop_nulls()) <= set(task.labels)
