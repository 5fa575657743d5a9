"""The sections of the attention lens on scores and misses written by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report.synthetic import HOSTILE, Source, dims, write_run

from sonde.report import PLOTS, RunData, to_sized_spec, to_svg, write_report
from sonde.report.section import Figure
from sonde.results.scores import Score, scores_to_frame
from sonde.store.run_folder import RunDirectory

MODELS = {"org/sees-all": "encoder", "org/looks-back": "decoder"}
NAMES = sorted(name for name in PLOTS.names() if name.startswith("attention_"))
SHARES = {"If:if->test": (0.9, 0.8), "If:if->body": (0.2, 0.5), "Try:body->handler": (0.4, 0.4)}
"""Relation: share of the best head, of the better baseline."""


def row(model: str, metric: str, value: float, **more: Any) -> Score:
    ends = {"ci_low": value - 0.05, "ci_high": value + 0.05, "ci_method": "clustered jackknife"}
    fields: dict[str, Any] = {
        "split": "test", "language": "python", "n": 500, "n_clusters": 40, "side": MODELS[model],
        "k": 1, **ends,
    }  # fmt: skip
    return Score(model=model, lens="attention", metric=metric, value=value, **(fields | more))


def scores_of(model: str) -> list[Score]:
    found = [
        row(model, "items", 90.0, dimensions=(), split="all", side=""),
        row(model, "items", 7.0, dimensions=dims(dropped="longer than the context"), split="all", side=""),
        row(model, "edges", 0.0, dimensions=dims(relation="With:item->body"), split="valid", n=0),
        row(model, "edges", 3.0, dimensions=dims(relation="With:item->body"), n=3),
        row(model, "first_hit", 0.9, dimensions=dims(followed="If:if->test"), layer=1, head=2),
        row(model, "first_hit", 0.1, dimensions=dims(followed="If:if->body"), layer=0, head=0),
        row(model, "sink_first", 0.45, layer=0, head=1, split="all"),
        row(model, "sink_first", 0.05, layer=1, head=2, split="all"),
        row(model, "mean_offset", 1.0, dimensions=dims(relation="If:if->test", distance="near"), split="all"),
        row(model, "mean_offset", 31.5, dimensions=dims(relation="If:if->body", distance="far"), split="all"),
    ]
    if MODELS[model] == "encoder":
        found.append(row(model, "sink_separator", 0.3, layer=0, head=1, split="all"))
        found.append(row(model, "sink_separator", 0.1, layer=1, head=2, split="all"))
    for place, (name, (own, _)) in enumerate(SHARES.items()):
        bare = {"dimensions": dims(by_head=name), "ci_low": None, "ci_high": None, "ci_method": None}
        found.append(row(model, "first_hit", own, layer=1, head=2, **bare))
        found.append(row(model, "first_hit", 0.01 * place, layer=0, head=1, **bare))
    for metric in ("first_hit", "any_hit", "last_hit"):
        for name, (own, other) in SHARES.items():
            few = {"n_clusters": 3}
            more: dict[str, Any] = {
                "dimensions": dims(relation=name),
                **(few if name.startswith("Try") else {}),
            }
            found.append(row(model, metric, own, layer=1, head=2, **more))
            chosen = {"offset": "+1", "keyword": "if", "combined": "offset", "random_weights": None}
            for control, picked in chosen.items():
                share = {"keyword": 0.05, "random_weights": 0.01}.get(control, other)
                found.append(row(model, metric, share, control=control, chosen=picked, **more))
            ahead = row(model, f"{metric}_gain", own - other, compared_to="combined", layer=1, head=2, **more)
            found.append(ahead)
        for where in ((), dims(distance="near"), dims(distance="far")):
            for k in (1, 3, 10, 20):
                for control, share in (
                    (None, 0.5),
                    ("offset", 0.55),
                    ("combined", 0.6),
                    ("random_weights", 0.1),
                    ("one_head", 0.3),
                    ("longest", 0.04),
                    ("chance", 0.01),
                ):
                    value = min(1.0, share + k / 50)
                    found.append(row(model, metric, value, dimensions=where, control=control, k=k))
            found.append(row(model, f"{metric}_gain", -0.1, dimensions=where, compared_to="combined"))
        found.append(row(model, metric, 0.25, dimensions=dims(average="edges")))
        found.append(row(model, metric, 0.125, dimensions=dims(average="edges"), control="chance"))
    for what, share in (
        (("kind", "keyword"), 0.75), (("kind", "newline"), 0.25), (("situation", "a word in between"), 1.0),
    ):  # fmt: skip
        found.append(row(model, "picked", share, dimensions=(("relation", "If:if->body"), what), n=40))
        found.append(row(model, "picked", share, dimensions=(("relation", "If:if->test"), what), n=4))
    return found


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder and a decoder, with one miss of each."""
    source = Source("evil.py", "f", "evil", HOSTILE)
    models = dict.fromkeys(MODELS, 1.0)
    folder = write_run(tmp_path_factory.mktemp("runs") / "attention", [source], models)
    run = RunDirectory(folder)
    scores_to_frame(score for model in MODELS for score in scores_of(model)).write_parquet(run.scores)
    for model, side in MODELS.items():
        missed = {
            "item_id": source.item_id, "language": "python", "side": side, "relation": "If:if->body",
            "asked": "return", "asked_start": HOSTILE.index("return"), "expected": "x", "picked": "</script>",
            "hit": False, "situation": "a word in between",
        }  # fmt: skip
        part = folder / run.observations("attention.1", model)
        part.mkdir(parents=True)
        rows = [missed, {**missed, "hit": True}, *snippet_rows(side)]
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(part / "part-0.parquet")
    told = run.read_summary()
    arguments = {**told.get("arguments", {}), "options": {"attention": {"snippet": "there/<i>f.py"}}}
    run.write_summary({**told, "arguments": arguments})
    return folder


