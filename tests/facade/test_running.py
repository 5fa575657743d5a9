"""A run from Python is the run of the command line: same scores, same folder, same errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sonde
from sonde.base.errors import SondeError, UsageError
from sonde.cli.commands import main
from sonde.corpora import CORPORA
from sonde.experiments.arguments import from_arguments
from sonde.languages import LANGUAGES, list_corpora

from .conftest import LIMIT


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["sonde", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_scores_are_those_of_the_command_line(
    finished: sonde.Run, decoder: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("run", "-m", decoder, "-l", "surprisal", "-c", f"local:{project}", "--limit", LIMIT)
    assert call(monkeypatch, *arguments, "-o", tmp_path / "cli") == 0
    scores = sonde.read_scores(tmp_path / "cli")
    assert len(scores) > 100
    assert finished.scores.equals(scores, null_equal=True)


def test_the_same_call_finds_the_folder_of_the_command_line(
    decoder: Path,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    option = {"surprisal": {"min_count": 5}}
    run = sonde.run(models=[decoder], corpora=[f"local:{project}"], limit=12, seed=3, options=option)
    assert run.directory.parent == Path("runs")
    arguments = ("run", "-m", decoder, "-c", f"local:{project}", "--limit", 12, "--seed", 3)
    assert call(monkeypatch, *arguments, "--option", "surprisal.min_count=5") == 0
    assert "0 items observed, 12 taken from the store" in capsys.readouterr().out
    assert list(Path("runs").iterdir()) == [run.directory]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"lenses": "probe", "corpora": "stdlib"}, {"lenses": ["probe"], "corpora": ("stdlib",)}),
        ({"models": Path("a/b"), "limit": 3}, {"models": ["a/b"], "limit": 3}),
        (
            {"lenses": "probe", "options": {"probe": {"folds": 3, "pooling": ["mean", "last"], "mdl": True}}},
            {
                "lenses": "probe",
                "options": ["probe.folds=3", "probe.pooling=mean,last", "probe.mdl=true"],
            },
        ),
        ({"options": "surprisal.min_count=5"}, {"options": {"surprisal": {"min_count": 5}}}),
    ],
)
def test_one_or_several_and_options_as_texts_or_values_are_the_same(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert from_arguments(**one) == from_arguments(**other)


def test_without_arguments_it_is_the_demo_and_a_device_changes_nothing_of_that() -> None:
    experiment, execution = from_arguments(device="cpu")
    assert (experiment.corpora, experiment.selection.limit) == (("stdlib",), 1500)
    assert execution.output.name.startswith("demo-")


def test_languages_without_a_corpus_have_one_of_their_own(tmp_path: Path) -> None:
    experiment, execution = from_arguments(languages="go")
    assert (experiment.corpora, experiment.selection.limit) == (("debian:golang-src",), 1500)
    assert experiment.selection.languages == ("go",) and execution.output.name.startswith("demo-")
    several, _ = from_arguments(languages=("java", "go", "text"), limit=5)
    assert (several.corpora, several.selection.limit) == (("jdk", "debian:golang-src"), 5)
    assert from_arguments(languages="text", limit=5)[0].corpora == ("stdlib",)
    assert from_arguments(languages="go", corpora="local:x")[0].corpora == ("local:x",)
    assert from_arguments(languages="go", experiment=sonde.Experiment())[0].corpora == ("stdlib",)
    (tmp_path / "mine.toml").write_text('corpora = ["jdk"]\n')
    assert from_arguments(languages="go", file=tmp_path / "mine.toml")[0].corpora == ("jdk",)


@pytest.mark.parametrize("language", [name for name in LANGUAGES.names() if list_corpora(name)])
def test_corpora_of_a_language_are_read_by_sources_of_sonde(language: str) -> None:
    for corpus in list_corpora(language):
        assert corpus.partition(":")[0] in CORPORA.names()


def test_what_is_given_lies_over_an_experiment() -> None:
    base = sonde.Experiment(lenses=("probe",), corpora=("environment",), include_seen=True)
    experiment, _ = from_arguments(experiment=base, limit=7, include_seen=False)
    assert (experiment.lenses, experiment.corpora) == (("probe",), ("environment",))
    assert (experiment.selection.limit, experiment.include_seen) == (7, False)


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"lenses": "suprisal"}, ["-l", "suprisal"]),
        ({"corpora": "stdlb"}, ["-c", "stdlb"]),
        ({"corpora": "local:/nowhere"}, ["-c", "local:/nowhere"]),
        ({"models": "sonde/mini-decodr"}, ["-m", "sonde/mini-decodr"]),
        ({"mode": "papr"}, ["--mode", "papr"]),
        ({"quirks": "perplexed.shft"}, ["--quirk", "perplexed.shft"]),
        ({"unit": "class"}, ["--unit", "class"]),
        ({"options": {"surprisal": {"mincount": 3}}}, ["--option", "surprisal.mincount=3"]),
        ({"options": "minimum=3"}, ["--option", "minimum=3"]),
        ({"executor": "locl"}, ["--executor", "locl"]),
        ({"dtype": "float23"}, ["--dtype", "float23"]),
        ({"file": "/nowhere.toml"}, ["-f", "/nowhere.toml"]),
        ({"lock": "/nowhere.lock"}, ["--lock", "/nowhere.lock"]),
    ],
    ids=str,
)
def test_errors_are_the_lines_of_the_command_line(
    given: dict[str, Any],
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "run"
    with pytest.raises(SondeError) as raised:
        sonde.run(**given, output=output)
    assert call(monkeypatch, "run", *arguments, "-o", output) == raised.value.exit_code
    assert capsys.readouterr().err.splitlines()[-1] == f"sonde: {raised.value}"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"models": []}, "models = [] is empty"),
        ({"languages": 3}, "languages = 3 is neither a name nor a list of names"),
        ({"limit": "50"}, "limit = '50' is not"),
        ({"workers": 0}, "workers = 0 is not"),
        ({"options": {"surprisal": 3}}, "options of lens 'surprisal' = 3 is not a table of values by name"),
        ({"options": {"surprisal": {"min_count": None}}}, "min_count = None is not"),
        ({"experiment": sonde.Experiment(), "file": "a.toml"}, "give one of them"),
    ],
    ids=str,
)
def test_what_a_command_line_cannot_say_is_one_line_too(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]*$") as raised:
        from_arguments(**given)
    assert words in str(raised.value)


def test_a_script_that_is_only_imported_by_a_process_is_told_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, sonde\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=print)\n"
        "    process.start()\n"
        "    process.join()\n"
        "else:\n"
        "    sonde.run(corpora='local:/nowhere')\n"
    )
    made = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert "under `if __name__" in made.stderr.splitlines()[-1]


@pytest.mark.slow
def test_the_line_that_a_person_types_prints_a_flat_frame(tmp_path: Path, project: Path) -> None:
    (tmp_path / "src").symlink_to(project)
    code = "run = sonde.run('sonde/mini-decoder', 'local:src', lens='surprisal', limit=50); print(run.scores)"
    line = [sys.executable, "-c", f"import sonde; {code}"]
    made = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    (folder,) = (tmp_path / "runs").iterdir()
    scores = sonde.read_scores(folder)
    assert f"shape: {scores.shape}" in made.stdout.replace("_", "")
    assert "sonde/mini-decoder" in set(scores["model"])
