"""A language made of a tree-sitter grammar and a folder of queries.

The folder holds `language.toml` (see `_settings`), `definitions.scm` and `calls.scm` (see `_definitions`),
`identifiers.scm` (captures are ``TOKEN_ROLES``, see `_tokens`; ``unbound.ROLE`` is one of names that mean no
variable), `constructs.scm` (captures are ``CONSTRUCT_LABELS``), and in `rules.py` what none of them can say.
"""

from __future__ import annotations

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import tree_sitter

from sonde.base.plugins import public_stem
from sonde.languages.engine.grammar import (
    Grammar,
    Match,
    Parsed,
    Settings,
    Subtree,
    columns,
    error_spans,
    has_table,
    node_rows,
    read_settings,
    read_table,
)
from sonde.languages.engine.names import Locals, locals_of, unbound
from sonde.languages.engine.text import EncodedText, Kept, plain_breaks
from sonde.languages.engine.tokens import Leaf, ParsedText, code_tokens, leaves, read
from sonde.languages.engine.tree import Call, CodeTokens, Construct, Definition, Function, Tree

_ROLES = ("function", "declaration", "class", "scope", "barrier")


_CALLED = ("method", "bare", "unbound")


@dataclass(slots=True)
class Site:
    """One place of `definitions.scm`, in bytes.

    ``within`` is the innermost site around it, ``heads`` where the lines of its further decorators and of its
    name begin, each with where that itself begins.
    """

    role: str
    start: int
    end: int
    name: tuple[int, int] | None = None
    span: int | None = None
    heads: tuple[tuple[int, int], ...] = ()
    doc: tuple[int, int] | None = None
    within: Site | None = None

    @property
    def in_function(self) -> bool:
        """Whether a function or a barrier is anywhere around."""
        return any(site.role in ("function", "barrier") for site in self.around())

    def around(self) -> Iterator[Site]:
        """The sites around this one, innermost first."""
        site = self.within
        while site is not None:
            yield site
            site = site.within


def sites(matches: Iterable[Match]) -> list[Site]:
    """Merge the matches about one node and nest the places, in text order."""
    found: dict[tuple[int, int, str], Site] = {}
    for match in matches:
        role = next(name for name in _ROLES if name in match)
        node = match[role][0]
        start, end = node.start_byte, node.end_byte
        site = found.setdefault((start, end, role), Site(role, start, end))
        # A name that the grammar put in where the text has none is no name.
        if "name" in match and not match["name"][0].is_missing:
            site.name = match["name"][0].byte_range
        if "span" in match:
            span = match["span"][0]
            site.span = span.start_byte
            site.heads = tuple(
                (part.start_byte - part.start_point.column, part.start_byte)
                for part in span.children[1:]
                if part.start_point.column
            )
        if "doc" in match:
            # Of several comments in a row the last one stands next to the definition.
            site.doc = max(match["doc"][-1].byte_range, site.doc or (0, 0))
        if "doc.lines" in match and (above := list(_directly_above(node, match["doc.lines"]))):
            # The query may match each end of the row of comments.
            begin = min(above[-1].start_byte, site.doc[0] if site.doc else start)
            site.doc = begin, above[0].end_byte
    ordered = sorted(found.values(), key=lambda site: (site.start, -site.end, site.role != "scope"))
    open_sites: list[Site] = []
    for site in ordered:
        while open_sites and open_sites[-1].end <= site.start:
            open_sites.pop()
        site.within = open_sites[-1] if open_sites else None
        open_sites.append(site)
    return ordered


def _directly_above(node: tree_sitter.Node, comments: list[tree_sitter.Node]) -> Iterator[tree_sitter.Node]:
    """The comments that end on the line before a node, or before another such comment, the last one first."""
    row = node.start_point.row
    for comment in reversed(comments):
        before = comment.prev_sibling
        beside = before is not None and before.end_point.row == comment.start_point.row
        if comment.end_point.row + 1 != row or beside:
            return
        yield comment
        row = comment.start_point.row