WORDS = ("if", " \n", "<b>&\x0c", "a", "")
"""A snippet; the last word is empty and is not drawn."""


def snippet_rows(side: str) -> list[dict[str, Any]]:
    """One head with two edges, of which it finds the first, and what its words pay."""
    starts = [0, 2, 4, 9, 10]
    weights = np.full((5, 5), np.nan)
    weights[0, 2], weights[0, 3], weights[2, 3] = 0.25, 0.01, 0.9
    head = {"item_id": "5eed-snippet", "language": "python", "side": side, "layer": 1, "head": 2}
    held = {"words": list(WORDS), "starts": starts, "weights": weights.astype(np.float16).tobytes()}
    places = [
        ("If:if->test", 0, 2, 2, "the first word looked for"),
        ("If:if->body", 0, 3, 2, "a word between"),
    ]
    edges = [
        {
            **head, "relation": relation, "hit": expected == picked, "situation": situation,
            **{
                key: value
                for name, at in (("asked", asked), ("expected", expected), ("picked", picked))
                for key, value in ((name, WORDS[at]), (f"{name}_start", starts[at]))
            },
        }
        for relation, asked, expected, picked, situation in places
    ]  # fmt: skip
    return [*edges, {**head, "relation": "", **held}]


def drawn(root: Path, name: str) -> Figure:
    figure = PLOTS.load(name).draw(RunData(root))
    assert figure is not None
    return figure


def column(figure: Figure, *names: str) -> list[tuple[str, ...]]:
    assert figure.table is not None
    places = [figure.table.titles.index(name) for name in names]
    return [tuple(cells[place].text for place in places) for cells in figure.table.cells()]


def test_the_page_holds_every_section_and_its_charts_are_valid(root: Path) -> None:
    page = write_report(root).read_text(encoding="utf-8")
    assert all(f'<section id="{name}"' in page for name in NAMES) and len(NAMES) == 10
    assert not re.search(r"<img src=x", page)
    charts = [chart for name in NAMES for chart in drawn(root, name).charts]
    assert len({chart.name for chart in charts}) == len(charts) >= 12
    for chart in charts:
        validate_jsonschema(dict(chart.spec), load_schema())


