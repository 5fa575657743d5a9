"""What docs/card.md shows is true: its keys, its example of requirements, and its workflow."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from sonde.cli import app
from sonde.report.requirements import COLUMNS, Requirement, read_requirements

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "card.md").read_text(encoding="utf-8")
WORKFLOW = yaml.safe_load((DOCS / "gate.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["card"]["steps"]
CALLS = [step["run"] for step in STEPS if step.get("run", "").startswith("sonde ")]


def test_the_page_has_every_key_of_a_requirement() -> None:
    (table,) = re.findall(r"\| key \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE)
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [
        *("lens", "metric", "task", "slice", "where", "at_least", "at_most", "not_below", "margin"),
        "least",
    ]
    assert {field.name for field in dataclasses.fields(Requirement)} == set(
        re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    )
    (where,) = [line for line in table.splitlines() if line.startswith("| `where`")]
    assert set(re.findall(r"`(\w+)`", where)) - {"where", "scores"} <= set(COLUMNS)


def test_the_example_of_requirements_can_be_read() -> None:
    held = read_requirements(DOCS / "requirements.toml")
    assert {name for one in held for name in ("at_least", "at_most", "not_below") if getattr(one, name)} == {
        "at_least",
        "at_most",
        "not_below",
    }
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert block in (DOCS / "requirements.toml").read_text(encoding="utf-8")


def test_the_workflow_runs_and_gates() -> None:
    assert [call.split()[1] for call in CALLS] == ["run", "card"]
    assert "--require" in CALLS[1]
    assert CALLS[1].split()[2] == CALLS[0].split()[-1]
    shown = [step for step in STEPS if step.get("if") == "always()"]
    assert len(shown) == 2


@pytest.mark.parametrize("call", CALLS)
def test_the_workflow_names_options_that_are_there(call: str) -> None:
    _, name, *arguments = shlex.split(call)
    group: Any = typer.main.get_command(app)
    # Parsing refuses what a command does not know; the command is not called.
    context = group.commands[name].make_context(name, list(arguments))
    assert context.params["as_json"] is False
