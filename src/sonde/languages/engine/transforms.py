"""Program transforms that preserve semantics, and the mapping of spans and edits to their results.

The transforms change names, layout, comments or the order of statements. Each preserves the behaviour of the
code, taken alone: a name is changed if every identifier of that spelling is a variable of the text, blank
lines and indentation if they lie in no token, comments if they are tokens of their own, and neighbouring
statements are swapped if neither depends on the other. A change that cannot be shown to be safe is not made.

`SpanMapper` maps spans and edits by the code tokens that both texts have in common: after most transforms
each token corresponds to the token with the same index, after the others to its match in a sequence that
both texts share. Spans and edits outside such tokens are not mapped.

Names: Rabin et al., "On the generalizability of neural program models with respect to semantic-preserving
program transformations" (2021); and the papers that they build on.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from sonde.base.fingerprint import unit_hash
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.edits import Edits, TextSpan, replace_spans
from sonde.languages.engine.language import get_facet, has_facet
from sonde.languages.engine.text import common_prefix_length
from sonde.languages.engine.treesitter import TreeSitterLanguage

RENAME, SHUFFLE, MISLEAD = "rename", "shuffle", "mislead"


LAYOUT, COMMENTS, DOCSTRINGS, SWAP = "layout", "comments", "docstrings", "swap"


TRANSFORMS = (RENAME, SHUFFLE, MISLEAD, LAYOUT, COMMENTS, DOCSTRINGS, SWAP)


TOKEN_ORDER_TRANSFORMS = (RENAME, SHUFFLE, MISLEAD, LAYOUT, COMMENTS)
"""Transforms that preserve the number and the order of code tokens."""


_SIGIL = re.compile(r"^\W*")


_MEMBER = re.compile(r"(\.|->|::)\s*$")


_NAME_LOOKUPS = frozenset(
    {
        *("locals", "vars", "eval", "exec", "globals", "compact", "extract", "binding", "instance_eval"),
        "arguments",
    }
)
"""Functions that look names up at run time."""


_WORD = re.compile(r"[^\W\d]\w*")


_EFFECT_KEYWORDS = frozenset(
    {
        *("return", "yield", "await", "raise", "throw", "break", "continue", "del", "delete", "unset"),
        *("global", "nonlocal", "assert", "import", "defer", "go", "new", "next", "redo", "retry"),
        *("goto", "static", "fallthrough", "lambda", "async"),
    }
)
"""Words of statements that do more than assign a name."""


_EFFECT_SIGNS = frozenset(("(", "{", "++", "--", ":", "`", "<-", "=>"))
"""Signs of calls, of code inside, and of effects other than an assignment of a name."""


_INDENT = 4


class TransformedText(NamedTuple):
    """A transformed text, and the new names of the variables that were renamed."""

    text: str
    names: Mapping[str, str] = {}


class Transforms:
    """The transforms of texts of one language.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language

    def change(
        self, text: str, transform: str, seed: int = 0, other_names: Sequence[str] = ()
    ) -> TransformedText:
        """Apply one of `TRANSFORMS` to a text; the text is returned unchanged if there is nothing to change.

        Args:
            text: The text.
            transform: The name of the transform.
            seed: Random seed.
            other_names: Names of the variables of other functions, for misleading names.
        """
        renamings: Mapping[str, Callable[[], Mapping[str, str]]] = {
            RENAME: lambda: self.build_neutral_names(text),
            SHUFFLE: lambda: self.shuffle_names(text, seed),
            MISLEAD: lambda: self.select_misleading_names(text, other_names),
        }
        if transform in renamings:
            names = renamings[transform]()
            return TransformedText(self.rename_variables(text, names), names)
        rewrites: Mapping[str, Callable[[], str]] = {
            LAYOUT: lambda: self.normalise_layout(text),
            COMMENTS: lambda: self.remove_comments(text),
            DOCSTRINGS: lambda: self.remove_documentation(text),
            SWAP: lambda: self.swap_statements(text, seed),
        }
        return TransformedText(rewrites[transform]())

    def names(self, text: str) -> tuple[str, ...]:
        """List the variables of a text that may be renamed, by first occurrence.

        Excluded are names that also refer to something else in the text (a keyword argument, a field, a
        method), names that the language itself defines, and all names if any is looked up at run time.
        """
        return tuple(self._find_variable_spans(text))

    def rename_variables(self, text: str, names: Mapping[str, str]) -> str:
        """Return the text with some of its `names` replaced, all at once."""
        spans_by_name = self._find_variable_spans(text)
        changes = [
            (span, names[name]) for name, spans in spans_by_name.items() if name in names for span in spans
        ]
        return replace_spans(text, *changes)

    def build_neutral_names(self, text: str) -> dict[str, str]:
        """Map the `names` to ``v0``, ``v1``, ..., skipping words that occur in the text."""
        words, new_names, index = set(_WORD.findall(text)), dict[str, str](), 0
        for name in self.names(text):
            while f"v{index}" in words:
                index += 1
            new_names[name] = _SIGIL.match(name)[0] + f"v{index}"  # pyright: ignore[reportOptionalSubscript]  it matches the empty string
            index += 1
        return new_names

    def shuffle_names(self, text: str, seed: int) -> dict[str, str]:
        """Map each of the `names` to another of them; empty if there are fewer than two."""
        names = sorted(self.names(text), key=lambda name: (unit_hash(seed, "shuffle", text, name), name))
        return dict(zip(names, names[1:] + names[:1], strict=True)) if len(names) > 1 else {}

    def select_misleading_names(self, text: str, other_names: Sequence[str]) -> dict[str, str]:
        """Map the `names` in order to names of other functions; fewer if there are too few of these.

        Args:
            text: The text.
            other_names: Names of the variables of other functions.
        """
        words = set(_WORD.findall(text))
        free_names = [name for name in dict.fromkeys(other_names) if _strip_sigil(name) not in words]
        return dict(zip(self.names(text), free_names, strict=False))

    def normalise_layout(self, text: str) -> str:
        """Remove blank lines and replace each indentation width by its rank times four spaces.

        The order of widths is kept, which is all that a language may depend on. Lines that begin inside a
        token, such as those of a multi-line string, are not changed.
        """
        leaves = self._language.extract_leaves(self._language.parse_without_wrapper(text))
        tokens = [(leaf.start, leaf.end) for leaf in leaves]
        lines = re.findall(r"[^\n]*\n|[^\n]+$", text)
        line_states: list[tuple[str, bool, bool]] = []
        start = 0
        for line in lines:
            end = start + len(line.rstrip("\r\n"))
            line_states.append((line, _is_in_token(start, tokens), _is_in_token(end, tokens)))
            start += len(line)
        widths = {
            _measure_indent(line)
            for line, starts_in_token, _ in line_states
            if not starts_in_token and line.strip()
        }
        ranks = {width: rank for rank, width in enumerate(sorted(widths))}
        new_lines: list[str] = []
        for line, starts_in_token, ends_in_token in line_states:
            continues = bool(new_lines) and new_lines[-1].rstrip("\r\n").endswith("\\")
            if not starts_in_token and not line.strip() and not continues:
                continue
            body = line.rstrip("\r\n")
            end = line[len(body) :]
            if not ends_in_token and not body.endswith("\\"):
                body = body.rstrip(" \t\f")
            if not starts_in_token and body.strip():
                body = " " * (_INDENT * ranks[_measure_indent(line)]) + body.lstrip(" \t\f")
            new_lines.append(body + end)
        result = "".join(new_lines)
        return result if text.endswith("\n") else result.rstrip("\r\n")

    def remove_comments(self, text: str) -> str:
        """Remove comments, and the lines that contain nothing else."""
        kinds = self._language.settings.tokens.comments
        parsed_text = self._language.parse_without_wrapper(text)
        comments = [leaf for leaf in self._language.extract_leaves(parsed_text) if leaf.kind in kinds]
        changes: list[tuple[TextSpan, str]] = []
        for leaf in comments:
            start, end = leaf.start, leaf.end
            # The node of a line comment may include the newline.
            end -= len(text[start:end]) - len(text[start:end].rstrip("\r\n"))
            first = text.rfind("\n", 0, start) + 1
            last = text.find("\n", end)
            last = len(text) if last < 0 else last
            prefix, suffix = text[first:start], text[end:last]
            if not suffix.strip():
                is_only_comment = not prefix.strip()
                begin = first if is_only_comment else start - (len(prefix) - len(prefix.rstrip()))
                stop = min(last + 1, len(text)) if is_only_comment else last
                changes.append((TextSpan(begin, stop, ""), ""))
            else:
                changes.append((TextSpan(start, end, ""), "\n" if "\n" in text[start:end] else " "))
        return replace_spans(text, *changes) if _are_disjoint(changes) else text

    def remove_documentation(self, text: str) -> str:
        """Remove comments and the documentation inside the function."""
        code = get_facet(self._language.name, "bugs", BugSites).remove_documentation(text)
        return self.remove_comments(code)

    def swap_statements(self, text: str, seed: int) -> str:
        """Swap neighbouring statements that do not depend on each other.

        Both only assign names; of overlapping pairs one is selected, by hash.
        """
        edits = get_facet(self._language.name, "edits", Edits)
        selected_pairs: list[tuple[TextSpan, TextSpan]] = []
        used_spans: set[TextSpan] = set()
        pairs = list(self._find_independent_pairs(text, edits))
        for pair in sorted(pairs, key=lambda pair: unit_hash(seed, "swap", pair[0].start, pair[0].surface)):
            if used_spans.isdisjoint(pair):
                selected_pairs.append(pair)
                used_spans.update(pair)
        changes = [
            change
            for first, second in selected_pairs
            for change in ((first, second.surface), (second, first.surface))
        ]
        return replace_spans(text, *changes)

    def preserves_tokens(self, text: str, changed_text: str, transform: str) -> bool:
        """Return whether a transformed text parses and has the tokens that its transform must preserve.

        Layout and comments change no token; names and order keep their number.
        """
        edits = get_facet(self._language.name, "edits", Edits)
        if not edits.parses(changed_text):
            return False
        old_tokens, new_tokens = edits.tokens(text), edits.tokens(changed_text)
        if transform in (LAYOUT, COMMENTS):
            return [token[2:] for token in old_tokens] == [token[2:] for token in new_tokens]
        return transform == DOCSTRINGS or len(old_tokens) == len(new_tokens)

    def _find_variable_spans(self, text: str) -> dict[str, list[TextSpan]]:
        """Map each name that may be changed to its occurrences."""
        if not has_facet(self._language.name, "flow") or self._language.syntax(text)[1].has_error:
            return {}
        edits = get_facet(self._language.name, "edits", Edits)
        tokens = edits.tokens(text)
        if any(token.surface in _NAME_LOOKUPS for token in tokens):
            return {}
        spans_by_name: defaultdict[str, list[TextSpan]] = defaultdict(list)
        kinds: defaultdict[str, set[str]] = defaultdict(set)
        for variable in get_facet(self._language.name, "flow", Flow).variables(text):
            for start, end in variable.places:
                spans_by_name[variable.name].append(TextSpan(start, end, variable.name))
            kinds[variable.name].add(variable.kind)
        starts = {span.start for spans in spans_by_name.values() for span in spans}
        other_words = {word for token in tokens for word in _find_other_words(text, token, starts)}
        parsed_text, bindings = self._language.reading(text), self._language.locals(text)
        fixed_names = {parsed_text.text(node) for node, restriction in bindings.references if restriction}
        reserved_words = edits.reserved_words | self._language.builtins
        return {
            name: spans
            for name, spans in spans_by_name.items()
            if kinds[name] <= {"parameter", "local"}
            and name not in fixed_names
            and _strip_sigil(name) not in reserved_words
            and _strip_sigil(name) not in _CONVENTIONAL
            and _strip_sigil(name) not in other_words
            and all(text[span.start : span.end] == name for span in spans)
        }

    def _find_independent_pairs(self, text: str, edits: Edits) -> Iterator[tuple[TextSpan, TextSpan]]:
        bound_names, tokens = edits.places(text, "bound"), edits.tokens(text)
        calls = [call.start for call in self._language.calls(text)]
        for block in edits.blocks(text):
            for first, second in pairwise(block):
                gap = text[first.end : second.start]
                if gap.strip(" \t\r\n;") or first.surface == second.surface:
                    continue
                if any(first.start <= start < second.end for start in calls):
                    continue
                effects = [
                    _analyse_assignment(statement, bound_names, tokens) for statement in (first, second)
                ]
                if effects[0] is None or effects[1] is None:
                    continue
                (writes, reads), (next_writes, next_reads) = effects[0], effects[1]
                if not writes & (next_writes | next_reads) and not next_writes & reads:
                    yield first, second