def test_the_summary_says_who_is_ahead_what_was_dropped_and_what_cannot_be_seen(root: Path) -> None:
    figure = drawn(root, "attention_summary")
    # 0.52 and 0.62 at k = 1, and their difference with its interval.
    found = "the best heads find 52.0 [47.0, 57.0] % of the edges, offset or keyword 62.0 [57.0, 67.0] %"
    said = f"sees-all, encoder, first word: {found}"
    assert f"{said} (difference −10.0 [−15.0, −5.0] points)." in figure.lead
    assert (
        "For comparison: one head for all relations 32.0 [27.0, 37.0] %, longest word 6.0 [1.0, 11.0] %, "
        "chance 3.0 [−2.0, 8.0] %." in figure.answer
    )
    assert "Over all edges with equal weight the best heads find 25.0 [20.0, 30.0] %." in figure.answer
    averaged = column(figure, "Predictor", "Mean over", "k = 1, %")
    assert ("best head", "edges", "25.0") in averaged and ("chance", "edges", "12.5") in averaged
    assert ("one head for all relations", "relations", "32.0") in averaged
    assert "any word" in figure.answer and "any word" not in figure.lead
    notes = " ".join(figure.notes)
    assert "90 functions read, 7 dropped (longer than the context)" in notes
    assert "Without an edge in valid (python), so not scored: With:item->body." in notes
    assert "sees only the text before it" in notes
    shares = column(figure, "Of", "Predictor", "Found", *(f"k = {k}, %" for k in (1, 3, 10, 20)))
    assert ("looks-back, decoder", "offset", "any word", "57.0", "61.0", "75.0", "95.0") in shares


def test_relations_stand_beside_what_was_chosen_without_attention(root: Path) -> None:
    figure = drawn(root, "attention_relations")
    answer = "of 3 relations, the best head is ahead of the baselines in 1 (If:if->test)"
    assert (
        f"sees-all, encoder: {answer} and behind in 1 (If:if->body); too little data in 1." in figure.answer
    )
    rows = column(
        figure,
        "Relation",
        "Of",
        "Found",
        "Layer.head",
        "Offset, %",
        "At",
        "Which",
        "Better of both, %",
        "Difference, points",
    )
    expected = ("If:if->test", "sees-all, encoder", "first word", "1.2", "80.0", "+1", "if", "80.0")
    assert (*expected, "10.0 [5.0, 15.0]") in rows
    assert ("3, no verdict",) in column(figure, "Clusters")


def test_heads_offsets_and_curves_say_what_they_hold(root: Path) -> None:
    heads = drawn(root, "attention_heads")
    # No cell has an interval, so that no head is named.
    assert heads.answer.splitlines()[0] == (
        "sees-all, encoder: 2 heads follow 2 relations, each head the one that it finds most of on "
        "validation."
    )
    offsets = drawn(root, "attention_offsets")
    assert "Python: 1 near relation, 1 far one." in offsets.answer
    assert ("If:if->body", "far", "31.5") in column(offsets, "Relation", "Distance", "Mean")
    assert len(drawn(root, "attention_curves").charts) == 4


def test_a_head_is_labelled_with_its_relation_and_named_for_all_it_was_chosen_for(root: Path) -> None:
    heads = drawn(root, "attention_heads")
    labels = {record["relation"]: record["label"] for record in heads.charts[0].spec["data"]["values"]}
    # The head of the second was chosen for none.
    assert labels == {"If:if->test": "If:if->test ●", "If:if->body": "If:if->body"}
    chosen = dict(column(heads, "Best relation", "Chosen for"))
    assert chosen == {"If:if->test": "If:if->body, If:if->test, Try:body->handler", "If:if->body": "–"}


def test_every_head_stands_beside_every_relation_and_the_chosen_one_is_marked(root: Path) -> None:
    figure = drawn(root, "attention_matrix")
    assert "sees-all, encoder: 1 of 2 heads is the chosen one of 3 relations" in figure.answer
    records = figure.charts[0].spec["data"]["values"]
    assert {(one["relation"], one["place"]): (one["value"], one["mark"]) for one in records} == {
        ("If:if->test", "1.2"): (0.9, "●"), ("If:if->test", "0.1"): (0.0, ""),
        ("If:if->body", "1.2"): (0.2, "●"), ("If:if->body", "0.1"): (0.01, ""),
        ("Try:body->handler", "1.2"): (0.4, "●"), ("Try:body->handler", "0.1"): (0.02, ""),
    }  # fmt: skip
    assert len(column(figure, "Relation", "Layer", "Head", "Found, %")) == 2 * len(records)


def test_heads_at_rest_are_counted_over_both_kinds_of_sink(root: Path) -> None:
    figure = drawn(root, "attention_sinks")
    both, alone = figure.answer.splitlines()
    assert both == (
        "sees-all, encoder: heads pay 25.0 [20.0, 30.0] % to the first token and 20.0 [15.0, 25.0] % to the "
        "separators on average; 1 of 2 surely pays more than half there (0 of them are the chosen head of a "
        "relation), 1 surely less."
    )
    assert alone.endswith(
        "heads pay 25.0 [20.0, 30.0] % to the first token on average; 0 of 2 surely pay more than half "
        "there, 1 surely less; no difference found in 1 (7.9 points or more would have been found)."
    )
    assert len(figure.charts) == 3


