from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.errors import InputError
from sonde.corpora import Item, SourceFile
from sonde.experiments.label_files import LabelOptions, label_corpora
from sonde.languages import LANGUAGES
from sonde.tasks import Repository, index_imports, merge_repositories, repositories
from sonde.tasks.engine.task import TASKS


def file_of(path: str, text: str, language: str = "python", repository: str = "r") -> SourceFile:
    return SourceFile(path, text, language, cluster=repository, repository=repository)


def item_of(file: SourceFile, text: str | None = None) -> Item:
    text = file.text if text is None else text
    return Item(file.path, text, file.language, "file", file.path, "", 0, file.cluster, file.repository)


def labels(here: str, there: str, language: str = "python") -> dict[tuple[str, str], str | None]:
    """Label of each call of the first file by (name, form), the second being elsewhere in the repository."""
    file = file_of("here", here, language)
    known = repositories([file, file_of("there", there, language)])
    table = TASKS.load("call_origin").label([item_of(file)], known)["here"]
    names = table.filter(pl.col("part") == "name")
    return {
        (name, form): label for name, form, label in names.select("name", "call_form", "label").iter_rows()
    }


THERE = """
def helper(x): return x

class Thing:
    def go(self): ...
    def open(self): ...
    def __call__(self): ...
"""

HERE = """
def run(obj, helper_result):
    obj.go(1)
    helper(2)
    Thing()
    own(3)
    np.zeros(4)
    print(len(str(5)))
    open('x')
    obj.open()
    obj.print()
    obj.__call__()

def own(x): ...
"""


def test_calls_of_python_go_where_names_are_defined() -> None:
    assert labels(HERE, THERE) == {
        ("go", "method"): "internal",
        ("helper", "bare"): "internal",
        ("Thing", "bare"): "internal",
        ("own", "bare"): "local",
        ("zeros", "method"): "external",
        ("print", "bare"): "builtin",
        ("len", "bare"): "builtin",
        ("str", "bare"): "builtin",
        # A method elsewhere does not shadow the builtin, but it is what a method call can mean.
        ("open", "bare"): "builtin",
        ("open", "method"): "internal",
        ("print", "method"): "external",
        ("__call__", "method"): "external",
    }


def test_calls_of_java_go_where_names_are_defined() -> None:
    there = "class Thing { void go() {} String format(int x) { return null; } }"
    here = """
    class Here {
        void run(Thing thing) {
            thing.go();
            new Thing();
            own(1);
            String.format("x");
            new String("x");
            list.add(2);
        }
        void own(int x) {}
    }
    """
    assert labels(here, there, "java") == {
        ("go", "method"): "internal",
        ("Thing", "bare"): "internal",
        ("own", "bare"): "local",
        # Receivers have no types here: a method of this name exists elsewhere in the repository.
        ("format", "method"): "internal",
        ("String", "bare"): "builtin",
        ("add", "method"): "external",
    }


def test_a_builtin_that_the_file_defines_is_local() -> None:
    # The example of CODETOKENIZERS' notebook.
    here = "def print(): print('print') #print; print = 1"
    assert labels(here, "") == {("print", "bare"): "local"}
    assert labels(here, "def print(): ...") == {("print", "bare"): "local"}
    assert labels("print(1)", "def print(): ...") == {("print", "bare"): "builtin"}


def test_a_method_of_the_same_file_does_not_shadow_a_builtin() -> None:
    assert labels("class A:\n    def open(self):\n        open('x')\n", "") == {("open", "bare"): "builtin"}


def test_names_defined_here_and_elsewhere_are_internal() -> None:
    assert labels("def f(): ...\nf()", "def f(): ...") == {("f", "bare"): "internal"}


def test_other_repositories_define_nothing_here() -> None:
    here = file_of("here", "f()")
    known = repositories([here, file_of("there", "def f(): ...", repository="other")])
    assert (
        TASKS.load("call_origin").label([item_of(here)], known)["here"]["label"].to_list() == ["external"] * 2
    )


