"""Every command that takes an address: what lies there before and after, beside a run, alone, damaged."""

from __future__ import annotations

import html
import inspect
import json
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
from typer.testing import CliRunner
from typer.utils import get_params_from_function

import sonde
from sonde.cli.commands import app
from sonde.cli.options import read_declarations
from sonde.store import remote
from sonde.store.remote import sync_folder

from .conftest import Place, computer, silent

FOREIGN = {
    "thesis.pdf": b"mine",
    "receipts/2024.json": b'{"amount": 3}',
    "observations/lens=surprisal/notes.parquet": b"PAR1",
    "figures/mine.svg": b"<svg/>",
    ".hidden": b"too",
}
"""What somebody else keeps at an address."""

OVERHEAD = (remote.MANIFEST_NAME,)


@dataclass(frozen=True, slots=True)
class Case:
    """How a command is called with an address.

    Attributes:
        words: The command line; ``{}`` stands for the address.
        outputs: Patterns of what it may write there.
        reads: Whether it reads the scores of the run there.
        run: The run that lies there before: of two models, of one, or a share of the latter; empty for none.
    """

    words: Sequence[str]
    outputs: Sequence[str] = ()
    reads: bool = True
    run: Literal["", "whole", "single", "share"] = "whole"


def written(*names: str) -> tuple[str, ...]:
    """Patterns of files and of their receipts."""
    folders = [name.rpartition("/") for name in names]
    return (*OVERHEAD, *names, *(f"{folder}{mark}receipts/{last}.json" for folder, mark, last in folders))


COMPARED = ("comparison.*", "moved.parquet")
CASES: Mapping[tuple[str, str], Case] = {
    ("run", "output"): Case(["@run", "-o", "{}"], (*written("*"), "*"), reads=False),
    ("report", "directory"): Case(["report", "{}"], written("report.html")),
    ("card", "directory"): Case(["card", "{}"], written("card.json", "card.md")),
    ("table", "directory"): Case(["table", "{}"]),
    ("figures", "directory"): Case(["figures", "{}", "calibration"], (*OVERHEAD, "figures/*")),
    ("verify", "directory"): Case(["verify", "{}"]),
    ("compare", "directories"): Case(["compare", "{}"], written(*(f"comparison/{one}" for one in COMPARED))),
    ("compare", "output"): Case(["compare", "@whole", "-o", "{}"], written(*COMPARED), reads=False, run=""),
    ("gate", "reference"): Case(["gate", "{}", "@single", "--state", "@out"], reads=False, run="single"),
    ("gate", "runs"): Case(["gate", "@single", "{}", "--state", "@out"], reads=False, run="single"),
    ("merge", "directories"): Case(["merge", "{}", "-o", "@out"], reads=False, run="share"),
    ("merge", "output"): Case(["merge", "@share", "-o", "{}"], (*written("*"), "*"), reads=False, run=""),
    ("predict", "place"): Case(["predict", "{}", "@file", "-t", "idn", "-m", "@model"], reads=False),
}
"""By command and parameter: every place where an address may stand."""

READING = [one for one, case in CASES.items() if case.reads]


@dataclass(frozen=True, slots=True)
class Made:
    """What the commands are called on: runs of two models and of one, a share of the latter, and words."""

    whole: Path
    single: Path
    share: Path
    run: Sequence[str]
    model: str
    file: Path

    def words(self, case: Case, address: str, out: Path) -> list[str]:
        """A command line."""
        named = {"@whole": self.whole, "@single": self.single, "@share": self.share, "@out": out}
        named |= {"{}": address, "@model": self.model, "@file": self.file}
        return [
            one
            for word in case.words
            for one in (self.run if word == "@run" else [str(named.get(word, word))])
        ]


