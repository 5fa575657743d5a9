"""``sonde corpus stats``: counts by split against Python's own parser, and against what the tasks give."""

import ast
import json
import sysconfig
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import BuildOptions, SkipCounter, build_corpus, read_files
from sonde.experiments.corpus_stats import BUG_TASKS, UNSPLIT, count_corpus
from sonde.tasks import ParallelMap
from sonde.tasks.engine.task import TASKS

MODULES = ("configparser", "gettext", "imaplib", "pdb", "poplib", "shutil", "tempfile", "zipfile")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Modules of the standard library, each a cluster, split."""
    folder = tmp_path_factory.mktemp("counting")
    library = Path(sysconfig.get_paths()["stdlib"])
    rows = [
        {
            "id": name,
            "code": (library / f"{name}.py").read_text("utf-8"),
            "language": "python",
            "unit": "file",
            "licence": "PSF-2.0" if name != "pdb" else "",
        }
        for name in MODULES
    ]
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_corpus(
        BuildOptions(corpora=(f"jsonl:{folder / 'c.jsonl'}",)), folder / "out", report=lambda line: None
    )
    return f"built:{folder / 'out'}"


def outermost(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions with no function around them."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(child)
        else:
            found += outermost(child)
    return found


def caught(function: ast.AST) -> set[str]:
    """Names of the types in a function's handlers."""
    types = [node.type for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) and node.type]
    listed = [one for found in types for one in (found.elts if isinstance(found, ast.Tuple) else [found])]
    return {one.id for one in listed if isinstance(one, ast.Name)} | {
        one.attr for one in listed if isinstance(one, ast.Attribute)
    }


def row(labels: pl.DataFrame, task: str, label: str = "") -> dict[str, int]:
    (found,) = labels.filter(task=task, label=label).drop("task", "label").to_dicts()
    return found


def test_counts_are_those_of_pythons_parser(corpus: str) -> None:
    counts = count_corpus(corpus, tasks=BUG_TASKS)
    twenty = set(TASKS.load("exception_type").labels)
    assert counts.sizes["split"].to_list() == ["train", "valid", "test"]
    for line in counts.sizes.iter_rows(named=True):
        split = line["split"]
        files = list(read_files(f"{corpus}@{split}", (), SkipCounter()))
        functions = [one for file in files for one in outermost(ast.parse(file.text))]
        assert line["files"] == line["clusters"] == len(files) > 0
        assert line["functions"] == len(functions)
        assert line["characters"] == sum(len(file.text) for file in files)
        documented = sum(bool((ast.get_docstring(one) or "").strip()) for one in functions)
        # Those to whom the permutation gives their own words again are left out.
        paired = row(counts.labels, "function_docstring", "Correct")[split]
        assert 0.95 * documented - 1 <= paired <= documented
        catching = sum(bool(caught(one) & twenty) for one in functions)
        assert row(counts.labels, "exception_type")[split] == catching > 0
    assert counts.licences.filter(licence="unknown").drop("licence").sum_horizontal().to_list() == [1]


def test_labels_add_up_and_bugs_come_in_pairs(corpus: str) -> None:
    labels = count_corpus(corpus, tasks=BUG_TASKS).labels
    assert labels["task"].unique(maintain_order=True).to_list() == list(BUG_TASKS)
    for task in BUG_TASKS:
        own = labels.filter(pl.col("task") == task, pl.col("label") != "").drop("task", "label")
        assert own.sum().to_dicts() == [row(labels, task)]
        if task != "exception_type":
            assert own.rows()[0] == own.rows()[1]
            assert own.height == 2
    assert row(labels, "misuse_repair") == row(labels, "variable_misuse")


@pytest.mark.slow
def test_processes_change_no_count_and_the_seed_only_what_is_drawn(corpus: str) -> None:
    tasks = ("exception_type", "wrong_operator")
    one = count_corpus(corpus, tasks=tasks)
    two = count_corpus(corpus, tasks=tasks, parallel=ParallelMap(workers=2, worth=1))
    for name in ("sizes", "licences", "labels"):
        assert getattr(one, name).equals(getattr(two, name))
    other = count_corpus(corpus, tasks=tasks, seed=3)
    assert not one.labels.equals(other.labels)
    for task in tasks:
        assert row(one.labels, task) == row(other.labels, task)


def test_other_tasks_and_corpora_without_splits(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(x):\n    return g(x)\n\n\ndef g(x):\n    return len(x)\n")
    counts = count_corpus(f"local:{tmp_path}", tasks=("call_origin",))
    found = Counter(dict(counts.labels.filter(pl.col("label") != "").select("label", UNSPLIT).iter_rows()))
    assert found == {"local": 2, "builtin": 2}  # a call's name and its arguments
    assert counts.sizes.select("files", "functions", "clusters").rows() == [(1, 2, 1)]


def test_what_cannot_be_counted_says_so(tmp_path: Path) -> None:
    (tmp_path / "A.java").write_text("class A { int f(int a, int b) { return a - b; } }\n")
    counts = count_corpus(f"local:{tmp_path}", tasks=("exception_type", "swapped_operand"))
    assert len(counts.refused) == 1
    assert "'java' has no exception types" in counts.refused[0]
    assert row(counts.labels, "swapped_operand") == {UNSPLIT: 2}
    with pytest.raises(UsageError, match="sonde label program_tokens"):
        count_corpus(f"local:{tmp_path}", tasks=("program_tokens",))
    with pytest.raises(InputError, match="has no file of python"):
        count_corpus(f"local:{tmp_path}", languages=("python",))
