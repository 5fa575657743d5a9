"""The sections of interventions on scores written by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report import test_causal_depth_sections as depth
from tests.report.synthetic import dims, write_run

from sonde.lenses.causal.findings import HELD, OPEN, USED, erased_of
from sonde.report import build_report, first_screen
from sonde.report._shared.plot import PLOTS
from sonde.report._shared.run import RunData
from sonde.results.dimensions import Dimensions
from sonde.results.scores import Score, scores_frame
from sonde.store.rundir import RunDirectory

NAMES = sorted(name for name in PLOTS.names() if name.startswith("causal_"))
BEST = dims(selection="best")


def score(task: str, metric: str, value: float, where: Dimensions = (), **more: object) -> Score:
    fields: dict[str, object] = {
        "model": "org/m", "lens": "causal", "task": task, "language": "python", "metric": metric,
        "dimensions": where, "value": value, "n": 900, "n_clusters": 40, "effective_clusters": 25.0,
        "ci_low": value - 0.02, "ci_high": value + 0.02, "split": "test", "method": "erase",
    }  # fmt: skip
    return Score(**{**fields, **more})  # type: ignore[arg-type]


def scores(clusters: float) -> Iterator[Score]:
    """Identifiers are used; block depth is held; relations have heads."""
    own = {"effective_clusters": clusters}
    for task, cost in (("idn", 0.2), ("block_depth", 0.05)):
        for layer in range(3):
            yield score(task, "excess", (cost - 0.05) * layer / 2, layer=layer, control="random", **own)
            yield score(task, "accuracy", 0.5 + 0.2 * layer, layer=layer)
            yield score(task, "accuracy", 0.5, dims(erased=str(layer)), layer=layer)
        yield score(task, "bits_before", 3.0)
        yield score(task, "top1_excess", cost / 10, BEST, layer=2, control="random", **own)
        yield score(task, "accuracy", 0.8, dims(erased="1"), layer=2)
        yield score(task, "accuracy", 0.5, control="majority")
        yield score(task, "gain", 0.4, BEST, layer=2, control="majority", **own)
        yield score(task, "bits", cost, BEST, layer=2, **own)
        yield score(task, "bits", 0.05, BEST, layer=2, control="random", **own)
        yield score(task, "excess", cost - 0.05, BEST, layer=2, control="random", **own)
        yield score(task, "excess", 0.3, dims(construct="call"), layer=2, control="random", **own)
        at = (*BEST, *dims(construct="call", where="here-elsewhere"))
        yield score(task, "apart", 0.25, at, layer=2, control="random", **own)
        other = "block_depth" if task == "idn" else "idn"
        behind = dims(erased="2", erased_property=task)
        yield score(other, "gain", -cost / 2, behind, layer=2, control="random", **own)
        yield score(task, "hits_excess", cost / 4, layer=2, control="random", **own)
    for where, value in (("here", 0.4), ("elsewhere", 0.01)):
        at = dims(relation="If:if->test", where=where)
        held = {"method": "ablate", "layer": 2, "head": 1, **own}
        yield score("syntax_relations", "bits", value + 0.1, at, **held)
        yield score("syntax_relations", "excess", value, at, control="random", **held)
        yield score("syntax_relations", "top1_lost", value / 10, at, control="random", **held)
        yield score("syntax_relations", "top1_excess", value / 10, at, control="random", **held)
    together = dims(relation="all of them")
    yield score("syntax_relations", "excess", 0.7, together, control="random", method="ablate", **own)


def run_of(folder: Path, clusters: float = 25.0, more: Sequence[Score] = ()) -> RunData:
    root = write_run(folder / "run", [], {"org/m": 1.0})
    scores_frame([*scores(clusters), *more]).write_parquet(RunDirectory(root).scores)
    return RunData(root)


def test_the_first_sentence_says_what_is_used_and_what_is_held(tmp_path: Path) -> None:
    figure = PLOTS.load("causal_uses").draw(run_of(tmp_path))
    assert figure is not None and figure.table is not None
    assert figure.lead == (
        "m uses what identifiers name: erasing what identifiers name at layer 2 costs 0.200 [0.180, 0.220] "
        "bits a subword on top of 3.00, a random subspace 0.050 [0.030, 0.070] (difference +0.150 "
        "[+0.130, +0.170]); it merely holds block depth: a probe of layer 2 is right on 90.0 % of "
        "block depth (the commonest class 50.0 %), yet erasing it there costs +0.000 [-0.020, +0.020] bits "
        "beyond a random subspace, and +0.000 [-0.020, +0.020] at layer 2, where it is the most by "
        "validation (1 % of its surprisal is 0.030)."
    )
    assert "in call, it is 0.250 [0.230, 0.270] bits further than elsewhere" in figure.answer
    said = [row[2].text for row in figure.table.cells()]
    assert said == ["used", "held, and not seen to be used"]


def test_few_clusters_allow_no_verdict(tmp_path: Path) -> None:
    figure = PLOTS.load("causal_uses").draw(run_of(tmp_path, clusters=4.0))
    assert figure is not None
    assert figure.lead.startswith("No verdict on whether m uses what it knows: what identifiers name (4 eff")


@pytest.mark.parametrize(
    ("cost", "width", "before", "said"),
    [
        (0.15, 0.02, 3.0, USED),
        # Sure to cost something, and as little as any change of untrained weights.
        (0.008, 0.006, 13.0, HELD),
        (0.0, 0.02, 3.0, HELD),
        # May cost nothing, or much.
        (0.05, 0.2, 3.0, OPEN),
    ],
)
def test_a_cost_is_held_against_what_would_be_noticeable(
    cost: float, width: float, before: float, said: str
) -> None:
    """Used: sure to cost more than a random subspace, and 1 % of the surprisal; held: sure to cost less."""
    ends = {"ci_low": cost - width, "ci_high": cost + width}
    found = scores_frame(
        [
            score("idn", "excess", cost, BEST, layer=1, control="random", effective_clusters=30.0, **ends),
            score("idn", "excess", cost, layer=1, control="random", effective_clusters=30.0, **ends),
            score("idn", "bits", cost + 0.1, BEST, layer=1),
            score("idn", "bits", 0.1, BEST, layer=1, control="random"),
            score("idn", "gain", 0.4, BEST, layer=1, control="majority"),
            score("idn", "bits_before", before),
        ]
    )
    ((_, _, (one,)),) = erased_of(found)
    assert one.kind == said
    if said == OPEN:
        assert one.why == (
            "beyond a random subspace it may cost up to 0.250 bits a subword, and 0.030, 1 % of the model's "
            "surprisal, would count as use"
        )


def test_what_later_layers_rebuild_and_what_heads_cost(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    rebuilt, heads = (PLOTS.load(name).draw(run) for name in ("causal_rebuilt", "causal_heads"))
    assert rebuilt is not None and heads is not None
    assert rebuilt.answer.splitlines()[0] == (
        "what identifiers name: erased at layer 1, a new probe finds 50.0 % there and 80.0 % at layer 2, "
        "where it finds 90.0 % with nothing erased."
    )
    assert "in 1: If:if->test; 0 without a verdict." in heads.answer
    assert "all chosen heads at once cost 0.700 [0.680, 0.720] bits" in heads.answer
    assert heads.table is not None
    shown = {(row[4].text, row[5].text): row[6].text for row in heads.table.cells()}
    assert shown["here", "points of right subwords lost, difference from other heads"] == "4.000"


def test_the_first_screen_goes_by_the_paired_excess_and_else_by_the_last_layer(tmp_path: Path) -> None:
    (found,) = first_screen(run_of(tmp_path))
    assert found.gain is not None and found.gain["metric"] == "excess"
    assert "beat the best control in 1 of 2 tasks" in found.verdict
    root = write_run(tmp_path / "layers", [], {"m": 1.0})
    layers = [dataclasses.replace(one, n_eff=None) for one in depth.layered()]
    scores_frame(layers).write_parquet(RunDirectory(root).scores)
    (found,) = first_screen(RunData(root))
    assert found.verdict == (
        "Last layers beat how frequent a subword is in training: 3.00 against 9.00 bits a subword"
    )


def test_what_else_an_erasure_takes_stands_beside_a_random_subspace(tmp_path: Path) -> None:
    figure = PLOTS.load("causal_others").draw(run_of(tmp_path))
    assert figure is not None and figure.table is not None
    assert figure.answer.splitlines() == [
        "what identifiers name erased: probes of block depth lose 10.0 [8.0, 12.0] points more than with a "
        "random subspace.",
        "what identifiers name erased: heads that follow relations lose 5.0 [3.0, 7.0] points more than with "
        "a random subspace.",
        "block depth erased: probes of what identifiers name lose 2.5 [0.5, 4.5] points more than with a "
        "random subspace.",
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
    page = build_report(run.directory.root).read_text(encoding="utf-8")
    assert "m uses what identifiers name" in page
    assert "what later layers rebuild" in page


@pytest.mark.parametrize("name", NAMES)
def test_a_run_without_interventions_shows_nothing(name: str, tmp_path: Path) -> None:
    assert PLOTS.load(name).draw(RunData(write_run(tmp_path / "empty", [], {"m": 1.0}))) is None
