"""State of a gate in one small file: what was accepted, and every look.

The file lies beside the runs, so that looks are counted across processes and nothing is lost when one is
killed. It holds the last accepted value of each number as its sums by cluster: runs of checkpoints may be
deleted once they were looked at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sonde.base.errors import InputError, UsageError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import fingerprint
from sonde.base.formatting import bracket, format_name, plural, shorten_names
from sonde.comparison.gate import (
    Finding,
    GateRow,
    JudgedCheckpoint,
    Verdict,
    find_direction,
    get_question,
    judge_checkpoint,
)
from sonde.comparison.run_models import RunModel, load_lens_settings, load_models, score_observations
from sonde.comparison.summary import display_scale
from sonde.lenses.engine.item_tables import scan_inputs
from sonde.results.score_pairs import Direction
from sonde.results.scores import Score
from sonde.results.text_format import format_estimate
from sonde.stats.estimate import Contributions
from sonde.stats.intervals import Kind
from sonde.stats.looks import ERROR
from sonde.stats.verdict import check_minimum_effects
from sonde.store.address import format_path, parse_address
from sonde.store.run_folder import RunDirectory, group_prefix, slug

STATE_VERSION = 1


_MAXIMUM_BYTES = 64 << 20


_PLAIN_FIELDS = tuple(
    field
    for field in dataclasses.fields(Score)
    if field.name
    not in ("model", "lens", "metric", "value", "n", "n_clusters", "dimensions", "contributions")
)


GateNumber = tuple[Score, Direction]
"""A number that a gate looks at, and which values of it are better."""


class _StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AcceptedNumber(_StrictModel):
    """The last accepted value of a number, as its sums by cluster."""

    checkpoint: str = Field(description="the checkpoint that it is of")
    better: Direction
    lens: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]
    value: float
    n: int
    n_clusters: int
    fields: dict[str, Any] = Field(description="further columns of `scores.parquet` that are not at default")
    kind: Kind
    clusters: tuple[int, ...] = Field(description="its clusters, as places in the list of the state")
    weights: tuple[float, ...]
    sums: tuple[float, ...]

    @classmethod
    def from_score(cls, score: Score, better: Direction, clusters: Mapping[str, int]) -> AcceptedNumber:
        """Convert a score whose clusters are known by number."""
        parts = score.contributions
        assert parts is not None and parts.sums is not None
        fields = {field.name: getattr(score, field.name) for field in _PLAIN_FIELDS}
        return cls(
            checkpoint=score.model,
            better=better,
            lens=score.lens,
            metric=score.metric,
            dimensions=score.dimensions,
            value=score.value,
            n=score.n,
            n_clusters=score.n_clusters,
            fields={
                field.name: fields[field.name]
                for field in _PLAIN_FIELDS
                if fields[field.name] != field.default
            },
            kind=parts.kind,
            clusters=tuple(clusters[name] for name in parts.clusters.astype(str).tolist()),
            weights=tuple(parts.weight.tolist()),
            sums=tuple(parts.sums.tolist()),
        )

    def to_score(self, clusters: Sequence[str]) -> Score:
        """Convert to a score with the names of its clusters."""
        names = np.array(clusters, object)
        parts = Contributions(
            clusters=names[list(self.clusters)],
            weight=np.array(self.weights),
            sums=np.array(self.sums),
            kind=self.kind,
        )
        columns = {
            name: getattr(self, name) for name in ("lens", "metric", "dimensions", "value", "n", "n_clusters")
        }
        return Score(model=self.checkpoint, **columns, **self.fields, contributions=parts)


class NumberFinding(_StrictModel):
    """What a look found of one number."""

    finding: Finding
    lens: str
    language: str
    about: str = Field(description="what the number is about")
    metric: str
    accepted: str = Field(description="the checkpoint that it was compared with")
    difference: float
    ci_low: float | None = Field(description="lower end of its interval at the spent level")
    ci_high: float | None
    least: float = Field(description="the smallest loss that matters")
    detectable: float | None = Field(description="the loss that four of five such looks would find")
    why: str = Field(description="why no verdict is allowed; empty if one is")


class Look(_StrictModel):
    """One look at one checkpoint."""

    look: int
    checkpoint: str
    key: str = Field(description="identifies the checkpoint by its numbers, so that none is counted twice")
    verdict: Verdict
    level: float = Field(description="error of each test of this look")
    tests: int
    findings: tuple[NumberFinding, ...] = Field(description="all numbers without a loss that matters omitted")

    def select(self, *findings: Finding) -> list[NumberFinding]:
        """Return the numbers with these findings."""
        return [number for number in self.findings if number.finding in findings]


class GateState(_StrictModel):
    """Content of the state file."""

    schema_version: Literal[1] = STATE_VERSION
    reference: str = Field(
        description="the run that the training is compared with, by the name of its folder"
    )
    fingerprint: str = Field(description="identifies the reference with its weights")
    looks_planned: int | None
    least: dict[str, float] = Field(description="smallest losses that matter, by metric, if they were given")
    functions: int | None = Field(description="number of functions that are read; null for all")
    clusters: tuple[str, ...]
    accepted: tuple[AcceptedNumber, ...]
    looks: tuple[Look, ...] = ()

    def find_look(self, key: str) -> Look | None:
        """Return the look at a checkpoint, if there was one."""
        return next((look for look in self.looks if look.key == key), None)

    @property
    def planned_text(self) -> str:
        """Return the number of planned looks for a sentence; empty if it is not known."""
        return f" of {self.looks_planned}" if self.looks_planned else ""


class Reference:
    """The run that a training is compared with: its functions, labels and settings are those of each look.

    Args:
        folder: Folder of the run.
        functions: How many of its functions are read, the first ones of each corpus; None for all.
        lens: Public name of the one lens that is read; empty for all.

    Raises:
        InputError: There is no run in the folder, or it has no numbers that a gate looks at.
        UsageError: The run has several models.
    """

    def __init__(self, folder: Path, functions: int | None = None, lens: str = "") -> None:
        self.side = load_single_model(folder)
        self.functions = functions
        self._lens = lens

    @property
    def name(self) -> str:
        """Return the name of the run."""
        return self.side.label

    @property
    def count(self) -> int:
        """Return the number of functions that are read."""
        return sum(len(group.item_ids) for group in self.groups)

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the run with its weights."""
        return fingerprint("gate", self.side.summary.get("fingerprint"), self.side.model.get("revision"))

    @cached_property
    def groups(self) -> tuple[ReferenceGroup, ...]:
        """Return every lens and corpus that has observations, with the functions that are read."""
        groups = [
            ReferenceGroup(self.side, entry, group, item_ids)
            for entry in self.side.summary.get("lenses") or ()
            if self._lens in ("", entry["name"])
            for group in self.side.summary.get("corpus") or ()
            if len(item_ids := _list_items(self.side, entry, group))
        ]
        if self.functions is None:
            return tuple(groups)
        share = self.functions / max(sum(len(group.item_ids) for group in groups), 1)
        return tuple(
            dataclasses.replace(
                group, item_ids=group.item_ids.head(max(round(len(group.item_ids) * share), 1))
            )
            for group in groups
        )

    def read_numbers(self, side: RunModel | None = None) -> list[GateNumber]:
        """Score a finished run over the functions of the reference.

        Args:
            side: The model of the run; None for the reference itself.

        Raises:
            InputError: The run lacks functions, a lens or an option of the reference.
        """
        numbers = [
            number
            for group in self.groups
            for number in group.score(side or self.side, group.read_observations(side or self.side))
        ]
        if not numbers:
            raise InputError(
                f"{format_path(self.side.run.root)}: a gate looks at numbers over everything and by "
                "construct, and this run has none; run it with the lens surprisal (-l surprisal)"
            )
        return numbers


