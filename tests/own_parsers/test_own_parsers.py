"""The comparison with own parsers on code that every machine has, and that it finds what is wrong."""

from __future__ import annotations

import copy
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sonde.corpora import SourceFile
from tests.artefacts import LANGUAGES
from tests.artefacts.functions import functions
from tests.own_parsers import FILES, FUNCTIONS, LABELS, NAMES, READ, Comparison, compare, compare_file
from tests.own_parsers.__main__ import main
from tests.own_parsers.parsers import MissingParserError, ask_parser

_NUMBER = 20
_BEFORE = {"php": "<?php\n", "go": "package p\n\n", "java": "class A {\n"}
_AFTER = {"java": "}\n"}
_MORE = {
    "python": "def f(x, *y):\n    def g(x=x): return [[x for x in x] for x in y]\n    return g(1) or f(x)\n",
    "java": "int f(int x) { return x > 0 ? f(-x) : x; }\n",
    "go": "func f(x any) int {\n\tswitch x := x.(type) {\n\tcase nil:\n\t\treturn f(x)\n\t}\n\treturn 1\n}\n",
    "javascript": """\
var f = (function (x, {y, z = 1}) { if (x) return f(`${x}`, y); { const x = () => z; x() } })
""",
    "php": "function f(?int $x) { return $x ? f((int) 'a') : new self(null, 1.5, \"b $x\"); }\n",
    "ruby": "def f(x, y: 1)\n  x.each { |a| f(a) if y }\n  return <<~B\n    #{x}\n  B\nend\n",
}


def sources(language: str, texts: Sequence[str] = ()) -> SourceFile:
    """A file with functions of a language."""
    made = [*texts] or [item.text for item, _ in functions(language, _NUMBER)] + [_MORE[language]]
    text = _BEFORE.get(language, "") + "\n".join(made) + _AFTER.get(language, "")
    return SourceFile("a", text, language, "c", "r")


@cache
def ask(file: SourceFile) -> Any:
    """What the own parser tells of a file, or a skipped test that says what it lacks."""
    try:
        return ask_parser(file.language, [file.text])[0]
    except MissingParserError as error:
        pytest.skip(str(error))


def differences(result: Comparison) -> dict[str, Any]:
    return {label: tally.examples for label, tally in result.tallies.items() if tally.different}


@pytest.mark.parametrize("language", LANGUAGES)
def test_labels_are_those_of_the_own_parser(language: str) -> None:
    file = sources(language)
    result = Comparison(language)
    compare_file(file, ask(file), result)
    assert not differences(result)
    assert result.compared == _NUMBER + 1
    absent = {"npt"} if language != "python" else set()
    # Without eslint-scope nothing tells the variables of JavaScript.
    absent |= {"vcu", "vct", "recursion"} if language == "javascript" else set()
    assert set(LABELS) - absent <= result.tallies.keys()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_label_that_is_wrong_is_found(language: str) -> None:
    file = sources(language)
    answer = ask(file)
    for label in answer["functions"][-1]["labels"]:
        wrong = copy.deepcopy(answer)
        wrong["functions"][-1]["labels"][label] += 1
        result = Comparison(language)
        compare_file(file, wrong, result)
        assert differences(result).keys() == {label}
        (path, line, name, ours, theirs) = result.tallies[label].examples[0]
        assert (path, name, theirs - ours) == ("a", "f", 1) and line > 1
    wrong = copy.deepcopy(answer)
    wrong["functions"][-1]["names"][0][1] = "IDP"
    del wrong["functions"][0]
    result = Comparison(language)
    compare_file(file, wrong, result)
    assert differences(result).keys() == {FUNCTIONS, NAMES} and result.compared == _NUMBER


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_both_refuse_is_no_difference(language: str) -> None:
    file = sources(language, ["function f( {"])
    result = Comparison(language)
    compare_file(file, ask(file), result)
    assert result.refused == 1 and not differences(result) and result.tallies[FILES].equal == 1


def test_labels_of_the_standard_library_are_those_of_ast() -> None:
    folder = Path(sysconfig.get_path("stdlib"), "asyncio")
    result = compare("python", [f"local:{folder}"], 300)
    assert not differences(result)
    assert result.compared >= 300 and result.tallies[READ].equal == result.compared
    assert set(LABELS) <= result.tallies.keys()


def test_the_command_prints_a_table_and_what_it_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text(_MORE["python"])
    (tmp_path / "a.rb").write_text(_MORE["ruby"])
    monkeypatch.setenv("PATH", str(tmp_path))
    corpora = [f"--corpus={language}=local:{tmp_path}" for language in ("python", "ruby")]
    assert main(["python", "ruby", *corpora, "--functions", "1"]) == 0
    printed = capsys.readouterr().out
    assert "| python | `cpx` | 1 | 1 | 0 |" in printed and "ruby: no `ruby` on this machine" in printed
    assert main(["go", f"--corpus=go=local:{tmp_path / 'nothing'}"]) == 1
    assert "go: " in capsys.readouterr().out
