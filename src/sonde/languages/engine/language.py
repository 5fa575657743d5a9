"""Languages: their protocol, registry and facets, and tree-sitter grammars, queries and trees.

`Language` is the only protocol between a grammar and the rest of sonde, and `LanguageSettings` holds the
`language.toml` of a language's folder. Grammars and queries are loaded when first used. One walk of the
cursor turns a tree-sitter tree into rows (`NodeRows`), and these become the columns of a `Tree`.

Facets are optional capabilities of a language, such as metrics, relations, imports or edits. They keep the
protocol small, since each is used by a few tasks. A language has the facet ``imports`` if its folder holds
``imports.py``; a task that needs a facet refuses the other languages.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import threading
import tomllib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import tree_sitter
from jaxtyping import Bool, Int

from sonde.base.errors import InputError, UsageError
from sonde.base.registry import Registry, find_entry_points
from sonde.languages.engine.text import EncodedText
from sonde.languages.engine.tree import ERROR, Call, CodeTokens, Construct, Definition, Function, Tree

# An ERROR node with more children is queried child by child. Unfinished code has far fewer.
_MAX_ERROR_CHILDREN = 5_000


# No match begins deeper than this: a query takes time quadratic in the depth of a tree, a minute for a
# chain of 64,000 attributes. Handwritten code comes nowhere near.
_MAX_MATCH_DEPTH = 6_000


_PREDICATE = re.compile(r"\(#([\w-]+[?!])")


_SUPPORTED_PREDICATES = frozenset(
    {*("eq?", "not-eq?", "any-eq?", "match?", "not-match?", "any-match?", "any-of?"), "set!"}
)
"""Predicates that tree-sitter's Python binding evaluates; it ignores any other, such as ``not-any-of?``."""


Match = dict[str, list[tree_sitter.Node]]


class Grammar:
    """A tree-sitter grammar with the queries of a language's folder.

    Args:
        module: Importable package of the grammar, followed by a colon and its function unless that is
            ``language``.
        package: The language's package, which holds the ``.scm`` files.
    """

    def __init__(self, module: str, package: str) -> None:
        self._module = module
        self._package = package
        self._queries: dict[str, tree_sitter.Query] = {}
        self._local = threading.local()

    @cached_property
    def language(self) -> tree_sitter.Language:
        """Load the compiled grammar."""
        module, _, function = self._module.partition(":")
        capsule: object = getattr(importlib.import_module(module), function or "language")()
        return tree_sitter.Language(capsule)

    def parse(self, data: bytes) -> tree_sitter.Tree:
        """Parse UTF-8 bytes; each thread has its own parser."""
        parser: tree_sitter.Parser | None = getattr(self._local, "parser", None)
        if parser is None:
            parser = self._local.parser = tree_sitter.Parser(self.language)
        return parser.parse(data)

    def query(self, name: str) -> tree_sitter.Query:
        """Compile the query file ``<name>.scm``, or an empty query if there is none.

        Raises:
            InputError: The query has a predicate that tree-sitter's binding would ignore.
        """
        if name not in self._queries:
            file = files(self._package) / f"{name}.scm"
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            unknown = set(_PREDICATE.findall(text)) - _SUPPORTED_PREDICATES
            if unknown:
                raise InputError(
                    f"{self._package}: {name}.scm has the condition #{min(unknown)}, which is "
                    f"ignored; write it with #{', #'.join(sorted(_SUPPORTED_PREDICATES))}"
                )
            self._queries[name] = tree_sitter.Query(self.language, text)
        return self._queries[name]

    def matches(self, name: str, root: tree_sitter.Node) -> list[Match]:
        """Return the captured nodes of each match of a query, by capture name."""
        cursor = _build_cursor(self.query(name))
        return [match for node in _find_query_roots(root) for _, match in cursor.matches(node)]

    def captures(self, name: str, root: tree_sitter.Node) -> list[tuple[str, list[tree_sitter.Node]]]:
        """Return the nodes of each capture name, in the order in which the names first appear in the file."""
        query = self.query(name)
        cursor = _build_cursor(query)
        nodes_by_name: dict[str, list[tree_sitter.Node]] = {}
        for node in _find_query_roots(root):
            for capture, nodes in cursor.captures(node).items():
                nodes_by_name.setdefault(capture, []).extend(nodes)
        names = [query.capture_name(index) for index in range(query.capture_count)]
        return [(capture, nodes_by_name[capture]) for capture in names if capture in nodes_by_name]


