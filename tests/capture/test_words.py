"""Ranks of words against whole attention matrices, reduced by loops that follow the specs word for word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.errors import CaptureError, InputError
from sonde.capture import attention_backend
from sonde.capture.forward import observe, observe_lenses
from sonde.capture.requests import (
    NEVER,
    AttentionRows,
    HiddenStates,
    ItemCapture,
    Lookups,
    Pass,
    Plain,
    Prepared,
    RankRules,
    WordAttention,
    WordLookups,
)
from sonde.capture.settings import CaptureSettings
from sonde.capture.word_attention import NEAR_TIE, RowWords, rank_orders, rank_words
from sonde.models import LoadedModel

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

CORRECTED = RankRules()
TEXTS = ("def f(a, b):\n    return a + b\n", "x = 'façade'\r\n", "if x: y", "a")


def words_of(subwords: int, seed: int, rules: RankRules = CORRECTED) -> WordLookups:
    """Words of one or two subwords; some share subwords, some have none; lookups in both directions."""
    rng = np.random.default_rng(seed)
    first, stop, at = [], [], 0
    while at < subwords:
        size = int(rng.integers(1, 3))
        first.append(at)
        stop.append(min(at + size, subwords))
        if rng.random() < 0.2:
            first.append(first[-1])
            stop.append(stop[-1])
        if rng.random() < 0.2:
            first.append(stop[-1])
            stop.append(stop[-1])
        at += size
    count = len(first)
    pairs = [sorted(rng.integers(0, count, 3).tolist()) for _ in range(12)] if count > 1 else []
    ahead = np.array([(q, q, f, t) for q, f, t in pairs if q < f] or [(0, 0, 0, 0)]).T
    behind = np.array([(f, t, q, q) for q, f, t in pairs if q < f] or [(0, 0, 0, 0)]).T
    return WordLookups(
        first=np.array(first),
        stop=np.array(stop),
        candidates=rng.random(count) < 0.9,
        ahead=Lookups(*ahead),
        behind=Lookups(*behind),
        rules=rules,
    )


def competing(
    words: WordLookups, word_level: np.ndarray, query: int, causal: bool
) -> tuple[np.ndarray, list[int]]:
    """What a word pays the others, and who of them is ranked."""
    row = word_level[query].copy()
    field = [w for w in range(len(row)) if words.candidates[w]]
    if words.rules.self_competes:
        row[query] = 0.0
        return row, field
    field = [w for w in field if w != query]
    return row, [w for w in field if not causal or words.first[w] < words.stop[query]]


def slow_rank(
    words: WordLookups, word_level: np.ndarray, query: int, wanted: Sequence[int], causal: bool
) -> int:
    row, field = competing(words, word_level, query, causal)
    targets = [w for w in wanted if w in field]
    if not targets:
        return NEVER
    if words.rules.later_wins:
        order = sorted(field, key=lambda w: (row[w], w), reverse=True)
        return min(order.index(w) + 1 for w in targets)
    # The reader's tolerance for near-ties is part of the rule.
    best = max(row[w] for w in targets) * (1 - 1e-5)
    return 1 + sum(row[w] >= best for w in field if w not in wanted)


def slow_words(words: WordLookups, matrix: np.ndarray) -> np.ndarray:
    """What each word pays to each other in one head, from its matrix of subwords."""
    count = len(words.first)
    spans = [range(int(a), int(b)) for a, b in zip(words.first, words.stop, strict=True)]
    word_level = np.zeros((count, count))
    for head in range(count):
        for other in range(count):
            cells = [sum(matrix[row, column] for column in spans[other]) for row in spans[head]]
            word_level[head, other] = sum(cells) / len(cells) if cells else 0.0
    return word_level


def slow_ranks(
    words: WordLookups, lookups: Lookups, matrix: np.ndarray, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Ranks and picks by loops over one head's matrix of subwords, (query, key), in double precision."""
    word_level = slow_words(words, matrix)
    ranks, picks = [], []
    for query, until, first, last in zip(
        lookups.query, lookups.until, lookups.first, lookups.last, strict=True
    ):
        best = min(
            slow_rank(words, word_level, row, range(first, last + 1), causal)
            for row in range(query, until + 1)
        )
        ends = [
            slow_rank(words, word_level, query, [first], causal),
            slow_rank(words, word_level, until, [last], causal),
        ]
        ranks.append([*ends, best])
        row, field = competing(words, word_level, query, causal)
        top = max((row[w] for w in field), default=0.0)
        picks.append([w for w in field if row[w] >= top * (1 - 1e-6)])
    return np.array(ranks), picks


