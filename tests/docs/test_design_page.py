"""docs/design.md: ten sentences lead to modules, floors are those checked, words are unique, code runs."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import sonde
from generators.packages import read_floors
from sonde.results import Score

TEXT = (Path(__file__).parents[2] / "docs/design.md").read_text(encoding="utf-8")
SOURCE = Path(sonde.__file__).parent


def read_table(title: str) -> list[list[str]]:
    """Return the rows of the table whose first column has a title."""
    lines = TEXT.partition(f"| {title} |")[2].splitlines()[2:]
    rows = (line for line in lines[: lines.index("")])
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_way_of_a_function_is_ten_sentences_that_each_lead_to_a_module() -> None:
    way = TEXT.partition("## The way of one function")[2].partition("\n### ")[0]
    steps = re.findall(r"^(\d+)\. \*\*([\w ]+)\.\*\* ((?:[^\n]|\n {2,3})+)", way, flags=re.MULTILINE)
    assert [int(number) for number, _, _ in steps] == list(range(1, 11))
    for _, title, sentence in steps:
        assert f"\n### {title}\n" in TEXT
        assert len(sentence.split()) <= 20
        (module,) = re.findall(r"`([\w/]+\.py)`\.$", sentence.replace("\n", " "))
        assert (SOURCE / module).is_file()


def test_the_table_of_floors_is_that_of_the_import_contract() -> None:
    rows = read_table("floor")
    assert [int(row[0]) for row in rows] == list(reversed(range(len(rows))))
    named = [{Path(name).stem for name in re.findall(r"`([\w.]+)/?`", row[1])} for row in rows]
    assert named == [set(floor) for floor in read_floors()]


def test_a_word_of_the_vocabulary_means_one_thing_in_one_sentence() -> None:
    rows = read_table("word")
    words = [word for word, _, _ in rows]
    assert len(words) > 40 and len(set(words)) == len(words)
    for word, meaning, others in rows:
        assert meaning and others and len(meaning.split()) <= 20, word
        assert word not in others.split(", ")


def test_the_code_that_scores_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    count = 200
    rows = pl.DataFrame(
        {
            "item_id": [f"item{index // 5}" for index in range(count)],
            "cluster": [f"cluster{index // 10}" for index in range(count)],
            "language": ["python"] * count,
            "nats": [float(index % 7) for index in range(count)],
            "bytes": [3] * count,
            "rank": [1 + index % 3 for index in range(count)],
            "kind": ["name", "operator"] * (count // 2),
            "origin": ["internal", "external", "", "external"] * (count // 4),
        }
    )
    template = Score(model="m", lens="mine", metric="", value=0.0, n=0, n_clusters=0)
    scores = names["score"](None, SimpleNamespace(observations=rows.lazy(), template=template))  # type: ignore[operator]
    (bits,) = (score for score in scores if score.metric == "bits" and not score.dimensions)
    assert bits.value == pytest.approx(rows["nats"].mean() / math.log(2)) and bits.n_clusters == 20
    assert {score.metric for score in scores if not score.dimensions} >= {"bits", "bits_per_byte", "top1"}
    assert {value for score in scores for name, value in score.dimensions if name == "kind"} == {
        "name",
        "operator",
    }
