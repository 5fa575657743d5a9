import json
from pathlib import Path
from typing import Any

import pytest
from tests.label_files import write_label_file

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Selection, SkipCounter, read_files, read_items, select
from sonde.experiments.label_files import LabelOptions

# The layout of the published files; the last edge ends on empty tokens, as theirs do.
SAMPLE = {
    "code": "def f(x):\n    y = g(x)\n    return y.z",
    "tokens": [
        *("def", "f", "(", "x", ")", ":", "\n", "    ", "y", "=", "g", "(", "x", ")", "\n"),
        *("return", "y", ".", "z", "", "", ""),
    ],
    "id": 7,
    "relns": {
        "Assign:target->value": [[8, 10, 12]],
        "Attribute:value->attr": [[16, 20, 20]],
        "children:parent->child": [[15, 16, 20]],
    },
}


def write(path: Path, samples: Any) -> str:
    path.write_text(samples if isinstance(samples, str) else json.dumps(samples, indent=2), encoding="utf-8")
    return f"codesyntax:{path}"


def test_a_sample_is_an_item_with_its_relations(tmp_path: Path) -> None:
    (item,) = read_items(write(tmp_path / "a.json", [SAMPLE]), SkipCounter())
    assert (item.identifier, item.language, item.text, item.unit) == (
        "7",
        "python",
        SAMPLE["code"],
        "function",
    )
    spans = {
        given.label: (item.text[given.start : given.end], item.text[given.other_start : given.other_end])
        for given in item.given
    }
    assert spans["Assign:target->value"] == ("y", "g(x")
    assert spans["children:parent->child"] == ("return", "y.z")
    assert {given.task for given in item.given} == {"syntax_relations"}


def test_reading_and_writing_again_gives_the_same_samples(tmp_path: Path) -> None:
    code = "def f(x):\n  if x.a:\n    for b in [\n      1, c]:\n      d(b, e=2)\n  else:\n    g()"
    first = tmp_path / "a.jsonl"
    rows = [{"id": number, "code": text, "language": "python"} for number, text in enumerate([code, "def ("])]
    first.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    published, again = tmp_path / "b.json", tmp_path / "c.json"
    asked: dict[str, Any] = {"task": "syntax_relations", "raw": True, "mode": "paper", "form": "codesyntax"}
    write_label_file(LabelOptions(corpora=(f"jsonl:{first}",), **asked), published)
    samples = json.loads(published.read_text(encoding="utf-8"))
    assert [sample["id"] for sample in samples] == [0, 1]
    assert samples[1]["relns"] == {}
    assert samples[0]["code"] == code
    assert len(samples[0]["relns"]["children:parent->child"]) > 5
    assert any(
        samples[0]["tokens"][edge[2]] == ""
        for edge in samples[0]["relns"]["If:if->body"] + samples[0]["relns"]["If:body->orelse"]
    )
    # Samples without relations cannot say that they were labelled, the others come back as they are.
    write_label_file(LabelOptions(corpora=(f"codesyntax:{published}",), **asked), again)
    assert json.loads(again.read_text(encoding="utf-8")) == samples


JAVA = "int f(int x) {\n  if (x > 1) {\n    x = g(x);\n  } else {\n    x = 2;\n  }\n  return x;\n}"


@pytest.mark.parametrize(
    ("quirk", "newlines", "semicolons"),
    [("", False, True), ("codesyntax.newlines", True, False), ("codesyntax.no_semicolons", False, False)],
)
def test_the_published_ablations_come_back_as_they_are(
    tmp_path: Path, quirk: str, newlines: bool, semicolons: bool
) -> None:
    first = tmp_path / "a.jsonl"
    first.write_text(json.dumps({"id": "m", "code": JAVA, "language": "java"}), encoding="utf-8")
    asked: dict[str, Any] = {"task": "syntax_relations", "raw": True, "mode": "paper", "form": "codesyntax"}
    quirks = frozenset({quirk} - {""})
    published, again = tmp_path / "b.json", tmp_path / "c.json"
    write_label_file(LabelOptions(corpora=(f"jsonl:{first}",), quirks=quirks, **asked), published)
    write_label_file(LabelOptions(corpora=(f"codesyntax:{published}",), **asked), again)
    (sample,) = json.loads(published.read_text(encoding="utf-8"))
    assert json.loads(again.read_text(encoding="utf-8")) == [sample]
    ends = {sample["tokens"][edge[2]] for edges in sample["relns"].values() for edge in edges}
    assert ("\n" in ends, ";" in ends) == (newlines, semicolons)


def test_tokens_of_another_making_are_counted_and_left_out(tmp_path: Path) -> None:
    other = SAMPLE | {"id": 8, "tokens": SAMPLE["code"].split()}
    intake = SkipCounter()
    files = list(read_files(write(tmp_path / "a.json", [SAMPLE, other]), (), intake))
    assert [file.identifier for file in files] == ["7"]
    assert intake.counts == {"tokens differ": 1}


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ("{", "not JSON"),
        ({}, "not a list of samples"),
        ([SAMPLE, 1], "sample 2: not a JSON object"),
        ([SAMPLE, {"code": "x"}], "sample 2: not an object with 'code'"),
        ([SAMPLE, SAMPLE], "sample 2: id '7' is that of sample 1"),
        ([SAMPLE | {"relns": {"If:if->test": 1}}], "relation 'If:if->test' is not a list"),
        (
            [SAMPLE | {"relns": {"If:if->test": [[1, 2]]}}],
            "edge [1, 2] of 'If:if->test' is not within 22 tokens",
        ),
        ([SAMPLE | {"relns": {"If:if->test": [[1, 2, 22]]}}], "is not within 22 tokens"),
        ([SAMPLE | {"relns": {"If:if->test": [[-1, 2, 3]]}}], "is not within 22 tokens"),
        ([SAMPLE | {"relns": {"If:iff->test": [[1, 2, 3]]}}], "no language wanted has all its 1 relations"),
    ],
)
def test_malformed_files_are_refused_in_one_line(tmp_path: Path, samples: Any, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        select(write(tmp_path / "a.json", samples), Selection())
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_missing_name_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_files(f"codesyntax:{tmp_path / 'none.json'}", (), SkipCounter()))
    with pytest.raises(UsageError, match="codesyntax:FILE"):
        list(read_files("codesyntax:", (), SkipCounter()))
