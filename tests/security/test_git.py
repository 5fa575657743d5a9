"""A git repository of somebody else: nothing that it says runs, and no file beside it is read."""

from __future__ import annotations

import os
import stat
import subprocess
import zlib
from pathlib import Path

import pytest

from sonde.base.errors import InputError
from sonde.corpora import SkipCounter, read_files
from tests.corpora.test_git import git

SECRET = "hunter2-of-the-machine"

PROGRAM, FILE, TEXT = "{program}", "{file}", "{text}"
SETTINGS = (
    ("core.fsmonitor", PROGRAM),
    ("core.hooksPath", "{hooks}"),
    ("core.pager", PROGRAM),
    ("pager.log", PROGRAM),
    ("pager.blame", PROGRAM),
    ("core.editor", PROGRAM),
    ("core.askPass", PROGRAM),
    ("core.sshCommand", PROGRAM),
    ("core.gitProxy", PROGRAM),
    ("core.alternateRefsCommand", PROGRAM),
    ("core.attributesFile", FILE),
    ("core.excludesFile", FILE),
    ("core.worktree", "/etc"),
    ("credential.helper", "!{program}"),
    ("diff.external", PROGRAM),
    ("diff.evil.textconv", PROGRAM),
    ("diff.evil.command", PROGRAM),
    ("diff.orderFile", FILE),
    ("filter.evil.clean", PROGRAM),
    ("filter.evil.smudge", PROGRAM),
    ("filter.evil.process", PROGRAM),
    ("merge.evil.driver", PROGRAM),
    ("interactive.diffFilter", PROGRAM),
    ("blame.ignoreRevsFile", FILE),
    ("blame.markIgnoredLines", "no-such-value"),
    ("mailmap.file", FILE),
    ("mailmap.blob", "HEAD:no-such-file"),
    ("log.showSignature", "true"),
    ("log.mailmap", "no-such-value"),
    ("log.date", "no-such-value"),
    ("log.diffMerges", "no-such-value"),
    ("gpg.program", PROGRAM),
    ("gpg.ssh.program", PROGRAM),
    ("gpg.ssh.allowedSignersFile", FILE),
    ("protocol.ext.allow", "always"),
    ("protocol.allow", "always"),
    ("alias.log", "!{program}"),
    ("alias.blame", "!{program}"),
    ("alias.ls-tree", "!{program}"),
    ("alias.cat-file", "!{program}"),
    ("uploadpack.packObjectsHook", PROGRAM),
    ("remote.origin.url", "ext::{program}"),
    ("remote.origin.promisor", "true"),
    ("remote.origin.uploadpack", PROGRAM),
    ("remote.origin.vcs", "evil"),
    ("remote.origin.partialclonefilter", "blob:none"),
    ("extensions.partialClone", "origin"),
    ("extensions.worktreeConfig", "true"),
    ("url.ext::{program}.insteadOf", "https://"),
    ("trace2.normalTarget", "{witness}"),
    ("include.path", FILE),
    ("includeIf.gitdir:/.path", FILE),
    ("safe.directory", "*"),
    ("i18n.logOutputEncoding", "no-such-encoding"),
    ("core.commentChar", "two"),
    ("core.abbrev", "no-such-value"),
    ("core.bigFileThreshold", "no-such-value"),
    ("core.packedGitLimit", "no-such-value"),
    ("color.ui", "always"),
    ("format.pretty", "no-such-format"),
    ("notes.displayRef", "refs/*"),
    ("submodule.recurse", "true"),
)
"""All by which git may run a program, read a file, reach a network, or refuse to work."""


