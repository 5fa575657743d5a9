"""What tells a class: classifiers of transformers, heads that read subword by subword, weights of classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss
from tests.training.test_finetuning import TINY, pattern, specs, split, texts
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from sonde.base.errors import InputError
from sonde.models import ModelSpec, describe_model, load_model
from sonde.training.finetune.batches import collate
from sonde.training.finetune.data import FIRST, EncodedExample, Sample, TaskData
from sonde.training.finetune.model import ClassHead, TokenHead, compute_class_weights
from sonde.training.finetune.pointing import location_examples
from sonde.training.finetune.recipe import ATTENTION, BALANCED, MAX
from sonde.training.finetune.tune import tune

__all__ = ["pattern", "specs"]
"""Fixtures that are shared with the tests of training."""

WIDTH = 6
CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", ["bert", "modernbert", "llama"])
def test_a_pooled_classifier_is_one_of_transformers(
    kind: str, specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    """What transformers makes of the folder by itself answers what was answered in training, text by text."""
    tuned = tune(specs(kind), pattern, TINY, tmp_path)
    model, report = AutoModelForSequenceClassification.from_pretrained(
        tuned.folder, dtype=torch.float32, output_loading_info=True
    )
    assert not report["missing_keys"] and not report["mismatched_keys"]
    assert model.config.id2label == {0: "no", 1: "yes"}
    tokenizer = AutoTokenizer.from_pretrained(tuned.folder)
    # What sonde puts before a decoder's text is said in the card of the model.
    start = torch.tensor([[1]]) if kind == "llama" else torch.zeros(1, 0, dtype=torch.long)
    for sample, wanted in zip(pattern.test[:8], tuned.test.probability, strict=False):
        read = torch.cat([start, tokenizer(sample.text, return_tensors="pt")["input_ids"]], 1)
        with torch.no_grad():
            logits = model.eval()(input_ids=read).logits
        np.testing.assert_allclose(logits.softmax(-1)[0].numpy(), wanted, atol=1e-5)


def test_a_classifier_keeps_the_language_model_where_the_two_share_nothing(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    """BERT's masked head is as it was and can be asked; ModernBERT's became part of the classifier."""
    folder = tune(specs("bert"), pattern, TINY, tmp_path / "bert").folder
    spec = ModelSpec(name=str(folder), device="cpu", dtype="float32")
    before, after = (dict(load_model(one).model.named_parameters()) for one in (specs("bert"), spec))
    heads = [name for name in before if name.startswith("cls.") and "decoder" not in name]
    assert heads and all(torch.equal(before[name], after[name]) for name in heads)
    assert describe_model(spec).masks
    shared = tune(specs("modernbert"), pattern, TINY, tmp_path / "modernbert").folder
    assert not describe_model(ModelSpec(name=str(shared), device="cpu", dtype="float32")).masks


def test_a_named_pooling_keeps_a_head_of_its_own(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    tuned = tune(specs("bert"), pattern, dataclasses.replace(TINY, pooling="mean", epochs=1), tmp_path)
    assert (tuned.folder / "head.safetensors").is_file()


def _numpy(layer: torch.nn.Linear, values: np.ndarray) -> np.ndarray:
    found = values @ layer.weight.detach().double().numpy().T
    bias: torch.Tensor | None = getattr(layer, "bias", None)
    return found if bias is None else found + bias.detach().double().numpy()


def example(parts: list[int], target: int = 0) -> EncodedExample:
    return EncodedExample(np.arange(len(parts)), np.array(parts), target)


@pytest.mark.parametrize("how", [MAX, ATTENTION])
def test_subwords_are_read_one_by_one(how: str) -> None:
    """Against the formula of Ilse et al., an example at a time, without batches and padding."""
    torch.manual_seed(0)
    examples = [example([0, *[FIRST] * 4, 0]), example([0, FIRST, 0]), example([0, FIRST, FIRST])]
    head = TokenHead(WIDTH, 3, how, 0.0).eval()
    states = torch.randn(3, 6, WIDTH)
    batch = collate(range(3), examples, 0, CPU)
    logits = head(states, batch)
    places = head.find_evidence(states, batch, logits)
    for row, one in enumerate(examples):
        own = [at for at, part in enumerate(one.part) if part == FIRST]
        h = states[row, own].double().numpy()
        hidden = np.tanh(_numpy(head.hidden, h))
        if how == MAX:
            each = _numpy(head.out, hidden)
            wanted, where = each.max(0), each[:, each.max(0).argmax()].argmax()
        else:
            assert head.attention is not None
            a = np.exp(_numpy(head.attention, hidden)[:, 0])
            wanted, where = _numpy(head.out, (a / a.sum()) @ h), a.argmax()
        np.testing.assert_allclose(logits[row].detach().numpy(), wanted, rtol=1e-4, atol=1e-5)
        assert places[row] == own[where]


def one_word(size: int, seed: int) -> list[Sample]:
    """Is there a ``z`` among thirty letters?"""
    rng = np.random.default_rng(seed)
    found: list[Sample] = []
    for number in range(size):
        letters = rng.choice(list("abcdefgh"), 30)
        if number % 2:
            letters[rng.integers(30)] = "z"
        found.append(Sample(f"{seed}-{number}", " ".join(letters), number % 2))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("how", [MAX, ATTENTION])
def test_a_single_word_is_found_and_shown(
    how: str, specs: Callable[[str], ModelSpec], tmp_path: Path
) -> None:
    recipe = dataclasses.replace(TINY, length=40, head=how, epochs=10, patience=10)
    tuned = tune(specs("bert"), split(one_word, 200, 40, 40), recipe, tmp_path)
    assert tuned.test.share > 0.9
    assert tuned.test.pointed is not None
    told = [
        sample.text[slice(*tuned.test.pointed[row, 0])]
        for row, sample in enumerate(one_word(40, 2))
        if sample.target and tuned.test.predicted[row]
    ]
    assert told.count("z") > 0.8 * len(told)


def test_balanced_classes_weigh_the_same_in_the_loss() -> None:
    """Against scikit-learn's weighted loss, with its own balanced weights."""
    torch.manual_seed(1)
    targets = [0, 0, 0, 1, 0, 1, 0, 0]
    samples = [Sample(str(number), "a", target) for number, target in enumerate(targets)]
    data = TaskData(("no", "yes"), samples, samples, samples)
    weights = compute_class_weights(data, dataclasses.replace(TINY, class_weights=BALANCED))
    assert weights is not None
    head = ClassHead(WIDTH, 2, "mean", False, 0.0, weights)
    batch = collate(range(8), [example([FIRST] * 2, target) for target in targets], 0, CPU)
    logits = head(torch.randn(8, 2, WIDTH), batch)
    from sklearn.utils.class_weight import compute_sample_weight

    own = compute_sample_weight("balanced", targets)
    wanted = log_loss(targets, logits.softmax(-1).detach().numpy(), sample_weight=own)
    # Balanced weights are 1 on average, so the weighted mean is the mean of the weighted.
    assert float(head.loss(logits, batch)) == pytest.approx(wanted, rel=1e-5)


