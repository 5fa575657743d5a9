"""``sonde.gate``: the command ``sonde gate`` from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import polars as pl

from sonde.api.results import Run
from sonde.base.errors import UsageError
from sonde.base.progress import NullProgress, Progress
from sonde.comparison.differences import differences_to_frame
from sonde.comparison.gate import JudgedCheckpoint, Verdict
from sonde.comparison.gate_state import (
    GateState,
    Look,
    accept_checkpoint,
    default_state_path,
    describe_look,
    identify_numbers,
    load_single_model,
    look_at_checkpoint,
    open_state,
    save_state,
)
from sonde.experiments.arguments import StrPath
from sonde.store.remote import fetch_folder

_WORST_FIRST: Sequence[Verdict] = ("fail", "warn", "pass")


@dataclass(frozen=True, slots=True, eq=False)
class GateReport:
    """Verdicts of a gate on some checkpoints.

    Attributes:
        path: The state file.
        state: Its content: every look, and the last accepted values.
        looks: The look at each of the checkpoints, in their order.
        judged: All numbers of each look that was new, by its number.
    """

    path: Path
    state: GateState
    looks: tuple[Look, ...]
    judged: Mapping[int, JudgedCheckpoint] = field(repr=False)

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict on these checkpoints."""
        verdicts = {look.verdict for look in self.looks}
        return next(verdict for verdict in _WORST_FIRST if verdict in verdicts)

    @property
    def numbers(self) -> pl.DataFrame:
        """Return one row per look and number: the columns of a comparison, and those of the gate.

        ``look``, ``level``, ``verdict``, ``finding``, and the ends ``spent_low`` and ``spent_high`` of the
        interval at the spent level; ``detectable`` is at that level too. Looks stored before are left out.
        """
        frames = [_to_frame(look, self.judged[look.look]) for look in self.looks if look.look in self.judged]
        return pl.concat(frames) if frames else pl.DataFrame()

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        return [line for look in self.looks for line in describe_look(look, self.state)]

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def gate(
    reference: StrPath | Run,
    *runs: StrPath | Run,
    looks: int | None = None,
    least: Mapping[str, float] = MappingProxyType({}),
    state: StrPath | None = None,
    accept: bool = False,
    progress: Progress | None = None,
) -> GateReport:
    """Look at checkpoints of one training: is a number worse than at the last accepted checkpoint?

    The probability of any false alarm over the whole training is at most 5 %, however often this is called:
    looks are counted in the state file. A checkpoint that was looked at before is not counted again.

    Args:
        reference: Folder or address of the run of the model that the training is compared with.
        runs: Those of the checkpoints, in the order of the training; run with the same arguments.
        looks: Number of looks at the whole training, if it is known: each then has the same share of the
            error, else later looks have less.
        least: Smallest loss that matters, by metric and in its unit; by default as for `sonde.compare`.
        state: The state file, on this machine; by default next to the reference.
        accept: Accept these checkpoints whatever the verdict, as what later ones are compared with.
        progress: Receives the progress.

    Returns:
        The verdicts (``pass``, ``warn`` or ``fail``) and their numbers.

    Raises:
        InputError: A folder holds no run, or the runs are not of the same functions and options.
        UsageError: No checkpoint is named, a run has several models, all planned looks are spent, or the
            reference is at an address and no state is named.
        StoreError: The state cannot be written.
    """
    if not runs:
        raise UsageError("sonde.gate takes the run of the reference and those of one checkpoint or more")
    if looks is not None and looks < 1:
        raise UsageError(f"looks = {looks}: give 1 or more")
    folders = [run.directory if isinstance(run, Run) else Path(run) for run in (reference, *runs)]
    path = Path(state) if state is not None else default_state_path(folders[0])
    reference_run, content = open_state(path, fetch_folder(folders[0]), looks, least)
    found = list[Look]()
    judged: dict[int, JudgedCheckpoint] = {}
    with (progress or NullProgress()).stage("comparing", len(runs)) as advance:
        for folder in folders[1:]:
            side = load_single_model(fetch_folder(folder))
            numbers = reference_run.read_numbers(side)
            look = content.find_look(identify_numbers(numbers))
            if look is None:
                content, look, judged_checkpoint = look_at_checkpoint(content, numbers, side.label)
                judged[look.look] = judged_checkpoint
            if accept:
                content = accept_checkpoint(content, numbers, side.label)
            save_state(path, content)
            found.append(look)
            advance()
    return GateReport(path, content, tuple(found), judged)


def _to_frame(look: Look, judged: JudgedCheckpoint) -> pl.DataFrame:
    frame = differences_to_frame(row.difference for row in judged.rows)
    columns = {
        "finding": [row.finding for row in judged.rows],
        "spent_low": [row.low for row in judged.rows],
        "spent_high": [row.high for row in judged.rows],
        "detectable": [row.detectable for row in judged.rows],
    }
    return frame.with_columns(
        pl.lit(look.look).alias("look"),
        pl.lit(look.level).alias("level"),
        pl.lit(look.verdict).alias("verdict"),
        *(pl.Series(name, values) for name, values in columns.items()),
    ).with_columns(pl.col("spent_low", "spent_high", "detectable").fill_nan(None))
