"""The model runner: a batch of rows in, reduced results out.

All forward passes of `sonde.capture.forward` are run here, except those with gradients
(`sonde.capture.attribution`); `sonde.capture.generate` lets models write. Attention is read as selected rows
and as ranks of words, on each side of the model. The batch size that fits into memory is learnt from batches
that did not fit, and is kept as long as the model is loaded. Errors that the model's own code raises on an
input are told apart from all others.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from sonde.base.errors import CaptureError, SondeError
from sonde.capture.attention_backend import AttentionReader, RecordableModel, use_readable_attention
from sonde.capture.caches import (
    LayerBundle,
    LayerStates,
    ResumedRows,
    SharedPrefixes,
    add_cached_states,
    can_resume,
    can_share_prefixes,
    keep_layer_outputs,
    skip_layers,
)
from sonde.capture.hooks import BatchChanges, ModelHooks, text_side
from sonde.capture.merge_requests import InputVariant, MergedRequests
from sonde.capture.reducer import BatchReducer, Block, ForwardBatch, ForwardStates, Reducer
from sonde.capture.requests import InputRequest, Prepared
from sonde.capture.settings import CaptureSettings
from sonde.capture.tensors import (
    BatchTokens,
    Download,
    Upload,
    build_decoder,
    use_matmul_precision,
)
from sonde.capture.windows import Row, count_padded_tokens, pad_rows, split_by_length
from sonde.models import LoadedModel
from sonde.models.engine.lm_head import body_and_head
from sonde.models.engine.memory import if_it_fits, out_of_memory
from sonde.models.engine.silence import MODEL_CODE_ERRORS, format_error
from sonde.models.engine.weights import TF32


class BatchFit:
    """Padded tokens that fit into memory, for each kind of work.

    The longest rows come first, and a batch of shorter ones takes no more memory a token: a size that was too
    large once is never tried again.
    """

    def __init__(self) -> None:
        self._most: dict[Hashable, int] = {}

    def parts(self, batch: Sequence[Row], kind: Hashable) -> list[list[Row]]:
        """Split a batch into as few parts as fit, in order; a row alone is always one."""
        maximum = self._most.get(kind)
        if maximum is None or count_padded_tokens(batch) <= maximum:
            return [list(batch)]
        parts: list[list[Row]] = []
        for row in batch:
            if parts and count_padded_tokens([*parts[-1], row]) <= maximum:
                parts[-1].append(row)
            else:
                parts.append([row])
        return parts

    def lower(self, batch: Sequence[Row], kind: Hashable) -> None:
        """Take in that a batch of several rows did not fit."""
        self._most[kind] = count_padded_tokens(batch[: (len(batch) + 1) // 2])


_fits: WeakKeyDictionary[Any, BatchFit] = WeakKeyDictionary()
"""Batch sizes known for loaded models."""


def memory_key(batch: Sequence[Row], requests_of_rows: Sequence[MergedRequests]) -> Hashable:
    """Return the kind of work that decides how much memory a token of a batch takes."""
    requests = [request for row_requests in requests_of_rows for request in row_requests.requests]
    states = any(not request.traits & {"scores", "attention"} for request in requests)
    return batch[0].written is None, states, any("attention" in request.traits for request in requests)


Result = TypeVar("Result")


class UnreadError(Exception):
    """A model's own code failed on what it was given."""


def try_read(work: Callable[[], Result]) -> Result | None:
    """Return the result of some work; None where the model's own code failed."""
    try:
        return work()
    except UnreadError:
        return None


@contextmanager
def convert_read_errors() -> Generator[None]:
    """Turn what a model's own code raises into an `UnreadError`, but for memory that ran out.

    Raises:
        UnreadError: It raised something.
    """
    try:
        yield
    except MODEL_CODE_ERRORS as error:
        if isinstance(error, SondeError) or out_of_memory(error):
            raise
        raise UnreadError(format_error(error)) from error


