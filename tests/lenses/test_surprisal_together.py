"""Items that are observed together have the rows that each has alone."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.lenses.conftest import tasks_of

from sonde.alignment import align, encode
from sonde.capture.requests import ItemCapture, Prepared, ScoredSubwords
from sonde.corpora import Item, SourceFile, Tag
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES, CapturedItem, LensSettings
from sonde.models import ModelSpec, load_tokenizer
from sonde.tasks import repositories
from sonde.tasks.engine.task import TASKS

CODES = (
    "def f(x):\n    return g(x, h(x))[0]\n",
    "",
    "  \n\t",
    "\n  é = 'ü' + name\n\n",
    "print(len(text), end='')",
    "x",
    "class A:\n    def m(self, f=1):\n        '''Doc.'''\n        return self.f(f(f)).m()  # none\n\n\n",
    "def f(:\n  x = (\n",
    "😀 = [y for y in z if y]\n",
)
LENS = LENSES.load("surprisal")


@pytest.fixture(scope="module")
def tokenizer() -> object:
    return load_tokenizer(ModelSpec(name="sonde/mini-decoder"))


def captured(tokenizer: object, number: int, text: str) -> CapturedItem:
    rng = np.random.default_rng(number)
    tags = (Tag(0, len(text) // 2 + 1, "A"), Tag(len(text) // 3, len(text), "B")) if len(text) > 1 else ()
    item = Item(
        item_id=f"item {number}", text=text, language="python", unit="function", path=f"{number % 4}.py",
        name="f", offset=0, cluster=f"cluster {number % 3}", repository="repository", tags=tags,
    )  # fmt: skip
    language = LANGUAGES.load("python")
    tree = language.parse(text)
    tokens = language.tokens(tree)
    prepared = Prepared(item, tree, tokens, align(encode(tokenizer, text), tree, tokens))
    size = len(prepared.alignment.subwords)
    scores = ScoredSubwords(
        nats=rng.exponential(2.0, size).astype(np.float32),
        rank=rng.integers(1, 9, size).astype(np.int32),
        entropy=rng.random(size).astype(np.float32),
        context=np.arange(size, dtype=np.int32),
        scored=rng.random(size) < 0.9,
        top_ids=rng.integers(0, 50, (size, 5)).astype(np.int32),
        top_nats=rng.exponential(2.0, (size, 5)).astype(np.float32),
    )
    return CapturedItem(prepared, (ItemCapture(item.item_id, scores=scores),))


@pytest.mark.parametrize("mode", ["corrected", "paper"])
def test_items_together_are_items_alone(mode: str, tokenizer: object) -> None:
    settings = LensSettings(mode=mode)
    observed = [captured(tokenizer, number, text) for number, text in enumerate(CODES)]
    items = [one.prepared.item for one in observed]
    known = repositories([SourceFile(i.path, i.text, i.language, i.cluster, i.repository) for i in items])
    labels = {
        name: pl.concat(
            table.with_columns(item_id=pl.lit(key))
            for key, table in TASKS.load(name).label(items, known).items()
        )
        for name in tasks_of(settings)
    }
    surfaces = [f"piece {number}" for number in range(50)]
    together = LENS.observe(observed, labels, settings, surfaces)
    alone = pl.concat(LENS.observe([one], labels, settings, surfaces) for one in observed)
    assert_frame_equal(together, alone, check_exact=True)
    assert together["item_id"].n_unique() >= 7
    assert {"origin", "construct", "ancestors", "word", "user_tag"} <= {
        name
        for name in together.columns
        if together[name].dtype == pl.String and together[name].n_unique() > 2
    }
