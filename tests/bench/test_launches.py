from __future__ import annotations

import torch
from bench._launches import count_launches


def test_views_and_allocations_launch_nothing() -> None:
    values = torch.arange(6.0)
    assert count_launches(lambda: values.view(2, 3).transpose(0, 1)[1:].unsqueeze(0).expand(4, -1, -1)) == 0
    assert count_launches(lambda: values.view(2, 3).split(1)) == 0
    assert count_launches(lambda: values.contiguous().to(torch.float32).reshape(3, 2)) == 0
    assert count_launches(lambda: torch.empty(3)) == 0


def test_dropout_of_a_model_that_is_not_trained_launches_nothing() -> None:
    values, dropout = torch.arange(6.0), torch.nn.Dropout()
    assert count_launches(lambda: dropout.eval()(values)) == 0
    assert count_launches(lambda: dropout.train()(values)) > 0


def test_what_computes_or_copies_is_one_launch() -> None:
    values = torch.arange(6.0)
    assert count_launches(lambda: values + 1) == 1
    assert count_launches(lambda: values.view(2, 3).add_(1)) == 1
    assert count_launches(lambda: values.view(2, 3).T.contiguous()) == 1
    linear = torch.nn.Linear(3, 5)
    with torch.inference_mode():
        assert count_launches(lambda: linear(values.view(2, 3))) == 1
        assert count_launches(lambda: linear(values.view(2, 3)).relu_()) == 2


def test_launches_of_a_loop_add_up() -> None:
    values = torch.zeros(4)

    def work() -> None:
        for _ in range(7):
            values.add_(1).mul_(2)

    assert count_launches(work) == 14