def functions(
    found: Iterable[Site], source: EncodedText, docstring: Callable[[str], str]
) -> tuple[Function, ...]:
    """Functions with no enclosing function; ``docstring`` takes the marks off documentation."""
    listed: list[Function] = []
    for site in found:
        if site.role != "function" or site.name is None or site.in_function:
            continue
        name = source.slice(*site.name)
        outer = [source.slice(*around.name) for around in site.around() if around.name is not None]
        start = site.start if site.span is None else site.span
        listed.append(
            Function(
                start=source.at(start),
                end=source.at(site.end),
                name=name,
                qualified_name=".".join([*reversed(outer), name]),
                docstring=docstring(source.slice(*site.doc)) if site.doc else "",
                margins=tuple(
                    (source.at(line), source.at(head))
                    for line, head in site.heads
                    if not source.data[line:head].strip()
                ),
            )
        )
    return tuple(listed)


def definitions(found: Iterable[Site], source: EncodedText) -> tuple[Definition, ...]:
    """All named definitions; a function directly in a class or scope is a method."""
    listed: list[Definition] = []
    for site in found:
        if site.name is None or site.role not in ("function", "declaration", "class"):
            continue
        kind = "class" if site.role == "class" else "function"
        if kind == "function" and site.within is not None and site.within.role in ("class", "scope"):
            kind = "method"
        start, end = site.name
        listed.append(Definition(source.slice(start, end), kind, source.at(start), source.at(end)))
    return tuple(sorted(listed, key=lambda definition: definition.start))


def calls(
    matches: Sequence[Match],
    errors: list[tuple[int, int]],
    source: EncodedText,
    unbound: Callable[[], Collection[int]],
) -> tuple[Call, ...]:
    """Calls by name, in text order.

    Args:
        matches: Those of `calls.scm`.
        errors: Byte spans of ERROR nodes.
        source: The text.
        unbound: Gives the first bytes of names that mean no variable.
    """
    starts = [start for start, _ in errors]
    free = unbound() if any("unbound" in match for match in matches) else ()
    left_out = {node.start_byte for match in matches for node in match.get("not", ())}
    listed: list[Call] = []
    for match in matches:
        how = next((name for name in _CALLED if name in match), None)
        if how is None:
            continue
        called = match[how][0]
        start, end = called.byte_range
        # As of definitions: a name that the grammar put in is no name.
        if called.is_missing or start in left_out or (how == "unbound" and start not in free):
            continue
        arguments = match["arguments"][0].byte_range if "arguments" in match else (end, end)
        before = bisect_right(starts, start) - 1
        listed.append(
            Call(
                name=source.slice(start, end),
                start=source.at(start),
                end=source.at(end),
                is_method=how == "method",
                arguments_start=source.at(arguments[0]),
                arguments_end=source.at(arguments[1]),
                in_error=before >= 0 and start < errors[before][1],
            )
        )
    return tuple(sorted(listed, key=lambda call: call.start))


_UNBOUND = "unbound."


def _member(package: str) -> Any:
    return importlib.import_module(package).language


