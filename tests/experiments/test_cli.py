"""The command line as a person meets it: one clear line for whatever is wrong."""

import json
import sys
from pathlib import Path

import pytest

from sonde.cli.commands import main

from .conftest import save_decoder


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sonde", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


def one_line(err: str) -> str:
    lines = [line for line in err.splitlines() if line.startswith("sonde: ")]
    assert len(lines) == 1
    assert "Traceback" not in err
    return lines[0]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("def f(x):\n    return g(x) + 1\n")
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["run", "-m", "sonde/mini-decodr"],
            "unknown bundled model 'sonde/mini-decodr'; did you mean 'sonde/mini-decoder'?",
        ),
        (["run", "-m", "/nowhere/at/all"], "model '/nowhere/at/all'"),
        (["run", "-l", "suprisal"], "unknown lens 'suprisal'; did you mean 'surprisal'?"),
        (["run", "-c", "stdlb"], "unknown corpus 'stdlb'; did you mean 'stdlib'?"),
        (["run", "-c", "local:/nowhere"], "/nowhere"),
        (["run", "--mode", "papr"], "unknown mode 'papr'; did you mean 'paper'?"),
        (["run", "--quirk", "perplexed.shft"], "did you mean 'perplexed.shift'?"),
        (["run", "--option", "minimum=3"], "expected LENS.NAME=VALUE"),
        (["run", "--option", "surprisal.mincount=3"], "did you mean 'min_count'?"),
        (["run", "--unit", "class"], "unknown unit 'class'; known: file, function"),
        (["run", "-f", "/nowhere.toml"], "No such file"),
        (["run", "--executor", "locl"], "unknown executor 'locl'; did you mean 'local'?"),
        (
            ["label", "call_orign", "-c", "stdlib", "-o", "x"],
            "unknown task 'call_orign'; did you mean 'call_origin'?",
        ),
        (["list", "lense"], "unknown kind 'lense'; did you mean 'lenses'?"),
        (["list", "models", "--for", "probes"], "unknown lens 'probes'; did you mean 'probe'?"),
        (["list", "tasks", "--for", "probe"], "only models are listed for a lens"),
        (["report", "/nowhere"], "no run here"),
        (["align", "/nowhere.py"], "no such file"),
        (["pretrain", "/nowhere.toml"], "No such file"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_bad_usage_is_one_line_and_exit_code_two(
    call, arguments: list[str], words: str, tmp_path: Path
) -> None:
    if arguments[0] == "run":
        arguments = [*arguments, "-o", str(tmp_path / "run")]
    exit_code, _, err = call(*arguments)
    assert exit_code == 2
    assert words in one_line(err)


def test_an_empty_corpus_says_what_was_looked_at(call, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    exit_code, _, err = call("run", "-c", f"local:{tmp_path / 'empty'}", "-o", tmp_path / "run")
    assert exit_code == 2
    assert "no function to study in 0 files" in one_line(err)


def test_a_tokenizer_without_offsets_is_named(call, decoder: Path, code: Path, tmp_path: Path) -> None:
    folder = tmp_path / "slow"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((decoder / name).read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "ByT5Tokenizer"}))
    exit_code, _, err = call("run", "-m", folder, "-c", f"local:{code}", "-o", tmp_path / "run")
    assert exit_code == 2
    assert "offsets" in one_line(err)


def test_a_model_with_nan_in_its_weights_is_bad_input(call, code: Path, tmp_path: Path) -> None:
    broken = save_decoder(tmp_path / "broken", break_it=True)
    exit_code, _, err = call("run", "-m", broken, "-c", f"local:{code}", "-o", tmp_path / "run")
    assert exit_code == 2
    assert "numbers are NaN or infinite; the checkpoint is damaged" in one_line(err)


def test_a_run_prints_what_confuses_and_where_the_page_is(
    call, decoder: Path, project: Path, tmp_path: Path
) -> None:
    arguments = ("run", "-m", decoder, "-c", f"local:{project}", "--limit", 40, "-o", tmp_path / "run")
    exit_code, out, err = call(*arguments)
    assert exit_code == 0
    assert "Python constructs for" in out
    assert "clusters" in out
    page = Path(out.strip().splitlines()[-1].removeprefix("report: "))
    assert page.is_file()
    assert "observing: done" in err
    exit_code, out, _ = call(*arguments)
    assert "0 items observed, 40 taken from the store" in out


def test_align_prints_a_row_a_subword(call, code: Path, decoder: Path) -> None:
    exit_code, out, _ = call("align", "-m", decoder, code / "a.py")
    assert exit_code == 0
    lines = out.splitlines()
    assert "tag" in lines[0]
    assert any("function_definition -> identifier" in line for line in lines)


def test_lock_then_run_on_exactly_that(call, decoder: Path, project: Path, tmp_path: Path) -> None:
    lock = tmp_path / "items.lock"
    assert call("corpus", "lock", "-c", f"local:{project}", "--limit", 12, "-o", lock)[0] == 0
    exit_code, out, _ = call(
        "run", "-m", decoder, "-c", f"local:{project}", "--lock", lock, "-o", tmp_path / "run"
    )
    assert exit_code == 0
    assert "12 items observed" in out


def test_stats_and_lists(call, project: Path) -> None:
    exit_code, out, _ = call("corpus", "stats", "-c", f"local:{project}")
    assert exit_code == 0
    assert "python" in out
    for kind in ("models", "lenses", "tasks", "languages", "corpora", "executors"):
        exit_code, out, _ = call("list", kind)
        assert exit_code == 0
        assert out.strip()


def test_known_models_fit_on_a_terminal(call) -> None:
    exit_code, out, _ = call("list", "models", "--for", "attention")
    assert exit_code == 0
    headings, *lines = out.splitlines()
    assert headings.split() == ["name", "family", "size", "cut-off", "licence", "here"]
    assert len(lines) > 40 and max(map(len, lines)) <= 120


def test_version(call) -> None:
    exit_code, out, _ = call("--version")
    assert exit_code == 0
    assert out.startswith("sonde 0.")