_CONVENTIONAL = frozenset(("self", "cls", "this"))
"""Names that only say that a method belongs to a class."""


def _strip_sigil(name: str) -> str:
    """Strip the sigil from a name."""
    return _SIGIL.sub("", name)


def _find_other_words(text: str, token: TextSpan, starts: Set[int]) -> Iterator[str]:
    """Yield the words of a token that may be names and start at none of ``starts``.

    Every word of a string with interpolated code counts. A word after a dot or an arrow is a member.
    """
    if _is_member(text, token) or token.start in starts:
        return
    if token.surface[-1:] not in "\"'`/":
        yield _strip_sigil(token.surface)
    elif any(token.start < start < token.end for start in starts):
        for match in _WORD.finditer(token.surface):
            if token.start + match.start() not in starts:
                yield match.group()


def rename_token(text: str, token: TextSpan, names: Mapping[str, str]) -> str | None:
    """Return a code token with variables renamed; None if a variable lies inside the token.

    A word after a dot or an arrow is a member, which keeps its name.
    """
    if _is_member(text, token):
        return token.surface
    if token.surface in names:
        return names[token.surface]
    variables = {_strip_sigil(name) for name in names}.intersection(_WORD.findall(token.surface))
    return None if variables else token.surface


def _is_member(text: str, token: TextSpan) -> bool:
    return _MEMBER.search(text[max(0, token.start - 8) : token.start]) is not None


