"""The `sonde.languages.engine.language.Language` protocol for a tree-sitter grammar and a folder of queries.

The folder holds `language.toml` (see `LanguageSettings`), `definitions.scm`, `calls.scm`, `identifiers.scm`
(captures are ``TOKEN_ROLES``; ``unbound.ROLE`` only for names that refer to no variable), `constructs.scm`
(captures are ``CONSTRUCT_LABELS``), and in `__init__.py` what queries cannot express, such as which comments
are documentation; the functions at the end of this module read comments that several languages write alike.

Captures of `definitions.scm`, one definition or scope per match (see `build_sites`):

- ``@function``: a definition that encloses others, with ``@name``;
- ``@declaration``: one without a body, with ``@name``: a definition, but not a function;
- ``@class`` with ``@name``;
- ``@scope``: code that encloses methods without being a named class; a ``@name`` counts in qualified names;
  it may be the node of the method itself;
- ``@barrier``: code that encloses like a function but has no name, such as a lambda;
- ``@span`` with ``@function``: where the function begins, its decorators included; each part of it is
  aligned with the margin when the function is extracted from its file;
- ``@doc`` with ``@function``: its documentation, marks included;
- ``@doc.lines`` with ``@function``: consecutive comments before it, of which those document that stand
  directly above it, each on lines of its own.

Captures of `calls.scm` (see `TreeSitterLanguage.calls`):

- ``@bare`` or ``@method``: the called name, with ``@arguments`` if there are any;
- ``@unbound``: names that are called if they refer to no variable;
- ``@not``: names that are not called after all.
"""

from __future__ import annotations

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import tree_sitter

from sonde.base.registry import get_public_name
from sonde.languages.engine.language import (
    Grammar,
    LanguageSettings,
    Match,
    build_tree,
    find_error_spans,
    read_settings,
    read_table,
)
from sonde.languages.engine.names import Locals, find_locals, find_unbound
from sonde.languages.engine.text import EncodedText, TextCache, normalise_line_breaks
from sonde.languages.engine.tokens import (
    Leaf,
    ParsedText,
    build_code_tokens,
    extract_leaves,
    parse_with_wrappers,
)
from sonde.languages.engine.tree import Call, CodeTokens, Construct, Definition, Function, Tree

_SITE_ROLES = ("function", "declaration", "class", "scope", "barrier")


_CALL_CAPTURES = ("method", "bare", "unbound")


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
        return any(site.role in ("function", "barrier") for site in self.enclosing_sites())

    def enclosing_sites(self) -> Iterator[Site]:
        """Yield the sites around this one, innermost first."""
        site = self.within
        while site is not None:
            yield site
            site = site.within


def build_sites(matches: Iterable[Match]) -> list[Site]:
    """Merge the matches of each node into a site and nest the sites, in text order."""
    sites_by_key: dict[tuple[int, int, str], Site] = {}
    for match in matches:
        role = next(name for name in _SITE_ROLES if name in match)
        node = match[role][0]
        start, end = node.start_byte, node.end_byte
        site = sites_by_key.setdefault((start, end, role), Site(role, start, end))
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
        if "doc.lines" in match and (comments := list(_find_leading_comments(node, match["doc.lines"]))):
            # The query may match both ends of the run of comments.
            begin = min(comments[-1].start_byte, site.doc[0] if site.doc else start)
            site.doc = begin, comments[0].end_byte
    sorted_sites = sorted(
        sites_by_key.values(), key=lambda site: (site.start, -site.end, site.role != "scope")
    )
    open_sites: list[Site] = []
    for site in sorted_sites:
        while open_sites and open_sites[-1].end <= site.start:
            open_sites.pop()
        site.within = open_sites[-1] if open_sites else None
        open_sites.append(site)
    return sorted_sites


def _find_leading_comments(
    node: tree_sitter.Node, comments: list[tree_sitter.Node]
) -> Iterator[tree_sitter.Node]:
    """Yield the comments on the lines directly before a node, the last one first."""
    row = node.start_point.row
    for comment in reversed(comments):
        previous = comment.prev_sibling
        shares_line = previous is not None and previous.end_point.row == comment.start_point.row
        if comment.end_point.row + 1 != row or shares_line:
            return
        yield comment
        row = comment.start_point.row


