"""What others wrote is shown on the terminal and never obeyed: every command, with names that attack it."""

from __future__ import annotations

import ast
import csv
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import sonde as package
from sonde.base.terminal import escape_text
from sonde.cli import main
from tests.experiments.conftest import save_decoder
from tests.experiments.test_json import COMMANDS

EVIL = "e\x1b[31m\x1b]8;;x\x07\u202e\u2066[red]\nFORGED\r\x9b\x7f\u200b"
"""Colour, a link, a bell, both turns of direction, markup of rich, a line of its own, and overwriting."""
FOLDER = EVIL.replace("[", "").replace("]", "")
"""Of a run: its tables are read by patterns, where brackets mean something else."""

FUNCTIONS = "\n\n".join(
    f"def area_{number}(side, scale={number}):\n    total = side * scale + {number}\n    return total"
    for number in range(12)
)


@dataclass
class Place:
    """Folders and files whose names and contents attack."""

    root: Path
    model: Path
    code: Path
    table: Path
    run: Path
    file: Path
    recipe: Path


def prepared(root: Path) -> Place:
    code = root / f"code {EVIL}"
    file = code / EVIL / f"{EVIL}.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        FUNCTIONS + "\n\n\ndef last(x):\n    return '\x1b[31m\u202e', x  # \x1b]8;;x\x07 [red]\r\n"
    )
    (code / f"{EVIL}.bad.py").write_bytes(b"\xff")
    (code / "loop").symlink_to("loop")
    table = root / f"table {EVIL}.csv"
    with table.open("w", newline="", encoding="utf-8") as handle:
        rows = csv.writer(handle)
        rows.writerow(["code", "label", "group", "id"])
        for number in range(60):
            label = f"{EVIL}{number % 2}"
            text = f"def f{number}(x):\n    return x {'+-'[number % 2]} {number}\n"
            rows.writerow([text, label, f"{EVIL}{number}", f"{EVIL}{number}"])
        rows.writerow([f"# {EVIL}", "", "", ""])
    recipe = root / f"{EVIL}.toml"
    recipe.write_text("[data]\n" + json.dumps(EVIL) + " = 1\n")
    model = save_decoder(root / f"model {EVIL}")
    return Place(root, model, code, table, root / f"run {FOLDER}", file, recipe)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return prepared(tmp_path_factory.mktemp("evil"))


def local(place: Place) -> str:
    return f"local:{place.code}"


CALLS: dict[str, list[Callable[[Place], list[object]]]] = {
    "run": [
        lambda at: [
            *("-m", at.model, "-l", "surprisal", "-l", "probe", "-c", f"labelled:{at.table}"),
            *("-o", at.run, "--workers", 1),
        ],
        lambda at: ["-m", at.model, "-c", local(at), "--limit", 5, "--plan", "--no-trial"],
        lambda at: ["-m", EVIL, "-c", local(at)],
        lambda at: ["-m", at.model, "-t", EVIL, "-c", local(at)],
        lambda at: ["-m", at.model, "-l", EVIL, "-c", EVIL],
        lambda at: ["--file", at.recipe],
        lambda at: [at.recipe],
        lambda at: [f"--{EVIL}"],
    ],
    "report": [lambda at: [at.run], lambda at: [at.root / EVIL], lambda at: [at.run, "--plot", EVIL]],
    "card": [
        lambda at: [at.run, "--to", "hub"],
        lambda at: [at.run, "--to", EVIL],
        lambda at: [at.run, "--require", at.recipe],
    ],
    "figures": [lambda at: [at.run, EVIL]],
    "table": [
        lambda at: [at.run],
        lambda at: [at.run, "tag", "--csv"],
        lambda at: [at.run, "name", "--latex"],
        lambda at: [at.run, EVIL],
        lambda at: [at.run, "tag", "--metric", EVIL],
    ],
    "compare": [
        lambda at: [at.run, at.run, "-o", at.root / f"compared {FOLDER}"],
        lambda at: [at.root / EVIL],
    ],
    "gate": [
        lambda at: [at.run, at.run, "--state", at.root / f"gate {EVIL}.json"],
        lambda at: [at.run, at.root / EVIL, "--state", at.root / f"gate {EVIL}.json"],
        lambda at: [at.run, at.run, "--state", at.root / EVIL],
        lambda at: [at.run, at.run, "--least", f"{EVIL}=1"],
    ],
    "merge": [lambda at: [at.run, at.run, "-o", at.root / f"merged {FOLDER}"]],
    "predict": [
        lambda at: [at.run, at.file],
        lambda at: [at.run, at.code / f"{EVIL}.bad.py", "-t", EVIL],
        lambda at: [at.run, at.file, "--format", EVIL],
    ],
    "show": [
        lambda at: [at.file, "-m", at.model, "--function", "last", "--tree", "-o", at.root / f"{EVIL}.html"],
        lambda at: [at.file, "-m", at.model, "--function", EVIL],
    ],
    "verify": [lambda at: [at.run], lambda at: [at.root / EVIL]],
    "label": [
        lambda at: ["idn", "-c", local(at), "-o", at.root / f"labels {EVIL}.jsonl", "--workers", 1],
        lambda at: [EVIL, "-c", local(at), "-o", at.root / "x.jsonl"],
    ],
    "align": [lambda at: [at.file, "-m", at.model], lambda at: [at.root / EVIL, "-m", at.model]],
    "convert": [lambda at: [at.model, at.root / f"converted {EVIL}"], lambda at: [EVIL, at.root / "c"]],
    "pretrain": [lambda at: [at.recipe]],
    "doctor": [lambda at: []],
    "explain": [lambda at: [EVIL]],
    "list": [lambda at: [EVIL], lambda at: ["options", EVIL], lambda at: ["models", "--for", EVIL]],
    "corpus build": [
        lambda at: ["-c", local(at), "-o", at.root / f"built {EVIL}", "--workers", 1],
        lambda at: ["-c", EVIL, "-o", at.root / "b"],
    ],
    "corpus lock": [
        lambda at: ["-c", local(at), "-o", at.root / f"lock {EVIL}"],
        lambda at: ["-c", local(at), "-o", at.root / EVIL / "no" / "lock"],
    ],
    "corpus stats": [
        lambda at: ["-c", local(at), "-t", "idn", "--workers", 1],
        lambda at: ["-c", f"labelled:{at.table}", "--workers", 1],
        lambda at: ["-c", f"git:{at.code}"],
    ],
    "cache info": [lambda at: []],
    "cache clear": [lambda at: [EVIL], lambda at: []],
}
"""For every command what reaches its sentences, tables and errors; the run comes first, others read it."""