def _analyse_assignment(
    statement: TextSpan, bound_names: Sequence[TextSpan], tokens: Sequence[TextSpan]
) -> tuple[Set[str], Set[str]] | None:
    """Return the names that a statement assigns and those it mentions; None if it may do more than assign.

    It calls nothing, so that only the assigned names can change; reading a field or an element is taken to
    have no effect.
    """
    inner_tokens = [
        token for token in tokens if statement.start <= token.start and token.end <= statement.end
    ]
    words = {token.surface for token in inner_tokens}
    writes = {
        span.surface for span in bound_names if statement.start <= span.start and span.end <= statement.end
    }
    if not writes or any(not re.fullmatch(r"\W?\w+", name) for name in writes):
        return None
    if words & _EFFECT_KEYWORDS or words & _EFFECT_SIGNS or "\n" in statement.surface:
        return None
    return writes, {word for word in words if re.fullmatch(r"\W?\w+", word)}


def _is_in_token(position: int, tokens: Sequence[tuple[int, int]]) -> bool:
    return any(start < position < end for start, end in tokens)


def _measure_indent(line: str) -> int:
    """Return the width of the indentation of a line; a tab goes to the next multiple of eight."""
    body = line.lstrip(" \t\f")
    return len(line[: len(line) - len(body)].replace("\f", "").expandtabs(8))