class Planted:
    """A repository with a program that leaves a mark and a file that nobody may read."""

    def __init__(self, folder: Path) -> None:
        self.witness = folder / "ran"
        self.file = folder / "secret"
        self.file.write_text(f"{SECRET}\n")
        hooks = folder / "hooks"
        hooks.mkdir()
        self.program = folder / "program"
        for program in (
            self.program,
            *(hooks / name for name in ("post-checkout", "post-index-change", "reference-transaction")),
        ):
            program.write_text(f"#!/bin/sh\necho ran >> {self.witness}\ncat {self.file}\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.values = {
            "program": self.program,
            "file": self.file,
            "hooks": hooks,
            "witness": self.witness,
        }
        self.root = folder / "theirs"
        self.root.mkdir()
        git(self.root, "init", "-q", "-b", "main")
        (self.root / "a.py").write_text("x = 1\n")
        (self.root / ".gitattributes").write_text("*.py diff=evil filter=evil export-subst ident\n")
        git(self.root, "add", ".")
        git(self.root, "commit", "-qm", "one")
        (self.root / "a.py").write_text("x = 1\ny = 2\n")
        git(self.root, "commit", "-qam", "two", date="2023-06-01T00:00:00Z")

    def set(self, key: str, value: str) -> None:
        """Configure as a hostile author would, past what git checks."""
        section, _, rest = key.format(**self.values).partition(".")
        below, _, name = rest.rpartition(".")
        head = f'[{section} "{below}"]' if below else f"[{section}]"
        with (self.root / ".git/config").open("a") as handle:
            handle.write(f'{head}\n\t{name} = "{value.format(**self.values)}"\n')

    def check(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Read all of it in each way, from within, and hold it to what was committed."""
        monkeypatch.chdir(self.root)
        said: list[str] = []
        for corpus, dated in (
            (f"git:{self.root}", False),
            (f"git:{self.root}?since=2020-01-01", False),
            (f"git:{self.root}@main", True),
        ):
            intake = SkipCounter()
            (file,) = read_files(corpus, (), intake, with_dates=dated)
            assert file.text == "x = 1\ny = 2\n"
            assert [day for _, day in file.dates] == (["2020-01-01", "2023-06-01"] if dated else [])
            said += [str(intake.examples), repr(file)]
        assert SECRET not in "".join(said)
        assert not self.witness.exists()


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


@pytest.mark.parametrize(("key", "value"), SETTINGS, ids=[key for key, _ in SETTINGS])
def test_no_setting_of_a_repository_is_obeyed(
    key: str, value: str, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.set(key, value)
    if key == "extensions.worktreeConfig":
        (planted.root / ".git/config.worktree").write_text(f"[include]\n\tpath = {planted.file}\n")
    planted.check(monkeypatch)


def test_all_settings_at_once(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in SETTINGS:
        planted.set(key, value)
    planted.check(monkeypatch)


def test_git_itself_obeys_what_is_planted(planted: Planted) -> None:
    """Else the tests above would pass whatever is done."""
    planted.set("blame.ignoreRevsFile", FILE)
    told = subprocess.run(["git", "blame", "a.py"], cwd=planted.root, capture_output=True, check=False)
    assert SECRET.encode() in told.stderr
    planted.set("alias.show-it", "!{program}")
    subprocess.run(["git", "show-it"], cwd=planted.root, capture_output=True, check=True)
    assert planted.witness.exists()


def test_replaced_objects_and_grafts_are_passed_over(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = planted.root / "other"
    other.write_text("stolen = 1\n")
    forged = git(planted.root, "hash-object", "-w", str(other))
    git(planted.root, "replace", git(planted.root, "rev-parse", "HEAD:a.py"), forged)
    (planted.root / ".git/info").mkdir(exist_ok=True)
    (planted.root / ".git/info/grafts").write_text(f"{git(planted.root, 'rev-parse', 'HEAD')}\n")
    (planted.root / ".git/info/attributes").write_text("*.py diff=evil\n")
    planted.check(monkeypatch)


def test_what_the_caller_has_set_for_a_git_of_its_own(
    planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook, where GIT_DIR is that of the repository which is committed to."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(planted.program))
    monkeypatch.setenv("GIT_TRACE", str(planted.witness))
    planted.check(monkeypatch)


def test_a_further_checkout_and_a_submodule(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    first, further = planted.root, planted.root.parent / "further"
    git(first, "worktree", "add", "-q", "--detach", str(further), "main")
    planted.root = further
    planted.check(monkeypatch)
    outer = first.parent / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(first), "inner")
    planted.root = outer / "inner"
    planted.check(monkeypatch)


def test_bare_packed_and_with_longer_hashes(tmp_path: Path) -> None:
    for form in ("sha1", "sha256"):
        root = tmp_path / form
        root.mkdir()
        git(root, "init", "-q", "-b", "main", f"--object-format={form}")
        (root / "a.py").write_text("x = 1\n")
        git(root, "add", ".")
        git(root, "commit", "-qm", "one")
        git(root, "gc", "-q")
        git(root, "clone", "-q", "--bare", str(root), f"{root}.git")
        for place in (root, root.with_suffix(".git"), root / ".git"):
            assert [file.text for file in read_files(f"git:{place}", (), SkipCounter(), with_dates=True)] == [
                "x = 1\n"
            ]
    (tmp_path / "sha1/.git/config").write_text("[extensions]\n\tobjectFormat = md5\n")
    with pytest.raises(InputError, match=r"objectformat is 'md5'; sha1 and sha256"):
        list(read_files(f"git:{tmp_path}/sha1", (), SkipCounter()))


@pytest.mark.parametrize("way", ["no", "damaged"])
@pytest.mark.parametrize("kind", ["blob", "tree", "earlier"])
def test_a_repository_without_some_of_its_objects(tmp_path: Path, kind: str, way: str) -> None:
    root = tmp_path / "theirs"
    for folder in ("p", "q", "r"):
        (root / folder).mkdir(parents=True)
        (root / folder / "a.py").write_text(f"x = '{folder}'\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    earlier = git(root, "rev-parse", "HEAD:q/a.py")
    (root / "q/a.py").write_text("x = 'q'\ny = 1\n")
    git(root, "commit", "-qam", "two")
    lost = {
        "blob": git(root, "rev-parse", "HEAD:q/a.py"),
        "tree": git(root, "rev-parse", "HEAD:q"),
        "earlier": earlier,
    }[kind]
    place = root / ".git/objects" / lost[:2] / lost[2:]
    place.chmod(0o644)
    if way == "no":
        place.unlink()
    else:
        # A header that promises more than there is, or that cannot be read.
        place.write_bytes(zlib.compress(b"blob 100\0x") if kind == "blob" else b"rubbish")
    for dated in (False, True):
        intake = SkipCounter()
        files = {file.path: file.text for file in read_files(f"git:{root}", (), intake, with_dates=dated)}
        whole = kind == "earlier" and not dated
        assert set(files) == {"p/a.py", "r/a.py"} | ({"q/a.py"} if whole else set())
        reason = "its history is missing" if kind == "earlier" else "missing in the repository"
        assert dict(intake.counts) == ({} if whole else {reason: 1})


def test_what_looks_like_a_repository(tmp_path: Path) -> None:
    for number, (name, told) in enumerate(
        [
            (".git", f"gitdir: {tmp_path}/none"),
            (".git", "gitdir: " + "x" * 100_000),
            (".git", SECRET),
            ("HEAD", SECRET),
        ]
    ):
        root = tmp_path / str(number)
        (root / "objects").mkdir(parents=True)
        (root / name).write_text(told)
        with pytest.raises(InputError, match="not a git repository") as caught:
            list(read_files(f"git:{root}", (), SkipCounter()))
        assert SECRET not in str(caught.value)
    root = tmp_path / "pipe"
    root.mkdir()
    (root / "objects").mkdir()
    os.mkfifo(root / "HEAD")
    os.mkfifo(root / ".git")
    with pytest.raises(InputError, match="not a git repository"):
        list(read_files(f"git:{root}", (), SkipCounter()))
