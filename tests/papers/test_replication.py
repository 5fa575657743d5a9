"""Every experiment of a paper works: each is run cut down, on small models and code that is here."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from tests.experiments.conftest import save_decoder
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

import sonde
import sonde.models
from sonde.experiments.catalogue import experiment_files
from sonde.report.replication import ELSEWHERE, compare_with_paper, find_published_tables, plot
from sonde.report.run_tables import RunData

pytestmark = pytest.mark.slow

MODULES = (
    "ast", "calendar", "csv", "difflib", "fractions", "gzip", "optparse", "plistlib", "pprint", "shutil",
    "statistics", "textwrap", "tokenize", "trace",
)  # fmt: skip

EXCEPTIONS = (
    "ValueError", "KeyError", "AttributeError", "TypeError", "OSError", "IOError", "ImportError",
    "IndexError", "DoesNotExist", "KeyboardInterrupt", "StopIteration", "AssertionError", "SystemExit",
    "RuntimeError", "HTTPError", "UnicodeDecodeError", "NotImplementedError", "ValidationError",
    "ObjectDoesNotExist", "NameError",
)  # fmt: skip


@pytest.fixture(scope="session")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    """Two models that summarise a text in a token before it, as BERT does."""
    return [str(_encoder(tmp_path_factory.mktemp("encoders") / f"encoder{seed}", seed)) for seed in (0, 1)]


def _encoder(folder: Path, seed: int) -> Path:
    """A small model with random weights and the vocabulary of the bundled encoder."""
    bundled = Path(sonde.models.__file__).parent / "bundled" / "mini-encoder"
    tokenizer = AutoTokenizer.from_pretrained(bundled)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=1024,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Modules of the standard library, a package each, and functions that catch CuBERT's exceptions."""
    root = tmp_path_factory.mktemp("code")
    for name in MODULES:
        (root / name).mkdir()
        shutil.copy(Path(sysconfig.get_paths()["stdlib"]) / f"{name}.py", root / name / "code.py")
    for package in range(8):
        (root / f"caught{package}").mkdir()
        (root / f"caught{package}" / "code.py").write_text(
            "\n\n".join(
                f"def read_{name.lower()}_{package}(source, size{package}={package * 7 + place}):\n"
                f"    try:\n        return source.{name.lower()}(size{package})[{place}:]\n"
                f"    except {name}:\n        return {package} - {place}\n"
                for place, name in enumerate(EXCEPTIONS)
            )
        )
        # As many variables and decisions as tasks that count have classes, under names of their own.
        (root / f"counted{package}").mkdir()
        (root / f"counted{package}" / "code.py").write_text(
            "\n\n".join(
                f"def count_{package}_{number}(first{package}):\n"
                + "".join(
                    f"    part{package}x{number}x{at} = first{package}.field{package}{at}(first{package})\n"
                    for at in range(number)
                )
                + "".join(
                    f"    {'el' * (at > 0)}if part{package}x{number}x{at} > {package * 11 + at}:\n"
                    f"        return {at}\n"
                    for at in range(number)
                )
                + f"    return first{package}.end{package}x{number}()\n"
                for number in range(11)
            )
        )
    return root


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Classes with statements of every kind, a package each."""
    root = tmp_path_factory.mktemp("java")
    for package in range(12):
        (root / f"p{package}").mkdir()
        methods = "\n".join(
            f"""
    int work{package}x{place}(int value, int[] other) {{
        for (int i = {place}; i < value + {package}; i++) {{
            total = total + other[i];
        }}
        if (value > {place}) {{
            total = find(value, {package});
        }} else {{
            while (value < total) {{
                value = value * {place + 2};
            }}
        }}
        return total;
    }}"""
            for place in range(3)
        )
        (root / f"p{package}" / "Work.java").write_text(f"class Work {{\n    int total;\n{methods}\n}}\n")
    return root


@pytest.fixture(scope="session")
def files_of_a_hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As github-code has them: files of repositories whose functions call each other's, with licences."""
    rows: list[dict[str, Any]] = []
    for package in range(6):
        for part in range(3):
            calls = "\n\n".join(
                f"def work_{package}_{part}_{place}(value):\n"
                f"    total = helper{package}_{(part + 1) % 3}(\n"
                f"        value, {place}, 0.5, 'text',  # on\n        None, True, False)\n"
                f"    return array(\n        total, 'a', 1, 0.5,  # end\n        None, True, False, value)\n"
                for place in range(3)
            )
            helper = f"def helper{package}_{part}(*values):\n    return values"
            text = "\n\n\n".join(["from numpy import array", helper, calls])
            rows.append(
                {
                    "code": text,
                    "repo_name": f"owner/r{package}",
                    "path": f"m{part}.py",
                    "language": "Python",
                    "license": "gpl-3.0",
                }
            )
    folder = tmp_path_factory.mktemp("hub") / "code"
    datasets.Dataset.from_list(rows).save_to_disk(folder)
    return folder


