from __future__ import annotations

import math

import polars as pl
import pytest

from sonde.base.errors import CaptureError, UnknownNameError, UsageError
from sonde.capture.requests import Plain, TokenEndScores, TokenScores
from sonde.corpora import Tag
from sonde.lenses import LENSES, LensSettings, ReadingLens
from sonde.models import Capabilities
from sonde.results.schema import OBSERVATIONS_SCHEMA

LENS = LENSES.load("surprisal")
CODE = "def f(a):\n    return obj.go(g(a), 'x é')\n"


def capabilities(kind: str) -> Capabilities:
    return Capabilities(
        kind=kind, layers=2, heads=2, d_model=8, vocab=10, context=64, attention="interface", masks=False
    )


def test_the_lens_answers_the_protocol() -> None:
    assert isinstance(LENS, ReadingLens)
    (only,) = LENS.input_requests([], {}, LensSettings())
    assert only.variant == Plain()
    assert only.requests == (TokenScores(top_k=5), TokenEndScores())


@pytest.mark.parametrize("kind", ["encoder", "encoder-decoder"])
def test_models_without_a_mask_are_refused_with_what_to_use(kind: str) -> None:
    assert LENS.unsupported_reason(capabilities("decoder")) is None
    reason = LENS.unsupported_reason(capabilities(kind))
    assert kind in reason and "sonde/mini-decoder" in reason and "\n" not in reason


def test_every_piece_gets_its_columns(study) -> None:
    rows = study(there="def go(): ...\ndef g(): ...").observe(CODE)
    assert dict(rows.schema) == dict(OBSERVATIONS_SCHEMA)
    by_piece = {row["subword"].strip(): row for row in rows.to_dicts() if row["subword"].strip()}
    go, g, obj, string = (by_piece[piece] for piece in ("go", "g", "obj", "é"))
    assert (go["origin"], go["origin_part"], go["call_form"]) == ("internal", "name", "method")
    assert (g["origin"], g["origin_part"], g["call_form"]) == ("internal", "name", "bare")
    assert obj["origin"] == ""
    assert string["ancestors"] == (
        "module/function_definition/block/return_statement/call/argument_list/string"
    )
    assert (string["construct"], string["word"], string["token"], string["bytes"]) == ("string", "x é", 17, 3)
    assert go["tag"] == "attribute -> identifier"
    assert go["top"] == ["best", "next"]
    layout = rows.row(-1, named=True)
    assert (layout["kind"], layout["token"], layout["construct"], layout["origin"]) == ("layout", -1, "", "")
    assert rows["nats"].to_list() == [float(index + 1) for index in range(rows.height)]


def test_pieces_of_a_call_have_its_library(study) -> None:
    code = "import json\njson.dumps(f(x), y)\n"
    rows = study(there="def f(x): ...").observe(code)
    found = dict(rows.filter(pl.col("start") >= 12).select("subword", "library").iter_rows())
    assert (found["dumps"], found[" y"], found["f"], found["x"]) == ("json", "json", "", "")
    assert (rows.filter(pl.col("origin") == "")["library"] == "").all()


def test_of_nested_calls_the_innermost_decides(study) -> None:
    rows = study(there="def g(x): ...").observe("f(g(x), y)\n")
    found = dict(rows.select("subword", pl.concat_str("origin", "origin_part", separator=" ")).iter_rows())
    assert found["f"] == "external name"
    assert found["g"] == "internal name"
    assert found["x"] == "internal arguments"
    assert found[" y"] == "external arguments"


def test_pieces_over_several_spans_keep_what_their_ends_agree_on(study) -> None:
    rows = study(there="def g(x): ...").observe("f(g(x))\n", pieces=["f(", "g(", "x", "))", "\n"])
    parts = rows.select("origin", "origin_part", "call_form", "kind").rows()
    assert parts[0] == ("external", "", "bare", "merged")
    assert parts[1] == ("internal", "", "bare", "merged")
    assert parts[3] == ("", "arguments", "bare", "merged")


def test_merged_pieces_count_the_node_that_holds_them_among_their_ancestors(study) -> None:
    rows = study().observe("f(x)\n", pieces=["f", "(x", ")", "\n"])
    call = "module/expression_statement/call"
    assert rows["ancestors"].to_list()[:2] == [call, f"{call}/argument_list"]
    assert rows["word"].to_list() == ["f", "", ")", ""]
    assert rows["merged"].to_list() == [1, 2, 1, 0]


def test_pieces_that_were_not_scored_have_no_row(study) -> None:
    rows = study().observe("a = b\n", nats=[math.nan, 1.0, 2.0, 3.0])
    assert rows["position"].to_list() == [1, 2, 3]


def test_infinite_surprisal_is_never_scored(study) -> None:
    with pytest.raises(CaptureError, match="not finite"):
        study().observe("a = b", nats=[1.0, math.inf, 1.0])


