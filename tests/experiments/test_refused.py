"""What cannot work is refused before a corpus is read, and models that a lens cannot read are left out."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from sonde.api.catalogue import KINDS
from sonde.base.errors import UsageError
from sonde.cli import app
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.label_files import LabelOptions
from sonde.experiments.run import run
from sonde.report import write_report
from sonde.tasks.engine.task import TASKS
from tests.label_files import write_label_file

NAMED = [
    (["-m", "sonde/mini-decodr"], "unknown bundled model 'sonde/mini-decodr'; did you mean"),
    (["-m", "/no/such/model"], "unknown model '/no/such/model'"),
    (["-l", "suprisal"], "unknown lens 'suprisal'; did you mean 'surprisal'?"),
    (["-l", "probe", "-t", "idm"], "unknown task 'idm'; did you mean 'idn'?"),
    (["-c", "stdlb"], "unknown corpus 'stdlb'; did you mean 'stdlib'?"),
    (["-c", "a.csv"], "unknown corpus 'a.csv'; for a table of labels write labelled:a.csv"),
    (
        ["-c", "in/a.jsonl"],
        "unknown corpus 'in/a.jsonl'; for a table of labels write labelled:in/a.jsonl, for code without "
        "labels jsonl:in/a.jsonl",
    ),
    (["-c", "gti:a.csv"], "unknown corpus 'gti'; did you mean 'git'?"),
    (["-c", "local:.", "-c", "local:/no/such/folder"], "corpus 'local:/no/such/folder': no such file"),
    (["-c", "local:.", "-c", "jsonl:/no/such/file"], "jsonl:/no/such/file"),
    (["--language", "pyton"], "unknown language 'pyton'; did you mean 'python'?"),
    (["--unit", "functon"], "unknown unit 'functon'; did you mean 'function'?"),
    (["--device", "gpu"], "device = 'gpu' is not a device: auto, cpu, cuda, cuda:N, mps or xpu"),
    (["--dtype", "float23"], "unknown dtype 'float23'; did you mean 'float32'?"),
    (["--seed", "1" * 26], "is not at most 2147483647"),
    (["--limit", "1" * 26], "is not at most 2147483647"),
    (["--executor", "locl"], "unknown executor 'locl'; did you mean 'local'?"),
    (["--quirk", "perplexed.shft"], "did you mean 'perplexed.shift'?"),
    (["-l", "probe", "--option", "probe.l2=nan"], "options.probe.l2 = nan is not a text, a finite number"),
    (["-l", "probe", "--option", "probe.device=gpu"], "option device = 'gpu' is not a device"),
    (["-l", "cloze", "--option", "cloze.queries=/no"], "option queries = '/no': no such file"),
    (["-l", "cloze", "--option", "cloze.training=stdlb"], "unknown corpus 'stdlb'"),
    (["-l", "finetune", "--option", "finetune.external_test=cubrt:x"], "did you mean 'cubert'?"),
    (["-l", "probe", "-l", "cloze", "-t", "idn"], "lens 'cloze' takes tasks about corpus"),
]
"""Arguments and a part of the line that they end in."""

CODE = """
import sys
sys.argv = ["sonde", "run", "-o", "out", *{arguments!r}]
from sonde.cli import main
try:
    main()
except SystemExit as ended:
    print(ended.code, [name for name in ("torch", "transformers") if name in sys.modules])
