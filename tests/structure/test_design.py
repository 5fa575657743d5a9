"""docs/design.md leads to the right file: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sonde

ROOT = Path(sonde.__file__).parent
TEXT = (Path(__file__).parents[2] / "docs/design.md").read_text(encoding="utf-8")

NOT_OF_SONDE = {"src/sonde/", "src/shapes.py", "./file.py", "labels/"}
FILES = set(re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", TEXT)) - NOT_OF_SONDE
MEMBERS = {name for name in re.findall(r"`((?:\w+/)*\w+(?:\.\w+)+)`", TEXT) if name not in FILES}
SUFFIXES = (".py", ".md", ".json", ".parquet")


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_and_folders_that_the_page_names_are_there(name: str) -> None:
    assert any(ROOT.rglob(name.rstrip("/")))


@pytest.mark.parametrize("name", sorted(name for name in MEMBERS if not name.endswith(SUFFIXES)))
def test_what_the_page_names_of_a_module_is_defined_there(name: str) -> None:
    parts = re.split(r"[/.]", name)
    for number in range(1, len(parts)):
        module, members = "/".join(parts[:number]), parts[number:]
        for path in (*ROOT.rglob(f"{module}.py"), *ROOT.rglob(f"{module}/__init__.py")):
            text = path.read_text(encoding="utf-8")
            if all(re.search(rf'(?m)(?:def |class |^|"){member}\b', text) for member in members):
                return
    pytest.fail(f"{name} is nowhere below {ROOT}")


def test_the_page_can_be_read_in_minutes() -> None:
    assert len(FILES) > 30 and len(MEMBERS) > 30
    assert len(TEXT.splitlines()) <= 220
