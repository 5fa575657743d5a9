"""The page of metrics has an entry, with formula, shape, unit and source, for all that the lenses write."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.lenses.attention.observe import METRICS as HITS
from sonde.lenses.attention.score import SINKS
from sonde.lenses.causal.effects import ANSWERS, BASELINE, BITS, DIFFERENCE, EXCESS
from sonde.lenses.causal.erase_controls import EXCESS as HITS_EXCESS
from sonde.lenses.causal.erase_controls import HIT_LOSS, OVERLAP, REALISED
from sonde.lenses.causal.patch import ALIGNED, CHANGE, MARGIN, PREFERS, RECOVERED
from sonde.lenses.cloze.observe import ONE_PIECE, OTHER_SPELLING, SEVERAL_PIECES, UNSPELLABLE
from sonde.lenses.finetune.score import (
    _SETTING_METRICS,
    ACCURACY,
    AT_EDGE,
    AT_END,
    CEILING,
    OUT_OF_REACH,
    TRUNCATED,
)
from sonde.lenses.probe.trees import METRICS as DISTANCES
from sonde.results.accepted import AGREEMENT, CHARACTERS, GENERATED, LINE
from sonde.results.fidelity import BASE_PREFIX, SIZES
from sonde.results.group_means import MATCHED_SHARE
from sonde.results.layers import LAYER_DIFFERENCE, LAYER_GAIN
from sonde.results.scores import LEFT_OUT, SCORES_COLUMNS
from sonde.training.probes.trees import MEASURES as TREES

ROOT = Path(__file__).parents[2]
LENSES = ROOT / "src" / "sonde" / "lenses"
NAMES = sorted(path.parent.name for path in LENSES.glob("*/__init__.py") if path.parent.name != "engine")
ALL = "All lenses"
SOURCES = (
    "sonde", "PERPLEXED", "INSPECT", "CodeSyntax", "INK", "CuBERT", "Naeini", "Hewitt", "Voita", "Xiao",
    "Clark", "Hernández", "AST-Probe", "Belrose", "nostalgebraist", "Zhang", "Kramár", "llama.cpp", "Dutta",
)  # fmt: skip

COMPUTED = {
    "attention": {*HITS, *(f"{metric}_gain" for metric in HITS), *SINKS},
    "causal": {
        *(BITS, EXCESS, DIFFERENCE, BASELINE, ANSWERS.cost, ANSWERS.excess, HIT_LOSS, HITS_EXCESS),
        *(RECOVERED, MARGIN, CHANGE, PREFERS, ALIGNED, OVERLAP, REALISED),
    },
    "cloze": {
        f"share_{status.replace(' ', '_')}"
        for status in (ONE_PIECE, SEVERAL_PIECES, UNSPELLABLE, OTHER_SPELLING)
    },
    "fidelity": {*SIZES, *(f"{BASE_PREFIX}{name}" for name in SIZES)},
    "finetune": {CEILING, OUT_OF_REACH, TRUNCATED, ACCURACY, AT_END, AT_EDGE, *_SETTING_METRICS},
    "probe": {LAYER_DIFFERENCE, LAYER_GAIN, *DISTANCES, *TREES, *(f"{metric}_gain" for metric in TREES)},
    "surprisal": {MATCHED_SHARE, CHARACTERS, LINE, GENERATED, AGREEMENT},
}
"""Metrics whose names stand in no call that scores."""

MADE = {"Mean", "build_bit_rate", "ratio_of_sums"}
"""What takes the name of a metric first."""


def entries() -> dict[str, dict[str, list[str]]]:
    """Cells of the rows of tables of metrics, by section and metric."""
    found: dict[str, dict[str, list[str]]] = {}
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, flags=re.M | re.S):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
        ]
        if rows and rows[0][0] != "metric":
            continue
        found[title.strip("`")] = {row[0].strip("`"): row[1:] for row in rows[2:]}
    return found


def written(lens: str) -> Iterator[str]:
    """Names of metrics in the calls of a lens that make scores, and in the tuples that these go through."""
    for path in (LENSES / lens).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                given = [keyword.value for keyword in node.keywords if keyword.arg == "metric"]
                if isinstance(node.func, ast.Name) and node.func.id in MADE:
                    given += node.args[:1]
                yield from texts(given)
            elif isinstance(node, ast.For) and "metric" in ast.unparse(node.target):
                yield from texts([node.iter])
            elif isinstance(node, ast.Assign) and "metrics" in ast.unparse(node.targets[0]):
                yield from texts([node.value])
            elif isinstance(node, ast.AnnAssign | ast.AugAssign) and "metrics" in ast.unparse(node.target):
                yield from texts([node.value] if node.value else [])


def texts(nodes: list[ast.expr]) -> Iterator[str]:
    """Text constants: the node's own, the keys of a dict, or the first of each member of a tuple."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Dict):
            yield from texts([key for key in node.keys if key is not None])
        elif isinstance(node, ast.Tuple):
            pairs = [member.elts[0] if isinstance(member, ast.Tuple) else member for member in node.elts]
            yield from texts(pairs)


@pytest.mark.parametrize("lens", NAMES)
def test_every_metric_has_an_entry_and_every_entry_a_metric(lens: str) -> None:
    names = {*written(lens), *COMPUTED.get(lens, set())}
    assert names == entries()[lens].keys()


def test_metrics_of_all_lenses_have_an_entry() -> None:
    assert entries()[ALL].keys() == {LEFT_OUT}


def test_every_entry_has_formula_shape_unit_and_source() -> None:
    for metrics in entries().values():
        for metric, cells in metrics.items():
            assert len(cells) == 4 and all(cells), metric
            assert cells[-1].startswith(SOURCES) or metric == LEFT_OUT, metric


def test_columns_that_formulas_name_are_columns_or_metrics() -> None:
    dimensions = {"gold", "predicted", "reason"}
    for metrics in entries().values():
        known = {*SCORES_COLUMNS, *metrics, *dimensions}
        for metric, cells in metrics.items():
            assert set(re.findall(r"`(\w+)`", cells[0])) <= known, metric
