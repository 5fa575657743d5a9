"""CuBERT's tasks against Python's own trees: who is eligible, what is put in, and what stays."""

from __future__ import annotations

import ast
import copy
import functools
import random
import re
import symtable
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import hash_text
from sonde.corpora import Given, Item, SkipCounter, SourceFile, Tag, item_id, read_items
from sonde.corpora.engine import parallel
from sonde.corpora.engine.read import extract_items
from sonde.languages import get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.program_tokens import ProgramLexer, tokenize
from sonde.tasks import ParallelMap, build, effective_clusters
from sonde.tasks.engine import bugs
from sonde.tasks.engine.balance import shares_for_test
from sonde.tasks.engine.bugs import BugTask, RandomChoice, find_pointers, make_choice, make_misuse
from sonde.tasks.engine.task import TASKS, resolve_task

PY = get_facet("python", "bugs", BugSites)
ROWS = [
    {"Add", "Mult", "Sub", "Div", "Mod"},
    {"Eq", "NotEq", "Is", "IsNot", "Lt", "LtE", "Gt", "GtE"},
    {"In", "NotIn"},
    {"And", "Or"},
]
SWAPPED = ("Sub", "Div", "Mod", "Lt", "LtE", "Gt", "GtE", "In", "NotIn")
PAIRS = ("variable_misuse", "wrong_operator", "swapped_operand", "misuse_repair")


