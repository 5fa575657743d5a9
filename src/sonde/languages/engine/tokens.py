"""Code tokens with their kind and role, and the leaves of a function, parsed in a wrapper if needed.

Code tokens are made of the leaves of a tree and the text that no leaf covers. Every character that is not
whitespace lies in exactly one token. Most tokens are leaves. Two kinds of text lie in no leaf: text that a
node holds between its children (a string around an escape), which becomes a literal whose ``node`` is that
node; and characters that the grammar skips (a backslash before a newline, or text that it could not parse
inside an ERROR node), which become layout or error tokens of the innermost node around them. An operator of
two words (``not in``) is two tokens; a name with children (``$`` and the name after it) is one.

A metric asks about one function and reads its leaves as a lexer would list them (`extract_leaves`). But a
grammar parses files, and some functions (a constructor in Java) are no valid file. Such a text is parsed
again inside a wrapper (`parse_with_wrappers`); positions remain those of the text itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tree_sitter
from jaxtyping import Bool, Int

from sonde.languages.engine.language import (
    TokenRules,
    get_kind_ids,
    get_kind_names,
    read_leaf_rows,
)
from sonde.languages.engine.text import EncodedText, whitespace_mask
from sonde.languages.engine.tree import ERROR, TOKEN_KINDS, CodeTokens, Tree

_KIND_INDEX = {name: number for number, name in enumerate(TOKEN_KINDS)}


_WITHIN_PREFIX = "within."


Captures = Iterable[tuple[str, list[tree_sitter.Node]]]


TextRun = tuple[int, int, int]


def build_code_tokens(tree: Tree, rules: TokenRules, captures: Captures, source: EncodedText) -> CodeTokens:
    """Build the code tokens of a tree.

    Args:
        tree: The syntax tree.
        rules: Rules from kinds of leaves to kinds of tokens.
        captures: Captures of `identifiers.scm`: names are roles, a later one takes precedence;
            ``within.ROLE`` gives a role to the names inside a node that have no other role.
        source: The text, for the captures' byte positions.
    """
    visible = ~whitespace_mask(tree.text)
    visible_counts = np.zeros(len(visible) + 1, np.int32)
    np.cumsum(visible, out=visible_counts[1:])
    kinds = _get_token_kinds(tree, rules)
    leaves = find_token_rows(tree, rules.whole & rules.identifiers)
    # A grammar may have leaves for newlines and indents; whitespace in a string is its content.
    has_text = (visible_counts[tree.end[leaves]] > visible_counts[tree.start[leaves]]) | (
        kinds[leaves] == _KIND_INDEX["literal"]
    )
    leaves = leaves[has_text]
    inner_runs = list(_find_inner_text(tree, rules))
    start, end, node = _merge_runs(tree.start[leaves], tree.end[leaves], leaves, inner_runs)
    kind = kinds[node]
    # Tokens never overlap: if they hold as many visible characters as the text, none is uncovered.
    if int((visible_counts[end] - visible_counts[start]).sum()) != visible_counts[-1]:
        uncovered_runs = list(_find_uncovered_runs(tree, start, end, visible))
        is_error = np.array(
            [tree.error[[row, *tree.ancestors(row)]].any() for _, _, row in uncovered_runs], np.bool_
        )
        all_kinds = np.concatenate([kind, np.where(is_error, _KIND_INDEX["error"], _KIND_INDEX["layout"])])
        order = np.argsort(np.concatenate([start, [first for first, _, _ in uncovered_runs]]), kind="stable")
        kind = all_kinds[order]
        start, end, node = _merge_runs(start, end, node, uncovered_runs)
    roles = _assign_roles(tree, rules, captures, source, start, kind, node)
    return CodeTokens(start=start, end=end, kind=kind.astype(np.int32), role=roles, node=node)


def find_token_rows(tree: Tree, kind_names: Set[str]) -> Int[np.ndarray, " row"]:
    """Return the rows of all leaves, with the outermost nodes of ``kind_names`` in place of their leaves."""
    is_whole = np.array([name in kind_names for name in tree.kinds], np.bool_)
    whole_rows = np.flatnonzero(is_whole[tree.kind] & (tree.end > tree.start))
    if not len(whole_rows):
        return tree.leaves
    depth = np.zeros(len(tree) + 1, np.int32)
    np.add.at(depth, whole_rows, 1)
    np.add.at(depth, tree.last[whole_rows], -1)
    nesting_depth = np.cumsum(depth)[:-1]
    # A node counts as inside itself.
    outermost = whole_rows[nesting_depth[whole_rows] == 1]
    free_leaves = tree.leaves[nesting_depth[tree.leaves] == 0]
    return np.sort(np.concatenate([free_leaves, outermost]))


def _get_token_kinds(tree: Tree, rules: TokenRules) -> Int[np.ndarray, " node"]:
    """Return the token kind that each node has as a leaf."""
    kinds = np.array([_get_kind_index(name, rules) for name in tree.kinds], np.int32)[tree.kind]
    for parent in rules.parent_overrides.keys() & set(tree.kinds):
        children = np.flatnonzero(tree.kind[tree.parent] == tree.kinds.index(parent))
        # The root has no parent: its index -1 would select the last row.
        children = children[tree.parent[children] >= 0]
        for name, kind in rules.parent_overrides[parent].items():
            if name in tree.kinds:
                kinds[children[tree.kind[children] == tree.kinds.index(name)]] = _KIND_INDEX[kind]
    kinds[tree.error] = _KIND_INDEX["error"]
    return kinds


def _get_kind_index(name: str, rules: TokenRules) -> int:
    """Return the index of a leaf kind's token kind; the lists tested first take precedence."""
    names_by_kind = {
        "literal": rules.literals,
        "layout": rules.layout,
        "comment": rules.comments,
        "operator": rules.operators,
        "identifier": rules.identifiers,
        "keyword": rules.keywords,
    }
    return _KIND_INDEX[next((kind for kind, names in names_by_kind.items() if name in names), "punctuation")]


