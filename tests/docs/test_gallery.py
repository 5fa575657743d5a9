"""The gallery: its runs can be made, its figures are stored, and its sentences follow the verdicts."""

from __future__ import annotations

import copy
import csv
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tools import gallery as made
from tools.prose import Passage, Prose
from typer.main import get_command

from generators import gallery
from sonde.cli.commands import app
from sonde.results.headlines import ABOVE, LEVEL, OPEN
from sonde.results.text_format import format_mark_legend

ROOT = Path(__file__).parents[2]


def answer(verdict: str, **columns: Any) -> dict[str, Any]:
    """Return a stored answer of a probe."""
    numbers = {"metric": "accuracy", "value": 0.8, "ci_low": 0.7, "ci_high": 0.9, "n": 90}
    gain = {"metric": "gain", "value": 0.1, "ci_low": 0.02, "ci_high": 0.18, "n": 90}
    control = {**numbers, "value": 0.7, "ci_low": 0.6, "ci_high": 0.8}
    row = {
        "lens": "probe",
        "model": "all-MiniLM-L6-v2",
        "task": "labelled",
        "layer": 3,
        "size": "90 examples",
    }
    figures = {"verdict": verdict, "score": numbers, "control": control, "gain": gain}
    return {**row, **figures, "control_name": "a bag of tokens", **columns}


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100


def test_every_command_is_one_of_sonde() -> None:
    for recipe in made.load_recipes().values():
        if "command" in recipe:
            program, name, *arguments = shlex.split(recipe["command"])
            assert program == "sonde"
            assert not get_command(app).commands[name].make_context(name, arguments).args  # type: ignore[attr-defined]


def test_every_run_has_a_page_once_it_is_made() -> None:
    recipes = made.load_recipes()
    assert list(gallery.DESCRIBE) == [name for name, recipe in recipes.items() if "plots" in recipe]
    for name, figures in gallery.load_results().items():
        if name in gallery.DESCRIBE:
            sentences = list(gallery.DESCRIBE[name](figures))
            assert 3 <= len(sentences) <= 10, name
            bullets = [Passage(1, re.sub("`[^`]*`", "`x`", sentence), "bullet") for sentence in sentences]
            assert [slip for bullet in bullets for slip in Prose().check_passage(bullet)] == [], name
            assert f"gallery/{name}.md" in gallery.PAGES


def test_a_sentence_follows_the_verdict() -> None:
    told = {
        verdict: list(gallery.describe_own_labels({"answers": [answer(verdict)]}))
        for verdict in (ABOVE, LEVEL, OPEN)
    }
    assert told[ABOVE][1].startswith("That is more than a bag of tokens (70 [60, 80] %); paired difference: ")
    assert told[LEVEL][1].startswith("That is not distinguishable from a bag of tokens")
    assert told[OPEN][1].startswith("That is too little data for a verdict against a bag of tokens")
    assert [sentences[2] for sentences in told.values()] == [
        "So its states tell more about the label than the surface of the code does.",
        "So this table does not show that its states tell more than the surface of the code.",
        "The table is too small for a verdict.",
    ]


def test_probes_are_counted_by_verdict() -> None:
    answers = [answer(ABOVE, task="idn"), answer(LEVEL, task="typ"), answer(OPEN, task="cpx")]
    figures = {"answers": answers, "differences": []}
    assert (
        next(gallery.describe_probes(figures)) == "Probes beat their best baseline: MiniLM in 1 of 3 tasks."
    )


def test_a_gain_with_a_verdict_goes_before_a_larger_one_without() -> None:
    larger = {"value": 0.3, "ci_low": -0.1, "ci_high": 0.7, "n": 9}
    supported, level = answer(ABOVE, task="idn"), answer(LEVEL, task="typ", gain=larger)
    told = list(gallery.describe_probes({"answers": [level, supported], "differences": []}))
    assert told[1].startswith("The highest mean gain is on `idn`: ")
    example = gallery.example_probe({"probes": {"answers": [level, supported]}})
    assert example.startswith(
        "`idn` in layer 3 of MiniLM: 80 [70, 90] % right; that is more than a bag of tokens"
    )
    told = list(gallery.describe_probes({"answers": [level], "differences": []}))
    assert told[1].startswith("No gain is shown; the highest mean is on `typ`: ")
    example = gallery.example_probe({"probes": {"answers": [level]}})
    assert "that is not distinguishable from a bag of tokens" in example


