"""The cloze lens on T5, BART and a decoder that fills in, against transformers run by hand on one text."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.denoisers import FILLING, save_bart, save_infilling, save_t5
from tests.lenses.test_cloze import drawn, prepared

from sonde.alignment import encode, get_surfaces
from sonde.alignment.vocabulary import get_vocabulary
from sonde.capture import CaptureSettings
from sonde.capture.forward import observe_lenses
from sonde.lenses import CapturedItem, LensSettings
from sonde.lenses.cloze import lens
from sonde.lenses.cloze.observe import CAUSAL, GAP, ONE_PIECE, PLL, SEVERAL_PIECES, UNSPELLABLE
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.tasks import Dataset

DATA = drawn(templates="call,import")
WHOLE = drawn(templates="import", objective="candidates", candidates=3)


@pytest.fixture(scope="module", params=["t5", "bart", "plbart", "decoder"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    # Learned on the statements themselves, so that some levels are single pieces.
    texts = [item.text for item in DATA.inputs] * 3
    folder: Path = tmp_path_factory.mktemp("denoiser") / request.param
    if request.param == "t5":
        save_t5(folder, texts)
    elif request.param == "decoder":
        save_infilling(folder, texts)
    else:
        save_bart(folder, texts, plbart=request.param == "plbart")
    return load_model(ModelSpec(name=str(folder), device="cpu"))


def observed(loaded: LoadedModel, data: Dataset, *, budget: int = 0, **options: Any) -> pl.DataFrame:
    settings, labels = LensSettings(options=options), {"api_cloze": data.examples}
    ready = prepared(loaded, lens.inputs(data.inputs, labels, settings))
    captured = [
        CapturedItem(one.prepared, one.captures["cloze"])
        for one in observe_lenses(
            loaded,
            ready,
            {"cloze": lens.input_requests(ready, labels, settings)},
            settings=CaptureSettings(token_budget=budget),
        )
    ]
    return lens.observe(captured, labels, settings, get_surfaces(loaded.tokenizer, loaded.capabilities.vocab))


def by_hand(loaded: LoadedModel) -> Callable[[tuple[int, ...], int, int], np.ndarray]:
    """Log-probabilities at each subword of a gap; the model itself shifts the target that it is given."""
    tokenizer, model = loaded.tokenizer, loaded.model
    decoder, t5 = loaded.capabilities.kind == "decoder", loaded.family == "t5"
    sign = tokenizer.convert_tokens_to_ids("<extra_id_0>" if t5 else "<mask>")

    @cache
    @torch.inference_mode()
    def logs(ids: tuple[int, ...], first: int, stop: int) -> np.ndarray:
        if decoder:
            before, behind, write = map(tokenizer.convert_tokens_to_ids, FILLING)
            row = [before, *ids[:first], behind, *ids[stop:], write, *ids[first:stop]]
            logits = model(input_ids=torch.tensor([row])).logits[0, first - stop - 1 : -1]
            return logits.double().log_softmax(-1).numpy()
        prefix, suffix = loaded.special.prefix, loaded.special.suffix
        shown = [*prefix, *ids[:first], sign, *ids[stop:], *suffix]
        if t5:
            target, at = [sign, *ids[first:stop]], 1
        else:
            target, at = [*prefix, *ids, *suffix], len(prefix) + first
        logits = model(input_ids=torch.tensor([shown]), labels=torch.tensor([target])).logits[0]
        return logits[at : at + stop - first].double().log_softmax(-1).numpy()

    return logs


def test_answers_equal_a_forward_by_hand(loaded: LoadedModel) -> None:
    rows = observed(loaded, DATA)
    logs = by_hand(loaded)
    names = get_surfaces(loaded.tokenizer, loaded.capabilities.vocab)
    vocabulary = get_vocabulary(names)
    queries = {row["query_id"]: row for row in DATA.examples.iter_rows(named=True)}
    items = {item.item_id: item for item in DATA.inputs}
    assert len(rows) == len(queries)
    for row in rows.iter_rows(named=True):
        query = queries[row["query_id"]]
        found = encode(loaded.tokenizer, items[row["item_id"]].text, items[row["item_id"]].cuts)
        ids = tuple(found.ids.tolist())
        if row["status"] == UNSPELLABLE:
            assert row["nats"] is None
            continue
        inked = [
            at
            for at in range(len(ids))
            if found.start[at] < query["end"] and found.end[at] > query["start"] and found.surface[at].strip()
        ]
        first, stop = inked[0], inked[-1] + 1
        values = logs(ids, first, stop)
        nats = -sum(values[place, ids[first + place]] for place in range(stop - first))
        assert row["nats"] == pytest.approx(nats, abs=1e-4)
        assert (row["measure"], row["pieces"]) == (GAP, stop - first)
        ranks = [int((values[at] >= values[at, ids[first + at]] - 1e-4).sum()) for at in range(stop - first)]
        assert row["greedy"] == all(rank == 1 for rank in ranks)
        if row["status"] == ONE_PIECE:
            assert row["rank_id"] == ranks[0]
            assert row["top"] == [names[number] for number in np.argsort(-values[0], kind="stable")[:10]]
            best: dict[str, float] = {}
            for number, value in enumerate(values[0].tolist()):
                text = vocabulary.texts[number] or f"<{number}>"
                best[text] = max(best.get(text, -np.inf), value)
            start = not query["prefix"] or query["prefix"][-1].isspace()
            right = vocabulary.right(query["answer"], word_start=start, initial=True)
            own = max(values[0, number] for number in right)
            others = [value for text, value in best.items() if text != query["answer"]]
            assert row["rank"] == 1 + sum(value >= own - 1e-4 for value in others)
    assert {ONE_PIECE, SEVERAL_PIECES} <= set(rows["status"])


def test_batches_do_not_change_ranks(loaded: LoadedModel) -> None:
    usual = observed(loaded, DATA).select("query_id", "rank", "rank_id", "greedy")
    for budget in (1, 64 * 64):
        assert observed(loaded, DATA, budget=budget).select(usual.columns).equals(usual)


def test_a_statement_is_written_word_by_word(loaded: LoadedModel) -> None:
    rows = observed(loaded, WHOLE, objective="candidates")
    if loaded.capabilities.kind == "decoder":
        # Whole statements are read from left to right, by whatever it could be asked besides.
        assert set(rows["measure"]) == {CAUSAL}
        return
    logs = by_hand(loaded)
    settings = LensSettings(options={"objective": "candidates"})
    items = {item.item_id: item for item in lens.inputs((), {"api_cloze": WHOLE.examples}, settings)}
    assert set(rows["measure"]) == {PLL}
    for row in rows.head(8).iter_rows(named=True):
        (one,) = prepared(loaded, [items[row["item_id"]]])
        ids = tuple(one.alignment.subwords.ids.tolist())
        tokens = list(zip(one.alignment.first.tolist(), one.alignment.last.tolist(), strict=True))
        nats, at = 0.0, 0
        while at < len(ids):
            stop = at + 1
            while tokens[at][1] == tokens[at][0] + 1 and stop < len(ids) and tokens[stop] == tokens[at]:
                stop += 1
            values = logs(ids, at, stop)
            nats -= sum(values[place, ids[at + place]] for place in range(stop - at))
            at = stop
        assert row["nats"] == pytest.approx(nats, abs=1e-3)
        assert row["pieces"] == len(ids)


def test_the_shared_vocabulary_alone_ranks_as_beside_the_own_one(loaded: LoadedModel) -> None:
    models = f"{loaded.spec.name},sonde/mini-encoder"
    both = observed(loaded, DATA, unified=models)
    alone = observed(loaded, DATA, unified=models, ranking="unified")
    assert both["rank_unified"].is_not_null().any()
    assert alone["rank_unified"].equals(both["rank_unified"])
    np.testing.assert_allclose(
        alone["nats_unified"].drop_nulls(), both["nats_unified"].drop_nulls(), atol=1e-4
    )
    compared = both.drop_nulls("nats_unified")
    assert (compared["rank_unified"] <= compared["rank"]).all()
    several = both.filter(pl.col("status") == SEVERAL_PIECES)
    assert several["rank_unified"].null_count() == several.height
    same = alone.filter(pl.col("status") == SEVERAL_PIECES)
    np.testing.assert_allclose(same["nats"], several["nats"], atol=1e-4)


def test_a_decoder_scores_the_same_statements_from_left_to_right() -> None:
    decoder = load_model(ModelSpec(name="sonde/mini-decoder", device="cpu"))
    rows = observed(decoder, WHOLE, objective="candidates")
    assert set(rows["measure"]) == {CAUSAL}
