"""Labels of INSPECT's tasks as its released files have them, where the paper's text says otherwise.

The definitions of labels of whole functions were found by search: each reproduces most of the released labels
of its task.

- Paths: NPath as the released labels have it follows only Nejmeh. A try is (body + catches) times finally,
  only conditions of if and loops count their ``&&`` and ``||``, and what stands inside lambdas and classes
  multiplies.
- Tables: `load_published_tables` reads those of a language that INSPECT published data of.
- Classes of tokens are those of the released files.
- Faults of the mutation tasks: most of them show without reading the code. No side is matched with the other,
  and the code that a fault leaves need not parse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from random import Random

from sonde.corpora import Item
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.edits import Edits, replace_spans
from sonde.languages.engine.language import read_table
from sonde.languages.engine.metrics import (
    BranchRegion,
    CapturedNodes,
    Metrics,
    OperatorWeights,
    count_paths,
    count_row_paths,
)
from sonde.languages.engine.tagging import TaggedToken, Tagger, has_next, has_previous
from sonde.languages.engine.tokens import Leaf, invert_table
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.languages.java.npath import SWITCH_GROUPS, JavaPaths, count_labels, is_in_header
from sonde.papers.quirks import describe_quirks
from sonde.tasks.complexity.cpx import CyclomaticComplexity
from sonde.tasks.complexity.mxn import NestingDepth
from sonde.tasks.complexity.npt import NPath
from sonde.tasks.complexity.oct import OperatorCount
from sonde.tasks.complexity.ocu import DistinctOperatorCount
from sonde.tasks.complexity.vct import VariableUseCount
from sonde.tasks.complexity.vcu import DistinctVariableCount
from sonde.tasks.engine.faults import (
    Fault,
    FaultContext,
    KeywordSwitch,
    Stratum,
    sample_by_weight,
)
from sonde.tasks.engine.task_types import exact_classes, get_flow, get_metrics
from sonde.tasks.faults.jbl import JumbledTokens
from sonde.tasks.faults.rea import RelationalToAssignment
from sonde.tasks.faults.sck import SwitchCompatibleKeyword
from sonde.tasks.faults.sri import SwitchRandomIdentifier
from sonde.tasks.faults.srk import SwitchRandomKeyword
from sonde.tasks.faults.typ import DetectInvalidTypes, misspellings
from sonde.tasks.tokens.idn import Identifiers
from sonde.tasks.tokens.ktx import Keywords

_TRIES = frozenset({"try_statement", "try_with_resources_statement"})


class ReleasedPaths(JavaPaths):
    """NPath as the released labels have it."""

    def count(self, text: str) -> int:
        """Count the paths through a Java method."""
        captures = self._metrics.captured(text)
        weights = OperatorWeights(captures.get("boolean", []), [])
        return count_paths(captures.get("path", []), lambda region: self.set_value(region, weights, captures))

    def set_value(self, region: BranchRegion, weights: OperatorWeights, captures: CapturedNodes) -> None:
        """Set the value of one region."""
        node, kind = region.node, region.node.type
        if kind == "ternary_expression":
            region.value = (
                0 if any(is_in_header(ancestor.node, node) for ancestor in region.ancestors()) else 2
            )
            region.value *= max(count_row_paths(region.parts), 1)
        elif kind in SWITCH_GROUPS or kind in ("return_statement", "catch_clause"):
            region.value = max(count_row_paths(region.parts), 1)
        elif kind == "switch_expression":
            groups = [part for part in region.parts if part.node.type in SWITCH_GROUPS]
            default = any(count_labels(part.node)[1] for part in groups)
            region.value = max(sum(part.value for part in groups) + (not default), 1)
        elif kind in _TRIES:
            finally_clauses = [child for child in node.named_children if child.type == "finally_clause"]
            catches = [part for part in region.parts if part.node.type == "catch_clause"]
            last = region.select_parts(*finally_clauses)
            body = [part for part in region.parts if part not in catches and part not in last]
            value = max(count_row_paths(body), 1) + sum(part.value for part in catches)
            region.value = count_row_paths(last, value)
        else:
            super().set_value(region, weights, captures)


_PACKAGE = "sonde.papers.inspect"


@cache
def load_published_tables(language: str) -> tuple[frozenset[str], Mapping[str, str]]:
    """Read the tokens that the released files count and call otherwise, from the file of a language.

    Returns:
        Signs that are operators wherever they stand, and the class of each keyword or sign by its text; both
        empty for a language that INSPECT published no data of.
    """
    table = read_table(_PACKAGE, language)
    return frozenset(table.get("operators", ())), invert_table(table.get("keywords", {}))


_ANY_SIGN = describe_quirks(__name__, "inspect.any_sign")


class DecisionCount(CyclomaticComplexity):
    """CPX: decisions without the one, 0 to 9, with everything that the text holds (97.8 % of the labels)."""

    classes = exact_classes(0, 9)
    quirks = describe_quirks(__name__, "inspect.decisions")

    def value(self, text: str, language: str) -> float:
        """Count the decisions."""
        return get_facet(language, "metrics", Metrics).count_decisions(text, everywhere=True)


class BraceDepth(NestingDepth):
    """MXN: in Java the deepest curly brace, array initialisers included, layout and braceless bodies not."""

    quirks = describe_quirks(__name__, "inspect.braces")

    def value(self, text: str, language: str) -> float:
        """Return the depth of the deepest brace; in other languages that of the deepest block."""
        if not load_published_tables(language)[0]:
            return super().value(text, language)
        return measure_brace_depth(get_metrics(language).leaves(text))


class ExactPathCount(NPath):
    """NPT: exact values from 1 to 10, not the bins of the text, in Java by another rule (95.5 %)."""

    classes = exact_classes(1, 10)
    quirks = describe_quirks(__name__, "inspect.exact_paths")

    def value(self, text: str, language: str) -> float:
        """Count the paths."""
        if not load_published_tables(language)[0]:
            return super().value(text, language)
        return float(_build_paths(language).count(text))


class AnyOperatorCount(OperatorCount):
    """OCT: every sign of an operator wherever it stands; see `AnyDistinctOperatorCount`."""

    quirks = _ANY_SIGN

    def value(self, text: str, language: str) -> float:
        """Count the signs."""
        return len(list_operator_signs(text, language))


class AnyDistinctOperatorCount(DistinctOperatorCount):
    """OCU: angle brackets of types, colons and question marks count in Java, instanceof does not.

    77 % of the released labels follow from this, and no definition was found that does better.
    """

    quirks = _ANY_SIGN

    def value(self, text: str, language: str) -> float:
        """Count the distinct signs."""
        return len(set(list_operator_signs(text, language)))


class LocalDeclarationCount(DistinctVariableCount):
    """VCU: local declarations and fields of anonymous classes alone, no parameters (97 %)."""

    quirks = describe_quirks(__name__, "inspect.local_declarations")

    def value(self, text: str, language: str) -> float:
        """Count the distinct names."""
        variables = get_flow(language).variables(text)
        return len({variable.name for variable in variables if variable.kind != "parameter"})


class IdentifierCount(VariableUseCount):
    """VCT: the number of all identifiers, names of types and methods included (98.9 %)."""

    quirks = describe_quirks(__name__, "inspect.all_identifiers")

    def value(self, text: str, language: str) -> float:
        """Count the identifiers."""
        return len(get_metrics(language).identifiers(text))


@cache
def _build_paths(language: str) -> ReleasedPaths:
    implementation = LANGUAGES.load(language)
    assert isinstance(implementation, TreeSitterLanguage)
    return ReleasedPaths(implementation)


def list_operator_signs(text: str, language: str) -> tuple[str, ...]:
    """List the signs of operators; the corrected operators if nothing was published for the language."""
    operators, _ = load_published_tables(language)
    if not operators:
        return get_metrics(language).operators(text)
    return tuple(leaf.text for leaf in get_metrics(language).leaves(text) if leaf.text in operators)


def measure_brace_depth(leaves: tuple[Leaf, ...]) -> int:
    """Return the nesting depth of curly brackets, by tokens alone."""
    depth = deepest_yet = 0
    for leaf in leaves:
        depth += (leaf.kind == "{") - (leaf.kind == "}" and depth > 0)
        deepest_yet = max(deepest_yet, depth)
    return deepest_yet


cpx, mxn, npt, oct_, ocu = (
    DecisionCount(),
    BraceDepth(),
    ExactPathCount(),
    AnyOperatorCount(),
    AnyDistinctOperatorCount(),
)


vcu, vct = LocalDeclarationCount(), IdentifierCount()


class KeywordText(Keywords):
    """KTX: Java's classes by the text alone.

    Class, new, extends and interface are modifiers, instanceof is control flow, and every question mark and
    colon is a unary operator.
    """

    quirks = describe_quirks(__name__, "inspect.keyword_text")

    def tags(self, item: Item, imports: str) -> tuple[TaggedToken, ...]:
        """Return keywords, operators and signs with their classes."""
        _, classes = load_published_tables(item.language)
        if not classes:
            return super().tags(item, imports)
        leaves = get_metrics(item.language).leaves(item.text)
        return tuple(
            TaggedToken(leaf.start, leaf.end, classes[leaf.text]) for leaf in leaves if leaf.text in classes
        )


class LeadingNames(Identifiers):
    """IDN: the first name of any dotted expression is a package, which is what the released labels look like.

    They are too inconsistent for any rule to reproduce them.
    """

    quirks = describe_quirks(__name__, "inspect.leading_names")

    def tags(self, item: Item, imports: str) -> tuple[TaggedToken, ...]:
        """Return the identifiers with their classes."""
        facet = get_facet(item.language, "tagging", Tagger)
        leaves = facet.metrics.leaves(item.text)
        package_starts = {
            leaf.start
            for index, leaf in enumerate(leaves)
            if leaf.kind in facet.kinds
            and has_next(leaves, index, ".")
            and not has_previous(leaves, index, ".")
        }
        return facet.tag_identifiers(item.text, package_starts)


ktx, idn = KeywordText(), LeadingNames()


_OLD, _NEW = ("==", "!=", "<=", ">="), ("+=", "-=", "*=", "/=")


_DRAWS = 20


class _AnyKeyword(KeywordSwitch):
    """The new keyword is any that the language has, each as likely; rare ones give most faults away."""

    must_compile = False
    must_parse = False

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """Return no counts: nothing is weighted."""
        return {}

    def stratum(self, text: str, context: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum."""
        return () if context.edits.keyword_spans(text) else None

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace one keyword."""
        if spans := context.edits.keyword_spans(text):
            span = draw.choice(spans)
            words = [
                word
                for category, category_words in context.edits.keywords.items()
                if not self.same_category or category == span.category
                for word in category_words
                if word != span.surface
            ]
            if words:
                yield Fault(replace_spans(text, (span, draw.choice(words))), ())


class AnyKeyword(_AnyKeyword, SwitchRandomKeyword):
    """SRK."""


class AnyCompatibleKeyword(_AnyKeyword, SwitchCompatibleKeyword):
    """SCK."""


class UnparsedExchange(JumbledTokens):
    """JBL: only exchanges that do not parse (97 % of the published ones)."""

    def is_valid(self, changed_text: str, context: FaultContext) -> bool:
        """Return whether it does not parse."""
        return not context.edits.parses(changed_text)


class ForeignIdentifier(SwitchRandomIdentifier):
    """SRI: the name comes from other functions and is not in this one, which is a cue."""

    must_compile = False
    must_parse = False

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """Count each name."""
        return Counter(span.surface for text in texts for span in edits.places(text, "name"))

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace one occurrence."""
        spans = context.edits.places(text, "name")
        names = {name_span.surface for name_span in spans}
        if len(names) > 1:
            span = draw.choice(spans)
            candidates = (sample_by_weight(context.survey, draw) for _ in range(_DRAWS))
            name = next((word for word in candidates if word not in names), None)
            if name is not None:
                yield Fault(replace_spans(text, (span, name)), ())


