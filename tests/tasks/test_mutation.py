import ast
import textwrap
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from tests.counting import grows_by

from sonde.corpora import Given, Item, item_id
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.edits import Edits
from sonde.tasks.engine.faults import Exchange, FaultContext, Mutation
from sonde.tasks.engine.task import TASKS, resolve_task
from sonde.tasks.faults.typ import misspellings, select_misspellings

JUMBLES = ("jbl", "jbl_parsed", "jmb", "jft", "jst", "jbk")
ONE_TOKEN = ("sri", "srk", "sck", "typ", "rea")
ALL = (*JUMBLES, *ONE_TOKEN, "sra")
PARSING = tuple(name for name in ALL if name not in ("jbl", "jmb", "jft"))

JAVA = [
    """public static int count(String text, char wanted, int from) {
        int found = 0;
        for (int i = from; i < text.length(); i++) {
            boolean same = text.charAt(i) == wanted;
            if (same && i >= 0) { found += 1; } else { skipped = i; }
        }
        return found;
    }""",
    """private void close(List<Handle> all, boolean now, long wait) throws Problem {
        for (Handle one : all) {
            try { one.close(now); } catch (Problem e) { if (now != true) { throw e; } }
            long left = wait - one.took();
            if (left <= 0) { break; }
            wait = left;
        }
        closed = true;
    }""",
    """protected double mean(double[] values, int first, int last) {
        double sum = 0; int n = 0;
        while (first != last) { sum = sum + values[first]; first++; n++; }
        if (n == 0) return Double.NaN;
        return sum / n;
    }""",
]


def python_functions() -> list[str]:
    folder = Path(ast.__file__).parent
    texts: list[str] = []
    for module in ("textwrap", "fnmatch", "shlex", "cmd", "configparser"):
        text = (folder / f"{module}.py").read_text(encoding="utf-8")
        texts += [text[one.start : one.end] for one in LANGUAGES.load("python").functions(text)]
    return [text for text in texts if text.count("\n") > 4]


TEXTS = {"python": python_functions(), "java": JAVA * 8}


def edits(language: str) -> Edits:
    return get_facet(language, "edits", Edits)


def mutation(name: str, paper: bool = False) -> Mutation:
    task = resolve_task(TASKS.load(name), "paper" if paper else "corrected", frozenset())
    assert isinstance(task, Mutation)
    return task


def around(name: str, language: str, split: str = "train", paper: bool = False) -> FaultContext:
    survey = mutation(name, paper).survey(TEXTS[language], edits(language))
    return FaultContext(edits(language), split, survey)


def faults(name: str, language: str, paper: bool = False) -> list[tuple[str, str]]:
    surroundings, task = around(name, language, paper=paper), mutation(name, paper)
    found = [
        (text, fault.text)
        for number, text in enumerate(TEXTS[language])
        if (fault := task.fault(text, surroundings, Random(number))) is not None
    ]
    assert len(found) > 5
    return found


def words(language: str, text: str) -> list[str]:
    return [token.surface for token in edits(language).tokens(text)]


