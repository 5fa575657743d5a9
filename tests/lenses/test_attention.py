"""The whole lens against loops over eager attention: words, ranks, heads, baselines and averages."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import transformers
from tests.slices import slice_of, with_slices

from sonde.alignment.align import align
from sonde.alignment.subwords import Subwords
from sonde.base.errors import UsageError
from sonde.capture.forward import observe_lenses
from sonde.capture.requests import Prepared, RankRules, WordAttention
from sonde.capture.settings import CaptureSettings
from sonde.corpora import Given, Item, split
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.relations import RelationOptions, Relations
from sonde.lenses import LENSES, CapturedItem, Control, ControlObservations, LensSettings, ScoringContext
from sonde.lenses.attention import assign_item_splits
from sonde.lenses.attention.observe import provided_split, read_item
from sonde.lenses.attention.predictors import NumberSets, PredictorHits, RelationEdges
from sonde.lenses.attention.score import StackPredictions, gains, pooled_scores
from sonde.models import Capabilities, LoadedModel, ModelSpec, SpecialTokens
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.scores import Score, scores_to_frame
from sonde.tasks.engine.task import TASKS, resolve_task

BOS, SEP, PAD = 256, 257, 258
CONTEXT = 128
LATER_WINS, SELF_COMPETES = "codesyntax.later_wins", "codesyntax.self_competes"
COMMON = {"vocab_size": 260, "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": SEP}
TEXTS = (
    "def f(a):\n    if a:\n        g(a)\n    else:\n        h(a, 1)\n",
    "def g(x, y):\n    for i in x:\n        y += i\n    return y\n",
    "def h(s):\n    while s:\n        s = s[1:]\n    return len(s)\n",
    "def k(a, b):\n    c = a + b\n    return f(c, key=b)\n",
    "def m(n):\n    if n > 1:\n        n = n - 1\n    return n\n",
    "def p(q):\n    try:\n        q()\n    except E:\n        pass\n",
    "def r(v):\n    for x in v:\n        if x:\n            x = g(x)\n    return v\n",
    "def t(u):\n    w = u.a.b\n    return w(u) if w else u\n",
)
LONG = "def long(a):\n" + "    a = f(a)\n" * 24


def _bert() -> Any:
    return transformers.BertForMaskedLM(
        transformers.BertConfig(
            **COMMON, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=CONTEXT,
        )
    )  # fmt: skip


def _gpt2() -> Any:
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**COMMON, n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=4)
    )


def _bart() -> Any:
    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(
            **COMMON, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32,
            max_position_embeddings=CONTEXT, decoder_start_token_id=BOS,
        )
    )  # fmt: skip


MODELS: Mapping[str, tuple[Callable[[], Any], str, str]] = {
    "bert": (_bert, "encoder", "bert"),
    "gpt2": (_gpt2, "decoder", "gpt"),
    "bart": (_bart, "encoder-decoder", "bart"),
}


def load(name: str) -> LoadedModel:
    maker, kind, family = MODELS[name]
    torch.manual_seed(1)
    model = maker().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(5.0)
    decoder = kind == "decoder"
    return LoadedModel(
        spec=ModelSpec(name=name),
        revision="random",
        model=model,
        tokenizer=None,
        capabilities=Capabilities(
            kind=kind,
            layers=2,
            heads=4,
            d_model=32,
            vocab=260,
            context=CONTEXT,
            attention="interface",
            masks=False,
        ),
        special=SpecialTokens(
            bos=BOS,
            bos_source="bos",
            prefix=() if decoder else (BOS,),
            suffix=() if decoder else (SEP,),
            pad=PAD,
        ),
        family=family,
    )


def prepare(text: str, number: int) -> Prepared:
    """Subwords of two bytes, whatever they part."""
    python = LANGUAGES.load("python")
    start = np.arange(0, len(text), 2, dtype=np.int32)
    end = np.minimum(start + 2, len(text)).astype(np.int32)
    pieces = [text[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)]
    ids = np.array([sum(map(ord, piece)) % 256 for piece in pieces])
    subwords = Subwords(text, ids, start, end, end - start, tuple(pieces))
    tree = python.parse(text)
    tokens = python.tokens(tree)
    item = Item(
        item_id=f"item-{number}", text=text, language="python", unit="function", path="here.py", name="f",
        offset=0, cluster=f"cluster-{number}", repository="",
    )  # fmt: skip
    return Prepared(item, tree, tokens, align(subwords, tree, tokens))


@dataclass(frozen=True)
class Run:
    """One model read by the lens."""

    prepared: tuple[Prepared, ...]
    labels: Mapping[str, pl.DataFrame]
    settings: LensSettings
    observations: pl.DataFrame
    scoring: ScoringContext

    @property
    def scores(self) -> pl.DataFrame:
        scores = LENSES.load("attention").score(self.scoring)
        return with_slices(scores_to_frame(scores))


def observe(loaded: LoadedModel, settings: LensSettings, texts: Sequence[str] = TEXTS) -> Run:
    lens = LENSES.load("attention")
    prepared = [prepare(text, number) for number, text in enumerate(texts)]
    task = resolve_task(TASKS.load("syntax_relations"), settings.mode)
    labelled = task.label([one.item for one in prepared], {})
    table = pl.concat(rows.with_columns(item_id=pl.lit(name)) for name, rows in labelled.items())
    labels = {"syntax_relations": table}
    passes = lens.input_requests(prepared, labels, settings)
    seen = observe_lenses(loaded, prepared, {"attention": passes}, settings=CaptureSettings(token_budget=200))
    captured = [CapturedItem(one.prepared, one.captures["attention"]) for one in seen]
    tables = [lens.observe(captured[at : at + 3], labels, settings, ()) for at in range(0, len(captured), 3)]
    observations = pl.concat(tables)
    template = Score(model="m", lens="attention", metric="", value=0.0, n=0, n_clusters=0, language="python")
    items = pl.DataFrame(
        {
            "item_id": [one.item.item_id for one in prepared],
            "language": ["python"] * len(prepared),
            "cluster": [one.item.cluster for one in prepared],
        }
    )
    scoring = ScoringContext(
        observations=observations.lazy(), items=items, template=template, settings=settings, labels=labels
    )
    return Run(tuple(prepared), labels, settings, observations, scoring)


@torch.no_grad()
def eager(loaded: LoadedModel, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Matrices over the item's subwords, heads of all layers in one axis: (head, query, key)."""
    model, size = loaded.model, len(ids)
    model.set_attn_implementation("eager")
    tokens = torch.tensor([[*loaded.special.prefix, *ids, *loaded.special.suffix]])
    if loaded.capabilities.kind == "encoder-decoder":
        output = model(
            input_ids=tokens, decoder_input_ids=torch.tensor([[BOS, *ids]]), output_attentions=True
        )
        sides = {
            "encoder": output.encoder_attentions,
            "decoder": output.decoder_attentions,
            "cross": output.cross_attentions,
        }
    else:
        tokens = torch.tensor([[BOS, *ids]]) if loaded.capabilities.kind == "decoder" else tokens
        sides = {loaded.capabilities.kind: model(tokens, output_attentions=True).attentions}
    inside = slice(1, 1 + size)
    return {
        side: torch.cat([one[0] for one in layers])[:, inside, inside].double().numpy()
        for side, layers in sides.items()
    }


