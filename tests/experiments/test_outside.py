"""What comes from outside the package: everywhere its name is taken, whichever way it is handed in."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sonde
from sonde.base.errors import InputError, UsageError
from sonde.cli.commands import app
from sonde.corpora import CORPORA
from sonde.experiments.catalogue import REGISTRIES
from sonde.languages import LANGUAGES, get_facet, has_facet, java
from sonde.languages.engine.edits import Edits
from sonde.lenses import LENSES
from sonde.report import PLOTS
from sonde.tasks.engine.task import TASKS

TASK = '''
"""Whether a function mentions a number."""

import polars as pl

from sonde.tasks import LABEL_SCHEMA


class MentionsNumber:
    name = "mentions_number"
    version = "1"
    target = "item"
    labels = ("no", "yes")
    quirks = {}
    needs_repository = False
    languages = ("python",)

    def label(self, items, repositories):
        found = {}
        for item in items:
            said = "yes" if any(sign.isdigit() for sign in item.text) else "no"
            row = {"start": 0, "end": len(item.text), "label": said, "value": None}
            found[item.item_id] = pl.DataFrame([row], schema=dict(LABEL_SCHEMA))
        return found


task = MentionsNumber()
'''
CORPUS = '''
"""Functions that are written on the spot."""

from sonde.corpora import SourceFile


class Written:
    def files(self, argument, languages, intake):
        for n in range(int(argument)):
            text = f"def f{n}(x):\\n    y = x + {n}\\n    return g(y, x, {n})\\n"
            yield SourceFile(f"m{n}.py", text, "python", f"c{n}", "r")


source = Written()
'''
EXECUTOR = '''
"""One job after the other, told on a file."""

from pathlib import Path


class Told:
    def map(self, function, jobs, *, workers=1):
        for job in jobs:
            with Path(__file__).with_suffix(".log").open("a") as log:
                log.write(function.__name__ + "\\n")
            yield job, function(job)


executor = Told()
'''


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an extension of each kind; what is handed in is forgotten afterwards."""
    monkeypatch.setenv("SONDE_OUTSIDE", "{}")
    for registry in REGISTRIES.values():
        monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mentions_number.py").write_text(TASK)
    (tmp_path / "written.py").write_text(CORPUS)
    (tmp_path / "told.py").write_text(EXECUTOR)
    shutil.copytree(Path(sonde.__file__).parent / "languages" / "text", tmp_path / "notes")
    rules = tmp_path / "notes" / "language.toml"
    rules.write_text(rules.read_text().replace('".txt", ".md", ".rst"', '".note"'))
    init = tmp_path / "notes" / "__init__.py"
    init.write_text(init.read_text().replace('"""Plain text: ', '"""Notes: ', 1))
    (tmp_path / "texts").mkdir()
    for n in range(6):
        (tmp_path / "texts" / f"{n}.note").write_text(f"Note {n}: the quick brown fox jumps {n} times.\n" * 4)
    return tmp_path


def sonde_run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_task_and_a_corpus_label(outside: Path) -> None:
    sonde_run("label", "./mentions_number.py", "-c", "./written.py:7", "--raw", "-o", "labels.jsonl")
    assert TASKS.public("./mentions_number.py") == "mentions_number"
    assert TASKS.source_hash("./mentions_number.py") and not TASKS.source_hash("cpx")
    rows = [json.loads(line) for line in (outside / "labels.jsonl").read_text().splitlines()]
    assert len(rows) == 7 and {row["label"] for row in rows} == {"yes"}


def test_a_language_is_a_folder_for_label_align_and_corpora(outside: Path) -> None:
    chosen = "-c", "local:texts", "--language", "./notes", "--unit", "file"
    sonde_run("corpus", "lock", *chosen, "-o", "texts.lock")
    assert (outside / "texts.lock").read_text().count(".note") == 6
    assert "quick" in sonde_run("align", "texts/1.note", "--language", "./notes")
    assert LANGUAGES.load("notes").name == "notes" and "notes" in LANGUAGES.names()
    assert not has_facet("notes", "tagging")
    # Processes that are started from here know it too.
    code = "from sonde.languages import LANGUAGES; print(LANGUAGES.load('notes').suffixes)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "('.note',)\n"


