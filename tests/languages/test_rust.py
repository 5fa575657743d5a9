"""A language from outside, of queries and tables alone: what it gets, and what each of its files buys."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import polars as pl
import pytest

import sonde
from sonde.corpora import Item
from sonde.languages import LANGUAGES, get_facet, has_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.edits import Edits
from sonde.languages.engine.program_tokens import ProgramLexer, tokenize, untokenize
from sonde.languages.engine.relations import RelationOptions, Relations
from sonde.tasks import Repository, get_languages
from sonde.tasks.engine.bugs import BugTask, make_choice
from sonde.tasks.engine.faults import FaultContext, Mutation
from sonde.tasks.engine.task import TASKS

FOLDER = Path(__file__).parent / "rust"
MOST_LINES = 275

# INSPECT's tasks but NPT, and those of its older data.
OF_INSPECT = {
    *("ktx", "idn", "len", "typ", "rea", "jbl", "sri", "srk", "sck", "ocu", "vcu", "csc", "mxn", "cpx"),
    *("ast", "jmb", "jft", "oct", "vct", "nms", "nml", "tan"),
}
CODE = """/// Adds what is large.
pub fn total(items: &[Item], least: usize, (a, b): (u8, u8)) -> Result<u32, Error> {
    let mut sum = 0;
    for item in items.iter() {
        if item.size > least && a != b {
            sum += item.size; // grows
        } else if let Some(x) = item.other {
            sum = scale(sum, x)?;
        } else {
            continue;
        }
    }
    match sum { 0 => Err(Error::new("none {")), n => Ok(n) }
}
"""


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("SONDE_OUTSIDE", "{}")
    monkeypatch.setattr(LANGUAGES, "_loaded", dict(LANGUAGES._loaded))
    monkeypatch.chdir(tmp_path)
    yield


@pytest.fixture
def item() -> Item:
    LANGUAGES.hand_in(str(FOLDER))
    (function,) = LANGUAGES.load("rust").functions(CODE)
    assert (function.name, function.docstring) == ("total", "Adds what is large.")
    return Item("i", function.slice_from(CODE), "rust", "function", "a.rs", "total", 0, "c", "r")


def able(language: str) -> set[str]:
    """The tasks that a language can label, those of tables of one's own left out."""
    tasks = (TASKS.load(name) for name in TASKS.names() if not name.startswith("labelled"))
    return {task.name for task in tasks if language in get_languages(task)}


def test_the_folder_stays_small() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in FOLDER.iterdir() if path.is_file())
    assert lines <= MOST_LINES, "docs/contributing/language.md says how long the folder is"


@pytest.mark.usefixtures("item")
def test_rust_labels_most_tasks() -> None:
    assert able("rust") >= OF_INSPECT | {
        *("syntax_relations", "program_tokens", "variable_misuse", "misuse_repair", "call_origin"),
        *("wrong_operator", "swapped_operand", "same_scope", "next_use", "data_dependency", "constructs"),
    }
    assert "npt" not in able("rust")


# Which tasks come with which files of the folder; `tokens` is `language.toml` alone.
CONTRACT = {
    "language.toml": {
        "len",
        "tan",
        "oct",
        "ocu",
        "jft",
        "jmb",
        "jbl",
        "jbl_parsed",
        "sri",
        "sra",
        "program_tokens",
        "whole_trees",
    },
    "metrics.scm": {
        *("cpx", "csc", "mxn", "nms", "nml", "ast_depth", "block_depth"),
        *("nested_loop", "if_in_loop", "early_return", "recursion"),
    },
    "locals.scm": {"vcu", "vct", "same_scope", "next_use", "variable_misuse", "misuse_repair"},
    "flow.scm": {"data_dependency"},
    "edits.toml": {"srk", "sck"},
    "edits.scm": {"typ", "rea", "jst", "jbk"},
    "tagging.toml": {"ktx", "idn", "ast"},
    "bugs.toml": {"wrong_operator", "swapped_operand", "exception_type", "function_docstring"},
    "relations.toml": {"syntax_relations"},
}
BESIDE = {"bugs.toml": ["bugs.scm"], "relations.toml": ["relations.scm"], "metrics.scm": ["metrics.toml"]}


