"""Queries about names: counts that the published arithmetic rests on, and small cases spelled out."""

import json
import textwrap
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.corpora import Given, SourceFile
from sonde.languages import LANGUAGES
from sonde.tasks import Dataset, DrawingTask, ParallelMap
from sonde.tasks.apis.api_cloze import task
from sonde.tasks.engine.api_names import NameUses, gather_names
from sonde.tasks.engine.cloze_options import StatementOptions
from sonde.tasks.engine.cloze_queries import (
    ALIASES_PER_QUERY,
    AliasPool,
    Queries,
    blanks,
    make_query_table,
    segments,
)
from sonde.tasks.engine.cloze_statements import make_aliased_statement, make_plain_statement
from sonde.tasks.engine.task import TASKS

OTHERS = "".join(f"import other{number} as o{number}\n" for number in range(12))
TEXT = f'''{OTHERS}
import numpy as np
import json
import textwrap
from os import path as p

def f():
    """Read it all at once."""
    json.loads("")
    np.linalg.qr_decomposition(1)
    np.zeros(1)

def g():
    """Read."""
    json.loads("")
    p.join()
'''


def file(text: str, language: str = "python") -> SourceFile:
    return SourceFile(path="a", text=text, language=language, cluster="r", repository="r")


def query_table(uses: NameUses, limit: int | None = None, seed: int = 0, **wanted: object) -> Queries:
    """Queries about all names, unless something else is wanted."""
    options = StatementOptions.of_every_name().model_copy(update=wanted)
    return make_query_table(uses, options, limit, seed)


def made(**wanted: object) -> Queries:
    return query_table(gather_names([file(TEXT)]), **wanted)


