"""Classes of names in Go: names of packages are identified by the imports of the file."""

from __future__ import annotations

import re

from sonde.languages.engine.language import node_text
from sonde.languages.engine.tagging import Tagger, has_next

_VERSION = re.compile(r"/v[0-9]+$")


class GoTagger(Tagger):
    """Go's `sonde.languages.engine.tagging.Tagger`."""

    def packages(self, text: str, imports: str) -> set[int]:
        """Find names of packages in imports and types, and before a dot unless the text binds the name."""
        local_names = {node_text(node) for node, _ in self.language.locals(text).definitions}
        imported_names = self._bound_names(imports) | self._bound_names(text)
        leaves = self.metrics.leaves(text)
        return super().packages(text, imports) | {
            leaf.start
            for index, leaf in enumerate(leaves)
            if leaf.text in imported_names - local_names
            and leaf.parent == "selector_expression"
            and has_next(leaves, index, ".")
        }

    def _bound_names(self, text: str) -> set[str]:
        """Return the names that imports bind: the alias, or the last part of the path that is no version."""
        names: set[str] = set()
        root = self.metrics.reading(text).root
        for node in dict(self.language.grammar.captures("tagging", root)).get("spec", []):
            name, path = (node.child_by_field_name(field) for field in ("name", "path"))
            if name is not None:
                names.add(node_text(name))
            elif path is not None:
                names.add(_VERSION.sub("", node_text(path)[1:-1]).rpartition("/")[2])
        return names


facet = GoTagger
