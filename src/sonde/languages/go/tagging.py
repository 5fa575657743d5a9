"""Classes of names in Go: names of packages are identified by the imports of the file."""

from __future__ import annotations

import re

from sonde.languages.engine.grammar import node_text
from sonde.languages.engine.tagging import TaggingOf, follows
from sonde.languages.engine.treesitter import TreeSitterLanguage

_VERSION = re.compile(r"/v[0-9]+$")


class GoTagging(TaggingOf):
    """Go's `Tagger`."""

    def packages(self, text: str, imports: str) -> set[int]:
        """Find names of packages in imports and types, and before a dot unless the text binds the name."""
        own = {node_text(node) for node, _ in self.language.locals(text).definitions}
        bound = self._bound(imports) | self._bound(text)
        listed = self.metrics.leaves(text)
        return super().packages(text, imports) | {
            leaf.start
            for place, leaf in enumerate(listed)
            if leaf.text in bound - own
            and leaf.parent == "selector_expression"
            and follows(listed, place, ".")
        }

    def _bound(self, text: str) -> set[str]:
        """Return the names that imports bind: the alias, or the last part of the path that is no version."""
        found: set[str] = set()
        root = self.metrics.reading(text).root
        for node in dict(self.language.grammar.captures("tagging", root)).get("spec", []):
            name, path = (node.child_by_field_name(field) for field in ("name", "path"))
            if name is not None:
                found.add(node_text(name))
            elif path is not None:
                found.add(_VERSION.sub("", node_text(path)[1:-1]).rpartition("/")[2])
        return found


def facet(language: TreeSitterLanguage) -> GoTagging:
    """Return Go's tagger."""
    return GoTagging(language)