def parsed(text: str) -> ast.AST:
    """The tree of a function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text).body[0]


@functools.cache
def library() -> list[Item]:
    """3,000 functions of the standard library, whatever Python thinks of them."""
    read = {item.item_id: item for item in read_items("stdlib", SkipCounter(), languages=("python",))}
    return [read[name] for name in sorted(read)[:3000]]


@functools.cache
def functions() -> list[Item]:
    """A tenth of them."""
    return library()[::8]


def task_of(name: str) -> BugTask:
    task = TASKS.load(name)
    assert isinstance(task, BugTask)
    return task


def made(name: str) -> Iterator[tuple[Item, tuple[str, ...], tuple[str, ...]]]:
    """Items with the texts and labels of their examples."""
    task = task_of(name)
    for item in functions():
        found = task.variants(item.text, PY, make_choice(3, item))
        yield item, tuple(one.text for one in found), tuple(one.label for one in found)


def variables(tree: ast.AST) -> tuple[set[str], list[tuple[int, int]]]:
    """Names that Python's tree defines, and where their values are read outside strings."""
    nodes = list(ast.walk(tree))
    defined = {one.arg for one in nodes if isinstance(one, ast.arg)}
    defined |= {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    for one in nodes:
        if isinstance(one, ast.Global | ast.Nonlocal):
            defined -= set(one.names)
    within = {id(inner) for one in nodes if isinstance(one, ast.JoinedStr) for inner in ast.walk(one)}
    reads = [
        (one.lineno, one.col_offset)
        for one in nodes
        if isinstance(one, ast.Name)
        and isinstance(one.ctx, ast.Load)
        and one.id in defined
        and id(one) not in within
    ]
    return defined, sorted(reads)


def test_variables_are_those_of_python_s_own_tree() -> None:
    seen = 0
    for item in functions():
        if not item.text.isascii():
            continue
        defined, reads = variables(parsed(item.text))
        found = PY.variables(item.text)
        assert set(found.names) == defined, item.text
        lines = [0, *(at + 1 for at, character in enumerate(item.text) if character == "\n")]
        expected = [lines[line - 1] + column for line, column in reads]
        assert [spot.start for spot in found.uses] == expected, item.text
        seen += len(reads)
    assert seen > 1000


@pytest.mark.parametrize("name", [*PAIRS, "exception_type"])
def test_everything_that_is_made_parses(name: str) -> None:
    count = 0
    for item, texts, labels in made(name):
        count += bool(texts)
        for text in texts:
            parsed(text)
        if name in PAIRS and texts:
            assert texts[0] == item.text
            assert labels == TASKS.load(name).labels
    assert count >= 10


def test_a_misused_variable_is_one_of_the_function_s_own() -> None:
    for item, texts, _ in made("variable_misuse"):
        defined, reads = variables(parsed(item.text))
        assert bool(reads) and 2 <= len(defined) <= 50 if texts else True
        if texts:
            before = Counter(one.id for one in ast.walk(parsed(item.text)) if isinstance(one, ast.Name))
            after = Counter(one.id for one in ast.walk(parsed(texts[1])) if isinstance(one, ast.Name))
            gone, come = before - after, after - before
            assert sum(gone.values()) == sum(come.values()) == 1
            assert set(gone) | set(come) <= defined
            assert variables(parsed(texts[1]))[0] == defined


MISUSED = "a_name_of_no_other"


def scope(table: symtable.SymbolTable, path: Sequence[int]) -> symtable.SymbolTable:
    for place in path:
        table = table.get_children()[place]
    return table


def path_to(table: symtable.SymbolTable, name: str) -> tuple[int, ...] | None:
    """Which table below another one a name is read in."""
    if name in table.get_identifiers():
        return ()
    for place, inner in enumerate(table.get_children()):
        if (path := path_to(inner, name)) is not None:
            return (place, *path)
    return None


def test_what_is_put_in_may_be_read_there_as_python_s_symbol_tables_say() -> None:
    count = 0
    for item in library()[::4]:
        found = make_misuse(item.text, PY, make_choice(3, item))
        if found is None:
            continue
        fresh = found.text[: found.start] + MISUSED + found.text[found.end :]
        path = path_to(symtable.symtable(fresh, "", "exec"), MISUSED)
        assert path, "names are read in functions"
        here = scope(symtable.symtable(found.text, "", "exec"), path)
        assert not here.lookup(found.wrong).is_global(), (found.wrong, found.text)
        count += 1
    assert count > 400


VISIBLE = """\
def f(a, b, c=a):
    d = [x for x in a if x]
    def g(y, z=b):
        return y
    class K(b):
        k = a
        def m(self):
            return b
    return (lambda w=d: w)(c)
"""


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        (1, "a):", ()),
        (2, "x for", ("a", "b", "c", "d", "x")),
        (2, "a if", ("a", "b", "c", "d")),
        (3, "b)", ("a", "b", "c", "d")),
        (4, "y", ("a", "b", "c", "d", "y", "z")),
        (5, "b)", ("a", "b", "c", "d")),
        (6, "a", ("a", "b", "c", "d", "k")),
        (8, "b", ("a", "b", "c", "d", "self")),
        (9, "d:", ("a", "b", "c", "d")),
        (9, "w)", ("a", "b", "c", "d", "w")),
    ],
)
def test_a_name_is_seen_from_inside_its_scope(line: int, word: str, expected: tuple[str, ...]) -> None:
    lines = VISIBLE.splitlines(keepends=True)
    at = sum(map(len, lines[: line - 1])) + lines[line - 1].rindex(word)
    flow = get_facet("python", "flow", Flow)
    assert flow.visible_names(VISIBLE, at) == frozenset(expected)


def test_a_variable_of_a_block_does_not_leave_it_in_java() -> None:
    flow = get_facet("java", "flow", Flow)
    text = "int f(int a) {\n  for (int i = 0; i < a; i++) { int b = i; }\n  int c = a;\n  return c;\n}"
    assert flow.visible_names(text, text.index("i; }")) == {"a", "b", "i"}
    assert flow.visible_names(text, text.rindex("c;")) == {"a", "c"}
    for seed in range(20):
        found = make_misuse(text, get_facet("java", "bugs", BugSites), RandomChoice(seed))
        assert found is not None
        assert found.wrong in flow.visible_names(text, found.start)


