"""Names that a message of a deprecation is about, fully qualified, by what its file defines and imports."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from sonde.languages._deprecations import NOT_ITSELF, said

UNKNOWN, SAME = "names nothing that the file knows", "names itself"


@dataclass(slots=True)
class DefinedNames:
    """What names mean in one file: what it defines and imports.

    Attributes:
        module: The file as a module.
        imported: What each imported name stands for.
        constructors: Methods whose message is about their class.
        defined: The definitions, outer names first, and whether each is a class.
    """

    module: str
    imported: Mapping[str, str]
    constructors: Set[str] = frozenset()
    defined: dict[tuple[str, ...], bool] = field(default_factory=dict)

    def pair(
        self, here: tuple[str, ...], message: str, parameters: Set[str], *, sure: bool
    ) -> tuple[str, str, tuple[int, int]] | str:
        """Old name, new name and their members, or why a message at a definition gives no pair.

        Args:
            here: The definition.
            message: The message.
            parameters: Names of its parameters, which a message may be about instead.
            sure: Whether every call gives the message; what is given in some cases has to name it.
        """
        read = said(message)
        if isinstance(read, str):
            return read
        if not (read.about or sure) or {read.about, read.replacement} & parameters:
            return NOT_ITSELF
        old = self._full(read.about, here) if read.about else self._own(here)
        if old is None or (read.about and not self._is_about(old[0], here)):
            return NOT_ITSELF
        new = self._full(read.replacement, here)
        if new is None:
            return UNKNOWN
        if old[0] == new[0]:
            return SAME
        return old[0], new[0], (old[1], new[1])

    def _own(self, here: tuple[str, ...]) -> tuple[str, int] | None:
        if not here:
            return None
        owner = here[:-1] if here[-1] in self.constructors else here
        return self._placed(owner) if owner else None

    def _is_about(self, old: str, here: tuple[str, ...]) -> bool:
        """A message at a definition is about it or about something else of the module by its full name."""
        return old == self.module or old.startswith(f"{self.module}.") or not here or old.endswith(here[-1])

    def _full(self, name: str, here: tuple[str, ...]) -> tuple[str, int] | None:
        """A name as written at a definition, fully qualified, with its levels inside a class."""
        levels = tuple(name.split("."))
        for outer in range(len(here), -1, -1):
            around = here[:outer]
            if (*around, *levels) in self.defined and (not around or self.defined.get(around)):
                return self._placed((*around, *levels))
        if len(levels) > 1 and (levels[:-1]) in self.defined and self.defined[levels[:-1]]:
            return self._placed(levels)
        first = levels[0] if levels else ""
        if first in self.imported:
            return _elsewhere(".".join([self.imported[first], *levels[1:]]))
        top = self.module.partition(".")[0]
        if len(levels) > 1 and first == top.lstrip("_"):
            return self._inside_module(name)
        return None

    def _inside_module(self, name: str) -> tuple[str, int]:
        rest = tuple(name.removeprefix(f"{self.module}.").split("."))
        return self._placed(rest) if rest in self.defined else _elsewhere(name)

    def _placed(self, levels: tuple[str, ...]) -> tuple[str, int]:
        classes = next((n for n in range(1, len(levels)) if self.defined.get(levels[:n])), len(levels))
        return ".".join([self.module, *levels]), len(levels) - classes


def _elsewhere(name: str) -> tuple[str, int]:
    """A name of another file: what is spelled like a class is taken for one, as PEP 8 has it."""
    levels = name.split(".")
    classes = next((at for at, level in enumerate(levels) if level[:1].isupper()), len(levels) - 1)
    return name, len(levels) - 1 - classes
