"""Decoders that fill in, against plain forwards of transformers over what is laid out by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from tests.models.conftest import VOCAB, build, tiny_tokenizer

from sonde.alignment import align, encode, get_surfaces
from sonde.base.errors import InputError
from sonde.capture import Affine, Change, Changed, Pass, Plain, TokenScores, observe
from sonde.capture.requests import HiddenStates, Masked, Prepared, Request
from sonde.corpora import Item, SourceFile
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES, CapturedItem, LensSettings
from sonde.models import Infill, LoadedModel, ModelSpec, describe_model, describe_special, load_model
from sonde.tasks import repositories
from sonde.tasks.engine.pairs import PAIRED_SCHEMA
from sonde.tasks.engine.task import TASKS

SIGNS = {
    "starcoder": ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    "santacoder": ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
    "qwen": ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    "deepseek": ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
    "codellama": ["▁<PRE>", "▁<SUF>", "▁<MID>"],
    "codestral": ["[PREFIX]", "[SUFFIX]"],
}
FIRST = 260
"""Id of the first of them: the tiny tokenizer has so many pieces."""
CODE = "def go(a, b):\n    return a - b\n"
LENS = LENSES.load("surprisal")
INFILL = LensSettings(options={"objective": "infill"})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A tiny decoder whose tokenizer has some tokens more, once each."""
    made: dict[tuple[str, ...], Path] = {}

    def get(*signs: str) -> Path:
        if signs not in made:
            folder = tmp_path_factory.mktemp("models") / "llama"
            build("llama").save_pretrained(folder)
            tokenizer = tiny_tokenizer(bos_token="<s>", eos_token="</s>", pad_token="<pad>")
            tokenizer.add_special_tokens({"additional_special_tokens": list(signs)})
            tokenizer.save_pretrained(folder)
            made[signs] = folder
        return made[signs]

    return get


@pytest.fixture(scope="module", params=["starcoder", "codestral"])
def model(request: pytest.FixtureRequest, saved: Callable[..., Path]) -> LoadedModel:
    return load_model(ModelSpec(name=str(saved(*SIGNS[request.param])), device="cpu"))


def ready(model: LoadedModel, text: str, name: str = "item") -> Prepared:
    item = Item(name, text, "python", "function", path=f"{name}.py", name="f", cluster=name, repository=name)
    language = LANGUAGES.load("python")
    tree = language.parse(text)
    tokens = language.tokens(tree)
    return Prepared(item, tree, tokens, align(encode(model.tokenizer, text), tree, tokens))


def signs(model: LoadedModel) -> int:
    """How many tokens of its own an input has."""
    held = [one for name in SIGNS.values() for one in name if one in model.tokenizer.get_vocab()]
    return len(held)


@torch.inference_mode()
def by_hand(model: LoadedModel, text: str, first: int, stop: int) -> list[float]:
    """The surprisal of the letters of a gap, one after the other."""
    ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) == len(text)
    before, behind = [FIRST, *ids[:first]], [FIRST + 1, *ids[stop:]]
    shown = [*behind, *before] if signs(model) == 2 else [*before, *behind, FIRST + 2]
    row = torch.tensor([[*shown, *ids[first:stop]]])
    logits = model.model(input_ids=row).logits[0].double().log_softmax(-1)
    return [-float(logits[len(shown) - 1 + at, ids[first + at]]) for at in range(stop - first)]


@pytest.mark.parametrize("family", SIGNS)
def test_tokens_are_found_by_their_names(family: str, saved: Callable[..., Path]) -> None:
    spec = ModelSpec(name=str(saved(*SIGNS[family])))
    reversed_ = family == "codestral"
    assert describe_special(spec).infill == Infill(
        before=FIRST, behind=FIRST + 1, write=None if reversed_ else FIRST + 2, reversed=reversed_
    )
    assert describe_model(spec).masks


def test_without_all_of_them_or_beyond_the_vocabulary_there_are_none(saved: Callable[..., Path]) -> None:
    many = [f"<extra {number}>" for number in range(VOCAB - FIRST)]
    for signs in ((), SIGNS["qwen"][:2], [*many, *SIGNS["starcoder"]]):
        folder = saved(*signs)
        assert describe_special(ModelSpec(name=str(folder))).infill is None
        assert not describe_model(ModelSpec(name=str(folder))).masks


def test_gaps_are_scored_as_plain_forwards_score_them(model: LoadedModel) -> None:
    gaps = [(4, 6), (0, 3), (len(CODE) - 1, len(CODE)), (0, len(CODE)), (25, 26)]
    prepared = ready(model, CODE)
    asked = Masked({"item": tuple(tuple(range(*gap)) for gap in gaps)})
    captures = list(observe(model, [prepared], [Pass(asked, (TokenScores(),))]))
    assert len(captures) == len(gaps)
    for capture, (first, stop) in zip(captures, gaps, strict=True):
        assert capture.written and capture.scores is not None
        assert np.flatnonzero(capture.scores.scored).tolist() == list(range(first, stop))
        expected = by_hand(model, CODE, first, stop)
        assert capture.scores.nats[first:stop] == pytest.approx(expected, abs=1e-4)


