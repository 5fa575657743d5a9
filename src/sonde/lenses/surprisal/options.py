"""Options of the surprisal lens, and the objective by which a model is scored.

Decoders predict the next subword (``causal``), masked models predict a hidden subword (``pll``), other models
fill a gap (``infill``). These are different quantities: a pseudo-log-likelihood knows both sides of a word,
and so does an infilled gap. Their numbers are therefore named differently wherever they are written, and one
run holds only one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from sonde.base.errors import UsageError
from sonde.base.options import Count, NonNegative, OneOf, Option, option
from sonde.capture.requests import Start
from sonde.corpora import Item
from sonde.lenses.engine.lens import LensSettings, ServerOptions, get_active_quirks
from sonde.lenses.surprisal.observe import FILED, FIRST_UNSCORED, LENS, PADS
from sonde.models import Capabilities
from sonde.models.engine.files import SERVED

CAUSAL, PLL, INFILL = "causal", "pll", "infill"


NO_CONTEXT = "none"


class SurprisalOptions(ServerOptions):
    """The options of the lens, and those of a server that scores its prompts."""

    lens = "surprisal"

    min_count: Count = option(20, "minimum number of subwords for a slice to have its own row")
    with_internal_calls: bool = option(
        False, "score only items that call into their own repository (PERPLEXED, section 3.1)"
    )
    objective: Annotated[str, OneOf((CAUSAL, PLL, INFILL))] = option(
        CAUSAL,
        "causal for decoders, pll (pseudo-log-likelihood, word by word from left to right) for masked "
        "models, infill (predict each omitted code token from both sides) for encoder-decoders and decoders "
        "that fill in the middle. Default: the first that fits all models",
    )
    bos: Start = option(
        "auto",
        "BOS token before each text for decoders: auto (BOS, else end-of-text, else none), always (as auto, "
        "error if the model has neither), none, or tokenizer (whatever the tokenizer adds)",
    )
    before: Annotated[str, OneOf((NO_CONTEXT, "both"))] = option(
        NO_CONTEXT,
        "file context for decoders: none (each text alone), or both (also after as much of the preceding "
        "text of its file as fits; rows before=file and the paired change)",
    )
    pairs: tuple[str, ...] = option(
        (),
        "fault and bug tasks to read as minimal pairs instead of the items (all for every one): is the "
        "original function likelier than the faulty one",
    )
    completions: NonNegative = option(
        0,
        "places per item from which a local decoder also generates, to check the accepted characters; each "
        "reads the text before it again",
    )
    masked_items: Count = option(
        # Each costs one forward pass per subword.
        200,
        "with pll or infill, maximum items per corpus and language; with pll, maximum pairs per task",
    )
    masked_characters: Count = option(
        # Cost and memory grow with the square of it.
        1500,
        "with pll or infill, maximum length of an item in characters",
    )


def select_objective(models: Mapping[str, Capabilities], options: Mapping[str, Option]) -> str:
    """Return the objective of the options, else that of a run's decoders, else of its first model."""
    if "objective" in options:
        return SurprisalOptions.read(options).objective
    first = [_supported_objectives(model)[0] for model in models.values()]
    return CAUSAL if CAUSAL in first or not first else first[0]


def explain_unfit(name: str, model: Capabilities, objective: str) -> str:
    """Explain why a run's objective does not fit a model; empty if it does."""
    default, *others = _supported_objectives(model)
    if objective in (default, *others):
        return ""
    if objective == INFILL and model.kind == "decoder":
        return (
            "lens 'surprisal': this decoder has no known fill-in tokens; leave out --option "
            "surprisal.objective=infill"
        )
    return (
        f"lens 'surprisal' scores this {model.kind} by {default} and the others by {objective}, which cannot "
        f"be compared; run it separately (-m {name}), with --option surprisal.objective={default}"
    )


def _supported_objectives(model: Capabilities) -> tuple[str, ...]:
    """Return the objectives that a model supports, the default first."""
    if model.kind == SERVED.kind:
        # What a server scores from left to right is a decoder.
        return (CAUSAL,)
    if model.kind == "decoder":
        return (CAUSAL, INFILL) if model.masks else (CAUSAL,)
    return (PLL,) if model.kind == "encoder" else (INFILL,)


def select_masked_items(
    items: Sequence[Item], settings: LensSettings, options: SurprisalOptions
) -> Sequence[Item]:
    """Select the items that are masked: the first that are short enough, in the order given.

    Raises:
        UsageError: A quirk of decoders is on.
    """
    check_no_quirks(settings)
    maximum_length = options.masked_characters
    return [item for item in items if item.text.strip() and len(item.text) <= maximum_length][
        : options.masked_items
    ]


def check_no_quirks(settings: LensSettings) -> None:
    """Check that no quirk of scoring from left to right is on, for masked models.

    Raises:
        UsageError: One of them is on.
    """
    for quirk in get_active_quirks(LENS, settings):
        sets_labels = quirk.published is not None and quirk.published.seam is FILED
        if sets_labels or quirk.name in (FIRST_UNSCORED, PADS):
            raise UsageError(
                f"lens 'surprisal': {quirk.name!r} changes scores from left to right, which only decoders "
                f"have; run masked models in corrected mode without it"
            )
