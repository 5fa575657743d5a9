"""Names of APIs over several files."""

import polars as pl
import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import SourceFile
from sonde.tasks.apis.api_names import task, to_names_table
from sonde.tasks.engine.api_names import gather_names


def file(path: str, text: str, repository: str = "r", language: str = "python") -> SourceFile:
    return SourceFile(path=path, text=text, language=language, cluster=repository, repository=repository)


FILES = [
    file("p/__init__.py", ""),
    file("p/a.py", "import numpy as np\nfrom .b import f\nnp.zeros(1)\nf(np.zeros(2))\n"),
    file(
        "p/b.py", 'import numpy as n\ndef f():\n    """Fill it.\n\n    More."""\n    n.zeros(1)\nn.ones(1)\n'
    ),
    file("q.py", "import numpy\nnumpy.zeros(3)\nfrom os import *\nfrom . import lost\n", "s"),
]


def test_a_row_a_distinct_name() -> None:
    table = to_names_table(gather_names(FILES))
    assert table.select("name", "calls", "files", "repositories", "aliases").rows() == [
        ("numpy.zeros", 4, 3, 2, ["n", "np"]),
        ("numpy.ones", 1, 1, 1, ["n"]),
        ("p.b.f", 1, 1, 1, []),
    ]
    assert table["library"].to_list() == ["numpy", "numpy", "p"]


def test_rows_are_what_the_table_holds() -> None:
    first, *_ = task.collect(FILES)
    assert first == {
        "name": "numpy.zeros",
        "kind": "call",
        "language": "python",
        "library": "numpy",
        "calls": 4,
        "files": 3,
        "repositories": 2,
        "aliases": ["n", "np"],
    }


def test_the_order_of_files_does_not_matter() -> None:
    assert to_names_table(gather_names(FILES)).equals(to_names_table(gather_names(FILES[::-1])))


def test_calls_inside_functions_alone() -> None:
    assert to_names_table(gather_names(FILES, within="function")).select("name", "calls").rows() == [
        ("numpy.zeros", 1)
    ]


def test_what_binds_nothing_is_counted() -> None:
    gathered = gather_names(FILES)
    assert (gathered.files, gathered.stars, gathered.unplaced.total()) == (4, 1, 1)


def test_the_words_around_a_call_are_the_first_line() -> None:
    names = gather_names(FILES).names
    assert names["python", "numpy.zeros", "call"].contexts == {"Fill it."}
    assert names["python", "numpy.ones", "call"].contexts == set()


def test_languages_are_kept_apart() -> None:
    java = file("A.java", "import java.util.List;\nclass A { Object o = List.of(); }", language="java")
    table = to_names_table(gather_names([*FILES, java, file("x.txt", "words", language="text")]))
    assert table.filter(pl.col("language") == "java").rows() == [
        ("java.util.List.of", "call", "java", "java.util", 1, 1, 1, [])
    ]


def test_bad_input_says_so() -> None:
    with pytest.raises(UsageError, match="within"):
        to_names_table(gather_names(FILES, within="line"))
    with pytest.raises(InputError, match="text"):
        to_names_table(gather_names([file("x.txt", "words", language="text")]))
