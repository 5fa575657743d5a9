from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch.utils._python_dispatch import TorchDispatchMode

from sonde.capture.hidden_states import pool_states
from sonde.capture.scoring import SCORES, count_rows_together, score_logits, score_positions, top_logits
from sonde.models.engine.lm_head import _WideLinear


@pytest.mark.parametrize("vocab", [3, 64, 777, 5000])
def test_scores_equal_float64_log_softmax(vocab: int) -> None:
    generator = torch.Generator().manual_seed(vocab)
    logits = torch.randn(20, vocab, generator=generator) * 6 + 40
    gold = torch.randint(vocab, (20,), generator=generator)
    logs = log_softmax(logits.double().numpy(), axis=1)
    found = score_logits(logits.clone(), gold, 5)
    at = logs[np.arange(20), gold.numpy()]
    np.testing.assert_allclose(found.nats, -at, atol=2e-5)
    np.testing.assert_allclose(found.entropy, -(np.exp(logs) * logs).sum(1), atol=2e-5)
    np.testing.assert_array_equal(found.rank, (logs >= at[:, None] - 1e-4).sum(1))
    best = np.argsort(-logs, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(found.top_ids, best)
    np.testing.assert_allclose(found.top_nats, -np.take_along_axis(logs, best, 1), atol=2e-5)


def test_ties_count_against_the_gold_id() -> None:
    logits = torch.tensor([[1.0, 2.0, 2.0, 2.0 + 1e-6, 0.0]])
    assert score_logits(logits, torch.tensor([1]), 2).rank.tolist() == [3]


def test_an_entry_that_is_switched_off_has_no_weight() -> None:
    found = score_logits(torch.tensor([[0.0, 0.0, -torch.inf]]), torch.tensor([0]), 3)
    assert found.entropy.item() == pytest.approx(np.log(2), abs=1e-6)


def test_half_precision_is_reduced_in_single() -> None:
    logits = (torch.randn(4, 9000, generator=torch.Generator().manual_seed(1)) * 4).half()
    found = score_logits(logits, torch.zeros(4, dtype=torch.long), 1)
    logs = log_softmax(logits.double().numpy(), axis=1)
    np.testing.assert_allclose(found.nats, -logs[:, 0], atol=2e-5)


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_chunks_do_not_change_scores(chunk: int) -> None:
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(30, 16, generator=generator)
    head = torch.nn.Linear(16, 500)
    gold = torch.randint(500, (30,), generator=generator)
    with torch.inference_mode():
        whole = score_positions(states, head, gold, top_k=4, chunk=30)
        parts = score_positions(states, head, gold, top_k=4, chunk=chunk)
    torch.testing.assert_close(parts.nats, whole.nats, atol=1e-5, rtol=0)
    assert torch.equal(parts.rank, whole.rank)
    assert torch.equal(parts.top_ids, whole.top_ids)


LARGE = 262_144


class Allocations(TorchDispatchMode):
    """Counts the elements of the largest result of any operator, but for those while it is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.largest, self.paused = 0, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {one.untyped_storage().data_ptr() for one in args if isinstance(one, torch.Tensor)}
        for one in result if isinstance(result, tuple) else (result,):
            made = isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr() not in given
            if made and not self.paused:
                self.largest = max(self.largest, one.numel())
        return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_large_vocabulary_is_scored_without_a_second_copy_of_its_logits(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    generator = torch.Generator().manual_seed(5)
    states = torch.randn(40, 8, generator=generator).to(dtype)
    projection = torch.nn.Linear(8, LARGE, bias=False, dtype=dtype)
    torch.nn.init.normal_(projection.weight, generator=generator)
    gold = torch.randint(LARGE, (40,), generator=generator)
    widened = projection if dtype == torch.float32 else _WideLinear(projection)
    allocations = Allocations()

    def head(chunk: torch.Tensor) -> torch.Tensor:
        allocations.paused = True
        logits = widened(chunk)
        allocations.paused = False
        return logits

    with torch.inference_mode(), allocations:
        found = score_positions(states, head, gold, top_k=4, chunk=20)
    assert allocations.largest < 20 * LARGE / 2
    with torch.inference_mode():
        logits = states.float() @ projection.weight.float().T
        logs = logits.double().log_softmax(1)
    best = logs.topk(4)
    torch.testing.assert_close(found.nats, -logs.gather(1, gold[:, None])[:, 0].float(), atol=2e-5, rtol=0)
    torch.testing.assert_close(found.entropy, -(logs.exp() * logs).sum(1).float(), atol=2e-5, rtol=0)
    torch.testing.assert_close(found.top_nats, -best.values.float(), atol=2e-5, rtol=0)
    assert torch.equal(found.top_ids, best.indices)
    with torch.inference_mode():
        together = score_logits(widened(states).clone(), gold, 4)
    # Other chunks may round otherwise when they are projected; a row is reduced as if it were alone.
    assert all(torch.equal(getattr(found, name), getattr(together, name)) for name in ("rank", "top_ids"))
    torch.testing.assert_close(found.nats, together.nats, atol=2e-5, rtol=0)
    logits = widened(states)
    parts = [
        score_logits(rows.clone(), gold[index : index + 1], 4) for index, rows in enumerate(logits.split(1))
    ]
    for name in SCORES:
        alone = torch.cat([getattr(part, name) for part in parts])
        assert torch.equal(getattr(score_logits(logits.clone(), gold, 4), name), alone)


@pytest.mark.parametrize(("threads", "expected"), [(1, [128, 128, 41, 8]), (4, [128, 128, 128, 32])])
def test_few_rows_of_a_large_vocabulary_are_reduced_together(
    threads: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    rows = [count_rows_together(torch.empty(512, vocab)) for vocab in (1, 16_384, 50_000, LARGE)]
    assert rows == expected
    assert count_rows_together(torch.empty(512, 300), maximum=64) == 64


def test_the_largest_are_found_in_the_last_odd_block() -> None:
    logits = torch.zeros(1, 64 * 20 + 3)
    logits[0, -1], logits[0, 5] = 2.0, 1.0
    values, ids = top_logits(logits, 2)
    assert values.tolist() == [[2.0, 1.0]]
    assert ids.tolist() == [[64 * 20 + 2, 5]]


def test_pooling_leaves_out_what_is_not_finite_outside_the_segments() -> None:
    states = torch.tensor([[[1.0], [2.0], [torch.inf]]])
    weights = torch.tensor([[[True, True, False], [False, True, False]]])
    assert pool_states(states, weights).tolist() == [[[3.0], [2.0]]]