def test_a_method_stands_at_the_margin_with_its_decorators() -> None:
    text = (
        "class A:\n    @one\n    # Why.\n    @two(\n        1)\n    async def f(self):\n"
        '        """Say é."""\n        return 1\n\n    def g(self):\n        return 2\n'
    )
    label = Given(
        "len", "1", text.index("f(self)"), text.index("(self)"), text.index("é"), text.index("é") + 1
    )
    blank = Given("len", "2", text.index("    # Why"), text.index("# Why"))
    tag = Tag(text.index("1)"), text.index("1)") + 1, "NUM")
    file = SourceFile("a.py", text, "python", "c", "r", given=(label, blank), tags=(tag,))
    method, plain = extract_items(file, "function", SkipCounter())
    assert method.text == (
        '@one\n# Why.\n@two(\n        1)\nasync def f(self):\n        """Say é."""\n        return 1'
    )
    assert plain.text == "def g(self):\n        return 2"
    moved, empty = method.given
    assert method.text[moved.start : moved.end] == "f"
    assert method.text[moved.other_start : moved.other_end] == "é"
    assert empty.start == empty.end
    assert method.text[method.tags[0].start : method.tags[0].end] == "1"
    # What models were trained on is known by the file's own characters.
    end = text.index("return 1") + len("return 1")
    assert method.item_id == item_id(text[method.offset : end], "python", "function")
    pieces = tokenize(get_facet("python", "program", ProgramLexer), method.text)
    assert [piece.startswith("___INDENT___") for piece in pieces].count(True) == 1


def test_every_function_of_the_library_parses_by_itself() -> None:
    assert sum(item.text.startswith("@") for item in library()) > 100
    for item in library():
        parsed(item.text)


@pytest.mark.slow
def test_everything_that_is_made_of_the_library_compiles() -> None:
    made = 0
    for item in library():
        texts = [
            one.text
            for name in (*PAIRS, "exception_type")
            for one in task_of(name).variants(item.text, PY, make_choice(3, item))
        ]
        for text in [*texts, PY.remove_documentation(item.text)]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(text, "", "exec", dont_inherit=True)
        made += len(texts)
    assert made > 5000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('def f():\n    "Do."\n    # Later.', "def f():\n    pass\n    # Later."),
        ('def f():\n    "Do."  # Now.', "def f():\n    pass  # Now."),
        (
            'def f():\n    "Do."\n    # Later.\n    # Or not.\n',
            "def f():\n    pass\n    # Later.\n    # Or not.\n",
        ),
        ('def f():\n    "Do."\n    # Then.\n    return 1', "def f():\n    # Then.\n    return 1"),
        ('def f():\n    "Do."\n    return 1', "def f():\n    return 1"),
        ('def f(): "Do."', "def f(): pass"),
    ],
)
def test_a_function_without_documentation_has_a_body(text: str, expected: str) -> None:
    assert PY.remove_documentation(text) == expected
    parsed(expected)


def operators(tree: ast.AST) -> Counter[str]:
    return Counter(
        type(one).__name__ for one in ast.walk(tree) if isinstance(one, ast.operator | ast.cmpop | ast.boolop)
    )


def test_a_wrong_operator_is_of_the_same_row() -> None:
    for item, texts, _ in made("wrong_operator"):
        if texts:
            # What binds tighter may group otherwise, so the tree need not keep its shape; its signs do.
            written = [one.operator.surface for one in PY.operations(item.text)]
            changed = [one.operator.surface for one in PY.operations(texts[1])]
            gone, come = Counter(written) - Counter(changed), Counter(changed) - Counter(written)
            assert len(gone) == len(come) == 1
            assert next(iter(come)) in PY.rows[next(iter(gone))]
            assert ast.dump(parsed(item.text)) != ast.dump(parsed(texts[1]))
            before, after = operators(parsed(item.text)), operators(parsed(texts[1]))
            assert any(set(before - after) <= row and set(after - before) <= row for row in ROWS)