def test_any_number_of_processes_gives_the_same() -> None:
    files = standard_library()
    assert gather_names(files, parallel=ParallelMap(workers=2, worth=len(files) // 2)) == gather_names(files)


def standard_library() -> list[SourceFile]:
    import ast

    folder = Path(ast.__file__).parent
    names = ("argparse.py", "ast.py", "calendar.py", "cgi.py", "inspect.py", "logging/__init__.py", "pdb.py")
    return [file((folder / name).read_text(encoding="utf-8") + "\n" + OTHERS) for name in names]


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return query_table(gather_names(standard_library()), contexts=2).table


def test_first_and_last_are_equally_many(table: pl.DataFrame) -> None:
    for _, cell in table.group_by("template", "level", pl.col("context") == ""):
        modes = Counter(cell["mode"])
        assert modes["first"] == modes["last"] == modes["whole"]
    assert set(table["mode"]) == {"full", "first", "middle", "last", "whole"}


def test_calls_and_imports_are_equally_many_in_every_cell(table: pl.DataFrame) -> None:
    cells = table.group_by("mode", "level", "levels", "name").agg(
        calls=(pl.col("template") == "call").sum(), imports=(pl.col("template") == "import").sum()
    )
    assert (cells["calls"] == cells["imports"]).all()
    assert cells["calls"].sum() > 500


def test_adversarial_queries_are_ten_an_alias_query(table: pl.DataFrame) -> None:
    counts = Counter(table["template"])
    assert counts["alias"] > 0
    assert counts["adversarial"] == 10 * counts["alias"]
    adversarial = table.filter(pl.col("template") == "adversarial")
    assert (adversarial.group_by("base_id").agg(pl.col("alias").n_unique())["alias"] == 10).all()


def test_every_query_spells_its_statement(table: pl.DataFrame) -> None:
    for row in table.iter_rows(named=True):
        text = row["prefix"] + row["answer"] + row["suffix"]
        assert text[row["start"] : row["end"]] == row["answer"]
        level = text[row["level_start"] : row["level_end"]]
        assert level == row["name"].split(".")[row["level"]]
        assert row["answer"] in level
        assert row["visible"] == (row["answer"] in row["prefix"] or row["answer"] in row["suffix"])
    assert table["query_id"].is_unique().all()


def test_a_limit_takes_whole_names_and_is_contained_in_a_larger_one(table: pl.DataFrame) -> None:
    gathered = gather_names(standard_library())
    made = query_table(gathered, contexts=2, limit=40)
    small = made.table
    assert made.names == small.select("name", "kind").n_unique() == 40
    assert table.head(small.height).equals(small)
    modes = Counter(small["mode"])
    assert modes["first"] == modes["last"]
    other = query_table(gathered, contexts=2, limit=40, seed=1).table
    assert other["query_id"].to_list() != small["query_id"].to_list()


def test_no_library_has_more_names_than_wanted(table: pl.DataFrame) -> None:
    capped = query_table(gather_names(standard_library()), contexts=2, per_library=3)
    names = capped.table.group_by("library").agg(pl.col("name").unique())
    assert names["name"].list.len().max() == 3
    assert capped.left_out["library is full"] > 0
    assert set(names["library"]) == set(table["library"])
    assert capped.table["query_id"].is_in(table["query_id"].implode()).all()


def test_the_names_of_some_libraries_alone_are_asked_about(table: pl.DataFrame) -> None:
    some = tuple(sorted(set(table["library"])))[:2]
    made = query_table(gather_names(standard_library()), contexts=2, libraries=some)
    assert set(made.table["library"]) == set(some)
    assert made.table["query_id"].is_in(table["query_id"].implode()).all()
    assert made.left_out["not of the libraries named"] > 0
    with pytest.raises(UnknownNameError, match="library of the corpus"):
        query_table(gather_names(standard_library()), libraries=("no_such_library",))


def test_libraries_take_turns() -> None:
    calls = {"big": 60, "small": 3, "tiny": 1}
    text = "".join(
        f"import {name}\n" + "".join(f"{name}.f{number}()\n" for number in range(count))
        for name, count in calls.items()
    )
    for limit, expected in ((3, (1, 1, 1)), (6, (3, 2, 1)), (20, (16, 3, 1))):
        table = query_table(gather_names([file(text)]), templates=("call",), limit=limit).table
        names = dict(table.group_by("library").agg(pl.col("name").n_unique()).iter_rows())
        counts = tuple(names[name] for name in calls)
        assert sum(counts) == limit
        assert counts == expected or (limit == 6 and counts == (2, 3, 1))


def test_names_that_others_can_use() -> None:
    lib = """
import lib.inner
def shown():
    "Says what it does."
def silent(): pass
class Box:
    def read(self):
        "Reads."
lib.inner.shown(); lib.inner.silent(); lib.inner.Box(); lib.inner._hidden(); lib.inner.used()
"""
    user = "import lib.inner\nimport os\nlib.inner.used()\nos.getcwd()\nlib.inner._private()\n"
    files = [
        SourceFile("lib/inner.py", lib, "python", "lib", "lib"),
        SourceFile("lib/__init__.py", "", "python", "lib", "lib"),
        SourceFile("app/main.py", user, "python", "app", "app"),
    ]
    gathered = gather_names(files)

    def names(scope: str) -> set[str]:
        table = query_table(gathered, templates=("call",), scope=scope).table
        return {name.removeprefix("lib.inner.") for name in table["name"].unique()}

    assert names("shared") == {"shown", "Box", "used", "os.getcwd"}
    assert names("public") == names("shared") | {"silent"}
    assert names("all") == names("public") | {"_hidden", "_private"}
    options = {"templates": "call"}
    drawn = task.draw(files, size=50, seed=0, language="python", options=options)
    assert set(drawn.examples["name"]) == {f"lib.inner.{one}" for one in ("shown", "Box", "used")} | {
        "os.getcwd"
    }
    assert drawn.report["left_out"]["not for others to use"] == 3


def test_adversarial_aliases_are_those_of_modules() -> None:
    text = f"""{OTHERS}import numpy as np
from functools import partial as part
from os import path as osp
import os.path
np.zeros(1)
part()
osp.join()
"""
    table = query_table(gather_names([file(text)])).table.filter(pl.col("template") == "adversarial")
    drawn = set(table["alias"])
    assert "part" not in drawn
    assert drawn <= {f"o{number}" for number in range(12)} | {"np", "osp"}
    assert "osp" in drawn


def test_a_corpus_with_few_aliases_goes_without_adversarial_queries_unless_they_are_named() -> None:
    text = "import numpy as np\nnp.zeros(1)\n"
    drawn = task.draw([file(text)], size=9, seed=0, language="python", options={})
    assert set(drawn.examples["template"]) == {"call", "import", "alias"}
    assert drawn.report["left_out"]["too few aliases of other modules"] > 0


def test_statements_of_a_small_case() -> None:
    rows = made().table.filter(pl.col("mode").is_in(["full", "first"]))
    texts = rows.select(
        "template", "level", text=pl.concat_str("prefix", pl.lit("[?]"), "suffix"), answer="answer"
    )
    assert {row for row in texts.rows() if row[0] in ("call", "import") and "load" in row[2]} == {
        ("call", 0, "[?].loads(", "json"),
        ("import", 0, "from [?] import loads", "json"),
    }
    assert ("alias", 1, "import numpy as np\nnp.[?](", "zeros") in texts.rows()
    assert ("alias", 2, "from os import path as p\np.[?](", "join") in texts.rows()
    assert not any(row[1] == 0 for row in texts.rows() if row[0] in ("alias", "adversarial"))


def test_adversarial_aliases_belong_to_other_modules() -> None:
    rows = made().table.filter(pl.col("template") == "adversarial")
    assert rows.height > 0
    for row in rows.iter_rows(named=True):
        assert row["alias"] != ("np" if row["name"].startswith("numpy") else "p")
        assert (row["prefix"] + row["answer"] + row["suffix"]).count(row["alias"]) >= 2


def test_words_come_before_the_statement(tmp_path: Path) -> None:
    rows = made(contexts=1, templates=("call",)).table
    in_words = rows.filter((pl.col("name") == "json.loads") & (pl.col("context") != ""))
    assert set(in_words["context"]) == {"Read."}
    assert in_words["prefix"].str.starts_with("Read.\n").all()
    plain_ids = set(rows.filter(pl.col("context") == "")["query_id"])
    assert set(in_words["base_id"]) <= plain_ids
    words = tmp_path / "words.json"
    words.write_text('{"json.loads": ["bb c", "a", "b"]}', encoding="utf-8")
    given = made(contexts=3, templates=("call",), queries=str(words), separator=" ").table
    mine = given.filter(
        (pl.col("name") == "json.loads") & (pl.col("mode") == "full") & (pl.col("level") == 0)
    )
    assert mine["context"].to_list() == ["", "a", "b", "bb c"]
    assert mine["prefix"].to_list() == ["", "a ", "b ", "bb c "]


def test_java_statements() -> None:
    text = "import java.util.List;\nimport java.util.Set;\nclass A { Object o = List.of(new Set()); }"
    rows = query_table(gather_names([file(text, "java")])).table
    texts = set(rows.select(pl.concat_str("prefix", "answer", "suffix")).to_series())
    assert texts == {
        "java.util.List.of(",
        "import static java.util.List.of;",
        "new java.util.Set(",
        "import java.util.Set;",
    }


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (("os",), {"full": "os"}),
        (("lo", "ads"), {"first": "lo", "last": "ads", "whole": "loads"}),
        (("a", "b", "c", "d"), {"first": "a", "middle": "c", "last": "d", "whole": "abcd"}),
    ],
)
def test_modes(pieces: tuple[str, ...], expected: dict[str, str]) -> None:
    level = "".join(pieces)
    assert {mode: level[start:end] for mode, (start, end) in blanks(pieces).items()} == expected


