import sys
from pathlib import Path

import pytest

from sonde.base.errors import InputError, UnknownNameError
from sonde.base.registry import Registry


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[str]:
    folder = tmp_path / "things_under_test"
    (folder / "large").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "_machinery.py").write_text("raise RuntimeError")
    (folder / "small_one.py").write_text(
        '"""A small thing.\n\nMore."""\nNEEDS = ("model",)\n'
        'ALIASES: tuple[str, ...] = ("tiny",)\nthing = "small"\n'
    )
    (folder / "broken.py").write_text('"""Fails when imported."""\nraise RuntimeError("imported")\n')
    (folder / "empty.py").write_text('"""Defines nothing."""\n')
    (folder / "large" / "__init__.py").write_text('"""A large thing."""\nthing = "large"\n')
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry("things_under_test", "thing", "thing")
    for name in [name for name in sys.modules if name.startswith("things_under_test")]:
        del sys.modules[name]


def test_listing_imports_nothing(registry: Registry[str]) -> None:
    assert registry.names() == ("broken", "empty", "large", "small_one")
    headers = {header.name: header for header in registry.headers()}
    assert headers["small_one"].summary == "A small thing"
    assert headers["small_one"].needs == ("model",)
    assert not any(name.startswith("things_under_test.") for name in sys.modules)


def test_loading_by_name_dash_alias_and_folder(registry: Registry[str]) -> None:
    assert registry.load("small_one") == registry.load("small-one") == registry.load("tiny") == "small"
    assert registry.load("large") == "large"


def test_folders_that_hold_extensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "things_in_folders"
    for part in ("one", "two", "_machinery"):
        (folder / part).mkdir(parents=True)
        (folder / part / "__init__.py").write_text("")
        (folder / part / f"of_{part}.py").write_text(f'"""Of {part}."""\nthing = "{part}"\n')
    (folder / "__init__.py").write_text("")
    (folder / "one" / "_helper.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    registry: Registry[str] = Registry("things_in_folders", "thing", "thing", folders=True)
    assert registry.names() == ("of_one", "of_two")
    assert [header.summary for header in registry.headers()] == ["Of one", "Of two"]
    assert registry.load("of-two") == "two"
    assert not {"things_in_folders.one", "things_in_folders.one.of_one"} & set(sys.modules)


def test_loading_from_a_file(registry: Registry[str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text('thing = "mine"')
    assert registry.load(str(mine)) == "mine"
    with pytest.raises(InputError, match="no such file"):
        registry.load(str(tmp_path / "absent.py"))


def test_errors_name_the_nearest_and_what_is_missing(registry: Registry[str]) -> None:
    with pytest.raises(UnknownNameError, match="unknown thing 'smal_one'; did you mean 'small_one'"):
        registry.load("smal_one")
    with pytest.raises(InputError, match="does not define `thing`"):
        registry.load("empty")
