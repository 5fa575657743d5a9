from pathlib import Path

import pytest
from tests.training.recipes import silent

from sonde.base.errors import InputError
from sonde.corpora import SkipCounter, is_holdout_package, item_id
from sonde.training.pretrain.data import (
    HeldOut,
    choose_documents,
    is_allowed_licence,
    is_handwritten,
    iterate_reserved_files,
)
from sonde.training.pretrain.recipe import CorpusConfig, DataConfig

HELD_OUT = '''
def measured(self, samples, weights, origin, scale, limit, verbose=False):
    """Mean of the weighted samples."""
    total, mass = 0.0, 1e-9
    for sample, weight in zip(samples, weights):
        distance = abs(sample - origin) / scale
        if distance < limit:
            total += weight * sample
            mass += weight
        elif verbose:
            print("left out", sample)
    return total / mass
'''


def ids(data: DataConfig, intake: SkipCounter | None = None) -> list[str]:
    return [document.file.path for document in choose_documents(data, intake or SkipCounter(), silent)]


@pytest.fixture
def data(corpus: Path) -> DataConfig:
    return DataConfig(corpora=(CorpusConfig(name=f"local:{corpus}", language="python"),), held_out=())


@pytest.mark.parametrize(
    ("licence", "kept"),
    [
        ("MIT", True),
        ("MIT License", True),
        ("BSD-3-Clause AND Apache-2.0", True),
        ("Apache-2.0 OR GPL-3.0", True),
        ("MIT AND GPL-3.0-only", False),
        ("LGPL-2.1", False),
        ("Limited", False),
        ("", False),
    ],
)
def test_licences(licence, kept):
    assert is_allowed_licence(licence, ("MIT", "BSD", "Apache")) is kept


def test_the_jdk_is_named_by_its_whole_expression():
    words = ("GPL-2.0 WITH Classpath-exception-2.0",)
    assert is_allowed_licence("GPL-2.0 WITH Classpath-exception-2.0", words)
    assert not is_allowed_licence("GPL-2.0", words)


def test_what_nobody_wrote():
    assert is_handwritten("x = 1\n" * 50)
    assert not is_handwritten("a" * 2000)
    assert not is_handwritten("0x1234, 0x5678,\n" * 50)
    assert not is_handwritten("x = '\0'\n")


def test_order_is_by_hash_and_more_bytes_only_add(data, corpus):
    everything = ids(data)
    assert len(everything) == 40
    assert everything != sorted(everything)
    few = ids(DataConfig(corpora=data.corpora, held_out=(), bytes=3000))
    assert few == everything[: len(few)]
    assert 0 < len(few) < 40


def test_no_cluster_dominates(data):
    capped = CorpusConfig(name=data.corpora[0].name, language="python", cluster_bytes=2000)
    intake = SkipCounter()
    paths = ids(DataConfig(corpora=(capped,), held_out=()), intake)
    assert 0 < sum("north" in path for path in paths) < 10
    assert intake.counts["cluster full"] > 0


def test_a_near_copy_of_held_out_code_takes_its_file_along(data, corpus, tmp_path):
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / "origin.py").write_text(HELD_OUT)
    renamed = HELD_OUT.replace("origin", "centre").replace("Mean of", "The mean of")
    (corpus / "north" / "copied.py").write_text("import os\n\n\n" + renamed)
    unlike = HELD_OUT
    for word in ("samples", "weights", "origin", "scale", "limit", "total", "mass", "distance"):
        unlike = unlike.replace(word, f"{word}_x")
    (corpus / "north" / "unlike.py").write_text("import os\n\n\n" + unlike)
    intake = SkipCounter()
    apart = DataConfig(corpora=data.corpora, held_out=(f"local:{tmp_path / 'apart'}",))
    paths = ids(apart, intake)
    assert not any(path.endswith("copied.py") for path in paths)
    assert any(path.endswith("unlike.py") for path in paths)
    assert intake.counts["near-copy of held-out code"] == 1
    assert any(path.endswith("copied.py") for path in ids(data))


def test_short_functions_condemn_nothing():
    getter = "def name(self):\n    return self._name\n"
    assert not HeldOut(iter([("held", [getter])])).matches("ours", [getter])
    assert HeldOut(iter([("held", [HELD_OUT])])).matches("ours", [getter, HELD_OUT])


def test_a_held_out_file_is_known_by_its_whole_text_however_short_its_functions():
    declarations = "from typing import Any\n\nParse = Any\n"
    assert HeldOut(iter([(declarations, [])])).matches(declarations, [])
    assert not HeldOut(iter([(declarations, [])])).matches("", [])


def test_reserved_names_are_left_out_and_guarded(tmp_path):
    names = [f"package{n}" for n in range(40)]
    for name in names:
        folder = tmp_path / "many" / name
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text("")
        (folder / "code.py").write_text(HELD_OUT.replace("measured", name).replace("total", f"total_{name}"))
    name = f"local:{tmp_path / 'many'}"
    data = DataConfig(corpora=(CorpusConfig(name=name, language="python"),), held_out=())
    intake = SkipCounter()
    with pytest.raises(InputError, match="near-copy"):
        ids(data, intake)
    assert intake.counts["reserved name"] == sum(map(is_holdout_package, names)) > 0


def test_reserved_files_are_those_that_would_be_trained_on_otherwise(tmp_path):
    names = [f"package{n}" for n in range(40)]
    for name in names:
        folder = tmp_path / "many" / name
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text("")
        (folder / "code.py").write_text(HELD_OUT)
        (folder / "short.py").write_text("x = 1\n")
        (folder / "code.go").write_text("package a\n")
    kept = [name for name in names if is_holdout_package(name)]
    corpus = CorpusConfig(name=f"local:{tmp_path / 'many'}", language="python", exclude=(kept[0],))
    data = DataConfig(corpora=(corpus,), held_out=())
    found = [file.path for file in iterate_reserved_files(data, "python")]
    assert found == sorted(f"{name}/code.py" for name in kept[1:])
    assert not list(iterate_reserved_files(data, "go"))


def test_repeated_and_broken_files(data, corpus):
    text = (corpus / "north" / "module_1.py").read_text()
    (corpus / "north" / "again.py").write_text(text)
    (corpus / "north" / "broken.py").write_text("def f(:\n" * 60)
    intake = SkipCounter()
    paths = ids(data, intake)
    assert len(paths) == 40
    assert intake.counts["repeated file"] == 1
    assert intake.counts["does not parse"] == 1


def test_item_ids_name_the_file_and_its_functions(data, corpus):
    document = next(choose_documents(data, SkipCounter(), silent))
    assert document.item_ids[0] == item_id(document.file.text, "python", "file")
    assert len(document.item_ids) == 3
    start = document.file.text.index("def total")
    end = document.file.text.index("return result") + len("return result")
    assert document.item_ids[1] == item_id(document.file.text[start:end], "python", "function")
