"""What a model is asked: decoders for the next subword, masked models for a hidden one.

The two are different quantities. A pseudo-log-likelihood knows both sides of a word, so its numbers are named
apart wherever they are written, and one run holds one of the two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sonde.base.errors import UnknownNameError, UsageError
from sonde.corpora import Item
from sonde.lenses._lens import LensSettings, Option
from sonde.lenses.surprisal.before import FIRST_UNSCORED
from sonde.lenses.surprisal.observe import SHIFT
from sonde.lenses.surprisal.pads import PADS
from sonde.models import Capabilities
from sonde.results.scores import Score

CAUSAL, PLL = "causal", "pll"
OBJECTIVES = (CAUSAL, PLL)

ITEMS = 200
"""Items that a masked model reads where nothing else is asked: each costs a forward a subword."""

CHARACTERS = 1500
"""Length of an item from which on it is left out: cost and memory grow with the square of it."""

OPTIONS: Mapping[str, str] = {
    "objective": "causal for decoders, pll (pseudo-log-likelihood, word by word from left to right) for "
    "masked models (default by the kind of the models)",
    "masked_items": f"with pll, items of a corpus and language at most (default {ITEMS})",
    "masked_characters": f"with pll, longest item that is read, in characters (default {CHARACTERS})",
}


def objective_of(options: Mapping[str, Option]) -> str:
    """How subwords are scored.

    Raises:
        UnknownNameError: There is no such objective.
    """
    objective = str(options.get("objective", CAUSAL))
    if objective not in OBJECTIVES:
        raise UnknownNameError("objective", objective, OBJECTIVES)
    return objective


def settled(models: Mapping[str, Capabilities], options: Mapping[str, Option]) -> Mapping[str, Option]:
    """The options with the objective that fits the models of a run.

    Raises:
        UsageError: The models need two objectives, or another one than is asked for.
    """
    kinds = sorted({model.kind for model in models.values()})
    fitting = {CAUSAL if kind == "decoder" else PLL for kind in kinds}
    if len(fitting) > 1:
        raise UsageError(
            "lens 'surprisal' gives masked models a pseudo-log-likelihood and decoders a surprisal, which "
            "never share a table; run models of each kind by themselves"
        )
    fit = next(iter(fitting), CAUSAL)
    if "objective" in options and objective_of(options) != fit:
        raise UsageError(
            f"lens 'surprisal': objective {options['objective']!r} does not fit the {kinds[0]} of this run; "
            f"give {fit}"
        )
    return {**options, "objective": PLL} if fit == PLL else options


def read_by_masks(items: Sequence[Item], settings: LensSettings) -> Sequence[Item]:
    """The items that a masked model reads: the first ones that are short enough, in the order given.

    Raises:
        UsageError: An option makes no sense, or a quirk of decoders is on.
    """
    most = whole_number(settings, "masked_items", ITEMS)
    longest = whole_number(settings, "masked_characters", CHARACTERS)
    refuse_quirks(settings)
    return [item for item in items if item.text.strip() and len(item.text) <= longest][:most]


def refuse_quirks(settings: LensSettings) -> None:
    """Quirks of scoring from left to right have no meaning for masked models.

    Raises:
        UsageError: One of them is on.
    """
    for quirk in (SHIFT, FIRST_UNSCORED, PADS):
        if settings.mode == "paper" or quirk in settings.quirks:
            raise UsageError(
                f"lens 'surprisal': {quirk!r} is about scores from left to right, which decoders have; "
                "run masked models in corrected mode without it"
            )


def named(scores: Iterable[Score], objective: str) -> Iterator[Score]:
    """Scores that say their objective: pseudo-log-likelihoods have ``params.other`` = ``"pll"``."""
    for score in scores:
        yield (
            dataclasses.replace(score, params={**score.params, "other": PLL}) if objective == PLL else score
        )


def whole_number(settings: LensSettings, name: str, default: int) -> int:
    """An option that is a whole number of at least 1.

    Raises:
        UsageError: It is not.
    """
    value = settings.options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"lens 'surprisal': option {name} = {value!r} is not a whole number of at least 1")
    return value
