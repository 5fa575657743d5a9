"""Encoders under the surprisal lens: pseudo-log-likelihoods against a slow loop over a tiny BERT."""

from __future__ import annotations

import tokenize
from collections.abc import Iterator
from io import StringIO

import polars as pl
import pytest
import torch
from tests.models.conftest import build, tiny_tokenizer
from tests.slices import with_slices

from sonde.alignment import align, encode, get_surfaces
from sonde.base.errors import CaptureError, UnknownNameError, UsageError
from sonde.capture.forward import observe_lenses
from sonde.capture.requests import Prepared
from sonde.corpora import Item, SourceFile
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES, CapturedItem, LensSettings, ScoringContext
from sonde.models import Capabilities, LoadedModel, ModelSpec, load_model
from sonde.results.schema import OBSERVATIONS_SCHEMA
from sonde.results.scores import Score, scores_to_frame
from sonde.tasks import repositories
from sonde.tasks.engine.task import TASKS

LENS = LENSES.load("surprisal")
PLL = LensSettings(options={"objective": "pll"})
CODE = "def go(a):\n    return ab(a, 12)\n"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = str(tmp_path_factory.mktemp("models") / "bert")
    build("bert").save_pretrained(folder)
    tiny_tokenizer(
        template=True, bos_token="<s>", eos_token="</s>", pad_token="<pad>", mask_token="<mask>"
    ).save_pretrained(folder)
    return load_model(ModelSpec(name=folder, device="cpu"))


def item(text: str, name: str = "item") -> Item:
    return Item(
        item_id=name, text=text, language="python", unit="function", path=f"{name}.py", name="f", offset=0,
        cluster=name, repository=name,
    )  # fmt: skip


def observed(bert: LoadedModel, *items: Item) -> pl.DataFrame:
    language = LANGUAGES.load("python")
    ready: list[Prepared] = []
    for one in items:
        tree = language.parse(one.text)
        tokens = language.tokens(tree)
        ready.append(Prepared(one, tree, tokens, align(encode(bert.tokenizer, one.text), tree, tokens)))
    known = repositories(
        [SourceFile(one.path, one.text, "python", one.cluster, one.repository) for one in items]
    )
    labels = {
        task: pl.concat(
            TASKS.load(task).label([one], known)[one.item_id].with_columns(item_id=pl.lit(one.item_id))
            for one in items
        )
        for task in LENS.tasks
    }
    passes = LENS.input_requests(ready, labels, PLL)
    captured = [
        CapturedItem(one.prepared, one.captures["surprisal"])
        for one in observe_lenses(bert, ready, {"surprisal": passes})
    ]
    return LENS.observe(captured, labels, PLL, get_surfaces(bert.tokenizer, bert.capabilities.vocab))


