"""Go's imports, and the calls and literals of imported packages.

A name is a package's path and one member of it, ``net.http.Get``. Code writes the last part of the path
alone, ``http.Get``, so that packages with the same last part give the same call. Left out are paths whose
parts are not all identifiers, which are those on a host (``github.com/a/b``), so that the names are the
standard library's; versions (``math/rand/v2``), whose package has the preceding name; members of members; and
names that the scope declares as well (``url, err := url.Parse(s)``).
"""

from __future__ import annotations

import re

from sonde.languages.engine.imports import (
    CallSite,
    ImportBinding,
    ImportReader,
    ImportScan,
)
from sonde.languages.engine.language import node_text

_VERSION = re.compile(r"v\d+")


class GoImportReader(ImportReader):
    """`sonde.languages.engine.imports.ImportReader` for Go."""

    unplaced_kind = "of packages outside of the standard library, or with a version"

    def scan(self, found: ImportScan, text: str, path: str, *, propagate: bool) -> None:
        """See `sonde.languages.engine.imports.ImportReader.scan`."""
        for match in self.language.grammar.matches("imports", self.language.syntax(text)[1]):
            if "import" in match:
                statement, parts = match["import"][0], node_text(match["path"][0]).split("/")
                explicit_name = node_text(match["bound"][0]) if "bound" in match else ""
                module = ".".join(parts)
                if not all(part.isidentifier() for part in parts) or _VERSION.fullmatch(parts[-1]):
                    found.unplaced += 1
                elif explicit_name == ".":
                    found.stars.append(module)
                # "C" is not a package (cgo), and the blank identifier binds nothing.
                elif explicit_name != "_" and module != "C":
                    alias = "" if explicit_name == parts[-1] else explicit_name
                    bound_name = explicit_name or parts[-1]
                    span = found.source.to_span(statement.byte_range)
                    found.bind(statement, ImportBinding(bound_name, module, module, False, alias, *span))
            for kind in ("call", "literal"):
                for node in match.get(kind, ()):
                    levels = tuple(node_text(child) for child in node.named_children)
                    found.call_sites.append(CallSite(levels, kind, *node.byte_range))


facet = GoImportReader
