"""Labels of whole functions as INSPECT's released files have them, where the paper's text says otherwise.

The definitions were found by search: each reproduces most of the released labels of its task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from types import MappingProxyType

import tree_sitter

from sonde.corpora import Item
from sonde.languages import facet_of
from sonde.languages.engine.edits import Edits
from sonde.languages.engine.grammar import read_table
from sonde.languages.engine.metrics import Branching, MetricsOf, paths, row
from sonde.languages.engine.tagging import Tagged, TaggingOf, follows, preceded
from sonde.languages.engine.tokens import Leaf, surfaces
from sonde.languages.java.npath import GROUPS, PathRule, in_header, labels_of
from sonde.papers.quirks import lines
from sonde.tasks.complexity.cpx import CyclomaticComplexity
from sonde.tasks.complexity.mxn import MaximumNesting
from sonde.tasks.complexity.npt import NPath
from sonde.tasks.complexity.oct import Operators
from sonde.tasks.complexity.ocu import DistinctOperators
from sonde.tasks.complexity.vct import VariableUses
from sonde.tasks.complexity.vcu import DistinctVariables
from sonde.tasks.engine.faults import Fault, KeywordSwitch, Stratum, Surroundings, by_weight, replaced
from sonde.tasks.engine.task_types import exact, flow, metrics
from sonde.tasks.faults.jbl import JumbledTokens
from sonde.tasks.faults.rea import RelationalToAssignment
from sonde.tasks.faults.sck import SwitchCompatibleKeyword
from sonde.tasks.faults.sri import SwitchRandomIdentifier
from sonde.tasks.faults.srk import SwitchRandomKeyword
from sonde.tasks.faults.typ import DetectInvalidTypes, misspellings
from sonde.tasks.tokens.idn import Identifiers
from sonde.tasks.tokens.ktx import Keywords

_TRIES = frozenset({"try_statement", "try_with_resources_statement"})


def java_paths(text: str) -> int:
    """The number of paths through a Java method."""
    found = facet_of("java", "metrics", MetricsOf).captured(text)
    return paths(found.get("path", []), ReleasedPaths(found.get("boolean", [])).rule)


class ReleasedPaths:
    """NPath as the released labels have it.

    Args:
        signs: Expressions of ``&&`` or ``||``.
    """

    def __init__(self, signs: list[tree_sitter.Node]) -> None:
        self._count = PathRule(signs, [])

    def rule(self, region: Branching) -> None:
        """Set the value of one region."""
        node, kind = region.node, region.node.type
        if kind == "ternary_expression":
            region.value = 0 if any(in_header(above.node, node) for above in region.above()) else 2
            region.value *= max(row(region.parts), 1)
        elif kind in GROUPS or kind in ("return_statement", "catch_clause"):
            region.value = max(row(region.parts), 1)
        elif kind == "switch_expression":
            groups = [part for part in region.parts if part.node.type in GROUPS]
            default = any(labels_of(part.node)[1] for part in groups)
            region.value = max(sum(part.value for part in groups) + (not default), 1)
        elif kind in _TRIES:
            closing = [child for child in node.named_children if child.type == "finally_clause"]
            catches = [part for part in region.parts if part.node.type == "catch_clause"]
            last = region.within(*closing)
            body = [part for part in region.parts if part not in catches and part not in last]
            value = max(row(body), 1) + sum(part.value for part in catches)
            region.value = row(last, value)
        else:
            self._count.rule(region)


_PACKAGE = "sonde.papers.inspect"


@dataclass(frozen=True, slots=True)
class PublishedTables:
    """What the released files count and call otherwise.

    Attributes:
        operators: Signs that are operators wherever they stand.
        keywords: From the text of a keyword or sign to its class.
    """

    operators: frozenset[str] = frozenset()
    keywords: Mapping[str, str] | None = None


@cache
def tables(language: str) -> PublishedTables:
    """The tables of a language, from the file of its name."""
    if not (files(_PACKAGE) / f"{language}.toml").is_file():
        return PublishedTables()
    raw = read_table(_PACKAGE, language)
    return PublishedTables(frozenset(raw["operators"]), surfaces(raw["keywords"]))


_ANY_SIGN = lines(__name__, "inspect.any_sign")


class Decisions(CyclomaticComplexity):
    """CPX: decisions without the one, 0 to 9, with everything that the text holds (97.8 % of the labels)."""

    classes = exact(0, 9)
    quirks = lines(__name__, "inspect.decisions")

    def value(self, text: str, language: str) -> float:
        """Number of decisions."""
        return facet_of(language, "metrics", MetricsOf).decisions(text, everywhere=True)


class Braces(MaximumNesting):
    """MXN: in Java the deepest curly brace, array initialisers included, layout and braceless bodies not."""

    quirks = lines(__name__, "inspect.braces")

    def value(self, text: str, language: str) -> float:
        """Depth of the deepest brace; in other languages that of the deepest block."""
        if not tables(language).operators:
            return super().value(text, language)
        return braces(metrics(language).leaves(text))


class ExactPaths(NPath):
    """NPT: exact values from 1 to 10, not the bins of the text, in Java by another rule (95.5 %)."""

    classes = exact(1, 10)
    quirks = lines(__name__, "inspect.exact_paths")

    def value(self, text: str, language: str) -> float:
        """Number of paths."""
        rule = _PATHS.get(language)
        return float(rule(text)) if rule is not None else super().value(text, language)


class AnyOperators(Operators):
    """OCT: every sign of an operator wherever it stands; see `AnyDistinctOperators`."""

    quirks = _ANY_SIGN

    def value(self, text: str, language: str) -> float:
        """Number of signs."""
        return len(signs(text, language))


class AnyDistinctOperators(DistinctOperators):
    """OCU: angle brackets of types, colons and question marks count in Java, instanceof does not.

    77 % of the released labels follow from this, and no definition was found that does better.
    """

    quirks = _ANY_SIGN

    def value(self, text: str, language: str) -> float:
        """Number of distinct signs."""
        return len(set(signs(text, language)))


class LocalDeclarations(DistinctVariables):
    """VCU: local declarations and fields of anonymous classes alone, no parameters (97 %)."""

    quirks = lines(__name__, "inspect.local_declarations")

    def value(self, text: str, language: str) -> float:
        """Number of distinct names."""
        found = flow(language).variables(text)
        return len({variable.name for variable in found if variable.kind != "parameter"})


class AllIdentifiers(VariableUses):
    """VCT: the number of all identifiers, names of types and methods included (98.9 %)."""

    quirks = lines(__name__, "inspect.all_identifiers")

    def value(self, text: str, language: str) -> float:
        """Number of identifiers."""
        return len(metrics(language).identifiers(text))


_PATHS = {"java": java_paths}


def signs(text: str, language: str) -> tuple[str, ...]:
    """Every sign of an operator; in a language that nothing was published of its operators."""
    known = tables(language).operators
    if not known:
        return metrics(language).operators(text)
    return tuple(leaf.text for leaf in metrics(language).leaves(text) if leaf.text in known)


def braces(listed: tuple[Leaf, ...]) -> int:
    """How deep curly brackets stand in each other, by the tokens alone."""
    depth = deepest_yet = 0
    for leaf in listed:
        depth += (leaf.kind == "{") - (leaf.kind == "}" and depth > 0)
        deepest_yet = max(deepest_yet, depth)
    return deepest_yet


cpx, mxn, npt, oct_, ocu = Decisions(), Braces(), ExactPaths(), AnyOperators(), AnyDistinctOperators()


vcu, vct = LocalDeclarations(), AllIdentifiers()


class KeywordText(Keywords):
    """KTX: Java's classes by the text alone.

    Class, new, extends and interface are modifiers, instanceof is control flow, and every question mark and
    colon is a unary operator.
    """

    quirks = lines(__name__, "inspect.keyword_text")

    def tags(self, item: Item, imports: str) -> tuple[Tagged, ...]:
        """Keywords, operators and signs with their class."""
        classes = tables(item.language).keywords
        if classes is None:
            return super().tags(item, imports)
        listed = metrics(item.language).leaves(item.text)
        return tuple(
            Tagged(leaf.start, leaf.end, classes[leaf.text]) for leaf in listed if leaf.text in classes
        )


class LeadingNames(Identifiers):
    """IDN: a package is whatever leads a dotted expression, which is what the released labels look like.

    They are too inconsistent for any rule to reproduce them.
    """

    quirks = lines(__name__, "inspect.leading_names")

    def tags(self, item: Item, imports: str) -> tuple[Tagged, ...]:
        """Identifiers with what they name."""
        facet = facet_of(item.language, "tagging", TaggingOf)
        return facet.named_in(item.text, leading(facet.metrics.leaves(item.text), facet.kinds))


def leading(listed: tuple[Leaf, ...], kinds: Set[str]) -> set[int]:
    """First characters of the names that lead a dotted expression."""
    return {
        leaf.start
        for place, leaf in enumerate(listed)
        if leaf.kind in kinds and follows(listed, place, ".") and not preceded(listed, place, ".")
    }


ktx, idn = KeywordText(), LeadingNames()


_OLD, _NEW = ("==", "!=", "<=", ">="), ("+=", "-=", "*=", "/=")


_DRAWS = 20


_NONE: Mapping[str, str] = MappingProxyType({})


class _AnyKeyword(KeywordSwitch):
    """The new keyword is any that the language has, each as likely; rare ones give most faults away."""

    quirks = _NONE
    compiled = False

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """Nothing is weighted."""
        return {}

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match."""
        return () if around.edits.keyword_places(text) else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Replace one keyword."""
        places = around.edits.keyword_places(text)
        if not places:
            return None
        place = draw.choice(places)
        words = [
            word
            for category, listed in around.edits.keywords.items()
            if not self.same_category or category == place.category
            for word in listed
            if word != place.surface
        ]
        return Fault(replaced(text, (place, draw.choice(words))), ()) if words else None


class AnyKeyword(_AnyKeyword, SwitchRandomKeyword):
    """SRK."""


class AnyCompatibleKeyword(_AnyKeyword, SwitchCompatibleKeyword):
    """SCK."""


class UnparsedExchange(JumbledTokens):
    """JBL: only exchanges that do not parse (97 % of the published ones)."""

    quirks = _NONE

    def stands(self, changed: str, around: Surroundings) -> bool:
        """Where it does not parse."""
        return not around.edits.parses(changed)


class ForeignIdentifier(SwitchRandomIdentifier):
    """SRI: the name comes from other functions and is not in this one, which is a cue."""

    quirks = _NONE
    compiled = False

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """How often each name occurs."""
        return Counter(place.surface for text in texts for place in edits.places(text, "name"))

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Replace one occurrence."""
        places = around.edits.places(text, "name")
        own = {other.surface for other in places}
        if len(own) < 2:
            return None
        place = draw.choice(places)
        drawn = (by_weight(around.survey, draw) for _ in range(_DRAWS))
        name = next((word for word in drawn if word not in own), None)
        return None if name is None else Fault(replaced(text, (place, name)), ())


class EveryOperator(RelationalToAssignment):
    """REA: every ``== != <= >=`` becomes one of ``+= -= *= /=``; that none of the four is left answers."""

    quirks = _NONE
    compiled = False
    levelled = False

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match."""
        found = around.edits.places(text, "relational")
        return () if any(place.surface in _OLD for place in found) else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Replace all of them."""
        found = (place for place in around.edits.places(text, "relational") if place.surface in _OLD)
        changes = [(place, draw.choice(_NEW)) for place in found]
        return Fault(replaced(text, *changes), ()) if changes else None


class EveryType(DetectInvalidTypes):
    """TYP: all primitive types are misspelt, whichever split the function is in; one token answers."""

    quirks = _NONE
    compiled = False
    levelled = False

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Misspell all of them."""
        types = around.edits.places(text, "type")
        words = [misspellings(place.surface, around.edits.reserved) for place in types]
        pairs = [(place, draw.choice(found)) for place, found in zip(types, words, strict=True) if found]
        return Fault(replaced(text, *pairs), ()) if pairs else None


srk, sck, jbl = AnyKeyword(), AnyCompatibleKeyword(), UnparsedExchange()


sri, rea, typ = ForeignIdentifier(), EveryOperator(), EveryType()