def words(text: str) -> Iterator[tuple[int, int]]:
    """Spans of Python's own tokens, ASCII on lines of their own."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.string.strip():
            yield lines[token.start[0] - 1] + token.start[1], lines[token.end[0] - 1] + token.end[1]


@torch.inference_mode()
def by_hand(bert: LoadedModel, text: str) -> list[float]:
    """A forward a letter: it and the later letters of its word are masks."""
    ids = bert.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) == len(text)
    nats: list[float] = []
    for at, number in enumerate(ids):
        stop = next((end for start, end in words(text) if start <= at < end), at + 1)
        shown = [
            bert.tokenizer.mask_token_id if at <= other < stop else ids[other] for other in range(len(ids))
        ]
        row = torch.tensor([[0, *shown, 1]])
        logits = bert.model(input_ids=row, attention_mask=torch.ones_like(row)).logits[0, at + 1]
        nats.append(-float(logits.double().log_softmax(-1)[number]))
    return nats


def test_scores_equal_a_slow_loop_over_a_tiny_bert(bert: LoadedModel) -> None:
    other = "x = [1]\n"
    rows = observed(bert, item(CODE, "a"), item(other, "b"))
    assert dict(rows.schema) == dict(OBSERVATIONS_SCHEMA)
    for name, text in (("a", CODE), ("b", other)):
        mine = rows.filter(pl.col("item_id") == name)
        assert mine["position"].to_list() == list(range(len(text)))
        assert mine["nats"].to_list() == pytest.approx(by_hand(bert, text), abs=1e-4)
    go = rows.filter((pl.col("item_id") == "a") & (pl.col("word") == "go"))
    assert go["construct"].to_list() == ["function"] * 2


def test_a_later_letter_of_the_word_is_hidden_and_the_next_word_is_not(bert: LoadedModel) -> None:
    (first,), (same,), (other,) = (
        observed(bert, item(text)).filter(pl.col("position") == 0)["nats"].to_list()
        for text in ("ab = 1\n", "ac = 1\n", "ab = 2\n")
    )
    assert first == pytest.approx(same, abs=1e-6)
    assert first != pytest.approx(other, abs=1e-6)


def scored(rows: pl.DataFrame, settings: LensSettings) -> pl.DataFrame:
    template = Score(model="model", lens="surprisal", metric="", value=0.0, n=0, n_clusters=0)
    scoring = ScoringContext(
        observations=rows.lazy(), items=pl.DataFrame(), template=template, settings=settings
    )
    return with_slices(scores_to_frame(LENS.score(scoring)))


def test_every_score_says_its_objective(bert: LoadedModel) -> None:
    rows = observed(bert, item(CODE, "a"), item("x = [1]\n", "b"))
    masked, causal = scored(rows, PLL), scored(rows, LensSettings())
    assert (masked["objective"] == "pll").all()
    assert (causal["objective"] == "causal").all()
    numbers = ("slice", "metric", "value", "n")
    # To a model that sees both sides the first subword of a text is one as any other.
    whole = pl.col("slice").is_in(["all", "code", "layout"]) & pl.col("metric").is_in(
        ["bits", "bits_per_byte"]
    )
    assert masked.filter(whole).select(numbers).equals(causal.filter(whole).select(numbers))
    assert "text=first" in causal["slice"] and "text=first" not in masked["slice"]
    constructs = scored(rows, LensSettings(options={**PLL.options, "min_count": 1}))
    assert any("pseudo-log-likelihood" in line for line in LENS.details(constructs))


def capabilities(kind: str, *, masks: bool = True) -> Capabilities:
    return Capabilities(
        kind=kind, layers=1, heads=1, d_model=1, vocab=1, context=1, attention="none", masks=masks
    )


def test_the_objective_goes_by_the_kind_of_model() -> None:
    encoder, decoder = capabilities("encoder"), capabilities("decoder")
    assert LENS.unsupported_reason(encoder) is None
    assert "no mask token" in str(LENS.unsupported_reason(capabilities("encoder", masks=False)))
    assert LENS.resolve_options({"a": encoder}, {"min_count": 2}) == {"min_count": 2, "objective": "pll"}
    assert LENS.resolve_options({"a": decoder}, {"min_count": 2}) == {"min_count": 2}
    both = {"a": encoder, "b": decoder}
    assert list(LENS.excluded_models(both, {})) == ["a"]
    assert list(LENS.excluded_models(both, {"objective": "pll"})) == ["b"]
    assert (
        "--option surprisal.objective=pll"
        in LENS.excluded_models({"a": encoder}, {"objective": "causal"})["a"]
    )
    assert not LENS.excluded_models({"a": encoder}, {}) and not LENS.excluded_models({"b": decoder}, {})
    with pytest.raises(UnknownNameError, match="objective"):
        LENS.resolve_options({"a": encoder}, {"objective": "pl"})


def test_masked_models_read_the_first_items_that_are_short() -> None:
    items = [item("x" * length, str(length)) for length in (1600, 3, 0, 5, 1500)]
    assert [len(one.text) for one in LENS.inputs(items, {}, PLL)] == [3, 5, 1500]
    few = LensSettings(options={**PLL.options, "masked_items": 1, "masked_characters": 1600})
    assert [len(one.text) for one in LENS.inputs(items, {}, few)] == [1600]
    assert LENS.inputs(items, {}, LensSettings()) == items
    with pytest.raises(UsageError, match="masked_items = 0"):
        LENS.inputs(items, {}, LensSettings(options={"objective": "pll", "masked_items": 0}))


@pytest.mark.parametrize(
    "settings",
    [
        LensSettings(options=PLL.options, mode="paper"),
        LensSettings(options=PLL.options, quirks=frozenset({"perplexed.shift"})),
    ],
)
def test_quirks_of_decoders_are_refused(settings: LensSettings) -> None:
    with pytest.raises(UsageError, match=r"perplexed\.shift.*left to right"):
        LENS.inputs([], {}, settings)


def test_a_subword_without_its_mask_is_an_error(bert: LoadedModel) -> None:
    language = LANGUAGES.load("python")
    one = item("ab")
    tree = language.parse(one.text)
    ready = [
        Prepared(
            one,
            tree,
            language.tokens(tree),
            align(encode(bert.tokenizer, one.text), tree, language.tokens(tree)),
        )
    ]
    passes = LENS.input_requests(ready, {}, PLL)
    (found,) = observe_lenses(bert, ready, {"surprisal": passes})
    with pytest.raises(CaptureError, match="0 scores for 2 subwords"):
        LENS.observe([CapturedItem(ready[0], found.captures["surprisal"][:1])], {}, PLL, [])