def swaps(tree: ast.AST) -> Iterator[str]:
    """The dumps of all trees in which the operands of one operator are swapped."""
    for place, node in enumerate(ast.walk(tree)):
        one = isinstance(node, ast.Compare) and len(node.ops) == 1
        sign = node.op if isinstance(node, ast.BinOp) else node.ops[0] if one else None  # type: ignore[attr-defined]
        if type(sign).__name__ not in SWAPPED:
            continue
        other = copy.deepcopy(tree)
        inner = list(ast.walk(other))[place]
        if isinstance(inner, ast.BinOp):
            inner.left, inner.right = inner.right, inner.left
        else:
            assert isinstance(inner, ast.Compare)
            inner.left, inner.comparators = inner.comparators[0], [inner.left]
        yield ast.dump(other)


@pytest.mark.slow
def test_swapped_operands_are_swapped_in_the_tree() -> None:
    for item, texts, _ in made("swapped_operand"):
        if texts:
            changed = ast.dump(parsed(texts[1]))
            assert changed != ast.dump(parsed(item.text))
            assert changed in swaps(parsed(item.text))


@pytest.mark.parametrize(
    ("body", "swapped"),
    [
        ("a-b-c", "b-a-c"),
        ("a - b - a % c", "b - a - a % c"),
        ("a in(b)", "(b) in a"),
        ("a not in[1]", "[1] not in a"),
        ("a + b - c", None),
        ("a < b < c", None),
        ("a - a", None),
        ("(a -\n  b)", None),
        ("a * b + c == d", None),
    ],
)
def test_only_what_can_be_swapped_is(body: str, swapped: str | None) -> None:
    text = f"def f(a, b, c, d):\n  return {body}"
    found: set[str] = set()
    for seed in range(20):
        variants = task_of("swapped_operand").variants(text, PY, RandomChoice(seed))
        found |= {variants[1].text.partition("return ")[2]} if variants else {""}
    assert (swapped or "") in found
    assert all(
        not one or ast.dump(parsed(text)) != ast.dump(parsed(f"def f():\n return {one}")) for one in found
    )


def test_a_word_does_not_join_what_is_beside_it() -> None:
    text = "def f(x):\n  return 1==x"
    found = set()
    for seed in range(40):
        variants = task_of("wrong_operator").variants(text, PY, RandomChoice(seed))
        found.add(variants[1].text.partition("return ")[2])
    assert found == {"1!=x", "1 is x", "1 is not x", "1<x", "1<=x", "1>x", "1>=x"}


def test_an_exception_becomes_a_hole() -> None:
    found: Counter[str] = Counter()
    for item, texts, labels in made("exception_type"):
        caught = [
            one.id
            for handler in ast.walk(parsed(item.text))
            if isinstance(handler, ast.ExceptHandler) and handler.type is not None
            for one in (handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type])
            if isinstance(one, ast.Name) and one.id in PY.exceptions
        ]
        assert bool(texts) == bool(caught)
        if texts:
            assert labels[0] in caught
            assert texts[0].count("__HOLE__") == 1
            assert texts[0].replace("__HOLE__", labels[0]) == item.text
            found[labels[0]] += 1
    assert len(found) > 3


def test_a_docstring_is_told_from_another_s() -> None:
    made = build("function_docstring", functions(), size=60, language="python")
    items = {item.item_id: item for item in (*functions(), *made.inputs)}
    summaries = {
        words.strip().splitlines()[0].strip()
        for item in functions()
        if (words := ast.get_docstring(function(item)))
    }
    for row in made.examples.iter_rows(named=True):
        text, source = items[row["item_id"]].text, items[row["source_id"]]
        alone, words = text[row["start"] : row["end"]], text[row["other_start"] : row["other_end"]]
        assert text == f"{alone}\n{words}"
        own = (ast.get_docstring(function(source), clean=True) or "").strip().splitlines()[0].strip()
        if "\\" not in own:
            assert bool(blanked(words).fullmatch(own)) == (row["label"] == "Correct")
        assert any(map(blanked(words).fullmatch, summaries)) or "\\" in words
        expected = function(source)
        del expected.body[0]
        expected.body = expected.body or [ast.Pass()]
        assert ast.dump(parsed(alone)) == ast.dump(expected)