def owned_by(words: Any, subwords: Subwords) -> tuple[list[list[int]], list[int]]:
    """Subwords of each word by characters that are not blank, and the first that ends behind its start."""
    reach = []
    for left, right in zip(subwords.start.tolist(), subwords.end.tolist(), strict=True):
        inked = [at for at in range(left, right) if not subwords.text[at].isspace()]
        reach.append((inked[0], inked[-1] + 1) if inked else (left, right))
    owned, begins = [], []
    for start, end in zip(words.start.tolist(), words.end.tolist(), strict=True):
        owned.append([place for place, (left, right) in enumerate(reach) if left < end and start < right])
        begins.append(next((place for place, (_, right) in enumerate(reach) if right > start), len(reach)))
    return owned, begins


def word_matrix(matrix: np.ndarray, owned: list[list[int]]) -> np.ndarray:
    """Means over rows and sums over columns, word by word."""
    found = np.zeros((len(matrix), len(owned), len(owned)))
    for row, mine in enumerate(owned):
        for column, other in enumerate(owned):
            if mine and other:
                found[:, row, column] = matrix[:, mine][:, :, other].sum(2).mean(1)
    return found


def slow_rank(row: np.ndarray, query: int, wanted: Sequence[int], field: list[int], paper: bool) -> int:
    row = row.copy()
    if paper:
        row[query] = 0.0
        order = sorted(field, key=lambda word: (row[word], word), reverse=True)
        return min((order.index(word) + 1 for word in wanted if word in field), default=10**6)
    targets = [word for word in wanted if word in field and word != query]
    if not targets:
        return 10**6
    best = max(row[word] for word in targets) * (1 - 1e-5)
    return 1 + sum(row[word] >= best for word in field if word not in wanted and word != query)


