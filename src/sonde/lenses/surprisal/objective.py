"""What a model is asked: decoders for the next subword, masked models for a hidden one.

The two are different quantities. A pseudo-log-likelihood knows both sides of a word, so its numbers are named
apart wherever they are written, and one run holds one of the two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sonde.base.errors import UsageError
from sonde.corpora import Item
from sonde.lenses._lens import LensSettings, Option
from sonde.lenses.surprisal.before import FIRST_UNSCORED
from sonde.lenses.surprisal.observe import SHIFT
from sonde.lenses.surprisal.options import CAUSAL, PLL, SurprisalOptions
from sonde.lenses.surprisal.pads import PADS
from sonde.models import Capabilities
from sonde.results.scores import Score


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
    if "objective" in options and SurprisalOptions.read(options).objective != fit:
        raise UsageError(
            f"lens 'surprisal': objective {options['objective']!r} does not fit the {kinds[0]} of this run; "
            f"give {fit}"
        )
    return {**options, "objective": PLL} if fit == PLL else options


def read_by_masks(items: Sequence[Item], settings: LensSettings, options: SurprisalOptions) -> Sequence[Item]:
    """The items that a masked model reads: the first ones that are short enough, in the order given.

    Raises:
        UsageError: A quirk of decoders is on.
    """
    refuse_quirks(settings)
    longest = options.masked_characters
    return [item for item in items if item.text.strip() and len(item.text) <= longest][: options.masked_items]


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
