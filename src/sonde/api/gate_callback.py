"""``sonde.GateCallback``: a gate inside a training with transformers, on the model in memory.

At each evaluation and each saved checkpoint the model reads the functions of a finished run, which is the
reference, and its numbers are compared with those last accepted (`sonde.comparison.gate`).

Time is bounded: a look that would take the gate beyond its share of the training time is skipped and says so.
How many functions are read is fixed once, from the time of the first ones and of the training so far.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
from accelerate.utils import broadcast_object_list
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState

from sonde.alignment import get_surfaces
from sonde.api.results import Run
from sonde.base.errors import InputError, SondeError, UsageError
from sonde.base.formatting import duration, plural
from sonde.base.terminal import print_note
from sonde.capture import CaptureOptions, Prepared, observe_lenses, prepare
from sonde.capture.requests import with_bos
from sonde.comparison.gate import Verdict
from sonde.comparison.gate_state import (
    GateNumber,
    GateState,
    Look,
    Reference,
    ReferenceGroup,
    describe_look,
    identify_numbers,
    load_state,
    look_at_checkpoint,
    open_state,
    save_state,
)
from sonde.comparison.run_models import load_lens_settings
from sonde.experiments.arguments import StrPath
from sonde.lenses import DEFAULT_LENS, load_reading_lens
from sonde.lenses.engine.item_tables import frame_to_items
from sonde.lenses.engine.lens import CapturedItem
from sonde.models import LoadedModel, wrap_model
from sonde.store.remote import fetch_folder

STATE_NAME = "sonde-gate.json"
"""Name of the state file in the output folder of the trainer."""


_MIN_FUNCTIONS = 100
"""Functions below which too few clusters are left for a verdict."""


_TRIAL_FUNCTIONS = 16


_TRIAL_SECONDS = 5.0
"""Time that a trial may take: scoring the reference, and a few functions."""


class GateCallback(TrainerCallback):
    """Looks at the model at each evaluation and each saved checkpoint of a `transformers.Trainer`.

        trainer = Trainer(..., callbacks=[sonde.GateCallback("runs/base", looks=100)])

    Args:
        reference: Run of the lens surprisal over the model that the training is compared with. Its functions,
            options and settings are those of every look.
        looks: Number of looks at the whole training, if it is known.
        least: Smallest loss that matters, by metric; by default as for `sonde.compare`.
        state: The state file; by default in the output folder of the trainer. A training that resumes from a
            checkpoint uses it again; a new training sets it aside.
        share: Share of the training time that looks may take.
        stop: Whether a verdict ``fail`` ends the training.
        tokenizer: The tokenizer; by default the trainer's.
        report: Receives the findings of each look and skipped looks, line by line; by default standard error.

    Attributes:
        looks: Every look of this process.
        skipped: Number of looks that were skipped.

    Raises:
        InputError: There is no run in the folder, or none of the lens surprisal.
        UsageError: The run has several models.
    """

    def __init__(
        self,
        reference: StrPath | Run,
        *,
        looks: int | None = None,
        least: Mapping[str, float] = MappingProxyType({}),
        state: StrPath | None = None,
        share: float = 0.02,
        stop: bool = False,
        tokenizer: Any = None,
        report: Callable[[str], None] = print_note,
    ) -> None:
        self._folder = fetch_folder(reference.directory if isinstance(reference, Run) else reference)
        self._planned, self._least, self._share, self._stop = looks, least, share, stop
        self._path = None if state is None else Path(state)
        self._tokenizer, self._report = tokenizer, report
        self._reference = Reference(self._folder, lens=DEFAULT_LENS)
        if not self._reference.groups:
            raise InputError(
                f"{self._folder}: a gate in a training needs a run of the lens {DEFAULT_LENS}; run it with "
                f"-l {DEFAULT_LENS}"
            )
        self.looks: list[Look] = []
        self.skipped = 0
        self._clock = _Clock(share)
        self._reader: _ModelReader | None = None
        self._state: GateState | None = None
        self._function_seconds = self._fixed_seconds = 0.0
        self._last_step = -1

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the clock, and set aside the state of an earlier training in the same folder.

        Raises:
            UsageError: The weights are in parts on several devices, so no process can read with them.
        """
        if getattr(args, "fsdp", None) or getattr(args, "deepspeed", None):
            raise UsageError(
                "sonde.GateCallback reads with the model of one process, and here it is in parts (FSDP or "
                "DeepSpeed); save checkpoints, run sonde on them and use `sonde gate`"
            )
        self._path = self._path or Path(args.output_dir) / STATE_NAME
        if state.is_world_process_zero and state.global_step == 0 and self._path.exists():
            earlier = self._path.with_suffix(".earlier.json")
            self._path.replace(earlier)
            self._report(f"sonde gate: the looks at an earlier training are in {earlier}")
        self._clock = _Clock(self._share)

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Look at the model."""
        self._look_once(args, state, control, **kwargs)

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Look at the model, unless it was evaluated at this step."""
        self._look_once(args, state, control, **kwargs)

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Report the number of looks and their share of the time."""
        if not state.is_world_process_zero:
            return
        counts = Counter(look.verdict for look in self.looks)
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        self._report(
            f"sonde gate: {plural(len(self.looks), 'look')}{f' ({verdicts})' if verdicts else ''}, "
            f"{self.skipped} skipped, {self._clock.used:.1%} of the training time; state: {self._path}"
        )

    def _look_once(
        self,
        args: Any,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: nn.Module,
        processing_class: Any = None,
        **_: Any,
    ) -> None:
        if state.global_step == self._last_step:
            return
        self._last_step = state.global_step
        verdict: Verdict | None = None
        if state.is_world_process_zero:
            with self._clock.measure(), _reading(model):
                try:
                    verdict = self._look(state.global_step, model, self._tokenizer or processing_class)
                except SondeError as error:
                    self._report(f"sonde gate: no look at step {state.global_step}: {error}")
        if self._stop and args.world_size > 1:
            # Every process has to stop at the same update.
            verdicts: list[Verdict | None] = [verdict]
            broadcast_object_list(verdicts)
            (verdict,) = verdicts
        if self._stop and verdict == "fail":
            control.should_training_stop = True

    def _look(self, step: int, model: nn.Module, tokenizer: Any) -> Verdict | None:
        """Look at the model if there is time; None if there is not."""
        assert self._path is not None
        if self._reader is None:
            if not self._has_time(step, _TRIAL_SECONDS):
                return None
            reader = _ModelReader(model, tokenizer, self._reference.side.name)
            self._function_seconds = reader.time_functions(self._reference)
            begin = time.monotonic()
            self._reference, self._state = self._open_state()
            self._fixed_seconds = time.monotonic() - begin
            self._reader = reader
        assert self._state is not None
        if not (self._state.looks or self._state.functions):
            # The first look: fewer functions where there is no time for all, and the same ones ever after.
            affordable = int((self._clock.left - self._fixed_seconds) / self._function_seconds)
            if min(self._reference.count, _MIN_FUNCTIONS) <= affordable < self._reference.count:
                self._reference, self._state = self._open_state(affordable)
        if not self._has_time(step, self._fixed_seconds + self._function_seconds * self._reference.count):
            return None
        begin = time.monotonic()
        numbers = self._reader.read_numbers(self._reference)
        # Another process may have looked in the meantime.
        state = load_state(self._path) or self._state
        look = state.find_look(identify_numbers(numbers))
        if look is None:
            state, look, _ = look_at_checkpoint(state, numbers, f"step {step}")
            save_state(self._path, state)
        self._state = state
        self._function_seconds = (time.monotonic() - begin) / self._reference.count
        self._fixed_seconds = 0.0
        self.looks.append(look)
        lines = describe_look(look, state)
        for line in [next(lines)] if look.verdict == "pass" else lines:
            self._report(f"sonde gate: {line}")
        return look.verdict

    def _open_state(self, functions: int | None = None) -> tuple[Reference, GateState]:
        assert self._path is not None
        return open_state(
            self._path, self._folder, self._planned, self._least, functions=functions, lens=DEFAULT_LENS
        )

    def _has_time(self, step: int, seconds: float) -> bool:
        """Return whether a look of this length is within the share of the training time; else report it."""
        if seconds <= self._clock.left:
            return True
        self.skipped += 1
        self._report(
            f"sonde gate: look at step {step} skipped: it takes {duration(seconds)}, and {self._share:.0%} "
            f"of the training so far leaves {duration(max(self._clock.left, 0.0))}"
        )
        return False


class _Clock:
    """Time of a training, and the part of it that looks have taken.

    Args:
        share: Share of the training time that looks may take.
    """

    def __init__(self, share: float) -> None:
        self._share, self._begin, self._spent = share, time.monotonic(), 0.0

    @property
    def left(self) -> float:
        """Return the seconds that a look may take now."""
        return self._share * (time.monotonic() - self._begin - self._spent) - self._spent

    @property
    def used(self) -> float:
        """Return the share of the training time that looks have taken."""
        return self._spent / max(time.monotonic() - self._begin - self._spent, 1e-9)

    @contextmanager
    def measure(self) -> Generator[None]:
        """Count the time in this context as that of a look."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self._spent += time.monotonic() - begin


