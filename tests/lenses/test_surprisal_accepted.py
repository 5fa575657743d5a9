"""Accepted characters: how far a greedy completion is right, by the ranks and by generating."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.lenses.conftest import Study, item_of

from sonde.base.errors import UsageError
from sonde.capture.forward import observe
from sonde.capture.requests import Prepared, prepare
from sonde.corpora import SourceFile
from sonde.lenses import LENSES, CapturedItem, LensSettings, ScoringContext
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.results.accepted import CURSORS
from sonde.results.schema import get_dimensions
from sonde.results.scores import Score, scores_to_frame
from sonde.tasks import repositories
from sonde.tasks.engine.task import TASKS

LENS = LENSES.load("surprisal")
TEXT = "def area(self):\n    # wide\n    return self.width('a b')\n"
PIECES = (
    "def", " area", "(", "self", "):\n", "    ", "# wi", "de", "\n   ", " return", " self", ".", "wid", "th",
    "(", "'", "a", " b", "')", "\n",
)  # fmt: skip
RANKS = (3, 2, 1, 1, 1, 1, 4, 1, 1, 1, 2, 1, 1, 1, 5, 1, 1, 2, 1, 1)
BY_HAND: Mapping[str, tuple[str, int, int]] = {
    # By the first piece: the place, the characters that are right from its ink on, and those of the line.
    " area": ("other", 0, 11),
    "(": ("other", 12, 7),
    "self": ("after (", 11, 6),
    "):\n": ("other", 7, 2),
    "# wi": ("line start", 0, 6),
    # On to the end of " return".
    "de": ("inside a string or comment", 13, 2),
    " return": ("line start", 6, 24),
    " self": ("other", 0, 17),
    ".": ("other", 6, 13),
    "wid": ("after .", 5, 12),
    "th": ("inside a name", 2, 9),
    "'": ("after (", 2, 6),
    "a": ("inside a string or comment", 1, 5),
    " b": ("inside a string or comment", 0, 3),
    "')": ("inside a string or comment", 3, 2),
}
TEXTS = (
    "def total(values, key=None):\n    '''Sums up.'''\n    text = 'a b  c'\n\n    return helper(values)[0]\n",
    "class Häuser(Base):\n    def find(self, key=None):\n        if key != '→x':\n            return {}\n",
    "for index in range(10):\n    print((index, [index]))  # → so\n    self.total += helper(index) - 2.5\n",
    "import os, sys\n\ndef main():\n    for name in sys.argv:\n        print(os.path.join(name, 'a'))\n",
)


def score(
    own: pl.DataFrame,
    *beside: pl.DataFrame,
    texts: Mapping[str, str] | None = None,
    settings: LensSettings | None = None,
) -> pl.DataFrame:
    context = ScoringContext(
        observations=own.lazy(),
        items=pl.DataFrame(),
        template=Score(model="m", lens="surprisal", metric="", value=0.0, n=0, n_clusters=0),
        settings=settings or LensSettings(options={"min_count": 1}),
        texts=pl.LazyFrame({"item_id": [*(texts or {})], "text": [*(texts or {}).values()]}),
        beside=tuple(one.lazy() for one in beside),
    )
    return scores_to_frame(LENS.score(context))


def rows_of(scores: pl.DataFrame, metric: str, **columns: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Values by dimensions."""
    wanted = {"of_metric": None, "compared_to": None, "control": None, **columns}
    condition = pl.all_horizontal(
        pl.col(name).eq_missing(pl.lit(value, pl.String)) for name, value in wanted.items()
    )
    part = scores.filter((pl.col("metric") == metric) & condition)
    return {tuple(get_dimensions(row).items()): row["value"] for row in part.to_dicts()}


