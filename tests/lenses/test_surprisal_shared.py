"""Bits per byte and per character if tokenizers leave text out: of the text, and of what all cover."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slices import with_slices
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sonde.alignment import align, encode, split_segments
from sonde.capture.requests import ItemCapture, Prepared, ScoredSubwords
from sonde.corpora import Item, SourceFile
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES, CapturedItem, LensSettings, ScoringContext
from sonde.models import ModelSpec, load_tokenizer
from sonde.results.scores import Score, scores_to_frame
from sonde.tasks import repositories
from sonde.tasks.engine.task import TASKS

LENS = LENSES.load("surprisal")
CODES = (
    "def Find(É, name):\n    # schöne Grüße\n    return name[É]  # unbekannt\n",
    "x = 1\n\n",
    "class A:\n    def M(self):\n\t    return 'Ω' * 数据\n",
    "   \nreturn  Self\n   ",
)


def lossy() -> Any:
    """WordPiece that lower-cases, strips accents and holds few words; all others are the unknown piece."""
    words = "def find e name return self class a m x 1 = ( ) : , [ ] # ##e ##n ' * schone".split()  # noqa: SIM905
    vocabulary = {word: number for number, word in enumerate(["[UNK]", *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Any]:
    return {"lossy": lossy(), "lossless": load_tokenizer(ModelSpec(name="sonde/mini-decoder"))}


def items() -> list[Item]:
    return [
        Item(
            item_id=f"item {number}", text=text, language="python", unit="function", path=f"{number}.py",
            name="f", offset=0, cluster=f"cluster {number % 3}", repository="repository",
        )
        for number, text in enumerate(CODES)
    ]  # fmt: skip


def observed(tokenizer: Any) -> pl.DataFrame:
    held = items()
    known = repositories([SourceFile(i.path, i.text, i.language, i.cluster, i.repository) for i in held])
    labels = {
        name: pl.concat(
            table.with_columns(item_id=pl.lit(key))
            for key, table in TASKS.load(name).label(held, known).items()
        )
        for name in LENS.tasks
    }
    language, captured = LANGUAGES.load("python"), list[CapturedItem]()
    for number, item in enumerate(held):
        tree = language.parse(item.text)
        tokens = language.tokens(tree)
        prepared = Prepared(item, tree, tokens, align(encode(tokenizer, item.text), tree, tokens))
        size = len(prepared.alignment.subwords)
        rng = np.random.default_rng(number)
        scores = ScoredSubwords(
            nats=rng.exponential(2.0, size).astype(np.float32),
            rank=np.ones(size, np.int32),
            entropy=np.ones(size, np.float32),
            context=np.arange(size, dtype=np.int32),
            scored=np.ones(size, np.bool_),
            top_ids=np.zeros((size, 2), np.int32),
            top_nats=np.ones((size, 2), np.float32),
        )
        captured.append(CapturedItem(prepared, (ItemCapture(item.item_id, scores=scores),)))
    return LENS.observe(captured, labels, LensSettings(), ["best"])


def score(own: pl.DataFrame, *beside: pl.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    scoring = ScoringContext(
        observations=own.lazy(),
        items=pl.DataFrame(),
        template=Score(model="m", lens="surprisal", metric="", value=0.0, n=0, n_clusters=0, item_set="own"),
        settings=LensSettings(options={"min_count": 1}),
        texts=pl.LazyFrame({"item_id": [i.item_id for i in items()], "text": [i.text for i in items()]}),
        beside=tuple(one.lazy() for one in beside),
    )
    rows = with_slices(scores_to_frame(LENS.score(scoring))).to_dicts()
    return {(row["slice"], row["metric"]): row for row in rows if row["slice"] in ("all", "shared")}


@pytest.mark.parametrize("name", ["lossy", "lossless"])
def test_bits_are_divided_by_the_bytes_and_characters_of_the_text(
    name: str, tokenizers: dict[str, Any]
) -> None:
    table = observed(tokenizers[name])
    found = score(table)
    bits = table["nats"].cast(pl.Float64).sum() / math.log(2)
    size, characters = len("".join(CODES).encode()), len("".join(CODES))
    assert found["all", "bits_per_byte"]["value"] == pytest.approx(bits / size)
    assert found["all", "bits_per_character"]["value"] == pytest.approx(bits / characters)
    assert (found["all", "bits_per_byte"]["n"], found["all", "bits_per_character"]["n"]) == (size, characters)
    assert (found["all", "coverage"]["value"] == 1) == (name == "lossless")
    assert ("shared", "bits_per_byte") not in found


def slow(own: pl.DataFrame, other: pl.DataFrame) -> tuple[float, int, int]:
    """Bits, characters and bytes of what both cover, a character at a time."""
    nats, size, data = 0.0, 0, 0
    for item in items():
        covered: list[set[int]] = []
        for table in (own, other):
            rows = table.filter(pl.col("item_id") == item.item_id).to_dicts()
            known = [row for row in rows if row["subword"] != "[UNK]"]
            covered.append({place for row in known for place in range(row["start"], row["end"])})
        both = covered[0] & covered[1]
        size, data = size + len(both), data + len("".join(item.text[place] for place in both).encode())
        for row in own.filter(pl.col("item_id") == item.item_id).to_dicts():
            places = range(row["start"], row["end"])
            inked = [place for place in places if not item.text[place].isspace()] or list(places)
            nats += row["nats"] * len(both.intersection(inked)) / len(inked)
    return nats / math.log(2), size, data


def test_models_are_compared_on_the_characters_that_all_cover(tokenizers: dict[str, Any]) -> None:
    tables = {name: observed(tokenizer) for name, tokenizer in tokenizers.items()}
    for name, other in (("lossy", "lossless"), ("lossless", "lossy")):
        found = score(tables[name], tables[other])
        bits, characters, size = slow(tables[name], tables[other])
        assert 0 < characters < len("".join(CODES))
        assert found["shared", "bits_per_character"]["value"] == pytest.approx(bits / characters)
        assert found["shared", "bits_per_byte"]["value"] == pytest.approx(bits / size)
        counts = [found["shared", metric]["n"] for metric in ("bits_per_character", "bits_per_byte")]
        assert counts == [characters, size]
        assert found["shared", "coverage"]["value"] == pytest.approx(characters / len("".join(CODES)))


def test_only_items_that_every_model_read_are_compared(tokenizers: dict[str, Any]) -> None:
    whole = observed(tokenizers["lossless"])
    part = whole.filter(pl.col("item_id") != "item 0")
    found, alone = score(whole, part), score(part)
    assert found["shared", "bits_per_byte"]["value"] == pytest.approx(alone["all", "bits_per_byte"]["value"])
    assert found["shared", "bits_per_byte"]["n"] == len("".join(CODES[1:]).encode())
    assert found["shared", "bits_per_byte"]["item_set"] != "own"


@given(st.text(max_size=40))
def test_stretches_add_up_to_any_text(text: str) -> None:
    sums: dict[str, list[int]] = defaultdict(list)
    for tokenizer in (LOSSY, LOSSLESS):
        subwords = encode(tokenizer, text)
        if len(subwords):
            cut = split_segments(subwords)
            sums["characters"].append(int(cut.characters.sum()))
            sums["bytes"].append(int(cut.bytes.sum()))
            assert (cut.characters >= 0).all() and (cut.covered <= cut.characters).all()
    assert set(sums["characters"]) <= {len(text)}
    assert set(sums["bytes"]) <= {len(text.encode())}


LOSSY, LOSSLESS = lossy(), load_tokenizer(ModelSpec(name="sonde/mini-decoder"))
