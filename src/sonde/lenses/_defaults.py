"""What most lenses answer, so that a lens says only what is its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import polars as pl

from sonde.base.options import Option, Options
from sonde.corpora import Item
from sonde.lenses._lens import Control, LensSettings
from sonde.lenses._quirks import quirk_lines_of
from sonde.models import Capabilities
from sonde.results.pairing import Compared
from sonde.results.scores import Score
from sonde.store.rundir import RunDirectory


class LensDefaults:
    """What most lenses answer: they read the items as they are, in one stage, without random weights beside.

    Attributes:
        typed_options: The options of the lens, typed. A lens without them names its options in a mapping
            ``options`` and checks their values itself.
    """

    name: str = ""
    takes: frozenset[str] = frozenset()
    draws: bool = False
    reads_attention: bool = False
    read_again: int = 0
    compared: tuple[Compared, ...] = ()
    compared_with: Mapping[str, Option] = MappingProxyType({})
    typed_options: type[Options] = Options

    @property
    def quirks(self) -> Mapping[str, str]:
        """What papers published of the lens, with one line each."""
        return quirk_lines_of(self.name)

    @property
    def options(self) -> Mapping[str, str]:
        """The typed options, with one line each."""
        return self.typed_options.lines()

    @property
    def scoring_options(self) -> frozenset[str]:
        """Those that are declared to change scores alone."""
        return self.typed_options.names("scoring")

    @property
    def corpus_options(self) -> frozenset[str]:
        """Those that are declared to name a corpus that is trained on."""
        return self.typed_options.names("corpus")

    def options_for(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, Option]:
        """The options as they are."""
        return options

    def leaves_out(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, str]:
        """All are read together."""
        return {}

    def reads_before(self, settings: LensSettings) -> bool:
        """Items are shown alone."""
        return False

    def controls(self, settings: LensSettings) -> tuple[Control, ...]:
        """No random-weights control."""
        return ()

    def controls_over(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Control, ...]:
        """The controls with their shares."""
        return self.controls(settings)

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """The items themselves."""
        return items

    def about_inputs(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> str:
        """Nothing that their number does not say."""
        return ""

    def tested(self, examples: pl.DataFrame, settings: LensSettings) -> pl.DataFrame:
        """The test split of a data set that has one."""
        if not {"split", "cluster"} <= set(examples.columns):
            return examples.clear()
        return examples.filter(pl.col("split") == "test")

    def follow_up(self, scores: Sequence[Score], settings: LensSettings) -> Mapping[str, Option] | None:
        """One stage is all."""
        return None

    def headline(self, scores: pl.DataFrame) -> Iterator[str]:
        """Nothing to print."""
        return iter(())

    def write_files(self, run: RunDirectory) -> Sequence[str]:
        """No files."""
        return ()
