"""The model runner: a batch of rows in, reduced results out.

All forward passes of `sonde.capture.forward` are run here, except those with gradients
(`sonde.capture.attribution`); `sonde.capture.generate` lets models write. Attention is read as selected rows
and as ranks of words, on each side of the model. The batch size that fits into memory is learnt from batches
that did not fit, and is kept as long as the model is loaded. Errors that the model's own code raises on an
input are told apart from all others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.base.errors import CaptureError, SondeError, explain_nan
from sonde.capture.attention_backend import (
    SIDES,
    AttentionReader,
    RecordableModel,
    RowReader,
    use_readable_attention,
)
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
from sonde.capture.collect import Finish, RowResult, attention_queries, head_segments, state_segments
from sonde.capture.hidden_states import LayerReader, PooledStates, select_layers
from sonde.capture.hooks import BatchChanges, HeadReader, ModelHooks, text_side
from sonde.capture.merge_requests import InputVariant, MergedRequests
from sonde.capture.requests import Prepared, WordLookups, WordRanks
from sonde.capture.scoring import AnswerBoard, PositionScorer, build_answer_ranker
from sonde.capture.settings import CaptureSettings
from sonde.capture.tensors import (
    BatchTokens,
    Download,
    PendingDownload,
    PendingUpload,
    Upload,
    build_attention_mask,
    build_decoder,
    check_finite_scores,
    check_finite_states,
    gather_positions,
    use_matmul_precision,
)
from sonde.capture.windows import Row, count_padded_tokens, pad_rows, split_by_length
from sonde.capture.word_attention import RowWords, WordReader
from sonde.models import LoadedModel
from sonde.models.engine.lm_head import Head, body_and_head
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
        """A batch in as few parts as keep to what fits, in its order; a row alone is always one."""
        most = self._most.get(kind)
        if most is None or count_padded_tokens(batch) <= most:
            return [list(batch)]
        parts: list[list[Row]] = []
        for row in batch:
            if parts and count_padded_tokens([*parts[-1], row]) <= most:
                parts[-1].append(row)
            else:
                parts.append([row])
        return parts

    def lower(self, batch: Sequence[Row], kind: Hashable) -> None:
        """Take in that a batch of several rows did not fit."""
        self._most[kind] = count_padded_tokens(batch[: (len(batch) + 1) // 2])


_fits: WeakKeyDictionary[Any, BatchFit] = WeakKeyDictionary()


def get_batch_fit(model: Any) -> BatchFit:
    """What is known of a loaded model."""
    return _fits.setdefault(model, BatchFit())


def memory_key(batch: Sequence[Row], wanted: Sequence[MergedRequests]) -> Hashable:
    """What decides how much memory a token of a batch takes, given what is wanted of its rows."""
    held = any(one.pooling or one.head_spans or one.depth for one in wanted)
    return batch[0].written is None, held, any(one.needs_attention for one in wanted)


Result = TypeVar("Result")


class UnreadError(Exception):
    """A model's own code failed on what it was given."""

    def split_batch(self, batch: Sequence[Row], unread: dict[int, str]) -> list[list[Row]]:
        """The rows of a batch one by one, the first last; of a single row, its input is noted as unread."""
        if len(batch) > 1:
            return [[row] for row in reversed(batch)]
        unread.setdefault(batch[0].source, str(self))
        return []


def try_read(work: Callable[[], Result]) -> Result | None:
    """What some work gives; None where the model's own code failed."""
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