def build_functions(
    sites: Iterable[Site], source: EncodedText, extract_documentation: Callable[[str], str]
) -> tuple[Function, ...]:
    """Build the functions that lie in no other function; ``extract_documentation`` strips comment marks."""
    functions: list[Function] = []
    for site in sites:
        if site.role != "function" or site.name is None or site.in_function:
            continue
        name = source.slice(*site.name)
        outer_names = [
            source.slice(*outer_site.name)
            for outer_site in site.enclosing_sites()
            if outer_site.name is not None
        ]
        start = site.start if site.span is None else site.span
        functions.append(
            Function(
                start=source.to_character(start),
                end=source.to_character(site.end),
                name=name,
                qualified_name=".".join([*reversed(outer_names), name]),
                docstring=extract_documentation(source.slice(*site.doc)) if site.doc else "",
                margins=tuple(
                    (source.to_character(line), source.to_character(head))
                    for line, head in site.heads
                    if not source.data[line:head].strip()
                ),
            )
        )
    return tuple(functions)


_UNBOUND_PREFIX = "unbound."


def _load_language(package: str) -> Any:
    return importlib.import_module(package).language


class TreeSitterLanguage:
    """A language by a folder's `language.toml` and queries, with the lower-level results that facets use.

    It follows the protocol `sonde.languages.engine.language.Language`.

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
        extract_documentation: Callable[[str], str],
        compiles: Callable[[str], bool] = lambda text: True,
    ) -> None:
        self._package = package
        self._extract_documentation = extract_documentation
        self.compiles = compiles
        """Return whether the language's own compiler accepts a text."""
        self.syntax: Callable[[str], tuple[EncodedText, tree_sitter.Node]] = TextCache(self._parse)
        """Return the encoded text and the root of its syntax tree, or of the part that represents it."""
        self._sites: Callable[[str], tuple[list[Site], EncodedText]] = TextCache(self._find_sites)
        self.parse: Callable[[str], Tree] = TextCache(
            lambda text: build_tree(*self.syntax(text), self.name, self.grammar.language)
        )
        """Return the syntax tree as columns."""
        self.reading: Callable[[str], ParsedText] = TextCache(
            lambda text: parse_with_wrappers(self.syntax, text, self.settings.wrappers)
        )
        """Return the parsed text of a function, possibly inside a wrapper."""
        self.leaves: Callable[[str], tuple[Leaf, ...]] = TextCache(
            lambda text: self.extract_leaves(
                self.reading(text), exclude=self.settings.tokens.comments | self.settings.tokens.layout
            )
        )
        """Return the leaves as a lexer lists them: no comments, no layout, a string is a single leaf."""
        self.locals: Callable[[str], Locals] = TextCache(
            lambda text: find_locals(self.grammar, self.reading(text).root)
        )
        """Return the definitions and references of a function."""
        self.unbound: Callable[[str], frozenset[int]] = TextCache(
            lambda text: find_unbound(self.locals(text), declared_first=self.settings.declared_first)
        )
        """Return the first bytes of a function's names that refer to no variable."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_language, (self._package,)

    @property
    def name(self) -> str:
        """Return the public name, which is the folder's."""
        return get_public_name(self._package)

    @cached_property
    def settings(self) -> LanguageSettings:
        """Read `language.toml`."""
        return read_settings(self._package)

    @cached_property
    def grammar(self) -> Grammar:
        """Load the grammar and its queries."""
        return Grammar(self.settings.grammar, self._package)

    def captures(self, query: str, text: str) -> dict[str, list[tree_sitter.Node]]:
        """Return the nodes of each capture of a query in a text, parsed without a wrapper."""
        return dict(self.grammar.captures(query, self.syntax(text)[1]))

    def table(self, name: str) -> dict[str, Any]:
        """Read the TOML file ``<name>.toml`` of the folder, or return an empty table if there is none."""
        return read_table(self._package, name)

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
        return build_functions(
            *self._sites(text), lambda comment: self._extract_documentation(normalise_line_breaks(comment))
        )

    def definitions(self, text: str) -> tuple[Definition, ...]:
        """List every named definition, nested ones included, in text order."""
        sites, source = self._sites(text)
        definitions: list[Definition] = []
        for site in sites:
            if site.name is None or site.role not in ("function", "declaration", "class"):
                continue
            kind = "class" if site.role == "class" else "function"
            # A function directly in a class or scope is a method.
            if kind == "function" and site.within is not None and site.within.role in ("class", "scope"):
                kind = "method"
            definitions.append(Definition(source.slice(*site.name), kind, *source.to_span(site.name)))
        return tuple(sorted(definitions, key=lambda definition: definition.start))

    def calls(self, text: str) -> tuple[Call, ...]:
        """List every call by name, in text order."""
        source, root = self.syntax(text)
        matches, errors = self.grammar.matches("calls", root), find_error_spans(root)
        error_starts = [start for start, _ in errors]
        has_unbound = any("unbound" in match for match in matches)
        unbound_starts = self._find_unbound(root) if has_unbound else frozenset[int]()
        excluded_starts = {node.start_byte for match in matches for node in match.get("not", ())}
        calls: list[Call] = []
        for match in matches:
            capture = next((name for name in _CALL_CAPTURES if name in match), None)
            if capture is None:
                continue
            node = match[capture][0]
            start, end = node.byte_range
            # As in definitions, a MISSING name is no name.
            if (
                node.is_missing
                or start in excluded_starts
                or (capture == "unbound" and start not in unbound_starts)
            ):
                continue
            arguments = match["arguments"][0].byte_range if "arguments" in match else (end, end)
            arguments_start, arguments_end = source.to_span(arguments)
            error_index = bisect_right(error_starts, start) - 1
            calls.append(
                Call(
                    source.slice(start, end),
                    *source.to_span((start, end)),
                    is_method=capture == "method",
                    arguments_start=arguments_start,
                    arguments_end=arguments_end,
                    in_error=error_index >= 0 and start < errors[error_index][1],
                )
            )
        return tuple(sorted(calls, key=lambda call: call.start))

    def tokens(self, tree: Tree) -> CodeTokens:
        """Return the code tokens with kind and role."""
        source, root = self.syntax(tree.text)
        return build_code_tokens(tree, self.settings.tokens, self.roles(root), source)

    def roles(self, root: tree_sitter.Node) -> list[tuple[str, list[tree_sitter.Node]]]:
        """Return the nodes of each role of `identifiers.scm`; a later role takes precedence."""
        captures = self.grammar.captures("identifiers", root)
        if not any(role.startswith(_UNBOUND_PREFIX) for role, _ in captures):
            return captures
        unbound_starts = self._find_unbound(root)
        return [
            (
                role.removeprefix(_UNBOUND_PREFIX),
                [node for node in nodes if node.start_byte in unbound_starts],
            )
            if role.startswith(_UNBOUND_PREFIX)
            else (role, nodes)
            for role, nodes in captures
        ]

    def constructs(self, tree: Tree) -> tuple[Construct, ...]:
        """List the distinct spans of language-neutral constructs, in text order, outer ones first."""
        source, root = self.syntax(tree.text)
        spans = {
            (node.start_byte, -_get_visible_end(node, source), label)
            for label, nodes in self.grammar.captures("constructs", root)
            for node in nodes
            if node.end_byte > node.start_byte
        }
        return tuple(
            Construct(label, source.to_character(start), source.to_character(-negative_end))
            for start, negative_end, label in sorted(spans)
        )

    def _find_unbound(self, root: tree_sitter.Node) -> frozenset[int]:
        """Find the first bytes of names that refer to no variable."""
        return find_unbound(find_locals(self.grammar, root), declared_first=self.settings.declared_first)

    def _parse(self, text: str) -> tuple[EncodedText, tree_sitter.Node]:
        source = EncodedText.of(text)
        file_root = self.grammar.parse(source.data).root_node
        if file_root.has_error:
            for prefix, suffix in self.settings.members:
                wrapped_source = EncodedText.of(text, prefix.encode(), suffix.encode())
                start = len(prefix.encode()) + len(source.data) - len(source.data.lstrip())
                span = start, start + len(source.data.strip())
                root = self.grammar.parse(wrapped_source.data).root_node
                node = root.named_descendant_for_byte_range(*span)
                if not root.has_error and node and node.byte_range == span and self._is_function(node):
                    return wrapped_source, node
        return source, file_root

    def _is_function(self, node: tree_sitter.Node) -> bool:
        return any(match.get("function") == [node] for match in self.grammar.matches("definitions", node))

    def parse_without_wrapper(self, text: str) -> ParsedText:
        """Parse a text without a wrapper, even if it has errors."""
        return ParsedText(*self.syntax(text), before=0, length=len(text))

    def extract_leaves(self, parsed_text: ParsedText, *, exclude: Set[str] = frozenset()) -> tuple[Leaf, ...]:
        """Extract the leaves of a parsed text, comments included, without the kinds in ``exclude``."""
        return extract_leaves(parsed_text, self.settings.tokens, self.grammar.language, exclude=exclude)

    def _find_sites(self, text: str) -> tuple[list[Site], EncodedText]:
        source, root = self.syntax(text)
        return build_sites(self.grammar.matches("definitions", root)), source


