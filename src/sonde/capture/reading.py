"""What reads the attention of a batch: chosen rows, and ranks of words, on each side that the model has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from sonde.base.errors import CaptureError
from sonde.capture.attention import SIDES, AttentionReader, RowReader
from sonde.capture.batches import pad
from sonde.capture.collect import queries
from sonde.capture.requests import RankRules, WordRanks
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
        words: Read ranks of words.
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
        sides = SIDES if kind == "encoder-decoder" else (kind,)
        for rules in dict.fromkeys(one.words.rules for one in wanted if one.words is not None):
            for side in sides:
                asked = [_asked(row, one, side, kind, rules) for row, one in zip(batch, wanted, strict=True)]
                self.words.append(WordReader(side, asked, rules, side == "decoder", upload))

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

    def ranks(self, where: str) -> list[Mapping[str, WordRanks]]:
        """Ranks of words of each row by side, once they were fetched.

        Args:
            where: What to call the batch if its attention is broken.

        Raises:
            CaptureError: The attention is not finite.
        """
        found: list[dict[str, WordRanks]] = []
        for reader in self.words:
            if not reader.finite:
                raise CaptureError(f"{where}: attention is not finite; the model is broken")
            results = reader.results()
            found = found or [{} for _ in results]
            for into, one in zip(found, results, strict=True):
                if one is not None:
                    into[reader.side] = one
        return list(found)


def _asked(row: Row, wanted: MergedRequests, side: str, kind: str, rules: RankRules) -> RowWords | None:
    if wanted.words is None or wanted.words.rules != rules:
        return None
    # The decoder of an encoder-decoder reads its start token and then the item.
    starts = {"encoder": -row.origin, "decoder": 1 if kind == "encoder-decoder" else -row.origin, "cross": 1}
    query = starts[side]
    key = starts["encoder"] if side == "cross" else query
    lookups = wanted.words.behind if side == "decoder" else wanted.words.ahead
    # What only stands before it is seen by a decoder's word, so no separator behind the text.
    behind = (0, 0) if side == "decoder" else (row.read_stop, len(row.tokens))
    return RowWords(wanted.words, lookups, query, key, behind)
