"""Each quirk beside the rule that it replaces."""

from __future__ import annotations

import re

import polars as pl
import pytest

from sonde.capture.requests import Plain
from sonde.lenses import LENSES
from sonde.lenses.surprisal.observe import check_active_quirks

QUIRKS = LENSES.load("surprisal").quirks
THERE = "def inner(x): ...\ndef named(): ..."


def only(quirk: str) -> frozenset[str]:
    return frozenset({quirk})


def test_paper_mode_turns_all_on_and_corrected_none(study) -> None:
    assert check_active_quirks(study(mode="paper").settings) == frozenset(QUIRKS)
    assert check_active_quirks(study().settings) == frozenset()
    assert len(QUIRKS) == 15


def test_every_quirk_has_its_line_in_the_documentation(request: pytest.FixtureRequest) -> None:
    page = (request.config.rootpath / "docs" / "paper-modes.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `((?:perplexed|codetokenizers)\.\w+)` \|", page, re.MULTILINE)
    assert set(listed) == set(QUIRKS)


def test_shift_files_a_loss_under_the_piece_before(study) -> None:
    # The example of the reading notes: the loss of ` =` lands under the tag of `a`.
    straight = study().observe("a = inner(b)", [1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    shifted = study(quirks=only("perplexed.shift")).observe("a = inner(b)", [1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    assert shifted["tag"].to_list() == ["", *straight["tag"].to_list()[:-1]]
    assert shifted["nats"].to_list() == straight["nats"].to_list()
    assert shifted["subword"].to_list() == straight["subword"].to_list()
    quirky = study(quirks=only("perplexed.shift"), options={"min_count": 1}).score(shifted)
    assert study.value(quirky, "tag=assignment -> identifier", "nats") == 2.0
    assert study.value(quirky, "all", "nats") == pytest.approx(63 / 6)
    assert not quirky["slice"].is_in(["tag="]).any()


def test_shift_moves_the_call_with_the_tag(study) -> None:
    text = "a = inner(b)"
    straight = study(there=THERE).observe(text)
    shifted = study(there=THERE, quirks=only("perplexed.shift")).observe(text)
    assert straight["origin"].to_list() == ["", "", "internal", "internal", "internal", "internal"]
    assert shifted["origin"].to_list() == ["", "", "", "internal", "internal", "internal"]


def test_tags_of_codetokenizers_replace_those_of_the_alignment(study) -> None:
    text = "def f():\n    return 'é' + g()\n"
    pieces = ["def", " f", "():", "\n    return", " '", "é", "' +", " g", "()", "\n"]
    straight = dict(enumerate(study().observe(text, pieces=pieces)["tag"]))
    quirks = frozenset({"codetokenizers.first_overlap", "codetokenizers.not_available"})
    first = dict(enumerate(study(quirks=quirks).observe(text, pieces=pieces)["tag"]))
    assert " + " in straight[2]
    assert (first[2], first[9]) == ("<parameters -> (>", "< N/A >")
    shifted = study(quirks=only("codetokenizers.byte_columns")).observe(text, pieces=pieces)["tag"].to_list()
    assert shifted[0] == "<function_definition -> def>"
    assert shifted[7] != f"<{straight[7]}>"
    strings = study(quirks=only("codetokenizers.whole_strings")).observe(text, pieces=pieces)["tag"].to_list()
    assert strings[5] == "<binary_operator -> string>"


def test_paper_mode_scores_from_end_to_end(study) -> None:
    paper = study(there=THERE, mode="paper", options={"min_count": 1})
    scores = paper.score(*(paper.observe("inner(a)\nouter(b)\n", item_id=str(n)) for n in range(3)))
    assert study.value(scores, "origin=internal-external", "nats", "unweighted") != 0
    assert scores.filter(pl.col("slice").str.contains("tag=<call -> identifier>")).height > 0


def test_first_unscored_asks_for_one_window_of_what_the_tokenizer_gives(study) -> None:
    lens = LENSES.load("surprisal")
    (straight,) = lens.input_requests([], {}, study().settings)
    (quirky,) = lens.input_requests([], {}, study(quirks=only("perplexed.first_unscored")).settings)
    assert (straight.variant, quirky.variant) == (Plain(), Plain(start="tokenizer", cut=True))


def test_decode_merge_joins_ids_that_look_alike(study) -> None:
    rows = pl.concat(
        [
            study()
            .observe("é", [1.0], context=[1])
            .with_columns(subword=pl.lit("\ufffd"), subword_id=pl.lit(7, pl.Int32)),
            study()
            .observe("é", [3.0], context=[1])
            .with_columns(item_id=pl.lit("b"), subword=pl.lit("\ufffd"), subword_id=pl.lit(8, pl.Int32)),
        ]
    )
    one = {"min_count": 1}
    apart = study(options=one).score(rows)
    merged = study(options=one, quirks=only("perplexed.decode_merge")).score(rows)
    assert study.value(apart, "subword=\ufffd#7", "nats") == 1.0
    assert study.value(apart, "subword=\ufffd#8", "nats") == 3.0
    assert study.value(merged, "subword=\ufffd", "nats") == 2.0


def origins(rows: pl.DataFrame) -> dict[str, str]:
    return {piece.strip(): origin for piece, origin in rows.select("subword", "origin").iter_rows()}


def test_bare_calls_only_makes_method_calls_external(study) -> None:
    text = "obj.inner(1); inner[2]; inner(3)"
    assert origins(study(there=THERE).observe("obj.inner(1)"))["inner"] == "internal"
    quirk = study(there=THERE, quirks=only("codetokenizers.bare_calls_only"))
    assert origins(quirk.observe("obj.inner(1)"))["inner"] == "external"
    assert origins(quirk.observe("obj.inner(1)"))["("] == "external"
    assert origins(quirk.observe(text))["3"] == "internal"


def test_argument_names_flag_arguments_by_their_name_alone(study) -> None:
    text = "outside(named, other)"
    assert origins(study(there=THERE).observe(text))["named"] == "external"
    flagged = origins(study(there=THERE, quirks=only("codetokenizers.argument_names")).observe(text))
    assert (flagged["named"], flagged["other"], flagged["outside"]) == ("internal", "external", "external")


def test_local_calls_are_apart_and_in_the_paper_external(study) -> None:
    text = "def own(): ...\nown()"
    called = pl.col("tag") == "call -> identifier"
    assert study().observe(text).filter(called)["origin"].to_list() == ["local"]
    quirk = study(quirks=only("perplexed.local_is_external"))
    assert quirk.observe(text).filter(called)["origin"].to_list() == ["external"]


def test_unweighted_reports_the_papers_summary_alone(study) -> None:
    rows = [
        study(there=THERE).observe(f"inner({n}); outside({n})", item_id=str(n), cluster=str(n))
        for n in range(4)
    ]
    one = {"min_count": 1}
    names = {
        quirks: set(
            study(options=one, quirks=quirks)
            .score(*rows)
            .filter(pl.col("slice") == "origin=internal-external")["name"]
        )
        for quirks in (frozenset[str](), only("perplexed.unweighted"))
    }
    every = {"count", "count_common", "unweighted", "standardised_external", "standardised_internal"}
    assert names[frozenset()] == every
    assert names[only("perplexed.unweighted")] == {"unweighted"}


def test_call_tags_leave_other_tags_out(study) -> None:
    rows = study(there=THERE).observe("inner(a + 1); outside(b + 2)")
    one = {"min_count": 1}
    wide = study(options=one).score(rows)["slice"]
    narrow = study(options=one, quirks=only("perplexed.call_tags")).score(rows)["slice"]
    assert wide.str.contains("tag=binary_operator").any()
    compared = narrow.filter(narrow.str.starts_with("origin=internal-external;tag=")).to_list()
    assert compared
    assert all(";tag=call -> " in name or ";tag=argument_list -> " in name for name in compared)
