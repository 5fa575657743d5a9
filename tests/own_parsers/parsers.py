"""What each language's own parser tells of files: its functions, with labels counted over its own tree.

An answer is None where the parser refuses the file, else a mapping: ``functions``, ``line``, which says
whether theirs is the ``first`` or the ``end``, and ``offsets`` (``characters`` or ``bytes``) for ``names``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.own_parsers.python_labels import label_python

Answer = dict[str, Any] | None

_REFEREES = Path(__file__).parents[1] / "languages"


class MissingParserError(Exception):
    """The machine has no such parser; the message says what to install."""


def ask_parser(language: str, texts: Sequence[str]) -> list[Answer]:
    """Return what the own parser of a language tells of each text.

    Raises:
        MissingParserError: The machine lacks it.
    """
    if language == "python":
        found = [label_python(text) for text in texts]
        return [
            None if one is None else {"functions": one, "line": "first", "offsets": "characters"}
            for one in found
        ]
    return _ASK[language](texts)


def _javascript(texts: Sequence[str]) -> list[Answer]:
    node = _program("node", "node")
    # Where Debian and npm put what is installed for all.
    places = [os.environ.get("NODE_PATH", ""), "/usr/lib/node_modules", "/usr/share/nodejs"]
    ran = _run(
        [node, str(_REFEREES / "acorn.cjs"), "labels"],
        json.dumps(list(texts)),
        NODE_PATH=os.pathsep.join(filter(None, places)),
    )
    if "MODULE_NOT_FOUND" in ran.stderr:
        raise MissingParserError(
            "no acorn and acorn-jsx (`npm install acorn acorn-jsx eslint-scope`, and NODE_PATH to it)"
        )
    assert ran.returncode == os.EX_OK, ran.stderr
    return json.loads(ran.stdout)


_JAVAC = ("parser", "tree", "util", "code", "api")
"""Packages of the compiler that are not open to everybody."""


def _java(texts: Sequence[str]) -> list[Answer]:
    java = _program("java", "default-jdk")
    exports = [
        option
        for package in _JAVAC
        for option in ("--add-exports", f"jdk.compiler/com.sun.tools.javac.{package}=ALL-UNNAMED")
    ]
    program = str(Path(__file__).with_name("FunctionLabels.java"))
    # Expressions of a thousand operands need a deep stack.
    return _lines(_run([java, "-Xss64m", *exports, program], "".join(f"{text}\0" for text in texts)))


def _go(texts: Sequence[str]) -> list[Answer]:
    go = _program("go", "golang-go")
    program = str(Path(__file__).with_name("function_labels.go"))
    # A program of one file needs no module.
    return _lines(_run([go, "run", program], "".join(f"{text}\0" for text in texts), GO111MODULE="off"))


def _php(texts: Sequence[str]) -> list[Answer]:
    ran = _run_script(_program("php", "php-cli"), "php", texts)
    if "MODULE_NOT_FOUND" in ran.stderr:
        raise MissingParserError("no PHP parser (Debian: php-parser, php-common; else in PHP's include_path)")
    return _lines(ran)


def _ruby(texts: Sequence[str]) -> list[Answer]:
    ran = _run_script(_program("ruby", "ruby"), "rb", texts)
    if "cannot load such file" in ran.stderr:
        raise MissingParserError("no library of Ruby's (Debian: libruby; else in RUBYLIB)")
    return _lines(ran)


def _run_script(interpreter: str, suffix: str, texts: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Hand texts, a line of JSON each, to the program of a language."""
    script = str(Path(__file__).with_name(f"function_labels.{suffix}"))
    return _run([interpreter, script], "".join(json.dumps(text) + "\n" for text in texts))


def _lines(ran: subprocess.CompletedProcess[str]) -> list[Answer]:
    assert ran.returncode == os.EX_OK, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingParserError(f"no `{name}` on this machine (Debian: {package})")
    return found


def _run(command: Sequence[str], text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, **environment},
    )


_ASK = {"javascript": _javascript, "java": _java, "go": _go, "php": _php, "ruby": _ruby}