def _find_inner_text(tree: Tree, rules: TokenRules) -> Iterator[TextRun]:
    """Yield the text that nodes hold between their children, with the node's row."""
    holds_text = np.array([name in rules.holds_text for name in tree.kinds], np.bool_)
    if not holds_text.any():
        return
    has_children = tree.last > np.arange(1, len(tree) + 1)
    for row in np.flatnonzero(holds_text[tree.kind] & has_children).tolist():
        child, stop_row = row + 1, int(tree.last[row])
        position = int(tree.start[row])
        while child < stop_row:
            if tree.start[child] > position:
                yield position, int(tree.start[child]), row
            position, child = int(tree.end[child]), int(tree.last[child])
        if tree.end[row] > position:
            yield position, int(tree.end[row]), row


def _merge_runs(
    start: Int[np.ndarray, " token"],
    end: Int[np.ndarray, " token"],
    node: Int[np.ndarray, " token"],
    runs: list[TextRun],
) -> tuple[Int[np.ndarray, " merged"], Int[np.ndarray, " merged"], Int[np.ndarray, " merged"]]:
    """Merge runs into the tokens, in text order."""
    if not runs:
        return start, end, node
    run_table = np.array(runs, np.int32)
    order = np.argsort(np.concatenate([start, run_table[:, 0]]), kind="stable")
    start, end, node = (
        np.concatenate([column, run_table[:, index]]).astype(np.int32)[order]
        for index, column in enumerate((start, end, node))
    )
    return start, end, node


def _find_uncovered_runs(
    tree: Tree,
    start: Int[np.ndarray, " token"],
    end: Int[np.ndarray, " token"],
    visible: Bool[np.ndarray, " character"],
) -> Iterator[TextRun]:
    """Yield the runs of visible characters in no token, with the innermost node around each."""
    cover = np.zeros(len(visible) + 1, np.int32)
    np.add.at(cover, start, 1)
    np.add.at(cover, end, -1)
    uncovered_mask = visible & (np.cumsum(cover[:-1]) == 0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], uncovered_mask, [False]])))
    for first, stop in edges.reshape(-1, 2).tolist():
        yield first, stop, _find_innermost_row(tree, first, stop)


