import os
import subprocess
from pathlib import Path

import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import SkipCounter, SourceFile, read_files


def git(root: Path, *arguments: str, date: str = "2020-01-01T00:00:00Z") -> str:
    identity = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        env=os.environ | identity | dates,
        check=True,
        capture_output=True,
    )
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "proj@2"
    (root / "pkg").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "pkg" / "a.py").write_bytes(b"x = 1\r\n")
    (root / "pkg" / "b.py").write_text("y = 1\n")
    (root / "link.py").symlink_to("pkg/a.py")
    (root / "é.py").write_text("z = 1\n")
    (root / "bad.py").write_bytes(b"\xff")
    (root / "notes.txt").write_text("no code")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    git(root, "tag", "v1")
    (root / "pkg" / "b.py").write_text("y = 2\n")
    git(root, "commit", "-qam", "two", date="2023-06-01T00:00:00Z")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{git(root, 'rev-parse', 'v1')},sub.py")
    git(root, "commit", "-qm", "three", date="2023-06-02T00:00:00Z")
    (root / "pkg" / "a.py").write_text("uncommitted = 1\n")
    return root


def listing(corpus: str) -> tuple[dict[str, SourceFile], SkipCounter]:
    intake = SkipCounter()
    return {file.path: file for file in read_files(corpus, (), intake)}, intake


def test_a_revision_without_checkout(repository: Path) -> None:
    files, intake = listing(f"git:{repository}")
    assert {path: file.text for path, file in files.items()} == {
        "pkg/a.py": "x = 1\r\n",
        "pkg/b.py": "y = 2\n",
        "é.py": "z = 1\n",
    }
    assert list(files) == sorted(files)
    assert files["pkg/a.py"].cluster == "pkg"
    assert {file.repository for file in files.values()} == {"proj@2"}
    assert {file.version for file in files.values()} == {git(repository, "rev-parse", "HEAD")}
    assert intake.counts == {"symbolic link": 1, "submodule": 1, "not decodable": 1}
    assert listing(f"git:{repository}@v1")[0]["pkg/b.py"].text == "y = 1\n"


def test_files_changed_since_a_date(repository: Path) -> None:
    assert list(listing(f"git:{repository}?since=2023-01-01")[0]) == ["pkg/b.py"]
    assert list(listing(f"git:{repository}@HEAD?since=2023-06-01")[0]) == ["pkg/b.py"]
    assert list(listing(f"git:{repository}?since=2024-01-01")[0]) == []
    assert len(listing(f"git:{repository}?since=2019-12-31T12:00:00%2B02:00")[0]) == 3


def test_a_change_in_a_merge_counts(repository: Path) -> None:
    git(repository, "checkout", "-q", "-f", "-b", "side", "v1")
    (repository / "side.py").write_text("s = 1\n")
    git(repository, "add", "side.py")
    git(repository, "commit", "-qm", "side", date="2020-02-01T00:00:00Z")
    git(repository, "merge", "-q", "--no-commit", "main", date="2024-05-01T00:00:00Z")
    (repository / "é.py").write_text("z = 'merged'\n")
    git(repository, "add", "é.py")
    git(repository, "commit", "-qm", "merge", date="2024-05-01T00:00:00Z")
    assert "é.py" in listing(f"git:{repository}?since=2024-01-01")[0]


def test_nothing_in_the_repository_runs(repository: Path, tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {witness}\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "gpg.program", "core.pager", "diff.external", "core.sshCommand"):
        git(repository, "config", key, str(program))
    git(repository, "config", "log.showSignature", "true")
    assert len(listing(f"git:{repository}?since=2019-01-01")[0]) == 3
    assert not witness.exists()


def test_what_cannot_be_read(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder"):
        listing(f"git:{tmp_path}/none")
    with pytest.raises(InputError, match="not a git repository"):
        listing(f"git:{tmp_path}")
    with pytest.raises(InputError, match="Needed a single revision"):
        listing(f"git:{repository}@no-such")
    with pytest.raises(UsageError, match="is not a date"):
        listing(f"git:{repository}?since=yesterday")
    with pytest.raises(UsageError, match=r"unknown option of corpus 'git:.*' 'before'"):
        listing(f"git:{repository}?before=2020-01-01")
    with pytest.raises(UsageError, match="git:PATH"):
        listing("git:")
    with pytest.raises(UsageError, match="git:PATH"):
        listing(f"git:{tmp_path}/x@--upload-pack=x")