def _are_disjoint(changes: Sequence[tuple[TextSpan, str]]) -> bool:
    sorted_changes = sorted(changes, key=lambda change: change[0].start)
    return all(first[0].end <= second[0].start for first, second in pairwise(sorted_changes))


class SpanMapper:
    """Maps spans and edits of a text to its transformed version.

    Args:
        language: The language of both.
        text: The text.
        change: The result of the transform.
        transform: Its name.
    """

    def __init__(
        self, language: TreeSitterLanguage, text: str, change: TransformedText, transform: str
    ) -> None:
        self._edits = get_facet(language.name, "edits", Edits)
        self._rules = Transforms(language)
        self._text, self._change, self._transform = text, change, transform
        self._old_tokens, self._new_tokens = self._edits.tokens(text), self._edits.tokens(change.text)

    def map_span(self, start: int, end: int) -> tuple[int, int] | None:
        """Map a span of whole code tokens to the transformed text.

        Returns:
            First character and one past the last; None if the span does not begin and end with a code token,
            or its tokens are not adjacent in the transformed text.
        """
        first = next((index for index, token in enumerate(self._old_tokens) if token.start == start), None)
        last = next((index for index, token in enumerate(self._old_tokens) if token.end == end), None)
        indices = None if first is None or last is None else self._map_indices(first, last)
        return (
            None
            if indices is None
            else (self._new_tokens[indices[0]].start, self._new_tokens[indices[1]].end)
        )

    def apply_edit(self, text: str) -> str | None:
        """Apply to the transformed text the edit that turns the original into ``text``.

        Args:
            text: The original with one span edited; it need not parse.

        Returns:
            The edited text; None if the edit does not consist of code tokens, or cannot be transferred.
        """
        if self._transform in (LAYOUT, COMMENTS):
            # These depend on lines and comments only, wherever the edit is.
            changed_text = self._rules.change(text, self._transform).text
            is_equal = _get_surfaces(self._edits.tokens(changed_text)) == _get_surfaces(
                self._edits.tokens(text)
            )
            return changed_text if is_equal else None
        old_tokens, new_tokens = self._old_tokens, self._edits.tokens(text)
        prefix_count, suffix_count = _count_common_tokens(self._text, old_tokens, text, new_tokens)
        indices = self._map_indices(
            max(prefix_count - 1, 0), min(len(old_tokens) - suffix_count, len(old_tokens) - 1)
        )
        if indices is None:
            return None
        # From the token before the edit to the one after it, so that the gaps between tokens are included.
        left, first = (
            (self._new_tokens[indices[0]].end, new_tokens[prefix_count - 1].end) if prefix_count else (0, 0)
        )
        right, last = len(self._change.text), len(text)
        if suffix_count:
            right, last = self._new_tokens[indices[1]].start, new_tokens[len(new_tokens) - suffix_count].start
        replacement = self._rename_in_span(
            text, first, last, new_tokens[prefix_count : len(new_tokens) - suffix_count]
        )
        if replacement is None:
            return None
        changed_text = self._change.text[:left] + replacement + self._change.text[right:]
        return self._rules.remove_comments(changed_text) if self._transform == DOCSTRINGS else changed_text

    def _rename_in_span(self, text: str, start: int, end: int, tokens: Sequence[TextSpan]) -> str | None:
        """Rename the variables in a span of a text; None if one lies inside a token."""
        parts: list[str] = []
        for token in tokens:
            new_name = rename_token(text, token, self._change.names)
            if new_name is None:
                return None
            parts += [text[start : token.start], new_name]
            start = token.end
        return "".join([*parts, text[start:end]])

    @cached_property
    def _token_indices(self) -> dict[int, int]:
        """Map the index of each token to its index in the transformed text."""
        if self._transform in TOKEN_ORDER_TRANSFORMS:
            return (
                dict(enumerate(range(len(self._new_tokens))))
                if len(self._old_tokens) == len(self._new_tokens)
                else {}
            )
        matcher = SequenceMatcher(
            None, _get_surfaces(self._old_tokens), _get_surfaces(self._new_tokens), autojunk=False
        )
        return {
            block.a + offset: block.b + offset
            for block in matcher.get_matching_blocks()
            for offset in range(block.size)
        }

    def _map_indices(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the first and last index of tokens in the transformed text; None if not adjacent there."""
        indices = [self._token_indices.get(index) for index in range(first, last + 1)]
        if not indices or indices[0] is None or indices != list(range(indices[0], indices[0] + len(indices))):
            return None
        return indices[0], indices[0] + len(indices) - 1


def _get_surfaces(tokens: Sequence[TextSpan]) -> list[str]:
    return [token.surface for token in tokens]


def _count_common_tokens(
    text: str, tokens: Sequence[TextSpan], other_text: str, other_tokens: Sequence[TextSpan]
) -> tuple[int, int]:
    """Count the common tokens at the beginning and at the end of two texts, gaps included."""
    common_length = common_prefix_length(text, other_text)
    maximum, prefix_count, suffix_count = min(len(tokens), len(other_tokens)), 0, 0
    while (
        prefix_count < maximum
        and tokens[prefix_count].end <= common_length
        and tokens[prefix_count] == other_tokens[prefix_count]
    ):
        prefix_count += 1
    common_length = common_prefix_length(text[::-1], other_text[::-1])
    shift = len(other_text) - len(text)
    while (
        prefix_count + suffix_count < maximum and tokens[-1 - suffix_count].start >= len(text) - common_length
    ):
        token, other_token = tokens[-1 - suffix_count], other_tokens[-1 - suffix_count]
        if (token.start + shift, token.end + shift) != (other_token.start, other_token.end):
            break
        suffix_count += 1
    return prefix_count, suffix_count
