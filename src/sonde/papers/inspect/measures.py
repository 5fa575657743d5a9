"""Labels of whole functions as INSPECT's released files have them, where the paper's text says otherwise.

The definitions were found by search: each reproduces most of the released labels of its task.
"""

from __future__ import annotations

from sonde.languages import facet_of
from sonde.languages._leaves import Leaf
from sonde.languages._metrics import MetricsOf
from sonde.papers.declared import lines
from sonde.papers.inspect.paths import java_paths
from sonde.papers.inspect.tables import tables
from sonde.tasks._measured import exact, flow, metrics
from sonde.tasks.complexity.cpx import CyclomaticComplexity
from sonde.tasks.complexity.mxn import MaximumNesting
from sonde.tasks.complexity.npt import NPath
from sonde.tasks.complexity.oct import Operators
from sonde.tasks.complexity.ocu import DistinctOperators
from sonde.tasks.complexity.vct import VariableUses
from sonde.tasks.complexity.vcu import DistinctVariables

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
