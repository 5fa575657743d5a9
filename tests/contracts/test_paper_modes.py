"""The page on paper modes names what there is."""

import re

import pytest

from generators.paper_modes import CHANGES
from sonde.lenses import LENSES
from sonde.papers.quirks import list_quirks
from sonde.tasks import get_quirks
from sonde.tasks.engine.task import TASKS

PUBLISHED = {"cubert/", "data_preparation.py", "predictions/", "run.json", "tokenizer.json"}
"""Files of the published code and of runs that the page speaks of."""

_LOOKS_LIKE_A_PATH = re.compile(r"[\w.~-]+(?:/[\w.~-]*)+|[\w-]+\.(?:py|scm|toml|json|md|txt|sh)")


@pytest.fixture(scope="module")
def page(pytestconfig: pytest.Config) -> str:
    return (pytestconfig.rootpath / "docs" / "paper-modes.md").read_text(encoding="utf-8")


def test_every_quirk_is_declared_where_it_is(pytestconfig: pytest.Config) -> None:
    lenses = [LENSES.load(header.name).quirks for header in LENSES.headers()]
    tasks = [get_quirks(TASKS.load(header.name)) for header in TASKS.headers()]
    declared = list_quirks()
    assert {one["name"] for one in declared} == {name for held in (*lenses, *tasks) for name in held}
    places = [(one["name"], one["where"]) for one in declared]
    assert len(set(places)) == len(places) > 40
    for name, where in places:
        assert f'"{name}"' in (pytestconfig.rootpath / where).read_text(encoding="utf-8")
    assert {one["changes"] for one in declared} == CHANGES.keys()


def test_every_path_exists(page: str, pytestconfig: pytest.Config) -> None:
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    quoted = re.findall(r"`([^`\n]+)`", text)
    paths = [one for one in quoted if _LOOKS_LIKE_A_PATH.fullmatch(one) and one not in PUBLISHED]
    assert paths
    missing = [one for one in paths if not (pytestconfig.rootpath / one).exists()]
    assert not missing, f"docs/paper-modes.md names {missing}: give paths from the root of the repository"


def test_options_of_the_section_on_cloze_exist(page: str) -> None:
    section = page.split("\n## `cloze`")[1].split("\n## ")[0]
    built = section.split("### Built")[1].split("###")[0]
    last = [row.rsplit("|", 2)[1] for row in built.splitlines() if row.startswith("| ")][1:]
    named = [one.partition("=")[0] for cell in last for one in re.findall(r"`([a-z_]+(?:=[^`]+)?)`", cell)]
    options = LENSES.load("cloze").options
    assert [
        one for one in named if one not in options and one not in ("full", "first", "last", "single")
    ] == []
