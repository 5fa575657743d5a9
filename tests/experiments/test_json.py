"""``--json``: standard output holds one JSON object and nothing else, for every command."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator

from sonde.cli import app, main
from sonde.cli.output import CommandOutput, with_output
from sonde.experiments.catalogue import REGISTRIES
from sonde.report import card_schema


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_the_commands_are_walked() -> None:
    assert {"run", "card", "corpus stats", "cache clear"} <= COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_its_result_as_json_too(name: str) -> None:
    (option,) = [one for one in COMMANDS[name].params if "--json" in one.opts]
    assert option.is_flag
    assert option.help == "Print the result as JSON, and nothing else."


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Call sonde with ``--json``: what it printed, read as JSON, and standard error."""

    def call(*arguments: object, code: int = 0) -> tuple[dict[str, Any], str]:
        monkeypatch.setattr(sys, "argv", ["sonde", *map(str, arguments), "--json"])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        assert int(stopped.value.code or 0) == code
        return json.loads(captured.out), captured.err

    return call


@pytest.mark.parametrize("what", [*REGISTRIES, "plots"])
def test_lists_hold_names_with_their_line(answered, what: str) -> None:
    found, _ = answered("list", what)
    more = ("family", "target", "lenses") if what == "tasks" else ()
    assert {frozenset(one) for one in found[what]} == {frozenset(("name", "summary", *more))}


def test_models_are_listed_with_what_is_known_and_who_says_so(answered) -> None:
    found, _ = answered("list", "models", "--for", "surprisal")
    known = {one["name"]: one for one in found["models"]}
    assert "Salesforce/codet5-base" in known and "microsoft/codebert-base" not in known
    one = known["openai-community/gpt2"]
    assert one["summary"].startswith("gpt: ") and one["cut_off"] == "2017-12"
    assert one["languages"] is None and one["sources"]["cut_off"].startswith("https://")


def test_options_are_listed_by_lens(answered) -> None:
    found, _ = answered("list", "options", "surprisal")
    (options,) = found["options"].values()
    held = {one["option"]: one for one in options}
    assert held["min_count"]["type"] == "whole number"
    assert all(one["what_it_is"] for one in options)


def test_tokens_of_a_file(answered, decoder: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("def f(x):\n    return 'é' + x\n", encoding="utf-8")
    found, _ = answered("align", "-m", decoder, file)
    assert "return" in "".join(str(one["subword"]) for one in found["tokens"]).replace("Ġ", "")
    written, _ = answered("align", "-m", decoder, file, "-o", tmp_path / "a.csv")
    assert written == {"rows": len(found["tokens"]), "file": str(tmp_path / "a.csv")}


def test_corpora_labels_and_locks(answered, project: Path, tmp_path: Path) -> None:
    corpus = ("-c", f"local:{project}")
    stats, _ = answered("corpus", "stats", *corpus)
    assert stats["sizes"][0]["files"] == 33
    assert stats["taken"]["languages"][0]["items"] > 0
    lock, _ = answered("corpus", "lock", *corpus, "--limit", 5, "-o", tmp_path / "items.lock")
    assert lock == {"items": 5, "corpus": f"local:{project}", "file": str(tmp_path / "items.lock")}
    labels, _ = answered("label", "call_origin", *corpus, "--raw", "--limit", 4, "-o", tmp_path / "l.jsonl")
    assert labels["rows"] == len((tmp_path / "l.jsonl").read_text().splitlines())
    built, progress = answered("corpus", "build", *corpus, "-o", tmp_path / "built", "--workers", 1)
    assert built["folder"] == str(tmp_path / "built")
    assert sum(one["files"] for one in built["splits"].values()) == built["corpora"][0]["kept"]
    assert progress


def test_the_cache(answered, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path))
    (tmp_path / "pypi").mkdir()
    (tmp_path / "pypi" / "a").write_bytes(b"12345")
    found, _ = answered("cache", "info")
    assert found == {"cache": str(tmp_path), "folders": [{"folder": "pypi", "files": 1, "bytes": 5}]}
    found, _ = answered("cache", "clear")
    assert found == {"removed": [str(tmp_path / "pypi")]}


def test_a_run_its_page_and_its_card(answered, decoder: Path, project: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    found, progress = answered("run", "-m", decoder, "-c", f"local:{project}", "--limit", 20, "-o", root)
    assert (found["directory"], found["page"]) == (str(root), str(root / "report.html"))
    assert found["observed"] == 20
    assert "observing: done" in progress
    page, _ = answered("report", root)
    assert page == {"page": str(root / "report.html")}
    card, _ = answered("card", root)
    Draft202012Validator(card_schema()).validate(card)
    assert card == found["card"] == json.loads((root / "card.json").read_text(encoding="utf-8"))
    required = tmp_path / "requirements.toml"
    required.write_text('[[require]]\nlens = "surprisal"\nmetric = "bits_per_byte"\nat_most = 0.001\n')
    card, _ = answered("card", root, "--require", required, code=1)
    assert [one["met"] for one in card["requirements"]] == [False]


def test_what_is_wrong_is_one_line_and_no_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sonde", "card", "/nowhere", "--json"])
    with pytest.raises(SystemExit):
        main()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("sonde: /nowhere: no run here")


def test_what_else_is_printed_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    @with_output()
    def noisy(name: str) -> CommandOutput:
        sys.stdout.write("a library speaks\n")
        return CommandOutput(
            {"name": name, "value": float("inf"), "path": Path("x")},
            lambda: sys.stdout.write("for a person\n"),
        )

    assert list(inspect.signature(noisy).parameters) == ["name", "as_json"]
    noisy(name="a", as_json=True)
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"name": "a", "value": None, "path": "x"}
    assert captured.err == "a library speaks\n"
    noisy(name="a", as_json=False)
    assert capsys.readouterr().out == "a library speaks\nfor a person\n"


def test_a_command_may_end_with_an_exit_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    @with_output()
    def failing() -> CommandOutput:
        return CommandOutput({"met": False}, lambda: None, exit_code=1)

    with pytest.raises(typer.Exit) as ended:
        failing(as_json=True)
    assert ended.value.exit_code == 1
    assert json.loads(capsys.readouterr().out) == {"met": False}


def test_the_page_says_what_each_command_prints() -> None:
    page = (Path(__file__).parents[2] / "docs" / "card.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| command \| object \|\n\|---\|---\|\n((?:\|.*\n?)+)", page)
    named = {name for line in table.splitlines() for name in re.findall(r"`([^`]+)`", line.split("|")[1])}
    assert {name.removesuffix(" KIND") for name in named} == set(COMMANDS)