def _get_visible_end(node: tree_sitter.Node, source: EncodedText) -> int:
    """Return the end of a node, without the carriage return of CRLF that a comment may include."""
    end = node.end_byte
    return end - 1 if source.data[end - 1 : end + 1] == b"\r\n" else end


_INHERIT_TAG = re.compile(r"\{?@inherit_?doc\}?\s*\.?", re.IGNORECASE)


_SUMMARY_TAG = re.compile(r"[@\\](summary|description|desc|brief)\b:?", re.IGNORECASE)


_FIELD_TAG = re.compile(
    r"[@\\][A-Za-z]|:(param|parameter|arg|type|returns?|rtype|raises?|keyword|var|ivar)\b"
)


_SIGNATURES = re.compile(r":?call-seq:", re.IGNORECASE)


_MARKUP = re.compile(r"<[^<>]*>")


_WORD = re.compile(r"[^\W_]")


_STARS = re.compile(r"^[ \t\f]*\*+", re.MULTILINE)


def find_summary_line(documentation: str) -> str:
    """Return the first line of documentation that is a summary, or "".

    Skipped are inherited documentation (``{@inheritDoc}``), RDoc signatures (``call-seq:``), examples, and
    lines without a word, such as rules. After a tag (``@param``) there is no summary.
    """
    lines = [line.strip() for line in documentation.strip().splitlines()]
    while lines:
        line = lines.pop(0)
        if _SIGNATURES.match(line) or line.startswith(">>>"):
            lines = _skip_paragraph(lines, skip_blank_lines=line.lower() in ("call-seq:", ":call-seq:"))
            continue
        line = _SUMMARY_TAG.sub("", _INHERIT_TAG.sub("", line).strip(), count=1).strip()
        if _FIELD_TAG.match(line):
            return ""
        if _WORD.search(_MARKUP.sub("", line)):
            return line
    return ""


def _skip_paragraph(lines: list[str], *, skip_blank_lines: bool) -> list[str]:
    """Return the lines after a paragraph, which with ``skip_blank_lines`` may begin after blank lines."""
    start = next((index for index, line in enumerate(lines) if line), len(lines)) if skip_blank_lines else 0
    end = next((index for index in range(start, len(lines)) if not lines[index]), len(lines))
    return lines[end:]


def strip_comment_stars(comment: str) -> str:
    """Strip the marks and leading stars of a Javadoc-style comment; tags and HTML stay as written.

    Return "" for a block comment that does not begin with ``/**``, which is no documentation (JLS 3.7 and
    the javadoc tool).
    """
    if not comment.startswith("/**") or len(comment) < len("/***/"):
        return ""
    body = comment.removeprefix("/**").removesuffix("*/")
    lines = _STARS.sub("", body.rstrip("*").lstrip("*")).splitlines()
    return "\n".join(line.strip() for line in lines).strip()
