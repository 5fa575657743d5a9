"""The quirks of PERPLEXED and CODETOKENIZERS that the surprisal lens can reproduce.

Those of tags are a function of what is aligned, which a paper offers (`sonde.papers.perplexed`); each other
one is implemented beside the rule that it replaces. docs/paper-modes.md says more.
"""

from __future__ import annotations

from collections.abc import Mapping

from sonde.base.errors import UnknownNameError
from sonde.base.outside import check_published
from sonde.lenses._lens import LensSettings
from sonde.lenses.surprisal.before import FIRST_UNSCORED
from sonde.lenses.surprisal.calls import ARGUMENT_NAMES, BARE_CALLS_ONLY, LOCAL_IS_EXTERNAL
from sonde.lenses.surprisal.observe import SHIFT
from sonde.lenses.surprisal.origin import CALL_TAGS, UNWEIGHTED
from sonde.lenses.surprisal.pads import PADS
from sonde.lenses.surprisal.sums import DECODE_MERGE
from sonde.lenses.surprisal.tags import GROUP, published_tags

_TAGS = published_tags()

QUIRKS: Mapping[str, str] = {
    **({} if _TAGS is None else _TAGS.quirks),
    SHIFT: "a loss is filed under the tag and call of the subword before it",
    FIRST_UNSCORED: "nothing is put before a text but what the tokenizer puts there, so the first subword is "
    "mostly not scored, nor is whatever lies beyond the first window",
    PADS: "what fills an item up to the model's context is scored under the pad's string",
    DECODE_MERGE: "vocabulary ids that decode alike are one subword",
    UNWEIGHTED: "the summary of internal and external calls is the unweighted mean of all tag means",
    CALL_TAGS: "only tags whose parent is a call or an argument list are compared",
    LOCAL_IS_EXTERNAL: "calls to definitions of the same file count as external",
    BARE_CALLS_ONLY: "method calls are never internal",
    ARGUMENT_NAMES: "an argument named like a definition of another file is internal",
}


def active(settings: LensSettings) -> frozenset[str]:
    """The quirks that are on: all of them in paper mode, and whichever were named.

    Raises:
        UnknownNameError: A quirk of this lens's systems that does not exist.
        InputError: Quirks are on, and what papers published is not registered.
    """
    if settings.mode == "paper" or settings.quirks:
        check_published(GROUP)
    for quirk in settings.quirks:
        if quirk.startswith(("perplexed.", "codetokenizers.")) and quirk not in QUIRKS:
            raise UnknownNameError("quirk", quirk, QUIRKS)
    return settings.active(QUIRKS)