def _build_cursor(query: tree_sitter.Query) -> tree_sitter.QueryCursor:
    cursor = tree_sitter.QueryCursor(query)
    cursor.set_max_start_depth(_MAX_MATCH_DEPTH)
    return cursor


def find_error_spans(root: tree_sitter.Node) -> list[tuple[int, int]]:
    """Find the byte spans of the outermost ERROR nodes, in text order."""
    spans: list[tuple[int, int]] = []
    cursor = root.walk()
    while True:
        node = cursor.node
        assert node is not None
        if node.is_error:
            spans.append(node.byte_range)
        elif node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return spans


def node_text(node: tree_sitter.Node) -> str:
    """Decode the text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def _find_query_roots(root: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """Yield the nodes to run a query on: the root, unless the tree has a very wide ERROR node.

    A query takes time quadratic in the children of an ERROR node (tree-sitter balances all other lists),
    hours for a megabyte that is no code at all. There the query runs on each child separately; matches across
    siblings in such a node, which are unreliable anyway, are lost.
    """
    wide = [
        node for node in (root, *root.children) if node.is_error and node.child_count > _MAX_ERROR_CHILDREN
    ]
    if not wide:
        yield root
        return
    for node in root.children:
        yield from node.children if node in wide else (node,)


# tree-sitter's kind id of ERROR nodes (ts_builtin_sym_error).
_ERROR_KIND_ID = 0xFFFF


@dataclass(frozen=True, slots=True, eq=False)
class NodeRows:
    """The nodes of a tree in pre-order, with tree-sitter's kind ids and byte positions.

    Attributes:
        kind: Kind id of each node.
        start: First byte.
        end: One past the last byte.
        parent: Row of the parent, -1 for the root.
        last: One past the last row of the node's subtree.
        missing: Rows of the MISSING nodes, which the parser inserted where the text has none.
    """

    kind: list[int]
    start: list[int]
    end: list[int]
    parent: list[int]
    last: list[int]
    missing: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class _NodeKinds:
    """The node kinds of a grammar; each array has ERROR as its last entry.

    Attributes:
        names: Sorted names. Several kind ids may share a name (aliases; a rule and its keyword).
        place: Index into ``names`` of each kind id.
        named: Whether the grammar names the kind, for each kind id.
        name_by_id: Name of each kind id.
    """

    names: tuple[str, ...]
    place: Int[np.ndarray, " number"]
    named: Bool[np.ndarray, " number"]
    name_by_id: Mapping[int, str]


@lru_cache
def _read_node_kinds(grammar: tree_sitter.Language) -> _NodeKinds:
    kind_ids = range(grammar.node_kind_count)
    kind_names = [*(grammar.node_kind_for_id(kind_id) or "" for kind_id in kind_ids), ERROR]
    names = tuple(sorted(set(kind_names)))
    indices = {name: index for index, name in enumerate(names)}
    return _NodeKinds(
        names,
        place=np.array([indices[name] for name in kind_names], np.int32),
        named=np.array([*(grammar.node_kind_is_named(kind_id) for kind_id in kind_ids), True], np.bool_),
        name_by_id=MappingProxyType(dict(zip([*kind_ids, _ERROR_KIND_ID], kind_names, strict=True))),
    )


def get_kind_names(grammar: tree_sitter.Language) -> Mapping[int, str]:
    """Return the name of each kind id of a grammar."""
    return _read_node_kinds(grammar).name_by_id


@lru_cache
def get_kind_ids(grammar: tree_sitter.Language, names: Set[str]) -> frozenset[int]:
    """Return the ids of the named kinds (``string``, not ``"string"``) among ``names``."""
    kinds = _read_node_kinds(grammar)
    return frozenset(
        kind_id
        for (kind_id, name), has_name in zip(kinds.name_by_id.items(), kinds.named.tolist(), strict=True)
        if has_name and name in names
    )


class LeafRows(NamedTuple):
    """The leaves of a syntax tree as parallel lists, in text order.

    Attributes:
        kind: The grammar's kind ids.
        parent: Kind ids of their parents; of a root without children its own.
        start: First bytes.
        end: One past the last bytes.
    """

    kind: list[int]
    parent: list[int]
    start: list[int]
    end: list[int]


def read_leaf_rows(root: tree_sitter.Node, whole_kinds: Set[int]) -> LeafRows:
    """Read the leaves of a syntax tree, or of a part of one, in half the time that all its nodes take.

    Args:
        root: The root of the tree.
        whole_kinds: Kind ids of nodes that are read as leaves, whatever is in them.
    """
    rows = LeafRows([], [], [], [])
    add_kind, add_parent = rows.kind.append, rows.parent.append
    add_start, add_end = rows.start.append, rows.end.append
    cursor = root.walk()
    goto_child, goto_next, goto_parent = cursor.goto_first_child, cursor.goto_next_sibling, cursor.goto_parent
    stack: list[int] = []
    parent = root.kind_id
    while True:
        node = cursor.node
        assert node is not None
        kind = node.kind_id
        if kind not in whole_kinds and goto_child():
            stack.append(parent)
            parent = kind
            continue
        add_kind(kind)
        add_parent(parent)
        add_start(node.start_byte)
        add_end(node.end_byte)
        while not goto_next():
            if not goto_parent():
                return rows
            parent = stack.pop()


def read_node_rows(root: tree_sitter.Node) -> NodeRows:
    """Read the nodes of a syntax tree, or of a part of one.

    The walk keeps its own stack, so a deep tree costs memory but never the interpreter's stack.
    """
    nodes: list[tree_sitter.Node] = []
    parent: list[int] = []
    last: list[int] = []
    cursor = root.walk()
    goto_child, goto_next, goto_parent = cursor.goto_first_child, cursor.goto_next_sibling, cursor.goto_parent
    stack: list[int] = []
    parent_row, row_count = -1, 0
    while True:
        node = cursor.node
        assert node is not None
        nodes.append(node)
        parent.append(parent_row)
        row_count += 1
        last.append(row_count)
        if goto_child():
            stack.append(parent_row)
            parent_row = row_count - 1
            continue
        while not goto_next():
            if not goto_parent():
                return _build_node_rows(nodes, parent, last)
            last[parent_row] = row_count
            parent_row = stack.pop()


def _build_node_rows(nodes: list[tree_sitter.Node], parent: list[int], last: list[int]) -> NodeRows:
    start = [node.start_byte for node in nodes]
    end = [node.end_byte for node in nodes]
    return NodeRows(
        kind=[node.kind_id for node in nodes],
        start=start,
        end=end,
        parent=parent,
        last=last,
        missing=[
            row
            for row, (first, stop) in enumerate(zip(start, end, strict=True))
            if first == stop and nodes[row].is_missing
        ],
    )


def build_tree(
    source: EncodedText, root: tree_sitter.Node, language: str, grammar: tree_sitter.Language
) -> Tree:
    """Build the `Tree` of a parsed text.

    Args:
        source: The text.
        root: The root of its syntax tree.
        language: Public name of the language.
        grammar: The grammar, for the names of kind ids.
    """
    rows = read_node_rows(root)
    node_kinds = _read_node_kinds(grammar)
    kind, start_byte, end_byte, parent, last = np.array(
        [rows.kind, rows.start, rows.end, rows.parent, rows.last], np.int32
    )
    error = kind == _ERROR_KIND_ID
    kind_number = np.where(error, len(node_kinds.place) - 1, kind)
    name_index = node_kinds.place[kind_number]
    occurs = np.zeros(len(node_kinds.names), np.bool_)
    occurs[name_index] = True
    start, end = source.characters(start_byte), source.characters(end_byte)
    error[rows.missing] = True
    childless = last == np.arange(1, len(last) + 1)
    return Tree(
        text=source.text,
        language=language,
        kinds=tuple(node_kinds.names[index] for index in np.flatnonzero(occurs).tolist()),
        kind=(np.cumsum(occurs, dtype=np.int32) - 1)[name_index],
        parent=parent,
        start=start,
        end=end,
        last=last,
        named=node_kinds.named[kind_number],
        error=error,
        leaves=np.flatnonzero(childless & (end > start)).astype(np.int32),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Rules that classify the leaves of a tree as code tokens.

    All lists hold node kinds as the grammar spells them. A leaf whose kind is in no list is punctuation.

    Attributes:
        keywords: Reserved words.
        identifiers: Names; their roles come from `identifiers.scm`, else they are variables.
        operators: Operators.
        comments: Comments.
        layout: Characters that only join or split lines, such as a backslash before a newline.
        literals: Role of each literal kind (``string``, ``number``, ...).
        whole: Kinds with children that are a single token to tasks: strings.
        holds_text: Kinds with children whose text between the children is a literal too.
        parent_overrides: For a parent kind, the token kinds of child kinds that differ from the lists.
        words: For a parent kind, or "" for any, token kinds of words that the grammar parses as identifiers.
    """

    keywords: frozenset[str]
    identifiers: frozenset[str]
    operators: frozenset[str]
    comments: frozenset[str]
    layout: frozenset[str]
    literals: Mapping[str, str]
    whole: frozenset[str]
    holds_text: frozenset[str]
    parent_overrides: Mapping[str, Mapping[str, str]]
    words: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSettings:
    """The settings of a `language.toml`.

    Attributes:
        grammar: Importable package of the grammar, as `Grammar` takes it.
        distribution: Name of the grammar's distribution, for its version.
        rules: Version of the folder's rules, raised manually when a change in the folder changes a result.
        suffixes: File suffixes with their dot.
        builtins: Names that the language provides.
        members: Text before and after a function that is no valid file by itself. A text that parses as one
            function there has that node as its tree everywhere.
        wrappers: The same for `sonde.languages.engine.tokens.parse_with_wrappers` only.
        declared_first: Whether a name refers to a variable only after its declaration, else in all of its
            scope.
        tokens: Rules that classify leaves as code tokens.
    """

    grammar: str
    distribution: str
    rules: int
    suffixes: tuple[str, ...]
    builtins: frozenset[str]
    members: tuple[tuple[str, str], ...]
    wrappers: tuple[tuple[str, str], ...]
    declared_first: bool
    tokens: TokenRules


