"""Minimal pairs of the surprisal lens: sums compared with plain forwards, and planted preferences."""

from __future__ import annotations

import tokenize
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from tests.lenses.conftest import capture_of, item_of, prepared_of, words_of
from tests.models.conftest import build, tiny_tokenizer
from tests.slices import with_slices

from sonde.alignment import align, encode, get_surfaces
from sonde.base.errors import CaptureError, UnknownNameError, UsageError
from sonde.capture.forward import observe_lenses
from sonde.capture.requests import Masked, Prepared
from sonde.corpora import Item, item_id
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES, CapturedItem, LensSettings, ScoringContext
from sonde.lenses.surprisal.minimal_pairs import SIDES_SCHEMA, WINDOW, pairs_frame
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.results.scores import Score, scores_to_frame
from sonde.tasks import PAIRED_SCHEMA

LENS = LENSES.load("surprisal")
TASK = "variable_misuse"
CAUSAL = LensSettings(options={"pairs": TASK})
PLL = LensSettings(options={"pairs": TASK, "objective": "pll"})
PAIRS = (
    ("def f(a, bc):\n    return a - bc\n", "def f(a, bc):\n    return bc - bc\n", (25, 26), (25, 27)),
    ("def g(x):\n    y = x\n    return y\n", "def g(x):\n    y = x\n    return x\n", (31, 32), (31, 32)),
    ("if a is None:\n    b()\n", "if a is not None:\n    b()\n", (8, 12), (8, 16)),
)
Beside = Mapping[str, object]


def items_of(pairs: Sequence[tuple[str, str, tuple[int, int], tuple[int, int]]]) -> list[Item]:
    return [
        item_of(text, item_id=item_id(text, "python", "function"), cluster=f"c{number}")
        for number, pair in enumerate(pairs)
        for text in pair[:2]
    ]


def labels_of(
    items: Sequence[Item], places: Sequence[tuple[int, int]], beside: Sequence[Beside] = ()
) -> dict[str, pl.DataFrame]:
    """A data set of pairs: items stand two by two, the original first."""
    rows = [
        {
            "example_id": f"{number}", "item_id": one.item_id,
            "source_id": items[number - number % 2].item_id,
            "original": number % 2 == 0, "label": "", "start": place[0], "end": place[1], "operator": "",
            "distance": None, "parses": True, "frequency": None, "ngram_nats": None, "split": "test",
            "cluster": one.cluster, "characters": len(one.text), "tokens": 1,
            **(beside[number] if beside else {}),
        }
        for number, (one, place) in enumerate(zip(items, places, strict=True))
    ]  # fmt: skip
    return {TASK: pl.DataFrame(rows, schema=dict(PAIRED_SCHEMA))}


def places_of(pairs: Sequence[tuple[str, str, tuple[int, int], tuple[int, int]]]) -> list[tuple[int, int]]:
    return [place for pair in pairs for place in pair[2:]]