def pair(number: int, right: str, wrong: str, rest: str) -> list[Sample]:
    clean, bug = f"a b {right} {rest} a", f"a b {wrong} {rest} a"
    group = f"g{number}"
    return [
        Sample(f"{number}c", clean, 0, evidence=(4, 4 + len(right)), group=group),
        Sample(f"{number}b", bug, 1, evidence=(4, 4 + len(wrong)), group=group),
    ]


def test_places_of_bugs_are_words() -> None:
    """A name in the place of another, with every place of the right one; an operator, which has no repair."""
    clean, bug = location_examples(pair(0, "c", "a", "c"), 0)
    words = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert clean.candidates == bug.candidates == tuple(words)
    assert (clean.error, clean.repairs) == (None, ())
    assert (bug.error, bug.repairs) == ((4, 5), ((6, 7),))
    _, operator = location_examples(pair(1, "=", "+", "="), 0)
    assert (operator.error, operator.repairs) == ((4, 5), ())
    # Something was taken away: the word behind the place.
    kept, gone = pair(2, "c", "", "d")
    _, taken = location_examples([kept, dataclasses.replace(gone, text="a b d a", evidence=(4, 4))], 0)
    assert taken.error == (4, 5)
    assert location_examples([Sample("alone", "a b", 1)], 0) == []


def pairs(size: int, seed: int) -> list[Sample]:
    rng = np.random.default_rng(seed)
    found: list[Sample] = []
    for number in range(size // 2):
        rest = " ".join(rng.choice(list("cdef"), 4))
        found += pair(seed * 10_000 + number, "c", str(rng.choice(list("xyz"))), rest)
    return found


def test_a_body_learns_to_point_first(specs: Callable[[str], ModelSpec], tmp_path: Path) -> None:
    """At a rate that moves nothing the classifier has the body that pointing left; a kill changes nothing."""
    data = dataclasses.replace(split(pairs, 80, 20, 20), classes=("Correct", "Wrong"))
    recipe = dataclasses.replace(TINY, pointer_epochs=2, frozen=True, rates=(3e-3,), epochs=1)
    first = tune(specs("bert"), data, recipe, tmp_path / "first")
    plain = tune(specs("bert"), data, dataclasses.replace(recipe, pointer_epochs=0), tmp_path / "plain")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    read = [
        AutoModelForSequenceClassification.from_pretrained(one.folder).state_dict()[name]
        for one in (first, plain)
    ]
    own = load_model(specs("bert")).model.state_dict()[name]
    assert torch.equal(read[1], own) and not torch.equal(read[0], own)
    steps: list[int] = []

    def kill(at: int) -> None:
        steps.append(at)
        if len(steps) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(specs("bert"), data, recipe, tmp_path / "again", on_step=kill)
    again = tune(specs("bert"), data, recipe, tmp_path / "again")
    np.testing.assert_array_equal(again.test.probability, first.test.probability)


def test_pointing_asks_for_a_bug_and_its_place(specs: Callable[[str], ModelSpec], tmp_path: Path) -> None:
    recipe = dataclasses.replace(TINY, pointer_epochs=1)
    with pytest.raises(InputError, match="the classes are no, yes; a task that tells 'Correct'"):
        tune(specs("bert"), split(texts, 8, 4, 4), recipe, tmp_path)
    data = dataclasses.replace(split(texts, 8, 4, 4), classes=("Correct", "Wrong"))
    with pytest.raises(InputError, match="no example of this task has the place of its bug"):
        tune(specs("bert"), data, recipe, tmp_path)
