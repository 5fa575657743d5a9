"""The numbers of a card and the outcomes of requirements in words, the same wherever they are read."""

from __future__ import annotations

from sonde.report._card.card import CardEntry, CardNumber, RequirementOutcome
from sonde.results.formats import legible
from sonde.results.words import in_figures


def subject(one: CardNumber) -> str:
    """Whose number it is and what: lens, task, model and language, then the metric with what qualifies it."""
    whom = ", ".join(filter(None, (one.lens, one.task, one.model, one.side, one.language)))
    return f"{whom}: {metric(one)}"


def metric(one: CardNumber) -> str:
    """The metric of a number with what qualifies it."""
    of = f" of {one.of_metric}" if one.of_metric else ""
    over = f" over {one.compared_to or one.control}" if one.compared_to or one.control else ""
    named = [f"{name} {value}" for name, value in one.slice.items()]
    named += [
        f"{name} {held}"
        for name, held in (("k", one.k), ("layer", one.layer), ("head", one.head))
        if held is not None
    ]
    return f"{one.metric}{of}{over}" + (f" ({', '.join(named)})" if named else "")


def figures(one: CardNumber) -> str:
    """A number with its interval."""
    return in_figures(one.model_dump(include={"value", "ci_low", "ci_high"}))


def required(bound: str, threshold: float) -> str:
    """What is asked of an end of an interval, ``"ci_low"`` or ``"ci_high"``."""
    if bound == "ci_low":
        return f"lower end of the interval at least {threshold:.4g}"
    return f"upper end of the interval at most {threshold:.4g}"


def describe_verdict(one: CardEntry) -> str:
    """Say what may be concluded of a headline, what stands beside it, and at which layers it is encoded."""
    return "; ".join(filter(None, (one.verdict, one.beside, one.layers and one.layers.text)))


def entry_line(one: CardEntry) -> str:
    """A headline of a card on one line of a terminal."""
    return legible(f"{subject(one.number)} {figures(one.number)}: {describe_verdict(one)}")


def outcome_line(one: RequirementOutcome) -> str:
    """The outcome of a requirement on one line: the number, its interval and the threshold."""
    met = "met" if one.met else "not met"
    return legible(f"{met}: {subject(one.number)} {figures(one.number)}: {one.why}")
