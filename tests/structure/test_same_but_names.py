"""The guard over renaming, moving and merging: what it lets pass, and every slip that it has to catch."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tools.same_but_names import Comparison, main
from tools.shapes import write_statements
from tools.trees import Tree

BEFORE = {
    "own/__init__.py": '"""A package."""\nfrom own.words import standing\n',
    "own/words.py": '''"""Words of verdicts."""
import numpy as np

TABLE = {"standing": "own.words", "total": "own.sums"}
ENTRY = "own.sums:total"
HASH = "3f9a"


def standing(score, level=0.05):
    """Say where a score stands."""
    low, high = np.minimum(score, level), score * level
    if low > high:
        return "below"
    return _round(low - high, digits=2)


def _round(value, digits):
    return f"{round(value, digits)}"
''',
    "own/sums.py": '''"""Sums of rows."""
from dataclasses import dataclass, replace

from own import words
from own.base import Row


@dataclass
class Total:
    """A sum."""

    value: float
    """What it is."""
    label: str = ""

    def shown(self):
        return words.standing(self.value) + self.label

    def named(self, label):
        return replace(self, label=label)


def total(rows, start=0):
    from own.base import weigh

    found = []
    for row in rows:
        found.append(weigh(row, start))
    return Total(value=max(found), label=_round(start))


def first(rows):
    return _round(rows[0])


def _round(value):
    return words._round(value, digits=3)


def mean(rows):
    return sum(row.value for row in rows) / len(rows)


def average(rows):
    return sum(row.value for row in rows) / len(rows)


def report(rows):
    return mean(rows), average(rows), Row(rows).size
''',
    "own/base.py": '''"""Rows."""


class Row:
    def __init__(self, cells):
        self.cells = cells
        self.width = 1

    @property
    def size(self):
        return len(self.cells) * self.width


def weigh(row, start):
    return row.size - start


def scale(row, start):
    return row.size - start - 1
''',
}
WORDS, SUMS, BASE = "own/words.py", "own/sums.py", "own/base.py"

SLIPS: dict[str, tuple[str, str, str]] = {
    "a renamed key": (WORDS, '"total": "own.sums"', '"totals": "own.sums"'),
    "a changed hash": (WORDS, "3f9a", "3f9b"),
    "a changed piece of a text": (WORDS, 'f"{round', 'f" {round'),
    "a stale path": (WORDS, "own.sums:total", "own.sums:totals"),
    "a path to another definition": (WORDS, "own.sums:total", "own.sums:mean"),
    "a path to another module": (WORDS, '"total": "own.sums"', '"total": "own.base"'),
    "a dropped branch": (WORDS, '    if low > high:\n        return "below"\n', ""),
    "another operator": (WORDS, "low - high", "low + high"),
    "another comparison": (WORDS, "low > high", "low >= high"),
    "another function of a library": (WORDS, "np.minimum", "np.maximum"),
    "another library": (WORDS, "import numpy as np", "import scipy as np"),
    "another method of a builtin": (SUMS, "found.append", "found.extend"),
    "another builtin": (SUMS, "max(found)", "min(found)"),
    "two variables become one": (WORDS, "low, high = np", "low, low = np"),
    "a variable takes a parameter's name": (SUMS, "    found = []\n", "    rows = []\n"),
    "arguments in another order": (SUMS, "weigh(row, start)", "weigh(start, row)"),
    "parameters in another order": (SUMS, "total(rows, start=0)", "total(start, rows=0)"),
    "another default": (WORDS, "level=0.05", "level=0.01"),
    "another number": (SUMS, "digits=3", "digits=2"),
    "another keyword": (SUMS, "value=max(found), label=", "label=max(found), value="),
    "another keyword through a library": (SUMS, "replace(self, label=label)", "replace(self, value=label)"),
    "another keyword of a builtin": (SUMS, "len(rows)\n\n\ndef average", "len(rows, key=1)\n\n\ndef average"),
    "another field of self": (SUMS, "+ self.label", "+ self.value"),
    "another field of something": (SUMS, "sum(row.value", "sum(row.label"),
    "fields swapped where they are set": (BASE, "self.width = 1", "self.cells = 1"),
    "another dunder method": (BASE, "def __init__", "def __call__"),
    "a lazy import of another definition": (SUMS, "import weigh\n", "import scale as weigh\n"),
    "a call of another definition": (SUMS, "words._round(", "words.standing("),
    "a call of a twin": (SUMS, "return mean(rows), average", "return mean(rows), mean"),
    "a call of what is not there": (SUMS, "words.standing(", "words.standings("),
    "a twin swallowed": (SUMS, BEFORE[SUMS][BEFORE[SUMS].index("def average") :], """def report(rows):
    return mean(rows), mean(rows), Row(rows).size
