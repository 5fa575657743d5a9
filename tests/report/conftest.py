"""Synthetic runs for the report's tests."""

from __future__ import annotations

import argparse
import ast
import bisect
import configparser
import csv
import functools
import gettext
import heapq
import json.encoder
import shlex
import string
import textwrap
import zipfile
from pathlib import Path

import pytest
from tests.report.synthetic import HOSTILE, Source, functions_of, write_run

from sonde.report import write_report

MODULES = (argparse, ast, bisect, configparser, csv, functools, gettext)
MORE_MODULES = (heapq, json.encoder, shlex, string, textwrap, zipfile)


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Functions of 13 modules, and one whose text attacks the page."""
    return [
        *functions_of(*MODULES, *MORE_MODULES, limit=6),
        Source("hostile.py", "f</script><img src=x>", "hostile", HOSTILE),
    ]


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory, sources: list[Source]) -> Path:
    """A run of one model."""
    return write_run(tmp_path_factory.mktemp("runs") / "one", sources, {"sonde/mini-decoder": 1.0})


@pytest.fixture(scope="session")
def report(run_directory: Path) -> Path:
    """The page of the run of one model."""
    return write_report(run_directory, figures=True)


@pytest.fixture(scope="session")
def pair_directory(tmp_path_factory: pytest.TempPathFactory, sources: list[Source]) -> Path:
    """A run of two models."""
    models = {"sonde/mini-decoder": 1.0, "org/other model": 0.7}
    return write_run(tmp_path_factory.mktemp("runs") / "two", sources[::3], models)
