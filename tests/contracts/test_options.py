"""Every option of every lens is typed, explained, and refuses what it cannot be in one line."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from generators.experiment_schema import build_schema
from sonde.base.errors import UsageError
from sonde.base.options import AllowedValues, Options
from sonde.experiments import Experiment, merge_overrides, parse_options
from sonde.experiments.resolve import resolve_lenses
from sonde.lenses import LENSES, Lens


def model(lens: str) -> type[Options]:
    loaded = LENSES.load(lens)
    assert isinstance(loaded, Lens)
    return loaded.typed_options


def wrong(values: AllowedValues) -> list[Any]:
    """Values of other types and outside the range."""
    found: list[Any] = [[["a"]], {"a": 1}, b"a", None]
    if values.kind is bool:
        found += ["yes", 1, 0.5]
    elif values.kind is str:
        found += [1, 0.5, True]
    else:
        found += ["much", True, float("nan"), float("inf"), -float("inf")]
        found += [0.5] if values.kind is int else []
    found += ["no such name at all"] if values.names else []
    for sign, bound in values.bounds:
        step = 0 if len(sign) == 1 else 1
        edge = bound - step if sign.startswith(">") else bound + step
        found.append(int(edge) if values.kind is int else edge)
    return found


@pytest.mark.parametrize("lens", LENSES.names())
def test_options_of_a_lens_are_those_of_its_model(lens: str) -> None:
    typed = model(lens)
    assert typed.lens == lens or not typed.names()
    assert set(LENSES.load(lens).options) == typed.names()
    assert LENSES.load(lens).scoring_options <= typed.names()
    typed.read({})


@pytest.mark.parametrize("lens", LENSES.names())
def test_an_option_says_what_it_is(lens: str) -> None:
    for option, line in LENSES.load(lens).options.items():
        field = model(lens).model_fields[option]
        assert field.description and "\n" not in line, option
        assert str(AllowedValues.of(field)) in line and "default " in line, option
        assert not field.is_required(), option


@pytest.mark.parametrize("lens", LENSES.names())
def test_an_option_refuses_what_it_cannot_be(lens: str) -> None:
    typed = model(lens)
    for option in LENSES.load(lens).options:
        for value in wrong(AllowedValues.of(typed.model_fields[option])):
            with pytest.raises(UsageError) as caught:
                typed.read({option: value})
            line = str(caught.value)
            assert "\n" not in line and option in line, (option, value)
            for example in re.findall(r"for example ([\w.]+=\S+)", line):
                resolve_lenses(Experiment(lenses=(lens,), options=parse_options([example], [lens])))


@pytest.mark.parametrize("lens", LENSES.names())
def test_a_default_is_valid_as_a_user_writes_it(lens: str) -> None:
    typed = model(lens)
    for option in LENSES.load(lens).options:
        field = typed.model_fields[option]
        if field.default is None:
            continue
        values = AllowedValues.of(field)
        written = typed.written(option, values.format_value(field.default))
        # A default of no values is had by leaving the option out: an empty value is refused.
        if written or (values.kind is not str and field.default != ()):
            assert getattr(typed.read({option: written}), option) == field.default, option


@pytest.mark.parametrize("lens", LENSES.names())
def test_the_schema_refuses_what_the_lens_refuses_and_takes_its_defaults(lens: str) -> None:
    schema = Draft202012Validator(build_schema()["properties"]["options"]["properties"][lens])
    for name, field in model(lens).model_fields.items():
        values = AllowedValues.of(field)
        for value in wrong(values):
            if not isinstance(value, bytes) and (not isinstance(value, float) or isfinite(value)):
                assert not schema.is_valid({name: value}), (name, value)
        if field.default is not None:
            written = model(lens).written(name, values.format_value(field.default))
            if written or values.kind is not str:
                assert schema.is_valid({name: written}), (name, written)


def test_the_example_of_an_option_that_cannot_be_read_is_valid() -> None:
    with pytest.raises(UsageError) as caught:
        parse_options(["minimum=3"], [])
    (example,) = re.findall(r"for example (\S+=\S+)", str(caught.value))
    (choice,) = resolve_lenses(Experiment(options=parse_options([example], ["surprisal"])))
    assert choice.options == (("min_count", 20),)


OUTSIDE = '''"""A lens from outside."""
from sonde.lenses import ReadingLens


class Mine(ReadingLens):
    name = "my_lens"
    version = "1"
    quirks = {}
    options = {"depth": "how deep to look (default 2)"}
    tasks = ()

    def unsupported_reason(self, capabilities):
        return None

    def input_requests(self, prepared, labels, settings):
        return ()

    def observe(self, observed, labels, settings, surfaces):
        raise NotImplementedError

    def score(self, scoring):
        return []


lens = Mine()
'''


@pytest.mark.parametrize("plain", [True, False])
def test_a_lens_from_outside_has_plain_options_or_none(tmp_path: Any, plain: bool) -> None:
    path = tmp_path / "my_lens.py"
    path.write_text(OUTSIDE if plain else OUTSIDE.replace('    options = {"depth"', '    other = {"depth"'))
    asked = Experiment(lenses=(str(path),))
    for written in ("my_lens.depth=3", f"{path}.depth=3"):
        given = merge_overrides(asked, {"options": parse_options([written], asked.lenses)})
        if plain:
            assert resolve_lenses(given)[0].options == (("depth", 3),)
        else:
            with pytest.raises(UsageError, match="unknown option of lens 'my_lens' 'depth'"):
                resolve_lenses(given)
