"""The explorer of tokens: what it shows of single functions is what the tables of the run hold."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import expect
from tests.report.browser import needs_browser, opened
from tests.report.synthetic import Source, write_run
from tests.report.test_run import observed

from sonde.comparison.compare import CHANGED_ITEM_COLUMNS
from sonde.comparison.differences import differences_to_frame
from sonde.languages import LANGUAGES
from sonde.report import explorer, write_report
from sonde.report.explorer import ExplorerLimits, build_explorer_data, choose_functions
from sonde.report.headlines import load_titles
from sonde.report.run_tables import RunData
from sonde.report.section import TokenLens
from sonde.store.run_folder import RunDirectory

DECODER = "sonde_mini-decoder"


def lenses(run: RunData) -> dict[str, TokenLens]:
    return {lens: one.tokens for lens, one in load_titles(run).items() if one.tokens}


def packed_of(root: Path, **limits: int) -> dict[str, Any]:
    data = build_explorer_data(RunData(root), ExplorerLimits(**limits))
    assert data is not None
    return data


def bits_of(frame: pl.DataFrame) -> dict[str, float]:
    return {
        str(item): part["nats"].cast(pl.Float64).sum() / part["bytes"].cast(pl.Int64).sum()
        for (item,), part in frame.partition_by("item_id", as_dict=True).items()
    }


def test_functions_are_hard_easy_ordinary_and_drawn(run_directory: Path) -> None:
    run = RunData(run_directory)
    limits = ExplorerLimits(worst=3, best=2, median=2, by_lens=0, by_hash=4, subwords=1)
    chosen, _ = choose_functions(run, lenses(run), limits)
    reasons = [reason for _, reason in chosen]
    assert [reasons.count(why) for why in ("worst", "best", "median", "random sample")] == [3, 2, 2, 4]
    rates = bits_of(observed(run_directory))
    order = sorted(rates, key=lambda item: -rates[item])
    assert {item for item, why in chosen if why == "worst"} == set(order[:3])
    assert {item for item, why in chosen if why == "best"} == set(order[-2:])


def test_the_page_opens_on_a_function_of_ordinary_difficulty_and_length(run_directory: Path) -> None:
    data = packed_of(run_directory)
    opened_on = data["items"][data["opened"]]
    assert 300 <= len(opened_on["text"]) + opened_on["cut"] <= 1500
    rates = bits_of(observed(run_directory))
    order = sorted(rates.values())
    rank = order.index(rates[opened_on["id"]]) / len(order)
    assert 0.35 < rank < 0.65


def test_it_keeps_within_its_limits(run_directory: Path) -> None:
    data = packed_of(run_directory, characters=120, json_characters=24_000)
    assert 0 < len(data["items"]) < 40
    assert all(len(item["text"]) <= 120 for item in data["items"])
    assert any(item["cut"] for item in data["items"])
    assert all(max(item["tokens"], default=0) <= 120 for item in data["items"])
    (surprisal,) = data["findings"]
    rates = surprisal["summaries"][DECODER]
    assert rates == sorted(rates, reverse=True)


def test_its_subwords_are_the_observations(run_directory: Path) -> None:
    data = packed_of(run_directory)
    place = next(place for place, item in enumerate(data["items"]) if not item["cut"])
    rows = observed(run_directory).filter(pl.col("item_id") == data["items"][place]["id"]).sort("position")
    (surprisal,) = data["findings"]
    at = {name: index for index, name in enumerate(surprisal["columns"], start=2)}
    pieces = surprisal["rows"][DECODER][place]
    assert [data["strings"][piece[at["subword"]]] for piece in pieces] == rows["subword"].to_list()
    for piece, row in zip(pieces, rows.iter_rows(named=True), strict=True):
        assert math.isclose(piece[at["bits"]], row["nats"] / math.log(2), abs_tol=6e-4)
        assert piece[at["rank"]] == row["rank"]
        top = piece[at["top"]]
        assert [data["strings"][index] for index in top[::2]] == row["top"]
        assert math.isclose(top[1], 1000 * math.exp(-row["top_nats"][0]), abs_tol=0.06)


def test_its_tree_and_tokens_are_those_of_the_parser(run_directory: Path) -> None:
    data = packed_of(run_directory)
    python = LANGUAGES.load("python")
    for item in data["items"]:
        if item["cut"]:
            continue
        tree = python.parse(item["text"])
        tokens = python.tokens(tree)
        assert item["tokens"][::2] == tokens.start.tolist() and item["tokens"][1::2] == tokens.end.tolist()
        kinds = [data["strings"][kind] for kind in item["nodes"][1::4]]
        named = [node for node in range(len(tree)) if tree.named[node]]
        assert kinds == [tree.kind_name(node) for node in named]
        depths = [sum(bool(tree.named[above]) for above in tree.ancestors(node)) for node in named]
        assert item["nodes"][::4] == depths


def test_without_a_number_of_difficulty_a_random_sample_is_shown(run_directory: Path) -> None:
    run = RunData(run_directory)
    ids = sorted(bits_of(observed(run_directory)))
    offered = {
        name: TokenLens(known=lambda _, own=own: own, findings=lambda *_: None)
        for name, own in (("one", ids[:30]), ("other", ids[25:40]))
    }
    chosen, first = choose_functions(run, offered, ExplorerLimits(by_lens=2, by_hash=5))
    reasons = [why for _, why in chosen]
    assert set(reasons) == {"every lens", "random sample"} and reasons.count("random sample") == 5
    # Of each lens those first that the other lens speaks of too.
    assert {item for item, why in chosen if why == "every lens"} <= set(ids[25:30])
    assert first in {item for item, _ in chosen}


def write_comparison_files(root: Path, changed: pl.DataFrame) -> None:
    """Write the finished comparison of a run's models, without differences."""
    folder = root / "comparison"
    folder.mkdir(exist_ok=True)
    differences_to_frame([]).write_parquet(folder / "comparison.parquet")
    changed.write_parquet(folder / "moved.parquet")
    held = RunDirectory(root)
    held.write_summary({**held.read_summary(), "scores_key": "scores"})
    facts = {"of": "scores", "comparisons": []}
    (folder / "comparison.json").write_text(json.dumps(facts), encoding="utf-8")