def test_spans_are_the_name_and_the_arguments_with_their_brackets() -> None:
    file = file_of("here", "x = 'é'; a.f(1, g(2))")
    table = TASKS.load("call_origin").label([item_of(file)], repositories([file]))["here"]
    spans = [
        (file.text[start:end], part, form)
        for start, end, part, form in table.select("start", "end", "part", "call_form").iter_rows()
    ]
    assert spans == [
        ("f", "name", "method"),
        ("(1, g(2))", "arguments", "method"),
        ("g", "name", "bare"),
        ("(2)", "arguments", "bare"),
    ]


def test_spans_of_a_function_count_from_its_own_first_character() -> None:
    file = file_of("here", "import x\n\ndef f():\n    helper(1)\n")
    start = file.text.index("def")
    known = repositories([file, file_of("there", "def helper(x): ...")])
    table = TASKS.load("call_origin").label([item_of(file, file.text[start:])], known)["here"]
    assert file.text[start:][table["start"][0] : table["end"][0]] == "helper"
    assert table["label"][0] == "internal"


def test_calls_inside_errors_are_listed_without_a_label() -> None:
    file = file_of("here", "f(1)\nclass ((( g(2)\n")
    table = TASKS.load("call_origin").label([item_of(file)], repositories([file]))["here"]
    in_error = {call.name for call in LANGUAGES.load("python").calls(file.text) if call.in_error}
    assert in_error
    assert set(table.filter(pl.col("label").is_null())["name"]) == in_error


def test_an_item_of_an_unknown_repository_is_refused() -> None:
    with pytest.raises(InputError, match="'r' is not indexed"):
        TASKS.load("call_origin").label([item_of(file_of("here", "f()"))], {})


def test_argument_names_are_direct_arguments_named_like_definitions_elsewhere() -> None:
    here = file_of("here", "f(helper, [helper], helper.x, k=helper, other)\nhelper = 1\n")
    known = repositories([here, file_of("there", THERE)])
    table = TASKS.load("argument_names").label([item_of(here)], known)["here"]
    assert [(start, end) for start, end in table.select("start", "end").iter_rows()] == [(2, 8)]
    assert TASKS.load("argument_names").label([item_of(here)], repositories([here]))["here"].is_empty()


NAMES = st.sampled_from(["alpha", "beta", "print", "gamma", "__init__"])


@given(
    st.lists(NAMES, max_size=4),
    st.lists(NAMES, max_size=4),
    st.lists(st.tuples(NAMES, st.booleans()), max_size=6),
)
def test_labels_follow_the_rule_said_in_words(
    here: list[str], there: list[str], calls: list[tuple[str, bool]]
) -> None:
    text = "".join(f"def {name}(): ...\n" for name in here)
    text += "".join(f"obj.{name}()\n" if method else f"{name}()\n" for name, method in calls)
    found = labels(text, "".join(f"def {name}(): ...\n" for name in there))
    for name, method in calls:
        if name == "print" and not method:
            expected = "local" if name in here else "builtin"
        elif name != "__init__" and name in there:
            expected = "internal"
        elif name != "__init__" and name in here:
            expected = "local"
        else:
            expected = "external"
        assert found[name, "method" if method else "bare"] == expected


def test_the_index_does_not_depend_on_the_order_of_files() -> None:
    files = [
        file_of("a", "def f(): ...\ndef f(): ..."),
        file_of("b", "class f: ..."),
        file_of("c", "", repository="s"),
    ]
    forwards, backwards = repositories(files), repositories(files[::-1])
    assert forwards == backwards
    assert forwards["s"] == Repository({})
    assert [path for path, _ in forwards["r"].definitions["f"]] == ["a", "a", "b"]


