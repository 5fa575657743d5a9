"""The systems and Python versions that are declared are the same wherever they are named."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:
    """What pyproject.toml declares."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read_versions(declared: dict[str, Any]) -> list[str]:
    """Return the Python versions that the classifiers name."""
    classifiers = "\n".join(declared["project"]["classifiers"])
    return re.findall(r"^Programming Language :: Python :: (3\.\d+)$", classifiers, re.MULTILINE)


def test_the_lowest_python_is_the_same_everywhere(declared: dict[str, Any]) -> None:
    versions = read_versions(declared)
    lowest = versions[0]
    assert versions == sorted(versions, key=lambda version: int(version.partition(".")[2]))
    assert declared["project"]["requires-python"] == f">={lowest}"
    assert declared["tool"]["basedpyright"]["pythonVersion"] == lowest
    assert f"sonde needs Python {lowest} or later" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"Linux, Python {lowest} or later" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"({lowest} to {versions[-1]})" in (ROOT / "docs/security.md").read_text(encoding="utf-8")


def test_every_declared_python_is_tried(declared: dict[str, Any]) -> None:
    # The expression by which the script reads the classifiers.
    (pattern,) = re.findall(r"sed -n 's/\.\*(\S+ .*)\"\.\*/\\1/p'", (ROOT / ".ci/install").read_text())
    expression = pattern.replace("\\(", "(").replace("\\)", ")") + '"'
    found = re.findall(expression, (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert found == read_versions(declared)
    supported = SpecifierSet(declared["project"]["requires-python"])
    assert len(found) > 1 and all(version in supported for version in found)


def test_linux_is_declared_and_nothing_that_is_not_tried(declared: dict[str, Any]) -> None:
    systems = [entry for entry in declared["project"]["classifiers"] if entry.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