@contextmanager
def _reading(model: nn.Module) -> Generator[None]:
    """Put a model into evaluation mode, and every module back into its own mode."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


class _ModelReader:
    """Reads the functions of a reference with a model in memory.

    Args:
        model: The model; its weights may change between two readings.
        tokenizer: Its tokenizer.
        name: Name of the model of the reference.

    Raises:
        InputError: There is no fast tokenizer, or no family takes the model.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise InputError("the trainer has no fast tokenizer; give sonde.GateCallback(..., tokenizer=...)")
        # Adapters of PEFT are in the modules of the model below.
        base_model = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._model: LoadedModel = wrap_model(base_model, tokenizer, name)
        self._prepared: dict[str, Prepared] = {}

    def time_functions(self, reference: Reference) -> float:
        """Return the seconds that reading one function takes."""
        group = max(reference.groups, key=lambda group: len(group.item_ids))
        for size in (1, _TRIAL_FUNCTIONS):
            # What is done for the first time is slow.
            begin = time.monotonic()
            self._observe(group, group.item_ids.head(size).to_list())
        return (time.monotonic() - begin) / min(_TRIAL_FUNCTIONS, len(group.item_ids))

    def read_numbers(self, reference: Reference) -> list[GateNumber]:
        """Read all functions of the reference, and score them.

        Raises:
            InputError: The tokenizer is not that of the reference.
            CaptureError: A surprisal is not finite, or the model cannot read the functions.
        """
        return [
            number
            for group in reference.groups
            for number in group.score(reference.side, self._observe(group, group.item_ids.to_list()).lazy())
        ]

    def _observe(self, group: ReferenceGroup, item_ids: list[str]) -> pl.DataFrame:
        missing = [name for name in item_ids if name not in self._prepared]
        if missing:
            items = frame_to_items(group.inputs.filter(pl.col("item_id").is_in(missing)).collect())
            self._prepared |= {item.item.item_id: item for item in prepare(self._model, items)}
        lens, settings = load_reading_lens(str(group.entry["source"])), load_lens_settings(group.entry)[1]
        inputs = [self._prepared[name] for name in item_ids]
        capture = CaptureOptions(**group.entry["capture"])
        passes = with_bos(lens.input_requests(inputs, group.labels, settings), capture.bos)
        observed = observe_lenses(self._model, inputs, {"": passes}, settings=capture.settings)
        captures = [CapturedItem(item.prepared, item.captures[""]) for item in observed if not item.unread]
        surfaces = get_surfaces(self._model.tokenizer, self._model.capabilities.vocab)
        return lens.observe(captures, group.labels, settings, surfaces)
