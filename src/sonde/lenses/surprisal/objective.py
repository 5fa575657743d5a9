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
from sonde.lenses._quirks import quirks_on
from sonde.lenses.surprisal.options import ALONE, CAUSAL, PLL, SurprisalOptions
from sonde.lenses.surprisal.seams import FILED, FIRST_UNSCORED, LENS, PADS
from sonde.models import Capabilities
from sonde.models._resolve import SERVED
from sonde.results.scores import Score


def objective_for(models: Mapping[str, Capabilities], options: Mapping[str, Option]) -> str:
    """The objective that a user names, else that of the decoders of a run where there are any."""
    if "objective" in options:
        return SurprisalOptions.read(options).objective
    return PLL if models and all(_fitting(model) == PLL for model in models.values()) else CAUSAL


def unfit(models: Mapping[str, Capabilities], options: Mapping[str, Option]) -> Mapping[str, str]:
    """The models that the objective of a run does not fit, each with the reason."""
    objective = objective_for(models, options)
    if SurprisalOptions.read(options).before != ALONE:
        served = [name for name, model in models.items() if model.kind == SERVED.kind]
        reason = "lens 'surprisal' has a server score each text alone; leave out option before"
        return dict.fromkeys(served, reason)
    return {
        name: f"lens 'surprisal' asks this {model.kind} by {_fitting(model)} and the others by "
        f"{objective}, and the two never share a table; run it by itself (-m {name}), with "
        f"--option surprisal.objective={_fitting(model)}"
        for name, model in models.items()
        if _fitting(model) != objective
    }


def settled(models: Mapping[str, Capabilities], options: Mapping[str, Option]) -> Mapping[str, Option]:
    """The options with the objective that fits the models of a run."""
    return {**options, "objective": PLL} if objective_for(models, options) == PLL else options


def _fitting(model: Capabilities) -> str:
    # What a server scores from left to right is a decoder.
    return CAUSAL if model.kind in ("decoder", SERVED.kind) else PLL


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
    for quirk in quirks_on(LENS, settings):
        filed = quirk.published is not None and quirk.published.seam is FILED
        if filed or quirk.name in (FIRST_UNSCORED, PADS):
            raise UsageError(
                f"lens 'surprisal': {quirk.name!r} is about scores from left to right, which decoders have; "
                "run masked models in corrected mode without it"
            )


def named(scores: Iterable[Score], objective: str) -> Iterator[Score]:
    """Scores that say their objective."""
    for score in scores:
        yield dataclasses.replace(score, objective=objective)