def test_each_file_buys_tasks(tmp_path: Path) -> None:
    always = {"__init__.py", "definitions.scm", "calls.scm", "identifiers.scm", "constructs.scm"}
    taken, expected = set(always), able("text")
    for number, (name, bought) in enumerate(CONTRACT.items()):
        taken |= {name, *BESIDE.get(name, [])}
        folder = tmp_path / f"rust{number}"
        folder.mkdir()
        for file in taken:
            if (FOLDER / file).is_file():
                shutil.copy(FOLDER / file, folder / file)
        LANGUAGES.hand_in(str(folder))
        assert able(folder.name) - expected == bought, name
        expected |= bought
    assert not has_facet("rust0", "metrics") and has_facet("rust1", "metrics")


@pytest.mark.parametrize(
    ("task", "label", "value"),
    [
        ("len", "C", 120),
        # for, if, if, &&, two arms and `?`, and one.
        ("cpx", "8", 8),
        ("mxn", "3", 3),
        ("csc", "4", 4),
        ("nms", "2", 2),
        ("nml", "1", 1),
        # items least a b sum item x n
        ("vcu", "8", 8),
        # = > && != += = = ?
        ("oct", "8", 8),
        ("ocu", "6", 6),
        ("tan", "IDF", 18),
        ("if_in_loop", "YES", 2),
        ("early_return", "NO", 0),
    ],
)
def test_labels_of_a_function(item: Item, task: str, label: str, value: int) -> None:
    row = TASKS.load(task).label([item], {})["i"].row(0, named=True)
    assert (row["label"], row["value"]) == (label, value)


def test_classes_of_tokens(item: Item) -> None:
    def classes(task: str) -> dict[str, str]:
        rows = TASKS.load(task).label([item], {})["i"]
        return {item.text[row[0] : row[1]]: row[2] for row in rows.iter_rows()}

    keywords, names = classes("ktx"), classes("idn")
    expected = {"pub": "KMD", "mut": "KMD", "u32": "KPT", "for": "KFC", "?": "KEH", "&&": "OLB", "+=": "OAS"}
    assert {word: keywords[word] for word in expected} == expected
    expected = {"total": "IDM", "scale": "IDM", "Result": "IDC", "sum": "IDV", "size": "IDV"}
    assert {word: names[word] for word in expected} == expected


@pytest.mark.parametrize(
    "name", ["typ", "rea", "jbl", "jmb", "jft", "sri", "srk", "sck", "jbl_parsed", "jst"]
)
def test_faults_are_put_in(item: Item, name: str) -> None:
    task, edits = TASKS.load(name), get_facet("rust", "edits", Edits)
    assert isinstance(task, Mutation)
    around = FaultContext(edits, "train", task.survey([item.text], edits))
    found = (task.fault(item.text, around, Random(seed)) for seed in range(20))
    assert any(fault is not None and fault.text != item.text for fault in found)


def test_relations(item: Item) -> None:
    related = get_facet("rust", "relations", Relations).relate(item.text)
    words = related.words.surface
    found = {
        (edge.relation, words[edge.head], " ".join(words[edge.first : edge.last + 1]))
        for edge in related.edges
    }
    assert found >= {
        ("If:if->test", "if", "item . size > least && a != b"),
        ("If:test->body", "item", "sum += item . size ;"),
        ("If:body->orelse", "sum", "continue ;"),
        ("If:if->else", "if", "else"),
        ("For:target->iter", "item", "items . iter ("),
        ("Let:target->value", "sum", "0"),
        ("Call:func->args", "scale", "sum , x"),
        ("Call:func->args", "new", '"none {"'),
        ("Attribute:value->attr", "item", "size"),
        ("BinOp:left->right", "a", "b"),
        ("Match:match->expr", "match", "sum"),
        ("children:parent->child", "item", "least"),
    }
    assert all(0 < edge.head < edge.first <= edge.last for edge in related.edges)
    # Nothing was published of it: both modes are the same.
    assert (
        get_facet("rust", "relations", Relations).relate(item.text, RelationOptions(mode="paper")).edges
        == related.edges
    )
    assert get_facet("rust", "relations", Relations).relate("fn (").problem == "does not parse"


