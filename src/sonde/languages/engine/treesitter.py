"""The `Language` protocol for a tree-sitter grammar and a folder of queries.

The folder holds `language.toml` (see `LanguageSettings`), `definitions.scm` (see `build_sites`), `calls.scm`
(see `build_calls`), `identifiers.scm` (captures are ``TOKEN_ROLES``; ``unbound.ROLE`` only for names that
refer to no variable) and `constructs.scm` (captures are ``CONSTRUCT_LABELS``).
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
    """A definition or scope matched by `definitions.scm`; positions are bytes.

    ``within`` is the innermost site around it. ``heads`` holds, for its further decorators and its name, the
    start of the line and the start of the node itself.
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
        """Return whether a function or a barrier encloses the site."""
        return any(site.role in ("function", "barrier") for site in self.around())

    def around(self) -> Iterator[Site]:
        """Yield the sites around this one, innermost first."""
        site = self.within
        while site is not None:
            yield site
            site = site.within


def sites(matches: Iterable[Match]) -> list[Site]:
    """Merge the matches of each node into a site and nest the sites, in text order."""
    found: dict[tuple[int, int, str], Site] = {}
    for match in matches:
        role = next(name for name in _ROLES if name in match)
        node = match[role][0]
        start, end = node.start_byte, node.end_byte
        site = found.setdefault((start, end, role), Site(role, start, end))
        # A MISSING name, which the parser inserted, is no name.
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
            # Of several consecutive comments the last one is next to the definition.
            site.doc = max(match["doc"][-1].byte_range, site.doc or (0, 0))
        if "doc.lines" in match and (above := list(_directly_above(node, match["doc.lines"]))):
            # The query may match both ends of the run of comments.
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
    """Yield the comments on the lines directly before a node, the last one first."""
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
    """Build the functions that lie in no other function; ``extract_documentation`` strips comment marks."""
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
    """Build all named definitions; a function directly in a class or scope is a method."""
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
    """Build the calls by name, in text order.

    Args:
        matches: Matches of `calls.scm`.
        errors: Byte spans of ERROR nodes.
        source: The text.
        find_unbound_starts: Returns the first bytes of names that refer to no variable.
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
        # As in definitions, a MISSING name is no name.
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
    """A `Language` by a folder's `language.toml` and queries, with the lower-level results that facets use.

    Args:
        package: The folder as a package, ``__name__`` in its ``__init__.py``.
        extract_documentation: Strips the comment or quote marks from documentation as written; returns "" if
            the text is no documentation.
        compiles: Returns whether the language's own compiler accepts a text, if Python has one.
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
        """Return whether the language's own compiler accepts a text."""
        self.syntax: Callable[[str], tuple[EncodedText, Parsed]] = Kept(self._parse)
        """Return the encoded text and its syntax tree."""
        self._sites: Callable[[str], tuple[list[Site], EncodedText]] = Kept(self._find_sites)
        self.parse: Callable[[str], Tree] = Kept(self._columns)
        """Return the syntax tree as columns."""
        self.reading: Callable[[str], ParsedText] = Kept(self._read)
        """Return the parsed text of a function, possibly inside a wrapper."""
        self.leaves: Callable[[str], tuple[Leaf, ...]] = Kept(self._leaves)
        """Return the leaves as a lexer lists them: no comments, no layout, a string is a single leaf."""
        self.locals: Callable[[str], Locals] = Kept(self._locals)
        """Return the definitions and references of a function."""
        self.unbound: Callable[[str], frozenset[int]] = Kept(self._unbound_in)
        """Return the first bytes of a function's names that refer to no variable."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _member, (self._package,)

    @property
    def name(self) -> str:
        """Return the public name, which is the folder's."""
        return public_stem(self._package)

    @cached_property
    def settings(self) -> Settings:
        """Read `language.toml`."""
        return read_settings(self._package)

    @cached_property
    def grammar(self) -> Grammar:
        """Load the grammar and its queries."""
        return Grammar(self.settings.grammar, self._package)

    def table(self, name: str) -> dict[str, Any]:
        """Read the TOML file ``<name>.toml`` of the folder, or return an empty table if there is none."""
        return read_table(self._package, name) if has_table(self._package, name) else {}

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Return the file suffixes with their dot."""
        return self.settings.suffixes

    @property
    def builtins(self) -> frozenset[str]:
        """Return the names that the language itself provides."""
        return self.settings.builtins

    @property
    def version(self) -> str:
        """Return the versions of tree-sitter, the grammar and the folder's rules."""
        parts = (f"{name} {version(name)}" for name in ("tree-sitter", self.settings.distribution))
        return ", ".join([*parts, f"rules {self.settings.rules}"])

    def functions(self, text: str) -> tuple[Function, ...]:
        """List the functions that lie in no other function, methods included, in text order."""
        found, source = self._sites(text)
        return functions(found, source, lambda written: self._docstring(plain_breaks(written)))

    def definitions(self, text: str) -> tuple[Definition, ...]:
        """List every named definition, nested ones included, in text order."""
        found, source = self._sites(text)
        return definitions(found, source)

    def calls(self, text: str) -> tuple[Call, ...]:
        """List every call by name, in text order."""
        source, parsed = self.syntax(text)
        root = parsed.root_node
        return calls(
            self.grammar.matches("calls", root),
            error_spans(root),
            source,
            lambda: self._unbound(root),
        )

    def tokens(self, tree: Tree) -> CodeTokens:
        """Return the code tokens with kind and role."""
        source, parsed = self.syntax(tree.text)
        return code_tokens(tree, self.settings.tokens, self.roles(parsed.root_node), source)

    def roles(self, root: tree_sitter.Node) -> list[tuple[str, list[tree_sitter.Node]]]:
        """Return the nodes of each role of `identifiers.scm`; a later role takes precedence."""
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
        """List the spans of language-neutral constructs, in text order, outer ones first."""
        source, parsed = self.syntax(tree.text)
        return _construct_spans(self.grammar.captures("constructs", parsed.root_node), source)

    def _unbound(self, root: tree_sitter.Node) -> frozenset[int]:
        """Find the first bytes of names that refer to no variable."""
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
        """Parse a text without a wrapper, even if it has errors."""
        source, parsed = self.syntax(text)
        return ParsedText(source, parsed, 0, len(text))

    def leaves_of(self, reading: ParsedText, *, without: Set[str] = frozenset()) -> tuple[Leaf, ...]:
        """Extract the leaves of a parsed text, comments included, without the kinds in ``exclude``."""
        return leaves(reading, self.settings.tokens, self.grammar.language, without=without)

    def _find_sites(self, text: str) -> tuple[list[Site], EncodedText]:
        source, parsed = self.syntax(text)
        return sites(self.grammar.matches("definitions", parsed.root_node)), source


