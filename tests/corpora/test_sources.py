"""Sources that read what is on this machine: stdlib, environment, jdk, local, and the contract of all."""

import os
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from sonde.base.errors import InputError, SondeError, UnknownNameError, UsageError
from sonde.corpora import CORPORA, Selection, SkipCounter, Source, SourceFile, read_files, select
from sonde.corpora.engine.corpus import Packages


def listing(corpus: str, *languages: str) -> tuple[list[SourceFile], SkipCounter]:
    intake = SkipCounter()
    return list(read_files(corpus, languages, intake)), intake


@pytest.mark.parametrize("name", CORPORA.names())
def test_every_source_keeps_the_contract(name: str) -> None:
    source = CORPORA.load(name)
    assert isinstance(source, Source)
    assert isinstance(source.files("", (), SkipCounter()), Iterator)
    header = next(header for header in CORPORA.headers() if header.name == name)
    assert header.summary
    with pytest.raises(SondeError) as caught:
        listing(f"{name}:/no/such?thing==")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_unknown_names_give_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'stdlib'"):
        select("stdlb", Selection())
    with pytest.raises(UnknownNameError, match="did you mean 'python'"):
        select("stdlib", Selection(languages=("pyhton",)))


def test_a_folder_without_its_scheme(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="write local:"):
        listing(str(tmp_path))


@pytest.mark.parametrize("names", ["environment:", ""])
def test_a_name_longer_than_any_path_is_one_line(names: str) -> None:
    many = names + ",".join(f"distribution-{number}" for number in range(400))
    with pytest.raises(SondeError, match="distribution-"):
        listing(many)