@dataclass(frozen=True, eq=False)
class ReferenceGroup:
    """One lens over one corpus and language of the reference.

    Attributes:
        side: The model of the reference.
        entry: Entry of the lens in ``run.json``.
        group: Entry of the corpus in ``run.json``.
        item_ids: Ids of the functions that are read, in the order of the run.
    """

    side: RunModel
    entry: Mapping[str, Any]
    group: Mapping[str, Any]
    item_ids: pl.Series

    @property
    def prefix(self) -> str:
        """Return the prefix of its file names."""
        return group_prefix(str(self.group["name"]), str(self.group["language"]))

    @cached_property
    def inputs(self) -> pl.LazyFrame:
        """Return the functions with their texts."""
        inputs = scan_inputs(self.side.run, str(self.group["name"]), str(self.group["language"]))
        return self._select(inputs)

    @cached_property
    def labels(self) -> dict[str, pl.DataFrame]:
        """Return the labels of the functions, by task of the lens."""
        tasks = (str(task) for task in self.entry.get("tasks") or ())
        tables = {task: self.side.labels(task, self.prefix, str(self.entry["name"])) for task in tasks}
        return {
            task: self._select(table.lazy()).collect() for task, table in tables.items() if table is not None
        }

    def read_observations(self, side: RunModel) -> pl.LazyFrame:
        """Scan the observations of a finished run of the same functions.

        Raises:
            InputError: The run lacks the lens or some of the functions, or has another option.
        """
        name = str(self.entry["name"])
        entry = side.lens(name)
        options = [None if lens is None else _comparable_settings(lens) for lens in (self.entry, entry)]
        subject = f"{format_path(side.run.root)}: not comparable with {format_path(self.side.run.root)}"
        if entry is None or options[0] != options[1] or side.transform != self.side.transform:
            raise InputError(f"{subject}: the lens {name!r} was run with other options, or not at all")
        table = side.observations(name, self.prefix)
        if table is None:
            raise InputError(f"{subject}: it has nothing of {self.group['name']} in {self.group['language']}")
        table = self._select(table)
        shared = table.select(pl.col("item_id").n_unique()).collect().item()
        if shared < len(self.item_ids):
            raise InputError(
                f"{subject}: it has {shared:,} of the {plural(len(self.item_ids), 'function')}; run both "
                "with the same arguments"
            )
        return table

    def score(self, side: RunModel, observations: pl.LazyFrame) -> Iterator[GateNumber]:
        """Yield the numbers that a gate looks at.

        Args:
            side: The model that was observed; only its names are used.
            observations: Its observations of the functions.
        """
        ids, lens = self.item_ids.sort(), load_lens_settings(self.entry)[0]
        for score in score_observations(
            side, self.entry, self.group, ids, observations, self.inputs, self.labels
        ):
            if direction := find_direction(score, lens.comparable_metrics):
                yield score, direction

    def _select(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.filter(pl.col("item_id").is_in(self.item_ids.implode()))


def load_single_model(folder: Path) -> RunModel:
    """Load the model of a run, labelled with the name of the run's folder.

    Raises:
        InputError: There is no run in the folder.
        UsageError: The run has several models.
    """
    models = load_models(RunDirectory(folder))
    if len(models) > 1:
        raise UsageError(f"{format_path(folder)}: a gate takes runs of one model, and this has {len(models)}")
    # The local copy of an address has a name that no user knows.
    return dataclasses.replace(models[0], label=Path(format_path(folder)).resolve().name)


def _list_items(side: RunModel, entry: Mapping[str, Any], group: Mapping[str, Any]) -> pl.Series:
    """List the observed items of a lens over a corpus, in the order in which the run selected them."""
    prefix = group_prefix(str(group["name"]), str(group["language"]))
    table = side.observations(str(entry["name"]), prefix)
    if table is None:
        return pl.Series("item_id", [], pl.String)
    observed_ids = table.select(pl.col("item_id").cast(pl.String).unique()).collect()["item_id"]
    inputs = scan_inputs(side.run, str(group["name"]), str(group["language"]))
    ids = inputs.select("item_id").collect()["item_id"].unique(maintain_order=True)
    return ids.filter(ids.is_in(observed_ids.implode()))


def _comparable_settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    names = ("version", "mode", "quirks", "seed", "capture")
    return {name: entry.get(name) for name in names} | {"options": dict(entry.get("options") or ())}


def default_state_path(reference: Path) -> Path:
    """Return the default path of the state: beside the run of the reference.

    Raises:
        UsageError: The reference is at an address, and a state is a file on this machine.
    """
    if address := parse_address(format_path(reference)):
        raise UsageError(f"{address} is an address; name a file on this machine for the looks with --state")
    return reference.parent / f"gate-{slug(reference.resolve().name)}.json"


def load_state(path: Path) -> GateState | None:
    """Load the state of a gate; None if there is no file.

    Raises:
        InputError: The file cannot be read, or is no state of this version.
    """
    try:
        if path.stat().st_size > _MAXIMUM_BYTES:
            raise InputError(f"gate {str(path)!r}: more than {_MAXIMUM_BYTES:,} bytes, which no gate writes")
        return GateState.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"gate {str(path)!r}: cannot be read ({error.strerror or error})") from error
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"]))
        raise InputError(
            f"gate {str(path)!r}: no state of a gate of this version ({field}: {problem['msg']}); move it "
            "away to begin again"
        ) from None


