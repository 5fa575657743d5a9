"""Files that others made: archives, folders of models, folders of runs, and files of any length."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import sonde
from sonde.base.errors import InputError, SondeError
from sonde.corpora import SkipCounter, read_files
from sonde.corpora.engine.releases import read_tar, read_zip
from sonde.corpora.engine.source_files import suffix_table
from sonde.models import ModelSpec, describe_model, load_model
from sonde.models.engine import files
from sonde.models.engine.files import Location
from sonde.store.run_folder import RunDirectory
from tests.experiments.conftest import decoder as decoder
from tests.experiments.conftest import save_decoder

TABLE = suffix_table(("python",))
ODD = ("../out.py", "/out.py", "a/../../out.py", "..\\out.py", "C:\\out.py", "a/./../../out.py")


def test_a_tar_gives_regular_files_inside_it_alone(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    with tarfile.open(archive, "w:gz") as opened:
        for name in (*ODD[:3], ODD[5], "a/good.py"):
            info = tarfile.TarInfo(name)
            info.size = 6
            opened.addfile(info, io.BytesIO(b"x = 1\n"))
        kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
        for number, kind in enumerate(kinds):
            info = tarfile.TarInfo(f"a/odd{number}.py")
            info.type, info.linkname = kind, "/etc/passwd"
            opened.addfile(info)
    intake = SkipCounter()
    assert [path for path, _, _ in read_tar(archive, TABLE, intake, lambda path: True)] == ["a/good.py"]
    assert intake.counts == {"symbolic link": 2, "not a regular file": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


def test_a_zip_gives_regular_files_inside_it_alone(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for name in (*ODD[:3], ODD[5], "a/good.py"):
            opened.writestr(name, "x = 1\n")
        link = zipfile.ZipInfo("a/link.py")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        opened.writestr(link, "/etc/passwd")
    intake = SkipCounter()
    assert [path for path, _, _ in read_zip(archive, TABLE, intake, lambda path: True)] == ["a/good.py"]
    assert intake.counts == {"symbolic link": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def sparse(path: Path) -> Path:
    """A terabyte that takes no room."""
    with path.open("wb") as handle:
        os.truncate(handle.fileno(), 1 << 40)
    return path


def test_a_source_file_of_a_terabyte_is_passed_over(tmp_path: Path) -> None:
    sparse(tmp_path / "huge.py")
    (tmp_path / "good.py").write_text("x = 1\n")
    intake = SkipCounter()
    assert [file.path for file in read_files(f"local:{tmp_path}", (), intake)] == ["good.py"]
    assert intake.counts["too large"] == 1


@pytest.mark.parametrize("scheme", ["jsonl", "cubert", "conllu", "labelled"])
def test_rows_of_a_terabyte_are_refused(tmp_path: Path, scheme: str) -> None:
    path = sparse(tmp_path / ("rows.csv" if scheme == "labelled" else "rows.jsonl"))
    with pytest.raises(SondeError):
        list(read_files(f"{scheme}:{path}", (), SkipCounter()))


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
)
def test_a_file_of_a_model_of_a_terabyte_is_refused(tmp_path: Path, name: str) -> None:
    folder = save_decoder(tmp_path / "model")
    sparse(folder / name)
    with pytest.raises(InputError):
        describe_model(ModelSpec(name=str(folder)))


def test_a_summary_of_a_terabyte_is_refused(tmp_path: Path) -> None:
    sparse(tmp_path / "run.json")
    with pytest.raises(InputError, match="which no run writes"):
        RunDirectory(tmp_path).read_summary()


def test_code_beside_a_known_model_is_not_executed(tmp_path: Path) -> None:
    folder, witness = save_decoder(tmp_path / "model"), tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(witness)!r}, 'w')\n")
    for file, parts in {
        "config.json": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"},
        "tokenizer_config.json": {"AutoTokenizer": ["own.Slow", "own.Fast"]},
    }.items():
        held = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(held | {"auto_map": parts}))
    assert load_model(ModelSpec(name=str(folder), device="cpu")).family
    assert not witness.exists()


@pytest.mark.parametrize("part", ["lens", "task", "language"])
def test_what_a_run_names_is_not_executed_when_runs_are_compared(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = tmp_path / "ran"
    (tmp_path / "own.py").write_text(f"open({str(witness)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    summary = {
        "models": [{"name": "m", "revision": "1"}],
        "lenses": [
            {
                "name": "own",
                "source": "./own.py" if part == "lens" else "surprisal",
                "tasks": ["./own.py"] if part == "task" else [],
            }
        ],
        "corpus": [{"name": "local:x", "language": "./own.py" if part == "language" else "python"}],
    }
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        RunDirectory(tmp_path / name).write_summary(summary)
    with pytest.raises(InputError, match=r"names the .*own\.py.* is not executed"):
        sonde.compare(tmp_path / "a", tmp_path / "b")
    assert not witness.exists()


def test_every_file_of_a_model_on_the_hub_is_of_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits, asked = ["a" * 40, "b" * 40], []

    def fetched(place: Location, name: str, revision: str) -> Path:
        asked.append((name, revision))
        # The branch moves with every question.
        commit = revision if revision in commits else commits[len(asked) > 1]
        return tmp_path / "snapshots" / commit / name

    monkeypatch.setattr(files, "_download_file", fetched)
    place = Location(name="somebody/model", local=False, revision="main")
    files._commit.cache_clear()
    found = [files.find_file(place, name) for name in ("config.json", "model.safetensors", "tokenizer.json")]
    files._commit.cache_clear()
    assert {path.parent.name for path in found if path} == {commits[0]}
    assert asked[0] == ("config.json", "main")


def test_archives_whose_members_share_a_name_or_their_bytes(tmp_path: Path) -> None:
    """Of two members with one name the last is read, once; a member that cannot be read is counted."""
    wheel, tarball = tmp_path / "a.whl", tmp_path / "a.tgz"
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(wheel, "w") as opened:
        for number in range(3):
            opened.writestr("a/twice.py", f"x = {number}\n")
        opened.writestr("a/locked.py", "x = 1\n")
        opened.writestr("a/short.py", "x = 1\n" * 1_000)
    raw = bytearray(wheel.read_bytes())
    # Encrypted, and of a kind of compression that there is not, as the directory at the end says it.
    for name, at, value in ((b"a/locked.py", 8, 1), (b"a/short.py", 10, 77)):
        entry = raw.rfind(b"PK\x01\x02", 0, raw.rfind(name))
        raw[entry + at] = value
    wheel.write_bytes(raw)
    with tarfile.open(tarball, "w:gz") as packed:
        for number in range(3):
            info = tarfile.TarInfo("a/twice.py")
            info.size = 6
            packed.addfile(info, io.BytesIO(f"x = {number}\n".encode()))
    for archive, read, left_out in ((wheel, read_zip, {"unreadable": 2}), (tarball, read_tar, {})):
        intake = SkipCounter()
        held = [(path, text) for path, text, _ in read(archive, TABLE, intake, lambda path: True)]
        assert held == [("a/twice.py", "x = 2\n")]
        assert intake.counts == left_out


def few_files(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run sonde where a process may have 64 files open."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "from sonde.cli.commands import main\nmain()"
    )
    environment = os.environ | {"SONDE_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.mark.slow
def test_few_files_may_be_open(tmp_path: Path) -> None:
    code = tmp_path / "code"
    for number in range(120):
        file = code / f"p{number % 6}" / f"m{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        body = f"    t = v * {number}\n    for s in range({number}):\n        t += s\n    return t\n"
        file.write_text(f"def w{number}(v, o={number}):\n{body}")
    model = save_decoder(tmp_path / "model")
    corpus = ["-c", f"local:{code}", "--limit", "60", "--workers", "2"]
    labels = few_files(["label", "constructs", "--raw", *corpus, "-o", str(tmp_path / "l.jsonl")], tmp_path)
    assert labels.returncode == 0, labels.stderr
    run = few_files(["run", "-m", str(model), *corpus, "-o", str(tmp_path / "run")], tmp_path)
    assert run.returncode == 0, run.stderr
    checked = few_files(["verify", str(tmp_path / "run")], tmp_path)
    assert checked.returncode == 0, checked.stderr