def test_a_query_is_a_facet_of_a_language_from_outside(outside: Path) -> None:
    shutil.copytree(Path(java.__file__).parent, outside / "coffee")
    assert LANGUAGES.hand_in("./coffee") == "coffee"
    (place,) = get_facet("coffee", "edits", Edits).places("class A { int a; }", "type")
    assert place.surface == "int"
    (outside / "coffee" / "bugs.scm").unlink()
    assert not has_facet("coffee", "bugs")


@pytest.mark.slow
def test_a_language_and_an_executor_run(outside: Path) -> None:
    run = sonde.run(
        corpora="local:texts", languages="./notes", unit="file", executor="./told.py", output="run", limit=5
    )
    assert set(run.scores["language"]) == {"notes"}
    assert "observe" in (outside / "told.log").read_text()
    before = LANGUAGES.source_hash("notes")
    (outside / "notes" / "more.py").write_text("")
    assert LANGUAGES.source_hash("notes") != before


def test_what_is_missing_or_broken_is_one_line(outside: Path) -> None:
    (outside / "half.py").write_text('"""Half."""\n\n\nclass Half:\n    name = "half"\n\n\nlens = Half()\n')
    with pytest.raises(InputError, match=r"lens '\./half\.py': it lacks the base class ReadingLens"):
        LENSES.load("./half.py")
    (outside / "unversioned.py").write_text(
        '"""Unversioned."""\n\nfrom sonde.lenses import ReadingLens\n\n\nclass Unversioned(ReadingLens):\n'
        '    name = "unversioned"\n    unsupported_reason = input_requests = observe = score = None\n\n\n'
        "lens = Unversioned()\n"
    )
    with pytest.raises(InputError, match=r"lens '\./unversioned\.py': it lacks version"):
        LENSES.load("./unversioned.py")
    (outside / "broken.py").write_text("task = (\n")
    with pytest.raises(InputError, match=r"task '\./broken\.py': it cannot be imported: SyntaxError: "):
        TASKS.load("./broken.py")
    (outside / "plot.py").write_text("plot = 3\n")
    with pytest.raises(InputError, match=r"plot '\./plot\.py': it lacks caption, draw, lens, order, title"):
        PLOTS.load("./plot.py")
    with pytest.raises(InputError, match="no such file"):
        CORPORA.load("./absent.py")
    (outside / "python").mkdir()
    (outside / "python" / "__init__.py").write_text("")
    with pytest.raises(UsageError, match="sonde has its own language 'python'; rename the folder"):
        LANGUAGES.hand_in("./python")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers a task, one that cannot be imported, and one that hides ours."""
    (tmp_path / "site" / "more").mkdir(parents=True)
    (tmp_path / "site" / "more" / "__init__.py").write_text("")
    (tmp_path / "site" / "more" / "numbers.py").write_text(TASK)
    (tmp_path / "site" / "more" / "broken.py").write_text("raise RuntimeError('not today')\n")
    info = tmp_path / "site" / "more-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[sonde.tasks]\nmentions_number = more.numbers\nbroken = more.broken\ncpx = more.broken\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name in [one for one in sys.modules if one == "more" or one.startswith("more.")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("installed")
def test_an_installed_package_offers_a_task(outside: Path) -> None:
    assert "mentions_number" in TASKS.names()
    (line,) = [one for one in sonde_run("list", "tasks").splitlines() if "  mentions_number  " in one]
    assert line.endswith("  from the package more 1.2")
    assert "more.numbers" not in sys.modules
    sonde_run("label", "mentions_number", "-c", "./written.py:3", "--raw", "-o", "labels.jsonl")
    assert len((outside / "labels.jsonl").read_text().splitlines()) == 3
    with pytest.raises(InputError, match="task 'broken' of more: it cannot be imported: RuntimeError: not"):
        TASKS.load("broken")
    assert TASKS.load("cpx").name == "cpx"