class BatchReaders:
    """All that reads one batch.

    Args:
        batch: The rows.
        wanted: What is asked of each.
        kind: Kind of the model.
        upload: Takes what is needed where the model is.

    Attributes:
        rows: Reads chosen rows, once the upload was sent; None where no row is asked for.
        words: Read ranks of words, each those of one lookup a row: the first that a row is asked for, the
            second, and so on.
    """

    def __init__(
        self, batch: Sequence[Row], wanted: Sequence[MergedRequests], kind: str, upload: Upload
    ) -> None:
        self.rows: RowReader | None = None
        self._side = "encoder" if kind == "encoder-decoder" else kind
        self._columns: PendingUpload | None = None
        self._layers: dict[int, PendingDownload] = {}
        columns = [
            np.array([column for _, column in attention_queries(row, one)], dtype=np.int64)
            for row, one in zip(batch, wanted, strict=True)
        ]
        if any(len(one) for one in columns):
            self._columns = upload.add(pad_rows(columns, 0))
        self.words: list[WordReader] = []
        self._places: list[int] = []
        sides = SIDES if kind == "encoder-decoder" else (kind,)
        for place in range(max((len(one.words) for one in wanted), default=0)):
            there = [one.words[place] if place < len(one.words) else None for one in wanted]
            for rules in dict.fromkeys(words.rules for words in there if words is not None):
                own = [words if words is not None and words.rules == rules else None for words in there]
                for side in sides:
                    asked = [
                        None if words is None else _build_row_words(row, words, side, kind)
                        for row, words in zip(batch, own, strict=True)
                    ]
                    self.words.append(WordReader(side, asked, rules, side == "decoder", upload))
                    self._places.append(place)

    def begin(self) -> list[AttentionReader]:
        """Every reader of the batch, once the upload was sent."""
        if self._columns is not None:
            self.rows = RowReader(self._side, self._columns.tensor)
        return [*([self.rows] if self.rows is not None else []), *self.words]

    def hand_in(self, download: Download, wanted: Sequence[MergedRequests], model: str) -> None:
        """Have all that was read fetched, of chosen rows those of the layers that are asked for.

        Args:
            download: Fetches it.
            wanted: What is asked of each row.
            model: What to call the model.

        Raises:
            InputError: A layer that the model does not have.
        """
        if self.rows is not None:
            asked = [one.row_layers for one in wanted if one.rows]
            layers = select_layers(asked, len(self.rows.layers), "attention layer", model)
            self._layers = {layer: download.add(self.rows.layers[layer]) for layer in layers}
        for reader in self.words:
            reader.hand_in(download)

    def attention(
        self, batch: Sequence[Row], wanted: Sequence[MergedRequests]
    ) -> list[Float[np.ndarray, "layer head row token"] | None]:
        """The chosen rows of each row of the batch, once they were fetched."""
        found: list[Float[np.ndarray, "layer head row token"] | None] = []
        for index, (row, one) in enumerate(zip(batch, wanted, strict=True)):
            read = len(attention_queries(row, one)) if self._layers else 0
            asked = self._layers if one.row_layers is None else one.row_layers
            rows = [self._layers[layer].array[index, :, :read, : len(row.tokens)] for layer in asked if read]
            found.append(np.stack(rows) if rows else None)
        return found

    def ranks(self, where: str) -> list[tuple[Mapping[str, WordRanks], ...]]:
        """Ranks of words of each row, for each of its lookups by side, once they were fetched.

        Args:
            where: What to call the batch if its attention is broken.

        Raises:
            CaptureError: The attention is not finite.
        """
        found: list[list[dict[str, WordRanks]]] = []
        for place, reader in zip(self._places, self.words, strict=True):
            if not reader.finite:
                raise CaptureError(f"{where}: attention is not finite; the model is broken")
            results = reader.results()
            found = found or [[{} for _ in range(self._places[-1] + 1)] for _ in results]
            for into, one in zip(found, results, strict=True):
                if one is not None:
                    into[place][reader.side] = one
        return [tuple(one) for one in found]


def _build_row_words(row: Row, words: WordLookups, side: str, kind: str) -> RowWords:
    # The decoder of an encoder-decoder reads its start token and then the item.
    starts = {"encoder": -row.origin, "decoder": 1 if kind == "encoder-decoder" else -row.origin, "cross": 1}
    query = starts[side]
    key = starts["encoder"] if side == "cross" else query
    lookups = words.behind if side == "decoder" else words.ahead
    # What only stands before it is seen by a decoder's word, so no separator behind the text.
    behind = (0, 0) if side == "decoder" else (row.read_stop, len(row.tokens))
    return RowWords(words, lookups, query, key, behind)


_CPU_BUDGET = 1024


_ACCELERATOR_BUDGET = 32768


_CPU_CHUNK = 512


_CPU_LOGITS = 1 << 25


_ACCELERATOR_CHUNK = 2048


_ACCELERATOR_FILL = 0.85


