"""The one place where a model reads: a batch of rows in, reduced results out (`generate` lets it write)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.alignment import surfaces
from sonde.alignment.vocabulary import vocabulary_of
from sonde.base.errors import CaptureError, InputError, not_finite
from sonde.capture.answers import AnswerBoard, RankedAnswers, Right, answer_board
from sonde.capture.attention import Recording, RowReader
from sonde.capture.batches import pad
from sonde.capture.collect import RowResult, queries, segments
from sonde.capture.reading import Readers
from sonde.capture.reducers import SCORES, pool, score_answers, score_positions
from sonde.capture.requests import Answer, Prepared, ScoredAnswers
from sonde.capture.rows import Row, of_one_length, padded
from sonde.capture.settings import CaptureSettings
from sonde.capture.sharing import shared_states, shares
from sonde.capture.trial import recording
from sonde.capture.union import Input, MergedRequests
from sonde.models import FAMILIES, LoadedModel

_CPU_BUDGET = 1024
_ACCELERATOR_BUDGET = 32768
_CPU_CHUNK = 512
_CPU_LOGITS = 1 << 25
_ACCELERATOR_CHUNK = 2048


class Runner:
    """Runs batches of one model; a context manager, since reading attention switches the model's attention.

    Args:
        loaded: The model.
        prepared: The items.
        inputs: The distinct inputs that rows refer to.
        settings: How inputs are batched and reduced.

    Attributes:
        budget: Padded tokens a batch.
        halved: Batches read as two, since they or others of their size did not fit into memory.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        prepared: Sequence[Prepared],
        inputs: Sequence[Input],
        settings: CaptureSettings,
    ) -> None:
        self._loaded = loaded
        self._prepared = prepared
        self._inputs = inputs
        self._kind = loaded.capabilities.kind
        self._whole, head = FAMILIES.load(loaded.family).body_and_head(loaded.model)
        self._head = head.widened()
        # Of an encoder-decoder the encoder reads; its decoder is asked where it writes.
        self._body = loaded.model.get_encoder() if self._kind == "encoder-decoder" else self._whole
        self._device = loaded.device
        on_cpu = self._device.type == "cpu"
        # Few positions at a time make a CPU lay out the vocabulary's matrix anew again and again.
        most = min(_CPU_CHUNK, max(1, _CPU_LOGITS // max(1, loaded.capabilities.vocab)))
        self._chunk = settings.chunk or (most if on_cpu else _ACCELERATOR_CHUNK)
        self.budget = settings.token_budget or (_CPU_BUDGET if on_cpu else _ACCELERATOR_BUDGET)
        self.halved = 0
        self._reading = ExitStack()
        self._recording: Recording | None = None

    @property
    def shares(self) -> bool:
        """Whether what rows begin with alike can be read once for all of them."""
        return shares(self._loaded, self._body)

    def __enter__(self) -> Runner:
        if any(asked.wanted.rows or asked.wanted.words is not None for asked in self._inputs):
            self._recording = self._reading.enter_context(recording(self._loaded))
        return self

    def __exit__(self, *exception: object) -> None:
        self._reading.close()

    def run(self, batches: Sequence[Sequence[Row]]) -> Iterator[tuple[Row, RowResult]]:
        """Forward batches in their order.

        A batch that does not fit into memory is halved until it does, and later batches keep to what fitted.

        Raises:
            CaptureError: One row alone does not fit, or the model's output must not be scored.
        """
        if self._loaded.alone or not self._loaded.takes_padding:
            batches = [one for batch in batches for one in of_one_length(batch, alone=self._loaded.alone)]
        waiting = [list(batch) for batch in reversed(batches)]
        most: int | None = None
        while waiting:
            batch = waiting.pop()
            fits = most is None or len(batch) == 1 or padded(batch) <= most
            results = self._try(batch) if fits else None
            if results is None and len(batch) == 1:
                raise CaptureError(
                    f"{self._where(batch[0])}: its {len(batch[0].tokens)} tokens alone do not fit into "
                    "memory; give a smaller --context"
                )
            if results is None:
                self.halved += 1
                half = (len(batch) + 1) // 2
                most = padded(batch[:half]) if most is None else most
                waiting += [batch[half:], batch[:half]]
            else:
                yield from zip(batch, results, strict=True)

    def _try(self, batch: Sequence[Row]) -> list[RowResult] | None:
        """Results of a batch, None where memory ran out."""
        try:
            return self._batch(batch)
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
        # Outside the handler, since the traceback keeps the tensors of the failed forward alive.
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        return None

    @torch.inference_mode()
    def _batch(self, batch: Sequence[Row]) -> list[RowResult]:
        pad_id = self._loaded.special.pad
        if any(row.written is not None for row in batch):
            return self._scored(batch, self._queried(batch, self._written(batch)))
        if batch[0].shared:
            return self._scored(batch, *shared_states(self._body, batch, pad_id, self._device))
        wanted = [self._inputs[row.source].wanted for row in batch]
        tokens = self._padded([row.tokens for row in batch])
        arguments: dict[str, Any] = {"input_ids": tokens}
        if self._kind == "decoder":
            arguments["use_cache"] = False
        if self._kind != "decoder" or any(row.attended >= 0 for row in batch):
            # Of a decoder padding stands to the right, where no real position looks: without a mask the fused
            # triangular attention applies and positions count from 0, as they should.
            arguments["attention_mask"] = self._mask(batch, tokens.shape[1])
        if any(one.pooling for one in wanted):
            arguments["output_hidden_states"] = True
        readers = Readers(batch, wanted, self._kind, self._device)
        output = self._forward(batch, arguments, readers)
        scored = self._scored(batch, self._queried(batch, output.last_hidden_state))
        sums = self._sums(batch, wanted, output)
        attention = self._attention(batch, wanted, readers.rows)
        words = readers.ranks(self._where(batch[0])) or [{}] * len(batch)
        return [
            replace(result, sums=one, attention=two, words=three)
            for result, one, two, three in zip(scored, sums, attention, words, strict=True)
        ]

    def _padded(self, rows: Sequence[Int[np.ndarray, " token"]]) -> Int[Tensor, "batch token"]:
        return torch.from_numpy(pad(rows, self._loaded.special.pad)).to(self._device)

    def _mask(self, batch: Sequence[Row], width: int) -> Int[Tensor, "batch token"]:
        seen = np.array([len(row.tokens) if row.attended < 0 else row.attended for row in batch])
        return torch.from_numpy((np.arange(width) < seen[:, None]).astype(np.int64)).to(self._device)

    def _written(self, batch: Sequence[Row]) -> Float[Tensor, "batch token d_model"]:
        """Last states of the decoder of an encoder-decoder over what it reads of each row.

        Shorter rows are filled up on the right, where no decoder looks back.
        """
        tokens = self._padded([row.tokens for row in batch])
        written = self._padded([row.written for row in batch if row.written is not None])
        mask = self._mask(batch, tokens.shape[1])
        output = self._whole(
            input_ids=tokens, attention_mask=mask, decoder_input_ids=written, use_cache=False
        )
        return output.last_hidden_state

    def _forward(self, batch: Sequence[Row], arguments: dict[str, Any], readers: Readers) -> Any:
        """One forward, recorded where a row of the batch asks for attention."""
        if self._recording is None or not readers.all:
            return self._body(**arguments)

        def forward(**more: bool) -> Any:
            output = self._body(**arguments, **more)
            if self._kind == "encoder-decoder" and readers.words:
                self._decode(batch, output.last_hidden_state, arguments["attention_mask"], **more)
            return output

        return self._recording.read(readers.all, forward)

    def _decode(
        self,
        batch: Sequence[Row],
        states: Float[Tensor, "batch token d_model"],
        mask: Tensor,
        **more: bool,
    ) -> None:
        """Let the decoder of an encoder-decoder read the same items, after its start token."""
        start = self._loaded.special.bos
        start = self._loaded.special.pad if start is None else start
        beyond = len(self._loaded.special.suffix)
        tokens = [
            np.concatenate([[start], row.tokens[-row.origin : len(row.tokens) - beyond]]) for row in batch
        ]
        self._loaded.model.get_decoder()(
            input_ids=self._padded(tokens),
            encoder_hidden_states=states,
            encoder_attention_mask=mask,
            use_cache=False,
            **more,
        )

    def _queried(
        self, batch: Sequence[Row], last: Float[Tensor, "batch token d_model"]
    ) -> Float[Tensor, "position d_model"]:
        """The states at the positions that are scored, row after row."""
        index = torch.from_numpy(np.repeat(np.arange(len(batch)), [len(row.query) for row in batch]))
        query = torch.from_numpy(np.concatenate([row.query for row in batch]))
        return last[index.to(last.device), query.to(last.device)].to(self._device)

    def _scored(
        self,
        batch: Sequence[Row],
        states: Float[Tensor, "state d_model"],
        source: Int[np.ndarray, " position"] | None = None,
    ) -> list[RowResult]:
        """Scores of each row from states; ``source`` says which state is whose where rows share some."""
        lengths = [len(row.query) for row in batch]
        if not any(lengths):
            return [RowResult() for _ in batch]
        wanted = [self._inputs[row.source].wanted for row in batch]
        gold = np.concatenate([row.gold for row in batch])
        board, right = self._answers(batch, wanted)
        if board is not None and right is not None and all(one.narrow for one in wanted):
            found = score_answers(states, self._head.narrowed(board.ids), board, right, self._chunk)
            return [RowResult(answers=one) for one in _answers_of(found, lengths)]
        back: Int[np.ndarray, " position"] | None = None
        if source is not None:
            # What rows share is followed by the same piece in most of them: each such pair is scored once.
            pairs, back = np.unique(source * self._loaded.capabilities.vocab + gold, return_inverse=True)
            source, gold = np.divmod(pairs, self._loaded.capabilities.vocab)
        found = score_positions(
            states,
            self._head,
            torch.from_numpy(gold).to(self._device),
            top_k=max(one.top_k or 0 for one in wanted),
            chunk=self._chunk,
            source=source,
            board=board,
            right=right,
        )
        arrays = {name: getattr(found, name).cpu().numpy() for name in SCORES}
        if back is not None:
            arrays = {name: array[back] for name, array in arrays.items()}
        self._refuse_broken(batch, arrays["nats"], arrays["entropy"])
        scores = [
            None if one is None else dict(zip(SCORES, one, strict=True))
            for one in _of_rows(arrays.values(), lengths)
        ]
        answers = [None] * len(batch) if found.answers is None else _answers_of(found.answers, lengths)
        return [RowResult(scores=one, answers=two) for one, two in zip(scores, answers, strict=True)]

    def _answers(
        self, batch: Sequence[Row], wanted: Sequence[MergedRequests]
    ) -> tuple[AnswerBoard | None, Right | None]:
        """What ranks answers, and what is right at each position; nothing where none are asked for."""
        asked = next((one.answers for one in wanted if one.answers is not None), None)
        if asked is None:
            return None, None
        names = surfaces(self._loaded.tokenizer, self._loaded.capabilities.vocab)
        board = answer_board(vocabulary_of(names), asked.among, self._device)
        answers: list[Answer | None] = []
        for row, one in zip(batch, wanted, strict=True):
            named = {} if one.answers is None else one.answers.answers.get(self._item(row).item.item_id, {})
            answers += [named.get(target) for target in row.target.tolist()]
        return board, board.right(answers, np.concatenate([row.gold for row in batch]).tolist())

    def _refuse_broken(
        self,
        batch: Sequence[Row],
        nats: Float[np.ndarray, " position"],
        entropy: Float[np.ndarray, " position"],
    ) -> None:
        broken = np.flatnonzero(~np.isfinite(nats) | ~np.isfinite(entropy))
        if len(broken):
            at = int(broken[0])
            index = np.repeat(np.arange(len(batch)), [len(row.query) for row in batch])
            position = int(np.concatenate([one.target for one in batch])[at])
            raise CaptureError(
                f"{self._where(batch[int(index[at])])}, subword {position}: the model gives {nats[at]} nats; "
                f"{not_finite(self._loaded.model.dtype)}"
            )

    def _sums(
        self, batch: Sequence[Row], wanted: Sequence[MergedRequests], output: Any
    ) -> list[Float[np.ndarray, "layer segment d_model"] | None]:
        if not any(one.pooling for one in wanted):
            return [None] * len(batch)
        states = output.hidden_states
        if states is None or any(one is None for one in states):
            raise CaptureError(f"model {self._name!r} returned no hidden states though asked for them")
        (count, width), shapes = states[0].shape[:2], [tuple(one.shape) for one in states]
        odd = [shape for shape in shapes if len(shape) != 3 or shape[:2] != (count, width)]
        if odd or count != len(batch):
            raise CaptureError(
                f"model {self._name!r}: its hidden states are {' x '.join(map(str, (odd or shapes)[0]))}, "
                "not one vector a subword; ask for losses instead"
            )
        bounds = [
            segments(row, one, len(self._item(row).alignment.subwords), self._loaded.special)
            for row, one in zip(batch, wanted, strict=True)
        ]
        weights = np.zeros((len(batch), max(len(one) for one in bounds), states[0].shape[1]), dtype=np.bool_)
        for row, spans in enumerate(bounds):
            for place, (start, stop) in enumerate(spans):
                weights[row, place, start : max(start, stop)] = True
        chosen = _chosen([one.layers for one in wanted if one.pooling], len(states), "layer", self._name)
        on_device = torch.from_numpy(weights).to(self._device)
        sums = {at: pool(states[at].to(self._device), on_device).double().cpu().numpy() for at in chosen}
        results: list[Float[np.ndarray, "layer segment d_model"] | None] = []
        for index, (row, one) in enumerate(zip(batch, wanted, strict=True)):
            if not one.pooling:
                results.append(None)
                continue
            layers = range(len(states)) if one.layers is None else one.layers
            for layer in layers:
                if not np.isfinite(sums[layer][index]).all():
                    raise CaptureError(
                        f"{self._where(row)}: the hidden states of layer {layer} are not finite; "
                        f"{not_finite(self._loaded.model.dtype)}"
                    )
            results.append(np.stack([sums[layer][index, : len(bounds[index])] for layer in layers]))
        return results

    def _attention(
        self, batch: Sequence[Row], wanted: Sequence[MergedRequests], reader: RowReader | None
    ) -> list[Float[np.ndarray, "layer head row token"] | None]:
        if reader is None:
            return [None] * len(batch)
        count = len(reader.layers)
        chosen = _chosen([one.row_layers for one in wanted if one.rows], count, "attention layer", self._name)
        layers = {layer: reader.layers[layer].cpu().numpy() for layer in chosen}
        results: list[Float[np.ndarray, "layer head row token"] | None] = []
        for index, (row, one) in enumerate(zip(batch, wanted, strict=True)):
            read = len(queries(row, one))
            if not read:
                results.append(None)
                continue
            asked = range(count) if one.row_layers is None else one.row_layers
            rows = np.stack([layers[layer][index, :, :read, : len(row.tokens)] for layer in asked])
            if not np.isfinite(rows).all():
                cause = not_finite(self._loaded.model.dtype)
                raise CaptureError(f"{self._where(row)}: attention rows are not finite; {cause}")
            results.append(rows)
        return results

    @property
    def _name(self) -> str:
        return self._loaded.spec.name

    def _item(self, row: Row) -> Prepared:
        return self._prepared[self._inputs[row.source].item]

    def _where(self, row: Row) -> str:
        item = self._item(row).item
        return f"model {self._name!r}, item {item.item_id} ({item.path} {item.name})"


def _chosen(asked: Sequence[tuple[int, ...] | None], count: int, what: str, model: str) -> list[int]:
    """The layers that any row asks for.

    Raises:
        InputError: A layer that the model does not have.
    """
    chosen = sorted({layer for one in asked for layer in (range(count) if one is None else one)})
    for layer in chosen:
        if not 0 <= layer < count:
            raise InputError(f"model {model!r} has no {what} {layer}; it has 0 to {count - 1}")
    return chosen


def _of_rows(arrays: Iterable[np.ndarray], lengths: Sequence[int]) -> list[tuple[np.ndarray, ...] | None]:
    """The part of arrays over all positions that each row has; None where it has no position."""
    parts = zip(*(np.split(array, np.cumsum(lengths)[:-1]) for array in arrays), strict=True)
    return [one if length else None for one, length in zip(parts, lengths, strict=True)]


def _answers_of(found: RankedAnswers, lengths: Sequence[int]) -> list[ScoredAnswers | None]:
    """Ranked answers of each row; None where it has no position."""
    arrays = [part.cpu().numpy() for part in (found.nats, found.rank, found.shared_nats, found.shared_rank)]
    return [None if one is None else ScoredAnswers(*one) for one in _of_rows(arrays, lengths)]


def _out_of_memory(error: BaseException) -> bool:
    signs, said = ("out of memory", "can't allocate memory", "not enough memory"), str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(sign in said for sign in signs)
