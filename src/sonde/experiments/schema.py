"""The JSON schema of experiment files, for editors: what they complete, explain and underline."""

from __future__ import annotations

from typing import Any

from sonde.base.described import described_fields
from sonde.base.schema import table_schema
from sonde.capture.settings import CaptureOptions
from sonde.corpora import Selection
from sonde.experiments._experiment import Experiment
from sonde.experiments.options import lens_options
from sonde.lenses import LENSES

_OPTIONS = "options"


def experiment_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of an experiment file, from the models that check it.

    A file may name lenses from outside, and then has their options too; one without has those of sonde's own
    lenses alone.
    """
    lenses = {header.name: header.summary for header in LENSES.headers()}
    known = {"enum": list(lenses)}
    top = table_schema((one for one in described_fields(Experiment) if one.name != _OPTIONS), commas=False)
    top["properties"]["lenses"]["items"] = {"anyOf": [known, {"type": "string"}]}
    top["properties"]["selection"] = {
        "description": "how items are chosen from each corpus",
        **table_schema(described_fields(Selection), commas=False),
    }
    top["properties"]["capture"] = {
        "description": "how models read, for all lenses",
        **table_schema(described_fields(CaptureOptions), commas=False),
    }
    top["properties"][_OPTIONS] = {
        "description": "options of the lenses, a table each",
        "type": "object",
        "properties": {
            name: {"description": line, **table_schema(lens_options(name), commas=True)}
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