def test_by_hand() -> None:
    ranks, places = RANKS, dict(BY_HAND)
    rows = Study().observe(TEXT, [1.0] * len(PIECES), PIECES, rank=ranks)
    assert {row["subword"] for row in rows.to_dicts() if row["completion"] is None} == {"    ", "\n   ", "\n"}
    found = rows.select("subword", pl.col("completion").struct.unnest()).drop_nulls("cursor")
    # The second bracket stands where the first did not: between two names.
    for row in found.unique("subword", keep="first", maintain_order=True).rows(named=True):
        if row["subword"] != "def":
            cursor, _, line = places[row["subword"]]
            assert (row["cursor"], row["line_end"] - row["start"]) == (cursor, line), row["subword"]
    scores = score(rows)
    expected: dict[str, list[tuple[int, bool]]] = {}
    for cursor, characters, line in [*places.values(), ("other", 0, 7)]:
        expected.setdefault(cursor, []).append((characters, characters >= line))
    everything = [pair for pairs in expected.values() for pair in pairs]
    for metric, column in (("accepted_characters", 0), ("accepted_line", 1)):
        values = rows_of(scores, metric)
        assert values[()] == pytest.approx(np.mean([pair[column] for pair in everything]))
        for cursor, pairs in expected.items():
            assert values[("cursor", cursor),] == pytest.approx(np.mean([pair[column] for pair in pairs]))
    assert set(expected) == set(CURSORS)


def test_a_character_of_several_subwords_is_right_as_a_whole() -> None:
    rows = Study().observe("xy = zé\n", [1.0] * 5, ["xy", " =", " z", "é", "\n"], rank=[2, 1, 1, 1, 2])
    # The character as two byte pieces, of which the model finds the first.
    first, second = rows.filter(pl.col("subword") == "é"), rows.filter(pl.col("subword") == "é")
    second = second.with_columns(
        rank=pl.lit(2, pl.Int32), position=pl.lit(4, pl.Int32), text_characters=pl.lit(0, pl.Int32),
        covered=pl.lit(0, pl.Int32), completion=pl.lit(None, rows.schema["completion"]),
    )  # fmt: skip
    last = rows.filter(pl.col("subword") == "\n").with_columns(position=pl.lit(5, pl.Int32))
    split = pl.concat([rows.head(3), first, second, last])
    assert rows_of(score(split), "accepted_characters")[()] == pytest.approx(np.mean([3, 1, 0]))
    right = split.with_columns(rank=pl.when(pl.col("position") == 4).then(1).otherwise("rank").cast(pl.Int32))
    assert rows_of(score(right), "accepted_characters")[()] == pytest.approx(np.mean([4, 2, 1]))


def test_a_run_ends_where_characters_are_missing_or_unknown() -> None:
    rows = Study().observe("x = y + z\n", [1.0] * 6, ["x", " =", " y", " +", " z", "\n"], rank=[1] * 6)
    whole = rows_of(score(rows), "accepted_characters")[()]
    assert whole == pytest.approx(np.mean([8, 6, 4, 2]))
    without = rows.filter(pl.col("subword") != " y")
    assert rows_of(score(without), "accepted_characters")[()] == pytest.approx(np.mean([1, 4, 2]))
    unknown = rows.with_columns(
        covered=pl.when(pl.col("subword") == " y").then(0).otherwise("covered").cast(pl.Int32)
    )
    assert rows_of(score(unknown), "accepted_characters")[()] == pytest.approx(np.mean([1, 0, 4, 2]))


def test_places_of_unknown_ranks_are_not_measured() -> None:
    rows = Study().observe(
        "x = y + z\n", [1.0] * 6, ["x", " =", " y", " +", " z", "\n"], rank=[1, 1, 2, 1, 0, 1]
    )
    no_list = pl.when(pl.col("rank").is_null()).then([]).otherwise("top_nats").cast(pl.List(pl.Float32))
    # Beyond the alternatives that a server lists a subword is not the best one.
    assert rows_of(score(rows), "accepted_characters")[()] == pytest.approx(np.mean([1, 0, 1, 0]))
    # Without such a list, nothing is known from there and from before it.
    assert rows_of(score(rows.with_columns(top_nats=no_list)), "accepted_characters")[()] == pytest.approx(
        0.5
    )
    nothing = rows.with_columns(rank=pl.lit(None, pl.Int32), top_nats=pl.lit([], pl.List(pl.Float32)))
    scores = score(nothing)
    assert not rows_of(scores, "accepted_characters")
    (reason,) = scores.filter(pl.col("metric") == "left_out")["dimensions"].to_list()
    assert "not measured" in reason[0]["value"]