class TreeSitterLanguage:
    """The `Language` protocol over a folder's `language.toml`, queries and rules.

    Args:
        package: The folder as a package, ``__name__`` in its ``__init__.py``.
        docstring: Takes documentation as it stands in the text, marks included, and gives its words;
            empty for what is not documentation after all.
        compiles: Whether the language's own compiler takes a text, where Python has it at hand.
    """

    def __init__(
        self,
        package: str,
        *,
        docstring: Callable[[str], str],
        compiles: Callable[[str], bool] = lambda text: True,
    ) -> None:
        self._package = package
        self._docstring = docstring
        self.compiles = compiles
        """Whether the language's own compiler takes a text; for facets."""
        self.syntax: Callable[[str], tuple[EncodedText, Parsed]] = Kept(self._parse)
        """The grammar's own tree of a text, with the way from its bytes to characters; for facets."""
        self._sites: Callable[[str], tuple[list[Site], EncodedText]] = Kept(self._find_sites)
        self.parse: Callable[[str], Tree] = Kept(self._columns)
        """The syntax tree as columns."""
        self.reading: Callable[[str], ParsedText] = Kept(self._read)
        """The tree of a function, perhaps inside a wrapper; for facets."""
        self.leaves: Callable[[str], tuple[Leaf, ...]] = Kept(self._leaves)
        """The tokens as a lexer lists them: no comments, no layout, a string is one; for facets."""
        self.locals: Callable[[str], Locals] = Kept(self._locals)
        """What binds names in a function and what refers to them; for facets."""
        self.unbound: Callable[[str], frozenset[int]] = Kept(self._unbound_in)
        """First bytes of a function's names that mean no variable; for facets."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _member, (self._package,)

    @property
    def name(self) -> str:
        """Public name, the folder's name."""
        return public_stem(self._package)

    @cached_property
    def settings(self) -> Settings:
        """What `language.toml` says."""
        return read_settings(self._package)

    @cached_property
    def grammar(self) -> Grammar:
        """The grammar and its queries."""
        return Grammar(self.settings.grammar, self._package)

    def table(self, name: str) -> dict[str, Any]:
        """What a TOML file of the folder says, ``name`` without its ``.toml``, or nothing; for facets."""
        return read_table(self._package, name) if has_table(self._package, name) else {}

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File suffixes with their dot."""
        return self.settings.suffixes

    @property
    def builtins(self) -> frozenset[str]:
        """Names that the language provides."""
        return self.settings.builtins

    @property
    def version(self) -> str:
        """Versions of tree-sitter and of the grammar, and the folder's rules number."""
        parts = (f"{name} {version(name)}" for name in ("tree-sitter", self.settings.distribution))
        return ", ".join([*parts, f"rules {self.settings.rules}"])

    def functions(self, text: str) -> tuple[Function, ...]:
        """Definitions with no enclosing function, methods included, in text order."""
        found, source = self._sites(text)
        return functions(found, source, lambda written: self._docstring(plain_breaks(written)))

    def definitions(self, text: str) -> tuple[Definition, ...]:
        """Every named definition, nested ones included, in text order."""
        found, source = self._sites(text)
        return definitions(found, source)

    def calls(self, text: str) -> tuple[Call, ...]:
        """Every call by name, in text order."""
        source, parsed = self.syntax(text)
        root = parsed.root_node
        return calls(
            self.grammar.matches("calls", root),
            error_spans(root),
            source,
            lambda: self._unbound(root),
        )

    def tokens(self, tree: Tree) -> CodeTokens:
        """Code tokens with kind and role."""
        source, parsed = self.syntax(tree.text)
        return code_tokens(tree, self.settings.tokens, self.roles(parsed.root_node), source)

    def roles(self, root: tree_sitter.Node) -> list[tuple[str, list[tree_sitter.Node]]]:
        """The nodes of each role of `identifiers.scm`, a later one taking precedence; for facets."""
        found = self.grammar.captures("identifiers", root)
        if not any(role.startswith(_UNBOUND) for role, _ in found):
            return found
        free = self._unbound(root)
        return [
            (role.removeprefix(_UNBOUND), [node for node in nodes if node.start_byte in free])
            if role.startswith(_UNBOUND)
            else (role, nodes)
            for role, nodes in found
        ]

    def constructs(self, tree: Tree) -> tuple[Construct, ...]:
        """Spans of language-neutral constructs, in text order, outer ones first."""
        source, parsed = self.syntax(tree.text)
        return _construct_spans(self.grammar.captures("constructs", parsed.root_node), source)

    def _unbound(self, root: tree_sitter.Node) -> frozenset[int]:
        """First bytes of names that mean no variable."""
        return unbound(locals_of(self.grammar, root), ordered=self.settings.declared_first)

    def _parse(self, text: str) -> tuple[EncodedText, Parsed]:
        source = EncodedText.of(text)
        parsed = self.grammar.parse(source.data)
        if parsed.root_node.has_error:
            for before, after in self.settings.members:
                around = EncodedText.of(text, before.encode(), after.encode())
                start = len(before.encode()) + len(source.data) - len(source.data.lstrip())
                span = start, start + len(source.data.strip())
                root = self.grammar.parse(around.data).root_node
                node = root.named_descendant_for_byte_range(*span)
                if not root.has_error and node and node.byte_range == span and self._is_function(node):
                    return around, Subtree(node)
        return source, parsed

    def _is_function(self, node: tree_sitter.Node) -> bool:
        return any(match.get("function") == [node] for match in self.grammar.matches("definitions", node))

    def _columns(self, text: str) -> Tree:
        source, parsed = self.syntax(text)
        return columns(node_rows(parsed), source, self.name, self.grammar.language)

    def _read(self, text: str) -> ParsedText:
        return read(self.syntax, text, self.settings.wrappers)

    def _locals(self, text: str) -> Locals:
        return locals_of(self.grammar, self.reading(text).root)

    def _unbound_in(self, text: str) -> frozenset[int]:
        return unbound(self.locals(text), ordered=self.settings.declared_first)

    def _leaves(self, text: str) -> tuple[Leaf, ...]:
        rules = self.settings.tokens
        return self.leaves_of(self.reading(text), without=rules.comments | rules.layout)

    def whole(self, text: str) -> ParsedText:
        """The tree of a text that stands in no wrapper, whether or not it parses so; for facets."""
        source, parsed = self.syntax(text)
        return ParsedText(source, parsed, 0, len(text))

    def leaves_of(self, reading: ParsedText, *, without: Set[str] = frozenset()) -> tuple[Leaf, ...]:
        """The tokens of a parsed text and its comments, but for some kinds; for facets."""
        return leaves(reading, self.settings.tokens, self.grammar.language, without=without)

    def _find_sites(self, text: str) -> tuple[list[Site], EncodedText]:
        source, parsed = self.syntax(text)
        return sites(self.grammar.matches("definitions", parsed.root_node)), source


