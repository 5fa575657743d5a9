"""An interpolated Kneser-Ney model of subwords.

Kneser and Ney, "Improved backing-off for m-gram language modeling" (1995), in the interpolated form of Chen
and Goodman, "An empirical study of smoothing techniques for language modeling" (1999), section 4.1.6: one
discount an order, estimated from the numbers of n-grams seen once and twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from sonde.base.errors import UsageError

_BITS = 16


MAX_ORDER = 64 // _BITS


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Counts of one order: n-grams as keys of 16 bits per subword, the newest lowest, sorted."""

    grams: UInt64[np.ndarray, " gram"]
    counts: Int[np.ndarray, " gram"]
    contexts: UInt64[np.ndarray, " context"]
    totals: Int[np.ndarray, " context"]
    kinds: Int[np.ndarray, " context"]
    discount: float


def _keys(tokens: Int[np.ndarray, " token"], order: int) -> UInt64[np.ndarray, " gram"]:
    keys = np.zeros(max(0, len(tokens) - order + 1), np.uint64)
    for offset in range(order):
        keys = (keys << np.uint64(_BITS)) | tokens[offset : offset + len(keys)].astype(np.uint64)
    return keys


def _level(grams: UInt64[np.ndarray, " gram"], counts: Int[np.ndarray, " gram"]) -> _Level:
    contexts, first = np.unique(grams >> np.uint64(_BITS), return_index=True)
    singletons, doubletons = int((counts == 1).sum()), int((counts == 2).sum())
    return _Level(
        grams,
        counts,
        contexts,
        np.add.reduceat(counts, first) if len(first) else counts,
        np.diff(np.append(first, len(grams))),
        singletons / (singletons + 2 * doubletons) if singletons else 0.5,
    )


def _find_values(
    keys: UInt64[np.ndarray, " key"], values: Int[np.ndarray, " key"], queries: UInt64[np.ndarray, " query"]
) -> Int[np.ndarray, " query"]:
    if not len(keys):
        return np.zeros(len(queries), np.int64)
    positions = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[positions] == queries, values[positions], 0)


class NGram:
    """An n-gram language model.

    Args:
        tokens: The training stream.
        vocabulary: Number of subwords; what was never seen shares what the unigrams leave over.
        order: Longest n-gram, 1 to 4.
        valid: Which subwords of the stream may be counted; an n-gram counts if all of its subwords are. All
            by default.
    """

    def __init__(
        self,
        tokens: Int[np.ndarray, " token"],
        vocabulary: int,
        order: int = MAX_ORDER,
        valid: Bool[np.ndarray, " token"] | None = None,
    ) -> None:
        if not 1 <= order <= MAX_ORDER:
            raise UsageError(f"n-gram order {order}: it must be 1 to {MAX_ORDER}")
        self.order = order
        self.vocabulary = vocabulary
        keys = _keys(tokens, order)
        if valid is not None:
            is_valid = np.ones(len(keys), bool)
            for offset in range(order):
                is_valid &= valid[offset : offset + len(keys)]
            keys = keys[is_valid]
        grams, counts = np.unique(keys, return_counts=True)
        levels = [_level(grams, counts)]
        for length in range(order - 1, 0, -1):
            # A shorter n-gram counts once for each different subword it was seen behind.
            mask = np.uint64((1 << (_BITS * length)) - 1)
            grams, counts = np.unique(levels[0].grams & mask, return_counts=True)
            levels.insert(0, _level(grams, counts))
        self._levels = levels

    def nats(self, tokens: Int[np.ndarray, " token"]) -> Float[np.ndarray, " token"]:
        """Return the negative log-probability of each subword of a document given those before it.

        Args:
            tokens: A document with its opening piece; the first subword is predicted from nothing.
        """
        probability = np.full(len(tokens), 1 / self.vocabulary)
        for length, level in enumerate(self._levels, start=1):
            keys = _keys(tokens, length)
            count = _find_values(level.grams, level.counts, keys)
            context = keys >> np.uint64(_BITS)
            total = _find_values(level.contexts, level.totals, context)
            kinds = _find_values(level.contexts, level.kinds, context)
            has_context = total > 0
            lower_order = probability[length - 1 :]
            mixture = np.maximum(count - level.discount, 0) + level.discount * kinds * lower_order
            probability[length - 1 :] = np.where(has_context, mixture / np.maximum(total, 1), lower_order)
        return -np.log(probability)