def test_the_table_of_pairs_is_of_the_other_half_of_the_clusters() -> None:
    texts = {"i0": "a = b\n", "i1": "a = c\n", "i2": "a = b\n"}
    study = Study()
    frames = [
        study.observe(text, [1.0] * 4, ["a", " =", text[3:5], "\n"], rank=[2] * 4, item_id=name, cluster=name)
        for name, text in texts.items()
    ]
    ids = {"\n": 0, " =": 1, " b": 2, " c": 3, "a": 4}
    rows = pl.concat(frames).with_columns(
        subword_id=pl.col("subword").replace_strict(ids, return_dtype=pl.Int32)
    )
    scores = score(rows)
    # Clusters i0 and i2 are one half, i1 is the other: either table is right up to the word.
    by_pairs = rows_of(scores, "accepted_characters", control="subword_pairs")
    assert by_pairs[()] == pytest.approx(np.mean([1, 0] * 3))
    assert (
        rows_of(scores, "gain", of_metric="accepted_characters", compared_to="subword_pairs")[()]
        == -by_pairs[()]
    )
    same = rows.with_columns(subword_id=pl.col("subword_id").replace(3, 2))
    assert rows_of(score(same), "accepted_characters", control="subword_pairs")[()] == pytest.approx(
        (4 + 2) / 2
    )
    alone = rows.with_columns(cluster=pl.lit("one"))
    assert not rows_of(score(alone), "accepted_characters", control="subword_pairs")


def test_models_are_compared_at_places_that_all_of_them_have() -> None:
    text = "total = self.helper(values)\n"
    one = ["total", " =", " self", ".", "helper", "(", "values", ")\n"]
    other = ["to", "tal", " ", "=", " self.", "hel", "per(", "values", ")", "\n"]
    study = Study()
    frames = [
        pl.concat(
            study.observe(text, [1.0] * len(pieces), pieces, rank=ranks, item_id=f"i{at}", cluster=f"c{at}")
            for at in range(3)
        )
        for pieces, ranks in ((one, [1] * 8), (other, [2, 1, 1, 1, 1, 2, 1, 1, 1, 2]))
    ]
    texts = {f"i{at}": text for at in range(3)}
    shared = [score(own, beside, texts=texts) for own, beside in (frames, frames[::-1])]
    values = [rows_of(scores, "accepted_characters") for scores in shared]
    # "=", "self", "helper" and "values" begin a subword of both; ")\n" and ")" do too.
    places = [text.index(word) for word in ("=", "self", "helper", "values", ")")]
    assert values[0][("shared", "places"),] == pytest.approx(np.mean([len(text) - at for at in places]))
    assert values[1][("shared", "places"),] == pytest.approx(np.mean([7, 5, 0, 7, 1]))
    assert values[1][("shared", "places"), ("cursor", "after .")] == 0
    n = shared[0].filter(pl.col("metric") == "accepted_characters")
    assert {row["n"] for row in n.to_dicts() if get_dimensions(row) == {"shared": "places"}} == {15}


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model(ModelSpec(name="sonde/mini-decoder"))


@pytest.fixture(scope="module")
def prepared(loaded: LoadedModel) -> list[Prepared]:
    items = [item_of(text, item_id=f"i{number}", cluster=f"c{number}") for number, text in enumerate(TEXTS)]
    return prepare(loaded, items)


def observe_rows(loaded: LoadedModel, prepared: Sequence[Prepared], settings: LensSettings) -> pl.DataFrame:
    passes = LENS.input_requests(prepared, {}, settings)
    captures = list(observe(loaded, prepared, passes))
    task, known = (
        TASKS.load("call_origin"),
        repositories([SourceFile("there.py", "def helper(a): ...", "python", "c", "repository")]),
    )
    tables = [
        task.label([one.item], known)[one.item.item_id].with_columns(item_id=pl.lit(one.item.item_id))
        for one in prepared
    ]
    captured = [CapturedItem(one, (capture,)) for one, capture in zip(prepared, captures, strict=True)]
    surfaces = [f"<{number}>" for number in range(loaded.capabilities.vocab)]
    return LENS.observe(captured, {"call_origin": pl.concat(tables)}, settings, surfaces)


@torch.inference_mode()
def write(loaded: LoadedModel, ids: Sequence[int], count: int) -> list[int]:
    """A completion, by transformers alone."""
    prompt = torch.tensor([[loaded.tokenizer.bos_token_id, *ids]])
    output: Any = loaded.model.generate(
        input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=False, num_beams=1,
        max_new_tokens=count, min_new_tokens=count, pad_token_id=loaded.special.pad,
    )  # fmt: skip
    return output[0, prompt.shape[1] :].tolist()