def blanked(words: str) -> re.Pattern[str]:
    """What a summary was before names were taken out of it."""
    return re.compile(re.escape(words).replace("___", r"\w+"))


def function(item: Item) -> ast.FunctionDef:
    found = parsed(item.text)
    assert isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("name", [*PAIRS, "function_docstring"])
def test_a_function_is_whole_in_one_split_on_both_sides(name: str) -> None:
    made = build(name, functions(), size=40, language="python")
    by_source = made.examples.group_by("source_id").agg("label", "split")
    for _, labels, splits in by_source.iter_rows():
        assert sorted(labels) == sorted(TASKS.load(name).labels)
        assert len(set(splits)) == 1
    sides = made.examples.group_by("cluster").agg("split")
    assert all(len(set(splits)) == 1 for _, splits in sides.iter_rows())
    assert made.report["size"] == len(made.examples) == 40


@pytest.mark.parametrize("name", [*PAIRS, "function_docstring", "exception_type"])
def test_order_and_processes_change_nothing(name: str) -> None:
    size = 100 if name == "exception_type" else 40
    shuffled = list(functions())
    random.Random(1).shuffle(shuffled)
    one = build(name, functions(), size=size, language="python")
    other = build(name, shuffled, size=size, language="python")
    assert one.examples.equals(other.examples)
    assert one.inputs == other.inputs
    again = build(name, functions(), size=size, language="python", seed=1)
    assert not one.examples.equals(again.examples)


@pytest.mark.slow
def test_several_processes_make_what_one_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_CHUNK", 40)
    monkeypatch.setattr(bugs, "_SMALL_REQUEST_FACTOR", 1000)
    assert len(functions()) > 200
    one = build("wrong_operator", functions(), size=60, language="python")
    two = build(
        "wrong_operator", functions(), size=60, language="python", parallel=ParallelMap(workers=3, worth=40)
    )
    assert one.examples.equals(two.examples)
    assert one.inputs == two.inputs


def spread_out(clusters: int, each: int) -> list[Item]:
    """Functions, of which one to ten in ten have an operator to swap, by the number of their cluster."""
    found: list[Item] = []
    for cluster in range(clusters):
        for number in range(each):
            end = "a - b" if number % 10 <= cluster % 10 else "[a, b]"
            names = [f"v{digit}" for digit in f"{cluster}{number:03}"]
            body = "".join(f"    {name}{at} = call{cluster}_{number}_{at}\n" for at, name in enumerate(names))
            text = f"def f_{cluster}_{number}(a, b):\n{body}    return {end}"
            found.append(
                Item(
                    item_id=f"{hash_text(text)}", text=text, language="python", unit="function",
                    path=f"{cluster}.py", name="f", offset=number, cluster=f"c{cluster}", repository="r",
                )
            )  # fmt: skip
    return found


def test_a_test_split_is_worth_thirty_clusters_where_the_pool_has_them() -> None:
    items = spread_out(80, 70)
    made = {
        size: build("swapped_operand", items, size=size, language="python").examples for size in (400, 800)
    }
    parts = {name: made[800].filter(split=name) for name in ("train", "valid", "test")}
    assert {name: part.height for name, part in parts.items()} == {"train": 480, "valid": 160, "test": 160}
    assert effective_clusters(parts["test"]) >= 30
    held = {name: set(part["cluster"]) for name, part in parts.items()}
    assert not held["train"] & held["test"] and not held["valid"] & held["test"]
    assert not held["train"] & held["valid"]
    assert set(made[400]["example_id"]) <= set(made[800]["example_id"])