def test_pieces_spell_their_level_or_are_left_out() -> None:
    found = segments(["numpy", "zeros_like", "naïve", "_"])
    assert all("".join(pieces) == level for level, pieces in found.items())
    assert {"numpy", "zeros_like", "_"} <= set(found)


def test_a_statement_keeps_the_places_of_its_levels() -> None:
    statement = make_plain_statement("from {module} import {member}", ("a", "bc", "d"))
    assert statement.text == "from a.bc import d"
    assert [statement.text[start:end] for start, end in statement.levels.values()] == ["a", "bc", "d"]
    statement = make_aliased_statement(
        "import {imported} as {alias}\n{alias}.{rest}(", ("a", "b", "c", "d"), 2, "k"
    )
    assert statement.text == "import a.b as k\nk.c.d("
    assert [(number, start) for number, (start, _) in statement.levels.items()] == [(2, 18), (3, 20)]


def test_the_pool_excludes_every_alias_of_the_module() -> None:
    modules = {f"k{number}": {"m"} for number in range(5)} | {f"o{number}": {"n"} for number in range(10)}
    drawn = AliasPool(modules, {"m", "n"}).draw("m", "x", 0, "q")
    assert sorted(drawn) == sorted(f"o{number}" for number in range(10))
    assert len(drawn) == ALIASES_PER_QUERY
    assert AliasPool(modules, {"m", "n"}).draw("m", "x", 1, "q") != drawn
    with pytest.raises(InputError, match="9 aliases of other modules"):
        AliasPool(modules, {"m", "n"}).draw("m", "o3", 0, "q")