@pytest.fixture(scope="session")
def imports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repositories that import a dozen libraries under names of their own, and call them."""
    root = tmp_path_factory.mktemp("imports")
    words = (
        "read",
        "store",
        "merge",
        "table",
        "shape",
        "count",
        "value",
        "index",
        "write",
        "parse",
        "frame",
        "plot",
    )
    for repository in range(3):
        (root / f"r{repository}").mkdir()
        for place, word in enumerate(words):
            (root / f"r{repository}" / f"{word}s.py").write_text(
                f"import lib{word}.core as {word[:2]}{place}\nfrom lib{word}.tools import {word}\n"
                f"import lib{word}\n\n\n"
                f"def use_{word}(one):\n"
                f'    """Find the {word} of one."""\n'
                f"    {word}(one)\n    lib{word}.load(one)\n    lib{word}.core.{word}_all(one)\n"
                f"    return {word[:2]}{place}.{word}_of(one, {word[:2]}{place}.get(one))\n"
            )
    return root


@pytest.fixture(scope="session")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of four words."""
    path = tmp_path_factory.mktemp("treebank") / "bank.conllu"
    words = ("ships", "birds", "dogs", "cats", "trains", "boats", "girls", "boys", "men", "women")
    path.write_text(
        "".join(
            f"# newdoc id = d{number}\n# sent_id = {number}\n"
            f"1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\t{one}\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_\n"
            f"3\tsee\t_\tVERB\t_\t_\t0\troot\t_\t_\n"
            f"4\t{words[(number * 3 + 1) % 10]}\t_\tNOUN\t_\t_\t3\tobj\t_\t_\n\n"
            for number, one in enumerate(words * 2)
        )
    )
    return path


SHORT = {"length": 32, "patience": 1, "checkpoint": 1000}
SMALL = {**SHORT, "embedding": 16, "lstm_width": 16, "baseline_epochs": 1}
"""Models and baselines that train in a moment."""

CUT_DOWN: dict[str, dict[str, Any]] = {
    "codesyntax/table3": {"corpora": ["code", "java"], "limit": 24},
    "codesyntax/table4-english": {"corpora": ["treebank"]},
    "codesyntax/table4-german": {"corpora": ["treebank"]},
    "codesyntax/figure4b": {"corpora": ["java"], "limit": 20},
    "codesyntax/figure18b": {"corpora": ["code"], "limit": 20},
    "cubert/table2": {"corpora": ["code"], "limit": 100, "options": SMALL},
    "cubert/table3": {"corpora": ["code"], "limit": 40, "tasks": "wrong_operator", "options": SHORT},
    "cubert/table4": {"corpora": ["code"], "limit": 40, "tasks": "wrong_operator", "options": {"epochs": 1}},
    "cubert/table4-bilstm": {"corpora": ["code"], "limit": 40, "options": SMALL},
    "cubert/table5": {"corpora": ["code"], "limit": 40, "options": SMALL},
    "ink/figure4": {"corpora": ["imports"]},
    "ink/table4": {"corpora": ["imports"], "options": {"training": "known"}},
    "inspect/table2": {"corpora": ["code"], "languages": "python", "limit": 50},
    "perplexed/table1": {"corpora": ["files_of_a_hub"], "context": 512},
}
"""What is given beside each file, as on the command line; corpora are fixtures."""

KINDS = {"treebank": "conllu", "files_of_a_hub": "hub"}

OF_ALL = {
    "codesyntax/figure4b", "codesyntax/figure18b", "codesyntax/table4-english", "codesyntax/table4-german",
    "cubert/table2", "ink/figure4", "ink/table4", "inspect/table2", "perplexed/table1",
}  # fmt: skip
"""Files whose every figure that has a place finds a score there, on whatever code."""


@pytest.mark.parametrize("name", experiment_files())
def test_an_experiment_works_cut_down(
    name: str, encoders: Sequence[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    given = dict(CUT_DOWN[name])
    corpora = [f"{KINDS.get(one, 'local')}:{request.getfixturevalue(one)}" for one in given.pop("corpora")]
    options = given.pop("options", {})
    if options.get("training"):
        options = {"training": f"local:{_known(request.getfixturevalue('imports'), tmp_path)}"}
    lens = "finetune" if name.startswith("cubert") else "cloze"
    models: Sequence[str] = encoders if name == "ink/table4" else encoders[:1]
    if name.startswith("perplexed"):
        models = [str(save_decoder(tmp_path / "decoder", context=512))]
    run = sonde.run(
        file=f"{name}.toml",
        models=models,
        corpora=corpora,
        options={lens: options} if options else None,
        output=tmp_path / "run",
        **given,
    )
    data = RunData(tmp_path / "run")
    found = [one for table in find_published_tables(data) for one in compare_with_paper(data, table)]
    missing = [(one.figure.row, one.figure.column, one.reason) for one in found if one.value is None]
    unexpected = [one for one in missing if one[2].endswith("fit")]
    assert unexpected == []
    assert any(one.value is not None for one in found)
    if name in OF_ALL:
        elsewhere = [one for one in missing if one[2] == ELSEWHERE]
        assert elsewhere == []
    figure = plot.draw(data)
    assert figure is not None and figure.table is not None and len(figure.table.texts()) == len(found)
    page = run.page.read_text(encoding="utf-8")
    assert "Compared with the published figures" in page and "No model of the paper is in this run" in page


def _known(imports: Path, folder: Path) -> Path:
    """Half of the libraries, as what a model was trained on."""
    for path in sorted((imports / "r0").iterdir())[:6]:
        (folder / "known" / "r").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / "known" / "r" / path.name)
    return folder / "known"