def test_program_tokens(item: Item) -> None:
    facet = get_facet("rust", "program", ProgramLexer)
    found = tokenize(facet, item.text)
    assert found[:12] == ["pub", "fn", "total", "(", "items", ":", "&", "[", "Item", "]", ",", "least"]
    assert found[-1] == "___EOS___" and "grows" not in "".join(found)
    assert found[found.index('"^') :][:4] == ['"^', "none^", " ^", '{"']
    assert tokenize(facet, untokenize(facet, found)) == found


def test_a_misuse_is_put_in_and_a_use_is_one_of_a_variable(item: Item) -> None:
    bugs = get_facet("rust", "misuse", BugSites)
    variables = bugs.variables(item.text)
    assert variables.names == ("a", "b", "item", "items", "least", "n", "sum", "x")
    (use,) = [use for use in variables.uses if use.surface == "x"]
    assert bugs.replacements(item.text, use) == ("a", "b", "item", "items", "least", "sum")
    task = TASKS.load("variable_misuse")
    assert isinstance(task, BugTask)
    right, wrong = task.variants(item.text, bugs, make_choice(0, item))
    assert right.text == item.text != wrong.text and bugs.parses(wrong.text)


def test_calls_go_into_the_repository_and_out_of_it(item: Item) -> None:
    other = "pub fn scale(n: u32, by: u32) -> u32 { n * by }\n"
    (defined,) = LANGUAGES.load("rust").definitions(other)
    known = {"r": Repository({"scale": (("b.rs", defined),)})}
    rows = TASKS.load("call_origin").label([item], known)["i"].filter(part="name")
    assert sorted(zip(rows["name"], rows["label"], strict=True)) == [
        ("Err", "builtin"),
        ("Ok", "builtin"),
        ("iter", "external"),
        ("new", "external"),
        ("scale", "internal"),
    ]


@pytest.mark.slow
def test_lenses_read_it(tmp_path: Path) -> None:
    draw = Random(1)
    for number in range(60):
        body = "".join(
            draw.choice(
                [
                    f"    let v{n} = a + {n};\n",
                    f"    if a > {n} {{ b += {n}; }}\n",
                    f"    for i in 0..{n} {{ b += scale(i, {n}); }}\n",
                ]
            )
            for n in range(draw.randrange(2, 12))
        )
        text = f"pub fn f{number}(a: u32, mut b: u32) -> u32 {{\n{body}    b\n}}\n"
        (tmp_path / "code" / f"m{number % 12}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / f"m{number % 12}" / f"f{number}.rs").write_text(text)
    (tmp_path / "code" / "m0" / "scale.rs").write_text("pub fn scale(n: u32, by: u32) -> u32 { n * by }\n")
    run = sonde.run(
        models="sonde/mini-encoder",
        lenses=["probe", "attention"],
        tasks=["jmb", "sri"],
        corpora="local:code",
        languages=str(FOLDER),
        output="run",
        limit=50,
        options={"probe": {"folds": 3, "seeds": 1}},
    )
    assert set(run.scores.filter(pl.col("language") == "rust")["lens"]) == {"probe", "attention"}
    assert {"jmb", "sri"} <= set(run.scores["task"])
    told = sonde.run(
        models="sonde/mini-decoder",
        lenses="surprisal",
        corpora="local:code",
        languages=str(FOLDER),
        output="told",
        limit=20,
    )
    assert "rust" in set(told.scores["language"])
