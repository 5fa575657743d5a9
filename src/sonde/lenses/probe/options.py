"""What a user may choose about probes, checked in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sonde.base.errors import UnknownNameError, UsageError
from sonde.lenses._lens import LensSettings

PREFIX = "inspect."
"""What the quirks of this paper begin with, those of its labels too."""

PROTOCOL = "inspect.adam_protocol"
SUMMARY = "inspect.summary_token"
ISOLATED = "inspect.isolated_tokens"

QUIRKS: Mapping[str, str] = {
    PROTOCOL: "probes are trained by Adam on unscaled states, an item at a time, always for 20 epochs",
    SUMMARY: "whole texts are pooled at the summary token only",
    ISOLATED: "a token is shown alone, without the function that it stands in",
}
"""What INSPECT's released code does otherwise; docs/paper-modes.md says more."""

POOLINGS = ("mean", "last", "summary")
KINDS = ("linear", "mlp", "ridge")
L2 = (1.0, 0.1, 0.01, 0.001)
SIZES = (100, 1_000, 10_000)
TWIN_SEEDS = 3
TWIN_SHARE = 0.25

OPTIONS: Mapping[str, str] = {
    "pooling": "how the states of a whole text become one: any of mean, last, summary, separated by commas; "
    "the first is the headline's (default mean,last,summary)",
    "probe": "any of linear, mlp, ridge, separated by commas (default linear,ridge; ridge needs a number)",
    "l2": f"penalties to choose from on validation (default {','.join(map(str, L2))})",
    "seeds": "seeds of control tasks, curves and hidden layers (default 3)",
    "controls": "surface baselines, control tasks and models with random weights (default true)",
    "curves": "accuracy at 100, 1,000 and 10,000 examples (default true)",
    "mdl": "online codelength of the labels (default false)",
    "structural": "share of the functions whose syntax trees structural probes look for (default 0)",
    "isolated": "show tokens alone as well as in their function (default false)",
    "twin_share": f"share of the inputs that models with random weights read (default {TWIN_SHARE})",
    "device": "where probes are trained, as PyTorch names it (default cpu)",
    "baseline": "model that the report counts from, by name (default none)",
}


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """The options of a run, with their defaults; see `OPTIONS`."""

    pooling: tuple[str, ...]
    kinds: tuple[str, ...]
    l2: tuple[float, ...]
    seeds: int
    controls: bool
    curves: bool
    mdl: bool
    structural: float
    isolated: bool
    twin_share: float
    paper: bool
    device: str


def read_options(settings: LensSettings) -> ProbeOptions:
    """The options of a lens's settings.

    Raises:
        UsageError: A value that cannot be used.
        UnknownNameError: A pooling or probe that does not exist.
    """
    quirks = frozenset(QUIRKS) if settings.mode == "paper" else settings.quirks
    pooling = ("summary",) if SUMMARY in quirks else POOLINGS
    seeds = settings.options.get("seeds", TWIN_SEEDS)
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise UsageError(f"lens 'probe': option seeds = {seeds!r} is not a whole number of at least 1")
    return ProbeOptions(
        pooling=_names(settings, "pooling", pooling, POOLINGS),
        kinds=_names(settings, "probe", ("linear", "ridge"), KINDS),
        l2=_penalties(settings),
        seeds=seeds,
        controls=_switch(settings, "controls", default=True),
        curves=_switch(settings, "curves", default=True),
        mdl=_switch(settings, "mdl", default=False),
        isolated=_switch(settings, "isolated", default=ISOLATED in quirks),
        structural=_share(settings, "structural", 0.0),
        twin_share=_share(settings, "twin_share", TWIN_SHARE),
        paper=PROTOCOL in quirks,
        device=str(settings.options.get("device", "cpu")),
    )


def _names(
    settings: LensSettings, option: str, default: tuple[str, ...], known: tuple[str, ...]
) -> tuple[str, ...]:
    value = settings.options.get(option)
    if value is None:
        return default
    named = tuple(part.strip() for part in str(value).split(",") if part.strip())
    for name in named:
        if name not in known:
            raise UnknownNameError(f"{option} of lens 'probe'", name, known)
    if not named:
        raise UsageError(f"lens 'probe': option {option} is empty; give any of {', '.join(known)}")
    return named


def _penalties(settings: LensSettings) -> tuple[float, ...]:
    value = settings.options.get("l2")
    if value is None:
        return L2
    try:
        found = tuple(float(part) for part in str(value).split(","))
    except ValueError:
        found = (0.0,)
    if isinstance(value, bool) or min(found) <= 0:
        raise UsageError(f"lens 'probe': option l2 = {value!r}: give numbers above 0, as 1,0.1,0.01")
    return found


def _share(settings: LensSettings, option: str, default: float) -> float:
    share = settings.options.get(option, default)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise UsageError(f"lens 'probe': option {option} = {share!r} is no share; give 0 to 1")
    return float(share)


def _switch(settings: LensSettings, option: str, *, default: bool) -> bool:
    value = settings.options.get(option, default)
    if not isinstance(value, bool):
        raise UsageError(f"lens 'probe': option {option} = {value!r} is neither true nor false")
    return value