_CPU_BUDGET = 1024


_ACCELERATOR_BUDGET = 32768


_CPU_CHUNK = 512


_CPU_LOGITS = 1 << 25


_ACCELERATOR_CHUNK = 2048


_ACCELERATOR_FILL = 0.85


class Runner:
    """Runs batches of one model; a context manager, since reading attention switches the model's attention.

    Args:
        loaded_model: The model.
        items: The items.
        inputs: The distinct inputs that rows refer to.
        sizes: Positions of each input that can be scored.
        settings: How inputs are batched and reduced.

    Attributes:
        budget: Padded tokens per batch.
        fill: Share of them that are real, at least.
        halved: Batches read in parts, since they or others of their size did not fit into memory.
        unread: Inputs that the model's own code fails on, each with what it said.
    """

    def __init__(
        self,
        loaded_model: LoadedModel,
        items: Sequence[Prepared],
        inputs: Sequence[InputVariant],
        sizes: Sequence[int],
        settings: CaptureSettings,
    ) -> None:
        self._loaded = loaded_model
        self._inputs = inputs
        self._kind = loaded_model.capabilities.kind
        self._whole, head = body_and_head(loaded_model)
        # Of an encoder-decoder the encoder reads; its decoder is asked where it writes.
        self._body = loaded_model.model.get_encoder() if self._kind == "encoder-decoder" else self._whole
        self._device = loaded_model.device
        on_cpu = self._device.type == "cpu"
        # Few positions at a time make a CPU lay out the vocabulary's matrix anew again and again.
        maximum = min(_CPU_CHUNK, max(1, _CPU_LOGITS // max(1, loaded_model.capabilities.vocab)))
        chunk = settings.chunk or (maximum if on_cpu else _ACCELERATOR_CHUNK)
        self.budget = settings.token_budget or (_CPU_BUDGET if on_cpu else _ACCELERATOR_BUDGET)
        self.fill = settings.fill or (0.0 if on_cpu else _ACCELERATOR_FILL)
        self.halved = 0
        self.unread: dict[int, str] = {}
        self._fit = _fits.setdefault(loaded_model.model, BatchFit())
        self._reading = ExitStack()
        self._recording: RecordableModel | None = None
        self._hooks: ModelHooks | None = None
        if any(variant.shape.changes or variant.wanted.has("hooks") for variant in inputs):
            self._hooks = ModelHooks(loaded_model)
        self._block = Block(loaded_model, items, inputs, sizes, head.to_float32(), chunk, self._hooks)
        reducers = dict.fromkeys(request.reducer for variant in inputs for request in variant.wanted.requests)
        self._reducers: list[Reducer[Any]] = [pkgutil.resolve_name(name)(self._block) for name in reducers]

    @property
    def resumes(self) -> bool:
        """Return whether rows can be resumed at the layer where they are changed."""
        return self._hooks is not None and can_resume(self._loaded, self._hooks)

    @property
    def shares(self) -> bool:
        """Return whether shared prefixes can be read once."""
        return can_share_prefixes(self._loaded, self._body)

    def __enter__(self) -> Runner:
        self._reading.enter_context(use_matmul_precision(self._loaded.spec.dtype == TF32))
        if any(variant.wanted.has("attention") for variant in self._inputs):
            self._recording = self._reading.enter_context(use_readable_attention(self._loaded))
        return self

    def __exit__(self, *exception: object) -> None:
        self._reading.close()

    def get_answers(self, source: int) -> dict[type[InputRequest], Any]:
        """Return the answers of one input by type of request, after all of its rows were read."""
        return {
            kind: answer for reducer in self._reducers for kind, answer in reducer.get_answers(source).items()
        }

    def run(self, batches: Sequence[Sequence[Row]]) -> Iterator[Sequence[Row]]:
        """Forward batches in their order, and yield each when it is read.

        A batch that does not fit into memory is read in parts that do, as are later batches of the model. One
        that the model's own code fails on is read row by row, so that an input alone is left out (`unread`).

        Raises:
            CaptureError: One row alone does not fit, or the model's output must not be scored.
        """
        for batch in batches:
            for part in self._split(batch):
                self._read(part)
                yield part

    def _split(self, batch: Sequence[Row]) -> Sequence[Sequence[Row]]:
        """Split a batch into parts of one length where the model takes no padding, or no second row."""
        if self._loaded.alone or not self._loaded.takes_padding:
            return split_by_length(batch, single_rows=self._loaded.alone)
        return [batch]

    def _read(self, batch: Sequence[Row]) -> None:
        """Forward a batch, in parts where it does not fit or where the model's own code fails on it."""
        batches_to_read = [list(batch)]
        while batches_to_read:
            batch = batches_to_read.pop()
            work = memory_key(batch, [self._inputs[row.source].wanted for row in batch])
            parts = self._fit.parts(batch, work)
            if len(parts) > 1:
                self.halved += 1
                batches_to_read += reversed(parts)
                continue
            try:
                fits = self._try(batch)
            except UnreadError as error:
                if len(batch) == 1:
                    self.unread.setdefault(batch[0].source, str(error))
                else:
                    batches_to_read += [[row] for row in reversed(batch)]
                continue
            if fits:
                continue
            if len(batch) == 1:
                raise CaptureError(
                    f"{self._block.describe_row(batch[0])}: its {len(batch[0].tokens)} tokens alone do not "
                    "fit into memory; give a smaller --context"
                )
            self._fit.lower(batch, work)
            batches_to_read.append(batch)

    def run_bundles(self, bundles: Sequence[LayerBundle]) -> Iterator[Sequence[Row]]:
        """Read rows with changes on from where these begin; what does not fit into memory, from the start.

        Yields:
            The rows of each batch when they are read.

        Raises:
            CaptureError: As `run`.
        """
        for bundle in bundles:
            read = functools.partial(self._layer_states, bundle.base)
            states = try_read(functools.partial(if_it_fits, read, self._device))
            for start, batch, indices in bundle.batches:
                read = None
                if states is not None:
                    resumed_rows = ResumedRows(start, states, torch.tensor(indices, device=self._device))
                    read = try_read(functools.partial(self._try, batch, resumed_rows))
                if not read:
                    for part in self._split(batch):
                        self._read(part)
                yield batch

    @torch.inference_mode()
    def _layer_states(self, base: Sequence[Row]) -> LayerStates:
        """Return the output of every layer for rows without changes."""
        assert self._hooks is not None
        upload = Upload(self._device)
        tokens = BatchTokens(base, self._kind, self._loaded.special.pad, upload)
        upload.send()
        outputs: list[Tensor] = []
        with convert_read_errors(), keep_layer_outputs(self._hooks, text_side(self._loaded), outputs):
            self._body(**tokens.arguments())
        return outputs

    def _try(self, rows: Sequence[Row], resumed_rows: ResumedRows | None = None) -> bool:
        """Read a batch and store its numbers; False where memory ran out."""
        reducers = if_it_fits(lambda: self._batch(rows, resumed_rows), self._device)
        if reducers is None:
            return False
        for reducer in reducers:
            reducer.store()
        return True

    @torch.inference_mode()
    def _batch(self, rows: Sequence[Row], resumed_rows: ResumedRows | None) -> list[BatchReducer[Any]]:
        """Run a batch with one copy to the device and one back; storing is left."""
        upload = Upload(self._device)
        prefixes = SharedPrefixes(rows, self._loaded.special.pad, upload) if rows[0].shared else None
        batch = ForwardBatch(rows, upload, Download(), None if prefixes is None else prefixes.source)
        plans = (reducer.plan(batch) for reducer in self._reducers)
        reducers = [reducer for reducer in plans if reducer is not None]
        if prefixes is not None:
            forward = functools.partial(self._read_prefixes, prefixes)
        else:
            forward = self._plan_forward(batch, reducers, resumed_rows)
        upload.send()
        with convert_read_errors():
            states = forward()
            for reducer in reducers:
                reducer.reduce(states)
        # The states of all layers are let go before the logits are made.
        del states
        for reducer in reducers:
            reducer.project()
        batch.download.fetch()
        return reducers

    def _read_prefixes(self, prefixes: SharedPrefixes) -> ForwardStates:
        """Read what rows begin with once, then what follows."""
        return ForwardStates(prefixes.states(self._body))

    def _plan_forward(
        self, batch: ForwardBatch, reducers: Sequence[BatchReducer[Any]], resumed_rows: ResumedRows | None
    ) -> Callable[[], ForwardStates]:
        """Plan the forward of texts as they are, or of an encoder-decoder whose decoder writes.

        What is written is filled up on the right, where no decoder looks back.
        """
        tokens = BatchTokens(batch.rows, self._kind, self._loaded.special.pad, batch.upload)
        rows_written = [row.written for row in batch.rows if row.written is not None]
        written = batch.upload.add(pad_rows(rows_written, self._loaded.special.pad)) if rows_written else None
        readers = [reader for reducer in reducers for reader in reducer.readers]
        decode = None
        if self._kind == "encoder-decoder" and any(reader.side != "encoder" for reader in readers):
            decode = build_decoder(self._loaded, batch.rows, batch.upload)
        needs_layers = any(reducer.needs_layers for reducer in reducers)
        changes = self._changes(batch)

        def forward() -> ForwardStates:
            body, arguments = self._body, tokens.arguments()
            if needs_layers:
                arguments["output_hidden_states"] = True
            if written is not None:
                body = self._whole
                arguments |= {"decoder_input_ids": written.tensor, "use_cache": False}
            with ExitStack() as stack:
                stack.enter_context(changes())
                stack.enter_context(self._skip_layers(resumed_rows))
                for reducer in reducers:
                    stack.enter_context(reducer.open_hooks())
                output = self._forward(body, arguments, readers, decode)
            # Where both sides have states, those of the decoder are meant.
            names = ("decoder_hidden_states", "hidden_states") if needs_layers else ()
            layers = next(filter(None, (getattr(output, name, None) for name in names)), None)
            if layers and resumed_rows:
                layers = add_cached_states(layers, resumed_rows)
            return ForwardStates(output.last_hidden_state, layers)

        return forward

    def _skip_layers(self, resumed_rows: ResumedRows | None) -> AbstractContextManager[None]:
        if resumed_rows is None or self._hooks is None:
            return nullcontext()
        return skip_layers(self._hooks, text_side(self._loaded), resumed_rows)

    def _changes(self, batch: ForwardBatch) -> Callable[[], AbstractContextManager[None]]:
        """Return a context in which each row is read with its changes."""
        changes = [self._inputs[row.source].shape.changes for row in batch.rows]
        if self._hooks is None or not any(changes):
            return nullcontext
        items_of_rows = map(self._block.get_item, batch.rows)
        items = [(item.item.item_id, len(item.alignment.subwords)) for item in items_of_rows]
        suffix = len(self._loaded.special.suffix)
        side = text_side(self._loaded)
        return BatchChanges(self._hooks, batch.rows, items, changes, suffix, side, batch.upload).install_hooks

    def _forward(
        self,
        body: Callable[..., Any],
        arguments: dict[str, Any],
        readers: Sequence[AttentionReader],
        decode: Callable[..., None] | None,
    ) -> Any:
        """Run one forward pass, recorded where a row requests attention."""
        if self._recording is None or not readers:
            return body(**arguments)

        def forward(**options: bool) -> Any:
            output = body(**arguments, **options)
            if decode is not None:
                decode(output.last_hidden_state, arguments["attention_mask"], **options)
            return output

        return self._recording.read(readers, forward)