def changed(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    assert len(old) == len(new)
    return [(one, other) for one, other in zip(old, new, strict=True) if one != other]


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("name", ALL)
def test_a_fault_is_a_fault_and_the_same_each_time(name: str, language: str) -> None:
    for old, new in faults(name, language):
        assert old != new
    assert faults(name, language) == faults(name, language)


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("name", PARSING)
def test_faults_that_promise_to_parse_do(name: str, language: str) -> None:
    for old, new in faults(name, language):
        assert LANGUAGES.load(language).parse(old).has_error is False
        assert LANGUAGES.load(language).parse(new).has_error is False


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("name", ONE_TOKEN)
def test_exactly_one_token_is_changed(name: str, language: str) -> None:
    for old, new in faults(name, language):
        assert len(changed(words(language, old), words(language, new))) == 1


@pytest.mark.parametrize("language", TEXTS)
def test_sri_takes_its_name_from_the_function(language: str) -> None:
    for old, new in faults("sri", language):
        ((_, name),) = changed(words(language, old), words(language, new))
        assert name in {place.surface for place in edits(language).places(old, "name")}


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("name", ["srk", "sck"])
def test_keywords_are_replaced_by_keywords_of_the_corpus(name: str, language: str) -> None:
    category = {word: kind for kind, listed in edits(language).keywords.items() for word in listed}
    known = {place.surface for text in TEXTS[language] for place in edits(language).keyword_spans(text)}
    crossed = 0
    for old, new in faults(name, language):
        ((before, after),) = changed(words(language, old), words(language, new))
        assert {before, after} <= known
        crossed += category[before] != category[after]
    assert (crossed > 0) == (name == "srk")


@pytest.mark.parametrize("language", TEXTS)
def test_rea_puts_one_kind_of_operator_for_the_other(language: str) -> None:
    confused = edits(language).confused
    for old, new in faults("rea", language):
        counts = [
            {what: len(edits(language).places(text, what)) for what in (confused["given"], confused["taken"])}
            for text in (old, new)
        ]
        assert counts[1][confused["given"]] == counts[0][confused["given"]] - 1 > 0
        assert counts[1][confused["taken"]] == counts[0][confused["taken"]] + 1


@pytest.mark.parametrize("language", TEXTS)
def test_typ_misspells_one_type_and_keeps_another(language: str) -> None:
    for old, new in faults("typ", language):
        ((before, after),) = changed(words(language, old), words(language, new))
        assert before in {place.surface for place in edits(language).places(old, "type")}
        assert Counter(before) == Counter(after)
        assert after not in edits(language).reserved_words
        assert edits(language).places(new, "type")


@pytest.mark.parametrize("word", ["int", "str", "long", "float", "boolean", "frozenset"])
def test_no_misspelling_is_in_two_splits(word: str) -> None:
    parts = [select_misspellings(word, split, frozenset()) for split in ("train", "valid", "test")]
    found = [other for part in parts for other in part]
    assert sorted(found) == misspellings(word, frozenset())
    assert all(parts)
    assert all(other != word and Counter(other) == Counter(word) for other in found)


def test_misspellings_mean_nothing() -> None:
    assert "est" in misspellings("set", frozenset())
    assert "est" not in misspellings("set", frozenset({"est"}))


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("name", ["jbl_parsed", "jst", "jbk"])
def test_jumbles_that_parse_keep_their_tokens(name: str, language: str) -> None:
    for old, new in faults(name, language):
        assert Counter(words(language, old)) == Counter(words(language, new))
        assert Counter(old) == Counter(new)


@pytest.mark.parametrize("language", TEXTS)
def test_jbl_exchanges_two_neighbours(language: str) -> None:
    for old, new in faults("jbl", language):
        assert Counter(old) == Counter(new)
        before = words(language, old)
        # What does not parse is cut differently, so the exchange is looked for in the text.
        pairs = zip(edits(language).tokens(old), edits(language).tokens(old)[1:], strict=False)
        assert new in {
            old[: a.start] + b.surface + old[a.end : b.start] + a.surface + old[b.end :] for a, b in pairs
        }
        assert len(before) > 1


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("name", ["jmb", "jft"])
def test_shuffles_keep_the_characters(name: str, language: str) -> None:
    for old, new in faults(name, language):
        assert Counter("".join(old.split())) == Counter("".join(new.split()))


@pytest.mark.parametrize(("name", "least", "most"), [("jmb", 40, 50), ("jft", 90, 100)])
def test_shuffles_move_their_share_of_the_tokens(name: str, least: int, most: int) -> None:
    text = " ".join(f"word{number}" for number in range(100))
    fault = mutation(name).fault(text, around(name, "python"), Random(1))
    assert fault is not None
    assert least <= len(changed(text.split(), fault.text.split())) <= most


@pytest.mark.parametrize("language", TEXTS)
def test_sra_replaces_every_occurrence(language: str) -> None:
    for old, new in faults("sra", language):
        pairs = set(changed(words(language, old), words(language, new)))
        ((before, after),) = pairs
        assert before not in {place.surface for place in edits(language).places(new, "name")}
        assert after in {place.surface for place in edits(language).places(old, "name")}


def test_jst_moves_a_use_before_what_it_needs() -> None:
    text = "def f(a):\n    b = a + 1\n    print()\n    return b\n"
    fault = mutation("jst").fault(text, around("jst", "python"), Random(0))
    assert fault is not None
    assert fault.text == "def f(a):\n    return b\n    print()\n    b = a + 1\n"
    assert mutation("jst").fault("def f(a):\n    g()\n    h()\n", around("jst", "python"), Random(0)) is None


def test_jbk_exchanges_what_two_conditions_guard() -> None:
    text = textwrap.dedent("""\
        def f(a):
            if a:
                b = 1
                c = 2
            else:
                d()
        """)
    fault = mutation("jbk").fault(text, around("jbk", "python"), Random(0))
    assert fault is not None
    assert fault.text == text.replace("b = 1\n        c = 2", "@").replace(
        "d()", "b = 1\n        c = 2"
    ).replace("@", "d()")
    inline = "def f(a):\n    if a: return 1\n    else:\n        return 2\n"
    assert mutation("jbk").fault(inline, around("jbk", "python"), Random(0)) is None


@pytest.mark.parametrize("name", ALL)
def test_code_without_a_place_has_no_fault_and_no_label(name: str) -> None:
    task, text = mutation(name), "x\n"
    assert task.fault(text, around(name, "python"), Random(0)) is None
    one = Item(item_id(text, "python", "function"), text, "python", "function", "p", "x", 0, "c", "r")
    assert task.label([one], {})[one.item_id]["label"].to_list() == [None]


@pytest.mark.parametrize("name", ALL)
def test_code_as_written_is_labelled_so(name: str) -> None:
    text = TEXTS["java"][0]
    one = Item(item_id(text, "java", "function"), text, "java", "function", "p", "x", 0, "c", "r")
    table = mutation(name).label([one], {})[one.item_id]
    assert table.rows() == [(0, len(text), "ORIG", None)]


@pytest.mark.parametrize("name", ["jbl", "sri"])
def test_labels_that_the_source_gives_are_taken(name: str) -> None:
    label = mutation(name).labels[1]
    rows = (Given(name.upper(), label, 0, 3), Given("other", "A", 0, 3))
    one = Item("id", "a b", "java", "function", "p", "x", 0, "c", "r", given=rows)
    assert mutation(name).label([one], {})["id"].rows() == [(0, 3, label, None)]


def test_paper_mode_changes_every_place_where_the_published_data_does() -> None:
    for old, new in faults("rea", "java", paper=True):
        published = {"==", "!=", "<=", ">="}
        assert published & set(words("java", old))
        assert not published & set(words("java", new))
    for _, new in faults("typ", "java", paper=True):
        assert not edits("java").places(new, "type")


def test_paper_mode_draws_keywords_that_the_corpus_lacks_and_jumbles_that_do_not_parse() -> None:
    known = {place.surface for text in JAVA for place in edits("java").keyword_spans(text)}
    drawn = set[str]()
    for old, new in faults("srk", "java", paper=True):
        drawn |= set(new.split()) - set(old.split())
    assert drawn - known
    for _, new in faults("jbl", "java", paper=True):
        assert not edits("java").parses(new)


@pytest.mark.parametrize("language", TEXTS)
def test_paper_mode_takes_names_from_other_functions(language: str) -> None:
    for old, new in faults("sri", language, paper=True):
        ((_, name),) = changed(words(language, old), words(language, new))
        assert name not in words(language, old)
        assert any(name in words(language, text) for text in TEXTS[language])


@pytest.mark.parametrize(
    ("name", "language", "text"),
    [
        ("jbk", "java", lambda size: "{" * size + "}" * size),
        ("jbk", "java", lambda size: "{}" * size),
        (
            "jst",
            "python",
            lambda size: "def f():\n" + "".join(f"    a{number} = 1\n" for number in range(size)),
        ),
        ("jst", "python", lambda size: "def f(x):\n" + "    x = x + 1\n" * size),
    ],
)
def test_the_work_of_a_jumble_grows_with_the_code_and_not_with_its_pairs(
    name: str, language: str, text: Callable[[int], str]
) -> None:
    assert grows_by(lambda size: mutation(name).stratum(text(size), around(name, language), Random(0))) < 2.6


def test_jbk_pairs_every_two_blocks_of_one_depth_in_text_order() -> None:
    text = "void f() {\n{\na(); }\n{\n{\nb(); } }\n{\n{\na(); } c(); }\n{\na(); }\n{ d(); } }"
    task = mutation("jbk")
    assert isinstance(task, Exchange)
    found = list(task.pairs(text, edits("java")))
    bodies = edits("java").places(text, "body")
    depth = {b: sum(o != b and o.start <= b.start and b.end <= o.end for o in bodies) for b in bodies}
    alike = [pair for pair in combinations(bodies, 2) if depth[pair[0]] == depth[pair[1]]]
    assert found == [(one, other) for one, other in alike if one.surface != other.surface]
    assert len(found) > 5
