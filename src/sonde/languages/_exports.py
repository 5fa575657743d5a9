"""Under which names a module's definitions can be imported: what other modules of a package hand on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from sonde.languages._imports import Imports, PackageFiles

_MOST = 500
"""Names tried for one; packages that hand on in circles have no end of them."""


@dataclass(frozen=True, slots=True)
class Exports:
    """The imports at module level of some files, from what is imported to who hands it on.

    Attributes:
        names: For a fully qualified name the names that it also has.
        stars: For a module the modules that import everything from it.
        listed: The text of each module that lists its names.
        modules: All modules; what is in one is not imported from elsewhere by the module's other name.
    """

    names: Mapping[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    stars: Mapping[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    listed: dict[str, str] = field(default_factory=dict)
    modules: Set[str] = frozenset()

    def public(self, name: str) -> str:
        """The shortest name that something has, those without a leading underscore before others."""
        found = {name: None}
        waiting = [name]
        while waiting and len(found) < _MOST:
            for other in self._also(waiting.pop(0)):
                if other not in found:
                    found[other] = None
                    waiting.append(other)
        return min(found, key=lambda one: (*_rank(one), one != name, one))

    def _also(self, name: str) -> Iterator[str]:
        levels = name.split(".")
        for count in range(2, len(levels) + 1):
            module, own = ".".join(levels[: count - 1]), levels[count - 1]
            rest = levels[count:]
            if rest and f"{module}.{own}" in self.modules:
                continue
            for other in self.names.get(f"{module}.{own}", ()):
                yield ".".join([other, *rest])
            text = self.listed.get(module, "")
            if not own.startswith("_") and (not text or f'"{own}"' in text or f"'{own}'" in text):
                for other in self.stars.get(module, ()):
                    yield ".".join([other, own, *rest])


def exports(imports: Imports, files: Iterable[tuple[str, str]], packages: PackageFiles) -> Exports:
    """What some files hand on.

    Args:
        imports: Reads imports.
        files: Text and path from the root of imports of each.
        packages: How the language's packages are written.
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    stars: defaultdict[str, list[str]] = defaultdict(list)
    listed: dict[str, str] = {}
    modules: set[str] = set()
    for text, path in files:
        module = module_of(path, packages)
        modules.add(module)
        if packages.listing in text:
            listed[module] = text
        if "import" not in text:
            continue
        found = imports.read(text, path)
        for one in found.imports:
            # At the margin: what a function imports for itself is no name of the module.
            if text[one.start - 1 : one.start] in ("", "\n") and one.member:
                names[one.name].append(f"{module}.{one.bound}")
        for star in found.stars:
            stars[star].append(module)
    return Exports(names, stars, listed, modules)


def module_of(path: str, packages: PackageFiles) -> str:
    """The module that a file is, from its path from the root of imports."""
    stem = path.rpartition(".")[0] or path
    return ".".join(stem.removesuffix(f"/{packages.file}").split("/"))


def _rank(name: str) -> tuple[bool, int]:
    levels = name.split(".")
    return any(level.startswith("_") for level in levels), len(levels)
