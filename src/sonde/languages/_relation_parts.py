"""What `relations.scm` finds in a tree: constructs with their parts, and how nodes stand in each other.

`_relation_query` says what each capture means.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property

import tree_sitter

from sonde.languages._grammar import Match
from sonde.languages._leaves import ParsedText
from sonde.languages._metrics import Cover, outermost
from sonde.languages._treesitter import TreeSitterLanguage

NODES = ("through", "bare", "apart", "own", "outside", "before", "other", "body")
NESTED = "nested"

Parts = Mapping[str, list[tree_sitter.Node]]
"""The nodes of each part of a construct."""


class QueryParts:
    """What the query finds in a tree.

    Attributes:
        nodes: The nodes of each of `NODES`.
        constructs: The parts of each construct, by its name and its node's id.
        together: Runs of siblings that stand together, by the id of the node around.
        comments: Kinds of nodes that are no code.
        whole: Kinds of nodes that are one word with all that is in them.
    """

    def __init__(self, language: TreeSitterLanguage, reading: ParsedText) -> None:
        tokens = language.settings.tokens
        self.comments = tokens.comments | tokens.layout
        self.whole = tokens.whole
        self.nodes: dict[str, list[tree_sitter.Node]] = {name: [] for name in NODES}
        self.constructs: dict[tuple[str, int], defaultdict[str, list[tree_sitter.Node]]] = {}
        self._at: dict[int, tree_sitter.Node] = {}
        self._joined: defaultdict[int, list[dict[int, tree_sitter.Node]]] = defaultdict(list)
        self._runs: dict[int, dict[int, tree_sitter.Node]] = {}
        for match in language.grammar.matches("relations", reading.root):
            self._take(match)
        self.together = {
            around: [sorted(run.values(), key=place_of) for run in runs]
            for around, runs in self._joined.items()
        }
        for key in [key for key, parts in self.constructs.items() if NESTED in parts]:
            self._nest(key)

    def _take(self, match: Match) -> None:
        constructs: dict[str, defaultdict[str, list[tree_sitter.Node]]] = {}
        for name, captured in match.items():
            if name in self.nodes:
                self.nodes[name] += captured
            elif name == "together":
                self._join(captured)
            elif "." not in name and name[0] != "_":
                key = (name, captured[0].id)
                self._at[captured[0].id] = captured[0]
                constructs[name] = self.constructs.setdefault(key, defaultdict(list))
        for name, captured in match.items():
            construct, _, part = name.partition(".")
            if part:
                constructs[construct][part] += captured

    def _join(self, captured: list[tree_sitter.Node]) -> None:
        around = captured[0].parent
        assert around is not None
        run = next((self._runs[node.id] for node in captured if node.id in self._runs), None)
        if run is None:
            run = {}
            self._joined[around.id].append(run)
        run.update((node.id, node) for node in captured)
        self._runs.update((node.id, run) for node in captured)

    def _nest(self, key: tuple[str, int]) -> None:
        """Give each nested construct what stands behind it in the one around."""
        parts = self.constructs[key]
        ordered = {name: sorted(nodes, key=place_of) for name, nodes in parts.items() if name != NESTED}
        for inner in sorted(parts[NESTED], key=place_of):
            own = self.constructs.setdefault((key[0], inner.id), defaultdict(list))
            for name, nodes in ordered.items():
                behind = bisect_left(nodes, inner.end_byte, key=lambda node: node.start_byte)
                if behind < len(nodes):
                    # Between the first and the last of a part nothing matters.
                    own[name] += [nodes[behind], nodes[-1]]

    @property
    def empty(self) -> bool:
        """Whether a body holds nothing but comments."""
        return any(
            all(child.type in self.comments for child in node.named_children) for node in self.nodes["body"]
        )

    def ids(self, *names: str) -> frozenset[int]:
        """Nodes by their ids."""
        return frozenset(node.id for name in names for node in self.nodes[name])

    def kept(self) -> Iterator[tuple[str, Parts]]:
        """The constructs that are some, with their parts."""
        other = self.ids("other")
        outside = Cover(outermost(self.nodes["outside"]))
        for (construct, identity), parts in self.constructs.items():
            if identity not in other and not outside.holds(self._at[identity]):
                yield construct, parts

    def nested(self) -> frozenset[int]:
        """Constructs beside the others of the one around, by their ids."""
        return frozenset(node.id for parts in self.constructs.values() for node in parts.get(NESTED, ()))

    def first_of(self, node: tree_sitter.Node) -> tree_sitter.Node:
        """What a node begins with that is one of its own."""
        return self._inside(node, 0) if self._bare else node

    def last_of(self, node: tree_sitter.Node) -> tree_sitter.Node:
        """What a node ends with that is one of its own."""
        return self._inside(node, -1) if self._bare else node

    def _inside(self, node: tree_sitter.Node, place: int) -> tree_sitter.Node:
        while node.id in self._bare:
            held = [child for child in node.named_children if not self._is_no_part(child)]
            if not held:
                return node
            node = held[place]
        return node

    def _is_no_part(self, node: tree_sitter.Node) -> bool:
        return node.type in self.comments or node.id in self._beside

    @cached_property
    def _bare(self) -> frozenset[int]:
        return self.ids("bare")

    @cached_property
    def _beside(self) -> frozenset[int]:
        return self.ids("own", "outside", "before")


def place_of(node: tree_sitter.Node) -> tuple[int, int]:
    """Where a node stands: a key to sort by."""
    return node.byte_range
