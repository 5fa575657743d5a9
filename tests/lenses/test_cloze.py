"""The cloze lens on the bundled models, against transformers run by hand, one prompt at a time."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from sonde.alignment import align, encode, get_surfaces
from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.capture import CaptureSettings
from sonde.capture.forward import observe_lenses
from sonde.capture.requests import Prepared
from sonde.corpora import Item, SourceFile
from sonde.languages import LANGUAGES
from sonde.lenses import CapturedItem, LensSettings
from sonde.lenses.cloze import lens
from sonde.lenses.cloze.observe import ONE_PIECE, SEVERAL_PIECES
from sonde.models import Capabilities, LoadedModel, ModelSpec, load_model
from sonde.tasks import Dataset
from sonde.tasks.apis.api_cloze import task

TEXT = """
import numpy as np
import os.path
from collections import OrderedDict, defaultdict
from logging import getLogger

getLogger("")
np.zeros(1)
np.random.normal(1)
os.path.join("a")
OrderedDict()
defaultdict(list)
"""


@lru_cache(maxsize=2)
def model(name: str) -> LoadedModel:
    return load_model(ModelSpec(name=name, device="cpu"))


def drawn(**options: Any) -> Dataset:
    file = SourceFile(path="a", text=TEXT, language="python", cluster="r", repository="r")
    given = {"templates": "call,import,alias", **options}
    return task.draw([file], size=1000, seed=0, language="python", options=given)


def prepared(loaded: LoadedModel, items: Sequence[Item]) -> list[Prepared]:
    language = LANGUAGES.load("python")
    found: list[Prepared] = []
    for item in items:
        tree = language.parse(item.text)
        tokens = language.tokens(tree)
        found.append(
            Prepared(item, tree, tokens, align(encode(loaded.tokenizer, item.text, item.cuts), tree, tokens))
        )
    return found


def observed(name: str, data: Dataset, *, budget: int = 0, **options: Any) -> pl.DataFrame:
    loaded, settings = model(name), LensSettings(options=options)
    labels = {"api_cloze": data.examples}
    ready = prepared(loaded, lens.inputs(data.inputs, labels, settings))
    passes = lens.input_requests(ready, labels, settings)
    captured = [
        CapturedItem(one.prepared, one.captures["cloze"])
        for one in observe_lenses(
            loaded, ready, {"cloze": passes}, settings=CaptureSettings(token_budget=budget)
        )
    ]
    return lens.observe(captured, labels, settings, get_surfaces(loaded.tokenizer, loaded.capabilities.vocab))


@pytest.fixture(scope="module")
def answers() -> pl.DataFrame:
    return observed("sonde/mini-encoder", drawn())


@torch.inference_mode()
def log_probabilities(ids: list[int], positions: Sequence[int]) -> torch.Tensor:
    loaded = model("sonde/mini-encoder")
    special = loaded.special
    shown = [special.mask if at in positions else number for at, number in enumerate(ids)]
    row = torch.tensor([[*special.prefix, *shown, *special.suffix]])
    logits = loaded.model(input_ids=row, attention_mask=torch.ones_like(row)).logits[0]
    return logits[len(special.prefix) + positions[0]].double().log_softmax(-1)


def by_hand(prefix: str, answer: str, suffix: str) -> tuple[list[int], list[int], list[int]]:
    """Ids before, of and after an answer, each encoded by itself; the mask takes in the blank before it."""

    def ids(text: str) -> list[int]:
        return model("sonde/mini-encoder").tokenizer(text, add_special_tokens=False)["input_ids"]

    if prefix.endswith(" "):
        return ids(prefix[:-1]), ids(" " + answer), ids(suffix)
    return ids(prefix), ids(answer), ids(suffix)


def test_answers_equal_a_forward_by_hand(answers: pl.DataFrame) -> None:
    loaded = model("sonde/mini-encoder")
    queries = {row["query_id"]: row for row in drawn().examples.iter_rows(named=True)}
    names = get_surfaces(loaded.tokenizer, loaded.capabilities.vocab)
    statuses = set()
    for row in answers.iter_rows(named=True):
        query = queries[row["query_id"]]
        before, answer, after = by_hand(query["prefix"], query["answer"], query["suffix"])
        ids = [*before, *answer, *after]
        touched = list(range(len(before), len(before) + len(answer)))
        assert row["status"] == (ONE_PIECE if len(answer) == 1 else SEVERAL_PIECES)
        statuses.add(row["status"])
        if row["status"] == ONE_PIECE:
            values = log_probabilities(ids, touched)
            assert row["nats"] == pytest.approx(-float(values[ids[touched[0]]]), abs=1e-4)
            assert row["rank_id"] == int((values >= values[ids[touched[0]]] - 1e-4).sum())
            best: dict[str, float] = {}
            for number, value in enumerate(values.tolist()):
                # Ids of blanks alone have no surface: each stands for itself.
                surface = names[number].lstrip() or f"<{number}>"
                best[surface] = max(best.get(surface, -np.inf), value)
            if not query["prefix"] or query["prefix"][-1].isspace():
                gold = best[query["answer"]]
            else:
                gold = float(values[names.index(query["answer"])])
            others = [value for name, value in best.items() if name != query["answer"]]
            assert row["rank"] == 1 + sum(value >= gold - 1e-4 for value in others)
            assert row["top"][0] == names[int(values.argmax())]
        elif row["status"] == SEVERAL_PIECES:
            nats = [
                -float(log_probabilities(ids, touched[at:])[ids[touched[at]]]) for at in range(len(touched))
            ]
            assert row["nats"] == pytest.approx(sum(nats), abs=1e-3)
    assert {ONE_PIECE, SEVERAL_PIECES} <= statuses
    assert len(answers) == len(queries)


def test_calls_behind_imports_equal_a_forward_by_hand() -> None:
    """The imports of the file stand before the call, and the rank and nats are of that text."""
    data = drawn(templates="call", imports=1.0, frames=0.0)
    queries = {row["query_id"]: row for row in data.examples.iter_rows(named=True)}
    checked = 0
    for row in observed("sonde/mini-encoder", data).iter_rows(named=True):
        query = queries[row["query_id"]]
        if query["frame"] != "imports" or row["status"] != ONE_PIECE:
            continue
        assert query["prefix"].startswith("import numpy as np\nimport os.path\nfrom collections import")
        alone = queries[query["base_id"]]
        assert query["prefix"].endswith(alone["prefix"])
        assert (query["answer"], query["suffix"]) == (alone["answer"], alone["suffix"])
        before, (answer,), after = by_hand(query["prefix"], query["answer"], query["suffix"])
        values = log_probabilities([*before, answer, *after], [len(before)])
        assert row["nats"] == pytest.approx(-float(values[answer]), abs=1e-4)
        assert row["rank_id"] == int((values >= values[answer] - 1e-4).sum())
        checked += 1
    assert checked > 3


def test_batches_do_not_change_ranks(answers: pl.DataFrame) -> None:
    one_by_one = observed("sonde/mini-encoder", drawn(), budget=1)
    together = observed("sonde/mini-encoder", drawn(), budget=64 * 64)
    for other in (one_by_one, together):
        assert other.select("query_id", "rank", "rank_id").equals(
            answers.select("query_id", "rank", "rank_id")
        )


@torch.inference_mode()
def test_a_decoder_scores_whole_statements() -> None:
    data = drawn(objective="candidates", candidates=4)
    rows = observed("sonde/mini-decoder", data, objective="candidates")
    loaded = model("sonde/mini-decoder")
    texts = {item.item_id: item.text for item in lens.inputs((), {"api_cloze": data.examples}, CANDIDATES)}
    assert rows.height == len(texts) > data.examples.height
    for row in rows.head(25).iter_rows(named=True):
        ids = [loaded.special.bos, *encode(loaded.tokenizer, texts[row["item_id"]]).ids.tolist()]
        values = loaded.model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
        nats = -sum(float(values[at, number]) for at, number in enumerate(ids[1:]))
        assert row["nats"] == pytest.approx(nats, abs=1e-3)
        assert row["pieces"] == len(ids) - 1


CANDIDATES = LensSettings(options={"objective": "candidates"})


def test_pseudo_log_likelihood_hides_the_rest_of_a_word() -> None:
    data = drawn(objective="pll", candidates=2, templates="import")
    rows = observed("sonde/mini-encoder", data, objective="pll")
    loaded = model("sonde/mini-encoder")
    texts = {item.item_id: item.text for item in lens.inputs((), {"api_cloze": data.examples}, CANDIDATES)}
    for row in rows.head(6).iter_rows(named=True):
        found = encode(loaded.tokenizer, texts[row["item_id"]])
        ids, starts = found.ids.tolist(), found.start.tolist()
        ends = [start for start in range(len(found.text)) if not found.text[start].isidentifier()]
        nats = 0.0
        for at in range(len(ids)):
            ink = next((c for c in range(starts[at], len(found.text)) if not found.text[c].isspace()), None)
            stop = min((end for end in ends if ink is not None and end > ink), default=len(found.text))
            inside = ink is not None and found.text[ink].isidentifier()
            masked = [at, *(later for later in range(at + 1, len(ids)) if inside and starts[later] < stop)]
            nats -= float(log_probabilities(ids, masked)[ids[at]])
        assert row["nats"] == pytest.approx(nats, abs=1e-3)


def capabilities(kind: str, *, masks: bool = True) -> Capabilities:
    return Capabilities(
        kind=kind, layers=1, heads=1, d_model=1, vocab=1, context=1, attention="none", masks=masks
    )


def test_the_objective_goes_by_the_kind_of_model() -> None:
    encoder, denoiser = (capabilities(kind) for kind in ("encoder", "encoder-decoder"))
    decoder, filling = (capabilities("decoder", masks=masks) for masks in (False, True))
    assert lens.resolve_options({"a": encoder, "b": encoder}, {}) == {"objective": "masked", "unified": "a,b"}
    assert lens.resolve_options({"a": decoder}, {"min_count": 1}) == {
        "min_count": 1,
        "objective": "candidates",
    }
    assert lens.resolve_options({"a": encoder}, {"objective": "pll"}) == {"objective": "pll"}
    assert lens.resolve_options({"b": encoder, "a": denoiser}, {}) == {
        "objective": "masked",
        "unified": "a,b",
    }
    mixed = lens.resolve_options({"a": encoder, "b": decoder, "c": denoiser}, {})
    assert mixed == {"objective": "candidates", "unified": "a,b,c"}
    for objective in ("masked", "pll"):
        with pytest.raises(UsageError, match=f"'{objective}' does not fit the decoder 'b' of this run; use"):
            lens.resolve_options({"a": encoder, "b": decoder}, {"objective": objective})
    assert lens.resolve_options({"a": filling}, {})["objective"] == "candidates"
    assert lens.resolve_options({"a": filling}, {"objective": "masked"}) == {"objective": "masked"}
    with pytest.raises(UsageError, match="'pll' does not fit the decoder 'a'"):
        lens.resolve_options({"a": filling}, {"objective": "pll"})
    with pytest.raises(UsageError, match="ranking = 'unified' needs several models"):
        lens.resolve_options({"a": encoder}, {"ranking": "unified"})
    with pytest.raises(UnknownNameError, match="ranking"):
        lens.resolve_options({"a": encoder}, {"ranking": "unifed"})


def test_models_that_cannot_be_asked_are_refused() -> None:
    assert lens.unsupported_reason(capabilities("encoder")) is None
    refusal = lens.unsupported_reason(capabilities("encoder", masks=False))
    assert refusal is not None and "no mask token" in refusal
    refusal = lens.unsupported_reason(capabilities("encoder-decoder", masks=False))
    assert refusal is not None and "no token for a gap" in refusal
    with pytest.raises(InputError, match="no infilling tokens"):
        observed("sonde/mini-decoder", drawn())
    with pytest.raises(UnknownNameError, match="objective"):
        lens.controls(LensSettings(options={"objective": "mask"}))