def slow_edges(run: Run, loaded: LoadedModel) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Every edge with its ranks (metric, head), its offsets and the keywords that hit it."""
    facet = get_facet("python", "relations", Relations)
    paper = run.settings.mode == "paper"
    found: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for one in run.prepared:
        related = facet.relate(one.item.text, RelationOptions(mode=run.settings.mode))
        words = related.words
        field = [word for word in range(len(words)) if words.candidate[word]]
        owned, begins = owned_by(words, one.alignment.subwords)

        for side, matrix in eager(loaded, one.alignment.subwords.ids).items():
            paid = word_matrix(matrix, owned)
            whole = side != "decoder" or paper
            visible = [
                field if whole else [word for word in field if mine and begins[word] <= mine[-1]]
                for mine in owned
            ]
            for edge in related.edges:
                run_of = range(edge.first, edge.last + 1)
                if side == "decoder":
                    asked = [[edge.first], [edge.last], run_of]
                    pairs = [[(word, [edge.head]) for word in some] for some in asked]
                else:
                    pairs = [[(edge.head, some)] for some in ([edge.first], [edge.last], run_of)]
                ranks = np.array(
                    [
                        [
                            min(
                                slow_rank(paid[head, query], query, wanted, visible[query], paper)
                                for query, wanted in some
                            )
                            for head in range(len(paid))
                        ]
                        for some in pairs
                    ]
                )
                found[side, edge.relation].append(
                    {
                        "item": one.item.item_id,
                        "ranks": ranks,
                        "offsets": [
                            {edge.first - edge.head},
                            {edge.last - edge.head},
                            {word - edge.head for word in run_of},
                        ],
                        "keywords": keywords_of(words.surface, edge, facet.keywords, side == "decoder"),
                    }
                )
    return dict(found)


def keywords_of(
    surface: Sequence[str], edge: Any, keywords: Sequence[str], backwards: bool
) -> list[set[str]]:
    """The keywords whose next occurrence after the head is in the dependent, word by word."""
    first, last = edge.first, edge.last
    ends = ([first], [last], range(first, last + 1))
    found: list[set[str]] = []
    for some in ends:
        mine: set[str] = set()
        for keyword in keywords:
            if backwards:
                # From each word the nearest keyword before it.
                hits = [
                    next((at for at in range(word - 1, -1, -1) if surface[at] == keyword), None) == edge.head
                    for word in some
                ]
                if any(hits):
                    mine.add(keyword)
            elif (
                next((at for at in range(edge.head + 1, len(surface)) if surface[at] == keyword), -1) in some
            ):
                mine.add(keyword)
        found.append(mine)
    return found


def greedy_share(
    fit: list[set[Any]], test: list[set[Any]], candidates: list[Any], most: int
) -> tuple[list[Any], list[float], list[float]]:
    """Greedy choice by trying all candidates, first among equals; shares on both sides for k = 1 .. most."""
    chosen: list[Any] = []
    shares: tuple[list[float], list[float]] = ([], [])
    for _ in range(most):
        missed = [hits for hits in fit if not hits & set(chosen)]
        gains = [sum(candidate in hits for hits in missed) for candidate in candidates]
        if gains and max(gains) > 0:
            chosen.append(candidates[int(np.argmax(gains))])
        for side, edges in zip(shares, (fit, test), strict=True):
            side.append(sum(bool(hits & set(chosen)) for hits in edges) / len(edges))
    return chosen, shares[0], shares[1]


def expected_scores(run: Run, edges: Mapping[tuple[str, str], list[dict[str, Any]]]) -> dict[Any, float]:
    """Each share by (side, relation, control, metric, k); the relation of averages is empty."""
    paper = run.settings.mode == "paper"
    facet = get_facet("python", "relations", Relations)
    sides = split([one.item for one in run.prepared], (0.0, 0.3, 0.7), run.settings.seed)
    found: dict[Any, float] = {}
    for (side, relation), some in edges.items():
        test = [edge for edge in some if sides[edge["item"]] == "test"]
        fit = test if paper else [edge for edge in some if sides[edge["item"]] == "valid"]
        if not test or not fit:
            continue
        for metric, name in enumerate(("first_hit", "last_hit", "any_hit")):
            ranks = np.array([edge["ranks"][metric] for edge in fit])
            scored = np.array([edge["ranks"][metric] for edge in test])
            every = np.stack([(ranks <= k).sum(0) for k in range(1, 21)])
            for k in range(1, 21):
                if paper:
                    head = max(range(ranks.shape[1]), key=lambda h, row=every[k - 1]: (row[h], h))
                else:
                    head = max(range(ranks.shape[1]), key=lambda h: (every[0, h], every[:, h].sum(), -h))
                found[side, relation, None, name, k] = float((scored[:, head] <= k).mean())
            offsets = [[edge["offsets"][metric] for edge in of] for of in (fit, test)]
            _, fitted, shares = greedy_share(*offsets, list(range(1, 60)), 20)
            words = [[edge["keywords"][metric] for edge in of] for of in (fit, test)]
            _, fitted_words, word_shares = greedy_share(*words, list(facet.keywords), 20)
            for k in range(1, 21):
                found[side, relation, "offset", name, k] = shares[k - 1]
                found[side, relation, "keyword", name, k] = word_shares[k - 1]
                better = fitted[k - 1] >= fitted_words[k - 1]
                found[side, relation, "combined", name, k] = (shares if better else word_shares)[k - 1]
    averaged: defaultdict[Any, list[float]] = defaultdict(list)
    for (side, relation, control, name, k), value in found.items():
        if not paper or relation in facet.averaged_relations:
            averaged[side, "", control, name, k].append(value)
    return {**found, **{key: float(np.mean(values)) for key, values in averaged.items()}}


@pytest.mark.parametrize("mode", ["corrected", "paper"])
@pytest.mark.parametrize("name", list(MODELS))
def test_scores_equal_loops_over_eager_attention(name: str, mode: str) -> None:
    settings = LensSettings(mode=mode, seed=3)
    run = observe(load(name), settings)
    expected = expected_scores(run, slow_edges(run, load(name)))
    table = run.scores.filter(
        pl.col("metric").is_in(["first_hit", "last_hit", "any_hit"]),
        pl.col("slice").str.starts_with("relation=") | (pl.col("slice") == "all"),
        pl.col("control").is_null() | pl.col("control").is_in(["offset", "keyword", "combined"]),
    )
    found = {
        (row["side"], row["slice"].removeprefix("relation=") if row["slice"] != "all" else "", row["control"],
         row["metric"], row["k"]): row["value"]
        for row in table.iter_rows(named=True)
    }  # fmt: skip
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=1e-6), key


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["corrected", "paper"])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_one_head_chance_and_the_longest_word_equal_loops(name: str, mode: str) -> None:
    run = observe(load(name), LensSettings(mode=mode, seed=3))
    facet = get_facet("python", "relations", Relations)
    sides = split([one.item for one in run.prepared], (0.0, 0.3, 0.7), run.settings.seed)
    some: dict[str, tuple[list[Any], list[Any]]] = {}
    for (_, relation), edges in slow_edges(run, load(name)).items():
        test = [edge for edge in edges if sides[edge["item"]] == "test"]
        fit = test if mode == "paper" else [edge for edge in edges if sides[edge["item"]] == "valid"]
        if test and fit:
            some[relation] = (fit, test)
    held = [relation for relation in some if mode != "paper" or relation in facet.averaged_relations]
    scores = run.scores
    rows = {
        (row["slice"], row["control"], row["metric"], row["k"]): row["value"]
        for row in scores.filter(pl.col("compared_to").is_null(), pl.col("split") == "test").iter_rows(
            named=True
        )
    }
    for metric, hit in enumerate(("first_hit", "last_hit", "any_hit")):
        for k in (1, 3, 20):
            fitted = np.stack([edge["ranks"][metric] for fit, _ in some.values() for edge in fit])
            every = np.stack([(fitted <= at).sum(0) for at in range(1, 21)])
            if mode == "paper":
                head = max(range(every.shape[1]), key=lambda h, row=every[k - 1]: (row[h], h))
            else:
                head = max(
                    range(every.shape[1]), key=lambda h, all_of=every: (all_of[0, h], all_of[:, h].sum(), -h)
                )
            shares = {
                relation: np.mean([edge["ranks"][metric][head] <= k for edge in test])
                for relation, (_, test) in some.items()
            }
            for relation, share in shares.items():
                assert rows[f"relation={relation}", "one_head", hit, k] == pytest.approx(share)
            assert rows["all", "one_head", hit, k] == pytest.approx(np.mean([shares[one] for one in held]))
            sizes = np.array([len(some[relation][1]) for relation in held])
            pooled = (sizes * np.array([shares[relation] for relation in held])).sum() / sizes.sum()
            assert rows["edges", "one_head", hit, k] == pytest.approx(pooled)
            own = np.array([rows[f"relation={relation}", None, hit, k] for relation in held])
            assert rows["edges", None, hit, k] == pytest.approx((sizes * own).sum() / sizes.sum())
            assert rows["edges", "chance", hit, k] <= 1.0


def test_chance_is_the_share_of_the_candidates_and_the_longest_word_is_the_longest() -> None:
    loaded, settings = load("bert"), LensSettings(options={})
    run = observe(loaded, settings)
    chance, expected, longest = [], [], []
    held = run.observations.filter(pl.col("dropped") == "")
    items = {one.item.item_id: one.item for one in run.prepared}
    labels = run.labels["syntax_relations"].filter(pl.col("label").is_not_null())
    for row in held.iter_rows(named=True):
        mine = labels.filter(pl.col("item_id") == row["item_id"])
        words, edges = read_item(items[row["item_id"]], mine, settings)
        blind = np.frombuffer(row["blind"], np.uint8).reshape(row["edges"], 3, -1)
        chance += (blind[:, 0, 1:] <= 3).mean(1).tolist()
        places = [at for at, relation in enumerate(edges.relation) if relation == row["relation"]]
        for place, ranks in zip(places, blind, strict=True):
            query, first = int(edges.head[place]), int(edges.first[place])
            others = [at for at in range(len(words.start)) if words.candidate[at] and at != query]
            expected.append(min(1.0, 3 / len(others)))
            order = sorted(others, key=lambda at: (words.start[at] - words.end[at], at))
            longest.append((order.index(first) + 1 if first in others else 255, int(ranks[0, 0])))
    assert np.mean(chance) == pytest.approx(np.mean(expected), abs=0.02)
    assert all(one == other for one, other in longest)


@pytest.mark.slow
def test_an_item_that_is_too_long_is_counted_and_nothing_else_lost() -> None:
    run = observe(load("gpt2"), LensSettings(), (*TEXTS, LONG))
    dropped = run.observations.filter(pl.col("dropped") != "")
    assert dropped["item_id"].to_list() == [f"item-{len(TEXTS)}"]
    counts = run.scores.filter(pl.col("metric") == "items")
    assert dict(zip(counts["slice"], counts["value"], strict=True)) == {
        "all": len(TEXTS),
        "dropped=longer than the context": 1,
    }


def test_relations_without_an_edge_to_choose_on_are_listed_with_their_edges() -> None:
    run = observe(load("bert"), LensSettings())
    scores = run.scores
    edges = scores.filter(pl.col("metric") == "edges")
    counts = {(row["slice"], row["split"]): row["value"] for row in edges.iter_rows(named=True)}
    scored = set(scores.filter(pl.col("metric") == "first_hit")["slice"]) - {
        "all",
        "near",
        "far",
        "head",
        "edges",
    }
    relations = {name for name, _ in counts}
    any_head = {name.replace("by_head=", "relation=") for name in scored if name.startswith("by_head=")}
    scored = {name for name in scored if not name.startswith("by_head=")}
    assert any_head == scored
    assert scored == {name for name in relations if counts[name, "valid"] and counts[name, "test"]}
    assert relations - scored


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MODELS))
def test_every_head_has_its_share_of_each_relation_and_nothing_is_chosen(name: str) -> None:
    run, loaded = observe(load(name), LensSettings(seed=3)), load(name)
    sides = split([one.item for one in run.prepared], (0.0, 0.3, 0.7), run.settings.seed)
    expected: dict[tuple[str, str, int], float] = {}
    for (side, relation), edges in slow_edges(run, loaded).items():
        ranks = [edge["ranks"][0] for edge in edges if sides[edge["item"]] == "test"]
        if ranks and len(ranks) < len(edges):
            shares = (np.array(ranks) <= 1).mean(0)
            expected |= {(side, relation, head): share for head, share in enumerate(shares.tolist())}
    rows = run.scores.filter(has_dimension_names("by_head")).with_columns(relation=dimension_value("by_head"))
    found = {
        (row["side"], row["relation"], row["layer"] * 4 + row["head"]): row["value"]
        for row in rows.iter_rows(named=True)
    }
    assert found == pytest.approx(expected)
    assert set(rows["k"]) == {1} and rows["ci_low"].null_count() == rows.height


@pytest.mark.slow
@torch.no_grad()
def test_sink_mass_equals_a_plain_eager_forward() -> None:
    loaded = load("bert")
    run = observe(loaded, LensSettings())
    shares: list[np.ndarray] = []
    for one in run.prepared:
        words = get_facet("python", "relations", Relations).relate(
            one.item.text, RelationOptions(mode="corrected")
        )
        owned, _ = owned_by(words.words, one.alignment.subwords)
        tokens = torch.tensor([[BOS, *one.alignment.subwords.ids, SEP]])
        loaded.model.set_attn_implementation("eager")
        whole = torch.cat([layer[0] for layer in loaded.model(tokens, output_attentions=True).attentions])
        asked = sorted({edge.head for edge in words.edges if owned[edge.head]})
        rows = [whole[:, 1 + np.array(owned[word])].mean(1) for word in asked]
        shares.append(torch.stack(rows).mean(0)[:, [0, -1]].double().numpy())
    expected = np.mean(shares, axis=0)
    for place, metric in enumerate(("sink_first", "sink_separator")):
        rows = run.scores.filter(pl.col("metric") == metric).sort("layer", "head")
        np.testing.assert_allclose(rows["value"].to_numpy(), expected[:, place], atol=1e-5)
        assert set(rows["split"]) == {"all"} and rows["ci_low"].null_count() == 0


def test_a_decoder_has_no_separator_to_rest_on() -> None:
    metrics = set(observe(load("gpt2"), LensSettings()).scores["metric"])
    assert "sink_first" in metrics and "sink_separator" not in metrics


def test_words_that_share_a_subword_tie_and_the_quirk_says_who_wins() -> None:
    plain = observe(load("bert"), LensSettings())
    other = observe(load("bert"), LensSettings(quirks=frozenset([LATER_WINS])))
    ranks = [np.frombuffer(b"".join(run.observations["ranks"]), np.uint8) for run in (plain, other)]
    # Ties count as misses, so a rank can only get better.
    assert (ranks[1] <= ranks[0]).all()
    assert (ranks[1] < ranks[0]).any()


def test_quirks_of_ranking_reach_the_capture() -> None:
    rules = {}
    for quirk in (LATER_WINS, SELF_COMPETES):
        settings = LensSettings(quirks=frozenset([quirk]))
        run = observe(load("bert"), settings, TEXTS[:1])
        ((request,),) = (
            one.requests
            for one in LENSES.load("attention").input_requests(run.prepared, run.labels, settings)
        )
        assert isinstance(request, WordAttention)
        rules[quirk] = request.lookups["item-0"].rules
    assert rules == {LATER_WINS: RankRules(later_wins=True), SELF_COMPETES: RankRules(self_competes=True)}


@pytest.mark.slow
def test_a_head_that_is_chosen_on_the_scored_edges_scores_at_least_as_well() -> None:
    run = observe(load("bert"), LensSettings())
    oracle = frozenset(["codesyntax.oracle_heads", "codesyntax.baselines_fitted_on_test"])
    other = Run(
        run.prepared,
        run.labels,
        run.settings,
        run.observations,
        ScoringContext(
            observations=run.scoring.observations,
            items=run.scoring.items,
            template=run.scoring.template,
            settings=LensSettings(quirks=oracle),
        ),
    )
    keys = ["side", "slice", "control", "metric", "k"]
    hits = pl.col("slice").str.starts_with("relation=") & pl.col("metric").str.ends_with("_hit")
    # One head for all relations is best for all of them together, not for each.
    hits &= pl.col("control").is_null() | (pl.col("control") != "one_head")
    both = run.scores.filter(hits).join(other.scores.filter(hits), on=keys, nulls_equal=True)
    assert (both["value_right"] >= both["value"]).all()
    assert (both["value_right"] > both["value"]).any()


def test_the_control_is_scored_beside_the_model() -> None:
    run = observe(load("bert"), LensSettings())
    control = ControlObservations(Control(0, 0.5), run.observations.lazy())
    scoring = ScoringContext(
        observations=run.scoring.observations,
        items=run.scoring.items,
        template=run.scoring.template,
        settings=run.settings,
        controls=(control,),
    )
    scores = with_slices(scores_to_frame(LENSES.load("attention").score(scoring)))
    keys = ["slice", "metric", "k", "chosen", "n_relations"]
    of_any_head = (pl.col("slice") == "head") | pl.col("slice").str.starts_with("by_head=")
    hits = scores.filter(pl.col("metric").str.ends_with("_hit") & ~of_any_head)
    mine = hits.filter(pl.col("control").is_null()).select(*keys, "value")
    random = hits.filter(pl.col("control") == "random_weights").select(*keys, "value")
    assert mine.sort(keys[:3]).equals(random.sort(keys[:3]))


def test_gains_are_differences_of_the_scores() -> None:
    scores = observe(load("bert"), LensSettings()).scores
    of_any_head = (pl.col("slice") == "head") | pl.col("slice").str.starts_with("by_head=")
    hits = scores.filter(pl.col("metric").str.ends_with("_hit") & ~of_any_head)
    values = {
        (row["slice"], row["metric"], row["k"], row["control"]): row["value"]
        for row in hits.iter_rows(named=True)
    }
    gains = scores.filter(pl.col("metric").str.ends_with("_gain"))
    assert set(gains["compared_to"]) == {"one_head", "offset", "keyword", "combined", "longest", "chance"}
    for row in gains.iter_rows(named=True):
        key = (row["slice"], row["metric"].removesuffix("_gain"), row["k"])
        assert row["value"] == pytest.approx(values[*key, None] - values[*key, row["compared_to"]])


def test_edges_that_two_predictors_tell_apart_are_counted_one_by_one() -> None:
    """In each item the heads hit the first of two edges, the control the second: told apart, both of them."""
    items, edges = 40, 80
    relation = RelationEdges(
        heads=1,
        cluster=np.arange(items),
        test=np.ones(items, np.bool_),
        edges=np.full(items, 2),
        hits=np.zeros((2, 3, 20, 1), np.int64),
        offset_first=np.ones(edges, np.int64),
        offset_last=np.ones(edges, np.int64),
        keywords=(NumberSets(0, np.zeros(0, np.int64), np.zeros(0, np.int64)),) * 3,
        blind=np.ones((edges, 3, 17), np.uint8),
    )
    first = np.broadcast_to((np.arange(edges) % 2 == 0)[:, None, None], (edges, 3, 20))
    mine, other = (PredictorHits.from_hits(relation, hits, np.zeros((3, 20))) for hits in (first, ~first))
    assert (mine.compute_disagreement(other).sum(axis=0) == edges).all()
    assert (mine.hits == 1).all() and (mine.hits == other.hits).all()
    template = Score(model="m", lens="attention", metric="", value=0, n=0, n_clusters=0)
    side = StackPredictions({"r": relation}, {"heads": {"r": mine}, "offset": {"r": other}}, ["r"])
    rows = [*gains(side, "offset", template), *pooled_scores(side, "heads", template)]
    found = [
        row
        for row in rows
        if row.metric.endswith("_gain") and slice_of(row.dimensions) in ("relation=r", "edges")
    ]
    assert len(found) == 2 * 3 * 20
    for row in found:
        # As of 80 independent pairs: Student's t with 39 degrees of freedom times 81 / 80 / 80, its root.
        assert row.value == 0
        assert row.ci_high == pytest.approx(math.tanh(2.0227 * math.sqrt(81 / 80 / 80)), rel=1e-4)


def test_a_second_stage_says_what_the_best_head_picks_instead() -> None:
    lens, loaded = LENSES.load("attention"), load("bert")
    first = observe(loaded, LensSettings())
    scores = lens.score(first.scoring)
    found = lens.next_stage(scores, LensSettings())
    assert found is not None
    settings = LensSettings(stage=1, found=found)
    assert lens.next_stage(scores, settings) is None
    assert lens.controls(settings) == ()
    second = observe(loaded, settings)
    heads = second.observations.filter(pl.col("relation") == "")
    rows = second.observations.filter(pl.col("relation") != "")
    # Of few items all attention between their words is kept, in the heads that their relations have.
    assert 0 < heads["item_id"].n_unique() <= rows["item_id"].n_unique()
    for row in heads.iter_rows(named=True):
        weights = np.frombuffer(row["weights"], np.float16).reshape(len(row["words"]), -1)
        assert weights.shape[0] == weights.shape[1]
        of_head = rows.filter(item_id=row["item_id"], side=row["side"], layer=row["layer"], head=row["head"])
        assert of_head.height
        starts = row["starts"]
        for asked, picked in of_head.select("asked_start", "picked_start").iter_rows():
            paid = np.nan_to_num(weights[starts.index(asked)])
            assert paid[starts.index(picked)] == paid.max() or starts.count(asked) + starts.count(picked) > 2
    # The share of hits is what the first stage counted for the same heads, over both sides of the split.
    sides = split([one.item for one in first.prepared], (0.0, 0.3, 0.7), 0)
    test = rows.filter(pl.col("item_id").is_in([item for item, side in sides.items() if side == "test"]))
    hits = {
        (score.side, slice_of(score.dimensions).removeprefix("relation=")): score.value
        for score in scores
        if score.metric == "first_hit" and score.control is None and score.k == 1
        and slice_of(score.dimensions).startswith("relation=")
    }  # fmt: skip
    shares = test.group_by("side", "relation").agg(pl.col("hit").mean())
    assert {(side, name): share for side, name, share in shares.iter_rows()} == pytest.approx(hits)
    texts = {one.item.item_id: one.item.text for one in first.prepared}
    for row in rows.iter_rows(named=True):
        for part in ("asked", "picked"):
            assert texts[row["item_id"]][row[f"{part}_start"] : row[f"{part}_end"]] == row[part]
    table = with_slices(scores_to_frame(lens.score(second.scoring)))
    assert set(table["metric"]) == {"picked"}
    for kind in ("kind", "situation"):
        mine = table.filter(pl.col("slice").str.contains(f";{kind}="))
        whole = mine.group_by("side", pl.col("slice").str.split(";").list.first()).agg(pl.col("value").sum())
        assert whole["value"].to_list() == pytest.approx([1.0] * len(whole))


def with_copies(run: Run, stage: int, clusters: Callable[[str], str]) -> pl.DataFrame:
    """Scores of a run whose every item is there three times."""
    names = run.scoring.items["item_id"].to_list()
    # Splits that the source brings do not hang on clusters.
    sides = {name: ("test", "valid")[at % 4 == 3] for at, name in enumerate(names)}
    table = run.observations.with_columns(split=pl.col("item_id").replace_strict(sides))
    copies = [f".{copy}" for copy in range(3)]
    scoring = replace(
        run.scoring,
        observations=pl.concat(table.with_columns(pl.col("item_id") + copy) for copy in copies).lazy(),
        items=pl.concat(
            run.scoring.items.with_columns(
                pl.col("item_id") + copy,
                cluster=pl.col("item_id").map_elements(clusters, return_dtype=pl.String),
            )
            for copy in copies
        ),
        settings=replace(run.settings, stage=stage),
    )
    return with_slices(scores_to_frame(LENSES.load("attention").score(scoring)))


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 1])
def test_copies_within_a_cluster_add_nothing_to_what_is_known(stage: int) -> None:
    lens, loaded, settings = LENSES.load("attention"), load("gpt2"), LensSettings(options={})
    if stage:
        found = lens.next_stage(lens.score(observe(loaded, settings).scoring), settings)
        assert found
        settings = LensSettings(stage=1, found=found)
    run = observe(loaded, settings)
    clustered, alone = (with_copies(run, stage, clusters) for clusters in (lambda name: name, lambda _: ""))
    keys = ["side", "slice", "split", "control", "metric", "k", "compared_to", "layer", "head"]
    both = clustered.join(alone, on=keys, nulls_equal=True, validate="1:1")
    assert len(both) == len(clustered) == len(alone)
    # What is found is the same either way; without a known cluster each copy counts as one.
    assert both["value"].to_list() == pytest.approx(both["value_right"].to_list())
    assert both["n_clusters_right"].to_list() == [3 * count for count in both["n_clusters"]]
    known = both.filter(pl.col("effective_clusters") > 1)
    assert known["effective_clusters_right"].to_list() == pytest.approx(
        [3 * count for count in known["effective_clusters"]]
    )
    wide = known.filter(pl.col("ci_high").is_not_null())
    assert (
        len(wide) and (wide["ci_high"] - wide["ci_low"] >= wide["ci_high_right"] - wide["ci_low_right"]).all()
    )


def test_masked_delimiters_are_no_candidates() -> None:
    settings = LensSettings(options={"mask_delimiters": True})
    lens, prepared = LENSES.load("attention"), [prepare(TEXTS[0], 0)]
    labels = TASKS.load("syntax_relations").label([prepared[0].item], {})["item-0"]
    table = {"syntax_relations": labels.with_columns(item_id=pl.lit("item-0"))}
    candidates = {}
    for chosen in (LensSettings(), settings):
        ((request,),) = (one.requests for one in lens.input_requests(prepared, table, chosen))
        assert isinstance(request, WordAttention)
        candidates[chosen is settings] = request.lookups["item-0"].candidates
    words = get_facet("python", "relations", Relations).words(TEXTS[0])
    newline = np.array([word == "\n" for word in words.surface])
    assert newline.any()
    assert (candidates[True] == (candidates[False] & ~newline)).all()


def test_prose_asks_the_dependent_for_its_head_and_keeps_the_split_of_its_source() -> None:
    text = "Cats chase the mice"
    given = (
        Given("syntax_relations", "nsubj", 5, 10, 0, 4, "test"),
        Given("syntax_relations", "obj", 5, 10, 15, 19, "test"),
        Given("syntax_relations", "det", 15, 19, 11, 14, "test"),
    )
    item = Item(
        item_id="prose", text=text, language="text", unit="file", path="here", name="", offset=0,
        cluster="here", repository="", given=given,
    )  # fmt: skip
    rows = TASKS.load("syntax_relations").label([item], {})["prose"]
    words, edges = read_item(item, rows, LensSettings())
    assert words.surface == ("Cats", "chase", "the", "mice")
    order = [edges.relation.index(name) for name in ("nsubj", "obj", "det")]
    ahead, behind = edges.bidirectional_lookups, edges.causal_lookups
    assert ahead.query[order].tolist() == [0, 3, 2]
    assert ahead.first[order].tolist() == ahead.last[order].tolist() == [1, 1, 3]
    # Where words see only what stands before, the later of both is asked.
    assert behind.query[order].tolist() == behind.until[order].tolist() == [1, 3, 3]
    assert behind.first[order].tolist() == [0, 1, 2]
    assert provided_split(item) == "test"


def test_splits_of_the_source_come_before_our_own() -> None:
    run = observe(load("bert"), LensSettings())
    sides = {one.item.item_id: ("test", "train", "valid")[at % 3] for at, one in enumerate(run.prepared)}
    marked = run.observations.with_columns(split=pl.col("item_id").replace_strict(sides))
    scoring = replace(run.scoring, observations=marked.lazy())
    assert assign_item_splits(scoring) == {
        item: "test" if side == "test" else "valid" for item, side in sides.items()
    }


def test_models_without_attention_are_refused_in_one_line() -> None:
    lens = LENSES.load("attention")
    capabilities = load("bert").capabilities
    assert lens.unsupported_reason(capabilities) is None
    none = Capabilities(
        kind="encoder", layers=1, heads=1, d_model=1, vocab=1, context=1, attention="none", masks=False
    )
    assert "needs attention weights" in str(lens.unsupported_reason(none))


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="random_weights_share = 2 is not a number from 0 to 1"):
        LENSES.load("attention").controls(LensSettings(options={"random_weights_share": 2}))