@pytest.fixture(scope="session")
def made(decoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    root = tmp_path_factory.mktemp("made")
    code = root / "code"
    for module in (textwrap, inspect, json, html):
        (code / module.__name__).mkdir(parents=True)
        (code / module.__name__ / "__init__.py").write_text(inspect.getsource(module), encoding="utf-8")
    other = root / "other"
    shutil.copytree(decoder, other)
    run = ["run", "-m", str(decoder), "-m", str(other), "-l", "surprisal", "-l", "probe", "-t", "idn"]
    run += ["-c", f"local:{code}", "--limit", "40", "--include-seen", "--workers", "1", "--no-report"]
    run += [f"--option=probe.{one}" for one in ("controls=false", "curves=false", "folds=1", "probe=linear")]
    share = ["run", "-m", str(decoder), "-l", "surprisal", "-c", f"local:{code}", "--limit", "20"]
    whole, single, part = (root / name for name in ("whole", "single", "share"))
    calls = [[*run, "-o", whole], [*share, "--shard", "1/1", "-o", part], ["merge", part, "-o", single]]
    for words in calls:
        done = CliRunner().invoke(app, list(map(str, words)))
        assert done.exit_code == 0, done.exception
    return Made(whole, single, part, run, str(decoder), code / "html" / "__init__.py")


def leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if inner := getattr(command, "commands", None):
        for word, one in inner.items():
            yield from leaves(one, f"{name} {word}".strip())
    else:
        yield name, command


COMMANDS = dict(leaves(typer.main.get_command(app)))
DECLARED = {name for name, one in read_declarations().items() if one.values.kind is Path}
PATHS = [
    (name, parameter)
    for name, command in COMMANDS.items()
    for parameter, about in get_params_from_function(command.callback).items()
    if parameter in DECLARED or "Path" in str(about.annotation)
]
"""Every parameter of a command that is a path."""


def words_of(name: str, parameter: str, value: str) -> list[str]:
    """A command line in which one path is a value, and what else is needed is something."""
    words = name.split()
    for one in COMMANDS[name].params:
        given = value if one.name == parameter else "1" if one.required else None
        if given is not None:
            words += [given] if one.param_type_name == "argument" else [one.opts[0], given]
    return words


def test_there_are_paths_and_each_case_is_one_of_them() -> None:
    assert len(PATHS) >= 20
    assert set(CASES) <= set(PATHS)


@pytest.mark.parametrize(("name", "parameter"), sorted(set(PATHS).difference(CASES)))
def test_where_no_address_may_stand_it_is_refused(
    name: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in ("s3://bucket/place", "file:///nowhere/place"):
        done = CliRunner().invoke(app, words_of(name, parameter, value))
        assert done.exit_code != 0
        assert f"{value} is an address" in str(done.exception), done.output
    assert list(tmp_path.iterdir()) == []


def invoked(words: Sequence[str]) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    error = str(done.exception) if done.exception and not isinstance(done.exception, SystemExit) else ""
    assert "\n" not in error
    return done.exit_code, error + done.output


def held(made: Made, one: tuple[str, str], address: str) -> Place:
    """A store with the run that a command takes there."""
    if run := CASES[one].run:
        with sync_folder(Path(address), silent) as folder:
            shutil.copytree(getattr(made, run), folder, dirs_exist_ok=True)
    return Place(address)


STORES = ("memory", "file", pytest.param("s3", marks=pytest.mark.slow))
"""Kinds of store; every command against a server takes minutes together."""


@pytest.mark.slow
@pytest.mark.parametrize("address", STORES, indirect=True)
@pytest.mark.parametrize("one", CASES, ids=" ".join)
def test_beside_a_run_what_is_foreign_stays(
    one: tuple[str, str],
    address: str,
    made: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, place = CASES[one], held(made, one, address)
    if not place.content():
        # A first call makes the place; foreign objects come beside what it wrote.
        assert invoked(made.words(case, address, tmp_path / "out"))[0] == 0
    for name, content in FOREIGN.items():
        place.put(name, content)
    before = place.content()
    # On the computer that knows what lay there, and on one that does not.
    for number in (1, 2):
        computer(number, tmp_path, monkeypatch)
        code, said = invoked(made.words(case, address, tmp_path / f"out{number}"))
        assert code == 0, said
        after = place.content()
        assert {name: after.get(name) for name in FOREIGN} == FOREIGN
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        assert not [name for name in changed if not any(fnmatchcase(name, each) for each in case.outputs)]
        assert set(before) <= set(after)


@pytest.mark.parametrize("one", CASES, ids=" ".join)
def test_a_place_without_a_run_is_refused_and_stays(
    one: tuple[str, str], address: str, made: Made, tmp_path: Path
) -> None:
    place = Place(address)
    for name, content in FOREIGN.items():
        place.put(name, content)
    code, said = invoked(made.words(CASES[one], address, tmp_path / "out"))
    assert code != 0
    assert address in said
    assert "no run here" in said or "is not a run; name an empty place" in said
    assert place.content() == FOREIGN


@pytest.mark.slow
@pytest.mark.parametrize("address", STORES, indirect=True)
@pytest.mark.parametrize("one", READING, ids=" ".join)
def test_damage_is_named_with_its_remedy_and_stays(
    one: tuple[str, str],
    address: str,
    made: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = held(made, one, address)
    hurt: Mapping[str, Callable[[str], None]] = {
        "flipped": place.flip,
        "gone": lambda name: place.system.rm_file(f"{place.root}/{name}"),
    }
    whole = place.content()
    for name in ("scores.parquet", "run.json") if one != ("compare", "directories") else ("run.json",):
        for how, harm in hurt.items():
            harm(name)
            before = place.content()
            for number in (1, 2):
                computer(number, tmp_path, monkeypatch)
                code, said = invoked(made.words(CASES[one], address, tmp_path / "out"))
                assert code == 1, (name, how, said)
                assert name in said
                assert "the same `sonde run` recomputes the damaged files" in said
                assert place.content() == before
            place.put(name, whole[name])
    computer(1, tmp_path, monkeypatch)
    harm = place.flip
    harm("scores.parquet")
    assert invoked(made.words(CASES["run", "output"], address, tmp_path / "out"))[0] == 0
    assert invoked(["verify", address])[0] == 0
    assert place.content()["scores.parquet"] == whole["scores.parquet"]


@pytest.mark.parametrize("reference", ["s3://bucket/place", "memory://gate/place"])
def test_a_gate_on_an_address_asks_where_looks_are_counted(
    reference: str, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = invoked(["gate", reference, str(made.single)])
    assert code != 0
    assert said == f"{reference} is an address; name a file on this machine for the looks with --state"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["memory"], indirect=True)
def test_a_gate_names_a_checkpoint_at_an_address_as_there(address: str, made: Made, tmp_path: Path) -> None:
    held(made, ("gate", "runs"), address)
    report = sonde.gate(address, made.single, address, state=tmp_path / "state.json")
    assert report.state.reference == Path(address).name
    assert [look.checkpoint for look in report.looks] == ["single"] * 2
    report = sonde.gate(made.single, address, state=tmp_path / "other.json")
    assert [look.checkpoint for look in report.looks] == [Path(address).name]