"""


@pytest.mark.parametrize(("arguments", "words"), NAMED, ids=lambda value: " ".join(value)[:40])
def test_names_are_refused_in_one_line_without_torch(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("def f(x):\n    return x\n")
    code = CODE.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "2 []\n", done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("sonde: ") and words in line
    assert not (tmp_path / "out").exists()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    for package in range(4):
        (folder / f"p{package}").mkdir(parents=True)
        text = "\n\n".join(f"def f{n}{package}(x):\n    return g(x, {n}) + {package}\n" for n in range(4))
        (folder / f"p{package}" / "m.py").write_text(text)
    return folder


@pytest.fixture
def both(encoder: Path, decoder: Path, code: Path) -> Experiment:
    return Experiment(models=(str(encoder), str(decoder)), lenses=("surprisal",), corpora=(f"local:{code}",))


@pytest.mark.parametrize("objective", ["causal", "pll"])
def test_surprisal_reads_the_models_of_one_kind_and_says_which_it_left_out(
    both: Experiment, objective: str, tmp_path: Path
) -> None:
    named = {"surprisal": {"objective": objective}} if objective == "pll" else {}
    outcome = run(dataclasses.replace(both, options=named), Execution(output=tmp_path / "run"))
    encoder, decoder = both.models
    read, left = (decoder, encoder) if objective == "causal" else (encoder, decoder)
    assert pl.read_parquet(outcome.directory.scores)["model"].unique().to_list() == [read]
    summary = json.loads((tmp_path / "run/run.json").read_text())
    assert [model["name"] for model in summary["models"]] == [read]
    (refused,) = summary["refused"]
    assert (refused["lens"], refused["model"]) == ("surprisal", left)
    assert "which cannot be compared" in refused["reason"] and "\n" not in refused["reason"]
    page = write_report(tmp_path / "run").read_text().partition("What was not scored, and")[2]
    assert f"surprisal of {left}<" in page


@pytest.mark.slow
def test_each_lens_reads_what_it_can(both: Experiment, tmp_path: Path) -> None:
    asked = dataclasses.replace(both, lenses=("surprisal", "attention"))
    outcome = run(asked, Execution(output=tmp_path / "run"))
    scores = pl.read_parquet(outcome.directory.scores)
    read = {lens: set(rows["model"]) for (lens,), rows in scores.group_by("lens")}
    assert read == {"surprisal": {both.models[1]}, "attention": set(both.models)}
    assert [(one.lens, one.model) for one in outcome.refused] == [("surprisal", both.models[0])]


def test_a_lens_that_can_read_no_model_of_the_run_is_refused(both: Experiment, tmp_path: Path) -> None:
    alone = dataclasses.replace(both, models=both.models[:1], lenses=("attention", "prompting"))
    with pytest.raises(UsageError, match="lens 'prompting' needs a model that generates text") as caught:
        run(alone, Execution(output=tmp_path / "run"))
    assert "\n" not in str(caught.value)
    causal = dataclasses.replace(both, models=both.models[:1], options={"surprisal": {"objective": "causal"}})
    with pytest.raises(UsageError, match=r"--option surprisal.objective=pll"):
        run(causal, Execution(output=tmp_path / "run"))


MINE = '''"""Lines of a function."""
from sonde.tasks.engine.task_types import MetricTask, range_classes


class Lines(MetricTask):
    name = "lines_of_mine"
    classes = range_classes("1-2", "3-")

    def value(self, text, language):
        return text.count("\\n") + 1


task = Lines()
'''


def test_a_task_from_a_file_is_probed(decoder: Path, tmp_path: Path) -> None:
    task = tmp_path / "lines_of_mine.py"
    task.write_text(MINE)
    folder = tmp_path / "many"
    for package in range(12):
        (folder / f"p{package}").mkdir(parents=True)
        made = [
            f"def f{n}_{package}(x):\n" + "    g(x)\n" * (n % 2) + f"    return h{n}{package}(x)\n"
            for n in range(10)
        ]
        (folder / f"p{package}" / "m.py").write_text("\n\n".join(made))
    asked = Experiment(
        models=(str(decoder),),
        lenses=("probe",),
        tasks=(str(task),),
        corpora=(f"local:{folder}",),
        selection=Selection(limit=60),
        options={"probe": {"controls": False, "curves": False, "pooling": "mean", "probe": "linear"}},
    )
    outcome = run(asked, Execution(output=tmp_path / "run"))
    scores = pl.read_parquet(outcome.directory.scores)
    assert scores["task"].unique().to_list() == ["lines_of_mine"]
    assert scores.filter(pl.col("metric") == "accuracy").height
    assert (tmp_path / "run/labels/task=lines_of_mine").is_dir()
    # What the file says is part of what was measured: a changed question is asked again.
    assert run(asked, Execution(output=tmp_path / "run")).scores_key == outcome.scores_key
    source_hash = TASKS.source_hash(str(task))
    task.write_text(MINE.replace('"1-2", "3-"', '"1-3", "4-"'))
    assert TASKS.source_hash(str(task)) != source_hash


@pytest.mark.parametrize("task", ["swapped_operand", "idn", "ocu"])
def test_a_language_that_a_task_does_not_know_is_refused(task: str, tmp_path: Path) -> None:
    corpus = tmp_path / "words.jsonl"
    corpus.write_text(json.dumps({"id": "1", "code": "Some words.", "language": "text"}) + "\n")
    wanted = LabelOptions(
        task=task, corpora=(f"jsonl:{corpus}",), raw=True, selection=Selection(languages=("text",))
    )
    with pytest.raises(UsageError, match=r"'text'.*java.*python") as caught:
        write_label_file(wanted, tmp_path / "labels.jsonl")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "labels.jsonl").exists()


def test_everything_that_is_offered_can_be_listed() -> None:
    result = CliRunner().invoke(app, ["list", "--help"])
    for what in KINDS:
        assert what in result.output
        listed = CliRunner().invoke(app, ["list", what])
        assert listed.exit_code == 0 and listed.output.strip(), what