def read_table(package: str, name: str) -> dict[str, Any]:
    """Read the TOML file ``<name>.toml`` of a package, or return an empty table if there is none."""
    file = files(package) / f"{name}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def has_grammar(package: str) -> bool:
    """Return whether a language is parsed by a tree-sitter grammar."""
    return "grammar" in read_table(package, "language")


def read_settings(package: str) -> LanguageSettings:
    """Read the `language.toml` of a language's package."""
    table = read_table(package, "language")
    tokens: dict[str, Any] = table["tokens"]
    list_names = ("keywords", "identifiers", "operators", "comments", "layout", "whole", "holds_text")
    return LanguageSettings(
        grammar=table["grammar"],
        distribution=table["distribution"],
        rules=table["rules"],
        suffixes=tuple(table["suffixes"]),
        builtins=frozenset(table["builtins"]),
        members=tuple((prefix, suffix) for prefix, suffix in table.get("members", ())),
        wrappers=tuple((prefix, suffix) for prefix, suffix in table.get("wrappers", ())),
        declared_first=table.get("declared_first", False),
        tokens=TokenRules(
            **{name: frozenset(tokens.get(name, ())) for name in list_names},
            literals={kind: role for role, kinds in tokens["literals"].items() for kind in kinds},
            parent_overrides=tokens.get("under", {}),
            words=tokens.get("words", {}),
        ),
    )