def _find_innermost_row(tree: Tree, start: int, end: int) -> int:
    """Find the innermost node around a span, the root if there is none."""
    index = int(np.searchsorted(tree.start[tree.leaves], start))
    innermost = 0
    for leaf in tree.leaves[max(index - 1, 0) : index + 1].tolist():
        for row in (leaf, *tree.ancestors(leaf)):
            if tree.start[row] <= start and end <= tree.end[row]:
                innermost = max(innermost, row)
                break
    return innermost


def _assign_roles(
    tree: Tree,
    rules: TokenRules,
    captures: Captures,
    source: EncodedText,
    start: Int[np.ndarray, " token"],
    kind: Int[np.ndarray, " token"],
    node: Int[np.ndarray, " token"],
) -> tuple[str, ...]:
    """Assign roles: to identifiers from the captures, to literals from the rules, to others ""."""
    literal = [rules.literals.get(name, "") for name in tree.kinds]
    roles = [
        literal[name] if token_kind == _KIND_INDEX["literal"] else ""
        for token_kind, name in zip(kind.tolist(), tree.kind[node].tolist(), strict=True)
    ]
    identifiers = np.flatnonzero(kind == _KIND_INDEX["identifier"])
    starts = start[identifiers].tolist()
    index_by_start = dict(zip(starts, identifiers.tolist(), strict=True))
    spans: list[tuple[str, int, int]] = []
    for role, nodes in captures:
        if role.startswith(_WITHIN_PREFIX):
            name = role.removeprefix(_WITHIN_PREFIX)
            spans += [
                (
                    name,
                    source.to_character(captured_node.start_byte),
                    source.to_character(captured_node.end_byte),
                )
                for captured_node in nodes
            ]
            continue
        for captured_node in nodes:
            index = index_by_start.get(source.to_character(captured_node.start_byte))
            if index is not None:
                roles[index] = role
    previous = ("", -1, -1)
    for role, first, stop in spans:
        if role == previous[0] and previous[1] <= first and stop <= previous[2]:
            continue
        previous = (role, first, stop)
        for index in identifiers[bisect_left(starts, first) : bisect_left(starts, stop)].tolist():
            roles[index] = roles[index] or role
    for index in identifiers.tolist():
        roles[index] = roles[index] or "variable"
    return tuple(roles)


class Leaf(NamedTuple):
    """A leaf of the text, as a tuple because a corpus has hundreds per function.

    Attributes:
        kind: The grammar's name of the node, ``"ERROR"`` for text in no node.
        parent: Kind of its parent.
        start: First character in the text.
        end: One past the last character.
        text: The characters.
    """

    kind: str
    parent: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class ParsedText:
    """A parsed text, possibly inside a wrapper.

    Attributes:
        source: The text, with its wrapper, that was parsed.
        root: The root node of its syntax tree, or of the part of a larger tree that represents it.
        before: Number of characters of the wrapper before the text.
        length: Number of characters of the text.
    """

    source: EncodedText
    root: tree_sitter.Node
    before: int
    length: int

    def to_character(self, byte: int) -> int:
        """Convert a byte position in the source to a character position, clipped to the text."""
        if not self.before and self.length == len(self.source.text):
            return self.source.to_character(byte)
        return min(max(self.source.to_character(byte) - self.before, 0), self.length)

    def span(self, node: tree_sitter.Node) -> tuple[int, int]:
        """Return the first character of a node and one past its last."""
        return self.to_character(node.start_byte), self.to_character(node.end_byte)

    def text(self, node: tree_sitter.Node) -> str:
        """Return the text of a node."""
        return self.source.slice(node.start_byte, node.end_byte)

    def contains(self, node: tree_sitter.Node) -> bool:
        """Return whether a node lies in the text, not in the wrapper."""
        start = self.source.to_character(node.start_byte) - self.before
        return start >= 0 and self.source.to_character(node.end_byte) - self.before <= self.length


def parse_with_wrappers(
    syntax: Callable[[str], tuple[EncodedText, tree_sitter.Node]],
    text: str,
    wrappers: tuple[tuple[str, str], ...],
) -> ParsedText:
    """Parse a text; if it has errors, inside the first wrapper in which it parses without."""
    source, root = syntax(text)
    if root.has_error:
        for prefix, suffix in wrappers:
            wrapped_source, wrapped_root = syntax(prefix + text + suffix)
            if not wrapped_root.has_error:
                return ParsedText(wrapped_source, wrapped_root, len(prefix), len(text))
    return ParsedText(source, root, 0, len(text))


