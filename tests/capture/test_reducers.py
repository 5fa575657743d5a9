from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from sonde.capture.hidden_states import pool_states
from sonde.capture.scoring import score_logits, score_positions, top_logits


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
