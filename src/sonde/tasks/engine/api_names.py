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
        imported: Fully qualified name of the alias.
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
        stands_for: For each alias, the names that it means somewhere in the corpus, by language.
        modules: What imports say to be a module, by language.
        definers: For each language and library the repositories that hold its files.
        documented: For each language and name the documented definitions of it, or of its members, with
            module and classes.
        files: Files read.
        stars: Star imports, whose names stay unbound.
        unplaced: Imports that no name is given to, such as relative ones that lead out of the corpus, by
            language.
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
    unplaced: Counter[str] = field(default_factory=Counter)
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
        module, _, member_name = name.name.rpartition(".")
        if any(level.startswith("_") for level in name.name.split(".")):
            return False
        if scope == PUBLIC or self.users(name):
            return True
        definitions = self.documented.get((name.language, member_name), ())
        return any(definition.startswith(f"{module}.") for definition in definitions)


def gather_names(
    files: Iterable[File], *, within: str = "file", propagate: bool = False, parallel: ParallelMap = ONE
) -> NameUses:
    """Read the names of all files.

    Args:
        files: Whole files, in any order; the answer does not depend on it.
        within: ``"file"`` for every call, ``"function"`` for calls inside functions and methods alone, as
            data sets of functions hold them. Imports are those of the file in both.
        propagate: Whether calls on the result of an imported name count too, one step deep.
        parallel: Processes that read files; any number gives the same.

    Raises:
        UsageError: ``within`` is neither, or a language has no imports.
    """
    if within not in WITHIN:
        raise UsageError(f"within = {within!r} is not a unit of names; known: {', '.join(WITHIN)}")
    files_by_language: dict[str, list[File]] = defaultdict(list)
    for file in files:
        files_by_language[file.language].append(file)
    uses = NameUses()
    for language in sorted(files_by_language):
        if not has_facet(language, "imports"):
            uses.without_imports[language] += len(files_by_language[language])
        else:
            _gather_language(files_by_language[language], language, within, propagate, uses, parallel)
    if not uses.files:
        languages = ", ".join(sorted(files_by_language)) or "no files"
        raise InputError(f"API names: found {languages}; use a corpus in a language with imports")
    return uses


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
    request = part.rule
    language, facet = LANGUAGES.load(request.language), get_facet(request.language, "imports", ImportReader)
    return [
        (facet.read(file.text, path, propagate=request.propagate), list(language.functions(file.text)))
        for file, path in zip(part.items, request.paths, strict=True)
    ]


def _gather_language(
    files: Sequence[File],
    language: str,
    within: str,
    propagate: bool,
    uses: NameUses,
    parallel: ParallelMap,
) -> None:
    facet = get_facet(language, "imports", ImportReader)
    paths_by_repository: dict[str, list[str]] = defaultdict(list)
    for file in files:
        paths_by_repository[file.repository].append(file.path)
    import_paths = {
        name: facet.to_import_paths(paths, name.rpartition("/")[2])
        for name, paths in paths_by_repository.items()
    }

    def with_paths(request: _ReadRequest, files: Sequence[File]) -> _ReadRequest:
        return replace(request, paths=tuple(import_paths[file.repository][file.path] for file in files))

    request = _ReadRequest(language, propagate)
    for file, (file_imports, functions) in parallel.of_files.map(
        _read_files, request, files, share=with_paths
    ):
        path = import_paths[file.repository][file.path]
        uses.files += 1
        uses.stars += len(file_imports.stars)
        uses.unplaced[language] += file_imports.unplaced
        for binding in file_imports.imports:
            uses.modules[language].update(_packages(binding.written, member=binding.member))
            if binding.alias:
                uses.stands_for[language, binding.alias].add(binding.name)
        if file_imports.calls:
            spans = sorted({(binding.start, binding.end) for binding in file_imports.imports})
            statements = tuple(file.text[start:end] for start, end in spans)
            # Of two files with one path always the same one, in whatever order they are read.
            uses.statements[file.path] = max(uses.statements.get(file.path, ()), statements)
        module = facet.to_module_name(path)
        uses.modules[language].add(module)
        uses.definers[language, ".".join(module.split(".")[: facet.library_levels])].add(file.repository)
        for function in functions:
            if function.docstring:
                for level in function.qualified_name.split("."):
                    uses.documented[language, level].add(f"{module}.{function.qualified_name}")
        starts = [function.start for function in functions]
        for call in file_imports.calls:
            index = bisect_right(starts, call.start) - 1
            enclosing = functions[index] if index >= 0 and call.start < functions[index].end else None
            if enclosing is None and within == "function":
                continue
            _count(uses, call, file, facet.library_levels, enclosing)