class EveryOperator(RelationalToAssignment):
    """REA: every ``== != <= >=`` becomes one of ``+= -= *= /=``; that none of the four is left answers."""

    must_compile = False
    matches_fault_level = False
    must_parse = False

    def stratum(self, text: str, context: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum."""
        operators = context.edits.places(text, "relational")
        return () if any(span.surface in _OLD for span in operators) else None

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace all of them."""
        operators = (span for span in context.edits.places(text, "relational") if span.surface in _OLD)
        if changes := [(span, draw.choice(_NEW)) for span in operators]:
            yield Fault(replace_spans(text, *changes), ())


class EveryType(DetectInvalidTypes):
    """TYP: all primitive types are misspelt, whichever split the function is in; one token answers."""

    matches_fault_level = False
    must_parse = False

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace all types with misspellings."""
        types = context.edits.places(text, "type")
        words = [misspellings(span.surface, context.edits.reserved_words) for span in types]
        if pairs := [
            (span, draw.choice(options)) for span, options in zip(types, words, strict=True) if options
        ]:
            yield Fault(replace_spans(text, *pairs), ())


srk, sck, jbl = AnyKeyword(), AnyCompatibleKeyword(), UnparsedExchange()


sri, rea, typ = ForeignIdentifier(), EveryOperator(), EveryType()
