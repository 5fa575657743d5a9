"""The public names of a release of a Python library, read by syntax: nothing is imported or run.

Public is a function or class that a public module defines at its top level, or takes over from the same
library; where the module says what it offers (``__all__``), only what that lists. No level of a public name
begins with an underscore.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Intake, SourceFile, read_files
from sonde.languages import facet_of
from sonde.languages._imports import Imports
from sonde.tasks._names import Name, NameUses

NEW, KEPT = "new", "kept"
_PYPI = "pypi:"


@dataclass(slots=True)
class _Module:
    """What the top level of a module defines and takes over, and what its ``__all__`` offers."""

    defined: set[str] = field(default_factory=set)
    taken: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    offered: set[str] | None = None


def names_by_release(release: str, earlier: str, language: str) -> dict[str, str]:
    """Every public name of a release, as `NEW` or `KEPT`.

    Args:
        release: As ``pypi:NAME==VERSION``.
        earlier: An earlier release of the same library, in the same form.
        language: Public name of the language whose files are read.

    Raises:
        UsageError: One of the two is not named, or is no release.
        InputError: A release cannot be had, or has no public name.
    """
    for option, corpus in (("release", release), ("earlier_release", earlier)):
        if not corpus.startswith(_PYPI):
            raise UsageError(
                f"option cloze.{option} = {corpus!r}: name two releases, as pypi:NAME==VERSION, in release "
                "and earlier_release"
            )
    before, after = (
        public_names(read_files(one, (language,), Intake()), language) for one in (earlier, release)
    )
    for corpus, found in ((earlier, before), (release, after)):
        if not found:
            raise InputError(
                f"corpus {corpus!r}: no public function or class in {language}; name another release"
            )
    return {name: KEPT if name in before else NEW for name in sorted(after)}


def add_names(gathered: NameUses, names: Iterable[str], language: str) -> None:
    """Add names to those of a corpus that calls them nowhere, so that they can be asked about."""
    for name in names:
        library = name.partition(".")[0]
        gathered.names.setdefault((language, name, "call"), Name(name, "call", language, library))


def public_names(files: Iterable[SourceFile], language: str) -> set[str]:
    """The public functions and classes of a library, fully qualified; none of files that do not parse."""
    # Stubs (.pyi) say the same of modules that are read already.
    held = [file for file in files if file.path.endswith(".py")]
    rooted = facet_of(language, "imports", Imports).rooted([file.path for file in held])
    modules: dict[str, _Module] = {}
    for file in held:
        path = rooted[file.path]
        dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        try:
            tree = ast.parse(file.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        modules[dotted] = _read(tree.body, dotted, package=path.endswith("__init__.py"))
    return {
        f"{name}.{member}"
        for name, module in modules.items()
        if _public(name)
        for member in _offered(module)
        if _public(member) and _callable(name, member, modules, frozenset())
    } | {
        f"{name}.{member}"
        for name, module in modules.items()
        if _public(name)
        for member in _through_stars(module, modules, frozenset({name}))
        if _public(member)
    }


def _public(name: str) -> bool:
    return not any(level.startswith("_") for level in name.split("."))


def _offered(module: _Module) -> set[str]:
    bound = module.defined | set(module.taken)
    return bound if module.offered is None else bound & module.offered


def _through_stars(module: _Module, modules: dict[str, _Module], seen: frozenset[str]) -> Iterator[str]:
    """What star imports from modules of the same library bring."""
    for source in module.stars:
        other = modules.get(source)
        if other is None or source in seen:
            continue
        for member in _offered(other):
            if (module.offered is None or member in module.offered) and _callable(
                source, member, modules, frozenset()
            ):
                yield member
        yield from _through_stars(other, modules, seen | {source})


def _callable(name: str, member: str, modules: dict[str, _Module], seen: frozenset[str]) -> bool:
    """Whether a module defines a function or class, or takes one over from a module of the same library."""
    module = modules.get(name)
    if module is None or (full := f"{name}.{member}") in seen:
        return False
    if member in module.defined:
        return True
    if member in module.taken:
        source, _, original = module.taken[member].rpartition(".")
        return _callable(source, original, modules, seen | {full})
    return any(_callable(one, member, modules, seen | {full}) for one in module.stars)


def _read(body: Sequence[ast.stmt], dotted: str, *, package: bool) -> _Module:
    module = _Module()
    for statement in _top_level(body):
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                module.defined.add(name)
            case ast.ImportFrom(names=names):
                source = _source(statement, dotted, package=package)
                for one in names:
                    if one.name == "*":
                        module.stars.append(source)
                    elif source.partition(".")[0] == dotted.partition(".")[0]:
                        module.taken[one.asname or one.name] = f"{source}.{one.name}"
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                module.offered = _strings(value)
            case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                more = _strings(value)
                held = module.offered
                module.offered = None if more is None or held is None else held | more
            case _:
                pass
    return module


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those under conditions and attempts as well."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from _top_level(statement.body)
            yield from _top_level(statement.orelse)
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield from _top_level(handler.body)


def _source(statement: ast.ImportFrom, dotted: str, *, package: bool) -> str:
    """The module that names are taken from, relative imports made absolute."""
    if not statement.level:
        return statement.module or ""
    levels = dotted.split(".")
    base = levels[: len(levels) - statement.level + package]
    return ".".join([*base, *([statement.module] if statement.module else [])])


def _strings(value: ast.expr) -> set[str] | None:
    """The texts of a list or tuple; None where it is worked out at run time."""
    if isinstance(value, ast.List | ast.Tuple):
        return {
            one.value for one in value.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)
        }
    return None
