"""A Java syntax tree in the shape of Eclipse's (org.eclipse.jdt.core.dom), from tree-sitter's.

CodeSyntax reads Eclipse's tree at its level JLS3, with the parser left at its default, Java 1.3. What a node
is, where it begins and ends and what stands directly under it follow that tree; a node that would begin where
its only child begins is left out, for no relation can tell the two apart.

Newer constructs are read alike older ones, unless the tree is to be of an older Java, in which a method that
holds what cannot be parsed there has an empty body.
"""

from __future__ import annotations

import tree_sitter

from sonde.languages._grammar import Parsed
from sonde.languages._text import EncodedText
from sonde.papers.codesyntax.java.nodes import Frame, Node, Older, tables
from sonde.papers.codesyntax.java.shapes import shape

_STATEMENTS = frozenset(("block", "constructor_body", "switch_block_statement_group", "labeled_statement"))
_STATEMENT_ROLES = frozenset(("body", "consequence", "alternative"))


def read_tree(source: EncodedText, tree: Parsed, older: Older | None = None) -> Node:
    """The tree of a parsed text; the walk keeps its own stack, so depth costs memory alone.

    Args:
        source: The text that was parsed, with the way from its bytes to characters.
        tree: What tree-sitter made of it; it should hold no errors.
        older: An older Java that the tree is to be of.
    """
    return _Walk(source, older).run(tree)


class _Walk:
    def __init__(self, source: EncodedText, older: Older | None) -> None:
        self._source = source
        self._older = older
        self._tables = tables()
        self._frames = [Frame("", "", 0, len(source.text), "")]
        self._methods = 0
        # Whether the outermost method at hand holds what the older Java cannot parse.
        self._lost = False

    def run(self, tree: Parsed) -> Node:
        cursor = tree.root_node.walk()
        while True:
            node = cursor.node
            assert node is not None
            if self._enter(node, cursor.field_name or ""):
                if cursor.goto_first_child():
                    continue
                self._leave()
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    root = self._frames[0]
                    return Node("CompilationUnit", root.start, root.end, root.parts)
                self._leave()

    def _is_method(self, frame: Frame) -> bool:
        return self._tables.nodes.get(frame.kind) == "MethodDeclaration"

    def _enter(self, node: tree_sitter.Node, role: str) -> bool:
        around = self._frames[-1]
        kind = node.type
        start, end = self._source.at(node.start_byte), self._source.at(node.end_byte)
        if kind in self._tables.comments:
            around.comments.append((start, end))
            return False
        if not node.is_named:
            _token(kind, role, start, end, around)
            return False
        leaf = self._tables.leaves.get(kind)
        if leaf is not None:
            found = Node(leaf, start, end)
            if self._older:
                found, fits = self._older.leaf(found, self._source.text)
                self._lost = self._lost or not fits
            around.parts.append((role, found))
            return False
        frame = Frame(kind, role, start, end, around.kind)
        if self._is_method(frame):
            self._lost = self._lost and self._methods > 0
            self._methods += 1
        self._frames.append(frame)
        return True

    def _leave(self) -> None:
        frame = self._frames.pop()
        around = self._frames[-1]
        shaped = shape(frame, self._source.text, self._older)
        self._lost = self._lost or shaped is None
        if self._is_method(frame):
            self._methods -= 1
            if self._lost and self._methods == 0 and shaped:
                _empty_body(shaped[0][1])
        around.parts.extend(shaped or ())


def _token(kind: str, role: str, start: int, end: int, around: Frame) -> None:
    """Take what the words between nodes say: modifiers, operators, `else`, lone semicolons."""
    if around.kind == "modifiers":
        around.parts.append(("modifier", Node("Modifier", start, end)))
    elif role == "operator":
        around.operator = kind
    elif kind == "else":
        around.parts.append(("else", Node("Else", start, end)))
    elif kind == ";" and (around.kind in _STATEMENTS or role in _STATEMENT_ROLES):
        around.parts.append((role, Node("EmptyStatement", start, end)))
    elif kind in (":", "->") and around.parts and around.parts[-1][1].kind == "SwitchCase":
        around.parts[-1][1].end = end


def _empty_body(method: Node) -> None:
    for role, node in method.parts:
        if role == "body":
            node.parts.clear()
