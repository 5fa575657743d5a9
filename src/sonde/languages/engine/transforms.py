"""Program transforms that preserve semantics: names, layout, comments and the order of statements.

Each transform preserves the behaviour of the code, taken alone: a name is changed if every identifier of that
spelling is a variable of the text, blank lines and indentation if they lie in no token, comments if they are
tokens of their own, and neighbouring statements are swapped if neither depends on the other. A change that
cannot be shown to be safe is not made.

Names: Rabin et al., "On the generalizability of neural program models with respect to semantic-preserving
program transformations" (2021); and the papers that they build on.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from sonde.base.fingerprint import unit_hash
from sonde.languages.engine.bug_sites import Bugs
from sonde.languages.engine.components import facet_of, has_facet
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.edits import Edits, TextPlace
from sonde.languages.engine.text import in_common
from sonde.languages.engine.treesitter import TreeSitterLanguage

RENAME, SHUFFLE, MISLEAD = "rename", "shuffle", "mislead"


LAYOUT, COMMENTS, DOCSTRINGS, SWAP = "layout", "comments", "docstrings", "swap"


TRANSFORMS = (RENAME, SHUFFLE, MISLEAD, LAYOUT, COMMENTS, DOCSTRINGS, SWAP)


IN_ORDER = (RENAME, SHUFFLE, MISLEAD, LAYOUT, COMMENTS)
"""Transforms that preserve the number and the order of code tokens."""


_SIGIL = re.compile(r"^\W*")


_MEMBER = re.compile(r"(\.|->|::)\s*$")


_BY_NAME = frozenset(
    {
        *("locals", "vars", "eval", "exec", "globals", "compact", "extract", "binding", "instance_eval"),
        "arguments",
    }
)
"""Functions that look names up at run time."""


_WORD = re.compile(r"[^\W\d]\w*")


_LEAVING = frozenset(
    {
        *("return", "yield", "await", "raise", "throw", "break", "continue", "del", "delete", "unset"),
        *("global", "nonlocal", "assert", "import", "defer", "go", "new", "next", "redo", "retry"),
        *("goto", "static", "fallthrough", "lambda", "async"),
    }
)
"""Words of statements that do more than assign a name."""


_DOING = frozenset(("(", "{", "++", "--", ":", "`", "<-", "=>"))
"""Signs of calls, of code inside, and of effects other than an assignment of a name."""


_INDENT = 4


class ChangedText(NamedTuple):
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

    def change(self, text: str, transform: str, seed: int = 0, others: Sequence[str] = ()) -> ChangedText:
        """Apply one of `TRANSFORMS` to a text; the text is returned unchanged if there is nothing to change.

        Args:
            text: The text.
            transform: The name of the transform.
            seed: Random seed.
            other_names: Names of the variables of other functions, for misleading names.
        """
        if transform in (RENAME, SHUFFLE, MISLEAD):
            if transform == RENAME:
                names = self.neutral(text)
            else:
                names = self.shuffled(text, seed) if transform == SHUFFLE else self.misleading(text, others)
            return ChangedText(self.renamed(text, names), names)
        if transform == LAYOUT:
            return ChangedText(self.laid_out(text))
        if transform == SWAP:
            return ChangedText(self.swapped(text, seed))
        return ChangedText(self.uncommented(text) if transform == COMMENTS else self.undocumented(text))

    def names(self, text: str) -> tuple[str, ...]:
        """List the variables of a text that may be renamed, by first occurrence.

        Excluded are names that also refer to something else in the text (a keyword argument, a field, a
        method), names that the language itself defines, and all names if any is looked up at run time.
        """
        return tuple(self._places(text))

    def renamed(self, text: str, names: Mapping[str, str]) -> str:
        """Return the text with some of its `names` replaced, all at once."""
        places = self._places(text)
        changes = [(place, names[name]) for name, held in places.items() if name in names for place in held]
        return _replaced(text, changes)

    def neutral(self, text: str) -> dict[str, str]:
        """Map the `names` to ``v0``, ``v1``, ..., skipping words that occur in the text."""
        held, found, number = set(_WORD.findall(text)), dict[str, str](), 0
        for name in self.names(text):
            while f"v{number}" in held:
                number += 1
            found[name] = _SIGIL.match(name)[0] + f"v{number}"  # pyright: ignore[reportOptionalSubscript]  it matches the empty string
            number += 1
        return found

    def shuffled(self, text: str, seed: int) -> dict[str, str]:
        """Map each of the `names` to another of them; empty if there are fewer than two."""
        names = sorted(self.names(text), key=lambda name: (unit_hash(seed, "shuffle", text, name), name))
        return dict(zip(names, names[1:] + names[:1], strict=True)) if len(names) > 1 else {}

    def misleading(self, text: str, others: Sequence[str]) -> dict[str, str]:
        """Map the `names` in order to names of other functions; fewer if there are too few of these.

        Args:
            text: The text.
            other_names: Names of the variables of other functions.
        """
        held = set(_WORD.findall(text))
        free = [name for name in dict.fromkeys(others) if _bare(name) not in held]
        return dict(zip(self.names(text), free, strict=False))

    def laid_out(self, text: str) -> str:
        """Remove blank lines and replace each indentation width by its rank times four spaces.

        The order of widths is kept, which is all that a language may depend on. Lines that begin inside a
        token, such as those of a multi-line string, are not changed.
        """
        tokens = self._tokens(text)
        lines = re.findall(r"[^\n]*\n|[^\n]+$", text)
        held: list[tuple[str, bool, bool]] = []
        start = 0
        for line in lines:
            end = start + len(line.rstrip("\r\n"))
            held.append((line, _in_token(start, tokens), _in_token(end, tokens)))
            start += len(line)
        widths = {_width(line) for line, inside, _ in held if not inside and line.strip()}
        ranks = {width: rank for rank, width in enumerate(sorted(widths))}
        found: list[str] = []
        for line, inside, goes_on in held:
            joined = bool(found) and found[-1].rstrip("\r\n").endswith("\\")
            if not inside and not line.strip() and not joined:
                continue
            body = line.rstrip("\r\n")
            end = line[len(body) :]
            if not goes_on and not body.endswith("\\"):
                body = body.rstrip(" \t\f")
            if not inside and body.strip():
                body = " " * (_INDENT * ranks[_width(line)]) + body.lstrip(" \t\f")
            found.append(body + end)
        changed = "".join(found)
        return changed if text.endswith("\n") else changed.rstrip("\r\n")

    def uncommented(self, text: str) -> str:
        """Remove comments, and the lines that contain nothing else."""
        kinds = self._language.settings.tokens.comments
        reading = self._language.whole(text)
        found = [leaf for leaf in self._language.leaves_of(reading) if leaf.kind in kinds]
        changes: list[tuple[TextPlace, str]] = []
        for leaf in found:
            start, end = leaf.start, leaf.end
            # The node of a line comment may include the newline.
            end -= len(text[start:end]) - len(text[start:end].rstrip("\r\n"))
            first = text.rfind("\n", 0, start) + 1
            last = text.find("\n", end)
            last = len(text) if last < 0 else last
            before, behind = text[first:start], text[end:last]
            if not behind.strip():
                alone = not before.strip()
                begin = first if alone else start - (len(before) - len(before.rstrip()))
                stop = min(last + 1, len(text)) if alone else last
                changes.append((TextPlace(begin, stop, ""), ""))
            else:
                changes.append((TextPlace(start, end, ""), "\n" if "\n" in text[start:end] else " "))
        return _replaced(text, changes) if _apart(changes) else text

    def undocumented(self, text: str) -> str:
        """Remove comments and the documentation inside the function."""
        bare = facet_of(self._language.name, "bugs", Bugs).undocumented(text)
        return self.uncommented(bare)

    def swapped(self, text: str, seed: int) -> str:
        """Swap neighbouring statements that do not depend on each other.

        Both only assign names; of overlapping pairs one is selected, by hash.
        """
        edits = facet_of(self._language.name, "edits", Edits)
        taken: list[tuple[TextPlace, TextPlace]] = []
        used: set[TextPlace] = set()
        pairs = list(self._independent(text, edits))
        for pair in sorted(pairs, key=lambda one: unit_hash(seed, "swap", one[0].start, one[0].surface)):
            if used.isdisjoint(pair):
                taken.append(pair)
                used.update(pair)
        changes = [change for one, two in taken for change in ((one, two.surface), (two, one.surface))]
        return _replaced(text, changes)

    def keeps(self, text: str, changed: str, transform: str) -> bool:
        """Return whether a transformed text parses and has the tokens that its transform must preserve.

        Layout and comments change no token; names and order keep their number.
        """
        edits = facet_of(self._language.name, "edits", Edits)
        if not edits.parses(changed):
            return False
        before, after = edits.tokens(text), edits.tokens(changed)
        if transform in (LAYOUT, COMMENTS):
            return [one[2:] for one in before] == [one[2:] for one in after]
        return transform == DOCSTRINGS or len(before) == len(after)

    def _places(self, text: str) -> dict[str, list[TextPlace]]:
        """Map each name that may be changed to its occurrences."""
        if not has_facet(self._language.name, "flow") or self._language.syntax(text)[1].root_node.has_error:
            return {}
        edits = facet_of(self._language.name, "edits", Edits)
        tokens = edits.tokens(text)
        if any(token.surface in _BY_NAME for token in tokens):
            return {}
        found: defaultdict[str, list[TextPlace]] = defaultdict(list)
        kinds: defaultdict[str, set[str]] = defaultdict(set)
        for variable in facet_of(self._language.name, "flow", Flow).variables(text):
            for start, end in variable.places:
                found[variable.name].append(TextPlace(start, end, variable.name))
            kinds[variable.name].add(variable.kind)
        starts = {place.start for places in found.values() for place in places}
        else_meant = {word for token in tokens for word in _words_beside(text, token, starts)}
        reading, held = self._language.reading(text), self._language.locals(text)
        fixed = {reading.text(node) for node, how in held.references if how}
        reserved = edits.reserved | self._language.builtins
        return {
            name: places
            for name, places in found.items()
            if kinds[name] <= {"parameter", "local"}
            and name not in fixed
            and _bare(name) not in reserved
            and _bare(name) not in _CONVENTIONAL
            and _bare(name) not in else_meant
            and all(text[place.start : place.end] == name for place in places)
        }

    def _independent(self, text: str, edits: Edits) -> Iterator[tuple[TextPlace, TextPlace]]:
        bound, tokens = edits.places(text, "bound"), edits.tokens(text)
        calls = [call.start for call in self._language.calls(text)]
        for block in edits.blocks(text):
            for one, two in pairwise(block):
                between = text[one.end : two.start]
                if between.strip(" \t\r\n;") or one.surface == two.surface:
                    continue
                if any(one.start <= start < two.end for start in calls):
                    continue
                sides = [_plain(statement, bound, tokens) for statement in (one, two)]
                if sides[0] is None or sides[1] is None:
                    continue
                (gives, sees), (other_gives, other_sees) = sides[0], sides[1]
                if not gives & (other_gives | other_sees) and not other_gives & sees:
                    yield one, two

    def _tokens(self, text: str) -> Sequence[tuple[int, int]]:
        """Return the spans of tokens and comments, in text order."""
        return [(leaf.start, leaf.end) for leaf in self._language.leaves_of(self._language.whole(text))]


_CONVENTIONAL = frozenset(("self", "cls", "this"))
"""Names that only say that a method belongs to a class."""


def _bare(name: str) -> str:
    """Strip the sigil from a name."""
    return _SIGIL.sub("", name)


def _words_beside(text: str, token: TextPlace, places: Set[int]) -> Iterator[str]:
    """Yield the words of a token that may be names and start at none of ``starts``.

    Every word of a string with interpolated code counts. A word after a dot or an arrow is a member.
    """
    if _is_member(text, token) or token.start in places:
        return
    if token.surface[-1:] not in "\"'`/":
        yield _bare(token.surface)
    elif any(token.start < place < token.end for place in places):
        for found in _WORD.finditer(token.surface):
            if token.start + found.start() not in places:
                yield found.group()


def renamed_token(text: str, token: TextPlace, names: Mapping[str, str]) -> str | None:
    """Return a code token with variables renamed; None if a variable lies inside the token.

    A word after a dot or an arrow is a member, which keeps its name.
    """
    if _is_member(text, token):
        return token.surface
    if token.surface in names:
        return names[token.surface]
    inside = {_bare(name) for name in names}.intersection(_WORD.findall(token.surface))
    return None if inside else token.surface


def _is_member(text: str, token: TextPlace) -> bool:
    return _MEMBER.search(text[max(0, token.start - 8) : token.start]) is not None


def _plain(
    statement: TextPlace, bound: Sequence[TextPlace], tokens: Sequence[TextPlace]
) -> tuple[Set[str], Set[str]] | None:
    """Return the names that a statement assigns and those it mentions; None if it may do more than assign.

    It calls nothing, so that only the assigned names can change; reading a field or an element is taken to
    have no effect.
    """
    held = [one for one in tokens if statement.start <= one.start and one.end <= statement.end]
    words = {one.surface for one in held}
    gives = {one.surface for one in bound if statement.start <= one.start and one.end <= statement.end}
    if not gives or any(not re.fullmatch(r"\W?\w+", name) for name in gives):
        return None
    if words & _LEAVING or words & _DOING or "\n" in statement.surface:
        return None
    return gives, {word for word in words if re.fullmatch(r"\W?\w+", word)}


def _in_token(place: int, tokens: Sequence[tuple[int, int]]) -> bool:
    return any(start < place < end for start, end in tokens)


def _width(line: str) -> int:
    """Return the width of the indentation of a line; a tab goes to the next multiple of eight."""
    body = line.lstrip(" \t\f")
    return len(line[: len(line) - len(body)].replace("\f", "").expandtabs(8))


def _apart(changes: Sequence[tuple[TextPlace, str]]) -> bool:
    ordered = sorted(changes, key=lambda change: change[0].start)
    return all(one[0].end <= two[0].start for one, two in pairwise(ordered))


def _replaced(text: str, changes: Sequence[tuple[TextPlace, str]]) -> str:
    parts: list[str] = []
    position = 0
    for place, word in sorted(changes, key=lambda change: change[0].start):
        parts += [text[position : place.start], word]
        position = place.end
    return "".join([*parts, text[position:]])


class Carried:
    """Maps spans and edits of a text to its transformed version.

    Args:
        language: The language of both.
        text: The text.
        change: The result of the transform.
        transform: Its name.
    """

    def __init__(self, language: TreeSitterLanguage, text: str, change: ChangedText, transform: str) -> None:
        self._edits = facet_of(language.name, "edits", Edits)
        self._rules = Transforms(language)
        self._text, self._change, self._transform = text, change, transform

    def place(self, start: int, end: int) -> tuple[int, int] | None:
        """Map a span of whole code tokens to the transformed text.

        Returns:
            First character and one past the last; None if the span does not begin and end with a code token,
            or its tokens are not adjacent in the transformed text.
        """
        first = next((at for at, token in enumerate(self._before) if token.start == start), None)
        last = next((at for at, token in enumerate(self._before) if token.end == end), None)
        there = None if first is None or last is None else self._numbers_of(first, last)
        return None if there is None else (self._after[there[0]].start, self._after[there[1]].end)

    def edited(self, text: str) -> str | None:
        """Apply to the transformed text the edit that turns the original into ``text``.

        Args:
            text: The original with one span edited; it need not parse.

        Returns:
            The edited text; None if the edit does not consist of code tokens, or cannot be transferred.
        """
        if self._transform in (LAYOUT, COMMENTS):
            # These depend on lines and comments only, wherever the edit is.
            changed = self._rules.change(text, self._transform).text
            same = _surfaces(self._edits.tokens(changed)) == _surfaces(self._edits.tokens(text))
            return changed if same else None
        before, after = self._before, self._edits.tokens(text)
        ahead, behind = _in_common(self._text, before, text, after)
        there = self._numbers_of(max(ahead - 1, 0), min(len(before) - behind, len(before) - 1))
        if there is None:
            return None
        # From the token before the edit to the one after it, so that the gaps between tokens are included.
        left, first = (self._after[there[0]].end, after[ahead - 1].end) if ahead else (0, 0)
        right, last = len(self._change.text), len(text)
        if behind:
            right, last = self._after[there[1]].start, after[len(after) - behind].start
        stretch = self._renamed(text, first, last, after[ahead : len(after) - behind])
        if stretch is None:
            return None
        changed = self._change.text[:left] + stretch + self._change.text[right:]
        return self._rules.uncommented(changed) if self._transform == DOCSTRINGS else changed

    def _renamed(self, text: str, start: int, end: int, tokens: Sequence[TextPlace]) -> str | None:
        """Rename the variables in a span of a text; None if one lies inside a token."""
        parts: list[str] = []
        for token in tokens:
            word = renamed_token(text, token, self._change.names)
            if word is None:
                return None
            parts += [text[start : token.start], word]
            start = token.end
        return "".join([*parts, text[start:end]])

    @cached_property
    def _before(self) -> tuple[TextPlace, ...]:
        return self._edits.tokens(self._text)

    @cached_property
    def _after(self) -> tuple[TextPlace, ...]:
        return self._edits.tokens(self._change.text)

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """Map the index of each token to its index in the transformed text."""
        if self._transform in IN_ORDER:
            return dict(enumerate(range(len(self._after)))) if len(self._before) == len(self._after) else {}
        found = SequenceMatcher(None, _surfaces(self._before), _surfaces(self._after), autojunk=False)
        return {
            block.a + at: block.b + at for block in found.get_matching_blocks() for at in range(block.size)
        }

    def _numbers_of(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the first and last index of tokens in the transformed text; None if not adjacent there."""
        there = [self._numbers.get(number) for number in range(first, last + 1)]
        if not there or there[0] is None or there != list(range(there[0], there[0] + len(there))):
            return None
        return there[0], there[0] + len(there) - 1


def _surfaces(tokens: Sequence[TextPlace]) -> list[str]:
    return [token.surface for token in tokens]


def _in_common(
    text: str, tokens: Sequence[TextPlace], other: str, others: Sequence[TextPlace]
) -> tuple[int, int]:
    """Count the common tokens at the beginning and at the end of two texts, gaps included."""
    same = in_common(text, other)
    most, ahead, behind = min(len(tokens), len(others)), 0, 0
    while ahead < most and tokens[ahead].end <= same and tokens[ahead] == others[ahead]:
        ahead += 1
    same = in_common(text[::-1], other[::-1])
    apart = len(other) - len(text)
    while ahead + behind < most and tokens[-1 - behind].start >= len(text) - same:
        one, two = tokens[-1 - behind], others[-1 - behind]
        if (one.start + apart, one.end + apart) != (two.start, two.end):
            break
        behind += 1
    return ahead, behind
