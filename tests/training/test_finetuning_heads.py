"""What a class is read from, and how sure a model is of what is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from sonde.training.finetune.batches import Batch, collate
from sonde.training.finetune.checkpoint import Epoch, TrainingState
from sonde.training.finetune.data import FIRST, SECOND, EncodedExample
from sonde.training.finetune.model import ClassHead, HeadedModel, PointerHead
from sonde.training.finetune.predict import predict_examples
from sonde.training.finetune.recipe import FinetuneRecipe

WIDTH = 6
OVER = {"mean": np.mean, "max": np.max}


def example(parts: list[int], target: int, location: int = 0) -> EncodedExample:
    ids = np.arange(len(parts))
    return EncodedExample(ids, np.array(parts), target, tuple(range(len(parts) + 1)), location)


class Drawn(torch.nn.Module):
    """A body whose states are those of a table, so that nothing but the head is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(16, WIDTH)

    def forward(self, batch: Batch) -> torch.Tensor:
        return self.table(batch.ids)


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("pooling", sorted(OVER))
def test_a_text_is_summed_up_subword_by_subword(pooling: str, pair: bool) -> None:
    torch.manual_seed(0)
    examples = [
        example([0, *[FIRST] * 3, 0, *[SECOND] * 2], 0),
        example([0, FIRST, 0, SECOND], 1),
        # Its second text is beyond the limit.
        example([0, FIRST, FIRST], 1),
    ]
    head = ClassHead(WIDTH, 3, pooling, pair, 0.0)
    states = torch.randn(3, 7, WIDTH)
    found = head(states, collate(range(3), examples, 0, torch.device("cpu")))
    for row, one in enumerate(examples):
        read: list[np.ndarray] = []
        for part in (FIRST, SECOND)[: 2 if pair else 1]:
            chosen = [states[row, at].numpy() for at in range(len(one.ids)) if one.part[at] == part]
            read.append(OVER[pooling](chosen, axis=0) if chosen else np.zeros(WIDTH))
        wanted = head.out.weight.detach().numpy() @ np.concatenate(read) + head.out.bias.detach().numpy()
        np.testing.assert_allclose(found[row].detach().numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_the_loss_of_classes_is_that_of_scikit_learn() -> None:
    """Classes that were not trained on cannot be right, and take no part."""
    torch.manual_seed(1)
    examples = [example([FIRST] * size, target) for size, target in ((3, 0), (5, 2), (2, -1), (4, 1))]
    model = HeadedModel(Drawn(), ClassHead(WIDTH, 3, "mean", False, 0.0), frozen=False)
    found = predict_examples(model, examples, 0)
    told = [0, 1, 3]
    shares = found.probability[told]
    wanted = log_loss([0, 2, 1], shares / shares.sum(1, keepdims=True), labels=[0, 1, 2])
    assert found.loss == pytest.approx(wanted)
    assert np.isnan(found.chance[2])


def test_the_loss_of_pointers_is_that_of_the_error() -> None:
    torch.manual_seed(2)
    examples = [example([FIRST] * size, 0, location) for size, location in ((3, 2), (5, 0), (4, -1))]
    model = HeadedModel(Drawn(), PointerHead(WIDTH, "first", FinetuneRecipe()), frozen=False)
    found = predict_examples(model, examples, 0)
    logs = model.eval()(collate(range(3), examples, 0, torch.device("cpu"))).detach()
    wanted = -(logs[0, 0, 2] + logs[1, 0, 0]) / 2
    assert found.loss == pytest.approx(float(wanted), rel=1e-5)
    assert np.isnan(found.chance[2])


def test_of_equal_shares_the_smaller_loss_is_kept() -> None:
    """A pointer that says "nothing" to everything has the same share in every epoch."""
    course = TrainingState(
        history=[Epoch(1, 2.0, 0.5, 1.2), Epoch(2, 1.8, 0.5, 0.9), Epoch(3, 1.7, 0.5, 1.0)]
    )
    assert course.best is course.history[1]
    course.history.append(Epoch(4, 1.6, 0.51, 3.0))
    assert course.best is course.history[3]
