"""Fault and bug tasks as minimal pairs: what differs, what is told beside it, and what is refused."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Given, Item, item_id
from sonde.corpora.engine.ngram import NGram
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.edits import Edits, TextSpan
from sonde.tasks import PAIRED_SCHEMA, Dataset, ParallelMap, build, build_pairs
from sonde.tasks.engine.bugs import BugTask
from sonde.tasks.engine.faults import Mutation
from sonde.tasks.engine.pairs import TokenCounts, makes_pairs
from sonde.tasks.engine.spans import find_changed_spans
from sonde.tasks.engine.task import TASKS

PAIRED = tuple(name for name in TASKS.names() if makes_pairs(TASKS.load(name)))
MODULES = ("textwrap", "fnmatch", "shlex", "cmd", "configparser", "argparse", "ast", "tokenize")


def item(text: str, cluster: str, language: str = "python", **more: object) -> Item:
    fields: dict[str, object] = {
        "item_id": item_id(text, language, "function"), "text": text, "language": language,
        "unit": "function", "path": f"{cluster}.py", "name": "f", "offset": 0, "cluster": cluster,
        "repository": cluster,
    }  # fmt: skip
    return Item(**{**fields, **more})  # type: ignore[arg-type]


@cache
def python_items() -> tuple[Item, ...]:
    folder = Path(ast.__file__).parent
    found: list[Item] = []
    for module in MODULES:
        text = (folder / f"{module}.py").read_text(encoding="utf-8")
        found += [
            item(text[one.start : one.end], module, docstring=one.docstring)
            for one in LANGUAGES.load("python").functions(text)
        ]
    return tuple(found)


JAVA = """int {name}(int {a}, int[] {b}, String text) {{
    int {c} = 0;
    {c} = {a} + 2; {a} = {c} * 3; note(keep({c})); keep(note({a}));
    for (int i = {a}; i < {b}.length; i++) {{
        if ({b}[i] == {a} && i >= {c}) {{ {c} += {b}[i] - {a}; }} else {{ {c} = {a} - i; break; }}
    }}
    {extra}
    return {c} - {a};
}}"""
EXTRAS = (
    "while ({a} > {c}) {{ {a} = {a} - 1; }}", "if (text != null) {{ {c} = text.length() / {a}; }}",
    "try {{ {c} = {b}[{a}]; }} catch (RuntimeException e) {{ throw e; }}", "boolean no = {c} < {a}; log(no);",
    "double half = {c} / 2.0; use(half, {b});",
    "switch ({c}) {{ case 1: {a} = 2; break; default: {a} = 3; }}",
    "do {{ {c}++; }} while ({c} <= {a});", "assert {c} != {a}; long wide = {a} * 3L; keep(wide);",
)  # fmt: skip


@cache
def java_items() -> tuple[Item, ...]:
    found: list[Item] = []
    for number, extra in enumerate(EXTRAS):
        names = {"a": f"first{number}", "b": f"values{number}", "c": f"sum{number}"}
        text = JAVA.format(name=f"count{number}", extra=extra.format(**names), **names)
        found.append(item(text, f"p{number}", "java", docstring=f"Counts in way {number}.\nMore."))
    return tuple(found)


ITEMS = {"python": python_items, "java": java_items}


@cache
def pairs(task: str, language: str = "python", size: int = 40) -> Dataset:
    return build_pairs(task, ITEMS[language](), size=size, language=language)


def sides(
    made: Dataset, items: Sequence[Item]
) -> list[tuple[dict[str, object], dict[str, object], str, str]]:
    """Each pair: its two rows and its two texts, the original first."""
    texts = {one.item_id: one.text for one in (*items, *made.inputs)}
    found = []
    for rows in made.examples.partition_by("source_id"):
        original, mutant = rows.sort("original", descending=True).to_dicts()
        found.append((original, mutant, texts[original["item_id"]], texts[mutant["item_id"]]))
    return found


def words(language: str, text: str) -> tuple[TextSpan, ...]:
    return get_facet(language, "edits", Edits).tokens(text)


@pytest.mark.parametrize(
    ("one", "other", "first", "second"),
    [
        ("f(count)", "f(counts)", "count", "counts"),
        ("f(xs, y)", "f(ys, y)", "xs", "ys"),
        ("x = a < b", "x = a <= b", "<", "<="),
        ("x = a >= b", "x = a <= b", ">=", "<="),
        ("x = a is None", "x = a is not None", "None", "not None"),
        ("x = a not in b", "x = a in b", "not in", "in"),
        ("x = f(a, b)", "x = f(b, a)", "a, b", "b, a"),
        ("x = y", "y = x", "x = y", "y = x"),
        ("return aa", "return a", "aa", "a"),
        ("x = [1]", "x = [1, 1]", "]", ", 1]"),
        ("x = (b)", "x = (b).c", ")", ").c"),
    ],
)
def test_texts_differ_in_whole_tokens_of_both(one: str, other: str, first: str, second: str) -> None:
    for left, right, wanted in ((one, other, (first, second)), (other, one, (second, first))):
        places = find_changed_spans(left, right, words("python", left), words("python", right))
        assert (left[slice(*places[0])], right[slice(*places[1])]) == wanted


@given(
    *([st.lists(st.sampled_from(["a", "ab", "abc", "b", "(", ")"]), min_size=1, max_size=6)] * 3),
    st.lists(st.sampled_from(["a", "ab", "b", "("]), max_size=3),
)
def test_what_stands_around_the_places_is_the_same(
    before: list[str], one: list[str], other: list[str], behind: list[str]
) -> None:
    listed = [[*before, *one, *behind], [*before, *other, *behind]]
    if listed[0] == listed[1]:
        return
    texts = [" ".join(some) for some in listed]
    tokens: list[list[TextSpan]] = []
    for some in listed:
        at, held = 0, []
        for word in some:
            held.append(TextSpan(at, at + len(word), word))
            at += len(word) + 1
        tokens.append(held)
    (start, end), (other_start, other_end) = find_changed_spans(texts[0], texts[1], *tokens)
    assert texts[0][:start] == texts[1][:other_start]
    assert texts[0][end:] == texts[1][other_end:]
    assert texts[0][start:end] != texts[1][other_start:other_end]
    for (first, last), held in (((start, end), tokens[0]), ((other_start, other_end), tokens[1])):
        assert first < last
        assert not any(token.start < border < token.end for token in held for border in (first, last))


@pytest.mark.slow
@pytest.mark.parametrize("language", ITEMS)
@pytest.mark.parametrize("task", PAIRED)
def test_a_pair_is_a_function_as_written_and_the_same_with_a_fault(task: str, language: str) -> None:
    items = ITEMS[language]()
    made = pairs(task, language)
    assert made.examples.schema == pl.Schema(PAIRED_SCHEMA)
    assert made.report["size"] == made.examples.height / 2 >= 5
    written = {one.item_id: one for one in items}
    for original, mutant, text, changed in sides(made, items):
        assert (original["original"], mutant["original"]) == (True, False)
        source = written[str(original["source_id"])]
        if task == "function_docstring":
            words = re.sub(r"\bf\b", "___", source.docstring.splitlines()[0].strip(), flags=re.IGNORECASE)
            assert str(text).endswith("\n" + words)
        else:
            assert text == source.text
            assert original["item_id"] == source.item_id
        assert original["cluster"] == mutant["cluster"] == source.cluster
        (start, end), (other, beyond) = (
            (int(str(row["start"])), int(str(row["end"]))) for row in (original, mutant)
        )
        assert text[:start] == changed[:other]
        assert text[end:] == changed[beyond:]
        assert text[start:end] != changed[other:beyond]
        assert text[start:end].strip()
        assert changed[other:beyond].strip()
        parses = get_facet(language, "edits", Edits).parses
        assert (original["parses"], mutant["parses"]) == (parses(text), parses(changed))


def test_every_task_of_faults_and_bugs_but_the_one_without_an_original_gives_pairs() -> None:
    every = [name for name in TASKS.names() if TASKS.get_folder_name(name) in ("faults", "bugs")]
    assert set(every) - set(PAIRED) == {"exception_type"}
    assert all(isinstance(TASKS.load(name), BugTask | Mutation) for name in PAIRED)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["variable_misuse", "wrong_operator", "sri", "srk", "jbl"])
def test_faults_are_those_of_the_data_sets(task: str) -> None:
    drawn = build(task, python_items(), size=60, language="python")
    made = pairs(task, size=400)
    ours = {mutant["item_id"] for _, mutant, _, _ in sides(made, python_items())}
    theirs = {one.item_id for one in drawn.inputs}
    assert theirs
    assert theirs <= ours


@pytest.mark.slow
@pytest.mark.parametrize("task", ["variable_misuse", "sri", "rea"])
def test_neither_order_nor_processes_nor_size_change_a_pair(task: str) -> None:
    made = pairs(task)
    other = build_pairs(
        task, python_items()[::-1], size=40, language="python", parallel=ParallelMap(workers=2, worth=100)
    )
    assert made.examples.equals(other.examples)
    fewer = pairs(task, size=10).examples
    assert fewer.join(made.examples, on=fewer.columns, nulls_equal=True, how="semi").height == fewer.height


def test_operators_are_told_and_names_are_not() -> None:
    changed = {
        (original["operator"], text[int(str(original["start"])) : int(str(original["end"]))])
        for original, _, text, _ in sides(pairs("wrong_operator"), python_items())
    }
    # Of two words the one that the mutant has as well may stand before the place.
    assert all(set(operator.split()) & set(place.split()) or operator == "is" for operator, place in changed)
    assert {operator for operator, _ in changed} <= {
        "+", "*", "-", "/", "%", "==", "!=", "is", "is not", "<", "<=", ">", ">=", "in", "not in",
        "and", "or",
    }  # fmt: skip
    assert set(pairs("variable_misuse").examples["operator"]) == {""}
    assert "return" in set(pairs("srk").examples["operator"])
    assert set(pairs("swapped_operand").examples["operator"]) <= {
        "-", "/", "%", "<", "<=", ">", ">=", "in", "not in",
    }  # fmt: skip


MISUSED = """def f(first, second):
    total = first + second
    return total