def _construct_spans(
    captures: Iterable[tuple[str, list[tree_sitter.Node]]], source: EncodedText
) -> tuple[Construct, ...]:
    """Build the distinct constructs, by start and outer before inner, without empty spans."""
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
    """Return the end of a node, without the carriage return of CRLF that a comment may include."""
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
    """Return the first line of documentation that is a summary, or "".

    Skipped are inherited documentation (``{@inheritDoc}``), RDoc signatures (``call-seq:``), examples, and
    lines without a word, such as rules. After a tag (``@param``) there is no summary.
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
    """Return the lines after a paragraph, which with ``skip_blank_lines`` may begin after blank lines."""
    start = next((index for index, line in enumerate(lines) if line), len(lines)) if wanted else 0
    end = next((index for index in range(start, len(lines)) if not lines[index]), len(lines))
    return lines[end:]


def starred(written: str) -> str:
    """Strip the marks and leading stars of a Javadoc-style comment; tags and HTML stay as written.

    Return "" for a block comment that does not begin with ``/**``, which is no documentation (JLS 3.7 and
    the javadoc tool).
    """
    if not written.startswith("/**") or len(written) < len("/***/"):
        return ""
    body = written.removeprefix("/**").removesuffix("*/")
    lines = _STARS.sub("", body.rstrip("*").lstrip("*")).splitlines()
    return "\n".join(line.strip() for line in lines).strip()