def test_ranks_are_what_a_greedy_completion_of_the_same_subwords_writes(
    loaded: LoadedModel, prepared: Sequence[Prepared]
) -> None:
    rows = observe_rows(loaded, prepared, LensSettings())
    expected: list[int] = []
    for one in prepared:
        subwords, text = one.alignment.subwords, one.item.text
        ids = subwords.ids.tolist()
        for place in range(1, len(ids)):
            start, end = int(subwords.start[place]), int(subwords.end[place])
            # No cursor inside a character, and none before blanks.
            if not text[start:end].strip() or start < int(subwords.end[place - 1]):
                continue
            written = write(loaded, ids[:place], len(ids) - place)
            right = next(
                (at for at, (a, b) in enumerate(zip(written, ids[place:], strict=True)) if a != b),
                len(written),
            )
            begin = start + len(text[start:end]) - len(text[start:end].lstrip())
            done = loaded.tokenizer.decode(ids[: place + right], clean_up_tokenization_spaces=False)
            expected.append(max(0, len(done.rstrip("\ufffd")) - begin))
    values = score(rows)
    (n,) = {
        row["n"] for row in values.filter(pl.col("metric") == "accepted_characters").to_dicts()
        if not row["dimensions"] and row["control"] is None
    }  # fmt: skip
    assert n == len(expected)
    assert rows_of(values, "accepted_characters")[()] == pytest.approx(np.mean(expected))
    assert np.mean(expected) > 1


def test_a_generated_completion_encodes_the_text_before_it_anew(
    loaded: LoadedModel, prepared: Sequence[Prepared]
) -> None:
    settings = LensSettings(options={"completions": 12, "min_count": 1})
    rows = observe_rows(loaded, prepared, settings)
    plain = observe_rows(loaded, prepared, LensSettings())
    assert rows.drop("completion").equals(plain.drop("completion"))
    texts = {one.item.item_id: one.item.text for one in prepared}
    sampled = rows.unnest("completion", separator="_").filter(pl.col("completion_end").is_not_null())
    assert sampled.group_by("item_id").len()["len"].to_list() == [12] * len(TEXTS)
    generated: list[int] = []
    for row in sampled.to_dicts():
        text, start, end = texts[row["item_id"]], row["start"], row["completion_end"]
        ids = loaded.tokenizer(text[:start], add_special_tokens=False)["input_ids"]
        written = write(loaded, ids, 40)
        right = 0
        for count in range(1, len(written) + 1):
            done = loaded.tokenizer.decode([*ids, *written[:count]], clean_up_tokenization_spaces=False)[
                start:
            ]
            if not text[start:].startswith(done.rstrip("\ufffd")):
                break
            right = len(done.rstrip("\ufffd"))
        assert end - start == right, text[:start]
        generated.append(max(0, end - row["completion_start"]))
    scores = score(rows, settings=settings)
    assert rows_of(scores, "generated_characters")[()] == pytest.approx(np.mean(generated))
    difference = rows_of(scores, "gain", of_metric="generated_characters", compared_to="accepted_characters")
    agreement = rows_of(scores, "generation_agreement")
    assert agreement[()] > 0.8 and abs(difference[()]) < 1


def test_completions_need_a_decoder_and_items(loaded: LoadedModel) -> None:
    for options in ({"objective": "pll"}, {"pairs": "variable_misuse"}):
        settings = LensSettings(options={"completions": 1, **options})
        with pytest.raises(UsageError, match="completions are those of decoders"):
            LENS.controls(settings)


def test_masked_models_and_published_rules_have_no_places() -> None:
    for settings in (
        LensSettings(options={"objective": "pll"}),
        LensSettings(mode="paper"),
    ):
        study = dataclasses.replace(Study(), mode=settings.mode, options=settings.options)
        if settings.mode == "paper":
            rows = study.observe(TEXT, [1.0] * len(PIECES), PIECES, rank=RANKS)
            assert rows["completion"].is_null().all()
        else:
            rows = Study().observe(TEXT, [1.0] * len(PIECES), PIECES, rank=RANKS)
        assert not rows_of(score(rows, settings=settings), "accepted_characters")
