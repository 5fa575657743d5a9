"""The card of a run: the numbers that speak for it, and whether they meet what is required of them."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from jsonschema import Draft202012Validator

import sonde
from sonde.base.errors import InputError, SondeError, UnknownNameError, UsageError
from sonde.cli.commands import main
from sonde.report import Card, RunData, build_card, card_schema, format_outcome, to_junit_xml, write_card
from sonde.results.scores import LEFT_OUT, Score, scores_to_frame
from sonde.stats.verdict import no_verdict_reason

VALID = Draft202012Validator(card_schema())
BEST = (("selection", "best"),)
HOSTILE = "</script>|`a`\n_b_ \x1b[31m\x00 \u202e"


def row(value: float, **more: Any) -> Score:
    fields: dict[str, Any] = {
        "model": "org/one", "lens": "probe", "task": "cpx", "metric": "accuracy", "language": "python",
        "corpus_hash": "c0ffee", "split": "test", "dimensions": BEST, "layer": 3, "n": 500, "n_clusters": 40,
        "effective_clusters": 35.5, "n_eff": 400.0, "ci_low": value - 0.05, "ci_high": value + 0.05,
        "ci_method": "Korn and Graubard",
    }  # fmt: skip
    return Score(value=value, **(fields | more))


def gain(value: float, control: str, **more: Any) -> Score:
    return row(value, metric="gain", of_metric="accuracy", control=control, n_eff=None, **more)


NUMBERS = [
    row(0.7),
    row(0.3, control="majority", layer=None),
    row(0.5, control="bag_of_tokens", layer=None),
    gain(0.2, "bag_of_tokens"),
    row(0.6, task="jbl", ci_low=0.55, ci_high=0.65),
    row(0.61, task="jbl", control="length"),
    gain(-0.01, "length", task="jbl"),
    row(0.9, task="len", effective_clusters=4.0),
    *(row(0.1 * layer, dimensions=(), layer=layer) for layer in range(5)),
    row(1.25, lens="surprisal", task="", metric="bits_per_byte", n_eff=None, dimensions=(), split="all"),
    *(
        row(
            value,
            lens="surprisal",
            task="",
            metric="bits",
            n_eff=None,
            split="all",
            dimensions=(("tag", tag),),
        )
        for tag, value in (("if", 2.5), ("for", 3.5))
    ),
]


def run_of(root: Path, scores: list[Score]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    models = [
        {"name": name, "revision": "r1", "reading": {"weights": "float32"}}
        for name in dict.fromkeys(score.model for score in scores)
    ]
    summary = {
        "name": root.name,
        "fingerprint": "f00d",
        "models": models,
        "corpus": [
            {"name": "local:src", "language": "python", "hash": "c0ffee", "items": 120, "clusters": 40}
        ],
        "mode": "corrected",
        "quirks": [],
        "seed": 7,
        "versions": {"sonde": "0.1.0"},
        "arguments": {"options": {"probe": {"folds": 3}}},
        "refused": [
            {"lens": "cloze", "task": "", "language": "", "reason": "asks what it cannot; use another",
             "model": "org/one"}
        ],
    }  # fmt: skip
    (root / "run.json").write_text(json.dumps(summary), encoding="utf-8")
    scores_to_frame(scores).write_parquet(root / "scores.parquet")
    return root


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_of(tmp_path / "run", NUMBERS)


@pytest.fixture
def card(run: Path) -> Card:
    return write_card(run)


Required = Callable[..., Card]


@pytest.fixture
def required(run: Path, tmp_path: Path) -> Required:
    """The card of the run held to requirements that a test writes."""

    def held(text: str) -> Card:
        file = tmp_path / "requirements.toml"
        file.write_text(text, encoding="utf-8")
        return write_card(run, file)

    return held


def test_each_task_has_its_number_with_the_best_control(card: Card, run: Path) -> None:
    held = {one.number.task: one for one in card.headlines}
    assert list(held) == ["cpx", "jbl", "len", ""]
    cpx = held["cpx"]
    table = pl.read_parquet(run / "scores.parquet").row(0, named=True)
    for name in ("value", "ci_low", "ci_high", "n", "n_clusters", "effective_clusters", "layer", "metric"):
        assert getattr(cpx.number, name) == table[name]
    assert (cpx.number.slice, cpx.number.corpus) == ({"selection": "best"}, "local:src")
    assert cpx.control is not None
    assert cpx.difference is not None
    assert (cpx.control.control, cpx.control.value) == ("bag_of_tokens", 0.5)
    assert cpx.difference.value == 0.2
    assert cpx.conclusion == "above"
    assert cpx.verdict == "Probes beat a bag of tokens: 70 % compared with 50 % of examples right"


def test_the_paired_difference_decides_and_not_two_intervals(card: Card) -> None:
    jbl = card.headlines[1]
    assert jbl.conclusion == "level"
    assert jbl.verdict.startswith("No difference found between probes and the length of the code")


def test_why_there_is_no_verdict_is_the_one_rule(card: Card) -> None:
    held = card.headlines[2]
    assert held.conclusion == "open"
    assert held.why_no_verdict == no_verdict_reason(held.number.model_dump())
    assert held.why_no_verdict == "4 effective clusters, a verdict needs 10"
    assert held.why_no_verdict in held.verdict


def test_a_number_without_a_control_says_so(card: Card) -> None:
    last = card.headlines[-1]
    assert (last.conclusion, last.control) == ("alone", None)
    assert last.verdict == "Surprisal: 1.25 [1.20, 1.30] bits per byte; there is no control to compare with"


def test_where_the_numbers_come_from_and_what_was_left_out(card: Card) -> None:
    held = card.provenance
    assert [(one.name, one.revision, one.weights) for one in held.models] == [("org/one", "r1", "float32")]
    assert [(one.hash, one.items, one.clusters) for one in held.corpora] == [("c0ffee", 120, 40)]
    assert (held.mode, held.quirks, held.seed, held.versions) == ("corrected", [], 7, {"sonde": "0.1.0"})
    assert held.options == {"probe": {"folds": 3}}
    assert ("cloze of org/one", "asks what it cannot", "Use another.") in [
        (one.what, one.why, one.remedy) for one in card.left_out
    ]


def test_the_files_are_the_card(card: Card, run: Path) -> None:
    text = (run / "card.json").read_text(encoding="utf-8")
    VALID.validate(json.loads(text))
    assert Card.read(run / "card.json") == card
    section = (run / "card.md").read_text(encoding="utf-8")
    assert section.startswith("## Measured with sonde\n")
    assert "0.700 \\[0.650, 0.750\\]" in section
    assert "### What was left out" in section
    assert "revision `r1`" in section


def test_a_lens_from_outside_is_on_the_card_by_its_scores(tmp_path: Path) -> None:
    rows = [row(0.4 + place / 10, lens="my_lens", dimensions=(("depth", str(place)),)) for place in (1, 2)]
    (held,) = build_card(RunData(run_of(tmp_path, rows))).headlines
    assert (held.number.slice, held.among) == ({"depth": "2"}, 2)
    assert held.verdict == "Accuracy: 0.600 [0.550, 0.650]; there is no control to compare with"


def test_what_has_no_number_is_no_headline(tmp_path: Path) -> None:
    rows = [row(0.0, metric=LEFT_OUT, dimensions=(("reason", "no clusters"),)), row(float("nan"), task="x")]
    held = write_card(run_of(tmp_path, rows))
    assert "x" not in {one.number.task for one in held.headlines}
    assert any("no clusters" in one.why for one in held.left_out)


def test_no_name_breaks_the_files(tmp_path: Path) -> None:
    more = {"model": HOSTILE, "task": HOSTILE, "dimensions": ((HOSTILE, HOSTILE),)}
    root = run_of(tmp_path / "run", [row(0.5, lens="my_lens", **more)])
    file = tmp_path / "r.toml"
    file.write_text('[[require]]\nlens = "my_lens"\nmetric = "accuracy"\nat_least = 0.9')
    held = write_card(root, file)
    assert json.loads((root / "card.json").read_text())["headlines"][0]["number"]["model"] == HOSTILE
    lines = (root / "card.md").read_text(encoding="utf-8").splitlines()
    assert "<" not in "".join(lines)
    (cells,) = [line.replace("\\|", "") for line in lines if "no control to compare with" in line]
    assert cells.count("|") == lines[lines.index("### My lens") + 2].count("|")
    case = ElementTree.fromstring(to_junit_xml(held)).find("testsuite/testcase")
    assert case is not None
    assert case.find("failure") is not None


PROBE = '[[require]]\nlens = "probe"\ntask = "cpx"\nmetric = "accuracy"\n'
BITS = '[[require]]\nlens = "surprisal"\nmetric = "bits"\n'


@pytest.mark.parametrize(
    ("text", "met", "words"),
    [
        (PROBE + "at_least = 0.64", True, "the lower end 0.65 is at least 0.64"),
        (PROBE + "at_least = 0.66", False, "0.700 [0.650, 0.750]: the lower end 0.65 is below 0.66"),
        (PROBE + "at_most = 0.75", True, "the upper end 0.75 is at most 0.75"),
        (PROBE + "at_most = 0.7", False, "the upper end 0.75 is above 0.7"),
        (PROBE + "where = { layer = 2, split = 'test' }\nat_least = 0.1", True, "layer 2"),
        (PROBE.replace("accuracy", "gain") + "at_least = 0.1", True, "gain of accuracy over bag_of_tokens"),
        (PROBE + "where = { control = 'majority' }\nat_most = 0.4", True, "accuracy over majority"),
        (
            PROBE.replace("cpx", "len") + "at_least = 0.1",
            False,
            "too little data, 4 effective clusters, a verdict needs 10 (required: lower end of the interval "
            "at least 0.1)",
        ),
        (BITS + "slice = { tag = 'if' }\nat_most = 2.6", True, "bits (tag if, layer 3)"),
        (BITS.replace("bits", "bits_per_byte") + "at_most = 1.0", False, "the upper end 1.3 is above 1"),
    ],
)
def test_the_end_of_the_interval_is_held_to_the_threshold(
    required: Required, text: str, met: bool, words: str
) -> None:
    card = required(text)
    assert card.met == met
    (outcome,) = card.requirements
    line = format_outcome(outcome)
    assert line.startswith("met: " if met else "not met: ")
    assert words in line


def test_several_bounds_are_several_outcomes(required: Required) -> None:
    card = required(PROBE + "at_least = 0.1\nat_most = 0.2")
    assert [(one.bound, one.met) for one in card.requirements] == [("ci_low", True), ("ci_high", False)]
    assert not card.met


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing is required; begin with [[require]]"),
        ("[[requires]]", "unknown table 'requires'; did you mean 'require'?"),
        ("[[require", "Expected"),
        ("require = 3", "nothing is required"),
        ("[[require]]\nlens = 'probe'\nat_least = 1", "require lacks metric"),
        (PROBE, "nothing is required: give at_least, at_most or not_below"),
        (PROBE + "margin = 0.1\nat_least = 1", "margin goes with not_below"),
        (PROBE + "margin = -0.1\nnot_below = 'x'", "margin = -0.1 is not a number of at least 0"),
        (PROBE + "at_lest = 0.1", "unknown require key 'at_lest'; did you mean 'at_least'?"),
        (PROBE + "at_least = '0.1'", "at_least = '0.1' is not a number"),
        (PROBE + "at_least = nan", "at_least = nan is not a number"),
        (PROBE + "slice = 'best'\nat_least = 0.1", "slice = 'best' is not a table"),
        (PROBE.replace("probe", "prob") + "at_least = 0.1", "did you mean 'probe'?"),
        (PROBE.replace("cpx", "cpz") + "at_least = 0.1", "did you mean 'cpx'?"),
        (PROBE.replace("accuracy", "acuracy") + "at_least = 0.1", "did you mean 'accuracy'?"),
        (PROBE + "where = { modl = 'org/one' }\nat_least = 0.1", "did you mean 'model'?"),
        (PROBE + "where = { model = 'org/on' }\nat_least = 0.1", "did you mean 'org/one'?"),
        (BITS + "slice = { tg = 'if' }\nat_most = 3", "did you mean 'tag'?"),
        (BITS + "slice = { tag = 'iff' }\nat_most = 3", "did you mean 'if'?"),
        (BITS + "at_most = 3", "2 numbers fit: they differ in slice (tag = if, tag = for); say which"),
        (PROBE + "where = { layer = 2, control = 'majority' }\nat_most = 3", "no number fits what `slice`"),
        (PROBE + "slice = {}\nat_least = 0.1", "5 numbers fit: they differ in layer (0, 1, 2, 3, ...)"),
        (
            PROBE.replace('task = "cpx"\n', "") + "at_least = 0.1",
            "3 numbers fit: they differ in task (cpx, jbl",
        ),
    ],
)
def test_what_says_of_no_single_number_what_it_is_is_bad_input(
    required: Required, run: Path, text: str, words: str
) -> None:
    with pytest.raises(SondeError) as refused:
        required(text)
    assert refused.value.exit_code == 2
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (run / "card.json").exists()


def test_what_is_wrong_is_located(required: Required) -> None:
    with pytest.raises(UnknownNameError, match=r"in \[\[require\]\] 2 of .*requirements.toml"):
        required(PROBE + "at_least = 0.1\n" + PROBE.replace("cpx", "cpz") + "at_least = 0.1")


def earlier(root: Path, value: float, **more: Any) -> Path:
    write_card(run_of(root, [row(value, model="org/before", revision="r0", **more)]))
    return root / "card.json"


@pytest.mark.parametrize(
    ("value", "margin", "met"), [(0.64, 0, True), (0.66, 0, False), (0.67, 0.03, True), (0.7, 0.04, False)]
)
def test_an_earlier_card_is_not_fallen_below(
    required: Required, tmp_path: Path, value: float, margin: float, met: bool
) -> None:
    # The earlier model chose another layer: it is the same question.
    earlier(tmp_path / "before", value, layer=5)
    card = required(PROBE + f'not_below = "before/card.json"\nmargin = {margin}')
    (outcome,) = card.requirements
    assert (outcome.met, outcome.bound) == (met, "ci_low")
    assert outcome.threshold == pytest.approx(value - margin)
    assert f"{value:.4g} in before/card.json" in outcome.why
    assert "other items" not in outcome.why


def gain_of(tmp_path: Path, value: float, text: str, low: float = 0.001) -> Any:
    """The outcome of a requirement of a gain that is sure."""
    gain = row(
        value, metric="gain", control="length", ci_low=low, ci_high=2 * value - low, n_eff=None,
        ci_method="paired clustered jackknife, Fisher's z",
    )  # fmt: skip
    root = run_of(tmp_path / "gains", [row(0.7), gain])
    file = tmp_path / "gains.toml"
    file.write_text(PROBE.replace("accuracy", "gain") + text)
    (outcome,) = write_card(root, file).requirements
    return outcome


def test_a_gain_that_is_sure_and_less_than_matters_meets_nothing(tmp_path: Path) -> None:
    slight = gain_of(tmp_path, 0.004, "at_least = 0")
    assert not slight.met
    assert slight.why.endswith("but it differs, by less than matters (0.004; 0.01 would)")
    assert gain_of(tmp_path, 0.004, "at_least = 0\nleast = 0").met
    assert gain_of(tmp_path, 0.012, "at_least = 0").met
    assert not gain_of(tmp_path, 0.012, "at_least = 0\nleast = 0.02").met
    # To be small is what such a requirement asks for.
    assert gain_of(tmp_path, 0.004, "at_most = 0.05").met


def test_a_fall_that_is_less_than_matters_is_none(required: Required, tmp_path: Path) -> None:
    earlier(tmp_path / "before", 0.655)
    asked = PROBE + 'not_below = "before/card.json"'
    assert not required(f"{asked}\nleast = 0").met
    (outcome,) = required(f"{asked}\nleast = 0.01").requirements
    assert outcome.met and "0.655 in before/card.json less 0.01" in outcome.why


def test_an_earlier_card_over_other_items_says_so(required: Required, tmp_path: Path) -> None:
    earlier(tmp_path / "before", 0.5, item_set="others")
    card = required(PROBE + 'not_below = "before/card.json"')
    assert card.met
    assert "which was over other items" in card.requirements[0].why


def test_an_earlier_card_holds_what_was_required_of_it(required: Required, tmp_path: Path, run: Path) -> None:
    required(BITS + "slice = { tag = 'if' }\nat_most = 3.0")
    (run / "card.json").rename(tmp_path / "before.json")
    card = required(BITS + "slice = { tag = 'if' }\nnot_below = 'before.json'\nmargin = 0.5")
    assert card.met


def test_an_earlier_card_of_another_question_is_refused(required: Required, tmp_path: Path) -> None:
    earlier(tmp_path / "before", 0.5, mode="paper")
    with pytest.raises(UsageError, match="no number of the same question as probe, cpx"):
        required(PROBE + 'not_below = "before/card.json"')


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("{", "no card of version 1"),
        ('{"card_version": 2}', "no card of version 1 (card_version"),
        ("[]", "no card of version 1"),
    ],
)
def test_what_is_no_earlier_card_is_named(
    required: Required, tmp_path: Path, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "old.json").write_text(content)
    with pytest.raises(InputError) as refused:
        required(PROBE + 'not_below = "old.json"')
    assert words in str(refused.value)


def test_the_outcomes_as_junit(required: Required) -> None:
    card = required(PROBE + "at_least = 0.1\n" + PROBE + "at_least = 0.9")
    root = ElementTree.fromstring(to_junit_xml(card))
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    cases = root.findall("testsuite/testcase")
    assert [case.get("classname") for case in cases] == ["sonde.probe"] * 2
    assert "at least 0.9" in (cases[1].get("name") or "")
    failure = cases[1].find("failure")
    assert failure is not None
    assert failure.get("message") == "0.700 [0.650, 0.750]: the lower end 0.65 is below 0.9"
    assert cases[0].find("failure") is None


def test_a_real_run_has_the_headline_that_its_page_has(run_directory: Path) -> None:
    held = [one for one in build_card(RunData(run_directory)).headlines if one.number.task == ""]
    assert [one.number.metric for one in held] == ["bits_per_byte"]
    table = pl.read_parquet(run_directory / "scores.parquet").filter(
        pl.col("metric") == "bits_per_byte", pl.col("dimensions").list.len() == 0
    )
    assert [one.number.value for one in held] == table["value"].to_list()


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sonde", "card", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return command


def test_the_command_says_a_verdict_a_task_and_where_the_card_is(call, run: Path) -> None:
    code, out, _ = call(run)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == (
        "probe, cpx, org/one, python: accuracy (selection best, layer 3) 0.700 [0.650, 0.750]: "
        "Probes beat a bag of tokens: 70 % compared with 50 % of examples right; encoded: layer 3"
    )
    assert lines[-2:] == [f"card: {run / 'card.json'}", f"card: {run / 'card.md'}"]


def test_the_exit_code_says_whether_all_is_met(call, run: Path, tmp_path: Path) -> None:
    file, xml = tmp_path / "requirements.toml", tmp_path / "out" / "junit.xml"
    file.write_text(PROBE + "at_least = 0.1")
    assert call(run, "--require", file)[0] == 0
    file.write_text(PROBE + "at_least = 0.1\n" + PROBE + "at_least = 0.69")
    code, out, _ = call(run, "--require", file, "--junit", xml)
    assert code == 1
    assert [line.partition(":")[0] for line in out.splitlines()] == ["met", "not met", "card", "card", "card"]
    assert "0.700 [0.650, 0.750]: the lower end 0.65 is below 0.69" in out
    assert ElementTree.parse(xml).getroot().get("failures") == "1"
    file.write_text(PROBE + "at_lest = 0.1")
    code, out, err = call(run, "--require", file)
    assert (code, out) == (2, "")
    assert "did you mean 'at_least'?" in err


def test_outcomes_without_requirements_are_bad_usage(call, run: Path, tmp_path: Path) -> None:
    code, _, err = call(run, "--junit", tmp_path / "junit.xml")
    assert code == 2
    assert "give --require FILE as well" in err


def test_from_python(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "requirements.toml"
    file.write_text(PROBE + "at_least = 0.9")
    held = sonde.card(sonde.Run(run), require=file)
    assert not held.met
    assert Card.read(run / "card.json") == held
    assert held._repr_markdown_() == (run / "card.md").read_text(encoding="utf-8")
    assert sonde.card(str(run)).met
