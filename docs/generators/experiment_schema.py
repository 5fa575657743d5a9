"""Write the JSON schema of experiment files, by which editors complete, explain and underline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sonde.base.options import AllowedValues, OptionDescription, describe_fields
from sonde.capture.settings import CaptureOptions
from sonde.corpora import Selection
from sonde.experiments.catalogue import lens_options
from sonde.experiments.experiment import Experiment
from sonde.lenses import LENSES

_OPTIONS = "options"

_TYPES: Mapping[type, object] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    Path: "string",
    object: ["string", "number", "boolean"],
}
_BOUNDS = {">=": "minimum", "<=": "maximum", ">": "exclusiveMinimum", "<": "exclusiveMaximum"}
_NUMBERS: Mapping[type, str] = {int: r"\d+", float: r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"}


def build_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12) of an experiment file, from the models that check it.

    A file may name lenses from outside, and then has their options too; one without has those of sonde's own
    lenses alone.
    """
    lenses = {header.name: header.summary for header in LENSES.headers()}
    known = {"enum": list(lenses)}
    top = _table_schema((one for one in describe_fields(Experiment) if one.name != _OPTIONS), commas=False)
    top["properties"]["lenses"]["items"] = {"anyOf": [known, {"type": "string"}]}
    top["properties"]["selection"] = {
        "description": "how items are chosen from each corpus",
        **_table_schema(describe_fields(Selection), commas=False),
    }
    top["properties"]["capture"] = {
        "description": "how models read, for all lenses",
        **_table_schema(describe_fields(CaptureOptions), commas=False),
    }
    top["properties"][_OPTIONS] = {
        "description": "options of the lenses, a table each",
        "type": "object",
        "properties": {
            name: {"description": line, **_table_schema(lens_options(name), commas=True)}
            for name, line in lenses.items()
        },
        "additionalProperties": {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An experiment of sonde",
        **top,
        "if": {"properties": {"lenses": {"items": known}}},
        "then": {"properties": {_OPTIONS: {"propertyNames": known}}},
    }


def _table_schema(options: Iterable[OptionDescription], *, commas: bool) -> dict[str, Any]:
    """Return the schema of a table of options, which holds no other.

    Args:
        options: What it may hold.
        commas: Whether several values are one text with commas, as those of a lens; else they are a list.
    """
    properties = {one.name: _option(one, commas=commas) for one in options}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _option(option: OptionDescription, *, commas: bool) -> dict[str, Any]:
    values = option.values
    schema: dict[str, Any] = {"description": option.line}
    if not values.several:
        schema |= _single(values)
    elif not commas:
        schema |= {"type": "array", "items": _single(values)}
    elif values.names or values.kind in _NUMBERS:
        schema["anyOf"] = [
            _single(values),
            {"type": "string", "pattern": _listed(values, empty=not option.default)},
        ]
    else:
        schema |= _single(values)
    if option.default not in (None, "", ()):
        schema["default"] = _plain(option.default, values, commas=commas)
    return schema


def _single(values: AllowedValues) -> dict[str, Any]:
    if values.names:
        return {"enum": list(values.names)}
    schema: dict[str, Any] = {"type": _TYPES[values.kind]}
    for sign, bound in values.bounds:
        schema[_BOUNDS[sign]] = int(bound) if bound.is_integer() else bound
    if values.pattern:
        schema["pattern"] = f"^(?:{values.pattern})$"
    return schema


def _listed(values: AllowedValues, *, empty: bool) -> str:
    """Return the pattern of several values or none; ranges of numbers are checked when they are read."""
    if values.names:
        one = f"(?:{'|'.join(map(re.escape, values.names))})"
    else:
        positive = any(sign.startswith(">") and bound >= 0 for sign, bound in values.bounds)
        one = ("" if positive else "[+-]?") + _NUMBERS[values.kind]
    several = rf"{one}(?:\s*,\s*{one})*"
    return rf"^\s*(?:{several})?\s*$" if empty else rf"^\s*{several}\s*$"


def _plain(default: object, values: AllowedValues, *, commas: bool) -> object:
    if isinstance(default, tuple):
        return values.format_value(default) if commas else list(default)
    return default
