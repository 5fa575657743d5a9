"""What reads the attention of a batch: chosen rows, and ranks of words, on each side that the model has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from sonde.base.errors import CaptureError
from sonde.capture.attention import SIDES, AttentionReader, RowReader
from sonde.capture.batches import pad
from sonde.capture.collect import queries
from sonde.capture.requests import WordLookups, WordRanks
from sonde.capture.row import Row
from sonde.capture.states import chosen
from sonde.capture.transfer import Download, Fetched, Sent, Upload
from sonde.capture.union import MergedRequests
from sonde.capture.words import RowWords, WordReader


class Readers:
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
        self._columns: Sent | None = None
        self._layers: dict[int, Fetched] = {}
        columns = [
            np.array([column for _, column in queries(row, one)], dtype=np.int64)
            for row, one in zip(batch, wanted, strict=True)
        ]
        if any(len(one) for one in columns):
            self._columns = upload.add(pad(columns, 0))
        self.words: list[WordReader] = []
        self._places: list[int] = []
        sides = SIDES if kind == "encoder-decoder" else (kind,)
        for place in range(max((len(one.words) for one in wanted), default=0)):
            there = [one.words[place] if place < len(one.words) else None for one in wanted]
            for rules in dict.fromkeys(words.rules for words in there if words is not None):
                own = [words if words is not None and words.rules == rules else None for words in there]
                for side in sides:
                    asked = [
                        None if words is None else _asked(row, words, side, kind)
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
            layers = chosen(asked, len(self.rows.layers), "attention layer", model)
            self._layers = {layer: download.add(self.rows.layers[layer]) for layer in layers}
        for reader in self.words:
            reader.hand_in(download)

    def attention(
        self, batch: Sequence[Row], wanted: Sequence[MergedRequests]
    ) -> list[Float[np.ndarray, "layer head row token"] | None]:
        """The chosen rows of each row of the batch, once they were fetched."""
        found: list[Float[np.ndarray, "layer head row token"] | None] = []
        for index, (row, one) in enumerate(zip(batch, wanted, strict=True)):
            read = len(queries(row, one)) if self._layers else 0
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


def _asked(row: Row, words: WordLookups, side: str, kind: str) -> RowWords:
    # The decoder of an encoder-decoder reads its start token and then the item.
    starts = {"encoder": -row.origin, "decoder": 1 if kind == "encoder-decoder" else -row.origin, "cross": 1}
    query = starts[side]
    key = starts["encoder"] if side == "cross" else query
    lookups = words.behind if side == "decoder" else words.ahead
    # What only stands before it is seen by a decoder's word, so no separator behind the text.
    behind = (0, 0) if side == "decoder" else (row.read_stop, len(row.tokens))
    return RowWords(words, lookups, query, key, behind)