def test_an_example_of_minimal_pairs_has_its_verdict() -> None:
    pairs = answer(OPEN, lens="surprisal", task="variable_misuse", size="40 pairs")
    example = gallery.example_pairs({"heads-and-pairs": {"answers": [pairs]}})
    assert example == (
        "Qwen2.5-Coder prefers the right variable in 80 [70, 90] % of the pairs; that is "
        "too little data for a verdict against a bag of tokens (70 [60, 80] %) (n = 40 pairs)"
    )


def slice_row(name: str, value: float, **columns: Any) -> dict[str, Any]:
    """Return a stored slice."""
    numbers = {"value": value, "ci_low": value - 0.1, "ci_high": value + 0.1, "n": 200}
    return {"slice": name, "compared_to": None, **numbers, **columns}


def test_languages_whose_intervals_overlap_are_not_ranked() -> None:
    def read(language: str, low: float, high: float) -> dict[str, Any]:
        score = {"value": (low + high) / 2, "ci_low": low, "ci_high": high}
        columns = {"lens": "surprisal", "task": "", "language": language, "score": score, "size": "9 bytes"}
        return answer("alone", **columns)

    slices = [
        slice_row(name, value, dimension="construct", metric="bits", language=language)
        for language in ("go", "python", "php")
        for name, value in (("comment", 5.0), ("call", 6.0))
    ]
    middle = read("PHP", 0.45, 0.75)
    figures = {"answers": [read("Go", 0.4, 0.6), read("Python", 0.7, 0.9), middle], "slices": slices}
    told = list(gallery.describe_languages(figures))
    assert told[2] == "The two intervals do not overlap; between them: PHP."
    assert told[3:-1] == [
        f"The highest mean in {language} is that of `call`: 6.00 [5.90, 6.10] bits per subword "
        "(n = 200 subwords)."
        for language in ("Go", "PHP", "Python")
    ]
    assert told[-1].startswith("Constructs are not tested against each other here")
    figures["answers"] = [read("Go", 0.4, 0.8), read("Python", 0.7, 0.9), middle]
    told = list(gallery.describe_languages(figures))
    assert told[2].startswith("The two intervals overlap, so neither is shown to be easier")


def test_the_largest_gain_of_a_head_is_named() -> None:
    heads = answer(ABOVE, lens="attention", task="syntax_relations", size="90 edges")
    pairs = answer(LEVEL, lens="surprisal", task="variable_misuse", size="40 pairs")
    columns = {"dimension": "relation", "metric": "first_hit_gain", "compared_to": "combined"}
    slices = [
        slice_row(name, value, **columns, head=3, layer=7)
        for name, value in (("If:if->test", 0.2), ("Call:func->args", 0.3))
    ]
    told = list(gallery.describe_heads_and_pairs({"answers": [heads, pairs], "slices": slices}))
    assert told[1].startswith("That is more than a bag of tokens")
    assert told[2].startswith("The highest mean gain of 2 relations is that of `Call:func->args`: +30.0 [")
    assert told[3] == "This is head 3 of layer 7, compared with the better of both rules."
    assert "not distinguishable from a bag of tokens" in told[5]
    without = list(gallery.describe_heads_and_pairs({"answers": [heads, pairs], "slices": []}))
    assert without[2].startswith("No single relation")


def test_a_shortened_terminal_keeps_differences_and_the_meaning_of_marks() -> None:
    answers = ["surprisal, A: 0.5 (n = 9 bytes, 8.1 effective clusters †)", "surprisal, B: 0.6"]
    differences = ["Compared with A, on the same items:", "  surprisal: too little data † to tell B from it"]
    legend = f"{format_mark_legend(answers)}."
    details = ["", "Constructs for A", "  call 1.0", "", "Constructs for B", "  call 2.0"]
    assert gallery.shorten_terminal([*answers, *details, "", *differences, "", legend]) == [
        *answers,
        "",
        "...",
        "",
        *differences,
        "",
        legend,
    ]
    assert gallery.shorten_terminal([*answers, "", legend]) == [*answers, "", legend]


def test_the_overview_lists_runs_that_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = gallery.load_results()
    monkeypatch.setattr(
        gallery, "load_results", lambda: {"eight-bit": {**stored["eight-bit"], "seconds": 44}}
    )
    page = gallery.render_page()
    assert "1 of 6 are made" in page and "took\n44 s together" in page
    assert page.count("| not made yet |") == 5


def test_a_command_without_its_list_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "load_results", lambda: {"show": {"terminal": "no list\n"}})
    with pytest.raises(ValueError, match="Least expected subwords:"):
        gallery.render_show()


