"""Check in the syntax of sonde's code what it never does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import sonde

ROOT = Path(sonde.__file__).parent
PICKLES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
IMPORTING = {"base/registry.py"}
"""The one module that executes a file, which a user has to have named."""


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield path.relative_to(ROOT).as_posix(), node, ast.unparse(node.func)


def given(call: ast.Call, name: str) -> str:
    return next((ast.unparse(one.value) for one in call.keywords if one.arg == name), "")


def test_no_module_imports_a_reader_of_pickles() -> None:
    found = [
        (path.name, name)
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in [*(one.name for one in node.names), getattr(node, "module", None) or ""]
        if name.partition(".")[0] in PICKLES
    ]
    assert found == []


def test_weights_are_read_by_the_restricted_reader_alone() -> None:
    loads = [(where, call) for where, call, name in calls() if name == "torch.load"]
    assert {where for where, _ in loads} == {"models/engine/unpickle.py", "training/finetune/checkpoint.py"}
    assert all(given(call, "weights_only") == "True" for _, call in loads)
    assert not [where for where, call, name in calls() if given(call, "allow_pickle") not in ("", "False")]
    loaded = [
        call for where, call, _ in calls() if where == "models/engine/weights.py" and given(call, "config")
    ]
    assert [given(call, "use_safetensors") for call in loaded if "from_pretrained" in ast.unparse(call)] == [
        "True"
    ]


def test_no_text_is_executed() -> None:
    executed = {
        where
        for where, _, name in calls()
        if name in ("eval", "exec", "__import__") or name.endswith((".exec_module", ".load_module"))
    }
    assert executed == IMPORTING
    assert not [where for where, call, _ in calls() if given(call, "shell") not in ("", "False")]


def test_nobody_but_the_user_trusts_the_code_of_a_model() -> None:
    trusted = {given(call, "trust_remote_code") for _, call, _ in calls()} - {""}
    assert trusted and all("trust" in one for one in trusted), trusted


def test_no_archive_is_unpacked_into_a_folder() -> None:
    unpacking = (".extractall", ".extract", "unpack_archive")
    assert not [where for where, _, name in calls() if name.endswith(unpacking)]


def test_every_promise_names_where_it_is_kept_and_a_test() -> None:
    root = ROOT.parents[1]
    page = (root / "docs" / "security.md").read_text(encoding="utf-8")
    table = page.partition("## What is promised")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for row in rows:
        _, where, tests = row
        named = re.findall(r"`(tests/[^`]+)`", tests)
        assert named and all((root / name).is_file() for name in named), row
        assert all((ROOT / name).is_file() for name in re.findall(r"`([^`]+)`", where)), row
