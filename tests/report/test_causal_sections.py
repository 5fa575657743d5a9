"""The sections of interventions on scores written by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report import test_causal_depth_sections as depth
from tests.report.synthetic import dims, write_run

from sonde.lenses.causal.findings import (
    ABSENT,
    BETWEEN,
    ENCODED,
    UNMEASURED,
    UNTOLD,
    USED,
    ErasedProperty,
    collect_erasures,
    lead_sentences,
)
from sonde.report import answer_by_lens, write_report
from sonde.report.run_tables import RunData
from sonde.report.section import PLOTS
from sonde.results.schema import Dimensions
from sonde.results.scores import Score, scores_to_frame
from sonde.store.run_folder import RunDirectory

NAMES = sorted(name for name in PLOTS.names() if name.startswith("causal_"))
BEST = dims(selection="best")
WIDTH = 0.02


def score(task: str, metric: str, value: float, where: Dimensions = (), **more: object) -> Score:
    fields: dict[str, object] = {
        "model": "org/m", "lens": "causal", "task": task, "language": "python", "metric": metric,
        "dimensions": where, "value": value, "n": 900, "n_clusters": 40, "effective_clusters": 25.0,
        "ci_low": value - WIDTH, "ci_high": value + WIDTH, "split": "test", "method": "erase",
    }  # fmt: skip
    return Score(**{**fields, **more})  # type: ignore[arg-type]


CONTROL_COSTS = {"donors": 0.01, "control_task": 0.02, "uniform": 0.005, "as_wide": 0.05}


def measured(task: str, cost: float, layer: int = 2, **more: Any) -> Iterator[Score]:
    """What is known of a property of tokens at its layer."""
    yield score(task, "bits_before", 3.0)
    yield score(task, "bits", cost, BEST, layer=layer, **more)
    yield score(task, "top1_excess", cost / 10, BEST, layer=layer, control="as_wide", **more)
    for control, own in CONTROL_COSTS.items():
        held = {"layer": layer, "control": control, "seeds": 10, **more}
        yield score(task, "bits", own, BEST, **held)
        yield score(task, "excess", cost - own, BEST, df=20.0, **held)
    for control in ("uniform", "as_wide"):
        alike = score(task, "overlap", 0.05, BEST, layer=layer, control=control, n=10)
        yield dataclasses.replace(alike, ci_low=None, ci_high=None)
        yield score(task, "realised_change", 1.0, BEST, layer=layer, control=control, **more)
    for control in ("majority", "control_task"):
        yield score(task, "gain", 0.4, dims(selection="erased"), layer=layer, control=control, **more)


def scores(clusters: float) -> Iterator[Score]:
    """Identifiers are used; block depth is held; relations have heads."""
    own: dict[str, Any] = {"effective_clusters": clusters}
    for task, cost in (("idn", 0.2), ("block_depth", 0.005)):
        for layer in range(3):
            yield score(task, "bits", cost * layer / 2, layer=layer, **own)
            yield score(task, "accuracy", 0.5 + 0.2 * layer, layer=layer)
            yield score(task, "accuracy", 0.5 + 0.2 * layer, dims(erased="nothing"), layer=layer)
            yield score(task, "accuracy", 0.5, dims(erased=str(layer)), layer=layer)
        yield score(task, "accuracy", 0.4, dims(erased="nothing"), control="majority")
        yield score(task, "accuracy", 0.8, dims(erased="1"), layer=2)
        yield score(task, "accuracy", 0.5, control="majority")
        yield from measured(task, cost, **own)
        yield score(task, "excess", 0.3, dims(construct="call"), layer=2, control="as_wide", **own)
        at = (*BEST, *dims(construct="call", where="here-elsewhere"))
        apart = 0.25 if task == "idn" else 0.01
        yield score(task, "apart", apart, at, layer=2, control="as_wide", df=20.0, **own)
        other = "block_depth" if task == "idn" else "idn"
        behind = dims(erased="2", erased_property=task)
        yield score(other, "gain", -cost / 2, behind, layer=2, control="as_wide", **own)
        yield score(task, "hits_excess", cost / 4, layer=2, control="as_wide", **own)
    for relation, here in (("If:if->test", 0.4), ("For:for->body", -0.3), ("With:with->body", 0.01)):
        for where, value in (("here", here), ("elsewhere", 0.01)):
            at = dims(relation=relation, where=where)
            held: dict[str, Any] = {"method": "ablate", "layer": 2, "head": 1, "df": 20.0, **own}
            yield score("syntax_relations", "bits", value + 0.1, at, **held)
            yield score("syntax_relations", "excess", value, at, control="random", **held)
            yield score("syntax_relations", "top1_lost", value / 10, at, control="random", **held)
            yield score("syntax_relations", "top1_excess", value / 10, at, control="random", **held)
    together = dims(relation="all of them")
    yield score("syntax_relations", "excess", 0.7, together, control="random", method="ablate", **own)


def run_of(folder: Path, clusters: float = 25.0, more: Sequence[Score] = ()) -> RunData:
    root = write_run(folder / "run", [], {"org/m": 1.0})
    scores_to_frame([*scores(clusters), *more]).write_parquet(RunDirectory(root).scores)
    return RunData(root)


def test_the_first_sentence_says_what_is_used_and_what_is_only_encoded(tmp_path: Path) -> None:
    figure = PLOTS.load("causal_uses").draw(run_of(tmp_path))
    assert figure is not None and figure.table is not None
    assert figure.lead == (
        "m uses identifier type: erasing identifier type at layer 2 costs 0.200 [0.180, 0.220] "
        "bits per subword, 6.7 % of surprisal, compared with labels of other functions 0.0100 "
        "[−0.0100, 0.0300], a random class for each word 0.0200 [0.0000, 0.0400], random directions 0.0050 "
        "[−0.0150, 0.0250] and matched directions 0.0500 [0.0300, 0.0700]. The least certain difference is "
        "that to matched directions: +0.150 [+0.130, +0.170]. It encodes but is not seen to use block depth: "
        "a probe of layer 2 is right on 90.0 % of block depth (the commonest class 50.0 %), yet erasing it "
        "there costs 0.0050 [−0.0150, 0.0250] bits per subword, surely less than 1 % of surprisal (0.030)."
    )
    assert "In call, chosen on validation, it costs 0.250 [0.230, 0.270] bits further" in figure.answer
    # What cannot be told from zero is not said to cost the most.
    assert figure.answer.count("In call") == 1
    said = [row[2].text for row in figure.table.cells()]
    assert said == ["used", "encoded but not seen to be used"]
    assert any("matched directions: 10 draws overlap by 0.05, and move" in note for note in figure.notes)


def test_few_clusters_allow_no_verdict(tmp_path: Path) -> None:
    figure = PLOTS.load("causal_uses").draw(run_of(tmp_path, clusters=4.0))
    assert figure is not None
    assert figure.lead.startswith("Too little data on whether m uses what it knows: identifier type (4 eff")


def judged(more: Sequence[Score]) -> ErasedProperty:
    ((_, _, (one,)),) = collect_erasures(scores_to_frame(more))
    return one


def changed(
    cost: float, width: float = WIDTH, wide: float = 0.05, before: float = 3.0, gain: float = 0.4
) -> list[Score]:
    """A property that costs something beside directions that cost something."""
    found: list[Score] = []
    for one in measured("idn", cost):
        value, ends = one.value, width if one.metric in ("bits", "excess") else WIDTH
        if one.metric == "excess" and one.control == "as_wide":
            value = cost - wide
        if one.metric == "bits" and one.control == "as_wide":
            value = wide
        if one.metric == "bits_before":
            value = before
        if one.metric == "gain" and one.control == "control_task":
            value = gain
        low, high = (None, None) if one.ci_low is None else (value - ends, value + ends)
        found.append(
            dataclasses.replace(one, value=value, ci_low=low, ci_high=high, effective_clusters=30.0)
        )  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("scores", "kind"),
    [
        (changed(0.15), USED),
        # Sure to cost something, and as little as any change of untrained weights.
        (changed(0.008, 0.006, before=13.0), ENCODED),
        (changed(0.0, 0.02), ENCODED),
        # More than labels and uniform directions, and less than matched directions.
        (changed(0.15, wide=0.3), BETWEEN),
        (changed(0.15, wide=0.145), BETWEEN),
        # May cost nothing, or much.
        (changed(0.05, 0.2), UNTOLD),
        # As a class per word is learned as well, the probe says nothing of the property.
        (changed(0.15, gain=0.0), ABSENT),
    ],
)
def test_a_cost_is_held_against_every_control_and_what_would_be_noticeable(
    scores: list[Score], kind: str
) -> None:
    assert judged(scores).kind == kind


@pytest.mark.parametrize("left", ["donors", "control_task", "uniform", "as_wide"])
def test_no_control_can_be_left_out(left: str) -> None:
    rest = [one for one in changed(0.15) if not (one.metric == "excess" and one.control == left)]
    assert judged(rest).kind == UNMEASURED


def test_what_is_asked_at_once_is_adjusted_together() -> None:
    """A property that is sure enough alone is not among many of which nothing is known."""
    alone = changed(0.09, 0.038)
    assert judged(alone).kind == USED
    many = [
        dataclasses.replace(one, task=f"other{at}")
        for at in range(8) for one in changed(0.051, 0.038)
    ]  # fmt: skip
    ((_, _, found),) = collect_erasures(scores_to_frame([*alone, *many]))
    assert {one.task: one.kind for one in found}["idn"] == BETWEEN


def test_the_sentence_of_what_lies_between_names_the_control() -> None:
    wide, near = (lead_sentences("m", [judged(changed(0.15, wide=other))]) for other in (0.3, 0.145))
    assert wide == (
        "m encodes, and may or may not use, identifier type: erasing identifier type at "
        "layer 2 costs 0.150 [0.130, 0.170] bits per subword, 5.0 % of surprisal, less than matched "
        "directions, 0.300 [0.280, 0.320] (difference −0.150 [−0.170, −0.130])."
    )
    assert "5.0 % of surprisal, no difference found from matched directions, 0.145" in near


def test_what_later_layers_rebuild_and_what_heads_cost(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    rebuilt, heads = (PLOTS.load(name).draw(run) for name in ("causal_rebuilt", "causal_heads"))
    assert rebuilt is not None and heads is not None
    assert rebuilt.answer.splitlines()[0] == (
        "identifier type: erased at layer 1, a new probe finds 50.0 [48.0, 52.0] % there (the "
        "commonest class 40.0 %) and 80.0 [78.0, 82.0] % at layer 2, where it finds 90.0 [88.0, 92.0] % with "
        "nothing erased."
    )
    assert "of 3 relations, ablating the best head surely costs more" in heads.answer
    assert "in 1 (If:if->test), less in 1 (For:for->body); no difference found in 1 (" in heads.answer
    assert "all chosen heads at once cost +0.700 [+0.680, +0.720] bits" in heads.answer
    assert heads.table is not None
    rows = [row for row in heads.table.cells() if row[0].text == "If:if->test"]
    shown = {(row[4].text, row[5].text): row[6].text for row in rows}
    assert shown["here", "points of right subwords lost, difference from other heads"] == "4.000"


def test_the_first_screen_goes_by_the_paired_excess_and_else_by_the_last_layer(tmp_path: Path) -> None:
    (found,) = answer_by_lens(run_of(tmp_path))
    assert found.gain is not None and found.gain["metric"] == "excess"
    assert found.verdict.startswith(
        "Erasing identifier type (IDN) costs more than erasing as much of something else (0.20 added bits "
        "per subword; best control, matched directions, 0.05); worse than the best control for block depth. "
        "Middle task, block depth: "
    )
    root = write_run(tmp_path / "layers", [], {"m": 1.0})
    layers = [dataclasses.replace(one, n_eff=None) for one in depth.layered()]
    scores_to_frame(layers).write_parquet(RunDirectory(root).scores)
    (found,) = answer_by_lens(RunData(root))
    assert found.verdict == (
        "Last layers beat subword frequency in training: "
        "3.00 [2.90, 3.10] compared with 9.00 [8.80, 9.20] bits per subword"
    )


def test_what_else_an_erasure_takes_stands_beside_directions_as_wide(tmp_path: Path) -> None:
    figure = PLOTS.load("causal_others").draw(run_of(tmp_path))
    assert figure is not None and figure.table is not None
    assert figure.answer.splitlines() == [
        "identifier type erased: probes of block depth lose 10.0 [8.0, 12.0] points more than with "
        "matched directions.",
        "identifier type erased: heads that follow relations lose 5.0 [3.0, 7.0] points more than with "
        "matched directions.",
        "Of 4 compared with matched directions: no difference found in 2 (2.8 points or more would have been "
        "found in each).",
    ]
    assert len(list(figure.table.cells())) == 4


def test_charts_are_valid_and_stand_on_the_page(tmp_path: Path) -> None:
    more = [dataclasses.replace(one, model="org/m") for one in (*depth.layered(), *depth.patched(6.0))]
    run = run_of(tmp_path, more=more)
    for name in NAMES:
        figure = PLOTS.load(name).draw(run)
        assert figure is not None and figure.charts, name
        for chart in figure.charts:
            validate_jsonschema({**chart.spec, "$schema": "s"}, load_schema())
    page = write_report(run.directory.root).read_text(encoding="utf-8")
    assert "m uses identifier type" in page
    assert "what later layers rebuild" in page


@pytest.mark.parametrize("name", NAMES)
def test_a_run_without_interventions_shows_nothing(name: str, tmp_path: Path) -> None:
    assert PLOTS.load(name).draw(RunData(write_run(tmp_path / "empty", [], {"m": 1.0}))) is None