def open_state(
    path: Path,
    folder: Path,
    planned: int | None = None,
    least: Mapping[str, float] = MappingProxyType({}),
    functions: int | None = None,
    lens: str = "",
) -> tuple[Reference, GateState]:
    """Load the state of a gate, or begin with the reference as the accepted checkpoint.

    Args:
        path: The state file; it is not written.
        folder: The run of the reference.
        planned: Number of looks at the training, if it is known beforehand; None takes that of the state.
        least: Smallest losses that matter, by metric; empty takes those of the state.
        functions: How many functions of the reference are read; None for all. A state has its own number.
        lens: As for `Reference`.

    Raises:
        InputError: The file cannot be read, or the reference has no numbers that a gate looks at.
        UsageError: The state is of another reference, another number of looks or other smallest losses.
    """
    state = load_state(path)
    if state is None:
        reference = Reference(folder, functions, lens)
        numbers = reference.read_numbers()
        check_minimum_effects(least, dict.fromkeys(score.metric for score, _ in numbers))
        clusters, accepted = _store_numbers(numbers)
        state = GateState(
            reference=reference.name,
            fingerprint=reference.fingerprint,
            looks_planned=planned,
            least=dict(least),
            functions=functions,
            clusters=clusters,
            accepted=accepted,
        )
        return reference, state
    reference = Reference(folder, state.functions, lens)
    begun = f"{path} was begun with"
    if state.fingerprint != reference.fingerprint:
        raise UsageError(f"{begun} another reference, {state.reference!r}; name another file with --state")
    if planned not in (None, state.looks_planned):
        raise UsageError(
            f"{begun} {state.looks_planned or 'no number of'} looks, not {planned}: the error is spent by "
            "that number; name another file with --state"
        )
    if least and dict(least) != state.least:
        raise UsageError(f"{begun} other losses that matter; name another file with --state")
    return reference, state