@pytest.mark.parametrize(
    ("clusters", "items", "expected"),
    [(96, 40_000, 0.5), (187, 11_000, 60 / 187), (324, 40_000, 0.2), (96, 4_999, 0.2), (2, 9_000, 0.5)],
)
def test_test_gets_more_clusters_where_they_are_few_and_functions_many(
    clusters: int, items: int, expected: float
) -> None:
    shares = shares_for_test(clusters, items)
    assert shares["test"] == pytest.approx(expected)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["train"] == pytest.approx(3 * shares["valid"])


def test_summaries_do_not_cross_splits_unless_published_so() -> None:
    def crossing(mode: str, *quirks: str) -> int:
        made = build(
            "function_docstring",
            functions(),
            size=60,
            language="python",
            mode=mode,
            quirks=frozenset(quirks),
        )
        items = {item.item_id: item for item in made.inputs}
        split: dict[str, set[str]] = {}
        for row in made.examples.iter_rows(named=True):
            words = items[row["item_id"]].text[row["other_start"] :]
            split.setdefault(words, set()).add(row["split"])
        return sum(len(where) > 1 for where in split.values())

    assert crossing("paper") > crossing("corrected")
    assert crossing("corrected", "cubert.global_permutation") == crossing("paper")


def test_pointers_point_at_variables() -> None:
    made = build("misuse_repair", functions(), size=40, language="python")
    items = {item.item_id: item for item in (*functions(), *made.inputs)}
    for row in made.examples.iter_rows(named=True):
        text, source = items[row["item_id"]].text, items[row["source_id"]].text
        repair = (row["other_start"], row["other_end"]) if row["other_start"] is not None else None
        where = find_pointers(text, "python", (row["start"], row["end"]), repair)
        names = {text[start:end] for start, end in where.candidates}
        assert names <= variables(parsed(text))[0]
        if row["label"] == "Correct":
            assert (where.error, where.targets) == (None, ())
            assert text == source
        else:
            assert where.error in where.candidates
            assert where.targets
            assert set(where.targets) <= set(where.candidates) - {where.error}
            right = {text[start:end] for start, end in where.targets}
            assert len(right) == 1
            start, end = where.error
            assert text[:start] + right.pop() + text[end:] == source


JAVA = """\
int f(int a, List<String> names) {
    int total = a - 1;
    for (String name : names) { total += name.length() % a; if (a >= total && names != null) { g(total); } }
    return total - a;
}"""


def test_java_has_the_first_four() -> None:
    bugs = get_facet("java", "bugs", BugSites)
    found = bugs.variables(JAVA)
    assert found.names == ("a", "name", "names", "total")
    assert [spot.surface for spot in found.uses] == [
        "a",
        "names",
        "name",
        "a",
        "a",
        "total",
        "names",
        "total",
        "total",
        "a",
    ]
    for name in PAIRS:
        variants = task_of(name).variants(JAVA, bugs, RandomChoice(0))
        assert [one.label for one in variants] == list(TASKS.load(name).labels)
        assert bugs.parses(variants[1].text)
        assert variants[1].text != JAVA
    assert task_of("exception_type").variants(JAVA, bugs, RandomChoice(0)) == ()


def test_raw_labels_are_those_of_code_as_it_is() -> None:
    text = textwrap.dedent(
        """\
        def f(a, b):
            "Add."
            try:
                return a - b
            except KeyError:
                pass"""
    )
    item = next(iter(functions()))
    one = replace(item, text=text, item_id="x", docstring="Add.", given=())
    none = replace(item, text="def f(): pass", item_id="y", docstring="", given=())
    expected = {
        "variable_misuse": "Correct",
        "wrong_operator": "Correct",
        "swapped_operand": "Correct",
        "misuse_repair": "Correct",
        "function_docstring": "Correct",
        "exception_type": "KeyError",
    }
    for name, label in expected.items():
        tables = TASKS.load(name).label([one, none], {})
        assert tables["x"]["label"].to_list() == [label]
        assert tables["y"]["label"].to_list() == [None]


