"""Go's imports, and the calls and literals of imported packages.

A name is a package's path and one member of it, ``net.http.Get``. Code writes the last part of the path
alone, ``http.Get``, so that packages with the same last part give the same call. Left out are paths whose
parts are not all identifiers, which are those on a host (``github.com/a/b``), so that the names are the
standard library's; versions (``math/rand/v2``), whose package has the preceding name; members of members; and
names that the scope declares as well (``url, err := url.Parse(s)``).
"""

from __future__ import annotations

import re

from sonde.languages.engine.grammar import error_spans, node_text
from sonde.languages.engine.imports import (
    Called,
    FileNames,
    Imported,
    ImportedNames,
    ImportsOf,
    in_one_of,
    resolved,
)
from sonde.languages.engine.names import locals_of
from sonde.languages.engine.treesitter import TreeSitterLanguage

_VERSION = re.compile(r"v\d+")


def facet(language: TreeSitterLanguage) -> GoImports:
    """Return the facet ``imports``."""
    return GoImports(language)


class GoImports(ImportsOf):
    """`ImportReader` for Go."""

    unplaced_kind = "of packages outside of the standard library, or with a version"

    def read(self, text: str, path: str = "", *, propagate: bool = False) -> FileNames:
        """See `ImportReader.read`; no types are inferred, so that nothing is propagated."""
        source, tree = self.language.syntax(text)
        root = tree.root_node
        names, errors = ImportedNames(locals_of(self.language.grammar, root)), error_spans(root)
        imports: list[Imported] = []
        stars: list[str] = []
        called: list[Called] = []
        elsewhere = 0
        for match in self.language.grammar.matches("imports", root):
            if "import" in match:
                statement, parts = match["import"][0], node_text(match["path"][0]).split("/")
                given = node_text(match["bound"][0]) if "bound" in match else ""
                module, at = ".".join(parts), statement.byte_range
                if not all(part.isidentifier() for part in parts) or _VERSION.fullmatch(parts[-1]):
                    elsewhere += 1
                elif given == ".":
                    stars.append(module)
                # "C" is not a package (cgo), and the blank identifier binds nothing.
                elif given != "_" and module != "C":
                    alias = "" if given == parts[-1] else given
                    bound = given or parts[-1]
                    found = Imported(bound, module, module, False, alias, source.at(at[0]), source.at(at[1]))
                    names.bind_import(statement.start_byte, found)
                    imports.append(found)
            for kind in ("call", "literal"):
                for node in match.get(kind, ()):
                    if not in_one_of(errors, node.start_byte):
                        levels = tuple(node_text(child) for child in node.named_children)
                        called.append(Called(levels, kind, *node.byte_range))
        calls = [resolved(names, one, (source.at(one.start), source.at(one.end))) for one in called]
        held = sorted((one for one in calls if one is not None), key=lambda call: call.start)
        return FileNames(tuple(imports), tuple(held), tuple(stars), elsewhere)