def test_a_new_command_is_held_to_this_too() -> None:
    assert CALLS.keys() == COMMANDS.keys()


def seen(text: str) -> None:
    """All of a text is signs, blanks and line breaks, and no line is one that a name made up."""
    odd = {ascii(sign) for sign in text if not (sign.isprintable() or sign == "\n")}
    assert not {sign for sign in odd if unicodedata.category(ast.literal_eval(sign)) != "Zs"}
    assert not re.search("^FORGED", text, re.MULTILINE)


def call(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> object:
    """Call the command line; gives its exit code."""
    monkeypatch.setattr(sys, "argv", ["sonde", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code


@pytest.mark.slow
@pytest.mark.parametrize("command", CALLS)
def test_nothing_of_a_name_is_obeyed(
    command: str, place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place.root)
    monkeypatch.setenv("SONDE_CACHE", str(place.root / f"cache {EVIL}"))
    monkeypatch.setenv("COLUMNS", "10000")
    if command != "run" and not place.run.exists():
        # Another process may have been given the test that makes it.
        call(["run", *map(str, CALLS["run"][0](place))], monkeypatch)
        capsys.readouterr()
    if command == "verify":
        (name, *_) = sorted((place.run / "receipts").rglob("*.json"))
        told = json.loads(name.read_text())
        (place.run / "receipts" / f"{EVIL}.json").write_text(json.dumps({**told, "content": EVIL}))
        (place.run / EVIL).write_text("x")
        (place.run / f"{EVIL}2").write_text("x")
    shown = ""
    for arguments in CALLS[command]:
        for more in ([], ["--json"]):
            given = [*command.split(), *map(str, arguments(place)), *more]
            code = call(given, monkeypatch)
            captured = capsys.readouterr()
            assert "sonde: unexpected" not in captured.err, captured.err
            seen(captured.err)
            if more:
                assert not captured.out or json.loads(captured.out) is not None
                assert captured.out.isascii()
                assert captured.out or code
            else:
                seen(captured.out)
            shown += captured.out + captured.err
    # It was there to be obeyed, and markup stands as it was written.
    assert command == "cache info" or "FORGED" in shown
    assert "[red]" in shown or command in ("cache info", "card", "figures", "merge")


def test_one_function_prints() -> None:
    """Whatever goes to the terminal goes through `sonde.base.terminal`, but for JSON and coloured code."""
    root = Path(package.__file__).parent
    allowed = {
        "base/terminal.py",
        "cli/output.py",
        "cli/finished_runs.py",
        "training/pretrain/reevaluate.py",
        "models/engine/unpickle.py",
    }
    pattern = re.compile(r"typer\.echo|click\.echo|sys\.std(out|err)\.write|(?<![\w.`>])print\((?!.*>>>)")
    found = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        if any(pattern.search(line) and ">>>" not in line for line in file.read_text().splitlines())
    }
    assert found <= allowed


def test_no_sign_is_hidden() -> None:
    for sign in map(chr, range(0x3000)):
        shown = escape_text(sign)
        assert shown.isprintable() or unicodedata.category(shown) == "Zs"
        assert shown == sign or ast.literal_eval(f"'{shown}'") == sign
