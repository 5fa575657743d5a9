"""IDN: what an identifier names: class (``IDC``), method (``IDM``), package (``IDP``) or variable (``IDV``).

Packages come from the imports of the file: a name that an import of the file binds to a module (Python), or
that leads a qualified name as an import does (Java). Functions name few packages, so the import statements
of their files are read beside them, see `Identifiers.beside`. A class is what is declared, constructed or
annotated as one; where only types could tell, the convention of the language decides (a capital before a
dot in Java, PEP 8 in Python). Fields, parameters and keyword arguments are variables. Labels of jumps, and
what an import takes out of a module without a capital, are none of the four.

``paper`` (quirk ``inspect.leading_names``): a package is whatever leads a dotted expression, which is what
the released labels look like; they are too inconsistent for any rule to reproduce them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sonde.corpora import Item, item_id
from sonde.languages._tagging import IDN_CLASSES, Tagged
from sonde.tasks._tagged import TokenClasses, tagging
from sonde.tasks._task import Repository


class Identifiers(TokenClasses):
    """What identifiers name."""

    name = "idn"
    labels = IDN_CLASSES
    needs_repository = True
    quirks: Mapping[str, str] = {"inspect.leading_names": "a package is whatever leads a dotted expression"}

    def tags(self, item: Item, imports: str, paper: bool) -> tuple[Tagged, ...]:
        """Identifiers with what they name."""
        return tagging(item.language).identifiers(item.text, imports, paper=paper)

    def beside(
        self, items: Iterable[Item], repositories: Mapping[str, Repository]
    ) -> Iterator[tuple[Item, Item]]:
        """The import statements of the items' files as items of their own, to draw packages from.

        Yields:
            An item, and what its file imports; each file once.
        """
        seen: set[tuple[str, str]] = set()
        for item in items:
            known = repositories.get(item.repository)
            text = known.imports.get(item.path, "") if known is not None else ""
            if text and (item.repository, item.path) not in seen:
                seen.add((item.repository, item.path))
                own = item_id(text, item.language, "imports")
                yield (
                    item,
                    replace(
                        item,
                        item_id=own,
                        identifier=own,
                        text=text,
                        unit="imports",
                        name="imports",
                        offset=0,
                        docstring="",
                        tags=(),
                        given=(),
                    ),
                )


task = Identifiers()
