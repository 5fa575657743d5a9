"""Options as people and editors meet them: tables, help, a page, a schema, all from the models that check."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import sonde.experiments
from generators.experiment_schema import build_schema
from sonde.base.errors import UsageError
from sonde.base.options import Count, Options, describe_fields, option
from sonde.capture import CaptureOptions
from sonde.cli import app
from sonde.cli.options import LENS_FLAGS
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment, load_experiment
from sonde.experiments.catalogue import all_options, lens_options, run_options
from sonde.lenses import LENSES

ROOT = Path(__file__).parents[2]
FILES = [
    *sorted((ROOT / "recipes/ablations").glob("*.toml")),
    Path(sonde.experiments.__file__).parent / "demo.toml",
]


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["list", *arguments])
    if result.exception:
        raise result.exception
    return result.output


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line)


def test_options_of_a_lens_are_a_table() -> None:
    heading, titles, *rows = printed("options", "probe").splitlines()
    assert heading == "options of probe"
    expected = ["option", "type", "default", "range or choices", "rescores only", "what it is"]
    assert cells(titles) == expected
    found = {cells(row)[0]: cells(row)[1:] for row in rows if row}
    assert found.keys() == set(LENSES.load("probe").options)
    line = "seeds for control tasks, hidden layers, whole trees (at least 5) and, without folds, curves"
    assert found["seeds"] == ["whole number", "3", "at least 1", "yes", line]
    assert (
        found["random_weights_share"][:3] == ["number", "0.1", "from 0 to 1"]
        and "yes" not in found["random_weights_share"]
    )
    assert found["probe"][:4] == ["names", "linear,ridge", "linear, mlp, ridge", "yes"]
    assert all(not line.endswith(" ") for line in printed("options", "finetune").splitlines())


def test_without_a_lens_all_are_listed() -> None:
    output = printed("options")
    headings = re.findall(r"^options of (.+)$", output, re.MULTILINE)
    assert headings == ["run", *LENSES.names()]
    assert output.startswith(printed("options", "run"))


def test_what_belongs_to_all_lenses_has_range_and_default() -> None:
    lines = printed("options", "run").splitlines()
    found = {cells(row)[0]: cells(row)[1:] for row in lines[2:] if row}
    assert found["selection.limit"][:4] == ["--limit", "whole number", "none", "at least 1"]
    assert found["selection.per_cluster"][:4] == ["--per-cluster", "whole number", "200", "at least 0"]
    assert found["selection.unit"][:4] == ["--unit", "name", "function", "function, file"]
    assert found["dtype"][:4] == ["--dtype", "name", "auto", "auto, float32, tf32, float16, bfloat16"]
    settable = {field.name for field in dataclasses.fields(Experiment)} - {"selection", "capture"}
    settable |= {f"selection.{field.name}" for field in dataclasses.fields(Selection)}
    settable |= {f"capture.{field.name}" for field in dataclasses.fields(CaptureOptions)}
    settable |= {field.name for field in dataclasses.fields(Execution)} - {
        "light_workers",
        "merges",
        "chosen",
    }
    assert found.keys() == settable


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("options", "prob"), "unknown lens 'prob'; did you mean 'probe'?"),
        (("options", "rn"), "unknown lens 'rn'; did you mean 'run'?"),
        (("options", "./no_lens.py"), "no such file"),
        (
            ("lenses", "probe"),
            "only options take a second name: use `sonde list lenses`, without 'probe'",
        ),
        (("lense", "probe"), "unknown kind 'lense'; did you mean 'lenses'?"),
    ],
)
def test_what_cannot_be_listed_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(Exception, match=re.escape(words)) as caught:
        printed(*arguments)
    assert getattr(caught.value, "exit_code", None) == 2 and "\n" not in str(caught.value)


OUTSIDE = '''"""A lens from outside."""
from sonde.base.options import Count, Options, option
from sonde.lenses import ReadingLens


class MineOptions(Options):
    lens = "my_lens"

    depth: Count = option(2, "how deep to look", scoring=True)


class Mine(ReadingLens):
    name = "my_lens"
    version = "1"
    quirks = {{}}
    tasks = ()
    unsupported_reason = input_requests = observe = score = None
    {declared}


lens = Mine()
'''


def test_a_lens_from_outside_is_listed_by_its_file(tmp_path: Path) -> None:
    typed, plain, bare = (tmp_path / f"{name}.py" for name in ("typed", "plain", "bare"))
    typed.write_text(OUTSIDE.format(declared="typed_options = MineOptions"))
    plain.write_text(OUTSIDE.format(declared='options = {"depth": "how deep to look"}'))
    bare.write_text(OUTSIDE.format(declared=""))
    heading, _, row, _ = printed("options", str(typed)).splitlines()
    assert heading == "options of my_lens"
    assert cells(row) == ["depth", "whole number", "2", "at least 1", "yes", "how deep to look"]
    assert cells(printed("options", str(plain)).splitlines()[2])[::3] == ["depth", "how deep to look"]
    assert printed("options", str(bare)).strip() == "my_lens has no options"


def test_listing_options_imports_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['sonde', 'list', 'options']\nfrom sonde.cli.commands import main\n"
        "try: main()\nexcept SystemExit as ended: assert not ended.code\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "options of surprisal" in done.stdout


def flags(command: str) -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    for name in command.split():
        group = group.commands[name]
    return {parameter.opts[-1]: parameter for parameter in group.params if parameter.opts}


def test_every_option_of_a_run_has_its_flag_and_every_flag_its_option() -> None:
    known = {one.flag for one in run_options() if one.flag}
    # What is written beside the run is no option of it.
    beside = {"--file", "--features", "--figures", "--json", "--no-report", "--no-trial", "--open", "--plan"}
    assert flags("run").keys() - known == {*beside, *LENS_FLAGS, "--fidelity"}
    assert set(LENS_FLAGS) == {"--snippet"}
    assert known <= flags("run").keys()


@pytest.mark.parametrize("command", ["run", "label", "corpus build", "corpus lock", "corpus stats"])
def test_the_help_of_a_flag_is_that_of_the_model(command: str) -> None:
    wide = {"COLUMNS": "10000", "TERMINAL_WIDTH": "10000"}
    output = CliRunner().invoke(app, [*command.split(), "--help"], env=wide).output
    text = " ".join(output.split())
    declared = {one.flag: one.help for one in run_options() if one.flag} | {
        flag: next(one.help for one in lens_options(lens) if one.name == name)
        for flag, (lens, name) in LENS_FLAGS.items()
    }
    helps = {flag: one.help for flag, one in flags(command).items()}
    lines = [helps[flag] for flag in declared.keys() & helps.keys() if helps[flag] == declared[flag]]
    assert len(lines) == len(declared) if command == "run" else len(lines) >= 2
    assert [line for line in lines if line not in text] == []
    assert [flag for flag, line in helps.items() if not line] == []


@pytest.mark.parametrize("command", ["run", "label", "corpus build", "corpus lock", "corpus stats"])
def test_the_type_of_a_flag_is_that_of_the_model(command: str) -> None:
    several = {one.flag for one in run_options() if one.values.several} | {"--option"}
    switches = {one.flag for one in run_options() if one.values.kind is bool}
    declared = {one.flag for one in run_options() if one.flag} & flags(command).keys()
    parameters = {flag: flags(command)[flag] for flag in declared - {"--corpus"}}
    assert {flag for flag, one in parameters.items() if one.multiple} == several & parameters.keys()
    assert {flag for flag, one in parameters.items() if one.is_flag} == switches & parameters.keys()


def test_help_says_range_and_default() -> None:
    lines = {one.flag: one.help for one in run_options()}
    assert lines["--unit"] == "What an item is (function, file; default function)."
    assert lines["--per-cluster"].endswith("(at least 0; default 200).")
    assert lines["--include-seen"] == "Also score items that a model was trained on."
    assert lines["--quirk"] == "Switch on a quirk of a paper (may be repeated)."


SCHEMA = build_schema()
VALID = Draft202012Validator(SCHEMA)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_experiment_file_is_valid(path: Path) -> None:
    VALID.validate(tomllib.loads(path.read_text(encoding="utf-8")))
    first = path.read_text(encoding="utf-8").splitlines()[0]
    if first.startswith("#:schema "):
        assert (
            path.parent / first.removeprefix("#:schema ")
        ).resolve() == ROOT / "docs/experiment.schema.json"
    else:
        assert path.stem == "demo"


WRONG = [
    "model = ['a']",
    "models = 'a'",
    "models = [1]",
    "include_seen = 1",
    "mode = 'papper'",
    "[selection]\nlimits = 3",
    "[selection]\nlimit = 0",
    "[selection]\nlimit = true",
    "[selection]\nunit = 'functon'",
    "[selection]\nseed = 1.5",
    "[selection]\nlicences = ['MIT', 3]",
    "options = 3",
    "[capture]\ncontxt = 8",
    "[capture]\ncontext = 0",
    "[capture]\nbos = 'tokenizer'",
    "[options]\nsurprisal = 3",
    "[options.surprisal]\nmincount = 3",
    "[options.surprisal]\nmin_count = 0",
    "[options.surprisal]\nmin_count = [3]",
    "[options.surprisal]\nbos = 'sometimes'",
    "[options.suprisal]\nmin_count = 3",
    "[options.probe]\nrandom_weights_share = 1.5",
    "[options.probe]\nprobe = 'linear,rigde'",
    "[options.probe]\nl2 = '1,x'",
    "[options.probe]\nl2 = 0",
    "[options.probe]\ndevice = 'gpu'",
    "[options.finetune]\nfrozen = 'yes'",
    "[options.finetune]\nepochs = '2,-3'",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_refused_when_it_is_read_is_refused_by_the_schema(text: str, tmp_path: Path) -> None:
    assert not VALID.is_valid(tomllib.loads(text))
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    with pytest.raises(UsageError):
        for lens, given in load_experiment(path).options.items():
            LENSES.load(lens).typed_options.read(given)


RIGHT = [
    "lenses = ['./my_lens.py']\n[options.my_lens]\ndepth = 3",
    "[options.probe]\nl2 = '1, 0.5,1e-3'\nprobe = 'linear , ridge'\ndevice = 'cuda:1'",
    "[options.probe]\nrandom_weights_share = 1",
    "[options.finetune]\nepochs = '3,10'\nbatch = 16\nrates = 2e-4",
    "[options.cloze]\nunified = 'a,b'\nframes = 0",
]


@pytest.mark.parametrize("text", RIGHT)
def test_what_can_be_written_is_valid(text: str, tmp_path: Path) -> None:
    VALID.validate(tomllib.loads(text))
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    for lens, given in load_experiment(path).options.items():
        if lens in LENSES.names():
            LENSES.load(lens).typed_options.read(given)


class Tried(Options):
    lens = "tried"

    depth: Count = option(2, "how deep to look")


def test_what_is_described_is_what_is_declared() -> None:
    (one,) = Tried.describe()
    assert (one.name, one.line, one.default, one.scoring) == ("depth", "how deep to look", 2, False)
    (limit,) = [one for one in describe_fields(Selection, "selection") if one.name == "selection.limit"]
    assert (limit.flag, limit.default_text, limit.values.range_text) == ("--limit", "none", "at least 1")
    assert all_options("run").keys() == {"run"}
