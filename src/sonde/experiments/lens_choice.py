"""A lens as a run asks it: the settings that its observations and their keys depend on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from sonde.base.fingerprint import OMITTED_AT_DEFAULT
from sonde.base.options import Option
from sonde.capture.settings import CaptureOptions
from sonde.lenses import LensSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class LensChoice:
    """A lens of a run with the settings that its observations depend on.

    Attributes:
        name: Public name.
        source: What it is loaded by: its name, or the path of a file.
        version: The lens's own version.
        tasks: Tasks whose labels it joins, by public name.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Quirks that are on.
        options: Options as sorted pairs.
        scoring: Names of options that scores depend on and observations do not.
        seed: Seed of the experiment.
        stage: 0, or the number of stages done before, see `ReadingLens.follow_up`.
        found: What the stage before found, as sorted pairs.
        capture: How its inputs are read, the same for all lenses that read a model.
        paired: Whether its data sets are minimal pairs, see `sonde.lenses.PairingLens`.
        labels: What the names of its tables of labels end in, where another lens of the run asks the same
            tasks otherwise; empty where the tables are named by the task alone.
    """

    name: str
    source: str
    version: str
    tasks: tuple[str, ...]
    mode: str
    quirks: tuple[str, ...]
    options: tuple[tuple[str, Option], ...]
    seed: int
    scoring: tuple[str, ...] = ()
    stage: int = 0
    found: tuple[tuple[str, Option], ...] = ()
    capture: CaptureOptions = field(default=CaptureOptions(), metadata=OMITTED_AT_DEFAULT)
    paired: bool = field(default=False, metadata=OMITTED_AT_DEFAULT)
    labels: str = field(default="", metadata=OMITTED_AT_DEFAULT)

    @property
    def folder(self) -> str:
        """Name of the lens among the folders of observations; a later stage has one of its own."""
        return f"{self.name}.{self.stage}" if self.stage else self.name

    @property
    def observing(self) -> LensChoice:
        """The lens as far as observations depend on it: other numbers of the same states forward nothing."""
        kept = tuple((name, value) for name, value in self.options if name not in self.scoring)
        return dataclasses.replace(self, options=kept, scoring=(), labels="")


def settings_of(lens: LensChoice, root: str = "") -> LensSettings:
    """A lens's settings as its methods take them.

    Args:
        lens: The lens.
        root: The folder of the run, where a stage before may have handed something on.
    """
    return LensSettings(
        mode=lens.mode,
        quirks=frozenset(lens.quirks),
        options=dict(lens.options),
        seed=lens.seed,
        stage=lens.stage,
        found=dict(lens.found),
        root=root,
    )