def extract_leaves(
    parsed_text: ParsedText,
    rules: TokenRules,
    grammar: tree_sitter.Language,
    *,
    exclude: Set[str],
) -> tuple[Leaf, ...]:
    """Extract the leaves of a parsed text, in order.

    Args:
        parsed_text: The parsed text.
        rules: Rules that list the kinds to extract whole, such as strings, and the comments.
        grammar: The grammar, for the names of kind ids.
        exclude: Kinds to omit, such as comments.

    Returns:
        Every leaf with a visible character. Words that the grammar skipped are leaves of kind ``"ERROR"``,
        except those that only join lines.
    """
    offset, characters = parsed_text.before, parsed_text.source.text
    end_of_text = offset + parsed_text.length
    names, whole_kinds = get_kind_names(grammar), get_kind_ids(grammar, rules.whole | rules.comments)
    leaves: list[Leaf] = []
    # Calling the named tuple's class takes three times as long, and a corpus has hundreds per function.
    new_tuple = tuple.__new__
    covered_end = offset
    rows = read_leaf_rows(parsed_text.root, whole_kinds)
    starts, ends = (
        _to_characters(parsed_text.source, rows.start),
        _to_characters(parsed_text.source, rows.end),
    )
    for kind, parent, start, end in zip(rows.kind, rows.parent, starts, ends, strict=True):
        if start == end or end <= offset or start >= end_of_text:
            continue
        name = names[kind]
        # Text that the grammar could not parse may be several words.
        if name == ERROR:
            continue
        if covered_end < start and not characters[covered_end:start].isspace():
            leaves += _find_error_leaves(characters, covered_end, start, offset, rules.layout)
        if end > covered_end:
            covered_end = end
        text = characters[start:end]
        if name not in exclude and not text.isspace():
            leaves.append(new_tuple(Leaf, (name, names[parent], start - offset, end - offset, text)))
    leaves += _find_error_leaves(characters, covered_end, end_of_text, offset, rules.layout)
    return tuple(leaves)


def classify_word(leaf: Leaf, rules: TokenRules) -> str:
    """Return the token kind of an identifier that is really another word; "" if it is an identifier."""
    if leaf.kind not in rules.identifiers or not rules.words:
        return ""
    return rules.words.get(leaf.parent, {}).get(leaf.text) or rules.words.get("", {}).get(leaf.text, "")


def _to_characters(source: EncodedText, offsets: list[int]) -> list[int]:
    if source.byte_to_character is None:
        return offsets
    return source.byte_to_character[np.array(offsets, np.int32)].tolist()


def _find_error_leaves(
    text: str, start: int, end: int, offset: int, layout: frozenset[str]
) -> Iterator[Leaf]:
    position = start
    for word in text[start:end].split():
        position = text.index(word, position)
        if word not in layout:
            yield Leaf(ERROR, ERROR, position - offset, position - offset + len(word), word)
        position += len(word)


def nest_nodes(nodes: list[tree_sitter.Node]) -> list[tuple[tree_sitter.Node, int]]:
    """Sort distinct nodes, outer ones first, each with the index of the innermost node around it or -1."""
    sorted_nodes = sorted(
        {(node.start_byte, -node.end_byte, node.id): node for node in nodes}.items(),
        key=lambda pair: pair[0][:2],
    )
    nested_nodes: list[tuple[tree_sitter.Node, int]] = []
    stack: list[int] = []
    for _, node in sorted_nodes:
        while stack and nested_nodes[stack[-1]][0].end_byte <= node.start_byte:
            stack.pop()
        nested_nodes.append((node, stack[-1] if stack else -1))
        stack.append(len(nested_nodes) - 1)
    return nested_nodes


def invert_table(table: Mapping[str, list[str]]) -> dict[str, str]:
    """Invert a table of classes: map each surface to its class."""
    return {surface: name for name, surfaces in table.items() for surface in surfaces}