@runtime_checkable
class Language(Protocol):
    """A programming language (or plain text), defined by a folder of queries and rules.

    All positions are characters; ends are exclusive. No method executes or imports the code that it reads.
    """

    @property
    def name(self) -> str:
        """Return the public name, which is the folder's."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Return the file suffixes with their dot."""
        ...

    @property
    def builtins(self) -> frozenset[str]:
        """Return the names that the language itself provides."""
        ...

    @property
    def version(self) -> str:
        """Return the version of the grammar and of the folder's rules, part of all dependent keys."""
        ...

    def parse(self, text: str) -> Tree:
        """Parse a text; the tree of a text that does not parse has ERROR nodes."""
        ...

    def functions(self, text: str) -> tuple[Function, ...]:
        """List the functions that lie in no other function, in text order; fast, builds no `Tree`."""
        ...

    def definitions(self, text: str) -> tuple[Definition, ...]:
        """List every function, method and class definition, nested ones included; fast."""
        ...

    def calls(self, text: str) -> tuple[Call, ...]:
        """List every call by name, in text order; fast."""
        ...

    def tokens(self, tree: Tree) -> CodeTokens:
        """Return the code tokens with kind and role."""
        ...

    def constructs(self, tree: Tree) -> tuple[Construct, ...]:
        """List the spans of language-neutral constructs, which nest and may overlap."""
        ...


