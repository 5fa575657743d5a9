"""A run of each kind that the facade opens, made by the command line's own way or from Python."""

import html
import inspect
import json
import re
import textwrap
from pathlib import Path

import pytest

import sonde
from tests.experiments.conftest import decoder as decoder
from tests.experiments.conftest import encoder as encoder
from tests.experiments.conftest import project as project

LIMIT = 30


@pytest.fixture(scope="session")
def finished(decoder: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> sonde.Run:
    """A run of the surprisal lens from Python."""
    output = tmp_path_factory.mktemp("runs") / "python"
    return sonde.run(
        models=decoder, lenses="surprisal", corpora=f"local:{project}", limit=LIMIT, output=output
    )


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some modules of the standard library, whose functions differ enough for balanced data sets."""
    root = tmp_path_factory.mktemp("library")
    for module in (textwrap, inspect, json, html, re):
        folder = root / module.__name__
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(inspect.getsource(module), encoding="utf-8")
    return root