def test_what_is_too_long_is_read_around_the_gap(model: LoadedModel) -> None:
    """As much before as behind it; the side that has less leaves its room to the other."""
    text, context = "".join(chr(97 + n % 26) for n in range(200)), model.capabilities.context
    prepared = ready(model, text)
    for first, stop in ((100, 104), (2, 5), (198, 200)):
        asked = Pass(Masked({"item": (tuple(range(first, stop)),)}), (TokenScores(),))
        (capture,) = observe(model, [prepared], [asked])
        room = context - signs(model) - (stop - first - 1)
        before = min(first, max(room // 2, room - (len(text) - stop)))
        shown = text[first - before : stop + room - before]
        assert len(shown) == room + stop - first
        assert capture.scores is not None
        expected = by_hand(model, shown, before, before + stop - first)
        assert capture.scores.nats[first:stop] == pytest.approx(expected, abs=1e-4)
        assert capture.scores.context[first:stop].tolist() == [before + at for at in range(stop - first)]


STILL = Affine(np.zeros((32, 1), np.float32), np.zeros((1, 32), np.float32), np.zeros(32, np.float32))


@pytest.mark.parametrize(
    ("gap", "request_", "said"),
    [
        ((1, 2, 4), TokenScores(), "are not adjacent"),
        (tuple(range(80)), TokenScores(), "80 subwords of gaps are more than the"),
        ((1,), HiddenStates(), "only scores"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    gap: Sequence[int], request_: Request, said: str, model: LoadedModel
) -> None:
    prepared = ready(model, CODE * 3)
    with pytest.raises(InputError, match=said):
        list(observe(model, [prepared], [Pass(Masked({"item": (tuple(gap),)}), (request_,))]))


def test_nothing_is_changed_in_what_is_filled_in(model: LoadedModel) -> None:
    changed = Changed(Masked({"item": ((1,),)}), (Change(1, STILL),), "still")
    with pytest.raises(InputError, match="only scores"):
        list(observe(model, [ready(model, CODE)], [Pass(changed, (TokenScores(),))]))


def test_the_lens_leaves_out_each_code_token_once(model: LoadedModel) -> None:
    prepared = ready(model, CODE)
    (asked,) = LENS.input_requests([prepared], {}, INFILL)
    captured = [CapturedItem(prepared, tuple(observe(model, [prepared], [asked])))]
    one = prepared.item
    known = repositories([SourceFile(one.path, one.text, "python", one.cluster, one.repository)])
    labels = {
        task: TASKS.load(task).label([one], known)["item"].with_columns(item_id=pl.lit("item"))
        for task in LENS.tasks
    }
    rows = LENS.observe(captured, labels, INFILL, get_surfaces(model.tokenizer, model.capabilities.vocab))
    expected: list[float] = []
    for word in ["def", " ", "go", "(", "a", ",", " ", "b", ")", ":", *"\n    ", "return", " ", "a"]:
        expected += by_hand(model, CODE, len(expected), len(expected) + len(word))
    assert rows["nats"].to_list()[: len(expected)] == pytest.approx(expected, abs=1e-4)
    assert rows["position"].to_list() == list(range(len(CODE)))


def test_pairs_are_told_by_the_place_alone(model: LoadedModel) -> None:
    texts = {"o": CODE, "m": CODE.replace("a - b", "bc - b")}
    places = {"o": (25, 26), "m": (25, 27)}
    rows = [
        {"item_id": name, "start": places[name][0], "end": places[name][1], "label": name,
         "source_id": "pair", "original": name == "o", "cluster": "c", "characters": 1, "tokens": 1}
        for name in texts
    ]  # fmt: skip
    labels = {"variable_misuse": pl.DataFrame(rows, schema=dict(PAIRED_SCHEMA))}
    settings = dataclasses.replace(INFILL, options={**INFILL.options, "pairs": ("variable_misuse",)})
    prepared = [ready(model, text, name) for name, text in texts.items()]
    (asked,) = LENS.input_requests(prepared, labels, settings)
    captured = [CapturedItem(one, tuple(observe(model, [one], [asked]))) for one in prepared]
    found = LENS.observe(captured, labels, settings, get_surfaces(model.tokenizer, model.capabilities.vocab))
    for row in found.iter_rows(named=True):
        expected = by_hand(model, texts[row["item_id"]], *places[row["item_id"]])
        assert row["nats"] == row["place_nats"] == pytest.approx(sum(expected), abs=1e-4)
        assert (row["subwords"], row["before_subwords"]) == (len(expected), 0)


def test_models_are_asked_by_what_they_can() -> None:
    llama = describe_model(ModelSpec(name="sonde/mini-decoder"))
    able = dataclasses.replace(llama, masks=True)
    t5 = dataclasses.replace(able, kind="encoder-decoder")
    infill = {"objective": "infill"}
    assert LENS.resolve_options({"able": able}, {}) == {}
    assert LENS.resolve_options({"t5": t5}, {}) == infill
    assert LENS.excluded_models({"able": able, "t5": t5}, infill) == {}
    (why,) = LENS.excluded_models({"able": able, "plain": llama}, infill).values()
    assert "this decoder has no known fill-in tokens" in why and "surprisal.objective=infill" in why
    (why,) = LENS.excluded_models({"able": able, "t5": t5}, {}).values()
    assert "scores this encoder-decoder by infill" in why
    assert LENS.input_requests([], {}, LensSettings())[0].variant == Plain()
