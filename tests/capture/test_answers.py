"""Ranks of texts: ids that spell the same text are one answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.denoisers import save_bart, save_t5

from sonde.alignment import align, encode, get_surfaces
from sonde.alignment.vocabulary import Vocabulary, get_vocabulary
from sonde.base.errors import InputError
from sonde.capture.forward import observe, observe_lenses
from sonde.capture.requests import Answer, AnswerRanks, Masked, Pass, Prepared, ScoredAnswers, TokenScores
from sonde.capture.scoring import AnswerBoard, GoldAnswer
from sonde.corpora import Item
from sonde.languages import LANGUAGES
from sonde.models import LoadedModel, ModelSpec, load_model

TEXT = "from numpy import zeros"
TRAINED = [TEXT, "import numpy as np", "np.zeros(1)", "numpy zeros from imports"] * 3
CPU = torch.device("cpu")
ANSWERS = ("numpy", "zeros", "from")


def slowly(vocabulary: Vocabulary, logits: list[float], answer: Answer, among: frozenset[str] | None) -> int:
    """One plus the texts that are at least as likely as the likeliest right id."""
    right = vocabulary.right(answer.text, word_start=answer.word_start, initial=answer.initial)
    own = max(logits[number] for number in right)
    best: dict[str, float] = {}
    for number, value in enumerate(logits):
        text = vocabulary.texts[number] or f"<{number}>"
        if among is None or text in among:
            best[text] = max(best.get(text, -np.inf), value)
    return 1 + sum(value >= own - 1e-4 for text, value in best.items() if text != answer.text)


def test_texts_are_counted_once() -> None:
    names = ("rand", " rand", "  rand", "x", " x", "y", "", " ", "zz", " rand", "q")
    vocabulary = get_vocabulary(names)
    generator = torch.Generator().manual_seed(0)
    among = frozenset({"rand", "y", "q"})
    board = AnswerBoard(vocabulary, among, CPU)
    asked = [Answer("rand", start, True) for start in (True, False)] + [Answer("x", True, True)]
    for _ in range(50):
        logits = torch.randint(-3, 4, (3, len(names)), generator=generator).float()
        right = GoldAnswer(*map(torch.from_numpy, board.right(asked, [0, 0, 3])))
        ranked = board.rank(logits, logits.logsumexp(1), right)
        for at, answer in enumerate(asked):
            row = logits[at].tolist()
            assert ranked.rank[at] == slowly(vocabulary, row, answer, None)
            expected = slowly(vocabulary, row, answer, among) if answer.text in among else 0
            assert ranked.shared_rank[at] == expected
        assert ranked.shared_nats.isnan().tolist() == [False, False, True]
        assert (ranked.shared_nats[:2] <= ranked.nats[:2] + 1e-6).all()


def test_what_no_id_spells_is_ranked_by_its_own_id() -> None:
    board = AnswerBoard(get_vocabulary(("a", " a", "b")), frozenset({"a"}), CPU)
    right = GoldAnswer(*map(torch.from_numpy, board.right([Answer("z", True, True), None], [2, 1])))
    assert right.ids.tolist() == [[2], [1]]
    assert right.shared.tolist() == [False, False]


@pytest.fixture(scope="module", params=["t5", "bart", "sonde/mini-encoder"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    name = request.param
    if "/" not in name:
        folder = tmp_path_factory.mktemp("answers") / name
        name = str((save_t5 if request.param == "t5" else save_bart)(folder, TRAINED))
    return load_model(ModelSpec(name=name, device="cpu"))


def prepared(loaded: LoadedModel, text: str = TEXT) -> Prepared:
    item = Item(
        item_id=text, text=text, language="python", unit="statement", path="p", name="n", offset=0,
        cluster="", repository="",
    )  # fmt: skip
    language = LANGUAGES.load("python")
    tree = language.parse(text)
    tokens = language.tokens(tree)
    return Prepared(item, tree, tokens, align(encode(loaded.tokenizer, text), tree, tokens))


def whole_words(one: Prepared) -> dict[int, Answer]:
    """Pieces that are words by themselves."""
    held = one.alignment.subwords
    spelled = {
        at: TEXT[start:end].strip()
        for at, (start, end) in enumerate(zip(held.start.tolist(), held.end.tolist(), strict=True))
    }
    return {at: Answer(text, True, True) for at, text in spelled.items() if text in ANSWERS}


def answers_of(found: Any) -> ScoredAnswers:
    assert found.answers is not None
    return found.answers


def test_both_rankings_equal_a_slow_count(loaded: LoadedModel) -> None:
    one = prepared(loaded)
    vocabulary = get_vocabulary(get_surfaces(loaded.tokenizer, loaded.capabilities.vocab))
    asked = whole_words(one)
    assert asked
    among = frozenset(list(vocabulary.ids)[::3]) | {next(iter(asked.values())).text}
    request = AnswerRanks({TEXT: asked}, among)
    masks = Masked({TEXT: tuple((at,) for at in asked)})
    size = loaded.capabilities.vocab
    captures = list(observe(loaded, [one], [Pass(masks, (TokenScores(size), request))]))
    narrow = list(observe(loaded, [one], [Pass(masks, (replace(request, alone=True),))]))
    for (at, answer), capture, alone in zip(asked.items(), captures, narrow, strict=True):
        assert capture.scores is not None and alone.scores is None
        logs = np.zeros(size)
        logs[capture.scores.top_ids[at]] = -capture.scores.top_nats[at]
        found, beside = answers_of(capture), answers_of(alone)
        right = vocabulary.right(answer.text, word_start=True, initial=True)
        own = max(logs[number] for number in right)
        assert found.nats[at] == pytest.approx(-own, abs=1e-4)
        assert found.rank[at] == slowly(vocabulary, logs.tolist(), answer, None)
        assert np.isnan(beside.nats[at]) and beside.rank[at] == 0
        for ranked in (found, beside):
            if answer.text not in among:
                assert ranked.shared_rank[at] == 0 and np.isnan(ranked.shared_nats[at])
                continue
            held = [number for number, text in enumerate(vocabulary.texts) if text in among]
            assert ranked.shared_rank[at] == slowly(vocabulary, logs.tolist(), answer, among)
            total = np.logaddexp.reduce(logs[held])
            assert ranked.shared_nats[at] == pytest.approx(total - own, abs=1e-3)


def test_two_lenses_that_rank_answers_are_refused(loaded: LoadedModel) -> None:
    one = prepared(loaded)
    masks = Masked({TEXT: ((0,),)})
    passes = {
        name: [Pass(masks, (AnswerRanks({TEXT: {0: Answer("from", True, True)}}),))] for name in ("a", "b")
    }
    with pytest.raises(InputError, match="rank answers of one input"):
        list(observe_lenses(loaded, [one], passes))
