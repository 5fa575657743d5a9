"""Names of APIs: their uses across the files of a corpus, and the public names of a library's release.

A corpus tells who calls each name, under which aliases, and in whose words: the first lines of the
documentation of functions that call it.

The public names of a release of a Python library are read by syntax: nothing is imported or run. Public is a
function or class that a public module defines at its top level, or takes over from the same library; if the
module says what it offers (``__all__``), only what that lists. No level of a public name begins with an
underscore.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Item, SkipCounter, SourceFile, read_files
from sonde.corpora.engine.parallel import ONE, ItemChunk, ParallelMap
from sonde.languages import LANGUAGES, Function, get_facet, has_facet
from sonde.languages.engine.imports import ApiCall, FileImports, ImportReader

WITHIN = ("file", "function")


SHARED, PUBLIC, ALL = "shared", "public", "all"


SCOPES = (SHARED, PUBLIC, ALL)
"""Names that others can use, names without a leading underscore on their path, and all names."""


File = SourceFile | Item
"""A file of a corpus, or an item that is a whole file."""


@dataclass(frozen=True, slots=True, order=True)
class ApiAlias:
    """An alias through which a name is reached.

    Attributes:
        alias: What stands after ``as``.
        imported: What the alias stands for, fully qualified.
        member: Whether a member is taken out of a module (``from a import b as k``).
    """

    alias: str
    imported: str
    member: bool


@dataclass(slots=True)
class ApiName:
    """One name and kind of call, as a corpus uses it.

    Attributes:
        name: Fully qualified.
        kind: The language's kind of call.
        language: Public name of the language.
        library: Its leading levels, the unit of resampling.
        calls: Calls.
        files: Files with a call.
        repositories: Repositories with a call.
        aliases: Calls through each alias.
        contexts: First lines of the documentation of functions that call it.
    """

    name: str
    kind: str
    language: str
    library: str
    calls: int = 0
    files: set[str] = field(default_factory=set)
    repositories: set[str] = field(default_factory=set)
    aliases: Counter[ApiAlias] = field(default_factory=Counter)
    contexts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class NameUses:
    """The names that the files of a corpus call and import.

    Attributes:
        names: By language, name and kind.
        stands_for: For each alias, what it stands for somewhere in the corpus, by language.
        modules: What imports say to be a module, by language.
        definers: For each language and library the repositories that hold its files.
        documented: For each language and name the documented definitions of it, or of its members, with
            module and classes.
        files: Files read.
        stars: Star imports, whose names stay unbound.
        unplaced: Imports that no name is given to, such as relative ones that lead out of the corpus.
        unplaced_in: The same by language.
        without_imports: Files of languages whose imports name nothing, by language.
        statements: The import statements of each file that calls a name, in text order, by path.
    """

    names: dict[tuple[str, str, str], ApiName] = field(default_factory=dict)
    stands_for: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    modules: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    definers: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    documented: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    files: int = 0
    stars: int = 0
    unplaced: int = 0
    unplaced_in: Counter[str] = field(default_factory=Counter)
    without_imports: Counter[str] = field(default_factory=Counter)
    statements: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def users(self, name: ApiName) -> set[str]:
        """Return the repositories that call a name, without those that hold its library."""
        return name.repositories - self.definers.get((name.language, name.library), set())

    def usable(self, name: ApiName, scope: str = SHARED) -> bool:
        """Return whether a name is in a scope.

        `SHARED` are those that others can use: public, and called from outside the repository that defines
        their library, or documented.
        """
        if scope == ALL:
            return True
        module, _, own = name.name.rpartition(".")
        if any(level.startswith("_") for level in name.name.split(".")):
            return False
        if scope == PUBLIC or self.users(name):
            return True
        found = self.documented.get((name.language, own), ())
        return any(definition.startswith(f"{module}.") for definition in found)


def gather_names(
    files: Iterable[File], *, within: str = "file", propagate: bool = False, spread: ParallelMap = ONE
) -> NameUses:
    """Read the names of all files.

    Args:
        files: Whole files, in any order; the answer does not depend on it.
        within: ``"file"`` for every call, ``"function"`` for calls inside functions and methods alone, as
            data sets of functions hold them. Imports are those of the file in both.
        propagate: Whether calls on what an imported name gave count, one step far.
        spread: Processes that read files; any number gives the same.

    Raises:
        UsageError: ``within`` is neither, or a language has no imports.
    """
    if within not in WITHIN:
        raise UsageError(f"within = {within!r} is not a unit of names; known: {', '.join(WITHIN)}")
    held: dict[str, list[File]] = defaultdict(list)
    for file in files:
        held[file.language].append(file)
    gathered = NameUses()
    for language in sorted(held):
        if not has_facet(language, "imports"):
            gathered.without_imports[language] += len(held[language])
        else:
            _gather_language(held[language], language, within, propagate, gathered, spread)
    if not gathered.files:
        found = ", ".join(sorted(held)) or "no files"
        raise InputError(f"names of APIs: found {found}; name a corpus of a language that has imports")
    return gathered


@dataclass(frozen=True, slots=True)
class _ReadRequest:
    """The rule by which some files of one language are read.

    Attributes:
        language: Public name.
        propagate: See `gather_names`.
        paths: Of each file, from the root of imports.
    """

    language: str
    propagate: bool
    paths: tuple[str, ...] = ()


def _read_files(part: ItemChunk[_ReadRequest, File]) -> list[tuple[FileImports, list[Function]]]:
    """Read the imports, calls and functions of some files; runs in any process."""
    asked = part.rule
    language, facet = LANGUAGES.load(asked.language), get_facet(asked.language, "imports", ImportReader)
    return [
        (facet.read(file.text, path, propagate=asked.propagate), list(language.functions(file.text)))
        for file, path in zip(part.items, asked.paths, strict=True)
    ]


def _gather_language(
    files: Sequence[File],
    language: str,
    within: str,
    propagate: bool,
    gathered: NameUses,
    spread: ParallelMap,
) -> None:
    facet = get_facet(language, "imports", ImportReader)
    held: dict[str, list[str]] = defaultdict(list)
    for file in files:
        held[file.repository].append(file.path)
    rooted = {name: facet.to_import_paths(paths, name.rpartition("/")[2]) for name, paths in held.items()}

    def with_paths(asked: _ReadRequest, some: Sequence[File]) -> _ReadRequest:
        return replace(asked, paths=tuple(rooted[file.repository][file.path] for file in some))

    asked = _ReadRequest(language, propagate)
    for file, (found, functions) in spread.of_files.map(_read_files, asked, files, share=with_paths):
        path = rooted[file.repository][file.path]
        gathered.files += 1
        gathered.stars += len(found.stars)
        gathered.unplaced += found.unplaced
        gathered.unplaced_in[language] += found.unplaced
        for one in found.imports:
            gathered.modules[language].update(_packages(one.written, member=one.member))
            if one.alias:
                gathered.stands_for[language, one.alias].add(one.name)
        if found.calls:
            spans = sorted({(one.start, one.end) for one in found.imports})
            statements = tuple(file.text[start:end] for start, end in spans)
            # Of two files with one path always the same one, in whatever order they are read.
            gathered.statements[file.path] = max(gathered.statements.get(file.path, ()), statements)
        module = _module_name(path)
        gathered.modules[language].add(module)
        gathered.definers[language, ".".join(module.split(".")[: facet.library_levels])].add(file.repository)
        for function in functions:
            if function.docstring:
                for level in function.qualified_name.split("."):
                    gathered.documented[language, level].add(f"{module}.{function.qualified_name}")
        starts = [function.start for function in functions]
        for call in found.calls:
            at = bisect_right(starts, call.start) - 1
            inside = functions[at] if at >= 0 and call.start < functions[at].end else None
            if inside is None and within == "function":
                continue
            _count(gathered, call, file, facet.library_levels, inside)


def _packages(name: str, *, member: bool) -> Iterator[str]:
    """Yield the module that an import names or takes a member from, and its parent packages."""
    module = name.rpartition(".")[0] if member else name
    while module:
        yield module
        module = module.rpartition(".")[0]


def _module_name(path: str) -> str:
    """Return the module of a file, given its path from the root of imports."""
    stem = path.rpartition(".")[0] or path
    return stem.removesuffix("/__init__").replace("/", ".")


def _count(gathered: NameUses, call: ApiCall, file: File, levels: int, inside: Function | None) -> None:
    key = (file.language, call.name, call.kind)
    if key not in gathered.names:
        library = ".".join(call.name.split(".")[:levels])
        gathered.names[key] = ApiName(call.name, call.kind, file.language, library)
    name = gathered.names[key]
    name.calls += 1
    name.files.add(file.path)
    name.repositories.add(file.repository)
    imported = call.imported
    if imported.alias:
        name.aliases[ApiAlias(imported.alias, imported.name, imported.member)] += 1
    if inside is not None and (words := inside.docstring.strip()):
        name.contexts.add(words.splitlines()[0].strip())


NEW, KEPT = "new", "kept"


_PYPI = "pypi:"


@dataclass(slots=True)
class _Module:
    """The names that the top level of a module defines, imports and exports (``__all__``)."""

    defined: set[str] = field(default_factory=set)
    taken: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    offered: set[str] | None = None


def names_by_release(release: str, earlier: str, language: str) -> dict[str, str]:
    """Return every public name of a release, as `NEW` or `KEPT`.

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
        public_names(read_files(one, (language,), SkipCounter()), language) for one in (earlier, release)
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
        gathered.names.setdefault((language, name, "call"), ApiName(name, "call", language, library))


