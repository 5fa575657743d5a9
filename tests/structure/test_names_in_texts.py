"""What docstrings and comments of sonde name in backticks is there, where a reader would look for it.

A bare name is an identifier of the same module, a name that ``sonde list`` prints, or a word or module of
Python's own. A dotted path leads to a definition, and on to a member of it, from a name of the module, from
`sonde` or from an installed library. Files (`locals.scm`) and what is no dotted name are left alone; what
only looks like one, such as a column or a word of another language, stands in double backticks.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import io
import keyword
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tools.trees import DEFINITION, MODULE, Tree, collect_bindings

import sonde
from sonde.experiments.catalogue import REGISTRIES, experiment_headers

ROOT = Path(sonde.__file__).parent
SOURCES = {
    f"sonde/{path.relative_to(ROOT).as_posix()}": path.read_text(encoding="utf-8")
    for path in sorted(ROOT.rglob("*.py"))
}
TREE = Tree(SOURCES)

NAME = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`(?!`)")
EXAMPLE = re.compile(r"(?m)^[ \t]*>>> .*(?:\n[ \t]*\S.*)*")

FILES = (".js", ".py", ".scm", ".toml")
NOT_HERE = {
    # Of newer releases of the library than the oldest that is supported.
    "torch.optim.Muon",
    # An option of a lens, in a line that ``sonde list`` prints.
    "structural",
}
OF_PYTHON = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *sys.stdlib_module_names}
LISTED = {
    header.name
    for headers in (*(registry.headers() for registry in REGISTRIES.values()), experiment_headers())
    for header in headers
}


def collect_texts(source: str) -> Iterator[tuple[int, str]]:
    """Collect comments and docstrings, those of constants too, with their lines; examples are blanked."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, EXAMPLE.sub(lambda example: "\n" * example[0].count("\n"), text)
            case _:
                pass
    if not re.search("#.*`", source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@cache
def collect_identifiers(module: str) -> frozenset[str]:
    """Collect what a module defines, imports, takes, reads or passes by name, and the parts of its own."""
    found = set(module.split("."))
    for node in ast.walk(TREE.parsed[module]):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case (
                ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name))
            ):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.update((other or name).split("."))
            case _:
                pass
    return frozenset(found)


def is_installed(path: str) -> bool:
    """Whether a dotted path leads to a module of a library, or to something in one."""
    parts = path.split(".")
    for number in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:number]))
        except ImportError:
            continue
        for name in parts[number:]:
            if not hasattr(thing, name):
                return False
            thing = getattr(thing, name)
        return True
    return False


def has_member(module: str, name: str, member: str) -> bool:
    """Whether something at the top of a module has a member: a parameter, or a class its own or a base's."""
    nodes = [node for node in TREE.parsed[module].body if getattr(node, "name", None) == name]
    match nodes:
        case [*_, ast.ClassDef() as found]:
            stored = {
                node.attr
                for node in ast.walk(found)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            }
            own = stored | set(collect_bindings(found.body, TREE.packages[module]))
            bases = [base.value if isinstance(base, ast.Subscript) else base for base in found.bases]
            return member in own or any(
                leads_somewhere(module, f"{ast.unparse(base)}.{member}") for base in bases
            )
        case [*_, function]:
            return member in {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
        case _:
            # What a constant holds is not known without running it.
            return True


def leads_somewhere(module: str, path: str) -> bool:
    """Whether a dotted path leads somewhere, seen from a module."""
    first, *members = path.split(".")
    target = TREE.resolve(module, first)
    if target is None and first == "sonde":
        found = TREE.find(path)
        if found is None:
            return False
        target, members = found[0], list(found[1])
    if target is None:
        known = collect_identifiers(module)
        return all(part in known for part in (first, *members)) or is_installed(path)
    if not members:
        return True
    if target.kind == DEFINITION:
        return has_member(target.module, target.name, members[0])
    if target.kind == MODULE:
        return leads_somewhere(target.module, ".".join(members))
    return is_installed(".".join((target.module, *members)))


def is_there(module: str, name: str) -> bool:
    """Whether a reader of a module finds what a name in backticks means."""
    if name.endswith(FILES) or name in NOT_HERE:
        return True
    if "." in name:
        return leads_somewhere(module, name)
    return name in collect_identifiers(module) or name in OF_PYTHON or name in LISTED


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("get_active_quirks", True),
        ("active_quirks", False),
        ("ReadingLens.next_stage", True),
        ("ReadingLens.follow_up", False),
        # Of the protocol that it extends.
        ("ReadingLens.score", True),
        ("settings.stage", True),
        ("settings.stages", False),
        ("LensSettings", True),
        ("EncodedExample", False),
        ("sonde.training.finetune.data.EncodedExample", True),
        ("sonde.training.finetune.data.EncodedExample.truncated", True),
        ("sonde.training.finetune.data.EncodedExample.shortened", False),
        ("sonde.training.finetuning.data", False),
        ("sonde.lenses.engine", True),
        ("numpy.partition", True),
        ("numpy.cut_in_two", False),
        ("surprisal", True),
        ("tokenize", True),
        ("locals.scm", True),
    ],
)
def test_what_is_there_is_told_from_what_is_not(name: str, there: bool) -> None:
    assert is_there("sonde.lenses.engine.lens", name) == there


def test_examples_are_not_looked_at() -> None:
    source = '"""Say `one`.\n\n>>> parse("`two`")\n`three`\n\nSay `four`.\n"""\nx = 1  # `five`\n'
    found = [name for _, text in collect_texts(source) for name in NAME.findall(text)]
    assert found == ["one", "four", "five"]


@pytest.mark.slow
def test_names_in_backticks_are_there() -> None:
    named, stale = 0, list[str]()
    for path, source in SOURCES.items():
        if not NAME.search(source):
            continue
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for line, text in collect_texts(source):
            for found in NAME.finditer(text):
                named += 1
                if not is_there(module, found[1]):
                    stale.append(f"{module}:{line + text.count(chr(10), 0, found.start())} {found[1]}")
    assert named > 900
    assert stale == []