def test_a_language_without_exceptions_is_told() -> None:
    items = [
        replace(
            functions()[0], text=JAVA.replace("total", f"t{n}"), item_id=str(n), language="java", given=()
        )
        for n in range(9)
    ]
    with pytest.raises(UsageError, match="'java' has no exception types"):
        build("exception_type", items, size=100, language="java")


def test_too_little_code_is_told_in_one_line() -> None:
    with pytest.raises(InputError, match="eligible functions, of") as caught:
        build("swapped_operand", functions()[:8], size=20, language="python")
    assert "\n" not in str(caught.value)


# What documents a function, by its language, and the words that sum it up; None where there are none.
SUMMARIES = [
    ("python", '"""Sum up.\n\n    More."""', "Sum up."),
    ("python", '"""\n    >>> f(1)\n    2\n\n    Sum up."""', "Sum up."),
    ("python", '""":param a: a number"""', None),
    ("python", '"""@param a: a number"""', None),
    ("java", "/** {@inheritDoc} */", None),
    ("java", "/**\n * {@inheritDoc}\n *\n * Sum up.\n */", "Sum up."),
    ("java", "/** {@inheritDoc} Sum up. */", "Sum up."),
    ("java", "/**\n * @throws E {@inheritDoc}\n */", None),
    ("java", "/**\n * <p>\n * Sum <b>up</b>.\n */", "Sum <b>up</b>."),
    ("go", "// f sums up.\n//\n// More.", "f sums up."),
    ("go", "// -----\n// f sums up.", "f sums up."),
    ("javascript", "/** @inheritdoc */", None),
    ("javascript", "/**\n * @description Sum up.\n * @param {int} a\n */", "Sum up."),
    ("javascript", "/** @type {int} */", None),
    ("php", "/** {@inheritdoc} */", None),
    ("php", "/**\n * @inheritDoc\n * Sum up.\n */", "Sum up."),
    ("php", "/** @dataProvider names */", None),
    ("ruby", "# call-seq:\n#   f(a) -> b\n#   f(a) {} -> b\n#\n# Sum up.", "Sum up."),
    ("ruby", "# :call-seq:\n#\n#   f(a) -> b\n#\n# Sum up.", "Sum up."),
    ("ruby", "# call-seq: f(a) -> b\n#\n# Sum up.", "Sum up."),
    ("ruby", "# @param a [Integer] a number", None),
]

DOCUMENTED = {
    "python": "def f(a):\n    {}\n    return a\n",
    "java": "class C {{\n{}\nint f(int a) {{ return a; }} }}",
    "go": "package p\n\n{}\nfunc f(a int) int {{ return a }}\n",
    "javascript": "{}\nfunction f(a) {{ return a }}\n",
    "php": "<?php\n{}\nfunction f($a) {{ return $a; }}\n",
    "ruby": "{}\ndef f(a)\n  a\nend\n",
}


@pytest.mark.parametrize(("language", "written", "expected"), SUMMARIES)
def test_a_summary_says_what_a_function_does(language: str, written: str, expected: str | None) -> None:
    file = SourceFile("f", DOCUMENTED[language].format(written), language, "c", "r")
    (item,) = extract_items(file, "function", SkipCounter())
    task = task_of("function_docstring")
    assert task.summary(item) == (expected or "")  # type: ignore[attr-defined]
    label = task.label([item], {})[item.item_id]["label"][0]
    assert label == (None if expected is None else "Correct")
    # As published, whatever stands in the first line.
    assert resolve_task(task, "paper").label([item], {})[item.item_id]["label"][0] == "Correct"