class Runner:
    """Runs batches of one model; a context manager, since reading attention switches the model's attention.

    Args:
        loaded: The model.
        prepared: The items.
        inputs: The distinct inputs that rows refer to.
        settings: How inputs are batched and reduced.

    Attributes:
        budget: Padded tokens a batch.
        fill: Share of them that are real, at least.
        halved: Batches read in parts, since they or others of their size did not fit into memory.
        unread: Inputs that the model's own code fails on, each with what it said.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        prepared: Sequence[Prepared],
        inputs: Sequence[InputVariant],
        settings: CaptureSettings,
    ) -> None:
        self._loaded = loaded
        self._prepared = prepared
        self._inputs = inputs
        self._kind = loaded.capabilities.kind
        self._whole, head = body_and_head(loaded)
        self._head = head.to_float32()
        # Of an encoder-decoder the encoder reads; its decoder is asked where it writes.
        self._body = loaded.model.get_encoder() if self._kind == "encoder-decoder" else self._whole
        self._device = loaded.device
        on_cpu = self._device.type == "cpu"
        # Few positions at a time make a CPU lay out the vocabulary's matrix anew again and again.
        most = min(_CPU_CHUNK, max(1, _CPU_LOGITS // max(1, loaded.capabilities.vocab)))
        self._chunk = settings.chunk or (most if on_cpu else _ACCELERATOR_CHUNK)
        self.budget = settings.token_budget or (_CPU_BUDGET if on_cpu else _ACCELERATOR_BUDGET)
        self.fill = settings.fill or (0.0 if on_cpu else _ACCELERATOR_FILL)
        self.halved = 0
        self.unread: dict[int, str] = {}
        self._fit = get_batch_fit(loaded.model)
        self._narrow: dict[AnswerBoard, Head] = {}
        self._layers = LayerReader(loaded, self._head, self._chunk)
        self._reading = ExitStack()
        self._recording: RecordableModel | None = None
        self._hooks: ModelHooks | None = None
        if any(asked.shape.changes or asked.wanted.head_spans for asked in inputs):
            self._hooks = ModelHooks(loaded)

    @property
    def resumes(self) -> bool:
        """Whether rows can be read on from the layer where they are changed."""
        return self._hooks is not None and can_resume(self._loaded, self._hooks)

    @property
    def shares(self) -> bool:
        """Whether what rows begin with alike can be read once for all of them."""
        return can_share_prefixes(self._loaded, self._body)

    def __enter__(self) -> Runner:
        self._reading.enter_context(use_matmul_precision(self._loaded.spec.dtype == TF32))
        if any(asked.wanted.needs_attention for asked in self._inputs):
            self._recording = self._reading.enter_context(use_readable_attention(self._loaded))
        return self

    def __exit__(self, *exception: object) -> None:
        self._reading.close()

    def run(self, batches: Sequence[Sequence[Row]]) -> Iterator[tuple[Row, RowResult]]:
        """Forward batches in their order.

        A batch that does not fit into memory is read in parts that do, as are later batches of the model. One
        that the model's own code fails on is read row by row, so that an input alone is left out (`unread`).

        Raises:
            CaptureError: One row alone does not fit, or the model's output must not be scored.
        """
        if self._loaded.alone or not self._loaded.takes_padding:
            batches = [one for batch in batches for one in split_by_length(batch, alone=self._loaded.alone)]
        waiting = [list(batch) for batch in reversed(batches)]
        while waiting:
            batch = waiting.pop()
            work = memory_key(batch, [self._inputs[row.source].wanted for row in batch])
            parts = self._fit.parts(batch, work)
            if len(parts) > 1:
                self.halved += 1
                waiting += reversed(parts)
                continue
            try:
                results = self._try(batch)
            except UnreadError as error:
                waiting += error.split_batch(batch, self.unread)
                continue
            if results is not None:
                yield from zip(batch, results, strict=True)
            elif len(batch) > 1:
                self._fit.lower(batch, work)
                waiting.append(batch)
            else:
                raise CaptureError(
                    f"{self._row_label(batch[0])}: its {len(batch[0].tokens)} tokens alone do not fit into "
                    "memory; give a smaller --context"
                )

    def run_bundles(self, bundles: Sequence[LayerBundle]) -> Iterator[tuple[Row, RowResult]]:
        """Read rows with changes on from where these begin; what does not fit into memory, from the start.

        Raises:
            CaptureError: As `run`.
        """
        for bundle in bundles:
            read = functools.partial(self._layer_states, bundle.base)
            states = try_read(functools.partial(if_it_fits, read, self._device))
            for start, batch, places in bundle.batches:
                results = None
                if states is not None:
                    resumed = ResumedRows(start, states, torch.tensor(places, device=self._device))
                    results = try_read(functools.partial(self._try, batch, resumed))
                if results is None:
                    yield from self.run([batch])
                else:
                    yield from zip(batch, results, strict=True)

    @torch.inference_mode()
    def _layer_states(self, base: Sequence[Row]) -> LayerStates:
        """What every layer gives for rows with nothing changed."""
        assert self._hooks is not None
        upload = Upload(self._device)
        tokens = BatchTokens(base, self._kind, self._loaded.special.pad, upload)
        upload.send()
        held: list[Tensor] = []
        with convert_read_errors(), keep_layer_outputs(self._hooks, text_side(self._loaded), held):
            self._body(**tokens.arguments())
        return held

    def _try(self, batch: Sequence[Row], resumed: ResumedRows | None = None) -> list[RowResult] | None:
        """Results of a batch, None where memory ran out."""
        return if_it_fits(lambda: self._batch(batch, resumed), self._device)

    @torch.inference_mode()
    def _batch(self, batch: Sequence[Row], resumed: ResumedRows | None) -> list[RowResult]:
        """One copy to the device, the forward, and one copy back."""
        wanted = [self._inputs[row.source].wanted for row in batch]
        upload, download = Upload(self._device), Download()
        read, source = self._reader(batch, wanted, upload, download, resumed)
        scoring = PositionScorer(
            batch,
            self._loaded.capabilities.vocab,
            upload,
            source,
            build_answer_ranker(batch, wanted, list(map(self._item, batch)), self._loaded, upload),
        )
        upload.send()
        with convert_read_errors():
            states, finish = read()
        if scoring.has_requests and any(one.needs_scores for one in wanted):
            self._score(scoring, wanted, states, download)
        download.fetch()
        results = scoring.results()
        check_finite_scores(batch, results, self._row_label, self._loaded.model.dtype)
        return finish(results)

    def _reader(
        self,
        batch: Sequence[Row],
        wanted: Sequence[MergedRequests],
        upload: Upload,
        download: Download,
        resumed: ResumedRows | None,
    ) -> tuple[_Read, Int[np.ndarray, " position"] | None]:
        """What forwards a batch once its arrays are sent; and the state of each position where rows share."""
        if batch[0].shared:
            prefixes = SharedPrefixes(batch, self._loaded.special.pad, upload)
            return lambda: (prefixes.states(self._body), list), prefixes.source
        index = np.repeat(np.arange(len(batch)), [len(row.query) for row in batch])
        places = upload.add(index), upload.add(np.concatenate([row.query for row in batch]))
        if any(row.written is not None for row in batch):
            return self._read_decoder(batch, wanted, places, upload, download), None
        return self._plain(batch, wanted, places, upload, download, resumed), None

    def _plain(
        self,
        batch: Sequence[Row],
        wanted: Sequence[MergedRequests],
        places: tuple[PendingUpload, PendingUpload],
        upload: Upload,
        download: Download,
        resumed: ResumedRows | None,
    ) -> _Read:
        """The forward of texts as they are, with states and attention where a row asks for them."""
        tokens = BatchTokens(batch, self._kind, self._loaded.special.pad, upload)
        readers = BatchReaders(batch, wanted, self._kind, upload)
        decode = (
            build_decoder(self._loaded, batch, upload)
            if self._kind == "encoder-decoder" and readers.words
            else None
        )
        subwords = [len(self._item(row).alignment.subwords) for row in batch]
        bounds = [
            state_segments(row, one, size, self._loaded.special)
            for row, one, size in zip(batch, wanted, subwords, strict=True)
        ]
        pooled = PooledStates(
            bounds, [one.layers if one.pooling else () for one in wanted], upload, self._loaded.spec.name
        )
        heads = PooledStates(
            [head_segments(row, one) for row, one in zip(batch, wanted, strict=True)],
            [one.head_layers if one.head_spans else () for one in wanted],
            upload,
            self._loaded.spec.name,
            "attention layer",
        )
        changes, hooks = self._changes(batch, upload), self._hooks
        depth = self._layers.build_scorer(batch, wanted, upload)

        def read() -> tuple[Tensor, Finish]:
            arguments = tokens.arguments()
            if pooled.has_requests or depth.has_requests:
                arguments["output_hidden_states"] = True
            reader = HeadReader(hooks, text_side(self._loaded)) if heads.has_requests and hooks else None
            with changes(), self._skip_layers(resumed), reader.keep_outputs() if reader else nullcontext():
                output = self._forward(arguments, readers, decode)
            states = output.hidden_states if pooled.has_requests or depth.has_requests else None
            states = add_cached_states(states, resumed) if states and resumed else states
            pooled.hand_in(states if pooled.has_requests else None, download)
            heads.hand_in(reader.layers if reader else None, download)
            readers.hand_in(download, wanted, self._loaded.spec.name)
            if depth.has_requests:
                depth.hand_in(states or [], output.last_hidden_state, download)
            return gather_positions(output.last_hidden_state, places), finish

        def finish(scored: Sequence[RowResult]) -> list[RowResult]:
            for held in (pooled, heads):
                check_finite_states(batch, held.first_non_finite(), self._row_label, self._loaded.model.dtype)
            attention = readers.attention(batch, wanted)
            for row, rows in zip(batch, attention, strict=True):
                if rows is not None and not np.isfinite(rows).all():
                    cause = explain_nan(self._loaded.model.dtype)
                    raise CaptureError(f"{self._row_label(row)}: attention rows are not finite; {cause}")
            words = readers.ranks(self._row_label(batch[0])) or [()] * len(batch)
            scored = depth.extend_results(scored, self._row_label)
            return [
                replace(result, sums=one, heads=two, attention=three, words=four)
                for result, one, two, three, four in zip(
                    scored, pooled.results(), heads.results(), attention, words, strict=True
                )
            ]

        return read

    def _skip_layers(self, resumed: ResumedRows | None) -> AbstractContextManager[None]:
        if resumed is None or self._hooks is None:
            return nullcontext()
        return skip_layers(self._hooks, text_side(self._loaded), resumed)

    def _read_decoder(
        self,
        batch: Sequence[Row],
        wanted: Sequence[MergedRequests],
        places: tuple[PendingUpload, PendingUpload],
        upload: Upload,
        download: Download,
    ) -> _Read:
        """The forward of an encoder-decoder that writes: last states of its decoder over what it reads.

        Shorter rows are filled up on the right, where no decoder looks back.
        """
        fill = self._loaded.special.pad
        tokens = upload.add(pad_rows([row.tokens for row in batch], fill))
        written = upload.add(pad_rows([row.written for row in batch if row.written is not None], fill))
        seen = upload.add(build_attention_mask(batch))
        depth = self._layers.build_scorer(batch, wanted, upload)
        changes = self._changes(batch, upload)

        def read() -> tuple[Tensor, Finish]:
            with changes():
                output = self._whole(
                    input_ids=tokens.tensor,
                    attention_mask=seen.tensor,
                    decoder_input_ids=written.tensor,
                    use_cache=False,
                    output_hidden_states=depth.has_requests,
                )
            if depth.has_requests:
                # Where both sides have states, those of the decoder are meant.
                states = getattr(output, "decoder_hidden_states", None) or output.hidden_states
                depth.hand_in(states, output.last_hidden_state, download)
            return gather_positions(output.last_hidden_state, places), lambda one: depth.extend_results(
                one, self._row_label
            )

        return read

    def _changes(self, batch: Sequence[Row], upload: Upload) -> Callable[[], AbstractContextManager[None]]:
        """A context in which the rows are read with what is changed of each."""
        asked = [self._inputs[row.source].shape.changes for row in batch]
        if self._hooks is None or not any(asked):
            return nullcontext
        items = [(one.item.item_id, len(one.alignment.subwords)) for one in map(self._item, batch)]
        suffix = len(self._loaded.special.suffix)
        side = text_side(self._loaded)
        return BatchChanges(self._hooks, batch, items, asked, suffix, side, upload).install_hooks

    def _forward(
        self, arguments: dict[str, Any], readers: BatchReaders, decode: Callable[..., None] | None
    ) -> Any:
        """One forward, recorded where a row of the batch asks for attention."""
        reading = readers.begin()
        if self._recording is None or not reading:
            return self._body(**arguments)

        def forward(**more: bool) -> Any:
            output = self._body(**arguments, **more)
            if decode is not None:
                decode(output.last_hidden_state, arguments["attention_mask"], **more)
            return output

        return self._recording.read(reading, forward)

    def _score(
        self,
        scoring: PositionScorer,
        wanted: Sequence[MergedRequests],
        states: Float[Tensor, "state d_model"],
        download: Download,
    ) -> None:
        board = scoring.board
        if board is not None and all(one.narrow for one in wanted):
            # Kept, since it is held against the whole head when it is first used.
            head = self._narrow.setdefault(board, self._head.restrict_to_ids(board.ids))
            scoring.rank_answers(states, head, download, self._chunk)
        else:
            top_k = max(one.top_k or 0 for one in wanted)
            scoring.hand_in(states, self._head, download, top_k=top_k, chunk=self._chunk)

    def _item(self, row: Row) -> Prepared:
        return self._prepared[self._inputs[row.source].item]

    def _row_label(self, row: Row) -> str:
        item = self._item(row).item
        return f"model {self._loaded.spec.name!r}, item {item.item_id} ({item.path} {item.name})"


_Read = Callable[[], tuple[Tensor, Finish]]
"""Forwards a batch: the states at its scored positions, and what puts results together."""