"""),
    "one name becomes two": (SUMS, "label=_round(start)", "label=_ROUND(start)"),
    "one that hides another": (SUMS, "def average", "def mean"),
    "a local hides what its function calls": (SUMS, """label):
        return replace(self, label=label)""", """replace):
        return replace(self, label=replace)"""),
    "a dropped decorator": (SUMS, "@dataclass\n", ""),
    "a dropped statement": (BASE, "        self.width = 1\n", ""),
    "a call when imported": (BASE, "def scale", "weigh(1, 2)\n\n\ndef scale"),
}  # fmt: skip

RENAMINGS: dict[str, Sequence[tuple[str, str, str]]] = {
    "a local": [(SUMS, "found", "weights")],
    "one of two locals of a name": [(SUMS, "sum(row.value for row in", "sum(line.value for line in")],
    "a function": [
        (WORDS, '"standing": "own.words", ', ""), (WORDS, "standing(score", "verdict(score"),
        (SUMS, "words.standing", "words.verdict"), ("own/__init__.py", "standing", "verdict"),
    ],
    "a class": [(SUMS, "Total", "Sum")],
    "a class of another module": [(BASE, "Row", "Line"), (SUMS, "Row", "Line")],
    "a method": [(BASE, "size", "extent"), (SUMS, ".size", ".extent")],
    "a field": [
        (SUMS, "label: str", "title: str"), (SUMS, "self.label", "self.title"),
        (SUMS, "self, label=", "self, title="), (SUMS, ", label=_", ", title=_"),
    ],
    "an attribute": [(BASE, "self.cells", "self.values")],
    "a parameter and its keywords": [(WORDS, "digits", "places"), (SUMS, "digits", "places")],
    "an import under another name": [
        (SUMS, "import words", "import words as texts"), (SUMS, "words.", "texts."),
    ],
    "no module's name before its functions": [
        (SUMS, "from own import words", "from own.words import standing, _round as r"),
        (SUMS, "words.standing", "standing"), (SUMS, "words._round", "r"),
    ],
    "through a package": [
        (SUMS, "from own import words", "import own"), (SUMS, "words.standing", "own.standing"),
        (SUMS, "words._round", "own.words._round"),
    ],
    "a relative import": [(SUMS, "from own import words", "from . import words")],
    "a lazy import": [
        (SUMS, "    from own.base import weigh\n\n", ""), (SUMS, "import Row", "import Row, weigh"),
    ],
    "an import for types": [(SUMS, "\n\n@dataclass", "\nif TYPE_CHECKING:\n    import x\n\n@dataclass")],
    "docstrings": [
        (WORDS, '    """Say where a score stands."""\n', ""), (SUMS, "What it is", "Its value"),
        (BASE, '"""Rows."""', "# Rows."),
    ],
    "all names": [(BASE, '"""Rows."""', '"""Rows."""\n__all__ = ["Row"]')],
    "the order of definitions": [
        (SUMS, "def first(rows):\n    return _round(rows[0])\n\n\n", ""),
        (SUMS, "def mean", "def first(rows):\n    return _round(rows[0])\n\n\ndef mean"),
    ],
}  # fmt: skip


def edited(edits: Sequence[tuple[str, str, str]], sources: Mapping[str, str] = BEFORE) -> dict[str, str]:
    """Replace texts in files; each has to be there."""
    after = dict(sources)
    for path, old, new in edits:
        assert old in after[path], old
        after[path] = after[path].replace(old, new)
    return after


def compare(
    after: Mapping[str, str], before: Mapping[str, str] = BEFORE, allowed: Sequence[str] = ()
) -> dict[str, list[str]]:
    old, new = (list(write_statements(Tree(sources))) for sources in (before, after))
    return {title: lines for title, lines in Comparison(old, new, allowed).sections().items() if lines}


def moved() -> dict[str, str]:
    """Move a module into a package of another name, and what refers to it."""
    after = {path.replace("own/sums", "own/rows/add"): text for path, text in BEFORE.items()}
    return edited([(WORDS, "own.sums", "own.rows.add")], after)


def merged() -> dict[str, str]:
    """Merge two modules into one; a private helper of both gets a name of its own."""
    body = (
        BEFORE[WORDS][BEFORE[WORDS].index("TABLE") :]
        .replace("own.sums", "own.texts")
        .replace("own.words", "own.texts")
    )
    sums = (
        BEFORE[SUMS]
        .replace("from own import words\n", "import numpy as np\n")
        .replace("_round(", "_round_row(")
    )
    sums = sums.replace("words._round_row(", "_round(").replace("words.", "")
    start = '"""A package."""\nfrom own.texts import standing\n'
    return {"own/__init__.py": start, "own/texts.py": sums + body, BASE: BEFORE[BASE]}


def test_a_tree_is_the_same_as_itself() -> None:
    assert compare(BEFORE) == {}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_caught(slip: str) -> None:
    assert compare(edited([SLIPS[slip]]))


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_caught_the_other_way_round(slip: str) -> None:
    assert compare(BEFORE, before=edited([SLIPS[slip]]))


@pytest.mark.parametrize("renaming", RENAMINGS)
def test_other_names_are_the_same(renaming: str) -> None:
    edits = RENAMINGS[renaming]
    before = edited([edit for edit in edits if edit[1].startswith('"standing"')])
    after = edited(edits)
    assert compare(after, before) == {}
    assert compare(before, after) == {}


@pytest.mark.parametrize("after", [moved(), merged()], ids=["moved", "merged"])
def test_other_files_are_the_same(after: dict[str, str]) -> None:
    assert compare(after) == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("own.texts:total", "own.sums:total"),
        ("label=_round_row(start)", "label=_round(start)"),
        ("return _round_row(rows", "return standing(rows"),
        ("def _round_row(value):\n    return _round(", "def _round_row(value):\n    return _round_row("),
        ("def _round(", "def _round_row("),
        ("return standing(self", "return total(self"),
        ('HASH = "3f9a"', 'HASH = "3f9a"\nfrom own.base import scale as average'),
        ("    low, high = np", "    low, high = standing"),
    ],
)
def test_a_slip_in_a_merge_is_caught(old: str, new: str) -> None:
    assert compare(edited([("own/texts.py", old, new)], merged()))


def test_twins_that_a_merge_brings_together_keep_their_callers() -> None:
    twin = "def _twin(x):\n    return x + 1\n\n\ndef {0}(x):\n    return _twin(x) * {1}\n"
    before = {"own/a.py": twin.format("left", 2), "own/b.py": twin.format("right", 3)}
    second = before["own/b.py"].replace("_twin", "_other")
    assert compare({"own/a.py": before["own/a.py"] + second}, before) == {}
    swallowed = {"own/a.py": before["own/a.py"] + "def right(x):\n    return _twin(x) * 3\n"}
    assert set(compare(swallowed, before)) == {"only before", "goes elsewhere"}
    assert compare(swallowed, before, ["own.b._twin"]) == {}
    both = {"own/a.py": before["own/a.py"] + before["own/b.py"]}
    assert set(compare(both, before)) == {"goes elsewhere"}


def test_what_was_meant_to_change_is_allowed_once_it_changes() -> None:
    after = edited([SLIPS["another operator"]])
    assert set(compare(after)) == {"only before", "only after"}
    assert compare(after, allowed=["standing"]) == {}
    assert compare(after, allowed=["own.words.standing", "mean"]) == {"allowed but unchanged": ["mean"]}


def test_folders_and_revisions_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text in BEFORE.items():
        (tmp_path / "src" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *words], check=True)
    assert main(["HEAD"]) == 0
    (tmp_path / "src" / WORDS).write_text(edited([SLIPS["another operator"]])[WORDS])
    assert main(["HEAD"]) == 1
    assert "own.words:9  standing" in capsys.readouterr().out
    (tmp_path / "changed.txt").write_text("# Said so.\nstanding  # for a reason\n")
    assert main(["HEAD", ".", "--inside", "src", "--allow", "changed.txt"]) == 0
    with pytest.raises(SystemExit) as stopped:
        main(["nothing-of-that-name"])
    assert stopped.value.code == 2