def test_a_data_set_for_the_lens() -> None:
    assert isinstance(task, DrawingTask)
    options = {"templates": "call, alias", "contexts": 1, "min_count": 3}
    drawn = task.draw([file(TEXT)], size=60, seed=0, language="python", options=options)
    assert isinstance(drawn, Dataset)
    assert set(drawn.examples["template"]) == {"call", "alias"}
    assert {item.item_id for item in drawn.inputs} == set(drawn.examples["item_id"])
    texts = {item.item_id: item.text for item in drawn.inputs}
    for row in drawn.examples.iter_rows(named=True):
        assert texts[row["item_id"]][row["start"] : row["end"]] == row["answer"]
    assert drawn.report["size"] == drawn.examples.height <= 60


def test_rows_for_a_file_hold_no_paths() -> None:
    rows = task.collect([file(TEXT)])
    assert json.loads(json.dumps(rows)) == rows
    assert "paths" not in rows[0]
    assert task.collect([file("x = 1\n")]) == []


@pytest.mark.parametrize("name", ["api_cloze", "api_prompts"])
def test_rows_for_a_file_hold_no_ranks_of_controls(name: str) -> None:
    made = TASKS.load(name)
    assert isinstance(made, DrawingTask)
    rows = list(made.collect([file(TEXT)]))
    assert rows and not {"majority", "unigram", "spelling", "paths"} & set(rows[0])
    assert 2**31 - 1 not in {value for row in rows for value in row.values() if isinstance(value, int)}


def test_bad_input_says_so(tmp_path: Path) -> None:
    few = [file("import numpy as np\nnp.zeros(1)\n")]
    call = {"size": 9, "seed": 0, "language": "python"}
    with pytest.raises(InputError, match="0 aliases of other modules"):
        task.collect(few)
    with pytest.raises(UsageError, match="did you mean 'import'"):
        task.draw(few, **call, options={"templates": "imports"})
    with pytest.raises(InputError, match="reference segmentation"):
        made(reference=str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="not a tokenizer"):
        made(reference=str(tmp_path))
    with pytest.raises(UsageError, match="contexts"):
        task.draw(few, **call, options={"contexts": -1})
    with pytest.raises(InputError, match="none can be queried"):
        task.draw([file("x = 1")], **call, options={})
    (tmp_path / "q.json").write_text('{"a": "b"}')
    with pytest.raises(InputError, match="not of the form"):
        task.draw(few, **call, options={"queries": str(tmp_path / "q.json")})


def test_files_may_bring_their_queries() -> None:
    text = "Keep it . x = max ( a )"
    given = Given("api_cloze", "max,min", 14, 17)
    files = [
        SourceFile(
            path=name,
            text=text,
            language="text",
            cluster=name,
            repository=name,
            identifier=name,
            given=(given,),
        )
        for name in ("e-1", "e-2", "e-3")
    ]
    drawn = task.draw(files, size=5, seed=0, language="text", options={})
    assert drawn.examples.height == 4
    assert set(drawn.examples.select("prefix", "answer", "suffix").rows()) == {
        ("Keep it . x = ", "max", " ( a )"),
        ("Keep it . x = ", "min", " ( a )"),
    }
    assert {item.text for item in drawn.inputs} == {text, text.replace("max", "min")}
    listed = task.collect(files)
    assert sorted((row["name"], row["answer"]) for row in listed) == [
        (name, word) for name in ("e-1", "e-2", "e-3") for word in ("max", "min")
    ]


