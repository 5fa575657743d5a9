"""What a user may choose about probes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from annotated_types import Ge, Le

from sonde.base.options import AnyDevice, Count, OneOf, Options, Positive, Share, option
from sonde.lenses._lens import LensSettings
from sonde.training.probes.parts import MIN_FOLDS

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
SIZES = (100, 1_000, 10_000)
CONTROL_SEEDS = 3
CONTROL_LEAST = 40
"""Examples of a class that models with random weights read at least, however small their share."""


class ProbeOptions(Options):
    """The options of the lens."""

    lens = "probe"

    pooling: tuple[Annotated[str, OneOf(POOLINGS)], ...] = option(
        POOLINGS, "how the states of a whole text become one; the first is the headline's"
    )
    probe: tuple[Annotated[str, OneOf(KINDS)], ...] = option(
        ("linear", "ridge"), "kinds of probes; ridge needs a number", scoring=True
    )
    l2: tuple[Positive, ...] = option(
        (1.0, 0.1, 0.01, 0.001), "penalties to choose from on validation", scoring=True
    )
    folds: Annotated[int, Ge(1), Le(50)] = option(
        5,
        f"folds by cluster, each tested by probes of the others; below {MIN_FOLDS} none, and as where a "
        "source brings its splits the data set's own test part is tested",
        scoring=True,
    )
    seeds: Count = option(3, "seeds of control tasks, hidden layers and, without folds, curves", scoring=True)
    controls: bool = option(
        True, "surface baselines, control tasks and models with random weights", scoring=True
    )
    curves: bool = option(True, "accuracy at 100, 1,000 and 10,000 examples", scoring=True)
    mdl: bool = option(False, "online codelength of the labels", scoring=True)
    structural: Share = option(0.0, "share of the functions whose syntax trees structural probes look for")
    isolated: bool = option(False, "show tokens alone as well as in their function")
    random_weights_share: Share = option(
        0.1,
        "share of each class that models with random weights read, "
        f"but of no class fewer than {CONTROL_LEAST} examples",
        was="twin_share",
    )
    device: AnyDevice = option(
        "auto", "where probes are trained, as PyTorch names it; auto is where the model runs", scoring=True
    )
    baseline: str = option("", "model that the report counts from, by name", scoring=True)


class Probing(ProbeOptions):
    """The options of a run, as its quirks change them.

    Attributes:
        paper: Whether probes are trained as INSPECT's released code does.
    """

    paper: bool = False

    @property
    def crossed(self) -> bool:
        """Whether folds are dealt; the published protocol has one test part."""
        return self.folds >= MIN_FOLDS and not self.paper


def trained_on(device: str, run: str) -> str:
    """The device of probes: that of the option, else the run's where it computes in double precision."""
    if device != "auto":
        return device
    return run if run.split(":")[0] in ("cuda", "xpu") else "cpu"


def read_options(settings: LensSettings) -> Probing:
    """The options of a lens's settings.

    Raises:
        UsageError: A value that cannot be used.
        UnknownNameError: A pooling or probe that does not exist.
    """
    quirks = settings.active(QUIRKS)
    changed: dict[str, object] = {"paper": PROTOCOL in quirks, "isolated": ISOLATED in quirks}
    if SUMMARY in quirks:
        changed["pooling"] = "summary"
    return Probing.read({**changed, **settings.options})