def test_the_figure_for_a_talk_has_few_relations_in_large_type(root: Path) -> None:
    chart = drawn(root, "attention_talk").charts[0]
    # Only two relations allow a verdict, so that all are taken.
    assert {one["relation"] for one in chart.spec["data"]["values"]} == {
        "If: if → test", "If: if → body", "Try: body → handler",
    }  # fmt: skip
    assert {one["whose"] for one in chart.spec["data"]["values"]} == {
        "best attention head",
        "best fixed rule (a distance or a keyword)",
        "best head, untrained model",
    }
    assert to_sized_spec(chart)["title"] == {
        "text": "Do attention heads find syntax? sees-all, encoder",
        "fontSize": 24,
    }
    assert 'font-size="20px"' in to_svg(chart)


def test_misses_are_counted_and_shown(root: Path) -> None:
    figure = drawn(root, "attention_errors")
    assert (
        "sees-all, encoder: over 40 misses of the best heads, of the 2 kinds of word, keyword "
        "(75.0 [70.0, 80.0] %) is picked most often." in figure.answer
    )
    picked = column(figure, "Relation", "Picked", "Misses")
    assert ("If:if->test", "keyword", "4") in picked
    examples = [text for _, text, misses in picked if not misses]
    assert len(examples) == len(MODELS)
    assert all("looked for “x”, picked “</script>” (a word in between)" in text for text in examples)
    charted = {record["relation"] for chart in figure.charts for record in chart.spec["data"]["values"]}
    assert charted == {"If:if->body"}


def test_a_snippet_is_drawn_with_what_is_found_and_what_is_missed(root: Path) -> None:
    figure = drawn(root, "attention_snippet")
    said = "sees-all, encoder: of 2 edges in <i>f.py the best heads find 1 at once (first word"
    assert said in figure.answer and len(figure.answer.splitlines()) == len(MODELS)
    rows = column(figure, "Relation", "Layer.head", "Asked", "Looked for", "Ranked first", "Found")
    assert ("If:if->test", "1.2", "if", "<b>&␌", "<b>&␌", "yes") in rows
    assert ("If:if->body", "1.2", "if", "a", "<b>&␌", "no: a word between") in rows
    assert len(figure.drawings) == 2 * len(MODELS)
    arcs, heat = (ElementTree.fromstring(drawing.svg) for drawing in figure.drawings[:2])
    texts = [text.text for text in arcs.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["if", "␣↵", "<b>&·", "a"]
    # One arc for what is found; for what is missed one to each of what is picked and what was looked for.
    paths = [
        (path.get("stroke-dasharray"), path[0].text) for path in arcs.iter("{http://www.w3.org/2000/svg}path")
    ]
    head = "(head 2 of layer 1): from “if”"
    assert sorted(told for dashed, told in paths if not dashed) == [
        f"If:if->body {head}, looked for “a”",
        f"If:if->test {head} to “<b>&·”",
    ]
    assert [told for dashed, told in paths if dashed] == [f"If:if->body {head} to “<b>&·”"]
    # Shares under 2 % are not drawn; the colour grows with the share.
    fields = [one for one in heat.iter("{http://www.w3.org/2000/svg}rect") if len(one)]
    assert {field[0].text: field.get("fill")[:12] for field in fields} == {  # type: ignore[index]
        "“if” to “<b>&·”: 25 %": "var(--heat-4",
        "“<b>&·” to “a”: 90 %": "var(--heat-8",
    }


def test_without_a_snippet_there_is_no_section(root: Path, tmp_path: Path) -> None:
    source = Source("a.py", "f", "evil", HOSTILE)
    folder = write_run(tmp_path / "plain", [source], dict.fromkeys(MODELS, 1.0))
    assert PLOTS.load("attention_snippet").draw(RunData(folder)) is None


def test_examples_of_misses_are_not_those_of_the_snippet(root: Path) -> None:
    figure = drawn(root, "attention_errors")
    assert all("a word between" not in text for (text,) in column(figure, "Picked"))
