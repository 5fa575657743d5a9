"""Experiments, recipes and requirements that were written to harm, and lists that name nothing."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_origin, get_type_hints

import pytest

from sonde.base.errors import InputError, SondeError, UsageError
from sonde.base.options import AllowedValues
from sonde.capture.settings import CaptureOptions
from sonde.corpora import Selection
from sonde.experiments import Experiment
from sonde.experiments.arguments import from_arguments
from sonde.experiments.experiment import load_experiment
from sonde.lenses import LENSES
from sonde.report.requirements import read_requirements
from sonde.training.pretrain.recipe import read_recipe
from tests.experiments.test_json import COMMANDS

READERS: Mapping[str, Callable[[Path], object]] = {
    "experiment": load_experiment,
    "recipe": read_recipe,
    "requirements": read_requirements,
}

HOSTILE = {
    "lists in lists": "seed = " + "[" * 90_000 + "]" * 90_000,
    "unclosed lists": "seed = " + "[" * 190_000,
    "tables in tables": "seed = " + "{a=" * 50_000 + "1" + "}" * 50_000,
    "dotted keys": ".".join(["a"] * 5_000) + " = 1",
    "more dotted keys": ".".join(["a"] * 90_000) + " = 1",
    "dotted tables": f"[{'.'.join(['a'] * 5_000)}]\nx = 1",
    "many deep tables": "\n".join(f"[{'.'.join(['a'] * 200)}.b{number}]" for number in range(1_000)),
    "a huge number": "seed = " + "9" * 190_000,
    "a huge hexadecimal": "seed = 0x" + "f" * 190_000,
    "a huge exponent": "seed = 1e" + "9" * 10_000,
    "not a number": "seed = nan",
    "a date": "seed = 2024-12-31",
    "a time": "seed = 07:32:00",
    "a moment": "models = 2024-12-31T07:32:00Z",
    "an odd date": "seed = 9999-99-99",
    "a long key": f"{'k' * 190_000} = 1",
    "a long text": f'seed = "{"x" * 190_000}"',
    "a long name": f'models = "{"x" * 190_000}"',
    "the same key": "seed = 1\nseed = 2",
    "the same table": "[selection]\n[selection]",
    "many entries": "\n".join(f"k{number} = 1" for number in range(15_000)),
    "a million entries": "\n".join(f"k{number} = 1" for number in range(1_000_000)),
    "many elements": "models = [" + "1," * 90_000 + "]",
    "control characters": 'mo\x1bdels = "\x00"',
    "an open text": 'models = """' + "x" * 190_000,
    "escapes": 'models = "' + "\\U0010ffff" * 18_000 + "\\ud800" + '"',
    "blanks": " " * 190_000,
    "quotes": "'" * 190_000,
    "not Unicode": b"models = '\xff'",
    "UTF-16": "seed = 1".encode("utf-16"),
    "nothing": "\0" * 1_000,
}


@pytest.mark.parametrize("what", READERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_it_is_refused_in_a_line_and_a_moment(what: str, kind: str, tmp_path: Path) -> None:
    text = HOSTILE[kind]
    path = tmp_path / "a.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    begun = time.monotonic()
    if kind == "blanks" and what == "experiment":
        assert READERS[what](path) == Experiment()
        return
    with pytest.raises(SondeError) as refused:
        READERS[what](path)
    assert refused.value.exit_code == 2
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("what", READERS)
def test_a_file_without_end_and_none_at_all(what: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="longer than 200,000 bytes"):
        READERS[what](Path("/dev/zero"))
    with pytest.raises(InputError, match="No such file"):
        READERS[what](tmp_path / "none.toml")
    with pytest.raises(InputError, match="directory"):
        READERS[what](tmp_path)
    (tmp_path / "huge.toml").touch()
    os.truncate(tmp_path / "huge.toml", 1 << 40)
    with pytest.raises(InputError, match="longer than"):
        READERS[what](tmp_path / "huge.toml")


def lists(kind: type) -> list[str]:
    hints = get_type_hints(kind)
    return [field.name for field in dataclasses.fields(kind) if get_origin(hints[field.name]) is tuple]


KEYS = [
    *lists(Experiment),
    *(f"selection.{name}" for name in lists(Selection)),
    *(f"capture.{name}" for name in lists(CaptureOptions)),
    # Even where no list belongs.
    "mode",
    "selection.limit",
]
OPTIONS = [
    (lens, name)
    for lens in LENSES.names()
    for name, field in LENSES.load(lens).typed_options.model_fields.items()
    if AllowedValues.of(field).several
]


def test_the_lists_are_found() -> None:
    assert {"models", "tasks", "quirks", "selection.languages", "selection.licences"} <= set(KEYS)
    assert len(OPTIONS) > 5


@pytest.mark.parametrize("value", ["[]", '[""]', "[[]]"])
@pytest.mark.parametrize("key", KEYS)
def test_an_empty_list_is_refused(key: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f"{key} = {value}\n")
    with pytest.raises(UsageError, match=rf"{key} = .* is empty; leave it out for the default; in .*a.toml"):
        load_experiment(path)


@pytest.mark.parametrize(("lens", "name"), OPTIONS)
def test_an_option_without_a_value_is_refused(lens: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f"[options.{lens}]\n{name} = []\n")
    with pytest.raises(UsageError, match="is empty"):
        load_experiment(path)
    options = LENSES.load(lens).typed_options
    for empty in ("", (), [], " ", ","):
        with pytest.raises(UsageError, match=f"option {name} = .* is not"):
            options.read({name: empty})


@pytest.mark.parametrize("empty", [(), []])
@pytest.mark.parametrize("name", ["models", "lenses", "tasks", "corpora", "languages", "quirks"])
def test_python_cannot_say_it_either(name: str, empty: object) -> None:
    with pytest.raises(UsageError, match=f"{name} = .* is empty"):
        from_arguments(**{name: empty})  # type: ignore[arg-type]
    if name in ("models", "lenses", "corpora"):
        with pytest.raises(UsageError, match=f"{name} = .* is empty"):
            Experiment(**{name: ()})  # type: ignore[arg-type]


def test_the_command_line_takes_no_empty_name() -> None:
    """Each option that may be given several times is one of those above."""
    several = {one.name for one in COMMANDS["run"].params if one.multiple}
    named = {"models", "lenses", "tasks", "corpora", "languages", "quirks"}
    assert several == {*named, "options"}
    for name in named:
        with pytest.raises(UsageError, match="is empty"):
            from_arguments(**{name: [""]})  # type: ignore[arg-type]