@pytest.fixture(scope="module", params=["llama", "bert"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder: Path = tmp_path_factory.mktemp("models") / request.param
    build(request.param).save_pretrained(folder)
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
    tiny_tokenizer(template=request.param == "bert", **special).save_pretrained(folder)
    return load_model(ModelSpec(name=str(folder), device="cpu"))


def ready(model: LoadedModel, items: Sequence[Item]) -> list[Prepared]:
    language = LANGUAGES.load("python")
    found: list[Prepared] = []
    for one in items:
        tree = language.parse(one.text)
        tokens = language.tokens(tree)
        found.append(Prepared(one, tree, tokens, align(encode(model.tokenizer, one.text), tree, tokens)))
    return found


def words(text: str) -> list[tuple[int, int]]:
    """Spans of Python's own tokens."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    return [
        (lines[token.start[0] - 1] + token.start[1], lines[token.end[0] - 1] + token.end[1])
        for token in tokenize.generate_tokens(StringIO(text).readline)
        if token.string.strip()
    ]


@torch.inference_mode()
def by_hand(model: LoadedModel, text: str, asked: range) -> float:
    """The surprisal of some letters of a text, from plain forwards of transformers in double precision."""
    ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) == len(text)
    if model.capabilities.kind == "decoder":
        logits = model.model(input_ids=torch.tensor([[0, *ids]])).logits[0].double().log_softmax(-1)
        return -sum(float(logits[at, ids[at]]) for at in asked)
    total = 0.0
    for at in asked:
        stop = next((end for start, end in words(text) if start <= at < end), at + 1)
        shown = [model.tokenizer.mask_token_id if at <= n < stop else one for n, one in enumerate(ids)]
        row = torch.tensor([[0, *shown, 1]])
        logits = model.model(input_ids=row, attention_mask=torch.ones_like(row)).logits[0, at + 1]
        total -= float(logits.double().log_softmax(-1)[ids[at]])
    return total


def test_sums_are_those_of_plain_forwards(model: LoadedModel) -> None:
    items, places = items_of(PAIRS), places_of(PAIRS)
    labels = labels_of(items, places)
    decoder = model.capabilities.kind == "decoder"
    settings = CAUSAL if decoder else PLL
    prepared = ready(model, items)
    passes = LENS.input_requests(prepared, labels, settings)
    captured = [
        CapturedItem(one.prepared, one.captures["surprisal"])
        for one in observe_lenses(model, prepared, {"surprisal": passes})
    ]
    rows = LENS.observe(captured, labels, settings, get_surfaces(model.tokenizer, model.capabilities.vocab))
    assert rows.schema == pl.Schema(SIDES_SCHEMA)
    assert rows.height == len(items)
    for one, (start, end) in zip(items, places, strict=True):
        (row,) = rows.filter(pl.col("item_id") == one.item_id).to_dicts()
        size = len(one.text)
        wanted = range(start, size) if decoder else range(max(0, start - WINDOW), min(size, end + WINDOW))
        assert row["subwords"] == len(wanted)
        assert row["nats"] == pytest.approx(by_hand(model, one.text, wanted), abs=2e-4)
        assert row["place_nats"] == pytest.approx(by_hand(model, one.text, range(start, end)), abs=1e-4)
        if decoder:
            whole = by_hand(model, one.text, range(size))
            assert row["before_nats"] + row["nats"] == pytest.approx(whole, abs=2e-4)
    frame = pairs_frame(rows.lazy(), labels)
    for row in frame.iter_rows(named=True):
        texts = {one.item_id: one.text for one in items}
        one, other = texts[row["item_id"]], texts[row["item_id_mutant"]]
        if decoder:
            apart = by_hand(model, other, range(len(other))) - by_hand(model, one, range(len(one)))
            assert row["margin"] == pytest.approx(apart, abs=3e-4)


def test_a_masked_model_is_asked_around_the_places_alone() -> None:
    long = "".join(f"v{number} = {number}\n" for number in range(60))
    text, mutant = f"{long}x = y\n{long}", f"{long}x = z\n{long}"
    items = items_of([(text, mutant, (0, 0), (0, 0))])
    at = len(long) + 4
    labels = labels_of(items, [(at, at + 1)] * 2)
    prepared = [prepared_of(one, words_of(one.text)) for one in items]
    (asked,) = LENS.input_requests(prepared, labels, PLL)
    assert isinstance(asked.variant, Masked)
    first = next(n for n, piece in enumerate(words_of(text)) if piece == " y")
    for one in items:
        variants = asked.variant.positions[one.item_id]
        assert [positions[0] for positions in variants] == list(range(first - 32, first + 33))


def planted(
    costs: Sequence[tuple[float, float]], beside: Sequence[Beside] = (), **options: object
) -> pl.DataFrame:
    """Scores of pairs whose texts cost so much, all of it at the changed name."""
    pairs = [
        (f"def f(a):\n    return a + {n}\n", f"def f(a):\n    return f + {n}\n", (21, 22), (21, 22))
        for n in range(len(costs))
    ]
    items, labels = items_of(pairs), labels_of(items_of(pairs), places_of(pairs), beside)
    settings = LensSettings(options={"pairs": TASK, "min_count": 1, **options})
    captured: list[CapturedItem] = []
    for number, one in enumerate(items):
        pieces = words_of(one.text)
        nats = np.ones(len(pieces))
        nats[next(n for n, piece in enumerate(pieces) if piece in (" a", " f") and n > 3)] = costs[
            number // 2
        ][number % 2]
        captured.append(CapturedItem(prepared_of(one, pieces), (capture_of(one, nats.tolist()),)))
    rows = LENS.observe(captured, labels, settings, ["best", "next"])
    template = Score(model="m", lens="surprisal", metric="", value=0.0, n=0, n_clusters=0)
    scoring = ScoringContext(
        observations=rows.lazy(), items=pl.DataFrame(), template=template, settings=settings, labels=labels
    )
    return with_slices(scores_to_frame(LENS.score(scoring)))


def value(
    scores: pl.DataFrame, metric: str, control: str | None = None, where: str = "all", **more: str
) -> float:
    rows = scores.filter(
        (pl.col("metric") == metric)
        & pl.col("control").eq_missing(pl.lit(control, pl.String))
        & (pl.col("slice") == where)
        & pl.all_horizontal(pl.lit(True), *(pl.col(name) == one for name, one in more.items()))
    )
    return rows["value"].item()


def test_the_likelier_original_counts_and_ties_count_half() -> None:
    scores = planted([(1.0, 4.0)] * 20 + [(4.0, 1.0)] * 10 + [(2.0, 2.0)] * 10)
    assert value(scores, "preferred") == pytest.approx(25 / 40)
    assert value(scores, "margin") == pytest.approx((20 * 3 - 10 * 3) / 40)
    assert value(scores, "preferred", where="at=place") == pytest.approx(25 / 40)
    assert value(scores, "preferred", "chance") == 0.5
    assert value(scores, "gain", compared_to="chance") == pytest.approx(5 / 40)
    assert set(scores["objective"]) == {"causal"}
    own = scores.filter((pl.col("metric") == "preferred") & pl.col("control").is_null())
    assert (own["ci_low"] < own["value"]).all()
    assert own["n_clusters"].max() == 40


def test_what_only_counts_is_not_beyond_counting() -> None:
    """A model that says what n-grams say has no gain over them, whatever its share is."""
    costs = [(float(n % 5), 2.0) for n in range(40)]
    beside = [{"ngram_nats": 7.0 + cost} for pair in costs for cost in pair]
    scores = planted(costs, beside)
    assert value(scores, "preferred") == value(scores, "preferred", "ngram") == pytest.approx(0.5)
    (gain,) = scores.filter((pl.col("metric") == "gain") & (pl.col("compared_to") == "ngram")).to_dicts()
    assert gain["value"] == 0
    assert gain["ci_low"] < 0 < gain["ci_high"]


def test_controls_tell_originals_by_what_they_look_at() -> None:
    beside: list[Beside] = []
    for n in range(30):
        beside += [
            {"parses": True, "frequency": 9 if n < 20 else 1, "ngram_nats": 5.0},
            {"parses": n >= 15, "frequency": 3, "ngram_nats": 6.0 if n < 24 else 4.0},
        ]
    scores = planted([(1.0, 2.0)] * 30, beside)
    assert value(scores, "preferred", "parse_error") == pytest.approx((15 + 7.5) / 30)
    assert value(scores, "preferred", "frequency") == pytest.approx(20 / 30)
    assert value(scores, "preferred", "ngram") == pytest.approx(24 / 30)
    assert value(scores, "preferred", "length") == 0.5
    assert value(scores, "gain", compared_to="ngram") == pytest.approx(6 / 30)


def test_pairs_are_told_apart_by_operator_distance_and_construct() -> None:
    beside: list[Beside] = []
    for n in range(40):
        shared = {"operator": "+" if n % 2 else "-", "distance": (3, 8, 9, 500)[n % 4]}
        beside += [shared, shared]
    scores = planted([(1.0, 2.0 if n % 2 else 0.0) for n in range(40)], beside)
    assert value(scores, "preferred", where="operator=+") == 1
    assert value(scores, "preferred", where="operator=-") == 0
    parts = scores.filter((pl.col("metric") == "preferred") & pl.col("slice").str.starts_with("distance"))
    assert dict(parts.select("slice", "n").iter_rows()) == {
        "distance=001-008": 20, "distance=009-032": 10, "distance=129+": 10,
    }  # fmt: skip
    assert value(scores, "preferred", where="construct=operator_expression") == 0.5


def test_a_pair_of_which_one_text_was_not_read_is_left_out() -> None:
    """As where a model was trained on the original."""
    items, labels = items_of(PAIRS), labels_of(items_of(PAIRS), places_of(PAIRS))
    captured = [
        CapturedItem(
            prepared_of(one, words_of(one.text)), (capture_of(one, [1.0] * len(words_of(one.text))),)
        )
        for one in items[1:]
    ]
    rows = LENS.observe(captured, labels, CAUSAL, ["best", "next"])
    assert rows.height == len(items) - 1
    assert set(pairs_frame(rows.lazy(), labels)["source_id"]) == {items[2].item_id, items[4].item_id}


def test_the_whole_text_counts_where_a_tokenizer_cuts_the_beginning_otherwise() -> None:
    items, labels = items_of(PAIRS[:1]), labels_of(items_of(PAIRS[:1]), places_of(PAIRS[:1]))
    pieces = [words_of(items[0].text), ["d", "ef", *words_of(items[1].text)[1:]]]
    captured = [
        CapturedItem(prepared_of(one, some), (capture_of(one, [1.0] * len(some)),))
        for one, some in zip(items, pieces, strict=True)
    ]
    frame = pairs_frame(LENS.observe(captured, labels, CAUSAL, ["a", "b"]).lazy(), labels)
    assert frame["margin"].to_list() == [1.0]
    assert frame["place_margin"].to_list() == [0.0]


def test_masked_models_read_the_first_pairs_that_are_short_enough() -> None:
    items = items_of(PAIRS)
    labels = labels_of(items, places_of(PAIRS))

    def read(**options: int) -> list[str]:
        settings = LensSettings(options={"pairs": TASK, "objective": "pll", **options})
        return [one.item_id for one in LENS.inputs(items, labels, settings)]

    names = [one.item_id for one in items]
    assert read() == names
    assert read(masked_items=2) == names[:4]
    assert read(masked_characters=32) == names[4:]


def test_captures_without_scores_are_refused() -> None:
    items, labels = items_of(PAIRS[:1]), labels_of(items_of(PAIRS[:1]), places_of(PAIRS[:1]))
    prepared = prepared_of(items[0], words_of(items[0].text))
    with pytest.raises(CaptureError, match="no scores"):
        LENS.observe([CapturedItem(prepared, ())], labels, CAUSAL, [])
    with pytest.raises(CaptureError, match="not finite"):
        endless = capture_of(items[0], [float("inf")] * len(words_of(items[0].text)))
        LENS.observe([CapturedItem(prepared, (endless,))], labels, CAUSAL, ["a", "b"])


def test_the_option_names_tasks_and_refuses_what_has_no_pairs() -> None:
    assert LENS.pairs({}) == ()
    assert LENS.pairs({"pairs": "sri,wrong_operator"}) == ("sri", "wrong_operator")
    assert {"sri", "variable_misuse", "jst"} <= set(LENS.pairs({"pairs": "all"}))
    assert "exception_type" not in LENS.pairs({"pairs": "all"})
    with pytest.raises(UsageError, match="has no pairs of an original and a mutant"):
        LENS.pairs({"pairs": "exception_type"})
    with pytest.raises(UnknownNameError, match="variable_misuse"):
        LENS.pairs({"pairs": "variable_misus"})
    assert LENSES.load("probe").pairs({"pairs": "sri"}) == ()


@pytest.mark.parametrize(
    "settings",
    [
        LensSettings(mode="paper", options={"pairs": TASK}),
        LensSettings(quirks=frozenset({"perplexed.pads"}), options={"pairs": TASK}),
        LensSettings(options={"pairs": TASK, "before": "both"}),
        LensSettings(options={"pairs": TASK, "with_internal_calls": True}),
    ],
)
def test_what_has_no_meaning_for_pairs_is_refused(settings: LensSettings) -> None:
    with pytest.raises(UsageError, match="pairs cannot be combined with"):
        LENS.controls(settings)
