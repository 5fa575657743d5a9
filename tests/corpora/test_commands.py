"""``sonde corpus`` as a person meets it."""

import sys
from pathlib import Path

import pytest

from sonde.cli.commands import main

from .test_build import contents, many, write


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sonde", "corpus", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    return write(tmp_path / "c.jsonl", many(60))


def test_build_then_count_then_build_again(call, corpus: str, tmp_path: Path) -> None:
    code, out, err = call("build", "-c", corpus, "-o", tmp_path / "out", "--splits", "50,25,25")
    assert code == 0
    assert "near duplicate (" in out
    assert f"read it as built:{tmp_path / 'out'}" in out
    assert "60 files of jsonl" in err.replace("read: ", "")
    code, out, _ = call("stats", "-c", f"built:{tmp_path / 'out'}", "-t", "variable_misuse")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.split() == ["language", "split", "files", "functions", "clusters", "characters", "tokens"]
    assert [line.split()[1] for line in lines[:3]] == ["train", "valid", "test"]
    assert "Variable misuse" in out
    assert "a run takes:" in out
    manifest = tmp_path / "out" / "manifest.jsonl"
    assert call("build", "--manifest", manifest, "-o", tmp_path / "again")[0] == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "again")


def test_many_corpora_are_told_together(call, corpus: str, tmp_path: Path) -> None:
    """What each left out by itself would be hundreds of lines; the sums are those of the lines."""
    others = [write(tmp_path / f"other{number}.jsonl", many(60)) for number in range(12)]
    named = [part for name in (corpus, *others) for part in ("-c", name)]
    code, out, _ = call("build", *named, "-o", tmp_path / "out", "--splits", "50,25,25")
    assert code == 0
    first, *lines = out.splitlines()
    assert first.startswith("13 corpora (manifest.jsonl has each): ")
    kept, _, files = first.split(": ")[1].split()[:3]
    assert int(files) == 13 * 60
    left_out = [int(line.split()[2]) for line in lines if line.startswith("  left out:")]
    assert int(kept) + sum(left_out) == int(files)
    assert len(left_out) == len(lines) - 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--licence", "MITT"], "unknown licence 'MITT'; did you mean 'MIT'?"),
        (["--method", "mnhash"], "unknown method 'mnhash'; did you mean 'minhash'?"),
        (["--language", "jva"], "unknown language 'jva'; did you mean 'java'?"),
        (["--held-out", "stdlb"], "unknown corpus 'stdlb'; did you mean 'stdlib'?"),
        (["--held-out", "built:/nowhere"], "manifest '/nowhere': no such file"),
        (["--splits", "60,40"], "expected three shares"),
        (["--splits", "60,20,x"], "expected three shares"),
        (["--splits", "60,20,40"], "sum to 1"),
        (["--min-chars", "100000"], "nothing is left of 60 files"),
        (["--manifest", "nowhere.jsonl"], "no such file"),
        (["--manifest", "nowhere.jsonl", "--seed", "3"], "give only -c, -o and --workers"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_two(
    call, corpus: str, tmp_path: Path, arguments: list[str], words: str
) -> None:
    code, _, err = call("build", "-c", corpus, "-o", tmp_path / "out", *arguments)
    assert code == 2
    (line,) = [line for line in err.splitlines() if line.startswith("sonde: ")]
    assert words in line
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_one_line_and_exit_code_one(
    call, corpus: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    code, _, err = call("build", "-c", corpus, "-o", tmp_path / "file" / "out")
    assert code == 1
    assert "cannot write" in err
    assert (tmp_path / "file").read_text() == "mine"