JAVA = """
import java.util.Collections;
import java.util.ArrayList;
class A { void f() { Collections.sort(null); new ArrayList(); } }
"""


@pytest.mark.parametrize(("text", "language"), [(TEXT, "python"), (JAVA, "java")])
def test_frames_ask_the_same_of_other_code(text: str, language: str) -> None:
    uses = gather_names([file(text, language)])
    table = query_table(uses, templates=("call", "import"), frames=1.0).table
    alone = {row["query_id"]: row for row in table.filter(pl.col("frame") == "").to_dicts()}
    framed = table.filter(pl.col("frame") != "").to_dicts()
    same = ("template", "mode", "name", "kind", "level", "answer", "candidates", "calls")
    for row in framed:
        base = alone[row["base_id"]]
        assert [row[name] for name in same] == [base[name] for name in same]
        whole = row["prefix"] + row["answer"] + row["suffix"]
        assert whole != base["prefix"] + base["answer"] + base["suffix"]
        level = base["name"].split(".")[base["level"]]
        assert whole[row["level_start"] : row["level_end"]] == level
        assert whole[row["start"] : row["end"]] == row["answer"]
        if row["template"] == "import":
            source = whole + ("\n}" if row["frame"] == "followed" else "")
            source += "\nfinally: pass" if row["frame"] == "tried" else ""
            tree = LANGUAGES.load(language).parse(textwrap.dedent(source) + "\n")
            assert not tree.error.any(), whole
    # Every query in every frame, and as many of calls as of imports.
    asked = [row for row in alone.values() if row["mode"] in ("full", "first", "last", "whole")]
    assert len(framed) == 5 * len(asked)
    counts = Counter(row["template"] for row in framed)
    assert counts["call"] == counts["import"] > 0


def test_a_share_of_the_names_is_framed() -> None:
    names = "import m\n" + "\n".join(f"m.f{number}()" for number in range(200))
    gathered = gather_names([file(names)])
    some = query_table(gathered, templates=("call",), frames=0.2).table.filter(pl.col("frame") != "")
    assert 20 <= some["name"].n_unique() <= 60
    more = query_table(gathered, templates=("call",), frames=0.5).table.filter(pl.col("frame") != "")
    assert set(some["name"]) < set(more["name"])
    with pytest.raises(UsageError, match="frames = 2 is not a number from 0 to 1"):
        task.draw([file(names)], size=9, seed=0, language="python", options={"frames": 2})


def test_libraries_of_a_named_corpus_count_as_trained_on(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import numpy as np\nnp.abs(1)\n", encoding="utf-8")
    drawn = task.draw(
        [file(TEXT)], size=500, seed=0, language="python", options={"training": f"local:{tmp_path}"},
    )  # fmt: skip
    known = dict(drawn.examples.group_by("library").agg(pl.col("trained").unique()).iter_rows())
    assert known["numpy"] == [True] and known["json"] == [False]
    plain_ones = task.draw([file(TEXT)], size=500, seed=0, language="python", options={}).examples
    assert plain_ones["trained"].null_count() == plain_ones.height


def test_aliases_of_the_corpus_are_counted() -> None:
    text = f"{OTHERS}import a as x\nx.f()\nx.f()\nimport b as y\ny.g()\n"
    other = f"{OTHERS}import a as z\nz.f()\nimport c\nc.h()\n"
    files = [SourceFile(path, code, "python", "r", "r") for path, code in (("1", text), ("2", other))]
    drawn = task.draw(files, size=500, seed=0, language="python", options={})
    assert drawn.report["aliases"] == {"names": 2, "several": 1, "mean": 1.5}
    counts = dict(drawn.examples.select("name", "aliases").unique().iter_rows())
    assert counts == {"a.f": 2, "b.g": 1, "c.h": 0}


def test_one_step_of_propagation_is_an_option() -> None:
    text = f"{OTHERS}import m\nx = m.Client()\nx.send()\n"
    for value, names in ((False, {"m.Client"}), (True, {"m.Client", "m.Client.send"})):
        drawn = task.draw(
            [file(text)], size=500, seed=0, language="python", options={"propagate": value},
        )  # fmt: skip
        assert set(drawn.examples["name"]) == names