PLACE = """([element]) => {
  let at = 0;
  for (const one of element.parentElement.childNodes) {
    if (one === element) return at;
    if (one.className !== "ex-title") at += one.textContent.length;
  }
}"""
CHOOSE = """(named) => {
  const control = document.querySelector(named[0]);
  const wanted = [...control.options].find((option) => option.textContent.includes(named[1]));
  control.value = wanted.value;
  control.dispatchEvent(new Event("change"));
}"""


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_two_models_beside_each_other_and_their_difference(
    pair_directory: Path, tmp_path: Path, dark: bool
) -> None:
    text = write_report(pair_directory).read_text(encoding="utf-8")
    run = RunDirectory(pair_directory)
    tables = [
        pl.read_parquet(pair_directory / run.observations("surprisal", model) / "part-0.parquet")
        for model in ("sonde/mini-decoder", "org/other model")
    ]
    with opened(text, tmp_path, width=1300, dark=dark) as page:
        page.evaluate(CHOOSE, [".ex-beside", "other model"])
        expect(page.locator(".ex-code")).to_have_count(2)
        page.evaluate(CHOOSE, [".ex-beside", "difference from"])
        expect(page.locator(".ex-title").nth(1)).to_contain_text("less")
        different = page.locator(".ex-code").nth(1).locator(".t[class*='more'], .t[class*='less']")
        assert different.count() > 3
        chosen = different.nth(2)
        chosen.hover()
        told = page.locator(".ex-detail")
        expect(told).to_contain_text("over this code token")
        shown = float(re.findall(r"([+-]?[0-9.]+) bits", told.inner_text())[-1])
        token = chosen.text_content() or ""
        start = page.evaluate(PLACE, [chosen.element_handle()])
        item = json.loads(re.search(r'id="data-explorer">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
        held = item["items"][item["opened"]]["id"]
        own = [
            table.filter(
                (pl.col("item_id") == held) & (pl.col("end") > start) & (pl.col("end") <= start + len(token))
            )["nats"]
            .cast(pl.Float64)
            .sum()
            / math.log(2)
            for table in tables
        ]
        assert math.isclose(shown, own[0] - own[1], abs_tol=0.02)
        # A number whose difference means nothing has none.
        page.evaluate(CHOOSE, [".ex-colour", "Rank"])
        expect(page.locator(".ex-title").nth(1)).to_contain_text("No difference")


@pytest.mark.slow
@needs_browser
def test_models_of_different_tokenizers_differ_by_code_token(tmp_path: Path, sources: list[Source]) -> None:
    models = {"org/words": 1.0, "org/threes": 1.4}
    root = write_run(tmp_path / "run", sources[::6], models, {"org/threes": re.compile(r"(?s).{1,3}")})
    text = write_report(root).read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data-explorer">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    item = data["items"][data["opened"]]
    run = RunDirectory(root)
    # Without logits those code tokens have a cost that begin and end where subwords of both models do.
    costs = [
        {
            unit["start"]: unit["piece_nats"] / math.log(2)
            for row in pl.read_parquet(root / run.observations("surprisal", model) / "part-0.parquet").filter(
                (pl.col("item_id") == item["id"]) & pl.col("units").is_not_null()
            )["units"]
            for unit in row
            if unit["piece_nats"] is not None and unit["end"] <= len(item["text"])
        }
        for model in models
    ]
    differences = {start: costs[0][start] - costs[1][start] for start in costs[0].keys() & costs[1].keys()}
    order = sorted(differences, key=lambda start: differences[start])
    wanted = [start for start in order if differences[start] < 0][:2]
    wanted += [start for start in order[::-1] if differences[start] > 0][:2]
    assert len(wanted) == 4
    with opened(text, tmp_path, width=1300) as page:
        page.evaluate(CHOOSE, [".ex-model", "words"])
        page.evaluate(CHOOSE, [".ex-beside", "difference from threes"])
        lines = page.locator(".ex-worst tr:has(button)")
        expect(lines).to_have_count(4)
        for start, line in zip(wanted, lines.all(), strict=True):
            shown = [float(cell) for cell in line.locator(".num").all_inner_texts()]
            assert shown == pytest.approx([costs[0][start], costs[1][start], differences[start]], abs=0.011)
        # Its place is chosen in the code, and the difference is told there too.
        lines.last.locator("button").click()
        expect(page.locator(".ex-detail")).to_contain_text("over this code token")
        told = re.findall(r"([+-]?[0-9.]+) bits", page.locator(".ex-detail").inner_text())
        assert float(told[-1]) == pytest.approx(differences[wanted[-1]], abs=0.011)


def test_functions_at_which_models_differ_most_are_shown(tmp_path: Path, sources: list[Source]) -> None:
    root = write_run(tmp_path / "run", sources[::3], {"sonde/mini-decoder": 1.0, "org/other": 0.7})
    ids = sorted(bits_of(observed(root)))
    rows = [
        {"of": "place", "item_id": ids[place], "start": 3, "end": 5, "difference": difference}
        for place, difference in ((4, 9.0), (4, 8.0), (5, 7.0), (6, -2.0), (7, -1.0), (8, 6.0))
    ]
    rows.append({"of": "item", "item_id": ids[9], "start": None, "end": None, "difference": 99.0})
    empty = pl.DataFrame(schema={name: kind for name, (kind, _) in CHANGED_ITEM_COLUMNS.items()})
    changed = pl.concat([empty, pl.DataFrame(rows)], how="diagonal_relaxed")
    write_comparison_files(root, changed)
    run = RunData(root)
    chosen, first = choose_functions(run, lenses(run), ExplorerLimits(worst=0, best=0, median=0, differ=4))
    named = [item for item, why in chosen if why == "models differ"]
    # The directions take turns.
    assert named == [ids[4], ids[6], ids[7], ids[5]]
    assert first not in named


@pytest.mark.slow
@needs_browser
def test_keys_colours_tree_and_address(report: Path, tmp_path: Path) -> None:
    with opened(report.read_text(encoding="utf-8"), tmp_path, width=1300) as page:
        code = page.locator(".ex-code")
        name = page.locator(".ex-name").inner_text()
        code.press("n")
        expect(page.locator(".ex-name")).not_to_have_text(name)
        code.press("p")
        expect(page.locator(".ex-name")).to_have_text(name)
        code.press("c")
        expect(page.locator(".ex-unit")).to_have_text("rank")
        code.press("t")
        expect(page.locator(".ex-node").nth(5)).to_be_attached()
        page.locator(".ex-code .t").nth(4).click()
        expect(page.locator(".ex-node.holds").first).to_be_visible()
        # A node shows what it covers, and the root covers all.
        page.locator(".ex-node").first.hover()
        assert page.locator(".ex-code .t.node").count() == page.locator(".ex-code .t").count()
        address = page.evaluate("location.hash")
        assert re.fullmatch(r"#token=[0-9a-f]+:[0-9]+", address)
        token = page.locator(".ex-code .t.on").text_content()
        page.evaluate("location.reload()")
        page.wait_for_selector(".ex-code .t.on")
        assert page.locator(".ex-code .t.on").text_content() == token


def test_notes_of_lenses_are_sentences_of_their_own(
    run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes stand one after the other in a paragraph: those of lenses ran into each other."""
    data = packed_of(run_directory)
    data["findings"] = [{"label": label, "note": "it says this"} for label in ("Attention", "Probes")]
    monkeypatch.setattr(explorer, "build_explorer_data", lambda run, limits: data)
    figure = explorer.plot.draw(RunData(run_directory))
    assert figure is not None
    assert [note[-1] for note in figure.notes] == [".", ".", "."]