def public_names(files: Iterable[SourceFile], language: str) -> set[str]:
    """Return the public functions and classes of a library, fully qualified, from the files that parse."""
    # Stubs (.pyi) say the same of modules that are read already.
    held = [file for file in files if file.path.endswith(".py")]
    rooted = get_facet(language, "imports", ImportReader).to_import_paths([file.path for file in held])
    modules: dict[str, _Module] = {}
    for file in held:
        path = rooted[file.path]
        dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        try:
            tree = ast.parse(file.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        modules[dotted] = _read_module(tree.body, dotted, package=path.endswith("__init__.py"))
    return {
        f"{name}.{member}"
        for name, module in modules.items()
        if _public(name)
        for member in _exported_names(module)
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


def _exported_names(module: _Module) -> set[str]:
    bound = module.defined | set(module.taken)
    return bound if module.offered is None else bound & module.offered


def _through_stars(module: _Module, modules: dict[str, _Module], seen: frozenset[str]) -> Iterator[str]:
    """Yield the names that star imports from modules of the same library bring."""
    for source in module.stars:
        other = modules.get(source)
        if other is None or source in seen:
            continue
        for member in _exported_names(other):
            if (module.offered is None or member in module.offered) and _callable(
                source, member, modules, frozenset()
            ):
                yield member
        yield from _through_stars(other, modules, seen | {source})


def _callable(name: str, member: str, modules: dict[str, _Module], seen: frozenset[str]) -> bool:
    """Return whether a module defines a function or class, or imports one from the same library."""
    module = modules.get(name)
    if module is None or (full := f"{name}.{member}") in seen:
        return False
    if member in module.defined:
        return True
    if member in module.taken:
        source, _, original = module.taken[member].rpartition(".")
        return _callable(source, original, modules, seen | {full})
    return any(_callable(one, member, modules, seen | {full}) for one in module.stars)


def _read_module(body: Sequence[ast.stmt], dotted: str, *, package: bool) -> _Module:
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
    """Yield module-level statements, including those inside ``if`` and ``try``."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from _top_level(statement.body)
            yield from _top_level(statement.orelse)
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield from _top_level(handler.body)


def _source(statement: ast.ImportFrom, dotted: str, *, package: bool) -> str:
    """Return the module of a ``from`` import, with relative imports made absolute."""
    if not statement.level:
        return statement.module or ""
    levels = dotted.split(".")
    base = levels[: len(levels) - statement.level + package]
    return ".".join([*base, *([statement.module] if statement.module else [])])


def _strings(value: ast.expr) -> set[str] | None:
    """Return the strings of a list or tuple; None if it is computed at run time."""
    if isinstance(value, ast.List | ast.Tuple):
        return {
            one.value for one in value.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)
        }
    return None