def _construct_spans(
    captures: Iterable[tuple[str, list[tree_sitter.Node]]], source: EncodedText
) -> tuple[Construct, ...]:
    """The labelled spans, each once, by start and outer before inner; empty spans are left out."""
    found = {
        (node.start_byte, -_visible_end(node, source), label)
        for label, nodes in captures
        for node in nodes
        if node.end_byte > node.start_byte
    }
    return tuple(
        Construct(label, source.at(start), source.at(-negative_end))
        for start, negative_end, label in sorted(found)
    )


def _visible_end(node: tree_sitter.Node, source: EncodedText) -> int:
    """Return the last byte of a node, without the carriage return of a line end that a comment may hold."""
    end = node.end_byte
    return end - 1 if source.data[end - 1 : end + 1] == b"\r\n" else end


_INHERITED = re.compile(r"\{?@inherit_?doc\}?\s*\.?", re.IGNORECASE)


_SUMMARY = re.compile(r"[@\\](summary|description|desc|brief)\b:?", re.IGNORECASE)


_FIELD = re.compile(r"[@\\][A-Za-z]|:(param|parameter|arg|type|returns?|rtype|raises?|keyword|var|ivar)\b")


_SIGNATURES = re.compile(r":?call-seq:", re.IGNORECASE)


_MARKUP = re.compile(r"<[^<>]*>")


_WORD = re.compile(r"[^\W_]")


_STARS = re.compile(r"^[ \t\f]*\*+", re.MULTILINE)


def summary_line(docstring: str) -> str:
    """Return the first line of documentation that says in words what is documented; empty where none does.

    None are what is inherited (``{@inheritDoc}``), the signatures of RDoc (``call-seq:``), examples, rules
    and marks without a word, and tags (``@param``), after which no summary comes.
    """
    lines = [line.strip() for line in docstring.strip().splitlines()]
    while lines:
        line = lines.pop(0)
        if _SIGNATURES.match(line) or line.startswith(">>>"):
            lines = _after_paragraph(lines, wanted=line.lower() in ("call-seq:", ":call-seq:"))
            continue
        line = _SUMMARY.sub("", _INHERITED.sub("", line).strip(), count=1).strip()
        if _FIELD.match(line):
            return ""
        if _WORD.search(_MARKUP.sub("", line)):
            return line
    return ""


def _after_paragraph(lines: list[str], *, wanted: bool) -> list[str]:
    """Return the lines after a paragraph; ``wanted`` says that it may begin after blank lines only."""
    start = next((index for index, line in enumerate(lines) if line), len(lines)) if wanted else 0
    end = next((index for index in range(start, len(lines)) if not lines[index]), len(lines))
    return lines[end:]


def starred(written: str) -> str:
    """The words of a comment such as Javadoc's: marks and leading stars off, tags and HTML left as written.

    A block comment that does not begin with ``/**`` does not document (JLS 3.7 and the javadoc tool).
    """
    if not written.startswith("/**") or len(written) < len("/***/"):
        return ""
    body = written.removeprefix("/**").removesuffix("*/")
    lines = _STARS.sub("", body.rstrip("*").lstrip("*")).splitlines()
    return "\n".join(line.strip() for line in lines).strip()
