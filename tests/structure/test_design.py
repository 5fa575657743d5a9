"""docs/design.md leads to the right file: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import sonde

ROOT = Path(sonde.__file__).parent
TEXT = (Path(__file__).parents[2] / "docs/design.md").read_text(encoding="utf-8")

NOT_OF_SONDE = {"src/sonde/", "src/shapes.py", "./file.py", "labels/"}
FILES = set(re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", TEXT)) - NOT_OF_SONDE
MEMBERS = {name for name in re.findall(r"`((?:\w+/)*\w+(?:\.\w+)+)`", TEXT) if name not in FILES}
SUFFIXES = (".py", ".md", ".json", ".parquet")


def test_files_and_folders_that_the_page_names_are_there() -> None:
    assert len(FILES) > 30
    assert [name for name in sorted(FILES) if not any(ROOT.rglob(name.rstrip("/")))] == []


def is_defined(name: str) -> bool:
    """Whether a module whose path ends like the name defines its members."""
    parts = re.split(r"[/.]", name)
    for number in range(1, len(parts)):
        module, members = "/".join(parts[:number]), parts[number:]
        for path in (*ROOT.rglob(f"{module}.py"), *ROOT.rglob(f"{module}/__init__.py")):
            text = path.read_text(encoding="utf-8")
            if all(re.search(rf'(?m)(?:def |class |^|"){member}\b', text) for member in members):
                return True
    return False


def test_what_the_page_names_of_a_module_is_defined_there() -> None:
    assert len(MEMBERS) > 30
    names = sorted(name for name in MEMBERS if not name.endswith(SUFFIXES))
    assert [name for name in names if not is_defined(name)] == []