def test_user_tags_follow_the_characters_that_are_not_blank(study) -> None:
    tags = (Tag(0, 5, "DET"), Tag(4, 9, "NP"), Tag(4, 5, "NP"))
    rows = study().observe("the  small cat", pieces=["the", "  small", " cat"], language="text", tags=tags)
    assert rows["user_tag"].to_list() == ["DET", "NP", ""]


def test_three_subwords_by_hand(study) -> None:
    rows = study(options={"min_count": 1}).observe("x = 1", nats=[1.0, 0.5, 3.0], rank=[2, 1, 10])
    scores = study(options={"min_count": 1}).score(rows)

    def value(where: str, metric: str, name: str | None = None) -> float:
        return study.value(scores, where, metric, name)

    assert value("all", "nats") == pytest.approx(1.5)
    assert value("all", "bits") == pytest.approx(1.5 / math.log(2))
    assert value("all", "bits_per_byte") == pytest.approx(4.5 / math.log(2) / 5)
    assert value("all", "bits_per_character") == pytest.approx(4.5 / math.log(2) / 5)
    assert value("all", "top1") == pytest.approx(1 / 3)
    assert value("all", "top5") == pytest.approx(2 / 3)
    assert value("all", "mrr") == pytest.approx((1 / 2 + 1 + 1 / 10) / 3)
    assert value("all", "entropy") == pytest.approx(0.75)
    assert value("code", "nats_per_token") == pytest.approx(1.5)
    assert value("tag=assignment -> integer", "nats") == pytest.approx(3.0)
    assert value("kind=operator", "nats") == pytest.approx(0.5)
    assert value("subword= 1#0", "nats") == pytest.approx(3.0)
    # `x` begins the text: it is in no slice but its own.
    assert value("text=first", "nats") == pytest.approx(1.0)
    assert value("ancestor=assignment", "nats") == pytest.approx(1.75)
    assert not scores["slice"].is_in(["name=x", "subword=x#2", "tag=assignment -> identifier"]).any()


def test_names_of_several_pieces_are_totalled_and_parts_of_names_are_not(study) -> None:
    lens = study(options={"min_count": 1})
    text = "\nlong_name = a.long_name"
    pieces = ["\n", "long", "_name", " =", " a", ".long", "_name"]
    rows = lens.observe(text, [64, 1, 2, 4, 8, 16, 32], pieces)
    scores = lens.score(rows)
    # The second occurrence begins inside a piece that also holds the dot: nobody knows its share.
    assert study.value(scores, "name=long_name", "nats_per_token") == pytest.approx(3.0)
    # Five tokens: name, =, a, dot, name.
    assert study.value(scores, "code", "nats_per_token") == pytest.approx(63 / 5)


def test_whitespace_is_apart(study) -> None:
    scores = study().score(study().observe("a\n\n", [1.0, 5.0], ["a", "\n\n"]))
    assert study.value(scores, "layout", "nats") == 5.0
    assert study.value(scores, "code", "nats") == 1.0
    assert scores.filter((pl.col("slice") == "layout") & (pl.col("metric") == "nats_per_token")).is_empty()


def test_rare_slices_have_no_row_of_their_own(study) -> None:
    rows = study().observe("a = b")
    assert not study(options={"min_count": 3}).score(rows)["slice"].str.starts_with("subword=").any()
    assert study(options={"min_count": 1}).score(rows)["slice"].str.starts_with("subword=").any()


def test_languages_have_their_own_rows(study) -> None:
    python = study().observe("a = b", [1.0, 1.0, 1.0])
    java = study().observe("int a;", [3.0, 3.0, 3.0], language="java", item_id="other")
    scores = study().score(python, java).filter((pl.col("slice") == "all") & (pl.col("metric") == "nats"))
    assert dict(scores.select("language", "value").iter_rows()) == {"python": 1.0, "java": 3.0}


def test_no_observations_give_no_scores(study) -> None:
    assert study().score(study().observe("a = b").head(0)).is_empty()


def test_no_item_gives_no_rows(study) -> None:
    rows = study().observe("a", nats=[math.nan])
    assert rows.is_empty()
    assert dict(rows.schema) == dict(OBSERVATIONS_SCHEMA)


@pytest.mark.parametrize("value", [0, -1, True, "many", 1.5])
def test_options_that_make_no_sense_are_refused(study, value) -> None:
    with pytest.raises(UsageError, match="min_count"):
        study(options={"min_count": value}).score(study().observe("a = b"))


def test_unknown_quirks_are_refused_with_the_nearest(study) -> None:
    with pytest.raises(UnknownNameError, match=r"perplexed\.shift"):
        study(quirks=frozenset({"perplexed.shifts"})).observe("a = b")
    # Quirks of other lenses may be on in the same run.
    study(quirks=frozenset({"codesyntax.block_start"})).observe("a = b")


def test_scores_of_another_tokenizer_are_refused(study) -> None:
    with pytest.raises(CaptureError, match="1 scores for 3 subwords"):
        study().observe("a = b", nats=[1.0])