def test_readme_shows_the_stored_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = copy.deepcopy(gallery.load_results())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert gallery.render_readme() == readme
    stored["python"]["terminal"] = "another output\n"
    monkeypatch.setattr(gallery, "load_results", lambda: stored)
    assert gallery.render_readme() != readme


def test_a_run_without_its_model_is_skipped_with_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.fetch_models.ROOT", tmp_path)
    monkeypatch.setattr(made, "make", lambda *_: pytest.fail("it was made"))
    made.main(["probes"])
    assert (
        capsys.readouterr().out == "probes: MPNet and MiniLM, probed\n"
        '  skipped: it needs models that are not here; make models NAMES="mpnet minilm" fetches them\n'
    )


def test_a_run_without_its_debian_packages_is_skipped_with_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "dpkg-query"
    program.write_text('#!/bin/sh\ncase "$4" in libruby) echo installed;; *) exit 1;; esac\n')
    program.chmod(0o755)
    recipe = {"debian": ["libruby", "golang-src", "php-symfony-console"]}
    for path, missing in ((tmp_path, recipe["debian"][1:]), (tmp_path / "empty", recipe["debian"])):
        monkeypatch.setenv("PATH", str(path))
        assert made.find_obstacle(recipe) == (
            f"it needs Debian packages that are not installed; apt-get install {' '.join(missing)}"
        )


def test_debian_packages_are_those_of_the_command() -> None:
    recipe = made.load_recipes()["languages"]
    assert f"debian:{','.join(recipe['debian'])} " in recipe["command"]


def test_a_run_that_fails_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(name: str, recipe: dict[str, Any]) -> dict[str, Any]:
        if name == "show":
            raise LookupError("no chart\nat all")
        if name == "python":
            raise subprocess.CalledProcessError(1, ["sonde"])
        return {"made": name}

    stored: list[str] = []
    monkeypatch.setattr(made, "find_obstacle", lambda recipe: "")
    monkeypatch.setattr(made, "make", make)
    monkeypatch.setattr(made, "store", lambda name, figures: stored.append(name))
    with pytest.raises(SystemExit, match="failed: show, python; the same command resumes"):
        made.main(["show", "python", "probes"])
    assert stored == ["probes"]
    assert "  failed: LookupError: no chart\npython: " in capsys.readouterr().out


def test_without_chromium_the_picture_stays_and_a_line_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    made.take_picture(tmp_path / "show.html", tmp_path / "show.png")
    assert capsys.readouterr().out == "  no new show.png: Chromium is not installed\n"
    assert not list(tmp_path.iterdir())


def test_comments_before_the_first_statement_do_not_tell_the_label(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = "    @cache\n    def inner():\n        # kept\n        return x\n    x += 1\n    return inner\n"
    comment = "\n    # A comment.\n\n"
    texts = {
        "documented": f'def one(x):\n    "Say one."{comment}{body}',
        "both": f'def one(x):{comment}    "Say one."\n{comment}{body}',
        "undocumented": f"def one(x):{comment}{body}",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(made.sysconfig, "get_path", lambda _: str(tmp_path))
    assert list(made.read_functions()) == [
        (name, f"def one(x):\n{body}", name != "undocumented") for name in sorted(texts)
    ]


def test_figures_are_stored_in_the_order_of_the_recipes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(made, "RESULTS", tmp_path / "results.json")
    for name in ("languages", "probes"):
        made.store(name, {"terminal": [name]})
    assert list(json.loads(made.RESULTS.read_text())) == ["probes", "languages"]


def test_labels_are_balanced_and_have_no_docstring(tmp_path: Path) -> None:
    made.write_labels(tmp_path / "labels.csv", count=40, per_module=4)
    with (tmp_path / "labels.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    labels = [row["label"] for row in rows]
    assert labels.count("documented") == labels.count("undocumented") == 20
    assert len({row["group"] for row in rows}) >= 5
    assert all(row["code"].startswith("def ") for row in rows)
    for row in rows:
        function = made.ast.parse(row["code"]).body[0]
        assert isinstance(function, made.ast.FunctionDef) and made.ast.get_docstring(function) is None


def test_a_site_without_reports_says_how_to_make_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(made, "RUNS", tmp_path / "runs")
    (tmp_path / "runs" / "probes").mkdir(parents=True)
    (tmp_path / "runs" / "probes" / "report.html").write_text("the report")
    made.main(["--site", str(tmp_path / "site")])
    assert (tmp_path / "site/gallery/probes-report.html").read_text() == "the report"
    assert "make gallery docs" in (tmp_path / "site/gallery/languages-report.html").read_text()