def eager_sides(loaded: LoadedModel, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Matrices of one unpadded item over its own subwords by side: (layer, head, query, key)."""
    size = len(ids)
    return {
        side: whole[:, :, q : q + size, k : k + size]
        for side, (whole, q, k) in eager_matrices(loaded, ids).items()
    }


@torch.no_grad()
def eager_matrices(loaded: LoadedModel, ids: np.ndarray) -> dict[str, tuple[np.ndarray, int, int]]:
    """Whole matrices by side, special tokens included, and where the item begins among queries and keys."""
    model, special = loaded.model, loaded.special
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    kind = loaded.capabilities.kind
    if kind == "encoder-decoder":
        tokens = torch.tensor([[*special.prefix, *ids, *special.suffix]])
        written = torch.tensor([[special.bos if special.bos is not None else special.pad, *ids]])
        output = model(input_ids=tokens, decoder_input_ids=written, output_attentions=True)
        start = len(special.prefix)
        found = {
            "encoder": (output.encoder_attentions, start, start),
            "decoder": (output.decoder_attentions, 1, 1),
            "cross": (output.cross_attentions, 1, start),
        }
    else:
        prefix = special.prefix if special.bos is None else (special.bos,)
        output = model(torch.tensor([[*prefix, *ids, *special.suffix]]), output_attentions=True)
        found = {kind: (output.attentions, len(prefix), len(prefix))}
    model.set_attn_implementation(before)
    return {
        side: (torch.stack([one[0] for one in layers]).double().numpy(), q, k)
        for side, (layers, q, k) in found.items()
    }


def check(loaded: LoadedModel, item: Prepared, words: WordLookups, capture: ItemCapture) -> None:
    matrices = eager_sides(loaded, item.alignment.subwords.ids)
    assert set(capture.words) == set(matrices)
    for side, layers in matrices.items():
        causal = side == "decoder"
        lookups = words.behind if causal else words.ahead
        found = capture.words[side]
        assert found.ranks.dtype == np.uint16
        assert found.ranks.shape == (*layers.shape[:2], len(lookups), 3)
        for layer, heads in enumerate(layers):
            for head, matrix in enumerate(heads):
                ranks, picks = slow_ranks(words, lookups, matrix, causal)
                np.testing.assert_array_equal(
                    found.ranks[layer, head], ranks, err_msg=f"{side} {layer} {head}"
                )
                if words.rules.picks:
                    assert found.picks is not None
                    for pick, allowed in zip(found.picks[layer, head], picks, strict=True):
                        assert not allowed or pick in allowed


RULES = (RankRules(picks=True), RankRules(later_wins=True, self_competes=True))


@pytest.mark.parametrize("rules", RULES, ids=["corrected", "published"])
@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "mistral", "codegen", "bart", "t5"])
def test_ranks_equal_loops_over_eager_attention(
    name: str, rules: RankRules, tiny: Tiny, prepare: Prepare
) -> None:
    loaded = tiny(name)
    items = [prepare(text) for text in TEXTS]
    words = [words_of(len(one.alignment.subwords), seed, rules) for seed, one in enumerate(items)]
    request = WordAttention({one.item.item_id: word for one, word in zip(items, words, strict=True)})
    captures = list(observe(loaded, items, [Pass(Plain(), (request,))]))
    for item, word, capture in zip(items, words, captures, strict=True):
        check(loaded, item, word, capture)


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "bart", "t5"])
def test_lenses_look_up_words_of_their_own_in_one_forward(name: str, tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny(name)
    items = [prepare(text) for text in TEXTS]
    asked = {
        f"{seed} {rules}": (rules, seed, items[seed % 2 :])
        for seed in range(3)
        for rules in (*RULES, CORRECTED)
    }
    words = {
        lens: {one.item.item_id: words_of(len(one.alignment.subwords), seed, rules) for one in read}
        for lens, (rules, seed, read) in asked.items()
    }
    passes = {lens: [Pass(Plain(), (WordAttention(held),))] for lens, held in words.items()}
    for seen in observe_lenses(loaded, items, passes):
        item = seen.prepared.item.item_id
        assert seen.inputs == 1
        for lens, held in words.items():
            assert len(seen.captures[lens]) == (item in held)
            for capture in seen.captures[lens]:
                check(loaded, seen.prepared, held[item], capture)


def test_one_lens_looks_words_of_an_input_up_once(tiny: Tiny, prepare: Prepare) -> None:
    item = prepare(TEXTS[0])
    twice = [
        WordAttention({item.item.item_id: words_of(len(item.alignment.subwords), seed)}) for seed in (0, 1)
    ]
    with pytest.raises(InputError, match="ask for them in one"):
        list(observe(tiny("bert"), [item], [Pass(Plain(), (one,)) for one in twice]))


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_the_attention_of_named_heads_is_that_between_all_words(
    name: str, tiny: Tiny, prepare: Prepare
) -> None:
    loaded = tiny(name)
    items = [prepare(text) for text in TEXTS[:2]]
    words = [words_of(len(one.alignment.subwords), seed) for seed, one in enumerate(items)]
    heads = dict.fromkeys(("encoder", "decoder", "cross"), ((0, 1), (1, 0), (1, 3)))
    asked = (replace(words[0], heads=heads), words[1])
    request = WordAttention({one.item.item_id: word for one, word in zip(items, asked, strict=True)})
    first, second = observe(loaded, items, [Pass(Plain(), (request,))])
    # The ranks of both are those of an item that wants no attention.
    check(loaded, items[0], words[0], first)
    check(loaded, items[1], words[1], second)
    assert all(found.attention is None for found in second.words.values())
    for side, layers in eager_sides(loaded, items[0].alignment.subwords.ids).items():
        found = first.words[side].attention
        assert found is not None and len(found) == 3
        for matrix, (layer, head) in zip(found, heads[side], strict=True):
            expected = slow_words(words[0], layers[layer, head])
            for query, row in enumerate(expected):
                _, field = competing(words[0], expected, query, side == "decoder")
                row[[place for place in range(len(row)) if place not in field]] = np.nan
            np.testing.assert_allclose(matrix, expected, atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "bart", "t5"])
def test_sinks_are_what_the_asked_words_pay_to_the_first_token_and_behind_the_text(
    name: str, tiny: Tiny, prepare: Prepare
) -> None:
    loaded = tiny(name)
    items = [prepare(text) for text in TEXTS[:3]]
    words = [words_of(len(one.alignment.subwords), seed) for seed, one in enumerate(items)]
    request = WordAttention({one.item.item_id: word for one, word in zip(items, words, strict=True)})
    captures = observe(loaded, items, [Pass(Plain(), (request,))])
    for item, word, capture in zip(items, words, captures, strict=True):
        size = len(item.alignment.subwords)
        for side, (whole, q, k) in eager_matrices(loaded, item.alignment.subwords.ids).items():
            lookups = word.behind if side == "decoder" else word.ahead
            asked = {
                one for a, b in zip(lookups.query, lookups.until, strict=True) for one in range(a, b + 1)
            }
            rows = [
                whole[:, :, q + word.first[one] : q + word.stop[one]].mean(2)
                for one in sorted(asked)
                if word.stop[one] > word.first[one]
            ]
            mean = np.mean(rows, axis=0)
            found = capture.words[side].sinks
            assert found is not None and found.shape == (*whole.shape[:2], 2)
            np.testing.assert_allclose(found[..., 0], mean[..., 0], atol=1e-5)
            if side == "decoder" or k + size == whole.shape[-1]:
                assert np.isnan(found[..., 1]).all()
            else:
                np.testing.assert_allclose(found[..., 1], mean[..., k + size :].sum(-1), atol=1e-5)


def test_an_item_asked_for_nothing_shares_the_batch(tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("bert")
    items = [prepare(text) for text in TEXTS[:2]]
    words = words_of(len(items[0].alignment.subwords), 3)
    rows = AttentionRows({items[1].item.item_id: (1,)})
    request = WordAttention({items[0].item.item_id: words})
    first, second = observe(loaded, items, [Pass(Plain(), (request, rows, HiddenStates((1,), ("last",))))])
    check(loaded, items[0], words, first)
    assert not second.words
    assert second.rows is not None
    assert first.rows is None
    assert first.states["last"].shape == second.states["last"].shape


@pytest.mark.parametrize(("name", "around"), [("bert", 2), ("llama", 1), ("bart", 2), ("t5", 1)])
def test_an_item_that_does_not_fit_is_not_answered(
    name: str, around: int, tiny: Tiny, prepare: Prepare
) -> None:
    loaded = tiny(name)
    fitting, long = prepare("ab = 1"), prepare("ab = 12")
    asked = {one.item.item_id: words_of(len(one.alignment.subwords), 0) for one in (fitting, long)}
    settings = CaptureSettings(context=len("ab = 1") + around)
    answered, dropped = observe(
        loaded, [fitting, long], [Pass(Plain(), (WordAttention(asked),))], settings=settings
    )
    assert answered.words
    assert not dropped.words


def test_equal_attention_is_no_hit_and_published_ties_go_to_the_later_word() -> None:
    # Four words that get the same attention from the first.
    even = torch.full((1, 1, 1, 4), 0.25)
    nothing = np.zeros(4, int)
    lookups = Lookups(nothing, nothing, np.array([1, 2, 3, 2]), np.array([1, 2, 3, 3]))
    at = np.arange(4)

    def ranks(rules: RankRules) -> list[list[int]]:
        words = WordLookups(at, at + 1, np.ones(4, bool), lookups, lookups, rules)
        asked = [RowWords(words, lookups, 0, 0)]
        (result,) = rank_words("encoder", asked, rules, False, lambda _: [even])
        assert result is not None
        return result.ranks[0, 0].tolist()

    assert ranks(RankRules()) == [[3, 3, 3], [3, 3, 3], [3, 3, 3], [3, 3, 2]]
    assert ranks(RankRules(later_wins=True, self_competes=True)) == [
        [3, 3, 3],
        [2, 2, 2],
        [1, 1, 1],
        [2, 1, 1],
    ]


def test_a_word_that_competes_with_itself_ties_with_those_that_get_nothing() -> None:
    row = torch.tensor([[[[0.7, 0.3, 0.0]]]])
    lookups, at = Lookups(*np.array([[0], [0], [2], [2]])), np.arange(3)
    for competes, expected in ((False, 2), (True, 3)):
        words = WordLookups(at, at + 1, np.ones(3, bool), lookups, lookups)
        rules = RankRules(self_competes=competes)
        asked = [RowWords(words, lookups, 0, 0)]
        (result,) = rank_words("encoder", asked, rules, False, lambda _: [row])
        assert result is not None
        assert result.ranks[0, 0].tolist() == [[expected] * 3]


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from(RULES), st.booleans())
def test_ranks_of_random_rows_equal_loops(seed: int, heads: int, rules: RankRules, causal: bool) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 14))
    words = words_of(size, seed, rules)
    lookups = words.behind if causal else words.ahead
    # Few distinct values, so that ties are many; multiples of 1/64 add up exactly.
    matrix = rng.integers(0, 6, (heads, size, size)) / 64
    if causal:
        matrix = np.tril(matrix)
    whole, asked = torch.from_numpy(matrix).float(), [RowWords(words, lookups, 0, 0), None]
    result, nothing = rank_words(
        "side",
        asked,
        rules,
        causal,
        lambda columns: [whole[:, columns[0]][None].expand(2, -1, -1, -1)],
    )
    assert nothing is None
    assert result is not None
    for head in range(heads):
        expected, _ = slow_ranks(words, lookups, matrix[head], causal)
        np.testing.assert_array_equal(result.ranks[0, head], expected)


def test_words_that_the_item_lacks_are_refused(tiny: Tiny, prepare: Prepare) -> None:
    loaded, item = tiny("bert"), prepare("abc")
    words = words_of(3, 0)
    beyond = replace(words, ahead=Lookups(*np.array([[0], [0], [99], [99]])))
    with pytest.raises(InputError, match="a lookup is outside"):
        list(observe(loaded, [item], [Pass(Plain(), (WordAttention({item.item.item_id: beyond}),))]))
    outside = replace(words, stop=words.stop + 9)
    with pytest.raises(InputError, match="is outside its 3 subwords"):
        list(observe(loaded, [item], [Pass(Plain(), (WordAttention({item.item.item_id: outside}),))]))


def test_broken_attention_is_an_error(tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, item = tiny("bert"), prepare("abc = 1")
    read = Pass(Plain(), (WordAttention({item.item.item_id: words_of(7, 0)}),))
    list(observe(loaded, [item], [read]))
    rows = attention_backend.attention_rows
    monkeypatch.setattr(attention_backend, "attention_rows", lambda *arguments: rows(*arguments) * torch.nan)
    with pytest.raises(CaptureError, match="attention is not finite"):
        list(observe(loaded, [item], [read]))


def test_eager_weights_are_let_go_layer_by_layer(
    tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, item = tiny("codegen"), prepare("abc = 1")
    outputs = []
    body = loaded.model.transformer
    forward = type(body).forward

    def watched(*args: object, **kwargs: object) -> object:
        outputs.append(forward(body, *args, **kwargs))
        return outputs[-1]

    monkeypatch.setattr(body, "forward", watched)
    words = words_of(7, 0)
    (capture,) = observe(loaded, [item], [Pass(Plain(), (WordAttention({item.item.item_id: words}),))])
    assert capture.words["decoder"].ranks.shape[0] == 2
    assert all(weights is None for weights in outputs[-1].attentions)


def rank_by_loop(
    order: np.ndarray, candidates: np.ndarray, query: int, first: int, last: int, causal: bool
) -> int:
    """Rank of the best word from ``first`` to ``last`` for one query word."""
    seen = [
        word
        for word in range(len(order))
        if candidates[word] and word != query and not (causal and word > query)
    ]
    targets = [order[word] for word in seen if first <= word <= last]
    if not targets:
        return NEVER
    limit = max(targets) * np.float32(1 - NEAR_TIE)
    return 1 + sum(bool(order[word] >= limit) for word in seen if not first <= word <= last)


@given(st.integers(0, 100_000), st.booleans(), st.booleans())
def test_words_in_an_order_rank_as_by_a_loop(seed: int, causal: bool, itself: bool) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 12))
    # Few values, so that words tie, and none for some words that are no candidates.
    orders = rng.integers(0, 4, (3, count)).astype(np.float32)
    candidates = rng.random(count) < 0.8
    runs: list[tuple[int, int, int, int]] = []
    while len(runs) < 6:
        (query, until), (first, last) = np.sort(rng.integers(0, count, (2, 2)), axis=1).tolist()
        if itself or (last < query) or (not causal and first > until):
            runs.append((query, until, first, last))
        elif not runs and rng.random() < 0.1:
            runs.append((1, 1, 0, 0))
    lookups = Lookups(*np.array(runs).T)
    expected = [
        [
            [
                rank_by_loop(order, candidates, query, first, first, causal),
                rank_by_loop(order, candidates, until, last, last, causal),
                min(
                    rank_by_loop(order, candidates, one, first, last, causal)
                    for one in range(query, until + 1)
                ),
            ]
            for order in orders
        ]
        for query, until, first, last in runs
    ]
    found = rank_orders(orders, candidates, lookups, CORRECTED, causal)
    np.testing.assert_array_equal(found.transpose(0, 2, 1), expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rules", [RankRules(later_wins=True), RankRules(self_competes=True)])
def test_words_in_an_order_rank_by_the_published_rules_as_attention_does(
    rules: RankRules, causal: bool
) -> None:
    rng = np.random.default_rng(4)
    orders, candidates = rng.integers(1, 5, (2, 9)).astype(np.float32), rng.random(9) < 0.9
    lookups = Lookups(np.array([4, 6]), np.array([5, 8]), np.array([0, 1]), np.array([2, 3]))
    index = np.arange(9)
    words = WordLookups(index, index + 1, candidates, lookups, lookups, rules)
    paid = torch.from_numpy(orders)[None, :, None]
    (whole,) = rank_words(
        "encoder", [RowWords(words, lookups, 0, 0)], rules, causal,
        lambda columns: [paid.expand(-1, -1, columns.shape[1], -1)],
    )  # fmt: skip
    assert whole is not None
    found = rank_orders(orders, candidates, lookups, rules, causal)
    np.testing.assert_array_equal(found, whole.ranks[0].transpose(1, 2, 0))
    if rules.later_wins or causal:
        # A word that ranks itself has no weight, which matters only where it sees what stands after it too.
        assert not np.array_equal(found, rank_orders(orders, candidates, lookups, CORRECTED, causal))
