"""Ridge, hidden layers, the published protocol, control tasks and codelengths, each against a referee."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.preprocessing import StandardScaler

from sonde.base.errors import InputError
from sonde.papers.inspect.adam import _adam, train_adam_layers
from sonde.training.probes.adam import train_mlp_layers
from sonde.training.probes.control_tasks import sample_control_labels, split_within_types
from sonde.training.probes.linear import (
    compute_online_codelength,
    probe_layers,
    regress_layers,
    remove_length_effect,
)
from sonde.training.probes.splits import Splits

ITEMS, WIDTH = 600, 12
PARTS = Splits.from_names(
    np.array(["train", "train", "train", "valid", "test"])[np.arange(ITEMS) % 5].tolist()
)


def states(seed: int = 0, layers: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(layers, ITEMS, WIDTH)).astype(np.float32)


def test_ridge_is_that_of_scikit_learn() -> None:
    held = states()
    rng = np.random.default_rng(1)
    values = held[1] @ rng.normal(size=WIDTH) * 30 + 100 + rng.normal(size=ITEMS) * 5
    grid = (1.0, 0.1, 0.01)
    (found,) = regress_layers(held, values[None], PARTS, l2=grid)
    assert found.best == 1
    for layer in range(3):
        scaled = StandardScaler().fit(held[layer][PARTS.train]).transform(held[layer])
        fits = [
            Ridge(alpha=l2 * len(PARTS.train)).fit(scaled[PARTS.train], values[PARTS.train]) for l2 in grid
        ]
        r2 = [fit.score(scaled[PARTS.valid], values[PARTS.valid]) for fit in fits]
        np.testing.assert_allclose(found.valid_r2[layer], r2, atol=1e-4)
        best = fits[int(np.argmax(r2))].predict(scaled[PARTS.test])
        np.testing.assert_allclose(found.predicted[layer], best, atol=0.02)
    with pytest.raises(InputError, match="does not vary"):
        regress_layers(held, np.zeros((1, ITEMS)), PARTS)


def test_what_length_says_is_gone_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(10, 400, size=(ITEMS, 1)).astype(float)
    own = 5 * rng.normal(size=ITEMS)
    rest = remove_length_effect(0.3 * lengths[:, 0] + 2 * np.log(lengths[:, 0]) + own, lengths, PARTS)
    assert rest is not None
    assert np.corrcoef(rest[PARTS.test], own[PARTS.test])[0, 1] > 0.97
    assert abs(LinearRegression().fit(lengths, rest).score(lengths, rest)) < 0.02
    assert remove_length_effect(lengths[:, 0] * 2 + 1, lengths, PARTS) is None


@pytest.mark.slow
def test_a_hidden_layer_finds_what_a_line_cannot() -> None:
    held = states()
    labels = ((held[2][:, 0] > 0) ^ (held[2][:, 1] > 0)).astype(int)
    (line,) = probe_layers(held, labels[None], 2, PARTS)
    curved = train_mlp_layers(held, labels, ["no", "yes"], PARTS, seeds=(0, 1))
    gold = labels[PARTS.test]
    assert (line.predicted[2] == gold).mean() < 0.65
    assert [one.best for one in curved] == [2, 2]
    assert all((one.predicted[2] == gold).mean() > 0.75 for one in curved)
    assert (curved[0].log_chance != curved[1].log_chance).any()


def test_adam_written_out_is_that_of_torch() -> None:
    held = torch.from_numpy(states(layers=2)[:, :40])
    gold = torch.from_numpy(np.random.default_rng(3).integers(0, 3, 40))
    l2 = torch.tensor([[1e-2, 0.3], [0.0, 1e-3]])
    for batch in (1, 16):
        found = _adam(held, gold, 3, l2, batch, 2, seed=5)
        for layer in range(2):
            for place in range(2):
                start = _adam(held, gold, 3, l2, batch, 0, seed=5)[layer, place]
                probe = torch.nn.Linear(WIDTH, 3)
                with torch.no_grad():
                    probe.weight.copy_(start[:, :-1])
                    probe.bias.copy_(start[:, -1])
                optimiser = torch.optim.Adam(probe.parameters(), weight_decay=float(l2[layer, place]))
                rng = np.random.default_rng(5)
                for _ in range(2):
                    for rows in torch.from_numpy(rng.permutation(40)).split(batch):
                        optimiser.zero_grad()
                        torch.nn.functional.cross_entropy(probe(held[layer, rows]), gold[rows]).backward()
                        optimiser.step()
                torch.testing.assert_close(found[layer, place, :, :-1], probe.weight, atol=1e-4, rtol=1e-3)
                torch.testing.assert_close(found[layer, place, :, -1], probe.bias, atol=1e-4, rtol=1e-3)


def test_the_published_protocol_reads_states_as_they_are() -> None:
    """Without scaling, 20 epochs at 1e-3 never reach a signal whose features are small; ours does."""
    held = states()
    labels = (held[1][:, 0] > 0).astype(int)
    small = held * 1e-4
    theirs = train_adam_layers(small, labels, ["no", "yes"], PARTS, epochs=3)
    (ours,) = probe_layers(small, labels[None], 2, PARTS)
    gold = labels[PARTS.test]
    assert (ours.predicted[1] == gold).mean() > 0.9
    assert (theirs.predicted[1] == gold).mean() < 0.75
    readable = train_adam_layers(held, labels, ["no", "yes"], PARTS, epochs=3)
    assert readable.best == 1 and (readable.predicted[1] == gold).mean() > 0.9


def test_control_labels_can_be_learned_by_heart_only() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 20, ITEMS)
    types = [f"type{kind}" for kind in kinds]
    labels = kinds % 4
    control = sample_control_labels(types, labels, seed=0)
    assert len({(kind, label) for kind, label in zip(types, control, strict=True)}) == 20
    many = sample_control_labels(
        [str(place) for place in range(20_000)], np.repeat([0, 0, 0, 1], 5_000), seed=0
    )
    assert np.mean(many == 0) == pytest.approx(0.75, abs=0.01)
    table = rng.normal(size=(20, 30))
    held = (table[kinds][None] + 0.1 * rng.normal(size=(1, ITEMS, 30))).astype(np.float32)
    (within,) = split_within_types(types, seed=0)
    (seen,) = probe_layers(held, control[None], 4, within)
    assert (seen.predicted[0] == control[within.test]).mean() > 0.95
    apart = Splits(*(np.flatnonzero(np.digitize(kinds, [12, 16]) == part) for part in range(3)))
    (unseen,) = probe_layers(held, control[None], 4, apart)
    assert (unseen.predicted[0] == control[apart.test]).mean() < 0.8


def test_occurrences_of_a_type_are_dealt_to_all_parts() -> None:
    types = ["often"] * 100 + [f"once{place}" for place in range(900)]
    (parts,) = split_within_types(types, seed=3)
    rows = np.concatenate([parts.train, parts.valid, parts.test])
    assert sorted(rows.tolist()) == list(range(1000))
    assert len(parts.train) == pytest.approx(600, abs=40) and len(parts.test) == pytest.approx(200, abs=35)
    assert [int((part < 100).sum()) for part in (parts.train, parts.valid, parts.test)] == pytest.approx(
        [60, 20, 20], abs=3
    )
    folds = split_within_types(types, seed=3, folds=5)
    assert sorted(np.concatenate([one.test for one in folds]).tolist()) == list(range(1000))
    for one in folds:
        assert len({*one.train.tolist(), *one.valid.tolist(), *one.test.tolist()}) == 1000


def test_the_code_of_learnable_labels_is_shorter() -> None:
    held = states()
    labels = (held[1][:, :3].sum(1) > 0).astype(int)
    found = compute_online_codelength(held, labels, 2, PARTS)
    assert found.uniform == found.items == len(PARTS.train)
    assert found.compression[1] > 2.0
    assert ((found.compression > 0.85) & (found.compression < 1.1)).tolist() == [True, False, True]
    blind = compute_online_codelength(held, np.random.default_rng(0).permutation(labels), 2, PARTS)
    assert ((blind.compression > 0.85) & (blind.compression < 1.1)).all()