def test_importing_and_reading_brings_neither_torch_nor_datasets() -> None:
    script = """
import sys
import sonde.corpora as c
heavy = ("torch", "transformers", "datasets", "pandas", "polars", "scipy")
assert not [name for name in heavy if name in sys.modules], "on import"
next(iter(c.read_files("environment:pytest", ("python",), c.SkipCounter())))
c.select("environment:pluggy", c.Selection(limit=3, languages=("python",)))
next(iter(c.read_files("stdlib", ("python",), c.SkipCounter())))
for name in c.CORPORA.names():
    c.CORPORA.load(name)
assert not [name for name in heavy if name in sys.modules], "on use"
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_stdlib_has_neither_tests_nor_site_packages() -> None:
    files, _ = listing("stdlib", "python")
    paths = {file.path: file for file in files}
    assert paths["json/decoder.py"].cluster == "json"
    assert paths["argparse.py"].cluster == paths["argparse.py"].repository == "argparse"
    assert paths["argparse.py"].licence == "PSF-2.0"
    folders = {part for path in paths for part in path.split("/")[:-1]}
    assert folders.isdisjoint(
        {"test", "tests", "idle_test", "lib2to3", "idlelib", "site-packages", "__pycache__"}
    )
    assert len(paths) > 300


def test_environment_knows_names_and_licences() -> None:
    files, _ = listing("environment:pytest,Jinja2", "python")
    assert {file.cluster for file in files} == {"pytest", "jinja2"}
    pytest_files = [file for file in files if file.cluster == "pytest"]
    assert {file.licence for file in pytest_files} == {"MIT"}
    assert {file.version for file in pytest_files} == {pytest.__version__}
    assert [file.path for file in files] == sorted(
        [file.path for file in files], key=lambda path: ("jinja2" not in path, path)
    )


def test_environment_parses_what_a_distribution_says_of_itself_once(monkeypatch: pytest.MonkeyPatch) -> None:
    real, read = PathDistribution.read_text, Counter[str]()

    def read_text(this: PathDistribution, filename: str) -> str | None:
        read[f"{this._path}/{filename}"] += 1  # type: ignore[attr-defined]
        return real(this, filename)

    monkeypatch.setattr(PathDistribution, "read_text", read_text)
    files, _ = listing("environment:pytest,Jinja2", "python")
    assert len(files) > 20
    assert max(number for name, number in read.items() if name.endswith("METADATA")) <= 2


def test_environment_of_a_distribution_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no distribution 'no-such' is installed"):
        listing("environment:no_such")


def make_src_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("java.base/java/util/List.java", "interface List { int size(); }")
        archive.writestr("java.base/module-info.java", "module java.base {}")
        archive.writestr("java.base/../../escape/Evil.java", "class Evil {}")
        archive.writestr("java.base/java/util/Bad.java", b'class Bad { String s = "\xff"; }')
        archive.writestr("java.base/java/util/Huge.java", b" " * 3_000_000)
        archive.writestr("java/lang/Old.java", "class Old {}")


def test_jdk_reads_a_source_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    make_src_zip(tmp_path / "lib" / "src.zip")
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.9"\n')
    files, intake = listing(f"jdk:{tmp_path}")
    assert [(file.path, file.cluster) for file in files] == [
        ("java.base/java/util/List.java", "java.util"),
        ("java/lang/Old.java", "java.lang"),
    ]
    assert files[0].version == "17.0.9"
    assert intake.counts == {"not decodable": 1, "too large": 1}
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert listing("jdk")[0] == files


def test_jdk_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="openjdk-17-source"):
        listing(f"jdk:{tmp_path}")
    (tmp_path / "src.zip").write_bytes(b"no zip")
    with pytest.raises(InputError, match="cannot be read"):
        listing(f"jdk:{tmp_path}")


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"def f():\n    return {path!r}\n")


def test_local_leaves_out_what_is_not_source(tmp_path: Path) -> None:
    write(
        tmp_path,
        "pyproject.toml",
        "app/main.py",
        "app/build/make.py",
        "build/lib/app/main.py",
        ".git/hook.py",
        ".hidden/x.py",
        "app/__pycache__/x.py",
        "env/pyvenv.cfg",
        "env/lib/x.py",
        "app.egg-info/x.py",
        "notes.md",
    )
    assert [file.path for file in listing(f"local:{tmp_path}")[0]] == ["app/main.py", "app/build/make.py"]


def test_local_units_of_one_project(tmp_path: Path) -> None:
    write(tmp_path, "setup.py", "src/web/app.py", "src/web/db/pool.py", "src/single.py", "tests/unit/a.py")
    write(tmp_path, "java/com/example/util/A.py", "java/com/example/net/B.py")
    files, _ = listing(f"local:{tmp_path}")
    assert {file.path: file.cluster for file in files} == {
        "setup.py": "setup",
        "src/web/app.py": "src/web",
        "src/web/db/pool.py": "src/web",
        "src/single.py": "single",
        "tests/unit/a.py": "tests/unit",
        "java/com/example/util/A.py": "java/com/example/util",
        "java/com/example/net/B.py": "java/com/example/net",
    }
    assert {file.repository for file in files} == {tmp_path.name}


def test_local_units_of_several_projects(tmp_path: Path) -> None:
    write(
        tmp_path,
        "one/pyproject.toml",
        "one/a/x.py",
        "two/pom.xml",
        "two/y.py",
        "three/package.json",
        "three/z.py",
        "loose.py",
    )
    files, _ = listing(f"local:{tmp_path}")
    assert {(file.path, file.cluster, file.repository) for file in files} == {
        ("loose.py", tmp_path.name, tmp_path.name),
        ("one/a/x.py", "one", "one"),
        ("two/y.py", "two", "two"),
        ("three/z.py", "three", "three"),
    }


def test_local_source_packages_of_debian_have_their_licence(tmp_path: Path) -> None:
    write(tmp_path, "one/pom.xml", "one/x.py", "two/y.py", "three/z.py")
    for name, said in (
        ("one", "Format: https://x\n\nFiles: *\nCopyright: A\nLicense: Expat\n words\n"),
        ("two", "Free.\n"),
    ):
        (tmp_path / name / "debian").mkdir()
        (tmp_path / name / "debian/copyright").write_text(said)
    files, _ = listing(f"local:{tmp_path}")
    assert {file.path: file.licence for file in files} == {
        "one/x.py": "Expat",
        "two/y.py": "",
        "three/z.py": "",
    }


def test_packages_of_nothing() -> None:
    assert Packages.from_paths([]).package("a/b/c.py") == "c"


def test_local_follows_no_links_and_survives_odd_names(tmp_path: Path) -> None:
    write(tmp_path, "a/x.py")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "control.py").symlink_to("x.py")
    (tmp_path / os.fsdecode(b"bad\xff.py")).write_text("x = 1\n")
    files, intake = listing(f"local:{tmp_path}")
    assert [file.path for file in files] == ["a/x.py"]
    assert intake.counts == {"symbolic link": 2, "name is not Unicode": 1}


def test_local_file_and_missing_folder(tmp_path: Path) -> None:
    write(tmp_path, "one.py", "two.py")
    assert [file.path for file in listing(f"local:{tmp_path}/one.py")[0]] == ["one.py"]
    with pytest.raises(InputError, match="no such file or folder"):
        listing(f"local:{tmp_path}/none")
    with pytest.raises(UsageError, match="local:DIR"):
        listing("local")


def test_prose_is_read_where_it_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b.txt")
    assert [file.path for file in listing(f"local:{tmp_path}", "text")[0]] == ["b.txt"]