def _store_numbers(numbers: Sequence[GateNumber]) -> tuple[tuple[str, ...], tuple[AcceptedNumber, ...]]:
    names = {
        str(name): None
        for score, _ in numbers
        if score.contributions is not None
        for name in score.contributions.clusters.tolist()
    }
    places = {name: place for place, name in enumerate(names)}
    return tuple(names), tuple(AcceptedNumber.from_score(score, better, places) for score, better in numbers)


def look_at_checkpoint(
    state: GateState, numbers: Sequence[GateNumber], checkpoint: str
) -> tuple[GateState, Look, JudgedCheckpoint]:
    """Judge a checkpoint, and accept its numbers unless the verdict is ``fail``.

    Numbers with a suspected loss keep their last accepted value.

    Args:
        state: The state before this look.
        numbers: Numbers of the checkpoint.
        checkpoint: Its name.

    Returns:
        The state after this look, the look, and all numbers of it.

    Raises:
        InputError: The numbers are not over the same observations as those of the reference.
        UsageError: More looks than planned.
    """
    pairs = _pair_numbers(state, numbers, checkpoint)
    judged = judge_checkpoint(pairs, len(state.looks) + 1, state.looks_planned, state.least)
    look = Look(
        look=len(state.looks) + 1,
        checkpoint=checkpoint,
        key=identify_numbers(numbers),
        verdict=judged.verdict,
        level=judged.level,
        tests=judged.tests,
        findings=tuple(map(_record_row, judged.select("fail", "warn", "slight", "open"))),
    )
    lost = set(map(get_question, judged.suspects))
    kept: list[GateNumber] = [
        (accepted if judged.verdict == "fail" or get_question(score) in lost else score, better)
        for accepted, score, better in pairs
    ]
    return _with_accepted(state, kept).model_copy(update={"looks": (*state.looks, look)}), look, judged


def identify_numbers(numbers: Sequence[GateNumber]) -> str:
    """Return a key by which a checkpoint is known again: all of its numbers."""
    return fingerprint("checkpoint", [score.value for score, _ in numbers])


def accept_checkpoint(state: GateState, numbers: Sequence[GateNumber], checkpoint: str) -> GateState:
    """Accept all numbers of a checkpoint, whatever the verdict on it.

    Raises:
        InputError: As `look_at_checkpoint`.
    """
    pairs = _pair_numbers(state, numbers, checkpoint)
    return _with_accepted(state, [(score, better) for _, score, better in pairs])


def _with_accepted(state: GateState, numbers: Sequence[GateNumber]) -> GateState:
    clusters, accepted = _store_numbers(numbers)
    return state.model_copy(update={"clusters": clusters, "accepted": accepted})


