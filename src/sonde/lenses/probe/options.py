"""What a user may choose about probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le
from pydantic import PrivateAttr

from sonde.base.options import AnyDevice, Count, OneOf, Option, Options, Positive, Share, option
from sonde.lenses.engine.lens import LensSettings, QuirkHook
from sonde.training.probes.splits import MIN_FOLDS

if TYPE_CHECKING:
    from sonde.lenses.probe.examples import Examples, FittedProbes, States

LENS = "probe"

POOLINGS = ("mean", "last", "summary")
KINDS = ("linear", "mlp", "ridge")
SIZES = (100, 1_000, 10_000)
CONTROL_SEEDS = 3
CONTROL_LEAST = 40
"""Examples of a class that models with random weights read at least, however small their share."""


class ProbeOptions(Options):
    """The options of the lens."""

    lens = LENS

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
    seeds: Count = option(
        3,
        "seeds of control tasks, hidden layers, whole trees (5 or more) and, without folds, curves",
        scoring=True,
    )
    controls: bool = option(
        True, "surface baselines, control tasks and models with random weights", scoring=True
    )
    curves: bool = option(True, "accuracy at 100, 1,000 and 10,000 examples", scoring=True)
    mdl: bool = option(False, "online codelength of the labels", scoring=True)
    structural: Share = option(0.0, "share of the functions whose syntax trees structural probes look for")
    tree_ranks: tuple[Count, ...] = option(
        (128,),
        "directions of the subspaces that whole trees are read from, where structural is above 0; "
        "no more than states have",
        scoring=True,
    )
    isolated: bool = option(False, "show tokens alone as well as in their function")
    random_weights_share: Share = option(
        0.1,
        "share of each class that models with random weights read, "
        f"but of no class fewer than {CONTROL_LEAST} examples",
    )
    device: AnyDevice = option(
        "auto", "where probes are trained, as PyTorch names it; auto is where the model runs", scoring=True
    )
    baseline: str = option("", "model that the report counts from, by name", scoring=True)


@dataclass(frozen=True, slots=True)
class ProbeProtocol:
    """How probes are trained and tested.

    Attributes:
        fit: Trains a probe on every layer, on a device; None for the lens's own.
        uses_folds: Whether folds are dealt; else there is one test part.
        alone_first: Whether the headline is about tokens that are shown alone, where they are.
    """

    fit: Callable[[States, Examples, str], FittedProbes] | None = None
    uses_folds: bool = True
    alone_first: bool = False


DEFAULTS: QuirkHook[Mapping[str, Option], []] = QuirkHook(LENS)
"""What options are where a user gives none; none of them for what `ProbeOptions` says."""

PROTOCOL: QuirkHook[ProbeProtocol, []] = QuirkHook(LENS)
"""How probes are trained and tested."""


class ResolvedProbeOptions(ProbeOptions):
    """The options of a run, and the protocol of its probes."""

    _protocol: ProbeProtocol = PrivateAttr(ProbeProtocol())

    @property
    def protocol(self) -> ProbeProtocol:
        """How probes are trained and tested."""
        return self._protocol

    @property
    def uses_folds(self) -> bool:
        """Whether folds are dealt."""
        return self.folds >= MIN_FOLDS and self._protocol.uses_folds


def select_probe_device(device: str, run: str) -> str:
    """The device of probes: that of the option, else the run's where it computes in double precision."""
    if device != "auto":
        return device
    return run if run.split(":")[0] in ("cuda", "xpu") else "cpu"


def read_options(settings: LensSettings) -> ResolvedProbeOptions:
    """The options of a lens's settings.

    Raises:
        UsageError: A value that cannot be used.
        UnknownNameError: A pooling or probe that does not exist.
    """
    options = ResolvedProbeOptions.read({**DEFAULTS.resolve(settings, {}), **settings.options})
    options._protocol = PROTOCOL.resolve(settings, ProbeProtocol())
    return options
