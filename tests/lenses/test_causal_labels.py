"""Labels that say nothing of a property: what they keep of it, and what they do not."""

from __future__ import annotations

import numpy as np
import pytest

from sonde.lenses.causal.erase_maps import from_donors, permuted_within_strata, surface_features


def functions(count: int, seed: int = 0) -> tuple[np.ndarray, list[str], np.ndarray]:
    rng = np.random.default_rng(seed)
    clusters = [f"module {at}" for at in rng.integers(0, count // 3, count)]
    return rng.integers(0, 3, count), clusters, rng.lognormal(5, 1, count)


def test_labels_are_exchanged_among_functions_of_about_the_same_length() -> None:
    labels, clusters, lengths = functions(200)
    stratum = np.argsort(np.argsort(lengths)) // 20
    for seed in range(5):
        found = permuted_within_strata(labels, clusters, lengths, np.random.default_rng(seed))
        assert (found != labels).mean() > 0.4
        for at in range(10):
            mine = stratum == at
            np.testing.assert_array_equal(np.sort(found[mine]), np.sort(labels[mine]))


def test_a_class_that_is_length_is_hardly_exchanged() -> None:
    """So that erasing it costs what erasing its permuted labels costs: length alone is never used."""
    _, clusters, lengths = functions(210)
    tertiles = np.argsort(np.argsort(lengths)) * 3 // 210
    found = permuted_within_strata(tertiles, clusters, lengths, np.random.default_rng(0))
    assert (found == tertiles).mean() > 0.85


def test_where_each_cluster_has_one_label_whole_clusters_exchange_theirs() -> None:
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(60), rng.integers(1, 5, 60))
    labels = rng.integers(0, 2, 60)[owner]
    lengths = rng.lognormal(5, 1, len(owner))
    found = permuted_within_strata(labels, [f"m{at}" for at in owner], lengths, rng)
    assert (found != labels).any()
    for at in range(60):
        assert len(set(found[owner == at].tolist())) == 1


def test_tokens_get_the_labels_of_another_function_at_the_same_relative_place() -> None:
    rng = np.random.default_rng(4)
    sequences = {
        f"f{at}": [(10 * place, 100 * at + place) for place in range(size)]
        for at, size in enumerate(rng.integers(1, 30, 12).tolist())
    }
    places = [(item, start) for item, held in sequences.items() for start, _ in held]
    found = from_donors(places, sequences, np.random.default_rng(0))
    donors: dict[str, set[int]] = {}
    for (item, start), label in zip(places, found.tolist(), strict=True):
        donor, place = divmod(label, 100)
        donors.setdefault(item, set()).add(donor)
        mine, theirs = len(sequences[item]), len(sequences[f"f{donor}"])
        assert place / theirs <= (start / 10 + 0.5) / mine < (place + 1) / theirs
    assert all(len(held) == 1 for held in donors.values())
    assert sorted(next(iter(held)) for held in donors.values()) == list(range(12))
    assert all(next(iter(held)) != int(item[1:]) for item, held in donors.items())


@pytest.mark.parametrize("told", [True, False])
def test_the_surface_holds_length_and_what_words_foretell(told: bool) -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, 160)
    words = [" ".join(rng.choice(["x", "y", "z"], rng.integers(3, 20))) for _ in labels]
    texts = [f"{text} {'if' if label and told else 'for'}" for text, label in zip(words, labels, strict=True)]
    found = surface_features(texts, labels, [f"m{at % 40}" for at in range(160)], 0)
    np.testing.assert_allclose(found[:, 0], np.log1p([len(text) for text in texts]))
    agree = (found[:, -1] == labels).mean()
    assert agree > 0.95 if told else 0.3 < agree < 0.7