F = TypeVar("F")


LANGUAGES: Registry[Language] = Registry("sonde.languages", "language", "language", protocols=(Language,))


QUERY_FACETS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tokens": ("sonde.languages.engine.metrics", ()),
    "edits": ("sonde.languages.engine.edits", ()),
    "keywords": ("sonde.languages.engine.edits", ("edits.toml",)),
    "places": ("sonde.languages.engine.edits", ("edits.scm",)),
    "operators": ("sonde.languages.engine.edits", ("edits.scm", "edits.toml")),
    "program": ("sonde.languages.engine.program_tokens", ()),
    "metrics": ("sonde.languages.engine.metrics", ("metrics.scm",)),
    "tagging": ("sonde.languages.engine.tagging", ("tagging.toml",)),
    "flow": ("sonde.languages.engine.data_flow", ("locals.scm",)),
    "dependencies": ("sonde.languages.engine.data_flow", ("locals.scm", "flow.scm")),
    "misuse": ("sonde.languages.engine.bug_sites", ("locals.scm",)),
    "bugs": ("sonde.languages.engine.bug_sites", ("locals.scm", "bugs.scm", "bugs.toml")),
    "relations": ("sonde.languages.engine.relations", ("relations.toml",)),
    "deprecations": ("sonde.languages.engine.deprecations", ("deprecations.scm", "deprecations.toml")),
    "edges": ("sonde.languages.engine.relation_query", ("relations.scm",)),
}
"""Facets implemented once for all languages: the module, and the files that a language's folder must hold.

A facet without files needs only the tokens of a grammar. A module may implement several facets, the later
ones of which need more files.
"""


ENTRY_POINT_GROUP = "sonde.facets"
"""Entry point group for facets that a package adds to an existing language, named ``<language>.<facet>``."""


def get_facet(language: str, name: str, protocol: type[F]) -> F:
    """Return a facet of a language.

    The module ``<language>/<name>.py`` defines ``facet``, which is called once with the language and returns
    an instance of ``protocol``. A facet defined by queries and tables alone
    (`QUERY_FACETS`) needs no module: a folder with the files has it. A package may add a facet by an entry
    point (`ENTRY_POINT_GROUP`), which takes precedence over `QUERY_FACETS`.

    Args:
        language: Public name of the language.
        name: Name of the facet, the stem of its module: ``"metrics"``, ``"relations"``, ...
        protocol: Class or runtime-checkable protocol of the facet, which is the return type.

    Raises:
        UnknownNameError: No language has this name.
        UsageError: The language does not have this facet; the message names those that do.
    """
    facet: F = _get_checked_facet(language, name, protocol)
    return facet


@functools.cache
def _get_checked_facet(language: str, name: str, protocol: type[Any]) -> Any:
    """Return a facet after checking it against its protocol, once, since facets are fetched per function."""
    facet = _load_facet(language, name)
    if not isinstance(facet, protocol):
        raise TypeError(f"facet {name!r} of {language!r} does not answer {protocol.__name__}")
    return facet


@functools.cache
def has_facet(language: str, name: str) -> bool:
    """Return whether a language has a facet, without importing it."""
    return bool(_find_module(language, name))


def _find_module(language: str, name: str) -> str:
    """Find the module that defines a facet: the language's own, a plugin's or the shared one; "" if none."""
    package = LANGUAGES.module_name(language)
    if importlib.util.find_spec(f"{package}.{name}") is not None:
        return f"{package}.{name}"
    entry_point = find_entry_points(ENTRY_POINT_GROUP).get(f"{language}.{name}")
    if entry_point is not None:
        return entry_point.module
    module, required_files = QUERY_FACETS.get(name, ("", ()))
    is_available = (
        module and has_grammar(package) and all((files(package) / file).is_file() for file in required_files)
    )
    return module if is_available else ""


@functools.cache
def _load_facet(language: str, name: str) -> Any:
    implementation = LANGUAGES.load(language)
    if not has_facet(language, name):
        alternatives = (
            ", ".join(candidate for candidate in LANGUAGES.names() if has_facet(candidate, name)) or "none"
        )
        raise UsageError(f"language {language!r} has no {name}; languages that have: {alternatives}")
    return importlib.import_module(_find_module(language, name)).facet(implementation)