"""


def test_distance_counts_code_tokens_from_the_declaration() -> None:
    items = [item(MISUSED.replace("first", f"n{number}"), f"c{number}") for number in range(9)]
    for original, mutant, text, _ in sides(
        build_pairs("variable_misuse", items, size=9, language="python"), items
    ):
        place = text[int(str(original["start"])) : int(str(original["end"]))]
        # def f ( n , second ) : total = n + second return total
        wanted = 6 if place == "total" else 7
        assert original["distance"] == mutant["distance"] == wanted, place


def test_controls_are_counted_in_other_clusters_alone() -> None:
    items = [item(f"def f{n}(a):\n    return only{n % 3} + a\n", f"c{n % 3}") for n in range(12)]
    counted = TokenCounts(items, "python", 0, ParallelMap())
    for number in range(3):
        assert counted.frequency(f"c{number}", f"only{number}") == 0
        assert counted.frequency(f"c{number}", f"only{(number + 1) % 3}") == 4
        assert counted.frequency(f"c{number}", "return") == 8
    others = [["def", f"f{n}", "(", "a", ")", ":", "return", f"only{n % 3}", "+", "a"] for n in range(12)]
    text = ["def", "f9", "(", "a", ")", ":", "return", "only1", "+", "a"]
    counts = Counter(word for n, some in enumerate(others) if n % 3 for word in some)
    order = sorted(counts, key=lambda word: (-counts[word], word))
    numbers = {word: place for place, word in enumerate(order, start=2)}
    stream = [n for place, some in enumerate(others) if place % 3 for n in (0, *(numbers[w] for w in some))]
    model = NGram(pl.Series(stream).to_numpy(), len(order) + 2)
    asked = pl.Series([0, *(numbers.get(word, 1) for word in text)]).to_numpy()
    assert counted.nats("c0", text) == pytest.approx(float(model.nats(asked)[1:].sum()))


def test_one_cluster_has_no_counts() -> None:
    items = [item(MISUSED.replace("first", f"n{number}"), "one") for number in range(9)]
    made = build_pairs("variable_misuse", items, size=9, language="python").examples
    assert made["ngram_nats"].null_count() == made["frequency"].null_count() == made.height


def test_what_gives_no_pairs_is_refused() -> None:
    with pytest.raises(UsageError, match="exception_type"):
        build_pairs("exception_type", python_items(), size=10, language="python")
    with pytest.raises(InputError, match="0 functions have a place"):
        build_pairs("sra", [item("def f(a):\n    return 1\n", "c")], size=10, language="python")
    given_one = item(MISUSED, "c", given=(Given("sri", "FAULT", 0, 5),))
    with pytest.raises(UsageError, match="the corpus has its own labels"):
        build_pairs("sri", [given_one], size=10, language="python")