def _packages(name: str, *, member: bool) -> Iterator[str]:
    """Yield the module that an import names or takes a member from, and its parent packages."""
    module = name.rpartition(".")[0] if member else name
    while module:
        yield module
        module = module.rpartition(".")[0]


def _count(uses: NameUses, call: ApiCall, file: File, levels: int, enclosing: Function | None) -> None:
    key = (file.language, call.name, call.kind)
    if key not in uses.names:
        library = ".".join(call.name.split(".")[:levels])
        uses.names[key] = ApiName(call.name, call.kind, file.language, library)
    name = uses.names[key]
    name.calls += 1
    name.files.add(file.path)
    name.repositories.add(file.repository)
    binding = call.imported
    if binding.alias:
        name.aliases[ApiAlias(binding.alias, binding.name, binding.member)] += 1
    if enclosing is not None and (words := enclosing.docstring.strip()):
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
    earlier_names, current_names = (
        public_names(read_files(corpus, (language,), SkipCounter()), language)
        for corpus in (earlier, release)
    )
    for corpus, names in ((earlier, earlier_names), (release, current_names)):
        if not names:
            raise InputError(
                f"corpus {corpus!r}: no public function or class in {language}; name another release"
            )
    return {name: KEPT if name in earlier_names else NEW for name in sorted(current_names)}


def add_names(uses: NameUses, names: Iterable[str], language: str) -> None:
    """Add names to those of a corpus that calls them nowhere, so that they can be asked about."""
    for name in names:
        library = name.partition(".")[0]
        uses.names.setdefault((language, name, "call"), ApiName(name, "call", language, library))


def public_names(files: Iterable[SourceFile], language: str) -> set[str]:
    """Return the public functions and classes of a library, fully qualified, from the files that parse."""
    # Stubs (.pyi) say the same of modules that are read already.
    source_files = [file for file in files if file.path.endswith(".py")]
    imports = get_facet(language, "imports", ImportReader)
    import_paths = imports.to_import_paths([file.path for file in source_files])
    modules: dict[str, _Module] = {}
    for file in source_files:
        path = import_paths[file.path]
        module_name = imports.to_module_name(path)
        try:
            tree = ast.parse(file.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        modules[module_name] = _read_module(tree.body, module_name, package=path.endswith("__init__.py"))
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
    names = module.defined | set(module.taken)
    return names if module.offered is None else names & module.offered


def _through_stars(
    module: _Module, modules: dict[str, _Module], visited_modules: frozenset[str]
) -> Iterator[str]:
    """Yield the names that star imports from modules of the same library bring."""
    for source in module.stars:
        source_module = modules.get(source)
        if source_module is None or source in visited_modules:
            continue
        for member in _exported_names(source_module):
            if (module.offered is None or member in module.offered) and _callable(
                source, member, modules, frozenset()
            ):
                yield member
        yield from _through_stars(source_module, modules, visited_modules | {source})


def _callable(name: str, member: str, modules: dict[str, _Module], visited_names: frozenset[str]) -> bool:
    """Return whether a module defines a function or class, or imports one from the same library."""
    module = modules.get(name)
    if module is None or (full := f"{name}.{member}") in visited_names:
        return False
    if member in module.defined:
        return True
    if member in module.taken:
        source, _, original = module.taken[member].rpartition(".")
        return _callable(source, original, modules, visited_names | {full})
    return any(
        _callable(star_source, member, modules, visited_names | {full}) for star_source in module.stars
    )


def _read_module(body: Sequence[ast.stmt], module_name: str, *, package: bool) -> _Module:
    module = _Module()
    for statement in _top_level(body):
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                module.defined.add(name)
            case ast.ImportFrom(names=names):
                source = _source(statement, module_name, package=package)
                for alias in names:
                    if alias.name == "*":
                        module.stars.append(source)
                    elif source.partition(".")[0] == module_name.partition(".")[0]:
                        module.taken[alias.asname or alias.name] = f"{source}.{alias.name}"
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                module.offered = _strings(value)
            case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                added_names = _strings(value)
                current_names = module.offered
                module.offered = (
                    None if added_names is None or current_names is None else current_names | added_names
                )
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


def _source(statement: ast.ImportFrom, module_name: str, *, package: bool) -> str:
    """Return the module of a ``from`` import, with relative imports made absolute."""
    if not statement.level:
        return statement.module or ""
    levels = module_name.split(".")
    base = levels[: len(levels) - statement.level + package]
    return ".".join([*base, *([statement.module] if statement.module else [])])


def _strings(value: ast.expr) -> set[str] | None:
    """Return the strings of a list or tuple; None if it is computed at run time."""
    if isinstance(value, ast.List | ast.Tuple):
        return {
            element.value
            for element in value.elts
            if isinstance(element, ast.Constant) and isinstance(element.value, str)
        }
    return None
