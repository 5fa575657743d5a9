"""What has a name can be listed and explained, and what is measured says what it means."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sonde.api.catalogue import KINDS, TABLES, TARGETS, explain, list_entries, singular
from sonde.base.errors import UsageError
from sonde.cli import app
from sonde.experiments.catalogue import find_lenses
from sonde.lenses import LENSES
from sonde.results.metrics import read_metrics
from sonde.tasks.engine.task import TASKS

ROOT = Path(__file__).parents[2]


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    if result.exception:
        raise result.exception
    return result.output


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_may_be_named_in_the_singular(kind: str) -> None:
    assert printed("list", singular(kind)) == printed("list", kind)


def test_without_a_kind_all_are_listed() -> None:
    assert [line.split()[0] for line in printed("list").splitlines()] == [*KINDS]


def test_tasks_are_listed_by_family_with_target_and_lenses() -> None:
    blocks = [block.splitlines() for block in printed("list", "tasks").split("\n\n")]
    families = {heading: rows for heading, *rows in blocks}
    (row,) = [row for row in families["Classes of single tokens"] if row.split()[0] == "idn"]
    assert re.split(r"\s{2,}", row.strip())[:3] == ["idn", "span", "causal, probe"]
    listed = [row.split()[0] for rows in families.values() for row in rows]
    assert sorted(listed) == sorted(TASKS.names())
    tasks = json.loads(printed("list", "tasks", "--json"))["tasks"]
    assert {task["target"] for task in tasks} == TARGETS.keys()


@pytest.mark.parametrize(
    ("task", "lenses"),
    [
        ("cpx", ("causal", "finetune", "probe")),
        ("syntax_relations", ("attention", "causal")),
        ("call_origin", ("causal", "probe", "surprisal")),
        ("api_fakes", ("cloze",)),
        ("api_prompts", ("prompting",)),
        ("program_tokens", ()),
    ],
)
def test_a_task_knows_the_lenses_that_take_it(task: str, lenses: tuple[str, ...]) -> None:
    assert find_lenses(task) == lenses


def test_quirks_are_listed_by_their_lens_or_task() -> None:
    quirks = {quirk["name"]: quirk for quirk in json.loads(printed("list", "quirks", "--json"))["quirks"]}
    of_lenses = {name for lens in LENSES.names() for name in LENSES.load(lens).quirks}
    assert of_lenses <= quirks.keys()
    assert quirks["inspect.any_sign"]["of"][-2:] == ["task oct", "task ocu"]
    assert all(quirk["summary"] for quirk in quirks.values())


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("idn", ["task idn"]),
        ("--limit", ["option selection.limit"]),
        ("-m", ["option models"]),
        ("probe.seeds", ["option probe.seeds"]),
        ("bits per byte", ["metric bits_per_byte", "term bits per byte"]),
        ("Top1", ["metric top1"]),
        ("first_hit_gain", ["metric first_hit_gain"]),
        ("block_jumbling", ["task jbk"]),
        ("effective_clusters", ["column effective_clusters", "term effective clusters"]),
        ("perplexed.shift", ["quirk perplexed.shift"]),
        ("sonde/mini-decoder", ["model sonde/mini-decoder"]),
    ],
)
def test_a_name_is_explained(name: str, found: list[str]) -> None:
    entries = explain(name)
    assert list(dict.fromkeys(f"{entry.kind} {entry.name}" for entry in entries)) == found
    assert all(entry.summary for entry in entries)


def test_an_explanation_says_how_a_thing_is_used() -> None:
    lines = printed("explain", "block_depth").splitlines()
    assert lines[0] == "task block_depth"
    assert "  target     span: characters of an item, such as a token" in lines
    assert any(
        line.strip().startswith("how") and "sonde run -l LENS -t block_depth" in line for line in lines
    )
    (entry,) = json.loads(printed("explain", "--limit", "--json"))["entries"]
    assert entry["flag"] == "--limit" and entry["values"] == "at least 1"


def test_every_corpus_says_how_it_is_named() -> None:
    unnamed = {"stdlib"}  # takes nothing behind its name
    entries = {entry.name: str(entry.details.get("more", "")) for entry in list_entries("corpora")}
    assert {name for name, text in entries.items() if f"{name}:" not in text} == unnamed


@pytest.mark.parametrize(
    ("name", "heading", "of"),
    [("--plan", "flag --plan", "of    sonde run"), ("verify", "command verify", "how  sonde verify --help")],
)
def test_commands_and_their_flags_are_explained(name: str, heading: str, of: str) -> None:
    lines = [line.strip() for line in printed("explain", name).splitlines()]
    assert lines[0] == heading and of in lines


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("identifier_type", "task idn"),
        ("activation patching", "lens causal"),
        ("bits_per_bite", "metric bits_per_byte"),
        ("github", "corpus git"),
        ("gpu", "option device"),
        ("out of memory", "option batch_tokens"),
        ("dedup", "option selection.near_duplicates"),
    ],
)
def test_an_unknown_name_gets_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=f"nothing is called '{name}'; nearest: {nearest}"):
        explain(name)


def test_a_name_without_a_near_one_says_where_to_look() -> None:
    with pytest.raises(UsageError, match="nothing is called 'qqqq'; `sonde list` shows"):
        explain("qqqq")


@pytest.mark.parametrize("kind", [*KINDS, "columns", "terms"])
def test_every_entry_has_a_meaning_of_one_line(kind: str) -> None:
    entries = list(list_entries(kind))
    assert entries
    assert all(entry.summary.strip() and "\n" not in entry.summary for entry in entries)


def test_the_tables_are_those_of_the_docs() -> None:
    template = (ROOT / "docs/files.template.md").read_text(encoding="utf-8")
    assert sorted(TABLES.values()) == sorted(re.findall(r"\{table: (.+)\}", template))


def test_metrics_that_the_code_names_are_described() -> None:
    pinned = json.loads((ROOT / "tests/structure/pinned.json").read_text(encoding="utf-8"))["values"]
    named = {value.removeprefix("metric=") for value in pinned if value.startswith("metric=")}
    described = {name for lens in LENSES.names() for name in read_metrics(LENSES, lens)}
    named = {name.removesuffix("_gain") or name for name in named if "{" not in name} - {""}
    assert named - described - {"cues", "bits_per_character"} == set() and "cues_gain" in described
    for lens in LENSES.names():
        compared = {metric.metric for metric in LENSES.load(lens).comparable_metrics}
        headline = LENSES.load(lens).headline
        assert compared | set(headline.metrics if headline else ()) <= read_metrics(LENSES, lens).keys(), lens


def test_models_say_whether_they_are_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, files in {
        "openai-community/gpt2": ("config.json", "model.safetensors"),
        "microsoft/codebert-base": ("config.json",),
        "some/one": ("config.json", "pytorch_model.bin"),
    }.items():
        folder = tmp_path / f"models--{name.replace('/', '--')}"
        snapshot = folder / "snapshots" / "abc"
        snapshot.mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("abc")
        for file in files:
            (snapshot / file).write_text("{}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    models = {model["name"]: model for model in json.loads(printed("list", "models", "--json"))["models"]}
    assert models["sonde/mini-decoder"]["here"] == "bundled"
    assert models["openai-community/gpt2"]["here"] == "hub cache" and models["some/one"]["has_weights"]
    assert models["bigcode/santacoder"]["here"] is None
    (line,) = [
        line for line in printed("list", "models").splitlines() if line.startswith("microsoft/codebert-base ")
    ]
    assert line.endswith("hub cache, without weights")