LIBRARIES = {
    "python": (
        "import json, numpy as np\nfrom os import path\nfrom . import near\n",
        "def f(x):\n    import csv\n    json.dumps(np.zeros(3))\n    path.join(x)\n    csv.reader(x)\n"
        "    x.go()\n    near.go()\n    len(x)\n",
        {"dumps": "json", "zeros": "numpy", "join": "os", "reader": "csv", "go": "", "len": ""},
    ),
    "java": (
        "import java.util.List;\nimport static org.junit.Assert.assertEquals;\n",
        "void f(Thing x) {\n    List.of(1);\n    assertEquals(1, 2);\n    x.go();\n}\n",
        {"of": "java.util", "assertEquals": "org.junit", "go": ""},
    ),
    "javascript": (
        "import fs from 'fs';\nconst path = require('path');\n",
        "function f(x) {\n    fs.readFile(x);\n    path.join(x);\n    x.go();\n}\n",
        {"readFile": "fs", "join": "path", "go": ""},
    ),
    "go": (
        'import (\n\t"fmt"\n\t"net/http"\n)\n',
        "func f(x T) {\n\tfmt.Println(x)\n\thttp.Get(x)\n\tx.Go()\n}\n",
        {"Println": "fmt", "Get": "net", "Go": ""},
    ),
    "php": (
        "use Psr\\Log\\Levels;\nuse function Safe\\json_decode;\n",
        "function f($x) {\n    Levels::all();\n    json_decode($x);\n    $x->go();\n}\n",
        {"all": "Psr.Log", "json_decode": "Safe", "go": ""},
    ),
    "ruby": ("require 'json'\n", "def f(x)\n  JSON.parse(x)\n  x.go\nend\n", {"parse": ""}),
}
"""By language: import statements of a file, a function of it, and the library of each call."""


def libraries(imports: str, text: str, language: str) -> dict[str, set[str]]:
    file = file_of("here", imports + text, language)
    known = {"r": Repository({}, {"here": imports} if imports else {})}
    table = TASKS.load("call_origin").label([item_of(file, text)], known)["here"]
    found: dict[str, set[str]] = {}
    for name, library in table.select("name", "library").iter_rows():
        found.setdefault(name, set()).add(library)
    return found


@pytest.mark.parametrize("language", LIBRARIES)
def test_calls_through_imports_of_the_file_have_their_library(language: str) -> None:
    imports, text, wanted = LIBRARIES[language]
    found = libraries(imports, text, language)
    assert {name: found[name] for name in wanted} == {name: {library} for name, library in wanted.items()}
    # Without the file only what the text itself imports is known.
    inner = {"csv"} if language == "python" else set()
    assert set().union(*libraries("", text, language).values()) - {""} == inner


@pytest.mark.parametrize(
    "text",
    [
        "def f(json):\n    json.dumps(1)\n",
        "def f():\n    json = g()\n    json.dumps(1)\n",
        "def f():\n    from mine import json\n    json.dumps(1)\n",
    ],
)
def test_a_name_of_the_text_hides_an_import_of_the_file(text: str) -> None:
    found = libraries("import json\n", text, "python")["dumps"]
    assert found == ({"mine"} if "mine" in text else {""})


def test_the_library_is_read_from_the_files_of_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import json\n\n\ndef f(x):\n    return json.dumps(g(x))\n", encoding="utf-8"
    )
    (tmp_path / "b.py").write_text("def g(x):\n    return x\n", encoding="utf-8")
    out = tmp_path / "labels.jsonl"
    options = LabelOptions(task="call_origin", corpora=(f"local:{tmp_path}",), raw=True)
    label_corpora(options).write(out)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    found = {(row["name"], row["label"], row["library"]) for row in rows if row.get("part") == "name"}
    assert found >= {("dumps", "external", "json"), ("g", "internal", "")}


def test_definitions_and_imports_of_two_indices_are_merged() -> None:
    files = [
        file_of("a", "import json\ndef f(): ...\n"),
        file_of("b", "def g(): ...\n", repository="other"),
    ]
    merged = merge_repositories([repositories(files), index_imports(files)])
    assert {name: sorted(one.definitions) for name, one in merged.items()} == {"r": ["f"], "other": ["g"]}
    assert {name: dict(one.imports) for name, one in merged.items()} == {
        "r": {"a": "import json"},
        "other": {},
    }
    assert merge_repositories([]) == {}