def _pair_numbers(
    state: GateState, numbers: Sequence[GateNumber], checkpoint: str
) -> list[tuple[Score, Score, Direction]]:
    """Pair the last accepted values with those of a checkpoint."""
    scores = {get_question(score): dataclasses.replace(score, model=checkpoint) for score, _ in numbers}
    pairs: list[tuple[Score, Score, Direction]] = []
    for number in state.accepted:
        accepted = number.to_score(state.clusters)
        score = scores.get(get_question(accepted))
        if score is None or not _have_same_observations(accepted, score):
            raise InputError(
                f"{checkpoint}: its {number.metric} is not over the same observations as that of "
                f"{state.reference}; a gate compares checkpoints of one training, with one tokenizer"
            )
        pairs.append((accepted, score, number.better))
    return pairs


def _have_same_observations(accepted: Score, score: Score) -> bool:
    parts = (accepted.contributions, score.contributions)
    assert parts[0] is not None and parts[1] is not None
    return accepted.item_set == score.item_set and parts[0].has_same_clusters(parts[1])


def _record_row(row: GateRow) -> NumberFinding:
    difference = row.difference
    finite = {
        name: value if np.isfinite(value) else None
        for name, value in (("ci_low", row.low), ("ci_high", row.high), ("detectable", row.detectable))
    }
    return NumberFinding(
        finding=row.finding,
        lens=difference.score.lens,
        language=difference.score.language,
        about=row.about,
        metric=difference.score.metric,
        accepted=difference.base.model,
        difference=difference.value,
        least=difference.minimum_effect,
        why=difference.why,
        **finite,
    )


def save_state(path: Path, state: GateState) -> None:
    """Write the state of a gate, unless another process has looked in the meantime.

    Raises:
        UsageError: Another process has.
        StoreError: The file cannot be written.
    """
    current = load_state(path)
    if current is not None and current.looks != state.looks[: len(current.looks)]:
        raise UsageError(f"{path}: another process looked at the same time; run this again")
    write_atomic(path, state.model_dump_json() + "\n")


def describe_look(look: Look, state: GateState) -> Iterator[str]:
    """Yield the lines that say what a look found."""
    has_languages = len({number.fields.get("language") for number in state.accepted}) > 1

    def name(number: NumberFinding) -> str:
        return f"{number.language}, {number.about}" if has_languages else number.about

    yield f"look {look.look}{state.planned_text}, {look.checkpoint}: {look.verdict}"
    phrases: dict[Finding, str] = {
        "fail": "",
        "warn": " (not sure over all looks)",
        "slight": " (less than matters)",
    }
    for finding, note in phrases.items():
        for number in look.select(finding):
            yield f"  {name(number)}: worse than at {number.accepted} by {_format_loss(number)}{note}"
    if open_numbers := [number for number in look.select("open") if not number.why]:
        names = [f"{name(number)}{bracket(_format_detectable(number))}" for number in open_numbers]
        yield (
            f"  cannot rule out a loss that matters in {len(open_numbers)} of "
            f"{plural(look.tests, 'number')} (in brackets, what would have been found): "
            f"{shorten_names(names)}"
        )
    if untested := [name(number) for number in look.select("open") if number.why]:
        yield f"  too little data for {plural(len(untested), 'number')}: {shorten_names(untested)}"
    if look.verdict == "fail":
        yield "  not accepted: the next checkpoint is compared with the same values"
    yield (
        f"  each of {plural(look.tests, 'number')} tested at {look.level:.2g}: the probability of any false "
        f"alarm in the whole training is at most {ERROR:.0%}"
    )


def _format_loss(number: NumberFinding) -> str:
    # A loss is above 0, whichever values are better.
    scale = display_scale({"metric": number.metric}) * (-1 if number.difference < 0 else 1)
    ends = [None if end is None else end * scale for end in (number.ci_low, number.ci_high)]
    low, high = ends if scale > 0 else reversed(ends)
    row = {"value": number.difference * scale, "ci_low": low, "ci_high": high}
    return f"{format_estimate(row)} {_unit(number)}"


def _format_detectable(number: NumberFinding) -> str:
    size = number.detectable
    return "" if size is None else f"{size * display_scale({'metric': number.metric}):.2g} {_unit(number)}"


def _unit(number: NumberFinding) -> str:
    return "points" if display_scale({"metric": number.metric}) > 1 else format_name(number.metric)
