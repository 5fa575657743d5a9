"""Tiny models trained on strings of which is known what decides them, and the lens `causal` run on them.

A unit is a letter, a sign and an answer. The letter decides the answer; which sign stands there, and so of
which half of the signs it is, decides nothing. At the sign both are there: the letter since attention fetched
it, the half since the sign stands there. Of a second model (`halves`) signs are more than the states have
dimensions, so that no probe learns a class per sign by heart, and the signs of each half were given a
direction of their own before training. Of a third (`orders`) each
string is written in one of two orders, sign before letter or letter before sign, which the words of a string
do not tell: a property of the whole that decides what comes next. Of a fourth (`rivals`) each unit has three
letters, which decide the answer together, each a part of it: what is as wide as the first decides as much.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
import transformers

from sonde.alignment.subwords import Alignment, Coverage, Subwords
from sonde.capture.forward import observe_lenses
from sonde.capture.requests import Prepared
from sonde.corpora import Item, item_id
from sonde.languages import LANGUAGES, CodeTokens
from sonde.lenses import LENSES, CapturedItem, LensSettings, ScoringContext
from sonde.lenses.engine.lens import STAGE_RESULT, STAGE_RESULT_KEY, ReadingLens
from sonde.models import Capabilities, LoadedModel, ModelSpec, SpecialTokens
from sonde.results.scores import Score

Kind = Literal["plain", "halves", "orders", "rivals"]

UNITS, RIVAL_UNITS, CLUSTERS = 6, 12, 60
ALPHABETS = {
    "plain": ("ab", ".,;:!?+-*/<>", "xy"),
    "others": ("<>", string.ascii_letters + string.digits, "{}"),
}
"""Letters, signs and answers; words and signs of the others are cut apart by every rule."""

SEEDS = {"orders": 3, "rivals": 3}
"""Where training may end in several ways: the first keeps the order where nothing as wide matters, the second
the first letter under something as wide that matters more."""

WIDER = 5.0
"""How much longer signs begin than other tokens, where there are orders: much else is as wide as these."""

RIVALS, PAIRED = ('!"', "#$"), "'()*+,-."
"""Further letters of a unit, and an answer for each choice of letters, the first one's before the others'."""

PART = 0.1
"""How long what a letter adds to an answer begins, where the letters decide it together."""

APART = 0.1
"""How far signs of a half are moved from where they begin."""

BOS, VOCAB, CONTEXT = 126, 128, 64

USED, HELD = "idn", "ktx"
"""What the two properties of the sign are called: tasks about tokens, whose labels are given by hand."""

ORDER = "cpx"
"""What the property of the string is called."""

SIGN_AFTER_LETTER = 1
"""Places of a unit: the letter, the sign, the answer."""


def alphabet(kind: Kind) -> tuple[str, str, str]:
    return ALPHABETS["plain" if kind == "plain" else "others"]


def texts(count: int, seed: int, kind: Kind = "plain") -> list[str]:
    rng = np.random.default_rng(seed)
    own, others, answers = alphabet(kind)
    letters = rng.integers(0, 2, (count, UNITS))
    signs = rng.integers(0, len(others), (count, UNITS))
    if kind == "rivals":
        return [_with_rivals(rng) for _ in range(count)]
    turned = rng.integers(0, 2, count) if kind == "orders" else np.zeros(count, dtype=np.int64)
    return [
        "".join(
            (others[b] + own[a] if turn else own[a] + others[b]) + answers[a]
            for a, b in zip(one, other, strict=True)
        )
        for one, other, turn in zip(letters, signs, turned, strict=True)
    ]


def _with_rivals(rng: np.random.Generator) -> str:
    """Units of a letter, its rivals, a sign that is the same throughout, and an answer."""
    own, others, _ = alphabet("rivals")
    letters, sign = (own, *RIVALS), others[rng.integers(len(others))]
    units: list[str] = []
    for choices in rng.integers(0, 2, (RIVAL_UNITS, len(letters))).tolist():
        answer = PAIRED[int("".join(map(str, choices)), 2)]
        units += [*(two[one] for two, one in zip(letters, choices, strict=True)), sign, answer]
    return "".join(units)


@functools.lru_cache(maxsize=4)
def planted(kind: Kind = "plain") -> LoadedModel:
    """A decoder of two layers that has learned the strings."""
    torch.manual_seed(SEEDS.get(kind, 0))
    torch.set_num_threads(1)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=CONTEXT, pad_token_id=0,
            bos_token_id=BOS, eos_token_id=BOS,
        )
    )  # fmt: skip
    if kind == "halves":
        with torch.no_grad():
            away = torch.nn.functional.normalize(torch.randn(32), dim=0)
            for sign in alphabet(kind)[1]:
                model.model.embed_tokens.weight[ord(sign)] += APART * away * (1 if _half(sign) else -1)
    if kind == "rivals":
        with torch.no_grad():
            parts = torch.nn.functional.normalize(torch.randn(1 + len(RIVALS), 2, 32), dim=-1)
            for number, answer in enumerate(PAIRED):
                choices = [int(choice) for choice in f"{number:0{len(parts)}b}"]
                model.lm_head.weight[ord(answer)] = PART * sum(
                    part[choice] for part, choice in zip(parts, choices, strict=True)
                )
    if kind == "orders":
        with torch.no_grad():
            model.model.embed_tokens.weight[[ord(sign) for sign in alphabet(kind)[1]]] *= WIDER
    steps = 400
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, total_steps=steps)
    for step in range(steps):
        rows = [[BOS, *text.encode()] for text in texts(32, 1_000 + step, kind)]
        ids = torch.tensor(rows)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    model.eval()
    return LoadedModel(
        spec=ModelSpec(name="planted"),
        revision="trained",
        model=model,
        tokenizer=None,
        capabilities=Capabilities(
            kind="decoder", layers=2, heads=4, d_model=32, vocab=VOCAB, context=CONTEXT,
            attention="interface", masks=False,
        ),
        special=SpecialTokens(bos=BOS, bos_source="bos", pad=0),
        family="llama",
    )  # fmt: skip


def prepared(text: str, cluster: str) -> Prepared:
    language = LANGUAGES.load("text")
    ids = np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32)
    at = np.arange(len(ids), dtype=np.int32)
    names = ("",) * len(ids)
    counts = Coverage(
        characters=len(text), covered=len(text), subwords=len(ids), merged=0, layout=0, unknown=0, tokens=0,
        tokens_whole=0,
    )  # fmt: skip
    subwords = Subwords(text, ids, at, at + 1, np.ones_like(ids), names)
    item = Item(item_id(text, "text", "file"), text, "text", "file", "by hand", "item", 0, cluster, cluster)
    tree = language.parse(text)
    alignment = Alignment(subwords, at, at + 1, at, names, names, names, counts)
    tokens = CodeTokens(at, at + 1, np.zeros(len(at), dtype=np.int8))
    return Prepared(item, tree, tokens, alignment)


def labels_of(items: list[Prepared]) -> dict[str, pl.DataFrame]:
    """Labels of every sign: which letter stands before it (used), and which half the sign is of (held)."""
    rows: dict[str, list[dict[str, object]]] = {USED: [], HELD: []}
    for one in items:
        for at in range(SIGN_AFTER_LETTER, len(one.item.text), 3):
            about = {"item_id": one.item.item_id, "start": at, "end": at + 1}
            rows[USED].append({**about, "label": one.item.text[at - 1]})
            rows[HELD].append({**about, "label": "first" if _half(one.item.text[at]) else "second"})
    schema = {"item_id": pl.String, "start": pl.Int32, "end": pl.Int32, "label": pl.String}
    return {task: pl.DataFrame(held, schema=schema) for task, held in rows.items()}


def _half(sign: str) -> bool:
    few, many = (ALPHABETS[name][1] for name in ("plain", "others"))
    return few.index(sign) < len(few) // 2 if sign in few else many.index(sign) % 2 == 0


def first_letters_of(items: list[Prepared]) -> dict[str, pl.DataFrame]:
    """Labels of every sign of units with rivals: which of the first letters stands there."""
    before = 1 + len(RIVALS)
    rows = [
        (one.item.item_id, at, at + 1, one.item.text[at - before])
        for one in items
        for at in range(before, len(one.item.text), before + 2)
    ]
    schema = {"item_id": pl.String, "start": pl.Int32, "end": pl.Int32, "label": pl.String}
    return {USED: pl.DataFrame(rows, schema=schema, orient="row")}


def orders_of(items: list[Prepared]) -> dict[str, pl.DataFrame]:
    """Labels of every string: in which order it is written."""
    letters = alphabet("orders")[0]
    rows = [(one.item.item_id, "letter" if one.item.text[0] in letters else "sign") for one in items]
    return {ORDER: pl.DataFrame(rows, schema={"item_id": pl.String, "label": pl.String}, orient="row")}


def edges_of(items: list[Prepared]) -> pl.DataFrame:
    """Edges from each letter to its sign, and from each answer to the next letter, which it does not tell."""
    rows: list[dict[str, object]] = []
    for one in items:
        for at in range(0, len(one.item.text), 3):
            rows.append(
                {"item_id": one.item.item_id, "label": "letter->sign", "start": at, "other_start": at + 1}
            )
            if at:
                rows.append(
                    {
                        "item_id": one.item.item_id,
                        "label": "answer->letter",
                        "start": at - 1,
                        "other_start": at,
                    }
                )
    schema = {"item_id": pl.String, "label": pl.String, "start": pl.Int32, "other_start": pl.Int32}
    return pl.DataFrame(rows, schema=schema)


@dataclass
class Ran:
    """What the lens gave: rows of the stages after the first, scores, and how the last one was asked."""

    tables: list[pl.DataFrame]
    scores: list[Score]
    settings: LensSettings

    @property
    def rows(self) -> pl.DataFrame:
        """The rows of the second stage."""
        return self.tables[0]

    def value(self, **wanted: Any) -> Score:
        """The one score with these fields; dimensions by name."""
        dimensions = wanted.pop("dimensions", ())
        found = [
            score
            for score in self.scores
            if score.dimensions == dimensions
            and all(getattr(score, name) == value for name, value in wanted.items())
        ]
        assert len(found) == 1, (wanted, len(found))
        return found[0]


def run_lens(
    loaded: LoadedModel,
    items: list[Prepared],
    labels: Mapping[str, pl.DataFrame],
    options: Mapping[str, Any],
    folder: Path,
    seed: int = 0,
) -> Ran:
    """All stages of the lens over some items."""
    lens = LENSES.load("causal")
    assert isinstance(lens, ReadingLens)
    settings = LensSettings(options=options, root=str(folder), seed=seed)
    template = Score(model="planted", lens="causal", metric="", value=0.0, n=0, n_clusters=0)
    table = pl.DataFrame(
        {
            "item_id": [one.item.item_id for one in items],
            "language": [one.item.language for one in items],
            "cluster": [one.item.cluster for one in items],
            "seen": [False] * len(items),
        }
    )
    texts = pl.DataFrame({"item_id": table["item_id"], "text": [one.item.text for one in items]}).lazy()

    def stage(settings: LensSettings) -> tuple[pl.DataFrame, ScoringContext]:
        passes = {"causal": lens.input_requests(items, labels, settings)}
        observed = [
            CapturedItem(one.prepared, one.captures["causal"])
            for one in observe_lenses(loaded, items, passes)
        ]
        rows = lens.observe(observed, labels, settings, ())
        scoring = ScoringContext(
            observations=rows.lazy(),
            items=table,
            template=template,
            settings=settings,
            labels=labels,
            texts=texts,
        )
        return rows, scoring

    _, scoring = stage(settings)
    assert lens.score(scoring) == []
    every, scores = settings, list[Score]()
    tables: list[pl.DataFrame] = []
    every_score: list[Score] = []
    while (asked := lens.next_stage(scores, every)) is not None:
        (handed,) = scoring.stage_result
        name = f"handed{every.stage}.parquet"
        handed.write_parquet(folder / name)
        found = {**asked, STAGE_RESULT: name, STAGE_RESULT_KEY: f"{folder} {every.stage}"}
        every = replace(every, stage=every.stage + 1, found=found)
        rows, scoring = stage(every)
        tables.append(rows)
        scores = lens.score(scoring)
        every_score += scores
    return Ran(tables, every_score, every)


def some_items(count: int, kind: Kind = "plain", seed: int = 7) -> list[Prepared]:
    # From behind, so that strings of one order are not all in the same clusters.
    ordered = sorted(set(texts(count, seed, kind)), key=lambda one: one[::-1])
    return [prepared(text, f"cluster {number % CLUSTERS}") for number, text in enumerate(ordered)]


def loss_at_answers(loaded: LoadedModel, items: list[Prepared]) -> Iterator[float]:
    """Nats that the answers cost."""
    with torch.no_grad():
        for one in items:
            ids = torch.tensor([[BOS, *one.item.text.encode()]])
            logs = loaded.model(ids).logits.log_softmax(-1)[0]
            for at in range(2, ids.shape[1] - 1, 3):
                yield -float(logs[at, ids[0, at + 1]])
